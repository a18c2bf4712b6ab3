/* SPDX-License-Identifier: Apache-2.0 */
/* unit_toy_model.h - small models for the tests of searches: a hash of the whole prefix, a table,
 * and a transformer of two layers with rotary positions.
 *
 * Every row is computed from the tokens it sees, in their order, so that a pass over a tree and one
 * over a string are bitwise identical. */
#ifndef TS_UNIT_TOY_MODEL_H
#define TS_UNIT_TOY_MODEL_H

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu.h"
#include "cuda_module.h"
#include "isa_impls.h"
#include "rng.h"
#include "touchstone/model.h"
#include "unit.h"

static unsigned masks[] = TS_CPU_MASKS;

enum { N_MASKS = sizeof masks / sizeof *masks, TOY_WIDTH = 8, TOY_HEADS = 2, TOY_LAYERS = 2 };

typedef enum toy_kind { TOY_HASH, TOY_TABLE, TOY_TRANSFORMER } toy_kind;

typedef struct toy {
    ts_model m;
    toy_kind kind;
    uint64_t seed;
    double   spread;                            /* of logits */
    int64_t  n_next, n_forward, n_rows, n_left; /* n_left: calls until it fails; -1: never */
    int64_t  first_rows, last_rows;             /* of the first and the last call of next */
    void (*table)(const int32_t *token, int64_t n, float *out,
                  int64_t n_vocab);                          /* after n tokens */
    void (*spoil)(int64_t row, float *out, int64_t n_vocab); /* after forward; may be NULL */
    /* What forward was last given. */
    int64_t  n_row, n_want;
    int32_t *token;
    int64_t *position, *want;
    uint8_t *visible;
} toy;

/* ---- the device that searches run on, and logits go to ---- */

static ts_device where;

/* 77: the program was told to use a device that is absent. A device has one implementation. */
static inline int choose_device(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "cuda")) return 0;
    const char *absent = ts_cuda_unavailable_reason();
    if (absent) print_message("skipped: %s\n", absent);
    if (absent) return 77;
    for (int i = 0; i < N_MASKS; i++) masks[i] = ~0u;
    where = TS_CUDA;
    return 0;
}

/* Room for logits that are then sent to out. */
static inline float *toy_room(float *out, int64_t n)
{
    if (where == TS_CPU) return out;
    float *const room = malloc((size_t)n * sizeof *room);
    assert_non_null(room);
    return room;
}

static inline void toy_send(float *out, float *room, int64_t n)
{
    if (where == TS_CPU) return;
    assert_int_equal(ts_cuda_ops()->copy_in(out, room, (size_t)n * sizeof *out), 0);
    free(room);
}

/* Scratch of a call: unaligned, poisoned, and not a byte larger than requested. */
typedef struct scratch {
    char *work, *host;
} scratch;

static inline scratch scratch_take(ts_exec *x, size_t n_work, size_t n_host, void **host)
{
    static unsigned n_taken; /* what was left in it is NaN, or large and positive */
    const int       left = n_taken++ % 2 ? 0x7f : 0xff;
    scratch         s = { .host = malloc(n_host + 1) };
    void           *p = NULL;
    if (where == TS_CPU) p = malloc(n_work + 1);
    else assert_int_equal(ts_cuda_ops()->alloc(&p, n_work + 1), 0);
    assert_true(p && s.host);
    s.work = p;
    if (where == TS_CPU) memset(p, left, n_work + 1);
    else assert_int_equal(ts_cuda_ops()->fill(p, left, n_work + 1), 0);
    memset(s.host, left, n_host + 1);
    x->workspace = s.work + 1;
    x->workspace_bytes = n_work;
    *host = s.host + 1;
    return s;
}

static inline void scratch_give(const scratch *s)
{
    if (where == TS_CPU) free(s->work);
    else assert_int_equal(ts_cuda_ops()->release(s->work), 0);
    free(s->host);
}

/* ---- the transformer ---- */

typedef double toy_vector[TOY_WIDTH];

static inline double toy_weight(const toy *t, int64_t matrix, int64_t i)
{
    return ts_normal(t->seed + 1000 + (uint64_t)matrix, i) / sqrt(TOY_WIDTH);
}

static inline void toy_product(const toy *t, int64_t matrix, const toy_vector in, toy_vector out)
{
    for (int i = 0; i < TOY_WIDTH; i++) {
        out[i] = 0;
        for (int j = 0; j < TOY_WIDTH; j++)
            out[i] += toy_weight(t, matrix, i * TOY_WIDTH + j) * in[j];
    }
}

static inline void toy_rotate(toy_vector v, int64_t position)
{
    for (int i = 0; i < TOY_WIDTH; i += 2) {
        const double angle = (double)position / pow(10, i % (TOY_WIDTH / TOY_HEADS)), x = v[i];
        v[i] = x * cos(angle) - v[i + 1] * sin(angle);
        v[i + 1] = x * sin(angle) + v[i + 1] * cos(angle);
    }
}

/* One layer over n rows of h. */
static inline void toy_layer(const toy *t, int layer, int64_t n, const int64_t *position,
                             const uint8_t *visible, toy_vector *h)
{
    enum { EACH = TOY_WIDTH / TOY_HEADS };
    toy_vector *q = calloc((size_t)n * 4, sizeof *q), *k = q + n, *v = k + n, *o = v + n;
    for (int64_t r = 0; r < n; r++) {
        toy_product(t, layer * 8, h[r], q[r]);
        toy_product(t, layer * 8 + 1, h[r], k[r]);
        toy_product(t, layer * 8 + 2, h[r], v[r]);
        toy_rotate(q[r], position[r]);
        toy_rotate(k[r], position[r]);
    }
    for (int64_t r = 0; r < n; r++)
        for (int head = 0; head < TOY_HEADS; head++) {
            double total = 0;
            for (int64_t c = 0; c < n; c++) {
                if (!visible[r * n + c]) continue;
                double s = 0;
                for (int i = head * EACH; i < (head + 1) * EACH; i++) s += q[r][i] * k[c][i];
                const double w = exp(2 * s);
                total += w;
                for (int i = head * EACH; i < (head + 1) * EACH; i++) o[r][i] += w * v[c][i];
            }
            for (int i = head * EACH; i < (head + 1) * EACH; i++) o[r][i] /= total;
        }
    for (int64_t r = 0; r < n; r++) {
        toy_vector x;
        toy_product(t, layer * 8 + 3, o[r], x);
        for (int i = 0; i < TOY_WIDTH; i++) h[r][i] = tanh(h[r][i] + 2 * x[i]);
    }
    free(q);
}

static inline void toy_transform(const toy *t, int64_t n, const int32_t *token,
                                 const int64_t *position, const uint8_t *visible, toy_vector *h)
{
    for (int64_t r = 0; r < n; r++)
        for (int i = 0; i < TOY_WIDTH; i++)
            h[r][i] = ts_normal(t->seed + 1, (int64_t)token[r] * TOY_WIDTH + i);
    for (int layer = 0; layer < TOY_LAYERS; layer++) toy_layer(t, layer, n, position, visible, h);
}

static inline void toy_read_out(const toy *t, const toy_vector h, float *out)
{
    for (int64_t v = 0; v < t->m.n_vocab; v++) {
        double s = 0;
        for (int i = 0; i < TOY_WIDTH; i++) s += h[i] * ts_normal(t->seed + 2, v * TOY_WIDTH + i);
        out[v] = (float)(t->spread * s);
    }
}

/* ---- a row of the others, by the tokens it sees ---- */

static inline void toy_row(const toy *t, int64_t n, const int32_t *token, const int64_t *position,
                           float *out)
{
    if (t->kind == TOY_TABLE) {
        t->table(token, n, out, t->m.n_vocab);
        return;
    }
    uint64_t h = t->seed;
    for (int64_t i = 0; i < n; i++)
        h = ts_mix(h * 3 + (uint64_t)token[i] * 0x10001 + (uint64_t)position[i] + 1);
    for (int64_t v = 0; v < t->m.n_vocab; v++) out[v] = (float)(t->spread * ts_normal(h, v));
}

static inline int toy_forward(void *self, int64_t n_row, const int32_t *token,
                              const int64_t *position, const uint8_t *visible, int64_t n_want,
                              const int64_t *want, float *out)
{
    toy *const t = self;
    t->n_forward++;
    t->n_row = n_row;
    t->n_want = n_want;
    if (t->n_left >= 0 && t->n_left-- == 0) return 7;
    toy_vector *h = calloc((size_t)n_row, sizeof *h);
    if (t->kind == TOY_TRANSFORMER) toy_transform(t, n_row, token, position, visible, h);
    int32_t *seen = malloc((size_t)n_row * sizeof *seen);
    int64_t *at = malloc((size_t)n_row * sizeof *at);
    float   *room = toy_room(out, n_want * t->m.n_vocab);
    for (int64_t w = 0; w < n_want; w++) {
        int64_t n = 0;
        for (int64_t c = 0; c < n_row; c++) {
            if (!visible[want[w] * n_row + c]) continue;
            seen[n] = token[c];
            at[n++] = position[c];
        }
        if (t->kind == TOY_TRANSFORMER) toy_read_out(t, h[want[w]], room + w * t->m.n_vocab);
        else toy_row(t, n, seen, at, room + w * t->m.n_vocab);
        if (t->spoil) t->spoil(want[w], room + w * t->m.n_vocab, t->m.n_vocab);
    }
    toy_send(out, room, n_want * t->m.n_vocab);
    free(h);
    free(seen);
    free(at);
    t->token = realloc(t->token, (size_t)n_row * sizeof *token);
    t->position = realloc(t->position, (size_t)n_row * sizeof *position);
    t->visible = realloc(t->visible, (size_t)(n_row * n_row));
    t->want = realloc(t->want, (size_t)n_want * sizeof *want);
    memcpy(t->token, token, (size_t)n_row * sizeof *token);
    memcpy(t->position, position, (size_t)n_row * sizeof *position);
    memcpy(t->visible, visible, (size_t)(n_row * n_row));
    memcpy(t->want, want, (size_t)n_want * sizeof *want);
    return 0;
}

/* Logits after a string, as plain decoding has them. */
static inline void toy_after(const toy *t, int64_t n, const int32_t *token, float *out)
{
    int64_t *position = malloc((size_t)n * sizeof *position);
    for (int64_t i = 0; i < n; i++) position[i] = i;
    if (t->kind == TOY_TRANSFORMER) {
        uint8_t    *visible = malloc((size_t)(n * n));
        toy_vector *h = calloc((size_t)n, sizeof *h);
        for (int64_t i = 0; i < n * n; i++) visible[i] = i % n <= i / n;
        toy_transform(t, n, token, position, visible, h);
        toy_read_out(t, h[n - 1], out);
        free(visible);
        free(h);
    } else toy_row(t, n, token, position, out);
    free(position);
}

static inline int toy_next(void *self, int64_t n_seq, const int64_t *len,
                           const int32_t *const *tokens, float *out)
{
    toy *const t = self;
    assert_true(n_seq > 0);
    if (t->n_next++ == 0) t->first_rows = n_seq;
    t->last_rows = n_seq;
    t->n_rows += n_seq;
    if (t->n_left >= 0 && t->n_left-- == 0) return 7;
    float *const room = toy_room(out, n_seq * t->m.n_vocab);
    for (int64_t s = 0; s < n_seq; s++) toy_after(t, len[s], tokens[s], room + s * t->m.n_vocab);
    toy_send(out, room, n_seq * t->m.n_vocab);
    return 0;
}

static inline void toy_make(toy *t, toy_kind kind, int64_t n_vocab, uint64_t seed)
{
    *t = (toy) { .kind = kind, .seed = seed, .spread = 2, .n_left = -1 };
    t->m = (ts_model) { t, n_vocab, toy_next, toy_forward };
}

static inline void toy_free(toy *t)
{
    free(t->token);
    free(t->position);
    free(t->visible);
    free(t->want);
}

/* ---- draws ---- */

static uint64_t seed;
static int64_t  n_drawn;

static inline int64_t below(int64_t n)
{
    return (int64_t)(ts_bits(seed, n_drawn++) % (uint64_t)n);
}

static inline double fraction(void)
{
    return (double)(ts_bits(seed, n_drawn++) >> 11) * 0x1p-53;
}

/* A fresh seed, or the one that the environment names. */
static inline void draw_seed(const char *name)
{
    const char     *asked = getenv(name);
    struct timespec now;
    (void)timespec_get(&now, TIME_UTC);
    seed = asked ? strtoull(asked, NULL, 0)
                 : ts_mix((uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec);
    print_message("%s=0x%" PRIx64 "\n", name, seed);
}

#endif
