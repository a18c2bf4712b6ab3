/* SPDX-License-Identifier: Apache-2.0 */
/* demo_cage.c - `demo cage`: the memory that a kernel is called with, and what catches each stray
 * access.
 *
 * One layer norm case is laid out as `check` and the judge lay it out. Every access runs in
 * a process of its own, which a bad one kills. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.h"
#include "demo.h"
#include "rng.h"
#include "touchstone/layernorm.h"

enum { ROWS = 3, COLS = 300, STRIDE = 320, N_BUFS = 6, N_TRIALS = 6 };
enum { X, GAMMA, BETA, Y, MEAN, RSTD };

typedef struct trial {
    const char *what;
    int         buf;     /* -1: the kernel itself */
    int64_t     element; /* from the buffer's first one */
    bool        writes;
    ts_fault    fault; /* that must be found */
} trial;

typedef struct found {
    int     signal; /* that killed the process; 0: none */
    ts_flaw flaw;
} found;

static const trial TRIALS[N_TRIALS] = {
    { "ts_layernorm_forward", -1, 0, true, TS_FAULT_NONE },
    { "read past x", X, (ROWS - 1) * STRIDE + COLS, false, TS_FAULT_PAST },
    { "write to gamma", GAMMA, 0, true, TS_FAULT_INPUT },
    { "read before beta", BETA, -1, false, TS_FAULT_BEFORE },
    { "write between rows of y", Y, COLS, true, TS_FAULT_GAP },
    { "write before mean", MEAN, -1, true, TS_FAULT_BEFORE },
};

/* The first layout in which the trials meet what they show. */
static uint64_t choose_layout(void)
{
    static const ts_lay want[N_BUFS] = {
        [X] = TS_LAY_END,    [GAMMA] = TS_LAY_END,   [BETA] = TS_LAY_FRONT,
        [Y] = TS_LAY_INSIDE, [MEAN] = TS_LAY_INSIDE, [RSTD] = TS_LAY_END
    };
    for (uint64_t layout = 0;; layout++) {
        int n = 0;
        while (n < N_BUFS && ts_lay_of(layout, n) == want[n]) n++;
        if (n == N_BUFS) return layout;
    }
}

static void lay_out(ts_arena *m, ts_layernorm_forward_args *a, uint64_t seed)
{
    const ts_buf buf[N_BUFS] = {
        { "x", TS_IN, TS_F32, ROWS, COLS, STRIDE }, { "gamma", TS_IN, TS_F32, 1, COLS, COLS },
        { "beta", TS_IN, TS_F32, 1, COLS, COLS },   { "y", TS_OUT, TS_F32, ROWS, COLS, STRIDE },
        { "mean", TS_OUT, TS_F32, 1, ROWS, ROWS },  { "rstd", TS_OUT, TS_F32, 1, ROWS, ROWS },
    };
    void *slot[N_BUFS] = { &a->x, &a->gamma, &a->beta, &a->y, &a->mean, &a->rstd };
    *a = (ts_layernorm_forward_args) { .dtype = TS_F32, .n_rows = ROWS, .n_cols = COLS };
    a->row_stride = STRIDE, a->eps = 1e-5;
    ts_arena_begin(m, a);
    m->layout = choose_layout();
    for (int i = 0; i < N_BUFS; i++) {
        float *p = ts_take(m, slot[i], buf[i]);
        for (int64_t r = 0; buf[i].role == TS_IN && r < buf[i].n_rows; r++)
            for (int64_t k = 0; k < buf[i].n_cols; k++)
                p[r * buf[i].row_stride + k] = (float)ts_normal(seed + (uint64_t)i, r * COLS + k);
    }
    ts_arena_end(m);
}

/* ---- one access in a process of its own ---- */

static int report_fd;

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    const ssize_t wrote = write(report_fd, &info->si_addr, sizeof info->si_addr);
    signal(number, SIG_DFL); /* the access is repeated, and kills the process */
    if (wrote < 0) _exit(1);
}

static void touch(const ts_arena *m, const trial *t, const ts_layernorm_forward_args *a)
{
    const struct sigaction act = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
    sigaction(SIGSEGV, &act, NULL);
    sigaction(SIGBUS, &act, NULL);
    ts_arena_lock(m);
    if (t->buf < 0) {
        char    workspace[1 << 16];
        ts_exec x = { .n_threads = 1, .workspace = workspace, .workspace_bytes = sizeof workspace };
        _exit(ts_layernorm_forward(a, &x) != TS_OK);
    }
    volatile float *p = (float *)(void *)m->buf[t->buf].p + t->element;
    if (t->writes) *p = 1;
    else (void)*p;
    _exit(0);
}

static bool attempt(ts_arena *m, const trial *t, const ts_layernorm_forward_args *a, found *f)
{
    int pipes[2], status;
    if (pipe(pipes)) return false;
    ts_arena_reset(m);
    fflush(NULL);
    const pid_t child = fork();
    if (!child) {
        report_fd = pipes[1];
        touch(m, t, a);
    }
    close(pipes[1]);
    void      *address;
    const bool told = read(pipes[0], &address, sizeof address) == sizeof address;
    close(pipes[0]);
    if (child < 0 || waitpid(child, &status, 0) != child) return false;
    *f = (found) { .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0, .flaw = { .what = "" } };
    if (told) ts_arena_blame(m, (uintptr_t)address, t->writes, &f->flaw);
    else if (!WIFEXITED(status) || WEXITSTATUS(status)) return false;
    else if (ts_arena_intact(m, &f->flaw)) f->flaw.what = "";
    return true;
}

/* ---- the picture ---- */

enum { WIDTH = 860, LEFT = 130, PAGES = 520, GUARD = 62, TOP = 92, ROW = 62, BAR = 20 };

static double place(const ts_arena_buf *b, const unsigned char *at) /* of an address, in pixels */
{
    const double whole = (double)(b->hi - b->lo), k = (double)(at - b->lo) / whole;
    return at < b->lo ? LEFT + GUARD - 8 : LEFT + GUARD + (k > 1 ? 1 : k) * PAGES;
}

static void text(FILE *f, double x, double y, const char *more, const char *s)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, more);
    ts_svg_text(f, s);
    fputs("</text>\n", f);
}

static void bar(FILE *f, double x, double y, double width, const char *colour, double strength)
{
    fprintf(f,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\" "
            "fill-opacity=\"%.2f\"/>\n",
            x, y, width, BAR, colour, strength);
}

static void draw_buffer(FILE *f, const ts_arena_buf *b, double y)
{
    const bool input = b->b.role == TS_IN;
    char       says[160];
    text(f, LEFT - 10, y + 15, "text-anchor=\"end\" font-weight=\"600\"", b->b.name);
    bar(f, LEFT, y, GUARD - 2, "#d55e00", 0.55);
    bar(f, LEFT + GUARD + PAGES + 2, y, GUARD - 2, "#d55e00", 0.55);
    bar(f, LEFT + GUARD, y, PAGES, "#7f7f7f", 0.35);
    const size_t element = b->n_bytes / (size_t)((b->b.n_rows - 1) * b->b.row_stride + b->b.n_cols);
    for (int64_t r = 0; r < b->b.n_rows; r++) {
        const unsigned char *row = b->p + (size_t)(r * b->b.row_stride) * element;
        const double         x = place(b, row), end = place(b, row + (size_t)b->b.n_cols * element);
        bar(f, x, y, end - x, input ? "#0072b2" : "#009e73", 1);
    }
    snprintf(says, sizeof says, "%s, %lld x %lld, %zu bytes in %zu page%s; %s",
             input ? "read-only" : "writable", (long long)b->b.n_rows, (long long)b->b.n_cols,
             b->n_bytes, (size_t)(b->hi - b->lo) / ts_page(),
             (size_t)(b->hi - b->lo) == ts_page() ? "" : "s",
             b->p == b->lo ? "begins at a guard page" : "ends at a guard page");
    text(f, LEFT + GUARD, y + BAR + 14, "font-size=\"11\"", says);
}

/* ---- the call ---- */

enum {
    CALL = 190,
    JUDGE = 58,
    CAGE = 128,
    BOX = 30
}; /* the height of its part, and of its lanes */

static void box(FILE *f, double x, double y, double width, const char *colour, const char *says)
{
    fprintf(f,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"white\" stroke=\"%s\" "
            "stroke-width=\"1.5\"/>\n",
            x, y, width, BOX, colour);
    text(f, x + width / 2, y + 19, "text-anchor=\"middle\" font-size=\"11\"", says);
}

static void arrow(FILE *f, double x, double from, double to, const char *says)
{
    const double tip = to > from ? -7 : 7;
    fprintf(f,
            "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#000000\"/>\n"
            "<path d=\"M%.1f %.1fl-4 %.1fh8z\" fill=\"#000000\"/>\n",
            x, x, from, to, x, to, tip);
    text(f, x + 7, (from + to) / 2 + 4, "font-size=\"11\"", says);
}

/* The order of a judged call, as doc/judge-timing.md describes it; not to scale in time. */
static void draw_call(FILE *f, double top)
{
    const double judge = top + JUDGE, cage = top + CAGE, low = judge + BOX;
    text(f, 16, top + 30, "font-size=\"14\" font-weight=\"600\"",
         "The two processes during a call: the entrant runs only between thaw and freeze");
    text(f, 62, judge + 19, "text-anchor=\"end\" font-weight=\"600\"", "judge");
    text(f, 62, cage + 19, "text-anchor=\"end\" font-weight=\"600\"", "cage");
    box(f, 74, judge, 190, "#0072b2", "draws inputs, hides some lines");
    box(f, 330, judge, 130, "#0072b2", "writes hidden lines");
    box(f, 470, judge, 170, "#d55e00", "clock runs from go to done");
    box(f, 700, judge, 144, "#0072b2", "compares all outputs");
    box(f, 74, cage, 190, "#7f7f7f", "frozen");
    box(f, 270, cage, 80, "#7f7f7f", "wakes up");
    box(f, 470, cage, 170, "#009e73", "the entrant computes");
    box(f, 700, cage, 144, "#7f7f7f", "frozen");
    arrow(f, 264, low, cage, "SIGCONT");
    arrow(f, 345, cage, low, "ready");
    arrow(f, 470, low, cage, "go");
    arrow(f, 640, cage, low, "done");
    arrow(f, 700, low, cage, "SIGSTOP");
}

static bool draw(const ts_arena *m, const found *got, const char *path)
{
    FILE *f = ts_svg_open(path, WIDTH, TOP + N_BUFS * ROW + CALL);
    if (!f) return false;
    text(f, 16, 28, "font-size=\"17\" font-weight=\"600\"",
         "The memory of one call, and what catches a stray access");
    const char *const name[] = { "input", "output", "guard page, unmapped", "band of known bytes" };
    const char *const colour[] = { "#0072b2", "#009e73", "#d55e00", "#7f7f7f" };
    const double      strength[] = { 1, 1, 0.55, 0.35 };
    for (int i = 0; i < 4; i++) {
        bar(f, 16 + 190 * i, 44, 22, colour[i], strength[i]);
        text(f, 46 + 190 * i, 59, "", name[i]);
    }
    for (int i = 0; i < N_BUFS; i++) draw_buffer(f, &m->buf[i], TOP + i * ROW);
    for (int t = 0; t < N_TRIALS; t++) {
        if (TRIALS[t].buf < 0) continue;
        const ts_arena_buf *b = &m->buf[TRIALS[t].buf];
        const double        y = TOP + TRIALS[t].buf * ROW;
        const double        x = place(b, b->p + 4 * TRIALS[t].element) + 3;
        char                says[96];
        fprintf(f, "<path d=\"M%.1f %.1fl-5 -9h10z\" fill=\"#000000\"/>\n", x, y);
        snprintf(says, sizeof says, "%s: %s", TRIALS[t].what,
                 got[t].signal ? strsignal(got[t].signal) : "band changed");
        text(f, x > 500 ? x - 9 : x + 9, y - 3,
             x > 500 ? "text-anchor=\"end\" font-size=\"11\"" : "font-size=\"11\"", says);
    }
    draw_call(f, TOP + N_BUFS * ROW - 10);
    return ts_svg_close(f, path);
}

int ts_demo_cage(const ts_demo_args *a)
{
    ts_arena                  m = { 0 };
    ts_layernorm_forward_args args;
    found                     got[N_TRIALS];
    bool                      passed = true;
    if (!ts_arena_open(&m))
        return ts_complain("cage", "cannot reserve address space"), TS_EXIT_BROKEN;
    lay_out(&m, &args, a->seed);
    ts_json *rows = ts_json_array(a->json, "rows");
    ts_print(a->table,
             "Pages of %zu bytes. Each access runs in a process of its own.\n\n%-26s %-22s %s\n",
             ts_page(), "access", "process", "fault found");
    for (int t = 0; t < N_TRIALS; t++) {
        if (!attempt(&m, &TRIALS[t], &args, &got[t]))
            return ts_fail("cage: the process of '%s' failed", TRIALS[t].what), TS_EXIT_BROKEN;
        const char *ended = got[t].signal ? strsignal(got[t].signal) : "ends normally";
        const char *fault = ts_fault_name(got[t].flaw.fault);
        passed = passed && got[t].flaw.fault == TRIALS[t].fault;
        ts_print(a->table, "%-26s %-22s %s %s\n", TRIALS[t].what, ended, fault, got[t].flaw.what);
        ts_json *o = ts_json_object(rows, NULL);
        ts_json_text(o, "access", TRIALS[t].what);
        ts_json_int(o, "signal", got[t].signal);
        ts_json_text(o, "fault", fault);
        ts_json_text(o, "buffer", got[t].flaw.what);
    }
    const bool drawn = !a->svg || draw(&m, got, a->svg);
    ts_arena_close(&m);
    return ts_demo_end(a, passed, drawn);
}
