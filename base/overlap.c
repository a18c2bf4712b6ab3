/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.c - finds bytes that two buffers of a call share. */
#include "overlap.h"

static bool is_empty(const ts_span *s)
{
    return !s->at || s->n < 1 || s->width < 1;
}

/* a begins first. Row 0 of b can meet the row of a at or before it, or the next one; rows after
 * these repeat that, as far as both have them. */
static bool meet(const ts_span *a, const ts_span *b)
{
    const uint64_t before = (uintptr_t)b->at - (uintptr_t)a->at;
    const uint64_t end = (uint64_t)(a->n - 1) * (uint64_t)a->stride + (uint64_t)a->width;
    if (before >= end) return false;
    if (a->n == 1) return true;
    const uint64_t stride = (uint64_t)a->stride, into = before % stride;
    if (b->n > 1 && b->stride != a->stride) return false;
    const bool has_next = before / stride + 1 < (uint64_t)a->n;
    return into < (uint64_t)a->width || (has_next && (uint64_t)b->width > stride - into);
}

static bool share(const ts_span *a, const ts_span *b)
{
    if (is_empty(a) || is_empty(b)) return false;
    return (uintptr_t)a->at <= (uintptr_t)b->at ? meet(a, b) : meet(b, a);
}

bool ts_apart(const ts_span *s, int n_out, int n, const ts_exec *x)
{
    const ts_span scratch = { x ? x->workspace : NULL, 1, x ? (int64_t)x->workspace_bytes : 0, 0 };
    for (int i = 0; i < n; i++) {
        if (share(&scratch, &s[i])) return false;
        for (int j = 0; j < i && j < n_out; j++)
            if (share(&s[j], &s[i])) return false;
    }
    return true;
}
