/* SPDX-License-Identifier: Apache-2.0 */
/* The vault and its key, and secrets as callers write them. */
#include "../home.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "service/secret/secret_internal.h"
#include "service/secret/vault.h"

static const struct vault *open_vault(void)
{
	struct err err;

	if (vault_need(home.service, &err) < 0)
		fail_msg("%s", err.message);
	return vault_of(home.service);
}

static int open_again(const struct vault *vault, const char *kind, const char *id, uint32_t version,
		      struct str sealed)
{
	char *plain = NULL;
	size_t n = 0;
	int r = vault_open(vault, kind, id, version, sealed, &plain, &n);

	if (r == 0) {
		assert_int_equal(n, 6);
		assert_string_equal(plain, "hunter");
		vault_wipe(plain, n);
	}
	return r;
}

static void a_value_opens_only_as_what_it_was_sealed_for(void **state)
{
	const struct vault *vault = open_vault();
	uint8_t *sealed = NULL, *again = NULL;
	size_t n = 0, m = 0;
	struct str bytes;

	(void)state;
	assert_int_equal(vault_seal(vault, "secret", "id1", 3, STR_LIT("hunter"), &sealed, &n), 0);
	assert_int_equal(n, 6 + VAULT_OVERHEAD);
	assert_null(memmem(sealed, n, "hunter", 6));
	bytes = (struct str){ (const char *)sealed, n };
	assert_int_equal(open_again(vault, "secret", "id1", 3, bytes), 0);
	assert_int_equal(open_again(vault, "secret", "id2", 3, bytes), -EBADMSG);
	assert_int_equal(open_again(vault, "secret", "id1", 4, bytes), -EBADMSG);
	assert_int_equal(open_again(vault, "other", "id1", 3, bytes), -EBADMSG);
	for (size_t i = 0; i < n; i++) {
		sealed[i] ^= 1;
		assert_int_equal(open_again(vault, "secret", "id1", 3, bytes), -EBADMSG);
		sealed[i] ^= 1;
	}
	for (bytes.n = 0; bytes.n < n; bytes.n++)
		assert_int_equal(open_again(vault, "secret", "id1", 3, bytes), -EBADMSG);
	assert_int_equal(vault_seal(vault, "secret", "id1", 3, STR_LIT("hunter"), &again, &m), 0);
	assert_memory_not_equal(sealed, again, n); /* never the same twice */
	free(sealed);
	free(again);
}

static void an_empty_value_can_be_sealed(void **state)
{
	const struct vault *vault = open_vault();
	uint8_t *sealed = NULL;
	char *plain = NULL;
	size_t n = 0, m = 99;

	(void)state;
	assert_int_equal(vault_seal(vault, "k", "", 0, STR_LIT(""), &sealed, &n), 0);
	assert_int_equal(n, VAULT_OVERHEAD);
	assert_int_equal(
		vault_open(vault, "k", "", 0, (struct str){ (const char *)sealed, n }, &plain, &m),
		0);
	assert_int_equal(m, 0);
	vault_wipe(plain, m);
	vault_wipe(NULL, 0);
	free(sealed);
}

static void the_key_is_readable_by_its_user_alone(void **state)
{
	char path[128];
	struct stat st;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/vault.key", home.dir);
	assert_int_equal(stat(path, &st), -1); /* made with the first secret */
	(void)open_vault();
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(st.st_size, 65);
}

static void another_key_is_noticed_at_once(void **state)
{
	static const char wrong[] =
		"0000000000000000000000000000000000000000000000000000000000000000";
	struct err err = { .code = ERR_OK };

	(void)state;
	(void)open_vault();
	home_close();
	home.config.vault_key = wrong;
	home_open();
	assert_int_equal(vault_need(home.service, &err), -1);
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
	home_close();
	home.config.vault_key = "not hexadecimal";
	home_open();
	assert_int_equal(vault_need(home.service, &err), -1);
	home_close();
	home.config.vault_key = "";
	home_file("vault.key", "damaged\n");
	home_open();
	assert_int_equal(vault_need(home.service, &err), -1);
}

static void hashes_depend_on_the_kind(void **state)
{
	const struct vault *vault = open_vault();
	uint8_t a[32], b[32], c[32];

	(void)state;
	vault_hash(vault, "x", STR_LIT("yz"), a);
	vault_hash(vault, "xy", STR_LIT("z"), b);
	vault_hash(vault, "x", STR_LIT("yz"), c);
	assert_memory_not_equal(a, b, sizeof(a));
	assert_memory_equal(a, c, sizeof(a));
}

/* ---- names and hosts ---- */

static void names_are_those_of_variables(void **state)
{
	char text[SECRET_NAME_MAX + 1];

	(void)state;
	memset(text, 'A', sizeof(text));
	assert_true(secret_name_ok(STR_LIT("TOKEN")));
	assert_true(secret_name_ok(STR_LIT("_a1")));
	assert_true(secret_name_ok((struct str){ text, SECRET_NAME_MAX }));
	assert_false(secret_name_ok((struct str){ text, SECRET_NAME_MAX + 1 }));
	assert_false(secret_name_ok(STR_LIT("")));
	assert_false(secret_name_ok(STR_LIT("1A")));
	assert_false(secret_name_ok(STR_LIT("A-B")));
	assert_false(secret_name_ok(STR_LIT("A B")));
	assert_false(secret_name_ok((struct str){ "A\0B", 3 }));
}

static void hosts_are_names_in_lower_case(void **state)
{
	static const char *const bad[] = { "",	  "*.",	 "A.com", "a..b",     ".a",
					   "a.",  "a/b", "a:",	  "a:0",      "a:65536",
					   "a b", "*",	 "a.*.b", "https://a" };
	static const struct str good[] = { STR_LIT("api.example.com"), STR_LIT("*.example.com:443"),
					   STR_LIT("a") };
	struct str many[SECRET_HOSTS_MAX + 1];
	struct text_list list = { good, ARRAY_LEN(good) };
	struct err err = { .code = ERR_OK };
	char *hosts = NULL;

	(void)state;
	assert_int_equal(secret_hosts_make(&list, "hosts", &hosts, &err), 0);
	assert_string_equal(hosts, "api.example.com,*.example.com:443,a");
	free(hosts);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		const struct str one = str_of(bad[i]);

		list = (struct text_list){ &one, 1 };
		if (secret_hosts_make(&list, "hosts", &hosts, &err) == 0)
			fail_msg("'%s' was taken", bad[i]);
		assert_int_equal(err.code, ERR_INVALID_REQUEST);
		assert_non_null(strstr(err.message, "hosts[0]"));
	}
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		many[i] = STR_LIT("a");
	list = (struct text_list){ many, SECRET_HOSTS_MAX };
	assert_int_equal(secret_hosts_make(&list, "hosts", &hosts, &err), 0);
	free(hosts);
	list.count++;
	assert_int_equal(secret_hosts_make(&list, "hosts", &hosts, &err), -1);
}

/* ---- secrets ---- */

static int create(struct key *key, const char *name, struct str value, struct err *err)
{
	const struct secret_spec spec = { .name = str_of(name),
					  .value = value,
					  .scope = SECRET_GLOBAL };
	const struct secret *made;

	return secret_create(home.service, key, &spec, &made, err);
}

static void a_secret_is_its_owners_and_keeps_few_versions(void **state)
{
	struct key *mine = home_key("mine", AUTH_SECRETS), *other = home_key("other", AUTH_SECRETS);
	struct err err = { .code = ERR_OK };
	struct secret *secret;
	char *plain = NULL;
	size_t n = 0;

	(void)state;
	assert_int_equal(create(mine, "TOKEN", STR_LIT("first-value"), &err), 0);
	assert_int_equal(create(mine, "TOKEN", STR_LIT("x"), &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_null(secret_find(home.service, other, STR_LIT("TOKEN"), &err));
	assert_int_equal(err.code, ERR_SECRET_NOT_FOUND);
	secret = secret_find(home.service, mine, STR_LIT("TOKEN"), &err);
	assert_non_null(secret);
	for (int i = 0; i < 2 * SECRET_VERSIONS_KEPT; i++)
		assert_int_equal(
			secret_rotate(secret, home.service, STR_LIT("another-value"), &err), 0);
	assert_int_equal(secret->version_count, SECRET_VERSIONS_KEPT);
	assert_int_equal(secret->version, 2 * SECRET_VERSIONS_KEPT + 1);
	home_reopen(); /* and what is on disk opens again */
	mine = (struct key *)(uintptr_t)auth_by_id(
		home.service, secret_next(home.service, home.admin, STR_LIT(""))->owner);
	assert_int_equal(vault_need(home.service, &err), 0);
	secret = secret_find(home.service, mine, STR_LIT("TOKEN"), &err);
	assert_int_equal(secret_open(home.service, secret,
				     &secret->versions[secret->version_count - 1], &plain, &n),
			 0);
	assert_string_equal(plain, "another-value");
	vault_wipe(plain, n);
	assert_int_equal(secret_delete(secret, home.service, &err), 0);
	assert_null(secret_find(home.service, mine, STR_LIT("TOKEN"), &err));
}

static void values_have_a_length(void **state)
{
	static char value[SECRET_VALUE_MAX + 1];
	struct err err = { .code = ERR_OK };

	(void)state;
	memset(value, 'v', sizeof(value));
	assert_int_equal(create(home.admin, "EMPTY", STR_LIT(""), &err), -1);
	assert_int_equal(
		create(home.admin, "LONGER", (struct str){ value, SECRET_VALUE_MAX + 1 }, &err),
		-1);
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
	assert_int_equal(
		create(home.admin, "LONGEST", (struct str){ value, SECRET_VALUE_MAX }, &err), 0);
	assert_int_equal(create(home.admin, "no-variable", STR_LIT("value"), &err), -1);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, home_setup, home_teardown)
	const struct CMUnitTest tests[] = {
		T(a_value_opens_only_as_what_it_was_sealed_for),
		T(an_empty_value_can_be_sealed),
		T(the_key_is_readable_by_its_user_alone),
		T(another_key_is_noticed_at_once),
		T(hashes_depend_on_the_kind),
		cmocka_unit_test(names_are_those_of_variables),
		cmocka_unit_test(hosts_are_names_in_lower_case),
		T(a_secret_is_its_owners_and_keeps_few_versions),
		T(values_have_a_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
