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
    F32 = 1 << TS_F32,
};

/* A function, and in it its table: `args` names its struct. */
#define TABLE(symbol, f, query, dtypes, dtype_at, grad_dtype_at, ...)                              \
    TVM_FFI_DLL_EXPORT int __tvm_ffi_##symbol(void *self, const TVMFFIAny *a, int32_t n,           \
                                              TVMFFIAny *out);                                     \
    TVM_FFI_DLL_EXPORT int __tvm_ffi_##symbol(void *self, const TVMFFIAny *a, int32_t n,           \
                                              TVMFFIAny *out)                                      \
    {                                                                                              \
        typedef f##_args             args;                                                         \
        static const ts_ffi_function t = { #symbol, TS_RUN(f), query,         sizeof(args),        \
                                           dtypes,  dtype_at,  grad_dtype_at, __VA_ARGS__ };       \
        (void)self;                                                                                \
        return ts_ffi_call(&t, a, n, out);                                                         \
    }

#define AT(field) offsetof(args, field)
#define KERNEL(symbol, f, dtypes, dtype, ...)                                                      \
    TABLE(symbol, f, TS_QUERY(f##_workspace), dtypes, AT(dtype), -1, __VA_ARGS__)
#define HOST(symbol, f, ...) TABLE(symbol, f, NULL, 0, -1, -1, __VA_ARGS__)

/* Parameters; MAY_: may be None; SCRATCH: the kernel writes it in any case. */
#define PARAM(name, kind, flags, dtype, shape, field)                                              \
    {                                                                                              \
        name, TS_FFI_##kind, flags, dtype, shape, AT(field)                                        \
    }
#define IN(name, dtype, shape, field)      PARAM(name, IN, 0, dtype, shape, field)
#define OUT(name, dtype, shape, field)     PARAM(name, OUT, 0, dtype, shape, field)
#define MAY_IN(name, dtype, shape, field)  PARAM(name, IN, TS_FFI_NONE, dtype, shape, field)
#define MAY_OUT(name, dtype, shape, field) PARAM(name, OUT, TS_FFI_NONE, dtype, shape, field)
#define SCRATCH(name, dtype, shape, field) PARAM(name, OUT, TS_FFI_SCRATCH, dtype, shape, field)
#define NUMBER(name, type, field)          PARAM(name, type, 0, 0, NULL, field)
#define EXTENT(name, type, letter, field)  PARAM(name, type, 0, 0, letter, field)
#define DIM(letter, field)                                                                         \
    {                                                                                              \
        letter, AT(field)                                                                          \
    }

/* ---- normalisation ---- */

#define NORM_DIMS DIM('*', n_rows), DIM('c', n_cols), DIM('c', row_stride)

KERNEL(layer_norm, ts_layernorm_forward, ANY, dtype,
       { IN("x", 'T', "*c", x), IN("weight", 'T', "c", gamma), IN("bias", 'T', "c", beta),
         NUMBER("eps", DOUBLE, eps), OUT("out", 'T', "*c", y), SCRATCH("mean", 'A', "*", mean),
         SCRATCH("rstd", 'A', "*", rstd) },
       { NORM_DIMS })

KERNEL(layer_norm_backward, ts_layernorm_backward, ANY, dtype,
       { IN("x", 'T', "*c", x), IN("dout", 'T', "*c", dy), IN("weight", 'T', "c", gamma),
         IN("mean", 'A', "*", mean), IN("rstd", 'A', "*", rstd), OUT("dx", 'T', "*c", dx),
         OUT("dweight", 'A', "c", dgamma), OUT("dbias", 'A', "c", dbeta) },
       { NORM_DIMS })

KERNEL(rms_norm, ts_rms_norm_forward, ANY, dtype,
       { IN("x", 'T', "*c", x), MAY_IN("residual", 'T', "*c", residual), IN("weight", 'T', "c", w),
         NUMBER("eps", DOUBLE, eps), NUMBER("weight_offset", INT, w_offset),
         OUT("out", 'T', "*c", y), MAY_OUT("sum", 'T', "*c", r), SCRATCH("rstd", 'A', "*", rstd) },
       { NORM_DIMS })

KERNEL(rms_norm_backward, ts_rms_norm_backward, ANY, dtype,
       { IN("sum", 'T', "*c", r), IN("dout", 'T', "*c", dy), MAY_IN("dsum", 'T', "*c", dr),
         IN("weight", 'T', "c", w), IN("rstd", 'A', "*", rstd),
         NUMBER("weight_offset", INT, w_offset), OUT("dx", 'T', "*c", dx),
         OUT("dweight", 'A', "c", dw) },
       { NORM_DIMS })

/* ---- softmax, attention ---- */

#define ATTENTION_QKV(dtype)                                                                       \
    IN("q", dtype, "bhnd/bnhd", q), IN("k", dtype, "bgmd/bmgd", k), IN("v", dtype, "bgmd/bmgd", v)
#define ATTENTION_NUMBERS                                                                          \
    MAY_IN("kv_len", 'i', "b", kv_len), NUMBER("scale", DOUBLE, d.scale),                          \
        NUMBER("causal", INT, d.causal), NUMBER("window", INT64, d.window),                        \
        NUMBER("layout", INT, d.layout)
#define ATTENTION_DIMS                                                                             \
    DIM('b', d.n_batch), DIM('h', d.n_q_head), DIM('n', d.n_q), DIM('d', d.head_dim),              \
        DIM('g', d.n_kv_head), DIM('m', d.n_k)

KERNEL(softmax_topk, ts_softmax_topk, FAST, dtype,
       { IN("logits", 'T', "*v", logits), NUMBER("inv_temperature", DOUBLE, inv_temperature),
         OUT("values", 'f', "*k", prob), OUT("indices", 'i', "*k", index),
         MAY_OUT("lse", 'f', "*", lse) },
       { DIM('*', n_rows), DIM('v', n_vocab), DIM('v', row_stride), DIM('k', k) })

KERNEL(flash_attention, ts_flash_attention, ANY, d.dtype,
       { ATTENTION_QKV('T'), ATTENTION_NUMBERS, OUT("out", 'T', "bhnd/bnhd", o),
         MAY_OUT("lse", 'A', "bhn", lse) },
       { ATTENTION_DIMS })

KERNEL(flash_attention_fp8, ts_flash_attention_fp8, FAST, d.dtype,
       { ATTENTION_QKV('b'), IN("q_scale", 'f', "bh", q_scale), IN("k_scale", 'f', "bg", k_scale),
         IN("v_scale", 'f', "bg", v_scale), ATTENTION_NUMBERS, OUT("out", 'T', "bhnd/bnhd", o),
         MAY_OUT("lse", 'f', "bhn", lse) },
       { ATTENTION_DIMS })

KERNEL(flash_attention_backward, ts_flash_attention_backward, ANY, d.dtype,
       { ATTENTION_QKV('T'), IN("out", 'T', "bhnd/bnhd", o), IN("dout", 'T', "bhnd/bnhd", dout),
         IN("lse", 'A', "bhn", lse), ATTENTION_NUMBERS, OUT("dq", 'T', "bhnd/bnhd", dq),
         OUT("dk", 'T', "bgmd/bmgd", dk), OUT("dv", 'T', "bgmd/bmgd", dv) },
       { ATTENTION_DIMS })

/* ---- cross-entropy ---- */

#define LOSS_PARAMS                                                                                \
    NUMBER("mean", INT, mean), NUMBER("ignore_index", INT32, ignore_index),                        \
        NUMBER("scale", DOUBLE, scale), NUMBER("label_smoothing", DOUBLE, smoothing),              \
        NUMBER("z_loss", DOUBLE, z_loss), NUMBER("softcap", DOUBLE, softcap),                      \
        SCRATCH("loss", 'A', "*", loss), SCRATCH("lse", 'A', "*", lse),                            \
        SCRATCH("total", 'A', "1", total)

TABLE(linear_cross_entropy, ts_cross_entropy, TS_QUERY(ts_cross_entropy_workspace), ANY, AT(dtype),
      AT(grad_dtype),
      { IN("hidden", 'T', "*k", h), IN("weight", 'T', "vk", w), MAY_IN("bias", 'T', "v", bias),
        IN("target", 'i', "*", target), LOSS_PARAMS, MAY_OUT("dhidden", 'G', "*k", dh),
        MAY_OUT("dweight", 'G', "vk", dw) },
      { DIM('*', n_rows), DIM('v', n_vocab), DIM('k', n_hidden), DIM('k', h_stride),
        DIM('k', w_stride) })

KERNEL(cross_entropy, ts_cross_entropy_logits, ANY, dtype,
       { IN("logits", 'T', "*v", logits), IN("target", 'i', "*", target), LOSS_PARAMS,
         MAY_OUT("dlogits", 'T', "*v", dlogits) },
       { DIM('*', n_rows), DIM('v', n_vocab), DIM('v', row_stride) })

/* ---- ternary ---- */

#define TERNARY_DIMS DIM('*', d.n_rows), DIM('o', d.n_out), DIM('i', d.n_in)

KERNEL(ternary_pack, ts_ternary_pack, F32, d.dtype,
       { IN("weight", 'f', "oi", w), OUT("codes", 'b', "oG", code),
         OUT("scales", 'h', "oS", scale) },
       { DIM('o', d.n_out), DIM('i', d.n_in) })

KERNEL(ternary_unpack, ts_ternary_unpack, F32, d.dtype,
       { IN("codes", 'b', "oG", code), IN("scales", 'h', "oS", scale),
         OUT("weight", 'f', "oi", wt) },
       { DIM('o', d.n_out), DIM('i', d.n_in) })

KERNEL(ternary_linear, ts_ternary_linear, ANY, d.dtype,
       { IN("x", 'T', "*i", in), IN("weight", 'f', "oi", w), OUT("out", 'T', "*o", y) },
       { TERNARY_DIMS })

KERNEL(ternary_linear_packed, ts_ternary_linear_packed, ANY, d.dtype,
       { IN("x", 'T', "*i", in), IN("codes", 'b', "oG", code), IN("scales", 'h', "oS", scale),
         OUT("out", 'T', "*o", y) },
       { TERNARY_DIMS })

KERNEL(ternary_linear_backward, ts_ternary_linear_backward, ANY, d.dtype,
       { IN("x", 'T', "*i", in), IN("weight", 'f', "oi", w), IN("dout", 'T', "*o", dy),
         OUT("dx", 'T', "*i", dx), OUT("dweight", 'f', "oi", dw) },
       { TERNARY_DIMS })

/* ---- trees: on the host ---- */

HOST(tree_mask, ts_tree_mask,
     { IN("parent", 'i', "n", parent), EXTENT("prompt_len", INT64, "p", d.prompt_len),
       OUT("visible", 'b', "RR", visible), OUT("position", 'l', "R", position) },
     { DIM('n', d.n_node) })

HOST(tree_bias, ts_tree_bias,
     { IN("parent", 'i', "n", parent), EXTENT("prompt_len", INT64, "p", d.prompt_len),
       OUT("bias", 'f', "RR", bias) },
     { DIM('n', d.n_node) })

HOST(tree_residual, ts_tree_residual,
     { IN("p", 'd', "v", p), MAY_IN("q", 'd', "v", q), IN("child", 'i', "c", child),
       IN("u", 'd', "U", u), OUT("token", 'i', "1", token), OUT("accepted", 'l', "1", accepted) },
     { DIM('v', n_vocab), DIM('c', n_child) })
