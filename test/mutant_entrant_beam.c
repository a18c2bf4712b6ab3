/* SPDX-License-Identifier: Apache-2.0 */
/* mutant_entrant_beam.c - a mutant of beam_search as a third-party shared library. mutant.sh
 * compiles it once for each, with MUTANT. */
#include <stdlib.h>

#include "beam_search_script.h"

#define TEXT(a)   #a
#define QUOTED(a) TEXT(a)

const ts_beam_table *ts_beam_search_mutant(const char *name); /* proof/mutant/beam_search.c */

static const ts_beam_table *mutant(void)
{
    const ts_beam_table *t = ts_beam_search_mutant(QUOTED(MUTANT));
    if (!t) abort();
    return t;
}

ts_status ts_beam_search(const ts_beam_search_args *a, const ts_exec *x)
{
    return mutant()->search(a, x);
}

ts_status ts_beam_search_workspace(const ts_beam_search_args *a, const ts_exec *x, size_t *n)
{
    return mutant()->search_workspace(a, x, n);
}

ts_status ts_beam_search_archive(const ts_beam_search_args *a, const ts_exec *x)
{
    return mutant()->archive(a, x);
}

ts_status ts_beam_search_archive_workspace(const ts_beam_search_args *a, const ts_exec *x,
                                           size_t *n)
{
    return mutant()->archive_workspace(a, x, n);
}
