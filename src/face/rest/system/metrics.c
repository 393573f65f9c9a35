/* SPDX-License-Identifier: Apache-2.0 */
/* GET /metrics: figures in the text format of Prometheus. docs/guides/metrics.md lists them. */
#include "base/value/histogram.h"
#include "face/rest/call.h"

static void head(struct buf *out, const char *name, const char *kind, const char *help)
{
	(void)!buf_printf(out, "# HELP cay_%s %s\n# TYPE cay_%s %s\n", name, help, name, kind);
}

static void figure(struct buf *out, const char *name, const char *kind, const char *help,
		   double value)
{
	head(out, name, kind, help);
	(void)!buf_printf(out, "cay_%s %.15g\n", name, value);
}

/* A bucket counts all values up to its bound. */
void metrics_write_histogram(struct buf *out, const char *name, const char *help,
			     const struct histogram *h)
{
	uint64_t below = 0;

	head(out, name, "histogram", help);
	for (size_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
		below += h->buckets[i];
		(void)!buf_printf(out, "cay_%s_bucket{le=\"%g\"} %llu\n", name,
				  histogram_bounds_us[i] / 1e6, (unsigned long long)below);
	}
	(void)!buf_printf(out,
			  "cay_%s_bucket{le=\"+Inf\"} %llu\ncay_%s_sum %.15g\ncay_%s_count %llu\n",
			  name, (unsigned long long)h->count, name, (double)h->us_sum / 1e6, name,
			  (unsigned long long)h->count);
}

void metrics_write_counters(struct buf *out, const struct service_counters *c)
{
	static const struct {
		const char *name, *help;
		size_t offset;
	} rows[] = {
#define ROW(member, help) { #member "_total", help, offsetof(struct service_counters, member) }
		ROW(creates_cold, "Sandboxes that were created without a pool."),
		ROW(creates_pool, "Sandboxes that were taken from a pool."),
		ROW(creates_failed, "Creations that failed."),
		ROW(destroys, "Sandboxes that ended."),
		ROW(pool_hits, "Requests for a pooled sandbox that found one."),
		ROW(pool_misses, "Requests for a pooled sandbox that found none."),
		ROW(pool_fills, "Ready sandboxes made."),
		ROW(pool_fill_failures, "Ready sandboxes that could not be made."),
		ROW(execs, "Commands that were waited for."),
		ROW(exec_refusals, "Commands that could not be started."),
		ROW(processes, "Detached processes and streamed commands started."),
		ROW(window_runs, "Commands run in windows."),
		ROW(file_ops, "File operations."),
		ROW(egress_denied, "Refused connections of sandboxes."),
		ROW(hooks_delivered, "Webhook deliveries that were answered with 2xx."),
		ROW(hooks_failed, "Attempts of webhook deliveries that failed."),
		ROW(deaths_oom, "Sandboxes that ended because of their memory limit."),
		ROW(deaths_crash, "Sandboxes whose agent died."),
		ROW(deaths_lost, "Sandboxes that their engine lost."),
		ROW(timeouts, "Sandboxes whose timeout_sec was reached."),
		ROW(idle_timeouts, "Sandboxes whose idle_timeout_sec was reached."),
#undef ROW
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		figure(out, rows[i].name, "counter", rows[i].help,
		       (double)*(const uint64_t *)(const void *)((const char *)c + rows[i].offset));
	metrics_write_histogram(out, "create_duration_seconds",
				"Time from a request for a sandbox until it runs.",
				&c->create_duration);
	metrics_write_histogram(out, "exec_duration_seconds",
				"Run time of commands that were waited for.", &c->exec_duration);
}

void metrics_write_gauges(struct buf *out, const struct service_gauges *g)
{
	head(out, "sandboxes", "gauge", "Sandboxes by state, without those that wait in pools.");
	for (size_t i = 0; i < SANDBOX_STATE_COUNT; i++)
		(void)!buf_printf(out, "cay_sandboxes{state=\"%s\"} %u\n", sandbox_state_names[i],
				  g->by_state[i]);
	figure(out, "pool_ready", "gauge", "Sandboxes that wait in pools.", g->pool_ready);
	figure(out, "pool_filling", "gauge", "Ready sandboxes being made.", g->pool_filling);
	figure(out, "pool_target", "gauge", "Ready sandboxes wanted.", g->pool_target);
	figure(out, "sweeping", "gauge", "Destroyed sandboxes whose remains are being removed.",
	       g->sweeping);
	figure(out, "streams_open", "gauge", "Open streams and WebSockets.", g->streams);
	figure(out, "storage_capacity_bytes", "gauge",
	       "Bytes that the storage of the default engine can hold on this disk; 0: unknown.",
	       g->storage_capacity_bytes);
	figure(out, "storage_used_bytes", "gauge", "Bytes that it holds.", g->storage_used_bytes);
	figure(out, "storage_promised_bytes", "gauge",
	       "Disk limits of its sandboxes, and sizes of its snapshots.",
	       g->storage_promised_bytes);
	figure(out, "state_disk_capacity_bytes", "gauge",
	       "Size of the file system of the state directory.", g->state_capacity_bytes);
	figure(out, "state_disk_free_bytes", "gauge",
	       "Free space on the file system of the state directory.", g->state_free_bytes);
}

void system_metrics(struct rest_call *call)
{
	struct rest *rest = call->rest;
	struct buf *out = &rest->out;
	struct service_gauges gauges;

	buf_clear(out);
	head(out, "build_info", "gauge", "The version of the daemon; always 1.");
	(void)!buf_puts(out, "cay_build_info{version=\"" CAY_VERSION "\"} 1\n");
	head(out, "http_requests_total", "counter",
	     "Answered requests of the REST API, including streams and WebSockets.");
	for (size_t i = 1; i < ARRAY_LEN(rest->counters.by_class); i++)
		(void)!buf_printf(out, "cay_http_requests_total{class=\"%zuxx\"} %llu\n", i,
				  (unsigned long long)rest->counters.by_class[i]);
	metrics_write_histogram(out, "http_request_duration_seconds",
				"Time from the head of a request to its reply, without streams.",
				&rest->counters.duration);
	figure(out, "http_connections", "gauge", "Open connections of clients.",
	       rest->server ? http_server_connections(rest->server) : 0);
	service_gauges(rest->service, &gauges);
	metrics_write_gauges(out, &gauges);
	metrics_write_counters(out, service_counters(rest->service));
	answer_text(rest, call->req, 200, STR_LIT("text/plain; version=0.0.4; charset=utf-8"),
		    buf_str(out));
}
