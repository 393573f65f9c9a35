/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exhaustion: each bomb runs until the first refusal or to a limit, then reports how far it came.
 */
#include "probe.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static long number(int argc, char **argv, int index, long fallback)
{
	return argc > index ? strtol(argv[index], NULL, 10) : fallback;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A line every 64 MiB: if the kernel kills us, the last one shows how far we came. */
int bomb_mem(int argc, char **argv)
{
	long limit_mb = number(argc, argv, 0, 4096);

	for (long mb = 0; mb < limit_mb; mb++) {
		char *chunk = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (chunk == MAP_FAILED) {
			report(-1, "mem.%ld", mb);
			return 1;
		}
		memset(chunk, 0x5a, 1 << 20);
		if (mb % 64 == 63)
			report(mb + 1, "mem");
	}
	report(limit_mb, "mem.all");
	return 0;
}

int bomb_fork(int argc, char **argv)
{
	long limit = number(argc, argv, 0, 100000);
	long hold_ms = number(argc, argv, 1, 0);
	long made = 0;
	struct timespec hold = { .tv_sec = hold_ms / 1000, .tv_nsec = hold_ms % 1000 * 1000000 };

	while (made < limit) {
		pid_t pid = fork();

		if (pid == 0) {
			pause();
			_exit(0);
		}
		if (pid < 0) {
			report(-1, "fork");
			break;
		}
		made++;
	}
	report(made, "forked");
	nanosleep(&hold, NULL);
	kill(0, SIGKILL); /* the group is ours: exec starts each command in a session of its own */
	return 0;
}

int bomb_fd(int argc, char **argv)
{
	long limit = number(argc, argv, 0, 2000000);
	long made[4] = { 0 };

	for (long i = 0; i < limit; i++) {
		int kind = (int)(i % 4);
		int fd = kind == 0   ? open("/dev/null", O_RDONLY)
			 : kind == 1 ? eventfd(0, 0)
			 : kind == 2 ? (int)syscall(SYS_memfd_create, "x", 0L)
				     : (int)syscall(SYS_epoll_create1, 0L);

		if (fd < 0) {
			report(-1, "fd");
			break;
		}
		made[kind]++;
	}
	report(made[0] + made[1] + made[2] + made[3], "opened");
	return 0;
}

int bomb_pty(int argc, char **argv)
{
	long limit = number(argc, argv, 0, 20000);
	long made = 0;

	while (made < limit) {
		int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY);

		if (fd < 0) {
			report(-1, "pty");
			break;
		}
		made++;
	}
	report(made, "ptys");
	fflush(stdout);
	sleep((unsigned)number(argc, argv, 1, 0));
	return 0;
}

/* bomb-disk PATH MEGABYTES: random bytes, so that compression does not help the attacker or us. */
int bomb_disk(int argc, char **argv)
{
	const char *path = argc > 0 ? argv[0] : "/workspace/fill";
	long limit_mb = number(argc, argv, 1, 1024);
	static char chunk[1 << 20];
	int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
	uint64_t seed = 88172645463325252ULL;
	long long written = 0; /* bytes */

	for (size_t i = 0; i + 8 <= sizeof(chunk); i += 8) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		memcpy(chunk + i, &seed, 8);
	}
	if (fd < 0) {
		report(-1, "disk.open");
		return 1;
	}
	/* Near the limit several writes in a row may be short; only an error is the end. */
	while (written < (long long)limit_mb << 20) {
		ssize_t n = write(fd, chunk, sizeof(chunk));

		if (n <= 0) {
			report(-1, "disk");
			break;
		}
		written += n;
	}
	if (fsync(fd) < 0)
		report(-1, "disk.fsync");
	report((long)(written >> 20), "written_mb");
	return 0;
}

int bomb_inode(int argc, char **argv)
{
	const char *dir = argc > 0 ? argv[0] : "/workspace/inodes";
	long limit = number(argc, argv, 1, 1000000);
	long made = 0;
	int at;

	mkdir(dir, 0755);
	at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (made < limit) {
		char name[256];
		int fd;

		memset(name, 'n', sizeof(name));
		snprintf(name, sizeof(name), "%08ld", made);
		name[strlen(name)] = 'n';
		name[200] = '\0';
		fd = openat(at, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
		if (fd < 0) {
			report(-1, "inode");
			break;
		}
		close(fd);
		made++;
	}
	report(made, "inodes");
	return 0;
}

/* One page touched per 2 MiB: the page tables are larger than the pages. */
int bomb_pagetable(int argc, char **argv)
{
	size_t span = (size_t)number(argc, argv, 0, 2048) << 30;
	volatile char *map = mmap(NULL, span, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (map == MAP_FAILED) {
		report(-1, "pagetable.mmap");
		return 1;
	}
	madvise((void *)(uintptr_t)map, span, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < span; at += 2 << 20) {
		(void)map[at]; /* the zero page: only tables are paid for */
		if ((at >> 30) % 64 == 63 && (at & ((1 << 30) - 1)) == 0)
			report((long)(at >> 30), "pagetable");
	}
	report((long)(span >> 30), "pagetable.all");
	return 0;
}

int bomb_pipe(int argc, char **argv)
{
	long limit = number(argc, argv, 0, 100000);
	static char chunk[1 << 16];
	long filled = 0;

	for (long i = 0; i < limit; i++) {
		int ends[2];

		if (pipe2(ends, O_NONBLOCK) < 0) {
			report(-1, "pipe");
			break;
		}
		fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
		while (write(ends[1], chunk, sizeof(chunk)) > 0)
			filled++;
	}
	report(filled / 16, "pipe_mb");
	return 0;
}

/* CGR-11: orphans by double fork, as fast as possible, for some seconds. */
int bomb_zombie(int argc, char **argv)
{
	uint64_t until = now_ms() + (uint64_t)number(argc, argv, 0, 2) * 1000;
	long made = 0;

	while (now_ms() < until) {
		pid_t pid = fork();

		if (pid == 0) {
			if (fork() == 0)
				_exit(0);
			_exit(0);
		}
		if (pid > 0) {
			waitpid(pid, NULL, 0);
			made++;
		}
	}
	report(made, "orphans");
	return 0;
}

static uint64_t burn_until;

static void *burn(void *arg)
{
	uint64_t *rounds = arg;

	while (now_ms() < burn_until)
		(*rounds)++;
	return NULL;
}

/* bomb-cpu THREADS MS: prints the CPU time the process got. */
int bomb_cpu(int argc, char **argv)
{
	long threads = number(argc, argv, 0, 4);
	long ms = number(argc, argv, 1, 1000);
	pthread_t ids[64];
	uint64_t rounds[64] = { 0 };
	struct timespec used;

	burn_until = now_ms() + (uint64_t)ms;
	for (long i = 0; i < threads && i < 64; i++)
		if (pthread_create(&ids[i], NULL, burn, &rounds[i]) != 0)
			return 1;
	for (long i = 0; i < threads && i < 64; i++)
		pthread_join(ids[i], NULL);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	report((long)(used.tv_sec * 1000 + used.tv_nsec / 1000000), "cpu_ms");
	return 0;
}

int bomb_ipc(int argc, char **argv)
{
	long made = 0;
	int id = -1;

	(void)argc;
	(void)argv;
	for (long i = 0; i < 5000; i++) {
		if (msgget(IPC_PRIVATE, 0600) < 0)
			break;
		made++;
	}
	report(made, "msg");
	for (made = 0; made < 5000; made++)
		if (shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600) < 0)
			break;
	report(made, "shm");
	for (made = 0; made < 5000; made++)
		if (semget(IPC_PRIVATE, 1, IPC_CREAT | 0600) < 0)
			break;
	report(made, "sem");
	id = shmget(IPC_PRIVATE, (size_t)1 << 32, IPC_CREAT | 0600);
	report(id < 0 ? -1 : 0, "shm.4g");
	for (made = 0; made < 2000; made++)
		if (inotify_init1(0) < 0)
			break;
	report(made, "inotify");
	return 0;
}

int bomb_dentry(int argc, char **argv)
{
	long limit = number(argc, argv, 0, 300000);
	struct stat info;
	char path[64];

	for (long i = 0; i < limit; i++) {
		snprintf(path, sizeof(path), "/tmp/no-such-name-%ld", i);
		if (stat(path, &info) == 0)
			return 1;
	}
	report(limit, "dentries");
	return 0;
}

/* CGR-12: stopped processes, vfork holders and signal-ignorers that destroy must still end. */
int bomb_stopped(int argc, char **argv)
{
	long count = number(argc, argv, 0, 50);

	for (long i = 0; i < count; i++) {
		pid_t pid = fork();

		if (pid != 0)
			continue;
		setsid();
		close(1);
		close(2);
		for (int sig = 1; sig < 64; sig++)
			signal(sig, SIG_IGN);
		if (i % 3 == 0)
			raise(SIGSTOP);
		if (i % 3 == 1 && vfork() == 0)
			for (;;)
				pause();
		for (;;)
			pause();
	}
	report(count, "stopped");
	return 0;
}

int bomb_lock(int argc, char **argv)
{
	long limit = number(argc, argv, 0, 200000);
	int fd = open("/tmp/locks", O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	size_t locked = (size_t)number(argc, argv, 1, 256) << 20;
	long made = 0;

	while (made < limit) {
		struct flock lock = { .l_type = F_WRLCK, .l_start = made * 2, .l_len = 1 };

		if (fcntl(fd, F_SETLK, &lock) < 0) {
			report(-1, "lock");
			break;
		}
		made++;
	}
	report(made, "locks");
	report(mlock(mmap(NULL, locked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		     locked),
	       "mlock");
	return 0;
}
