/* SPDX-License-Identifier: Apache-2.0 */
/* smuggled.h - flags in the text of an entrant. */
#ifndef TS_SMUGGLED_H
#define TS_SMUGGLED_H

#include <stddef.h>

/* The pragma or attribute in preprocessed text that would change the judge's flags, or NULL. */
const char *ts_smuggled(const char *text, size_t n);

#endif
