/* SPDX-License-Identifier: Apache-2.0 */
/* agree.h - whether an entrant's wrong output is that of a mutant. */
#ifndef TS_AGREE_H
#define TS_AGREE_H

#include "packed.h"

typedef enum ts_agreement {
    TS_DISAGREES,
    TS_AGREES_WITH_BOTH, /* the mutant is so close to the correct output that it shows nothing */
    TS_AGREES
} ts_agreement;

/* Three packed outputs of one case: the entrant's, a mutant's, and the correct one. The entrant's
 * agrees with the mutant's if every element does, up to rounding and to a small part of the error;
 * some element of both must be far from the correct one. */
ts_agreement ts_agree(const ts_arena *m, const unsigned char *entrant, const unsigned char *mutant,
                      const unsigned char *correct);

/* By how much an element may differ from the correct one by rounding, in relation to the largest
 * number around it; and whether both are finite, or the same that is not. */
double ts_noise(ts_dtype t, double largest, double correct);
bool   ts_same_kind(double a, double b);

/* Which outputs are wrong, and by what factor: each wrong case is added, packed as above. False:
 * there is nothing to say. */
void ts_outputs_add(const ts_arena *m, const unsigned char *entrant, const unsigned char *correct);
bool ts_outputs_say(char *s, size_t n);

/* What the mutant does, as the end of "behaves like a kernel ...". */
void ts_sentence(const char *task, const char *mutant, char *s, size_t n);

#endif
