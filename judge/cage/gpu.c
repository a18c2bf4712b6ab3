/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.c - an entrant on the device. Maps the buffers that the judge's keeper allocated. A sealed
 * entrant is a cubin with a launch plan; any other is called with device pointers and a stream. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"
#include "fact_ptx.h"
#include "nothing.h"
#include "pass.h"
#include "play.h"
#include "process.h"

enum { MAX_IMAGE = 64 << 20, SPIN_NS = 8000 };

static const ts_driver *d;
static ts_cu_any       *stream, *module, *from, *to, *nothing;
static ts_device_ptr    workspace_end;
static ts_cu_any       *spin; /* sealed: ts_spin of fact_ptx.h, and the word that it counts in */
static ts_device_ptr    beat;
static void            *image; /* the cubin */
static ts_launch       *plan;
static double           device_ns; /* of the last call */

/* A device error ends the process: the context is unusable. */
static void must(int code, const char *what)
{
    if (!code) return;
    snprintf(cage_control->error.text, sizeof cage_control->error.text, "%s: %s", what,
             ts_driver_text(d, code));
    cage_control->fault.kind = TS_TRAP_DEVICE;
    cage_control->fault.signal = SIGSEGV;
    _exit(128 + SIGSEGV);
}

/* ---- the keeper's buffers ---- */

static void map_kept(void)
{
    ts_kept what = { .n_left = 1 };
    while (what.n_left) {
        ts_device_ptr p;
        uint64_t      handle;
        int           fd;
        if (!ts_receive(TS_FD_BUFFERS, &fd, &what, sizeof what))
            cage_stop(TS_STOP_SETUP, "received no buffers");
        int code = d->import_fd(&handle, (void *)(intptr_t)fd, 1);
        if (!code) code = ts_driver_place(d, handle, what.n_mapped, (int)what.writable, &p);
        if (code) cage_stop(TS_STOP_SETUP, "cannot map a buffer: %s", ts_driver_text(d, code));
        close(fd);
        if (what.slot < 0) workspace_end = p + what.n_mapped;
        else cage_control->device[what.slot][what.buf] = p + what.offset;
    }
    close(TS_FD_BUFFERS);
}

void cage_gpu_open(bool is_idle)
{
    char why[128];
    d = ts_driver_open(why, sizeof why);
    if (!d) cage_stop(TS_STOP_SETUP, "%s", why);
    map_kept();
    if (fcntl(TS_FD_GO, F_SETFL, O_NONBLOCK)) cage_stop(TS_STOP_SETUP, "cannot wait for go");
    if (ts_nothing_load(d, is_idle ? ts_pause_ptx : ts_nothing_ptx, &nothing) ||
        d->stream_create(&stream, 1 /* non-blocking: does not wait for other streams */) ||
        d->event_create(&from, 0) || d->event_create(&to, 0))
        cage_stop(TS_STOP_SETUP, "cannot create a stream");
}

/* ---- sealed: the plan ---- */

static char *read_all(int fd, size_t *n)
{
    struct stat st;
    if (fstat(fd, &st) || st.st_size > MAX_IMAGE) return NULL;
    char *bytes = malloc((size_t)st.st_size + 1);
    if (!bytes || pread(fd, bytes, (size_t)st.st_size, 0) != st.st_size) return NULL;
    bytes[ *n = (size_t)st.st_size] = 0;
    return bytes;
}

/* Every name that a plan may use. */
static void describe(const ts_call_plan *p, int slot, size_t n_workspace, ts_names *n)
{
    const ts_call_slot *s = &p->slot[slot];
    ts_names_begin(n, s->dtype);
    for (int i = 0; i < TS_CALL_DIMS; i++)
        if (*p->dim_name[i]) /* of this call */
            ts_names_integer(n, p->dim_name[i], cage_control->plan.slot[slot].dim[i]);
    for (uint32_t i = 0; i < s->n_scalars && i < TS_CALL_SCALARS; i++)
        ts_names_real(n, s->scalar[i].name, cage_control->plan.slot[slot].scalar[i].value);
    for (uint32_t i = 0; i < s->n_bufs && i < TS_CALL_BUFS; i++)
        ts_names_buffer(n, s->buf[i].name, cage_control->device[slot][i], s->buf[i].n_rows,
                        s->buf[i].n_cols, s->buf[i].row_stride);
    for (int i = 0; i < TS_CALL_BUFS && *p->buffer[i]; i++) ts_names_absent(n, p->buffer[i]);
    n_workspace = (n_workspace + TS_WORKSPACE_ALIGN - 1) / TS_WORKSPACE_ALIGN * TS_WORKSPACE_ALIGN;
    ts_names_pointer(n, "workspace", n_workspace ? workspace_end - n_workspace : 0);
}

void cage_gpu_load(const ts_call_plan *p)
{
    static ts_names names;
    char            why[160];
    size_t          n = 0;
    image = read_all(TS_FD_OBJECT, &n);
    if (!image) cage_stop(TS_STOP_SIZE, "cannot read the cubin");
    char *text = read_all(TS_FD_RUNNER, &n);
    plan = text ? ts_launch_read(text, n, why, sizeof why) : NULL;
    if (!plan) cage_stop(TS_STOP_SETUP, "launch plan: %s", text ? why : "missing");
    free(text);
    ts_cu_any *facts;
    if (d->module_load(&facts, ts_fact_ptx) || d->module_function(&spin, facts, "ts_spin") ||
        d->alloc(&beat, sizeof(uint64_t)))
        cage_stop(TS_STOP_SETUP, "cannot load the judge's own kernel");
    describe(p, 0, 0, &names);
    if (!ts_launch_knows(plan, &names.env, why, sizeof why))
        cage_stop(TS_STOP_SYMBOL, "launch plan: %s", why);
    cage_gpu_arm();
}

/* The cubin is loaded again for every call, so that device globals keep nothing from the last one.
 */
void cage_gpu_arm(void)
{
    if (module) must(d->module_unload(module), "unloading");
    if (image) {
        const int code = d->module_load(&module, image);
        if (code)
            cage_stop(TS_STOP_SYMBOL, "the cubin cannot be loaded: %s", ts_driver_text(d, code));
    }
    must(d->reset_l2(), "resetting the cache");
    must(d->sync(), "before the call");
}

/* The driver does not check the number of arguments. */
static bool fits(ts_cu_any *f, const ts_step *s)
{
    size_t offset, n_bytes;
    for (int i = 0; i < s->n_args; i++)
        if (d->param_info(f, (size_t)i, &offset, &n_bytes) || n_bytes != s->arg_bytes[i])
            return false;
    return d->param_info(f, (size_t)s->n_args, &offset, &n_bytes) != 0;
}

static ts_status complain(const char *format, const char *what)
{
    fprintf(stderr, format, what);
    fflush(stderr);
    return TS_E_ARG;
}

/* The launches of a call, evaluated before its clock starts: evaluating a plan takes longer than
 * some kernels. */
static struct planned {
    ts_cu_any *f;
    ts_step    s;
} planned[TS_LAUNCH_STEPS];
static int n_planned;

static ts_status plan_step(const ts_launch_env *e, int i, bool *applied)
{
    ts_step    *s = &planned[n_planned].s;
    ts_cu_any **f = &planned[n_planned].f;
    char        why[160];
    if (!ts_launch_step(plan, i, e, s, why, sizeof why)) return complain("launch plan: %s\n", why);
    *applied |= s->applies;
    if (s->applies && d->module_function(f, module, s->kernel)) return TS_E_UNSUPPORTED;
    if (!s->applies || s->empty) return TS_OK;
    if (!fits(*f, s)) return complain("%s: parameters differ from the launch plan\n", s->kernel);
    n_planned++;
    return TS_OK;
}

/* The plan's steps for one slot. */
static ts_status plan_slot(const ts_call_plan *p, int slot, const ts_exec *x)
{
    static ts_names names;
    bool            applied = false;
    ts_status       status = TS_OK;
    describe(p, slot, x->workspace_bytes, &names);
    for (int i = 0; i < ts_launch_steps(plan) && !status; i++)
        status = plan_step(&names.env, i, &applied);
    return status || applied ? status : TS_E_UNSUPPORTED;
}

/* Keeps the device busy until everything is enqueued, so that launch overhead is not timed. */
static void hold(uint64_t ns)
{
    void *params[] = { &beat, &ns };
    must(d->launch(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL), "holding");
}

ts_status cage_gpu_launch(const ts_call_plan *p, int slot, const ts_exec *x)
{
    float ms = 0;
    n_planned = 0;
    const ts_status status = plan_slot(p, slot, x);
    hold(SPIN_NS * (uint64_t)(n_planned + 1));
    must(d->event_record(from, stream), "clock");
    for (int i = 0; i < n_planned && !status; i++)
        must(ts_step_play(d, planned[i].f, &planned[i].s, stream), planned[i].s.kernel);
    must(d->event_record(to, stream), "clock");
    must(d->stream_sync(stream), "call");
    must(d->event_elapsed(&ms, from, to), "clock");
    device_ns = 1e6 * (double)ms;
    return status;
}

ts_status cage_gpu_workspace(const ts_call_plan *p, int slot, size_t *n)
{
    static ts_names names;
    char            why[160];
    int64_t         n_bytes = 0;
    describe(p, slot, 0, &names);
    if (!ts_launch_workspace(plan, &names.env, &n_bytes, why, sizeof why))
        return complain("launch plan: %s\n", why);
    *n = (size_t)n_bytes;
    return TS_OK;
}

/* ---- go and done: bytes of a socket ---- */

/* Spins: a sleep would be timed with the call. */
void cage_gpu_await_go(bool spin)
{
    struct pollfd p = { .fd = TS_FD_GO, .events = POLLIN };
    char          byte;
    ssize_t       n;
    while ((n = read(TS_FD_GO, &byte, 1)) < 0 && (errno == EAGAIN || errno == EINTR))
        if (!spin) poll(&p, 1, -1);
    if (n != 1) _exit(0);
}

void cage_gpu_say_done(const ts_call_plan *p)
{
    char said[1 + sizeof device_ns] = "d";
    memcpy(said + 1, &device_ns, sizeof device_ns);
    const size_t n = p->class == TS_GPU_SEALED ? sizeof said : 1;
    if (write(TS_FD_DONE, said, n) != (ssize_t)n) _exit(0);
}

/* ---- host and Python entrants ---- */

/* Makes the device switch to this process while the entrant's host code runs. */
void cage_gpu_turn(void)
{
    must(ts_nothing_launch(d, nothing, stream), "turning to the device");
}

void cage_gpu_exec(ts_exec *x)
{
    const size_t n =
        (x->workspace_bytes + TS_WORKSPACE_ALIGN - 1) / TS_WORKSPACE_ALIGN * TS_WORKSPACE_ALIGN;
    x->stream = stream;
    if (x->workspace) x->workspace = (void *)(uintptr_t)(workspace_end - n);
}

void cage_gpu_finish(void)
{
    must(d->sync(), "call");
}

/* ---- the player of a script: all buffers are in device memory ---- */

static ts_device_ptr there(const void *p)
{
    return (ts_device_ptr)(uintptr_t)p;
}

/* A copy from the host is not in the order of the stream: it waits for what is enqueued, and what
 * comes after it must wait for the copy. The driver rejects some operations on no bytes. */
static int move_in(void *to, const void *from, size_t n)
{
    if (!n) return 0;
    must(d->stream_sync(stream), "a call of the script");
    must(d->copy_in(there(to), from, n), "copying to the device");
    must(d->stream_sync(NULL), "copying to the device");
    return 0;
}

static int move_out(void *to, const void *from, size_t n)
{
    if (!n) return 0;
    must(d->stream_sync(stream), "a call of the script");
    must(d->copy_out(to, there(from), n), "copying from the device");
    return 0;
}

static int move_within(void *to, const void *from, size_t n)
{
    if (!n) return 0;
    must(d->copy_within(there(to), there(from), n, stream), "copying on the device");
    return 0;
}

static int move_fill(void *p, int byte, size_t n)
{
    if (!n) return 0;
    must(d->fill(there(p), (unsigned char)byte, n, stream), "filling");
    return 0;
}

const ts_mover cage_gpu_mover = { move_in, move_out, move_within, move_fill, false };
