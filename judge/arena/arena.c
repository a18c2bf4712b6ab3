/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - allocates, guards, poisons and compares the memory of a case. */
#define _GNU_SOURCE
#include "arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cores.h"
#include "dtype.h"
#include "rng.h"

/* Address space only, since untouched pages cost no memory: enough for three buffers whose rows are
 * 2^30 elements apart. */
static const size_t REGION_BYTES = (size_t)64 << 30;

/* In a large gap between rows, only this many bytes at either end are filled and compared. */
enum { GAP_WATCHED = 4096 };

size_t ts_page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

bool ts_arena_open(ts_arena *m)
{
    memset(m, 0, sizeof *m);
    m->fd = memfd_create("touchstone", MFD_CLOEXEC);
    if (m->fd < 0 || ftruncate(m->fd, (off_t)REGION_BYTES)) return false;
    m->size = REGION_BYTES;
    m->base = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, m->fd, 0);
    return m->base != MAP_FAILED;
}

void ts_arena_open_in(ts_arena *m, unsigned char *home, unsigned char *base, size_t size, int in_fd,
                      int out_fd)
{
    *m = (ts_arena) { .fd = in_fd, .out_fd = out_fd, .home = home, .base = base, .size = size };
}

void ts_arena_close(ts_arena *m)
{
    ts_arena_clear(m);
    munmap(m->base, m->size);
    close(m->fd);
}

static size_t element_bytes(const ts_arena_buf *b)
{
    return ts_format_of(b->b.dtype)->n_bytes;
}

static size_t row_bytes(const ts_arena_buf *b)
{
    return (size_t)b->b.n_cols * element_bytes(b);
}

static unsigned char *row_of(const ts_arena_buf *b, int64_t r)
{
    return b->p + (size_t)r * (size_t)b->b.row_stride * element_bytes(b);
}

bool ts_arena_far(const ts_arena_buf *b)
{
    return b->n_bytes > 16 * (size_t)b->b.n_rows * row_bytes(b) + (1 << 20);
}

void ts_arena_gap(const ts_arena_buf *b, int64_t row, unsigned char **lo, unsigned char **hi)
{
    *lo = row_of(b, row) + row_bytes(b);
    *hi = row_of(b, row + 1);
    if (!ts_arena_far(b) || *hi - *lo <= 2 * GAP_WATCHED) {
        *lo = *hi;
        return;
    }
    *lo += GAP_WATCHED, *hi -= GAP_WATCHED;
}

/* The spans [begin, end) to fill and compare in the gap after row r: without its middle if it is
 * long. */
static int gap_spans(const ts_arena_buf *b, int64_t r, unsigned char *span[2][2])
{
    unsigned char *lo, *hi;
    ts_arena_gap(b, r, &lo, &hi);
    span[0][0] = row_of(b, r) + row_bytes(b), span[0][1] = lo;
    span[1][0] = hi, span[1][1] = row_of(b, r + 1);
    return 2;
}

static void fill_bands(const ts_arena_buf *b)
{
    memset(b->lo, TS_BAND, (size_t)(b->p - b->lo));
    memset(b->p + b->n_bytes, TS_BAND, (size_t)(b->hi - b->p) - b->n_bytes);
    for (int64_t r = 0; r + 1 < b->b.n_rows; r++) {
        unsigned char *span[2][2];
        for (int i = gap_spans(b, r, span) - 1; i >= 0; i--)
            memset(span[i][0], TS_BAND, (size_t)(span[i][1] - span[i][0]));
    }
}

/* Rows of a buffer, which are copied, poisoned or hashed by one thread. */
typedef struct part {
    const ts_arena_buf *b, *from;
    int64_t             first, end;
    uint64_t            hash;
} part;

enum { PARTS = 64, LARGE = 4 << 20 };

/* Large buffers on all cores. How they are split depends on their shape only, and so do hashes. */
static int each_part(const ts_arena_buf *b, const ts_arena_buf *from,
                     void (*work)(int i, void *parts), part     parts[PARTS])
{
    const int64_t rows = b->b.n_rows;
    const int     n = rows < PARTS || (size_t)rows * row_bytes(b) < LARGE ? 1 : PARTS;
    for (int i = 0; i < n; i++) parts[i] = (part) { b, from, rows * i / n, rows * (i + 1) / n, 0 };
    if (n == 1) work(0, parts);
    else ts_on_all_cores(n, work, parts);
    return n;
}

static void poison_part(int i, void *parts)
{
    const part *p = (part *)parts + i;
    for (int64_t r = p->first; r < p->end; r++)
        ts_poison(p->b->b.dtype, row_of(p->b, r), row_bytes(p->b));
}

static void copy_part(int i, void *parts)
{
    const part *p = (part *)parts + i;
    for (int64_t r = p->first; r < p->end; r++)
        memcpy(row_of(p->b, r), row_of(p->from, r), row_bytes(p->b));
}

static void poison_rows(const ts_arena_buf *b)
{
    part parts[PARTS];
    each_part(b, NULL, poison_part, parts);
}

static void map_pages(const ts_arena *m, const ts_arena_buf *a)
{
    const int fd = a->b.role == TS_IN ? m->fd : m->out_fd;
    if (mmap(a->lo, (size_t)(a->hi - a->lo), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, a->lo - m->home) == MAP_FAILED)
        abort();
}

/* Three eighths at the end, an eighth in front, half inside: see arena.h. */
ts_lay ts_lay_of(uint64_t layout, int i)
{
    const uint64_t draw = ts_bits(layout, i) % 8;
    return draw < 3 ? TS_LAY_END : draw == 3 ? TS_LAY_FRONT : TS_LAY_INSIDE;
}

static void draw_place(const ts_arena *m, ts_arena_buf *a)
{
    const uint64_t draw = ts_bits(m->layout, m->n), n_places = TS_LAY_BYTES / element_bytes(a);
    a->lay = m->aligned ? TS_LAY_FRONT : ts_lay_of(m->layout, m->n);
    if (a->lay == TS_LAY_INSIDE) a->residue = (draw >> 8) % n_places * element_bytes(a);
}

size_t ts_lay_offset(ts_lay lay, size_t residue, size_t n_bytes, size_t n_mapped)
{
    const size_t slack = n_mapped - n_bytes;
    if (lay == TS_LAY_END) return slack;
    return lay == TS_LAY_FRONT ? 0 : slack / 2 / TS_LAY_BYTES * TS_LAY_BYTES + residue;
}

size_t ts_arena_beyond(const ts_arena *m, size_t n_bytes)
{
    const uint64_t draw = ts_bits(m->layout, TS_MAX_BUFS);
    if (m->aligned) return (64 - n_bytes % 64) % 64;
    return draw % 2 ? (TS_LAY_BYTES - (n_bytes + (draw >> 8)) % TS_LAY_BYTES) % TS_LAY_BYTES : 0;
}

void *ts_take(ts_arena *m, void *slot, ts_buf b)
{
    if (m->n == TS_MAX_BUFS) abort();
    ts_arena_buf              *a = &m->buf[m->n];
    const unsigned char *const laid_lo = a->lo, *const laid_hi = a->hi;
    *a = (ts_arena_buf) { .b = b, .slot = (size_t)((char *)slot - (const char *)m->args) };
    if (b.n_rows > 0)
        a->n_bytes = (size_t)((b.n_rows - 1) * b.row_stride + b.n_cols) * element_bytes(a);
    const size_t pages = (a->n_bytes + TS_LAY_SLACK + ts_page() - 1) / ts_page() * ts_page();
    a->lo = m->base + m->used + TS_GUARD_BYTES;
    a->hi = a->lo + pages;
    m->used += pages + 2 * TS_GUARD_BYTES;
    if (m->used > m->size) abort();
    draw_place(m, a);
    a->p = a->lo + ts_lay_offset(a->lay, a->residue, a->n_bytes, pages);
    m->n++;
    if (m->laid && (a->lo != laid_lo || a->hi != laid_hi)) abort(); /* the layout must not change */
    if (m->home && !m->laid) map_pages(m, a);
    fill_bands(a);
    if (b.role != TS_IN) poison_rows(a);
    memcpy(slot, &a->p, sizeof a->p);
    return a->p;
}

void ts_arena_drop_empty(const ts_arena *m, void *args)
{
    for (const ts_arena_buf *a = m->buf; a < m->buf + m->n; a++)
        if (a->b.n_rows == 0 || a->b.n_cols == 0)
            memset((unsigned char *)args + a->slot, 0, sizeof a->p);
}

void ts_scalar(ts_arena *m, const char *name, double value)
{
    if (m->n_scalars == TS_MAX_SCALARS) abort();
    m->scalar[m->n_scalars].name = name;
    m->scalar[m->n_scalars++].value = value;
}

/* Four independent chains, so that hashing runs at memory bandwidth. */
static uint64_t hash_bytes(uint64_t h, const unsigned char *p, size_t n)
{
    uint64_t lane[4] = { h, h + 1, h + 2, h + 3 }, w;
    size_t   i = 0;
    for (; i + 32 <= n; i += 32)
        for (int k = 0; k < 4; k++) {
            memcpy(&w, p + i + 8 * k, 8);
            lane[k] = (lane[k] ^ w) * UINT64_C(0x9e3779b97f4a7c15);
            lane[k] ^= lane[k] >> 29;
        }
    for (; i < n; i++) lane[0] = (lane[0] ^ p[i]) * UINT64_C(0x100000001b3);
    return ts_mix(lane[0] ^ ts_mix(lane[1] ^ ts_mix(lane[2] ^ ts_mix(lane[3] + n))));
}

static void hash_part(int i, void *parts)
{
    part *p = (part *)parts + i;
    for (int64_t r = p->first; r < p->end; r++)
        p->hash = hash_bytes(p->hash, row_of(p->b, r), row_bytes(p->b));
}

static uint64_t hash_roles(const ts_arena *m, bool inputs)
{
    part     parts[PARTS];
    uint64_t h = 0;
    for (int i = 0; i < m->n; i++) {
        if ((m->buf[i].b.role == TS_IN) != inputs) continue;
        const int n = each_part(&m->buf[i], NULL, hash_part, parts);
        for (int k = 0; k < n; k++) h = ts_mix(h ^ parts[k].hash) + 1;
    }
    return h;
}

uint64_t ts_arena_output_hash(const ts_arena *m)
{
    return hash_roles(m, false);
}

void ts_arena_begin(ts_arena *m, void *args)
{
    ts_arena_clear(m);
    m->args = args;
}

void ts_arena_end(ts_arena *m)
{
    for (int i = 0; i < m->n; i++)
        if (m->buf[i].b.role == TS_INOUT) {
            m->buf[i].initial = malloc(m->buf[i].n_bytes + 1);
            if (!m->buf[i].initial) abort();
            memcpy(m->buf[i].initial, m->buf[i].p, m->buf[i].n_bytes);
        }
    m->input_hash = hash_roles(m, true);
    m->laid = m->home != NULL;
}

void ts_arena_reset(ts_arena *m)
{
    for (int i = 0; i < m->n; i++) {
        const ts_arena_buf *b = &m->buf[i];
        if (b->b.role == TS_OUT) poison_rows(b);
        if (b->b.role == TS_INOUT) memcpy(b->p, b->initial, b->n_bytes);
        if (b->b.role != TS_IN) fill_bands(b);
    }
}

/* Pointers other than a buffer's own slot, where an output is computed in place of an input. */
static void move_aliases(const ts_arena *m, const ts_arena *from, size_t args_bytes, void *args)
{
    for (size_t at = 0; at + sizeof(void *) <= args_bytes; at += sizeof(void *))
        for (int i = 0; i < m->n; i++)
            if (!memcmp((unsigned char *)args + at, &from->buf[i].p, sizeof(void *))) {
                memcpy((unsigned char *)args + at, &m->buf[i].p, sizeof(void *));
                break;
            }
}

void ts_arena_copy(ts_arena *m, const ts_arena *from, size_t args_bytes, void *args)
{
    part parts[PARTS];
    assert(m->laid && m->n == from->n);
    memcpy(args, from->args, args_bytes);
    move_aliases(m, from, args_bytes, args);
    for (int i = 0; i < m->n; i++) {
        const ts_arena_buf *b = &m->buf[i], *f = &from->buf[i];
        assert(b->n_bytes == f->n_bytes);
        memcpy((unsigned char *)args + b->slot, &b->p, sizeof b->p);
        if (b->b.role == TS_INOUT) memcpy(b->initial, f->initial, b->n_bytes);
        if (b->b.role != TS_IN) continue;
        /* Row by row: gaps between distant rows have no pages, and must not get any. */
        each_part(b, f, copy_part, parts);
        fill_bands(b);
    }
    memcpy(m->scalar, from->scalar, sizeof m->scalar);
    m->n_scalars = from->n_scalars;
    m->input_hash = from->input_hash;
    ts_arena_reset(m);
}

void ts_arena_clear(ts_arena *m)
{
    for (int i = 0; i < m->n; i++) free(m->buf[i].initial);
    if (m->used && !m->home && !m->keep) madvise(m->base, m->used, MADV_REMOVE);
    m->n = m->n_scalars = 0;
    m->used = 0;
}

static void protect(unsigned char *p, size_t n, int how)
{
    if (mprotect(p, n, how)) abort();
}

void ts_arena_lock(const ts_arena *m)
{
    for (int i = 0; i < m->n; i++) {
        const ts_arena_buf *b = &m->buf[i];
        protect(b->lo - TS_GUARD_BYTES, TS_GUARD_BYTES, PROT_NONE);
        protect(b->hi, TS_GUARD_BYTES, PROT_NONE);
        if (b->b.role == TS_IN) protect(b->lo, (size_t)(b->hi - b->lo), PROT_READ);
    }
    protect(m->base + m->used, m->size - m->used, PROT_NONE);
}

void ts_arena_unlock(const ts_arena *m)
{
    if (m->base) protect(m->base, m->size, PROT_READ | PROT_WRITE);
}

bool ts_band_holds(const unsigned char *begin, const unsigned char *end)
{
    for (; begin < end; begin++)
        if (*begin != TS_BAND) return false;
    return true;
}

static bool buf_intact(const ts_arena_buf *b, ts_flaw *f)
{
    f->what = b->b.name;
    f->fault = TS_FAULT_BEFORE;
    if (!ts_band_holds(b->lo, b->p)) return false;
    f->fault = TS_FAULT_PAST;
    if (!ts_band_holds(b->p + b->n_bytes, b->hi)) return false;
    f->fault = TS_FAULT_GAP;
    for (int64_t r = 0; r + 1 < b->b.n_rows; r++) {
        unsigned char *span[2][2];
        f->row = r;
        for (int i = gap_spans(b, r, span) - 1; i >= 0; i--)
            if (!ts_band_holds(span[i][0], span[i][1])) return false;
    }
    return true;
}

bool ts_arena_intact(const ts_arena *m, ts_flaw *f)
{
    for (int i = 0; i < m->n; i++) {
        *f = (ts_flaw) { 0 };
        if (!buf_intact(&m->buf[i], f)) return false;
    }
    *f = (ts_flaw) { .fault = TS_FAULT_INPUT, .what = "an input" };
    if (hash_roles(m, true) != m->input_hash) return false;
    f->fault = TS_FAULT_NONE;
    return true;
}

void ts_arena_blame(const ts_arena *m, uintptr_t address, bool write, ts_flaw *f)
{
    *f = (ts_flaw) { .fault = TS_FAULT_CRASH, .what = "" };
    for (int i = 0; i < m->n; i++) {
        const ts_arena_buf *b = &m->buf[i];
        const uintptr_t     lo = (uintptr_t)b->lo, hi = (uintptr_t)b->hi;
        if (address < lo - TS_GUARD_BYTES || address >= hi + TS_GUARD_BYTES) continue;
        f->what = b->b.name;
        for (int64_t r = 0; ts_arena_far(b) && r + 1 < b->b.n_rows; r++) {
            unsigned char *from, *to;
            ts_arena_gap(b, r, &from, &to);
            if (address < (uintptr_t)from || address >= (uintptr_t)to) continue;
            f->fault = TS_FAULT_GAP;
            f->row = r;
            return;
        }
        f->fault = address < lo    ? TS_FAULT_BEFORE
                   : address >= hi ? TS_FAULT_PAST
                   : write         ? TS_FAULT_INPUT
                                   : TS_FAULT_CRASH;
        return;
    }
}

bool ts_arena_outputs_untouched(const ts_arena *m, ts_flaw *f)
{
    for (int i = 0; i < m->n; i++) {
        const ts_arena_buf *b = &m->buf[i];
        if (b->b.role == TS_IN) continue;
        for (int64_t r = 0; r < b->b.n_rows; r++) {
            const unsigned char *now = row_of(b, r);
            if (b->initial ? !memcmp(now, b->initial + (now - b->p), row_bytes(b))
                           : ts_is_poison(b->b.dtype, now, row_bytes(b)))
                continue;
            *f = (ts_flaw) { .fault = TS_FAULT_REFUSAL, .what = b->b.name, .row = r };
            return false;
        }
    }
    return true;
}
