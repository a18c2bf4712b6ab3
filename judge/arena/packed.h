/* SPDX-License-Identifier: Apache-2.0 */
/* packed.h - the outputs of a case without gaps and guard pages, one buffer after the other. */
#ifndef TS_PACKED_H
#define TS_PACKED_H

#include "arena.h"
#include "dtype.h"

/* Copies them, unless `to` is NULL; returns their size in bytes. */
static inline size_t ts_packed(const ts_arena *m, unsigned char *to)
{
    size_t n = 0;
    for (int i = 0; i < m->n; i++) {
        const ts_buf *b = &m->buf[i].b;
        const size_t  each = ts_format_of(b->dtype)->n_bytes, row = (size_t)b->n_cols * each;
        if (b->role == TS_IN) continue;
        for (int64_t r = 0; r < b->n_rows; r++, n += row)
            if (to) memcpy(to + n, m->buf[i].p + (size_t)(r * b->row_stride) * each, row);
    }
    return n;
}

#endif
