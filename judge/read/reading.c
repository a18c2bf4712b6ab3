/* SPDX-License-Identifier: Apache-2.0 */
/* reading.c - checks the reply of the reader, of which nothing is trusted. */
#include "reading.h"

#include <string.h>

#include "kind.h"

static bool invalid(ts_refusal *why, const char *what)
{
    return ts_refuse(why, "entry", "the reader sent an invalid %s", what);
}

#define ENDS(array) (memchr(array, 0, sizeof(array)) != NULL)

static bool strings_end(const ts_reading *r)
{
    for (int i = 0; i < TS_ENTRANT_SOURCES; i++)
        if (!ENDS(r->source[i])) return false;
    return ENDS(r->text) && ENDS(r->name) && ENDS(r->author) && ENDS(r->task) && ENDS(r->launch) &&
           ENDS(r->offers) && ENDS(r->cause) && ENDS(r->family);
}

static bool flags_ok(const ts_reading *r)
{
    unsigned all = r->filtered | r->host | r->block.found | r->block.closed;
    for (int i = 0; i < TS_ENTRANT_SOURCES; i++) all |= r->included[i];
    for (int i = 0; i < TS_READING_TASKS; i++) all |= r->calls[i];
    return all <= 1;
}

/* "" is allowed where a refusal came before it. */
static bool name_ok(const char *name, bool refused)
{
    const long n = ts_name_length(name);
    return n >= (refused ? 0 : 1) && n <= TS_ENTRANT_NAME;
}

/* Lines of printable ASCII, for class sealed-gpu and no other. Whether it is a plan is decided
 * where it is used: in the cage. */
static bool launch_ok(const ts_reading *r)
{
    for (const char *p = r->launch; *p; p++)
        if (*p != '\n' && (*p < ' ' || *p > '~')) return false;
    return r->reason || !*r->launch == (r->cls != TS_GPU_SEALED);
}

static bool entry_ok(const ts_reading *r, ts_refusal *why)
{
    const bool refused = r->reason;
    if (!name_ok(r->name, refused) || !name_ok(r->author, refused) || !name_ok(r->task, refused))
        return invalid(why, "name");
    if (r->cls >= TS_N_CLASSES || r->language >= TS_N_LANGUAGES ||
        (!refused && !ts_class_takes((ts_class)r->cls, (ts_language)r->language)))
        return invalid(why, "class");
    if (!launch_ok(r)) return invalid(why, "launch plan");
    if (r->n_sources > TS_ENTRANT_SOURCES || (!refused && r->n_sources == 0))
        return invalid(why, "number of sources");
    if (r->adapter < -1 || (r->adapter >= 0 && (uint32_t)r->adapter + 1 != r->n_sources) ||
        r->adapter == 0)
        return invalid(why, "adapter");
    if (!refused && r->language == TS_BINARY && r->n_sources != 1)
        return invalid(why, "number of sources");
    return true;
}

static bool block_ok(const ts_reading *r, const ts_question *q)
{
    const uint64_t n = q->file[0].n;
    const uint32_t l = r->block.language;
    return r->block.number >= 0 && r->block.of >= 0 && r->block.line >= 0 &&
           (!r->block.found || (r->block.at <= n && r->block.n <= n - r->block.at &&
                                (l == TS_C || l == TS_CXX || l == TS_CU || l == TS_PY)));
}

/* Its hash, in hexadecimal; without a block of code there is none. */
static bool family_ok(const ts_reading *r, const ts_question *q)
{
    if (q->markdown && !r->block.found) return true;
    return strlen(r->family) == 64 && r->family[strspn(r->family, "0123456789abcdef")] == 0;
}

bool ts_reading_take(const ts_reply *reply, const ts_question *q, ts_reading *r, ts_refusal *why)
{
    ts_refusal unused;
    if (reply->n != sizeof *r)
        return ts_refuse(why, "entry", "the reader sent %zu bytes%s, expected %zu", reply->n,
                         reply->n > sizeof *r ? " or more" : "", sizeof *r);
    memcpy(r, reply->bytes, sizeof *r);
    if (r->mark != TS_READING_MARK) return invalid(why, "mark");
    if (!strings_end(r)) return invalid(why, "string");
    if (r->reason >= TS_N_READING_REASONS || !r->reason != !*r->text) return invalid(why, "reason");
    if (!flags_ok(r)) return invalid(why, "flag");
    if (*r->offers && !ts_offers_ok(r->offers, &unused)) return invalid(why, "scope");
    if (q->what == TS_READ_ENTRY) return entry_ok(r, why);
    if (q->what == TS_READ_FILE && (!block_ok(r, q) || ts_name_length(r->cause) < 0))
        return invalid(why, "block");
    return r->reason || family_ok(r, q) || invalid(why, "family");
}
