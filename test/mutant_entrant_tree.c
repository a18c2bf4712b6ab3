/* SPDX-License-Identifier: Apache-2.0 */
/* mutant_entrant_tree.c - a mutant of tree_verify as a third-party shared library. mutant.sh
 * compiles it once for each, with MUTANT. */
#include <stdlib.h>

#include "tree_verify_script.h"

#define TEXT(a)   #a
#define QUOTED(a) TEXT(a)

const ts_tree_table *ts_tree_verify_mutant(const char *name); /* proof/mutant/tree_verify.c */

static const ts_tree_table *mutant(void)
{
    const ts_tree_table *t = ts_tree_verify_mutant(QUOTED(MUTANT));
    if (!t) abort();
    return t;
}

ts_status ts_tree_verify(const ts_tree_verify_args *a, const ts_exec *x)
{
    return mutant()->verify(a, x);
}

ts_status ts_tree_verify_workspace(const ts_tree_verify_args *a, const ts_exec *x, size_t *n)
{
    return mutant()->verify_workspace(a, x, n);
}

ts_status ts_tree_mask(const ts_tree_mask_args *a, const ts_exec *x)
{
    return mutant()->mask(a, x);
}

ts_status ts_tree_bias(const ts_tree_bias_args *a, const ts_exec *x)
{
    return mutant()->bias(a, x);
}

ts_status ts_tree_residual(const ts_tree_residual_args *a, const ts_exec *x)
{
    return mutant()->residual(a, x);
}
