/* SPDX-License-Identifier: Apache-2.0 */
/* functions.c - the tables of every kernel that is one call: see ffi.h. Shapes and dtypes are
 * those of the public headers, names of parameters those of the Python functions. */
#include <stddef.h>

#include "ffi.h"
#include "touchstone/attention.h"
#include "touchstone/attention_fp8.h"
#include "touchstone/cross_entropy.h"
#include "touchstone/layernorm.h"
#include "touchstone/rms_norm.h"
#include "touchstone/softmax_topk.h"
#include "touchstone/ternary.h"
#include "touchstone/tree_verify.h"

enum {
    FAST = 1 << TS_F32 | 1 << TS_F16 | 1 << TS_BF16,
    ANY = FAST | 1 << TS_F64,
};

/* Between functions of two args types there is no conversion that may be called; the ABI of every
 * system that has dlsym makes them one. The library's own tables do the same. */
#define RUN(f)   (ts_run_fn)(void (*)(void)) f
#define QUERY(f) (ts_workspace_fn)(void (*)(void)) f

#define EXPORT(symbol)                                                                             \
    TVM_FFI_DLL_EXPORT int __tvm_ffi_##symbol(void *self, const TVMFFIAny *a, int32_t n,           \
                                              TVMFFIAny *out);                                     \
    TVM_FFI_DLL_EXPORT int __tvm_ffi_##symbol(void *self, const TVMFFIAny *a, int32_t n,           \
                                              TVMFFIAny *out)                                      \
    {                                                                                              \
        (void)self;                                                                                \
        return ts_ffi_call(&symbol, a, n, out);                                                    \
    }

/* ---- normalisation ---- */

#define AT(field) offsetof(ts_layernorm_forward_args, field)
static const ts_ffi_function layer_norm = {
    "layer_norm",
    RUN(ts_layernorm_forward),
    QUERY(ts_layernorm_forward_workspace),
    sizeof(ts_layernorm_forward_args),
    ANY,
    AT(dtype),
    -1,
    { { "x", TS_FFI_IN, 0, 'T', "*c", AT(x) },
      { "weight", TS_FFI_IN, 0, 'T', "c", AT(gamma) },
      { "bias", TS_FFI_IN, 0, 'T', "c", AT(beta) },
      { "eps", TS_FFI_DOUBLE, 0, 0, NULL, AT(eps) },
      { "out", TS_FFI_OUT, 0, 'T', "*c", AT(y) },
      { "mean", TS_FFI_OUT, TS_FFI_SCRATCH, 'A', "*", AT(mean) },
      { "rstd", TS_FFI_OUT, TS_FFI_SCRATCH, 'A', "*", AT(rstd) } },
    { { '*', AT(n_rows) }, { 'c', AT(n_cols) }, { 'c', AT(row_stride) } },
};
#undef AT
EXPORT(layer_norm)

#define AT(field) offsetof(ts_layernorm_backward_args, field)
static const ts_ffi_function layer_norm_backward = {
    "layer_norm_backward",
    RUN(ts_layernorm_backward),
    QUERY(ts_layernorm_backward_workspace),
    sizeof(ts_layernorm_backward_args),
    ANY,
    AT(dtype),
    -1,
    { { "x", TS_FFI_IN, 0, 'T', "*c", AT(x) },
      { "dout", TS_FFI_IN, 0, 'T', "*c", AT(dy) },
      { "weight", TS_FFI_IN, 0, 'T', "c", AT(gamma) },
      { "mean", TS_FFI_IN, 0, 'A', "*", AT(mean) },
      { "rstd", TS_FFI_IN, 0, 'A', "*", AT(rstd) },
      { "dx", TS_FFI_OUT, 0, 'T', "*c", AT(dx) },
      { "dweight", TS_FFI_OUT, 0, 'A', "c", AT(dgamma) },
      { "dbias", TS_FFI_OUT, 0, 'A', "c", AT(dbeta) } },
    { { '*', AT(n_rows) }, { 'c', AT(n_cols) }, { 'c', AT(row_stride) } },
};
#undef AT
EXPORT(layer_norm_backward)

#define AT(field) offsetof(ts_rms_norm_forward_args, field)
static const ts_ffi_function rms_norm = {
    "rms_norm",
    RUN(ts_rms_norm_forward),
    QUERY(ts_rms_norm_forward_workspace),
    sizeof(ts_rms_norm_forward_args),
    ANY,
    AT(dtype),
    -1,
    { { "x", TS_FFI_IN, 0, 'T', "*c", AT(x) },
      { "residual", TS_FFI_IN, TS_FFI_NONE, 'T', "*c", AT(residual) },
      { "weight", TS_FFI_IN, 0, 'T', "c", AT(w) },
      { "eps", TS_FFI_DOUBLE, 0, 0, NULL, AT(eps) },
      { "weight_offset", TS_FFI_INT, 0, 0, NULL, AT(w_offset) },
      { "out", TS_FFI_OUT, 0, 'T', "*c", AT(y) },
      { "sum", TS_FFI_OUT, TS_FFI_NONE, 'T', "*c", AT(r) },
      { "rstd", TS_FFI_OUT, TS_FFI_SCRATCH, 'A', "*", AT(rstd) } },
    { { '*', AT(n_rows) }, { 'c', AT(n_cols) }, { 'c', AT(row_stride) } },
};
#undef AT
EXPORT(rms_norm)

#define AT(field) offsetof(ts_rms_norm_backward_args, field)
static const ts_ffi_function rms_norm_backward = {
    "rms_norm_backward",
    RUN(ts_rms_norm_backward),
    QUERY(ts_rms_norm_backward_workspace),
    sizeof(ts_rms_norm_backward_args),
    ANY,
    AT(dtype),
    -1,
    { { "sum", TS_FFI_IN, 0, 'T', "*c", AT(r) },
      { "dout", TS_FFI_IN, 0, 'T', "*c", AT(dy) },
      { "dsum", TS_FFI_IN, TS_FFI_NONE, 'T', "*c", AT(dr) },
      { "weight", TS_FFI_IN, 0, 'T', "c", AT(w) },
      { "rstd", TS_FFI_IN, 0, 'A', "*", AT(rstd) },
      { "weight_offset", TS_FFI_INT, 0, 0, NULL, AT(w_offset) },
      { "dx", TS_FFI_OUT, 0, 'T', "*c", AT(dx) },
      { "dweight", TS_FFI_OUT, 0, 'A', "c", AT(dw) } },
    { { '*', AT(n_rows) }, { 'c', AT(n_cols) }, { 'c', AT(row_stride) } },
};
#undef AT
EXPORT(rms_norm_backward)

/* ---- softmax, attention ---- */

#define AT(field) offsetof(ts_softmax_topk_args, field)
static const ts_ffi_function softmax_topk = {
    "softmax_topk",
    RUN(ts_softmax_topk),
    QUERY(ts_softmax_topk_workspace),
    sizeof(ts_softmax_topk_args),
    FAST,
    AT(dtype),
    -1,
    { { "logits", TS_FFI_IN, 0, 'T', "*v", AT(logits) },
      { "inv_temperature", TS_FFI_DOUBLE, 0, 0, NULL, AT(inv_temperature) },
      { "values", TS_FFI_OUT, 0, 'f', "*k", AT(prob) },
      { "indices", TS_FFI_OUT, 0, 'i', "*k", AT(index) },
      { "lse", TS_FFI_OUT, TS_FFI_NONE, 'f', "*", AT(lse) } },
    { { '*', AT(n_rows) }, { 'v', AT(n_vocab) }, { 'v', AT(row_stride) }, { 'k', AT(k) } },
};
#undef AT
EXPORT(softmax_topk)

#define AT(field) offsetof(ts_flash_attention_args, field)
static const ts_ffi_function flash_attention = {
    "flash_attention",
    RUN(ts_flash_attention),
    QUERY(ts_flash_attention_workspace),
    sizeof(ts_flash_attention_args),
    ANY,
    AT(d.dtype),
    -1,
    { { "q", TS_FFI_IN, 0, 'T', "bhnd/bnhd", AT(q) },
      { "k", TS_FFI_IN, 0, 'T', "bgmd/bmgd", AT(k) },
      { "v", TS_FFI_IN, 0, 'T', "bgmd/bmgd", AT(v) },
      { "kv_len", TS_FFI_IN, TS_FFI_NONE, 'i', "b", AT(kv_len) },
      { "scale", TS_FFI_DOUBLE, 0, 0, NULL, AT(d.scale) },
      { "causal", TS_FFI_INT, 0, 0, NULL, AT(d.causal) },
      { "window", TS_FFI_INT64, 0, 0, NULL, AT(d.window) },
      { "layout", TS_FFI_INT, 0, 0, NULL, AT(d.layout) },
      { "out", TS_FFI_OUT, 0, 'T', "bhnd/bnhd", AT(o) },
      { "lse", TS_FFI_OUT, TS_FFI_NONE, 'A', "bhn", AT(lse) } },
    { { 'b', AT(d.n_batch) },
      { 'h', AT(d.n_q_head) },
      { 'n', AT(d.n_q) },
      { 'd', AT(d.head_dim) },
      { 'g', AT(d.n_kv_head) },
      { 'm', AT(d.n_k) } },
};
#undef AT
EXPORT(flash_attention)

#define AT(field) offsetof(ts_flash_attention_fp8_args, field)
static const ts_ffi_function flash_attention_fp8 = {
    "flash_attention_fp8",
    RUN(ts_flash_attention_fp8),
    QUERY(ts_flash_attention_fp8_workspace),
    sizeof(ts_flash_attention_fp8_args),
    FAST,
    AT(d.dtype),
    -1,
    { { "q", TS_FFI_IN, 0, 'b', "bhnd/bnhd", AT(q) },
      { "k", TS_FFI_IN, 0, 'b', "bgmd/bmgd", AT(k) },
      { "v", TS_FFI_IN, 0, 'b', "bgmd/bmgd", AT(v) },
      { "q_scale", TS_FFI_IN, 0, 'f', "bh", AT(q_scale) },
      { "k_scale", TS_FFI_IN, 0, 'f', "bg", AT(k_scale) },
      { "v_scale", TS_FFI_IN, 0, 'f', "bg", AT(v_scale) },
      { "kv_len", TS_FFI_IN, TS_FFI_NONE, 'i', "b", AT(kv_len) },
      { "scale", TS_FFI_DOUBLE, 0, 0, NULL, AT(d.scale) },
      { "causal", TS_FFI_INT, 0, 0, NULL, AT(d.causal) },
      { "window", TS_FFI_INT64, 0, 0, NULL, AT(d.window) },
      { "layout", TS_FFI_INT, 0, 0, NULL, AT(d.layout) },
      { "out", TS_FFI_OUT, 0, 'T', "bhnd/bnhd", AT(o) },
      { "lse", TS_FFI_OUT, TS_FFI_NONE, 'f', "bhn", AT(lse) } },
    { { 'b', AT(d.n_batch) },
      { 'h', AT(d.n_q_head) },
      { 'n', AT(d.n_q) },
      { 'd', AT(d.head_dim) },
      { 'g', AT(d.n_kv_head) },
      { 'm', AT(d.n_k) } },
};
#undef AT
EXPORT(flash_attention_fp8)

#define AT(field) offsetof(ts_flash_attention_backward_args, field)
static const ts_ffi_function flash_attention_backward = {
    "flash_attention_backward",
    RUN(ts_flash_attention_backward),
    QUERY(ts_flash_attention_backward_workspace),
    sizeof(ts_flash_attention_backward_args),
    ANY,
    AT(d.dtype),
    -1,
    { { "q", TS_FFI_IN, 0, 'T', "bhnd/bnhd", AT(q) },
      { "k", TS_FFI_IN, 0, 'T', "bgmd/bmgd", AT(k) },
      { "v", TS_FFI_IN, 0, 'T', "bgmd/bmgd", AT(v) },
      { "out", TS_FFI_IN, 0, 'T', "bhnd/bnhd", AT(o) },
      { "dout", TS_FFI_IN, 0, 'T', "bhnd/bnhd", AT(dout) },
      { "lse", TS_FFI_IN, 0, 'A', "bhn", AT(lse) },
      { "kv_len", TS_FFI_IN, TS_FFI_NONE, 'i', "b", AT(kv_len) },
      { "scale", TS_FFI_DOUBLE, 0, 0, NULL, AT(d.scale) },
      { "causal", TS_FFI_INT, 0, 0, NULL, AT(d.causal) },
      { "window", TS_FFI_INT64, 0, 0, NULL, AT(d.window) },
      { "layout", TS_FFI_INT, 0, 0, NULL, AT(d.layout) },
      { "dq", TS_FFI_OUT, 0, 'T', "bhnd/bnhd", AT(dq) },
      { "dk", TS_FFI_OUT, 0, 'T', "bgmd/bmgd", AT(dk) },
      { "dv", TS_FFI_OUT, 0, 'T', "bgmd/bmgd", AT(dv) } },
    { { 'b', AT(d.n_batch) },
      { 'h', AT(d.n_q_head) },
      { 'n', AT(d.n_q) },
      { 'd', AT(d.head_dim) },
      { 'g', AT(d.n_kv_head) },
      { 'm', AT(d.n_k) } },
};
#undef AT
EXPORT(flash_attention_backward)

/* ---- cross-entropy ---- */

#define AT(field) offsetof(ts_cross_entropy_args, field)
static const ts_ffi_function linear_cross_entropy = {
    "linear_cross_entropy",
    RUN(ts_cross_entropy),
    QUERY(ts_cross_entropy_workspace),
    sizeof(ts_cross_entropy_args),
    ANY,
    AT(dtype),
    AT(grad_dtype),
    { { "hidden", TS_FFI_IN, 0, 'T', "*k", AT(h) },
      { "weight", TS_FFI_IN, 0, 'T', "vk", AT(w) },
      { "bias", TS_FFI_IN, TS_FFI_NONE, 'T', "v", AT(bias) },
      { "target", TS_FFI_IN, 0, 'i', "*", AT(target) },
      { "mean", TS_FFI_INT, 0, 0, NULL, AT(mean) },
      { "ignore_index", TS_FFI_INT32, 0, 0, NULL, AT(ignore_index) },
      { "scale", TS_FFI_DOUBLE, 0, 0, NULL, AT(scale) },
      { "label_smoothing", TS_FFI_DOUBLE, 0, 0, NULL, AT(smoothing) },
      { "z_loss", TS_FFI_DOUBLE, 0, 0, NULL, AT(z_loss) },
      { "softcap", TS_FFI_DOUBLE, 0, 0, NULL, AT(softcap) },
      { "loss", TS_FFI_OUT, TS_FFI_SCRATCH, 'A', "*", AT(loss) },
      { "lse", TS_FFI_OUT, TS_FFI_SCRATCH, 'A', "*", AT(lse) },
      { "total", TS_FFI_OUT, TS_FFI_SCRATCH, 'A', "1", AT(total) },
      { "dhidden", TS_FFI_OUT, TS_FFI_NONE, 'G', "*k", AT(dh) },
      { "dweight", TS_FFI_OUT, TS_FFI_NONE, 'G', "vk", AT(dw) } },
    { { '*', AT(n_rows) },
      { 'v', AT(n_vocab) },
      { 'k', AT(n_hidden) },
      { 'k', AT(h_stride) },
      { 'k', AT(w_stride) } },
};
#undef AT
EXPORT(linear_cross_entropy)

#define AT(field) offsetof(ts_cross_entropy_logits_args, field)
static const ts_ffi_function cross_entropy = {
    "cross_entropy",
    RUN(ts_cross_entropy_logits),
    QUERY(ts_cross_entropy_logits_workspace),
    sizeof(ts_cross_entropy_logits_args),
    ANY,
    AT(dtype),
    -1,
    { { "logits", TS_FFI_IN, 0, 'T', "*v", AT(logits) },
      { "target", TS_FFI_IN, 0, 'i', "*", AT(target) },
      { "mean", TS_FFI_INT, 0, 0, NULL, AT(mean) },
      { "ignore_index", TS_FFI_INT32, 0, 0, NULL, AT(ignore_index) },
      { "scale", TS_FFI_DOUBLE, 0, 0, NULL, AT(scale) },
      { "label_smoothing", TS_FFI_DOUBLE, 0, 0, NULL, AT(smoothing) },
      { "z_loss", TS_FFI_DOUBLE, 0, 0, NULL, AT(z_loss) },
      { "softcap", TS_FFI_DOUBLE, 0, 0, NULL, AT(softcap) },
      { "loss", TS_FFI_OUT, TS_FFI_SCRATCH, 'A', "*", AT(loss) },
      { "lse", TS_FFI_OUT, TS_FFI_SCRATCH, 'A', "*", AT(lse) },
      { "total", TS_FFI_OUT, TS_FFI_SCRATCH, 'A', "1", AT(total) },
      { "dlogits", TS_FFI_OUT, TS_FFI_NONE, 'T', "*v", AT(dlogits) } },
    { { '*', AT(n_rows) }, { 'v', AT(n_vocab) }, { 'v', AT(row_stride) } },
};
#undef AT
EXPORT(cross_entropy)

/* ---- ternary ---- */

#define AT(field) offsetof(ts_ternary_pack_args, field)
static const ts_ffi_function ternary_pack = {
    "ternary_pack",
    RUN(ts_ternary_pack),
    QUERY(ts_ternary_pack_workspace),
    sizeof(ts_ternary_pack_args),
    1 << TS_F32,
    AT(d.dtype),
    -1,
    { { "weight", TS_FFI_IN, 0, 'f', "oi", AT(w) },
      { "codes", TS_FFI_OUT, 0, 'b', "oG", AT(code) },
      { "scales", TS_FFI_OUT, 0, 'h', "oS", AT(scale) } },
    { { 'o', AT(d.n_out) }, { 'i', AT(d.n_in) } },
};
#undef AT
EXPORT(ternary_pack)

#define AT(field) offsetof(ts_ternary_unpack_args, field)
static const ts_ffi_function ternary_unpack = {
    "ternary_unpack",
    RUN(ts_ternary_unpack),
    QUERY(ts_ternary_unpack_workspace),
    sizeof(ts_ternary_unpack_args),
    1 << TS_F32,
    AT(d.dtype),
    -1,
    { { "codes", TS_FFI_IN, 0, 'b', "oG", AT(code) },
      { "scales", TS_FFI_IN, 0, 'h', "oS", AT(scale) },
      { "weight", TS_FFI_OUT, 0, 'f', "oi", AT(wt) } },
    { { 'o', AT(d.n_out) }, { 'i', AT(d.n_in) } },
};
#undef AT
EXPORT(ternary_unpack)

#define AT(field) offsetof(ts_ternary_linear_args, field)
static const ts_ffi_function ternary_linear = {
    "ternary_linear",
    RUN(ts_ternary_linear),
    QUERY(ts_ternary_linear_workspace),
    sizeof(ts_ternary_linear_args),
    ANY,
    AT(d.dtype),
    -1,
    { { "x", TS_FFI_IN, 0, 'T', "*i", AT(in) },
      { "weight", TS_FFI_IN, 0, 'f', "oi", AT(w) },
      { "out", TS_FFI_OUT, 0, 'T', "*o", AT(y) } },
    { { '*', AT(d.n_rows) }, { 'o', AT(d.n_out) }, { 'i', AT(d.n_in) } },
};
#undef AT
EXPORT(ternary_linear)

#define AT(field) offsetof(ts_ternary_linear_packed_args, field)
static const ts_ffi_function ternary_linear_packed = {
    "ternary_linear_packed",
    RUN(ts_ternary_linear_packed),
    QUERY(ts_ternary_linear_packed_workspace),
    sizeof(ts_ternary_linear_packed_args),
    ANY,
    AT(d.dtype),
    -1,
    { { "x", TS_FFI_IN, 0, 'T', "*i", AT(in) },
      { "codes", TS_FFI_IN, 0, 'b', "oG", AT(code) },
      { "scales", TS_FFI_IN, 0, 'h', "oS", AT(scale) },
      { "out", TS_FFI_OUT, 0, 'T', "*o", AT(y) } },
    { { '*', AT(d.n_rows) }, { 'o', AT(d.n_out) }, { 'i', AT(d.n_in) } },
};
#undef AT
EXPORT(ternary_linear_packed)

#define AT(field) offsetof(ts_ternary_linear_backward_args, field)
static const ts_ffi_function ternary_linear_backward = {
    "ternary_linear_backward",
    RUN(ts_ternary_linear_backward),
    QUERY(ts_ternary_linear_backward_workspace),
    sizeof(ts_ternary_linear_backward_args),
    ANY,
    AT(d.dtype),
    -1,
    { { "x", TS_FFI_IN, 0, 'T', "*i", AT(in) },
      { "weight", TS_FFI_IN, 0, 'f', "oi", AT(w) },
      { "dout", TS_FFI_IN, 0, 'T', "*o", AT(dy) },
      { "dx", TS_FFI_OUT, 0, 'T', "*i", AT(dx) },
      { "dweight", TS_FFI_OUT, 0, 'f', "oi", AT(dw) } },
    { { '*', AT(d.n_rows) }, { 'o', AT(d.n_out) }, { 'i', AT(d.n_in) } },
};
#undef AT
EXPORT(ternary_linear_backward)

/* ---- trees: on the host ---- */

#define AT(field) offsetof(ts_tree_mask_args, field)
static const ts_ffi_function tree_mask = {
    "tree_mask",
    RUN(ts_tree_mask),
    NULL,
    sizeof(ts_tree_mask_args),
    0,
    -1,
    -1,
    { { "parent", TS_FFI_IN, 0, 'i', "n", AT(parent) },
      { "prompt_len", TS_FFI_INT64, 0, 0, "p", AT(d.prompt_len) },
      { "visible", TS_FFI_OUT, 0, 'b', "RR", AT(visible) },
      { "position", TS_FFI_OUT, 0, 'l', "R", AT(position) } },
    { { 'n', AT(d.n_node) } },
};
#undef AT
EXPORT(tree_mask)

#define AT(field) offsetof(ts_tree_bias_args, field)
static const ts_ffi_function tree_bias = {
    "tree_bias",
    RUN(ts_tree_bias),
    NULL,
    sizeof(ts_tree_bias_args),
    0,
    -1,
    -1,
    { { "parent", TS_FFI_IN, 0, 'i', "n", AT(parent) },
      { "prompt_len", TS_FFI_INT64, 0, 0, "p", AT(d.prompt_len) },
      { "bias", TS_FFI_OUT, 0, 'f', "RR", AT(bias) } },
    { { 'n', AT(d.n_node) } },
};
#undef AT
EXPORT(tree_bias)

#define AT(field) offsetof(ts_tree_residual_args, field)
static const ts_ffi_function tree_residual = {
    "tree_residual",
    RUN(ts_tree_residual),
    NULL,
    sizeof(ts_tree_residual_args),
    0,
    -1,
    -1,
    { { "p", TS_FFI_IN, 0, 'd', "v", AT(p) },
      { "q", TS_FFI_IN, TS_FFI_NONE, 'd', "v", AT(q) },
      { "child", TS_FFI_IN, 0, 'i', "c", AT(child) },
      { "u", TS_FFI_IN, 0, 'd', "U", AT(u) },
      { "token", TS_FFI_OUT, 0, 'i', "1", AT(token) },
      { "accepted", TS_FFI_OUT, 0, 'l', "1", AT(accepted) } },
    { { 'v', AT(n_vocab) }, { 'c', AT(n_child) } },
};
#undef AT
EXPORT(tree_residual)
