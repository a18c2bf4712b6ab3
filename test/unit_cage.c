/* SPDX-License-Identifier: Apache-2.0 */
/* unit_cage.c - tests that correct entrants of every class run in the cage, and that hostile ones
 * are caught.
 *
 * An entrant that tries to escape, hangs, crashes or forges is rejected for the expected reason, in
 * bounded time, and the next one is unaffected. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cage_inside.h"
#include "forbid.h"
#include "isa_core.h"
#include "isa_raw.h"
#include "rng.h"
#include "unit_cage.h"

/* Tables of the protocol are filled from the arena's and the task's, and indexed without a check.
 */
#define HOLDS(room, most)                                                                          \
    _Static_assert((int)(room) >= (int)(most), "a case may have more than a slot has room for")
HOLDS(TS_CALL_BUFS, TS_MAX_BUFS);
HOLDS(TS_CALL_BUFS, TS_MAX_NAMES + 1);
HOLDS(TS_CALL_SCALARS, TS_MAX_SCALARS);
HOLDS(TS_CALL_DIMS, TS_MAX_DIMS);
HOLDS(TS_CALL_AXES, TS_MAX_RANK);

TEST(a_right_entrant_passes)
{
    ts_call r;
    for (int class = TS_SEALED; class <= TS_HOST; class ++) {
        assert_true(once((ts_class) class, TS_PROBE_RIGHT, 1, &r));
        assert_string_equal(ts_call_reason(&r), "");
        assert_true(r.ns > 0 && r.ns < 1e9);
        assert_false(r.fp_changed);
    }
    for (int n_threads = 1; n_threads <= 5; n_threads += 2)
        assert_true(once(TS_SEALED, TS_PROBE_PARALLEL, n_threads, &r));
}

TEST(an_idle_answer_is_not_right)
{
    ts_call r;
    assert_false(once(TS_SEALED, TS_PROBE_NOTHING, 1, &r));
    assert_string_equal(ts_call_reason(&r), "");
}

/* What no entrant may do, with the reason; NULL: the system refuses and the entrant lives. */
TEST(attempts_get_their_reason)
{
    static const struct {
        int class, what;
        const char *reason;
    } row[] = {
        { TS_SEALED, TS_PROBE_OPEN, "seal" },
        { TS_SEALED, TS_PROBE_WRITE_FILE, "seal" },
        { TS_SEALED, TS_PROBE_TIME, "seal" },
        { TS_SEALED, TS_PROBE_TSC, "seal" },
        { TS_SEALED, TS_PROBE_SLEEP, "seal" },
        { TS_SEALED, TS_PROBE_SOCKET, "seal" },
        { TS_SEALED, TS_PROBE_FORK, "seal" },
        { TS_SEALED, TS_PROBE_THREAD, "seal" },
        { TS_SEALED, TS_PROBE_EXEC, "seal" },
        { TS_SEALED, TS_PROBE_KILL, "seal" },
        { TS_SEALED, TS_PROBE_PEEK, "seal" },
        { TS_SEALED, TS_PROBE_MEMORY, "seal" },
        { TS_SEALED, TS_PROBE_FLOOD, "seal" },
        { TS_SEALED, TS_PROBE_REMAP_INPUT, "seal" },
        { TS_SEALED, TS_PROBE_WRITE_INPUT, "input" },
        { TS_SEALED, TS_PROBE_READ_PAST, "past" },
        { TS_SEALED, TS_PROBE_READ_BEFORE, "before" },
        { TS_SEALED, TS_PROBE_EXIT, "protocol" },
        { TS_SEALED, TS_PROBE_NULL, "crash" },
        { TS_SEALED, TS_PROBE_DIVIDE, "crash" },
        { TS_SEALED, TS_PROBE_TRAP, "crash" },
        { TS_SEALED, TS_PROBE_DEEP, "crash" },
        { TS_HOST, TS_PROBE_WRITE_INPUT, "input" },
        { TS_HOST, TS_PROBE_READ_PAST, "past" },
        { TS_HOST, TS_PROBE_EXIT, "protocol" },
        { TS_HOST, TS_PROBE_NULL, "crash" },
        { TS_HOST, TS_PROBE_SOCKET, "seal" },
        { TS_HOST, TS_PROBE_FORK, "seal" },
        { TS_HOST, TS_PROBE_EXEC, "seal" },
        { TS_HOST, TS_PROBE_KILL, "seal" },
        { TS_HOST, TS_PROBE_PEEK, "seal" },
        { TS_HOST, TS_PROBE_MEMORY, "memory" },
        { TS_HOST, TS_PROBE_OPEN, NULL },
        { TS_HOST, TS_PROBE_WRITE_FILE, NULL },
        { TS_HOST, TS_PROBE_AFFINITY, NULL },
        { TS_HOST, TS_PROBE_REMAP_INPUT, "seal" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        ts_call r;
        if (row[i].what == TS_PROBE_DIVIDE && !RAW_DIVIDE_TRAPS) continue; /* 7 / 0 is 0 there */
        assert_false(once((ts_class)row[i].class, row[i].what, 1, &r));
        const char *want = row[i].reason ? row[i].reason : "";
        if (strcmp(ts_call_reason(&r), want) || (!row[i].reason && r.status != TS_E_UNSUPPORTED))
            fail_msg("probe %d of class %d: got '%s' (%s, status %d), expected '%s'", row[i].what,
                     row[i].class, ts_call_reason(&r), r.text, r.status, want);
    }
}

/* Reading the outputs also checks the bands. */
TEST(a_step_into_a_band_is_seen)
{
    const int      what[] = { TS_PROBE_WRITE_PAST, TS_PROBE_WRITE_BEFORE };
    const ts_fault fault[] = { TS_FAULT_PAST, TS_FAULT_BEFORE };
    for (int i = 0; i < 2; i++) {
        const ts_case      c = probe_case(what[i], 1000);
        const ts_cage_plan p = plan_for(TS_SEALED, &c, 1);
        ts_cage           *k = ts_cage_start(&p, why, sizeof why);
        ts_call            r;
        ts_flaw            f;
        assert_non_null(k);
        ts_cage_fill(k, 0, 1);
        assert_true(ts_cage_call(k, 0, &r));
        assert_false(ts_arena_intact(ts_cage_arena(k, 0), &f));
        assert_int_equal(f.fault, fault[i]);
        ts_cage_stop(&k);
    }
}

TEST(a_hang_ends)
{
    const ts_case c = probe_case(TS_PROBE_HANG, 10);
    ts_cage_plan  p = plan_for(TS_SEALED, &c, 1);
    ts_call       r;
    p.limit_ms = 200;
    ts_cage *k = ts_cage_start(&p, why, sizeof why);
    assert_non_null(k);
    ts_cage_fill(k, 0, 1);
    assert_false(ts_cage_call(k, 0, &r));
    assert_string_equal(ts_call_reason(&r), "hang");
    assert_true(r.own_ns > 0.2e9 && r.own_ns < 1e9);
    assert_false(ts_cage_call(k, 0, &r)); /* it is not there any more, and says so */
    assert_string_equal(ts_call_reason(&r), "protocol");
    ts_cage_stop(&k);
}

/* A thread of the pool that does not come back. */
TEST(work_outside_of_a_call_is_seen)
{
    ts_call r;
    for (int i = 0; i < 5; i++) {
        once(TS_SEALED, TS_PROBE_LURK, 2, &r);
        assert_string_equal(ts_call_reason(&r), "early");
        assert_true(r.cpu_after_ns > 1e6);
    }
    int late = 0;
    for (int i = 0; i < 20; i++) {
        once(TS_SEALED, TS_PROBE_LATE, 2, &r);
        assert_true(*ts_call_reason(&r));
        late += r.late;
    }
    assert_true(late > 0);
}

/* One that counts its calls is not forgiven because the process that confirms it makes fewer, or
 * holds others. Its thread does not come back: unless it is seen at once, the next call hangs. */
TEST(work_from_a_later_call_on_is_seen)
{
    const ts_case      c = probe_case(TS_PROBE_LURK_41, 1000);
    const ts_cage_plan p = plan_for(TS_SEALED, &c, 2);
    ts_cage           *k = ts_cage_start(&p, why, sizeof why);
    ts_call            r = { 0 };
    int                n = 0;
    assert_non_null(k);
    k->holds = true;
    while (n < 48 && !*ts_call_reason(&r)) {
        ts_cage_fill(k, 0, (uint64_t)n++);
        ts_cage_call(k, 0, &r);
    }
    ts_cage_stop(&k);
    assert_true(n > 40);
    assert_string_equal(ts_call_reason(&r), "early");
}

/* This one and the next know where the control page is, and write the runner's words into it. */
TEST(done_said_too_early_gains_nothing)
{
    int n_late = 0;
    for (int i = 0; i < 10; i++) {
        const ts_case      c = probe_case(TS_PROBE_FORGE, 400000);
        const ts_cage_plan p = plan_for(TS_SEALED, &c, 1);
        ts_want           *want = calloc(800000, sizeof *want);
        ts_cage           *k = ts_cage_start(&p, why, sizeof why);
        ts_call            r;
        assert_true(k && want);
        const void *args = ts_cage_fill(k, 0, 4);
        ts_task_probe.oracle(&c, args, want);
        if (i % 2) ts_cage_call(k, 0, &r); /* the first is left to rest before it is frozen */
        const bool ok = ts_cage_call(k, 0, &r);
        assert_int_equal(r.end, TS_END_NONE);
        /* Where we had no core at that moment it may have finished, but its time ran on. */
        assert_false(ok && answer_is_right(k, 0, &c, args, want) && r.ns < 20e3);
        n_late += !strcmp(ts_call_reason(&r), "output-late") || ts_cage_shares_core(k);
        ts_cage_stop(&k);
        free(want);
    }
    assert_true(n_late >= 3);
}

/* Sooner or later: on a busy machine it takes more calls to tell it from a correct entrant. Where
 * the judge shares the entrant's core, it is charged, and may not be seen. */
TEST(a_head_start_is_seen)
{
    const ts_case      c = probe_case(TS_PROBE_HEAD_START, 50000);
    const ts_cage_plan p = plan_for(TS_SEALED, &c, 1);
    ts_cage           *k = ts_cage_start(&p, why, sizeof why);
    ts_call            r = { 0 };
    assert_non_null(k);
    const bool shares = ts_cage_shares_core(k);
    for (int i = 0; i < (shares ? 40 : 400) && !r.early; i++) {
        ts_cage_fill(k, 0, (uint64_t)i);
        ts_cage_call(k, 0, &r);
        assert_int_equal(r.end, TS_END_NONE);
        if (shares) assert_true(r.ns >= r.lead_ns - 1e6);
    }
    if (!shares) assert_string_equal(ts_call_reason(&r), "early");
    ts_cage_stop(&k);
}

/* Stops the judge again and again, as a crowded core would, until it is killed. */
static pid_t stop_me_often(void)
{
    const pid_t judge = getpid(), child = fork();
    cpu_set_t   any;
    if (child) return child;
    memset(&any, 0xff, sizeof any); /* on its own core the judge goes first */
    sched_setaffinity(0, sizeof any, &any);
    for (uint64_t i = 0;; i++) {
        kill(judge, SIGSTOP);
        ts_nap(20e6);
        kill(judge, SIGCONT);
        ts_nap(50e3 + 1e3 * (double)(ts_bits(1, (int64_t)i) % 500));
        if (getppid() != judge) _exit(0);
    }
}

/* While the judge is stopped, an entrant that is ready spins until go. One call in some 200 is
 * stopped there. What of the lead the judge did not compute itself, it was away; a lead may be long
 * as well, because the entrant had no core. */
TEST(a_crowded_core_does_not_reject)
{
    const ts_case      c = probe_case(TS_PROBE_RIGHT, 100);
    const ts_cage_plan p = plan_for(TS_SEALED, &c, 1);
    ts_cage           *k = ts_cage_start(&p, why, sizeof why);
    ts_call            r;
    char               wrong[320] = "";
    int                n_away = 0;
    assert_non_null(k);
    const bool  spins = !ts_cage_shares_core(k); /* on one core neither side spins */
    const pid_t child = stop_me_often();
    for (int i = 0; i < 20000 && n_away < 4 && !*wrong; i++) {
        ts_cage_fill(k, 0, (uint64_t)i);
        const double cpu_ns = ts_thread_cpu_ns();
        if (!ts_cage_call(k, 0, &r))
            snprintf(wrong, sizeof wrong, "call %d: %s: %s", i, ts_call_reason(&r), r.text);
        const double unseen = r.lead_ns - r.away_ns - (ts_thread_cpu_ns() - cpu_ns);
        if (spins && !*wrong && (unseen > 10e6 || (r.away_ns > 10e6 && !r.disturbed)))
            snprintf(wrong, sizeof wrong, "call %d: away %.1f ms of %.1f, %sdisturbed", i,
                     r.away_ns / 1e6, r.lead_ns / 1e6, r.disturbed ? "" : "not ");
        n_away += r.lead_ns > 10e6 && (!spins || r.away_ns > 10e6);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    ts_cage_stop(&k);
    assert_string_equal(wrong, "");
    assert_int_equal(n_away, 4);
}

/* A judge that was stopped for a minute does not take that for the entrant's sleep. */
TEST(an_absent_judge_blames_nobody)
{
    const ts_case      c = probe_case(TS_PROBE_RIGHT, 100);
    const ts_cage_plan p = plan_for(TS_SEALED, &c, 1);
    ts_cage           *k = ts_cage_start(&p, why, sizeof why);
    assert_non_null(k);
    ts_watch w = ts_watch_from(ts_now_ns() - 60e9, ts_cage_cpu_ns(k), "R");
    assert_true(ts_watch_own_ns(k, &w) < 1e9);
    w = ts_watch_from(ts_now_ns() - 0.3e9, ts_cage_cpu_ns(k), "R"); /* asleep */
    assert_true(ts_watch_own_ns(k, &w) > 0.2e9);
    ts_cage_stop(&k);
}

static double busy_now(void)
{
    return 1e9;
}

/* Where a correct entrant uses as much CPU time outside its call, this proves nothing; the time is
 * still charged. */
TEST(a_busy_machine_does_not_reject)
{
    const ts_case      c = probe_case(TS_PROBE_HEAD_START, 50000);
    const ts_cage_plan p = plan_for(TS_SEALED, &c, 1);
    ts_guarantees      g;
    ts_call            r = { 0 };
    assert_true(ts_guarantee_all(&g));
    ts_honest busy = g.honest;
    busy.outside_now = busy_now;
    ts_cage_calibrate(&busy);
    ts_cage *k = ts_cage_start(&p, why, sizeof why);
    assert_non_null(k);
    for (int i = 0; i < 24; i++) {
        ts_cage_fill(k, 0, (uint64_t)i);
        assert_true(ts_cage_call(k, 0, &r));
        assert_true(r.ns >= r.lead_ns - 1e6);
    }
    ts_cage_stop(&k);
    ts_cage_calibrate(&g.honest);
    a_head_start_is_seen(NULL);
}

/* Where Linux shares cores among sessions first, a process's priority is its session's. */
static void set_priority(pid_t pid, int nice)
{
    char path[64], text[16];
    snprintf(path, sizeof path, "/proc/%d/autogroup", (int)pid);
    snprintf(text, sizeof text, "%d", nice);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (write(fd, text, strlen(text)) < 0) perror(path);
    close(fd);
}

/* Runs `n` busy processes on the entrant's cores, and leaves it hardly anything of them. */
static void starve(const ts_cage *k, pid_t *other, int n)
{
    const struct sched_param lowest = { 0 };
    assert_int_equal(sched_setscheduler(k->pid, SCHED_IDLE, &lowest), 0);
    set_priority(k->pid, 19);
    for (int i = 0; i < n; i++) {
        if ((other[i] = fork())) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setsid();
        set_priority(getpid(), geteuid() ? 0 : -15);
        sched_setaffinity(0, sizeof k->cores, &k->cores);
        for (;;) ts_isa_pause();
    }
    ts_nap(100e6);
}

static void relieve(pid_t *other, int n)
{
    for (int i = 0; i < n; i++) {
        kill(other[i], SIGKILL);
        waitpid(other[i], NULL, 0);
    }
}

/* Its own time is a few milliseconds, whatever the clock says; and a process that gets no core to
 * stop on is waited for. Repeated until both took long. */
TEST(a_starved_entrant_is_not_blamed)
{
    enum { OTHERS = 2 };
    const ts_case c = probe_case(TS_PROBE_RIGHT, 1000000);
    ts_cage_plan  p = plan_for(TS_SEALED, &c, 1);
    pid_t         other[OTHERS];
    ts_call       r = { 0 };
    double        call_ns = 0, own_ns = 0, freeze_ns = 0;
    bool          ok = true;
    p.limit_ms = 400;
    ts_cage *k = ts_cage_start(&p, why, sizeof why);
    assert_non_null(k);
    if (ts_cage_shares_core(k)) return ts_cage_stop(&k); /* the judge would starve too */
    starve(k, other, OTHERS);
    const double end = ts_now_ns() + 12e9;
    while (ok && ts_now_ns() < end && (call_ns < 800e6 || freeze_ns < 2.2e9)) {
        ts_cage_fill(k, 0, 1);
        ok = ts_cage_call(k, 0, &r);
        call_ns = fmax(call_ns, r.ns), own_ns = fmax(own_ns, r.own_ns);
        ts_cage_thaw(k);
        const double begin = ts_now_ns();
        ok = ok && ts_cage_freeze(k);
        freeze_ns = fmax(freeze_ns, ts_now_ns() - begin);
    }
    relieve(other, OTHERS);
    ts_cage_stop(&k);
    print_message("calls up to %.1f s, its own %.3f s; frozen after up to %.1f s\n", call_ns / 1e9,
                  own_ns / 1e9, freeze_ns / 1e9);
    assert_string_equal(ts_call_reason(&r), "");
    assert_true(ok && own_ns < 400e6);
}

/* A kill by the judge, or from outside, is not the entrant's. */
TEST(a_killed_entrant_is_not_blamed)
{
    const ts_case      c = probe_case(TS_PROBE_HANG, 10);
    const ts_cage_plan p = plan_for(TS_SEALED, &c, 1);
    ts_call            r;
    for (int i = 0; i < 2; i++) {
        ts_cage *k = ts_cage_start(&p, why, sizeof why);
        assert_non_null(k);
        const pid_t judge = getpid(), victim = k->pid, killer = i ? 0 : fork();
        if (!killer && !i) {
            ts_nap(200e6);
            kill(victim, SIGKILL);
            _exit(judge == getppid());
        }
        if (i) ts_cage_kill_as(k, TS_KILLED_BUSY);
        ts_cage_fill(k, 0, 1);
        assert_false(ts_cage_call(k, 0, &r));
        if (killer) waitpid(killer, NULL, 0);
        ts_cage_stop(&k);
        assert_int_equal(r.end, TS_END_BUSY);
        assert_string_equal(ts_call_reason(&r), "busy");
    }
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The lower quartile, as in a timed workload: what else runs only ever adds time. */
static double quartile_ns(int what)
{
    const ts_case      c = probe_case(what, 50000);
    const ts_cage_plan p = plan_for(TS_HOST, &c, 1);
    ts_cage           *k = ts_cage_start(&p, why, sizeof why);
    double             ns[21];
    ts_call            r;
    assert_non_null(k);
    for (int i = 0; i < 21; i++) {
        ts_cage_fill(k, 0, (uint64_t)i);
        assert_true(ts_cage_call(k, 0, &r));
        ns[i] = r.ns;
    }
    ts_cage_stop(&k);
    qsort(ns, 21, sizeof *ns, by_size);
    return ns[5];
}

/* With host code it is not seen, but timed: this one does twenty times the work before go, and the
 * same after it. */
TEST(a_head_start_is_timed)
{
    assert_true(quartile_ns(TS_PROBE_HEAD_START) > 5 * quartile_ns(TS_PROBE_RIGHT));
}

TEST(a_flood_is_lost)
{
    ts_call r;
    once(TS_HOST, TS_PROBE_FLOOD, 1, &r);
    assert_string_equal(ts_call_reason(&r), "");
    assert_int_equal(strlen(r.stderr_tail), sizeof r.stderr_tail - 1);
    assert_int_equal(r.stderr_tail[0], 'x');
}

TEST(a_changed_fp_environment_is_reported)
{
    ts_call       r;
    const ts_case c[] = { probe_case(TS_PROBE_FLUSH, 10), probe_case(TS_PROBE_NOTHING, 10) };
    ts_cage_plan  p = plan_for(TS_SEALED, c, 1);
    p.n_slots = 2;
    p.slot[1] = &c[1];
    ts_cage *k = ts_cage_start(&p, why, sizeof why);
    assert_non_null(k);
    for (int i = 0; i < 4; i++) { /* and the next call starts with a sound one */
        assert_true(ts_cage_call(k, i % 2, &r));
        assert_int_equal(r.fp_changed, i % 2 == 0);
    }
    ts_cage_stop(&k);
}

TEST(the_workspace_is_what_was_asked_for)
{
    static const struct {
        int         what;
        size_t      most; /* the probe asks for 164 bytes */
        const char *query, *call;
    } row[] = { { TS_PROBE_WORKSPACE, 164, "", "" },
                { TS_PROBE_WORKSPACE, 163, "workspace", NULL },
                { TS_PROBE_WORKSPACE_PAST, 1 << 20, "", "past" },
                { TS_PROBE_WORKSPACE_BEFORE, 1 << 20, "", "before" },
                { TS_PROBE_MEMORY, 1 << 20, "workspace", NULL } };
    for (int i = 0; i < 5; i++) {
        const ts_case c = probe_case(row[i].what, 100);
        ts_cage_plan  p = plan_for(TS_SEALED, &c, 1);
        ts_call       r;
        p.workspace_bytes = row[i].most;
        ts_cage *k = ts_cage_start(&p, why, sizeof why);
        assert_non_null(k);
        ts_cage_fill(k, 0, 1);
        ts_cage_workspace(k, 0, &r);
        assert_string_equal(ts_call_reason(&r), row[i].query);
        for (int n = 0; row[i].call && n < 2; n++) {
            ts_cage_call(k, 0, &r);
            assert_string_equal(ts_call_reason(&r), row[i].call);
            assert_int_equal(r.status, TS_OK);
            if (*row[i].call) break;
        }
        ts_cage_stop(&k);
    }
}

TEST(another_core_is_found_or_there_is_none)
{
    cpu_set_t may;
    CPU_ZERO(&may);
    assert_int_equal(ts_core_after(0, 0, &may), -1);
    CPU_SET(3, &may);
    assert_int_equal(ts_core_after(3, 3, &may), -1);
    assert_int_equal(ts_core_after(3, 0, &may), 3);
    CPU_SET(CPU_SETSIZE - 1, &may);
    assert_int_equal(ts_core_after(3, 3, &may), CPU_SETSIZE - 1);
    assert_int_equal(ts_core_after(CPU_SETSIZE - 1, 0, &may), 3);
}

/* Steps that every machine can do must be done: without one, no entrant runs. */
TEST(a_step_that_fails_is_named)
{
    static const char *const step[][2] = { { "limits", "resource limits" },
                                           { "death", "PR_SET_PDEATHSIG" } };
    for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
        int         status;
        const pid_t pid = fork();
        if (pid == 0) {
            const ts_case c = probe_case(TS_PROBE_RIGHT, 16);
            ts_cage_plan  p = plan_for(TS_SEALED, &c, 1);
            p.unsafe = false;
            if ((status = forbid(step[i][0]))) _exit(status);
            const bool started = ts_cage_start(&p, why, sizeof why);
            const bool said = strstr(why, "error: it cannot be confined here: ") == why &&
                              strstr(why, step[i][1]);
            if (started || !said) print_error("without %s: %s\n", step[i][0], why);
            _exit(started || !said);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status == 77 << 8) skip();
        assert_int_equal(status, 0);
    }
}

TEST(the_machine_is_described)
{
    ts_guarantees g;
    assert_true(ts_guarantee_all(&g));
    printf("badge %s; start %.2f ms, empty call %.0f ns (p95 %.0f), freeze %.0f ns\n", g.badge,
           g.start_ms, g.empty_ns, g.empty_p95_ns, g.freeze_ns);
    for (int i = 0; i < g.n; i++)
        if (!g.g[i].held) printf("not held: %s: %s\n", g.g[i].name, g.g[i].text);
    assert_true(g.honest.outside_ns < 60e3);
    assert_true(g.n > 20 && g.empty_ns > 0 && g.empty_ns <= g.empty_p95_ns);
}

int main(void)
{
    return run_with_probe();
}
