/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_host.c - on a device, the buffers of a script whose contract has them in host memory.
 *
 * Each is copied from the keeper's buffer before the script and, unless it is an input, back after
 * it. It ends at an unmapped page, begins after a band, and inputs are read-only. The memory is
 * mapped before the entrant is loaded; its copies take the same time for every entrant. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "process.h"

enum { BAND_BYTE = 0xfb, MOST_BAND = 4096 };

typedef struct copy {
    unsigned char *map, *p;
    size_t         n_mapped, n_bytes;
} copy;

static copy copies[TS_MAX_SLOTS][TS_CALL_BUFS];

static size_t band_of(const copy *c)
{
    const size_t n = (size_t)(c->p - c->map);
    return n < MOST_BAND ? n : MOST_BAND;
}

static void make(copy *c, size_t n_bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    c->n_bytes = n_bytes;
    c->n_mapped = (n_bytes + MOST_BAND + page - 1) / page * page;
    unsigned char *const at = mmap(NULL, c->n_mapped + 2 * page, PROT_NONE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED || mprotect(at + page, c->n_mapped, PROT_READ | PROT_WRITE))
        cage_stop(TS_STOP_SETUP, "no memory for a buffer of %zu bytes", n_bytes);
    c->map = at + page;
    c->p = c->map + c->n_mapped - n_bytes;
    memset(c->map, BAND_BYTE, c->n_mapped);
}

void cage_host_open(const ts_call_plan *p)
{
    for (uint32_t s = 0; s < p->n_slots && s < TS_MAX_SLOTS; s++)
        for (uint32_t i = 0; i < p->slot[s].n_bufs && i < TS_CALL_BUFS; i++)
            make(&copies[s][i], p->slot[s].buf[i].n_bytes);
}

/* Replaces a device address by the host's, wherever it is in the args. */
static void point(unsigned char *args, size_t n, uint64_t from, const void *to)
{
    for (size_t at = 0; at + sizeof from <= n; at += sizeof from)
        if (!memcmp(args + at, &from, sizeof from)) memcpy(args + at, &to, sizeof to);
}

/* An input that cannot be protected, or written again, ends the process. */
static void protect(const copy *c, int how)
{
    if (mprotect(c->map, c->n_mapped, how)) cage_stop(TS_STOP_SETUP, "cannot protect an input");
}

void cage_host_fetch(const ts_call_plan *p, int slot, unsigned char *args)
{
    for (uint32_t i = 0; i < p->slot[slot].n_bufs; i++) {
        const copy *const c = &copies[slot][i];
        const uint64_t    there = cage_control->device[slot][i];
        const bool        input = p->slot[slot].buf[i].role == 0;
        if (input) protect(c, PROT_READ | PROT_WRITE);
        if (c->n_bytes) cage_gpu_mover.out(c->p, (const void *)(uintptr_t)there, c->n_bytes);
        if (input) protect(c, PROT_READ);
        point(args, TS_CALL_ARGS, there, c->p);
    }
}

void cage_host_return(const ts_call_plan *p, int slot)
{
    for (uint32_t i = 0; i < p->slot[slot].n_bufs; i++) {
        const copy *const    c = &copies[slot][i];
        const uint64_t       there = cage_control->device[slot][i];
        const unsigned char *band = c->p - band_of(c);
        for (; band < c->p && *band == BAND_BYTE; band++) {}
        if (band < c->p) {
            snprintf(cage_control->error.text, sizeof cage_control->error.text,
                     "wrote before %s, in host memory", p->slot[slot].buf[i].name);
            cage_control->fault.signal = SIGSEGV;
            _exit(128 + SIGSEGV);
        }
        if (p->slot[slot].buf[i].role && c->n_bytes)
            cage_gpu_mover.in((void *)(uintptr_t)there, c->p, c->n_bytes);
    }
}
