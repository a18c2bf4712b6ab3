/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - records that are in no log: derived ones, and those of several logs merged. */
#ifndef TS_MEMORY_H
#define TS_MEMORY_H

#include "log.h"

typedef struct ts_memory {
    ts_jw      w;
    ts_record *at;
    size_t     n, room;
} ts_memory;

/* A record: begin, fill with ts_jw_*, commit; `m` is a ts_memory. */
ts_jw *ts_memory_begin(void *m, const char *type);
bool   ts_memory_commit(void *m);
void   ts_memory_free(ts_memory *m);

#endif
