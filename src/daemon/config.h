/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's settings. A file, the environment and flags (each overrides the one before) are read
 * by one table. See docs/reference/config.md.
 */
#ifndef CAY_DAEMON_CONFIG_H
#define CAY_DAEMON_CONFIG_H

#include "base/err.h"
#include "base/text/setting.h"
#include "engine/registry.h"

#define CONFIG_TEXT_MAX SETTING_TEXT_MAX

/* One engine of the registry as the operator configured it. */
struct config_engine {
	const struct engine_driver *driver;
	bool on; /* enabled by default */
	bool enabled;
	void *settings;	    /* the driver's struct; NULL: it has no section */
	struct setting row; /* its switch: engine_NAME */
};

struct config {
	char state[CONFIG_TEXT_MAX];
	char listen[CONFIG_TEXT_MAX];
	char templates[CONFIG_TEXT_MAX];
	char agent[CONFIG_TEXT_MAX];
	char tools[CONFIG_TEXT_MAX];
	char user[CONFIG_TEXT_MAX];
	char allowed_hosts[CONFIG_TEXT_MAX];
	char cors_origins[CONFIG_TEXT_MAX];
	char tls_cert[CONFIG_TEXT_MAX];
	char tls_key[CONFIG_TEXT_MAX];
	char listen_redirect[CONFIG_TEXT_MAX];
	char trusted_proxies[CONFIG_TEXT_MAX];
	char egress_ca_file[CONFIG_TEXT_MAX];
	char preview_domain[CONFIG_TEXT_MAX];
	char default_template[CONFIG_TEXT_MAX];
	char dns_upstream[CONFIG_TEXT_MAX];
	char egress_allow_private[CONFIG_TEXT_MAX];
	/* for cay-warden; here only because both read the same file */
	char storage[CONFIG_TEXT_MAX];
	int64_t disk_overcommit;
	char log_level[CONFIG_TEXT_MAX];
	struct config_engine *engines; /* in the order of the registry */
	size_t engine_count;
	bool link_streams;
	bool pool;
	int64_t pool_min;
	int64_t pool_max;
	int64_t pids_max;
	int64_t max_cpu_count;
	int64_t max_memory_mb;
	int64_t max_disk_size_mb;
	int64_t max_timeout_sec;
	int64_t max_sandboxes;
	int64_t max_sandboxes_per_key;
	int64_t max_snapshots_per_key;
	int64_t max_vcpus_per_key;
	int64_t max_memory_mb_per_key;
	int64_t max_disk_mb_per_key;
	int64_t create_rate_per_sec;
	int64_t request_rate_per_key;
	int64_t processes_per_sandbox;
	int64_t file_ops_per_sandbox;
	int64_t windows_per_sandbox;
	int64_t streams_per_key;
	int64_t output_ring_bytes;
	int64_t output_keep_sec;
	int64_t events_keep;
	int64_t events_keep_days;
	int64_t usage_keep_days;
	int64_t usage_detail_days;
	bool webhook_allow_private;
	char webhook_ca[CONFIG_TEXT_MAX];
	int64_t webhooks_per_key;
	int64_t webhooks_at_once;
	int64_t webhook_timeout_sec;
	int64_t webhook_attempts;
	int64_t webhook_retry_ms;
	int64_t webhook_disable_sec;
	int64_t network_rate_mbit; /* for cay-warden, as storage; so are the next two */
	int64_t network_connects_per_sec;
	int64_t network_connections;
	/* Not settings: requests of the command line. */
	bool print;
	bool help;
	bool version;
};

/*
 * Applies defaults, the file, CAY_* and flags, in this order. Call config_done() also after a
 * failure.
 */
int config_load(struct config *config, int argc, char *const *argv, struct err *err) _must_check_;
void config_done(struct config *config);
void config_print(struct config *config);
void config_help(struct config *config);

#endif
