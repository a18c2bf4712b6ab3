/* SPDX-License-Identifier: Apache-2.0 */
/* train_ablation.c - measures what the design choices of kernel/ternary and of the training recipe
 * gain, by varying one at a time.
 *
 *     train_ablation FILE [STEPS]    one table: held-out bits a byte of each variant, from one seed
 *                                    and one budget; a process each, as many at once as cores
 *     train_ablation                 the check that the table means what it says
 *
 * The library does one thing, groups of 128 and their mean; here latents are kept outside of a
 * float net, whose weights are made of them by any rule before every pass. Its gradient is then the
 * straight-through one. By the library's rule that is the library's training, which is checked. */
#define _DEFAULT_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dtype.h"
#include "rng.h"
#include "touchstone/ternary.h"
#include "train.h"

static void must(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "train_ablation: %s\n", what);
    exit(1);
}

/* ---- what varies ---- */

typedef enum of { MEAN, MAX, MEDIAN } of;

enum { NO_CLIP = 1, DENSE_EMBEDDING = 2, NO_WARM_UP = 4, CONSTANT = 8 };

typedef struct variant {
    const char *name;
    int64_t     group; /* 0: float */
    of          scale;
    double      lr, decay;
    uint64_t    seed;
    unsigned    without;
} variant;

#define RATE 1e-3 /* losses of seeds are close together; at 3e-3 they are not */

static const variant variants[] = {
    { "ternary, as it is", 128, MEAN, RATE, 0.1, 1, 0 },
    { "the same, second seed", 128, MEAN, RATE, 0.1, 2, 0 },
    { "the same, third seed", 128, MEAN, RATE, 0.1, 3, 0 },
    { "float", 0, MEAN, RATE, 0.1, 1, 0 },
    { "groups of 32", 32, MEAN, RATE, 0.1, 1, 0 },
    { "groups of 64", 64, MEAN, RATE, 0.1, 1, 0 },
    { "groups of 256", 256, MEAN, RATE, 0.1, 1, 0 },
    { "scale: the largest", 128, MAX, RATE, 0.1, 1, 0 },
    { "scale: the median", 128, MEDIAN, RATE, 0.1, 1, 0 },
    { "codes not clipped", 128, MEAN, RATE, 0.1, 1, NO_CLIP },
    { "embedding in float", 128, MEAN, RATE, 0.1, 1, DENSE_EMBEDDING },
    { "no warm-up", 128, MEAN, RATE, 0.1, 1, NO_WARM_UP },
    { "no decay", 128, MEAN, RATE, 0, 1, 0 },
    { "constant rate", 128, MEAN, RATE, 0.1, 1, CONSTANT },
    { "half the rate", 128, MEAN, RATE / 2, 0.1, 1, 0 },
    { "twice the rate", 128, MEAN, 2 * RATE, 0.1, 1, 0 },
};
enum { N_VARIANTS = sizeof variants / sizeof *variants, MOST_GROUP = 256 };

/* ---- the rule ---- */

static int by_value(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

static double scale_of(of which, const float *w, int64_t n)
{
    double size[MOST_GROUP], sum = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += size[i] = fabs((double)w[i]);
        most = fmax(most, size[i]);
    }
    if (which != MEDIAN) return which == MAX ? most : sum / (double)n;
    qsort(size, (size_t)n, sizeof *size, by_value);
    return (size[(n - 1) / 2] + size[n / 2]) / 2;
}

static void project(const variant *v, const float *w, int64_t rows, int64_t cols, float *out)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t g = 0; g < cols; g += v->group) {
            const int64_t n = cols - g < v->group ? cols - g : v->group;
            const float  *from = w + r * cols + g;
            const double  s = ts_widen_f16(ts_narrow_f16(scale_of(v->scale, from, n)));
            for (int64_t i = 0; i < n; i++) {
                double c = s > 0 ? ceil(fabs((double)from[i]) / s - 0.5) : 0; /* halves go down */
                if (!(v->without & NO_CLIP) && c > 1) c = 1;
                out[r * cols + g + i] = (float)copysign(c * s, from[i]);
            }
        }
}

/* Matrices are in the net's order. */
static void serve(const variant *v, const float *latent, ts_net *n)
{
    const ts_decoder_dims *d = &ts_net_options_of(n)->dims;
    const int64_t          q = d->n_head * d->head_dim, kv = d->n_kv_head * d->head_dim;
    const int64_t          shape[7][2] = { { q, d->width },        { kv, d->width },
                                           { kv, d->width },       { d->width, q },
                                           { d->n_ffn, d->width }, { d->n_ffn, d->width },
                                           { d->width, d->n_ffn } };
    float                 *w = ts_net_weights(n);
    memcpy(w, latent, (size_t)ts_net_count(n) * sizeof *w);
    if (!v->group) return;
    int64_t at = d->n_vocab * d->width;
    if (!(v->without & DENSE_EMBEDDING)) project(v, latent, d->n_vocab, d->width, w);
    for (int64_t i = 0; i < 7 * d->n_layer; i++) {
        const int64_t *s = shape[i % 7];
        project(v, latent + at, s[0], s[1], w + at);
        at += s[0] * s[1];
    }
    must(at == ts_net_matrix_count(n), "the net's matrices are not those that were listed");
}

/* ---- a run ---- */

typedef struct outcome {
    double loss, held_out, bits; /* of the last step; means; bits a byte */
} outcome;

static void fill(const ts_net_options *o, const ts_feed *f, bool held_out, int64_t first,
                 ts_net_batch *b)
{
    for (int64_t i = 0; i < o->n_batch; i++) {
        int32_t *input = b->input + i * o->n_token, *target = b->target + i * o->n_token;
        if (!held_out || first + i < f->n_held_out)
            f->fill(f->user, held_out, first + i, input, target, o->n_token);
        else
            for (int64_t j = 0; j < o->n_token; j++) input[j] = 0, target[j] = -1;
    }
}

static int64_t warm_of(const variant *v, int64_t n_step)
{
    return v->without & NO_WARM_UP ? 0 : n_step / 20;
}

static ts_adamw adamw_of(const variant *v)
{
    return (ts_adamw) { v->lr, 0.9, 0.95, 1e-8, v->decay, 1 };
}

static outcome run(const variant *v, ts_net_options o, const ts_feed *f, int64_t n_step)
{
    char    why[TS_MODEL_WHY] = "";
    ts_net *n;
    o.ternary = false;
    must(ts_net_create(&o, v->seed, &n, why), why);
    const int64_t count = ts_net_count(n);
    const size_t  bytes = (size_t)count * sizeof(float);
    const size_t  tokens = (size_t)(o.n_batch * o.n_token) * sizeof(int32_t);
    float        *w = malloc(bytes), *m = calloc(1, bytes), *s = calloc(1, bytes);
    ts_net_batch  b = { malloc(tokens), malloc(tokens) };
    outcome       y = { 0 };
    double        norm;
    must(w && m && s && b.input && b.target, "no memory");
    memcpy(w, ts_net_weights(n), bytes);
    for (int64_t step = 1; step <= n_step; step++) {
        ts_net_score score = { 0 };
        int64_t      n_target = 0;
        fill(&o, f, false, (step - 1) * o.n_batch, &b);
        for (int64_t i = 0; i < o.n_batch * o.n_token; i++) n_target += b.target[i] >= 0;
        serve(v, w, n);
        memset(ts_net_gradient(n), 0, bytes);
        must(!ts_net_grad(n, &b, 1 / (double)n_target, &score), "a pass failed");
        ts_clipped_args a = { adamw_of(v), count, ts_net_matrix_count(n), step,  w,
                              m,           s,     ts_net_gradient(n),     &norm, 1 };
        a.how.lr =
            ts_schedule(v->lr, v->without & CONSTANT ? 1 : 0.1, warm_of(v, n_step), n_step, step);
        must(!ts_clipped_step(&a), "the gradient is not finite");
        y.loss = score.nll / (double)n_target;
    }
    ts_net_score score = { 0 };
    serve(v, w, n);
    for (int64_t i = 0; i < f->n_held_out; i += o.n_batch) {
        fill(&o, f, true, i, &b);
        must(!ts_net_eval(n, &b, &score), "a pass failed");
    }
    y.held_out = score.nll / (double)score.n_count;
    y.bits = score.nll / log(2) / f->held_out_bytes;
    free(w), free(m), free(s), free(b.input), free(b.target);
    ts_net_free(&n);
    return y;
}

static ts_net_options options_of(int64_t n_vocab, int64_t n_batch, int64_t n_token)
{
    ts_net_options o = { .dims = { .n_layer = 2,
                                   .width = 256,
                                   .n_head = 4,
                                   .n_kv_head = 2,
                                   .head_dim = 64,
                                   .n_ffn = 512,
                                   .n_vocab = n_vocab,
                                   .n_context = n_token,
                                   .norm_eps = 1e-6,
                                   .rope_theta = 10000 },
                         .dtype = TS_F32,
                         .n_batch = n_batch,
                         .n_token = n_token,
                         .n_threads = 1 };
    ts_net_dims_set(&o.dims);
    return o;
}

/* ---- the check ---- */

static void rule_is_the_librarys(void)
{
    enum { ROWS = 5, COLS = 300 };
    static float    w[ROWS * COLS], mine[ROWS * COLS], theirs[ROWS * COLS];
    static uint8_t  code[ROWS * 3 * TS_TERNARY_GROUP_BYTES];
    static uint16_t scale[ROWS * 3];
    for (int i = 0; i < ROWS * COLS; i++) w[i] = i < COLS ? 0 : (float)ts_normal(9, i) / 8;
    const ts_exec                x = { .device = TS_CPU };
    const ts_ternary_pack_args   p = { { TS_F32, ROWS, COLS, 0 }, w, code, scale };
    const ts_ternary_unpack_args u = { p.d, code, scale, theirs };
    ts_exec                      room = x;
    must(!ts_ternary_pack_workspace(&p, &x, &room.workspace_bytes), "pack refuses");
    room.workspace = malloc(room.workspace_bytes + 1);
    must(room.workspace && !ts_ternary_pack(&p, &room) && !ts_ternary_unpack(&u, &room),
         "pack refuses");
    free(room.workspace);
    project(&variants[0], w, ROWS, COLS, mine);
    for (int i = 0; i < ROWS * COLS; i++) must(mine[i] == theirs[i], "the rule is another");
    printf("rule      %d weights as the library has them\n", ROWS * COLS);
}

static void fill_walk(void *user, bool held_out, int64_t i, int32_t *input, int32_t *target,
                      int64_t n)
{
    (void)user;
    const uint64_t seed = ts_bits(held_out ? 1 : 2, i);
    int32_t        at = (int32_t)(seed % 50);
    for (int64_t t = 0; t < n; t++) {
        input[t] = at;
        at = (at * 3 + (int32_t)(ts_bits(seed, t) % 4)) % 50;
        target[t] = at;
    }
}

/* A pass of the first variant: effective weights, and their gradient. */
static void pass_is_the_librarys(ts_net_options o, const ts_feed *f)
{
    char         why[TS_MODEL_WHY] = "";
    int32_t      token[2][8 * 32];
    ts_net_batch b = { token[0], token[1] };
    ts_net_score s[2] = { 0 };
    ts_net      *n[2];
    double       off = 0, most = 0;
    for (int i = 0; i < 2; i++) {
        o.ternary = i;
        must(ts_net_create(&o, 1, &n[i], why), why);
    }
    const int64_t count = ts_net_count(n[0]);
    float        *w = malloc((size_t)count * sizeof *w);
    must(w, "no memory");
    memcpy(w, ts_net_weights(n[0]), (size_t)count * sizeof *w);
    serve(&variants[0], w, n[0]);
    must(!ts_net_effective(n[1], w), "the library refuses");
    for (int64_t i = 0; i < count; i++) /* zeros may have either sign */
        must(w[i] == ((const float *)ts_net_weights(n[0]))[i], "other weights serve");
    fill(&o, f, false, 0, &b);
    for (int i = 0; i < 2; i++) must(!ts_net_grad(n[i], &b, 1, &s[i]), "a pass failed");
    const float *mine = ts_net_gradient(n[0]), *theirs = ts_net_gradient(n[1]);
    for (int64_t i = 0; i < count; i++) {
        off = fmax(off, fabs((double)mine[i] - theirs[i]));
        most = fmax(most, fabs((double)theirs[i]));
    }
    printf("pass      %lld weights equal, gradients off by %.1e of %.2g\n", (long long)count, off,
           most);
    must(most > 0 && off < 1e-5 * most, "the gradient is another");
    free(w);
    for (int i = 0; i < 2; i++) ts_net_free(&n[i]);
}

/* A step of it. After a few, sums in another order have flipped a code, and then more. */
static void step_is_the_librarys(ts_net_options o, const ts_feed *f)
{
    const variant         *v = &variants[0], *group_32 = &variants[4];
    const outcome          ours = run(v, o, f, 1), other = run(group_32, o, f, 1);
    const ts_train_options t = { .adamw = adamw_of(v),
                                 .last = 0.1,
                                 .n_step = 1,
                                 .n_warm = warm_of(v, 1),
                                 .n_accumulate = 1,
                                 .eval_every = 1,
                                 .save_every = 1,
                                 .stop_token = -1 };
    char                   why[TS_MODEL_WHY] = "";
    ts_train_result        r;
    ts_net                *n;
    o.ternary = true;
    must(ts_net_create(&o, v->seed, &n, why), why);
    must(ts_train(n, f, &t, NULL, NULL, &r, why), why);
    printf("step      held out %.6f here, %.6f by the library; %.6f in groups of 32\n",
           ours.held_out, r.last, other.held_out);
    must(fabs(ours.held_out - r.last) < 1e-4, "this is not the library's training");
    must(fabs(other.held_out - r.last) > 1e-3, "groups make no difference: nothing was compared");
    ts_net_free(&n);
}

/* ---- the table ---- */

typedef struct worker {
    pid_t pid;
    int   fd;
} worker;

static worker start(const variant *v, const ts_net_options *o, const ts_feed *f, int64_t n_step)
{
    int end[2];
    must(!pipe(end), "no pipe");
    fflush(stdout);
    const pid_t pid = fork();
    must(pid >= 0, "no process");
    if (!pid) {
        const outcome y = run(v, *o, f, n_step);
        _exit(write(end[1], &y, sizeof y) != (ssize_t)sizeof y);
    }
    close(end[1]);
    return (worker) { pid, end[0] };
}

/* Bits of a weight in a matrix that is projected; codes that are not clipped have no fixed number.
 */
static void bits_of(const variant *v, char text[16])
{
    if (!v->group) snprintf(text, 16, "32");
    else if (v->without & NO_CLIP) snprintf(text, 16, "more");
    else snprintf(text, 16, "%.4g", 2 + 16.0 / (double)v->group);
}

static void table(const ts_net_options *o, const ts_feed *f, int64_t n_step)
{
    const long n_core = sysconf(_SC_NPROCESSORS_ONLN);
    worker     w[N_VARIANTS];
    outcome    y[N_VARIANTS];
    int        begun = 0;
    printf("| variant | bits a weight | held out, nats a token | bits a byte | against the first "
           "|\n|-|-|-|-|-|\n");
    for (int i = 0; i < N_VARIANTS; i++) {
        while (begun < N_VARIANTS && begun < i + n_core)
            w[begun] = start(&variants[begun], o, f, n_step), begun++;
        char       bits[16];
        int        status;
        const bool got = read(w[i].fd, &y[i], sizeof y[i]) == (ssize_t)sizeof y[i];
        close(w[i].fd);
        must(waitpid(w[i].pid, &status, 0) == w[i].pid && got && !status, variants[i].name);
        bits_of(&variants[i], bits);
        printf("| %s | %s | %.4f | %.4f | %+.2f %% |\n", variants[i].name, bits, y[i].held_out,
               y[i].bits, 100 * (y[i].bits / y[0].bits - 1));
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    char          why[TS_MODEL_WHY] = "";
    ts_corpus    *c;
    ts_tokenizer *t;
    char         *json, *end = NULL;
    size_t        n_json;
    const long    n_step = argc > 2 ? strtol(argv[2], &end, 10) : 400;
    must(argc <= 3 && n_step > 0 && (!end || !*end), "expected FILE [STEPS]");
    if (argc == 1) {
        const ts_feed f = { fill_walk, NULL, 16, 1 };
        rule_is_the_librarys();
        pass_is_the_librarys(options_of(50, 8, 32), &f);
        step_is_the_librarys(options_of(50, 8, 32), &f);
        return 0;
    }
    must(ts_corpus_load(argv[1], 1, &c, why), why);
    must(ts_corpus_vocabulary(c, 1024, &json, &n_json, why), why);
    must(ts_tokenizer_parse(json, n_json, &t, why), why);
    must(ts_corpus_encode(c, t, 128, why), why);
    const ts_corpus_facts facts = ts_corpus_facts_of(c);
    const ts_net_options  o = options_of(ts_tokenizer_size(t), 16, 128);
    const ts_feed         f = ts_corpus_feed(c);
    printf("%lld documents, %lld bytes of them held out in %lld; %ld steps of %lld tokens\n\n",
           (long long)facts.n_document, (long long)facts.held_out_bytes,
           (long long)facts.n_held_out, n_step, (long long)(o.n_batch * o.n_token));
    table(&o, &f, n_step);
    free(json);
    ts_tokenizer_free(&t);
    ts_corpus_free(&c);
    return 0;
}
