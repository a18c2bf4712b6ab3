/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - appends to the hash-chained log. */
#define _GNU_SOURCE
#include "log.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "sha256.h"

ts_jw *ts_log_begin(ts_log *l, const char *type)
{
    l->w.n = 0;
    ts_jw_open(&l->w, NULL, '{');
    ts_jw_int(&l->w, "seq", l->seq);
    ts_jw_text(&l->w, "prev", l->prev);
    ts_jw_text(&l->w, "type", type);
    return &l->w;
}

/* An interrupted write leaves an incomplete line, which the next ts_log_open removes. */
bool ts_log_commit(ts_log *l)
{
    ts_jw *w = &l->w;
    char   self[65];
    if (w->failed && !l->error) l->error = ENOMEM;
    if (l->error) return false;
    ts_sha256_hex(w->text, w->n, self);
    ts_jw_text(w, "self", self);
    ts_jw_close(w, '}');
    if (!w->failed) ts_sha256_hex(w->text, w->n, l->prev);
    ts_jw_raw(w, "\n", 1);
    if (w->failed) return l->error = ENOMEM, false;
    l->seq++;
    const ssize_t n = write(l->fd, w->text, w->n);
    if (n != (ssize_t)w->n) l->error = n < 0 ? errno : ENOSPC;
    else if (fsync(l->fd)) l->error = errno;
    return !l->error;
}

void ts_log_close(ts_log *l)
{
    if (!l) return;
    if (l->fd >= 0) close(l->fd);
    ts_jw_free(&l->w);
    free(l);
}
