/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/session/screen.h"

enum { PLAIN, ESCAPE, CONTROL };

/* DEC private modes; off is the state that a shell expects, except for the cursor (25). */
static const struct {
	unsigned int number;
	bool usual;
	const char *undo;
} modes[] = {
	{ 1, false, "\033[?1l" },	{ 25, true, "\033[?25h" },
	{ 1000, false, "\033[?1000l" }, { 1002, false, "\033[?1002l" },
	{ 1003, false, "\033[?1003l" }, { 1004, false, "\033[?1004l" },
	{ 1006, false, "\033[?1006l" }, { 2004, false, "\033[?2004l" },
	{ 47, false, "\033[?47l" },	{ 1047, false, "\033[?1047l" },
	{ 1049, false, "\033[?1049l" },
};
#define KEYPAD_BIT (1u << ARRAY_LEN(modes)) /* ESC = */

static void set_mode(struct screen *screen, unsigned int number, bool on)
{
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		if (modes[i].number != number)
			continue;
		if (on == modes[i].usual)
			screen->on &= ~(1u << i);
		else
			screen->on |= 1u << i;
	}
}

static void on_escape(struct screen *screen, char c)
{
	screen->state = PLAIN;
	if (c == '[') {
		screen->state = CONTROL;
		screen->is_private = false;
		screen->count = 0;
		screen->numbers[0] = 0;
	} else if (c == '=') {
		screen->on |= KEYPAD_BIT;
	} else if (c == '>') {
		screen->on &= ~KEYPAD_BIT;
	} else if (c == 'c') { /* full reset */
		screen->on = 0;
	} else if (c == '\033') {
		screen->state = ESCAPE;
	}
}

static void on_control(struct screen *screen, char c)
{
	unsigned int *number = &screen->numbers[screen->count];

	if (c >= '0' && c <= '9') {
		*number = *number < 100000 ? *number * 10 + (unsigned int)(c - '0') : *number;
	} else if (c == ';') {
		if (screen->count + 1 < ARRAY_LEN(screen->numbers))
			screen->numbers[++screen->count] = 0;
	} else if (c == '?') {
		screen->is_private = true;
	} else if (c == '\033') {
		screen->state = ESCAPE;
	} else if (c >= 0x40) { /* end of the sequence */
		for (size_t i = 0; i <= screen->count; i++)
			if (screen->is_private && (c == 'h' || c == 'l'))
				set_mode(screen, screen->numbers[i], c == 'h');
		screen->state = PLAIN;
	}
}

void screen_watch(struct screen *screen, struct str bytes)
{
	for (size_t i = 0; i < bytes.n; i++) {
		if (screen->state == PLAIN) {
			const char *next = memchr(bytes.p + i, '\033', bytes.n - i);

			if (next == NULL)
				return;
			i = (size_t)(next - bytes.p);
			screen->state = ESCAPE;
		} else if (screen->state == ESCAPE) {
			on_escape(screen, bytes.p[i]);
		} else {
			on_control(screen, bytes.p[i]);
		}
	}
}

static size_t put(char *dst, size_t n, const char *text)
{
	while (*text != '\0' && n < SCREEN_RESET_MAX)
		dst[n++] = *text++;
	return n;
}

size_t screen_reset(const struct screen *screen, char dst[SCREEN_RESET_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(modes); i++)
		if (screen->on & (1u << i))
			n = put(dst, n, modes[i].undo);
	if (screen->on & KEYPAD_BIT)
		n = put(dst, n, "\033>");
	return n;
}
