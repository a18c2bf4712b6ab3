/* SPDX-License-Identifier: Apache-2.0 */
/* fact_ptx.h - PTX kernels with which the judge tests what a device guarantees. They are text, so
 * that testing needs no compiler.
 *
 * ts_touch(p, how)      one 32-bit word; how 0: read, 1: write, 2: atomic add, else nothing
 * ts_spin(beat, ns)     increments the 64-bit *beat repeatedly for ns nanoseconds
 * ts_chase(p, n, end)   follows a chain of n pointers through L2 only, and stores the last one
 * ts_count(out)         stores the number of calls since the module was loaded
 * ts_fma(out, n)        n steps, a multiple of 4, of eight sums by fused multiply-add
 * ts_poll(in, truth, cols, word)  one thread per row of 32-bit words: reads the row until the
 * 64-bit word[0] is 2. word[1] counts the threads that have begun; word[2] and word[3] are the
 * times, in ns, at which row 0 and word[0] first changed; word[4] counts the rows that equalled
 * their truth while word[0] was 0, and word[5] those that did at the end. */
#ifndef TS_GPU_FACT_PTX_H
#define TS_GPU_FACT_PTX_H

extern const char ts_fact_ptx[];

#endif
