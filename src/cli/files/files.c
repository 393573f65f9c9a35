/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/files/files.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/rand.h"
#include "base/time.h"
#include "cli/api/request.h"
#include "cli/api/resolve.h"

/* ---- places ---- */

int place_parse(const char *word, struct place *ret, struct err *err)
{
	size_t n = strcspn(word, ":/");

	ret->id[0] = '\0';
	ret->path = word;
	if (word[n] != ':')
		return 0;
	if (n == 0 || str_copy(ret->id, sizeof(ret->id), (struct str){ word, n }) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "'%.100s': no sandbox before the colon",
			       word);
	ret->path = word[n + 1] != '\0' ? word + n + 1 : ".";
	return 0;
}

int place_inside(const char *word, struct place *ret, struct err *err)
{
	char example[80];

	(void)snprintf(example, sizeof(example), "%.60s:.", word);
	if (place_parse(word, ret, err) < 0)
		return -1;
	if (ret->id[0] == '\0')
		return err_set(err, ERR_INVALID_REQUEST,
			       "'%.100s' is not a path in a sandbox: write ID:PATH, as in %s", word,
			       word[0] == '/' || strchr(word, '/') != NULL ? "web:/tmp" : example);
	return 0;
}

int place_around(const char *word, const char *otherwise, struct place *ret, struct err *err)
{
	if (strchr(word, ':') != NULL) {
		if (otherwise != NULL)
			return err_set(err, ERR_INVALID_REQUEST,
				       "the path is given twice: in '%.100s' and as '%.100s'", word,
				       otherwise);
		return place_inside(word, ret, err);
	}
	ret->path = otherwise;
	if (str_copy(ret->id, sizeof(ret->id), str_of(word)) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "'%.100s' is neither a name nor an id",
			       word);
	return 0;
}

static int put_encoded(struct buf *out, const char *text)
{
	int r = 0;

	for (; *text != '\0' && r == 0; text++) {
		unsigned char c = (unsigned char)*text;

		r = isalnum(c) || strchr("-._~/", c) != NULL ? buf_putc(out, (char)c)
							     : buf_printf(out, "%%%02X", c);
	}
	return r;
}

int files_url(struct buf *out, const struct place *place, const char *op, struct err *err, ...)
{
	char base[API_PATH_MAX];
	const char *name;
	va_list ap;
	int r;

	if (api_path(base, err, "/v1/sandboxes/%s/files", place->id) < 0)
		return -1;
	buf_init(out, API_URL_MAX);
	r = buf_printf(out, "%s%s%s?path=", base, op[0] != '\0' ? "/" : "", op);
	if (r == 0)
		r = put_encoded(out, place->path);
	va_start(ap, err);
	while (r == 0 && (name = va_arg(ap, const char *)) != NULL) {
		const char *value = va_arg(ap, const char *);

		if (value != NULL) {
			r = buf_printf(out, "&%s=", name);
			if (r == 0)
				r = put_encoded(out, value);
		}
	}
	va_end(ap);
	if (r == 0)
		r = buf_putc(out, '\0');
	if (r < 0) {
		buf_done(out);
		return err_set(err, ERR_INVALID_REQUEST, "the path is too long");
	}
	return 0;
}

int files_get(struct cli *cli, const struct place *place, const char *op, const char *name,
	      const char *value, struct json **ret, struct err *err)
{
	struct buf url;
	int r;

	if (files_url(&url, place, op, err, name, value, NULL) < 0)
		return -1;
	r = api_call(cli, "GET", buf_data(&url), NULL, ret, err);
	buf_done(&url);
	return r;
}

int files_look(struct cli *cli, const struct place *place, struct json **ret, struct err *err)
{
	*ret = NULL;
	if (files_get(cli, place, "stat", "follow", "true", ret, err) == 0)
		return 0;
	if (err->code != ERR_FILE_NOT_FOUND)
		return -1;
	api_forget(cli);
	return 0;
}

void files_put_path(struct json_writer *w, const char *path)
{
	if (str_is_utf8(path, strlen(path)))
		json_put_text(w, "path", path);
	else
		json_put_b64(w, "path_b64", str_of(path));
}

int files_name(const struct json *entry, const char *name, const char *name_b64, struct buf *buf,
	       struct str *ret)
{
	struct str b64 = field_str(entry, name_b64);
	int r;

	*ret = field_str(entry, name);
	if (b64.n == 0)
		return 0;
	buf_clear(buf);
	r = request_unb64(b64, buf);
	*ret = buf_str(buf);
	return r;
}

void files_print(FILE *out, struct str name)
{
	char clean[8192];

	if (!isatty(fileno(out))) {
		(void)fwrite(name.p, 1, name.n, out);
		return;
	}
	style_clean(clean, sizeof(clean), name);
	(void)fputs(clean, out);
}

/* ---- the meter ---- */

#define METER_STEP_US 100000

void meter_start(struct meter *meter, const struct cli *cli, const char *what, uint64_t total)
{
	*meter = (struct meter){ .live = !cli->quiet && !cli->json && isatty(STDERR_FILENO),
				 .what = what,
				 .total = total,
				 .start_us = time_mono_us() };
	meter->last_us = meter->start_us;
}

static void meter_draw(struct meter *meter, int64_t now_us)
{
	char done[STYLE_SPAN_SIZE], rate[STYLE_SPAN_SIZE], name[41], bar[21];
	double seconds = (double)MAX(now_us - meter->start_us, 1) / 1e6;
	size_t fill = 0;

	style_bytes(done, meter->bytes);
	style_bytes(rate, (uint64_t)((double)meter->bytes / seconds));
	style_clean(name, sizeof(name), str_of(meter->what));
	meter->shown = true;
	if (meter->total == 0) {
		(void)fprintf(stderr, "\r\033[K%s  %s  %s/s", name, done, rate);
		(void)fflush(stderr);
		return;
	}
	fill = (size_t)(MIN(meter->bytes, meter->total) * 20 / meter->total);
	memset(bar, ' ', 20);
	memset(bar, '=', fill);
	bar[20] = '\0';
	(void)fprintf(stderr, "\r\033[K%s [%s] %3u%%  %s  %s/s", name, bar,
		      (unsigned int)(MIN(meter->bytes, meter->total) * 100 / meter->total), done,
		      rate);
	(void)fflush(stderr);
}

void meter_add(struct meter *meter, size_t n)
{
	int64_t now_us;

	meter->bytes += n;
	if (!meter->live)
		return;
	now_us = time_mono_us();
	if (now_us - meter->last_us < METER_STEP_US)
		return;
	meter->last_us = now_us;
	meter_draw(meter, now_us);
}

void meter_end(struct meter *meter)
{
	if (meter->shown)
		(void)fputs("\r\033[K", stderr);
	meter->shown = meter->live = false;
}

ssize_t reading_read(void *arg, char *p, size_t n)
{
	struct reading *reading = arg;
	ssize_t got;

	do
		got = read(reading->fd, p, n);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	meter_add(&reading->meter, (size_t)got);
	return got;
}

/* ---- content ---- */

int files_send(struct cli *cli, const struct place *to, const struct upload *upload,
	       struct json **ret, struct err *err)
{
	struct http_response res;
	struct json *doc = NULL;
	struct buf url, whole;
	int r;

	api_forget(cli);
	if (cli_connect(cli, err) < 0 || files_url(&url, to, upload->op, err, "mode", upload->mode,
						   "if_match", upload->if_match, NULL) < 0)
		return -1;
	http_response_init(&res, API_BODY_LIMIT_BYTES);
	/* The source can be read only once, so the caller has resolved the place before. */
	buf_init(&whole, API_URL_MAX);
	r = http_client_upload(cli->http, "PUT", resolve_path(cli, buf_data(&url), &whole),
			       &upload->source, &res);
	buf_done(&whole);
	if (r < 0)
		r = api_lost(cli, r, err);
	else if (res.status < 200 || res.status > 299)
		r = api_refused(cli, &res, err);
	else if (ret != NULL)
		r = (doc = json_parse(buf_str(&res.body), err)) != NULL ? 0 : -1;
	http_response_done(&res);
	buf_done(&url);
	if (r == 0 && ret != NULL)
		*ret = doc;
	return r;
}

int files_receive(struct cli *cli, const struct buf *url, http_client_data_fn data, void *arg,
		  struct err *err)
{
	return api_stream(cli, "GET", buf_data(url), NULL, data, arg, err);
}

/* ---- atomic creation of a file ---- */

/* The target with links resolved, as for cp. */
static int fresh_target(struct fresh_file *f, const char *path, struct err *err)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	struct stat st;

	if (!real && errno == ENOENT && lstat(path, &st) == 0)
		return err_set(err, ERR_INVALID_REQUEST, "%.200s is a dangling link", path);
	if (str_copy(f->path, sizeof(f->path), str_of(real ? real : path)) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "'%.100s' is too long", path);
	f->direct = stat(f->path, &st) == 0 && !S_ISREG(st.st_mode);
	return 0;
}

/* In the directory of the target; the kernel removes it when we exit. */
static int open_nameless(const struct fresh_file *f)
{
	char dir[sizeof(f->path)];
	const char *slash = strrchr(f->path, '/');
	size_t n = slash ? MAX((size_t)(slash - f->path), 1) : 1;

	memcpy(dir, slash ? f->path : ".", n);
	dir[n] = '\0';
	return open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

int fresh_open(struct fresh_file *f, const char *path, unsigned int mode, struct err *err)
{
	f->fd = -1;
	f->temp[0] = '\0';
	if (fresh_target(f, path, err) < 0)
		return -1;
	if (f->direct) {
		f->fd = open(f->path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
		return f->fd < 0 ? err_set_errno(err, ERR_INTERNAL, errno, "cannot write %.200s",
						 path)
				 : 0;
	}
	f->fd = open_nameless(f);
	if (f->fd < 0) {
		(void)snprintf(f->temp, sizeof(f->temp), "%s.cay-XXXXXX", f->path);
		f->fd = mkostemp(f->temp, O_CLOEXEC);
	}
	if (f->fd < 0)
		return err_set_errno(err, ERR_INTERNAL, errno, "cannot write beside %.200s", path);
	/* Set-id bits from a sandbox are not applied. */
	(void)fchmod(f->fd, mode & 0777 & ~(unsigned int)(umask(umask(022))));
	return 0;
}

int fresh_write(struct fresh_file *f, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t done = write(f->fd, p, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		p += done;
		n -= (size_t)done;
	}
	return 0;
}

static int give_name(struct fresh_file *f)
{
	char self[32];
	uint32_t random;

	rand_bytes(&random, sizeof(random));
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", f->fd);
	(void)snprintf(f->temp, sizeof(f->temp), "%s.cay-%08x", f->path, random);
	if (linkat(AT_FDCWD, self, AT_FDCWD, f->temp, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	f->temp[0] = '\0';
	return -1;
}

int fresh_keep(struct fresh_file *f, struct err *err)
{
	if ((!f->direct && f->temp[0] == '\0' && give_name(f) < 0) || close(TAKE_FD(f->fd)) < 0 ||
	    (!f->direct && rename(f->temp, f->path) < 0)) {
		int error = errno;

		if (f->temp[0] != '\0')
			(void)unlink(f->temp);
		return err_set_errno(err, ERR_INTERNAL, error, "cannot write %.200s", f->path);
	}
	return 0;
}

void fresh_drop(struct fresh_file *f)
{
	if (f->fd < 0)
		return;
	(void)close(TAKE_FD(f->fd));
	if (f->temp[0] != '\0')
		(void)unlink(f->temp);
}
