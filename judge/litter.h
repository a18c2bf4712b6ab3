/* SPDX-License-Identifier: Apache-2.0 */
/* litter.h - temporary folders that do not outlive the judge, however it ends. */
#ifndef TS_LITTER_H
#define TS_LITTER_H

#include <stdbool.h>

enum { TS_LITTER_PATH = 64 };

/* A new folder, of nobody else's and with a name that cannot be foreseen. It lies in one of this
 * process's, which a process of its own removes when this one is no more, be it killed. */
bool ts_litter(char path[TS_LITTER_PATH]);
void ts_litter_remove(const char *path); /* and all in it; "": nothing */

#endif
