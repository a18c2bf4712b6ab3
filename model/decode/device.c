/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - memory of either device, and the way of a decoder to a CUDA device. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_module.h"
#include "model_impl.h"

/* ---- memory ---- */

bool ts_memory_take(ts_device device, size_t n_bytes, const char *what, void **p,
                    char why[TS_MODEL_WHY])
{
    *p = NULL;
    if (device == TS_CPU) {
        *p = malloc(n_bytes);
        return *p || ts_say(why, "%s: cannot allocate %zu bytes", what, n_bytes);
    }
    const ts_cuda_module_ops *cuda = ts_cuda_ops();
    const int                 e = cuda->alloc(p, n_bytes);
    return !e || ts_say(why, "%s: cannot allocate %zu bytes on the CUDA device: %s", what, n_bytes,
                        cuda->error_text(e));
}

void ts_memory_give(ts_device device, void *p)
{
    if (device == TS_CPU) free(p);
    else if (p) ts_cuda_ops()->release(p);
}

/* ---- the module ---- */

static pthread_once_t         once = PTHREAD_ONCE_INIT;
static const ts_model_module *module;
static char                   reason[TS_MODEL_WHY];

static void load(void)
{
    void *handle = ts_cuda_open("libtouchstone_model_cuda.so", "TOUCHSTONE_MODEL_CUDA_MODULE");
    if (!handle) {
        ts_say(reason, "CUDA module for models not available: %s", dlerror());
        return;
    }
    const ts_model_module *found = dlsym(handle, "ts_model_cuda");
    if (found && found->abi == TS_MODEL_CUDA_ABI) module = found;
    else ts_say(reason, "CUDA module for models: version mismatch; rebuild or reinstall");
}

/* ---- the decoder ---- */

/* The weights are one block: their places in it stay. */
void ts_decoder_rebase(ts_decoder *m, char *memory)
{
    const int64_t n = ts_slot_count(&m->dims);
    for (int64_t i = 0; i < n; i++) {
        if (m->weight[i]) m->weight[i] = memory + ((char *)m->weight[i] - (char *)m->memory);
        if (m->scale[i])
            m->scale[i] = (uint16_t *)(void *)(memory + ((char *)m->scale[i] - (char *)m->memory));
    }
}

/* Each begins where a load of 16 bytes may. */
static size_t half_bytes(size_t n)
{
    return (n + 255) / 256 * 256;
}

/* Matrices of 16 bits, behind the weights. Rows are put in order on the way. */
static int copy_halves(const ts_decoder *m, char *to, void **data)
{
    const ts_cuda_module_ops *cuda = ts_cuda_ops();
    int                       e = 0;
    for (int64_t l = 0; l < m->dims.n_layer; l++)
        for (int s = 0; s < (l ? TS_LAYER_SLOTS : TS_SLOTS) && !e; s++) {
            const int64_t     at = ts_slot_at(&m->dims, l, (ts_slot)s);
            const ts_encoded *from = &m->encoded[at];
            const ts_shape    shape = ts_slot_shape(&m->dims, (ts_slot)s);
            if (!from->data) continue;
            const size_t n = ts_encoded_bytes(from, shape), row = n / (size_t)shape.rows;
            char        *ordered = from->head_dim ? malloc(n) : NULL;
            if (from->head_dim && !ordered) return -1;
            for (int64_t r = 0; ordered && r < shape.rows; r++)
                memcpy(ordered + (size_t)r * row,
                       from->data + (size_t)ts_paired_row(r, from->head_dim) * row, row);
            e = cuda->copy_in(to, ordered ? (const void *)ordered : from->data, n);
            free(ordered);
            data[at] = to;
            to += half_bytes(n);
        }
    return e;
}

static bool copy_in(const ts_decoder *m, char *memory, void *frequency, void **data,
                    char why[TS_MODEL_WHY])
{
    const ts_cuda_module_ops *cuda = ts_cuda_ops();
    const size_t              n_frequency = (size_t)m->dims.head_dim / 2 * sizeof *m->frequency;
    int                       e = cuda->copy_in(memory, m->memory, m->n_bytes);
    if (!e) e = cuda->copy_in(frequency, m->frequency, n_frequency);
    if (!e) e = copy_halves(m, memory + half_bytes(m->n_bytes), data);
    return !e || ts_say(why, "weights: cannot be copied to the CUDA device: %s",
                        e < 0 ? "out of memory" : cuda->error_text(e));
}

static size_t halves_bytes(const ts_decoder *m)
{
    size_t n = 0;
    for (int64_t l = 0; l < m->dims.n_layer; l++)
        for (int s = 0; s < (l ? TS_LAYER_SLOTS : TS_SLOTS); s++) {
            const ts_encoded *e = &m->encoded[ts_slot_at(&m->dims, l, (ts_slot)s)];
            if (e->data) n += half_bytes(ts_encoded_bytes(e, ts_slot_shape(&m->dims, (ts_slot)s)));
        }
    return n;
}

bool ts_decoder_to_cuda(ts_decoder *m, char why[TS_MODEL_WHY])
{
    const size_t  n_frequency = (size_t)m->dims.head_dim / 2 * sizeof *m->frequency;
    const int64_t n_slot = ts_slot_count(&m->dims);
    void         *self = NULL, *memory = NULL, *frequency = NULL;
    if (m->device == TS_CUDA) return true;
    if (m->dtype != TS_F32) return ts_say(why, "cuda: got weights in f64, expected f32");
    const char *absent = ts_cuda_unavailable_reason();
    if (absent) return ts_say(why, "%s", absent);
    pthread_once(&once, load);
    if (!module) return ts_say(why, "%s", reason);
    if (!ts_encoded_decode(m, true, why) || !module->open(&self, why, TS_MODEL_WHY)) return false;
    const size_t n_bytes = half_bytes(m->n_bytes) + halves_bytes(m);
    void       **data = calloc((size_t)n_slot, sizeof *data);
    if (!data) ts_say(why, "out of memory");
    if (!data || !ts_memory_take(TS_CUDA, n_bytes, "weights", &memory, why) ||
        !ts_memory_take(TS_CUDA, n_frequency, "rotation table", &frequency, why) ||
        !copy_in(m, memory, frequency, data, why)) {
        ts_memory_give(TS_CUDA, memory);
        ts_memory_give(TS_CUDA, frequency);
        module->close(self);
        free(data);
        return false;
    }
    ts_decoder_rebase(m, memory);
    for (int64_t i = 0; i < n_slot; i++)
        if (data[i]) m->encoded[i] = (ts_encoded) { data[i], m->encoded[i].block, 0 };
    free(data);
    ts_decoder_forget_files(m);
    ts_memory_give(TS_CPU, m->memory);
    ts_memory_give(TS_CPU, m->frequency);
    m->device = TS_CUDA;
    m->ops = module->f32;
    m->self = self;
    m->cuda = module;
    m->memory = memory;
    m->frequency = frequency;
    return true;
}
