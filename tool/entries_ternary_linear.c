/* SPDX-License-Identifier: Apache-2.0 */
/* entries_ternary_linear.c - the library's functions in the table with which a script is played. */
#include "ternary_linear_script.h"

#include "entries.h"

static const ts_ternary_table table = {
    ts_ternary_pack,
    ts_ternary_unpack,
    ts_ternary_linear,
    ts_ternary_linear_packed,
    ts_ternary_linear_backward,
    ts_ternary_pack_workspace,
    ts_ternary_unpack_workspace,
    ts_ternary_linear_workspace,
    ts_ternary_linear_packed_workspace,
    ts_ternary_linear_backward_workspace,
};

const void *const ts_ternary_linear_entries = &table;
