/* SPDX-License-Identifier: Apache-2.0 */
/* team_mpi.c - a team over MPI; compiled where MPI was found. */
#define _GNU_SOURCE /* nanosleep */
#include <mpi.h>
#include <time.h>

#include "train_impl.h"

enum { MOST = 1 << 28 }; /* numbers of one call: MPI counts in int */

/* Waits until all processes are here. MPI itself polls without a pause, which takes the core from
 * the processes waited for where there are fewer cores than processes, or others use them. A wait
 * of up to 0.1 ms is polled; in a longer one, sleep makes up an eighth of what has passed so far,
 * so that it ends at most that much, and never more than 1 ms, late. */
static bool gather(void)
{
    MPI_Request  all;
    int          here = 0;
    const double begin = MPI_Wtime();
    if (MPI_Ibarrier(MPI_COMM_WORLD, &all)) return false;
    for (;;) {
        if (MPI_Test(&all, &here, MPI_STATUS_IGNORE)) return false;
        if (here) return true;
        const double waited = MPI_Wtime() - begin, pause = waited < 8e-3 ? waited / 8 : 1e-3;
        if (waited > 1e-4) nanosleep(&(struct timespec) { .tv_nsec = (long)(1e9 * pause) }, NULL);
    }
}

static bool sum(void *user, ts_dtype dtype, void *x, int64_t n)
{
    (void)user;
    const MPI_Datatype type = dtype == TS_F64 ? MPI_DOUBLE : MPI_FLOAT;
    const size_t       size = dtype == TS_F64 ? sizeof(double) : sizeof(float);
    if (!gather()) return false;
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
    if (MPI_Init(NULL, NULL)) return ts_say(why, "MPI cannot be initialised");
    MPI_Comm_rank(MPI_COMM_WORLD, &t->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &t->size);
    t->sum = sum;
    t->leave = leave;
    return true;
}
