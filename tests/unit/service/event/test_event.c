/* SPDX-License-Identifier: Apache-2.0 */
/* Events: how they are encoded, stored and published; and webhooks with a poster that is played
 * here. */
#include "../home.h"

#include <stdlib.h>

#include "base/value/poster.h"
#include "service/event/event_internal.h"
#include "service/event/webhook_private.h"

/* ---- words ---- */

static void data_is_one_object_whatever_is_in_it(void **state)
{
	const struct process_status ended = { .reason = "exited",
					      .exit_code = 3,
					      .duration_us = 1500 };
	const struct process_status gone = { .reason = "sandbox_gone", .exit_code = 3 };
	struct event_draft draft;
	struct str text;
	struct buf out;

	(void)state;
	buf_init(&out, 4096);
	draft = event_draft(&out);
	assert_int_equal(event_draft_end(&draft, &text), 0);
	assert_true(str_is(text, "{}"));
	draft = event_draft(&out); /* what was there is replaced */
	event_put_text(&draft, "a", "x\"\n\x01");
	event_put_text(&draft, "b", NULL);
	event_put_int(&draft, "c", INT64_MIN);
	event_put_bool(&draft, "d", true);
	event_put_time(&draft, "e", 0);
	event_put_time(&draft, "f", 1000);
	assert_int_equal(event_draft_end(&draft, &text), 0);
	assert_true(str_is(
		text, "{\"a\":\"x\\\"\\n\\u0001\",\"b\":null,\"c\":-9223372036854775808,\"d\":true,"
		      "\"e\":null,\"f\":\"1970-01-01T00:00:01.000Z\"}"));
	draft = event_draft(&out);
	event_put_end(&draft, &ended);
	assert_int_equal(event_draft_end(&draft, &text), 0);
	assert_non_null(memmem(text.p, text.n, "\"exit_code\":3", 13));
	assert_non_null(memmem(text.p, text.n, "\"signal\":null", 13));
	draft = event_draft(&out);
	event_put_end(&draft, &gone); /* how it ended is not known */
	assert_int_equal(event_draft_end(&draft, &text), 0);
	assert_non_null(memmem(text.p, text.n, "\"exit_code\":null", 16));
	buf_done(&out);
}

static void data_that_does_not_fit_is_an_error(void **state)
{
	struct event_draft draft;
	struct str text = { "untouched", 9 };
	struct buf out;

	(void)state;
	buf_init(&out, 8);
	draft = event_draft(&out);
	event_put_text(&draft, "key", "longer than eight bytes");
	event_put_int(&draft, "n", 1);
	assert_true(event_draft_end(&draft, &text) < 0);
	assert_int_equal(text.n, 9);
	buf_done(&out);
}

static void types_are_names_or_their_beginnings(void **state)
{
	struct err err = { .code = ERR_OK };
	uint32_t types = 7;

	(void)state;
	assert_int_equal(bus_types_parse(STR_LIT("sandbox.error"), &types, &err), 0);
	assert_int_equal(types, 1u << EVENT_SANDBOX_ERROR);
	assert_int_equal(bus_types_parse(STR_LIT("process,port.opened"), &types, &err), 0);
	assert_int_equal(types, 1u << EVENT_PROCESS_STARTED | 1u << EVENT_PROCESS_ENDED |
					1u << EVENT_PROCESS_OOM | 1u << EVENT_PORT_OPENED);
	types = 7;
	assert_int_equal(bus_types_parse(STR_LIT(""), &types, &err), -1);
	assert_int_equal(bus_types_parse(STR_LIT("process,"), &types, &err), -1);
	assert_int_equal(bus_types_parse(STR_LIT("proc"), &types, &err), -1); /* no whole word */
	assert_int_equal(bus_types_parse(STR_LIT("process."), &types, &err), -1);
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
	assert_int_equal(types, 7);
}

/* ---- the bus ---- */

struct seen {
	int events, gaps, ends;
	bool more;
	int64_t last;
	char type[32];
	enum bus_answer answer;
};

static enum bus_answer on_event(void *arg, const struct event *event)
{
	struct seen *seen = arg;

	assert_true(event->id > seen->last); /* ids only grow */
	seen->last = event->id;
	seen->events++;
	(void)snprintf(seen->type, sizeof(seen->type), "%s", event->type);
	return seen->answer;
}

static enum bus_answer on_gap(void *arg, const struct bus_gap *gap)
{
	struct seen *seen = arg;

	(void)gap;
	seen->gaps++;
	return BUS_MORE;
}

static void on_end(void *arg, bool more)
{
	struct seen *seen = arg;

	seen->ends++;
	seen->more = more;
}

static const struct bus_hooks hooks = { on_event, on_gap, on_end };

static void emit(const char *owner, enum event_type type)
{
	const struct event event = { .type = event_names[type],
				     .sandbox_id = "box",
				     .owner = owner,
				     .data = STR_LIT("{}") };

	bus_emit(home.service, &event);
}

static struct bus_reader *read_from(int64_t after, bool live, const char *owner, struct seen *seen)
{
	struct bus_filter filter = { .types = EVENT_ALL };
	const struct bus_ask ask = { .filter = &filter, .after = after, .live = live };
	struct bus_reader *reader = NULL;
	struct err err;

	(void)snprintf(filter.owner, sizeof(filter.owner), "%s", owner);
	assert_int_equal(bus_read(home.service, &ask, &hooks, seen, &reader, &err), 0);
	assert_int_equal(seen->events + seen->ends, 0); /* never from inside */
	return reader;
}

static void readers_get_what_is_theirs_in_order(void **state)
{
	struct seen all = { 0 }, mine = { 0 }, live = { 0 };
	struct bus_reader *reader;

	(void)state;
	emit("one", EVENT_SANDBOX_RUNNING);
	emit("two", EVENT_SANDBOX_RUNNING);
	emit("one", EVENT_SANDBOX_DESTROYED);
	bus_flush(home.service);
	(void)read_from(0, false, "", &all);
	(void)read_from(0, false, "one", &mine);
	reader = read_from(BUS_NOW, true, "one", &live);
	HOME_UNTIL(all.ends && mine.ends);
	assert_int_equal(all.events, 3);
	assert_false(all.more);
	assert_int_equal(mine.events, 2);
	assert_string_equal(mine.type, "sandbox.destroyed");
	assert_int_equal(live.events, 0);
	emit("two", EVENT_SANDBOX_ERROR);
	emit("one", EVENT_SANDBOX_ERROR);
	HOME_UNTIL(live.events);
	assert_int_equal(live.events, 1);
	assert_int_equal(bus_reader_at(reader), bus_newest(home.service));
	bus_reader_close(reader);
	assert_int_equal(live.ends, 0);
}

static void a_reader_that_has_enough_is_told_that_there_is_more(void **state)
{
	struct seen first = { .answer = BUS_END }, rest = { 0 };

	(void)state;
	emit("one", EVENT_SANDBOX_RUNNING);
	emit("one", EVENT_SANDBOX_DESTROYED);
	bus_flush(home.service);
	(void)read_from(0, false, "", &first);
	HOME_UNTIL(first.ends);
	assert_int_equal(first.events, 1);
	assert_true(first.more);
	rest.last = first.last;
	(void)read_from(first.last, false, "", &rest);
	HOME_UNTIL(rest.ends);
	assert_int_equal(rest.events, 1);
}

static void a_slow_reader_goes_on_where_it_was(void **state)
{
	struct seen slow = { .answer = BUS_WAIT };
	struct bus_reader *reader;

	(void)state;
	for (int i = 0; i < 3; i++)
		emit("one", EVENT_SANDBOX_RUNNING);
	bus_flush(home.service);
	reader = read_from(0, true, "", &slow);
	HOME_UNTIL(slow.events);
	for (int i = 0; i < 20; i++)
		loop_turn(home.loop, 1);
	assert_int_equal(slow.events, 1);
	slow.answer = BUS_MORE;
	bus_reader_go_on(reader);
	HOME_UNTIL(slow.events == 3);
	bus_reader_close(reader);
}

static void ids_grow_over_restarts_and_events_stay(void **state)
{
	struct seen before = { 0 }, after = { 0 };
	int64_t newest;

	(void)state;
	emit("one", EVENT_SANDBOX_RUNNING);
	bus_flush(home.service);
	(void)read_from(0, false, "", &before);
	HOME_UNTIL(before.ends);
	newest = bus_newest(home.service);
	home_reopen();
	emit("one", EVENT_SANDBOX_DESTROYED);
	bus_flush(home.service);
	assert_true(bus_newest(home.service) > newest);
	(void)read_from(0, false, "", &after);
	HOME_UNTIL(after.ends);
	assert_int_equal(after.events, 2);
}

/* ---- webhooks ---- */

static struct {
	int posts;
	poster_fn done;
	void *arg;
	char body[512], url[64];
	bool canceled;
} posted;

static int poster_check(struct poster *poster, struct str url)
{
	(void)poster;
	return str_starts(url, "https://") ? 0 : -EINVAL;
}

static int poster_post(struct poster *poster, const struct poster_request *request, poster_fn done,
		       void *arg, uint64_t *ret)
{
	(void)poster;
	posted.posts++;
	posted.done = done;
	posted.arg = arg;
	(void)snprintf(posted.body, sizeof(posted.body), "%.*s", (int)request->body.n,
		       request->body.p);
	(void)snprintf(posted.url, sizeof(posted.url), "%s", request->url);
	*ret = (uint64_t)posted.posts;
	return 0;
}

static void poster_cancel(struct poster *poster, uint64_t handle)
{
	(void)poster;
	(void)handle;
	posted.canceled = true;
}

static struct poster poster = { poster_check, poster_post, poster_cancel };

static int setup_poster(void **state)
{
	(void)state;
	memset(&posted, 0, sizeof(posted));
	home_prepare();
	home.config.poster = &poster;
	home.config.webhook_retry_ms = 1;
	home.config.webhook_attempts = 2;
	home_open();
	return 0;
}

static struct webhook *add_hook(const char *url)
{
	const struct webhook_spec spec = {
		.url = str_of(url), .has_url = true, .enabled = true, .has_enabled = true
	};
	struct webhook *hook = NULL;
	struct err err;

	if (webhook_create(home.service, home.admin, &spec, &hook, &err) < 0)
		fail_msg("%s", err.message);
	return hook;
}

static void a_url_that_is_none_is_rejected(void **state)
{
	const struct webhook_spec spec = { .url = STR_LIT("ftp://x"), .has_url = true };
	struct webhook *hook = NULL;
	struct err err = { .code = ERR_OK };
	int64_t cursor = INT64_MAX;

	(void)state;
	assert_int_equal(webhook_create(home.service, home.admin, &spec, &hook, &err), -1);
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
	assert_null(webhook_list_next(home.service, home.admin, &cursor));
}

static void an_event_is_tried_again_and_then_given_up(void **state)
{
	struct webhook *hook = add_hook("https://example.com/hook");
	struct webhook_view view;

	(void)state;
	emit(home.admin->id, EVENT_SANDBOX_RUNNING);
	emit(home.admin->id, EVENT_SANDBOX_DESTROYED);
	HOME_UNTIL(posted.posts == 1);
	assert_string_equal(posted.url, "https://example.com/hook");
	assert_non_null(strstr(posted.body, "\"type\":\"sandbox.running\""));
	posted.done(posted.arg, 500, 0);
	HOME_UNTIL(posted.posts == 2); /* the same one again: in order */
	assert_non_null(strstr(posted.body, "\"type\":\"sandbox.running\""));
	posted.done(posted.arg, 0, -ETIMEDOUT);
	HOME_UNTIL(posted.posts == 3); /* given up: the next */
	assert_non_null(strstr(posted.body, "\"type\":\"sandbox.destroyed\""));
	webhook_view(hook, &view);
	assert_int_equal(view.dead, 1);
	posted.done(posted.arg, 204, 0);
	HOME_UNTIL((webhook_view(hook, &view), view.delivered_ms));
	assert_int_equal(view.last_status, 204);
}

static void a_removed_hook_posts_no_more(void **state)
{
	struct webhook *hook = add_hook("https://example.com/hook");
	struct err err;

	(void)state;
	emit(home.admin->id, EVENT_SANDBOX_RUNNING);
	HOME_UNTIL(posted.posts == 1);
	assert_int_equal(webhook_remove(hook, &err), 0);
	assert_true(posted.canceled);
	emit(home.admin->id, EVENT_SANDBOX_DESTROYED);
	bus_flush(home.service);
	for (int i = 0; i < 20; i++)
		loop_turn(home.loop, 1);
	assert_int_equal(posted.posts, 1);
}

static void failures_are_explained(void **state)
{
	static const struct {
		int status, error;
		const char *part;
	} rows[] = { { 302, 0, "redirects are not followed" },
		     { 500, 0, "answered 500" },
		     { 0, -EPERM, "private or this host's own" },
		     { 0, -EHOSTUNREACH, "does not exist or cannot be reached" },
		     { 0, -ETIMEDOUT, "no answer within" },
		     { 0, -EKEYREJECTED, "certificate" },
		     { 0, -EPROTO, "not HTTP" },
		     { 0, -ECONNREFUSED, "refused" } };
	char text[WEBHOOK_ERROR_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		webhook_explain(text, sizeof(text), home.service, rows[i].status, rows[i].error);
		assert_non_null(strstr(text, rows[i].part));
	}
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, home_setup, home_teardown)
#define P(fn) cmocka_unit_test_setup_teardown(fn, setup_poster, home_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_is_one_object_whatever_is_in_it),
		cmocka_unit_test(data_that_does_not_fit_is_an_error),
		cmocka_unit_test(types_are_names_or_their_beginnings),
		T(readers_get_what_is_theirs_in_order),
		T(a_reader_that_has_enough_is_told_that_there_is_more),
		T(a_slow_reader_goes_on_where_it_was),
		T(ids_grow_over_restarts_and_events_stay),
		P(a_url_that_is_none_is_rejected),
		P(an_event_is_tried_again_and_then_given_up),
		P(a_removed_hook_posts_no_more),
		P(failures_are_explained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
