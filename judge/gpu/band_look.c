/* SPDX-License-Identifier: Apache-2.0 */
/* band_look.c - the PTX that band_look.h describes, and functions that load and launch it. */
#include "band_look.h"

/* clang-format off: a line is a thought */
const char ts_band_ptx[] =
    ".version 7.5\n"
    ".target sm_75\n"
    ".address_size 64\n"
    ".visible .entry ts_band(.param .u64 a, .param .u64 b, .param .u32 c, .param .u64 d)\n"
    "{\n"
    ".reg .pred q; .reg .b32 v, m, s, x, y, pattern; .reg .b64 p, at, end, step, t, wrong;\n"
    "ld.param.u64 p, [a]; ld.param.u64 end, [b]; ld.param.u32 pattern, [c];\n"
    "ld.param.u64 wrong, [d];\n"
    "cvta.to.global.u64 p, p; cvta.to.global.u64 wrong, wrong; add.u64 end, p, end;\n"
    /* Thread i of all takes words i, i + n, i + 2 n ... */
    "mov.u32 x, %ntid.x; mov.u32 y, %ctaid.x; mov.u32 s, %tid.x; mad.lo.u32 s, x, y, s;\n"
    "and.b64 at, p, -4; mul.wide.u32 t, s, 4; add.u64 at, at, t;\n"
    "mov.u32 y, %nctaid.x; mul.lo.u32 x, x, y; mul.wide.u32 step, x, 4;\n"
    "again:\n"
    "setp.ge.u64 q, at, end; @q bra done;\n"
    "ld.volatile.global.u32 v, [at]; xor.b32 v, v, pattern;\n"
    /* Bytes before p do not count. */
    "setp.ge.u64 q, at, p; @q bra high;\n"
    "sub.u64 t, p, at; cvt.u32.u64 s, t; shl.b32 s, s, 3; shr.u32 v, v, s; shl.b32 v, v, s;\n"
    /* Nor do those from the end on. */
    "high:\n"
    "sub.u64 t, end, at; setp.ge.u64 q, t, 4; @q bra whole;\n"
    "cvt.u32.u64 s, t; shl.b32 s, s, 3; mov.u32 m, -1; shl.b32 m, m, s; not.b32 m, m;\n"
    "and.b32 v, v, m;\n"
    "whole:\n"
    "setp.eq.u32 q, v, 0; @q bra next;\n"
    "atom.global.add.u64 t, [wrong], 1;\n"
    "next:\n"
    "add.u64 at, at, step; bra again;\n"
    "done:\n"
    "ret;\n"
    "}\n";
/* clang-format on */

int ts_band_load(const ts_driver *d, ts_cu_any **kernel)
{
    ts_cu_any *module;
    const int  code = d->module_load(&module, ts_band_ptx);
    return code ? code : d->module_function(kernel, module, "ts_band");
}

int ts_band_look(const ts_driver *d, ts_cu_any *kernel, ts_device_ptr lo, ts_device_ptr hi,
                 unsigned char byte, ts_device_ptr wrong)
{
    enum { BLOCK = 256, MOST_BLOCKS = 1024, WORDS = 8 }; /* of a thread, at most blocks for all */
    uint64_t       n = hi - lo;
    uint32_t       pattern = byte * UINT32_C(0x01010101);
    const uint64_t blocks = n / (4 * WORDS * BLOCK) + 1;
    void          *params[] = { &lo, &n, &pattern, &wrong };
    if (lo >= hi) return 0;
    return d->launch(kernel, blocks < MOST_BLOCKS ? (unsigned)blocks : MOST_BLOCKS, 1, 1, BLOCK, 1,
                     1, 0, NULL, params, NULL);
}
