/* SPDX-License-Identifier: Apache-2.0 */
/* reader_here.h - a reader without a process, for tests: under their sanitizers, and with replies
 * that a test has changed. */
#ifndef READER_HERE_H
#define READER_HERE_H

#include <string.h>

#include "reader.h"

static inline bool ask_here(const void *reader, const ts_question *q, const ts_source *file,
                            ts_reply *reply, ts_refusal *why)
{
    const char *bytes[TS_ENTRANT_SOURCES];
    ts_reading  r;
    (void)reader;
    (void)why;
    for (uint32_t i = 0; i < q->n_files; i++) bytes[i] = file[i].bytes;
    ts_reader_answer(q, bytes, &r);
    memcpy(reply->bytes, &r, sizeof r);
    reply->n = sizeof r;
    return true;
}

#endif
