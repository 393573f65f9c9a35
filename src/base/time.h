/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_TIME_H
#define CAY_BASE_TIME_H

#include "base/macro.h"
#include "base/str.h"

#define TIME_RFC3339_SIZE 32
#define TIME_BOOT_ID_SIZE 40
#define TIME_START_ID_SIZE 24

int64_t time_real_ms(void); /* wall clock, for display and database rows */
int64_t time_boot_ms(void); /* includes suspend; for deadlines */
int64_t time_mono_us(void); /* for durations */
/*
 * Identifies the boot that time_boot_ms() counts from; it changes with every boot of the host. ""
 * if unknown.
 */
void time_boot_id(char dst[TIME_BOOT_ID_SIZE]);
/*
 * Identifies the start of pid 1. In a container it changes with every start of the container, while
 * the boot id stays the same. "" if unknown.
 */
void time_start_id(char dst[TIME_START_ID_SIZE]);
/* "2026-11-16T00:42:00.123Z" */
void time_rfc3339(char dst[TIME_RFC3339_SIZE], int64_t real_ms);
/* "2026-11-16T00:42:00Z" with or without a fraction, or only the date. 0 or -EINVAL. */
int time_from_rfc3339(struct str text, int64_t *ret_ms) _must_check_;

#endif
