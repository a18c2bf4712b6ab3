/* SPDX-License-Identifier: Apache-2.0 */
/* demo_flash.c - `demo flash`: attention without the full matrix of scores.
 *
 * Compares memory and time with attention that stores it, and tests methods of tiled softmax when
 * one tile dominates. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "demo_kv.h"
#include "rng.h"
#include "touchstone/attention.h"

enum { D = 64, N_SIZES = 6, SMALLEST = 128, LONGEST = SMALLEST << (N_SIZES - 1) };

static float *normals(uint64_t seed, int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; x && i < n; i++) x[i] = (float)ts_normal(seed, i);
    return x;
}

/* ---- memory and time ---- */

typedef struct inputs {
    int64_t n;
    float  *q, *k, *v, *o; /* [n][D] */
} inputs;

/* The textbook method: all scores, their softmax, the matmul. */
static bool full_matrix(const inputs *x)
{
    float *s = malloc((size_t)(x->n * x->n) * sizeof *s), t[LONGEST * D];
    if (!s) return false;
    for (int64_t j = 0; j < x->n; j++)
        for (int c = 0; c < D; c++) t[c * x->n + j] = x->k[j * D + c];
    for (int64_t i = 0; i < x->n; i++) {
        float *const row = s + i * x->n;
        float        max = -INFINITY, sum = 0;
        memset(row, 0, (size_t)x->n * sizeof *row);
        for (int c = 0; c < D; c++)
            for (int64_t j = 0; j < x->n; j++)
                row[j] += x->q[i * D + c] * 0.125f * t[c * x->n + j]; /* 1 / sqrt(D) */
        for (int64_t j = 0; j < x->n; j++) max = fmaxf(max, row[j]);
        for (int64_t j = 0; j < x->n; j++) sum += row[j] = expf(row[j] - max);
        for (int64_t j = 0; j < x->n; j++) row[j] /= sum;
    }
    memset(x->o, 0, (size_t)(x->n * D) * sizeof *x->o);
    for (int64_t i = 0; i < x->n; i++)
        for (int64_t j = 0; j < x->n; j++)
            for (int c = 0; c < D; c++) x->o[i * D + c] += s[i * x->n + j] * x->v[j * D + c];
    free(s);
    return true;
}

static ts_status attend(const float *q, const float *k, const float *v, int64_t n_q, int64_t n_k,
                        float *o)
{
    const ts_flash_attention_args a = {
        .d = { .dtype = TS_F32,
               .n_batch = 1,
               .n_q = n_q,
               .n_k = n_k,
               .n_q_head = 1,
               .n_kv_head = 1,
               .head_dim = D,
               .scale = 0.125 },
        .q = q,
        .k = k,
        .v = v,
        .o = o,
    };
    ts_exec   x = { .n_threads = 1 };
    ts_status s = ts_flash_attention_workspace(&a, &x, &x.workspace_bytes);
    if (s) return s;
    x.workspace = malloc(x.workspace_bytes + 1);
    s = x.workspace ? ts_flash_attention(&a, &x) : TS_E_WORKSPACE;
    free(x.workspace);
    return s;
}

static bool flash(const inputs *x)
{
    return !attend(x->q, x->k, x->v, x->n, x->n, x->o);
}

typedef struct taken {
    double bytes, seconds, first; /* first: an element of the result, to compare */
} taken;

static double peak_bytes(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return 1024.0 * (double)r.ru_maxrss;
}

/* In a separate process, since peak memory never decreases. */
static bool measure(bool (*way)(const inputs *), const inputs *x, taken *t)
{
    int pipes[2];
    if (pipe(pipes)) return false;
    const pid_t child = fork();
    if (!child) {
        const double before = peak_bytes(), begin = ts_demo_seconds();
        const bool   ok = way(x);
        *t = (taken) { peak_bytes() - before, ts_demo_seconds() - begin, x->o[D + 1] };
        _exit(!ok || write(pipes[1], t, sizeof *t) != sizeof *t);
    }
    close(pipes[1]);
    int        status = 1;
    const bool ok = child > 0 && read(pipes[0], t, sizeof *t) == sizeof *t;
    close(pipes[0]);
    return child > 0 && waitpid(child, &status, 0) == child && !status && ok;
}

static bool grow(const ts_demo_args *a, double *size, taken *full, taken *ours)
{
    inputs x = { LONGEST, normals(ts_bits(a->seed, 0), LONGEST * D),
                 normals(ts_bits(a->seed, 1), LONGEST * D),
                 normals(ts_bits(a->seed, 2), LONGEST * D), malloc(LONGEST * D * sizeof(float)) };
    bool   ok = x.q && x.k && x.v && x.o;
    if (ok) memset(x.o, 1, LONGEST * D * sizeof *x.o);
    for (int i = 0; ok && i < N_SIZES; i++) {
        ts_demo_progress("length", i, N_SIZES);
        x.n = SMALLEST << i;
        size[i] = (double)x.n;
        ok = measure(full_matrix, &x, &full[i]) && measure(flash, &x, &ours[i]);
    }
    ts_demo_progress("length", 1, 1);
    free(x.q), free(x.k), free(x.v), free(x.o);
    return ok || ts_complain("flash", "the measuring process failed");
}

/* True if results agree, and at the longest length tiles take less than 1/16 of the matrix. */
static bool show_growth(const ts_demo_args *a, const double *size, const taken *full,
                        const taken *ours)
{
    ts_json *rows = ts_json_array(a->json, "rows");
    bool     ok = true;
    ts_print(a->table,
             "One head of %d channels, f32, one thread: peak memory beyond inputs and output, "
             "and CPU time, each\nin a process of its own. The full matrix is plain C.\n\n"
             "%8s  %16s  %16s  %14s  %14s  %s\n",
             D, "N", "full matrix, KiB", "in tiles, KiB", "full, ms", "in tiles, ms", "result");
    for (int i = 0; i < N_SIZES; i++) {
        const bool agree = fabs(full[i].first - ours[i].first) <= 1e-5;
        ts_json   *o = ts_json_object(rows, NULL);
        ok = ok && agree;
        ts_json_number(o, "n", size[i]);
        ts_json_number(o, "full_bytes", full[i].bytes);
        ts_json_number(o, "tiled_bytes", ours[i].bytes);
        ts_json_number(o, "full_seconds", full[i].seconds);
        ts_json_number(o, "tiled_seconds", ours[i].seconds);
        ts_print(a->table, "%8.0f  %16.0f  %16.0f  %14.2f  %14.2f  %s\n", size[i],
                 full[i].bytes / 1024, ours[i].bytes / 1024, 1e3 * full[i].seconds,
                 1e3 * ours[i].seconds, agree ? "agree" : "DIFFER");
    }
    return ok && 16 * ours[N_SIZES - 1].bytes < full[N_SIZES - 1].bytes;
}

/* ---- stability ---- */

enum { QUERIES = 8, KEYS = 256, TILE = 64, N_WAYS = 4, N_KINDS = 5 };
enum { OURS, NO_MAXIMUM, TILE_MAXIMUM, INVERTED };

static const char *const WAYS[N_WAYS] = { "touchstone", "no maximum", "tile's maximum",
                                          "inverted factor" };

typedef struct scene {
    float q[QUERIES * D], k[KEYS * D], v[KEYS * D];
} scene;

/* Adds a multiple of q to keys [from, to), so that their scores rise by `by`. */
static void lift(scene *s, int from, int to, double by)
{
    for (int j = from; j < to; j++) s->k[j * D] = (float)(by / 0.125 / s->q[0]);
    for (int i = 0; i < QUERIES; i++) s->q[i * D] = s->q[0]; /* the same for all queries */
}

static const char *draw(int kind, uint64_t seed, scene *s)
{
    for (int i = 0; i < QUERIES * D; i++) s->q[i] = (float)ts_normal(ts_bits(seed, 3), i);
    for (int i = 0; i < KEYS * D; i++) s->k[i] = (float)ts_normal(ts_bits(seed, 4), i);
    for (int i = 0; i < KEYS * D; i++) s->v[i] = (float)ts_normal(ts_bits(seed, 5), i);
    s->q[0] = 2;
    if (kind == 1) return lift(s, 0, TILE, 300), "first tile +300";
    if (kind == 2) return lift(s, KEYS - TILE, KEYS, 300), "last tile +300";
    if (kind == 3) return lift(s, 0, 1, 2000), "sink: key 0 +2000";
    if (kind != 4) return "normal";
    for (int i = 0; i < QUERIES * D; i++) s->q[i] *= 1000;
    return "scores x 1000";
}

static float score(const scene *s, int i, int j)
{
    float sum = 0;
    for (int c = 0; c < D; c++) sum += s->q[i * D + c] * s->k[j * D + c];
    return 0.125f * sum;
}

/* The recurrence over tiles in float; methods differ in how they treat the maximum. */
static void tiled(int way, const scene *s, int i, float *o)
{
    float max = way == NO_MAXIMUM ? 0 : -INFINITY, sum = 0;
    memset(o, 0, D * sizeof *o);
    for (int t = 0; t < KEYS; t += TILE) {
        float next = way == TILE_MAXIMUM ? -INFINITY : max;
        for (int j = t; j < t + TILE && way != NO_MAXIMUM; j++) next = fmaxf(next, score(s, i, j));
        const float factor = t ? expf(way == INVERTED ? next - max : max - next) : 0;
        sum *= factor;
        for (int c = 0; c < D; c++) o[c] *= factor;
        for (int j = t; j < t + TILE; j++) {
            const float p = expf(score(s, i, j) - next);
            sum += p;
            for (int c = 0; c < D; c++) o[c] += p * s->v[j * D + c];
        }
        max = next;
    }
    for (int c = 0; c < D; c++) o[c] /= sum;
}

/* The definition in double, and a bound of float's error: the effect of rounding scores on the
 * weights, plus that of the sum. */
static void exact(const scene *s, int i, double *o, double *bound)
{
    const double u = 0x1p-24, kd = 8 + 2 * sqrt(D), kn = 8 + 2 * sqrt(KEYS);
    double       p[KEYS], off[KEYS], size[D] = { 0 }, sum = 0, max = -INFINITY;
    for (int j = 0; j < KEYS; j++) {
        p[j] = off[j] = 0;
        for (int c = 0; c < D; c++) {
            const double term = 0.125 * (double)s->q[i * D + c] * (double)s->k[j * D + c];
            p[j] += term, off[j] += fabs(term);
        }
        max = fmax(max, p[j]);
    }
    for (int j = 0; j < KEYS; j++) {
        off[j] = kd * u * off[j] + u * (max - p[j]);
        sum += p[j] = exp(p[j] - max);
    }
    double worst = 0;
    for (int j = 0; j < KEYS; j++) worst = fmax(worst, p[j] > 1e-30 ? off[j] : 0);
    for (int c = 0; c < D; c++) {
        o[c] = 0;
        for (int j = 0; j < KEYS; j++) {
            o[c] += p[j] / sum * (double)s->v[j * D + c];
            size[c] += p[j] / sum * fabs((double)s->v[j * D + c]);
        }
        bound[c] = (2 * worst + (kn + 2) * u) * size[c] + u * fabs(o[c]);
    }
}

/* The largest error of each method, INFINITY if its result is not finite; *over: the library's
 * error over its bound. */
static ts_status errors_of(const scene *s, double error[N_WAYS], double *over)
{
    float           o[N_WAYS][QUERIES * D];
    double          want[D], bound[D];
    const ts_status status = attend(s->q, s->k, s->v, QUERIES, KEYS, o[OURS]);
    *over = 0;
    for (int w = 0; w < N_WAYS; w++) error[w] = 0;
    for (int i = 0; i < QUERIES && !status; i++) {
        exact(s, i, want, bound);
        for (int w = 0; w < N_WAYS; w++) {
            if (w != OURS) tiled(w, s, i, o[w] + i * D);
            for (int c = 0; c < D; c++) {
                const double off = fabs((double)o[w][i * D + c] - want[c]);
                if (!(off <= error[w])) error[w] = off < INFINITY ? off : INFINITY;
                if (w == OURS && !(off / bound[c] <= *over)) *over = off / bound[c];
            }
        }
    }
    return status;
}

static bool show_stability(const ts_demo_args *a)
{
    static scene s;
    ts_json     *rows = ts_json_array(a->json, "stability");
    bool         right = true, told = true;
    if (a->table) {
        fprintf(a->table,
                "\nLargest error of an output, %d keys in tiles of %d, all methods in float; "
                "outputs have magnitude 1.\n\n%-18s",
                KEYS, TILE, "");
        for (int w = 0; w < N_WAYS; w++) fprintf(a->table, "  %15s", WAYS[w]);
        fprintf(a->table, "  %s\n", "of its bound");
    }
    for (int kind = 0; kind < N_KINDS; kind++) {
        double            error[N_WAYS], over;
        const char *const name = draw(kind, a->seed, &s);
        if (!ts_demo_ok("flash_attention", errors_of(&s, error, &over))) return false;
        ts_json *o = ts_json_object(rows, NULL);
        ts_json_text(o, "scores", name);
        ts_print(a->table, "%-18s", name);
        for (int w = 0; w < N_WAYS; w++) {
            ts_json_number(o, WAYS[w], fmin(error[w], 1e300));
            if (!a->table) continue;
            if (error[w] < INFINITY) fprintf(a->table, "  %15.1e", error[w]);
            else fprintf(a->table, "  %15s", "not finite");
        }
        ts_json_number(o, "of_bound", over);
        ts_print(a->table, "  %12.3f\n", over);
        right = right && over <= 1;
        /* If the first or last tile dominates, the corresponding wrong method must be visibly
         * wrong. */
        if (kind == 1) told = told && !(error[TILE_MAXIMUM] < 1e-2);
        if (kind == 2) told = told && !(error[INVERTED] < 1e-2);
    }
    ts_print(a->table, "\nOnly the running maximum, with exp(old - new) applied to both sums, "
                       "survives every input. A tile's own\nmaximum overflows when it falls; "
                       "the inverted factor overflows when it rises.\n");
    return right && told;
}

int ts_demo_flash(const ts_demo_args *a)
{
    double          size[N_SIZES], y[4][N_SIZES];
    taken           full[N_SIZES], ours[N_SIZES];
    const ts_series memory[] = { { "tiles", y[0] }, { "full matrix", y[1] } };
    const ts_series time[] = { { "tiles", y[2] }, { "full matrix", y[3] } };
    const ts_plot   plots[] = {
          { "Attention over one head of 64, f32: memory", "sequence length", "KiB at the peak", size,
            N_SIZES, memory, 2 },
          { "Attention over one head of 64, f32: time", "sequence length", "ms of CPU time", size,
            N_SIZES, time, 2 },
    };
    if (!grow(a, size, full, ours)) return TS_EXIT_BROKEN;
    const bool less = show_growth(a, size, full, ours);
    const bool stable = show_stability(a);
    for (int i = 0; i < N_SIZES; i++) {
        y[0][i] = fmax(ours[i].bytes, 4096) / 1024; /* memory is measured in pages */
        y[1][i] = full[i].bytes / 1024;
        y[2][i] = 1e3 * ours[i].seconds;
        y[3][i] = 1e3 * full[i].seconds;
    }
    return ts_demo_end(a, less && stable, !a->svg || ts_svg_write(a->svg, plots, 2));
}
