/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/search/pattern.h"

#include <emmintrin.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Steps of one attempt from one start: a few milliseconds. */
#define MATCH_LIMIT 1000000
#define HEAP_LIMIT_KIB 65536
#define JIT_STACK_BYTES (1U << 20)

struct pattern {
	pcre2_code *code;  /* the code in use: one of the two below */
	pcre2_code *chars; /* of characters */
	pcre2_code *bytes; /* matches bytes: same result and faster for ASCII text; may be NULL */
	pcre2_match_context *context;
	pcre2_match_data *data;
	pcre2_jit_stack *stack;
	bool jit;
	bool many_lines;
};

/*
 * A hostile pattern can keep one call busy for very long, so a timer must be able to end it. The
 * jump leaks the matcher's memory, which is not used again: only a reply and the exit follow.
 */
static sigjmp_buf escape;
static volatile sig_atomic_t matching, late;

static void on_alarm(int signum)
{
	late = 1;
	if (matching) {
		matching = 0;
		siglongjmp(escape, 1);
	}
}

void pattern_deadline(int64_t in_us)
{
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerval timer = { 0 };

	late = 0;
	if (in_us > 0) {
		timer.it_value.tv_sec = in_us / 1000000;
		timer.it_value.tv_usec = in_us % 1000000;
		(void)sigaction(SIGALRM, &action, NULL);
	}
	(void)setitimer(ITIMER_REAL, &timer, NULL);
}

/* Copies an escape outside of a set. False: it may match a line end, or depends on its position. */
static bool copy_escape(struct str t, size_t *i, struct buf *out)
{
	char c = *i + 1 < t.n ? t.p[*i + 1] : '\0';
	const char *as = NULL;

	*i += 2;
	switch (c) {
	case 's':
		as = "[^\\S\\n]";
		break;
	case 'W':
		as = "[^\\w\\n]";
		break;
	case 'D':
		as = "[^\\d\\n]";
		break;
	case 'H':
		as = "[^\\h\\n]";
		break;
	case 'V':
	case 'N':
	case 'S':
	case 'w':
	case 'd':
	case 'h':
	case 'b':
	case 'B':
	case 't':
	case 'r':
		break;
	default:
		/*
		 * Letters and digits have special meanings; other characters stand for themselves.
		 */
		if ((unsigned char)c < 0x21 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
		    (c >= 'a' && c <= 'z') || (unsigned char)c >= 0x7f)
			return false;
	}
	return as ? buf_puts(out, as) == 0 : buf_putc(out, '\\') == 0 && buf_putc(out, c) == 0;
}

/* Copies a set; the line end is added to a negated one. */
static bool copy_set(struct str t, size_t *i, struct buf *out)
{
	size_t at = *i + 1, first;
	bool negated = at < t.n && t.p[at] == '^';

	at += negated;
	if (at < t.n && t.p[at] == ']')
		return false; /* a bracket that is itself a member: rare */
	if (buf_puts(out, negated ? "[^\\n" : "[") < 0)
		return false;
	for (first = at; at < t.n && t.p[at] != ']'; at++) {
		unsigned char c = (unsigned char)t.p[at];

		if (c < 0x20 || c == '[' || (c == '-' && at == first && negated))
			return false;
		if (buf_putc(out, (char)c) < 0)
			return false;
		if (c != '\\')
			continue;
		c = at + 1 < t.n ? (unsigned char)t.p[++at] : 0;
		/* Only plain members, or classes without a line end. */
		if (c < 0x21 || c >= 0x7f || (c >= '0' && c <= '9') ||
		    (((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) && c != 'w' && c != 'd' &&
		     c != 'h' && c != 'S'))
			return false;
		if (buf_putc(out, (char)c) < 0)
			return false;
	}
	*i = at + 1;
	return at < t.n && at > first && buf_putc(out, ']') == 0;
}

/* "(?": groups and lookaround are accepted, settings and others are not. */
static bool copy_group(struct str t, size_t *i, struct buf *out)
{
	static const char *const fine[] = { "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>" };
	struct str rest = { t.p + *i, t.n - *i };

	for (size_t k = 0; k < ARRAY_LEN(fine); k++)
		if (str_starts(rest, fine[k])) {
			*i += strlen(fine[k]);
			return buf_puts(out, fine[k]) == 0;
		}
	return false;
}

bool pattern_within_lines(struct str t, struct buf *out)
{
	size_t i = 0;

	while (i < t.n) {
		unsigned char c = (unsigned char)t.p[i];
		char next = i + 1 < t.n ? t.p[i + 1] : '\0';
		bool ok;

		if (c == '\\') {
			ok = copy_escape(t, &i, out);
		} else if (c == '[') {
			ok = copy_set(t, &i, out);
		} else if (c == '(' && next == '?') {
			ok = copy_group(t, &i, out);
		} else {
			/* "(*": verbs of the matcher. Control characters include LF. */
			ok = !(c == '(' && next == '*') && (c >= 0x20 || c == '\t') &&
			     buf_putc(out, (char)c) == 0;
			i++;
		}
		if (!ok)
			return false;
	}
	return true;
}

static bool is_ascii(struct str t)
{
	size_t i = 0;

	for (; i + 16 <= t.n; i += 16)
		if (_mm_movemask_epi8(_mm_loadu_si128((const __m128i *)(t.p + i))))
			return false;
	for (; i < t.n; i++)
		if ((unsigned char)t.p[i] >= 0x80)
			return false;
	return true;
}

/* Contains nothing that treats a multi-byte character differently from its bytes. */
static bool is_plain_ascii(struct str t, bool fixed)
{
	for (size_t i = 0; i < t.n; i++) {
		unsigned char c = (unsigned char)t.p[i];

		if (c >= 0x80 || (!fixed && (c == '.' || c == '[' || c == '\\' || c == '(' ||
					     c == '{' || c == '+' || c == '*' || c == '?')))
			return false;
	}
	return true;
}

static pcre2_code *compile_as(struct str text, struct pattern_options o, uint32_t flags,
			      struct pattern_error *error)
{
	pcre2_compile_context *context = pcre2_compile_context_create(NULL);
	PCRE2_SIZE offset = 0;
	pcre2_code *code;
	int number = 0;

	if (!context)
		return NULL;
	(void)pcre2_set_newline(context, PCRE2_NEWLINE_LF);
	(void)pcre2_set_parens_nest_limit(context, 200);
	/* "^" and "$" match at lines; PCRE2_LITERAL does not support lines. */
	flags |= o.fixed ? PCRE2_LITERAL : PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
	flags |= o.ignore_case ? PCRE2_CASELESS : 0;
	code = pcre2_compile((PCRE2_SPTR)text.p, text.n, flags, &number, &offset, context);
	pcre2_compile_context_free(context);
	if (!code && error) {
		error->offset = offset;
		if (pcre2_get_error_message(number, (PCRE2_UCHAR *)error->message,
					    sizeof(error->message)) < 0)
			error->message[0] = '\0';
	}
	return code;
}

static void drop_code(struct pattern *p)
{
	pcre2_code_free(p->chars);
	pcre2_code_free(p->bytes);
	p->chars = p->bytes = p->code = NULL;
}

static int compile(struct pattern *p, struct str text, struct pattern_options o,
		   struct pattern_error *error)
{
	bool utf8 = str_is_utf8(text.p, text.n), ascii = is_ascii(text);
	uint32_t chars = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF;

	if (!utf8 || (!o.ignore_case && is_plain_ascii(text, o.fixed)))
		chars = 0; /* a byte is equivalent to a character */
	p->chars = compile_as(text, o, chars, error);
	if (!p->chars)
		return -EINVAL;
	if (chars && ascii)
		p->bytes = compile_as(text, o, 0, NULL);
	p->jit = pcre2_jit_compile(p->chars, PCRE2_JIT_COMPLETE) == 0 &&
		 (!p->bytes || pcre2_jit_compile(p->bytes, PCRE2_JIT_COMPLETE) == 0);
	p->code = p->chars;
	return 0;
}

void pattern_prepare(struct pattern *p, struct str text)
{
	p->code = p->bytes && is_ascii(text) ? p->bytes : p->chars;
}

static int prepare(struct pattern *p)
{
	p->context = pcre2_match_context_create(NULL);
	p->data = pcre2_match_data_create(1, NULL);
	if (!p->context || !p->data)
		return -ENOMEM;
	(void)pcre2_set_match_limit(p->context, MATCH_LIMIT);
	(void)pcre2_set_heap_limit(p->context, HEAP_LIMIT_KIB);
	if (p->jit) {
		p->stack = pcre2_jit_stack_create(32768, JIT_STACK_BYTES, NULL);
		if (!p->stack)
			return -ENOMEM;
		pcre2_jit_stack_assign(p->context, NULL, p->stack);
	}
	return 0;
}

int pattern_new(struct str text, struct pattern_options o, struct pattern **ret,
		struct pattern_error *error)
{
	struct pattern *p = calloc(1, sizeof(*p));
	struct buf written;
	int r = -EINVAL;

	if (!p)
		return -ENOMEM;
	*error = (struct pattern_error){ .message = "the pattern is empty or too long" };
	buf_init(&written, 8 * PATTERN_MAX);
	if (text.n && text.n <= PATTERN_MAX) {
		/* First the original, so that an error refers to what the client sent. */
		r = compile(p, text, o, error);
		p->many_lines = r == 0 &&
				(o.fixed ? !memchr(text.p, '\n', text.n)
					 : pattern_within_lines(text, &written)) &&
				!o.by_line;
		if (p->many_lines && !o.fixed && !str_eq(buf_str(&written), text)) {
			struct pattern_error ignored;

			drop_code(p);
			if (compile(p, buf_str(&written), o, &ignored) < 0) {
				p->many_lines = false;
				r = compile(p, text, o, error);
			}
		}
		if (r == 0)
			r = prepare(p);
	}
	buf_done(&written);
	if (r < 0)
		pattern_free(p);
	else
		*ret = p;
	return r;
}

void pattern_free(struct pattern *p)
{
	if (!p)
		return;
	pcre2_match_data_free(p->data);
	pcre2_match_context_free(p->context);
	pcre2_jit_stack_free(p->stack);
	drop_code(p);
	free(p);
}

/* 1 match, 0 none, -ETIME, -E2BIG. */
static int run(struct pattern *p, const char *subject, size_t n, size_t *begin, size_t *end)
{
	const PCRE2_SIZE *found;
	int code;

	if (sigsetjmp(escape, 0))
		return -ETIME;
	matching = 1;
	if (late) {
		matching = 0;
		return -ETIME;
	}
	if (p->jit)
		code = pcre2_jit_match(p->code, (PCRE2_SPTR)subject, n, 0, 0, p->data, p->context);
	else
		code = pcre2_match(p->code, (PCRE2_SPTR)subject, n, 0, 0, p->data, p->context);
	matching = 0;
	if (code == PCRE2_ERROR_NOMATCH)
		return 0;
	if (code < 0)
		return -E2BIG;
	found = pcre2_get_ovector_pointer(p->data);
	*begin = MIN(found[0], found[1]); /* \K may set the start after the end */
	*end = MAX(found[0], found[1]);
	return 1;
}

static size_t line_end_of(struct str text, size_t at)
{
	const char *end = at < text.n ? memchr(text.p + at, '\n', text.n - at) : NULL;

	return end ? (size_t)(end - text.p) : text.n;
}

static int find_by_line(struct pattern *p, struct str text, size_t from, struct pattern_hit *ret)
{
	while (from < text.n) {
		size_t end = line_end_of(text, from);
		int r = run(p, text.p + from, end - from, &ret->begin, &ret->end);

		if (r) {
			ret->line = from;
			ret->line_end = end;
			ret->begin += from;
			ret->end += from;
			return r;
		}
		from = end + 1;
	}
	return 0;
}

int pattern_find(struct pattern *p, struct str text, size_t from, struct pattern_hit *ret)
{
	const char *before;
	int r;

	if (from >= text.n)
		return 0;
	if (!p->many_lines)
		return find_by_line(p, text, from, ret);
	r = run(p, text.p + from, text.n - from, &ret->begin, &ret->end);
	if (r <= 0)
		return r;
	ret->begin += from;
	ret->end += from;
	/* An empty match after the last line end is in no line. */
	if (ret->begin == text.n && text.p[text.n - 1] == '\n')
		return 0;
	before = ret->begin > from ? memrchr(text.p + from, '\n', ret->begin - from) : NULL;
	ret->line = before ? (size_t)(before - text.p) + 1 : from;
	ret->line_end = line_end_of(text, ret->begin);
	return 1;
}
