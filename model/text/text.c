/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - a text that grows by the pieces of tokens and ends before a stop text. */
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"

/* Where the first complete stop text begins, or n. Only the last n_new bytes are new. */
static size_t first_stop(const ts_text *t, size_t n_new, const char *const *stop, int n_stop)
{
    size_t first = t->n;
    for (int i = 0; i < n_stop; i++) {
        const size_t len = strlen(stop[i]);
        size_t       at = t->n - n_new >= len ? t->n - n_new - len + 1 : 0;
        for (; len && at + len <= t->n && at < first; at++)
            if (!memcmp(t->p + at, stop[i], len)) first = at;
    }
    return first;
}

/* The most bytes at the end that begin a stop text. */
static size_t unsure(const ts_text *t, const char *const *stop, int n_stop)
{
    size_t most = 0;
    for (int i = 0; i < n_stop; i++) {
        const size_t len = strlen(stop[i]);
        size_t       n = len ? len - 1 : 0;
        if (n > t->n) n = t->n;
        while (n > most && memcmp(t->p + t->n - n, stop[i], n)) n--;
        if (n > most) most = n;
    }
    return most;
}

bool ts_text_add(ts_text *t, const char *piece, size_t n, const char *const *stop, int n_stop)
{
    if (t->stopped) return true;
    if (t->room - t->n <= n) { /* one more for the NUL */
        const size_t room = 2 * t->room + n + 64;
        char        *more = realloc(t->p, room);
        if (!more) return false;
        t->p = more;
        t->room = room;
    }
    if (n) memcpy(t->p + t->n, piece, n);
    t->n += n;
    const size_t end = first_stop(t, n, stop, n_stop);
    t->stopped = end < t->n;
    t->n = end;
    t->p[t->n] = 0;
    t->n_sure = t->stopped ? t->n : t->n - unsure(t, stop, n_stop);
    return true;
}
