/* SPDX-License-Identifier: Apache-2.0 */
/* What this host lets the native engine do, in the bits of HELLO. */
#ifndef CAY_WARDEN_CAPABILITY_H
#define CAY_WARDEN_CAPABILITY_H

#include "warden/warden.h"

uint32_t capability_bits(const struct warden *w);

#endif
