/* SPDX-License-Identifier: Apache-2.0 */
/* backend_cuda.c - runs a case on a CUDA device: buffers are mirrored there with their bands and
 * their misalignment, and copied back for the examiner. Only the worker uses the driver. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend.h"
#include "cuda_module.h"
#include "dtype.h"

/* Inputs have narrow bands: compute-sanitizer does not see reads of a band. */
enum { NARROW = 256, WIDE = 1 << 20 };
static const size_t FLUSH_BYTES = (size_t)1 << 30; /* many times the size of any L2 */

typedef struct mirror {
    unsigned char *map, *p; /* map .. p and p + n_bytes .. end: bands */
    size_t         map_bytes, n_bytes;
    void          *stored; /* TS_OUT when timing: the outputs that the examiner has checked */
} mirror;

static mirror                    mirrors[TS_MAX_BUFS], workspace;
static void                     *flush_buffer, *n_wrong, *pattern; /* WIDE + NARROW of TS_BAND */
static const ts_cuda_module_ops *ops;

/* A runtime error may have corrupted the context: report it and exit; the next order gets a new
 * process. */
static void must(ts_session *s, int code)
{
    if (!code) return;
    snprintf(s->reply->text, sizeof s->reply->text, "CUDA: %s", ops->error_text(code));
    _exit(1);
}

static bool ready(ts_session *s)
{
    const char *why = ts_cuda_unavailable_reason();
    ops = ts_cuda_ops();
    if (!why) return true;
    s->reply->broken = true;
    snprintf(s->reply->text, sizeof s->reply->text, "%s", why);
    return false;
}

static void release(ts_session *s, mirror *d)
{
    if (d->map) must(s, ops->release(d->map));
    if (d->stored) must(s, ops->release(d->stored));
    *d = (mirror) { 0 };
}

static bool take(ts_session *s, mirror *d, size_t n_bytes, size_t misaligned, size_t band)
{
    d->n_bytes = n_bytes;
    d->map_bytes = n_bytes + misaligned + 2 * band;
    if (ops->alloc((void **)&d->map, d->map_bytes)) {
        s->reply->broken = true;
        snprintf(s->reply->text, sizeof s->reply->text, "out of device memory for %zu bytes",
                 n_bytes);
        d->map = NULL;
        return false;
    }
    d->p = d->map + band + misaligned;
    must(s, ops->fill(d->map, TS_BAND, d->map_bytes));
    return true;
}

/* Copies the buffer in one direction: whole if its gaps are short, else row by row. */
static int copy_rows(const ts_arena_buf *b, unsigned char *device, bool in)
{
    const size_t element = ts_format_of(b->b.dtype)->n_bytes, row = (size_t)b->b.n_cols * element;
    const size_t stride = (size_t)b->b.row_stride * element;
    const bool   whole = b->b.n_rows == 1 || stride < row + (1u << 20);
    int          code = 0;
    for (int64_t r = 0; r < (whole ? b->b.n_rows != 0 : b->b.n_rows) && !code; r++) {
        const size_t at = (size_t)r * stride, n = whole ? b->n_bytes : row;
        code =
            in ? ops->copy_in(device + at, b->p + at, n) : ops->copy_out(b->p + at, device + at, n);
    }
    return code;
}

static void drop(ts_session *s)
{
    if (!ops) return;
    for (int i = 0; i < TS_MAX_BUFS; i++) release(s, &mirrors[i]);
    release(s, &workspace);
}

static void load(ts_session *s, const ts_order *o)
{
    if (!ready(s)) return;
    drop(s);
    for (int i = 0; i < s->arena->n; i++) {
        const ts_arena_buf *b = &s->arena->buf[i];
        if (!take(s, &mirrors[i], b->n_bytes, (uintptr_t)b->p % NARROW,
                  b->b.role == TS_IN ? NARROW : WIDE)) {
            drop(s);
            return;
        }
        must(s, copy_rows(b, mirrors[i].p, true));
        memcpy(s->args + b->slot, &mirrors[i].p, sizeof mirrors[i].p);
    }
    ts_session_workspace(s, o);
    s->exec.workspace = NULL;
    if (!s->exec.workspace_bytes) return;
    if (!take(s, &workspace, s->exec.workspace_bytes, 0, WIDE)) {
        s->reply->broken = false; /* the function requested too much */
        s->reply->flaw = (ts_flaw) { .fault = TS_FAULT_CRASH, .what = "workspace" };
        return;
    }
    must(s, ops->fill(workspace.p, TS_POISON, workspace.n_bytes));
    s->exec.workspace = workspace.p;
}

static void make_counter(ts_session *s)
{
    if (n_wrong) return;
    must(s, ops->alloc(&n_wrong, sizeof(unsigned long long)));
    must(s, ops->alloc(&pattern, WIDE + NARROW));
    must(s, ops->fill(pattern, TS_BAND, WIDE + NARROW));
}

static void flush(ts_session *s)
{
    if (!flush_buffer) {
        must(s, ops->alloc(&flush_buffer, FLUSH_BYTES));
        must(s, ops->fill(flush_buffer, 1, FLUSH_BYTES));
    }
    make_counter(s);
    must(s, ops->stream_read(n_wrong, flush_buffer, FLUSH_BYTES));
}

/* Flush after poisoning, so that L2 has no dirty line left to write back. */
static void timed(ts_session *s, const ts_order *o)
{
    unsigned long long wrong = 0;
    for (int i = 0; i < s->arena->n; i++)
        if (mirrors[i].stored) must(s, ops->fill(mirrors[i].p, TS_POISON, mirrors[i].n_bytes));
    flush(s);
    must(s, ops->mark(0, 0));
    ts_session_call(s, o);
    must(s, ops->mark(0, 1));
    must(s, ops->fill(n_wrong, 0, sizeof wrong));
    for (int i = 0; i < s->arena->n; i++)
        if (mirrors[i].stored)
            must(s, ops->differ(mirrors[i].p, mirrors[i].stored, mirrors[i].n_bytes, n_wrong));
    must(s, ops->sync());
    must(s, ops->elapsed_ns(0, &s->reply->ns));
    must(s, ops->copy_out(&wrong, n_wrong, sizeof wrong));
    s->reply->changed = wrong != 0;
}

static void run(ts_session *s, const ts_order *o)
{
    if (!ready(s)) return;
    if (o->verb == TS_TIME) {
        timed(s, o);
        return;
    }
    ts_session_call(s, o);
    must(s, ops->sync());
}

static bool edge_holds(ts_session *s, const unsigned char *begin, size_t n)
{
    unsigned char band[NARROW];
    must(s, ops->copy_out(band, begin, n));
    return ts_band_holds(band, band + n);
}

/* The edges on the host, the middle, which is aligned to 16 bytes, on the device. */
static bool band_holds(ts_session *s, const unsigned char *begin, const unsigned char *end)
{
    unsigned long long wrong = 0;
    const size_t       head = (16 - (uintptr_t)begin % 16) % 16, tail = (uintptr_t)end % 16;
    make_counter(s);
    must(s, ops->fill(n_wrong, 0, sizeof wrong));
    must(s, ops->differ(begin + head, pattern, (size_t)(end - begin) - head - tail, n_wrong));
    must(s, ops->sync());
    must(s, ops->copy_out(&wrong, n_wrong, sizeof wrong));
    return !wrong && edge_holds(s, begin, head) && edge_holds(s, end - tail, tail);
}

static void check_bands(ts_session *s, const mirror *d, const char *name)
{
    if (!d->map) return;
    if (!band_holds(s, d->map, d->p))
        s->reply->flaw = (ts_flaw) { .fault = TS_FAULT_BEFORE, .what = name };
    if (!band_holds(s, d->p + d->n_bytes, d->map + d->map_bytes))
        s->reply->flaw = (ts_flaw) { .fault = TS_FAULT_PAST, .what = name };
}

/* Reads the input back into the worker's own memory and compares it with what was sent. */
static void check_input(ts_session *s, const ts_arena_buf *b, const mirror *d)
{
    ts_arena_buf copy = *b;
    copy.p = malloc(b->n_bytes + 1);
    if (!copy.p) { /* an input that was not compared must not count as unchanged */
        s->reply->broken = true;
        snprintf(s->reply->text, sizeof s->reply->text, "out of memory to read %s back", b->b.name);
        return;
    }
    must(s, copy_rows(&copy, d->p, false));
    if (memcmp(copy.p, b->p, b->n_bytes))
        s->reply->flaw = (ts_flaw) { .fault = TS_FAULT_INPUT, .what = b->b.name };
    free(copy.p);
}

static void store(ts_session *s)
{
    for (int i = 0; i < s->arena->n && mirrors[i].map; i++) {
        const ts_arena_buf *b = &s->arena->buf[i];
        mirror             *d = &mirrors[i];
        check_bands(s, d, b->b.name);
        if (b->b.role == TS_IN) {
            /* Rows 2^30 elements apart are not read back: that would include the gaps. */
            if (b->n_bytes < FLUSH_BYTES) check_input(s, b, d);
            continue;
        }
        must(s, copy_rows(b, d->p, false));
        if (s->arena->aligned && !d->stored) {
            must(s, ops->alloc(&d->stored, b->n_bytes));
            must(s, ops->copy_within(d->stored, d->p, b->n_bytes));
        }
    }
    check_bands(s, &workspace, "workspace");
}

static void probe(ts_session *s)
{
    if (ready(s)) must(s, ops->describe(s->reply->text, sizeof s->reply->text));
}

static void ceiling(ts_session *s, const ts_order *o)
{
    const size_t   half = FLUSH_BYTES / 2;
    unsigned char *from;
    if (!ready(s)) return;
    flush(s);
    from = flush_buffer;
    must(s, ops->mark(0, 0));
    if (o->ceiling == TS_CEILING_COPY) must(s, ops->stream_copy(from + half, from, half));
    else if (o->ceiling == TS_CEILING_COPY_PLAIN)
        must(s, ops->copy_within(from + half, from, half));
    else must(s, ops->stream_read(n_wrong, from, FLUSH_BYTES));
    must(s, ops->mark(0, 1));
    must(s, ops->sync());
    must(s, ops->elapsed_ns(0, &s->reply->ns));
    s->reply->bytes = (double)FLUSH_BYTES;
}

const ts_backend ts_backend_cuda = { load, run, store, drop, probe, ceiling };
