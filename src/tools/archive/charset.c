/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libarchive asks the locale what the bytes of names mean. Here they are UTF-8 wherever anybody
 * asks, and files of the sandbox (locales, tables of iconv) have no say in it: this takes the place
 * of libc's function.
 */
#include "tools/archive/charset.h"

#include <langinfo.h>

static bool bytes;

void charset_bytes(bool on)
{
	bytes = on;
}

char *nl_langinfo(nl_item item)
{
	static char utf8[] = "UTF-8", none[] = "";

	return item == CODESET && !bytes ? utf8 : none;
}
