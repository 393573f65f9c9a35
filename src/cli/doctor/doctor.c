/* SPDX-License-Identifier: Apache-2.0 */
/* cay doctor */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/api/exit.h"

static const char *const level_names[] = { "ok", "warn", "fail" };

struct check *doctor_add(struct doctor *doctor, const char *group, enum check_level level,
			 const char *name, const char *detail, ...)
{
	struct check *check = &doctor->checks[MIN(doctor->count, DOCTOR_CHECKS_MAX - 1)];
	va_list ap;

	*check = (struct check){ .level = level, .group = group };
	(void)snprintf(check->name, sizeof(check->name), "%s", name);
	va_start(ap, detail);
	(void)vsnprintf(check->detail, sizeof(check->detail), detail, ap);
	va_end(ap);
	if (doctor->count < DOCTOR_CHECKS_MAX)
		doctor->count++;
	return check;
}

void doctor_next(struct check *check, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(check->next, sizeof(check->next), fmt, ap);
	va_end(ap);
}

int doctor_read(const char *path, char *dst, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct str text;
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, dst, size - 1);
	if (n < 0)
		return -errno;
	text = str_trim((struct str){ dst, (size_t)n }, " \t\r\n");
	memmove(dst, text.p, text.n);
	dst[text.n] = '\0';
	return 0;
}

int doctor_number(const char *path, uint64_t *ret)
{
	char text[64];
	int r = doctor_read(path, text, sizeof(text));

	return r < 0 ? r : str_to_u64(str_of(text), UINT32_MAX, ret);
}

static void print_check(const struct cli *cli, const struct check *check)
{
	static const enum style styles[] = { STYLE_GREEN, STYLE_YELLOW, STYLE_RED };
	bool c = cli->color_out;
	char clean[sizeof(check->detail)];

	style_clean(clean, sizeof(clean), str_of(check->detail));
	(void)printf("  %s%-4s%s  %-22s  %s\n", style_on(c, styles[check->level]),
		     level_names[check->level], style_off(c), check->name, clean);
	if (check->next[0] == '\0')
		return;
	(void)printf("        %s->%s ", style_on(c, STYLE_CYAN), style_off(c));
	style_wrapped(stdout, check->next, 11, 11);
}

static void print_human(const struct cli *cli, const struct doctor *doctor, const size_t *sums)
{
	const char *group = "";
	bool c = cli->color_out;

	for (size_t i = 0; i < doctor->count; i++) {
		const struct check *check = &doctor->checks[i];

		if (cli->quiet && check->level == CHECK_OK)
			continue;
		if (strcmp(group, check->group) != 0)
			(void)printf("%s%s%s%s\n", group[0] != '\0' ? "\n" : "",
				     style_on(c, STYLE_BOLD), check->group, style_off(c));
		group = check->group;
		print_check(cli, check);
	}
	(void)printf("\n%zu ok, %s%zu to look at%s, %s%zu missing%s\n", sums[CHECK_OK],
		     style_on(c && sums[CHECK_WARN] > 0, STYLE_YELLOW), sums[CHECK_WARN],
		     style_off(c && sums[CHECK_WARN] > 0),
		     style_on(c && sums[CHECK_FAIL] > 0, STYLE_RED), sums[CHECK_FAIL],
		     style_off(c && sums[CHECK_FAIL] > 0));
}

static void print_json(const struct doctor *doctor, const size_t *sums)
{
	struct json_writer w;
	struct buf out;

	buf_init(&out, 1024 * 1024);
	json_writer_init(&w, &out);
	json_begin_object(&w, NULL);
	json_begin_array(&w, "checks");
	for (size_t i = 0; i < doctor->count; i++) {
		const struct check *check = &doctor->checks[i];

		json_begin_object(&w, NULL);
		json_put_text(&w, "group", check->group);
		json_put_text(&w, "name", check->name);
		json_put_text(&w, "level", level_names[check->level]);
		json_put_text(&w, "detail", check->detail);
		json_put_text(&w, "next", check->next[0] != '\0' ? check->next : NULL);
		json_end_object(&w);
	}
	json_end_array(&w);
	for (size_t i = 0; i < ARRAY_LEN(level_names); i++)
		json_put_int(&w, level_names[i], (int64_t)sums[i]);
	json_end_object(&w);
	if (json_writer_end(&w) == 0)
		(void)printf("%.*s\n", (int)buf_len(&out), buf_data(&out));
	buf_done(&out);
}

int doctor_run(struct cli *cli, const struct args *args, struct err *err)
{
	struct doctor *doctor = calloc(1, sizeof(*doctor));
	size_t sums[3] = { 0 };

	if (doctor == NULL)
		return err_set(err, ERR_INTERNAL, "out of memory");
	doctor->state = cli->state;
	(void)snprintf(doctor->storage, sizeof(doctor->storage), "auto");
	(void)cli_setting(args, "storage", "CAY_STORAGE", doctor->storage, sizeof(doctor->storage));
	doctor_kernel(doctor);
	doctor_storage(doctor);
	doctor_limits(doctor);
	doctor_network(doctor);
	doctor_programs(doctor);
	doctor_sysctls(doctor);
	for (size_t i = 0; i < doctor->count; i++)
		sums[doctor->checks[i].level]++;
	if (cli->json)
		print_json(doctor, sums);
	else
		print_human(cli, doctor, sums);
	free(doctor);
	return sums[CHECK_FAIL] > 0 ? EXIT_STATUS_RUNTIME : EXIT_STATUS_OK;
}
