/* SPDX-License-Identifier: Apache-2.0 */
/* player.h - plays the script of a challenge with a table of functions: the program passes those of
 * the library and of mutants, the cage an entrant's, python/ those of a Python entrant. */
#ifndef TS_SCRIPT_PLAYER_H
#define TS_SCRIPT_PLAYER_H

#include <stdbool.h>

#include "touchstone/touchstone.h"

/* Moves bytes in the memory of the buffers; returns 0 or an error. NULL: as on the CPU. */
typedef struct ts_mover {
    int (*in)(void *there, const void *here, size_t n_bytes);
    int (*out)(void *here, const void *there, size_t n_bytes);
    int (*within)(void *to, const void *from, size_t n_bytes);
    int (*fill)(void *there, int byte, size_t n_bytes);
    bool by_value; /* the functions' language has no pointers: calls with an invalid pointer, or a
                      number that Python does not specify, count as rejected */
} ts_mover;
extern const ts_mover ts_on_cpu, ts_by_value;

/* `table` is an array of function pointers; `args` are the task's. */
typedef ts_status (*ts_play_fn)(const void *table, const ts_mover *m, const void *args,
                                const ts_exec *x);
typedef ts_status (*ts_play_workspace_fn)(const void *table, const void *args, const ts_exec *x,
                                          size_t *n_bytes);

typedef struct ts_player {
    /* The names of the table's functions, in order: required ones, optional ones, and workspace
     * queries, which are optional too. Each list ends with NULL; NULL: none. */
    const char *const *names, *const *optional, *const *queries;
    ts_play_fn           play;
    ts_play_workspace_fn workspace;
    bool                 on_host; /* on a device too, the buffers of its args are host memory */
} ts_player;

enum { TS_TABLE_MOST = 16 }; /* functions of a table */

const ts_player *ts_player_of(const char *challenge); /* NULL: the challenge has no script */

#endif
