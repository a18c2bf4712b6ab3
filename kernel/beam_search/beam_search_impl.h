/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_impl.h - the implementations, and the search that they share. Private. */
#ifndef TS_BEAM_SEARCH_IMPL_H
#define TS_BEAM_SEARCH_IMPL_H

#include "topk.h"
#include "touchstone/beam_search.h"
#include "whole.h"

extern const ts_impl ts_beam_search_impls[], ts_beam_search_archive_impls[];
extern const ts_impl ts_beam_search_device_impls[], ts_beam_search_archive_device_impls[];

ts_status ts_beam_search_check(const ts_beam_search_args *a, const ts_exec *x);

TS_DECLARE_IMPLS(ts_beam_search)
TS_DECLARE_IMPLS(ts_beam_search_archive)
ts_status ts_beam_search_cuda(const void *args, const ts_exec *x);
ts_status ts_beam_search_archive_cuda(const void *args, const ts_exec *x);

ts_status ts_beam_slots_workspace(const void *args, const ts_exec *x, size_t *n_bytes);
ts_status ts_beam_archive_workspace(const void *args, const ts_exec *x, size_t *n_bytes);
/* What of it is the host's, where the workspace is not; 0 on the CPU. */
ts_status ts_beam_host_bytes(const ts_beam_search_args *a, const ts_exec *x, int has_archive,
                             size_t *n_bytes);

typedef struct ts_beam {
    double  logprob, score;
    int64_t length; /* generated tokens */
    int64_t row;    /* of its logits in this step; -1: it is not extended */
    int32_t finished;
} ts_beam;

/* What is known of a row of logits: log-probability = (logit - max) - log_sum. max + log_sum would
 * lose log_sum in a row that is far from zero. */
typedef struct ts_beam_row {
    double max, log_sum;
} ts_beam_row;

/* The best extension of a beam that is not taken yet. score -inf: there is none. */
typedef struct ts_beam_head {
    double  score;
    int64_t at; /* among the row's candidates */
    int32_t token;
    float   logit;
} ts_beam_head;

/* All that is read of the rows of a step, once it is found. */
typedef struct ts_beam_found {
    double  *total; /* [rows]: of exp(logit - the largest) */
    float   *value; /* [rows][n_best + 1]: logits of best; and of EOS, if there is one */
    int32_t *best;  /* [rows][n_best], canonical order */
} ts_beam_found;

/* A search under way, all of it in the workspace; with TS_CUDA logits, sum and prob are there, and
 * the rest is in the host's scratch. `K` is beam_width. An item has two banks of beams
 * and their strings, prompt included; one is read and the other written, and they change places. */
typedef struct ts_beam_state {
    const ts_beam_search_args *a;
    ts_exec                    inner;   /* for softmax_topk */
    int64_t                    n_best;  /* candidates of a row */
    int64_t                    n_rows;  /* in this step */
    double                     divisor; /* of this step's scores: length^alpha */
    float                     *logits;  /* [rows][n_vocab] */
    ts_beam_found              found;
    ts_beam_found              device;  /* the same where the logits are: found's, or a copy */
    size_t                     n_found; /* bytes from total to the end of best */
    float                     *prob;    /* [rows][n_best]: softmax_topk wants to write it */
    ts_beam_row               *row;     /* [rows] */
    double                    *sum;     /* [rows][chunks of a row] */
    int64_t                   *len;     /* [rows] */
    const int32_t            **string;  /* [rows] */
    ts_beam                   *beam[2]; /* [n_items][K] */
    int32_t                   *text[2]; /* [n_items][K][prompt_len + max_new_tokens] */
    int64_t                   *begin;   /* [n_items]: of the item's strings in text */
    int64_t                   *n_beams; /* [n_items] */
    int32_t                   *bank;    /* [n_items] */
    int32_t                   *done;    /* [n_items] */
    ts_beam_head              *head;    /* [K] */
    ts_beam                   *kept;    /* [n_items][K]: the archive, best first; row: its string */
    int32_t                   *kept_text; /* [n_items][K][max_new_tokens] */
    int64_t                   *n_kept;    /* [n_items] */
} ts_beam_state;

/* reduce: fills row, and what choose wants. choose: an item's next beams, by ts_beam_extend and
 * ts_beam_keep, and their number. finish: writes an item's results, and gives their number. */
typedef struct ts_beam_steps {
    ts_status (*reduce)(ts_beam_state *s, const ts_exec *x);
    int64_t (*choose)(ts_beam_state *s, int64_t item);
    int64_t (*finish)(const ts_beam_state *s, int64_t item);
} ts_beam_steps;

ts_status ts_beam_run(const ts_beam_search_args *a, const ts_exec *x, int has_archive,
                      const ts_beam_steps *steps);

/* ---- for choose ---- */

const ts_beam *ts_beam_slots(const ts_beam_state *s, int64_t item);
int32_t       *ts_beam_text(const ts_beam_state *s, int64_t item, int64_t slot);
double         ts_beam_logprob(const ts_beam_state *s, const ts_beam *parent, float logit);

/* The beam that comes next in the other bank: the parent and one token, or the parent as it is. */
void ts_beam_extend(ts_beam_state *s, int64_t item, int64_t to, int64_t parent, int32_t token,
                    float logit);
void ts_beam_keep(ts_beam_state *s, int64_t item, int64_t to, int64_t parent);

/* ---- the K best by the rows' candidates ---- */

/* A row's sum is that of its chunks, in their order: so threads may share a row, and no bit of the
 * sum depends on the number of threads or on other rows. */
enum { TS_BEAM_PIECE = 1 << 12 };

/* Rows that go to softmax_topk at a time: its workspace depends on their number, not monotonically,
 * so every number has to be queried. */
enum { TS_BEAM_GROUP = 1 << 10 };

int64_t ts_beam_pieces(int64_t n_vocab);

/* The sum of exp(x - max) over a chunk. */
typedef double (*ts_beam_sum_fn)(const float *x, int64_t n, double max);

ts_status ts_beam_reduce(ts_beam_state *s, const ts_exec *x, ts_topk_fn topk, ts_beam_sum_fn sum);

/* softmax_topk's arguments for n rows from `first` on. */
ts_softmax_topk_args ts_beam_topk_args(const ts_beam_state *s, int64_t first, int64_t n);
/* Rows, from what was found of them. */
ts_status ts_beam_take_rows(ts_beam_state *s);

/* The best of what the item's beams can become, finished ones among them, `barred` (a token, or
 * -1) apart. Gives their number. */
int64_t ts_beam_merge(ts_beam_state *s, int64_t item, int32_t barred);

int64_t ts_beam_choose_slots(ts_beam_state *s, int64_t item);
int64_t ts_beam_choose_archive(ts_beam_state *s, int64_t item);

/* ---- for finish ---- */

void    ts_beam_write(const ts_beam_state *s, int64_t item, int64_t rank, const ts_beam *b,
                      const int32_t *generated);
int64_t ts_beam_finish_slots(const ts_beam_state *s, int64_t item);
int64_t ts_beam_finish_archive(const ts_beam_state *s, int64_t item);

#endif
