/* SPDX-License-Identifier: Apache-2.0 */
#include "toy.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* ---- numbers: counter-based; of base/ script/ sees real.h alone ---- */

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    z = (z ^ (z >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return z ^ (z >> 33);
}

static uint64_t bits(uint64_t key, int64_t i)
{
    return mix(mix(key) + ((uint64_t)i + 1) * UINT64_C(0xd1342543de82ef95));
}

/* About a unit normal: of the four quarters of a word, the sum. */
static double normal(uint64_t key, int64_t i)
{
    const uint64_t b = bits(key, i);
    const uint64_t sum = (b & 0xffff) + (b >> 16 & 0xffff) + (b >> 32 & 0xffff) + (b >> 48);
    return ((double)sum - 131070.0) * 0x1.bb6p-16;
}

static uint64_t seed_of(const ts_toy *m)
{
    return (uint32_t)m->word[TS_TOY_SEED] | (uint64_t)(uint32_t)m->word[TS_TOY_SEED_HIGH] << 32;
}

uint64_t ts_toy_string(int64_t len, const int32_t *token)
{
    uint64_t h = (uint64_t)len;
    for (int64_t i = 0; i < len; i++) h = mix(h + (uint32_t)token[i] + 1);
    return mix(h ^ UINT64_C(0x746f7563687374));
}

/* ---- rows of logits ---- */

/* A token keeps its logit if it is among the open ones; one always is. */
static bool is_open(const ts_toy *m, uint64_t h, int64_t t)
{
    const int64_t n_vocab = m->word[TS_TOY_VOCAB];
    return (int64_t)(bits(~h, t) & 1023) < m->word[TS_TOY_OPEN] ||
           t == (int64_t)(h % (uint64_t)n_vocab);
}

static void hash_row(const ts_toy *m, uint64_t h, float *out)
{
    const double spread = m->weight[TS_TOY_SPREAD];
    const bool   all = m->word[TS_TOY_OPEN] >= 1024;
    for (int64_t t = 0; t < m->word[TS_TOY_VOCAB]; t++)
        out[t] = all || is_open(m, h, t) ? (float)(spread * normal(h, t)) : -INFINITY;
}

static const float *kept_row(const ts_toy *m, int64_t i)
{
    return m->weight + TS_TOY_WEIGHTS + i * m->word[TS_TOY_VOCAB];
}

/* What holds for every kind, once the row is there. */
static bool fails(const ts_toy *m, int64_t len)
{
    return m->word[TS_TOY_HOW] == TS_SICK_FAILS && m->word[TS_TOY_SICK] &&
           len >= m->word[TS_TOY_SICK];
}

static void finish(const ts_toy *m, int64_t len, float *out)
{
    const int64_t n_vocab = m->word[TS_TOY_VOCAB];
    if (m->word[TS_TOY_EOS] >= 0) out[m->word[TS_TOY_EOS]] += m->weight[TS_TOY_LIFT];
    if (!m->word[TS_TOY_SICK] || len < m->word[TS_TOY_SICK]) return;
    if (m->word[TS_TOY_HOW] == TS_SICK_FAILS) return;
    if (m->word[TS_TOY_HOW] == TS_SICK_NAN) out[n_vocab / 2] = NAN;
    else if (m->word[TS_TOY_HOW] == TS_SICK_INF) out[n_vocab - 1] = INFINITY;
    else
        for (int64_t t = 0; t < n_vocab; t++) out[t] = -INFINITY;
}

static bool are_tokens(const ts_toy *m, int64_t n, const int32_t *token)
{
    for (int64_t i = 0; i < n; i++)
        if (token[i] < 0 || token[i] >= m->word[TS_TOY_VOCAB]) return false;
    return true;
}

/* ---- hashing: a sum over what is seen, so that only who is seen matters, and where ---- */

static uint64_t place(const ts_toy *m, int64_t position, int32_t token)
{
    return mix(seed_of(m) ^ bits((uint64_t)position, token));
}

/* The second round hashes what the first made of every row that is seen, itself among them. */
static uint64_t twice(uint64_t first, int64_t position)
{
    return bits(first, position);
}

static uint64_t hash_string(const ts_toy *m, int64_t len, const int32_t *token)
{
    uint64_t first = 0, second = 0;
    for (int64_t i = 0; i < len; i++) {
        first += place(m, i, token[i]);
        second += twice(first, i);
    }
    return mix(second);
}

/* One round is enough to pick a row. */
static int64_t row_of(const ts_toy *m, uint64_t h)
{
    return (int64_t)(mix(h) % (uint64_t)m->word[TS_TOY_STATES]);
}

static uint64_t hash_once(const ts_toy *m, int64_t len, const int32_t *token)
{
    uint64_t h = 0;
    for (int64_t i = 0; i < len; i++) h += place(m, i, token[i]);
    return h;
}

int64_t ts_toy_row(const ts_toy *m, int64_t len, const int32_t *token)
{
    return row_of(m, hash_once(m, len, token));
}

/* No token is moved by more than 1/2. */
static void rows_row(const ts_toy *m, uint64_t h, float *out)
{
    const int64_t  row = row_of(m, h);
    const int32_t *stands_out = m->word + TS_TOY_WORDS + row * TS_TOY_OUT;
    memcpy(out, kept_row(m, row), (size_t)m->word[TS_TOY_VOCAB] * sizeof *out);
    for (int i = 0; i < TS_TOY_OUT; i++)
        out[stands_out[i]] += (float)((double)(bits(h, i) >> 11) * 0x1p-53 - 0.5);
}

/* ---- the automaton ---- */

static int32_t step(const ts_toy *m, int32_t state, int32_t token)
{
    return m->word[TS_TOY_WORDS + (int64_t)state * m->word[TS_TOY_VOCAB] + token];
}

/* ---- one string ---- */

int ts_toy_next(const ts_toy *m, int64_t len, const int32_t *token, float *out)
{
    const size_t n_bytes = (size_t)m->word[TS_TOY_VOCAB] * sizeof *out;
    int32_t      state = 0;
    int          bad = len < 1 || !are_tokens(m, len, token);
    if (bad) return 1;
    switch (m->word[TS_TOY_KIND]) {
    case TS_TOY_HASH:
        hash_row(m, hash_string(m, len, token), out);
        break;
    case TS_TOY_ROPE:
        bad = ts_rope_forward(m, len, token, NULL, NULL, 1, NULL, out);
        break;
    case TS_TOY_TABLE:
        for (int64_t i = 0; i < len; i++) state = step(m, state, token[i]);
        memcpy(out, kept_row(m, state), n_bytes);
        break;
    default:
        rows_row(m, hash_once(m, len, token), out);
    }
    if (!bad) finish(m, len, out);
    return bad || fails(m, len);
}

/* ---- one pass ---- */

typedef struct pass {
    const ts_toy  *m;
    int64_t        n_row;
    const int32_t *token;
    const int64_t *position;
    const uint8_t *visible;
} pass;

static uint64_t first_round(const pass *p, int64_t row)
{
    const uint8_t *sees = p->visible + row * p->n_row;
    uint64_t       h = 0;
    for (int64_t c = 0; c < p->n_row; c++)
        if (sees[c]) h += place(p->m, p->position[c], p->token[c]);
    return h;
}

static uint64_t second_round(const pass *p, int64_t row, const uint64_t *first)
{
    const uint8_t *sees = p->visible + row * p->n_row;
    uint64_t       h = 0;
    for (int64_t c = 0; c < p->n_row; c++)
        if (sees[c]) h += twice(first[c], p->position[c]);
    return mix(h);
}

static int32_t state_at(const pass *p, int64_t row)
{
    const uint8_t *sees = p->visible + row * p->n_row;
    int32_t        state = 0;
    for (int64_t c = 0; c < p->n_row; c++)
        if (sees[c]) state = step(p->m, state, p->token[c]);
    return state;
}

static void one_row(const pass *p, int64_t row, const uint64_t *first, float *out)
{
    const size_t n_bytes = (size_t)p->m->word[TS_TOY_VOCAB] * sizeof *out;
    switch (p->m->word[TS_TOY_KIND]) {
    case TS_TOY_HASH:
        hash_row(p->m, second_round(p, row, first), out);
        break;
    case TS_TOY_TABLE:
        memcpy(out, kept_row(p->m, state_at(p, row)), n_bytes);
        break;
    default:
        rows_row(p->m, first_round(p, row), out);
    }
}

static int64_t count_seen(const pass *p, int64_t row)
{
    int64_t n = 0;
    for (int64_t c = 0; c < p->n_row; c++) n += p->visible[row * p->n_row + c] != 0;
    return n;
}

int ts_toy_forward(const ts_toy *m, int64_t n_row, const int32_t *token, const int64_t *position,
                   const uint8_t *visible, int64_t n_want, const int64_t *want, float *out)
{
    uint64_t      first[TS_TOY_MOST_ROWS];
    const pass    p = { m, n_row, token, position, visible };
    const int64_t n_vocab = m->word[TS_TOY_VOCAB];
    const int     kind = m->word[TS_TOY_KIND];
    if (n_row < 1 || n_row > TS_TOY_MOST_ROWS || !are_tokens(m, n_row, token)) return 1;
    for (int64_t w = 0; w < n_want; w++)
        if (want[w] < 0 || want[w] >= n_row) return 1;
    for (int64_t r = 0; r < n_row && kind == TS_TOY_HASH; r++) first[r] = first_round(&p, r);
    if (kind == TS_TOY_ROPE &&
        ts_rope_forward(m, n_row, token, position, visible, n_want, want, out))
        return 1;
    bool bad = false;
    for (int64_t w = 0; w < n_want; w++) {
        const int64_t len = m->word[TS_TOY_SICK] ? count_seen(&p, want[w]) : 0;
        if (kind != TS_TOY_ROPE) one_row(&p, want[w], first, out + w * n_vocab);
        finish(m, len, out + w * n_vocab);
        bad |= fails(m, len);
    }
    return bad;
}
