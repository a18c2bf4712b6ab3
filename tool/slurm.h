/* SPDX-License-Identifier: Apache-2.0 */
/* slurm.h - `touchstone judge --slurm`: an array job that judges in shards. */
#ifndef TS_SLURM_H
#define TS_SLURM_H

#include "run.h"

/* Writes DIR/shards, one line per challenge and class among the answers, and DIR/job.sh, which
 * judges a line of it in each array task with the other options of the command line. Returns the
 * exit status. */
int ts_judge_slurm(ts_run *c, const char *dir, const char *const *given, int argc, char **argv);

#endif
