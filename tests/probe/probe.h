/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe runs inside a sandbox as an attacker: it makes raw system calls and prints one line per
 * attempt, "KEY RESULT", where RESULT is "ok:VALUE" or the name of the errno. The tests evaluate
 * it. It is static and small, because it is copied into the sandbox through the stdin of an exec.
 */
#ifndef CAY_TESTS_PROBE_H
#define CAY_TESTS_PROBE_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/syscall.h>

/* Numbers that older headers lack: the filter must know them, libc need not. */
#define NR_OPEN_TREE 428
#define NR_MOVE_MOUNT 429
#define NR_FSOPEN 430
#define NR_FSCONFIG 431
#define NR_FSMOUNT 432
#define NR_FSPICK 433
#define NR_PIDFD_OPEN 434
#define NR_CLONE3 435
#define NR_PIDFD_GETFD 438
#define NR_MOUNT_SETATTR 442
#define NR_MEMFD_SECRET 447
#define NR_FUTEX_REQUEUE 456
#define NR_STATMOUNT 457
#define NR_LISTMOUNT 458
#define NR_OPEN_TREE_ATTR 467

const char *errno_text(int error);
/* Prints KEY and the result of a call that returned ret with errno set on failure. */
void report(long ret, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Runs fn in a child; prints "KEY sig:N" or "KEY timeout" if the child did not report itself. */
void in_child(const char *key, unsigned timeout_ms, void (*fn)(const char *key));

int probe_syscalls(int argc, char **argv);
int probe_sockets(int argc, char **argv);
int probe_abi(int argc, char **argv);
int probe_filter(int argc, char **argv);
int probe_keys(int argc, char **argv);
int probe_clock(int argc, char **argv);
int probe_seccomp(int argc, char **argv);

int probe_clone(int argc, char **argv);
int probe_mounts(int argc, char **argv);
int probe_root(int argc, char **argv);
int probe_handles(int argc, char **argv);
int probe_mknod(int argc, char **argv);
int probe_ioctl(int argc, char **argv);
int probe_init(int argc, char **argv);
int probe_caps(int argc, char **argv);
int probe_kill(int argc, char **argv);
int probe_lease(int argc, char **argv);
int probe_splice(int argc, char **argv);

int bomb_mem(int argc, char **argv);
int bomb_fork(int argc, char **argv);
int bomb_fd(int argc, char **argv);
int bomb_pty(int argc, char **argv);
int bomb_disk(int argc, char **argv);
int bomb_inode(int argc, char **argv);
int bomb_pagetable(int argc, char **argv);
int bomb_pipe(int argc, char **argv);
int bomb_zombie(int argc, char **argv);
int bomb_cpu(int argc, char **argv);
int bomb_ipc(int argc, char **argv);
int bomb_dentry(int argc, char **argv);
int bomb_stopped(int argc, char **argv);
int bomb_lock(int argc, char **argv);

#endif
