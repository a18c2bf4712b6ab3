/* SPDX-License-Identifier: Apache-2.0 */
/* python.h - finds the interpreter of Python entrants. */
#ifndef TS_PYTHON_H
#define TS_PYTHON_H

#include <stdbool.h>
#include <stddef.h>

/* Whether this Python has the module; `self`, if not NULL, gets the real interpreter's path, since
 * the cage cannot run a wrapper script. The name comes from the user and never reaches a shell. */
bool ts_python_has(const char *python, const char *module, char *self, size_t n_self);

/* The absolute path of the interpreter: $TOUCHSTONE_PYTHON, else the first python3 on PATH that has
 * NumPy, else the first. */
const char *ts_python_find(void);

#endif
