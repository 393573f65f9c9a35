/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The direct measurement for bench/exec, without a daemon, and the reader of its streams.
 *
 *   exec-probe bare N PROGRAM ...   N times vfork, execve, waitpid: inside a sandbox, the cost of
 *                                   an exec without daemon and agent
 *   exec-probe pair COMMAND         the shell command's output through a Unix socket pair, counted
 *   exec-probe drain HOST:PORT KEY STREAM [GO]
 *                                   GET STREAM, then POST a line to GO (the stdin of the process
 *                                   that waits for it), then count bytes until the end
 *
 * Each prints one line of JSON. Static, because the first two run in any root file system.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES (256 * 1024)
#define RUNS_MAX 100000
#define WARM_UP 3

static char buffer[READ_BYTES + 1];

static void die(const char *what)
{
	fprintf(stderr, "exec-probe: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* ---- bare: without a daemon ---- */

static int bare(unsigned count, char **argv)
{
	char *env[] = { NULL };
	double *us = calloc(count + 1, sizeof(*us));

	if (!us)
		die("memory");
	for (unsigned i = 0; i < count + WARM_UP; i++) {
		double start = now_us();
		int status;
		pid_t pid = vfork();

		if (pid == 0) {
			execve(argv[0], argv, env);
			_exit(127);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			die("vfork");
		if (status != 0) {
			fprintf(stderr, "exec-probe: %s: status %d\n", argv[0], status);
			return 1;
		}
		if (i >= WARM_UP)
			us[i - WARM_UP] = now_us() - start;
	}
	printf("{\"us\":[");
	for (unsigned i = 0; i < count; i++)
		printf("%s%.1f", i ? "," : "", us[i]);
	printf("]}\n");
	return 0;
}

/* ---- pair ---- */

static void report(uint64_t bytes, double us, bool complete)
{
	printf("{\"bytes\":%llu,\"seconds\":%.6f,\"complete\":%s}\n", (unsigned long long)bytes,
	       us / 1e6, complete ? "true" : "false");
}

static int pair(char *command)
{
	char *argv[] = { "sh", "-c", command, NULL };
	uint64_t bytes = 0;
	int fd[2], status;
	ssize_t n;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0)
		die("socketpair");
	double start = now_us();
	pid_t pid = fork();
	if (pid == 0) {
		(void)dup2(fd[1], 1);
		(void)close(fd[0]);
		(void)close(fd[1]);
		execv("/bin/sh", argv);
		_exit(127);
	}
	(void)close(fd[1]);
	while ((n = read(fd[0], buffer, READ_BYTES)) > 0)
		bytes += (uint64_t)n;
	if (waitpid(pid, &status, 0) != pid)
		die("wait");
	report(bytes, now_us() - start, status == 0);
	return 0;
}

/* ---- drain ---- */

static struct sockaddr_in target;
static const char *key;

static int send_request(const char *method, const char *path, const char *type, const char *body)
{
	char request[2048];
	int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	int len = snprintf(request, sizeof(request),
			   "%s %s HTTP/1.1\r\nHost: %s:%u\r\nAuthorization: Bearer %s\r\n"
			   "Content-Type: %s\r\nContent-Length: %zu\r\n\r\n%s",
			   method, path, inet_ntoa(target.sin_addr), ntohs(target.sin_port), key,
			   type, strlen(body), body);

	if (fd < 0 || connect(fd, (struct sockaddr *)&target, sizeof(target)) < 0)
		die("connect");
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (send(fd, request, (size_t)len, 0) != len)
		die("send");
	return fd;
}

/* Reads the head of a reply and moves the bytes after it to the front. Returns their number. */
static size_t read_head(int fd, const char *want, bool *ret_chunked)
{
	size_t have = 0;
	char *end;

	do {
		ssize_t n = read(fd, buffer + have, READ_BYTES - have);
		if (n <= 0)
			die("answer");
		have += (size_t)n;
		buffer[have] = 0;
		end = strstr(buffer, "\r\n\r\n");
	} while (!end && have < READ_BYTES);
	if (!end || strncmp(buffer, "HTTP/1.1 ", 9) != 0 || strncmp(buffer + 9, want, 3) != 0) {
		fprintf(stderr, "exec-probe: answered %.300s\n", buffer);
		exit(1);
	}
	*end = 0;
	*ret_chunked = strcasestr(buffer, "\r\ntransfer-encoding: chunked") != NULL;
	have -= (size_t)(end + 4 - buffer);
	memmove(buffer, end + 4, have);
	return have;
}

/* Chunked coding, a byte range at a time. */
struct chunked {
	uint64_t payload, left;
	enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_END, CHUNK_DONE } state;
};

static void chunked_feed(struct chunked *c, const char *at, size_t n)
{
	while (n > 0 && c->state != CHUNK_DONE) {
		if (c->state == CHUNK_DATA) {
			size_t take = n < c->left ? n : (size_t)c->left;

			c->payload += take;
			c->left -= take;
			at += take;
			n -= take;
			if (c->left == 0)
				c->state = CHUNK_END;
			continue;
		}
		char byte = *at++;
		n--;
		if (c->state == CHUNK_END) {
			if (byte == '\n')
				c->state = CHUNK_SIZE;
		} else if (byte == '\n') {
			c->state = c->left ? CHUNK_DATA : CHUNK_DONE;
		} else if (byte != '\r') {
			int digit = byte <= '9' ? byte - '0' : (byte | 32) - 'a' + 10;
			c->left = c->left * 16 + (unsigned)digit;
		}
	}
}

static int drain(const char *stream, const char *go)
{
	struct chunked chunks = { .state = CHUNK_SIZE };
	bool chunked, ignored;
	uint64_t bytes = 0;
	int fd = send_request("GET", stream, "text/plain", "");
	size_t have = read_head(fd, "200", &chunked);
	double start = now_us();
	ssize_t n = (ssize_t)have;

	if (go) {
		char *kept = malloc(have + 1);

		if (!kept)
			die("memory");
		memcpy(kept, buffer, have);
		int other = send_request("POST", go, "application/octet-stream", "\n");
		(void)read_head(other, "204", &ignored);
		(void)close(other);
		memcpy(buffer, kept, have);
		free(kept);
	}
	do {
		bytes += (uint64_t)n;
		if (chunked)
			chunked_feed(&chunks, buffer, (size_t)n);
		if (chunks.state == CHUNK_DONE)
			break;
		n = read(fd, buffer, READ_BYTES);
	} while (n > 0);
	report(chunked ? chunks.payload : bytes, now_us() - start,
	       chunked ? chunks.state == CHUNK_DONE : n == 0);
	return 0;
}

static int usage(void)
{
	fprintf(stderr, "usage: exec-probe bare N PROGRAM ... | pair COMMAND | "
			"drain HOST:PORT KEY STREAM [GO]\n");
	return 2;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "";

	if (strcmp(mode, "bare") == 0 && argc >= 4) {
		unsigned long count = strtoul(argv[2], NULL, 10);
		return count > 0 && count <= RUNS_MAX ? bare((unsigned)count, argv + 3) : usage();
	}
	if (strcmp(mode, "pair") == 0 && argc == 3)
		return pair(argv[2]);
	if (strcmp(mode, "drain") == 0 && (argc == 5 || argc == 6)) {
		char *colon = strrchr(argv[2], ':');
		if (!colon)
			return usage();
		*colon = 0;
		target.sin_family = AF_INET;
		target.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
		key = argv[3];
		return inet_aton(argv[2], &target.sin_addr) ? drain(argv[4], argv[5]) : usage();
	}
	return usage();
}
