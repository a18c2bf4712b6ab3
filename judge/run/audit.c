/* SPDX-License-Identifier: Apache-2.0 */
/* audit.c - checks that a built shared object obeys its class and exports its task's functions. */
#include "audit.h"

#include <stdio.h>
#include <string.h>

#include "object.h"
#include "task.h"

static bool exports(const ts_elf *f, const char *wanted)
{
    uint64_t address;
    return ts_elf_function(f, wanted, &address);
}

/* Writes the first function of the task that the object lacks to `symbol`; false if it lacks none.
 */
static bool lacks(const ts_elf *f, const char *task, char symbol[TS_ENTRANT_NAME + 4])
{
    const ts_task *t = ts_task_called(task);
    const char    *wanted;
    char           name[TS_EXPORT_NAME];
    snprintf(symbol, TS_ENTRANT_NAME + 4, "ts_%s", task);
    for (int i = 0; t && (wanted = ts_task_export(t, i, name)); i++) {
        snprintf(symbol, TS_ENTRANT_NAME + 4, "%s", wanted);
        if (!exports(f, symbol)) return true;
    }
    return !t && !exports(f, symbol);
}

bool ts_audit(const void *object, size_t n, ts_class cls, const char *task, ts_refusal *why)
{
    ts_elf      f;
    const char *bad = ts_elf_read(&f, object, n);
    char        symbol[TS_ENTRANT_NAME + 4], text[256];
    if (bad) return ts_refuse(why, "symbol", "the object has %s", bad);
    if (cls == TS_SEALED && !ts_elf_sealed(&f, text, sizeof text))
        return ts_refuse(why, "symbol", "%s", text);
    if (!lacks(&f, task, symbol)) return true;
    return ts_refuse(
        why, "missing",
        "function '%s' is not defined, or hidden; `touchstone new` writes a starter, and "
        "its header exports the function",
        symbol);
}

bool ts_audit_exports(const void *object, size_t n, const char *symbol)
{
    ts_elf f;
    return !ts_elf_read(&f, object, n) && exports(&f, symbol);
}

unsigned ts_audit_lacks(const void *object, size_t n, const char *task)
{
    const ts_task *t = ts_task_called(task);
    unsigned       lacks = 0;
    for (int i = 0; t && t->optional && t->optional[i]; i++)
        if (!ts_audit_exports(object, n, t->optional[i])) lacks |= 1u << i;
    return lacks;
}
