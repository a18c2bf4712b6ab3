/* SPDX-License-Identifier: Apache-2.0 */
/* fact_ptx.h - PTX kernels with which the judge times calls on a device, and tests what the device
 * guarantees. They are text, so that judging needs no compiler.
 *
 * ts_touch(p, how)      one 32-bit word; how 0: read, 1: write, 2: atomic add, else nothing
 * ts_spin(beat, ns)     increments the 64-bit *beat repeatedly for ns nanoseconds
 * ts_chase(p, n, end)   follows a chain of n pointers through L2 only, and stores the last one
 * ts_count(out)         stores the number of calls since the module was loaded
 * ts_stamp(p)           stores the device's clock, in nanoseconds
 * ts_fma(out, n)        n steps, a multiple of 4, of eight sums by fused multiply-add
 *
 * ts_gate(words, call, hold, limit) keeps the device busy until words->go is `call`, and for `hold`
 * nanoseconds more, but for `limit` at most; see ts_gate_words.
 *
 * ts_poll(in, truth, cols, word), one thread per row of 32-bit words, reads the row until the
 * 64-bit word[0] is 2. word[1] counts the threads that have begun; word[2] and word[3] are the
 * times, in ns, at which row 0 and word[0] first changed; word[4] counts the rows that equalled
 * their truth while word[0] was 0, and word[5] those that did at the end. */
#ifndef TS_GPU_FACT_PTX_H
#define TS_GPU_FACT_PTX_H

#include <stdint.h>

extern const char ts_fact_ptx[];

/* In memory of the host that the device can access. */
typedef struct ts_gate_words {
    uint32_t go;           /* the judge: the call that may begin */
    uint32_t begun, ended; /* the gate: its call */
    uint32_t saw;          /* the value of go at its end: of another call, if the limit ended it */
    uint64_t end_ns;       /* by the device's clock */
    uint64_t gap_ns;       /* the longest time in which it did not run */
    uint64_t stamp_ns[3];  /* by ts_stamp; 0: not yet */
    uint64_t begin_ns;     /* of the gate */
} ts_gate_words;

#endif
