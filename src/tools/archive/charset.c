/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libarchive asks the locale for the encoding of names. This function replaces libc's: names are
 * always UTF-8, and files of the sandbox (locales, iconv tables) have no influence.
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
