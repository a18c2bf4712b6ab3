/* SPDX-License-Identifier: Apache-2.0 */
/* entries_tally.c - the library's functions as the table that a script is played with. */
#include "entries.h"
#include "tally_script.h"

static const ts_tally_table table = { ts_tally_add, ts_tally_mean };

const void *const ts_tally_entries = &table;
