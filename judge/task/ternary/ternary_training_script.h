/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training_script.h - a script of operations on one model in training, and its player,
 * which calls the seven functions of touchstone/ternary_training.h.
 *
 * The task writes scripts and knows what must be observed. The program plays them for the library
 * and for mutants, the cage for an entrant. */
#ifndef TS_TERNARY_TRAINING_SCRIPT_H
#define TS_TERNARY_TRAINING_SCRIPT_H

#include "player.h"
#include "touchstone/ternary_training.h"

enum {
    TS_TT_SIZE, /* query the size of the state; a creation that must fail, then a valid one */
    TS_TT_GRAD,
    TS_TT_STEP,
    TS_TT_EVAL,
    TS_TT_EXPORT,
    TS_TT_DESTROY,
    TS_TT_WITHOUT, /* function `rate` is called without pointer `tokens`, otherwise validly */
    TS_TT_OPS
};

/* How an operation is invalid. */
enum {
    TS_TT_SOUND,
    TS_TT_SHORT,      /* with too small a workspace */
    TS_TT_NO_TOKEN,   /* its last token is n_vocab */
    TS_TT_LOW_TOKEN,  /* its first one is -1 */
    TS_TT_ONE_TOKEN,  /* n_tok is 1 */
    TS_TT_NO_BATCH,   /* n_batch is 0 */
    TS_TT_MORE_BATCH, /* one more than allowed */
    TS_TT_MORE_TOKENS,
    TS_TT_BAD_RATE, /* lr is NaN */
    TS_TT_BAD_BETA, /* beta2 is 1 */
};

/* How the creation of a TS_TT_SIZE is invalid. */
enum {
    TS_TT_MADE = -1,  /* valid */
    TS_TT_ONE_LESS,   /* one byte of memory less */
    TS_TT_NAN_LATENT, /* the last latent */
    TS_TT_INF_GAIN,   /* the last gain */
    TS_TT_PAST_F16,   /* all latents of the last group */
    TS_TT_WAYS,
};

typedef struct ts_tt_op {
    int32_t what, how;
    int32_t n_batch, n_tok;
    int32_t tokens; /* index of its first token */
    int32_t rate;   /* row of `rate` */
    int32_t same;   /* an earlier GRAD or EXPORT that must have written the same bits; -1: none */
    int32_t pad;
} ts_tt_op;

/* The record of an operation, in doubles: its status; loss, sum or size; count, or the status of
 * the creation that must fail; bytes changed after the state. */
enum { TS_TT_SEEN = 4, TS_TT_UNSEEN = -77 };
enum { TS_TT_OP_WORDS = sizeof(ts_tt_op) / sizeof(int32_t), TS_TT_RATE = 6 };

typedef struct ts_ternary_training_args {
    ts_ternary_dims d;
    int64_t         n_op, n_latent, n_norm, n_code, n_scale; /* of the whole model */
    const float    *latent, *norm;
    const int32_t  *tokens;
    const double   *rate;    /* [n][TS_TT_RATE], in the order of ts_adamw */
    const int32_t  *script;  /* [n_op][TS_TT_OP_WORDS] */
    double         *seen;    /* [n_op][TS_TT_SEEN] */
    float          *dlatent; /* of each GRAD in turn */
    float          *dnorm;
    uint8_t        *code; /* of each EXPORT in turn */
    uint16_t       *scale;
    float          *gain;
} ts_ternary_training_args;

/* The API functions, in the order of ts_tt_names. */
typedef struct ts_tt_table {
    ts_status (*bytes)(const ts_ternary_dims *, const ts_exec *, size_t *, size_t *);
    ts_status (*create)(const ts_ternary_dims *, const ts_exec *, const float *, const float *,
                        void *, size_t, ts_ternary **);
    ts_status (*destroy)(ts_ternary **);
    ts_status (*grad)(ts_ternary *, const ts_exec *, int64_t, int64_t, const int32_t *, double *,
                      float *, float *);
    ts_status (*step)(ts_ternary *, const ts_exec *, const ts_adamw *, int64_t, int64_t,
                      const int32_t *, double *);
    ts_status (*eval)(ts_ternary *, const ts_exec *, int64_t, int64_t, const int32_t *, double *,
                      int64_t *);
    ts_status (*export)(ts_ternary *, const ts_exec *, uint8_t *, uint16_t *, float *);
} ts_tt_table;

enum { TS_TT_FUNCTIONS = sizeof(ts_tt_table) / sizeof(void (*)(void)) };
extern const char *const ts_tt_names[TS_TT_FUNCTIONS + 1]; /* "ts_ternary_bytes", ...; NULL ends */

/* Number of required pointers of a function. */
int ts_tt_pointers(int function);

/* Plays ts_ternary_training_args over a ts_tt_table. The workspace also contains the state. On any
 * status but TS_OK the model could not be created, and nothing was written. */
extern const ts_player ts_player_ternary_training;

#endif
