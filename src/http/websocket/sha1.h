/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-1 of short strings, which the WebSocket opening handshake requires. Do not use it for
 * secrets.
 */
#ifndef CAY_HTTP_WEBSOCKET_SHA1_H
#define CAY_HTTP_WEBSOCKET_SHA1_H

#include "base/str.h"

#define SHA1_BYTES 20

void sha1(unsigned char dst[SHA1_BYTES], struct str bytes);

#endif
