/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client that measures the published figures. It is so cheap (raw sockets, keep-alive, one
 * write and usually one read per request) that its own cost does not matter.
 *
 *   httpload --to HOST:PORT --key KEY cycle N    create, exec, delete: all timed
 *   httpload … ready N      create + exec timed; deleted outside the timed part
 *   httpload … create N     create alone timed; deleted outside the timed part
 *   httpload … exec N       exec in one sandbox, made before, or in --box ID
 *   httpload … hold N       creates N and leaves them (ids to --ids FILE)
 *   httpload … drop N       deletes the ids in --ids FILE
 *
 * --clients C, --seconds S (instead of N), --pool bypass|prefer, --gap-us G between iterations,
 * --program PATH instead of /bin/echo hi, --no-samples.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX 64
#define REPLY_MAX 65536 /* a longer reply counts as a failure */
#define SAMPLES_MAX 1000000
#define ID_MAX 64
#define REPLY_TIMEOUT_SEC 60
#define WARM_UP 2

enum mode { MODE_CYCLE, MODE_READY, MODE_CREATE, MODE_EXEC, MODE_HOLD, MODE_DROP, MODE_COUNT };
static const char *const mode_names[MODE_COUNT] = { "cycle", "ready", "create",
						    "exec",  "hold",  "drop" };
enum phase { PHASE_TOTAL, PHASE_CREATE, PHASE_EXEC, PHASE_DELETE, PHASE_COUNT };
static const char *const phase_names[PHASE_COUNT] = { "", "create_", "exec_", "delete_" };

static struct {
	struct sockaddr_in to;
	const char *key, *pool, *ids_path, *box, *program;
	enum mode mode;
	unsigned count, clients, gap_us;
	double seconds;
	bool samples;
} options = { .pool = "prefer", .clients = 1, .samples = true };

struct client {
	pthread_t thread;
	int fd;
	unsigned index, quota, done, failures, from_pool;
	float *us[PHASE_COUNT];
	unsigned room;
	char reply[REPLY_MAX + 1];
	char *body;
	char error[256];
	char (*ids)[ID_MAX]; /* hold and drop */
};

static volatile sig_atomic_t stopped;
static uint64_t deadline_ns; /* 0: limited by count */

static void on_signal(int number)
{
	stopped = number;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int client_fail(struct client *client, const char *what, const char *detail)
{
	client->failures++;
	if (client->error[0] == 0)
		(void)snprintf(client->error, sizeof(client->error), "%s: %.200s", what, detail);
	return -1;
}

static int client_connect(struct client *client)
{
	struct timeval timeout = { .tv_sec = REPLY_TIMEOUT_SEC };
	int on = 1;

	client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (client->fd < 0 ||
	    connect(client->fd, (struct sockaddr *)&options.to, sizeof(options.to)) < 0)
		return client_fail(client, "connect", strerror(errno));
	(void)setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	return 0;
}

/* Reads one reply with a known length; returns its status. */
static int client_reply(struct client *client)
{
	size_t have = 0, need = 0;

	for (;;) {
		ssize_t n = recv(client->fd, client->reply + have, REPLY_MAX - have, 0);
		if (n <= 0)
			return client_fail(client, "receive", n == 0 ? "closed" : strerror(errno));
		have += (size_t)n;
		client->reply[have] = 0;
		if (need == 0) {
			char *end = strstr(client->reply, "\r\n\r\n");
			if (end == NULL)
				continue;
			client->body = end + 4;
			char *length = strcasestr(client->reply, "\r\ncontent-length:");
			need = (size_t)(client->body - client->reply);
			if (length != NULL && length < end)
				need += strtoul(length + 17, NULL, 10);
		}
		if (have >= need)
			break;
		if (need > REPLY_MAX)
			return client_fail(client, "reply", "too long");
	}
	if (strncmp(client->reply, "HTTP/1.1 ", 9) != 0)
		return client_fail(client, "reply", "not HTTP/1.1");
	return atoi(client->reply + 9);
}

static int client_request(struct client *client, const char *method, const char *path,
			  const char *body, int want)
{
	char request[2048];
	int len = snprintf(request, sizeof(request),
			   "%s /v1%s HTTP/1.1\r\nHost: %s:%u\r\nAuthorization: Bearer %s\r\n"
			   "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
			   method, path, inet_ntoa(options.to.sin_addr), ntohs(options.to.sin_port),
			   options.key, strlen(body), body);

	if (client->fd < 0 && client_connect(client) < 0)
		return -1;
	if (send(client->fd, request, (size_t)len, MSG_NOSIGNAL) != len) {
		(void)close(client->fd);
		client->fd = -1;
		return client_fail(client, "send", strerror(errno));
	}
	int status = client_reply(client);
	if (status < 0) {
		(void)close(client->fd);
		client->fd = -1;
		return -1;
	}
	if (status != want)
		return client_fail(client, path, client->body);
	return 0;
}

static int box_create(struct client *client, char id[ID_MAX])
{
	char body[160];

	(void)snprintf(body, sizeof(body),
		       "{\"template\":\"base\",\"timeout_sec\":86400,\"pool\":{\"mode\":\"%s\"}}",
		       options.pool);
	if (client_request(client, "POST", "/sandboxes", body, 201) < 0)
		return -1;
	char *at = strstr(client->body, "\"id\":");
	if (at == NULL || (at = strchr(at + 5, '"')) == NULL)
		return client_fail(client, "no id", client->body);
	size_t len = strcspn(++at, "\"");
	if (len == 0 || len >= ID_MAX)
		return client_fail(client, "odd id", client->body);
	memcpy(id, at, len);
	id[len] = 0;
	char *path = strstr(client->body, "\"boot_path\":");
	client->from_pool +=
		path != NULL && strncmp(path + 12 + (path[12] == ' '), "\"pool\"", 6) == 0;
	return 0;
}

static int box_exec(struct client *client, const char *id)
{
	char path[128], body[256] = "{\"argv\":[\"/bin/echo\",\"hi\"]}";

	if (options.program)
		(void)snprintf(body, sizeof(body), "{\"argv\":[\"%.200s\"]}", options.program);
	(void)snprintf(path, sizeof(path), "/sandboxes/%s/exec", id);
	if (client_request(client, "POST", path, body, 200) < 0)
		return -1;
	char *code = strstr(client->body, "\"exit_code\":");
	if ((!options.program && strstr(client->body, "\"hi\\n\"") == NULL) || code == NULL ||
	    strtol(code + 12, NULL, 10) != 0)
		return client_fail(client, "exec", client->body);
	return 0;
}

static int box_delete(struct client *client, const char *id)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
	return client_request(client, "DELETE", path, "", 204);
}

static void client_sample(struct client *client, const uint64_t at[PHASE_COUNT])
{
	static const uint8_t last[MODE_COUNT] = {
		[MODE_CYCLE] = 3, [MODE_READY] = 2, [MODE_CREATE] = 1,
		[MODE_EXEC] = 2,  [MODE_HOLD] = 1,  [MODE_DROP] = 3
	};

	if (client->done == client->room)
		return; /* the rest of a very long run is counted but not kept */
	client->us[PHASE_TOTAL][client->done] = (float)(at[last[options.mode]] - at[0]) / 1e3f;
	for (int i = 1; i < PHASE_COUNT; i++)
		client->us[i][client->done] = (float)(at[i] - at[i - 1]) / 1e3f;
}

/* at: start, created, ran, deleted. A sandbox that was created is always deleted. */
static int client_once(struct client *client, unsigned number, char id[ID_MAX],
		       uint64_t at[PHASE_COUNT])
{
	enum mode mode = options.mode;
	bool makes = mode != MODE_EXEC && mode != MODE_DROP;
	bool runs = mode == MODE_CYCLE || mode == MODE_READY || mode == MODE_EXEC;
	bool deletes = mode != MODE_EXEC && mode != MODE_HOLD;
	int status = 0;

	if (mode == MODE_DROP)
		memcpy(id, client->ids[number], ID_MAX);
	at[0] = now_ns();
	if (makes && box_create(client, id) < 0)
		return -1;
	at[1] = now_ns();
	if (runs)
		status = box_exec(client, id);
	at[2] = now_ns();
	if (deletes && box_delete(client, id) < 0)
		status = -1;
	at[3] = now_ns();
	if (mode == MODE_HOLD)
		memcpy(client->ids[client->done], id, ID_MAX);
	return status;
}

static void *client_run(void *arg)
{
	struct client *client = arg;
	uint64_t at[PHASE_COUNT];
	char id[ID_MAX] = "";
	bool warm = options.mode < MODE_HOLD && deadline_ns == 0;
	unsigned skip = warm ? WARM_UP : 0;

	if (options.mode == MODE_EXEC && options.box)
		(void)snprintf(id, sizeof(id), "%s", options.box);
	else if (options.mode == MODE_EXEC && box_create(client, id) < 0)
		return NULL;
	for (unsigned i = 0; !stopped; i++) {
		if (deadline_ns > 0 ? now_ns() >= deadline_ns : i >= client->quota + skip)
			break;
		if (options.gap_us > 0)
			(void)usleep(options.gap_us);
		if (client_once(client, i, id, at) < 0) {
			if (client->fd < 0 && client_connect(client) < 0)
				break;
			continue;
		}
		if (i < skip)
			continue;
		client_sample(client, at);
		client->done++;
	}
	if (options.mode == MODE_EXEC && !options.box)
		(void)box_delete(client, id);
	if (client->fd >= 0)
		(void)close(client->fd);
	return NULL;
}

static int compare(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return x < y ? -1 : x > y;
}

static void report(struct client *clients, double seconds)
{
	unsigned done = 0, kept = 0, failures = 0, from_pool = 0;
	const char *error = "";

	for (unsigned c = 0; c < options.clients; c++) {
		struct client *client = &clients[c];
		done += client->done;
		kept += client->done < client->room ? client->done : client->room;
		failures += client->failures;
		from_pool += client->from_pool;
		if (client->error[0] != 0)
			error = client->error;
	}
	float *all = calloc(kept + 1, sizeof(*all));
	printf("{\"mode\":\"%s\",\"pool\":\"%s\",\"clients\":%u,\"n\":%u,\"failures\":%u,"
	       "\"from_pool\":%u,\"seconds\":%.3f,\"per_second\":%.1f",
	       mode_names[options.mode], options.pool, options.clients, done, failures, from_pool,
	       seconds, seconds > 0 ? done / seconds : 0);
	for (int phase = 0; all != NULL && phase < PHASE_COUNT; phase++) {
		unsigned n = 0;
		for (unsigned c = 0; c < options.clients; c++)
			for (unsigned i = 0; i < clients[c].done && i < clients[c].room; i++)
				all[n++] = clients[c].us[phase][i];
		if (phase == PHASE_TOTAL && options.samples) {
			printf(",\"us\":[");
			for (unsigned i = 0; i < n; i++)
				printf("%s%.1f", i > 0 ? "," : "", (double)all[i]);
			printf("]");
		}
		qsort(all, n, sizeof(*all), compare);
		if (n > 0)
			printf(",\"%sp50_us\":%.1f,\"%sp99_us\":%.1f", phase_names[phase],
			       (double)all[n / 2], phase_names[phase],
			       (double)all[(unsigned)((n - 1) * 0.99)]);
	}
	printf(",\"error\":\"");
	for (const char *p = error; *p != 0; p++)
		if (*p == '"' || *p == '\\' || (unsigned char)*p < ' ')
			putchar(' ');
		else
			putchar(*p);
	printf("\"}\n");
	free(all);
}

static int ids_load(struct client *client)
{
	FILE *file = fopen(options.ids_path, "re");
	char line[ID_MAX + 2];

	client->quota = 0;
	while (file != NULL && client->quota < options.count &&
	       fgets(line, sizeof(line), file) != NULL) {
		line[strcspn(line, "\n")] = 0;
		(void)snprintf(client->ids[client->quota++], ID_MAX, "%.*s", ID_MAX - 1, line);
	}
	return file == NULL ? -1 : fclose(file);
}

static int ids_save(const struct client *clients)
{
	FILE *file = fopen(options.ids_path, "ae");

	for (unsigned c = 0; file != NULL && c < options.clients; c++)
		for (unsigned i = 0; i < clients[c].done; i++)
			(void)fprintf(file, "%s\n", clients[c].ids[i]);
	return file == NULL ? -1 : fclose(file);
}

static int client_init(struct client *client, unsigned index)
{
	unsigned share = options.count / options.clients;

	client->index = index;
	client->quota = share + (index < options.count % options.clients);
	client->room = options.seconds > 0 ? SAMPLES_MAX / options.clients : client->quota;
	for (int i = 0; i < PHASE_COUNT; i++)
		if ((client->us[i] = calloc(client->room + 1, sizeof(float))) == NULL)
			return -1;
	client->ids = calloc(options.count + 1, ID_MAX);
	if (client->ids == NULL)
		return -1;
	if (options.mode == MODE_DROP && ids_load(client) < 0)
		return client_fail(client, options.ids_path, strerror(errno));
	client->fd = -1;
	return client_connect(client);
}

static int usage(void)
{
	fprintf(stderr, "usage: httpload --to HOST:PORT --key KEY [--clients C] [--seconds S] "
			"[--pool MODE] [--box ID] [--program PATH]\n"
			"                [--gap-us G] [--ids FILE] [--no-samples] "
			"cycle|ready|create|exec|hold|drop N\n");
	return 2;
}

static int options_target(char *text)
{
	char *colon = strrchr(text, ':');

	if (colon == NULL)
		return -1;
	*colon = 0;
	options.to.sin_family = AF_INET;
	options.to.sin_port = htons((uint16_t)atoi(colon + 1));
	return inet_aton(text, &options.to.sin_addr) ? 0 : -1;
}

static int options_read(int argc, char **argv)
{
	static const struct option names[] = {
		{ "to", 1, NULL, 't' },	     { "key", 1, NULL, 'k' },
		{ "clients", 1, NULL, 'c' }, { "seconds", 1, NULL, 's' },
		{ "pool", 1, NULL, 'p' },    { "gap-us", 1, NULL, 'g' },
		{ "ids", 1, NULL, 'i' },     { "no-samples", 0, NULL, 'n' },
		{ "box", 1, NULL, 'b' },     { "program", 1, NULL, 'x' },
		{ NULL, 0, NULL, 0 }
	};
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (option) {
		case 't':
			if (options_target(optarg) < 0)
				return -1;
			break;
		case 'k':
			options.key = optarg;
			break;
		case 'c':
			options.clients = (unsigned)atoi(optarg);
			break;
		case 's':
			options.seconds = atof(optarg);
			break;
		case 'p':
			options.pool = optarg;
			break;
		case 'g':
			options.gap_us = (unsigned)atoi(optarg);
			break;
		case 'i':
			options.ids_path = optarg;
			break;
		case 'b':
			options.box = optarg;
			break;
		case 'x':
			options.program = optarg;
			break;
		case 'n':
			options.samples = false;
			break;
		default:
			return -1;
		}
	}
	if (argc - optind != 2 || options.key == NULL || options.to.sin_port == 0)
		return -1;
	while (options.mode < MODE_COUNT && strcmp(argv[optind], mode_names[options.mode]) != 0)
		options.mode++;
	options.count = (unsigned)atoi(argv[optind + 1]);
	if (options.mode == MODE_DROP)
		options.clients = 1;
	bool has_ids = options.mode != MODE_HOLD && options.mode != MODE_DROP;
	return options.mode == MODE_COUNT || options.clients == 0 ||
			       options.clients > CLIENTS_MAX || options.count > SAMPLES_MAX ||
			       (!has_ids && options.ids_path == NULL)
		       ? -1
		       : 0;
}

int main(int argc, char **argv)
{
	if (options_read(argc, argv) < 0)
		return usage();
	struct client *clients = calloc(options.clients, sizeof(*clients));
	if (clients == NULL)
		return 1;
	(void)signal(SIGINT, on_signal);
	(void)signal(SIGTERM, on_signal);
	for (unsigned c = 0; c < options.clients; c++)
		if (client_init(&clients[c], c) < 0) {
			fprintf(stderr, "httpload: %s\n", clients[c].error);
			return 1;
		}
	uint64_t start = now_ns();
	if (options.seconds > 0)
		deadline_ns = start + (uint64_t)(options.seconds * 1e9);
	for (unsigned c = 0; c < options.clients; c++)
		if (pthread_create(&clients[c].thread, NULL, client_run, &clients[c]) != 0)
			return 1;
	for (unsigned c = 0; c < options.clients; c++)
		(void)pthread_join(clients[c].thread, NULL);
	double seconds = (double)(now_ns() - start) / 1e9;
	if (options.mode == MODE_HOLD && ids_save(clients) < 0)
		fprintf(stderr, "httpload: %s: %s\n", options.ids_path, strerror(errno));
	report(clients, seconds);
	return 0;
}
