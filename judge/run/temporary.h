/* SPDX-License-Identifier: Apache-2.0 */
/* temporary.h - temporary folders that are removed when the judge ends, even if it is killed. */
#ifndef TS_TEMPORARY_H
#define TS_TEMPORARY_H

#include <stdbool.h>

enum { TS_TEMPORARY_PATH = 64 };

/* Creates a private folder with an unpredictable name, inside one of this process. A helper process
 * removes that when this process ends, even by SIGKILL. */
bool ts_temporary(char path[TS_TEMPORARY_PATH]);
void ts_temporary_remove(const char *path); /* recursively; "": nothing */

#endif
