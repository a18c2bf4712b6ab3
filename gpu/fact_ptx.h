/* SPDX-License-Identifier: Apache-2.0 */
/* fact_ptx.h - kernels with which the judge tries what a device does, as text: no compiler is
 * needed where it is tried.
 *
 * ts_touch(p, how)      one word of 32 bits; how 0: read, 1: write, 2: add atomically, else nothing
 * ts_spin(beat, ns)     adds one to *beat, of 64 bits, again and again for that time
 * ts_chase(p, n, end)   follows a chain of n pointers, by way of L2 only, and stores where it ends
 * ts_count(out)         stores how often it was called since the module was loaded
 * ts_fma(out, n)        n steps, a multiple of 4, of eight sums by fused multiply-add
 * ts_poll(in, truth, cols, word)  a thread a row of 32-bit words: looks at the row until word[0],
 *     of 64 bits, is 2. word[1] counts the threads that have begun, word[2] is when row 0 first
 *     changed, and word[3] when word[0] did, in ns; word[4] counts rows that were seen to equal
 *     their truth while word[0] was 0, and word[5] those that did in the end. */
#ifndef TS_GPU_FACT_PTX_H
#define TS_GPU_FACT_PTX_H

extern const char ts_fact_ptx[];

#endif
