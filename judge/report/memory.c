/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - appends records to a list in memory. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

ts_jw *ts_memory_begin(void *to, const char *type)
{
    ts_memory *m = to;
    m->w.n = 0;
    ts_jw_open(&m->w, NULL, '{');
    ts_jw_text(&m->w, "type", type);
    return &m->w;
}

static bool grow(ts_memory *m)
{
    const size_t room = 2 * m->room + 64;
    ts_record   *more = realloc(m->at, room * sizeof *more);
    if (!more) return false;
    m->at = more;
    m->room = room;
    return true;
}

bool ts_memory_commit(void *to)
{
    ts_memory *m = to;
    char       why[64];
    ts_jw_close(&m->w, '}');
    if (m->w.failed || (m->n == m->room && !grow(m))) return false;
    char      *line = malloc(m->w.n + 1);
    ts_jr_doc *doc = line ? ts_jr_parse(m->w.text, m->w.n, why, sizeof why) : NULL;
    if (!doc) return free(line), false;
    memcpy(line, m->w.text, m->w.n + 1);
    m->at[m->n++] = (ts_record) { .line = line,
                                  .n = m->w.n,
                                  .type = ts_jr_text(ts_jr_root(doc), "type", ""),
                                  .root = ts_jr_root(doc),
                                  .doc = doc,
                                  .own = line };
    return true;
}

void ts_memory_free(ts_memory *m)
{
    for (size_t i = 0; i < m->n; i++) ts_jr_free(m->at[i].doc), free(m->at[i].own);
    free(m->at);
    ts_jw_free(&m->w);
    *m = (ts_memory) { 0 };
}
