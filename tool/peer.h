/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h - peers in a benchmark: a Python process that maps the case's memory and calls NumPy, JAX
 * or PyTorch on it. The verbs are those of a worker. */
#ifndef TS_PEER_H
#define TS_PEER_H

#include "examine.h"

typedef struct ts_peer ts_peer;

/* `name` as in python/peers.py. NULL, and why in `text`, if it is not available. */
ts_peer *ts_peer_start(const char *name, ts_device device, int n_threads, const ts_arena *m,
                       char *text, size_t n_text);
void     ts_peer_stop(ts_peer **p);

/* False, and why in `text`, if the peer rejects the case or died. */
bool ts_peer_load(ts_peer *p, const ts_exam *e, char *text, size_t n_text);
bool ts_peer_run(ts_peer *p, double *ns); /* on a device, timed by the peer's own events */
bool ts_peer_store(ts_peer *p);

const char *ts_peer_said(const ts_peer *p); /* its last reply */

#define TS_PEERS                                                                                   \
    "numpy,jax,torch,torch.lse,torch.compile,torch.flash,torch.cudnn,torch.efficient,"             \
    "flash-attn-4,flash-attn-2,quack,liger"

/* NULL, or names of TS_PEERS; else false and one line on standard error. */
bool ts_peers_known(const char *list);

#endif
