/* SPDX-License-Identifier: Apache-2.0 */
/* judge_entrants.h - the entrants of `touchstone judge`. */
#ifndef TS_JUDGE_ENTRANTS_H
#define TS_JUDGE_ENTRANTS_H

#include "run.h"

/* The class of what can be read there, if all of it is for a GPU; else NULL. Classes are read again
 * when entrants are admitted; here they only choose the device. */
const char *ts_judge_gpu_class(const char *path);

/* The names of the built-in entrants, some several times; NULL after the last. */
const char *ts_built_in_name(size_t i);

/* Admits the given entrants, or the built-in ones if there is none, of this challenge (NULL: any)
 * and class (below 0: any). False and one line on standard error if there is none. */
bool ts_judge_gather(ts_run *c, const char *const *given, const char *challenge, int cls);

#endif
