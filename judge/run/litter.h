/* SPDX-License-Identifier: Apache-2.0 */
/* litter.h - temporary folders that are removed when the judge ends, even if it is killed. */
#ifndef TS_LITTER_H
#define TS_LITTER_H

#include <stdbool.h>

enum { TS_LITTER_PATH = 64 };

/* Creates a private folder with an unpredictable name, inside one of this process. A helper process
 * removes that when this process ends, even by SIGKILL. */
bool ts_litter(char path[TS_LITTER_PATH]);
void ts_litter_remove(const char *path); /* recursively; "": nothing */

#endif
