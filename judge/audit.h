/* SPDX-License-Identifier: Apache-2.0 */
/* audit.h - reads a built shared object, byte by byte and without loading it. */
#ifndef TS_AUDIT_H
#define TS_AUDIT_H

#include "entrant.h"

/* The task's functions are there; and a sealed entrant is what ts_elf_sealed allows. */
bool ts_audit(const void *object, size_t n, ts_class cls, const char *task, ts_refusal *why);

/* Is `symbol` a function that this shared object offers? False for anything malformed. */
bool ts_audit_exports(const void *object, size_t n, const char *symbol);

/* 1u << number of each optional function of the task that the object does not export. */
unsigned ts_audit_lacks(const void *object, size_t n, const char *task);

#endif
