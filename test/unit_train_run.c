/* SPDX-License-Identifier: Apache-2.0 */
/* unit_train_run.c - tests the optimiser by its formula, the schedule, and the training loop.
 *
 * The loop: the parts of a step, its end, and kill -9 at any moment, after which the losses are
 * those of an uninterrupted run. Runs that are killed are child processes, so that no OpenMP thread
 * is forked. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unit_train.h"

/* ---- the optimiser ---- */

enum { WEIGHTS = 5, MATRIX = 3 };

typedef struct slow {
    double w[WEIGHTS], m[WEIGHTS], v[WEIGHTS];
} slow;

/* As the papers write it. */
static void by_formula(slow *s, const ts_adamw *h, const double *g, int step)
{
    double norm = 0;
    for (int i = 0; i < WEIGHTS; i++) norm += g[i] * g[i];
    norm = sqrt(norm);
    for (int i = 0; i < WEIGHTS; i++) {
        const double x =
            h->clip_norm > 0 && norm > h->clip_norm ? g[i] * h->clip_norm / norm : g[i];
        s->m[i] = h->beta1 * s->m[i] + (1 - h->beta1) * x;
        s->v[i] = h->beta2 * s->v[i] + (1 - h->beta2) * x * x;
        const double m = s->m[i] / (1 - pow(h->beta1, step)),
                     v = s->v[i] / (1 - pow(h->beta2, step));
        if (i < MATRIX) s->w[i] *= 1 - h->lr * h->weight_decay;
        s->w[i] -= h->lr * m / (sqrt(v) + h->eps);
    }
}

TEST(adamw_is_the_formula)
{
    const double clips[] = { 0, 0.5, 1e9 };
    for (int k = 0; k < 3; k++) {
        const ts_adamw how = { 0.01, 0.9, 0.95, 1e-8, 0.1, clips[k] };
        float          w[WEIGHTS], m[WEIGHTS] = { 0 }, v[WEIGHTS] = { 0 }, g[WEIGHTS];
        slow           s = { { 0 }, { 0 }, { 0 } };
        double         off = 0, norm;
        for (int i = 0; i < WEIGHTS; i++) s.w[i] = w[i] = (float)ts_normal(1, i);
        for (int step = 1; step <= 20; step++) {
            double x[WEIGHTS];
            for (int i = 0; i < WEIGHTS; i++) x[i] = g[i] = (float)ts_normal(2, step * WEIGHTS + i);
            by_formula(&s, &how, x, step);
            const ts_clipped_args a = { how, WEIGHTS, MATRIX, step, w, m, v, g, &norm, 1 };
            assert_int_equal(ts_clipped_step(&a), TS_OK);
            for (int i = 0; i < WEIGHTS; i++) off = fmax(off, fabs(w[i] - s.w[i]));
        }
        print_message("clip %g: off by %.1e after 20 steps\n", clips[k], off);
        assert_true(off <= 20 * 0x1p-23);
    }
}

/* A gradient that is not one changes nothing. */
TEST(adamw_refuses)
{
    float                 w[2] = { 1, 2 }, m[2] = { 0 }, v[2] = { 0 }, g[2] = { 1, NAN };
    double                norm;
    const ts_clipped_args a = { { 0.1, 0.9, 0.95, 1e-8, 0.1, 1 }, 2, 2, 1, w, m, v, g, &norm, 1 };
    assert_int_equal(ts_clipped_step(&a), TS_E_RANGE);
    assert_true(w[0] == 1 && w[1] == 2 && m[0] == 0 && v[0] == 0);
}

/* Masters of 16 bits would stand still. */
TEST(small_rates_add_up)
{
    float  w = 1, m = 0, v = 0, g = 1;
    double norm;
    for (int step = 1; step <= 1000; step++) {
        const ts_clipped_args a = {
            { 1e-6, 0.9, 0.95, 1e-8, 0, 0 }, 1, 1, step, &w, &m, &v, &g, &norm, 1
        };
        assert_int_equal(ts_clipped_step(&a), TS_OK);
    }
    assert_true(fabs(w - (1 - 1e-3)) <= 1000 * 0x1p-24);
}

TEST(schedule)
{
    assert_true(fabs(ts_schedule(2, 0.1, 10, 110, 1) - 0.2) <= 1e-15);
    assert_true(fabs(ts_schedule(2, 0.1, 10, 110, 10) - 2) <= 1e-15);
    assert_true(fabs(ts_schedule(2, 0.1, 10, 110, 60) - 1.1) <= 1e-15);
    assert_true(fabs(ts_schedule(2, 0.1, 10, 110, 110) - 0.2) <= 1e-15);
    assert_true(fabs(ts_schedule(2, 1, 0, 5, 3) - 2) <= 1e-15);
    assert_true(fabs(ts_schedule(2, 1, 5, 5, 5) - 2) <= 1e-15);
}

/* ---- the loop ---- */

static void fill(void *user, bool held_out, int64_t i, int32_t *input, int32_t *target, int64_t n)
{
    (void)user;
    const uint64_t s = ts_bits(held_out ? 1 : 2, i);
    for (int64_t t = 0; t < n; t++) input[t] = (int32_t)(ts_bits(s, t / 2) % 11);
    for (int64_t t = 0; t < n; t++) target[t] = t + 1 < n - i % 3 ? input[t + 1] : -1;
}

static const ts_feed feed = { fill, NULL, 5, 0 };

static ts_train_options options_of(const char *folder)
{
    return (ts_train_options) { .adamw = { 3e-3, 0.9, 0.95, 1e-8, 0.1, 1 },
                                .last = 0.1,
                                .n_step = 60,
                                .n_warm = 5,
                                .n_accumulate = 2,
                                .eval_every = 10,
                                .save_every = 7,
                                .seed = 5,
                                .folder = folder,
                                .stop_token = -1 };
}

static ts_device device; /* of the runs */

typedef struct killer {
    int64_t at; /* step; 0: never */
    double  loss[256], norm[256];
} killer;

static void tell(void *user, const ts_train_event *e)
{
    killer *k = user;
    if (e->step < 256) k->loss[e->step] = e->loss, k->norm[e->step] = e->norm;
    if (e->step == k->at) raise(SIGKILL);
}

static bool train(ts_train_options t, int64_t n_batch, bool ternary, killer *k, ts_train_result *r,
                  char why[TS_MODEL_WHY])
{
    ts_net_options o = net_options(2, 24, 4, 2, 8, 24, 17);
    o.n_batch = n_batch;
    o.ternary = ternary;
    o.device = device;
    o.dtype = device == TS_CUDA ? TS_BF16 : TS_F32;
    ts_net    *n = net_of(&o, t.seed);
    const bool ok = ts_train(n, &feed, &t, tell, k, r, why);
    ts_net_free(&n);
    return ok;
}

/* Two batches of two, added up, are one of four. */
TEST(accumulation)
{
    ts_train_options two = options_of(NULL), one = two;
    killer           a = { 0 }, b = { 0 };
    ts_train_result  r;
    char             why[TS_MODEL_WHY] = "";
    double           off = 0;
    one.n_accumulate = 1;
    assert_true(train(two, 2, false, &a, &r, why) && train(one, 4, false, &b, &r, why));
    for (int i = 1; i <= 60; i++) off = fmax(off, fabs(a.loss[i] - b.loss[i]));
    print_message("two batches of two against one of four: losses differ by %.1e at most\n", off);
    assert_true(off <= 1e-4);
    assert_true(fabs(a.loss[1] - b.loss[1]) <= 1e-6);
}

/* ---- a team: threads here, as processes take MPI ---- */

enum { TEAM = 2 };

typedef struct meeting {
    pthread_barrier_t at;
    void             *given[TEAM];
} meeting;

typedef struct member {
    meeting        *m;
    ts_team         team;
    killer          k;
    ts_train_result r;
    bool            ok;
    char            why[TS_MODEL_WHY];
} member;

/* The first adds; between the barriers no process touches its buffer. */
static bool sum_up(void *user, ts_dtype dtype, void *x, int64_t n)
{
    member  *me = user;
    meeting *m = me->m;
    m->given[me->team.rank] = x;
    pthread_barrier_wait(&m->at);
    for (int64_t i = 0; !me->team.rank && i < n; i++) {
        if (dtype == TS_F64) {
            double *a = m->given[0], *b = m->given[1];
            a[i] = b[i] = a[i] + b[i];
        } else {
            float *a = m->given[0], *b = m->given[1];
            a[i] = b[i] = a[i] + b[i];
        }
    }
    pthread_barrier_wait(&m->at);
    return true;
}

static void *take_part(void *user)
{
    member          *me = user;
    ts_train_options t = options_of(NULL);
    t.team = &me->team;
    me->ok = train(t, 2, false, &me->k, &me->r, me->why);
    return NULL;
}

/* Two with two sequences each are one with four; and they stay together. */
TEST(team)
{
    meeting         m;
    member          who[TEAM];
    pthread_t       thread[TEAM];
    killer          alone = { 0 };
    ts_train_result r;
    char            why[TS_MODEL_WHY] = "";
    double          off = 0;
    assert_int_equal(pthread_barrier_init(&m.at, NULL, TEAM), 0);
    for (int i = 0; i < TEAM; i++) {
        who[i] = (member) { .m = &m, .team = { .rank = i, .size = TEAM, .sum = sum_up } };
        who[i].team.user = &who[i];
        assert_int_equal(pthread_create(&thread[i], NULL, take_part, &who[i]), 0);
    }
    for (int i = 0; i < TEAM; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    pthread_barrier_destroy(&m.at);
    assert_true(train(options_of(NULL), 4, false, &alone, &r, why));
    for (int i = 0; i < TEAM; i++) {
        assert_true(who[i].ok);
        for (int s = 1; s <= 60; s++) {
            off = fmax(off, fabs(who[i].k.loss[s] - alone.loss[s]));
            off = fmax(off, fabs(who[i].k.norm[s] - alone.norm[s]));
        }
        off = fmax(off, fabs(who[i].r.last - r.last));
        assert_memory_equal(&who[i].k, &who[0].k, sizeof who[i].k);
    }
    print_message("a team of two against one: losses and norms differ by %.1e at most\n", off);
    assert_true(off <= 1e-4);
}

TEST(ends_early)
{
    ts_train_options t = options_of(NULL);
    killer           k = { 0 };
    ts_train_result  r;
    char             why[TS_MODEL_WHY] = "";
    t.adamw.lr = 1; /* nothing gets better at this rate */
    t.eval_every = 2;
    t.patience = 3;
    assert_true(train(t, 2, false, &k, &r, why));
    print_message("ended after step %lld, the best being %lld\n", (long long)r.n_step,
                  (long long)r.best_step);
    assert_true(r.early && r.n_step == r.best_step + 6 && r.n_step < 60);
}

/* ---- kill -9 ---- */

static void remove_folder(const char *folder)
{
    const char *const name[] = {
        "checkpoint.bin",        "checkpoint.bin.tmp",  "log.jsonl",
        "config.json",           "config.json.tmp",     "model.safetensors",
        "model.safetensors.tmp", "ternary.safetensors", "ternary.safetensors.tmp"
    };
    char path[512];
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, name[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* A run in a process of its own; true if it came to its end. */
static bool child(const ts_train_options *t, bool ternary, int64_t kill_at, long kill_after_us)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        killer          k = { .at = kill_at };
        ts_train_result r;
        char            why[TS_MODEL_WHY] = "";
        const bool      ok = train(*t, 2, ternary, &k, &r, why);
        if (!ok) fprintf(stderr, "%s\n", why);
        _exit(ok ? 0 : 1);
    }
    if (kill_after_us) {
        const struct timespec wait = { 0, kill_after_us * 1000 };
        nanosleep(&wait, NULL);
        kill(pid, SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) return false;
    assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
    return true;
}

/* Losses as the log has them; 0 where there is no line for a step. Returns how many lines. */
static int read_log(const char *folder, char loss[256][32])
{
    char      path[512], line[512];
    long long step;
    int       n = 0;
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    memset(loss, 0, 256 * sizeof *loss);
    for (; fgets(line, sizeof line, f); n++) {
        char text[32];
        assert_int_equal(sscanf(line, "{\"step\":%lld,\"loss\":%31[^,]", &step, text), 2);
        assert_int_equal(step, n + 1); /* each step once, in order */
        memcpy(loss[step], text, sizeof text);
    }
    fclose(f);
    return n;
}

static void same_file(const char *a, const char *b, const char *name)
{
    char  path[2][512];
    FILE *f[2];
    int   c;
    snprintf(path[0], sizeof path[0], "%s/%s", a, name);
    snprintf(path[1], sizeof path[1], "%s/%s", b, name);
    for (int i = 0; i < 2; i++) assert_non_null(f[i] = fopen(path[i], "rb"));
    do {
        c = fgetc(f[0]);
        assert_int_equal(c, fgetc(f[1]));
    } while (c != EOF);
    for (int i = 0; i < 2; i++) fclose(f[i]);
}

static void refuse(const ts_train_options *t, const char *word)
{
    killer          k = { 0 };
    ts_train_result r;
    char            why[TS_MODEL_WHY] = "";
    assert_false(train(*t, 2, false, &k, &r, why));
    if (!strstr(why, word)) fail_msg("got '%s', expected something about '%s'", why, word);
}

TEST_IN(first, killed_and_resumed)
{
    static char whole[256][32], parts[256][32];
    for (int ternary = 0; ternary < 2; ternary++) {
        char undisturbed[] = "train-whole-XXXXXX", disturbed[] = "train-parts-XXXXXX";
        assert_true(mkdtemp(undisturbed) && mkdtemp(disturbed));
        ts_train_options a = options_of(undisturbed), b = options_of(disturbed);
        int              n_killed = 0;
        b.resume = true;
        assert_true(child(&a, ternary, 0, 0));
        assert_false(child(&b, ternary, 3, 0)); /* before there is a checkpoint */
        assert_false(child(&b, ternary, 23, 0));
        assert_false(child(&b, ternary, 40, 0));
        while (n_killed < 8 && !child(&b, ternary, 0, 4000 + 2500 * n_killed)) n_killed++;
        assert_true(child(&b, ternary, 0, 0));
        assert_int_equal(read_log(undisturbed, whole), 60);
        assert_int_equal(read_log(disturbed, parts), 60);
        for (int i = 1; i <= 60; i++) assert_string_equal(whole[i], parts[i]);
        same_file(undisturbed, disturbed, "model.safetensors");
        if (ternary) same_file(undisturbed, disturbed, "ternary.safetensors");
        print_message("%s: killed %d times, 60 losses equal in every digit; last %s\n",
                      ternary ? "ternary" : "float", 3 + n_killed, whole[60]);
        remove_folder(undisturbed);
        remove_folder(disturbed);
    }
}

/* Its checkpoint is that of step 21. */
TEST_IN(first, killed_and_shortened)
{
    static char      log[256][32];
    char             folder[] = "train-short-XXXXXX";
    const int64_t    wrong[] = { 20, 21, 61 };
    ts_train_options t = options_of(folder);
    assert_non_null(mkdtemp(folder));
    t.resume = true;
    assert_false(child(&t, false, 23, 0));
    for (int i = 0; i < 3; i++) {
        t.n_step = wrong[i];
        refuse(&t, "steps");
    }
    t.n_step = 22;
    t.n_warm = 2;
    assert_true(child(&t, false, 0, 0));
    assert_int_equal(read_log(folder, log), 22);
    remove_folder(folder);
}

/* ---- what a checkpoint refuses ---- */

TEST(wrong_checkpoints)
{
    char            folder[] = "train-wrong-XXXXXX", path[64];
    killer          k = { 0 };
    ts_train_result r;
    char            why[TS_MODEL_WHY] = "";
    assert_non_null(mkdtemp(folder));
    ts_train_options t = options_of(folder);
    t.n_step = 8;
    assert_true(train(t, 2, false, &k, &r, why));
    refuse(&t, "--resume");
    t.resume = true;
    ts_train_options other = t;
    other.seed++;
    refuse(&other, "seed");
    other = t;
    other.data = 77;
    refuse(&other, "text");
    other = t;
    other.n_step = 7; /* more would extend it: see train_cli.sh */
    refuse(&other, "steps");
    snprintf(path, sizeof path, "%s/checkpoint.bin", folder);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 5000, SEEK_SET), 0);
    const int c = fgetc(f);
    assert_int_equal(fseek(f, 5000, SEEK_SET), 0);
    assert_int_equal(fputc(c ^ 1, f), c ^ 1);
    fclose(f);
    refuse(&t, "checksum");
    assert_int_equal(truncate(path, 4000), 0);
    refuse(&t, "bytes");
    assert_int_equal(truncate(path, 4), 0);
    refuse(&t, "4 bytes");
    remove_folder(folder);
}

/* On a CUDA device: what the loop does differently there. A child process queries the device, since
 * CUDA's state does not survive a fork. */
static int on_cuda(void)
{
    const pid_t pid = fork();
    int         status = 0;
    if (!pid) _exit(ts_cuda_unavailable_reason() ? 77 : 0);
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return 1;
    if (!WIFEXITED(status) || WEXITSTATUS(status)) return 77;
    device = TS_CUDA;
    return run_group("first", NULL, NULL);
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/unit-train-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder)) return 1;
    const bool cuda = argc > 1 && !strcmp(argv[1], "cuda");
    const int  failed = cuda ? on_cuda() : run_group("first", NULL, NULL) + unit_run();
    if (chdir("/") || rmdir(folder)) return 1;
    return failed;
}
