/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_HTTP_WEBSOCKET_CODE_H
#define CAY_HTTP_WEBSOCKET_CODE_H

/* Close codes that callers use or receive. */
enum {
	WEBSOCKET_NORMAL = 1000,
	WEBSOCKET_GOING_AWAY = 1001,
	WEBSOCKET_PROTOCOL_ERROR = 1002,
	WEBSOCKET_UNSUPPORTED_DATA = 1003,
	WEBSOCKET_NO_CODE = 1005,  /* received only: the peer closed without a code */
	WEBSOCKET_ABNORMAL = 1006, /* received only: the connection was lost */
	WEBSOCKET_BAD_TEXT = 1007,
	WEBSOCKET_POLICY = 1008,
	WEBSOCKET_TOO_BIG = 1009,
	WEBSOCKET_INTERNAL = 1011,
};

#endif
