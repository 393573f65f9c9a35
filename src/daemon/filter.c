/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's own seccomp filter: an allowlist of the calls that libuv, SQLite, glibc's threads
 * and this program need. Other calls fail with EPERM; calls that only an attacker would make kill
 * the process.
 */
#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "daemon/isolate.h"

static const int allowed[] = {
	/* memory and threads */
	SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(futex),
	SCMP_SYS(set_robust_list), SCMP_SYS(get_robust_list), SCMP_SYS(rseq), SCMP_SYS(sched_yield),
	SCMP_SYS(sched_getaffinity), SCMP_SYS(gettid), SCMP_SYS(exit), SCMP_SYS(exit_group),
	SCMP_SYS(membarrier), SCMP_SYS(arch_prctl), SCMP_SYS(set_tid_address),
	/* time */
	SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(clock_nanosleep),
	SCMP_SYS(nanosleep), SCMP_SYS(gettimeofday), SCMP_SYS(time),
	/* signals, to itself */
	SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sigaltstack), SCMP_SYS(restart_syscall), SCMP_SYS(getpid), SCMP_SYS(getppid),
	SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(tgkill),
	SCMP_SYS(getrandom), SCMP_SYS(getrusage), SCMP_SYS(sysinfo), SCMP_SYS(uname),
	SCMP_SYS(getrlimit),
	/* descriptors */
	SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(pread64),
	SCMP_SYS(pwrite64), SCMP_SYS(close), SCMP_SYS(dup), SCMP_SYS(dup2), SCMP_SYS(dup3),
	SCMP_SYS(fcntl), SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait), SCMP_SYS(eventfd2),
	SCMP_SYS(pipe2), SCMP_SYS(pselect6),
	/* files: its own state, descriptions of templates */
	SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(stat), SCMP_SYS(fstat), SCMP_SYS(lstat),
	SCMP_SYS(newfstatat), SCMP_SYS(statx), SCMP_SYS(access), SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2), SCMP_SYS(lseek), SCMP_SYS(fsync), SCMP_SYS(fdatasync),
	SCMP_SYS(ftruncate), SCMP_SYS(fallocate), SCMP_SYS(unlink), SCMP_SYS(unlinkat),
	SCMP_SYS(rename), SCMP_SYS(renameat), SCMP_SYS(renameat2), SCMP_SYS(mkdir),
	SCMP_SYS(mkdirat), SCMP_SYS(getdents64), SCMP_SYS(readlink), SCMP_SYS(readlinkat),
	SCMP_SYS(getcwd), SCMP_SYS(flock), SCMP_SYS(fchmod), SCMP_SYS(fstatfs), SCMP_SYS(statfs),
	/* existing sockets, and new ones of three families (below) */
	SCMP_SYS(bind), SCMP_SYS(listen), SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(connect),
	SCMP_SYS(getsockname), SCMP_SYS(getpeername), SCMP_SYS(setsockopt), SCMP_SYS(getsockopt),
	SCMP_SYS(sendto), SCMP_SYS(recvfrom), SCMP_SYS(sendmsg), SCMP_SYS(recvmsg),
	SCMP_SYS(sendmmsg), /* glibc's resolver queries both families at once */
	SCMP_SYS(shutdown),
	/* pidfds from the warden are only polled */
};

/* A program that only serves HTTP never calls these: the process was compromised. */
static const int deadly[] = {
	SCMP_SYS(ptrace),
	SCMP_SYS(mount),
	SCMP_SYS(umount2),
	SCMP_SYS(setns),
	SCMP_SYS(unshare),
	SCMP_SYS(pivot_root),
	SCMP_SYS(chroot),
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(kexec_load),
	SCMP_SYS(bpf),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(userfaultfd),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(keyctl),
	SCMP_SYS(add_key),
	SCMP_SYS(open_by_handle_at),
	SCMP_SYS(reboot),
	SCMP_SYS(swapon),
};

static int add_all(scmp_filter_ctx ctx, uint32_t action, const int *calls, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int r = seccomp_rule_add(ctx, action, calls[i], 0);

		if (r < 0 && r != -EEXIST)
			return r;
	}
	return 0;
}

static int add_sockets(scmp_filter_ctx ctx)
{
	static const unsigned families[] = { AF_UNIX, AF_INET, AF_INET6 };

	for (size_t i = 0; i < ARRAY_LEN(families); i++) {
		int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
					 SCMP_A0(SCMP_CMP_EQ, families[i]));

		if (r < 0)
			return r;
	}
	/* The plain end of a TLS connection. */
	return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1,
				SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
}

/*
 * Only threads: a clone without CLONE_THREAD is a process, or with a namespace flag worse. clone3
 * has its flags behind a pointer; glibc falls back to clone on ENOSYS.
 */
static int add_threads(scmp_filter_ctx ctx)
{
	const unsigned long namespaces = CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET |
					 CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
	int r = seccomp_rule_add(
		ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
		SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD | namespaces, CLONE_THREAD));

	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	return r;
}

/* Injected code usually starts in pages that are writable and executable. */
static int add_narrow(scmp_filter_ctx ctx)
{
	int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
				 SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));

	/* A library that is loaded later could not run either; all are loaded at the start. */
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
				     SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
				     SCMP_A1(SCMP_CMP_EQ, 0x5421 /* FIONBIO */));
	if (r == 0) /* the resolver checks the length of an answer */
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
				     SCMP_A1(SCMP_CMP_EQ, 0x541b /* FIONREAD */));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
				     SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
	/* Reading its own limits, as glibc does for a thread's stack. */
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 2,
				     SCMP_A0(SCMP_CMP_EQ, 0), SCMP_A2(SCMP_CMP_EQ, 0));
	return r;
}

static int build(scmp_filter_ctx ctx)
{
	int r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);

	if (r == 0)
		r = add_all(ctx, SCMP_ACT_ALLOW, allowed, ARRAY_LEN(allowed));
	if (r == 0)
		r = add_sockets(ctx);
	if (r == 0)
		r = add_threads(ctx);
	if (r == 0)
		r = add_narrow(ctx);
	if (r == 0)
		r = add_all(ctx, SCMP_ACT_KILL_PROCESS, deadly, ARRAY_LEN(deadly));
	return r;
}

/*
 * With the local engine every command inherits this filter, and a command may be any program: only
 * calls that no program needs can be refused.
 */
static int build_for_exec(scmp_filter_ctx ctx)
{
	return add_all(ctx, SCMP_ACT_ERRNO(EPERM), deadly, ARRAY_LEN(deadly));
}

int isolate_filter(bool allow_exec, struct err *err)
{
	scmp_filter_ctx ctx = seccomp_init(allow_exec ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(EPERM));
	int r = -ENOMEM;

	if (ctx) {
		r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
		if (r == 0)
			r = allow_exec ? build_for_exec(ctx) : build(ctx);
		if (r == 0)
			r = seccomp_load(ctx);
		seccomp_release(ctx);
	}
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "cannot install the seccomp filter") : 0;
}
