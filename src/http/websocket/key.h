/* SPDX-License-Identifier: Apache-2.0 */
/* The key of an opening handshake and the answer to it (RFC 6455, section 4). */
#ifndef CAY_HTTP_WEBSOCKET_KEY_H
#define CAY_HTTP_WEBSOCKET_KEY_H

#include "base/str.h"

#define WEBSOCKET_KEY_LEN 24	/* 16 bytes in base64 */
#define WEBSOCKET_ANSWER_LEN 28 /* 20 bytes in base64 */

void websocket_key_make(char dst[WEBSOCKET_KEY_LEN + 1]);
bool websocket_key_is_valid(struct str key); /* canonical base64 of exactly 16 bytes */
void websocket_key_answer(char dst[WEBSOCKET_ANSWER_LEN + 1], struct str key); /* of a valid key */

#endif
