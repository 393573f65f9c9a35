/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts, scopes, origins and media types, with the choices that faces make. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "face/kit/guard.h"

#define HEADER(name, value)                   \
	{                                     \
		STR_LIT(name), STR_LIT(value) \
	}

static const struct guard_texts texts = { .key_repeated = "twice",
					  .key_missing = "none",
					  .key_invalid = "wrong",
					  .scope = "no scope",
					  .origin = "no pages" };

static struct guard guard_of(const struct guard_config *config)
{
	struct guard guard;

	assert_int_equal(guard_init(&guard, config), 0);
	return guard;
}

static void scopes(void **state)
{
	struct guard named = guard_of(&(struct guard_config){ .port = 1 });
	struct guard own = guard_of(&(struct guard_config){ .port = 1, .texts = &texts });
	struct key key = { .scopes = AUTH_EXEC }, admin = { .scopes = AUTH_ADMIN };
	struct route exec = { HTTP_GET, "/x", AUTH_EXEC }, keys = { HTTP_GET, "/y", AUTH_KEYS };
	struct route both = { HTTP_GET, "/z", AUTH_EXEC | AUTH_KEYS };
	struct err err;

	(void)state;
	assert_int_equal(guard_scope(&named, &key, &exec, &err), 0);
	assert_int_equal(guard_scope(&named, &admin, &both, &err), 0);
	assert_int_equal(guard_scope(&named, &key, &keys, &err), -1);
	assert_int_equal(err.code, ERR_FORBIDDEN);
	assert_string_equal(err.message, "this key lacks the scope 'keys'");
	assert_int_equal(guard_scope(&own, &key, &both, &err), -1); /* all of them are needed */
	assert_string_equal(err.message, "no scope");
	guard_done(&named);
	guard_done(&own);
}

static int origin(const struct guard *guard, enum http_method method, uint32_t flags,
		  const char *from, struct err *err)
{
	struct http_header headers[] = { HEADER("Host", "127.0.0.1:7070"),
					 { STR_LIT("Origin"), str_of(from ? from : "") } };
	struct http_req req = { .method = method,
				.headers = headers,
				.header_count = from ? 2 : 1 };
	struct route route = { method, "/x", AUTH_ANY, flags };

	return guard_origin(guard, &req, &route, err);
}

static void origins(void **state)
{
	struct guard_config config = { .own_pages = true, .cors_origins = "https://app.test" };
	struct guard open = guard_of(&config);
	struct guard closed = guard_of(&(struct guard_config){ .texts = &texts });
	struct err err;

	(void)state;
	assert_int_equal(origin(&open, HTTP_POST, 0, NULL, &err), 0); /* a program */
	assert_int_equal(origin(&open, HTTP_POST, 0, "http://127.0.0.1:7070", &err), 0);
	assert_int_equal(origin(&open, HTTP_POST, 0, "https://app.test", &err), 0);
	assert_int_equal(origin(&open, HTTP_POST, 0, "https://evil.test", &err), -1);
	assert_int_equal(err.code, ERR_ORIGIN_NOT_ALLOWED);
	assert_int_equal(origin(&open, HTTP_POST, 0, "127.0.0.1:7070", &err), -1);
	assert_int_equal(origin(&open, HTTP_GET, 0, "https://evil.test", &err), 0);
	assert_int_equal(origin(&open, HTTP_GET, ROUTE_SOCKET, "https://evil.test", &err), -1);
	assert_int_equal(origin(&closed, HTTP_POST, 0, "http://127.0.0.1:7070", &err), -1);
	assert_string_equal(err.message, "no pages");
	assert_int_equal(origin(&closed, HTTP_GET, 0, "http://127.0.0.1:7070", &err), 0);
	guard_done(&open);
	guard_done(&closed);
}

static void wrong_origins_are_no_configuration(void **state)
{
	struct guard guard;

	(void)state;
	assert_true(guard_init(&guard, &(struct guard_config){ .cors_origins = "*" }) < 0);
	guard_done(&guard);
}

static int media(const char *type, const char *encoding, uint32_t flags, bool *raw, struct err *err)
{
	struct http_header headers[2];
	struct http_req req = { .has_body = true, .headers = headers };
	struct route route = { HTTP_POST, "/x", AUTH_ANY, flags };

	if (type)
		headers[req.header_count++] =
			(struct http_header){ STR_LIT("Content-Type"), str_of(type) };
	if (encoding)
		headers[req.header_count++] =
			(struct http_header){ STR_LIT("Content-Encoding"), str_of(encoding) };
	return guard_media_type(&req, &route, raw, err);
}

static void media_types(void **state)
{
	struct err err;
	bool raw;

	(void)state;
	assert_int_equal(media("application/json", NULL, 0, &raw, &err), 0);
	assert_int_equal(media("Application/JSON; charset=\"UTF-8\"", "identity", 0, &raw, &err),
			 0);
	assert_false(raw);
	assert_int_equal(media("application/json; charset=latin1", NULL, 0, &raw, &err), -1);
	assert_int_equal(media("application/json", "gzip", 0, &raw, &err), -1);
	assert_int_equal(media(NULL, NULL, 0, &raw, &err), -1);
	assert_int_equal(media("application/octet-stream", NULL, 0, &raw, &err), -1);
	assert_int_equal(err.code, ERR_UNSUPPORTED_MEDIA_TYPE);
	assert_int_equal(media("application/octet-stream", NULL, ROUTE_RAW, &raw, &err), 0);
	assert_true(raw);
}

static void keys_are_needed(void **state)
{
	struct guard guard = guard_of(&(struct guard_config){ .texts = &texts });
	struct http_header twice[] = { HEADER("X-API-Key", "a"), HEADER("X-API-Key", "a") };
	struct http_req none = { .headers = NULL }, two = { .headers = twice, .header_count = 2 };
	struct err err;

	(void)state;
	assert_null(guard_key(&guard, NULL, &none, &err));
	assert_string_equal(err.message, "none");
	assert_null(guard_key(&guard, NULL, &two, &err));
	assert_string_equal(err.message, "twice");
	assert_int_equal(err.code, ERR_UNAUTHENTICATED);
	guard_done(&guard);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scopes),
		cmocka_unit_test(origins),
		cmocka_unit_test(wrong_origins_are_no_configuration),
		cmocka_unit_test(media_types),
		cmocka_unit_test(keys_are_needed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
