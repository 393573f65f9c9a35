/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of the preview bench, cheap enough that the measured time is that of the proxy between
 * them.
 *
 *   preview-probe serve PORT                     /small: 1 KiB; /big?N: N bytes; keep-alive
 *   preview-probe load HOST PORT NAME CLIENTS MS  closed loop of GET /small with Host: NAME
 *   preview-probe fetch HOST PORT NAME BYTES      one GET /big?BYTES
 *   preview-probe sockets HOST PORT NAME COUNT    opens COUNT WebSockets and holds them until EOF
 * on stdin; then one byte goes through each
 *
 * Each prints one line of JSON.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SMALL_BYTES 1024
#define FDS_MAX 65536
#define BLOCK (256 << 10)
#define SAMPLES_MAX 4000000

static char block[BLOCK];

struct peer {
	bool used, raw;
	uint64_t left; /* of the body being sent, or expected */
	size_t have;
	bool body; /* load: the head was received */
	int64_t sent_ns;
	char in[2048];
};
static struct peer peers[FDS_MAX];

static void die(const char *what)
{
	fprintf(stderr, "preview-probe: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static struct sockaddr_in address(const char *host, const char *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };

	if (inet_pton(AF_INET, host, &at.sin_addr) != 1)
		die("address");
	return at;
}

static int dial(const struct sockaddr_in *to)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0)
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void watch(int epoll_fd, int fd, uint32_t events, int op)
{
	struct epoll_event ev = { .events = events, .data.fd = fd };

	if (epoll_ctl(epoll_fd, op, fd, &ev) < 0)
		die("epoll_ctl");
}

/* ---- serve ---- */

static void push(int epoll_fd, int fd)
{
	struct peer *p = &peers[fd];

	while (p->left) {
		size_t want = p->left < BLOCK ? (size_t)p->left : BLOCK;
		ssize_t n = send(fd, block, want, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0) {
			p->left -= (uint64_t)n;
		} else if (errno == EAGAIN) {
			watch(epoll_fd, fd, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
			return;
		} else {
			p->left = 0;
			return;
		}
	}
}

static void answer(int epoll_fd, int fd, const char *head)
{
	static char small[SMALL_BYTES + 256];
	static size_t small_n;
	struct peer *p = &peers[fd];
	const char *big = strstr(head, "/big?"), *eol = strstr(head, "\r\n");
	char text[256];

	if (!small_n) {
		small_n = (size_t)snprintf(small, sizeof(small),
					   "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
					   "Content-Length: %d\r\n\r\n",
					   SMALL_BYTES);
		memset(small + small_n, 'x', SMALL_BYTES);
		small_n += SMALL_BYTES;
	}
	if (strstr(head, "Upgrade: ") || strstr(head, "upgrade: ")) {
		static const char yes[] = "HTTP/1.1 101 Switching Protocols\r\n"
					  "Upgrade: websocket\r\nConnection: upgrade\r\n\r\n";

		p->raw = true;
		(void)!send(fd, yes, sizeof(yes) - 1, MSG_NOSIGNAL);
	} else if (big && eol && big < eol) {
		p->left = strtoull(big + 5, NULL, 10);
		(void)!send(fd, text,
			    (size_t)snprintf(text, sizeof(text),
					     "HTTP/1.1 200 OK\r\nContent-Type: "
					     "application/octet-stream\r\nContent-Length: "
					     "%llu\r\n\r\n",
					     (unsigned long long)p->left),
			    MSG_NOSIGNAL);
		push(epoll_fd, fd);
	} else {
		(void)!send(fd, small, small_n, MSG_NOSIGNAL);
	}
}

static void on_request(int epoll_fd, int fd)
{
	struct peer *p = &peers[fd];
	ssize_t n = recv(fd, p->in + p->have, sizeof(p->in) - 1 - p->have, MSG_DONTWAIT);
	char *end;

	if (n <= 0 && !(n < 0 && errno == EAGAIN)) {
		close(fd);
		p->used = false;
		return;
	}
	if (n <= 0)
		return;
	if (p->raw) {
		(void)!send(fd, p->in, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
		return;
	}
	p->have += (size_t)n;
	p->in[p->have] = '\0';
	while ((end = strstr(p->in, "\r\n\r\n"))) {
		size_t used = (size_t)(end + 4 - p->in);

		*end = '\0';
		answer(epoll_fd, fd, p->in);
		memmove(p->in, p->in + used, p->have - used + 1);
		p->have -= used;
	}
	if (p->have == sizeof(p->in) - 1)
		p->have = 0;
}

static _Noreturn void serve(const char *port)
{
	struct sockaddr_in at = address("127.0.0.1", port);
	int listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);

	setsockopt(listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listen_fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listen_fd, 1024) < 0)
		die("listen");
	watch(epoll_fd, listen_fd, EPOLLIN, EPOLL_CTL_ADD);
	for (;;) {
		struct epoll_event events[256];
		int count = epoll_wait(epoll_fd, events, 256, -1);

		for (int i = 0; i < count; i++) {
			int fd = events[i].data.fd;

			if (fd == listen_fd) {
				int new_fd = accept4(listen_fd, NULL, NULL,
						     SOCK_CLOEXEC | SOCK_NONBLOCK);

				if (new_fd < 0 || new_fd >= FDS_MAX)
					continue;
				setsockopt(new_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
				memset(&peers[new_fd], 0, sizeof(struct peer));
				peers[new_fd].used = true;
				watch(epoll_fd, new_fd, EPOLLIN, EPOLL_CTL_ADD);
				continue;
			}
			if (events[i].events & EPOLLOUT) {
				watch(epoll_fd, fd, EPOLLIN, EPOLL_CTL_MOD);
				push(epoll_fd, fd);
			}
			if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
				on_request(epoll_fd, fd);
		}
	}
}

/* ---- load ---- */

static char request[1024];
static size_t request_n;

static void ask(int fd)
{
	peers[fd].sent_ns = now_ns();
	peers[fd].have = 0;
	peers[fd].body = false;
	if (send(fd, request, request_n, MSG_NOSIGNAL) != (ssize_t)request_n)
		die("send");
}

/* true: the reply is complete. */
static bool on_reply(int fd)
{
	struct peer *p = &peers[fd];
	static char text[65536];
	ssize_t n = recv(fd, text, sizeof(text) - 1, 0);
	char *end, *length;

	if (n <= 0)
		die("recv");
	text[n] = '\0';
	if (!p->body) {
		end = strstr(text, "\r\n\r\n");
		length = strcasestr(text, "content-length: ");
		if (!end || !length || strncmp(text + 9, "200", 3) != 0) {
			errno = EPROTO;
			fprintf(stderr, "%.300s\n", text);
			die("reply");
		}
		p->left = strtoull(length + 16, NULL, 10);
		p->body = true;
		n -= end + 4 - text;
	}
	p->left -= (uint64_t)n;
	return p->left == 0;
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static int load(const struct sockaddr_in *to, int clients, int64_t ms)
{
	float *us = malloc(sizeof(*us) * SAMPLES_MAX);
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	size_t count = 0;
	int64_t begin, end;

	for (int i = 0; i < clients; i++) {
		int fd = dial(to);

		watch(epoll_fd, fd, EPOLLIN, EPOLL_CTL_ADD);
		ask(fd);
	}
	begin = now_ns();
	end = begin + ms * 1000000;
	while (now_ns() < end && count < SAMPLES_MAX) {
		struct epoll_event events[64];
		int n = epoll_wait(epoll_fd, events, 64, 1000);

		for (int i = 0; i < n && count < SAMPLES_MAX; i++) {
			int fd = events[i].data.fd;

			if (!on_reply(fd))
				continue;
			us[count++] = (float)(now_ns() - peers[fd].sent_ns) / 1000;
			ask(fd);
		}
	}
	end = now_ns();
	qsort(us, count, sizeof(*us), by_value);
	printf("{\"requests\":%zu,\"per_sec\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f}\n", count,
	       (double)count * 1e9 / (double)(end - begin), count ? us[count / 2] : 0,
	       count ? us[count * 99 / 100] : 0);
	return 0;
}

static int fetch(const struct sockaddr_in *to, uint64_t bytes)
{
	int fd = dial(to);
	int64_t begin = now_ns();
	uint64_t got = 0;
	ssize_t n;
	char head[4096], *end;

	if (send(fd, request, request_n, MSG_NOSIGNAL) != (ssize_t)request_n)
		die("send");
	n = recv(fd, head, sizeof(head) - 1, 0);
	if (n <= 0)
		die("recv");
	head[n] = '\0';
	end = strstr(head, "\r\n\r\n");
	if (!end)
		die("head");
	got = (uint64_t)(head + n - end - 4);
	while (got < bytes && (n = recv(fd, block, sizeof(block), 0)) > 0)
		got += (uint64_t)n;
	printf("{\"bytes\":%llu,\"mib_per_sec\":%.1f}\n", (unsigned long long)got,
	       (double)got / 1048576 * 1e9 / (double)(now_ns() - begin));
	return got == bytes ? 0 : 1;
}

static int sockets(const struct sockaddr_in *to, int count)
{
	int *fds = calloc((size_t)count, sizeof(*fds)), ok = 0;
	char text[4096];

	for (int i = 0; i < count; i++) {
		fds[i] = dial(to);
		if (send(fds[i], request, request_n, MSG_NOSIGNAL) != (ssize_t)request_n)
			die("send");
		if (recv(fds[i], text, sizeof(text), 0) < 12 || memcmp(text + 9, "101", 3) != 0)
			die("upgrade");
	}
	printf("{\"open\":%d}\n", count);
	fflush(stdout);
	while (read(0, text, sizeof(text)) > 0)
		;
	for (int i = 0; i < count; i++)
		if (send(fds[i], "x", 1, MSG_NOSIGNAL) == 1 && recv(fds[i], text, 1, 0) == 1)
			ok++;
	printf("{\"echoed\":%d}\n", ok);
	return ok == count ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct rlimit files;
	struct sockaddr_in to;
	const char *mode = argc > 1 ? argv[1] : "";

	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (strcmp(mode, "serve") == 0 && argc == 3)
		serve(argv[2]);
	if (argc < 6)
		return 2;
	to = address(argv[2], argv[3]);
	request_n = (size_t)snprintf(
		request, sizeof(request), "GET %s%s HTTP/1.1\r\nHost: %s\r\n%s\r\n",
		strcmp(mode, "fetch") == 0 ? "/big?" : "/small",
		strcmp(mode, "fetch") == 0 ? argv[5] : "", argv[4],
		strcmp(mode, "sockets") == 0 ? "Upgrade: websocket\r\nConnection: Upgrade\r\n"
					       "Sec-WebSocket-Version: 13\r\n"
					       "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
					     : "");
	if (strcmp(mode, "load") == 0 && argc == 7)
		return load(&to, atoi(argv[5]), atoll(argv[6]));
	if (strcmp(mode, "fetch") == 0)
		return fetch(&to, strtoull(argv[5], NULL, 10));
	if (strcmp(mode, "sockets") == 0)
		return sockets(&to, atoi(argv[5]));
	return 2;
}
