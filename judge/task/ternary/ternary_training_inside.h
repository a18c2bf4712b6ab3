/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training_inside.h - the parts of the training task: its cases, the script of each, and
 * what a script must observe. */
#ifndef TS_TASK_TERNARY_TRAINING_INSIDE_H
#define TS_TASK_TERNARY_TRAINING_INSIDE_H

#include <assert.h>

#include "task.h"
#include "ternary_reference.h"
#include "ternary_training_script.h"

enum { VOCAB, WIDTH, LAYERS, HEADS, KV_HEADS, HEAD_DIM, BATCH, TOKENS };
static_assert(HEADS == 3 && KV_HEADS == 4, "as ts_multiply_heads has them");

/* more: theta (0: 10000); eps, as a power of 10 (0: 1e-6); ffn (0: by the width). */
enum { THETA = TS_MAX_DIMS, EPS_POWER, FFN };

const ts_case        *ts_ternary_training_cases(void);
extern const ts_cover ts_ternary_training_cover;

enum { TS_TT_RATES = 4 };

/* Follows from the case alone, but for what tokens and latents are. */
typedef struct ts_tt_script {
    ts_ternary_dims d;
    ts_tt_op       *op; /* malloc */
    int64_t         n_op, room, n_token;
    int64_t         n_grad, n_export;
    double          rate[TS_TT_RATES][TS_TT_RATE];
} ts_tt_script;

void ts_tt_script_of(const ts_case *c, ts_tt_script *s);

/* Is the run free after its first step? Then only where it ends is compared with the reference's.
 */
bool ts_tt_is_free(const ts_case *c);

/* Whose codes and scales the wants are of: the reference's own; those that were exported, where
 * rounding may put a weight on either side of a threshold; or those that were exported, where also
 * a mean in float, a quotient in float, or another choice at a tie may. */
typedef enum ts_tt_codes { TS_TT_OWN, TS_TT_EXPORTED, TS_TT_USUAL } ts_tt_codes;

/* Wants for seen, dlatent, dnorm, code, scale and gain, in this order. What follows an export is
 * expected of the codes at hand. False is returned where all are the reference's own. */
bool ts_tt_model(const ts_case *c, const ts_ternary_training_args *a, ts_tt_codes codes,
                 ts_want *want);

#endif
