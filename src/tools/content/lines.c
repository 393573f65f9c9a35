/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/content/lines.h"

#include <emmintrin.h>

bool lines_look_binary(struct str front)
{
	return front.n && memchr(front.p, '\0', front.n);
}

static bool wanted(const struct lines *l)
{
	return !l->full && l->number + 1 >= l->first && l->number + 1 - l->first < l->count;
}

/* Never inside a character, because clients expect whole characters. */
static size_t cut_at_character(const char *p, size_t n)
{
	size_t back = 0;

	while (back < 3 && back < n && ((unsigned char)p[n - back] & 0xc0) == 0x80)
		back++;
	return ((unsigned char)p[n - back] & 0xc0) == 0xc0 ? n - back : n;
}

static void end_line(struct lines *l, bool open)
{
	struct tool_line line = { .number = l->number + 1, .flags = open ? TOOL_LINE_OPEN : 0 };

	if (wanted(l)) {
		if (!open && l->line_bytes && l->last == '\r') {
			line.flags |= TOOL_LINE_CR;
			if (l->text_len == l->line_bytes)
				l->text_len--;
			l->line_bytes--;
			l->sent_crlf++;
		}
		line.bytes = l->line_bytes;
		if (l->text_len > LINES_SHOWN_MAX)
			l->text_len = cut_at_character(l->text, LINES_SHOWN_MAX);
		if (l->text_len < l->line_bytes)
			line.flags |= TOOL_LINE_CUT;
		line.text = (struct str){ l->text, l->text_len };
		if (l->sent && l->sent_bytes + line.text.n > l->bytes_max) {
			l->full = true;
		} else {
			l->emit(l->arg, &line);
			l->sent++;
			l->sent_bytes += line.text.n;
		}
	}
	l->number++;
	l->line_bytes = 0;
	l->text_len = 0;
}

uint64_t lines_count(struct str s)
{
	const __m128i end = _mm_set1_epi8('\n'), zero = _mm_setzero_si128();
	uint64_t count = 0;
	size_t i = 0;

	while (i + 16 <= s.n) {
		__m128i sums = zero;

		/* A byte lane can count to 255 before it must be added up. */
		for (int j = 0; j < 255 && i + 16 <= s.n; j++, i += 16)
			sums = _mm_sub_epi8(
				sums,
				_mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(s.p + i)), end));
		sums = _mm_sad_epu8(sums, zero);
		count +=
			(uint64_t)_mm_extract_epi16(sums, 0) + (uint64_t)_mm_extract_epi16(sums, 4);
	}
	for (; i < s.n; i++)
		count += s.p[i] == '\n';
	return count;
}

static void add(struct lines *l, struct str piece)
{
	size_t room = sizeof(l->text) - l->text_len;

	if (piece.n == 0)
		return;
	l->line_bytes += piece.n;
	l->last = piece.p[piece.n - 1];
	if (wanted(l) && room) {
		memcpy(l->text + l->text_len, piece.p, MIN(room, piece.n));
		l->text_len += MIN(room, piece.n);
	}
}

void lines_feed(struct lines *l, struct str bytes)
{
	while (bytes.n) {
		const char *end;
		size_t n;

		if (l->full || (l->number + 1 > l->first && l->number + 1 - l->first >= l->count)) {
			/* After the range: only the sum, and whether the last line has an end. */
			l->number += lines_count(bytes);
			end = memrchr(bytes.p, '\n', bytes.n);
			l->line_bytes = end ? (uint64_t)(bytes.p + bytes.n - end - 1)
					    : l->line_bytes + bytes.n;
			return;
		}
		end = memchr(bytes.p, '\n', bytes.n);
		n = end ? (size_t)(end - bytes.p) : bytes.n;
		add(l, (struct str){ bytes.p, n });
		if (!end)
			return;
		end_line(l, false);
		bytes.p += n + 1;
		bytes.n -= n + 1;
	}
}

bool lines_finish(struct lines *l)
{
	if (l->line_bytes == 0)
		return false;
	end_line(l, true);
	return true;
}
