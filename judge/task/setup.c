/* SPDX-License-Identifier: Apache-2.0 */
/* setup.c - lays out and fills the memory of a case. */
#include <stdio.h>
#include <string.h>

#include "arena.h"
#include "sha256.h"
#include "task.h"

uint64_t ts_layout_of(const ts_case *c, uint64_t seed)
{
    struct {
        uint64_t seed;
        int64_t  dtype, dim[TS_MAX_DIMS + TS_MAX_MORE];
        char     family[32];
    } text;
    unsigned char hash[32];
    uint64_t      layout;
    memset(&text, 0, sizeof text);
    text.seed = seed;
    text.dtype = c->dtype;
    memcpy(text.dim, c->dim, sizeof text.dim);
    snprintf(text.family, sizeof text.family, "%s", c->family ? c->family : "");
    ts_sha256(&text, sizeof text, hash);
    memcpy(&layout, hash, sizeof layout);
    return layout;
}

void ts_arena_setup(ts_arena *m, const ts_task *t, const ts_case *c, uint64_t seed, void *args)
{
    ts_arena_begin(m, args);
    if (!m->home) m->layout = ts_layout_of(c, seed);
    t->setup(c, seed, m, args);
    ts_arena_end(m);
}
