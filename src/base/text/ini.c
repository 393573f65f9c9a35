/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/ini.h"

#include <errno.h>
#include <stdio.h>

#define LINE_MAX_BYTES 4096

int ini_line(struct str line, struct str *ret_name, struct str *ret_value)
{
	struct str name, value;

	line = str_trim(line, " \t\r\n");
	if (line.n == 0 || line.p[0] == '#' || line.p[0] == ';' || line.p[0] == '[')
		return 0;
	if (!str_cut(line, '=', &name, &value))
		return -EINVAL;
	*ret_name = str_trim(name, " \t");
	*ret_value = str_trim(value, " \t");
	return 1;
}

int ini_find(const char *path, const char *name, char *dst, size_t size)
{
	char line[LINE_MAX_BYTES];
	struct str own, value;
	FILE *file = fopen(path, "re");
	int r = -ENOENT;

	if (!file)
		return -errno;
	while (r != -ENAMETOOLONG && fgets(line, sizeof(line), file))
		if (ini_line(str_of(line), &own, &value) > 0 && str_is(own, name))
			r = str_copy(dst, size, value) < 0 ? -ENAMETOOLONG : 0;
	(void)fclose(file);
	return r;
}
