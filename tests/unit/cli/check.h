/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka and the headers that it requires. */
#ifndef CAY_TESTS_CLI_CHECK_H
#define CAY_TESTS_CLI_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
