/* SPDX-License-Identifier: Apache-2.0 */
/* speculate.c - a text in steps of several tokens.
 *
 * All of it but the last token is cached; a pass runs that token and a drafted tree behind it,
 * ts_tree_verify walks it, and the keys and values of the path that was accepted are appended. The
 * rest was never in the cache. */
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "rng.h"
#include "search.h"
#include "touchstone/tree_verify.h"

#include "model_impl.h"

struct ts_speculator {
    const ts_decoder *m;
    ts_engine_options o;
    int64_t           n_deep;
    ts_pool           pool;
    int32_t           seq;
    int32_t          *text; /* [capacity] */
    int64_t           n_prompt, n_text;
    double            temperature;
    uint64_t          seed;
    ts_draft          tree;
    /* Of a pass over 1 + n_node rows: */
    int32_t *parent; /* as rows, the last token of the text being row 0 */
    int64_t *row;    /* that are kept */
    void    *kv, *logits;
    int32_t *out, *path;
    uint8_t *status;
    double  *u;
    ts_exec  exec; /* of ts_tree_verify */
    void    *host; /* its scratch of the host's, where the workspace is not */
    size_t   host_bytes;
    /* Why the model failed, which the walk cannot tell. */
    ts_status           failed;
    ts_speculator_stats stats;
};

/* ---- the model that a walk sees: what follows the cached text ---- */

/* Rows of a tree see their parent, all that it sees, and themselves. */
static bool find_parents(int64_t n, const int64_t *position, const uint8_t *visible,
                         int32_t *parent)
{
    for (int64_t r = 0; r < n; r++) {
        const uint8_t *sees = visible + r * n;
        int64_t        up = r - 1;
        while (up >= 0 && !sees[up]) up--;
        for (int64_t c = 0; c < n; c++)
            if (sees[c] != (c == r || (up >= 0 && visible[up * n + c]))) return false;
        if (position[r] != (up < 0 ? 0 : position[up] + 1)) return false;
        parent[r] = (int32_t)up;
    }
    return true;
}

static int forward(void *self, int64_t n_row, const int32_t *token, const int64_t *position,
                   const uint8_t *visible, int64_t n_want, const int64_t *want, float *out)
{
    ts_speculator        *s = self;
    const bool            direct = s->m->dtype == TS_F32;
    const ts_forward_tree t = { s->parent, s->kv };
    const ts_forward_args a = { s->pool.kv, 1,      &s->seq, &n_row,
                                token,      n_want, want,    direct ? (void *)out : s->logits };
    s->failed = TS_E_ARG;
    if (!find_parents(n_row, position, visible, s->parent)) return 1;
    s->failed = ts_decoder_forward_tree(s->m, &a, &t, &s->pool.exec);
    for (int64_t i = 0; !s->failed && !direct && i < n_want; i++)
        s->failed = ts_logits_out(s->m, s->logits, i, out + i * s->m->dims.n_vocab);
    s->stats.n_row += n_row;
    return s->failed != TS_OK;
}

/* ---- making and freeing ---- */

static ts_tree_verify_args verify_args(const ts_speculator *s, const ts_model *m, int64_t max_new,
                                       int64_t *n_out, int64_t *n_path)
{
    return (ts_tree_verify_args) {
        .d = { 1, s->tree.n_node, max_new, s->temperature },
        .model = m,
        .prompt = s->text + s->n_text - 1,
        .token = s->tree.token,
        .parent = s->tree.parent,
        .u = s->u,
        .out = s->out,
        .n_out = n_out,
        .path = s->path,
        .n_path = n_path,
        .status = s->status,
        .host = s->host,
        .host_bytes = s->host_bytes,
    };
}

/* The largest tree, to learn what a walk takes; with draws, of which it takes more. */
static bool make_walk(ts_speculator *s, char why[TS_MODEL_WHY])
{
    const ts_model model = { s, s->m->dims.n_vocab, NULL, forward };
    int64_t        n_out, n_path;
    s->text[0] = 0;
    s->n_text = 1;
    for (int64_t i = 0; i < s->tree.n_most; i++) s->tree.token[i] = 0, s->tree.parent[i] = -1;
    s->tree.n_node = s->tree.n_most;
    s->temperature = 1;
    const ts_tree_verify_args a = verify_args(s, &model, s->tree.n_most + 1, &n_out, &n_path);
    ts_status status = ts_tree_verify_workspace(&a, &s->exec, &s->exec.workspace_bytes);
    if (!status) status = ts_tree_verify_host(&a, &s->exec, &s->host_bytes);
    if (status) return ts_say(why, "drafts: %s", ts_status_text(status));
    return ts_memory_take(s->m->device, s->exec.workspace_bytes + 1, "drafts", &s->exec.workspace,
                          why) &&
           ts_memory_take(TS_CPU, s->host_bytes + 1, "drafts", &s->host, why);
}

static bool make_lists(ts_speculator *s, char why[TS_MODEL_WHY])
{
    const ts_decoder_dims *d = &s->m->dims;
    const size_t           n = (size_t)s->tree.n_most + 1;
    const size_t           size = ts_format_of(s->m->dtype)->n_bytes;
    const size_t           each = (size_t)(2 * d->n_layer * d->n_kv_head * d->head_dim);
    s->text = malloc((size_t)s->o.capacity * sizeof *s->text);
    s->tree.token = malloc(n * sizeof *s->tree.token);
    s->tree.parent = malloc(n * sizeof *s->tree.parent);
    s->parent = malloc(n * sizeof *s->parent);
    s->row = malloc(n * sizeof *s->row);
    s->out = malloc(n * sizeof *s->out);
    s->path = malloc(n * sizeof *s->path);
    s->status = calloc(n, sizeof *s->status);
    s->u = calloc(n, sizeof *s->u);
    if (!s->text || !s->tree.token || !s->tree.parent || !s->parent || !s->row || !s->out ||
        !s->path || !s->status || !s->u)
        return ts_say(why, "out of memory for a tree of %zu rows", n);
    return ts_memory_take(s->m->device, n * each * size, "draft tree", &s->kv, why) &&
           ts_memory_take(s->m->device, n * (size_t)d->n_vocab * size, "logits", &s->logits, why);
}

bool ts_speculator_create(const ts_decoder *m, const ts_engine_options *o, int64_t n_node,
                          int64_t n_deep, ts_speculator **out, char why[TS_MODEL_WHY])
{
    *out = NULL;
    if (n_node < 0 || n_node > 1 << 20 || n_deep < 0)
        return ts_say(why, "drafts: got %lld nodes, expected 0 to %d", (long long)n_node, 1 << 20);
    ts_speculator *s = calloc(1, sizeof *s);
    if (!s) return ts_say(why, "out of memory for drafts");
    s->m = m;
    s->o = *o;
    s->o.n_seq = 1;
    if (s->o.chunk < n_node) s->o.chunk = n_node; /* a pass has one row more */
    s->n_deep = n_deep;
    s->tree.n_most = n_node;
    s->exec = (ts_exec) { .device = m->device, .n_threads = o->n_threads };
    bool ok = ts_pool_make(m, &s->o, &s->pool, why) && make_lists(s, why) && make_walk(s, why);
    if (ok && ts_kv_open(s->pool.kv, &s->pool.exec, &s->seq))
        ok = ts_say(why, "KV cache: cannot open a sequence");
    if (ok) *out = s;
    else ts_speculator_free(&s);
    return ok;
}

void ts_speculator_free(ts_speculator **p)
{
    ts_speculator *s = *p;
    if (!s) return;
    ts_pool_free(&s->pool);
    void *const theirs[] = { s->kv, s->logits, s->exec.workspace };
    void *const mine[] = { s->text, s->tree.token, s->tree.parent, s->parent, s->row, s->out,
                           s->path, s->status,     s->u,           s->host,   s };
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++)
        ts_memory_give(s->m->device, theirs[i]);
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++) free(mine[i]);
    *p = NULL;
}

const ts_speculator_stats *ts_speculator_stats_of(const ts_speculator *s)
{
    return &s->stats;
}

/* ---- a text ---- */

bool ts_speculator_begin(ts_speculator *s, const int32_t *prompt, int64_t n_prompt,
                         double temperature, uint64_t seed, char why[TS_MODEL_WHY])
{
    if (n_prompt < 1 || n_prompt > s->o.capacity)
        return ts_say(why, "prompt: got %lld tokens, expected 1 to %lld%s", (long long)n_prompt,
                      (long long)s->o.capacity, ts_is_context(s->m, s->o.capacity));
    for (int64_t i = 0; i < n_prompt; i++)
        if (prompt[i] < 0 || prompt[i] >= s->m->dims.n_vocab)
            return ts_say(why, "prompt: token %lld is %d, expected 0 to %lld", (long long)i,
                          prompt[i], (long long)s->m->dims.n_vocab - 1);
    const double from = ts_seconds();
    ts_status    status = ts_kv_truncate(s->pool.kv, &s->pool.exec, s->seq, 0);
    for (int64_t at = 0, n; !status && at < n_prompt - 1; at += n) {
        n = n_prompt - 1 - at < s->pool.n_call ? n_prompt - 1 - at : s->pool.n_call;
        const ts_forward_args a = {
            .cache = s->pool.kv, .n_seq = 1, .seq = &s->seq, .n_new = &n, .token = prompt + at
        };
        status = ts_decoder_forward(s->m, &a, &s->pool.exec);
    }
    if (status) return ts_say(why, "prompt: %s", ts_status_text(status));
    memcpy(s->text, prompt, (size_t)n_prompt * sizeof *prompt);
    s->n_prompt = s->n_text = n_prompt;
    s->temperature = temperature;
    s->seed = seed;
    s->stats.prompt_s += ts_seconds() - from;
    return true;
}

/* The last token of the text, and those that came out but for the last: all these were accepted. */
static ts_status keep(ts_speculator *s, int64_t n_out)
{
    s->row[0] = 0;
    for (int64_t i = 1; i < n_out; i++) s->row[i] = 1 + s->path[i - 1];
    const ts_keep_args a = { s->pool.kv, s->seq, 1 + s->tree.n_node, n_out, s->row, s->kv };
    return ts_decoder_keep(s->m, &a, &s->pool.exec);
}

/* Draws are numbered by tokens, whatever was guessed. */
static ts_status verify(ts_speculator *s, int64_t max_new, int64_t *n_out, int64_t *n_path)
{
    const ts_model            model = { s, s->m->dims.n_vocab, NULL, forward };
    const ts_tree_verify_args a = verify_args(s, &model, max_new, n_out, n_path);
    for (int64_t i = 0; i < max_new && s->temperature > 0; i++)
        s->u[i] = (ts_uniform(s->seed, s->n_text - s->n_prompt + i) + 1) / 2;
    s->failed = TS_OK;
    ts_status status = ts_tree_verify(&a, &s->exec);
    if (s->failed) status = s->failed;
    return status ? status : keep(s, *n_out);
}

ts_status ts_speculator_step(ts_speculator *s, const ts_drafter *d, int64_t max_new,
                             ts_speculation *did)
{
    const int64_t room = s->o.capacity - s->n_text;
    const double  from = ts_seconds();
    int64_t       n_path = 0;
    ts_status     status = TS_OK;
    *did = (ts_speculation) { .out = s->out, .status = s->status };
    s->tree.n_node = 0;
    if (room < max_new) max_new = room;
    if (max_new < 1) return TS_OK;
    /* The last token that may be emitted needs no draft. */
    const int64_t n_deep = max_new - 1 < s->n_deep ? max_new - 1 : s->n_deep;
    if (d && n_deep > 0) status = d->draft(d->self, s->text, s->n_text, n_deep, &s->tree);
    if (status) return status;
    const double drafted = ts_seconds();
    if (max_new > s->tree.n_node + 1) max_new = s->tree.n_node + 1;
    status = verify(s, max_new, &did->n_out, &n_path);
    if (status) return status;
    memcpy(s->text + s->n_text, s->out, (size_t)did->n_out * sizeof *s->text);
    s->n_text += did->n_out;
    did->tree = s->tree;
    s->stats.n_pass++;
    s->stats.n_drafted += s->tree.n_node;
    s->stats.n_accepted += n_path;
    s->stats.n_token += did->n_out;
    s->stats.draft_s += drafted - from;
    s->stats.run_s += ts_seconds() - drafted;
    return TS_OK;
}
