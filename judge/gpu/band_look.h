/* SPDX-License-Identifier: Apache-2.0 */
/* band_look.h - a kernel that tests whether device memory still has one known byte everywhere:
 * copying megabytes of bands to the host after every call would take longer than the call. */
#ifndef TS_GPU_BAND_LOOK_H
#define TS_GPU_BAND_LOOK_H

#include "driver.h"

/* ts_band(p, n, pattern, wrong): adds to the 64-bit *wrong how many aligned 32-bit words have a
 * byte in [p, p + n) that differs from the pattern's. Reads whole words. */
extern const char ts_band_ptx[];

int ts_band_load(const ts_driver *d, ts_cu_any **kernel);
/* Enqueues it for [lo, hi), which may be empty. */
int ts_band_look(const ts_driver *d, ts_cu_any *kernel, ts_device_ptr lo, ts_device_ptr hi,
                 unsigned char byte, ts_device_ptr wrong);

#endif
