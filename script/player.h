/* SPDX-License-Identifier: Apache-2.0 */
/* player.h - what plays the script of a challenge, over whose functions it may be: the program
 * gives it the library's and the mutants', the cage an entrant's, python/ those of Python. */
#ifndef TS_SCRIPT_PLAYER_H
#define TS_SCRIPT_PLAYER_H

#include <stdbool.h>

#include "touchstone/touchstone.h"

/* How bytes are moved where the buffers lie; 0, or an error. NULL: as on the CPU. */
typedef struct ts_mover {
    int (*in)(void *there, const void *here, size_t n_bytes);
    int (*out)(void *here, const void *there, size_t n_bytes);
    int (*within)(void *to, const void *from, size_t n_bytes);
    int (*fill)(void *there, int byte, size_t n_bytes);
    bool by_value; /* the functions are of a language without pointers: calls that are wrong only
                      there, or by numbers that Python has no contract for, count as rejected */
} ts_mover;
extern const ts_mover ts_on_cpu, ts_by_value;

/* `table` holds the functions, as a row of pointers; `args` are the task's. */
typedef ts_status (*ts_play_fn)(const void *table, const ts_mover *m, const void *args,
                                const ts_exec *x);
typedef ts_status (*ts_play_workspace_fn)(const void *table, const void *args, const ts_exec *x,
                                          size_t *n_bytes);

typedef struct ts_player {
    /* The functions of the table in its order: those that must be there, those that may, and
     * queries, which may. Each NULL ends; NULL: none. */
    const char *const *names, *const *optional, *const *queries;
    ts_play_fn           play;
    ts_play_workspace_fn workspace;
} ts_player;

enum { TS_TABLE_MOST = 16 }; /* functions of a table */

const ts_player *ts_player_of(const char *challenge); /* NULL: it has no script */

#endif
