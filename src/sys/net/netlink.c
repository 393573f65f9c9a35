/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/net/netlink.h"

#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <arpa/inet.h>

/*
 * the kernel replies within the call; the timeout only turns a bug into an error instead of a hang
 */
#define ANSWER_SEC 5

int netlink_open(int protocol, int *ret_fd)
{
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	struct sockaddr_nl address = { .nl_family = AF_NETLINK };
	struct timeval limit = { .tv_sec = ANSWER_SEC };
	int one = 1;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) < 0)
		return -errno;
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof(one));
	*ret_fd = TAKE_FD(fd);
	return 0;
}

void netlink_init(struct netlink_buffer *b)
{
	b->n = b->message = 0;
	b->full = false;
}

static void *take(struct netlink_buffer *b, size_t size)
{
	size_t whole = NLMSG_ALIGN(size);
	void *at = b->data + b->n;

	if (b->full || whole > sizeof(b->data) - b->n) {
		b->full = true;
		return NULL;
	}
	memset(at, 0, whole);
	b->n += whole;
	return at;
}

void netlink_begin(struct netlink_buffer *b, uint16_t type, uint16_t flags, const void *family,
		   size_t size)
{
	size_t at = b->n;
	struct nlmsghdr *head = take(b, sizeof(*head));
	void *first = take(b, size);

	if (!head || !first)
		return;
	b->message = at;
	head->nlmsg_type = type;
	head->nlmsg_flags = flags | NLM_F_REQUEST;
	memcpy(first, family, size);
}

void netlink_end(struct netlink_buffer *b)
{
	struct nlmsghdr *head = (struct nlmsghdr *)(void *)(b->data + b->message);

	if (!b->full)
		head->nlmsg_len = (uint32_t)(b->n - b->message);
}

void netlink_attr(struct netlink_buffer *b, uint16_t type, const void *data, size_t size)
{
	struct nlattr *attr = take(b, sizeof(*attr) + size);

	if (!attr)
		return;
	attr->nla_type = type;
	attr->nla_len = (uint16_t)(sizeof(*attr) + size);
	if (size)
		memcpy(attr + 1, data, size);
}

void netlink_u32(struct netlink_buffer *b, uint16_t type, uint32_t value)
{
	netlink_attr(b, type, &value, sizeof(value));
}

void netlink_be32(struct netlink_buffer *b, uint16_t type, uint32_t value)
{
	netlink_u32(b, type, htonl(value));
}

void netlink_text(struct netlink_buffer *b, uint16_t type, const char *text)
{
	netlink_attr(b, type, text, strlen(text) + 1);
}

size_t netlink_nest(struct netlink_buffer *b, uint16_t type)
{
	size_t at = b->n;

	netlink_attr(b, type | NLA_F_NESTED, NULL, 0);
	return at;
}

void netlink_unnest(struct netlink_buffer *b, size_t at)
{
	struct nlattr *attr = (struct nlattr *)(void *)(b->data + at);

	if (!b->full)
		attr->nla_len = (uint16_t)(b->n - at);
}

static int send_all(int fd, const struct netlink_buffer *b)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };

	if (b->full)
		return -EMSGSIZE;
	if (sendto(fd, b->data, b->n, 0, (struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return -errno;
	return 0;
}

/* Numbers all messages; the acknowledgement of the last one ends the exchange. */
static uint32_t number_all(struct netlink_buffer *b)
{
	static uint32_t next;
	uint32_t last = 0;
	int rest = (int)b->n;

	for (struct nlmsghdr *head = (void *)b->data; NLMSG_OK(head, rest);
	     head = NLMSG_NEXT(head, rest)) {
		head->nlmsg_seq = ++next;
		if (head->nlmsg_flags & NLM_F_ACK)
			last = next;
	}
	return last;
}

int netlink_talk(int fd, struct netlink_buffer *b)
{
	_Alignas(8) uint8_t bytes[8192];
	uint32_t last = b->full ? 0 : number_all(b);
	uint32_t first_seq = b->full ? 0 : ((struct nlmsghdr *)(void *)b->data)->nlmsg_seq;
	int first = 0, r = send_all(fd, b);
	bool done = false;

	if (r < 0)
		return r;
	while (!done) {
		ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
		int rest = (int)n;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		for (struct nlmsghdr *head = (void *)bytes; NLMSG_OK(head, rest);
		     head = NLMSG_NEXT(head, rest)) {
			const struct nlmsgerr *told = NLMSG_DATA(head);

			/* Skip replies that belong to an earlier exchange. */
			if (head->nlmsg_type != NLMSG_ERROR ||
			    head->nlmsg_seq - first_seq > last - first_seq)
				continue;
			if (told->error && !first)
				first = told->error;
			done = done || head->nlmsg_seq == last;
		}
	}
	return first;
}

int netlink_dump(int fd, struct netlink_buffer *b,
		 void (*each)(void *arg, uint16_t type, const void *data, size_t size), void *arg)
{
	_Alignas(8) uint8_t bytes[32768];
	int r = send_all(fd, b);

	while (r >= 0) {
		ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
		int rest = (int)n;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		for (struct nlmsghdr *head = (void *)bytes; NLMSG_OK(head, rest);
		     head = NLMSG_NEXT(head, rest)) {
			if (head->nlmsg_type == NLMSG_DONE)
				return 0;
			if (head->nlmsg_type == NLMSG_ERROR)
				return ((const struct nlmsgerr *)NLMSG_DATA(head))->error;
			each(arg, head->nlmsg_type, NLMSG_DATA(head), NLMSG_PAYLOAD(head, 0));
		}
	}
	return r;
}
