/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_inside.h - what the two cross-entropy tasks share: cases, inputs, and the oracle of
 * a row. */
#ifndef TS_TASK_CROSS_ENTROPY_INSIDE_H
#define TS_TASK_CROSS_ENTROPY_INSIDE_H

#include "real.h"
#include "task.h"

extern const ts_cover ts_cross_entropy_cover, ts_cross_entropy_logits_cover;

/* dim: rows, vocab, width, pad (of h and w), grad (bits below), mean, bias, skip; smooth (in
 * hundredths), z (in ten-thousandths), cap, chunk. */
enum { XE_WIDTH = 2, XE_PAD, XE_GRAD, XE_MEAN, XE_BIAS, XE_SKIP };
enum { XE_SMOOTH = TS_MAX_DIMS, XE_Z, XE_CAP, XE_CHUNK };
enum { XE_DH = 1, XE_DW = 2, XE_ACCUMULATE = 4, XE_WIDE = 8 };
/* dim of the variant: rows, vocab, pad, grad (0 none, 1 apart, 2 in place), mean, skip; smooth, z,
 * cap. */
enum { XL_PAD = 2, XL_GRAD, XL_MEAN, XL_SKIP };

const ts_case *ts_cross_entropy_cases(void);
const ts_case *ts_cross_entropy_logits_cases(void);

extern const char ts_cross_entropy_nonfinite[], ts_cross_entropy_ignored[],
    ts_cross_entropy_masked[];

/* The arguments of a call that are not tensors. skip: 0 the second of two rows or more and one in
 * five others are ignored, 1 none, 2 all, 3 those
 * whose target is word 0, 4 as 0 with another ignore_index. */
typedef struct ts_xe_rule {
    ts_dtype dtype;
    int64_t  n_rows, n_vocab;
    int      mean;
    int32_t  ignored;
    double   scale, smoothing, z_loss, softcap;
    double   g;   /* once the targets are known: scale, or scale over the number of counted rows */
    bool     any; /* bounds of the common contract */
} ts_xe_rule;

ts_xe_rule ts_xe_rule_of(const ts_case *c, int64_t mean, int64_t skip, uint64_t seed);
void       ts_xe_scalars(ts_arena *m, const ts_xe_rule *r);
/* Family `tail`: by how much the largest logit exceeds the others, which have 1/700 of the
 * probability together, or more, and which word it is. */
double  ts_xe_tail(const ts_case *c);
int64_t ts_xe_tail_word(const ts_case *c);
/* Whether some logits are -inf. */
bool ts_xe_masks(const ts_case *c);
/* Targets; those of family "masked" avoid words that ts_xe_is_masked, and every second one of
 * "masked_target" is such a word. */
void    ts_xe_targets(const ts_case *c, const ts_xe_rule *r, int64_t skip, uint64_t seed,
                      int32_t *target);
bool    ts_xe_is_masked(int64_t word);
int64_t ts_xe_counted(const ts_xe_rule *r, const int32_t *target);
double  ts_xe_share(const ts_xe_rule *r, int64_t n_counted);

/* ---- oracle ---- */

double  ts_xe_kappa(const ts_xe_rule *r, int64_t n);
ts_want ts_xe_stored(double v, double error, ts_dtype t);

/* A number, and how far it may be off before it is stored. */
typedef struct ts_xe_value {
    ts_real v;
    double  error;
} ts_xe_value;

/* From x[0 .. V), which is overwritten with the gradient where that is wanted: loss and lse. */
void ts_xe_row(const ts_xe_rule *r, ts_xe_value *x, int32_t target, bool gradient,
               ts_xe_value *loss, ts_xe_value *lse);
/* The sum of the losses' rows as `total` has it. */
ts_want ts_xe_total(const ts_xe_rule *r, const ts_xe_value *loss, const int32_t *target);

/* Invalid values of both tasks, by the type of their args: numbers; then, on the CPU, targets that
 * a shorter vocabulary or another ignore_index makes invalid. */
#define TS_XE_BAD_NUMBERS(type)                                                                    \
    TS_BAD(type, TS_E_ARG, scale, NAN, INFINITY, -INFINITY),                                       \
        TS_BAD(type, TS_E_ARG, smoothing, NAN, INFINITY, -INFINITY, -1, 1.5),                      \
        TS_BAD(type, TS_E_ARG, z_loss, NAN, INFINITY, -INFINITY, -1),                              \
        TS_BAD(type, TS_E_ARG, softcap, NAN, INFINITY, -INFINITY, -1),                             \
        TS_BAD(type, TS_E_ARG, mean, 2)
#define TS_XE_BAD_TARGETS(type)                                                                    \
    TS_BAD_LIKE(type, TS_E_ARG | TS_HOST, n_vocab, n_vocab, -1),                                   \
        TS_BAD(type, TS_E_ARG | TS_HOST, ignore_index, -101),                                      \
        TS_BAD_LIKE(type, TS_E_ARG | TS_HOST, n_vocab, n_vocab, -1) /* and no gradient */

#define TS_XE_SKIP_SAYS                                                                            \
    "rows that are ignored: 0 some, 1 none, 2 all, 3 those whose target is 0, the ignore_index "   \
    "then, 4 some, whose ignore_index is -1 or the least number"

/* Loss, lse and total, which come first among the wants of both. */
bool ts_xe_check_loss(ts_dtype wide, int64_t n_rows, const void *loss, const void *lse,
                      const void *total, const ts_want *want, ts_flaw *f, ts_errors *e);

/* Whether the rule of the case may make row i of the outputs NaN: rows with -inf, or ignored ones.
 * Sums over rows have it too. */
bool ts_xe_may_be_nan(const ts_case *c, const ts_xe_rule *r, int32_t target);
/* Excuses loss, lse and total. */
void ts_xe_excuse_loss(const ts_case *c, const ts_xe_rule *r, const int32_t *target,
                       const void *loss, const void *lse, const void *total, ts_want *want);

/* What the descriptors of both tasks share. */
#define TS_XE_TASK                                                                                 \
    .kind = TS_PLAIN, .devices = TS_ON_CPU | TS_ON_CUDA,                                           \
    .canon = { { "nonfinite", ts_cross_entropy_nonfinite, true },                                  \
               { "ignored_nonfinite", ts_cross_entropy_ignored, true },                            \
               { "masked", ts_cross_entropy_masked, false },                                       \
               { "masked_target", ts_cross_entropy_masked, false } }

#endif
