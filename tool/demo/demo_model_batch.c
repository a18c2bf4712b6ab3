/* SPDX-License-Identifier: Apache-2.0 */
/* demo_model_batch.c - `demo cache`, `demo ragged` and `demo chunked`: the same tokens in different
 * batches give the same logits.
 *
 * cache: decoding with the cache, or recomputing everything per token. ragged: many lengths
 * together, or each alone. chunked: a prompt in chunks, or whole. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decoder.h"
#include "demo_kv.h"
#include "rng.h"

/* Limit for float64 logits that differ by rounding only: some thousand roundings of values near 10.
 */
static const double NEAR = 1e-12;

/* ---- cache ---- */

enum { LENGTH = 256, FIRST = 4, MIDDLE = 64, N_POINTS = 7, REPEATS = 3 };

/* Generates LENGTH tokens greedily after token[0 .. FIRST). best[i]: least seconds of step i so
 * far. */
static bool step_through(const ts_demo_model *m, bool recompute, int32_t *token, double *best)
{
    const int64_t    n_vocab = ts_decoder_dims_of(m->m)->n_vocab;
    const ts_kv_dims d = ts_demo_model_dims(m, 1, LENGTH, recompute ? LENGTH : 1);
    double          *logits = malloc((size_t)n_vocab * sizeof *logits);
    ts_demo_kv       k = { 0 };
    int32_t          seq;
    bool             ok =
        logits && ts_demo_model_cache(m, &d, &k) && ts_demo_ok("open", ts_kv_open(k.c, &k.x, &seq));
    for (int64_t i = 0; ok && i < LENGTH; i++) {
        ts_demo_progress(recompute ? "token, recomputing" : "token, with the cache", i, LENGTH);
        const double        begin = ts_demo_seconds();
        const int64_t       n_new = recompute ? i + 1 : 1;
        const ts_demo_batch b = { 1, &seq, &n_new, token + i + 1 - n_new, false };
        ok = !recompute || ts_demo_ok("truncate", ts_kv_truncate(k.c, &k.x, seq, 0));
        ok = ok && ts_demo_model_forward(m, &k, &b, logits);
        if (ok && i + 1 >= FIRST) token[i + 1] = (int32_t)ts_demo_likeliest(logits, n_vocab);
        best[i] = fmin(best[i], ts_demo_seconds() - begin);
    }
    ts_demo_progress("token", 1, 1);
    ts_demo_kv_free(&k);
    free(logits);
    return ok;
}

typedef struct race {
    int32_t token[2][LENGTH + 1]; /* with the cache; recomputing */
    double  at[2][LENGTH];        /* seconds until token i + 1 is read */
} race;

/* The least time of each step counts, so that interruptions do not show; short runs have more
 * repetitions. */
static bool run_race(const ts_demo_model *m, uint64_t seed, race *r)
{
    static const int repeats[2] = { 4, 1 };
    if (!ts_demo_model_text(m, seed, r->token[0], FIRST)) return false;
    memcpy(r->token[1], r->token[0], FIRST * sizeof r->token[0][0]);
    for (int w = 0; w < 2; w++) {
        for (int64_t i = 0; i < LENGTH; i++) r->at[w][i] = INFINITY;
        for (int j = 0; j < repeats[w]; j++)
            if (!step_through(m, w, r->token[w], r->at[w])) return false;
        for (int64_t i = 1; i < LENGTH; i++) r->at[w][i] += r->at[w][i - 1];
    }
    return true;
}

/* The exponent with which time grows from `from` to `to` tokens. */
static double power_of(const double *at, int64_t from, int64_t to)
{
    return log(at[to - 1] / at[from - 1]) / log((double)to / (double)from);
}

static void show_race(const ts_demo_args *a, const race *r, double y[2][N_POINTS],
                      double x[N_POINTS])
{
    ts_json *rows = ts_json_array(a->json, "rows");
    ts_print(a->table, "\n%6s  %-30s    %s\n%6s  %8s  %10s  %8s    %8s  %10s  %8s  %8s\n", "",
             "with the cache", "without", "tokens", "rows", "keys", "ms", "rows", "keys", "ms",
             "ratio");
    for (int p = 0; p < N_POINTS; p++) {
        const int64_t n = (int64_t)LENGTH >> (N_POINTS - 1 - p);
        ts_json      *o = ts_json_object(rows, NULL);
        x[p] = (double)n;
        for (int w = 0; w < 2; w++) y[w][p] = r->at[w][n - 1];
        ts_json_int(o, "tokens", n);
        ts_json_number(o, "cache_seconds", y[0][p]);
        ts_json_number(o, "recompute_seconds", y[1][p]);
        ts_json_int(o, "recompute_rows", n * (n + 1) / 2);
        ts_print(a->table, "%6lld  %8lld  %10lld  %8.2f    %8lld  %10lld  %8.2f  %7.1fx\n",
                 (long long)n, (long long)n, (long long)(n * (n + 1) / 2), 1e3 * y[0][p],
                 (long long)(n * (n + 1) / 2), (long long)(n * (n + 1) * (n + 2) / 6),
                 1e3 * y[1][p], y[1][p] / y[0][p]);
    }
}

int ts_demo_cache(const ts_demo_args *a)
{
    static race   r;
    double        x[N_POINTS], y[2][N_POINTS];
    ts_demo_model m;
    bool          ok = ts_demo_model_open(a, TS_F32, &m);
    if (ok)
        ts_print(a->table, "Generation with the cache runs one row per token; without, all tokens "
                           "so far for each new one.\n");
    if (ok) ts_demo_model_about(a, &m);
    ok = ok && run_race(&m, a->seed, &r);
    ts_demo_model_close(&m);
    if (!ok) return TS_EXIT_BROKEN;
    show_race(a, &r, y, x);
    const bool same = !memcmp(r.token[0], r.token[1], sizeof r.token[0]);
    const bool faster = y[0][N_POINTS - 1] < y[1][N_POINTS - 1];
    ts_print(a->table,
             "\nRows are multiplied by the weights; keys are attended to, per head. Time grew "
             "as n^%.2f and n^%.2f\nup to %d tokens; over the last doubling, where keys "
             "dominate more, as n^%.2f and n^%.2f. The tokens are %s.\n%s",
             power_of(r.at[0], FIRST, MIDDLE), power_of(r.at[1], FIRST, MIDDLE), MIDDLE,
             power_of(r.at[0], LENGTH / 2, LENGTH), power_of(r.at[1], LENGTH / 2, LENGTH),
             same ? "equal" : "NOT EQUAL",
             same && faster ? "" : "FAILED: other tokens, or no gain.\n");
    ts_json_number(a->json, "cache_power", power_of(r.at[0], FIRST, MIDDLE));
    ts_json_number(a->json, "recompute_power", power_of(r.at[1], FIRST, MIDDLE));
    const ts_series s[] = { { "recomputing", y[1] }, { "with the cache", y[0] } };
    const ts_plot   plot = { "Generating n tokens, with the KV cache and without",
                             "tokens generated",
                             "seconds of CPU time",
                             x,
                             N_POINTS,
                             s,
                             2 };
    return ts_demo_end(a, same && faster, !a->svg || ts_svg_write(a->svg, &plot, 1));
}

/* ---- ragged ---- */

enum { N_SEQ = 8, MOST = 256, STEPS = 16, ROOM = MOST + STEPS };

typedef struct ragged {
    int64_t len[N_SEQ], n_packed, longest;
    int32_t prompt[N_SEQ][MOST];
    int32_t made[2][N_SEQ][STEPS]; /* together; alone */
    double *logits[2];             /* [STEPS][N_SEQ][n_vocab] */
    int64_t n_vocab;
} ragged;

/* Reads the prompts of sequences from .. to in one forward pass, then generates STEPS tokens of
 * each. */
static bool run_together(const ts_demo_model *m, ragged *r, int from, int to, int which)
{
    const int64_t    n_seq = to - from;
    const ts_kv_dims d = ts_demo_model_dims(m, n_seq, ROOM, r->n_packed);
    int32_t          seq[N_SEQ], token[N_SEQ * MOST];
    int64_t          n_new[N_SEQ], n = 0;
    ts_demo_kv       k = { 0 };
    bool             ok = ts_demo_model_cache(m, &d, &k);
    for (int i = from; ok && i < to; i++) {
        ok = ts_demo_ok("open", ts_kv_open(k.c, &k.x, &seq[i - from]));
        n_new[i - from] = r->len[i];
        memcpy(token + n, r->prompt[i], (size_t)r->len[i] * sizeof *token);
        n += r->len[i];
    }
    for (int64_t s = 0; ok && s < STEPS; s++) {
        double             *logits = r->logits[which] + (s * N_SEQ + from) * r->n_vocab;
        const ts_demo_batch b = { n_seq, seq, n_new, token, false };
        ok = ts_demo_model_forward(m, &k, &b, logits);
        for (int i = 0; ok && i < n_seq; i++) {
            token[i] = (int32_t)ts_demo_likeliest(logits + i * r->n_vocab, r->n_vocab);
            r->made[which][from + i][s] = token[i];
            n_new[i] = 1;
        }
    }
    ts_demo_kv_free(&k);
    return ok;
}

/* Seconds to read the prompts, padded to the longest or not. */
static bool time_prompts(const ts_demo_model *m, const ragged *r, bool padded, double *best)
{
    const ts_kv_dims d = ts_demo_model_dims(m, N_SEQ, ROOM, N_SEQ * r->longest);
    int32_t          seq[N_SEQ], token[N_SEQ * MOST] = { 0 };
    int64_t          n_new[N_SEQ], n = 0;
    double          *logits = malloc((size_t)(N_SEQ * r->n_vocab) * sizeof *logits);
    ts_demo_kv       k = { 0 };
    bool             ok = logits && ts_demo_model_cache(m, &d, &k);
    for (int i = 0; ok && i < N_SEQ; i++) {
        ok = ts_demo_ok("open", ts_kv_open(k.c, &k.x, &seq[i]));
        n_new[i] = padded ? r->longest : r->len[i];
        memcpy(token + n, r->prompt[i], (size_t)r->len[i] * sizeof *token);
        n += n_new[i];
    }
    *best = INFINITY;
    for (int t = 0; ok && t < REPEATS; t++) {
        const ts_demo_batch b = { N_SEQ, seq, n_new, token, false };
        const double        begin = ts_demo_seconds();
        ok = ts_demo_model_forward(m, &k, &b, logits);
        *best = fmin(*best, ts_demo_seconds() - begin);
        for (int i = 0; ok && i < N_SEQ; i++)
            ok = ts_demo_ok("truncate", ts_kv_truncate(k.c, &k.x, seq[i], 0));
    }
    ts_demo_kv_free(&k);
    free(logits);
    return ok;
}

static bool run_ragged(const ts_demo_model *m, uint64_t seed, ragged *r)
{
    r->n_vocab = ts_decoder_dims_of(m->m)->n_vocab;
    for (int w = 0; w < 2; w++) {
        r->logits[w] = malloc((size_t)(STEPS * N_SEQ * r->n_vocab) * sizeof **r->logits);
        if (!r->logits[w]) return false;
    }
    for (int i = 0; i < N_SEQ; i++) { /* 1 to MOST, uniform on a log scale */
        r->len[i] = (int64_t)exp2(log2(MOST) * (1 + ts_uniform(seed, i)) / 2);
        r->n_packed += r->len[i];
        if (r->len[i] > r->longest) r->longest = r->len[i];
        if (!ts_demo_model_text(m, ts_bits(seed, i), r->prompt[i], r->len[i])) return false;
    }
    if (!run_together(m, r, 0, N_SEQ, 0)) return false;
    for (int i = 0; i < N_SEQ; i++) {
        ts_demo_progress("sequence", i, N_SEQ);
        if (!run_together(m, r, i, i + 1, 1)) return false;
    }
    ts_demo_progress("sequence", 1, 1);
    return true;
}

static bool show_ragged(const ts_demo_args *a, const ragged *r)
{
    ts_json *rows = ts_json_array(a->json, "rows");
    bool     right = true;
    ts_print(a->table, "\n%8s  %6s  %7s  %18s  %s\n", "sequence", "tokens", "padding",
             "max difference", "new tokens");
    for (int i = 0; i < N_SEQ; i++) {
        double far = 0;
        for (int64_t s = 0; s < STEPS; s++) {
            const int64_t at = (s * N_SEQ + i) * r->n_vocab;
            far = fmax(far, ts_demo_farthest(r->logits[0] + at, r->logits[1] + at, r->n_vocab));
        }
        const bool same = !memcmp(r->made[0][i], r->made[1][i], sizeof r->made[0][i]);
        ts_json   *o = ts_json_object(rows, NULL);
        ts_json_int(o, "tokens", r->len[i]);
        ts_json_int(o, "padding", r->longest - r->len[i]);
        ts_json_number(o, "farthest_logit", far);
        ts_json_bool(o, "tokens_equal", same);
        ts_print(a->table, "%8d  %6lld  %7lld  %18.1e  %d %s\n", i + 1, (long long)r->len[i],
                 (long long)(r->longest - r->len[i]), far, STEPS, same ? "equal" : "DIFFER");
        right = right && same && far <= NEAR;
    }
    return right;
}

int ts_demo_ragged(const ts_demo_args *a)
{
    static ragged r;
    ts_demo_model m, quick = { 0 };
    double        packed, padded;
    bool          right = false, ok = ts_demo_model_open(a, TS_F64, &m);
    if (ok)
        ts_print(a->table, "Sequences of different lengths in one batch without padding, compared "
                           "with each alone, in float64.\n");
    if (ok) ts_demo_model_about(a, &m);
    ok = ok && run_ragged(&m, a->seed, &r) && ts_demo_model_open(a, TS_F32, &quick) &&
         time_prompts(&quick, &r, false, &packed) && time_prompts(&quick, &r, true, &padded);
    if (ok) right = show_ragged(a, &r);
    ts_demo_model_close(&m);
    ts_demo_model_close(&quick);
    free(r.logits[0]);
    free(r.logits[1]);
    if (!ok) return TS_EXIT_BROKEN;
    const int64_t all = N_SEQ * r.longest;
    const double  wasted = 1 - (double)r.n_packed / (double)all;
    ts_print(a->table,
             "\nPacked %lld tokens; padded to the longest, %lld: %.0f %% of them wasted, and "
             "prefill takes\n%.1f times as long (float32). %s\n",
             (long long)r.n_packed, (long long)all, 100 * wasted, padded / packed,
             right ? "Batching changes no output." : "FAILED: batching changes an output.");
    ts_json_int(a->json, "tokens_packed", r.n_packed);
    ts_json_int(a->json, "tokens_padded", all);
    ts_json_number(a->json, "wasted", wasted);
    ts_json_number(a->json, "padded_time_ratio", padded / packed);
    return ts_demo_end(a, right, true);
}

/* ---- chunked ---- */

enum { PROMPT = 256, N_CHUNKS = 8, UNTOUCHED = 0xa5 };

typedef struct chunked {
    int64_t chunk;
    size_t  given, touched; /* bytes of workspace; touched: up to the last byte written */
    double  seconds, far;
} chunked;

/* Reads the prompt in chunks; returns the logits of all tokens. */
static bool read_in_chunks(const ts_demo_model *m, int n_repeat, const int32_t *token,
                           double *logits, chunked *c)
{
    const int64_t    n_vocab = ts_decoder_dims_of(m->m)->n_vocab;
    const ts_kv_dims d = ts_demo_model_dims(m, 1, PROMPT, c->chunk);
    ts_demo_kv       k = { 0 };
    int32_t          seq;
    bool ok = ts_demo_model_cache(m, &d, &k) && ts_demo_ok("open", ts_kv_open(k.c, &k.x, &seq));
    c->given = c->touched = k.x.workspace_bytes;
    if (ok) memset(k.x.workspace, UNTOUCHED, c->given);
    c->seconds = INFINITY;
    for (int t = 0; ok && t < n_repeat; t++) {
        const double begin = ts_demo_seconds();
        ok = ts_demo_ok("truncate", ts_kv_truncate(k.c, &k.x, seq, 0));
        for (int64_t at = 0; ok && at < PROMPT; at += c->chunk) {
            const ts_demo_batch b = { 1, &seq, &c->chunk, token + at, true };
            ok = ts_demo_model_forward(m, &k, &b, logits + at * n_vocab);
        }
        c->seconds = fmin(c->seconds, ts_demo_seconds() - begin);
    }
    const unsigned char *end = k.x.workspace;
    while (ok && c->touched && end[c->touched - 1] == UNTOUCHED) c->touched--;
    ts_demo_kv_free(&k);
    return ok;
}

/* Differences come from the exact model, the rest from the fast one. */
static bool run_chunked(const ts_demo_model *exact, const ts_demo_model *quick, uint64_t seed,
                        chunked *c)
{
    const int64_t n = PROMPT * ts_decoder_dims_of(exact->m)->n_vocab;
    int32_t       token[PROMPT];
    double       *whole = malloc((size_t)n * sizeof *whole);
    double       *parts = malloc((size_t)n * sizeof *parts);
    bool          ok = whole && parts && ts_demo_model_text(quick, seed, token, PROMPT);
    for (int i = 0; ok && i < N_CHUNKS; i++) {
        ts_demo_progress("chunk size", i, N_CHUNKS);
        c[i].chunk = i + 1 < N_CHUNKS ? (int64_t)PROMPT >> i : 1;
        ok = read_in_chunks(exact, 1, token, i ? parts : whole, &c[i]);
        c[i].far = ok && i ? ts_demo_farthest(parts, whole, n) : 0;
        ok = ok && read_in_chunks(quick, REPEATS, token, parts, &c[i]);
    }
    ts_demo_progress("chunk size", 1, 1);
    free(whole);
    free(parts);
    return ok;
}

static bool plot_chunked(const char *path, const chunked *c)
{
    double x[N_CHUNKS], given[N_CHUNKS], touched[N_CHUNKS], time[N_CHUNKS];
    for (int i = 0; i < N_CHUNKS; i++) {
        x[i] = (double)c[i].chunk;
        given[i] = (double)c[i].given / (double)c[0].given;
        touched[i] = (double)c[i].touched / (double)c[0].touched;
        time[i] = c[i].seconds / c[0].seconds;
    }
    const ts_series s[] = { { "workspace", given }, { "touched", touched }, { "time", time } };
    return ts_svg_write(path,
                        &(ts_plot) { "Prefill in chunks", "tokens per chunk",
                                     "relative to one chunk", x, N_CHUNKS, s, 3 },
                        1);
}

int ts_demo_chunked(const ts_demo_args *a)
{
    chunked       c[N_CHUNKS] = { 0 };
    ts_demo_model m, quick = { 0 };
    bool          right = true, ok = ts_demo_model_open(a, TS_F64, &m);
    ts_json      *rows = ts_json_array(a->json, "rows");
    if (ok)
        ts_print(a->table,
                 "A prompt of %d tokens prefilled in chunks; the cache carries the state from one "
                 "to the next.\n",
                 PROMPT);
    if (ok) ts_demo_model_about(a, &m);
    ok = ok && ts_demo_model_open(a, TS_F32, &quick) && run_chunked(&m, &quick, a->seed, c);
    ts_demo_model_close(&m);
    ts_demo_model_close(&quick);
    if (!ok) return TS_EXIT_BROKEN;
    ts_print(a->table, "\n%6s  %14s  %8s  %12s  %8s  %14s\n", "chunk", "workspace, B", "saving",
             "touched, B", "time", "max difference");
    for (int i = 0; i < N_CHUNKS; i++) {
        ts_json *o = ts_json_object(rows, NULL);
        ts_json_int(o, "chunk", c[i].chunk);
        ts_json_int(o, "workspace_bytes", (int64_t)c[i].given);
        ts_json_int(o, "touched_bytes", (int64_t)c[i].touched);
        ts_json_number(o, "seconds", c[i].seconds);
        ts_json_number(o, "farthest_logit", c[i].far);
        right = right && c[i].far <= NEAR;
        ts_print(a->table, "%6lld  %14zu  %7.1fx  %12zu  %7.2fx  %14.1e\n", (long long)c[i].chunk,
                 c[i].given, (double)c[0].given / (double)c[i].given, c[i].touched,
                 c[i].seconds / c[0].seconds, c[i].far);
    }
    ts_print(a->table,
             "\nTouched: up to the last byte written. Logits: of all tokens, in float64, "
             "against one chunk:\n%s. Workspace and time are for float32.\n",
             right ? "equal up to rounding" : "FAILED");
    return ts_demo_end(a, right, !a->svg || plot_chunked(a->svg, c));
}
