/* SPDX-License-Identifier: Apache-2.0 */
/* train_impl.h - what the files of this folder share. */
#ifndef TS_TRAIN_IMPL_H
#define TS_TRAIN_IMPL_H

#include "back.h"
#include "model_impl.h"
#include "ternary_training_layer.h"
#include "touchstone/ternary.h"
#include "train.h"
#include "train_cuda.h"

/* ---- weights ---- */

typedef struct ts_param {
    ts_slot  slot;
    int64_t  layer;
    ts_shape shape;
    int64_t  at; /* of its first element among all */
} ts_param;

enum { TS_NET_MATRICES = 7, TS_NET_NORMS = 4 }; /* of a layer */

typedef struct ts_net_cuda ts_net_cuda;

/* On a CUDA device, `cuda` has what follows from x on, and weights and gradient of its own. */
struct ts_net {
    ts_net_options o;
    int64_t        n; /* rows: n_batch * n_token */
    const ts_ops  *ops;
    const ts_back *back;
    size_t         size;  /* of an element */
    ts_param      *param; /* [n_param], in the order of weights */
    int64_t       *slot;  /* [ts_slot_count]: where in param; -1: none */
    int64_t        n_param, n_count, n_matrix;
    void          *weight, *gradient; /* [n_count] */
    float         *moments;           /* [2][n_count]; NULL: none yet */
    ts_net_cuda   *cuda;              /* NULL on the CPU */
    void          *memory;            /* all that follows, weights and gradient */
    ts_layers      layers;
    ts_layer      *layer;              /* [n_layer] */
    int32_t       *token;              /* [n] */
    void          *x, *t;              /* [n][width]: after the last layer; any */
    void          *rstd_last;          /* [n] */
    void          *logits;             /* [n_head_row][n_vocab] */
    int64_t        n_head_row;         /* rows that are multiplied by the head at once */
    void          *loss, *lse, *total; /* [n_head_row]; [1] */
    bool          *right;              /* [n_head_row] */
    float         *latent, *dlatent;   /* the largest matrix; the first where dtype is not float */
    uint8_t       *code;               /* of n embedded rows; of any matrix where paired */
    uint16_t      *scale;
    void          *served; /* the largest matrix, of dtype: where paired and not float */
    ts_exec        exec;
};

static inline void *ts_net_at(const ts_net *n, void *all, int64_t layer, ts_slot s)
{
    const ts_param *p = &n->param[n->slot[ts_slot_at(&n->o.dims, layer, s)]];
    return (char *)all + (size_t)p->at * n->size;
}

int ts_thread_count(int wanted); /* 0: OpenMP's */

/* Shapes of the layers and what they call. */
void ts_net_layers(ts_net *n);

/* The largest workspace that the kernels of a pass need. */
ts_status ts_net_workspace(const ts_net *n, size_t *n_bytes);

/* ---- a team ---- */

bool ts_team_mpi(ts_team *t, char why[TS_MODEL_WHY]);
/* Nothing where t is NULL, or one. */
bool ts_team_sum(const ts_team *t, ts_dtype dtype, void *x, int64_t n, char why[TS_MODEL_WHY]);

/* ---- linear layers ---- */

/* y = in w', w the layer's matrix `s`. */
ts_status ts_net_linear(const ts_net *n, int64_t layer, ts_slot s, const void *in, void *y,
                        int64_t n_rows);
/* dx = dy w, or dx += that; the gradient of w += dy' in. */
ts_status ts_net_linear_back(const ts_net *n, int64_t layer, ts_slot s, const void *in,
                             const void *dy, void *dx, int64_t n_rows, bool add);
/* y[i] = row n->token[i] of the embedding. */
ts_status ts_net_embed(const ts_net *n, void *y);
/* Its gradient += the rows dx, by token. */
ts_status ts_net_embed_back(const ts_net *n);
ts_status ts_net_linear_workspace(const ts_net *n, size_t *n_bytes);

/* Of ts_net_pack and ts_net_effective alone. */
ts_status ts_net_pack_workspace(const ts_net *n, size_t *n_bytes);

/* A matrix as codes and scales; a row has n_code bytes and n_scale scales. */
typedef struct ts_packed {
    uint8_t  *code;
    uint16_t *scale;
    int64_t   n_code, n_scale;
} ts_packed;

/* As ts_ternary_pack, with one scale for each two groups. */
ts_status ts_pack_pairs(const ts_ternary_pack_args *a, int n_threads);

ts_status ts_net_pack(const ts_net *n, const ts_param *p, ts_packed *k);
void      ts_packed_free(ts_packed *k);

/* ---- on a CUDA device: net_cuda.c ---- */

/* False: `why` has a line. */
bool ts_train_module_load(const ts_train_module **m, char why[TS_MODEL_WHY]);

/* The rest of a net that has its weights; ts_net_cuda_free also where this failed. */
bool      ts_net_cuda_make(ts_net *n, char why[TS_MODEL_WHY]);
void      ts_net_cuda_free(ts_net *n);
bool      ts_net_cuda_begin(ts_net *n);
void      ts_net_cuda_zero(ts_net *n);
ts_status ts_net_cuda_pull(ts_net *n, unsigned parts);
ts_status ts_net_cuda_push(ts_net *n, unsigned parts);
ts_status ts_net_cuda_pass(ts_net *n, const ts_net_batch *b, bool back, double weight,
                           ts_net_score *score);
ts_status ts_net_cuda_step(ts_net *n, const ts_adamw *how, int64_t step, double *norm);

/* ---- files ---- */

typedef struct ts_out_tensor {
    const char *name, *dtype; /* "F32", "F16", "U8" */
    ts_shape    shape;
    const void *data;
    size_t      n_bytes;
} ts_out_tensor;

/* Pieces of one file, which is there whole or not at all. */
typedef struct ts_part {
    const void *bytes;
    size_t      n;
} ts_part;

bool ts_file_write_parts(const char *path, const ts_part *part, size_t n, char why[TS_MODEL_WHY]);

/* What a checkpoint contains in addition to weights and moments. */
typedef struct ts_progress {
    int64_t  step, best_step, n_worse;
    double   best, best_bits_per_byte, last;
    uint64_t log_bytes;
} ts_progress;

typedef struct ts_state {
    const ts_net_options   *net;
    const ts_train_options *train;
    int64_t                 n_count;
    float                  *w, *m, *v;
    ts_progress             progress;
} ts_state;

bool ts_state_save(const char *path, const ts_state *s, char why[TS_MODEL_WHY]);
/* False also where the file was made with other dims or another seed. */
bool ts_state_load(const char *path, ts_state *s, char why[TS_MODEL_WHY]);

/* folder/name into `path`. */
enum { TS_TRAIN_PATH = 4096 };
bool ts_path(char path[TS_TRAIN_PATH], const char *folder, const char *name,
             char why[TS_MODEL_WHY]);

#endif
