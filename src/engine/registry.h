/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engines of this program, one row each. A new engine is a folder beside this file and a row in
 * registry.c; its settings, its place in GET /v1/options and its help come from its driver.
 */
#ifndef CAY_ENGINE_REGISTRY_H
#define CAY_ENGINE_REGISTRY_H

#include "engine/driver.h"

struct engine_row {
	const struct engine_driver *driver;
	bool on; /* default, unless configured */
};

/* In the order of GET /v1/options; the first enabled one is the default engine. */
extern const struct engine_row engine_rows[];
extern const size_t engine_row_count;

/* A row as the operator configured it. settings: the driver's struct, NULL if it has no section. */
struct engine_choice {
	const struct engine_driver *driver;
	bool enabled;
	const void *settings;
};

#endif
