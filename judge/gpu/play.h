/* SPDX-License-Identifier: Apache-2.0 */
/* play.h - runs a launch plan: values for its names, and launches of its steps. */
#ifndef TS_GPU_PLAY_H
#define TS_GPU_PLAY_H

#include "driver.h"
#include "launch.h"

enum { TS_ENV_BUFFERS = 16, TS_ENV_TEXT = 48 };

/* An env, with storage for its generated names. */
typedef struct ts_names {
    ts_launch_env env;
    int           n_buffers;
    char          text[TS_ENV_BUFFERS][3][TS_ENV_TEXT];
} ts_names;

void ts_names_begin(ts_names *n, unsigned dtype); /* ts_dtype */
void ts_names_integer(ts_names *n, const char *name, int64_t v);
void ts_names_real(ts_names *n, const char *name, double v);
/* NAME, NAME.rows, NAME.cols and NAME.stride. */
void ts_names_buffer(ts_names *n, const char *name, ts_device_ptr p, int64_t rows, int64_t cols,
                     int64_t stride);
void ts_names_pointer(ts_names *n, const char *name, ts_device_ptr p);
/* A buffer of the task that this call does not have: 0, unless already defined. */
void ts_names_absent(ts_names *n, const char *name);

/* Launches one step that applies and is not empty. Returns the driver's code. */
int ts_step_play(const ts_driver *d, ts_cu_any *f, ts_step *s, ts_cu_any *stream);

#endif
