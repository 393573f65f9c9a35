/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/wiring.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>

#include "base/log.h"
#include "daemon/dispatch.h"
#include "daemon/engines.h"
#include "daemon/previews.h"
#include "daemon/secure.h"
#include "daemon/state.h"
#include "face/e2b/e2b.h"
#include "face/broker/broker.h"
#include "face/egress/egress.h"
#include "face/preview/preview.h"
#include "face/rest/rest.h"
#include "http/client/post.h"
#include "http/server/server.h"
#include "net/loop.h"
#include "service/service.h"

#define DRAIN_MS 5000
#define READY_LOOK_MS 5
#define TESTS_AT_ONCE 64 /* of webhooks, in addition to regular deliveries */

/* Owner: main(). */
struct wiring {
	const struct config *config;
	struct wiring_fds fds;
	struct engine_choice *engines; /* must outlive the service */
	char url[CONFIG_TEXT_MAX + 16];
	char hosts[2 * CONFIG_TEXT_MAX + 16]; /* allowed_hosts, and the address we listen on */
	struct loop *loop;
	struct poster *poster; /* for webhooks */
	struct service *service;
	struct rest *rest;
	struct e2b *e2b;
	struct preview_address previews;
	struct preview_face *preview;
	struct dispatch dispatch;
	struct egress_face *egress;
	struct broker *broker;
	struct http_server *server;
	struct secure *secure; /* NULL: no TLS */
	struct loop_timer *ready_timer;
	struct loop_timer *alive_timer;
	struct notify *notify; /* main()'s */
	bool told;
	bool ending;
	bool announced; /* that it is ready */
};

static void on_drained(void *arg)
{
	struct wiring *wiring = arg;

	loop_stop(wiring->loop);
}

static void end(struct wiring *wiring)
{
	if (wiring->ending)
		return;
	wiring->ending = true;
	notify_send(wiring->notify, "STOPPING=1");
	state_hide_url(wiring->config->state);
	http_server_drain(wiring->server, DRAIN_MS, on_drained, wiring);
}

static void on_signal(void *arg, int signum)
{
	log_info("signal %d: ending; sandboxes live on", signum);
	end(arg);
}

static void on_shutdown(void *arg)
{
	log_info("shutdown was requested");
	end(arg);
}

/* The url is written only when a client that reads it can be served; that may be `cay recover`
 * alone. */
static void on_ready_look(void *arg)
{
	struct wiring *wiring = arg;
	struct err err = { .code = ERR_OK }, failed;

	if (wiring->ending || (!service_ready(wiring->service, &err) && err.code != ERR_CONFLICT))
		return;
	if (state_write_url(wiring->config->state, wiring->url, &failed) == 0)
		loop_timer_clear(wiring->ready_timer);
	else if (!wiring->announced) /* tried again until it can be written */
		log_error("%s", failed.message);
	if (wiring->announced)
		return;
	wiring->announced = true;
	notify_send(wiring->notify, "READY=1");
	log_info("%s on %s", err.code ? "not ready, but listening" : "ready", wiring->url);
}

static void on_network(void *arg, const struct engine_network *network)
{
	struct wiring *wiring = arg;

	egress_serve(wiring->egress, network->gateway, network->proxy_port, network->dns_port);
}

static void on_egress(void *arg, uint32_t address, int fd)
{
	struct wiring *wiring = arg;

	egress_adopt(wiring->egress, address, fd);
}

/* Before the service, which uses it for links. */
static int open_egress(struct wiring *wiring, struct err *err)
{
	struct egress_config config = { .loop = wiring->loop,
					.dns_upstream = wiring->config->dns_upstream,
					.intercept = broker_intercept };

	if (broker_new(wiring->loop, wiring->config->egress_ca_file, &wiring->broker, err) < 0)
		return -1;
	config.intercept_arg = wiring->broker;
	return egress_new(&config, &wiring->egress, err);
}

/* The port of a listening socket; 0: there is none. */
static uint16_t redirect_port(int fd)
{
	struct sockaddr_storage at;
	socklen_t size = sizeof(at);

	if (fd < 0 || getsockname(fd, (struct sockaddr *)&at, &size) < 0)
		return 0;
	return ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
					      : ((struct sockaddr_in *)&at)->sin_port);
}

static struct service_config service_settings(struct wiring *wiring)
{
	const struct config *c = wiring->config;

	return (struct service_config){
		.loop = wiring->loop,
		.state_dir = c->state,
		.template_dir = c->templates,
		.agent_path = c->agent,
		.tools_path = c->tools,
		.streams = c->link_streams,
		.vault_key = getenv("CAY_VAULT_KEY"),
		.authority_new = broker_authority_new,
		.authority_certificate = broker_authority_certificate,
		.file_ops_per_sandbox = (uint32_t)c->file_ops_per_sandbox,
		.default_template = c->default_template,
		.pool_enabled = c->pool && c->pool_max > 0,
		.pool_min = (uint32_t)c->pool_min,
		.pool_max = (uint32_t)c->pool_max,
		.pids_max = (uint32_t)c->pids_max,
		.max_cpu_milli = (uint32_t)c->max_cpu_count * 1000,
		.max_memory_mb = (uint32_t)c->max_memory_mb,
		.max_disk_size_mb = (uint32_t)c->max_disk_size_mb,
		.max_timeout_sec = (uint32_t)c->max_timeout_sec,
		.max_sandboxes = (uint32_t)c->max_sandboxes,
		.max_sandboxes_per_key = (uint32_t)c->max_sandboxes_per_key,
		.max_snapshots_per_key = (uint32_t)c->max_snapshots_per_key,
		.max_vcpus_per_key = (uint32_t)c->max_vcpus_per_key,
		.max_memory_mb_per_key = (uint32_t)c->max_memory_mb_per_key,
		.max_disk_mb_per_key = (uint32_t)c->max_disk_mb_per_key,
		.create_rate_per_sec = (uint32_t)c->create_rate_per_sec,
		.request_rate_per_key = (uint32_t)c->request_rate_per_key,
		.processes_per_sandbox = (uint32_t)c->processes_per_sandbox,
		.windows_per_sandbox = (uint32_t)c->windows_per_sandbox,
		.streams_per_key = (uint32_t)c->streams_per_key,
		.output_ring_bytes = (uint32_t)c->output_ring_bytes,
		.output_keep_sec = (uint32_t)c->output_keep_sec,
		.events_keep = (uint32_t)c->events_keep,
		.events_keep_days = (uint32_t)c->events_keep_days,
		.usage_keep_days = (uint32_t)c->usage_keep_days,
		.usage_detail_days = (uint32_t)c->usage_detail_days,
		.webhooks_per_key = (uint32_t)c->webhooks_per_key,
		.webhooks_at_once = (uint32_t)c->webhooks_at_once,
		.webhook_timeout_sec = (uint32_t)c->webhook_timeout_sec,
		.webhook_attempts = (uint32_t)c->webhook_attempts,
		.webhook_retry_ms = (uint32_t)c->webhook_retry_ms,
		.webhook_disable_sec = (uint32_t)c->webhook_disable_sec,
		.preview_scheme = wiring->previews.scheme,
		.preview_suffix = wiring->previews.suffix,
		.egress_allow_private = c->egress_allow_private,
		.own_ports = { state_url_port(str_of(wiring->url)),
			       redirect_port(wiring->fds.redirect) },
		.on_network = on_network,
		.on_egress = on_egress,
		.network_arg = wiring,
	};
}

static int open_service(struct wiring *wiring, struct err *err)
{
	const struct config *c = wiring->config;
	struct service_config config = service_settings(wiring);
	struct http_poster_config poster = { .loop = wiring->loop,
					     .ca_path = c->webhook_ca,
					     .user_agent = "cay/" CAY_VERSION,
					     .private_ok = c->webhook_allow_private };

	wiring->engines = engines_choices(c);
	if (!wiring->engines)
		return err_set(err, ERR_INTERNAL, "out of memory");
	config.engines = wiring->engines;
	config.engine_count = c->engine_count;
	config.recipes_fd = wiring->fds.recipes;
	if (http_poster_new(&poster, (uint32_t)c->webhooks_at_once + TESTS_AT_ONCE,
			    &wiring->poster) < 0)
		return err_set(err, ERR_INTERNAL, "out of memory");
	config.poster = wiring->poster;
	if (service_open(&config, &wiring->service, err) < 0)
		return -1;
	egress_set_service(wiring->egress, wiring->service);
	broker_set_service(wiring->broker, wiring->service);
	return 0;
}

/* Before the first connection is accepted. */
static int open_secure(struct wiring *wiring, struct err *err)
{
	if (http_server_trust(wiring->server, wiring->config->trusted_proxies) < 0)
		return err_set(err, ERR_INVALID_REQUEST,
			       "trusted_proxies must be up to %d addresses or networks",
			       HTTP_TRUST_MAX);
	return wiring->secure ? secure_start(wiring->secure, wiring->server, err) : 0;
}

/* The order decides: the first face that takes a request answers it. */
static void add_faces(struct wiring *wiring)
{
	if (wiring->secure)
		dispatch_add(&wiring->dispatch, secure_redirects, secure_redirect, wiring->secure);
	/*
	 * Before paths are considered: two ports of every sandbox belong to E2B, and all other
	 * requests to a preview's host to the preview face.
	 */
	dispatch_add(&wiring->dispatch, e2b_takes_port, e2b_handle, wiring->e2b);
	dispatch_add(&wiring->dispatch, preview_takes, preview_handle, wiring->preview);
	dispatch_add(&wiring->dispatch, e2b_takes, e2b_handle, wiring->e2b);
	/*
	 * Faces that own certain hosts or headers must precede this line; the last one takes the
	 * rest.
	 */
	dispatch_add(&wiring->dispatch, NULL, rest_handle, wiring->rest);
}

static int open_front(struct wiring *wiring, struct err *err)
{
	struct rest_config config = { .service = wiring->service,
				      .allowed_hosts = wiring->hosts,
				      .cors_origins = wiring->config->cors_origins,
				      .port = state_url_port(str_of(wiring->url)),
				      .on_shutdown = on_shutdown,
				      .arg = wiring };
	struct preview_config preview = { .loop = wiring->loop,
					  .service = wiring->service,
					  .domain = wiring->previews.domain,
					  .suffix = wiring->previews.suffix,
					  .allowed_hosts = wiring->hosts };
	struct e2b_config e2b = { .service = wiring->service,
				  .allowed_hosts = config.allowed_hosts,
				  .port = config.port,
				  .domain = wiring->previews.suffix + 1,
				  .preview_domain = wiring->previews.domain };
	int r = rest_new(&config, &wiring->rest);

	if (r == -EINVAL)
		return err_set(err, ERR_INVALID_REQUEST,
			       "cors_origins must be origins like https://app.example, in lower "
			       "case, without a path; '*' is none");
	if (secure_new(wiring->config, wiring->loop, config.port, &wiring->secure, err) < 0)
		return -1;
	if (r == 0)
		r = e2b_new(&e2b, &wiring->e2b);
	if (r == 0)
		r = preview_new(&preview, &wiring->preview);
	add_faces(wiring);
	if (r == 0)
		r = http_server_new(wiring->loop, &http_limits_default, dispatch_handle,
				    &wiring->dispatch, &wiring->server);
	if (r == 0) {
		rest_set_server(wiring->rest, wiring->server);
		if (open_secure(wiring, err) < 0)
			return -1;
		e2b_set_server(wiring->e2b, wiring->server);
		preview_set_server(wiring->preview, wiring->server);
		r = http_server_listen(wiring->server, wiring->fds.listen);
	}
	if (r == 0 && wiring->fds.redirect >= 0)
		r = http_server_listen(wiring->server, wiring->fds.redirect);
	if (r == 0)
		r = loop_signal(wiring->loop, SIGTERM, on_signal, wiring);
	if (r == 0)
		r = loop_signal(wiring->loop, SIGINT, on_signal, wiring);
	if (r == 0)
		r = loop_timer_new(wiring->loop, on_ready_look, wiring, &wiring->ready_timer);
	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "cannot serve");
	loop_timer_set(wiring->ready_timer, 0, READY_LOOK_MS);
	return 0;
}

/*
 * A Host header with the address that we listen on is not the name of another site: DNS rebinding
 * needs a name. Without this, clients that use <state>/url would be refused on any address except
 * loopback.
 */
static void set_hosts(struct wiring *wiring)
{
	const char *host = strstr(wiring->url, "://"), *colon = strrchr(wiring->url, ':');
	int n = host && colon > host + 3 ? (int)(colon - host - 3) : 0;

	(void)snprintf(wiring->hosts, sizeof(wiring->hosts), "%s %.*s",
		       wiring->config->allowed_hosts, n, n ? host + 3 : "");
}

int wiring_new(const struct config *config, const struct wiring_fds *fds, const char *url,
	       struct wiring **ret, struct err *err)
{
	struct wiring *wiring = calloc(1, sizeof(*wiring));

	if (!wiring)
		return err_set(err, ERR_INTERNAL, "out of memory");
	wiring->config = config;
	wiring->fds = *fds;
	(void)snprintf(wiring->url, sizeof(wiring->url), "%s", url);
	set_hosts(wiring);
	if (loop_new(&wiring->loop) < 0) {
		free(wiring);
		return err_set(err, ERR_INTERNAL, "cannot make the event loop");
	}
	if (previews_address(&wiring->previews, config->preview_domain,
			     state_url_port(str_of(wiring->url)), err) < 0 ||
	    open_egress(wiring, err) < 0 || open_service(wiring, err) < 0 ||
	    open_front(wiring, err) < 0) {
		wiring_free(wiring);
		return -1;
	}
	*ret = wiring;
	return 0;
}

static void on_alive(void *arg)
{
	struct wiring *wiring = arg;

	notify_alive(wiring->notify);
}

void wiring_run(struct wiring *wiring, struct notify *notify)
{
	wiring->notify = notify;
	if (notify->alive_ms &&
	    loop_timer_new(wiring->loop, on_alive, wiring, &wiring->alive_timer) >= 0)
		loop_timer_set(wiring->alive_timer, 0, MAX(notify->alive_ms / 2, 1));
	(void)loop_run(wiring->loop);
}

void wiring_free(struct wiring *wiring)
{
	loop_timer_free(wiring->ready_timer);
	loop_timer_free(wiring->alive_timer);
	if (wiring->rest)
		rest_set_server(wiring->rest, NULL);
	if (wiring->e2b)
		e2b_set_server(wiring->e2b, NULL);
	if (wiring->preview)
		preview_set_server(wiring->preview, NULL);
	if (wiring->server)
		http_server_free(wiring->server);
	secure_free(wiring->secure);
	preview_free(wiring->preview);
	egress_stop(wiring->egress);
	broker_free(wiring->broker);
	service_close(wiring->service);
	http_poster_free(wiring->poster);
	rest_free(wiring->rest);
	e2b_free(wiring->e2b);
	free(wiring->engines);
	loop_free(wiring->loop);
	free(wiring);
}
