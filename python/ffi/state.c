/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - functions with handles and models: the KV cache, beam search, verification of trees;
 * and the comparison of layouts that comes before all of them.
 *
 * Handles and addresses are integers here. The classes in touchstone/ own them, check shapes, and
 * pass nothing else. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "ffi.h"
#include "touchstone/abi.h"

#define FUNCTION(name)                                                                             \
    TVM_FFI_DLL_EXPORT int __tvm_ffi_##name(void *self, const TVMFFIAny *a, int32_t n,             \
                                            TVMFFIAny *out);                                       \
    TVM_FFI_DLL_EXPORT int __tvm_ffi_##name(void *self, const TVMFFIAny *a, int32_t n,             \
                                            TVMFFIAny *out)

/* Arguments by a string: i integers, d numbers, t tensors, ? tensors or None. */
static int expect(const char *name, const char *kinds, const TVMFFIAny *a, int n, TVMFFIAny *out)
{
    *out = (TVMFFIAny) { .type_index = kTVMFFINone };
    if (n != (int)strlen(kinds))
        return ts_ffi_error("TypeError", "%s: got %d arguments, expected %zu", name, n,
                            strlen(kinds));
    for (int i = 0; i < n; i++) {
        const int       t = a[i].type_index;
        const bool      whole = t == kTVMFFIInt || t == kTVMFFIBool;
        const DLTensor *tensor = ts_ffi_tensor(&a[i]);
        const bool      ok = kinds[i] == 'i'   ? whole
                             : kinds[i] == 'd' ? whole || t == kTVMFFIFloat
                             : kinds[i] == 't' ? tensor != NULL
                                               : tensor || t == kTVMFFINone;
        if (!ok || (tensor && !ts_ffi_dense(tensor)))
            return ts_ffi_error("TypeError", "%s: argument %d: expected %s", name, i,
                                kinds[i] == 'i'   ? "an integer"
                                : kinds[i] == 'd' ? "a number"
                                                  : "a contiguous tensor");
    }
    return 0;
}

static double number(const TVMFFIAny *v)
{
    return v->type_index == kTVMFFIFloat ? v->v_float64 : (double)v->v_int64;
}

static void *data(const TVMFFIAny *v)
{
    const DLTensor *t = ts_ffi_tensor(v);
    return t ? ts_ffi_data(t) : NULL;
}

static int64_t length(const TVMFFIAny *v)
{
    const DLTensor *t = ts_ffi_tensor(v);
    int64_t         n = t ? 1 : 0;
    for (int i = 0; t && i < t->ndim; i++) n *= t->shape[i];
    return n;
}

static void *address(const TVMFFIAny *v)
{
    return (void *)(uintptr_t)v->v_int64;
}

static void give(TVMFFIAny *out, int64_t v)
{
    *out = (TVMFFIAny) { .type_index = kTVMFFIInt, .v_int64 = v };
}

/* Raises where the library that was loaded is not the one that this was compiled with. */
FUNCTION(check_abi)
{
    (void)self;
    if (expect("check_abi", "", a, n, out)) return -1;
    const ts_abi_field *bad = ts_abi_mismatch(ts_abi_fields, TS_ABI_FIELDS);
    if (bad)
        return ts_ffi_error(
            "ImportError",
            "touchstone: libtouchstone.so has another %s.%s than the Python module; "
            "reinstall the package",
            bad->of, bad->name);
    give(out, TS_ABI_VERSION);
    return 0;
}

FUNCTION(cuda_unavailable)
{
    (void)self;
    if (expect("cuda_unavailable", "", a, n, out)) return -1;
    const char *why = ts_cuda_unavailable_reason();
    if (!why) return 0;
    const TVMFFIByteArray text = { why, strlen(why) };
    return TVMFFIStringFromByteArray(&text, out);
}

/* ---- KV cache ---- */

/* The settings as one tensor of int64: fields of ts_kv_dims in their order, without the scale. */
enum { KV_FIELDS = 16 };
static void kv_dims(const TVMFFIAny *settings, const TVMFFIAny *scale, ts_kv_dims *d)
{
    const int64_t *v = data(settings);
    *d = (ts_kv_dims) { .n_layer = v[0],
                        .n_seq_max = v[1],
                        .n_q_head = v[2],
                        .n_kv_head = v[3],
                        .head_dim = v[4],
                        .capacity = v[5],
                        .page = v[6],
                        .n_page = v[7],
                        .window = v[8],
                        .n_sink = v[9],
                        .key_group = v[10],
                        .max_call_tokens = v[11],
                        .key_axis = (ts_key_axis)v[12],
                        .io_dtype = (ts_dtype)v[13],
                        .store_dtype = (ts_dtype)v[14],
                        .meta_dtype = (ts_dtype)v[15],
                        .scale = number(scale) };
}

static DLDevice device_at(const TVMFFIAny *type, const TVMFFIAny *id)
{
    return (DLDevice) { (DLDeviceType)type->v_int64, (int32_t)id->v_int64 };
}

/* settings, scale, device type, device, sizes: int64[2] for bytes of state and workspace */
FUNCTION(kv_bytes)
{
    (void)self;
    ts_kv_dims d;
    ts_exec    x;
    size_t     state, work;
    if (expect("KVCache", "tdiit", a, n, out)) return -1;
    if (length(&a[0]) != KV_FIELDS || length(&a[4]) != 2)
        return ts_ffi_error("ValueError", "KVCache: expected %d settings", KV_FIELDS);
    const DLDevice device = device_at(&a[2], &a[3]);
    kv_dims(&a[0], &a[1], &d);
    if (ts_ffi_enter(device, &x)) return -1;
    const ts_status s = ts_kv_bytes(&d, &x, &state, &work);
    ts_ffi_leave(device);
    if (s != TS_OK) return ts_ffi_status("KVCache", s, "");
    ((int64_t *)data(&a[4]))[0] = (int64_t)state;
    ((int64_t *)data(&a[4]))[1] = (int64_t)work;
    return 0;
}

/* settings, scale, memory: a handle */
FUNCTION(kv_create)
{
    (void)self;
    ts_kv_dims d;
    ts_exec    x;
    ts_kv     *c = NULL;
    if (expect("KVCache", "tdt", a, n, out)) return -1;
    const DLTensor *memory = ts_ffi_tensor(&a[2]);
    kv_dims(&a[0], &a[1], &d);
    if (ts_ffi_enter(ts_ffi_device(memory), &x)) return -1;
    const ts_status s = ts_kv_create(&d, &x, ts_ffi_data(memory), (size_t)length(&a[2]), &c);
    ts_ffi_leave(ts_ffi_device(memory));
    if (s != TS_OK) return ts_ffi_status("KVCache", s, "");
    give(out, (int64_t)(uintptr_t)c);
    return 0;
}

FUNCTION(kv_destroy)
{
    (void)self;
    if (expect("KVCache", "i", a, n, out)) return -1;
    ts_kv *c = address(a);
    ts_kv_destroy(&c);
    return 0;
}

/* Every other call: handle, memory, bytes of workspace, then its own. */
static int kv_begin(const char *name, const TVMFFIAny *a, ts_exec *x)
{
    const DLTensor *memory = ts_ffi_tensor(&a[1]);
    if (ts_ffi_enter(ts_ffi_device(memory), x)) return -1;
    if (!a[2].v_int64 || !ts_ffi_workspace(name, ts_ffi_device(memory), x, (size_t)a[2].v_int64))
        return 0;
    ts_ffi_leave(ts_ffi_device(memory));
    return -1;
}

static int kv_end(const char *name, const TVMFFIAny *a, ts_status s)
{
    ts_ffi_leave(ts_ffi_device(ts_ffi_tensor(&a[1])));
    return s == TS_OK ? 0 : ts_ffi_status(name, s, "");
}

/* A call that returns nothing. */
#define KV(symbol, name, kinds, ...)                                                               \
    FUNCTION(symbol)                                                                               \
    {                                                                                              \
        ts_exec x;                                                                                 \
        (void)self;                                                                                \
        if (expect(name, kinds, a, n, out) || kv_begin(name, a, &x)) return -1;                    \
        return kv_end(name, a, __VA_ARGS__);                                                       \
    }

/* One that returns a sequence. */
#define KV_SEQUENCE(symbol, name, kinds, ...)                                                      \
    FUNCTION(symbol)                                                                               \
    {                                                                                              \
        ts_exec x;                                                                                 \
        int32_t seq = -1;                                                                          \
        (void)self;                                                                                \
        if (expect(name, kinds, a, n, out) || kv_begin(name, a, &x)) return -1;                    \
        if (kv_end(name, a, __VA_ARGS__)) return -1;                                               \
        give(out, seq);                                                                            \
        return 0;                                                                                  \
    }

KV_SEQUENCE(kv_open, "KVCache.open", "iti", ts_kv_open(address(a), &x, &seq))
KV_SEQUENCE(kv_fork, "KVCache.fork", "itii",
            ts_kv_fork(address(a), &x, (int32_t)a[3].v_int64, &seq))
KV(kv_truncate, "KVCache.truncate", "itiii",
   ts_kv_truncate(address(a), &x, (int32_t)a[3].v_int64, a[4].v_int64))
KV(kv_free, "KVCache.free", "itii", ts_kv_free(address(a), &x, (int32_t)a[3].v_int64))

/* ..., layer, how many sequences, addresses of sequences and counts, k, v */
KV(kv_append, "KVCache.append", "itiiiiitt",
   ts_kv_append(address(a), &x, a[3].v_int64, a[4].v_int64, address(&a[5]), address(&a[6]),
                data(&a[7]), data(&a[8])))

/* ..., layer, how many sequences, addresses of sequences and counts, q, out, lse */
KV(kv_attend, "KVCache.attend", "itiiiiitt?",
   ts_kv_attend(address(a), &x, a[3].v_int64, a[4].v_int64, address(&a[5]), address(&a[6]),
                data(&a[7]), data(&a[8]), data(&a[9])))

/* ..., layer, how many sequences, addresses of sequences and counts, parents, k, v, q, out, lse */
KV(kv_attend_tree, "KVCache.attend_tree", "itiiiiittttt?",
   ts_kv_attend_tree(address(a), &x, a[3].v_int64, a[4].v_int64, address(&a[5]), address(&a[6]),
                     &(ts_kv_tree) { data(&a[7]), data(&a[8]), data(&a[9]) }, data(&a[10]),
                     data(&a[11]), data(&a[12])))

/* ..., layer, sequence, from, how many, k, v */
KV(kv_read, "KVCache.read", "itiiiiitt",
   ts_kv_read(address(a), &x, a[3].v_int64, (int32_t)a[4].v_int64, a[5].v_int64, a[6].v_int64,
              data(&a[7]), data(&a[8])))

/* handle, layer, sequence, what: int64[5] for length, pages, free pages, bytes reserved and live */
FUNCTION(kv_status)
{
    (void)self;
    ts_kv_usage u;
    int64_t     len = 0;
    if (expect("KVCache", "iiit", a, n, out)) return -1;
    const bool      any = a[2].v_int64 >= 0; /* the usage needs no sequence */
    const ts_status s =
        ts_kv_status(address(a), a[1].v_int64, (int32_t)a[2].v_int64, any ? &len : NULL, &u);
    if (s != TS_OK) return ts_ffi_status("KVCache", s, "");
    int64_t *to = data(&a[3]);
    to[0] = len, to[1] = u.n_page, to[2] = u.n_free;
    to[3] = (int64_t)u.bytes_reserved, to[4] = (int64_t)u.bytes_live;
    return 0;
}

/* ---- searches over a model: its functions are addresses ---- */

static ts_model model_at(const TVMFFIAny *vocab, const TVMFFIAny *function)
{
    ts_model m = { .n_vocab = vocab->v_int64 };
    void    *p = address(function);
    memcpy(&m.next, &p, sizeof p);
    memcpy(&m.forward, &p, sizeof p);
    return m;
}

/* The workspace is not the thread's: the model may call kernels, which use that. */
static int search(const char *name, ts_run_fn run, ts_workspace_fn query, const void *args)
{
    const DLDevice cpu = { kDLCPU, 0 };
    ts_exec        x;
    if (ts_ffi_enter(cpu, &x)) return -1;
    size_t    need = 0;
    ts_status s = query(args, &x, &need);
    if (s != TS_OK) return ts_ffi_status(name, s, "");
    x.workspace_bytes = need;
    if (posix_memalign(&x.workspace, 256, need + 1))
        return ts_ffi_error("MemoryError", "%s: no memory for a workspace of %zu bytes", name,
                            need);
    s = run(args, &x);
    free(x.workspace);
    return s == TS_OK ? 0 : ts_ffi_status(name, s, "");
}

/* vocabulary, next, prompts, lengths, width, steps, alpha, eos, archive,
 * tokens, length, logprob, score, finished, n_found */
FUNCTION(beam_search)
{
    (void)self;
    static const char name[] = "beam_search";
    if (expect(name, "iittiidiitttttt", a, n, out)) return -1;
    const ts_model            m = model_at(&a[0], &a[1]);
    const bool                archive = a[8].v_int64;
    const ts_beam_search_args args = {
        .d = { .n_items = length(&a[3]),
               .beam_width = a[4].v_int64,
               .max_new_tokens = a[5].v_int64,
               .alpha = number(&a[6]),
               .eos = (int32_t)a[7].v_int64 },
        .model = &m,
        .prompts = data(&a[2]),
        .prompt_len = data(&a[3]),
        .tokens = data(&a[9]),
        .length = data(&a[10]),
        .logprob = data(&a[11]),
        .score = data(&a[12]),
        .finished = data(&a[13]),
        .n_found = data(&a[14]),
    };
    return archive
               ? search(name, TS_RUN(ts_beam_search_archive),
                        TS_QUERY(ts_beam_search_archive_workspace), &args)
               : search(name, TS_RUN(ts_beam_search), TS_QUERY(ts_beam_search_workspace), &args);
}

/* vocabulary, forward, prompt, tokens, parents, u, temperature,
 * out, counts: int64[2], path, status */
FUNCTION(tree_verify)
{
    (void)self;
    static const char name[] = "tree_verify";
    if (expect(name, "iittttdtttt", a, n, out)) return -1;
    const ts_model            m = model_at(&a[0], &a[1]);
    const ts_tree_verify_args args = {
        .d = { .prompt_len = length(&a[2]),
               .n_node = length(&a[3]),
               .max_new = length(&a[7]),
               .temperature = number(&a[6]) },
        .model = &m,
        .prompt = data(&a[2]),
        .token = data(&a[3]),
        .parent = data(&a[4]),
        .u = data(&a[5]),
        .out = data(&a[7]),
        .n_out = data(&a[8]),
        .n_path = (int64_t *)data(&a[8]) + 1,
        .path = data(&a[9]),
        .status = data(&a[10]),
    };
    return search(name, TS_RUN(ts_tree_verify), TS_QUERY(ts_tree_verify_workspace), &args);
}
