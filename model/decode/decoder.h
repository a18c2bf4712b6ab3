/* SPDX-License-Identifier: Apache-2.0 */
/* decoder.h - a transformer decoder built on the kernels: read it, run it, generate with it.
 *
 * A ts_decoder is the weights of a Llama-like model: per layer norm, grouped-query attention with
 * rotary positions, norm, feed-forward; a final norm and a head. A ts_tokenizer turns text into
 * tokens and back. A ts_engine runs many requests at once over one KV cache.
 *
 * Readers trust nothing in a file. Those that return bool leave one line in `why` when they fail:
 * what, where, got, expected. They allocate; forward and step do not. Calls on one
 * object must not overlap, except calls on a tokenizer, or on a decoder on the CPU, until it is
 * freed. */
#ifndef TS_DECODER_H
#define TS_DECODER_H

#include <stdbool.h>

#include "file.h"
#include "touchstone/kv_cache.h"

enum { TS_MODEL_STOPS = 8 };

/* ---- the decoder ---- */

typedef struct ts_decoder_dims {
    int64_t n_layer, width, n_head, n_kv_head, head_dim, n_ffn, n_vocab;
    int64_t n_context; /* positions that the model was made for */
    int64_t window;    /* 0: attention sees all that came before */
    double  norm_eps, rope_theta;
    double  rope_factor;                       /* slows the rotation down; 1: as it is */
    double  rope_low, rope_high, rope_context; /* rope_context 0: slow all pairs down alike */
    bool    layernorm;                         /* else RMSNorm */
    bool    gelu;    /* down(gelu(up x)); else down(silu(gate x) * up x) */
    bool    qk_norm; /* RMSNorm of each head of q and k */
    bool    qkv_bias, o_bias, ffn_bias;
    bool    tied; /* the head is the embedding */
    int32_t stop[TS_MODEL_STOPS];
    int     n_stop;
} ts_decoder_dims;

typedef struct ts_decoder ts_decoder;

/* `path`: a folder with config.json and model.safetensors, or shards and their index, as Hugging
 * Face writes them; a .safetensors file with config.json in its folder; a GGUF file; or a llama2.c
 * file. dtype is what weights are kept and computed in: TS_F32 or TS_F64. */
bool ts_decoder_load(const char *path, ts_dtype dtype, ts_decoder **m, char why[TS_MODEL_WHY]);
/* The same from bytes, which are not kept. */
bool ts_decoder_gguf(const void *bytes, size_t n, ts_dtype dtype, ts_decoder **m,
                     char why[TS_MODEL_WHY]);
bool ts_decoder_llama2c(const void *bytes, size_t n, ts_dtype dtype, ts_decoder **m,
                        char why[TS_MODEL_WHY]);
bool ts_decoder_safetensors(const void *config, size_t n_config, const void *bytes, size_t n,
                            ts_dtype dtype, ts_decoder **m, char why[TS_MODEL_WHY]);
/* Moves the weights to the CUDA device, where everything made of the decoder then runs; TS_F32
 * only. It stays as it was where that cannot be. */
bool ts_decoder_to_cuda(ts_decoder *m, char why[TS_MODEL_WHY]);
/* Matrices that are multiplied as their file has them become floats; nothing where none is. */
bool ts_decoder_decode(ts_decoder *m, char why[TS_MODEL_WHY]);
/* Whether matrices in a file's codes are multiplied as floats. By default activations are rounded
 * to eight bits and multiplied with the codes, where the CPU has dot products of bytes. */
void ts_decoder_exact(ts_decoder *m, bool exact);
void ts_decoder_free(ts_decoder **m);

const ts_decoder_dims *ts_decoder_dims_of(const ts_decoder *m);
ts_dtype               ts_decoder_dtype(const ts_decoder *m);
ts_device              ts_decoder_device(const ts_decoder *m);
size_t                 ts_decoder_bytes(const ts_decoder *m); /* of weights */

/* Appends n_new[i] tokens to each sequence of the cache, packed as the cache takes them, and writes
 * the logits that follow the rows `want` of the packed batch. The cache must have the decoder's
 * heads and its dtype for io. On any status but TS_OK the sequences have the lengths they had;
 * their bits too, unless keys are codes by channel and the call had finished a group before it
 * failed. Decoder, cache and x are on one device, and so are logits and workspace; the lists are
 * the host's. The call is back when all is done. */
typedef struct ts_forward_args {
    ts_kv         *cache;
    int64_t        n_seq;
    const int32_t *seq;   /* [n_seq] */
    const int64_t *n_new; /* [n_seq] */
    const int32_t *token; /* [sum n_new] */
    int64_t        n_want;
    const int64_t *want;   /* [n_want], each in [0, sum n_new) */
    void          *logits; /* [n_want][n_vocab] */
} ts_forward_args;

/* The workspace of a forward of up to n_token tokens, with a cache that itself needs kv_bytes. */
size_t    ts_decoder_workspace(const ts_decoder *m, int64_t n_token, size_t kv_bytes);
ts_status ts_decoder_forward(const ts_decoder *m, const ts_forward_args *a, const ts_exec *x);

/* The same for drafted tokens: trees that follow their sequences, as in ts_kv_attend_tree. No
 * sequence grows; what the layers would have appended is written to kv, on the same device. */
typedef struct ts_forward_tree {
    const int32_t *parent; /* [sum n_new] */
    void          *kv;     /* [n_layer][2][sum n_new][n_kv_head][head_dim]: keys, values */
} ts_forward_tree;

ts_status ts_decoder_forward_tree(const ts_decoder *m, const ts_forward_args *a,
                                  const ts_forward_tree *t, const ts_exec *x);

/* Appends rows of such a pass over n_row tokens to a sequence: a path, root first. */
typedef struct ts_keep_args {
    ts_kv         *cache;
    int32_t        seq;
    int64_t        n_row, n_keep;
    const int64_t *row; /* [n_keep] */
    const void    *kv;
} ts_keep_args;

ts_status ts_decoder_keep(const ts_decoder *m, const ts_keep_args *a, const ts_exec *x);

/* ---- the tokenizer ---- */

typedef struct ts_tokenizer ts_tokenizer;

/* A Hugging Face tokenizer.json with byte-level BPE, a GGUF file's vocabulary, or llama2.c's. */
bool ts_tokenizer_load(const char *path, ts_tokenizer **t, char why[TS_MODEL_WHY]);
bool ts_tokenizer_parse(const void *bytes, size_t n, ts_tokenizer **t, char why[TS_MODEL_WHY]);
void ts_tokenizer_free(ts_tokenizer **t);
/* Whether a model's GGUF file contains its vocabulary. */
bool ts_tokenizer_is_inside(const char *path);

int64_t ts_tokenizer_size(const ts_tokenizer *t); /* one more than the largest token */
int32_t ts_tokenizer_stop(const ts_tokenizer *t); /* the token that ends a text, or -1 */

int ts_tokenizer_first(const ts_tokenizer *t); /* tokens that every encoded text begins with */

/* `text` is UTF-8. *token is the caller's to free. */
bool ts_tokenizer_encode(const ts_tokenizer *t, const char *text, size_t n, int32_t **token,
                         int64_t *n_token, char why[TS_MODEL_WHY]);
/* The bytes that `token` adds to a text after `previous` (-1: none). They may end inside a
 * character. */
const char *ts_tokenizer_piece(const ts_tokenizer *t, int32_t previous, int32_t token,
                               size_t *n_bytes);

/* Length of the UTF-8 character at p, 0 if it is none. */
size_t ts_utf8_length(const unsigned char *p, size_t n);

/* ---- text as it grows ---- */

/* Starts as zeros; p is the caller's to free. */
typedef struct ts_text {
    char  *p; /* NUL-terminated; may contain NUL and end inside a character */
    size_t n, room;
    size_t n_sure; /* of n bytes: those that no stop text can remove */
    bool   stopped;
} ts_text;

/* Appends the piece of a token. If a stop text is then complete, the text ends before the first
 * one and is stopped. False only without memory. */
bool ts_text_add(ts_text *t, const char *piece, size_t n, const char *const *stop, int n_stop);

/* ---- sampling ---- */

typedef struct ts_sampling {
    double   temperature; /* 0: the most probable, lower id first among equals */
    int64_t  top_k;       /* 0: all */
    double   top_p;       /* in (0, 1] */
    uint64_t seed;
} ts_sampling;

/* What generation_config.json says, as transformers reads the file: greedy unless do_sample; then
 * temperature 1, top_k 50 and top_p 1 unless given. n_stop 0: the file names no token that ends a
 * text. */
typedef struct ts_generation {
    bool        found;
    ts_sampling sampling;
    int32_t     stop[TS_MODEL_STOPS];
    int         n_stop;
} ts_generation;

/* From the folder of the model; a model that is a GGUF or a llama2.c file has none. */
bool ts_generation_load(const char *model, int64_t n_vocab, ts_generation *g,
                        char why[TS_MODEL_WHY]);

/* Room for index and prob, workspace for ts_softmax_topk. */
typedef struct ts_sampler ts_sampler;

bool ts_sampler_create(int64_t n_vocab, ts_sampler **s);
void ts_sampler_free(ts_sampler **s);
/* The i-th draw of a request: the same for the same seed, whatever else is in the batch. TS_E_MODEL
 * where the logits have a NaN or +inf. */
ts_status ts_sampler_draw(ts_sampler *s, const ts_sampling *how, int64_t i, const float *logits,
                          int32_t *token);

/* How probable the model finds a token, whatever the temperature: ln p, at most 0. */
typedef struct ts_likely {
    int32_t token;
    double  logprob; /* -inf: impossible */
} ts_likely;

enum { TS_MODEL_LIKELY = 20 }; /* the most that a request is told */

/* The first `n` of a row of the host, most probable first, and what `token` has; n in [1, n_vocab].
 * A sampler of ts_sampler_create. */
ts_status ts_sampler_likely(ts_sampler *s, const float *logits, int n, ts_likely *likely,
                            int32_t token, double *logprob);

/* ---- continuous batching ---- */

typedef struct ts_engine_options {
    int64_t  n_seq;        /* sequences that run at once */
    int64_t  capacity;     /* tokens of the longest one */
    int64_t  page, n_page; /* as in ts_kv_dims; page 0: contiguous */
    int64_t  chunk;        /* prompt tokens taken in a step, over all sequences */
    ts_dtype store;        /* of the cache */
    int      n_threads;    /* 0: all */
    bool     share;        /* texts that begin alike share whole pages; not with a window */
    int64_t  n_keep;       /* with share: ended sequences kept for that until pages run out */
} ts_engine_options;

typedef struct ts_request {
    const int32_t *prompt;
    int64_t        n_prompt; /* >= 1 */
    int64_t        n_new;    /* at most so many */
    ts_sampling    sampling;
    const int32_t *stop; /* tokens that end it; they are not given out */
    int            n_stop;
    bool           logprobs; /* tell them, and the n_likely most probable tokens */
    int            n_likely; /* 0 .. TS_MODEL_LIKELY */
    void          *tag;      /* the caller's, in each event */
} ts_request;

/* Why a request ended: a stop token or ts_engine_end, n_new tokens, or no room for another. */
typedef enum ts_finish { TS_FINISH_STOP, TS_FINISH_LENGTH, TS_FINISH_CONTEXT } ts_finish;

/* What a step tells of one request: a token, or (token -1) its end, with TS_OK or why. */
typedef struct ts_event {
    int64_t   request;
    int32_t   token;
    ts_status status;
    ts_finish finish; /* of an end with TS_OK */
    void     *tag;
    int64_t   n_shared; /* of an end: prompt tokens that were not run, since a text had them */
    double    logprob;
    const ts_likely *likely; /* [n_likely], until tell returns */
    int              n_likely;
} ts_event;

typedef void (*ts_event_fn)(void *user, const ts_event *e);

typedef struct ts_engine_stats {
    int64_t n_step;
    int64_t n_prompt, n_decode; /* rows: tokens read in chunks, and those read one at a time */
    int64_t n_token;            /* made */
    int64_t n_preempted;
    int64_t n_shared;                        /* tokens that were not run */
    int64_t n_running, n_waiting, n_kept;    /* after the last step */
    double  prompt_s, decode_s;              /* the time of a mixed step is divided by rows */
    size_t  cache_reserved, cache_live_peak; /* bytes */
} ts_engine_stats;

typedef struct ts_engine ts_engine;

bool ts_engine_create(const ts_decoder *m, const ts_engine_options *o, ts_engine **e,
                      char why[TS_MODEL_WHY]);
void ts_engine_free(ts_engine **e);

/* Requests are numbered from 0 and may be added between steps. The prompt is copied. */
bool ts_engine_add(ts_engine *e, const ts_request *r, char why[TS_MODEL_WHY]);
/* Runs every running sequence one step on and lets waiting ones in, as slots and pages allow. False
 * when none is left. */
bool ts_engine_step(ts_engine *e, ts_event_fn tell, void *user);
/* Ends a request as a stop token does. `tell` may call it: a request whose token was just told ends
 * in that step, any other one in the next. */
void ts_engine_end(ts_engine *e, int64_t request);

const ts_engine_stats *ts_engine_stats_of(const ts_engine *e);
/* Of the cache, with what is kept. */
void ts_engine_usage(const ts_engine *e, ts_kv_usage *u);
/* Frees what is kept. */
void ts_engine_forget(ts_engine *e);

/* ---- conversations ---- */

/* A model's chat template: of a GGUF file, or of a folder's chat_template.jinja or
 * tokenizer_config.json. */
typedef struct ts_chat ts_chat;

typedef struct ts_message {
    const char *role, *content; /* system, user or assistant; UTF-8 */
} ts_message;

bool ts_chat_load(const char *model, ts_chat **c, char why[TS_MODEL_WHY]);
/* From a template alone; bos_token and eos_token are undefined. */
bool ts_chat_parse(const char *source, size_t n, ts_chat **c, char why[TS_MODEL_WHY]);
void ts_chat_free(ts_chat **c);
/* Appends the text of the messages and, with `answer`, the beginning of an answer. If the template
 * itself begins a text, the tokens that a tokenizer adds are superfluous: see ts_tokenizer_first.
 * */
bool ts_chat_render(ts_chat *c, const ts_message *message, int64_t n, bool answer, ts_text *out,
                    char why[TS_MODEL_WHY]);

/* One sequence that grows from call to call: what the cache has of it is not run again. */
typedef struct ts_session ts_session;

bool ts_session_create(const ts_decoder *m, const ts_engine_options *o, ts_session **s,
                       char why[TS_MODEL_WHY]); /* o->n_seq 1 */
void ts_session_free(ts_session **s);
/* The i-th draw after these tokens. *n_run: tokens that were run. TS_E_CAPACITY where they do not
 * fit. */
ts_status ts_session_next(ts_session *s, const int32_t *token, int64_t n, const ts_sampling *how,
                          int64_t i, int32_t *next, int64_t *n_run);

/* ---- how probable a text is ---- */

typedef struct ts_evaluation {
    int64_t n_window;
    int64_t n_scored; /* tokens */
    int64_t n_run;    /* more than the text has if windows overlap */
    double  logprob;  /* the sum over all scored tokens, in nats; not finite: an invalid logit */
    double  seconds;
} ts_evaluation;

/* Windows of o->capacity tokens begin every `stride` tokens, as evaluate.c says, with o->n_seq 1.
 * logprob[i]: of token i given its window's tokens before it; 0 where it is not scored. */
bool ts_evaluate(const ts_decoder *m, const ts_engine_options *o, const int32_t *token, int64_t n,
                 int64_t stride, double *logprob, ts_evaluation *out, char why[TS_MODEL_WHY]);

/* ---- the textbook way, to compare with ---- */

/* One sequence, one token at a time, every product a plain loop, greedy. TS_F32 models with RMSNorm
 * and a gate only. Fills token[n_prompt ..] up to n_total. */
bool ts_textbook(const ts_decoder *m, int32_t *token, int64_t n_prompt, int64_t n_total,
                 char why[TS_MODEL_WHY]);

#endif
