/* SPDX-License-Identifier: Apache-2.0 */
/* header.h - what one challenge needs of the public headers. */
#ifndef TS_TOOL_HEADER_H
#define TS_TOOL_HEADER_H

#include <stdbool.h>
#include <stdio.h>

/* Writes the declarations of `names` (NULL ends), and of every type that they use, from a header of
 * `folder` and those that it includes, in order. False and one line on standard error: a file
 * cannot be read, or a name is not declared. */
bool ts_header_write(const char *folder, const char *header, const char *const *names, FILE *to);

#endif
