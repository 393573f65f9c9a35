/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's seccomp program, run by a small interpreter over every number and with unusual
 * arguments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "sys/process/seccomp_filter.h"

static struct filter filter;

static uint32_t run(uint32_t arch, int nr, uint64_t a0, uint64_t a1, uint64_t a2)
{
	struct seccomp_data data = { .nr = nr, .arch = arch, .args = { a0, a1, a2 } };
	uint32_t accumulator = 0;

	for (size_t pc = 0; pc < filter.count; pc++) {
		const struct sock_filter *i = &filter.code[pc];
		bool taken;

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			assert_true(i->k + 4 <= sizeof(data));
			memcpy(&accumulator, (char *)&data + i->k, 4);
			continue;
		case BPF_RET | BPF_K:
			return i->k;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			continue;
		case BPF_JMP | BPF_JEQ | BPF_K:
			taken = accumulator == i->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			taken = accumulator >= i->k;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			taken = accumulator & i->k;
			break;
		default:
			fail_msg("unknown instruction %x", i->code);
			return 0;
		}
		pc += taken ? i->jt : i->jf;
	}
	fail_msg("ran off the end");
	return 0;
}

static uint32_t call(int nr, uint64_t a0, uint64_t a1, uint64_t a2)
{
	return run(AUDIT_ARCH_X86_64, nr, a0, a1, a2);
}

#define ERRNO(e) (SECCOMP_RET_ERRNO | (e))

static void plain_numbers(void **state)
{
	static const int yes[] = { SYS_read,   SYS_execve, SYS_fork, SYS_futex,
				   SYS_openat, SYS_ptrace, SYS_rseq, 452 };
	static const int no[] = { SYS_mount,
				  SYS_umount2,
				  SYS_pivot_root,
				  SYS_chroot,
				  SYS_unshare,
				  SYS_setns,
				  SYS_bpf,
				  SYS_keyctl,
				  SYS_add_key,
				  SYS_request_key,
				  SYS_kexec_load,
				  SYS_init_module,
				  SYS_open_by_handle_at,
				  SYS_fanotify_init,
				  SYS_quotactl,
				  SYS_acct,
				  SYS_swapon,
				  SYS_reboot,
				  SYS_iopl,
				  SYS_ioperm,
				  SYS_modify_ldt,
				  SYS_clock_settime,
				  SYS_adjtimex,
				  SYS_syslog,
				  SYS_userfaultfd,
				  SYS_perf_event_open,
				  SYS_mbind,
				  SYS_move_pages,
				  SYS_pidfd_getfd,
				  SYS_kcmp,
				  SYS_vmsplice,
				  SYS_memfd_secret,
				  SYS_process_madvise,
				  SYS_fsopen,
				  SYS_open_tree,
				  SYS_move_mount,
				  SYS_mount_setattr,
				  456 /* futex_requeue */ };
	static const int absent[] = { SYS_clone3, SYS_io_uring_setup, 457,	  469, 511,
				      600,	  0x40000000,	      0x40000001, -1 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(yes); i++)
		assert_int_equal(call(yes[i], 0, 0, 0), SECCOMP_RET_ALLOW);
	for (size_t i = 0; i < ARRAY_LEN(no); i++)
		assert_int_equal(call(no[i], 0, 0, 0), ERRNO(EPERM));
	for (size_t i = 0; i < ARRAY_LEN(absent); i++)
		assert_int_equal(call(absent[i], 0, 0, 0), ERRNO(ENOSYS));
}

static void foreign_architecture_dies(void **state)
{
	(void)state;
	for (int nr = 0; nr < 600; nr++)
		assert_int_equal(run(AUDIT_ARCH_I386, nr, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
}

static void every_number_has_a_verdict(void **state)
{
	unsigned counts[3] = { 0 };

	(void)state;
	for (int nr = 0; nr < 1024; nr++) {
		uint32_t v = call(nr, AF_UNIX, 0, 0);

		assert_true(v == SECCOMP_RET_ALLOW || v == ERRNO(EPERM) || v == ERRNO(ENOSYS));
		counts[v == SECCOMP_RET_ALLOW ? 0 : v == ERRNO(EPERM) ? 1 : 2]++;
	}
	assert_in_range(counts[0], 250, 330);
}

static void socket_families(void **state)
{
	(void)state;
	for (uint64_t high = 0; high <= 1; high++) {
		for (uint64_t family = 0; family < 64; family++) {
			bool ours = family == AF_UNIX || family == AF_INET || family == AF_INET6;
			uint64_t a0 = family | high << 32;

			assert_int_equal(call(SYS_socket, a0, 0, 9),
					 ours ? SECCOMP_RET_ALLOW : (uint32_t)ERRNO(EAFNOSUPPORT));
			assert_int_equal(call(SYS_socketpair, a0, 0, 0),
					 family == AF_UNIX ? SECCOMP_RET_ALLOW
							   : (uint32_t)ERRNO(EAFNOSUPPORT));
		}
	}
	assert_int_equal(call(SYS_socket, AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), SECCOMP_RET_ALLOW);
	for (uint64_t protocol = 1; protocol < 32; protocol++)
		assert_int_equal(call(SYS_socket, AF_NETLINK, SOCK_RAW, protocol),
				 ERRNO(EAFNOSUPPORT));
}

static void terminal_injection(void **state)
{
	(void)state;
	for (uint64_t high = 0; high <= 0xffffffff; high += 0xffff) {
		assert_int_equal(call(SYS_ioctl, 0, TIOCSTI | high << 32, 0), ERRNO(EPERM));
		assert_int_equal(call(SYS_ioctl, 0, TIOCLINUX | high << 32, 0), ERRNO(EPERM));
	}
	assert_int_equal(call(SYS_ioctl, 0, TIOCGWINSZ, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_ioctl, 0, TIOCSTI - 1, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_ioctl, 0, TIOCLINUX + 1, 0), SECCOMP_RET_ALLOW);
}

static void clone_flags(void **state)
{
	static const uint64_t namespaces[] = { CLONE_NEWUSER,	CLONE_NEWPID, CLONE_NEWNS,
					       CLONE_NEWNET,	CLONE_NEWUTS, CLONE_NEWIPC,
					       CLONE_NEWCGROUP, 0x80 };

	(void)state;
	assert_int_equal(call(SYS_clone,
			      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD, 0,
			      0),
			 SECCOMP_RET_ALLOW);
	for (size_t i = 0; i < ARRAY_LEN(namespaces); i++)
		assert_int_equal(call(SYS_clone, namespaces[i] | CLONE_VM, 0, 0), ERRNO(EPERM));
}

static void other_arguments(void **state)
{
	(void)state;
	assert_int_equal(call(SYS_personality, 0, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_personality, 0xffffffff, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_personality, 0x40000, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_personality, 8, 0, 0), ERRNO(EPERM));
	assert_int_equal(call(SYS_prlimit64, 0, 7, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_prlimit64, 1, 7, 0), ERRNO(EPERM));
	assert_int_equal(call(SYS_prlimit64, 2, 7, 0), SECCOMP_RET_ALLOW);
}

static int build(void **state)
{
	(void)state;
	return filter_build(0, &filter);
}

static int done(void **state)
{
	(void)state;
	filter_done(&filter);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_numbers),
		cmocka_unit_test(foreign_architecture_dies),
		cmocka_unit_test(every_number_has_a_verdict),
		cmocka_unit_test(socket_families),
		cmocka_unit_test(terminal_injection),
		cmocka_unit_test(clone_flags),
		cmocka_unit_test(other_arguments),
	};

	return cmocka_run_group_tests(tests, build, done);
}
