/* SPDX-License-Identifier: Apache-2.0 */
/* nothing.h - an empty kernel. How long it takes tells whether another process is on the device,
 * and to launch it makes the device turn to the process that does. */
#ifndef TS_GPU_NOTHING_H
#define TS_GPU_NOTHING_H

#include "driver.h"

extern const char ts_nothing_ptx[]; /* the Python runner gets it too */

int ts_nothing_load(const ts_driver *d, ts_cu_any **kernel);
int ts_nothing_launch(const ts_driver *d, ts_cu_any *kernel, ts_cu_any *stream);

#endif
