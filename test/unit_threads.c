/* SPDX-License-Identifier: Apache-2.0 */
/* unit_threads.c - tests what touchstone.h promises about threads, n_threads and alignment.
 *
 * Calls in several threads at the same time give the bits that one thread gives, with workspaces
 * and a cache's memory at odd addresses, and larger than necessary. A negative n_threads is
 * OpenMP's default. A process that called the library may fork, and the child may call it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rng.h"
#include "touchstone/attention.h"
#include "touchstone/kv_cache.h"
#include "touchstone/layernorm.h"
#include "unit.h"

enum {
    CALLERS = 4,
    TURNS = SANITIZED ? 2 : 8,
    HEADS = 2,
    TOKENS = 384,
    DIM = 64,
    SIZE = HEADS * TOKENS * DIM
};

static float q[SIZE], k[SIZE], v[SIZE], dout[SIZE], gamma[DIM], beta[DIM];

/* The outputs of one caller. */
typedef struct results {
    float o[SIZE], lse[HEADS * TOKENS], dq[SIZE], dk[SIZE], dv[SIZE], cached[SIZE];
    float y[SIZE], mean[HEADS * TOKENS], rstd[HEADS * TOKENS];
} results;

typedef struct caller {
    results r;
    int     n_threads, n_failed;
} caller;

/* n bytes at an odd address; `base` is to be freed. */
static void *odd(size_t n, void **base)
{
    *base = malloc(n + 2);
    if (*base) memset(*base, 0x7f, n + 2);
    return *base ? (char *)*base + 1 : NULL;
}

static int attend(caller *c, ts_exec x)
{
    const ts_attention_dims d = { TS_F32, TS_BHND, 1, 1, TOKENS, TOKENS, HEADS,
                                  HEADS,  DIM,     0, 0, 0,      0.125 };
    results                *r = &c->r;
    void                   *base;

    const ts_flash_attention_args          f = { d, q, k, v, NULL, r->o, r->lse };
    const ts_flash_attention_backward_args b = { d,      q,    k,     v,     r->o, dout,
                                                 r->lse, NULL, r->dq, r->dk, r->dv };
    size_t                                 n, more;
    int                                    failed = ts_flash_attention_workspace(&f, &x, &n) ||
                 ts_flash_attention_backward_workspace(&b, &x, &more);
    x.workspace_bytes = failed ? 0 : n + more + 100;
    x.workspace = odd(x.workspace_bytes, &base);
    failed = failed || ts_flash_attention(&f, &x) || ts_flash_attention_backward(&b, &x);
    free(base);
    return failed;
}

/* The same queries over a cache of codes. */
static int attend_cache(caller *c, ts_exec x)
{
    const ts_kv_dims d = { .n_layer = 1,
                           .n_seq_max = 1,
                           .n_q_head = HEADS,
                           .n_kv_head = HEADS,
                           .head_dim = DIM,
                           .capacity = TOKENS,
                           .page = 32,
                           .n_page = 12,
                           .key_group = 32,
                           .max_call_tokens = TOKENS,
                           .store_dtype = TS_U8,
                           .scale = 0.125 };
    const int64_t    all = TOKENS;
    size_t           state, work;
    void            *memory, *room, *place;
    ts_kv           *cache = NULL;
    int32_t          seq;

    int failed = ts_kv_bytes(&d, &x, &state, &work);
    if (failed) return failed;
    place = odd(state, &memory);
    x.workspace_bytes = work;
    x.workspace = odd(work, &room);
    failed = ts_kv_create(&d, &x, place, state, &cache) || ts_kv_open(cache, &x, &seq) ||
             ts_kv_append(cache, &x, 0, 1, &seq, &all, k, v) ||
             ts_kv_attend(cache, &x, 0, 1, &seq, &all, q, c->r.cached, NULL);
    ts_kv_destroy(&cache);
    free(memory);
    free(room);
    return failed;
}

static void *run(void *user)
{
    caller       *c = user;
    const ts_exec x = { .device = TS_CPU, .n_threads = c->n_threads, .deterministic = 1 };

    const ts_layernorm_forward_args norm = { TS_F32, HEADS * TOKENS, DIM,    DIM,       1e-5,     q,
                                             gamma,  beta,           c->r.y, c->r.mean, c->r.rstd };
    for (int i = 0; i < TURNS; i++) {
        memset(&c->r, 0, sizeof c->r);
        c->n_failed += attend(c, x) || attend_cache(c, x) || ts_layernorm_forward(&norm, &x);
    }
    return NULL;
}

static void fill(float *p, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++) p[i] = (float)ts_normal(seed, i);
}

static caller alone, at_once[CALLERS];

TEST(calls_at_the_same_time_do_not_disturb_each_other)
{
    pthread_t thread[CALLERS];
    fill(q, SIZE, 1), fill(k, SIZE, 2), fill(v, SIZE, 3), fill(dout, SIZE, 4);
    fill(gamma, DIM, 5), fill(beta, DIM, 6);
    alone.n_threads = 1;
    run(&alone);
    assert_int_equal(alone.n_failed, 0);
    for (int i = 0; i < CALLERS; i++) {
        at_once[i].n_threads = i + 1;
        assert_int_equal(pthread_create(&thread[i], NULL, run, &at_once[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < CALLERS; i++) {
        assert_int_equal(at_once[i].n_failed, 0);
        assert_memory_equal(&at_once[i].r, &alone.r, sizeof alone.r);
    }
}

TEST(a_negative_number_of_threads_is_the_default)
{
    for (int n = -2; n < 1; n++) {
        at_once[0].n_threads = n;
        run(&at_once[0]);
        assert_int_equal(at_once[0].n_failed, 0);
        assert_memory_equal(&at_once[0].r, &alone.r, sizeof alone.r);
    }
}

/* Also between calls: neither the parent's threads nor a first child's are missed. */
TEST(a_forked_child_can_call)
{
    for (int i = 0; i < 3; i++) {
        int status = -1;
        at_once[0].n_threads = 3;
        run(&at_once[0]);
        assert_int_equal(at_once[0].n_failed, 0);
        const pid_t child = fork();
        if (!child) {
            alarm(60);
            at_once[1].n_threads = 2 + i;
            run(&at_once[1]);
            _exit(memcmp(&at_once[1].r, &alone.r, sizeof alone.r) != 0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    run(&at_once[0]);
    assert_memory_equal(&at_once[0].r, &alone.r, sizeof alone.r);
}
