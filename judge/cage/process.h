/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - the entrant's process, from its first instruction to the seal. Only the judge's code
 * runs in it until the entrant is first called; from then on nothing in it is trusted. */
#ifndef TS_PROCESS_H
#define TS_PROCESS_H

#include <stdbool.h>

#include "call.h"
#include "player.h"

extern ts_control *cage_control;

/* Writes the reason to the control page, and exits. */
_Noreturn void cage_stop(int reason, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- loader.c ---- */

/* Maps and relocates the sealed object in fd. Rejects code that would run at load time, and symbols
 * that a sealed entrant must not use. */
void  cage_load(int fd, size_t max_bytes);
void *cage_symbol(const char *name); /* NULL: absent */
void cage_protect(void); /* after the last symbol: sets page protections from the program headers */

/* ---- pool.c ---- */

void cage_pool_start(int n_threads, bool spin);
void cage_pool_arm(void);  /* threads watch for work */
bool cage_pool_rest(void); /* threads go to sleep; true if one found its FP environment changed */
void j_parallel_for(int64_t n, void (*fn)(int64_t i, void *ctx), void *ctx);

/* ---- reach.c, seal.c, filter.c ---- */

enum { CAGE_FOLDERS = 3, CAGE_PATH = 4096 };
int  cage_folders(const ts_call_plan *p, char path[CAGE_FOLDERS][CAGE_PATH]);
bool cage_scratch(const ts_call_plan *p, char path[CAGE_PATH]); /* false: it has none */
bool cage_reach(const ts_call_plan *p); /* false: some folder is not accessible */
/* Its dynamic loader; false: none. */
bool cage_interpreter(const char *program, char path[CAGE_PATH]);
/* Stops the process if a step of the confinement was not done, unless it was born unsafe. */
void cage_must(const ts_call_plan *p, bool done, const char *step);
void cage_become_nobody(const ts_call_plan *p);
void cage_limit(const ts_call_plan *p);
void cage_catch_faults(size_t memory_bytes);
void cage_fault_stack(void); /* for the calling thread */
void cage_landlock(const ts_call_plan *p);
void cage_hide_clock(void);
/* On TS_HELD_*; stops if one is missing. */
void cage_insist(const ts_call_plan *p, unsigned needed);
void cage_seccomp(const ts_call_plan *p);

/* ---- gpu.c ---- */

void      cage_gpu_open(bool is_idle);          /* maps the keeper's buffers */
void      cage_gpu_load(const ts_call_plan *p); /* sealed: the cubin and its launch plan */
void      cage_gpu_arm(void);                   /* before each call */
void      cage_gpu_await_go(bool spin);
void      cage_gpu_say_done(const ts_call_plan *p);
void      cage_gpu_turn(void);       /* makes the device switch to this process */
void      cage_gpu_exec(ts_exec *x); /* stream and workspace of a call */
void      cage_gpu_finish(void);     /* waits until the device is idle */
ts_status cage_gpu_launch(const ts_call_plan *p, int slot, const ts_exec *x);
ts_status cage_gpu_workspace(const ts_call_plan *p, int slot, size_t *n);
extern const ts_mover cage_gpu_mover; /* for a script: in the order of the call's stream */

/* ---- gpu_host.c: buffers of a script that are host memory on a device too ---- */

void cage_host_open(const ts_call_plan *p); /* before the entrant is loaded */
void cage_host_fetch(const ts_call_plan *p, int slot, unsigned char *args);
void cage_host_return(const ts_call_plan *p, int slot);

/* ---- futex, shared between the processes or the threads ---- */

void cage_wait(uint32_t *word, uint32_t while_it_is);
void cage_wake(uint32_t *word);

#endif
