/* SPDX-License-Identifier: Apache-2.0 */
/* The check of a spec that no face can forget: every range just inside and just outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/value/bounds.h"
#include "service/sandbox/sandbox.h"
#include "service/create/limits_internal.h"

static struct service service = { .config = { .max_cpu_milli = 4000,
					      .max_memory_mb = 2048,
					      .max_disk_size_mb = 4096,
					      .max_timeout_sec = 3600 } };

static struct sandbox_spec usual(void)
{
	return (struct sandbox_spec){ .cpu_milli = SANDBOX_CPU_MILLI,
				      .memory_mb = SANDBOX_MEMORY_MB,
				      .disk_size_mb = SANDBOX_DISK_MB,
				      .timeout_sec = SANDBOX_TIMEOUT_SEC };
}

static void passes(struct sandbox_spec spec)
{
	struct err err;

	if (limits_check(&service, &spec, &err) < 0)
		fail_msg("%s", err.message);
}

static void fails(struct sandbox_spec spec, const char *field)
{
	struct err err;

	assert_int_equal(limits_check(&service, &spec, &err), -1);
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
	if (strncmp(err.message, field, strlen(field)) != 0)
		fail_msg("%s: %s", field, err.message);
}

#define WITH(member, text)                           \
	({                                           \
		struct sandbox_spec spec_ = usual(); \
		spec_.member = (text);               \
		spec_;                               \
	})

static void numbers(void **state)
{
	(void)state;
	passes(usual());
	passes(WITH(cpu_milli, BOUNDS_CPU_MILLI_MIN));
	fails(WITH(cpu_milli, BOUNDS_CPU_MILLI_MIN - 1), "cpu_count");
	passes(WITH(cpu_milli, 4000));
	fails(WITH(cpu_milli, 4001), "cpu_count");
	fails(WITH(memory_mb, 0), "memory_mb");
	fails(WITH(memory_mb, 2049), "memory_mb");
	fails(WITH(disk_size_mb, 4097), "disk_size_mb");
	passes(WITH(timeout_sec, 3600));
	fails(WITH(timeout_sec, 3601), "timeout_sec");
	fails(WITH(timeout_sec, -1), "timeout_sec");
	fails(WITH(idle_timeout_sec, 3601), "idle_timeout_sec");
	passes(WITH(pool_wait_ms, SANDBOX_POOL_WAIT_MAX_MS));
	fails(WITH(pool_wait_ms, SANDBOX_POOL_WAIT_MAX_MS + 1), "pool.wait_ms");
}

static void texts(void **state)
{
	char many[512];

	(void)state;
	memset(many, 'a', sizeof(many));
	passes(WITH(name, ((struct str){ many, SANDBOX_NAME_MAX })));
	fails(WITH(name, ((struct str){ many, SANDBOX_NAME_MAX + 1 })), "name");
	fails(WITH(name, STR_LIT("Not a name")), "name");
	passes(WITH(engine, ((struct str){ many, SANDBOX_ENGINE_MAX })));
	fails(WITH(engine, ((struct str){ many, SANDBOX_ENGINE_MAX + 1 })), "engine");
	passes(WITH(external_workspace_id, ((struct str){ many, SANDBOX_WORKSPACE_MAX })));
	fails(WITH(external_workspace_id, ((struct str){ many, SANDBOX_WORKSPACE_MAX + 1 })),
	      "external_workspace_id");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),
		cmocka_unit_test(texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
