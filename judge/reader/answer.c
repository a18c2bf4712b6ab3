/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c - one answer to one question. */
#include <stdio.h>
#include <string.h>

#include "reader.h"

void ts_reader_answer(const ts_question *q, const char *const *bytes, ts_reading *r)
{
    ts_refusal why = { 0 };
    memset(r, 0, sizeof *r);
    r->mark = TS_READING_MARK;
    r->adapter = -1;
    const bool ok = q->what == TS_READ_ENTRY  ? ts_reader_entry(bytes[0], q->file[0].n, r, &why)
                    : q->what == TS_READ_FILE ? ts_reader_single(q, bytes[0], r, &why)
                                              : ts_reader_sources(q, bytes, r, &why);
    for (uint32_t i = 1; !ok && i < TS_N_READING_REASONS; i++)
        if (!strcmp(why.reason, ts_reading_reasons[i])) r->reason = i;
    snprintf(r->text, sizeof r->text, "%s", why.text);
}
