/* SPDX-License-Identifier: Apache-2.0 */
#include "service/template/template.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/log.h"
#include "base/time.h"
#include "service/sandbox/initializer.h"
#include "service/pairs.h"
#include "service/network/preview_internal.h"
#include "service/template/template_internal.h"
#include "service/template/template_private.h"

#define REF_FRESH_MS 200 /* a reference is read again after this long */
#define META_MAX_BYTES (64 * 1024)

struct template_ref {
	struct template *template;
	struct timespec mtime;
	int64_t looked_ms;
	bool removing; /* no new sandbox may use it */
};

static int read_small(const char *path, char *dst, size_t size, size_t *ret_n)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	size_t n = 0;

	if (fd < 0)
		return -errno;
	while (n < size) {
		ssize_t r = read(fd, dst + n, size - n);

		if (r < 0 && errno != EINTR)
			return -errno;
		if (r == 0) {
			*ret_n = n;
			return 0;
		}
		if (r > 0)
			n += (size_t)r;
	}
	return -EFBIG;
}

static void read_text(const struct json *meta, const char *key, char *dst, size_t size)
{
	const struct json *value;
	const char *name;
	void *it = NULL;

	while (json_next(meta, &it, &name, &value))
		if (strcmp(name, key) == 0 && json_type(value) == JSON_STRING &&
		    !memchr(json_str(value).p, 0, json_str(value).n))
			(void)!str_copy(dst, size, json_str(value));
}

/* A recipe contains only commands; a file that was written by hand may have more fields. */
static int read_initializer(const struct json *item, size_t i, struct initializer *ret,
			    struct err *err)
{
	struct json_reader r;
	char path[40];

	ret->exec.timeout_sec = INITIALIZER_TIMEOUT_SEC;
	if (json_type(item) == JSON_STRING)
		ret->exec.command = json_str(item);
	if (json_type(item) != JSON_OBJECT)
		return ret->exec.command.p ? 0
					   : err_set(err, ERR_INVALID_REQUEST,
						     "initializers[%zu] must be a command (a "
						     "string) or an object",
						     i);
	(void)snprintf(path, sizeof(path), "initializers[%zu].", i);
	json_reader_init(&r, item, path, err);
	json_read_str(&r, "command", 1, INITIALIZER_COMMAND_MAX, &ret->exec.command);
	json_read_str(&r, "cmd", 1, INITIALIZER_COMMAND_MAX, &ret->exec.command);
	json_read_str(&r, "cwd", 1, INITIALIZER_CWD_MAX, &ret->exec.cwd);
	json_read_str(&r, "user", 1, INITIALIZER_USER_MAX, &ret->exec.user);
	json_read_int(&r, "timeout_sec", 1, INITIALIZER_TIMEOUT_MAX_SEC, &ret->exec.timeout_sec);
	json_read_str(&r, "name", 1, INITIALIZER_NAME_MAX, &ret->name);
	json_read_bool(&r, "continue_on_error", &ret->continue_on_error);
	return json_reader_end(&r);
}

static int read_initializers(struct template *tpl, const struct json *array, struct err *err)
{
	struct initializer items[INITIALIZERS_MAX] = { { .continue_on_error = false } };
	size_t count = json_size(array);

	if (count > INITIALIZERS_MAX)
		return err_set(err, ERR_INVALID_REQUEST,
			       "initializers must have at most %d elements", INITIALIZERS_MAX);
	for (size_t i = 0; i < count; i++)
		if (read_initializer(json_at(array, i), i, &items[i], err) < 0)
			return -1;
	return initializers_make(&(struct initializer_list){ items, count }, &tpl->initializers,
				 err);
}

static int read_env(struct template *tpl, const struct json *object, struct err *err)
{
	struct text_pair *list = calloc(json_size(object) + 1, sizeof(*list));
	const struct json *value;
	const char *key;
	void *it = NULL;
	size_t n = 0;
	int r;

	if (!list)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	while (json_next(object, &it, &key, &value))
		if (json_type(value) == JSON_STRING)
			list[n++] = (struct text_pair){ str_of(key), json_str(value) };
	r = n == json_size(object)
		    ? pairs_make(&tpl->env, &(struct text_map){ list, n }, &pairs_env, err)
		    : err_set(err, ERR_INVALID_REQUEST, "env: values must be strings");
	free(list);
	return r;
}

static void read_numbers(struct template *tpl, const struct json *meta, struct err *err)
{
	const struct json *value;
	const char *name;
	void *it = NULL;

	while (json_next(meta, &it, &name, &value)) {
		if (strcmp(name, "version") == 0 && json_type(value) == JSON_INT)
			tpl->version = json_int(value);
		else if (strcmp(name, "size_bytes") == 0 && json_type(value) == JSON_INT)
			tpl->size_bytes = json_int(value);
		else if (strcmp(name, "files") == 0 && json_type(value) == JSON_INT)
			tpl->files = json_int(value);
		else if (strcmp(name, "preview_port") == 0 && json_type(value) == JSON_INT &&
			 json_int(value) > 0 && json_int(value) <= UINT16_MAX &&
			 !preview_is_reserved(json_int(value)))
			tpl->preview_port = (uint16_t)json_int(value);
		else if (strcmp(name, "initializers") == 0 && json_type(value) == JSON_ARRAY &&
			 read_initializers(tpl, value, err) < 0)
			log_warn("template %s: %s", tpl->name, err->message);
		else if (strcmp(name, "env") == 0 && json_type(value) == JSON_OBJECT &&
			 read_env(tpl, value, err) < 0)
			log_warn("template %s: %s", tpl->name, err->message);
	}
}

/* The object in meta.json of a version; NULL: there is none, or it is unreadable. */
static struct json *load_meta(const struct service *service, const char *hash_hex)
{
	char path[4096], *text = malloc(META_MAX_BYTES);
	struct json *meta = NULL;
	struct err err;
	size_t n = 0;
	int r;

	if (!text)
		return NULL;
	(void)snprintf(path, sizeof(path), "%s/%s/meta.json", service->config.template_dir,
		       hash_hex);
	r = read_small(path, text, META_MAX_BYTES, &n);
	if (r < 0) {
		log_debug("template %s: no meta.json: %s", hash_hex, strerror(-r));
	} else {
		meta = json_parse((struct str){ text, n }, &err);
		if (!meta || json_type(meta) != JSON_OBJECT) {
			log_warn("template %s: meta.json is unreadable", hash_hex);
			json_free(meta);
			meta = NULL;
		}
	}
	free(text);
	return meta;
}

static void read_meta(struct service *service, struct template *tpl)
{
	_cleanup_json_ struct json *meta = load_meta(service, tpl->hash_hex);
	struct err err;

	if (!meta)
		return;
	read_text(meta, "created_at", tpl->created_at, sizeof(tpl->created_at));
	read_text(meta, "workdir", tpl->workdir, sizeof(tpl->workdir));
	read_text(meta, "user", tpl->user, sizeof(tpl->user));
	read_text(meta, "shell", tpl->shell, sizeof(tpl->shell));
	read_text(meta, "from", tpl->from, sizeof(tpl->from));
	read_numbers(tpl, meta, &err);
}

static struct template *known(const struct service *service, const char *name, const char *hash_hex)
{
	for (struct template *tpl = service->templates->first; tpl; tpl = tpl->next)
		if (strcmp(tpl->name, name) == 0 && strcmp(tpl->hash_hex, hash_hex) == 0)
			return tpl;
	return NULL;
}

struct template *template_by_hash(struct service *service, const char *name, const char *hash_hex,
				  struct err *err)
{
	struct template *tpl = known(service, name, hash_hex);

	if (tpl)
		return tpl;
	tpl = calloc(1, sizeof(*tpl));
	if (!tpl) {
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		return NULL;
	}
	if (str_unhex(tpl->hash, sizeof(tpl->hash), str_of(hash_hex)) < 0 ||
	    !bounds_template_name(str_of(name))) {
		free(tpl);
		(void)err_set(err, ERR_TEMPLATE_NOT_FOUND,
			      "the reference of template '%.64s' is damaged", name);
		return NULL;
	}
	(void)snprintf(tpl->name, sizeof(tpl->name), "%s", name);
	(void)snprintf(tpl->hash_hex, sizeof(tpl->hash_hex), "%s", hash_hex);
	(void)snprintf(tpl->shell, sizeof(tpl->shell), "/bin/bash");
	read_meta(service, tpl);
	tpl->next = service->templates->first;
	service->templates->first = tpl;
	return tpl;
}

struct template *template_by_content(struct service *service, const char *hash_hex, struct err *err)
{
	_cleanup_json_ struct json *meta = load_meta(service, hash_hex);
	char name[TEMPLATE_NAME_MAX + 1] = "";

	if (meta)
		read_text(meta, "name", name, sizeof(name));
	return template_by_hash(service, name[0] ? name : "unknown", hash_hex, err);
}

void template_image(const struct template *tpl, struct engine_image_ref *ret)
{
	*ret = (struct engine_image_ref){ .kind = ENGINE_IMAGE_TEMPLATE };
	memcpy(ret->name, tpl->name, sizeof(ret->name));
	memcpy(ret->hash, tpl->hash, sizeof(ret->hash));
}

static int not_found(struct str name, struct err *err)
{
	return err_set(err, ERR_TEMPLATE_NOT_FOUND, "no template '%.*s'", (int)MIN(name.n, 64),
		       name.p);
}

/* refs/NAME holds "VERSION HASH". */
static struct template *read_ref(struct service *service, const char *path, struct str name,
				 struct err *err)
{
	char text[256], name_text[TEMPLATE_NAME_MAX + 1], hash_text[65];
	struct str version, hash;
	struct template *tpl;
	uint64_t number = 0;
	size_t n = 0;

	if (read_small(path, text, sizeof(text), &n) < 0 ||
	    str_copy(name_text, sizeof(name_text), name) < 0) {
		(void)not_found(name, err);
		return NULL;
	}
	if (!str_cut(str_trim((struct str){ text, n }, " \r\n"), ' ', &version, &hash) ||
	    str_to_u64(version, INT64_MAX, &number) < 0 ||
	    str_copy(hash_text, sizeof(hash_text), hash) < 0) {
		(void)err_set(err, ERR_TEMPLATE_NOT_FOUND,
			      "the reference of template '%s' is damaged", name_text);
		return NULL;
	}
	tpl = template_by_hash(service, name_text, hash_text, err);
	if (tpl)
		tpl->version = (int64_t)number;
	return tpl;
}

static struct template_ref *ref_of(struct service *service, struct str name)
{
	struct template_ref *ref = map_get(&service->templates->refs, name);

	if (ref || service->templates->refs.count >= TEMPLATES_MAX)
		return ref;
	ref = calloc(1, sizeof(*ref));
	if (ref && map_put(&service->templates->refs, name, ref) < 0) {
		free(ref);
		ref = NULL;
	}
	return ref;
}

bool template_removing(struct service *service, struct str name)
{
	const struct template_ref *ref = map_get(&service->templates->refs, name);

	return ref && ref->removing;
}

/* The caller has just found the template, so its reference exists. */
void template_set_removing(struct service *service, struct str name, bool removing)
{
	struct template_ref *ref = map_get(&service->templates->refs, name);

	if (!ref)
		return;
	ref->removing = removing;
	ref->looked_ms = 0;
	if (!removing)
		ref->template = NULL; /* read it again on the next use */
}

struct template *template_find(struct service *service, struct str name, struct err *err)
{
	int64_t now_ms = loop_now_ms(service->config.loop);
	struct template_ref *ref = map_get(&service->templates->refs, name);
	struct template *tpl;
	struct stat st;
	char path[4096];

	if (ref && ref->removing) {
		(void)err_set(err, ERR_CONFLICT, "template '%.*s' is being removed", (int)name.n,
			      name.p);
		return NULL;
	}
	if (ref && ref->template && now_ms - ref->looked_ms < REF_FRESH_MS)
		return ref->template;
	if (!bounds_template_name(name)) {
		(void)not_found(name, err);
		return NULL;
	}
	if (snprintf(path, sizeof(path), "%s/refs/%.*s", service->config.template_dir, (int)name.n,
		     name.p) >= (int)sizeof(path) ||
	    stat(path, &st) < 0) {
		if (ref)
			ref->template = NULL;
		(void)not_found(name, err);
		return NULL;
	}
	if (ref && ref->template && ref->mtime.tv_sec == st.st_mtim.tv_sec &&
	    ref->mtime.tv_nsec == st.st_mtim.tv_nsec) {
		ref->looked_ms = now_ms;
		return ref->template;
	}
	tpl = read_ref(service, path, name, err);
	ref = tpl ? ref_of(service, name) : NULL;
	if (ref)
		*ref = (struct template_ref){ tpl, st.st_mtim, now_ms, false };
	return tpl;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int template_names(struct service *service, char **ret_names, size_t *ret_count, struct err *err)
{
	char path[4096], *sorted[TEMPLATES_MAX], *block, *at;
	size_t count = 0, bytes = 0;
	struct dirent *entry;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "%s/refs", service->config.template_dir);
	dir = opendir(path);
	while (dir && count < TEMPLATES_MAX && (entry = readdir(dir))) {
		if (!bounds_template_name(str_of(entry->d_name)))
			continue;
		sorted[count] = strdup(entry->d_name);
		if (!sorted[count])
			break;
		bytes += strlen(sorted[count++]) + 1;
	}
	if (dir)
		(void)closedir(dir);
	qsort(sorted, count, sizeof(sorted[0]), compare_names);
	block = at = malloc(bytes + 1);
	for (size_t i = 0; i < count; i++) {
		size_t n = strlen(sorted[i]) + 1;

		if (block)
			memcpy(at, sorted[i], n);
		at += block ? n : 0;
		free(sorted[i]);
	}
	if (!block)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	*ret_names = block;
	*ret_count = count;
	return 0;
}

struct templates *templates_new(void)
{
	struct templates *templates = calloc(1, sizeof(*templates));

	if (templates)
		map_init(&templates->refs);
	return templates;
}

void templates_close(struct service *service)
{
	size_t cursor = 0;
	void *ref;

	while (service->templates->first) {
		struct template *tpl = service->templates->first;

		service->templates->first = tpl->next;
		pairs_done(&tpl->env);
		initializers_free(tpl->initializers);
		free(tpl);
	}
	while ((ref = map_next(&service->templates->refs, &cursor)))
		free(ref);
	map_done(&service->templates->refs);
	build_done_all(service);
	free(service->templates);
}
