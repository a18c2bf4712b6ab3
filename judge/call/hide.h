/* SPDX-License-Identifier: Apache-2.0 */
/* hide.h - what this machine has of the project where an entrant could read it. */
#ifndef TS_HIDE_H
#define TS_HIDE_H

#include <stdbool.h>

#include "call.h"

/* `python` is "" if the entrant has no interpreter. Files and folders, each ended by a 0, the list
 * by another. False if it does not fit. */
bool ts_hide_list(const char *python, char list[TS_CALL_HIDDEN]);

#endif
