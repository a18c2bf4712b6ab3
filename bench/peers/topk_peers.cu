// SPDX-License-Identifier: Apache-2.0
// topk_peers.cu - top-k of FlashInfer and of CUB as C functions, for bench/peers.
//
// topk.py compiles it with the headers of an installed FlashInfer, which contain their own CUB:
// the toolkit's has no batched top-k yet. One of PEER_RADIX, PEER_CLUSTERS, PEER_CUB selects the
// function: they compile side by side.
//
// kind: 0 float, 1 bfloat16. All select without an order; `sorted` requests one. Return a
// cudaError_t.
#define CUB_DISABLE_TOPK_UNSUPPORTED_ARCH_ASSERT
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#ifdef PEER_RADIX
#include <flashinfer/math.cuh>
#include <flashinfer/topk.cuh>
extern "C" int peer_radix(int kind, void *x, int32_t *index, void *value, uint32_t n_rows,
                          uint32_t k, uint32_t n_vocab, void *state, int sorted,
                          cudaStream_t stream)
{
    using namespace flashinfer::sampling;
    auto *s = static_cast<RadixRowState *>(state);
    if (kind == 0)
        return TopKDispatch<float, int32_t>(static_cast<float *>(x), index,
                                            static_cast<float *>(value), n_rows, k, n_vocab, s,
                                            sorted, sorted, TopKTieBreak::None, stream);
    return TopKDispatch<nv_bfloat16, int32_t>(static_cast<nv_bfloat16 *>(x), index,
                                              static_cast<nv_bfloat16 *>(value), n_rows, k, n_vocab,
                                              s, sorted, sorted, TopKTieBreak::None, stream);
}
#endif

#ifdef PEER_CLUSTERS
#include <flashinfer/fast_topk_clusters_exact.cuh>
extern "C" int peer_clusters(int kind, const void *x, int32_t *index, void *value, int n_rows,
                             int k, int n_vocab, int32_t *overflow, int n_cluster, int n_cached,
                             cudaStream_t stream)
{
    using namespace flashinfer::sampling;
    const int per = n_vocab / n_cluster;
    if (kind == 0)
        launch_fast_topk_clusters_exact<float, int>(
            static_cast<const float *>(x), index, static_cast<float *>(value), n_vocab, nullptr,
            overflow, per, n_rows, n_vocab, k, n_cached, n_cluster, false, k, stream);
    else
        launch_fast_topk_clusters_exact<nv_bfloat16, int>(
            static_cast<const nv_bfloat16 *>(x), index, static_cast<nv_bfloat16 *>(value), n_vocab,
            nullptr, overflow, per, n_rows, n_vocab, k, n_cached, n_cluster, false, k, stream);
    return cudaGetLastError();
}
#endif

#ifdef PEER_CUB
#include <cub/device/device_batched_topk.cuh>
#include <cuda/__execution/determinism.h>
#include <cuda/__execution/output_ordering.h>
#include <cuda/__execution/require.h>
#include <cuda/__execution/tie_break.h>
#include <cuda/argument>
#include <cuda/iterator>
#include <cuda/std/__execution/env.h>

template <typename T>
static int batched(const T *x, int32_t *index, T *value, int64_t n_rows, int64_t k, int64_t n_vocab,
                   void *work, size_t *n_bytes, cudaStream_t stream)
{
    namespace exec = cuda::execution;
    constexpr int64_t most = int64_t(1) << 21; // the longest row that CUB accepts
    auto              rows = [](auto pointer, int64_t stride) {
        return cuda::make_strided_iterator(cuda::make_counting_iterator(pointer), stride);
    };
    auto how = exec::require(exec::determinism::not_guaranteed, exec::tie_break::unspecified,
                             exec::output_ordering::unsorted);
    auto env = cuda::std::execution::env { how, cuda::stream_ref { stream } };
    return cub::DeviceBatchedTopK::MaxPairs(
        work, *n_bytes, rows(x, n_vocab), rows(value, k),
        cuda::make_constant_iterator(cuda::make_counting_iterator(int32_t { 0 })), rows(index, k),
        cuda::args::immediate { n_vocab, cuda::args::bounds<int64_t { 1 }, most>() },
        cuda::args::immediate { k, cuda::args::bounds<int64_t { 1 }, most>() },
        cuda::args::immediate { n_rows }, env);
}

// work NULL: n_bytes receives the size of the workspace, and nothing runs.
extern "C" int peer_cub(int kind, const void *x, int32_t *index, void *value, int64_t n_rows,
                        int64_t k, int64_t n_vocab, void *work, size_t *n_bytes,
                        cudaStream_t stream)
{
    if (kind == 0)
        return batched(static_cast<const float *>(x), index, static_cast<float *>(value), n_rows, k,
                       n_vocab, work, n_bytes, stream);
    return batched(static_cast<const __nv_bfloat16 *>(x), index,
                   static_cast<__nv_bfloat16 *>(value), n_rows, k, n_vocab, work, n_bytes, stream);
}
#endif
