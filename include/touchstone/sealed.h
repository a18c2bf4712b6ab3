/* SPDX-License-Identifier: Apache-2.0 */
/* sealed.h - threads for sealed entrants, which cannot create their own. The judge provides this
 * function; the library does not. */
#ifndef TOUCHSTONE_SEALED_H
#define TOUCHSTONE_SEALED_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calls fn(i, ctx) once for each i in [0, n), on the judge's threads and in any order, and returns
 * when all calls have returned. fn must not call j_parallel_for. ctx is passed on unchanged. */
void j_parallel_for(int64_t n, void (*fn)(int64_t i, void *ctx), void *ctx);

#ifdef __cplusplus
}
#endif
#endif
