/* SPDX-License-Identifier: Apache-2.0 */
/* cage_memory.c - memory that an entrant uses in addition to its buffers: pages of its own process,
 * and pages of the block that were not granted.
 *
 * The kernel is queried while the process is frozen. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cage_inside.h"

/* "VmHWM: 1234 kB" in bytes; 0: absent. */
static size_t field(const char *text, const char *name)
{
    const char        *at = strstr(text, name);
    unsigned long long kib = 0;
    if (at) sscanf(at + strlen(name), " %llu", &kib);
    return (size_t)kib << 10;
}

/* Bytes of allocated pages of a memory file. */
static size_t pages_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) ? 0 : (size_t)st.st_blocks * 512;
}

size_t ts_cage_peak_bytes(const ts_cage *c)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", (int)c->pid);
    const int     fd = c->pid ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    /* Programs and libraries are files and do not count. The block is subtracted by its allocated
     * pages, not by its address space, which is so large that an entrant could hide its own shared
     * memory behind it. */
    const size_t block = pages_of(c->in_fd) + pages_of(c->out_fd) + sizeof *c->control;
    const size_t shared = field(text, "RssShmem:");
    const size_t peak = field(text, "VmHWM:");
    const size_t given = field(text, "RssFile:") + (shared < block ? shared : block);
    return peak > given ? peak - given : 0;
}

/* Resets the kernel's peak and the judge's: pages of the block may be gone since. */
void ts_cage_weigh_from_now(ts_cage *c)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/clear_refs", (int)c->pid);
    const int fd = c->pid ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    if (fd >= 0 && write(fd, "5", 1) != 1) {} /* on failure too much is counted */
    if (fd >= 0) close(fd);
    c->before_bytes = ts_cage_peak_bytes(c);
}

size_t ts_cage_before_bytes(const ts_cage *c)
{
    return c->before_bytes;
}

/* Whether the file has a page that begins in [lo, hi). */
static bool has_page(const ts_cage *c, int fd, const unsigned char *lo, const unsigned char *hi)
{
    const off_t at = lo < hi ? lseek(fd, lo - c->region, SEEK_DATA) : -1;
    return at >= 0 && at < hi - c->region;
}

static unsigned char *page_up(unsigned char *p)
{
    return (unsigned char *)(((uintptr_t)p + ts_page() - 1) / ts_page() * ts_page());
}

static unsigned char *page_down(unsigned char *p)
{
    return (unsigned char *)((uintptr_t)p / ts_page() * ts_page());
}

unsigned char *ts_cage_workspace_from(const ts_cage *c, unsigned char *granted)
{
    return granted ? page_down(granted - ts_page()) : c->workspace_hi;
}

/* The workspace has pages for its bands and the granted part only. */
void ts_cage_take_workspace(ts_cage *c, unsigned char *granted)
{
    unsigned char *const end = ts_cage_workspace_from(c, granted);
    if (c->keeper || c->workspace_lo >= end) return;
    fallocate(c->out_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, c->workspace_lo - c->region,
              end - c->workspace_lo);
}

void ts_cage_look_beside(const ts_cage *c, const ts_slot *s, unsigned char *granted, ts_call *r)
{
    unsigned char *const end = ts_cage_workspace_from(c, granted);
    if (c->keeper || r->flaw.fault) return;
    if (has_page(c, c->out_fd, c->workspace_lo, end))
        r->flaw = (ts_flaw) { .fault = TS_FAULT_BEFORE, .what = "workspace" };
    for (int i = 0; i < s->arena.n; i++) {
        const ts_arena_buf *b = &s->arena.buf[i];
        unsigned char      *lo, *hi;
        const int           fd = b->b.role == TS_IN ? c->in_fd : c->out_fd;
        for (int64_t row = 0; ts_arena_far(b) && row + 1 < b->b.n_rows; row++) {
            ts_arena_gap(b, row, &lo, &hi);
            if (has_page(c, fd, page_up(lo), page_down(hi)))
                r->flaw = (ts_flaw) { .fault = TS_FAULT_GAP, .what = b->b.name, .row = row };
        }
    }
}
