/* SPDX-License-Identifier: Apache-2.0 */
/* mutant_entrant_tree.c - a mutant of tree_verify as a third-party shared library. mutant.sh
 * compiles it once for each, with MUTANT. */
#include "mutant_entrant.h"
#include "tree_verify_script.h"

TABLE_OF(ts_tree_table, tree_verify)
CALL(tree_verify, ts_tree_verify, ts_tree_verify_args, verify)
CALL_WORKSPACE(tree_verify, ts_tree_verify, ts_tree_verify_args, verify)
CALL(tree_verify, ts_tree_mask, ts_tree_mask_args, mask)
CALL(tree_verify, ts_tree_bias, ts_tree_bias_args, bias)
CALL(tree_verify, ts_tree_residual, ts_tree_residual_args, residual)
