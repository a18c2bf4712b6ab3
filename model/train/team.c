/* SPDX-License-Identifier: Apache-2.0 */
/* team.c - the processes that train together: those that an MPI launcher started, else this one
 * alone. */
#include <stdlib.h>

#include "train_impl.h"

/* As Open MPI, and those with MPICH's launcher, tell their children. */
static int started(void)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i])) return atoi(getenv(names[i]));
    return 1;
}

bool ts_team_join(ts_team *t, char why[TS_MODEL_WHY])
{
    *t = (ts_team) { .size = 1 };
    if (started() < 2) return true;
#if TS_HAVE_MPI
    return ts_team_mpi(t, why);
#else
    return ts_say(why, "got %d processes, expected 1, as this program was built without MPI",
                  started());
#endif
}

void ts_team_leave(ts_team *t, bool well)
{
    if (t->leave) t->leave(well);
    *t = (ts_team) { .size = 1 };
}

bool ts_team_sum(const ts_team *t, ts_dtype dtype, void *x, int64_t n, char why[TS_MODEL_WHY])
{
    if (!t || t->size == 1) return true;
    return t->sum(t->user, dtype, x, n) || ts_say(why, "another process of the run has ended");
}
