/* SPDX-License-Identifier: Apache-2.0 */
/* nothing.c - the PTX of kernels that compute nothing, and functions that load and launch one. */
#include "nothing.h"

const char ts_nothing_ptx[] = ".version 7.5\n"
                              ".target sm_75\n"
                              ".address_size 64\n"
                              ".visible .entry ts_nothing()\n"
                              "{\n"
                              "ret;\n"
                              "}\n";

/* TS_PAUSE_NS */
const char ts_pause_ptx[] = ".version 7.5\n"
                            ".target sm_75\n"
                            ".address_size 64\n"
                            ".visible .entry ts_pause()\n"
                            "{\n"
                            ".reg .pred q; .reg .b64 begin, now;\n"
                            "mov.u64 begin, %globaltimer;\n"
                            "again:\n"
                            "mov.u64 now, %globaltimer; sub.u64 now, now, begin; setp.lt.u64 q, "
                            "now, 100000; @q bra again;\n"
                            "ret;\n"
                            "}\n";

int ts_nothing_load(const ts_driver *d, const char *ptx, ts_cu_any **kernel)
{
    ts_cu_any *module;
    const int  code = d->module_load(&module, ptx);
    return code ? code
                : d->module_function(kernel, module,
                                     ptx == ts_pause_ptx ? "ts_pause" : "ts_nothing");
}

int ts_nothing_launch(const ts_driver *d, ts_cu_any *kernel, ts_cu_any *stream)
{
    return d->launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}
