/* SPDX-License-Identifier: Apache-2.0 */
/* nothing.c - the PTX of an empty kernel, and a function that launches it. */
#include "nothing.h"

const char ts_nothing_ptx[] = ".version 7.5\n"
                              ".target sm_75\n"
                              ".address_size 64\n"
                              ".visible .entry ts_nothing()\n"
                              "{\n"
                              "ret;\n"
                              "}\n";

int ts_nothing_load(const ts_driver *d, ts_cu_any **kernel)
{
    ts_cu_any *module;
    const int  code = d->module_load(&module, ts_nothing_ptx);
    return code ? code : d->module_function(kernel, module, "ts_nothing");
}

int ts_nothing_launch(const ts_driver *d, ts_cu_any *kernel, ts_cu_any *stream)
{
    return d->launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}
