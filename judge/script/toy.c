/* SPDX-License-Identifier: Apache-2.0 */
/* toy.c - the judge's models: hash, table and noise. */
#include "toy.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* ---- counter-based random numbers: script/ may include only real.h of base/ ---- */

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

/* Approximately normal with variance 1: the sum of the four quarters of a word. */
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

/* Whether a token is open, that is keeps its logit; at least one always is. */
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

/* Applied to rows of every kind of model. */
static bool fails(const ts_toy *m, int64_t len)
{
    return m->word[TS_TOY_HOW] == TS_NONFINITE_FAILS && m->word[TS_TOY_NONFINITE] &&
           len >= m->word[TS_TOY_NONFINITE];
}

int ts_toy_says(const ts_toy *m, int bad)
{
    return bad && m->word[TS_TOY_SEED] & 1 ? -bad : bad;
}

static void finish(const ts_toy *m, int64_t len, float *out)
{
    const int64_t n_vocab = m->word[TS_TOY_VOCAB];
    if (m->word[TS_TOY_EOS] >= 0) out[m->word[TS_TOY_EOS]] += m->weight[TS_TOY_LIFT];
    if (!m->word[TS_TOY_NONFINITE] || len < m->word[TS_TOY_NONFINITE]) return;
    if (m->word[TS_TOY_HOW] == TS_NONFINITE_FAILS) return;
    if (m->word[TS_TOY_HOW] == TS_NONFINITE_NAN) out[n_vocab / 2] = NAN;
    else if (m->word[TS_TOY_HOW] == TS_NONFINITE_INF) out[n_vocab - 1] = INFINITY;
    else
        for (int64_t t = 0; t < n_vocab; t++) out[t] = -INFINITY;
}

static bool are_tokens(const ts_toy *m, int64_t n, const int32_t *token)
{
    for (int64_t i = 0; i < n; i++)
        if (token[i] < 0 || token[i] >= m->word[TS_TOY_VOCAB]) return false;
    return true;
}

/* ---- hashing: a sum over the visible rows, which depends on the set of rows and their positions
 * ---- */

static uint64_t place(const ts_toy *m, int64_t position, int32_t token)
{
    return mix(seed_of(m) ^ bits((uint64_t)position, token));
}

/* The second round hashes the results of the first for every visible row, including itself. */
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

/* ---- noise: one round is enough, since rows differ in all of h ---- */

static uint64_t hash_once(const ts_toy *m, int64_t len, const int32_t *token)
{
    uint64_t h = 0;
    for (int64_t i = 0; i < len; i++) h += place(m, i, token[i]);
    return h;
}

static uint32_t bits_of(float x)
{
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

static float float_of(uint32_t b)
{
    float x;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* A uniform x from 0 to 1 becomes about 10 / (1 + 1024 x) - 3 x: most logits are between -3 and 0,
 * and few reach 10. Of 32000 tokens the most probable one has a probability of about 1/5, of 128256
 * about 1/20. Near 0, where the most probable ones are, x keeps all of b's 31 bits, so that equal
 * logits among them are rare. A float's bits approximate its logarithm, so their difference from a
 * constant approximates a quotient; no step is slower than a conversion. */
static float law(int32_t b)
{
    const float g = (float)b + 0x1p21F; /* 2^31 (x + 2^-10) */
    return float_of(UINT32_C(0x8b200000) - bits_of(g)) - 0x1.8p-30F * g;
}

static void noise_row(const ts_toy *m, uint64_t h, float *out)
{
    const uint64_t key = mix(h);
    const int64_t  n_vocab = m->word[TS_TOY_VOCAB];
    const int32_t *a = m->word + TS_TOY_WORDS + key % TS_TOY_SHIFTS;
    const int32_t *b =
        m->word + TS_TOY_WORDS + n_vocab + TS_TOY_SHIFTS + key / TS_TOY_SHIFTS % TS_TOY_SHIFTS;
    const int32_t own = (int32_t)(key >> (64 - TS_TOY_BITS));
    for (int64_t t = 0; t < n_vocab; t++) out[t] = law(a[t] ^ b[t] ^ own);
}

uint32_t ts_toy_digest(const ts_toy *m, const float *row)
{
    const int64_t n = m->word[TS_TOY_KIND] == TS_TOY_NOISE ? m->word[TS_TOY_VOCAB] : 0;
    uint32_t      sum = 0;
    for (int64_t t = 0; t < n; t++) sum += bits_of(row[t]);
    return sum;
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
        noise_row(m, hash_once(m, len, token), out);
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

/* noise: the position of each row was hashed before. */
static uint64_t one_round(const pass *p, int64_t row, const uint64_t *places)
{
    const uint8_t *sees = p->visible + row * p->n_row;
    uint64_t       h = 0;
    for (int64_t c = 0; c < p->n_row; c++) h += sees[c] ? places[c] : 0;
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
        noise_row(p->m, one_round(p, row, first), out);
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
    for (int64_t r = 0; r < n_row && kind == TS_TOY_NOISE; r++)
        first[r] = place(m, position[r], token[r]);
    if (kind == TS_TOY_ROPE &&
        ts_rope_forward(m, n_row, token, position, visible, n_want, want, out))
        return 1;
    bool bad = false;
    for (int64_t w = 0; w < n_want; w++) {
        const int64_t len = m->word[TS_TOY_NONFINITE] ? count_seen(&p, want[w]) : 0;
        if (kind != TS_TOY_ROPE) one_row(&p, want[w], first, out + w * n_vocab);
        finish(m, len, out + w * n_vocab);
        bad |= fails(m, len);
    }
    return bad;
}
