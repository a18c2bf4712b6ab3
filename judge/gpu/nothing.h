/* SPDX-License-Identifier: Apache-2.0 */
/* nothing.h - an empty kernel, and one of known duration.
 *
 * The duration of the empty one shows whether another process uses the device; launching it makes
 * the device switch to this process. A call of the other one measures what a call takes in addition
 * to its kernels. */
#ifndef TS_GPU_NOTHING_H
#define TS_GPU_NOTHING_H

#include "driver.h"

enum { TS_PAUSE_NS = 100000 };
extern const char ts_nothing_ptx[], ts_pause_ptx[]; /* also passed to the Python runner */

int ts_nothing_load(const ts_driver *d, const char *ptx, ts_cu_any **kernel);
int ts_nothing_launch(const ts_driver *d, ts_cu_any *kernel, ts_cu_any *stream);

#endif
