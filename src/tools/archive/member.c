/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/archive/member.h"

#include <errno.h>

/* Removes the next part from the front; false: there is none. */
static bool next_part(struct str *path, struct str *ret)
{
	while (path->n && path->p[0] == '/') {
		path->p++;
		path->n--;
	}
	if (path->n == 0)
		return false;
	ret->p = path->p;
	for (ret->n = 0; ret->n < path->n && path->p[ret->n] != '/'; ret->n++)
		;
	path->p += ret->n;
	path->n -= ret->n;
	return true;
}

int member_clean(struct str path, char *dst, size_t size, size_t *ret_n)
{
	struct str part;
	size_t n = 0;

	if (path.n && memchr(path.p, '\0', path.n))
		return -EINVAL;
	if (path.n && path.p[0] == '/')
		return -EXDEV;
	while (next_part(&path, &part)) {
		if (str_is(part, "."))
			continue;
		if (str_is(part, ".."))
			return -EXDEV;
		if (part.n > 255 || n + part.n + 2 > size)
			return -ENAMETOOLONG;
		if (n)
			dst[n++] = '/';
		memcpy(dst + n, part.p, part.n);
		n += part.n;
	}
	dst[n] = '\0';
	*ret_n = n;
	return 0;
}

bool member_link_stays(struct str path, struct str target)
{
	struct str part;
	size_t depth = 0;

	if (target.n == 0 || target.p[0] == '/' || memchr(target.p, '\0', target.n))
		return false;
	while (next_part(&path, &part))
		depth++;
	if (depth == 0)
		return false;
	depth--; /* the link's own name */
	while (next_part(&target, &part)) {
		if (str_is(part, "."))
			continue;
		if (!str_is(part, ".."))
			depth++;
		else if (depth-- == 0)
			return false;
	}
	return true;
}
