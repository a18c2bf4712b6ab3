/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - the memory of one case, laid out so that whoever oversteps is seen.
 *
 * Every buffer lies on pages of its own between two dead pages, flush against one of them, with a
 * band of known bytes on the other side and in the gaps between its rows. All of it is shared
 * between the examiner, which fills and reads it, and the worker, in which an implementation runs.
 */
#ifndef TS_ARENA_H
#define TS_ARENA_H

#include <stdbool.h>

#include "buffer.h"
#include "flaw.h"

/* Outputs start as ts_poison_byte says; a workspace, which has no dtype, as TS_POISON. */
enum { TS_MAX_BUFS = 16, TS_MAX_SCALARS = 8, TS_POISON = 0xff, TS_BAND = 0xfe };

size_t ts_page(void); /* bytes that can be protected by themselves: 4 to 64 KiB */

typedef struct ts_arena_buf {
    ts_buf         b;
    size_t         slot;    /* where in the args its pointer stands */
    size_t         n_bytes; /* from the first element to the end of the last row */
    unsigned char *lo, *hi; /* its pages; the pages before lo and from hi on are dead */
    unsigned char *p;       /* the buffer */
    unsigned char *initial; /* TS_INOUT: what it held before the call; not in shared memory */
} ts_arena_buf;

struct ts_arena {
    int            fd;   /* of the shared memory, for workers that map it by themselves */
    unsigned char *base; /* of the shared memory */
    size_t         size, used;
    /* In a cage's block, where buffers are mapped one by one over dead pages: inputs from fd, the
     * rest from out_fd, each at its distance from `home`. NULL: all of it is mapped from fd. */
    unsigned char *home;
    int            out_fd;
    bool           laid; /* the buffers are mapped: what follows only fills them anew */
    bool           keep; /* pages stay when it is cleared: for cases alike, one after the other */
    bool aligned; /* buffers at the start of a page, as an allocator would give: for timing */
    const void  *args;
    int          n, n_scalars;
    ts_arena_buf buf[TS_MAX_BUFS];
    struct {
        const char *name;
        double      value;
    } scalar[TS_MAX_SCALARS];
    uint64_t input_hash;
};

bool ts_arena_open(ts_arena *m); /* reserves address space; false when the system refuses */
void ts_arena_close(ts_arena *m);

/* One of several in a block: dead pages from base on, which others reserved. A second setup of it
 * must lay out the same buffers; it fills them in place. */
void ts_arena_open_in(ts_arena *m, unsigned char *home, unsigned char *base, size_t size, int in_fd,
                      int out_fd);

/* Before and after a task takes and fills the buffers of one case. */
void ts_arena_begin(ts_arena *m, void *args);
void ts_arena_end(ts_arena *m);
/* The same case as another arena has, bit for bit, in one that is laid out for it already: args are
 * `args_bytes` long, and keep their pointers. */
void ts_arena_copy(ts_arena *m, const ts_arena *from, size_t args_bytes, void *args);
void ts_arena_reset(ts_arena *m); /* outputs as before the call */
void ts_arena_clear(ts_arena *m); /* gives the pages back */

/* In the worker: inputs read-only, guards dead; and back. */
void ts_arena_lock(const ts_arena *m);
void ts_arena_unlock(const ts_arena *m);

/* Rows that lie so far apart that what is between them has no pages; and of the gap after a row
 * what is not filled and compared: pages wholly inside of it must stay away. */
bool ts_arena_far(const ts_arena_buf *b);
void ts_arena_gap(const ts_arena_buf *b, int64_t row, unsigned char **lo, unsigned char **hi);

/* False and *f when a band, a gap or an input was changed. */
bool ts_arena_intact(const ts_arena *m, ts_flaw *f);

/* Makes the pointers to buffers without elements NULL, in a copy of the args. */
void ts_arena_drop_empty(const ts_arena *m, void *args);

/* What an access to `address` that was stopped by the hardware means. */
void ts_arena_blame(const ts_arena *m, uintptr_t address, bool write, ts_flaw *f);

uint64_t ts_arena_output_hash(const ts_arena *m);
bool     ts_arena_outputs_untouched(const ts_arena *m, ts_flaw *f);

#endif
