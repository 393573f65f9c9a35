/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/registry.h"

extern const struct engine_driver engine_native, engine_local;
#ifdef CAY_ENGINE_EXAMPLE /* the example of docs/internals/engine.md, only in its test */
extern const struct engine_driver engine_example;
#endif

const struct engine_row engine_rows[] = {
	{ &engine_native, true },
	{ &engine_local, false },
#ifdef CAY_ENGINE_EXAMPLE
	{ &engine_example, false },
#endif
};
const size_t engine_row_count = ARRAY_LEN(engine_rows);
