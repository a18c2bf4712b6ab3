/* SPDX-License-Identifier: Apache-2.0 */
#include "mask.h"

/* For thread i < n, with h = mix(secret + (i + 1) * 0x9e3779b97f4a7c15), twice
 * h = (h ^ h >> 32) * 0xd6e8feb86659fd93 and at last h ^= h >> 32: the element of row i % rows and
 * column (h >> 32) * cols >> 32 is xored with the low bits of h | 1. By words and atomically: two
 * threads may meet, or have an element of two bytes each in one word. */
const char ts_mask_ptx[] = ".version 7.5\n"
                           ".target sm_75\n"
                           ".address_size 64\n"
                           ".visible .entry ts_mask(\n"
                           ".param .u64 p0,\n"
                           ".param .u64 p1,\n"
                           ".param .u32 p2,\n"
                           ".param .u32 p3,\n"
                           ".param .u32 p4,\n"
                           ".param .u32 p5,\n"
                           ".param .u64 p6\n"
                           ")\n"
                           "{\n"
                           ".reg .pred %p<3>;\n"
                           ".reg .b32 %r<21>;\n"
                           ".reg .b64 %rd<28>;\n"
                           "ld.param.u64 %rd1, [p0];\n"
                           "ld.param.u64 %rd2, [p1];\n"
                           "ld.param.u32 %r2, [p2];\n"
                           "ld.param.u32 %r3, [p3];\n"
                           "ld.param.u32 %r4, [p4];\n"
                           "ld.param.u32 %r5, [p5];\n"
                           "ld.param.u64 %rd3, [p6];\n"
                           "mov.u32 %r6, %ctaid.x;\n"
                           "mov.u32 %r7, %ntid.x;\n"
                           "mov.u32 %r8, %tid.x;\n"
                           "mad.lo.s32 %r1, %r6, %r7, %r8;\n"
                           "setp.ge.u32 %p1, %r1, %r5;\n"
                           "@%p1 bra done;\n"
                           "cvta.to.global.u64 %rd4, %rd1;\n"
                           "cvt.u64.u32 %rd5, %r1;\n"
                           "mul.lo.s64 %rd6, %rd5, -7046029254386353131;\n"
                           "add.s64 %rd7, %rd6, %rd3;\n"
                           "add.s64 %rd8, %rd7, -7046029254386353131;\n"
                           "shr.u64 %rd9, %rd8, 32;\n"
                           "xor.b64 %rd10, %rd9, %rd8;\n"
                           "mul.lo.s64 %rd11, %rd10, -2960836687051489901;\n"
                           "shr.u64 %rd12, %rd11, 32;\n"
                           "xor.b64 %rd13, %rd12, %rd11;\n"
                           "mul.lo.s64 %rd14, %rd13, -2960836687051489901;\n"
                           "shr.u64 %rd15, %rd14, 32;\n"
                           "cvt.u64.u32 %rd16, %r3;\n"
                           "mul.lo.s64 %rd17, %rd15, %rd16;\n"
                           "shr.u64 %rd18, %rd17, 32;\n"
                           "rem.u32 %r9, %r1, %r2;\n"
                           "cvt.u64.u32 %rd19, %r9;\n"
                           "mul.lo.s64 %rd20, %rd19, %rd2;\n"
                           "cvt.u64.u32 %rd21, %r4;\n"
                           "mul.lo.s64 %rd22, %rd18, %rd21;\n"
                           "add.s64 %rd23, %rd20, %rd22;\n"
                           "add.s64 %rd24, %rd1, %rd23;\n"
                           "cvt.u32.u64 %r10, %rd24;\n"
                           "cvt.u32.u64 %r11, %rd14;\n"
                           "cvt.u32.u64 %r12, %rd15;\n"
                           "xor.b32 %r13, %r12, %r11;\n"
                           "or.b32 %r14, %r13, 1;\n"
                           "and.b32 %r15, %r14, 65535;\n"
                           "shl.b32 %r16, %r10, 3;\n"
                           "and.b32 %r17, %r16, 24;\n"
                           "shl.b32 %r18, %r15, %r17;\n"
                           "setp.lt.u32 %p2, %r4, 4;\n"
                           "selp.b32 %r19, %r18, %r14, %p2;\n"
                           "and.b64 %rd25, %rd24, 3;\n"
                           "sub.s64 %rd26, %rd23, %rd25;\n"
                           "add.s64 %rd27, %rd4, %rd26;\n"
                           "atom.global.xor.b32 %r20, [%rd27], %r19;\n"
                           "done:\n"
                           "ret;\n"
                           "}\n";

enum { THREADS = 128, LEAST = 1024 };

int ts_mask_load(const ts_driver *d, ts_cu_any **kernel)
{
    ts_cu_any *module;
    const int  code = d->module_load(&module, ts_mask_ptx);
    return code ? code : d->module_function(kernel, module, "ts_mask");
}

int ts_mask_apply(const ts_driver *d, ts_cu_any *kernel, ts_masked m, uint64_t secret,
                  ts_cu_any *stream)
{
    uint32_t n = m.rows > LEAST ? m.rows : LEAST;
    void    *params[] = { &m.p, &m.stride_bytes, &m.rows, &m.cols, &m.size, &n, &secret };
    if (!m.rows || !m.cols) return 0;
    return d->launch(kernel, (n + THREADS - 1) / THREADS, 1, 1, THREADS, 1, 1, 0, stream, params,
                     NULL);
}

int ts_mask_nothing(const ts_driver *d, ts_cu_any *kernel, ts_cu_any *stream)
{
    ts_masked m = { .rows = 1, .cols = 1 };
    uint32_t  n = 0;
    uint64_t  secret = 0;
    void     *params[] = { &m.p, &m.stride_bytes, &m.rows, &m.cols, &m.size, &n, &secret };
    return d->launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}
