/* SPDX-License-Identifier: Apache-2.0 */
/* team_mpi.c - a team over MPI; compiled where MPI was found. */
#include <mpi.h>

#include "train_impl.h"

enum { MOST = 1 << 28 }; /* numbers of one call: MPI counts in int */

static bool sum(void *user, ts_dtype dtype, void *x, int64_t n)
{
    (void)user;
    const MPI_Datatype type = dtype == TS_F64 ? MPI_DOUBLE : MPI_FLOAT;
    const size_t       size = dtype == TS_F64 ? sizeof(double) : sizeof(float);
    for (int64_t i = 0; i < n; i += MOST) {
        const int count = n - i < MOST ? (int)(n - i) : MOST;
        if (MPI_Allreduce(MPI_IN_PLACE, (char *)x + (size_t)i * size, count, type, MPI_SUM,
                          MPI_COMM_WORLD))
            return false;
    }
    return true;
}

/* One that fails takes the others with it: they would wait for it for ever. */
static void leave(bool well)
{
    if (well) MPI_Finalize();
    else MPI_Abort(MPI_COMM_WORLD, 3);
}

bool ts_team_mpi(ts_team *t, char why[TS_MODEL_WHY])
{
    if (MPI_Init(NULL, NULL)) return ts_say(why, "MPI does not start");
    MPI_Comm_rank(MPI_COMM_WORLD, &t->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &t->size);
    t->sum = sum;
    t->leave = leave;
    return true;
}
