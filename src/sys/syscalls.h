/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls and constants that Debian 12's libc does not wrap or name. They return -errno. All
 * are inline and touch no global except errno, so a child that shares the warden's memory can use
 * them.
 */
#ifndef CAY_SYS_SYSCALLS_H
#define CAY_SYS_SYSCALLS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "base/macro.h"

#define SYS_RESULT(call)                           \
	({                                         \
		long sys_r_ = (call);              \
		sys_r_ < 0 ? -errno : (int)sys_r_; \
	})

static inline int sys_clone3(struct clone_args *args)
{
	return SYS_RESULT(syscall(SYS_clone3, args, sizeof(*args)));
}

/*
 * clone3 whose child calls fn(arg) and never returns. With args->stack set, a child that shares our
 * memory (CLONE_VM) has a separate stack, which a C wrapper around the call could not provide.
 */
static inline int sys_clone3_call(struct clone_args *args, int (*fn)(void *arg), void *arg)
{
	register int (*child_fn)(void *) __asm__("r12") = fn;
	register void *child_arg __asm__("r13") = arg;
	long ret;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r13, %%rdi\n\t"
			 "call *%%r12\n\t"
			 "mov %%eax, %%edi\n\t"
			 "mov %[exit], %%eax\n\t"
			 "syscall\n\t"
			 "hlt\n"
			 "1:"
			 : "=a"(ret)
			 : "a"(SYS_clone3), "D"(args), "S"(sizeof(*args)), "r"(child_fn),
			   "r"(child_arg), [exit] "i"(SYS_exit_group)
			 : "rcx", "r11", "memory");
	return (int)ret; /* already -errno */
}

static inline int sys_openat2(int dir_fd, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = { .flags = flags, .resolve = resolve };

	return SYS_RESULT(syscall(SYS_openat2, dir_fd, path, &how, sizeof(how)));
}

static inline int sys_pidfd_open(int pid)
{
	return SYS_RESULT(syscall(SYS_pidfd_open, pid, 0));
}

static inline int sys_pidfd_kill(int pidfd, int signum)
{
	return SYS_RESULT(syscall(SYS_pidfd_send_signal, pidfd, signum, NULL, 0));
}

static inline int sys_open_tree(int dir_fd, const char *path, unsigned flags)
{
	return SYS_RESULT(open_tree(dir_fd, path, flags));
}

static inline int sys_move_mount(int from_fd, const char *from, int to_fd, const char *to,
				 unsigned flags)
{
	return SYS_RESULT(move_mount(from_fd, from, to_fd, to, flags));
}

static inline int sys_mount_setattr(int fd, const char *path, unsigned flags,
				    struct mount_attr *attr)
{
	return SYS_RESULT(mount_setattr(fd, path, flags, attr, sizeof(*attr)));
}

static inline int sys_close_range(unsigned first, unsigned last)
{
	return SYS_RESULT(syscall(SYS_close_range, first, last, 0));
}

#endif
