/* SPDX-License-Identifier: Apache-2.0 */
#include "mask.h"

/* Blocks of row y of the grid take entry y of the table. For thread i < n of it, with
 * h = secret + (i + 1) * 0x9e3779b97f4a7c15, twice h = (h ^ h >> 32) * 0xd6e8feb86659fd93 and at
 * last h ^= h >> 32: the element of row i % rows and column (h >> 32) * cols >> 32 is xored with
 * the low bits of h | 1. By words and atomically: two threads may meet, or have a small element
 * each in one word. */
const char ts_mask_ptx[] = ".version 7.5\n"
                           ".target sm_75\n"
                           ".address_size 64\n"
                           ".visible .entry ts_mask(\n"
                           ".param .align 8 .b8 p[3840]\n"
                           ")\n"
                           "{\n"
                           ".reg .pred %p<4>;\n"
                           ".reg .b32 %r<26>;\n"
                           ".reg .b64 %rd<30>;\n"
                           "mov.b64 %rd3, p;\n"
                           "mov.u32 %r6, %ctaid.y;\n"
                           "mov.u32 %r7, %ntid.x;\n"
                           "mov.u32 %r8, %ctaid.x;\n"
                           "mov.u32 %r9, %tid.x;\n"
                           "mad.lo.s32 %r1, %r8, %r7, %r9;\n"
                           "mul.wide.u32 %rd5, %r6, 40;\n"
                           "add.s64 %rd6, %rd3, %rd5;\n"
                           "add.s64 %rd1, %rd6, 36;\n"
                           "ld.param.u32 %r10, [%rd6+36];\n"
                           "setp.ge.u32 %p1, %r1, %r10;\n"
                           "@%p1 bra done;\n"
                           "cvt.u64.u32 %rd7, %r1;\n"
                           "mul.lo.s64 %rd8, %rd7, -7046029254386353131;\n"
                           "ld.param.u64 %rd9, [%rd1+-20];\n"
                           "add.s64 %rd10, %rd8, %rd9;\n"
                           "add.s64 %rd11, %rd10, -7046029254386353131;\n"
                           "shr.u64 %rd12, %rd11, 32;\n"
                           "xor.b64 %rd13, %rd12, %rd11;\n"
                           "mul.lo.s64 %rd14, %rd13, -2960836687051489901;\n"
                           "shr.u64 %rd15, %rd14, 32;\n"
                           "xor.b64 %rd16, %rd15, %rd14;\n"
                           "mul.lo.s64 %rd17, %rd16, -2960836687051489901;\n"
                           "shr.u64 %rd18, %rd17, 32;\n"
                           "ld.param.v2.u32 {%r11, %r12}, [%rd1+-12];\n"
                           "rem.u32 %r15, %r1, %r11;\n"
                           "cvt.u64.u32 %rd19, %r15;\n"
                           "ld.param.u64 %rd20, [%rd1+-28];\n"
                           "mul.lo.s64 %rd21, %rd20, %rd19;\n"
                           "ld.param.u64 %rd22, [%rd1+-36];\n"
                           "add.s64 %rd23, %rd21, %rd22;\n"
                           "cvt.u64.u32 %rd24, %r12;\n"
                           "mul.lo.s64 %rd25, %rd18, %rd24;\n"
                           "shr.u64 %rd26, %rd25, 32;\n"
                           "ld.param.u32 %r2, [%rd1+-4];\n"
                           "cvt.u64.u32 %rd27, %r2;\n"
                           "mul.lo.s64 %rd28, %rd26, %rd27;\n"
                           "add.s64 %rd2, %rd23, %rd28;\n"
                           "cvt.u32.u64 %r16, %rd17;\n"
                           "cvt.u32.u64 %r17, %rd18;\n"
                           "xor.b32 %r18, %r17, %r16;\n"
                           "or.b32 %r25, %r18, 1;\n"
                           "setp.gt.u32 %p2, %r2, 3;\n"
                           "@%p2 bra whole;\n"
                           "setp.eq.s32 %p3, %r2, 1;\n"
                           "selp.b32 %r19, 255, 65535, %p3;\n"
                           "and.b32 %r20, %r19, %r25;\n"
                           "cvt.u32.u64 %r21, %rd2;\n"
                           "shl.b32 %r22, %r21, 3;\n"
                           "and.b32 %r23, %r22, 24;\n"
                           "shl.b32 %r25, %r20, %r23;\n"
                           "whole:\n"
                           "and.b64 %rd29, %rd2, -4;\n"
                           "atom.xor.b32 %r24, [%rd29], %r25;\n"
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

void ts_mask_add(ts_masks *t, ts_device_ptr p, uint64_t stride_bytes, int64_t rows, int64_t cols,
                 size_t size, uint64_t n_bytes, uint64_t secret)
{
    const uint32_t i = t->n, n = rows > LEAST ? (uint32_t)rows : LEAST;
    if (i == TS_MASKS || n_bytes < TS_MASK_LEAST_BYTES || !rows || !cols) return;
    secret ^= (uint64_t)(i + 1) * 0xbf58476d1ce4e5b9u;
    t->e[t->n++] =
        (ts_masked) { p, stride_bytes, secret, (uint32_t)rows, (uint32_t)cols, (uint32_t)size, n };
    if (n > t->most) t->most = n;
}

int ts_mask_apply(const ts_driver *d, ts_cu_any *kernel, const ts_masks *t, ts_cu_any *stream)
{
    void *params[] = { (void *)t->e };
    if (!t->n) return 0;
    return d->launch(kernel, (t->most + THREADS - 1) / THREADS, t->n, 1, THREADS, 1, 1, 0, stream,
                     params, NULL);
}

int ts_mask_nothing(const ts_driver *d, ts_cu_any *kernel, ts_cu_any *stream)
{
    static const ts_masks nothing = { .n = 1, .most = 1 };
    return ts_mask_apply(d, kernel, &nothing, stream);
}
