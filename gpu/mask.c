/* SPDX-License-Identifier: Apache-2.0 */
#include "mask.h"

/* Blocks of row y of the grid take entry y of the table, and of its rows a CHUNK of columns at a
 * time, in steps of the grid. Element c of row r is xored with the low bits of h: from
 * h = secret + (r * cols + c + 1) * 0x9e3779b97f4a7c15, twice h = (h ^ h >> 32) *
 * 0xd6e8feb86659fd93 and at last h ^= h >> 32. */
const char ts_mask_ptx[] = ".version 7.5\n"
                           ".target sm_75\n"
                           ".address_size 64\n"
                           ".visible .entry ts_mask(\n"
                           ".param .align 8 .b8 p[3840]\n"
                           ")\n"
                           "{\n"
                           ".reg .pred %p<9>;\n"
                           ".reg .b16 %rs<7>;\n"
                           ".reg .b32 %r<21>;\n"
                           ".reg .b64 %rd<50>;\n"
                           "mov.b64 %rd16, p;\n"
                           "mov.u32 %r7, %ctaid.y;\n"
                           "mul.wide.u32 %rd18, %r7, 40;\n"
                           "add.s64 %rd19, %rd16, %rd18;\n"
                           "add.s64 %rd1, %rd19, 24;\n"
                           "ld.param.v2.u32 {%r8, %r9}, [%rd19+24];\n"
                           "ld.param.u32 %r3, [%rd19+36];\n"
                           "mul.wide.u32 %rd20, %r3, %r8;\n"
                           "mov.u32 %r10, %ctaid.x;\n"
                           "cvt.u64.u32 %rd47, %r10;\n"
                           "setp.le.u64 %p1, %rd20, %rd47;\n"
                           "@%p1 bra L15;\n"
                           "mov.u32 %r11, %ntid.x;\n"
                           "cvt.u64.u32 %rd3, %r11;\n"
                           "L2:\n"
                           "ld.param.u32 %r12, [%rd1+12];\n"
                           "cvt.u32.u64 %r13, %rd47;\n"
                           "div.u32 %r4, %r13, %r12;\n"
                           "mul.lo.s32 %r14, %r4, %r12;\n"
                           "sub.s32 %r5, %r13, %r14;\n"
                           "add.s32 %r15, %r5, 1;\n"
                           "mul.wide.u32 %rd48, %r15, 2048;\n"
                           "ld.param.u32 %rd7, [%rd1+4];\n"
                           "setp.le.u64 %p2, %rd48, %rd7;\n"
                           "@%p2 bra L4;\n"
                           "mov.u64 %rd48, %rd7;\n"
                           "L4:\n"
                           "mul.wide.u32 %rd21, %r5, 2048;\n"
                           "mov.u32 %r16, %tid.x;\n"
                           "cvt.u64.u32 %rd22, %r16;\n"
                           "add.s64 %rd49, %rd21, %rd22;\n"
                           "setp.ge.u64 %p3, %rd49, %rd48;\n"
                           "@%p3 bra L14;\n"
                           "cvt.u64.u32 %rd10, %r4;\n"
                           "L6:\n"
                           "ld.param.u32 %rd23, [%rd1+4];\n"
                           "mul.lo.s64 %rd24, %rd23, %rd10;\n"
                           "add.s64 %rd25, %rd24, %rd49;\n"
                           "mul.lo.s64 %rd26, %rd25, -7046029254386353131;\n"
                           "ld.param.u64 %rd27, [%rd1+-8];\n"
                           "add.s64 %rd28, %rd27, %rd26;\n"
                           "add.s64 %rd29, %rd28, -7046029254386353131;\n"
                           "shr.u64 %rd30, %rd29, 32;\n"
                           "xor.b64 %rd31, %rd30, %rd29;\n"
                           "mul.lo.s64 %rd32, %rd31, -2960836687051489901;\n"
                           "shr.u64 %rd33, %rd32, 32;\n"
                           "xor.b64 %rd34, %rd33, %rd32;\n"
                           "mul.lo.s64 %rd35, %rd34, -2960836687051489901;\n"
                           "shr.u64 %rd36, %rd35, 32;\n"
                           "xor.b64 %rd12, %rd36, %rd35;\n"
                           "ld.param.u64 %rd37, [%rd1+-16];\n"
                           "mul.lo.s64 %rd38, %rd37, %rd10;\n"
                           "ld.param.u64 %rd39, [%rd1+-24];\n"
                           "add.s64 %rd40, %rd38, %rd39;\n"
                           "ld.param.u32 %r6, [%rd1+8];\n"
                           "cvt.u64.u32 %rd41, %r6;\n"
                           "mul.lo.s64 %rd42, %rd49, %rd41;\n"
                           "add.s64 %rd13, %rd40, %rd42;\n"
                           "setp.eq.s32 %p4, %r6, 4;\n"
                           "@%p4 bra L12;\n"
                           "bra.uni L7;\n"
                           "L12:\n"
                           "cvt.u32.u64 %r17, %rd12;\n"
                           "ld.u32 %r18, [%rd13];\n"
                           "xor.b32 %r19, %r18, %r17;\n"
                           "st.u32 [%rd13], %r19;\n"
                           "bra.uni L13;\n"
                           "L7:\n"
                           "setp.eq.s32 %p5, %r6, 2;\n"
                           "@%p5 bra L11;\n"
                           "bra.uni L8;\n"
                           "L11:\n"
                           "cvt.u16.u64 %rs4, %rd12;\n"
                           "ld.u16 %rs5, [%rd13];\n"
                           "xor.b16 %rs6, %rs5, %rs4;\n"
                           "st.u16 [%rd13], %rs6;\n"
                           "bra.uni L13;\n"
                           "L8:\n"
                           "setp.eq.s32 %p6, %r6, 8;\n"
                           "@%p6 bra L10;\n"
                           "bra.uni L9;\n"
                           "L10:\n"
                           "ld.u64 %rd43, [%rd13];\n"
                           "xor.b64 %rd44, %rd43, %rd12;\n"
                           "st.u64 [%rd13], %rd44;\n"
                           "bra.uni L13;\n"
                           "L9:\n"
                           "cvt.u16.u64 %rs1, %rd12;\n"
                           "ld.u8 %rs2, [%rd13];\n"
                           "xor.b16 %rs3, %rs2, %rs1;\n"
                           "st.u8 [%rd13], %rs3;\n"
                           "L13:\n"
                           "add.s64 %rd49, %rd49, %rd3;\n"
                           "setp.lt.u64 %p7, %rd49, %rd48;\n"
                           "@%p7 bra L6;\n"
                           "L14:\n"
                           "mov.u32 %r20, %nctaid.x;\n"
                           "cvt.u64.u32 %rd45, %r20;\n"
                           "add.s64 %rd47, %rd47, %rd45;\n"
                           "setp.lt.u64 %p8, %rd47, %rd20;\n"
                           "@%p8 bra L2;\n"
                           "L15:\n"
                           "ret;\n"
                           "}\n";

enum { THREADS = 256, BLOCKS = 1024, CHUNK = 2048 };

int ts_mask_load(const ts_driver *d, ts_cu_any **kernel)
{
    ts_cu_any *module;
    const int  code = d->module_load(&module, ts_mask_ptx);
    return code ? code : d->module_function(kernel, module, "ts_mask");
}

void ts_mask_add(ts_masks *t, ts_device_ptr p, uint64_t stride_bytes, int64_t rows, int64_t cols,
                 size_t size, uint64_t secret)
{
    const uint32_t chunks = (uint32_t)((cols + CHUNK - 1) / CHUNK);
    if (t->n == TS_MASKS || !rows || !cols) return;
    secret ^= (uint64_t)(t->n + 1) * 0xbf58476d1ce4e5b9u;
    t->e[t->n++] =
        (ts_masked) { p,     stride_bytes, secret, (uint32_t)rows, (uint32_t)cols, (uint32_t)size,
                      chunks };
    if (chunks * (uint64_t)rows > t->most) t->most = chunks * (uint64_t)rows;
}

int ts_mask_apply(const ts_driver *d, ts_cu_any *kernel, const ts_masks *t, ts_cu_any *stream)
{
    void *params[] = { (void *)t->e };
    if (!t->n) return 0;
    return d->launch(kernel, t->most < BLOCKS ? (unsigned)t->most : BLOCKS, t->n, 1, THREADS, 1, 1,
                     0, stream, params, NULL);
}

int ts_mask_nothing(const ts_driver *d, ts_cu_any *kernel, ts_cu_any *stream)
{
    static const ts_masks nothing = { .n = 1, .most = 1 };
    return ts_mask_apply(d, kernel, &nothing, stream);
}
