/* SPDX-License-Identifier: Apache-2.0 */
/* unit.h - cmocka, with what it must be preceded by. */
#ifndef TS_UNIT_H
#define TS_UNIT_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#endif
