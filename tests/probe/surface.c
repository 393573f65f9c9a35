/* SPDX-License-Identifier: Apache-2.0 */
/* The system call surface: numbers, socket families, foreign ABIs, filters, keys, clocks. */
#include "probe.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>

#define SYSCALL_LAST 600
#define X32_BIT 0x40000000L

static int current_number;

static void one_syscall(const char *key)
{
	int own[2];
	long ret;

	/*
	 * Descriptor 0 is what fchmod(0, 0) and similar calls act on: never a node that others use.
	 */
	if (pipe(own) == 0)
		dup2(own[0], 0);
	setsid(); /* vhangup and similar must not reach a terminal of others */
	ret = syscall(current_number, 0L, 0L, 0L, 0L, 0L, 0L);
	report(ret, "%s", key);
}

/* Calls that end, stop or duplicate the caller yield no result; their success is not a finding. */
static int is_skipped(int number)
{
	static const int skipped[] = { SYS_exit,	  SYS_exit_group,   SYS_pause,
				       SYS_rt_sigsuspend, SYS_fork,	    SYS_vfork,
				       SYS_clone,	  SYS_rt_sigreturn, SYS_sync };

	for (size_t i = 0; i < sizeof(skipped) / sizeof(skipped[0]); i++)
		if (skipped[i] == number)
			return 1;
	return 0;
}

static void sweep(void)
{
	for (int number = 0; number <= SYSCALL_LAST; number++) {
		char key[24];

		if (is_skipped(number))
			continue;
		snprintf(key, sizeof(key), "%d", number);
		current_number = number;
		in_child(key, 30, one_syscall);
	}
}

static void *sweep_in_thread(void *arg)
{
	int *gate = arg;
	char byte;

	/* This thread exists before the main thread changes its own privileges. */
	if (read(gate[0], &byte, 1) == 1)
		sweep();
	return NULL;
}

static void sweep_in_handler(int sig)
{
	(void)sig;
	sweep();
}

/* SYS-01 plain; SYS-02: "thread", "handler", "nnp", "exec" must give the same table. */
int probe_syscalls(int argc, char **argv)
{
	const char *how = argc > 0 ? argv[0] : "plain";
	pthread_t thread;
	int gate[2];

	if (strcmp(how, "exec") == 0) {
		execl("/proc/self/exe", "probe", "syscalls", (char *)NULL);
		return 1;
	}
	if (strcmp(how, "nnp") == 0)
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (strcmp(how, "handler") == 0) {
		signal(SIGUSR1, sweep_in_handler);
		raise(SIGUSR1);
		return 0;
	}
	if (strcmp(how, "thread") != 0) {
		sweep();
		return 0;
	}
	if (pipe(gate) < 0 || pthread_create(&thread, NULL, sweep_in_thread, gate) != 0)
		return 1;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (write(gate[1], "", 1) != 1)
		return 1;
	pthread_join(thread, NULL);
	return 0;
}

/* Only opens; nothing is ever bound, connected or sent. */
int probe_sockets(int argc, char **argv)
{
	static const int types[] = {
		SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_RDM, SOCK_SEQPACKET, 10
	};

	(void)argc;
	(void)argv;
	for (int family = 0; family <= 47; family++) {
		for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
			int pair[2];
			long fd = syscall(SYS_socket, family, types[i], 0);

			report(fd < 0 ? -1 : 0, "socket.%d.%d", family, types[i]);
			if (fd >= 0)
				close((int)fd);
			fd = syscall(SYS_socketpair, family, types[i], 0, pair);
			report(fd, "pair.%d.%d", family, types[i]);
			if (fd == 0) {
				close(pair[0]);
				close(pair[1]);
			}
		}
	}
	for (int protocol = 0; protocol <= 23; protocol++) {
		long fd = syscall(SYS_socket, AF_NETLINK, SOCK_RAW, protocol);

		report(fd < 0 ? -1 : 0, "netlink.%d", protocol);
		if (fd >= 0)
			close((int)fd);
	}
	/* The kernel ignores the upper half of an int argument, and a filter must do the same. */
	report(syscall(SYS_socket, 0x100000000L | 40, SOCK_STREAM, 0) < 0 ? -1 : 0, "high.40");
	report(syscall(SYS_socket, 0x100000000L | 38, SOCK_SEQPACKET, 0) < 0 ? -1 : 0, "high.38");
	report(syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 0x100000000L | 6) < 0 ? -1 : 0,
	       "high.netlink6");
	report(syscall(SYS_socket, AF_INET, SOCK_STREAM, 262) < 0 ? -1 : 0, "mptcp");
	report(syscall(SYS_socket, AF_INET, SOCK_DGRAM, 1) < 0 ? -1 : 0, "ping");
	report(syscall(SYS_socket, AF_INET, SOCK_STREAM, 132) < 0 ? -1 : 0, "sctp");
	return 0;
}

#ifdef __x86_64__
static void int80_getpid(const char *key)
{
	long ret;

	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
	errno = ret < 0 ? (int)-ret : 0;
	report(ret < 0 ? -1 : ret, "%s", key);
}

/* socketcall(SYS_SOCKET, {AF_VSOCK, SOCK_STREAM, 0}) is what makes i386 unfilterable. */
static void int80_socketcall(const char *key)
{
	long ret;
	static uint32_t args[3] = { 40, 1, 0 };

	__asm__ volatile("int $0x80"
			 : "=a"(ret)
			 : "a"(102L), "b"(1L), "c"((long)(uintptr_t)args)
			 : "memory", "r8", "r9", "r10", "r11");
	errno = ret < 0 ? (int)-ret : 0;
	report(ret < 0 ? -1 : 0, "%s", key);
}
#endif

static void x32_getpid(const char *key)
{
	report(syscall(X32_BIT | SYS_getpid), "%s", key);
}

static void x32_ptrace(const char *key)
{
	report(syscall(X32_BIT | 521, 0L, 0L, 0L, 0L), "%s", key);
}

/*
 * A 32-bit program by its bytes (no 32-bit toolchain is needed):
 *   mov $1,%eax; mov $42,%ebx; int $0x80; ud2      = exit(42) if the i386 table is reachable
 */
static const unsigned char elf32[] = { 0x7f, 'E', 'L', 'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
				       0, 3, 0, 1, 0, 0, 0, 0x54, 0x80, 0x04, 0x08, 52, 0, 0, 0, 0,
				       0, 0, 0, 0, 0, 0, 0, 52, 0, 32, 0, 1, 0, 0, 0, 0, 0, 0,
				       0, /* program header */
				       1, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 4, 8, 0, 0x80, 4, 8, 0x62,
				       0, 0, 0, 0x62, 0, 0, 0, 5, 0, 0, 0, 0, 0x10, 0, 0,
				       /* code at 0x54 */
				       0xb8, 1, 0, 0, 0, 0xbb, 42, 0, 0, 0, 0xcd, 0x80, 0x0f,
				       0x0b };

static void run_elf32(const char *key)
{
	char path[] = "/tmp/elf32.XXXXXX";
	char *const argv[] = { path, NULL };
	int fd = mkstemp(path);
	int status;
	pid_t pid;

	if (fd < 0 || write(fd, elf32, sizeof(elf32)) != (ssize_t)sizeof(elf32)) {
		report(-1, "%s.write", key);
		return;
	}
	fchmod(fd, 0755);
	close(fd);
	pid = fork();
	if (pid == 0) {
		execv(path, argv);
		_exit(errno == ENOEXEC ? 43 : 44);
	}
	waitpid(pid, &status, 0);
	unlink(path);
	if (WIFSIGNALED(status))
		printf("%s sig:%d\n", key, WTERMSIG(status));
	else
		printf("%s exit:%d\n", key, WEXITSTATUS(status));
	fflush(stdout);
}

int probe_abi(int argc, char **argv)
{
	(void)argc;
	(void)argv;
#ifdef __x86_64__
	in_child("int80.getpid", 500, int80_getpid);
	in_child("int80.socketcall", 500, int80_socketcall);
#endif
	in_child("x32.getpid", 500, x32_getpid);
	in_child("x32.ptrace", 500, x32_ptrace);
	in_child("elf32", 1000, run_elf32);
	report(getpid() > 0 ? 0 : -1, "native");
	return 0;
}

/* The dangerous calls with arguments that pass the first check. */
int probe_filter(int argc, char **argv)
{
	char page[128];

	(void)argc;
	(void)argv;
	memset(page, 0, sizeof(page));
	report(syscall(425, 4L, page), "io_uring_setup");
	report(syscall(SYS_userfaultfd, 1L), "userfaultfd");
	report(syscall(SYS_bpf, 0L, page, sizeof(page)), "bpf");
	report(syscall(SYS_perf_event_open, page, 0L, -1L, -1L, 0L), "perf_event_open");
	report(syscall(NR_MEMFD_SECRET, 0L), "memfd_secret");
	report(syscall(NR_FUTEX_REQUEUE, page, 0L, 0L, 0L), "futex_requeue");
	report(syscall(SYS_fanotify_init, 0L, 0L), "fanotify_init");
	report(syscall(SYS_syslog, 3L, page, sizeof(page)), "syslog");
	report(syscall(SYS_init_module, page, 1L, ""), "init_module");
	report(syscall(SYS_finit_module, 0L, "", 0L), "finit_module");
	report(syscall(SYS_delete_module, "x", 0L), "delete_module");
	report(syscall(SYS_kexec_load, 0L, 0L, NULL, 0L), "kexec_load");
	report(syscall(SYS_acct, "/tmp/acct"), "acct");
	report(syscall(SYS_swapon, "/tmp/none", 0L), "swapon");
	report(syscall(SYS_swapoff, "/tmp/none"), "swapoff");
	report(syscall(SYS_quotactl, 0x80000700L, "/", 0L, page), "quotactl");
	report(syscall(SYS_iopl, 3L), "iopl");
	report(syscall(SYS_ioperm, 0x80L, 1L, 1L), "ioperm");
	report(syscall(SYS_modify_ldt, 0L, page, 16L), "modify_ldt");
	report(syscall(SYS_kcmp, getpid(), getpid(), 0L, 0L, 0L), "kcmp");
	report(syscall(SYS_lookup_dcookie, 0L, page, 16L), "lookup_dcookie");
	report(syscall(SYS_move_pages, 0L, 0L, NULL, NULL, NULL, 0L), "move_pages");
	report(syscall(SYS_migrate_pages, 0L, 0L, NULL, NULL), "migrate_pages");
	report(syscall(SYS_mbind, NULL, 0L, 0L, NULL, 0L, 0L), "mbind");
	report(syscall(SYS_set_mempolicy, 0L, NULL, 0L), "set_mempolicy");
	report(syscall(SYS_vhangup), "vhangup");
	report(syscall(SYS_personality, 0x0400000L), "personality.read_implies_exec");
	report(syscall(SYS_personality, 0xffffffffL), "personality.query");
	report(syscall(SYS_sethostname, "x", 1L), "sethostname");
	report(syscall(SYS_setdomainname, "x", 1L), "setdomainname");
	report(syscall(459, 0L, page, page, 0L), "lsm_get_self_attr");
	report(syscall(NR_STATMOUNT, page, page, 16L, 0L), "statmount");
	report(syscall(NR_LISTMOUNT, page, page, 1L, 0L), "listmount");
	return 0;
}

int probe_keys(int argc, char **argv)
{
	char buf[64];

	(void)argc;
	(void)argv;
	report(syscall(SYS_add_key, "user", "cay-probe", "secret", 6L, -4L), "add_key.user");
	report(syscall(SYS_add_key, "user", "cay-probe", "secret", 6L, -2L), "add_key.process");
	report(syscall(SYS_request_key, "user", "cay-probe", NULL, -4L), "request_key");
	report(syscall(SYS_keyctl, 0L, -3L, 1L), "keyctl.session");
	report(syscall(SYS_keyctl, 0L, -4L, 1L), "keyctl.user");
	report(syscall(SYS_keyctl, 11L, -5L, buf, sizeof(buf)), "keyctl.read");
	return 0;
}

int probe_clock(int argc, char **argv)
{
	struct timespec now = { 0 };
	struct timespec past = { .tv_sec = 86400 };
	struct timex adjust = { .modes = ADJ_OFFSET, .offset = 1 };

	(void)argc;
	(void)argv;
	clock_gettime(CLOCK_REALTIME, &now);
	report(syscall(SYS_clock_settime, CLOCK_REALTIME, &past), "clock_settime");
	report(syscall(SYS_settimeofday, &past, NULL), "settimeofday");
	report(syscall(SYS_adjtimex, &adjust), "adjtimex");
	report(syscall(SYS_clock_adjtime, CLOCK_REALTIME, &adjust), "clock_adjtime");
	report(open("/proc/self/timens_offsets", O_WRONLY) < 0 ? -1 : 0, "timens_offsets.open");
	printf("before ok:%lld\n", (long long)now.tv_sec);
	return 0;
}

/* SYS-04: a process's own filter with a listener may bind only its own children. */
static void with_listener(const char *key)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDOM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 4, .filter = code };
	long ret;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	ret = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
		      &program);
	report(ret < 0 ? -1 : 0, "%s.listener", key);
	if (ret < 0)
		report(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0L, &program), "%s.plain",
		       key);
	report(syscall(SYS_getppid) < 0 ? -1 : 0, "%s.self", key);
}

int probe_seccomp(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	in_child("filter", 1000, with_listener);
	/* A filter that allows everything must not allow more than ours. */
	report(syscall(SYS_getppid) < 0 ? -1 : 0, "parent.getppid");
	report(syscall(425, 4L, NULL), "parent.io_uring");
	return 0;
}
