/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TOOLS_ARCHIVE_CHARSET_H
#define CAY_TOOLS_ARCHIVE_CHARSET_H

#include <stdbool.h>

/* Names are not said to be UTF-8 while this is on. */
void charset_bytes(bool on);

#endif
