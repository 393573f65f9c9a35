/* SPDX-License-Identifier: Apache-2.0 */
/* `cay doctor`: a list of checks of the host, each with advice. */
#ifndef CAY_CLI_DOCTOR_DOCTOR_H
#define CAY_CLI_DOCTOR_DOCTOR_H

#include "base/macro.h"

enum check_level { CHECK_OK, CHECK_WARN, CHECK_FAIL };

#define DOCTOR_CHECKS_MAX 80 /* further ones are counted but not shown */

struct check {
	enum check_level level;
	const char *group;
	char name[40];
	char detail[160];
	char next[320]; /* empty if nothing needs to be done */
};

struct doctor {
	struct check checks[DOCTOR_CHECKS_MAX];
	size_t count;
	unsigned kernel; /* major * 1000 + minor */
	const char *state;
	char storage[32]; /* the setting: auto, btrfs or directory */
};

/* Adds a check and returns it, so that the caller can add advice. */
struct check *doctor_add(struct doctor *doctor, const char *group, enum check_level level,
			 const char *name, const char *detail, ...) _printf_(5, 6);
void doctor_next(struct check *check, const char *fmt, ...) _printf_(2, 3);

void doctor_kernel(struct doctor *doctor);
void doctor_features(struct doctor *doctor);
void doctor_storage(struct doctor *doctor);
void doctor_limits(struct doctor *doctor);
void doctor_sysctls(struct doctor *doctor);
void doctor_network(struct doctor *doctor);
void doctor_programs(struct doctor *doctor);

/* Reads a small file, trimmed. 0 or -errno. */
int doctor_read(const char *path, char *dst, size_t size) _must_check_;
/* A file that holds one decimal number. 0 or -errno. */
int doctor_number(const char *path, uint64_t *ret) _must_check_;

/* Converts "1.3.6" and similar to a comparable number; 0 if text has no version. */
uint64_t doctor_version(const char *text);
/* Whether this version of a program lacks a published fix: the advice, or NULL if it does not. */
const char *doctor_known_bad(const char *program, uint64_t version, unsigned kernel);

#endif
