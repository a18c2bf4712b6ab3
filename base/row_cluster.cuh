/* SPDX-License-Identifier: Apache-2.0 */
/* row_cluster.cuh - rows shared by the blocks of a cluster, and their reductions.
 *
 * Every warp stores what it has into the slots of all blocks, through distributed shared memory,
 * and each store counts its bytes at the mbarrier of the block that receives it: one trip, and no
 * barrier of the block. Every thread then adds up the slots of all warps in the same order.
 *
 * Exchanges are numbered 0, 1, 2 ... and each must be received. A warp may send one exchange ahead
 * of those it has received, hence four sets of slots: a block sends exchange i after it received i
 * - 2, so all blocks have sent i - 2, so they have received i - 4 and no longer read its slots. A
 * block that has received its last exchange gets no further stores and may exit. */
#ifndef TS_BASE_ROW_CLUSTER_CUH
#define TS_BASE_ROW_CLUSTER_CUH

#include "row_teams.cuh"
#include "sm90.cuh"

/* Blocks of a cluster, warps of a block, sets of slots; all at most. */
enum { RANKS = 8, CLUSTER_WARPS = 16, SETS = 4 };

struct cluster_slots {
    float value[SETS][4][RANKS * CLUSTER_WARPS];
    alignas(8) uint64_t full[SETS];
};

static __device__ __forceinline__ void store_at(unsigned rank, unsigned slot, unsigned bar, float v)
{
    asm volatile(
        "{\n"
        ".reg .b32 there, signal;\n"
        "mapa.shared::cluster.u32 there, %1, %0;\n"
        "mapa.shared::cluster.u32 signal, %2, %0;\n"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [there], %3, [signal];\n"
        "}\n" ::"r"(rank),
        "r"(slot), "r"(bar), "r"(__float_as_uint(v))
        : "memory");
}

struct row_cluster {
    cluster_slots *s;
    int            rank, n_ranks, n_warps;

    /* All threads, for n sets of slots, of which it uses the first; begin_end() before the first
     * send. Loads in between are on their way meanwhile. */
    __device__ __forceinline__ explicit row_cluster(cluster_slots *slots, int n_slots = 1)
        : s(slots)
    {
        unsigned n;
        asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
        rank = (int)cluster_rank(), n_ranks = (int)n, n_warps = (int)blockDim.x / 32;
        if (threadIdx.x == 0) {
            for (int k = 0; k < SETS * n_slots; k++)
                barrier_init(shared_address(&slots[k / SETS].full[k % SETS]), 1);
            barrier_init_end();
        }
        __syncwarp();
        asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    }

    __device__ __forceinline__ void begin_end(void) const
    {
        asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
    }

    /* N values of each warp to block `to`, by one lane each. */
    __device__ __forceinline__ void send_to(int to, int i, int which, int n, float v) const
    {
        const int      set = i % SETS;
        const unsigned bar = shared_address(&s->full[set]);
        if (threadIdx.x == 0) barrier_expect(bar, (unsigned)(n_ranks * n_warps * n) * 4);
        if (to < n_ranks)
            store_at((unsigned)to,
                     shared_address(&s->value[set][which][rank * n_warps + threadIdx.x / 32]), bar,
                     v);
    }

    __device__ __forceinline__ void await(int i) const
    {
        asm volatile("{\n"
                     ".reg .pred done;\n"
                     "again:\n"
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                     "@!done bra again;\n"
                     "}\n" ::"r"(shared_address(&s->full[i % SETS])),
                     "r"((unsigned)(i / SETS) & 1)
                     : "memory");
    }

    template <class OP> __device__ __forceinline__ void send(int i, float v) const
    {
        send_to(threadIdx.x % 32, i, 0, 1, butterfly<OP, 32>(v));
    }

    /* 0 or more: the identity of both operations. */
    template <class OP> __device__ __forceinline__ float receive(int i) const
    {
        float v = 0;
        await(i);
        for (int k = threadIdx.x % 32; k < n_ranks * n_warps; k += 32)
            v = OP::of(v, s->value[i % SETS][0][k]);
        return butterfly<OP, 32>(v);
    }

    /* Two sums, half of a warp each. */
    __device__ __forceinline__ void send_sums(int i, float2 v) const
    {
        send_to(threadIdx.x % 16, i, threadIdx.x / 16 % 2, 2, half_warp_sum(v));
    }

    __device__ __forceinline__ float2 receive_sums(int i) const
    {
        const float *from = s->value[i % SETS][threadIdx.x / 16 % 2];
        float        v = 0;
        await(i);
        for (int k = threadIdx.x % 16; k < n_ranks * n_warps; k += 16) v += from[k];
        v = butterfly<add, 16>(v);
        return make_float2(__shfl_sync(0xffffffffu, v, 0), __shfl_sync(0xffffffffu, v, 16));
    }
};

/* ---- host side ---- */

/* A launch of blocks in clusters of n_ranks; cooperative where they wait for each other. */
struct cluster_launch {
    cudaLaunchConfig_t  config = {};
    cudaLaunchAttribute attribute[2] = {};

    cluster_launch(unsigned n_blocks, int n_threads, int n_bytes, int n_ranks, bool cooperative,
                   cudaStream_t s)
    {
        config.gridDim = dim3(n_blocks);
        config.blockDim = dim3((unsigned)n_threads);
        config.dynamicSmemBytes = (size_t)n_bytes;
        config.stream = s;
        config.attrs = attribute;
        config.numAttrs = cooperative ? 2 : 1;
        attribute[0].id = cudaLaunchAttributeClusterDimension;
        attribute[0].val.clusterDim = { (unsigned)n_ranks, 1, 1 };
        attribute[1].id = cudaLaunchAttributeCooperative;
        attribute[1].val.cooperative = 1;
    }
};

#endif
