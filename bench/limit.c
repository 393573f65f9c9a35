/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system call limit: what isolation itself costs on this host, measured without any product.
 *
 *   limit cycle N    create, run /bin/echo hi inside, collect, destroy
 *   limit create N   create until the init inside answers (destroyed outside the timed part)
 *   limit spawn N [CMD…]  fork, exec, collect on the host: /bin/echo hi without isolation, or a
 *                    command that must print the same ("{n}" in it becomes a unique number)
 *   limit parts N    where the time of a cycle goes, step by step
 *   limit show CMD…  run one command inside and print its output (to check the isolation by hand)
 */
#include "limit-box.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ITERATIONS_MAX 100000
#define WARM_UP 3
#define SPAWN_WORDS 64

static const char echo[] = "/bin/echo\0hi"; /* the final NUL ends the second argument */
static char *host_echo[] = { (char[]){ "/bin/echo" }, (char[]){ "hi" }, NULL };
static struct box_host host;
static volatile sig_atomic_t stopped;
static double *samples[4]; /* total, create, exec, destroy */
static double step_us[BOX_MARKS_MAX][4096];

static void on_signal(int number)
{
	stopped = number;
}

static void on_exit_clean(void)
{
	if (!box_in_child)
		box_host_close(&host);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double quantile(const double *values, unsigned count, double q)
{
	static double sorted[ITERATIONS_MAX];

	if (count == 0)
		return 0;
	memcpy(sorted, values, count * sizeof(*values));
	qsort(sorted, count, sizeof(*sorted), compare);
	return sorted[(unsigned)(q * (count - 1) + 0.5)];
}

static void check_echo(const struct box_result *result)
{
	if (result->status != 0 || result->output_len != 3 ||
	    memcmp(result->output, "hi\n", 3) != 0) {
		fprintf(stderr, "limit: echo gave status %d and %zu bytes\n", result->status,
			result->output_len);
		exit(1);
	}
}

static void box_once(struct box_parts *stock, unsigned number, bool exec, double ret_us[4])
{
	struct box box;
	struct box_result result;
	uint64_t at[4];

	if (stock != NULL)
		box.parts = *stock;
	at[0] = box_now_ns();
	if (stock == NULL)
		box_parts_make(&host, &box.parts, number);
	box_create(&host, &box);
	at[1] = box_now_ns();
	if (exec) {
		box_exec(&box, echo, sizeof(echo), &result);
		check_echo(&result);
		box_mark(&host, "run echo, collect");
	}
	at[2] = box_now_ns();
	box_destroy(&host, &box);
	at[3] = box_now_ns();
	ret_us[0] = (double)(at[exec ? 3 : 1] - at[0]) / 1e3;
	for (int i = 1; i < 4; i++)
		ret_us[i] = (double)(at[i] - at[i - 1]) / 1e3;
}

/* The command with {n} replaced; every run of a container tool needs a unique name. */
static char **spawn_argv(char **command, unsigned number)
{
	static char words[SPAWN_WORDS][256];
	static char *argv[SPAWN_WORDS + 1];
	unsigned count = 0;

	for (; *command != NULL && count < SPAWN_WORDS; command++, count++) {
		const char *hole = strstr(*command, "{n}");
		argv[count] = *command;
		if (hole == NULL)
			continue;
		(void)snprintf(words[count], sizeof(words[count]), "%.*s%d-%u%s",
			       (int)(hole - *command), *command, (int)getpid(), number, hole + 3);
		argv[count] = words[count];
	}
	argv[count] = NULL;
	return argv;
}

static void spawn_once(char **argv, double ret_us[4])
{
	struct box_result result = { 0 };
	uint64_t start = box_now_ns();
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) < 0)
		box_die("pipe");
	pid_t pid = fork();
	if (pid == 0) {
		dup2(fd[1], 1);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(fd[1]);
	while (result.output_len < sizeof(result.output)) {
		ssize_t n = read(fd[0], result.output + result.output_len,
				 sizeof(result.output) - result.output_len);
		if (n <= 0)
			break;
		result.output_len += (size_t)n;
	}
	close(fd[0]);
	waitpid(pid, &result.status, 0);
	ret_us[0] = (double)(box_now_ns() - start) / 1e3;
	check_echo(&result);
}

static void report(const char *mode, unsigned count, bool parts)
{
	static const char *const names[] = { "", "create_", "exec_", "destroy_" };

	printf("{\"mode\":\"%s\",\"n\":%u", mode, count);
	if (host.storage_kind != NULL)
		printf(",\"storage\":\"%s\",\"ready_parts\":%s", host.storage_kind,
		       host.ready_parts ? "true" : "false");
	for (int i = 0; i < (parts ? 4 : 1); i++)
		printf(",\"%sp50_us\":%.1f,\"%sp99_us\":%.1f", names[i],
		       quantile(samples[i], count, 0.5), names[i],
		       quantile(samples[i], count, 0.99));
	printf(",\"us\":[");
	for (unsigned i = 0; i < count; i++)
		printf("%s%.1f", i > 0 ? "," : "", samples[0][i]);
	printf("]}\n");
}

static void run_series(const char *mode, unsigned count, unsigned gap_us, char **command)
{
	bool spawn = strcmp(mode, "spawn") == 0, cycle = strcmp(mode, "cycle") == 0;
	struct box_parts *stock = NULL;
	unsigned done = 0;

	if (host.ready_parts && !spawn) {
		stock = calloc(count + WARM_UP, sizeof(*stock));
		for (unsigned i = 0; stock != NULL && i < count + WARM_UP; i++)
			box_parts_make(&host, &stock[i], i);
	}
	for (unsigned i = 0; i < count + WARM_UP && !stopped; i++) {
		double us[4] = { 0 };

		if (gap_us > 0)
			usleep(gap_us);
		if (spawn)
			spawn_once(spawn_argv(command, i), us);
		else
			box_once(stock != NULL ? &stock[i] : NULL, i, cycle, us);
		if (i < WARM_UP)
			continue;
		for (int k = 0; k < 4; k++)
			samples[k][done] = us[k];
		done++;
	}
	free(stock);
	report(mode, done, cycle);
}

/* Medians of every step, in order. */
static void run_parts(unsigned count, unsigned gap_us)
{
	unsigned done = 0, marks = 0;
	double sum = 0, us[4];

	if (count > 4096)
		count = 4096;
	host.marks.on = true;
	for (unsigned i = 0; i < count + WARM_UP && !stopped; i++) {
		if (gap_us > 0)
			usleep(gap_us);
		host.marks.count = 0;
		box_mark(&host, "start");
		box_once(NULL, i, true, us);
		if (i < WARM_UP)
			continue;
		marks = host.marks.count;
		for (unsigned k = 1; k < marks; k++)
			step_us[k][done] =
				(double)(host.marks.at_ns[k] - host.marks.at_ns[k - 1]) / 1e3;
		samples[0][done++] = us[0];
	}
	printf("%-40s %9s %9s %9s\n", "step", "p50 us", "min us", "p99 us");
	for (unsigned k = 1; k < marks; k++) {
		double p50 = quantile(step_us[k], done, 0.5);
		sum += p50;
		printf("%-40s %9.1f %9.1f %9.1f\n", host.marks.name[k], p50,
		       quantile(step_us[k], done, 0), quantile(step_us[k], done, 0.99));
	}
	printf("%-40s %9.1f\n%-40s %9.1f %9.1f %9.1f\n", "sum of the medians", sum, "whole cycle",
	       quantile(samples[0], done, 0.5), quantile(samples[0], done, 0),
	       quantile(samples[0], done, 0.99));
	printf("n=%u, upper on %s, gap between cycles %u us\n", done, host.storage_kind, gap_us);
}

static int run_show(char **argv)
{
	char request[4096];
	struct box_result result;
	struct box box;
	size_t len = 0;

	for (; *argv != NULL; argv++)
		len += (size_t)snprintf(request + len, sizeof(request) - len, "%s", *argv) + 1;
	box_parts_make(&host, &box.parts, 0);
	box_create(&host, &box);
	box_exec(&box, request, len, &result);
	fwrite(result.output, 1, result.output_len, stdout);
	box_destroy(&host, &box);
	return WIFEXITED(result.status) ? WEXITSTATUS(result.status) : 1;
}

static int usage(void)
{
	fprintf(stderr, "usage: limit [--template DIR] [--storage DIR] [--init FILE] [--ready] "
			"[--gap-us N] cycle|create|spawn|parts N | show CMD...\n");
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "template", 1, NULL, 't' }, { "storage", 1, NULL, 's' }, { "init", 1, NULL, 'i' },
		{ "gap-us", 1, NULL, 'g' },   { "ready", 0, NULL, 'r' },   { NULL, 0, NULL, 0 }
	};
	unsigned gap_us = 0;
	int option;

	while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (option == 't')
			host.template_dir = optarg;
		else if (option == 's')
			host.storage_dir = optarg;
		else if (option == 'i')
			host.init_path = realpath(optarg, NULL);
		else if (option == 'g')
			gap_us = (unsigned)atoi(optarg);
		else if (option == 'r')
			host.ready_parts = true;
		else
			return usage();
	}
	if (argc - optind < 2)
		return usage();
	const char *mode = argv[optind];
	unsigned count = (unsigned)atoi(argv[optind + 1]);
	bool show = strcmp(mode, "show") == 0, spawn = strcmp(mode, "spawn") == 0;
	if (!show && (count == 0 || count + WARM_UP > ITERATIONS_MAX))
		return usage();
	for (int i = 0; i < 4; i++)
		if ((samples[i] = calloc(count + 1, sizeof(double))) == NULL)
			box_die("memory");
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	if (!spawn) {
		if (host.template_dir == NULL || host.init_path == NULL)
			return usage();
		atexit(on_exit_clean);
		box_host_open(&host);
	}
	if (show)
		return run_show(argv + optind + 1);
	if (strcmp(mode, "parts") == 0)
		run_parts(count, gap_us);
	else if (spawn || strcmp(mode, "cycle") == 0 || strcmp(mode, "create") == 0)
		run_series(mode, count, gap_us, argc - optind > 2 ? argv + optind + 2 : host_echo);
	else
		return usage();
	return stopped ? 128 + stopped : 0;
}
