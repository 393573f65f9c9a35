/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, their limits, tickets, recorded replies, and access tokens of sandboxes. */
#include "../home.h"

#include "service/account/access_token.h"
#include "service/account/account_private.h"
#include "service/account/idempotency.h"
#include "service/account/ticket.h"
#include "service/account/ticket_private.h"

static int create(const struct key *maker, uint32_t scopes, struct err *err)
{
	const struct key_spec spec = { .name = STR_LIT("k"), .scopes = scopes };
	char text[AUTH_KEY_TEXT_SIZE];
	const struct key *made;

	return auth_create(home.service, maker, &spec, text, &made, err);
}

static void a_key_is_found_by_its_text_in_either_form(void **state)
{
	const struct key_spec spec = { .name = STR_LIT("mine"), .scopes = AUTH_EXEC };
	char text[AUTH_KEY_TEXT_SIZE], other[AUTH_KEY_TEXT_SIZE];
	const struct key *made;
	struct err err;

	(void)state;
	assert_int_equal(auth_create(home.service, NULL, &spec, text, &made, &err), 0);
	assert_int_equal(strlen(text), AUTH_KEY_TEXT_SIZE - 1);
	assert_ptr_equal(auth_find(home.service, str_of(text)), made);
	memcpy(other, text, sizeof(other));
	memcpy(other, "e2b", 3);
	assert_ptr_equal(auth_find(home.service, str_of(other)), made);
	memcpy(other, "cay_", 4);
	other[10] = other[10] == 'a' ? 'b' : 'a';
	assert_null(auth_find(home.service, str_of(other)));
	assert_null(auth_find(home.service, (struct str){ text, AUTH_KEY_TEXT_SIZE - 2 }));
	assert_null(auth_find(home.service, STR_LIT("")));
	assert_null(memmem(made, sizeof(*made), text + 4, 40)); /* only its hash is kept */
}

static void a_key_gives_away_no_more_than_it_has(void **state)
{
	struct key *maker = home_key("maker", AUTH_KEYS | AUTH_EXEC);
	struct err err = { .code = ERR_OK };

	(void)state;
	assert_int_equal(create(maker, AUTH_EXEC, &err), 0);
	assert_int_equal(create(maker, AUTH_EXEC | AUTH_METRICS, &err), -1);
	assert_int_equal(err.code, ERR_FORBIDDEN);
	assert_int_equal(create(maker, AUTH_ADMIN, &err), -1);
	assert_int_equal(create(home.admin, AUTH_ADMIN, &err), 0);
	assert_true(key_may(home.admin, AUTH_SECRETS)); /* admin is everything */
	assert_true(key_may(maker, AUTH_EXEC));
	assert_false(key_may(maker, AUTH_EXEC | AUTH_METRICS));
}

static void keys_survive_a_restart_and_deletion_does_too(void **state)
{
	char id[AUTH_KEY_ID_SIZE], gone[AUTH_KEY_ID_SIZE];
	struct err err;

	(void)state;
	memcpy(id, home_key("stays", AUTH_EXEC)->id, sizeof(id));
	memcpy(gone, home_key("goes", AUTH_EXEC)->id, sizeof(gone));
	assert_int_equal(auth_delete(home.service, home.admin, str_of(gone), &err), 0);
	assert_int_equal(auth_delete(home.service, home.admin, str_of(gone), &err), -1);
	assert_int_equal(err.code, ERR_KEY_NOT_FOUND);
	home_reopen();
	assert_non_null(auth_by_id(home.service, id));
	assert_null(auth_by_id(home.service, gone));
	assert_string_equal(auth_by_id(home.service, id)->name, "stays");
}

static void limits_stop_at_their_number(void **state)
{
	struct key *key = home_key("small", AUTH_SANDBOXES_WRITE);
	struct key_patch patch = { .has_limit[QUOTA_SANDBOXES] = true,
				   .limits[QUOTA_SANDBOXES] = 2 };
	struct sandbox_attrs attrs = { .cpu_milli = 1000, .memory_mb = 256, .disk_size_mb = 1024 };
	const struct key *changed;
	struct err err = { .code = ERR_OK };

	(void)state;
	assert_int_equal(quota_limit(home.service, key, QUOTA_SANDBOXES),
			 10); /* the host's default */
	assert_int_equal(
		auth_change(home.service, home.admin, str_of(key->id), &patch, &changed, &err), 0);
	assert_int_equal(quota_limit(home.service, key, QUOTA_SANDBOXES), 2);
	memcpy(attrs.owner, key->id, sizeof(key->id));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(quota_room(home.service, &attrs, &err), 0);
		quota_add(home.service, &attrs);
	}
	assert_int_equal(quota_room(home.service, &attrs, &err), -1);
	assert_int_equal(err.code, ERR_QUOTA_EXCEEDED);
	quota_remove(home.service, &attrs);
	assert_int_equal(quota_room(home.service, &attrs, &err), 0);
	quota_remove(home.service, &attrs);
	patch.limits[QUOTA_SANDBOXES] = QUOTA_MAX + 1LL;
	assert_int_equal(
		auth_change(home.service, home.admin, str_of(key->id), &patch, &changed, &err), -1);
	patch.limits[QUOTA_SANDBOXES] = -2;
	assert_int_equal(
		auth_change(home.service, home.admin, str_of(key->id), &patch, &changed, &err), -1);
}

/* ---- tickets ---- */

static const struct ticket_spec ticket = { STR_LIT("GET"), STR_LIT("/v1/events"), TICKET_TTL_SEC };

static void a_ticket_is_good_once_for_its_path(void **state)
{
	struct key *key = home_key("web", AUTH_SANDBOXES_READ);
	char text[TICKET_TEXT_SIZE];
	int64_t expires_ms = 0;
	struct err err = { .code = ERR_OK };

	(void)state;
	assert_int_equal(ticket_new(home.service, key, &ticket, text, &expires_ms, &err), 0);
	assert_ptr_equal(ticket_use(home.service, str_of(text), ticket.method, ticket.path, &err),
			 key);
	assert_null(ticket_use(home.service, str_of(text), ticket.method, ticket.path, &err));
	assert_int_equal(err.code, ERR_UNAUTHENTICATED);
	assert_int_equal(ticket_new(home.service, key, &ticket, text, &expires_ms, &err), 0);
	assert_null(ticket_use(home.service, str_of(text), STR_LIT("POST"), ticket.path, &err));
	assert_null(ticket_use(home.service, str_of(text), ticket.method, ticket.path,
			       &err)); /* used up */
	assert_int_equal(ticket_new(home.service, key, &ticket, text, &expires_ms, &err), 0);
	assert_null(ticket_use(home.service, str_of(text), ticket.method, STR_LIT("/v1/events/"),
			       &err));
	assert_null(ticket_use(home.service, STR_LIT("cayt_zz"), ticket.method, ticket.path, &err));
	assert_null(ticket_use(home.service, STR_LIT(""), ticket.method, ticket.path, &err));
}

static void tickets_end_with_their_time_and_their_key(void **state)
{
	struct key *key = home_key("web", AUTH_SANDBOXES_READ);
	struct ticket_spec over = ticket;
	char text[TICKET_TEXT_SIZE], late[TICKET_TEXT_SIZE];
	int64_t expires_ms, until_ms;
	struct err err;

	(void)state;
	over.ttl_sec = 0;
	assert_int_equal(ticket_new(home.service, key, &over, late, &expires_ms, &err), -1);
	over.ttl_sec = 1;
	assert_int_equal(ticket_new(home.service, key, &over, late, &expires_ms, &err), 0);
	assert_int_equal(ticket_new(home.service, key, &ticket, text, &expires_ms, &err), 0);
	until_ms = time_boot_ms() + 1000;
	HOME_UNTIL(time_boot_ms() > until_ms);
	assert_null(ticket_use(home.service, str_of(late), over.method, over.path, &err));
	tickets_tick(home.service);
	assert_int_equal(home.service->accounts->tickets.count, 1);
	assert_int_equal(auth_delete(home.service, home.admin, str_of(key->id), &err), 0);
	assert_null(ticket_use(home.service, str_of(text), ticket.method, ticket.path, &err));
}

static void a_key_has_so_many_tickets(void **state)
{
	struct key *key = home_key("web", AUTH_SANDBOXES_READ),
		   *other = home_key("other", AUTH_SANDBOXES_READ);
	char text[TICKET_TEXT_SIZE];
	int64_t expires_ms;
	struct err err = { .code = ERR_OK };

	(void)state;
	for (int i = 0; i < TICKETS_PER_KEY; i++)
		assert_int_equal(ticket_new(home.service, key, &ticket, text, &expires_ms, &err),
				 0);
	assert_int_equal(ticket_new(home.service, key, &ticket, text, &expires_ms, &err), -1);
	assert_int_equal(err.code, ERR_QUOTA_EXCEEDED);
	assert_int_equal(ticket_new(home.service, other, &ticket, text, &expires_ms, &err), 0);
}

/* ---- idempotency ---- */

static int waited_status;
static unsigned waited;

static void on_wait(void *arg, int status, struct str body)
{
	(void)arg;
	waited++;
	waited_status = status;
	assert_int_equal(body.n, 3);
}

static int begin(const char *key, const char *body, struct idempotency **ret,
		 struct idempotency_reply *reply, struct err *err)
{
	const struct idempotency_ask ask = {
		.owner = home.admin, .key = str_of(key), .body = str_of(body), .wait = on_wait
	};

	return idempotency_begin(home.service, &ask, ret, reply, err);
}

static void the_same_call_gets_the_same_answer(void **state)
{
	struct idempotency_reply reply = { 0 };
	struct idempotency *idem = NULL, *other = NULL;
	struct err err = { .code = ERR_OK };

	(void)state;
	waited = 0;
	assert_int_equal(begin("k1", "body", &idem, &reply, &err), IDEMPOTENCY_NEW);
	assert_int_equal(begin("k1", "body", &other, &reply, &err), IDEMPOTENCY_WAIT);
	assert_int_equal(begin("k1", "different", &other, &reply, &err), -1);
	assert_int_equal(idempotency_keep(home.service, idem, 201, STR_LIT("yes")), 0);
	idempotency_finish(home.service, idem, 201, STR_LIT("yes"));
	HOME_UNTIL(waited);
	assert_int_equal(waited, 1);
	assert_int_equal(waited_status, 201);
	assert_int_equal(begin("k1", "body", &other, &reply, &err), IDEMPOTENCY_REPLAY);
	assert_int_equal(reply.status, 201);
	assert_memory_equal(reply.body.p, "yes", 3);
	free((char *)(uintptr_t)reply.body.p);
	assert_int_equal(begin("k1", "different", &other, &reply, &err), -1);
	home_reopen();
	assert_int_equal(begin("k1", "body", &other, &reply, &err),
			 IDEMPOTENCY_REPLAY); /* recorded */
	free((char *)(uintptr_t)reply.body.p);
}

static void an_answer_that_made_nothing_is_forgotten(void **state)
{
	struct idempotency_reply reply;
	struct idempotency *idem = NULL;
	struct err err;

	(void)state;
	assert_int_equal(begin("k2", "body", &idem, &reply, &err), IDEMPOTENCY_NEW);
	idempotency_finish(home.service, idem, 429, STR_LIT("no"));
	assert_int_equal(begin("k2", "body", &idem, &reply, &err), IDEMPOTENCY_NEW);
	idempotency_finish(home.service, idem, 500, STR_LIT("no"));
}

static void keys_of_calls_have_a_length(void **state)
{
	char text[IDEMPOTENCY_KEY_MAX + 2];
	struct idempotency_reply reply;
	struct idempotency *idem = NULL;
	struct err err = { .code = ERR_OK };

	(void)state;
	memset(text, 'x', sizeof(text));
	text[IDEMPOTENCY_KEY_MAX + 1] = '\0';
	assert_int_equal(begin(text, "b", &idem, &reply, &err), -1);
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
	assert_int_equal(begin("", "b", &idem, &reply, &err), -1);
	text[IDEMPOTENCY_KEY_MAX] = '\0';
	assert_int_equal(begin(text, "b", &idem, &reply, &err), IDEMPOTENCY_NEW);
	idempotency_finish(home.service, idem, 200, STR_LIT("ok"));
}

/* ---- tokens ---- */

static void a_token_opens_its_sandbox_alone(void **state)
{
	struct sandbox *one = home_sandbox(home.admin, "one"),
		       *two = home_sandbox(home.admin, "two");
	char first[ACCESS_TOKEN_SIZE], second[ACCESS_TOKEN_SIZE], traffic[ACCESS_TOKEN_SIZE];

	(void)state;
	access_token(one, first);
	access_token(two, second);
	access_traffic_token(one, traffic);
	assert_string_not_equal(first, second);
	assert_true(access_token_is(one, str_of(first)));
	assert_false(access_token_is(two, str_of(first)));
	assert_false(access_token_is(one, str_of(traffic))); /* the lesser one */
	assert_true(access_traffic_token_is(one, str_of(traffic)));
	assert_false(access_token_is(one, (struct str){ first, ACCESS_TOKEN_SIZE - 2 }));
	assert_false(access_token_is(one, STR_LIT("")));
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, home_setup, home_teardown)
	const struct CMUnitTest tests[] = {
		T(a_key_is_found_by_its_text_in_either_form),
		T(a_key_gives_away_no_more_than_it_has),
		T(keys_survive_a_restart_and_deletion_does_too),
		T(limits_stop_at_their_number),
		T(a_ticket_is_good_once_for_its_path),
		T(tickets_end_with_their_time_and_their_key),
		T(a_key_has_so_many_tickets),
		T(the_same_call_gets_the_same_answer),
		T(an_answer_that_made_nothing_is_forgotten),
		T(keys_of_calls_have_a_length),
		T(a_token_opens_its_sandbox_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
