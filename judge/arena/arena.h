/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - the memory of one case, laid out so that out-of-bounds access is detected.
 *
 * Every buffer has its own pages between two unmapped guards of 4 MiB. The rest of its pages and
 * the gaps between its rows contain known bytes (bands). The memory is shared by the examiner,
 * which fills and reads it, and the worker, which runs an implementation.
 *
 * Where a buffer lies in its pages is drawn per buffer, since no place shows every fault:
 *  - three eighths of the buffers end at the guard, so that reading one byte past the end is a
 * fault; their address modulo 32 follows from their size, so a shape that is divisible by a vector
 * is always aligned to it there;
 *  - an eighth begin at the guard, so that reading before the start is a fault: always aligned;
 *  - half lie between two bands, at any multiple of their element's size modulo 32 bytes: the
 *    contract promises no more alignment. Writes next to them are detected, reads are not. */
#ifndef TS_ARENA_H
#define TS_ARENA_H

#include <stdbool.h>

#include "buffer.h"
#include "flaw.h"

/* Address space around a buffer's pages that cannot be accessed: a stray access that misses by more
 * than a page must not hit the next buffer. */
#define TS_GUARD_BYTES ((size_t)4 << 20)

/* Addresses are drawn modulo TS_LAY_BYTES, the widest vector that kernels commonly load. A buffer's
 * pages have at least TS_LAY_SLACK bytes more than it. */
enum { TS_LAY_BYTES = 32, TS_LAY_SLACK = 3 * TS_LAY_BYTES };
typedef enum ts_lay { TS_LAY_END, TS_LAY_FRONT, TS_LAY_INSIDE } ts_lay;

/* Outputs are filled with ts_poison, workspaces, which have no dtype, with TS_POISON. */
enum { TS_MAX_BUFS = 16, TS_MAX_SCALARS = 8, TS_POISON = 0xff, TS_BAND = 0xfe };

size_t ts_page(void); /* the system's page size: 4 to 64 KiB */

typedef struct ts_arena_buf {
    ts_buf         b;
    size_t         slot;    /* offset of its pointer in the args */
    size_t         n_bytes; /* from the first element to the end of the last row */
    ts_lay         lay;     /* its place in its pages, */
    size_t         residue; /* and TS_LAY_INSIDE: its address modulo TS_LAY_BYTES */
    unsigned char *lo, *hi; /* its pages; guards precede lo and begin at hi */
    unsigned char *p;       /* the buffer */
    unsigned char *initial; /* TS_INOUT: its contents before the call; not in shared memory */
} ts_arena_buf;

struct ts_arena {
    int            fd;   /* of the shared memory, for workers that map it themselves */
    unsigned char *base; /* of the shared memory */
    size_t         size, used;
    /* In a cage's block, buffers are mapped one by one over reserved pages: inputs from fd, others
     * from out_fd, each at its offset from `home`. NULL: everything is mapped from fd. */
    unsigned char *home;
    int            out_fd;
    bool           laid;    /* the buffers are mapped, and later cases only refill them */
    bool           keep;    /* clearing keeps the pages, for a sequence of similar cases */
    bool           aligned; /* buffers begin at page boundaries, as from an allocator: for timing */
    uint64_t       layout;  /* otherwise their places are drawn from it; the entrant sees them */
    const void    *args;
    int            n, n_scalars;
    ts_arena_buf   buf[TS_MAX_BUFS];
    struct {
        const char *name;
        double      value;
    } scalar[TS_MAX_SCALARS];
    uint64_t input_hash;
};

bool ts_arena_open(ts_arena *m); /* reserves address space; false if the system refuses */
void ts_arena_close(ts_arena *m);

/* One of several arenas in a block of pages from base on, which the caller has reserved. A second
 * setup must lay out the same buffers and refills them in place. */
void ts_arena_open_in(ts_arena *m, unsigned char *home, unsigned char *base, size_t size, int in_fd,
                      int out_fd);

/* Called before and after a task allocates and fills the buffers of one case. */
void ts_arena_begin(ts_arena *m, void *args);
void ts_arena_end(ts_arena *m);
/* Copies another arena's case, bit for bit, into one with the same layout: args are `args_bytes`
 * long, and keep their pointers. */
void ts_arena_copy(ts_arena *m, const ts_arena *from, size_t args_bytes, void *args);
void ts_arena_reset(ts_arena *m); /* outputs as before the call */
void ts_arena_clear(ts_arena *m); /* gives the pages back */

/* In the worker: makes inputs read-only and guard pages inaccessible; unlock undoes both. */
void ts_arena_lock(const ts_arena *m);
void ts_arena_unlock(const ts_arena *m);

/* Where buffer i of a case lies. */
ts_lay ts_lay_of(uint64_t layout, int i);
/* Offset of n_bytes in n_mapped bytes that begin at a multiple of TS_LAY_BYTES and are at least
 * TS_LAY_SLACK more: the same place on every device. */
size_t ts_lay_offset(ts_lay lay, size_t residue, size_t n_bytes, size_t n_mapped);
/* How many bytes before the end of its pages a CPU workspace of n_bytes ends. The contract promises
 * no alignment of it, so half of them end at any byte modulo TS_LAY_BYTES, the others at the guard.
 */
size_t ts_arena_beyond(const ts_arena *m, size_t n_bytes);
/* Whether [begin, end) is all TS_BAND. */
bool ts_band_holds(const unsigned char *begin, const unsigned char *end);

/* Whether rows are so far apart that the memory between them has no pages; and the part of the gap
 * after a row that is neither filled nor compared, whose pages must stay unallocated. */
bool ts_arena_far(const ts_arena_buf *b);
void ts_arena_gap(const ts_arena_buf *b, int64_t row, unsigned char **lo, unsigned char **hi);

/* False, and the flaw in *f, if a band, a gap or an input was changed. */
bool ts_arena_intact(const ts_arena *m, ts_flaw *f);

/* In a copy of the args, sets pointers to buffers without elements to NULL. */
void ts_arena_drop_empty(const ts_arena *m, void *args);

/* Interprets a memory fault at `address`. */
void ts_arena_blame(const ts_arena *m, uintptr_t address, bool write, ts_flaw *f);

uint64_t ts_arena_output_hash(const ts_arena *m);
bool     ts_arena_outputs_untouched(const ts_arena *m, ts_flaw *f);

#endif
