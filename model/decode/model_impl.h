/* SPDX-License-Identifier: Apache-2.0 */
/* model_impl.h - what the files of this folder share. */
#ifndef TS_MODEL_IMPL_H
#define TS_MODEL_IMPL_H

#include "clock.h"
#include "decoder.h"
#include "gguf.h"
#include "ops.h"

/* ---- weights: each has a slot. Those of a layer first, then those of the whole model ---- */

typedef enum ts_slot {
    TS_W_NORM_1,
    TS_W_NORM_1_BIAS,
    TS_W_Q,
    TS_W_Q_BIAS,
    TS_W_K,
    TS_W_K_BIAS,
    TS_W_V,
    TS_W_V_BIAS,
    TS_W_Q_NORM,
    TS_W_K_NORM,
    TS_W_O,
    TS_W_O_BIAS,
    TS_W_NORM_2,
    TS_W_NORM_2_BIAS,
    TS_W_GATE,
    TS_W_UP,
    TS_W_UP_BIAS,
    TS_W_DOWN,
    TS_W_DOWN_BIAS,
    TS_LAYER_SLOTS,
    TS_W_EMBED = TS_LAYER_SLOTS,
    TS_W_NORM,
    TS_W_NORM_BIAS,
    TS_W_HEAD,
    TS_SLOTS
} ts_slot;

/* Matrices [rows][cols]; vectors have cols 0; a slot that this architecture lacks has rows 0. */
typedef struct ts_shape {
    int64_t rows, cols;
} ts_shape;

ts_shape ts_slot_shape(const ts_decoder_dims *d, ts_slot s);
int64_t  ts_shape_count(ts_shape s);
/* The offset of a weight in an array of all; `layer` is ignored for slots of the whole model. */
int64_t ts_slot_at(const ts_decoder_dims *d, int64_t layer, ts_slot s);
int64_t ts_slot_count(const ts_decoder_dims *d);

/* What Hugging Face calls it. */
enum { TS_SLOT_NAME = 128 };
void ts_slot_name(const ts_decoder_dims *d, int64_t layer, ts_slot s, char name[TS_SLOT_NAME]);

/* Radians a position, of channels `pair` and pair + head_dim / 2. */
double ts_rope_frequency(const ts_decoder_dims *d, int64_t pair);

/* Dims that this code can run, and whose products cannot overflow. */
bool ts_dims_check(const ts_decoder_dims *d, char why[TS_MODEL_WHY]);

/* Formats whose codes are multiplied without decoding, by codes.h. */
typedef enum ts_code {
    TS_CODE_NONE,
    TS_CODE_Q8_0,
    TS_CODE_Q4_0,
    TS_CODE_Q4_1,
    TS_CODE_Q5_0,
    TS_CODE_Q5_1,
    TS_CODE_Q4_K, /* from here on in blocks of 256 */
    TS_CODE_Q5_K,
    TS_CODE_Q6_K,
    TS_CODE_TQ2_0,
} ts_code;

/* How a GGUF file keeps weights: n of them in n_bytes, any alignment. */
typedef struct ts_block {
    const char *name;
    int         n, n_bytes;
    ts_code     code;
    void (*decode)(const unsigned char *p, float *y);           /* one block of codes */
    void (*plain)(const unsigned char *p, int64_t n, float *y); /* or n numbers */
    /* Of n numbers and x, without a copy of them; NULL: there is none. */
    float (*dot)(const unsigned char *p, const float *x, int64_t n);
} ts_block;

extern const char ts_block_names[];
enum { TS_BLOCK_F32 = 0, TS_BLOCK_F16 = 1, TS_BLOCK_BF16 = 30 }; /* of plain numbers */
const ts_block *ts_block_of(uint32_t number);                    /* NULL: unknown */
/* n weights, whole blocks of them. */
void ts_block_row(const ts_block *b, const unsigned char *row, int64_t n, float *y);

/* A weight in place in a file, at any alignment: blocks; or ternary codes and their scales, as
 * ternary.h packs them. */
typedef struct ts_tensor {
    const unsigned char *data;
    const ts_block      *block; /* NULL: codes */
    const unsigned char *scale; /* of codes */
} ts_tensor;

/* A decoder whose matrices stay in the file, which it then owns: *f is empty. */
bool ts_decoder_gguf_file(ts_file *f, ts_dtype dtype, ts_decoder **m, char why[TS_MODEL_WHY]);
/* What a GGUF file calls a weight; and a weight of this shape, in a format that block.c decodes. */
void ts_gguf_slot_name(int64_t layer, ts_slot s, char name[TS_SLOT_NAME]);
bool ts_gguf_find(const ts_gguf *g, const char *name, ts_shape shape, ts_tensor *t,
                  char why[TS_MODEL_WHY]);

/* A matrix that stays in its file. head_dim: 0, or its rows come from those of a rotation of
 * channels 2i and 2i + 1. */
typedef struct ts_encoded {
    const unsigned char *data; /* NULL: not encoded */
    const ts_block      *block;
    int64_t              head_dim;
} ts_encoded;

/* weight[], scale[], memory and frequency point to memory of `device`. */
struct ts_decoder {
    ts_decoder_dims        dims;
    ts_dtype               dtype;
    ts_device              device;
    const ts_ops          *ops;
    void                  *self;   /* of ops; NULL on the CPU */
    const ts_model_module *cuda;   /* where self comes from */
    void                 **weight; /* [ts_slot_count]; NULL where absent */
    uint16_t             **scale;  /* the same; NULL where the weight is not packed */
    bool                   packed; /* any of them is */
    void                  *memory;
    size_t                 n_bytes;   /* of memory */
    ts_encoded            *encoded;   /* like weight, which is NULL where this is not */
    size_t                 n_encoded; /* bytes */
    bool                   exact;     /* they are multiplied as floats, never as codes */
    ts_file               *file;      /* where encoded ones are */
    int                    n_file;
    double                *frequency; /* [head_dim / 2], of the rotation */
};

/* What a limit on tokens is, for messages. */
static inline const char *ts_is_context(const ts_decoder *m, int64_t n_token)
{
    return n_token == m->dims.n_context ? ", the model's context" : "";
}

/* Copies the weights out of the file, but with `stay` the matrices that encoded.c multiplies; then
 * the caller gives the decoder the file. `pairs`: q and k are made for a rotation of channels 2i
 * and 2i + 1; their rows are reordered to that of i and i + head_dim / 2, which leaves q.k as it
 * was and one kind of rotation to compute. */
bool ts_decoder_make(const ts_decoder_dims *d, ts_dtype dtype, const ts_tensor *tensor, bool pairs,
                     bool stay, ts_decoder **m, char why[TS_MODEL_WHY]);
void ts_decoder_rebase(ts_decoder *m, char *memory);

static inline void *ts_weight(const ts_decoder *m, int64_t layer, ts_slot s)
{
    return m->weight[ts_slot_at(&m->dims, layer, s)];
}

/* ---- packed.c: matrices that stay codes and scales ---- */

/* Bytes of a row's codes, and how many scales it has: as matrices of a file. */
ts_shape ts_packed_codes(ts_shape s);
ts_shape ts_packed_scales(ts_shape s);
/* Codes and scales that the kernels will take. */
bool ts_packed_check(const char *name, ts_shape s, const ts_tensor *t, char why[TS_MODEL_WHY]);
/* The workspace of the matmuls of a pass over n tokens; 0 where nothing is packed. */
size_t ts_packed_workspace(const ts_decoder *m, int64_t n);
/* y[i] = row[i] of the embedding. */
void ts_packed_gather(const ts_decoder *m, void *y, const int32_t *row, int64_t n);
/* y = x w^T + bias, or by way of `room`, which is as large, y += that; `at`: the weight's. */
typedef struct ts_packed_product {
    int64_t     at;
    ts_shape    shape;
    void       *y;
    const void *x, *bias; /* bias may be NULL */
    void       *room;     /* NULL: y is overwritten */
    int64_t     n;
} ts_packed_product;
ts_status ts_packed_linear(const ts_decoder *m, const ts_packed_product *p, const ts_exec *x);

/* ---- encoded.c: matrices that stay in their file ---- */

bool    ts_encoded_takes(ts_shape s, const ts_tensor *t);
size_t  ts_encoded_bytes(const ts_encoded *e, ts_shape s);
int64_t ts_paired_row(int64_t to, int64_t head_dim);
void    ts_encoded_row(const ts_encoded *e, int64_t cols, int64_t row, float *y);
/* y = x w^T, or y += that. */
typedef struct ts_encoded_product {
    const ts_encoded *e;
    ts_shape          shape;
    void             *y;
    const void       *x;
    int64_t           n;
    bool              add;
} ts_encoded_product;
/* Memory for activations as bytes: what a pass over n tokens takes of it. */
size_t ts_encoded_workspace(const ts_decoder *m, int64_t n);
/* n products, all of the same x. With `rounded` NULL they are those of floats. */
void ts_encoded_linear(const ts_encoded_product *p, int n, void *rounded, int n_threads);
/* As ts_decoder_decode, but with keep_half those of 16 bits that a device multiplies stay. */
bool ts_encoded_decode(ts_decoder *m, bool keep_half, char why[TS_MODEL_WHY]);
/* Matrices of 16 bits may be on a CUDA device, rows in their final order. */
ts_dtype ts_encoded_dtype(const ts_encoded *e); /* of such a one */
void     ts_encoded_half(const ts_decoder *m, const ts_encoded_product *p);
void     ts_decoder_forget_files(ts_decoder *m);

/* ---- Hugging Face ---- */

bool ts_config_parse(const void *bytes, size_t n, ts_decoder_dims *d, char why[TS_MODEL_WHY]);

typedef struct ts_safetensors ts_safetensors;

/* The bytes must outlive what is made of them. */
bool ts_safetensors_parse(const void *bytes, size_t n, ts_safetensors **s, char why[TS_MODEL_WHY]);
void ts_safetensors_free(ts_safetensors **s);
bool ts_safetensors_has(const ts_safetensors *s, const char *name);
bool ts_safetensors_find(const ts_safetensors *s, const char *name, ts_shape shape, ts_tensor *t,
                         char why[TS_MODEL_WHY]);
/* The same of a matrix that is there as NAME.code and NAME.scale. */
bool ts_safetensors_packed(const ts_safetensors *s, const char *name);
bool ts_safetensors_find_packed(const ts_safetensors *s, const char *name, ts_shape shape,
                                ts_tensor *t, char why[TS_MODEL_WHY]);

/* ---- memory of a device ---- */

/* `what` names the purpose in the error line, which also says how many bytes were missing. */
bool ts_memory_take(ts_device device, size_t n_bytes, const char *what, void **p,
                    char why[TS_MODEL_WHY]);
void ts_memory_give(ts_device device, void *p); /* p may be NULL */

/* ---- a cache that fits a decoder, and what its passes need ---- */

typedef struct ts_pool {
    ts_kv  *kv;
    void   *memory;
    size_t  n_bytes; /* of memory */
    int64_t n_call;  /* the most tokens of a pass */
    ts_exec exec;    /* with the workspace of a pass */
} ts_pool;

bool ts_pool_make(const ts_decoder *m, const ts_engine_options *o, ts_pool *p,
                  char why[TS_MODEL_WHY]);
void ts_pool_free(ts_pool *p);

/* Keys of codes are grouped over so many tokens; 1 without codes: a shorter sequence that ends at a
 * multiple is in no bit different from one that never was longer. */
int64_t ts_pool_group(const ts_engine_options *o);

/* Row i of logits that a pass wrote, as the host's floats. */
ts_status ts_logits_out(const ts_decoder *m, const void *logits, int64_t i, float *out);

/* Logits are memory of that device; only what a draw may give comes from there. */
bool ts_sampler_make(int64_t n_vocab, ts_device device, ts_sampler **s, char why[TS_MODEL_WHY]);

/* ---- tokenizers ---- */

typedef struct ts_piece {
    const char *bytes; /* NULL: no such token */
    size_t      n;
    float       score;                   /* llama2.c and SentencePiece */
    bool        strip_left, strip_right; /* a special token includes the white space next to it */
} ts_piece;

typedef struct ts_merge {
    int32_t left, right, rank, joined;
} ts_merge;

enum { TS_SPLITS = 6, TS_FIRSTS = 4 };

struct ts_tokenizer {
    int64_t   n_piece;
    ts_piece *piece;
    char     *text;   /* where pieces' bytes are */
    int32_t  *sorted; /* tokens that text can give, by bytes */
    int64_t   n_sorted;
    int32_t   byte[256]; /* the token of a byte, or -1 */
    ts_merge *merge;     /* by left and right; NULL: the joined piece with the best score */
    int64_t   n_merge;
    int32_t  *added; /* special tokens, found in a text before anything else */
    int64_t   n_added;
    void     *split[TS_SPLITS]; /* pcre2_code: where a text is cut into words */
    int       n_split;
    int32_t   first[TS_FIRSTS]; /* what every text begins with */
    int       n_first;
    int32_t   stop;
    bool      whole_words; /* a word that is a piece is that piece, whatever merges say */
    bool      characters;  /* joining begins with characters; those without a token become bytes */
    bool      blank_mark;  /* U+2581 is a space: SentencePiece's pieces have it in its place */
    bool      nfc;         /* texts are composed first */
    bool      leading_space; /* put before the text between special tokens ... */
    bool      leading_first; /* ... where it begins the text */
    bool      leading_once;  /* ... where it has none */
};

/* Unicode's NFC; *out is the caller's to free. */
bool ts_nfc(const char *text, size_t n, char **out, size_t *n_out, char why[TS_MODEL_WHY]);
/* A text with a space for each U+2581; `out` has room for n bytes. Returns how many there are. */
size_t ts_blanks(const char *s, size_t n, char *out);

bool ts_tokenizer_llama2c(ts_tokenizer *t, const unsigned char *p, size_t n,
                          char why[TS_MODEL_WHY]);
bool ts_tokenizer_gguf(ts_tokenizer *t, const unsigned char *p, size_t n, char why[TS_MODEL_WHY]);
bool ts_tokenizer_json(ts_tokenizer *t, const unsigned char *p, size_t n, char why[TS_MODEL_WHY]);
/* Sorts the pieces that text can give, those with `ordinary` set; NULL: all. */
bool    ts_tokenizer_sort(ts_tokenizer *t, const bool *ordinary, char why[TS_MODEL_WHY]);
int32_t ts_tokenizer_find(const ts_tokenizer *t, const char *bytes, size_t n); /* -1: none */

/* The words that a text is cut into before anything in it is joined, one after the other. */
typedef bool (*ts_word_fn)(void *user, const char *p, size_t n);
bool ts_tokenizer_words(const ts_tokenizer *t, const char *text, size_t n, ts_word_fn tell,
                        void *user, char why[TS_MODEL_WHY]);

/* The byte that character c represents in a tokenizer.json, or -1: bytes that are not printable are
 * represented by characters from 256 on. */
enum { TS_BYTE_CHARS = 256 + 68 };
int ts_byte_of(unsigned c);

/* The same of a whole piece; `out` has room for n bytes. False if another character is there. */
bool ts_bytes_of(const char *s, size_t n, char *out, size_t *n_out);
/* A merge of two pieces as the file writes them, once all pieces are sorted; its rank is the
 * caller's to set. */
bool ts_tokenizer_merge(const ts_tokenizer *t, const char *l, size_t n_l, const char *r, size_t n_r,
                        ts_merge *m);
/* One more pattern by which a text is cut. */
bool ts_tokenizer_split(ts_tokenizer *t, const char *pattern, char why[TS_MODEL_WHY]);
/* The byte that a piece `<0xHH>` represents, or -1. */
int ts_raw_byte(const char *p, size_t n);

/* By left, then right: how merges are sorted. */
int ts_merge_order(const void *x, const void *y);

/* Joins the best pair of neighbours until no pair can be joined; returns how many are left. False
 * only without memory. */
bool ts_bpe(const ts_tokenizer *t, int32_t *token, int64_t *n_token);

#endif
