/* SPDX-License-Identifier: Apache-2.0 */
/* The capabilities of the native engine on this host, as the bits of HELLO. */
#ifndef CAY_WARDEN_CAPABILITY_H
#define CAY_WARDEN_CAPABILITY_H

#include "warden/warden.h"

uint32_t capability_bits(const struct warden *w);

#endif
