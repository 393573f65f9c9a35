/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api/sse.h"

#include <errno.h>

void event_init(struct event_reader *reader, event_fn fn, void *arg)
{
	*reader = (struct event_reader){ .fn = fn, .arg = arg };
	buf_init(&reader->line, EVENT_LIMIT_BYTES);
	buf_init(&reader->data, EVENT_LIMIT_BYTES);
}

void event_done(struct event_reader *reader)
{
	buf_done(&reader->line);
	buf_done(&reader->data);
}

void event_reset(struct event_reader *reader)
{
	buf_clear(&reader->line);
	buf_clear(&reader->data);
	reader->name[0] = '\0';
}

static int dispatch(struct event_reader *reader)
{
	struct str data = buf_str(&reader->data);
	int r = 0;

	if (data.n > 0) {
		data.n--; /* the last line end */
		r = reader->fn(reader->arg, str_of(reader->name), str_of(reader->id), data);
	}
	buf_clear(&reader->data);
	reader->name[0] = '\0';
	return r;
}

static int take_line(struct event_reader *reader, struct str line)
{
	struct str name, value;

	if (line.n > 0 && line.p[line.n - 1] == '\r')
		line.n--;
	if (line.n == 0)
		return dispatch(reader);
	if (line.p[0] == ':')
		return 0;
	if (!str_cut(line, ':', &name, &value)) {
		name = line;
		value = (struct str){ "", 0 };
	}
	if (value.n > 0 && value.p[0] == ' ')
		value = (struct str){ value.p + 1, value.n - 1 };
	if (str_is(name, "data")) {
		if (buf_append(&reader->data, value.p, value.n) < 0 ||
		    buf_putc(&reader->data, '\n') < 0)
			return -EPROTO;
	} else if (str_is(name, "event")) {
		return str_copy(reader->name, sizeof(reader->name), value) < 0 ? -EPROTO : 0;
	} else if (str_is(name, "id")) {
		return str_copy(reader->id, sizeof(reader->id), value) < 0 ? -EPROTO : 0;
	}
	return 0;
}

int event_feed(struct event_reader *reader, const char *p, size_t n)
{
	while (n > 0) {
		const char *end = memchr(p, '\n', n);
		struct str line = { p, end != NULL ? (size_t)(end - p) : n };
		int r;

		if (end == NULL)
			return buf_append(&reader->line, p, n) < 0 ? -EPROTO : 0;
		p += line.n + 1;
		n -= line.n + 1;
		if (buf_len(&reader->line) > 0) { /* its start arrived before */
			if (buf_append(&reader->line, line.p, line.n) < 0)
				return -EPROTO;
			line = buf_str(&reader->line);
		}
		r = take_line(reader, line);
		buf_clear(&reader->line);
		if (r != 0)
			return r;
	}
	return 0;
}
