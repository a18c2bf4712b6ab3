/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_map.cuh - on the host: descriptions of tensors, from which TMA copies boxes. */
#ifndef TS_BASE_TENSOR_MAP_CUH
#define TS_BASE_TENSOR_MAP_CUH

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>

/* A tensor [n_batch][n_head][n_row][n_column] with strides in elements, multiples of 16 bytes but
 * for the columns', which is 1; boxes of `rows` rows, at most 256, and 128 bytes of columns.
 * Returns false if the driver rejects it. */
struct tensor_view {
    const void *data;
    int64_t     n_batch, n_head, n_row, n_column;
    int64_t     batch_stride, head_stride, row_stride;
};

typedef CUresult (*encode_fn)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                              const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                              const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                              CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* Finds the driver's function without linking the driver; NULL if there is none. */
static inline encode_fn find_encode(void)
{
    void                           *found = NULL;
    cudaDriverEntryPointQueryResult how = cudaDriverEntryPointSymbolNotFound;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault,
                                         &how) != cudaSuccess ||
        how != cudaDriverEntryPointSuccess)
        return NULL;
    return (encode_fn)found;
}

/* Boxes of `width` bytes of columns, 32, 64 or 128, whose chunks TMA permutes accordingly. */
static inline bool make_map_of(CUtensorMap *map, const tensor_view &t, CUtensorMapDataType type,
                               int n_bytes, int rows, int width = 128)
{
    static const encode_fn encode = find_encode();
    if (!encode) return false;
    const cuuint64_t size[4] = { (cuuint64_t)t.n_column, (cuuint64_t)t.n_row, (cuuint64_t)t.n_head,
                                 (cuuint64_t)t.n_batch };
    const cuuint64_t stride[3] = { (cuuint64_t)(t.row_stride * n_bytes),
                                   (cuuint64_t)(t.head_stride * n_bytes),
                                   (cuuint64_t)(t.batch_stride * n_bytes) };
    const cuuint32_t box[4] = { (cuuint32_t)(width / n_bytes), (cuuint32_t)rows, 1, 1 };
    const cuuint32_t step[4] = { 1, 1, 1, 1 };
    return encode(map, type, 4, (void *)t.data, size, stride, box, step,
                  CU_TENSOR_MAP_INTERLEAVE_NONE,
                  width == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                  : width == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                : CU_TENSOR_MAP_SWIZZLE_32B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

static inline bool make_map(CUtensorMap *map, const tensor_view &t, bool is_half, int rows)
{
    return make_map_of(map, t,
                       is_half ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                       2, rows);
}

static inline bool make_float_map(CUtensorMap *map, const tensor_view &t, int rows)
{
    return make_map_of(map, t, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, rows);
}

static inline bool make_byte_map(CUtensorMap *map, const tensor_view &t, int rows, int width)
{
    return make_map_of(map, t, CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, rows, width);
}

#endif
