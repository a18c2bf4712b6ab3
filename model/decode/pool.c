/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - a KV cache in the shape of a decoder, with the workspace of its passes. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <string.h>
#include <time.h>

#include "cuda_module.h"
#include "dtype.h"
#include "model_impl.h"

enum { GROUP = 16 };

static bool is_code(ts_dtype t)
{
    return t == TS_U8 || t == TS_U4;
}

int64_t ts_pool_group(const ts_engine_options *o)
{
    return !is_code(o->store) ? 1 : o->page ? o->page : GROUP;
}

static ts_kv_dims cache_dims(const ts_decoder *m, const ts_engine_options *o)
{
    const ts_decoder_dims *d = &m->dims;
    return (ts_kv_dims) {
        .n_layer = d->n_layer,
        .n_seq_max = o->n_seq + o->n_keep,
        .n_q_head = d->n_head,
        .n_kv_head = d->n_kv_head,
        .head_dim = d->head_dim,
        .capacity = o->capacity,
        .page = o->page,
        .n_page = o->n_page,
        .window = d->window,
        /* Keys have channels that are large throughout: codes do well by channel. */
        .key_axis = TS_KEY_CHANNEL,
        .key_group = ts_pool_group(o),
        .max_call_tokens = o->n_seq + o->chunk,
        .io_dtype = m->dtype,
        .store_dtype = o->store,
        .meta_dtype = o->store == TS_U4 ? TS_F16 : TS_F32,
        .scale = 1 / sqrt((double)d->head_dim),
    };
}

static bool sound(const ts_decoder *m, const ts_engine_options *o, char why[TS_MODEL_WHY])
{
    const int64_t most = INT64_C(1) << 24;
    if (o->n_seq < 1 || o->n_seq > most || o->chunk < 1 || o->chunk > most)
        return ts_say(
            why, "engine: got %lld sequences and chunks of %lld tokens, expected 1 to %lld each",
            (long long)o->n_seq, (long long)o->chunk, (long long)most);
    if (o->n_keep < 0 || o->n_keep > most || (o->n_keep && !o->share) || (o->share && !o->page))
        return ts_say(why,
                      "engine: got %lld sequences to keep, expected 0 to %lld, in pages that are "
                      "shared",
                      (long long)o->n_keep, (long long)most);
    if (o->capacity < 1 || o->capacity > m->dims.n_context)
        return ts_say(
            why, "engine: got a capacity of %lld tokens, expected 1 to %lld, the model's context",
            (long long)o->capacity, (long long)m->dims.n_context);
    return true;
}

static bool make(const ts_decoder *m, const ts_engine_options *o, ts_pool *p,
                 char why[TS_MODEL_WHY])
{
    const ts_kv_dims d = cache_dims(m, o);
    size_t           state, work;
    ts_status        s = ts_kv_bytes(&d, &p->exec, &state, &work);
    if (s) return ts_say(why, "KV cache: unsupported dimensions: %s", ts_status_text(s));
    p->n_call = d.max_call_tokens;
    p->exec.workspace_bytes = ts_decoder_workspace(m, p->n_call, work);
    if (!ts_memory_take(m->device, p->exec.workspace_bytes, "batch workspace", &p->exec.workspace,
                        why) ||
        !ts_memory_take(m->device, state, "KV cache", &p->memory, why))
        return false;
    s = ts_kv_create(&d, &p->exec, p->memory, state, &p->kv);
    p->n_bytes = state;
    return !s || ts_say(why, "KV cache: cannot be created: %s", ts_status_text(s));
}

bool ts_pool_make(const ts_decoder *m, const ts_engine_options *o, ts_pool *p,
                  char why[TS_MODEL_WHY])
{
    *p = (ts_pool) {
        .exec = { .device = m->device, .n_threads = o->n_threads, .deterministic = 1 },
    };
    ts_blas_limit(o->n_threads);
    if (sound(m, o, why) && make(m, o, p, why)) return true;
    ts_pool_free(p);
    return false;
}

void ts_pool_free(ts_pool *p)
{
    ts_kv_destroy(&p->kv);
    ts_memory_give(p->exec.device, p->exec.workspace);
    ts_memory_give(p->exec.device, p->memory);
    p->exec.workspace = p->memory = NULL;
}

ts_status ts_logits_out(const ts_decoder *m, const void *logits, int64_t i, float *out)
{
    const int64_t n = m->dims.n_vocab;
    const size_t  bytes = (size_t)n * sizeof *out;
    if (m->dtype == TS_F64) /* the CPU's alone */
        for (int64_t c = 0; c < n; c++) out[c] = (float)((const double *)logits)[i * n + c];
    else if (m->device == TS_CPU) memcpy(out, (const float *)logits + i * n, bytes);
    else if (ts_cuda_ops()->copy_out(out, (const float *)logits + i * n, bytes)) return TS_E_DEVICE;
    return TS_OK;
}
