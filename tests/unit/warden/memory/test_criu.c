/* SPDX-License-Identifier: Apache-2.0 */
/* CRIU's run, with a script in its place: what it is given, how long it may take, and what is said
 * when it fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "../../own_place.h"
#include "warden/root/dev.h"
#include "warden/memory/checkpoint.h"

static struct warden warden;

/* ---- arguments and mounts ---- */

static void arguments_beyond_the_limit_are_left_out(void **state)
{
	struct criu_run run;

	(void)state;
	criu_init(&run, &warden, 1);
	for (int i = 0; i < 2 * CRIU_ARGS_MAX; i++)
		criu_arg(&run, "x");
	assert_int_equal(run.arg_count, CRIU_ARGS_MAX - 1);
	assert_null(run.args[CRIU_ARGS_MAX - 1]); /* the end of an argument list */
	criu_done(&run);
}

static void formatted_arguments_share_a_bounded_buffer(void **state)
{
	struct criu_run run;
	char text[sizeof(run.text)];

	(void)state;
	memset(text, 'y', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	criu_init(&run, &warden, 1);
	criu_argf(&run, "mnt[%s]:%d", "/dev", 7);
	criu_argf(&run, "%s", text); /* one too long is left out, and the next one fits */
	criu_argf(&run, "%s", text + sizeof("mnt[/dev]:7"));
	criu_argf(&run, "z");
	assert_int_equal(run.arg_count, 2);
	assert_string_equal(run.args[0], "mnt[/dev]:7");
	assert_int_equal(strlen(run.args[1]), sizeof(text) - sizeof("mnt[/dev]:7") - 1);
	criu_done(&run);
}

static void mounts_are_owned_by_the_run(void **state)
{
	struct criu_run run;
	int fd, last = -1;

	(void)state;
	criu_init(&run, &warden, 1);
	assert_int_equal(criu_mount(&run, "t", false, -EMFILE), -EMFILE);
	for (int i = 0; i < CRIU_MOUNTS_MAX; i++) {
		last = open("/dev/null", O_RDONLY | O_CLOEXEC);
		assert_int_equal(criu_mount(&run, "t", false, last), 0);
	}
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(criu_mount(&run, "t", false, fd), -ENOBUFS);
	assert_int_equal(fcntl(fd, F_GETFD), -1); /* taken in any case */
	criu_done(&run);
	assert_int_equal(fcntl(last, F_GETFD), -1);
	assert_int_equal(run.mount_count, 0);
}

/* ---- which CRIU ---- */

static void make_usr(const char *dir, mode_t mode)
{
	char path[64];

	(void)mkdir(dir, 0755);
	(void)snprintf(path, sizeof(path), "%s/usr", dir);
	(void)mkdir(path, 0755);
	(void)snprintf(path, sizeof(path), "%s/usr/sbin", dir);
	(void)mkdir(path, 0755);
	(void)snprintf(path, sizeof(path), "%s/usr/sbin/criu", dir);
	put_text(AT_FDCWD, path, "");
	assert_return_code(chmod(path, mode), errno);
}

/* In a root with nothing in it, so that the host's own CRIU is not found instead. */
static int opened_in_empty_root(const char *dir)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (chroot("/tmp") < 0 || chdir("/") < 0)
			_exit(9);
		criu_open(&warden, dir);
		_exit(warden.criu_fd >= 0 ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

static void only_a_program_of_roots_is_used(void **state)
{
	(void)state;
	assert_int_equal(own_place_renew(NULL), 0);
	warden.has_criu_parts = true;
	make_usr("/tmp/good", 0755);
	make_usr("/tmp/open", 0775);
	make_usr("/tmp/theirs", 0755);
	assert_return_code(chown("/tmp/theirs/usr/sbin/criu", 1, 1), errno);
	assert_int_equal(opened_in_empty_root("/good"), 1);
	assert_int_equal(opened_in_empty_root("/open"), 0);
	assert_int_equal(opened_in_empty_root("/theirs"), 0);
	assert_int_equal(opened_in_empty_root("/missing"), 0);
	assert_int_equal(opened_in_empty_root("none"), 0);
	make_usr("/tmp", 0755); /* the host's own */
	assert_int_equal(opened_in_empty_root("/missing"), 1);
	assert_int_equal(opened_in_empty_root("none"), 0);
	warden.has_criu_parts = false;
	assert_int_equal(opened_in_empty_root("/good"), 0);
}

/* ---- runs ---- */

static bool write_script(const char *body)
{
	char text[1024];

	(void)snprintf(text, sizeof(text), "#!/bin/sh\n%s\n", body);
	put_text(AT_FDCWD, "/tmp/usr/sbin/criu", text);
	return chmod("/tmp/usr/sbin/criu", 0755) == 0;
}

static int hook_fd; /* opened before the test gets a /tmp of its own: the build may be below /tmp */

static void copy_hook(void)
{
	static char bytes[4 << 20];
	ssize_t n = pread(hook_fd, bytes, sizeof(bytes), 0);
	int to = openat(warden.shared_fd, "criu/" CRIU_HOOK_NAME, O_WRONLY | O_CREAT | O_CLOEXEC,
			0755);

	assert_true(n > 0);
	assert_int_equal(write(to, bytes, (size_t)n), n);
	(void)close(to);
}

/* The host's /usr with one program more. */
static int setup(void **state)
{
	int r = own_place_renew(state);

	memset(&warden, 0, sizeof(warden));
	warden.proc_fd = open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	warden.shared_fd = own_place_open("shared");
	warden.lock_fd = -1;
	for (size_t i = 0; i < ARRAY_LEN(warden.cgroups.fd); i++)
		warden.cgroups.fd[i] = -1;
	(void)close(own_place_open("upper"));
	(void)close(own_place_open("work"));
	(void)close(own_place_open("usr"));
	if (r < 0 || mount("usr", "/tmp/usr", "overlay", 0,
			   "lowerdir=/usr,upperdir=/tmp/upper,workdir=/tmp/work") < 0) {
		print_message("skipped: no overlay over /usr: %s\n", strerror(errno));
		skip();
	}
	warden.criu_fd = open("/tmp/usr", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	(void)mkdirat(warden.shared_fd, "criu", 0755);
	(void)mkdirat(warden.shared_fd, "criu/run", 0755);
	copy_hook();
	return dev_open(warden.shared_fd);
}

static int teardown(void **state)
{
	(void)state;
	(void)close(warden.criu_fd);
	(void)close(warden.proc_fd);
	return close(warden.shared_fd);
}

static void check_script(const char *body, int expected, const char *why_expected)
{
	char why[CRIU_WHY_SIZE] = "";

	assert_true(write_script(body));
	assert_int_equal(criu_check(&warden, why), expected);
	assert_string_equal(why, why_expected);
}

static void a_failure_is_told_in_its_own_words(void **state)
{
	(void)state;
	check_script("test \"$1\" = check", 0, "");
	check_script("echo '(00.1) Error (criu/x.c:1): first words'; echo '(00.2) Error "
		     "(criu/y.c:2): second'; exit 1",
		     -EIO, "first words");
	check_script("echo 'Warn (a): b'; echo 'Error (c.c:1): tun: Unable to create'; "
		     "echo 'Error (c.c:2): Dumping FAILED.'; echo 'Error (c.c:3): real'; exit 1",
		     -EIO, "real");
	check_script("printf 'Error (c.c:1): a\\tb\\377\\n'; exit 1", -EIO, "a?b?");
	check_script("exit 1", -EIO, "failed without a word");
	check_script("kill -9 $$", -EIO, "failed without a word");
}

static void its_words_are_cut_at_the_limit(void **state)
{
	char why[CRIU_WHY_SIZE] = "";

	(void)state;
	assert_true(write_script("printf 'Error (c.c:1): %0300d\\n' 0; exit 1"));
	assert_int_equal(criu_check(&warden, why), -EIO);
	assert_int_equal(strlen(why), CRIU_WHY_SIZE - 1);
}

static void without_the_program_it_says_so(void **state)
{
	char why[CRIU_WHY_SIZE] = "";

	(void)state;
	(void)unlink("/tmp/usr/sbin/criu"); /* where the host has one, it is hidden */
	assert_int_equal(criu_check(&warden, why), -EIO);
	assert_string_equal(why, "no criu: No such file or directory");
}

static void it_sees_nothing_of_the_host(void **state)
{
	(void)state;
	check_script("for d in home root tmp/shared etc sys; do test ! -e /$d/. || "
		     "{ echo \"Error (room): /$d\"; exit 1; }; done; test -e /proc/self && test -c "
		     "/dev/null",
		     0, "");
}

static void a_run_without_its_parts_has_no_room(void **state)
{
	char why[CRIU_WHY_SIZE] = "";

	(void)state;
	assert_return_code(unlinkat(warden.shared_fd, "criu/" CRIU_HOOK_NAME, 0), errno);
	assert_return_code(unlinkat(warden.shared_fd, "criu/run", AT_REMOVEDIR), errno);
	assert_int_equal(criu_check(&warden, why), -ENOENT);
	assert_string_equal(why, "no room for it: No such file or directory");
}

static int stage_pid, stage_result;

static int on_stage(struct criu_run *run, int pid)
{
	(void)run;
	stage_pid = pid;
	return stage_result;
}

static int run_with_hook(const char *body, int limit_ms, struct criu_run *run)
{
	int r;

	assert_true(write_script(body));
	criu_init(run, &warden, 0);
	run->limit_ms = limit_ms;
	run->on_stage = on_stage;
	stage_pid = -1;
	criu_arg(run, "criu");
	r = criu_run(run);
	criu_done(run);
	return r;
}

static void the_hook_is_answered_by_the_job(void **state)
{
	static struct criu_run run;
	const char *call =
		"CRTOOLS_SCRIPT_ACTION=post-dump CRTOOLS_INIT_PID=42 /cay/" CRIU_HOOK_NAME;

	(void)state;
	stage_result = 0;
	assert_int_equal(run_with_hook(call, 60000, &run), 0);
	assert_int_equal(stage_pid, 42);
	stage_result = -EIO; /* the stage fails, and with it the run */
	assert_int_equal(run_with_hook(call, 60000, &run), -EIO);
	assert_int_equal(stage_pid, 42);
	stage_result = 0;
	assert_int_equal(
		run_with_hook("CRTOOLS_SCRIPT_ACTION=pre-dump /cay/" CRIU_HOOK_NAME, 60000, &run),
		0);
	assert_int_equal(stage_pid, -1); /* other stages are not ours */
	assert_int_equal(run_with_hook("CRTOOLS_SCRIPT_ACTION=post-restore CRTOOLS_INIT_PID=x "
				       "/cay/" CRIU_HOOK_NAME,
				       60000, &run),
			 -EIO);
	assert_int_equal(stage_pid, -1);
}

static void one_that_takes_too_long_is_killed(void **state)
{
	static struct criu_run run;

	(void)state;
	assert_int_equal(run_with_hook("exec sleep 1000", 1, &run), -EIO);
	assert_string_equal(run.why, "took longer than 0 s");
}

/* ---- programs in a memory ---- */

static void put_program(int dir_fd, const char *path, size_t size, char last)
{
	static char bytes[200000];
	int fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	memset(bytes, 'p', sizeof(bytes));
	bytes[size - 1] = last;
	assert_int_equal(write(fd, bytes, size), size);
	(void)close(fd);
}

static void programs_are_the_same_byte_by_byte(void **state)
{
	int images_fd;

	(void)state;
	assert_int_equal(own_place_renew(NULL), 0);
	warden.shared_fd = own_place_open("shared");
	images_fd = own_place_open("images");
	(void)mkdirat(warden.shared_fd, "bin", 0755);
	(void)mkdirat(images_fd, CHECKPOINT_PROGRAMS, 0755);
	assert_true(checkpoint_same_programs(&warden, images_fd)); /* none, then and now */
	put_program(warden.shared_fd, "bin/agent", 150000, 'a');
	assert_false(checkpoint_same_programs(&warden, images_fd));
	put_program(images_fd, CHECKPOINT_PROGRAMS "/agent", 150000, 'b');
	assert_false(checkpoint_same_programs(&warden, images_fd));
	put_program(images_fd, CHECKPOINT_PROGRAMS "/agent", 150001, 'a');
	assert_false(checkpoint_same_programs(&warden, images_fd));
	put_program(images_fd, CHECKPOINT_PROGRAMS "/agent", 150000, 'a');
	assert_true(checkpoint_same_programs(&warden, images_fd));
	put_program(images_fd, CHECKPOINT_PROGRAMS "/tools", 1,
		    't'); /* then with tools, now without */
	assert_false(checkpoint_same_programs(&warden, images_fd));
	(void)close(images_fd);
	(void)close(warden.shared_fd);
}

static void an_agent_of_another_version_is_not_asked(void **state)
{
	static struct slot_row rows[1];
	char why[CRIU_WHY_SIZE] = "";

	(void)state;
	assert_int_equal(own_place_renew(NULL), 0);
	warden.shared_fd = own_place_open("shared");
	warden.proc_fd = open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	warden.rows = rows;
	rows[0].pid = getpid();
	(void)mkdirat(warden.shared_fd, "bin", 0755);
	put_program(warden.shared_fd, "bin/agent", 10, 'a');
	assert_int_equal(checkpoint_let_go(&warden, 0, why), -ESTALE);
	assert_string_equal(why, "its agent is of another version");
	assert_int_equal(rows[0].held, 0);
	(void)close(warden.proc_fd);
	(void)close(warden.shared_fd);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments_beyond_the_limit_are_left_out),
		cmocka_unit_test(formatted_arguments_share_a_bounded_buffer),
		cmocka_unit_test(mounts_are_owned_by_the_run),
		cmocka_unit_test(only_a_program_of_roots_is_used),
		T(a_failure_is_told_in_its_own_words),
		T(its_words_are_cut_at_the_limit),
		T(without_the_program_it_says_so),
		T(it_sees_nothing_of_the_host),
		T(a_run_without_its_parts_has_no_room),
		T(the_hook_is_answered_by_the_job),
		T(one_that_takes_too_long_is_killed),
		cmocka_unit_test(programs_are_the_same_byte_by_byte),
		cmocka_unit_test(an_agent_of_another_version_is_not_asked),
	};

	const char *hook = getenv("CAY_CRIU_HOOK");

	hook_fd = hook ? open(hook, O_RDONLY | O_CLOEXEC) : -1;
	if (!own_place_enter(0))
		return OWN_PLACE_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
