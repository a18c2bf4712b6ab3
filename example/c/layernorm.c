/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm.c - layer norm forward and backward from C: workspace, threads, errors.
 *
 * The program runs a batch forward and backward, compares the gradient with a difference of two
 * forward passes, and shows that `deterministic` makes the result independent of the threads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <touchstone/layernorm.h>

enum { ROWS = 64, COLS = 256, N = ROWS * COLS };

typedef struct batch { /* what a training step keeps for one layer norm */
    float x[N], y[N], dy[N], dx[N], mean[ROWS], rstd[ROWS];
    float gamma[COLS], beta[COLS], dgamma[COLS], dbeta[COLS];
} batch;

/* A call either succeeds or has written nothing; its status says why, in words. */
static void must(ts_status s, const char *what)
{
    if (s == TS_OK) return;
    fprintf(stderr, "layernorm: %s: %s\n", what, ts_status_text(s));
    exit(1);
}

static ts_layernorm_forward_args forward_args(batch *b)
{
    return (ts_layernorm_forward_args) { .dtype = TS_F32,
                                         .n_rows = ROWS,
                                         .n_cols = COLS,
                                         .row_stride = COLS,
                                         .eps = 1e-5,
                                         .x = b->x,
                                         .gamma = b->gamma,
                                         .beta = b->beta,
                                         .y = b->y,
                                         .mean = b->mean,
                                         .rstd = b->rstd };
}

/* The library allocates nothing: ask for the size of the scratch memory, provide it, call. The
 * size depends on the shape, the dtype and the threads, so a program asks once and keeps it. */
static void forward(batch *b, ts_exec exec)
{
    const ts_layernorm_forward_args a = forward_args(b);
    must(ts_layernorm_forward_workspace(&a, &exec, &exec.workspace_bytes), "workspace of forward");
    exec.workspace = malloc(exec.workspace_bytes);
    must(ts_layernorm_forward(&a, &exec), "forward");
    free(exec.workspace);
}

static void backward(batch *b, ts_exec exec)
{
    const ts_layernorm_backward_args a = { .dtype = TS_F32,
                                           .accumulate = 0, /* 1: add to dgamma and dbeta */
                                           .n_rows = ROWS,
                                           .n_cols = COLS,
                                           .row_stride = COLS,
                                           .x = b->x,
                                           .dy = b->dy,
                                           .gamma = b->gamma,
                                           .mean = b->mean,
                                           .rstd = b->rstd,
                                           .dx = b->dx,
                                           .dgamma = b->dgamma,
                                           .dbeta = b->dbeta };
    must(ts_layernorm_backward_workspace(&a, &exec, &exec.workspace_bytes),
         "workspace of backward");
    exec.workspace = malloc(exec.workspace_bytes);
    must(ts_layernorm_backward(&a, &exec), "backward");
    free(exec.workspace);
}

static double dot(const float *a, const float *b)
{
    double sum = 0;
    for (int i = 0; i < N; i++) sum += (double)a[i] * b[i];
    return sum;
}

int main(void)
{
    static batch b, again, moved;
    static float way[N]; /* the direction in which the gradient is tested */
    for (int i = 0; i < N; i++) {
        b.x[i] = (float)(sin(0.7 * i) + 0.01 * (i % COLS));
        b.dy[i] = (float)cos(0.3 * i);
        way[i] = (float)sin(1.1 * i * i);
    }
    for (int j = 0; j < COLS; j++) b.gamma[j] = 1 + 0.001f * (float)j, b.beta[j] = 0.5f;
    again = b;

    const ts_exec one = { .device = TS_CPU, .n_threads = 1, .deterministic = 1 };
    const ts_exec four = { .device = TS_CPU, .n_threads = 4, .deterministic = 1 };
    forward(&b, four), backward(&b, four);
    forward(&again, one), backward(&again, one);
    printf("row 0: mean %.4f, rstd %.4f, y %.4f %.4f %.4f ...\n", b.mean[0], b.rstd[0], b.y[0],
           b.y[1], b.y[2]);
    printf("1 and 4 threads: %s bits\n", memcmp(&b, &again, sizeof b) ? "DIFFERENT" : "the same");

    /* sum(dy * y) changes along `way` as sum(dx * way) says. */
    double loss[2];
    for (int side = 0; side < 2; side++) {
        moved = b;
        for (int i = 0; i < N; i++) moved.x[i] += (side ? 0.01f : -0.01f) * way[i];
        forward(&moved, four);
        loss[side] = dot(b.dy, moved.y);
    }
    const double by_backward = dot(b.dx, way), by_difference = (loss[1] - loss[0]) / 0.02;
    printf("slope: %.2f by backward, %.2f by difference\n", by_backward, by_difference);

    ts_layernorm_forward_args bad = forward_args(&b); /* an error is a value, never an abort */
    bad.row_stride = COLS - 1;
    printf("row_stride %d: %s\n", COLS - 1, ts_status_text(ts_layernorm_forward(&bad, &four)));
    return memcmp(&b, &again, sizeof b) || fabs(by_backward - by_difference) > 0.01;
}
