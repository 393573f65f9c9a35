/* SPDX-License-Identifier: Apache-2.0 */
#include "face/e2b/envd/multipart.h"

#include <errno.h>

enum { BEFORE, HEAD, CONTENT, BEHIND, ENDED };

static bool is_boundary_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("'()+_,-./:=? ", c));
}

/* Copies the value of "; key=value" or "; key=\"value\"" to dst, without backslashes. */
static int parameter(struct str text, const char *key, char *dst, size_t size)
{
	size_t key_n = strlen(key), i = 0, n = 0;

	while (i < text.n) {
		bool quoted, wanted;
		size_t begin;

		while (i < text.n && (text.p[i] == ';' || text.p[i] == ' ' || text.p[i] == '\t'))
			i++;
		begin = i;
		while (i < text.n && text.p[i] != '=' && text.p[i] != ';')
			i++;
		if (i >= text.n || text.p[i] == ';')
			continue;
		wanted = str_eq_nocase((struct str){ text.p + begin, i - begin }, key) &&
			 i - begin == key_n;
		quoted = ++i < text.n && text.p[i] == '"';
		i += quoted;
		for (n = 0; i < text.n; i++) {
			char c = text.p[i];

			if (quoted ? c == '"' : c == ';')
				break;
			if (quoted && c == '\\' && i + 1 < text.n)
				c = text.p[++i];
			if (wanted && (n + 1 >= size || c == '\0'))
				return -EINVAL;
			if (wanted)
				dst[n++] = c;
		}
		if (quoted && (i >= text.n || text.p[i] != '"'))
			return -EINVAL;
		i += quoted;
		if (!wanted)
			continue;
		dst[n] = '\0';
		return 1;
	}
	return 0;
}

int multipart_init(struct multipart *m, struct str content_type)
{
	char boundary[MULTIPART_BOUNDARY_MAX + 1];
	struct str media, rest;
	size_t n;

	if (!str_cut(content_type, ';', &media, &rest) ||
	    !str_eq_nocase(str_trim(media, " \t"), "multipart/form-data") ||
	    parameter(rest, "boundary", boundary, sizeof(boundary)) != 1)
		return -EINVAL;
	n = strlen(boundary);
	for (size_t i = 0; i < n; i++)
		if (!is_boundary_char(boundary[i]))
			return -EINVAL;
	if (n == 0 || boundary[n - 1] == ' ')
		return -EINVAL;
	memcpy(m->delimiter, "\r\n--", 4);
	memcpy(m->delimiter + 4, boundary, n + 1);
	m->n = n + 4;
	m->state = BEFORE;
	m->data = (struct str){ "", 0 };
	m->name[0] = m->filename[0] = '\0';
	return 0;
}

static int read_disposition(struct multipart *m, struct str value)
{
	struct str kind, rest;
	char name[sizeof(m->name)];

	if (!str_cut(value, ';', &kind, &rest) ||
	    !str_eq_nocase(str_trim(kind, " \t"), "form-data"))
		return -EINVAL;
	if (parameter(rest, "name", name, sizeof(name)) == 1)
		memcpy(m->name, name, sizeof(name));
	return parameter(rest, "filename", m->filename, sizeof(m->filename)) < 0 ? -EINVAL : 0;
}

static int read_head(struct multipart *m, struct str head)
{
	m->name[0] = m->filename[0] = '\0';
	while (head.n) {
		const char *end = memmem(head.p, head.n, "\r\n", 2);
		struct str line = { head.p, end ? (size_t)(end - head.p) : head.n }, name, value;

		head = end ? (struct str){ end + 2, head.n - line.n - 2 } : (struct str){ "", 0 };
		if (!str_cut(line, ':', &name, &value))
			return -EINVAL;
		if (str_eq_nocase(str_trim(name, " \t"), "content-disposition") &&
		    read_disposition(m, str_trim(value, " \t")) < 0)
			return -EINVAL;
	}
	return 0;
}

/* The first boundary has no CR LF before it, unlike those that end a part. */
static int next_before(struct multipart *m, struct str bytes, size_t *ret_used)
{
	size_t n = m->n - 2;

	if (memcmp(bytes.p, m->delimiter + 2, MIN(bytes.n, n)) != 0)
		return -EINVAL;
	if (bytes.n < n)
		return MULTIPART_MORE;
	*ret_used = n;
	m->state = BEHIND;
	return MULTIPART_MORE;
}

/* "--": the end. CR LF: another part. */
static int next_behind(struct multipart *m, struct str bytes, size_t *ret_used)
{
	if (bytes.n < 2)
		return MULTIPART_MORE;
	*ret_used = 2;
	if (memcmp(bytes.p, "--", 2) == 0) {
		m->state = ENDED;
		return MULTIPART_END;
	}
	if (memcmp(bytes.p, "\r\n", 2) != 0)
		return -EINVAL;
	m->state = HEAD;
	return MULTIPART_MORE;
}

static int next_head(struct multipart *m, struct str bytes, size_t *ret_used)
{
	const char *end = memmem(bytes.p, bytes.n, "\r\n\r\n", 4);

	if (!end)
		return bytes.n > MULTIPART_HEAD_MAX ? -EINVAL : MULTIPART_MORE;
	if (end - bytes.p > MULTIPART_HEAD_MAX ||
	    read_head(m, (struct str){ bytes.p, (size_t)(end - bytes.p) }) < 0)
		return -EINVAL;
	*ret_used = (size_t)(end - bytes.p) + 4;
	m->state = CONTENT;
	return MULTIPART_BEGIN;
}

static int next_content(struct multipart *m, struct str bytes, size_t *ret_used)
{
	const char *end = memmem(bytes.p, bytes.n, m->delimiter, m->n);
	/* The last bytes may be the start of a delimiter. */
	size_t n = end ? (size_t)(end - bytes.p) : bytes.n - MIN(bytes.n, m->n - 1);

	if (n) {
		m->data = (struct str){ bytes.p, n };
		*ret_used = n;
		return MULTIPART_DATA;
	}
	if (!end)
		return MULTIPART_MORE;
	*ret_used = m->n;
	m->state = BEHIND;
	return MULTIPART_PART_END;
}

int multipart_next(struct multipart *m, struct str bytes, size_t *ret_used)
{
	*ret_used = 0;
	if (m->state == ENDED)
		return MULTIPART_END;
	if (bytes.n == 0)
		return MULTIPART_MORE;
	switch (m->state) {
	case BEFORE:
		return next_before(m, bytes, ret_used);
	case HEAD:
		return next_head(m, bytes, ret_used);
	case CONTENT:
		return next_content(m, bytes, ret_used);
	default:
		return next_behind(m, bytes, ret_used);
	}
}
