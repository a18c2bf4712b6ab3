/* SPDX-License-Identifier: Apache-2.0 */
/* impl.c - selects an implementation, checks the workspace and calls it. */
#include "impl.h"

#include "cpu.h"
#include "cuda_module.h"

static bool serves(const ts_impl *row, ts_device d, unsigned features)
{
    return row->device == d && !(row->needs & ~features);
}

ts_status ts_pick(const ts_impl *rows, ts_device d, ts_dtype t, ts_impl *found)
{
    if (d != TS_CPU && d != TS_CUDA) return TS_E_ARG;
    if (d == TS_CUDA && ts_cuda_unavailable_reason()) return TS_E_DEVICE;
    const unsigned features =
        d == TS_CUDA ? ts_cuda_ops()->features() & ts_cpu_mask() : ts_cpu_features();
    ts_status why = TS_E_UNSUPPORTED;
    for (const ts_impl *row = rows; row->name; row++) {
        if (!serves(row, d, features)) continue;
        why = TS_E_DTYPE;
        if ((unsigned)t > TS_U4 || !(row->dtypes >> t & 1u)) continue;
        *found = *row;
        return found->symbol ? ts_cuda_resolve(found) : TS_OK;
    }
    return why;
}

static ts_status workspace_of(const ts_impl *row, const void *args, const ts_exec *x, size_t *n)
{
    *n = 0;
    return row->workspace ? row->workspace(args, x, n) : TS_OK;
}

ts_status ts_impl_workspace(const ts_impl *rows, ts_dtype t, const void *args, const ts_exec *x,
                            size_t *n_bytes)
{
    ts_impl         row;
    const ts_status s = ts_pick(rows, x->device, t, &row);
    return s ? s : workspace_of(&row, args, x, n_bytes);
}

ts_status ts_impl_run(const ts_impl *rows, ts_dtype t, const void *args, const ts_exec *x,
                      ts_apart_fn apart)
{
    ts_exec   used = *x;
    ts_impl   row;
    size_t    n;
    ts_status s = ts_pick(rows, x->device, t, &row);
    if (!s) s = workspace_of(&row, args, x, &n);
    if (s) return s;
    if (n && (!x->workspace || x->workspace_bytes < n)) return TS_E_WORKSPACE;
    used.workspace_bytes = n;
    if (apart && !apart(args, &used)) return TS_E_ARG;
    return row.run(args, x);
}
