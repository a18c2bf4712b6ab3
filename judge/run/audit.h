/* SPDX-License-Identifier: Apache-2.0 */
/* audit.h - checks a built shared object from its bytes, without loading it. */
#ifndef TS_AUDIT_H
#define TS_AUDIT_H

#include "entrant.h"

/* True if the task's functions are exported and, for a sealed entrant, ts_elf_sealed passes. */
bool ts_audit(const void *object, size_t n, ts_class cls, const char *task, ts_refusal *why);

/* Whether this shared object exports the function `symbol`. False if it is malformed. */
bool ts_audit_exports(const void *object, size_t n, const char *symbol);

/* 1u << number of each optional function of the task that the object does not export. */
unsigned ts_audit_lacks(const void *object, size_t n, const char *task);

#endif
