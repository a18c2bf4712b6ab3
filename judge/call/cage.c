/* SPDX-License-Identifier: Apache-2.0 */
/* cage.c - starts an entrant's process: memory, descriptors, namespaces, cores. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cage_inside.h"
#include "cores.h"
#include "hide.h"
#include "isa_memory.h"
#include "nothing.h"
#include "rng.h"
#include "touchstone/abi.h"

/* Address space of a block; pages cost nothing until they are touched. */
static const size_t REGION_BYTES = (size_t)256 << 30;

enum { FAR_ROWS = 8 }; /* most rows that are mapped one by one */
enum { ABOVE = 64, CHILD_STACK = 64 << 10, OBJECT_MAX = 256 << 20 };
/* In Python the start imports modules: PyTorch, read from disk for the first time, takes 20 s. */
enum { START_LIMIT_MS = 20000, IMPORT_LIMIT_MS = 90000 };

static ts_cage *living;

void ts_cage_stop_rivals(ts_cage *c)
{
    for (ts_cage *other = living; other; other = other->next)
        if (other != c && other->frozen) ts_cage_stop_again(other);
}

uint64_t ts_cage_chance(ts_cage *c, uint64_t n)
{
    return n ? ts_bits(c->key, (int64_t)c->n_drawn++) % n : 0;
}

bool ts_beside(const char *name, char *path, size_t n)
{
    const char *const place[] = { "", "../", "../libexec/touchstone/" };
    char              self[1024];
    const ssize_t     m = readlink("/proc/self/exe", self, sizeof self - 1);
    if (m <= 0) return false;
    self[m] = 0;
    *(strrchr(self, '/') + 1) = 0;
    for (size_t i = 0; i < sizeof place / sizeof *place; i++)
        if (snprintf(path, n, "%s%s%s", self, place[i], name) < (int)n && !access(path, R_OK))
            return true;
    return false;
}

/* ---- cores: the last is the judge's, on a device the one before it the keeper's if there are
 * enough, the others are the entrants' ---- */

enum { CORES_WITH_KEEPER = 4 };

static cpu_set_t before_judging, for_entrants, for_keeper;
static int       n_cages;

static void take_core(ts_cage *c)
{
    cpu_set_t mine;
    int       last = CPU_SETSIZE - 1;
    c->has_core = true;
    if (!n_cages++ && sched_getaffinity(0, sizeof before_judging, &before_judging))
        CPU_ZERO(&before_judging); /* more cores than the set has room for: none is reserved */
    ts_cores_use(&before_judging);
    for_entrants = before_judging;
    c->shares_core = CPU_COUNT(&before_judging) < 2;
    c->n_cores = c->shares_core ? 1 : CPU_COUNT(&before_judging) - 1;
    if (c->shares_core) return;
    while (!CPU_ISSET(last, &before_judging)) last--;
    CPU_CLR(last, &for_entrants);
    for_keeper = before_judging;
    if (ts_on_gpu(c->plan.class) && c->n_cores >= CORES_WITH_KEEPER - 1) {
        int next = last - 1;
        while (!CPU_ISSET(next, &for_entrants)) next--;
        CPU_CLR(next, &for_entrants);
        CPU_ZERO(&for_keeper);
        CPU_SET(next, &for_keeper);
        c->n_cores--;
    }
    /* As many cores as threads, so that extra threads gain nothing. */
    if (!ts_on_gpu(c->plan.class) && c->plan.n_threads < c->n_cores) c->n_cores = c->plan.n_threads;
    for (int i = 0; CPU_COUNT(&for_entrants) > c->n_cores; i++) CPU_CLR(i, &for_entrants);
    c->cores = for_entrants;
    CPU_ZERO(&mine);
    CPU_SET(last, &mine);
    if (sched_setaffinity(0, sizeof mine, &mine)) c->shares_core = true;
}

static void give_core_back(void)
{
    if (!--n_cages) sched_setaffinity(0, sizeof before_judging, &before_judging);
}

/* ---- memory: the same addresses in both processes ---- */

static int memory(const char *name, size_t n)
{
    const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && ftruncate(fd, (off_t)n)) return close(fd), -1;
    return fd;
}

static bool reserve(ts_cage *c)
{
    c->region_bytes = REGION_BYTES;
    for (int i = 0; i < 16; i++) {
        const uint64_t at = ts_isa_lowest + ts_cage_chance(c, ts_isa_range) / (2 << 20) * (2 << 20);
        c->region = mmap((void *)at, c->region_bytes, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (c->region == (void *)at) return true;
        if (c->region != MAP_FAILED) munmap(c->region, c->region_bytes);
    }
    c->region = NULL;
    return false;
}

static void map_span(const ts_cage *c, const ts_arena_buf *a, const unsigned char *lo,
                     const unsigned char *hi, ts_call_plan *p)
{
    p->map[p->n_maps++] = (ts_map) { (uint64_t)lo, (uint64_t)(hi - lo), (uint64_t)(lo - c->region),
                                     a->b.role != TS_IN, !ts_arena_far(a) };
}

/* Gaps between distant rows are not mapped: the entrant can neither use nor fill them. */
static void map(const ts_cage *c, const ts_arena_buf *a, ts_call_plan *p)
{
    const uintptr_t      page = ts_page();
    const unsigned char *from = a->lo;
    unsigned char       *lo, *hi;
    const bool           apart =
        ts_arena_far(a) && a->b.n_rows <= FAR_ROWS && p->n_maps < TS_CALL_MAPS / 2; /* room */
    for (int64_t r = 0; apart && r + 1 < a->b.n_rows; r++) {
        ts_arena_gap(a, r, &lo, &hi);
        const uintptr_t end = ((uintptr_t)lo + page - 1) / page * page;
        const uintptr_t next = (uintptr_t)hi / page * page;
        if (end >= next) continue;
        map_span(c, a, from, (unsigned char *)end, p);
        from = (unsigned char *)next;
    }
    map_span(c, a, from, a->hi, p);
}

static void describe(const ts_cage *c, const ts_slot *s, ts_call_plan *p, ts_call_slot *d,
                     ts_call_shape *shape)
{
    d->n_bufs = (uint32_t)s->arena.n;
    d->dtype = s->c->dtype;
    for (int i = 0; i < TS_MAX_DIMS; i++) d->dim[i] = s->c->dim[i];
    for (int i = 0; i < s->arena.n; i++) {
        const ts_arena_buf *a = &s->arena.buf[i];
        ts_call_buf        *b = &d->buf[i];
        snprintf(b->name, sizeof b->name, "%s", a->b.name);
        b->role = a->b.role;
        b->dtype = a->b.dtype;
        b->n_rows = a->b.n_rows, b->n_cols = a->b.n_cols, b->row_stride = a->b.row_stride;
        shape[i].n_axes = ts_task_shape(c->plan.task, s->c, &a->b, shape[i].extent);
        b->offset = (uint64_t)(a->p - c->region);
        b->n_bytes = a->n_bytes;
        if (!ts_arena_far(a) && a->b.role == TS_IN)
            memset(a->p, 0, a->n_bytes); /* do not reveal the family */
        map(c, a, p);
    }
}

static void tell_scalars(const ts_task *t, const ts_arena *m, ts_call_slot *d)
{
    d->n_scalars = (uint32_t)m->n_scalars;
    d->integers = 0;
    for (int i = 0; i < m->n_scalars; i++) {
        d->integers |= (uint32_t)ts_task_number(t, m->scalar[i].name)->integer << i;
        snprintf(d->scalar[i].name, TS_CALL_NAME, "%s", m->scalar[i].name);
        d->scalar[i].value = m->scalar[i].value;
    }
}

/* With a seed that the entrant may know. */
static void fill_slot(ts_cage *c, int i)
{
    ts_arena_setup(&c->slot[i].arena, c->plan.task, c->slot[i].c, 1, c->slot[i].args);
}

static void fill_set(int i, void *cage)
{
    fill_slot(cage, i + 1);
}

/* Lays out every slot. Sets of one timed case have the same size, and are filled together: drawing
 * 100 MB takes a second. */
static void lay_slots(ts_cage *c, ts_call_plan *p)
{
    const int n = c->plan.n_slots;
    bool      sets = c->plan.aligned;
    for (int i = 1; i < n; i++) sets &= c->plan.slot[i] == c->plan.slot[0];
    for (int i = 0; i < n; i++) {
        ts_slot *s = &c->slot[i];
        s->c = c->plan.slot[i];
        c->used += ts_page() * ts_cage_chance(c, 16);
        ts_arena_open_in(&s->arena, c->region, c->region + c->used, c->region_bytes - c->used,
                         c->in_fd, c->out_fd);
        s->arena.aligned = c->plan.aligned;
        s->arena.layout = ts_layout_of(s->c, c->plan.seed[i]);
        if (!i || !sets) fill_slot(c, i);
        c->used += c->slot[sets ? 0 : i].arena.used;
    }
    if (sets) ts_on_all_cores(n - 1, fill_set, c);
    for (int i = 0; i < n; i++) {
        describe(c, &c->slot[i], p, &p->slot[i], c->control->shape[i]);
        tell_scalars(c->plan.task, &c->slot[i].arena, &p->slot[i]);
    }
}

/* The largest workspace allowed, between bands and guards; in front a page of band, at least. */
static bool lay_workspace(ts_cage *c, ts_call_plan *p)
{
    const size_t n = (c->plan.workspace_bytes + 3 * ts_page() - 1) / ts_page() * ts_page();
    c->workspace_lo = c->region + c->used + TS_GUARD_BYTES;
    c->workspace_hi = c->workspace_lo + n;
    c->used += n + 2 * TS_GUARD_BYTES;
    const off_t offset = c->workspace_lo - c->region;
    p->map[p->n_maps++] = (ts_map) { (uint64_t)c->workspace_lo, n, (uint64_t)offset, 1, 1 };
    return mmap(c->workspace_lo, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, c->out_fd,
                offset) != MAP_FAILED;
}

/* From here on no process can map the inputs writable or shrink the files. */
static bool seal_memory(ts_cage *c)
{
    const int size = F_SEAL_SHRINK | F_SEAL_GROW;
    munmap(c->region + c->used, c->region_bytes - c->used);
    c->region_bytes = c->used;
    if (ftruncate(c->in_fd, (off_t)c->used) || ftruncate(c->out_fd, (off_t)c->used)) return false;
    return !fcntl(c->in_fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | size | F_SEAL_SEAL) &&
           !fcntl(c->out_fd, F_ADD_SEALS, size | F_SEAL_SEAL) &&
           !fcntl(c->control_fd, F_ADD_SEALS, size | F_SEAL_SEAL);
}

/* A sealed copy: it cannot be modified, and another user can open it without a path. */
static int copy_object(const char *path)
{
    struct stat st;
    const int   from = open(path, O_RDONLY | O_CLOEXEC), to = memory("object", 0);
    bool        ok = from >= 0 && to >= 0 && !fstat(from, &st) && st.st_size <= OBJECT_MAX;
    char        part[16384];
    for (ssize_t n = 1; ok && n > 0;) {
        n = read(from, part, sizeof part);
        ok = n >= 0 && write(to, part, (size_t)n) == n;
    }
    if (from >= 0) close(from);
    if (ok && !lseek(to, 0, SEEK_SET) &&
        !fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        return to;
    if (to >= 0) close(to);
    return -1;
}

/* ---- start ---- */

enum { HANDED = TS_FD_BUFFERS + 1 };

typedef struct birth {
    const char *path;
    bool        gpu, owns_user; /* the latter: it has a user namespace */
    int         fd[HANDED];     /* will be descriptor i */
    const char *failed;         /* NULL: it was executed */
} birth;

/* In a user namespace of its own a process has every right, and exec takes them from a user that is
 * not its root. The cage needs one, to mount; it gives that up before the entrant's code. */
static void keep_right_to_mount(void)
{
    struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct   d[2];
    if (syscall(SYS_capget, &h, d)) return;
    d[0].inheritable |= 1u << CAP_SYS_ADMIN;
    if (!syscall(SYS_capset, &h, d))
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0);
}

/* Runs in the child, which shares the judge's memory until exec. */
static int be_born(void *arg)
{
    birth      *b = arg;
    char *const argv[] = { "touchstone-cage", NULL };
    /* On a device: load whole modules before the first call, and pass on the choice of driver. */
    static char driver[1200];
    const char *asked = b->gpu ? getenv("TOUCHSTONE_LIBCUDA") : NULL;
    char       *env[] = { "PATH=/usr/bin:/bin", "LANG=C.UTF-8",
                    b->gpu ? "CUDA_MODULE_LOADING=EAGER" : NULL, asked ? driver : NULL, NULL };
    if (asked) snprintf(driver, sizeof driver, "TOUCHSTONE_LIBCUDA=%s", asked);
    /* Without this it would have the judge's core only, and compete with it. */
    if (CPU_COUNT(&for_entrants) && sched_setaffinity(0, sizeof for_entrants, &for_entrants))
        b->failed = "the entrants' cores are not available any more";
    for (int i = 0; i < HANDED; i++) {
        if (b->fd[i] < 0) close(i); /* a descriptor that the judge inherited */
        else if (dup2(b->fd[i], i) < 0) b->failed = "no descriptors available";
    }
    if (b->failed) _exit(1);
    if (b->owns_user) keep_right_to_mount(); /* else the cage says what it could not do */
    execve(b->path, argv, env);
    b->failed = "touchstone-cage cannot be executed";
    _exit(1);
}

/* A sealed entrant has no system call to reach a network or a file; other classes get an empty
 * network and mount namespace, and start more slowly. Returns NULL, or why there is no process. */
static const char *spawn(ts_cage *c, const char *path, int null, int signal, int err, int buffers)
{
    const bool sealed = c->plan.class == TS_SEALED, root = geteuid() == 0;
    const int  apart = CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
                      (sealed ? 0 : CLONE_NEWNET | CLONE_NEWNS) | (root ? 0 : CLONE_NEWUSER);
    const int flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
    char     *stack = malloc(CHILD_STACK);
    if (!stack) return "out of memory";
    const bool gpu = ts_on_gpu(c->plan.class); /* does not see the host's buffers */
    birth      b = { path,
                     gpu,
                     !root,
                     { null, null, err, c->control_fd, gpu ? -1 : c->in_fd, gpu ? -1 : c->out_fd,
                       c->object_fd, signal, signal, c->runner_fd, buffers },
                     NULL };
    for (int i = 0; i < HANDED; i++) /* duplicated above the target numbers */
        if (b.fd[i] >= 0 && (b.fd[i] = fcntl(b.fd[i], F_DUPFD_CLOEXEC, ABOVE)) < 0)
            b.failed = "too few descriptors; raise the limit (ulimit -n) to 256";
    const uint32_t unsafe = c->plan.unsafe ? TS_BORN_UNSAFE : 0;
    c->control->plan.birth = TS_BORN_APART | unsafe;
    if (!b.failed) c->pid = clone(be_born, stack + CHILD_STACK, flags | apart, &b);
    if (!b.failed && c->pid < 0) {
        c->control->plan.birth = unsafe;
        b.owns_user = false;
        c->pid = clone(be_born, stack + CHILD_STACK, flags, &b);
    }
    if (c->pid < 0) c->pid = 0, b.failed = "touchstone-cage cannot be started";
    for (int i = 0; i < HANDED; i++)
        if (b.fd[i] >= 0) close(b.fd[i]);
    free(stack);
    return b.failed;
}

static bool keep_memory(ts_cage *c, int give)
{
    for (int i = 0; i < c->plan.n_slots; i++) c->kept[i] = &c->slot[i].arena;
    const size_t n = c->plan.workspace_bytes + TS_WORKSPACE_ALIGN;
    snprintf(c->control->nothing, sizeof c->control->nothing, "%s",
             c->plan.idle ? ts_pause_ptx : ts_nothing_ptx);
    return (c->keeper = ts_keeper_start(c->kept, c->plan.n_slots, n, give, &for_keeper));
}

/* The script player as a library, if the challenge has a script and the entrant is Python. */
static int player_for(const ts_cage *c)
{
    char path[1024];
    if (!ts_in_python(c->plan.class) || ts_on_gpu(c->plan.class)) return -1;
    if (c->plan.task->kind != TS_SCRIPT) return -1;
    return ts_beside("touchstone-player.so", path, sizeof path) ? copy_object(path) : -1;
}

/* NULL, or why there is no process. */
static const char *bear(ts_cage *c)
{
    char        path[1024];
    int         signal[2] = { -1, -1 }, err[2] = { -1, -1 }, given[2] = { -1, -1 };
    const bool  rung = ts_by_bytes(c->plan.class), gpu = ts_on_gpu(c->plan.class);
    const int   null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *failed = "touchstone-cage cannot be started";
    if (null >= 0 &&
        !pipe2(err, O_CLOEXEC | O_NONBLOCK) && /* a flood of output blocks neither side */
        (!rung || !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, signal)) &&
        (!gpu || !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, given)) &&
        ts_beside("touchstone-cage", path, sizeof path) && (!gpu || keep_memory(c, given[0]))) {
        if (!gpu) given[1] = player_for(c);
        failed = spawn(c, path, null, signal[1], err[1], given[1]);
    }
    const int ends[] = { null, signal[1], err[1], given[0], given[1] };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends[i] >= 0) close(ends[i]);
    c->signal_fd = signal[0], c->err_fd = err[0];
    return failed;
}

/* The name of the Python file in its folder. */
static const char *file_of(const ts_cage_plan *p)
{
    const size_t n = p->folder ? strlen(p->folder) : 0;
    const bool   inside = n && !strncmp(p->object, p->folder, n) && p->object[n] == '/';
    return inside ? p->object + n + 1 : "entrant.py";
}

static void write_plan(ts_cage *c, ts_call_plan *p)
{
    const ts_cage_plan *from = &c->plan;
    p->class = from->class;
    p->n_threads = from->n_threads > 0 ? (uint32_t)from->n_threads : 1;
    p->n_slots = (uint32_t)from->n_slots;
    p->region = (uint64_t)c->region;
    p->region_bytes = c->region_bytes;
    p->memory_bytes = from->memory_bytes;
    p->uid = geteuid(), p->gid = getegid();
    p->spin = c->spin = !c->shares_core && (int)p->n_threads <= c->n_cores;
    c->control->abi = ts_abi_hash(ts_abi_fields, TS_ABI_FIELDS);
    c->control->script = !from->idle && from->task->kind == TS_SCRIPT;
    if (!from->idle) {
        snprintf(p->symbol, sizeof p->symbol, "ts_%s", from->task->name);
        snprintf(p->task, sizeof p->task, "%s", from->task->name);
    }
    if (ts_in_python(from->class)) snprintf(p->symbol, sizeof p->symbol, "%s", file_of(from));
    for (int i = 0; i < TS_MAX_DIMS; i++)
        if (from->task->dim_name[i])
            snprintf(p->dim_name[i], TS_CALL_NAME, "%s", from->task->dim_name[i]);
    for (int i = 0; from->task->buffer[i].name; i++)
        snprintf(p->buffer[i], TS_CALL_NAME, "%s", from->task->buffer[i].name);
    snprintf(p->folder, sizeof p->folder, "%s", from->folder ? from->folder : "");
    snprintf(p->python, sizeof p->python, "%s", from->python ? from->python : "");
}

static const char *prepare(ts_cage *c)
{
    if (c->plan.n_slots < 1 || c->plan.n_slots > TS_MAX_SLOTS ||
        c->plan.task->args_bytes > TS_CALL_ARGS)
        return "block with no slots, too many slots, or too large arguments";
    if (getrandom(&c->key, sizeof c->key, 0) != sizeof c->key) return "no random numbers available";
    c->control_fd = memory("control", sizeof *c->control);
    c->in_fd = memory("inputs", REGION_BYTES);
    c->out_fd = memory("outputs", REGION_BYTES);
    if (c->control_fd < 0 || c->in_fd < 0 || c->out_fd < 0 || !reserve(c))
        return "no shared memory available";
    c->control =
        mmap(NULL, sizeof *c->control, PROT_READ | PROT_WRITE, MAP_SHARED, c->control_fd, 0);
    if (c->control == MAP_FAILED) return "no shared memory available";
    ts_call_plan *p = &c->control->plan;
    lay_slots(c, p);
    if (!lay_workspace(c, p) || !seal_memory(c)) return "no sealable memory available";
    take_core(c);
    write_plan(c, p);
    const bool sealed = c->plan.class == TS_SEALED || c->plan.class == TS_GPU_SEALED;
    if (!sealed && !ts_hide_list(p->python, c->control->hidden))
        return "more files of touchstone are installed than can be hidden from an entrant";
    c->object_fd = copy_object(c->plan.object);
    if (c->object_fd < 0) return "the object cannot be read";
    if (c->plan.runner) c->runner_fd = copy_object(c->plan.runner);
    if (c->plan.runner && c->runner_fd < 0) return "the runner, or the launch plan, cannot be read";
    if (prctl(PR_SET_DUMPABLE, 0)) return "other processes could attach to the judge";
    return bear(c);
}

/* The last line of its output, where programs report errors. */
static const char *last_line(char *said)
{
    size_t n = strlen(said);
    while (n && (said[n - 1] == '\n' || said[n - 1] == ' ')) said[--n] = 0;
    const char *line = strrchr(said, '\n');
    return line ? line + 1 : said;
}

/* Why a process did not become ready: its own message, or how it ended. */
static void say_why(ts_cage *c, int came, char *why, size_t n)
{
    /* The process may blame the judge only if none of its code can have run yet. */
    const bool        none = c->plan.class == TS_SEALED || c->plan.class == TS_GPU_SEALED;
    const char *const ours = none ? "error" : "protocol";
    const char *const reason[] = { "protocol", ours, "symbol", "missing", "size" };
    const uint32_t    stop = c->control->error.reason;
    char              text[sizeof c->control->error.text];
    ts_call           r;
    memcpy(text, c->control->error.text, sizeof text);
    text[sizeof text - 1] = 0;
    ts_cage_end(c, came, &r);
    /* Until it is ready, no code of a sealed entrant runs. */
    if (r.end == TS_END_HANG && c->plan.class == TS_SEALED) r.end = TS_END_BUSY;
    if (stop && stop < 5 && r.end == TS_END_EXIT && !c->killed)
        snprintf(why, n, "%s: %s", reason[stop], text);
    else snprintf(why, n, "%s: %s; %.160s", ts_call_reason(&r), r.text, last_line(r.stderr_tail));
}

/* It reads files, so a thread that waits for a disk waits for the machine. */
static int await_start(ts_cage *c)
{
    ts_watch w = ts_watch_from(ts_now_ns(), ts_cage_cpu_ns(c), "RD");
    if (ts_in_python(c->plan.class)) return ts_cage_await_byte(c, 0, IMPORT_LIMIT_MS, &w);
    return ts_cage_await(c, &c->control->ready, UINT32_MAX, 0, START_LIMIT_MS * 1e6, &w);
}

ts_cage *ts_cage_start(const ts_cage_plan *p, char *why, size_t n)
{
    ts_cage *c = calloc(1, sizeof *c);
    if (!c) abort();
    c->plan = *p;
    c->next = living;
    living = c;
    c->control_fd = c->in_fd = c->out_fd = c->object_fd = c->runner_fd = c->signal_fd = c->err_fd =
        -1;
    char        text[160];
    const char *failed = prepare(c);
    if (failed) {
        snprintf(why, n, "error: %s", failed);
        ts_cage_stop(&c);
        return NULL;
    }
    if (c->keeper && !ts_keeper_ready(c->keeper, &c->n_free, text, sizeof text)) {
        if (*text) snprintf(why, n, "error: the device's memory: %s", text);
        else say_why(c, TS_WORD_DEAD, why, n); /* the entrant did not accept the keeper's buffers */
        ts_cage_stop(&c);
        return NULL;
    }
    int came = await_start(c);
    if (came == TS_WORD_CAME && !ts_cage_freeze(c)) came = TS_WORD_DEAD;
    if (came != TS_WORD_CAME) {
        say_why(c, came, why, n);
        ts_cage_stop(&c);
        return NULL;
    }
    c->held = c->control->error.held;
    if (c->keeper && !ts_gpu_weigh(c, text, sizeof text)) {
        snprintf(why, n, "memory: %s", text);
        ts_cage_stop(&c);
    }
    return c;
}

void ts_cage_stop(ts_cage **at)
{
    ts_cage *c = *at;
    if (!c) return;
    ts_cage **link = &living;
    while (*link && *link != c) link = &(*link)->next;
    if (*link) *link = c->next;
    ts_cage_kill(c);
    ts_keeper_stop(&c->keeper);
    if (c->control && c->control != MAP_FAILED) munmap(c->control, sizeof *c->control);
    if (c->region) munmap(c->region, c->region_bytes);
    for (int i = 0; i < c->plan.n_slots && i < TS_MAX_SLOTS; i++) ts_arena_clear(&c->slot[i].arena);
    const int fd[] = { c->control_fd, c->in_fd,     c->out_fd, c->object_fd,
                       c->runner_fd,  c->signal_fd, c->err_fd };
    for (size_t i = 0; i < sizeof fd / sizeof *fd; i++)
        if (fd[i] >= 0) close(fd[i]);
    if (c->has_core) give_core_back();
    free(c);
    *at = NULL;
}

const void *ts_cage_fill(ts_cage *c, int slot, uint64_t seed)
{
    ts_slot *s = &c->slot[slot];
    ts_arena_setup(&s->arena, c->plan.task, s->c, seed, s->args);
    tell_scalars(c->plan.task, &s->arena, &c->control->plan.slot[slot]);
    s->fresh = true;
    return s->args;
}

void ts_cage_fill_like(ts_cage *c, int slot, const ts_case *of, const ts_arena *from)
{
    ts_slot      *s = &c->slot[slot];
    ts_call_slot *d = &c->control->plan.slot[slot];
    ts_arena_copy(&s->arena, from, c->plan.task->args_bytes, s->args);
    tell_scalars(c->plan.task, &s->arena, d);
    for (int i = 0; i < TS_MAX_DIMS; i++) d->dim[i] = of->dim[i]; /* some are not extents */
    s->fresh = true;
}

int ts_cage_draw(ts_cage *c, int n)
{
    return (int)ts_cage_chance(c, (uint64_t)n);
}

const void *ts_cage_args(const ts_cage *c, int slot)
{
    return c->slot[slot].args;
}

const ts_arena *ts_cage_arena(const ts_cage *c, int slot)
{
    return &c->slot[slot].arena;
}

unsigned ts_cage_held(const ts_cage *c)
{
    return c->held;
}

bool ts_cage_shares_core(const ts_cage *c)
{
    return c->shares_core;
}
