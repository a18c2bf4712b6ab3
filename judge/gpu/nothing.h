/* SPDX-License-Identifier: Apache-2.0 */
/* nothing.h - an empty kernel. Its duration shows whether another process uses the device;
 * launching it makes the device switch to this process. */
#ifndef TS_GPU_NOTHING_H
#define TS_GPU_NOTHING_H

#include "driver.h"

extern const char ts_nothing_ptx[]; /* also passed to the Python runner */

int ts_nothing_load(const ts_driver *d, ts_cu_any **kernel);
int ts_nothing_launch(const ts_driver *d, ts_cu_any *kernel, ts_cu_any *stream);

#endif
