/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Netlink messages: several in one buffer, sent together and acknowledged one by one. The builder
 * never writes past the end; sending a buffer that overflowed fails.
 */
#ifndef CAY_SYS_NET_NETLINK_H
#define CAY_SYS_NET_NETLINK_H

#include "base/macro.h"

#define NETLINK_BUFFER_SIZE 32768

struct netlink_buffer {
	size_t n;
	size_t message; /* start of the message under construction */
	bool full;
	_Alignas(8) uint8_t data[NETLINK_BUFFER_SIZE];
};

int netlink_open(int protocol, int *ret_fd) _must_check_;
void netlink_init(struct netlink_buffer *b);
/* family: the protocol's struct at the start of every message. */
void netlink_begin(struct netlink_buffer *b, uint16_t type, uint16_t flags, const void *family,
		   size_t size);
void netlink_end(struct netlink_buffer *b);
void netlink_attr(struct netlink_buffer *b, uint16_t type, const void *data, size_t size);
void netlink_u32(struct netlink_buffer *b, uint16_t type, uint32_t value);
void netlink_be32(struct netlink_buffer *b, uint16_t type, uint32_t value);
void netlink_text(struct netlink_buffer *b, uint16_t type, const char *text);
size_t netlink_nest(struct netlink_buffer *b, uint16_t type);
void netlink_unnest(struct netlink_buffer *b, size_t at);
/*
 * Sends all messages and waits for the acknowledgement of the last one with NLM_F_ACK. Returns 0 or
 * the first error.
 */
int netlink_talk(int fd, struct netlink_buffer *b) _must_check_;
/* Sends one request and calls each for every message of the reply. */
int netlink_dump(int fd, struct netlink_buffer *b,
		 void (*each)(void *arg, uint16_t type, const void *data, size_t size),
		 void *arg) _must_check_;

#endif
