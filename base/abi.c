/* SPDX-License-Identifier: Apache-2.0 */
/* abi.c - compares a caller's view of the public structs with the library's own. */
#include <string.h>

#include "touchstone/abi.h"

static const ts_abi_field *find(const ts_abi_field *in, size_t n, const ts_abi_field *f)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(in[i].of, f->of) && !strcmp(in[i].name, f->name)) return &in[i];
    return NULL;
}

const ts_abi_field *ts_abi_mismatch(const ts_abi_field *mine, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const ts_abi_field *f = find(ts_abi_fields, TS_ABI_FIELDS, &mine[i]);
        if (!f || f->of_bytes != mine[i].of_bytes || f->at != mine[i].at ||
            f->n_bytes != mine[i].n_bytes)
            return &mine[i];
    }
    for (size_t i = 0; i < TS_ABI_FIELDS; i++)
        if (!find(mine, n, &ts_abi_fields[i])) return &ts_abi_fields[i];
    return NULL;
}
