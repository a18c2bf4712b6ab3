/* SPDX-License-Identifier: Apache-2.0 */
/* fact.h - what judging on a device rests on, tried on the device that is there. */
#ifndef TS_FACT_H
#define TS_FACT_H

#include "cage.h"

/* Adds a guarantee for every fact, with what was measured, to those of the machine; a full badge
 * becomes a reduced one if one of them does not hold. Each trial runs in processes of its own,
 * which may fault or hang; this one stays without a driver. */
void ts_fact_all(ts_guarantees *g);

#endif
