/* SPDX-License-Identifier: Apache-2.0 */
/* train.h - a Qwen3-style decoder trained from scratch, in full precision or natively ternary.
 *
 * A ts_net is weights, their gradient, and room for one batch to go forward and back. ts_train
 * drives one over a ts_feed: AdamW, a schedule, held-out loss, checkpoints. A ts_corpus makes a
 * feed, and a vocabulary, of a text.
 *
 * Equal seeds give bitwise identical results, for any number of threads. Those that return bool
 * leave one line in `why` when they fail. Calls on one object must not overlap. */
#ifndef TS_TRAIN_H
#define TS_TRAIN_H

#include "decoder.h"
#include "touchstone/ternary_training.h" /* ts_adamw */

/* ---- the net ---- */

typedef struct ts_net ts_net;

typedef struct ts_net_options {
    ts_decoder_dims dims;    /* ts_net_dims_set fills what training leaves no choice of */
    bool            ternary; /* every matrix, the embedding too */
    bool            paired;  /* ... and two neighbouring groups of a row have one scale */
    ts_device       device;  /* where it is */
    ts_dtype        dtype;   /* TS_F32; TS_F64, on the CPU, to check gradients with; TS_BF16, on a
                              * CUDA device: products and what is between them, all else float */
    int64_t n_batch;         /* sequences that go through together */
    int64_t n_token;         /* positions of each */
    int     n_threads;       /* 0: as many as OpenMP would take */
} ts_net_options;

/* RMSNorm, norms of q and k, rotation by halves, a gate, a tied head, no biases. */
void ts_net_dims_set(ts_decoder_dims *d);

/* Weights are random by `seed`, gradient 0. */
bool ts_net_create(const ts_net_options *o, uint64_t seed, ts_net **n, char why[TS_MODEL_WHY]);
void ts_net_free(ts_net **n);

/* Weights and gradient have one order: E, then of each layer Wq, Wk, Wv, Wo, Wgate, Wup, Wdown;
 * after all matrices the norms, of each layer those of attention, q, k and feed-forward, then the
 * last. Of the net's dtype on the CPU; of a net on a CUDA device they are copies on the host, in
 * float, which ts_net_pull brings up to date. */
void   *ts_net_weights(ts_net *n);
void   *ts_net_gradient(ts_net *n);
int64_t ts_net_count(const ts_net *n);
int64_t ts_net_matrix_count(const ts_net *n); /* those of them that are in matrices */

const ts_net_options *ts_net_options_of(const ts_net *n);

/* One batch: [n_batch][n_token] each. A target of -1 counts for nothing: padding. */
typedef struct ts_net_batch {
    int32_t *input, *target;
} ts_net_batch;

typedef struct ts_net_score {
    double  nll;              /* summed over targets, natural */
    int64_t n_count, n_right; /* targets; those that were the most probable token */
} ts_net_score;

/* Adds to *s. TS_E_ARG: a token outside the vocabulary. TS_E_RANGE: latents that cannot be packed.
 */
ts_status ts_net_eval(ts_net *n, const ts_net_batch *b, ts_net_score *s);
/* Also adds the gradient of weight * nll. For ternary matrices straight through: as if the
 * effective weights were learned, with constant scales. */
ts_status ts_net_grad(ts_net *n, const ts_net_batch *b, double weight, ts_net_score *s);

void ts_net_zero(ts_net *n); /* the gradient */

/* The effective weights: the weights themselves, or unpacked ternary ones; [ts_net_count], float.
 * */
ts_status ts_net_effective(ts_net *n, float *weights);

/* From and to a CUDA device; nothing where the net is on the CPU. */
enum { TS_NET_WEIGHTS = 1, TS_NET_GRADIENT = 2, TS_NET_MOMENTS = 4 };
ts_status ts_net_pull(ts_net *n, unsigned parts);
ts_status ts_net_push(ts_net *n, unsigned parts);

/* ---- the optimiser ---- */

/* One step over n weights, the first n_matrix of which decay. m and v begin as 0; step counts from
 * 1. *norm is that of the whole gradient before it is clipped; TS_E_RANGE, and nothing changed,
 * where it is not finite. */
typedef struct ts_clipped_args {
    ts_adamw     how;
    int64_t      n, n_matrix, step;
    float       *w, *m, *v;
    const float *gradient;
    double      *norm;
    int          n_threads;
} ts_clipped_args;

ts_status ts_clipped_step(const ts_clipped_args *a);

/* The same of a net's own weights, where it is; on a CUDA device in float. Moments, [2][n], are 0
 * from ts_net_begin on, and on the host; NULL: no memory. */
float    *ts_net_begin(ts_net *n);
ts_status ts_net_step(ts_net *n, const ts_adamw *how, int64_t step, double *norm);

/* Milliseconds of a step on a CUDA device after ts_net_begin; how many parts, 0 where it failed.
 * The weights have moved. */
typedef struct ts_net_time {
    const char *part;
    double      ms;
} ts_net_time;

enum { TS_NET_TIMES = 16 };
int ts_net_profile(ts_net *n, const ts_net_batch *b, const ts_adamw *how, ts_net_time time[]);

/* The rate of step 1 .. n_step: linear up to lr in n_warm steps, then by a half cosine down to
 * lr * last; last 1 is constant. */
double ts_schedule(double lr, double last, int64_t n_warm, int64_t n_step, int64_t step);

/* ---- a team: processes that train one net together ---- */

/* Each has the whole net and takes its share of every step's sequences; gradients are summed, so
 * all take the same step. The first, rank 0, writes. */
typedef struct ts_team {
    int rank, size;
    /* In place, over all; TS_F32 or TS_F64. All end with the same bits. */
    bool (*sum)(void *user, ts_dtype dtype, void *x, int64_t n);
    void (*leave)(bool well);
    void *user;
} ts_team;

/* The processes that an MPI launcher started, else a team of one. */
bool ts_team_join(ts_team *t, char why[TS_MODEL_WHY]);
/* `well` false: the others end too. */
void ts_team_leave(ts_team *t, bool well);

/* ---- a folder ---- */

/* Claimed by rank 0 before anything else: a run that is rejected changes no file. */
typedef struct ts_folder {
    int         fd;
    const char *path;
    bool        made; /* by this run */
} ts_folder;

/* A new run wants a folder without a model, a resumed one a checkpoint; both want no other run. */
bool ts_folder_claim(ts_folder *f, const char *path, bool resume, char why[TS_MODEL_WHY]);
/* `well` false: a folder that this run made and left empty is removed. */
void ts_folder_leave(ts_folder *f, bool well);

/* ---- training ---- */

/* Where sequences come from. `held_out`: of the split that is not trained on, i < n_held_out. */
typedef struct ts_feed {
    void (*fill)(void *user, bool held_out, int64_t i, int32_t *input, int32_t *target,
                 int64_t n_token);
    void   *user;
    int64_t n_held_out;
    double  held_out_bytes; /* of text, for bits a byte; 0: none */
} ts_feed;

typedef struct ts_train_options {
    ts_adamw    adamw;
    double      last; /* as in ts_schedule */
    int64_t     n_step, n_warm;
    int64_t     n_accumulate;         /* batches a step */
    int64_t     eval_every, patience; /* evaluations without a gain before it ends; 0: no end */
    int64_t     save_every;
    uint64_t    seed;
    uint64_t    data;   /* a name for what the feed gives: a run goes on with the same only */
    const char *folder; /* for checkpoint, log and export; NULL: none of them */
    bool        resume;
    int32_t     stop_token; /* goes into the exported config; -1: none */

    /* Rank 0 calls it before a new run writes its first file; NULL: nothing else is written. */
    bool (*begin)(void *user, char why[TS_MODEL_WHY]);
    const ts_team *team; /* NULL: alone; the net's n_batch is this process's share */
} ts_train_options;

typedef struct ts_train_event {
    int64_t step, n_step;
    double  loss, lr, norm; /* of this step */
    double  held_out;       /* mean; NaN where it was not measured */
    double  bits_per_byte;  /* NaN where there are no bytes */
    double  tokens_per_s, left_s;
    bool    best;
} ts_train_event;

typedef void (*ts_train_fn)(void *user, const ts_train_event *e);

typedef struct ts_train_result {
    int64_t n_step, best_step;
    double  best, best_bits_per_byte, last; /* held-out means */
    bool    early;
    double  took_s;
} ts_train_result;

/* The net ends with the weights of the last step; the folder has the best. */
bool ts_train(ts_net *n, const ts_feed *f, const ts_train_options *o, ts_train_fn tell, void *user,
              ts_train_result *r, char why[TS_MODEL_WHY]);

/* ---- text ---- */

/* Documents are what empty lines part. Equal ones are taken once; about a tenth of the bytes is
 * held out, document by document, by a hash of what is in them. */
typedef struct ts_corpus ts_corpus;

typedef struct ts_corpus_facts {
    int64_t  n_document, n_repeated, n_held_out; /* repeated ones are not in n_document */
    int64_t  bytes, held_out_bytes;
    int64_t  n_token, n_held_out_token;
    uint64_t hash;    /* of both halves' tokens */
    double   overlap; /* share of held-out runs of eight words that training text has too */
} ts_corpus_facts;

bool ts_corpus_load(const char *path, uint64_t seed, ts_corpus **c, char why[TS_MODEL_WHY]);
bool ts_corpus_parse(const char *text, size_t n, uint64_t seed, ts_corpus **c,
                     char why[TS_MODEL_WHY]);
void ts_corpus_free(ts_corpus **c);

/* A tokenizer.json with byte-level BPE of up to n_vocab tokens, learned from the training half. The
 * caller frees *json. Fewer where the text has no pair left that occurs twice. */
bool ts_corpus_vocabulary(const ts_corpus *c, int64_t n_vocab, char **json, size_t *n_json,
                          char why[TS_MODEL_WHY]);
/* After this the corpus can feed. A document is followed by the token that ends a text. */
bool ts_corpus_encode(ts_corpus *c, const ts_tokenizer *t, int64_t n_token, char why[TS_MODEL_WHY]);

ts_corpus_facts ts_corpus_facts_of(const ts_corpus *c);
ts_feed         ts_corpus_feed(ts_corpus *c);

enum { TS_CORPUS_BYTES = 256, TS_CORPUS_END = 256 }; /* tokens: bytes, the end, then merges */

/* ---- out ---- */

/* config.json and model.safetensors; of a ternary net also ternary.safetensors: codes and scales as
 * ternary.h packs them, and norms. */
bool ts_net_export(ts_net *n, const char *folder, int32_t stop_token, char why[TS_MODEL_WHY]);

/* model.gguf from those files and tokenizer.json, with every weight as it is there. */
bool ts_folder_export_gguf(const char *folder, char why[TS_MODEL_WHY]);

/* The whole file or none of it, whenever the power fails. */
bool ts_file_write(const char *path, const void *bytes, size_t n, char why[TS_MODEL_WHY]);

#endif
