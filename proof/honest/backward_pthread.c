/* SPDX-License-Identifier: Apache-2.0 */
/* backward_pthread.c - layernorm_backward with three threads of its own, started for each call.
 *
 * Each has every third row and column, so that the bits do not depend on thread scheduling. */
#include <pthread.h>

#include "honest.h"

enum { N = 3 };

typedef struct share {
    const backward *a;
    int             id;
} share;

static void *work(void *ctx)
{
    const share    *s = ctx;
    const backward *a = s->a;
    for (int64_t r = s->id; r < a->n_rows; r += N) dx_row(a, r);
    for (int64_t c = s->id; c < a->n_cols; c += N) {
        double dgamma = 0, dbeta = 0;
        for (int64_t r = 0; r < a->n_rows; r++) {
            dgamma += dy_at(a, r, c) * xhat_at(a, r, c);
            dbeta += dy_at(a, r, c);
        }
        write_sums(a, c, dgamma, dbeta);
    }
    return NULL;
}

ts_status ts_layernorm_backward(const ts_layernorm_backward_args *a, const ts_exec *x)
{
    const ts_status s = refuse_backward(a, x);
    pthread_t       thread[N];
    int             started[N] = { 0 };
    share           part[N];
    for (int i = 0; !s && i < N; i++) {
        part[i] = (share) { a, i };
        started[i] = i && !pthread_create(&thread[i], NULL, work, &part[i]);
        if (i && !started[i]) work(&part[i]);
    }
    if (!s) work(&part[0]);
    for (int i = 1; i < N; i++)
        if (started[i]) pthread_join(thread[i], NULL);
    return s;
}
