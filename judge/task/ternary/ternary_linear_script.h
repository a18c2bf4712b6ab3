/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_linear_script.h - a script that calls the five functions of touchstone/ternary.h on one
 * matrix, and its player.
 *
 * The program plays it for the library and for mutants, the cage for an entrant. Functions that
 * read codes get the judge's own, so that an entrant's unpack is not tested with its own pack. */
#ifndef TS_TERNARY_LINEAR_SCRIPT_H
#define TS_TERNARY_LINEAR_SCRIPT_H

#include "player.h"
#include "touchstone/ternary.h"

/* The functions: bits of `parts`, and indices of `seen`. */
enum { TS_TL_PACK, TS_TL_UNPACK, TS_TL_LINEAR, TS_TL_PACKED, TS_TL_BACKWARD, TS_TL_FUNCTIONS };

/* TS_TL_DIMS: the one function of `parts` is called with invalid dims. From TS_TL_WITHOUT on: it is
 * called without args, without exec, without a pointer for the workspace size, or without a tensor;
 * `how - TS_TL_WITHOUT` selects one. */
enum { TS_TL_SOUND, TS_TL_DIMS, TS_TL_WITHOUT };
enum { TS_TL_NO_ARGS, TS_TL_NO_EXEC, TS_TL_NO_SIZE, TS_TL_NO_TENSOR };

enum { TS_TL_TOUCHED = -1 }; /* in `seen`: it wrote outside its workspace */

typedef struct ts_ternary_play_args {
    ts_ternary_linear_dims d;
    int64_t                parts, how;
    const float           *w;        /* [n_out][n_in] */
    const uint8_t         *code_in;  /* as packed */
    const uint16_t        *scale_in; /* [n_out][groups] */
    const void            *in, *dy;
    double                *seen; /* [TS_TL_FUNCTIONS]: statuses; 0 for functions not called */
    uint8_t               *code;
    uint16_t              *scale;
    float                 *wt;
    void                  *y, *y_packed, *dx;
    float                 *dw;
} ts_ternary_play_args;

/* The number of calls without something of the one function of `parts`. */
int ts_ternary_linear_without(const ts_ternary_play_args *a);

/* The API functions, in the order of ts_ternary_linear_names. A query may be NULL: no workspace is
 * needed. */
typedef struct ts_ternary_table {
    ts_status (*pack)(const ts_ternary_pack_args *, const ts_exec *);
    ts_status (*unpack)(const ts_ternary_unpack_args *, const ts_exec *);
    ts_status (*linear)(const ts_ternary_linear_args *, const ts_exec *);
    ts_status (*packed)(const ts_ternary_linear_packed_args *, const ts_exec *);
    ts_status (*backward)(const ts_ternary_linear_backward_args *, const ts_exec *);
    ts_status (*pack_workspace)(const ts_ternary_pack_args *, const ts_exec *, size_t *);
    ts_status (*unpack_workspace)(const ts_ternary_unpack_args *, const ts_exec *, size_t *);
    ts_status (*linear_workspace)(const ts_ternary_linear_args *, const ts_exec *, size_t *);
    ts_status (*packed_workspace)(const ts_ternary_linear_packed_args *, const ts_exec *, size_t *);
    ts_status (*backward_workspace)(const ts_ternary_linear_backward_args *, const ts_exec *,
                                    size_t *);
} ts_ternary_table;

extern const char *const ts_ternary_linear_names[TS_TL_FUNCTIONS + 1]; /* NULL ends */
extern const char *const ts_ternary_linear_queries[TS_TL_FUNCTIONS + 1];

/* Plays ts_ternary_play_args over a ts_ternary_table. TS_E_RANGE and TS_E_FORMAT are part of the
 * record; any other error is returned, and ends the script. */
extern const ts_player ts_player_ternary_linear;

#endif
