/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache.cu - your cache, for CUDA. The prompt is the specification.
 *
 * `memory`, k, v, q, out, lse and what a read returns are device memory; all else is host memory. A
 * function enqueues its work on (cudaStream_t)x->stream, and returns. */
#include <cuda_runtime.h>

#include "touchstone/kv_cache.h"

/* What a cache is made of. This part is the host's, which may allocate it; keys and values are in
 * the memory that ts_kv_create is given. */
struct ts_kv {
    ts_kv_dims d;
};

/* Begin here: reject invalid calls (TS_E_SHAPE, TS_E_DTYPE, TS_E_ARG), and return how much memory a
 * cache of these dims takes, and how much scratch memory every other call needs in x->workspace. */
extern "C" ts_status ts_kv_bytes(const ts_kv_dims *d, const ts_exec *x, size_t *state_bytes,
                                 size_t *workspace_bytes)
{
    (void)d, (void)x, (void)state_bytes, (void)workspace_bytes;
    return TS_E_UNSUPPORTED;
}

extern "C" ts_status ts_kv_create(const ts_kv_dims *d, const ts_exec *x, void *memory,
                                  size_t memory_bytes, ts_kv **c)
{
    (void)d, (void)x, (void)memory, (void)memory_bytes, (void)c;
    return TS_E_UNSUPPORTED;
}

extern "C" ts_status ts_kv_destroy(ts_kv **c)
{
    *c = NULL;
    return TS_OK;
}

extern "C" ts_status ts_kv_open(ts_kv *c, const ts_exec *x, int32_t *seq)
{
    (void)c, (void)x, (void)seq;
    return TS_E_UNSUPPORTED;
}

/* Pages are shared until one of the two writes. */
extern "C" ts_status ts_kv_fork(ts_kv *c, const ts_exec *x, int32_t src, int32_t *dst)
{
    (void)c, (void)x, (void)src, (void)dst;
    return TS_E_UNSUPPORTED;
}

extern "C" ts_status ts_kv_truncate(ts_kv *c, const ts_exec *x, int32_t seq, int64_t n)
{
    (void)c, (void)x, (void)seq, (void)n;
    return TS_E_UNSUPPORTED;
}

extern "C" ts_status ts_kv_free(ts_kv *c, const ts_exec *x, int32_t seq)
{
    (void)c, (void)x, (void)seq;
    return TS_E_UNSUPPORTED;
}

/* All of the sequences, or, if there is no room for one of them, none. */
extern "C" ts_status ts_kv_append(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                                  const int32_t *seq, const int64_t *n_new, const void *k,
                                  const void *v)
{
    (void)c, (void)x, (void)layer, (void)n_seq, (void)seq, (void)n_new, (void)k, (void)v;
    return TS_E_UNSUPPORTED;
}

/* What is timed: one query a sequence, over all of its keys. */
extern "C" ts_status ts_kv_attend(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                                  const int32_t *seq, const int64_t *n_q, const void *q, void *out,
                                  float *lse)
{
    (void)c, (void)x, (void)layer, (void)n_seq, (void)seq, (void)n_q, (void)q, (void)out, (void)lse;
    return TS_E_UNSUPPORTED;
}

extern "C" ts_status ts_kv_read(ts_kv *c, const ts_exec *x, int64_t layer, int32_t seq,
                                int64_t from, int64_t n, float *k, float *v)
{
    (void)c, (void)x, (void)layer, (void)seq, (void)from, (void)n, (void)k, (void)v;
    return TS_E_UNSUPPORTED;
}

extern "C" ts_status ts_kv_status(const ts_kv *c, int64_t layer, int32_t seq, int64_t *len,
                                  ts_kv_usage *u)
{
    (void)c, (void)layer, (void)seq, (void)len, (void)u;
    return TS_E_UNSUPPORTED;
}
