/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - the loop: batches by number, steps, held-out loss, log, checkpoints. Which sequences a
 * step sees depends on its number alone, so that a run which goes on sees what it would have. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "train_impl.h"

typedef struct run {
    ts_net                 *n;
    const ts_net_options   *net;
    const ts_feed          *f;
    const ts_train_options *o;
    ts_state                s;
    ts_net_batch            b; /* [n_accumulate] batches */
    FILE                   *log;
    char                    state_path[TS_TRAIN_PATH], log_path[TS_TRAIN_PATH];
    double                  begun_s;
    int64_t                 begun_step;
    void                   *user;
    char                   *why;
} run;

static bool sum(const run *r, ts_dtype dtype, void *x, int64_t n)
{
    return ts_team_sum(r->o->team, dtype, x, n, r->why);
}

static int rank(const run *r)
{
    return r->o->team ? r->o->team->rank : 0;
}

static int team_size(const run *r)
{
    return r->o->team ? r->o->team->size : 1;
}

static int64_t batch_rows(const run *r)
{
    return r->net->n_batch * r->net->n_token;
}

static bool complain(const run *r, int64_t step, ts_status s)
{
    const char *what =
        s == TS_E_RANGE ? "gradient or weight not finite; try a lower --lr" : ts_status_text(s);
    return ts_say(r->why, "step %lld: %s", (long long)step, what);
}

/* ---- a step ---- */

static void fill(const run *r, bool held_out, int64_t first, int64_t n, int64_t most)
{
    const int64_t t = r->net->n_token;
    for (int64_t i = 0; i < n; i++) {
        int32_t *input = r->b.input + i * t, *target = r->b.target + i * t;
        if (first + i < most) r->f->fill(r->f->user, held_out, first + i, input, target, t);
        else /* the last batch is seldom full */
            for (int64_t j = 0; j < t; j++) input[j] = 0, target[j] = -1;
    }
}

/* The gradient becomes the team's. */
static bool join(run *r, int64_t number)
{
    if (team_size(r) == 1) return true;
    ts_status s = ts_net_pull(r->n, TS_NET_GRADIENT);
    if (s) return complain(r, number, s);
    if (!sum(r, TS_F32, ts_net_gradient(r->n), r->s.n_count)) return false;
    s = ts_net_push(r->n, TS_NET_GRADIENT);
    return !s || complain(r, number, s);
}

static bool step(run *r, int64_t number, ts_train_event *e)
{
    const int64_t each = r->net->n_batch * r->o->n_accumulate; /* of this process */
    double        n_target = 0;
    ts_net_score  score = { 0 };
    ts_status     s = TS_OK;
    fill(r, false, ((number - 1) * team_size(r) + rank(r)) * each, each, INT64_MAX);
    for (int64_t i = 0; i < r->o->n_accumulate * batch_rows(r); i++)
        n_target += r->b.target[i] >= 0;
    if (!sum(r, TS_F64, &n_target, 1)) return false;
    if (n_target == 0) return ts_say(r->why, "step %lld: batch without targets", (long long)number);
    ts_net_zero(r->n);
    for (int64_t a = 0; !s && a < r->o->n_accumulate; a++) {
        const ts_net_batch b = { r->b.input + a * batch_rows(r), r->b.target + a * batch_rows(r) };
        s = ts_net_grad(r->n, &b, 1 / n_target, &score);
    }
    if (s) return complain(r, number, s);
    if (!sum(r, TS_F64, &score.nll, 1) || !join(r, number)) return false;
    ts_adamw how = r->o->adamw;
    how.lr = e->lr = ts_schedule(r->o->adamw.lr, r->o->last, r->o->n_warm, r->o->n_step, number);
    e->loss = score.nll / n_target;
    s = ts_net_step(r->n, &how, number, &e->norm);
    return !s || complain(r, number, s);
}

/* ---- held out ---- */

static bool keep(const run *r)
{
    return !r->o->folder || rank(r) || ts_net_export(r->n, r->o->folder, r->o->stop_token, r->why);
}

static bool measure(run *r, int64_t number, ts_train_event *e)
{
    ts_net_score score = { 0 };
    for (int64_t i = rank(r) * r->net->n_batch; i < r->f->n_held_out;
         i += team_size(r) * r->net->n_batch) {
        fill(r, true, i, r->net->n_batch, r->f->n_held_out);
        const ts_status s = ts_net_eval(r->n, &r->b, &score);
        if (s) return complain(r, number, s);
    }
    double all[2] = { score.nll, (double)score.n_count };
    if (!sum(r, TS_F64, all, 2)) return false;
    if (all[1] == 0) return keep(r); /* with nothing to compare by, the latest is the best */
    ts_progress *p = &r->s.progress;
    e->held_out = p->last = all[0] / all[1];
    if (r->f->held_out_bytes > 0)
        e->bits_per_byte = all[0] / 0.6931471805599453 / r->f->held_out_bytes;
    e->best = !p->best_step || e->held_out < p->best;
    p->n_worse = e->best ? 0 : p->n_worse + 1;
    if (!e->best) return true;
    p->best_step = number;
    p->best = e->held_out;
    p->best_bits_per_byte = e->bits_per_byte;
    return keep(r);
}

/* ---- what is kept ---- */

static bool note(run *r, const ts_train_event *e)
{
    if (!r->log) return true;
    fprintf(r->log, "{\"step\":%lld,\"loss\":%.17g,\"lr\":%.9g,\"norm\":%.9g,\"tokens_per_s\":%.1f",
            (long long)e->step, e->loss, e->lr, e->norm, e->tokens_per_s);
    if (!isnan(e->held_out)) fprintf(r->log, ",\"held_out\":%.17g", e->held_out);
    if (!isnan(e->bits_per_byte)) fprintf(r->log, ",\"bits_per_byte\":%.9g", e->bits_per_byte);
    fputs("}\n", r->log);
    return !fflush(r->log) || ts_say(r->why, "cannot write %s: %s", r->log_path, strerror(errno));
}

/* The log's length goes with it: lines of steps that will be taken again are cut off. */
static bool save(run *r)
{
    if (!r->log) return true;
    const off_t at = fsync(fileno(r->log)) ? -1 : ftello(r->log);
    if (at < 0) return ts_say(r->why, "cannot write %s: %s", r->log_path, strerror(errno));
    r->s.progress.log_bytes = (uint64_t)at;
    const ts_status s = ts_net_pull(r->n, TS_NET_WEIGHTS | TS_NET_MOMENTS);
    if (s) return complain(r, r->s.progress.step, s);
    return ts_state_save(r->state_path, &r->s, r->why);
}

static bool open_folder(run *r)
{
    struct stat is;
    if (!r->o->folder) return true;
    if (mkdir(r->o->folder, 0777) && errno != EEXIST)
        return ts_say(r->why, "cannot create %s: %s", r->o->folder, strerror(errno));
    if (!ts_path(r->state_path, r->o->folder, "checkpoint.bin", r->why) ||
        !ts_path(r->log_path, r->o->folder, "log.jsonl", r->why))
        return false;
    const bool there = !stat(r->state_path, &is);
    if (there && !r->o->resume)
        return ts_say(r->why,
                      "checkpoint %s exists; continue with --resume or choose another folder",
                      r->o->folder);
    if (there && !ts_state_load(r->state_path, &r->s, r->why)) return false;
    const ts_status s = there ? ts_net_push(r->n, TS_NET_WEIGHTS | TS_NET_MOMENTS) : TS_OK;
    if (s) return complain(r, r->s.progress.step, s);
    if (rank(r)) return true;
    if (there && (stat(r->log_path, &is) || (uint64_t)is.st_size < r->s.progress.log_bytes))
        return ts_say(r->why, "%s: shorter than the checkpoint says", r->log_path);
    if (!there && r->o->begin && !r->o->begin(r->user, r->why)) return false;
    r->log = fopen(r->log_path, "ab");
    if (!r->log || ftruncate(fileno(r->log), (off_t)r->s.progress.log_bytes) ||
        fseeko(r->log, 0, SEEK_END))
        return ts_say(r->why, "cannot write %s: %s", r->log_path, strerror(errno));
    return true;
}

/* From its first moment on a run can be resumed. All must have looked for a checkpoint before. */
static bool save_first(run *r)
{
    double present = 1;
    if (!r->o->folder) return true;
    return sum(r, TS_F64, &present, 1) && (r->s.progress.step || save(r));
}

/* ---- the loop ---- */

static void speed(const run *r, ts_train_event *e)
{
    const double  took = ts_seconds() - r->begun_s;
    const int64_t n = e->step - r->begun_step;
    e->tokens_per_s =
        (double)(n * team_size(r) * r->o->n_accumulate * batch_rows(r)) / (took > 0 ? took : 1e-9);
    e->left_s = took / (double)n * (double)(r->o->n_step - e->step);
}

static bool is_over(const run *r)
{
    const ts_progress *p = &r->s.progress;
    return p->step >= r->o->n_step || (r->o->patience && p->n_worse >= r->o->patience);
}

static bool go(run *r, ts_train_fn tell, void *user)
{
    ts_progress *p = &r->s.progress;
    r->begun_s = ts_seconds();
    r->begun_step = p->step;
    while (!is_over(r)) {
        ts_train_event e = {
            .step = p->step + 1, .n_step = r->o->n_step, .held_out = NAN, .bits_per_byte = NAN
        };
        if (!step(r, e.step, &e)) return false;
        if ((e.step % r->o->eval_every == 0 || e.step == r->o->n_step) && !measure(r, e.step, &e))
            return false;
        p->step = e.step;
        speed(r, &e);
        if (!note(r, &e)) return false;
        if (tell) tell(user, &e);
        if ((e.step % r->o->save_every == 0 || is_over(r)) && !save(r)) return false;
    }
    return true;
}

static bool sound(const ts_net_options *net, const ts_train_options *o, char why[TS_MODEL_WHY])
{
    if (net->dtype == TS_F64) return ts_say(why, "dtype: expected f32, or bf16 on a CUDA device");
    if (o->n_step < 1 || o->n_accumulate < 1 || o->eval_every < 1 || o->save_every < 1 ||
        o->n_warm < 0 || o->n_warm > o->n_step || o->patience < 0)
        return ts_say(why, "steps, batches or warm-up: invalid count");
    if (!(o->adamw.lr > 0 && o->adamw.lr < 1e3) || !(o->adamw.weight_decay >= 0))
        return ts_say(why, "lr: got %g, expected more than 0", o->adamw.lr);
    return true;
}

bool ts_train(ts_net *n, const ts_feed *f, const ts_train_options *o, ts_train_fn tell, void *user,
              ts_train_result *result, char why[TS_MODEL_WHY])
{
    run r = { .n = n, .net = ts_net_options_of(n), .f = f, .o = o, .user = user, .why = why };
    if (!sound(r.net, o, why)) return false;
    const size_t count = (size_t)ts_net_count(n);
    const size_t tokens = (size_t)(o->n_accumulate * batch_rows(&r));
    float *const moments = ts_net_begin(n);
    r.s = (ts_state) { .net = r.net,
                       .train = o,
                       .n_count = (int64_t)count,
                       .w = ts_net_weights(n),
                       .m = moments,
                       .v = moments ? moments + count : NULL };
    r.b = (ts_net_batch) { calloc(tokens, sizeof(int32_t)), calloc(tokens, sizeof(int32_t)) };
    bool ok = moments && r.b.input && r.b.target;
    if (!ok) ts_say(why, "out of memory for the moments of %zu weights", count);
    ok = ok && open_folder(&r) && save_first(&r) && go(&r, tell, user);
    const ts_progress *p = &r.s.progress;
    if (ok)
        *result = (ts_train_result) { p->step,
                                      p->best_step,
                                      p->best,
                                      p->best_bits_per_byte,
                                      p->last,
                                      p->step < o->n_step,
                                      ts_seconds() - r.begun_s };
    if (r.log) fclose(r.log);
    free(r.b.input);
    free(r.b.target);
    return ok;
}
