/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_run.c - the search but for its rule: memory, steps, strings, results. */
#include <math.h>
#include <string.h>

#include "beam_search_impl.h"
#include "scratch.h"

/* ---- memory ---- */

/* The most that any number of rows takes: it changes as beams end. */
static ts_status inner_workspace(const ts_beam_state *s, const ts_exec *x, int64_t most,
                                 size_t *n_bytes)
{
    const int64_t n_vocab = s->a->model->n_vocab;
    int32_t       index = 0;
    float         prob = 0, logits = 0; /* no query looks into them */
    *n_bytes = 0;
    for (int64_t n = 1; n <= ts_lesser(most, TS_BEAM_GROUP); n++) {
        const ts_softmax_topk_args a = { TS_F32, n,       n_vocab, n_vocab, s->n_best,
                                         1.0,    &logits, &index,  &prob,   NULL };
        size_t                     each = 0;
        const ts_status            status = ts_softmax_topk_workspace(&a, x, &each);
        if (status) return status;
        if (each > *n_bytes) *n_bytes = each;
    }
    return TS_OK;
}

/* Contiguous: one copy transfers all of it from a device. */
static size_t take_found(ts_room *m, int64_t rows, int64_t n_best, ts_beam_found *f)
{
    const size_t from = m->used;
    f->total = ts_take(m, rows, sizeof *f->total);
    f->value = ts_take(m, rows * (n_best + 1), sizeof *f->value);
    f->best = ts_take(m, rows * n_best, sizeof *f->best);
    return m->used - from;
}

/* Lays the state out. On the CPU `host` and `work` are one. */
static ts_status lay_out(ts_beam_state *s, const ts_beam_search_args *a, const ts_exec *x,
                         int has_archive, ts_room *host, ts_room *work)
{
    const int64_t n_vocab = a->model->n_vocab, width = a->d.beam_width, n = a->d.n_items;
    /* Without a step, there is no row; in it, no more beams go on than there are places. */
    const int64_t rows = a->d.max_new_tokens > 0 ? n * width : 0;
    int64_t       n_text = 0;
    size_t        inner;
    s->a = a;
    s->n_best = ts_lesser(has_archive ? width + 1 : width, n_vocab);
    const ts_status status = inner_workspace(s, x, rows, &inner);
    if (status) return status;
    s->logits = ts_take(work, rows * n_vocab, sizeof *s->logits);
    s->n_found = take_found(host, rows, s->n_best, &s->found);
    s->device = s->found;
    if (host != work) (void)take_found(work, rows, s->n_best, &s->device);
    s->prob = ts_take(work, rows * s->n_best, sizeof *s->prob);
    s->row = ts_take(host, rows, sizeof *s->row);
    s->sum = ts_take(work, rows * ts_beam_pieces(n_vocab), sizeof *s->sum);
    s->len = ts_take(host, rows, sizeof *s->len);
    s->string = ts_take(host, rows, sizeof *s->string);
    s->begin = ts_take(host, n, sizeof *s->begin);
    s->n_beams = ts_take(host, n, sizeof *s->n_beams);
    s->bank = ts_take(host, n, sizeof *s->bank);
    s->done = ts_take(host, n, sizeof *s->done);
    s->head = ts_take(host, width, sizeof *s->head);
    for (int64_t i = 0; i < n; i++) n_text += width * (a->prompt_len[i] + a->d.max_new_tokens);
    for (int i = 0; i < 2; i++) {
        s->beam[i] = ts_take(host, n * width, sizeof *s->beam[i]);
        s->text[i] = ts_take(host, n_text, sizeof *s->text[i]);
    }
    const int64_t kept = has_archive ? n : 0;
    s->n_kept = ts_take(host, kept, sizeof *s->n_kept);
    s->kept = ts_take(host, kept * width, sizeof *s->kept);
    s->kept_text = ts_take(host, kept * width * a->d.max_new_tokens, sizeof *s->kept_text);
    s->inner = *x;
    s->inner.workspace = ts_take(work, (int64_t)inner, 1);
    s->inner.workspace_bytes = inner;
    return TS_OK;
}

/* The memory that a search needs, in the workspace and in addition to it. */
static ts_status count(const ts_beam_search_args *a, const ts_exec *x, int has_archive,
                       size_t *n_work, size_t *n_host)
{
    ts_beam_state   s;
    ts_room         host = { 0 }, work = { 0 };
    const int       alone = x->device == TS_CPU;
    const ts_status status = lay_out(&s, a, x, has_archive, alone ? &work : &host, &work);
    *n_work = work.used + TS_LINE;
    *n_host = alone ? 0 : host.used + TS_LINE;
    return status;
}

ts_status ts_beam_slots_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    size_t n_host;
    return count(args, x, 0, n_bytes, &n_host);
}

ts_status ts_beam_archive_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    size_t n_host;
    return count(args, x, 1, n_bytes, &n_host);
}

ts_status ts_beam_host_bytes(const ts_beam_search_args *a, const ts_exec *x, int has_archive,
                             size_t *n_bytes)
{
    size_t n_work;
    return count(a, x, has_archive, &n_work, n_bytes);
}

/* With the memory that there is. */
static ts_status begin(ts_beam_state *s, const ts_beam_search_args *a, const ts_exec *x,
                       int has_archive)
{
    ts_room work = { ts_scratch(x), 0 };
    size_t  n_bytes;
    if (x->device == TS_CPU) return lay_out(s, a, x, has_archive, &work, &work);
    const ts_status status = ts_beam_host_bytes(a, x, has_archive, &n_bytes);
    if (status) return status;
    if (!a->host || a->host_bytes < n_bytes) return TS_E_WORKSPACE;
    ts_room host = { ts_line(a->host), 0 };
    return lay_out(s, a, x, has_archive, &host, &work);
}

/* ---- beams and their strings ---- */

static int64_t text_stride(const ts_beam_state *s, int64_t item)
{
    return s->a->prompt_len[item] + s->a->d.max_new_tokens;
}

static int32_t *text_in(const ts_beam_state *s, int bank, int64_t item, int64_t slot)
{
    return s->text[bank] + s->begin[item] + slot * text_stride(s, item);
}

const ts_beam *ts_beam_slots(const ts_beam_state *s, int64_t item)
{
    return s->beam[s->bank[item]] + item * s->a->d.beam_width;
}

int32_t *ts_beam_text(const ts_beam_state *s, int64_t item, int64_t slot)
{
    return text_in(s, s->bank[item], item, slot);
}

double ts_beam_logprob(const ts_beam_state *s, const ts_beam *parent, float logit)
{
    const ts_beam_row *r = s->row + parent->row;
    return parent->logprob + (((double)logit - r->max) - r->log_sum);
}

void ts_beam_keep(ts_beam_state *s, int64_t item, int64_t to, int64_t parent)
{
    const ts_beam *from = ts_beam_slots(s, item) + parent;
    const int      other = !s->bank[item];
    s->beam[other][item * s->a->d.beam_width + to] = *from;
    memcpy(text_in(s, other, item, to), ts_beam_text(s, item, parent),
           (size_t)(s->a->prompt_len[item] + from->length) * sizeof(int32_t));
}

void ts_beam_extend(ts_beam_state *s, int64_t item, int64_t to, int64_t parent, int32_t token,
                    float logit)
{
    const int      other = !s->bank[item];
    ts_beam *const b = s->beam[other] + item * s->a->d.beam_width + to;
    const double   logprob = ts_beam_logprob(s, ts_beam_slots(s, item) + parent, logit);
    ts_beam_keep(s, item, to, parent);
    text_in(s, other, item, to)[s->a->prompt_len[item] + b->length] = token;
    b->length++;
    b->logprob = logprob;
    b->score = logprob / s->divisor;
    b->finished = token == s->a->d.eos;
}

/* ---- steps ---- */

static void start(ts_beam_state *s, int has_archive)
{
    const ts_beam_search_args *a = s->a;
    const int32_t             *prompt = a->prompts;
    int64_t                    begin = 0;
    for (int64_t i = 0; i < a->d.n_items; i++) {
        s->begin[i] = begin;
        s->bank[i] = s->done[i] = 0;
        s->n_beams[i] = 1;
        if (has_archive) s->n_kept[i] = 0;
        s->beam[0][i * a->d.beam_width] = (ts_beam) { .row = -1 };
        memcpy(s->text[0] + begin, prompt, (size_t)a->prompt_len[i] * sizeof *prompt);
        prompt += a->prompt_len[i];
        begin += a->d.beam_width * text_stride(s, i);
    }
}

/* A row for every beam that goes on; an item without one is done. */
static void list_rows(ts_beam_state *s)
{
    s->n_rows = 0;
    for (int64_t i = 0; i < s->a->d.n_items; i++) {
        ts_beam *const b = s->beam[s->bank[i]] + i * s->a->d.beam_width;
        const int64_t  before = s->n_rows;
        for (int64_t j = 0; j < s->n_beams[i] && !s->done[i]; j++) {
            b[j].row = b[j].finished ? -1 : s->n_rows;
            if (b[j].finished) continue;
            s->len[s->n_rows] = s->a->prompt_len[i] + b[j].length;
            s->string[s->n_rows++] = ts_beam_text(s, i, j);
        }
        s->done[i] = s->n_rows == before;
    }
}

/* ---- results ---- */

void ts_beam_write(const ts_beam_state *s, int64_t item, int64_t rank, const ts_beam *b,
                   const int32_t *generated)
{
    const ts_beam_search_args *a = s->a;
    const int64_t              place = item * a->d.beam_width + rank, most = a->d.max_new_tokens;
    for (int64_t i = 0; i < most; i++)
        a->tokens[place * most + i] = i < b->length ? generated[i] : -1;
    a->length[place] = b->length;
    a->logprob[place] = b->logprob;
    a->score[place] = b->score;
    a->finished[place] = (uint8_t)b->finished;
}

int64_t ts_beam_finish_slots(const ts_beam_state *s, int64_t item)
{
    const ts_beam *b = ts_beam_slots(s, item);
    for (int64_t j = 0; j < s->n_beams[item]; j++)
        ts_beam_write(s, item, j, b + j, ts_beam_text(s, item, j) + s->a->prompt_len[item]);
    return s->n_beams[item];
}

ts_status ts_beam_run(const ts_beam_search_args *a, const ts_exec *x, int has_archive,
                      const ts_beam_steps *steps)
{
    const ts_beam none = { .logprob = -INFINITY, .score = -INFINITY };
    ts_beam_state s;
    ts_status     status = begin(&s, a, x, has_archive);
    if (status) return status;
    start(&s, has_archive);
    for (int64_t step = 0; step < a->d.max_new_tokens; step++) {
        list_rows(&s);
        if (s.n_rows == 0) break;
        if (a->model->next(a->model->self, s.n_rows, s.len, s.string, s.logits)) return TS_E_MODEL;
        s.divisor = pow((double)(step + 1), a->d.alpha);
        status = steps->reduce(&s, x);
        if (status) return status;
        for (int64_t i = 0; i < a->d.n_items; i++) {
            if (s.done[i]) continue;
            s.n_beams[i] = steps->choose(&s, i);
            s.bank[i] = !s.bank[i];
        }
    }
    for (int64_t i = 0; i < a->d.n_items; i++) {
        a->n_found[i] = steps->finish(&s, i);
        for (int64_t j = a->n_found[i]; j < a->d.beam_width; j++)
            ts_beam_write(&s, i, j, &none, NULL);
    }
    return TS_OK;
}
