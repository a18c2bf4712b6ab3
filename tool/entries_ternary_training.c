/* SPDX-License-Identifier: Apache-2.0 */
/* entries_ternary_training.c - the library's functions in the table with which a script is played.
 */
#include "ternary_training_script.h"

#include "entries.h"

static const ts_tt_table table = {
    ts_ternary_bytes, ts_ternary_create, ts_ternary_destroy, ts_ternary_grad,
    ts_ternary_step,  ts_ternary_eval,   ts_ternary_export,
};

const void *const ts_ternary_training_entries = &table;
