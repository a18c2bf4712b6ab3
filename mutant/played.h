/* SPDX-License-Identifier: Apache-2.0 */
/* played.h - the end of a file of mutants that are played: their table, and one of them by name.
 * The file has MUTANTS, the traps in the order of that list, `now`, the one that is set, and
 * `check`, `state` and `lay_out`; and says
 *   STEM   beam_search       the task
 *   PLAY   ts_beam_play      what plays it
 *   ENTRY  search            what is played */
#include <string.h>

#define PASTE_(a, b, c) a##b##c
#define PASTE(a, b, c)  PASTE_(a, b, c)
#define TEXT_(a)        #a
#define TEXT(a)         TEXT_(a)
#define ALL             PASTE(ts_, STEM, _mutants)
#define BY_NAME         PASTE(ts_, STEM, _mutant)

static ts_status workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    state           s;
    const ts_status status = check(args);
    (void)x;
    if (!status) *n_bytes = lay_out(&s, args, NULL);
    return status;
}

#define RUN(trap, name, fault, family)                                                             \
    static ts_status run_##trap(const void *a, const ts_exec *x)                                   \
    {                                                                                              \
        now = trap;                                                                                \
        return PLAY(ENTRY, a, x);                                                                  \
    }                                                                                              \
    static ts_status workspace_##trap(const void *a, const ts_exec *x, size_t *n)                  \
    {                                                                                              \
        now = trap;                                                                                \
        return PASTE(PLAY, _workspace, )(workspace, a, x, n);                                      \
    }
MUTANTS(RUN)

#define ROW(trap, name, fault, family)                                                             \
    { name, TEXT(STEM), TS_FAULT_##fault, family, run_##trap, workspace_##trap, TS_CPU },

extern const ts_mutant ALL[];
const ts_mutant        ALL[] = { MUTANTS(ROW) { 0 } };

/* The entry itself, with the trap of this name, for tests that make entrants of it. False: there is
 * no such trap. */
bool BY_NAME(const char *name, ts_run_fn *run, ts_workspace_fn *query);

bool BY_NAME(const char *name, ts_run_fn *run, ts_workspace_fn *query)
{
    for (int i = 0; i < N_TRAPS; i++) {
        if (strcmp(ALL[i].name, name)) continue;
        now = (trap)i; /* the table has their order */
        *run = ENTRY;
        *query = workspace;
        return true;
    }
    return false;
}
