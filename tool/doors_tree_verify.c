/* SPDX-License-Identifier: Apache-2.0 */
/* doors_tree_verify.c - the library's functions in the table with which a script is played. */
#include "tree_verify_script.h"

#include "doors.h"

DOOR(ts_tree_verify)
DOOR(ts_tree_mask)
DOOR(ts_tree_bias)
DOOR(ts_tree_residual)
QUERY(ts_tree_verify_workspace)

static const ts_tree_table table = { any_ts_tree_verify, any_ts_tree_mask, any_ts_tree_bias,
                                     any_ts_tree_residual, any_ts_tree_verify_workspace };

const void *const ts_tree_verify_doors = &table;
