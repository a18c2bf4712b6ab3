/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h - what the fuzz targets share: how a property fails, and copies of exactly an input's
 * size.
 *
 * A target is one function, LLVMFuzzerTestOneInput. Built by a clang that has libFuzzer it is
 * driven by that, elsewhere by fuzz_main.c; both take the same options. */
#ifndef TS_FUZZ_H
#define TS_FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "show.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* A target may have its own: it changes `data` within `room` and returns the new length. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t room, unsigned seed);

/* The driver's own mutations, for such a target to fall back on. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t room);

static inline void must(bool ok)
{
    if (!ok) abort();
}

/* One line, not empty, that a terminal survives. */
static inline void must_be_plain(const char *text)
{
    must(*text);
    while (*text) {
        uint32_t  c = 0;
        const int n = ts_utf8(text, strlen(text), &c);
        must(n && !ts_hostile(c));
        text += n;
    }
}

static inline void must_be_ascii(const char *text)
{
    must(*text);
    for (; *text; text++) must(*text >= ' ' && *text <= '~');
}

/* In a block of exactly this size, so that the sanitizer sees a byte too far. */
static inline void *exact(const void *p, size_t n)
{
    void *copy = malloc(n ? n : 1);
    must(copy);
    if (n) memcpy(copy, p, n);
    return copy;
}

#endif
