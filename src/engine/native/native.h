/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine: sandboxes made by cay-warden on this host. */
#ifndef CAY_ENGINE_NATIVE_NATIVE_H
#define CAY_ENGINE_NATIVE_NATIVE_H

#include "engine/driver.h"

extern const struct engine_driver engine_native;

#endif
