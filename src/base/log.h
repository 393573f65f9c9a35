/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: one line per event on standard error with time, level, program and text. If standard
 * error is systemd's journal, the line is "<priority>text", because the journal adds the rest.
 * Control bytes and quotes in foreign text are escaped, so hostile input can neither start a new
 * line nor control a terminal.
 */
#ifndef CAY_BASE_LOG_H
#define CAY_BASE_LOG_H

#include "base/macro.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_init(const char *program, enum log_level least);
int log_level_parse(const char *name, enum log_level *ret) _must_check_;
void log_at(enum log_level level, const char *fmt, ...) _printf_(2, 3);

#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_at(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)

#endif
