/* SPDX-License-Identifier: Apache-2.0 */
/* unit_model.h - what the tests of model/ share: where models are, JSON of golden numbers, and a
 * forward over a whole text. */
#ifndef TS_UNIT_MODEL_H
#define TS_UNIT_MODEL_H

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cuda_module.h"
#include "decoder.h"
#include "unit.h"

/* TS_TEST_SOURCE/test/checkpoint/NAME/FILE */
static inline const char *checkpoint(const char *name, const char *file)
{
    static char path[2][4096];
    static int  turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/test/checkpoint/%s/%s", TS_TEST_SOURCE, name, file);
    return path[turn];
}

/* A file of the models that are not kept here, or NULL where they are absent. */
static inline const char *story(const char *file)
{
    static char path[2][4096];
    static int  turn;
    struct stat is;
    const char *folder = getenv("TOUCHSTONE_MODELS");
    turn = !turn;
    if (folder) snprintf(path[turn], sizeof path[turn], "%s/%s", folder, file);
    else snprintf(path[turn], sizeof path[turn], "%s/../shared/models/%s", TS_TEST_SOURCE, file);
    return stat(path[turn], &is) ? NULL : path[turn];
}

static inline json_t *read_json(const char *path)
{
    json_error_t e;
    json_t      *o = json_load_file(path, 0, &e);
    if (!o) fail_msg("%s: %s", path, e.text);
    return o;
}

static inline char *read_bytes(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *p = malloc(*n + 1);
    assert_non_null(p);
    assert_int_equal(fread(p, 1, *n, f), *n);
    p[*n] = 0;
    fclose(f);
    return p;
}

static inline ts_decoder *load(const char *path, ts_dtype dtype)
{
    char        why[TS_MODEL_WHY] = "";
    ts_decoder *m = NULL;
    if (!ts_decoder_load(path, dtype, &m, why)) fail_msg("%s: %s", path, why);
    return m;
}

/* Whether models cannot run on a CUDA device here, with a line that says why. Whatever else is
 * wrong with one is for a test to fail at. */
static inline bool no_cuda(void)
{
    char        why[TS_MODEL_WHY] = "";
    const char *absent = ts_cuda_unavailable_reason();
    ts_decoder *m = load(checkpoint("qwen3", ""), TS_F32);
    if (!absent && !ts_decoder_to_cuda(m, why) && strstr(why, "no CUDA module")) absent = why;
    if (absent) print_message("skipped: %s\n", absent);
    ts_decoder_free(&m);
    return absent;
}

static inline void to_cuda(ts_decoder *m)
{
    char why[TS_MODEL_WHY] = "";
    if (!ts_decoder_to_cuda(m, why)) fail_msg("%s", why);
    assert_int_equal(ts_decoder_device(m), TS_CUDA);
}

/* Integers of a JSON array; the caller frees. */
static inline int32_t *integers(const json_t *list, int64_t *n)
{
    *n = (int64_t)json_array_size(list);
    int32_t *v = malloc(((size_t)*n + 1) * sizeof *v);
    assert_non_null(v);
    for (int64_t i = 0; i < *n; i++)
        v[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return v;
}

/* ---- memory of either device ---- */

static inline void *take(ts_device device, size_t n)
{
    void *p = NULL;
    if (device == TS_CPU) p = malloc(n);
    else assert_int_equal(ts_cuda_ops()->alloc(&p, n), 0);
    assert_non_null(p);
    return p;
}

static inline void give(ts_device device, void *p)
{
    if (device == TS_CPU) free(p);
    else assert_int_equal(ts_cuda_ops()->release(p), 0);
}

static inline void fetch(ts_device device, void *host, const void *from, size_t n)
{
    if (device == TS_CPU) memcpy(host, from, n);
    else assert_int_equal(ts_cuda_ops()->copy_out(host, from, n), 0);
}

/* One printable line, which has `word` in it. */
static inline void one_line(const char *why, const char *word)
{
    if (!strstr(why, word)) fail_msg("got '%s', expected something about '%s'", why, word);
    for (; *why; why++) assert_in_range(*why, ' ', '~');
}

/* ---- logits ---- */

typedef struct way {
    int64_t     chunk, page; /* page 0: contiguous */
    ts_dtype    store;
    ts_key_axis axis;
} way;

/* Logits after each token, [n][n_vocab] in double, the text being read in chunks. */
static inline double *logits_of(const ts_decoder *m, const int32_t *token, int64_t n, way w)
{
    const ts_decoder_dims *d = ts_decoder_dims_of(m);
    const ts_dtype         dtype = ts_decoder_dtype(m);
    const ts_device        on = ts_decoder_device(m);
    const size_t           size = dtype == TS_F64 ? 8 : 4;
    const ts_kv_dims       kv = { .n_layer = d->n_layer,
                                  .n_seq_max = 1,
                                  .n_q_head = d->n_head,
                                  .n_kv_head = d->n_kv_head,
                                  .head_dim = d->head_dim,
                                  .capacity = n,
                                  .page = w.page,
                                  .n_page = w.page ? d->n_layer * ((n + w.page - 1) / w.page) : 0,
                                  .window = d->window,
                                  .key_group = w.axis == TS_KEY_CHANNEL ? 16 : d->head_dim,
                                  .max_call_tokens = w.chunk,
                                  .key_axis = w.axis,
                                  .io_dtype = dtype,
                                  .store_dtype = w.store,
                                  .meta_dtype = w.store == TS_U4 ? TS_F16 : TS_F32,
                                  .scale = 1 / sqrt((double)d->head_dim) };
    ts_exec                x = { .device = on, .deterministic = 1 };
    size_t                 state, work;
    ts_kv                 *cache;
    int32_t                seq;
    assert_int_equal(ts_kv_bytes(&kv, &x, &state, &work), TS_OK);
    x.workspace_bytes = ts_decoder_workspace(m, w.chunk, work);
    x.workspace = take(on, x.workspace_bytes);
    void    *memory = take(on, state);
    int64_t *want = take(TS_CPU, (size_t)w.chunk * sizeof *want);
    char    *raw = take(on, (size_t)(n * d->n_vocab) * size);
    char    *host = take(TS_CPU, (size_t)(n * d->n_vocab) * size);
    double  *out = take(TS_CPU, (size_t)(n * d->n_vocab) * sizeof *out);
    for (int64_t i = 0; i < w.chunk; i++) want[i] = i;
    assert_int_equal(ts_kv_create(&kv, &x, memory, state, &cache), TS_OK);
    assert_int_equal(ts_kv_open(cache, &x, &seq), TS_OK);
    for (int64_t at = 0; at < n; at += w.chunk) {
        const int64_t         n_new = n - at < w.chunk ? n - at : w.chunk;
        const ts_forward_args a = {
            cache, 1, &seq, &n_new, token + at, n_new, want, raw + (size_t)(at * d->n_vocab) * size
        };
        assert_int_equal(ts_decoder_forward(m, &a, &x), TS_OK);
    }
    fetch(on, host, raw, (size_t)(n * d->n_vocab) * size);
    for (int64_t i = 0; i < n * d->n_vocab; i++)
        out[i] = size == 8 ? ((double *)(void *)host)[i] : (double)((float *)(void *)host)[i];
    ts_kv_destroy(&cache);
    give(on, x.workspace);
    give(on, memory);
    give(on, raw);
    free(want);
    free(host);
    return out;
}

/* A forward of qwen3 that cannot be done leaves the sequence as it was: there are pages for three
 * tokens in the first layer, for none in the second. */
static inline void refusal_leaves_the_sequence(const ts_decoder *m)
{
    const ts_decoder_dims *d = ts_decoder_dims_of(m);
    const ts_device        on = ts_decoder_device(m);
    const ts_kv_dims       kv = { .n_layer = d->n_layer,
                                  .n_seq_max = 1,
                                  .n_q_head = d->n_head,
                                  .n_kv_head = d->n_kv_head,
                                  .head_dim = d->head_dim,
                                  .capacity = 8,
                                  .page = 1,
                                  .n_page = 3,
                                  .max_call_tokens = 8,
                                  .scale = 1 };
    const int32_t          token[3] = { 1, 2, 3 }, wild[1] = { (int32_t)d->n_vocab };
    const int64_t          n_new = 3, one = 1, row = 0;
    ts_exec                x = { .device = on };
    ts_kv                 *cache;
    int32_t                seq;
    int64_t                len = -1;
    size_t                 state_bytes, work_bytes;
    ts_kv_usage            use;
    assert_int_equal(ts_kv_bytes(&kv, &x, &state_bytes, &work_bytes), TS_OK);
    void *memory = take(on, state_bytes);
    void *logits = take(on, (size_t)d->n_vocab * sizeof(float));
    work_bytes = ts_decoder_workspace(m, 8, work_bytes);
    x.workspace = take(on, x.workspace_bytes = work_bytes);
    assert_int_equal(ts_kv_create(&kv, &x, memory, state_bytes, &cache), TS_OK);
    assert_int_equal(ts_kv_open(cache, &x, &seq), TS_OK);
    ts_forward_args a = { cache, 1, &seq, &n_new, token, 1, &row, logits };
    assert_int_equal(ts_decoder_forward(m, &a, &x), TS_E_CAPACITY);
    assert_int_equal(ts_kv_status(cache, 0, seq, &len, &use), TS_OK);
    assert_int_equal(len, 0);
    assert_int_equal(use.n_free, 3);
    a.n_new = &one;
    if (on == TS_CPU) {
        a.token = wild;
        assert_int_equal(ts_decoder_forward(m, &a, &x), TS_E_ARG);
        a.token = token;
        x.workspace_bytes = 100;
        assert_int_equal(ts_decoder_forward(m, &a, &x), TS_E_WORKSPACE);
        x.workspace_bytes = work_bytes;
    }
    x.device = on == TS_CPU ? TS_CUDA : TS_CPU;
    assert_int_equal(ts_decoder_forward(m, &a, &x), TS_E_UNSUPPORTED);
    x.device = on;
    assert_int_equal(ts_decoder_forward(m, &a, &x), TS_OK);
    a.n_seq = a.n_want = 0; /* nothing at all is no error */
    assert_int_equal(ts_decoder_forward(m, &a, &x), TS_OK);
    ts_kv_destroy(&cache);
    give(on, memory);
    give(on, logits);
    give(on, x.workspace);
}

/* NaN counts as infinitely far. */
static inline double farther(double far, double a, double b)
{
    const double d = fabs(a - b);
    return d <= far ? far : d < INFINITY ? d : INFINITY;
}

/* ---- running requests ---- */

enum { MOST_REQUESTS = 8, MOST_TOKENS = 256 };

typedef struct results {
    int32_t   token[MOST_REQUESTS][MOST_TOKENS];
    int64_t   n[MOST_REQUESTS];
    ts_status status[MOST_REQUESTS];
    int       n_ended[MOST_REQUESTS];
} results;

static inline void note(void *user, const ts_event *e)
{
    results *r = user;
    assert_in_range(e->request, 0, MOST_REQUESTS - 1);
    assert_int_equal(r->n_ended[e->request], 0);
    if (e->token < 0) {
        r->status[e->request] = e->status;
        r->n_ended[e->request]++;
    } else {
        assert_true(r->n[e->request] < MOST_TOKENS);
        r->token[e->request][r->n[e->request]++] = e->token;
    }
}

static const ts_sampling greedy = { .top_p = 1 };

static inline void run(const ts_decoder *m, const ts_engine_options *o, const ts_request *request,
                       int n_request, results *r, ts_engine_stats *stats)
{
    char       why[TS_MODEL_WHY] = "";
    ts_engine *e;
    int64_t    n_step = 0;
    memset(r, 0, sizeof *r);
    if (!ts_engine_create(m, o, &e, why)) fail_msg("%s", why);
    for (int i = 0; i < n_request; i++)
        if (!ts_engine_add(e, &request[i], why)) fail_msg("%s", why);
    while (ts_engine_step(e, note, r)) assert_true(n_step++ < 100000);
    for (int i = 0; i < n_request; i++) assert_int_equal(r->n_ended[i], 1);
    if (stats) *stats = *ts_engine_stats_of(e);
    ts_engine_free(&e);
}

#endif
