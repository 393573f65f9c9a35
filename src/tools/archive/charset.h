/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TOOLS_ARCHIVE_CHARSET_H
#define CAY_TOOLS_ARCHIVE_CHARSET_H

#include <stdbool.h>

/* While this is on, names are not declared as UTF-8. */
void charset_bytes(bool on);

#endif
