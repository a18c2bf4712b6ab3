/* SPDX-License-Identifier: Apache-2.0 */
/* fact_inside.h - a trial of a device guarantee: one process acts as the keeper and loads the
 * driver; workers, forked before that, act as entrants. */
#ifndef TS_FACT_INSIDE_H
#define TS_FACT_INSIDE_H

#include <sys/types.h>

#include "cage.h"
#include "driver.h"

enum { TS_FACT_SAID = 4, TS_FACT_WORKERS = 12 };
enum { TS_TOUCH_READ, TS_TOUCH_WRITE, TS_TOUCH_ADD, TS_TOUCH_NOTHING }; /* ts_touch's `how` */

/* Shared by the judge, the trial and its workers. */
typedef struct ts_fact_page {
    int          n;
    ts_guarantee said[TS_FACT_SAID];
    char         broken[160]; /* why a process failed */
    struct {
        int code, after; /* driver codes of the attempt, and of a check after it */
        int value[2];
    } worker[TS_FACT_WORKERS];
    int turn, taken; /* rounds that the trial has begun, and the worker has ended */
} ts_fact_page;

typedef struct ts_trial {
    ts_fact_page    *page;
    const ts_driver *d;
    ts_cu_any       *module, *touch, *spin; /* judge/gpu/fact_ptx.c */
    size_t           granule;
    struct {
        pid_t pid;
        int   fd;
    } worker[TS_FACT_WORKERS];
} ts_trial;

typedef void ts_trial_fn(ts_trial *t);
typedef void ts_worker_fn(ts_trial *t, int number, uint64_t handle);

ts_trial_fn ts_trial_guards, ts_trial_kill, ts_trial_head_start; /* fact_pair.c */
ts_trial_fn ts_trial_clock, ts_trial_l2, ts_trial_cubin;         /* fact_alone.c */

/* ---- fact_life.c ---- */

void ts_trial_say(ts_trial *t, const char *name, bool held, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void ts_trial_must(ts_trial *t, int code, const char *what); /* on error the process ends */

/* Forks workers; call it before opening the driver. Each waits for memory, without mapping it, and
 * calls `life`. */
void ts_trial_hire(ts_trial *t, int n, ts_worker_fn *life);
void ts_trial_open(ts_trial *t);
void ts_trial_give(ts_trial *t, int number, int fd); /* sends memory as a descriptor */
bool ts_trial_ended(ts_trial *t, int number);        /* false if it had to be killed */

ts_cu_any *ts_trial_kernel(ts_trial *t, const char *name);
int        ts_trial_touch(ts_trial *t, ts_device_ptr p, unsigned how);
int        ts_trial_spin(ts_trial *t, ts_device_ptr beat, uint64_t ns, ts_cu_any *stream);
double     ts_trial_probe(ts_trial *t); /* ns of an empty kernel, from launch to completion */
double     ts_trial_usual(ts_trial *t); /* the minimum of several */

/* One granule, also mapped here, filled with `byte`; *fd: for a worker. */
ts_device_ptr ts_trial_share(ts_trial *t, unsigned char byte, int *fd);
bool          ts_trial_whole(ts_trial *t, ts_device_ptr p, unsigned char byte, size_t n);

#endif
