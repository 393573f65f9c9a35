/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka requires these four headers before its own, in this order. */
#ifndef CAY_TEST_CHECK_H
#define CAY_TEST_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define assert_str(s, text) assert_true(str_is((s), (text)))

#endif
