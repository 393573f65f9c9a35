/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generates the program here instead of with libseccomp: the kernel's cost of loading a program
 * grows with its instructions, and merging adjacent allowed numbers into ranges needs a fifth of
 * them (docs/decisions/006). The program checks the architecture, then searches the ranges in a
 * binary tree, and ends in a verdict. Each verdict exists once: a return, or a short check of
 * arguments.
 */
#include "sys/process/seccomp_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "sys/syscalls.h"

#define LAST_KNOWN \
	456 /* futex_requeue; later calls are answered with ENOSYS, and libc falls back */
#define PROGRAM_MAX 512

#define CLONE_NEW_ANY                                                                              \
	(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | \
	 CLONE_NEWCGROUP | 0x80 /* CLONE_NEWTIME */)

/* All calls that builds, tests, servers and browsers need, and none that reaches the host. */
/* clang-format off */
static const short allowed[] = {
	SYS_read, SYS_write, SYS_open, SYS_close, SYS_stat, SYS_fstat, SYS_lstat, SYS_poll,
	SYS_lseek, SYS_mmap, SYS_mprotect, SYS_munmap, SYS_brk, SYS_rt_sigaction,
	SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev,
	SYS_access, SYS_pipe, SYS_select, SYS_sched_yield, SYS_mremap, SYS_msync, SYS_mincore,
	SYS_madvise, SYS_shmget, SYS_shmat, SYS_shmctl, SYS_dup, SYS_dup2, SYS_pause,
	SYS_nanosleep, SYS_getitimer, SYS_alarm, SYS_setitimer, SYS_getpid, SYS_sendfile,
	SYS_connect, SYS_accept, SYS_sendto, SYS_recvfrom, SYS_sendmsg, SYS_recvmsg, SYS_shutdown,
	SYS_bind, SYS_listen, SYS_getsockname, SYS_getpeername, SYS_setsockopt, SYS_getsockopt,
	SYS_fork, SYS_vfork, SYS_execve, SYS_exit, SYS_wait4, SYS_kill, SYS_uname, SYS_semget,
	SYS_semop, SYS_semctl, SYS_shmdt, SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl,
	SYS_fcntl, SYS_flock, SYS_fsync, SYS_fdatasync, SYS_truncate, SYS_ftruncate, SYS_getdents,
	SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_rename, SYS_mkdir, SYS_rmdir, SYS_creat, SYS_link,
	SYS_unlink, SYS_symlink, SYS_readlink, SYS_chmod, SYS_fchmod, SYS_chown, SYS_fchown,
	SYS_lchown, SYS_umask, SYS_gettimeofday, SYS_getrlimit, SYS_getrusage, SYS_sysinfo,
	SYS_times, SYS_ptrace, SYS_getuid, SYS_getgid, SYS_setuid, SYS_setgid, SYS_geteuid,
	SYS_getegid, SYS_setpgid, SYS_getppid, SYS_getpgrp, SYS_setsid, SYS_setreuid, SYS_setregid,
	SYS_getgroups, SYS_setgroups, SYS_setresuid, SYS_getresuid, SYS_setresgid, SYS_getresgid,
	SYS_getpgid, SYS_setfsuid, SYS_setfsgid, SYS_getsid, SYS_capget, SYS_capset,
	SYS_rt_sigpending, SYS_rt_sigtimedwait, SYS_rt_sigqueueinfo, SYS_rt_sigsuspend,
	SYS_sigaltstack, SYS_utime, SYS_mknod, SYS_statfs, SYS_fstatfs, SYS_getpriority,
	SYS_setpriority, SYS_sched_setparam, SYS_sched_getparam, SYS_sched_setscheduler,
	SYS_sched_getscheduler, SYS_sched_get_priority_max, SYS_sched_get_priority_min,
	SYS_sched_rr_get_interval, SYS_mlock, SYS_munlock, SYS_mlockall, SYS_munlockall, SYS_prctl,
	SYS_arch_prctl, SYS_setrlimit, SYS_sync, SYS_gettid, SYS_readahead, SYS_setxattr,
	SYS_lsetxattr, SYS_fsetxattr, SYS_getxattr, SYS_lgetxattr, SYS_fgetxattr, SYS_listxattr,
	SYS_llistxattr, SYS_flistxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr,
	SYS_tkill, SYS_time, SYS_futex, SYS_sched_setaffinity, SYS_sched_getaffinity,
	SYS_epoll_create, SYS_remap_file_pages, SYS_getdents64, SYS_set_tid_address,
	SYS_restart_syscall, SYS_semtimedop, SYS_fadvise64, SYS_timer_create, SYS_timer_settime,
	SYS_timer_gettime, SYS_timer_getoverrun, SYS_timer_delete, SYS_clock_gettime,
	SYS_clock_getres, SYS_clock_nanosleep, SYS_exit_group, SYS_epoll_wait, SYS_epoll_ctl,
	SYS_tgkill, SYS_utimes, SYS_mq_open, SYS_mq_unlink, SYS_mq_timedsend, SYS_mq_timedreceive,
	SYS_mq_notify, SYS_mq_getsetattr, SYS_waitid, SYS_ioprio_set, SYS_ioprio_get,
	SYS_inotify_init, SYS_inotify_add_watch, SYS_inotify_rm_watch, SYS_openat, SYS_mkdirat,
	SYS_mknodat, SYS_fchownat, SYS_futimesat, SYS_newfstatat, SYS_unlinkat, SYS_renameat,
	SYS_linkat, SYS_symlinkat, SYS_readlinkat, SYS_fchmodat, SYS_faccessat, SYS_pselect6,
	SYS_ppoll, SYS_set_robust_list, SYS_get_robust_list, SYS_splice, SYS_tee,
	SYS_sync_file_range, SYS_utimensat, SYS_epoll_pwait, SYS_signalfd, SYS_timerfd_create,
	SYS_eventfd, SYS_fallocate, SYS_timerfd_settime, SYS_timerfd_gettime, SYS_accept4,
	SYS_signalfd4, SYS_eventfd2, SYS_epoll_create1, SYS_dup3, SYS_pipe2, SYS_inotify_init1,
	SYS_preadv, SYS_pwritev, SYS_rt_tgsigqueueinfo, SYS_recvmmsg, SYS_syncfs, SYS_sendmmsg,
	SYS_getcpu, SYS_process_vm_readv, SYS_process_vm_writev, SYS_sched_setattr,
	SYS_sched_getattr, SYS_renameat2, SYS_seccomp, SYS_getrandom, SYS_memfd_create,
	SYS_execveat, SYS_membarrier, SYS_mlock2, SYS_copy_file_range, SYS_preadv2, SYS_pwritev2,
	SYS_pkey_mprotect, SYS_pkey_alloc, SYS_pkey_free, SYS_statx, SYS_rseq,
	SYS_pidfd_send_signal, SYS_pidfd_open, SYS_close_range, SYS_openat2, SYS_faccessat2,
	SYS_epoll_pwait2, SYS_landlock_create_ruleset, SYS_landlock_add_rule,
	SYS_landlock_restrict_self, SYS_futex_waitv,
	451 /* cachestat */, 452 /* fchmodat2 */, 453 /* map_shadow_stack */, 454 /* futex_wake */,
	455 /* futex_wait */,
};
/* clang-format on */

/* Known and refused with ENOSYS, because libc falls back only on that error. */
static const short absent[] = { SYS_clone3, SYS_io_uring_setup, SYS_io_uring_enter,
				SYS_io_uring_register };

/* The verdict of a call number. Values from CHECK_FIRST on are argument checks below. */
enum verdict {
	REFUSE, /* EPERM: known, not allowed in sandboxes */
	ABSENT, /* ENOSYS */
	ALLOW,
	CHECK_FIRST,
	CHECK_SOCKET = CHECK_FIRST,
	CHECK_SOCKETPAIR,
	CHECK_CLONE,
	CHECK_IOCTL,
	CHECK_PERSONALITY,
	CHECK_PRLIMIT,
	VERDICT_COUNT
};

#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, (action))
#define REFUSE_WITH(error) RETURN(SECCOMP_RET_ERRNO | (error))
/*
 * Only the low half of an argument, because the kernel ignores the upper half of these
 * (CVE-2019-10063).
 */
#define LOAD_ARGUMENT(i) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[i]))
#define IF_EQUAL(value, if_so, if_not) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), (if_so), (if_not))
#define IF_ANY_BIT(mask, if_so, if_not) \
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (mask), (if_so), (if_not))

/* Other families are answered as if the kernel lacked them, which programs probe for. */
static const struct sock_filter check_socket[] = {
	LOAD_ARGUMENT(0),
	IF_EQUAL(AF_UNIX, 5, 0),
	IF_EQUAL(AF_INET, 4, 0),
	IF_EQUAL(AF_INET6, 3, 0),
	IF_EQUAL(AF_NETLINK, 0, 3),
	LOAD_ARGUMENT(2),
	IF_EQUAL(NETLINK_ROUTE, 0, 1),
	RETURN(SECCOMP_RET_ALLOW),
	REFUSE_WITH(EAFNOSUPPORT),
};
static const struct sock_filter check_socketpair[] = {
	LOAD_ARGUMENT(0),
	IF_EQUAL(AF_UNIX, 0, 1),
	RETURN(SECCOMP_RET_ALLOW),
	REFUSE_WITH(EAFNOSUPPORT),
};
static const struct sock_filter check_clone[] = {
	LOAD_ARGUMENT(0),
	IF_ANY_BIT(CLONE_NEW_ANY, 1, 0),
	RETURN(SECCOMP_RET_ALLOW),
	REFUSE_WITH(EPERM),
};
/* TIOCSTI and TIOCLINUX insert input into a terminal. */
static const struct sock_filter check_ioctl[] = {
	LOAD_ARGUMENT(1),	   IF_EQUAL(TIOCSTI, 2, 0), IF_EQUAL(TIOCLINUX, 1, 0),
	RETURN(SECCOMP_RET_ALLOW), REFUSE_WITH(EPERM),
};
static const struct sock_filter check_personality[] = {
	LOAD_ARGUMENT(0),
	IF_EQUAL(PER_LINUX, 2, 0),
	IF_EQUAL(ADDR_NO_RANDOMIZE, 1, 0),
	IF_EQUAL(0xffffffff /* query only */, 0, 1),
	RETURN(SECCOMP_RET_ALLOW),
	REFUSE_WITH(EPERM),
};
/* Root inside could otherwise take all descriptors away from the agent. */
static const struct sock_filter check_prlimit[] = {
	LOAD_ARGUMENT(0),
	IF_EQUAL(1, 1, 0),
	RETURN(SECCOMP_RET_ALLOW),
	REFUSE_WITH(EPERM),
};

static const struct {
	short number;
	const struct sock_filter *code;
	size_t count;
} checks[VERDICT_COUNT] = {
#define CHECK(which, number, code) [which] = { number, code, ARRAY_LEN(code) }
	CHECK(CHECK_SOCKET, SYS_socket, check_socket),
	CHECK(CHECK_SOCKETPAIR, SYS_socketpair, check_socketpair),
	CHECK(CHECK_CLONE, SYS_clone, check_clone),
	CHECK(CHECK_IOCTL, SYS_ioctl, check_ioctl),
	CHECK(CHECK_PERSONALITY, SYS_personality, check_personality),
	CHECK(CHECK_PRLIMIT, SYS_prlimit64, check_prlimit),
#undef CHECK
};

struct range {
	uint32_t first; /* up to the first number of the next range */
	enum verdict verdict;
};

/* The target of a jump: an instruction, or a verdict, whose position is not known yet. */
struct target {
	bool is_verdict;
	size_t at; /* enum verdict, if it is a verdict */
};

struct assembly {
	struct sock_filter code[PROGRAM_MAX];
	/* targets of the instructions of the tree */
	struct target if_so[PROGRAM_MAX], if_not[PROGRAM_MAX];
	size_t count;
	size_t verdict_at[VERDICT_COUNT];
	int error;
};

static size_t emit(struct assembly *a, struct sock_filter instruction)
{
	if (a->count == PROGRAM_MAX) {
		a->error = -E2BIG;
		return 0;
	}
	a->code[a->count] = instruction;
	return a->count++;
}

static size_t make_ranges(unsigned flags, struct range ranges[LAST_KNOWN + 2])
{
	uint8_t verdicts[LAST_KNOWN + 1];
	size_t count = 0;

	memset(verdicts, REFUSE, sizeof(verdicts));
	for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
		verdicts[allowed[i]] = ALLOW;
	for (size_t i = 0; i < ARRAY_LEN(absent); i++)
		verdicts[absent[i]] = ABSENT;
	for (int i = CHECK_FIRST; i < VERDICT_COUNT; i++)
		verdicts[checks[i].number] = (uint8_t)i;
	if (flags & FILTER_ANY_SOCKET)
		verdicts[SYS_socket] = verdicts[SYS_socketpair] = ALLOW;
	for (uint32_t nr = 0; nr <= LAST_KNOWN; nr++)
		if (nr == 0 || verdicts[nr] != verdicts[nr - 1])
			ranges[count++] = (struct range){ nr, verdicts[nr] };
	ranges[count++] = (struct range){ LAST_KNOWN + 1, ABSENT }; /* also x32 numbers (bit 30) */
	return count;
}

static void emit_tree(struct assembly *a, const struct range *ranges, size_t count);

/* A single range needs no code: the jump goes directly to its verdict. */
static struct target emit_branch(struct assembly *a, const struct range *ranges, size_t count)
{
	struct target target = { true, ranges->verdict };

	if (count > 1) {
		target = (struct target){ false, a->count };
		emit_tree(a, ranges, count);
	}
	return target;
}

/*
 * Emits the search tree over ranges[0..count), count >= 2. The branch that is code follows
 * directly: the kernel compiles such a jump to one instruction, and a jump with two distances to
 * two.
 */
static void emit_tree(struct assembly *a, const struct range *ranges, size_t count)
{
	size_t half = count / 2;
	size_t at = emit(a, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K,
							 ranges[half].first, 0, 0));

	a->if_not[at] = emit_branch(a, ranges, half);
	a->if_so[at] = emit_branch(a, ranges + half, count - half);
}

/* Emits each verdict once, after the tree. */
static void emit_verdicts(struct assembly *a)
{
	static const uint32_t actions[] = { [REFUSE] = SECCOMP_RET_ERRNO | EPERM,
					    [ABSENT] = SECCOMP_RET_ERRNO | ENOSYS,
					    [ALLOW] = SECCOMP_RET_ALLOW };

	for (int i = 0; i < VERDICT_COUNT; i++) {
		a->verdict_at[i] = a->count;
		if (i < CHECK_FIRST)
			(void)emit(a, (struct sock_filter)RETURN(actions[i]));
		for (size_t k = 0; k < checks[i].count; k++)
			(void)emit(a, checks[i].code[k]);
	}
}

static uint8_t distance(struct assembly *a, size_t from, struct target to)
{
	size_t n = (to.is_verdict ? a->verdict_at[to.at] : to.at) - from - 1;

	if (n > UINT8_MAX)
		/* beyond the range of a conditional jump; the tables would have to double */
		a->error = -E2BIG;
	return (uint8_t)n;
}

int filter_build(unsigned flags, struct filter *ret)
{
	struct range ranges[LAST_KNOWN + 2];
	struct assembly a = { .count = 0 };
	size_t range_count = make_ranges(flags, ranges), tree_start, tree_end;
	struct sock_filter *code;

	/* A foreign architecture (i386) has its own numbers; all of its calls are refused. */
	(void)emit(&a, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						    offsetof(struct seccomp_data, arch)));
	(void)emit(&a, (struct sock_filter)IF_EQUAL(AUDIT_ARCH_X86_64, 1, 0));
	(void)emit(&a, (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS));
	(void)emit(&a, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						    offsetof(struct seccomp_data, nr)));
	tree_start = a.count;
	emit_tree(&a, ranges, range_count);
	tree_end = a.count;
	emit_verdicts(&a);
	for (size_t i = tree_start; i < tree_end; i++) {
		a.code[i].jt = distance(&a, i, a.if_so[i]);
		a.code[i].jf = distance(&a, i, a.if_not[i]);
	}
	if (a.error)
		return a.error;
	code = malloc(a.count * sizeof(*code));
	if (!code)
		return -ENOMEM;
	memcpy(code, a.code, a.count * sizeof(*code));
	*ret = (struct filter){ code, (unsigned short)a.count };
	return 0;
}

void filter_done(struct filter *filter)
{
	free(filter->code);
	filter->code = NULL;
}

int filter_load(const struct filter *filter)
{
	struct sock_fprog program = { .len = filter->count, .filter = filter->code };

	return SYS_RESULT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
}
