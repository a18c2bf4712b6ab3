/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_entry_simd.h - the entry points of a width of vector, out of the steps that the files
 * included before it define. */
#ifndef TS_TERNARY_ENTRY_SIMD_H
#define TS_TERNARY_ENTRY_SIMD_H

static const ts_ternary_steps steps = {
    .table = TABLE * GROUP,
    .rows = ROWS,
    .dw_tiles = DW_TILES,
    .pack = pack,
    .unpack = unpack,
    .largest = largest,
    .tabulate = tabulate,
    .multiply = multiply,
    .store = store,
    .dx = give_dx,
    .dw = give_dw,
};

ts_status SIMD(ts_ternary_pack)(const void *args, const ts_exec *x)
{
    return ts_ternary_threads_pack(args, x, &steps);
}

ts_status SIMD(ts_ternary_unpack)(const void *args, const ts_exec *x)
{
    return ts_ternary_threads_unpack(args, x, &steps);
}

ts_status SIMD(ts_ternary_linear)(const void *args, const ts_exec *x)
{
    return ts_ternary_threads_linear(args, x, &steps);
}

ts_status SIMD(ts_ternary_linear_workspace)(const void *args, const ts_exec *x, size_t *n_bytes)
{
    (void)x;
    return ts_ternary_threads_linear_workspace(args, &steps, n_bytes);
}

ts_status SIMD(ts_ternary_linear_packed)(const void *args, const ts_exec *x)
{
    return ts_ternary_threads_packed(args, x, &steps);
}

ts_status SIMD(ts_ternary_linear_packed_workspace)(const void *args, const ts_exec *x,
                                                   size_t *n_bytes)
{
    (void)x;
    return ts_ternary_threads_packed_workspace(args, &steps, n_bytes);
}

ts_status SIMD(ts_ternary_linear_backward)(const void *args, const ts_exec *x)
{
    return ts_ternary_threads_backward(args, x, &steps);
}

#endif
