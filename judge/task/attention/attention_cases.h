/* SPDX-License-Identifier: Apache-2.0 */
/* attention_cases.h - the cases of the attention tasks, and how their inputs are drawn. */
#ifndef TS_TASK_ATTENTION_CASES_H
#define TS_TASK_ATTENTION_CASES_H

#include "case_list.h"
#include "touchstone/attention.h"

/* dim: q and k (lengths), batch, q_heads, kv_heads, head_dim; mask: 0 full, 1 causal, 1 + w causal
 * with a window of w keys; form: ten times the tile hint, plus bits of these. */
enum { TS_FORM_BNHD = 1, TS_FORM_NO_LSE = 2 };

/* more: scale, what the scale is; 0: 1.25 over the root of head_dim. */
enum {
    TS_SCALE = TS_MAX_DIMS,
    TS_SCALE_0 = 1,
    TS_SCALE_SMALL,
    TS_SCALE_LARGE,
    TS_SCALE_NEGATIVE,
    TS_SCALE_1,
    TS_SCALE_150
};

extern const ts_cover ts_flash_attention_cover, ts_flash_attention_backward_cover;

/* As `dim` has them. */
typedef struct ts_attention_shape_of {
    int64_t q, k, batch, q_heads, kv_heads, head_dim, mask, form;
} ts_attention_shape_of;
enum { TS_FULL, TS_CAUSAL, TS_WINDOW }; /* mask; TS_WINDOW + w - 1: of w keys */

void ts_attention_add(ts_case_list *l, unsigned use, unsigned dtypes, ts_attention_shape_of s,
                      const char *name);
/* Cases of a few shapes, causal and full, for devices. */
void ts_attention_add_large(ts_case_list *l, const ts_attention_shape_of *s, size_t n);
/* Whether a covering case is cheap enough, and scores that are set have a scale to divide by. */
bool ts_attention_affordable(const ts_case *c);

const ts_case *ts_flash_attention_cases(void);
const ts_case *ts_flash_attention_backward_cases(void);

/* Shapes, masks and scale of the call. */
ts_attention_dims ts_attention_dims_of(const ts_case *c);

/* Whether the call has key lengths; they are drawn from the case's seed. */
bool    ts_attention_has_lengths(const ts_case *c);
int32_t ts_attention_length(const ts_case *c, uint64_t seed, int64_t b);

/* Draws one row of q, k, v or dout: number i of head h of batch b. Elements are written from
 * `begin` on. kv_len is that of the batch, or n_k. */
typedef struct ts_attention_drawn {
    const ts_case           *c;
    const ts_attention_dims *d;
    uint64_t                 seed; /* another one for each tensor */
    int64_t                  b, h, i, kv_len, begin;
    void                    *to;
} ts_attention_drawn;

/* How a family draws its rows. Looked up once a case: large ones have no time for names. */
typedef void (*ts_attention_draw)(const ts_attention_drawn *w);

typedef struct ts_attention_family {
    const char       *name;
    ts_attention_draw q, k, v, dout;
} ts_attention_family;

const ts_attention_family *ts_attention_family_of(const ts_case *c);

#endif
