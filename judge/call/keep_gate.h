/* SPDX-License-Identifier: Apache-2.0 */
/* keep_gate.h - the keeper's clock: the device's own, from the end of a kernel that keeps the
 * device busy until after go to a kernel that waits for the entrant's work. */
#ifndef TS_KEEP_GATE_H
#define TS_KEEP_GATE_H

#include "driver.h"
#include "fact_ptx.h"
#include "keeper_inside.h"

typedef struct ts_gate {
    const ts_driver *d;
    ts_cu_any       *gate, *stamp;
    ts_gate_words   *words;
    uint32_t         call;
    double           begin_ns; /* of the layout */
    int              n_gaps;   /* calls in a row whose work left the device idle before done */
} ts_gate;

/* These return 0 or the driver's error. */
int ts_gate_open(ts_gate *g, const ts_driver *d);
/* Enqueue a stamp before the layout, and the gate behind it. */
int ts_gate_begin(ts_gate *g);
int ts_gate_shut(ts_gate *g);
/* Returns when the gate is running: no other process uses the device until it ends. *ns: since the
 * stamp, by the device's clock. */
int ts_gate_await(ts_gate *g, double *ns);
/* Ends it without a call. */
int ts_gate_leave(ts_gate *g);
/* Says go to the gate when the judge does, and measures until the device is free after done. */
int ts_gate_time(ts_gate *g, ts_kept_page *page, bool ahead, ts_kept_word *w);

/* The duration of an empty kernel, and its least; 0 or the driver's error. By CPU time: this
 * process spins while it waits for the device, so that is the wall time less that in which it had
 * no core. */
int ts_keep_probe(const ts_driver *driver, ts_cu_any *nothing, double *ns);
int ts_keep_usual(const ts_driver *driver, ts_cu_any *nothing, double *usual_ns);

#endif
