/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target on all given files (or on those in given directories) without a fuzzer, so
 * that every crash that was ever found stays a test. Each input is in memory of exactly its size.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	struct stat st;
	uint8_t *data;
	size_t n;

	if (!file || fstat(fileno(file), &st) < 0) {
		(void)fprintf(stderr, "%s: %s\n", path, strerror(errno));
		if (file)
			(void)fclose(file);
		return -1;
	}
	data = malloc((size_t)st.st_size + (st.st_size == 0));
	n = data ? fread(data, 1, (size_t)st.st_size, file) : 0;
	(void)fclose(file);
	if (data && n == (size_t)st.st_size)
		(void)LLVMFuzzerTestOneInput(data, n);
	free(data);
	return data && n == (size_t)st.st_size ? 1 : -1;
}

static int run_dir(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int count = 0;

	if (!dir)
		return run_file(path);
	while ((entry = readdir(dir))) {
		char name[4096];

		if (entry->d_name[0] == '.')
			continue;
		(void)snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		if (run_file(name) < 0)
			count = INT16_MIN;
		else
			count++;
	}
	(void)closedir(dir);
	return count > 0 ? count : -1;
}

int main(int argc, char **argv)
{
	int count = 0;

	for (int i = 1; i < argc; i++) {
		int n = run_dir(argv[i]);

		if (n < 0)
			return 1;
		count += n;
	}
	(void)printf("%d inputs\n", count);
	return count ? 0 : 1;
}
