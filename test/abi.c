/* SPDX-License-Identifier: Apache-2.0 */
/* abi.c - for abi.sh: prints the first difference between the headers that this was compiled with
 * and the library that it is linked to. */
#include <stdio.h>

#include "touchstone/abi.h"

int main(void)
{
    const ts_abi_field *bad = ts_abi_mismatch(ts_abi_fields, TS_ABI_FIELDS);
    printf("%016llx %s%s%s\n", (unsigned long long)ts_abi_hash(ts_abi_fields, TS_ABI_FIELDS),
           bad ? bad->of : "same", bad ? "." : "", bad ? bad->name : "");
    return 0;
}
