/* SPDX-License-Identifier: Apache-2.0 */
/* owners.h - one owner per name: entrants that a board would show as one, or as another's. */
#ifndef TS_TOOL_OWNERS_H
#define TS_TOOL_OWNERS_H

#include "run.h"

/* False, and an error line that names both places, if two entrants have one name and are not of one
 * owner; if a name is the project's own; or if a name has blanks at its ends, letters of several
 * scripts, or characters that only look like others. `own` is the folder of the project's entrants.
 *
 * The owner of an answer in a tree is that tree; of a file, the folder that it is in; of a folder
 * with entry.json, that folder, or the one that it is in if it is called like a challenge. Names
 * are equal if they differ in upper and lower case, in blanks, '-' and '_', or in characters that
 * look alike. */
bool ts_owners_ok(const ts_run *c, const char *own);

#endif
