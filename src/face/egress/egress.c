/* SPDX-License-Identifier: Apache-2.0 */
#include "face/egress/egress.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "face/egress/private.h"

#define TICK_MS 1000
#define BACKLOG 512

struct sockaddr_in egress_sockaddr(uint32_t address, uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(address) };
}

static void on_tick(void *arg)
{
	proxy_tick(arg);
	proxied_tick(arg);
	dns_tcp_tick(arg);
}

/* The address exists only while there are links, so the socket is bound with IP_FREEBIND. */
static int open_port(uint32_t address, uint16_t port, int type, int *ret_fd)
{
	_cleanup_close_ int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_in at = egress_sockaddr(address, port);
	int one = 1;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &one, sizeof(one)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    (type == SOCK_STREAM && listen(fd, BACKLOG) < 0))
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int watch(struct egress_face *face, int fd, loop_watch_fn fn, struct loop_watch **ret)
{
	int r = loop_watch_new(face->config.loop, fd, fn, face, ret);

	return r < 0 ? r : loop_watch_set(*ret, LOOP_READ);
}

static void close_port(struct loop_watch **watch, int *fd)
{
	loop_watch_free(*watch);
	*watch = NULL;
	if (*fd >= 0)
		(void)close(TAKE_FD(*fd));
}

static void close_ports(struct egress_face *face)
{
	close_port(&face->proxy_watch, &face->proxy_fd);
	close_port(&face->dns_watch, &face->dns_fd);
	close_port(&face->dns_tcp_watch, &face->dns_tcp_fd);
}

static int open_ports(struct egress_face *face, uint32_t gateway, uint16_t proxy_port,
		      uint16_t dns_port)
{
	int r = open_port(gateway, proxy_port, SOCK_STREAM, &face->proxy_fd);

	if (r >= 0)
		r = open_port(gateway, dns_port, SOCK_DGRAM, &face->dns_fd);
	if (r >= 0)
		r = open_port(gateway, dns_port, SOCK_STREAM, &face->dns_tcp_fd);
	if (r >= 0)
		r = watch(face, face->proxy_fd, proxy_on_connection, &face->proxy_watch);
	if (r >= 0)
		r = watch(face, face->dns_fd, resolver_on_question, &face->dns_watch);
	if (r >= 0)
		r = watch(face, face->dns_tcp_fd, dns_tcp_on_connection, &face->dns_tcp_watch);
	return r;
}

void egress_start_tick(struct egress_face *face)
{
	if (face->ticking)
		return;
	face->ticking = true;
	loop_timer_set(face->tick, TICK_MS, TICK_MS);
}

void egress_serve(struct egress_face *face, uint32_t gateway, uint16_t proxy_port,
		  uint16_t dns_port)
{
	int r;

	if (face->gateway == gateway)
		return;
	close_ports(face);
	r = open_ports(face, gateway, proxy_port, dns_port);
	if (r < 0) {
		log_error("sandboxes' network cannot be served on ports %u and %u: %s", proxy_port,
			  dns_port, strerror(-r));
		close_ports(face);
		face->gateway = 0;
		return;
	}
	face->gateway = gateway;
	egress_start_tick(face);
}

void egress_set_service(struct egress_face *face, struct service *service)
{
	face->config.service = service;
}

int egress_new(const struct egress_config *config, struct egress_face **ret, struct err *err)
{
	struct egress_face *face = calloc(1, sizeof(*face));

	if (!face)
		return err_set(err, ERR_INTERNAL, "out of memory");
	face->config = *config;
	face->proxy_fd = face->dns_fd = face->dns_tcp_fd = -1;
	slot_init(&face->relays, RELAYS_MAX);
	slot_init(&face->lookups, LOOKUPS_MAX);
	slot_init(&face->askers, RELAYS_PER_SANDBOX);
	slot_init(&face->greetings, GREETINGS_MAX);
	if (resolver_servers(face, err) < 0 || relay_queue_init(face) < 0 ||
	    loop_timer_new(config->loop, on_tick, face, &face->tick) < 0) {
		egress_stop(face);
		return -1;
	}
	*ret = face;
	return 0;
}

void egress_stop(struct egress_face *face)
{
	if (!face)
		return;
	close_ports(face);
	proxied_stop(face);
	proxy_stop(face);
	resolver_stop(face);
	dns_tcp_stop(face);
	loop_timer_free(face->tick);
	relay_queue_done(face);
	slot_done(&face->relays);
	slot_done(&face->lookups);
	slot_done(&face->askers);
	slot_done(&face->greetings);
	free(face);
}
