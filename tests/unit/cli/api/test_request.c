/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the daemon, and parsing of its replies. */
#include "check.h"

#include <errno.h>
#include <string.h>

#include "cli/session/process_end.h"
#include "cli/api/request.h"

static void body_is(const char *expected, int argc, const char *const *words)
{
	union {
		const char *const *in;
		char **out;
	} argv = { .in = words };
	struct err err = { 0 };
	struct args args;
	struct buf body;

	assert_int_equal(args_parse(&args, argc, argv.out, &err), 0);
	buf_init(&body, REQUEST_BODY_MAX);
	assert_int_equal(request_create(&args, &body, &err), 0);
	assert_int_equal(buf_putc(&body, '\0'), 0);
	assert_string_equal(buf_data(&body), expected);
	buf_done(&body);
	args_done(&args);
}

static void test_create(void **state)
{
	static const char *const bare[] = { "create" };
	static const char *const full[] = { "create", "--name",	     "web",	  "--cpu",
					    "2",      "--memory",    "512",	  "--disk",
					    "1g",     "-e",	     "A=b=c",	  "-e",
					    "B=",     "--metadata",  "k=v",	  "--pool",
					    "bypass", "--always-on", "--timeout", "5m" };

	body_is("{}", 1, bare);
	body_is("{\"name\":\"web\",\"cpu_count\":2,\"memory_mb\":512,\"disk_size_mb\":1024,"
		"\"timeout_sec\":300,\"always_on\":true,\"env\":{\"A\":\"b=c\",\"B\":\"\"},"
		"\"metadata\":{\"k\":\"v\"},\"pool\":{\"mode\":\"bypass\"}}",
		ARRAY_LEN(full), full);
}

static void exec_is(const char *expected, const struct exec_request *req)
{
	struct err err = { 0 };
	struct buf body;

	buf_init(&body, REQUEST_BODY_MAX);
	if (expected == NULL) {
		assert_int_equal(request_exec(req, &body, &err), -1);
		assert_int_equal(err.code, ERR_INVALID_REQUEST);
	} else {
		assert_int_equal(request_exec(req, &body, &err), 0);
		assert_int_equal(buf_putc(&body, '\0'), 0);
		assert_string_equal(buf_data(&body), expected);
	}
	buf_done(&body);
}

static void test_exec(void **state)
{
	static const char *const words[] = { "echo", "a \"b\"", "" };
	static const char *const broken[] = { "echo", "\377\376" };
	struct exec_request req = { .words = words, .count = 3 };

	exec_is("{\"argv\":[\"echo\",\"a \\\"b\\\"\",\"\"]}", &req);
	req.shell = true;
	exec_is(NULL, &req);
	req.count = 1;
	req.user = "root";
	req.cwd = "/tmp";
	req.timeout_sec = 7;
	req.has_stdin = true;
	req.stdin_bytes = STR_LIT("\0\377x");
	exec_is("{\"command\":\"echo\",\"user\":\"root\",\"cwd\":\"/tmp\",\"timeout_sec\":7,"
		"\"stdin_b64\":\"AP94\"}",
		&req);
	req = (struct exec_request){ .words = broken, .count = 2 };
	exec_is(NULL, &req);
	req = (struct exec_request){ .words = words,
				     .count = 1,
				     .has_timeout = true,
				     .term = "xterm",
				     .name = "srv",
				     .keep_stdin_open = true,
				     .cols = 80,
				     .rows = 24 };
	exec_is("{\"argv\":[\"echo\"],\"name\":\"srv\",\"env\":{\"TERM\":\"xterm\"},"
		"\"tty\":{\"cols\":80,\"rows\":24},\"stdin_open\":true,\"timeout_sec\":0}",
		&req);
}

static void test_quote(void **state)
{
	static const char *const words[] = { "make", "a b", "$x", "it's", "", "-C", "x=1", "\n" };
	struct buf out;

	buf_init(&out, 1024);
	assert_int_equal(request_quote(words, ARRAY_LEN(words), &out), 0);
	assert_true(str_is(buf_str(&out), "make 'a b' '$x' 'it'\\''s' '' -C 'x=1' '\n'"));
	buf_done(&out);
}

static void status_is(int expected, const char *json)
{
	struct err err = { 0 };
	_cleanup_json_ struct json *doc = json_parse(str_of(json), &err);

	assert_non_null(doc);
	assert_int_equal(process_end_status(doc), expected);
}

static void test_status(void **state)
{
	status_is(0, "{\"exit_code\":0,\"signal\":null,\"timed_out\":false}");
	status_is(7, "{\"exit_code\":7}");
	status_is(137, "{\"exit_code\":null,\"signal\":9}");
	status_is(143, "{\"exit_code\":-1,\"signal\":\"SIGTERM\"}");
	status_is(139, "{\"signal\":\"SEGV\"}");
	status_is(124, "{\"exit_code\":124,\"signal\":9,\"timed_out\":true}");
	status_is(125, "{}");
	status_is(125, "{\"reason\":\"sandbox_gone\",\"message\":\"the sandbox ended: oom\"}");
	status_is(124, "{\"reason\":\"sandbox_gone\",\"message\":\"the sandbox ended: timeout\"}");
}

static void decodes(const char *text, const char *expected, size_t n)
{
	struct buf out;

	buf_init(&out, 1024);
	assert_int_equal(request_unb64(str_of(text), &out), 0);
	assert_int_equal(buf_len(&out), n);
	assert_memory_equal(buf_str(&out).p, expected, n);
	buf_done(&out);
}

static void test_base64(void **state)
{
	static const char *const wrong[] = { "A", "AP9", "A===", "AP9!", "AA=A", "=AAA", "AAAA\n" };
	struct buf out;

	decodes("", "", 0);
	decodes("AP94", "\0\377x", 3);
	decodes("YQ==", "a", 1);
	decodes("YWI=", "ab", 2);
	decodes("+/+/", "\373\377\277", 3);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		buf_init(&out, 1024);
		assert_int_equal(request_unb64(str_of(wrong[i]), &out), -EINVAL);
		buf_done(&out);
	}
	buf_init(&out, 2);
	assert_int_equal(request_unb64(STR_LIT("AP94AP94"), &out), -ENOBUFS);
	buf_done(&out);
}

/* A name can never change its position in the path. */
static void test_paths(void **state)
{
	struct err err = { 0 };
	char path[API_PATH_MAX], query[API_PATH_MAX] = "";

	assert_int_equal(api_path(path, &err, "/v1/sandboxes/%s/exec", "../keys?x=1 #\303\266"), 0);
	assert_string_equal(path, "/v1/sandboxes/..%2Fkeys%3Fx%3D1%20%23%C3%B6/exec");
	assert_int_equal(api_path(path, &err, "/v1/sandboxes/%s", ".."), -1);
	assert_int_equal(api_path(path, &err, "/v1/sandboxes/%s", "."), -1);
	assert_int_equal(api_path(path, &err, "/v1/sandboxes/%s", ""), -1);
	assert_int_equal(api_query(query, "metadata.a b", "1&2", &err), 0);
	assert_int_equal(api_query(query, "state", "running", &err), 0);
	assert_string_equal(query, "metadata.a%20b=1%262&state=running");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create), cmocka_unit_test(test_exec),
		cmocka_unit_test(test_status), cmocka_unit_test(test_quote),
		cmocka_unit_test(test_base64), cmocka_unit_test(test_paths),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
