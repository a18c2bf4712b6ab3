/* SPDX-License-Identifier: Apache-2.0 */
/* audit.h - reads a built shared object, byte by byte and without loading it. */
#ifndef TS_AUDIT_H
#define TS_AUDIT_H

#include "entry.h"

/* Sealed: the task's function is there; nothing is left undefined but what allow.h names; nothing
 * runs at load time; no TLS, no needed library, no segment that is both writable and executable,
 * no relocation beyond the few plain ones, none in code. Host: the task's function is there. */
bool ts_audit(const void *object, size_t n, ts_class cls, const char *task, ts_refusal *why);

/* Is `symbol` a function that this shared object offers? False for anything malformed. */
bool ts_audit_exports(const void *object, size_t n, const char *symbol);

bool ts_allowed(const char *symbol);

#endif
