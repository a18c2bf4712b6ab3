/* SPDX-License-Identifier: Apache-2.0 */
/* entries_tree_verify.c - the library's functions in the table with which a script is played. */
#include "tree_verify_script.h"

#include "entries.h"

ENTRY(ts_tree_verify)
ENTRY(ts_tree_mask)
ENTRY(ts_tree_bias)
ENTRY(ts_tree_residual)
QUERY(ts_tree_verify_workspace)
QUERY(ts_tree_verify_host)

static const ts_tree_table table = {
    any_ts_tree_verify,           any_ts_tree_mask,       any_ts_tree_bias, any_ts_tree_residual,
    any_ts_tree_verify_workspace, any_ts_tree_verify_host
};

const void *const ts_tree_verify_entries = &table;
