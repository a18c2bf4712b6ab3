/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - files in memory, and the one-line reasons for which they are rejected. */
#ifndef TS_MODEL_FILE_H
#define TS_MODEL_FILE_H

#include <stdbool.h>
#include <stddef.h>

enum { TS_MODEL_WHY = 256 };

/* Writes the line, with anything unprintable as '?', and returns false. */
bool ts_say(char why[TS_MODEL_WHY], const char *format, ...) __attribute__((format(printf, 2, 3)));

typedef struct ts_file {
    const unsigned char *bytes;
    size_t               n;
} ts_file;

bool ts_file_map(const char *path, ts_file *f, char why[TS_MODEL_WHY]);
void ts_file_unmap(ts_file *f);

#endif
