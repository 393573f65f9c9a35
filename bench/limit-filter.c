/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A seccomp allowlist of about 300 rules as a binary tree, built once before anything is timed
 * (like libseccomp's CTL_OPTIMIZE=2): unknown numbers get ENOSYS, refused ones EPERM.
 */
#include "limit-box.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define KNOWN_MAX 462
#define LEAF_RULES 16
#define INSNS_MAX 2048
#define NAMESPACE_FLAGS 0x7e020000

static struct sock_filter insns[INSNS_MAX];
static unsigned short insn_count;
static int allowed[KNOWN_MAX + 1];
static unsigned allowed_count;

static const int refused[] = {
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	SYS_unshare,
	SYS_setns,
	SYS_bpf,
	SYS_perf_event_open,
	SYS_io_uring_setup,
	SYS_io_uring_enter,
	SYS_io_uring_register,
	SYS_userfaultfd,
	SYS_keyctl,
	SYS_add_key,
	SYS_request_key,
	SYS_kexec_load,
	SYS_kexec_file_load,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_open_by_handle_at,
	SYS_fanotify_init,
	SYS_quotactl,
	SYS_quotactl_fd,
	SYS_acct,
	SYS_swapon,
	SYS_swapoff,
	SYS_reboot,
	SYS_iopl,
	SYS_ioperm,
	SYS_modify_ldt,
	SYS_clock_settime,
	SYS_clock_adjtime,
	SYS_adjtimex,
	SYS_settimeofday,
	SYS_syslog,
	SYS_memfd_secret,
	SYS_mbind,
	SYS_set_mempolicy,
	SYS_migrate_pages,
	SYS_move_pages,
	SYS_process_madvise,
	SYS_pidfd_getfd,
	SYS_kcmp,
	SYS_vmsplice,
	SYS_open_tree,
	SYS_move_mount,
	SYS_fsopen,
	SYS_fsconfig,
	SYS_fsmount,
	SYS_fspick,
	SYS_mount_setattr,
	SYS_clone3,
	SYS_lookup_dcookie,
	SYS_vhangup,
	SYS_uselib,
	SYS_ustat,
	SYS_sysfs,
	SYS_nfsservctl,
	SYS_create_module,
	SYS_get_kernel_syms,
	SYS_query_module,
	SYS__sysctl,
	SYS_getpmsg,
	SYS_putpmsg,
	SYS_afs_syscall,
	SYS_tuxcall,
	SYS_security,
	SYS_vserver,
	SYS_epoll_ctl_old,
	SYS_epoll_wait_old,
};

static void emit(uint16_t code, uint8_t jt, uint8_t jf, uint32_t k)
{
	if (insn_count == INSNS_MAX)
		abort();
	insns[insn_count++] = (struct sock_filter){ code, jt, jf, k };
}

static void emit_return(uint32_t action)
{
	emit(BPF_RET | BPF_K, 0, 0, action);
}

static void emit_load(uint32_t offset)
{
	emit(BPF_LD | BPF_W | BPF_ABS, 0, 0, offset);
}

/* The two calls that depend on their arguments. */
static void emit_guards(void)
{
	emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 4, SYS_clone);
	emit_load(offsetof(struct seccomp_data, args[0]));
	emit(BPF_JMP | BPF_JSET | BPF_K, 0, 1, NAMESPACE_FLAGS);
	emit_return(SECCOMP_RET_ERRNO | EPERM);
	emit_return(SECCOMP_RET_ALLOW);
	emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 7, SYS_socket);
	emit_load(offsetof(struct seccomp_data, args[0]));
	emit(BPF_JMP | BPF_JEQ | BPF_K, 4, 0, 1);
	emit(BPF_JMP | BPF_JEQ | BPF_K, 3, 0, 2);
	emit(BPF_JMP | BPF_JEQ | BPF_K, 2, 0, 10);
	emit(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 16);
	emit_return(SECCOMP_RET_ERRNO | EAFNOSUPPORT);
	emit_return(SECCOMP_RET_ALLOW);
}

static void emit_tree(unsigned from, unsigned to)
{
	if (to - from <= LEAF_RULES) {
		for (unsigned i = from; i < to; i++)
			emit(BPF_JMP | BPF_JEQ | BPF_K, (uint8_t)(to - i), 0, (uint32_t)allowed[i]);
		emit_return(SECCOMP_RET_ERRNO | EPERM);
		emit_return(SECCOMP_RET_ALLOW);
		return;
	}
	unsigned middle = from + (to - from) / 2;
	emit(BPF_JMP | BPF_JGE | BPF_K, 0, 1, (uint32_t)allowed[middle]);
	unsigned jump = insn_count;
	emit(BPF_JMP | BPF_JA, 0, 0, 0);
	emit_tree(from, middle);
	insns[jump].k = insn_count - jump - 1;
	emit_tree(middle, to);
}

static bool is_refused(int number)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		if (refused[i] == number)
			return true;
	return number > 334 && number < 424; /* no such calls on x86-64 */
}

struct sock_fprog box_filter(void)
{
	for (int number = 0; number <= KNOWN_MAX; number++)
		if (!is_refused(number) && number != SYS_clone && number != SYS_socket)
			allowed[allowed_count++] = number;
	emit_load(offsetof(struct seccomp_data, arch));
	emit(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64);
	emit_return(SECCOMP_RET_KILL_PROCESS);
	emit_load(offsetof(struct seccomp_data, nr));
	emit(BPF_JMP | BPF_JGE | BPF_K, 0, 1, KNOWN_MAX + 1);
	emit_return(SECCOMP_RET_ERRNO | ENOSYS);
	emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_clone3);
	emit_return(SECCOMP_RET_ERRNO | ENOSYS);
	emit_guards();
	/* The guards' loads are after their own jumps: the number is still in the accumulator. */
	emit_tree(0, allowed_count);
	return (struct sock_fprog){ .len = insn_count, .filter = insns };
}
