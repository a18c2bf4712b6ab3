/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_llama2c.c - seven int32, then float32 arrays, each for all layers before the next. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"

enum { HEADER = 28 };

/* In the file's order; tables of cosines and sines, which are not used, precede the head. */
static const ts_slot order[] = { TS_W_EMBED,  TS_W_NORM_1, TS_W_Q,    TS_W_K,  TS_W_V,   TS_W_O,
                                 TS_W_NORM_2, TS_W_GATE,   TS_W_DOWN, TS_W_UP, TS_W_NORM };

static bool header(const unsigned char *p, ts_decoder_dims *d, char why[TS_MODEL_WHY])
{
    int32_t v[7];
    memcpy(v, p, sizeof v);
    if (v[5] == INT32_MIN) return ts_say(why, "vocabulary: got %d, expected a positive size", v[5]);
    *d = (ts_decoder_dims) {
        .width = v[0],
        .n_ffn = v[1],
        .n_layer = v[2],
        .n_head = v[3],
        .n_kv_head = v[4],
        .head_dim = v[3] > 0 ? v[0] / v[3] : 0,
        .n_vocab = v[5] < 0 ? -v[5] : v[5],
        .n_context = v[6],
        .norm_eps = 1e-5,
        .rope_theta = 10000,
        .rope_factor = 1,
        .rope_low = 1,
        .rope_high = 2,
        .tied = v[5] > 0,
        .stop = { 1, 2 }, /* what begins a text, and what ends one */
        .n_stop = 2,
    };
    if (!ts_dims_check(d, why)) return false;
    if (d->n_head * d->head_dim != d->width)
        return ts_say(why, "width: got %d, expected a multiple of the %d heads", v[0], v[3]);
    return true;
}

/* Walks the arrays; returns how many bytes they take, and notes where each is. */
static size_t lay(const ts_decoder_dims *d, const unsigned char *p, ts_tensor *tensor)
{
    size_t at = HEADER;
    for (size_t o = 0; o < sizeof order / sizeof *order; o++) {
        const ts_slot s = order[o];
        const size_t  n = 4 * (size_t)ts_shape_count(ts_slot_shape(d, s));
        for (int64_t l = 0; l < (s < TS_LAYER_SLOTS ? d->n_layer : 1); l++, at += n)
            if (tensor)
                tensor[ts_slot_at(d, l, s)] =
                    (ts_tensor) { p + at, ts_block_of(TS_BLOCK_F32), NULL };
    }
    at += 4 * (size_t)(d->n_context * d->head_dim);
    if (tensor && !d->tied)
        tensor[ts_slot_at(d, 0, TS_W_HEAD)] =
            (ts_tensor) { p + at, ts_block_of(TS_BLOCK_F32), NULL };
    return at + 4 * (size_t)ts_shape_count(ts_slot_shape(d, TS_W_HEAD));
}

bool ts_decoder_llama2c(const void *bytes, size_t n, ts_dtype dtype, ts_decoder **m,
                        char why[TS_MODEL_WHY])
{
    ts_decoder_dims d;
    *m = NULL;
    if (n < HEADER)
        return ts_say(why, "file: got %zu bytes, expected a header of %d", n, (int)HEADER);
    if (!header(bytes, &d, why)) {
        char what[TS_MODEL_WHY];
        snprintf(what, sizeof what, "%s", why);
        return ts_say(why, "not a llama2.c checkpoint: %.100s", what);
    }
    const size_t want = lay(&d, bytes, NULL);
    if (n != want)
        return ts_say(why, "file: got %zu bytes, expected %zu for these dimensions", n, want);
    ts_tensor *tensor = calloc((size_t)ts_slot_count(&d), sizeof *tensor);
    if (!tensor) return ts_say(why, "out of memory for %lld layers", (long long)d.n_layer);
    lay(&d, bytes, tensor);
    const bool ok = ts_decoder_make(&d, dtype, tensor, true, false, m, why);
    free(tensor);
    return ok;
}
