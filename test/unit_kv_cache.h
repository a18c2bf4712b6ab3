/* SPDX-License-Identifier: Apache-2.0 */
/* unit_kv_cache.h - a cache in memory of exactly its size, and attention in double to compare with.
 * For the tests of kv_cache. */
#ifndef TS_UNIT_KV_CACHE_H
#define TS_UNIT_KV_CACHE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "cuda_module.h"
#include "dtype.h"
#include "isa_impls.h"
#include "rng.h"
#include "touchstone/kv_cache.h"
#include "unit.h"

static const unsigned masks[] = TS_CPU_MASKS;

/* ---- memory of the device that caches are on ---- */

static ts_device kv_device;

static inline void *kv_take(size_t n)
{
    void *p = NULL;
    if (kv_device == TS_CPU) p = malloc(n);
    else assert_int_equal(ts_cuda_ops()->alloc(&p, n), 0);
    assert_non_null(p);
    if (kv_device == TS_CPU) memset(p, 0xff, n);
    else assert_int_equal(ts_cuda_ops()->fill(p, 0xff, n), 0);
    return p;
}

static inline void kv_give(void *p)
{
    if (kv_device == TS_CPU) free(p);
    else assert_int_equal(ts_cuda_ops()->release(p), 0);
}

/* What a call is given: the host's own on the CPU; elsewhere a copy in one of a few places, which
 * kv_back brings back. */
enum { KV_PLACES = 6 };

static inline void *kv_there(int place, const void *host, size_t n)
{
    static struct {
        void  *p;
        size_t n;
    } at[KV_PLACES];
    if (kv_device == TS_CPU || !host) return (void *)(uintptr_t)host;
    if (at[place].n < n) {
        if (at[place].p) kv_give(at[place].p);
        at[place].p = kv_take(at[place].n = n);
    }
    assert_int_equal(ts_cuda_ops()->copy_in(at[place].p, host, n), 0);
    return at[place].p;
}

static inline void kv_back(void *host, const void *there, size_t n)
{
    if (host != there) assert_int_equal(ts_cuda_ops()->copy_out(host, there, n), 0);
}

/* ---- a cache, its memory poisoned, and neither memory nor workspace on any boundary ---- */

enum { OFF = 4 };

typedef struct box {
    ts_kv     *c;
    ts_kv_dims d;
    ts_exec    x;
    char      *memory, *workspace;
} box;

static inline box box_of(ts_kv_dims d)
{
    box    b = { .d = d, .x.device = kv_device };
    size_t state, work;
    assert_int_equal(ts_kv_bytes(&d, &b.x, &state, &work), TS_OK);
    b.memory = kv_take(state + OFF);
    b.workspace = kv_take(work + OFF);
    b.x.workspace = b.workspace + OFF;
    b.x.workspace_bytes = work;
    assert_int_equal(ts_kv_create(&d, &b.x, b.memory + OFF, state, &b.c), TS_OK);
    return b;
}

static inline void box_drop(box *b)
{
    assert_int_equal(ts_kv_destroy(&b->c), TS_OK);
    assert_null(b->c);
    kv_give(b->memory);
    kv_give(b->workspace);
}

static inline int32_t box_open(box *b)
{
    int32_t seq = -7;
    assert_int_equal(ts_kv_open(b->c, &b->x, &seq), TS_OK);
    return seq;
}

static inline int64_t box_len(const box *b, int64_t layer, int32_t seq)
{
    int64_t len = -7;
    assert_int_equal(ts_kv_status(b->c, layer, seq, &len, NULL), TS_OK);
    return len;
}

static inline ts_kv_usage box_usage(const box *b)
{
    ts_kv_usage u;
    assert_int_equal(ts_kv_status(b->c, 0, 0, NULL, &u), TS_OK);
    return u;
}

static inline int is_code(ts_dtype t)
{
    return t == TS_U8 || t == TS_U4;
}

static inline double rounded(ts_dtype t, double v)
{
    double room;
    ts_store(&room, t, 0, v);
    return ts_load(&room, t, 0);
}

/* Element i of a stream, as io_dtype has it. */
static inline double element(ts_dtype io, uint64_t seed, int64_t i)
{
    return rounded(io, ts_normal(seed, i));
}

/* ---- attention of one query in double, and how far a right answer may be from it ---- */

typedef struct want {
    double out[128], bound[128], lse, lse_bound;
    double size[128]; /* the weighted mean of |v| */
} want;

/* k, v: rows j of the head, `stride` apart; q, k and v in double. Bounds: CHALLENGES, section 9. */
static inline void attend_exactly(const ts_kv_dims *d, int64_t p, const double *q, const double *k,
                                  const double *v, int64_t stride, want *w)
{
    /* Read returns floats, so codes in double cannot be tested more closely. */
    const double u = d->io_dtype == TS_F64 && !is_code(d->store_dtype) ? 0x1p-53 : 0x1p-24;
    const double kd = 8 + 2 * sqrt((double)d->head_dim), kn = 8 + 2 * sqrt((double)p + 1);
    double       m = -INFINITY, total = 0, mass = 0, slack = 0, size[128] = { 0 };
    memset(w, 0, sizeof *w);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t j = 0; j <= p; j++) {
            if (d->window && p - j >= d->window && j >= d->n_sink) continue;
            double s = 0, a = 0;
            for (int64_t e = 0; e < d->head_dim; e++) {
                s += q[e] * k[j * stride + e];
                a += fabs(q[e] * k[j * stride + e]);
            }
            s *= d->scale;
            a *= fabs(d->scale);
            if (pass == 0) {
                m = fmax(m, s);
                continue;
            }
            const double weight = exp(s - m), ds = kd * u * a + 4 * u * (1 + fabs(s) + fabs(s - m));
            total += weight;
            mass += weight * ds;
            slack = fmax(slack, ds);
            for (int64_t e = 0; e < d->head_dim; e++) {
                w->out[e] += weight * v[j * stride + e];
                size[e] += weight * fabs(v[j * stride + e]) * (2 * ds + kn * u);
                w->bound[e] += weight * fabs(v[j * stride + e]);
            }
        }
    for (int64_t e = 0; e < d->head_dim; e++) {
        const double least = ts_format_of(d->io_dtype)->min_normal;
        w->out[e] /= total;
        w->size[e] = w->bound[e] / total;
        w->bound[e] = (size[e] + 2 * mass / total * w->bound[e]) / total +
                      2 * ts_format_of(d->io_dtype)->u * fabs(w->out[e]) + least;
    }
    w->lse = m + log(total);
    w->lse_bound = slack + kn * u + 0x1p-23 * fabs(w->lse);
}

/* ---- caches and tokens of the tests ---- */

enum { MAX_TOKENS = 300, MAX_HEADS = 8, MAX_D = 128 };

static const ts_dtype all_stores[] = { TS_F32, TS_BF16, TS_F16, TS_U8, TS_U4 };

static inline ts_kv_dims plain_dims(void)
{
    return (ts_kv_dims) {
        .n_layer = 2,
        .n_seq_max = 4,
        .n_q_head = 4,
        .n_kv_head = 2,
        .head_dim = 33,
        .capacity = 200,
        .page = 16,
        .n_page = 104,
        .key_group = 8,
        .max_call_tokens = MAX_TOKENS,
        .key_axis = TS_KEY_TOKEN,
        .io_dtype = TS_F32,
        .store_dtype = TS_F32,
        .meta_dtype = TS_F32,
        .scale = 0.2,
    };
}

/* ---- tokens: number i of a stream has rows that depend on seed and i alone ---- */

typedef struct tokens {
    double v[MAX_TOKENS * MAX_HEADS * MAX_D]; /* room for any dtype */
} tokens;

static tokens buf_k, buf_v, buf_q;

static inline void fill(tokens *t, const ts_kv_dims *d, int64_t n_head, uint64_t seed, int64_t from,
                        int64_t n)
{
    const int64_t width = n_head * d->head_dim;
    for (int64_t i = 0; i < n * width; i++)
        ts_store(t, d->io_dtype, i, ts_normal(seed, from * width + i));
}

static inline size_t kv_bytes(const ts_kv_dims *d, int64_t n)
{
    return (size_t)(n * d->n_kv_head * d->head_dim) * ts_format_of(d->io_dtype)->n_bytes;
}

static inline void append(box *b, int64_t layer, int32_t seq, uint64_t seed, int64_t n,
                          int64_t each)
{
    while (n > 0) {
        const int64_t now = n < each ? n : each, from = box_len(b, layer, seq);
        fill(&buf_k, &b->d, b->d.n_kv_head, seed, from, now);
        fill(&buf_v, &b->d, b->d.n_kv_head, seed + 1, from, now);
        assert_int_equal(ts_kv_append(b->c, &b->x, layer, 1, &seq, &now,
                                      kv_there(0, &buf_k, kv_bytes(&b->d, now)),
                                      kv_there(1, &buf_v, kv_bytes(&b->d, now))),
                         TS_OK);
        n -= now;
    }
}

static inline size_t out_bytes(const ts_kv_dims *d, int64_t n)
{
    return (size_t)(n * d->n_q_head * d->head_dim) * ts_format_of(d->io_dtype)->n_bytes;
}

static inline void attend(box *b, int64_t layer, int32_t seq, uint64_t seed, int64_t n, tokens *out,
                          float *lse)
{
    fill(&buf_q, &b->d, b->d.n_q_head, seed, box_len(b, layer, seq) - n, n);
    memset(out, 0xff, sizeof *out);
    assert_int_equal(ts_kv_attend(b->c, &b->x, layer, 1, &seq, &n, &buf_q, out, lse), TS_OK);
}

static float read_k[2][MAX_TOKENS * MAX_HEADS * MAX_D], read_v[2][MAX_TOKENS * MAX_HEADS * MAX_D];

static inline void read_all(box *b, int64_t layer, int32_t seq, int side)
{
    const int64_t len = box_len(b, layer, seq);
    memset(read_k[side], 0, sizeof read_k[side]);
    memset(read_v[side], 0, sizeof read_v[side]);
    const size_t n = (size_t)(len * b->d.n_kv_head * b->d.head_dim) * sizeof(float);
    float *const k = kv_there(0, read_k[side], n), *const v = kv_there(1, read_v[side], n);
    assert_int_equal(ts_kv_read(b->c, &b->x, layer, seq, 0, len, k, v), TS_OK);
    kv_back(read_k[side], k, n);
    kv_back(read_v[side], v, n);
}

static inline void same_read(void)
{
    assert_memory_equal(read_k[0], read_k[1], sizeof read_k[0]);
    assert_memory_equal(read_v[0], read_v[1], sizeof read_v[0]);
}

#endif
