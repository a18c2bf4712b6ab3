/* SPDX-License-Identifier: Apache-2.0 */
/* played.h - the end of a file of mutants that run scripts: their table, and one of them by name.
 *
 * The file defines MUTANTS, the enum of bugs in the order of that list, `now`, the bug that is set,
 * and `table`, the functions that the script calls; and
 *
 *   STEM   beam_search       the task
 *   TABLE  ts_beam_table     the type of `table` */
#include <string.h>

#define PASTE_(a, b, c) a##b##c
#define PASTE(a, b, c)  PASTE_(a, b, c)
#define TEXT_(a)        #a
#define TEXT(a)         TEXT_(a)
#define ALL             PASTE(ts_, STEM, _mutants)
#define BY_NAME         PASTE(ts_, STEM, _mutant)
#define PLAYER          PASTE(ts_player_, STEM, )

#define RUN(trap, name, fault, family)                                                             \
    static ts_status run_##trap(const void *a, const ts_exec *x)                                   \
    {                                                                                              \
        now = trap;                                                                                \
        return PLAYER.play(&table, NULL, a, x);                                                    \
    }                                                                                              \
    static ts_status workspace_##trap(const void *a, const ts_exec *x, size_t *n)                  \
    {                                                                                              \
        now = trap;                                                                                \
        return PLAYER.workspace(&table, a, x, n);                                                  \
    }
MUTANTS(RUN)

#define ROW(trap, name, fault, family)                                                             \
    { name, TEXT(STEM), TS_FAULT_##fault, family, run_##trap, workspace_##trap, TS_CPU },

extern const ts_mutant ALL[];
const ts_mutant        ALL[] = { MUTANTS(ROW) { 0 } };

/* The functions themselves, from now on with the bug of this name, for tests that make entrants of
 * them; NULL: there is no such bug. */
const TABLE *BY_NAME(const char *name);

const TABLE *BY_NAME(const char *name)
{
    for (int i = 0; i < N_TRAPS; i++) {
        if (strcmp(ALL[i].name, name)) continue;
        now = (trap)i; /* the table has their order */
        return &table;
    }
    return NULL;
}
