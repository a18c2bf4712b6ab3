/* SPDX-License-Identifier: Apache-2.0 */
/* sm90.cuh - sm_90a instructions without a CUDA C++ intrinsic: wgmma, TMA copies of tensors, and
 * mbarriers, which count bytes.
 *
 * A tile in shared memory consists of slabs. A slab is R rows of 128 bytes (64 elements of 16
 * bits), aligned to 1024 bytes, with the 16-byte chunks of each row permuted as TMA does with
 * CU_TENSOR_MAP_SWIZZLE_128B. Shared memory is addressed by 32-bit address.
 *
 * The module also contains PTX for later devices, which lack these instructions: a kernel puts its
 * body under `if constexpr (HAS_WGMMA)`, and its launcher checks wgmma_device(). */
#ifndef TS_BASE_SM90_CUH
#define TS_BASE_SM90_CUH

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <type_traits>

#include "shared_memory.cuh"
#include "tensor_map.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
constexpr bool HAS_WGMMA = true;
#else
constexpr bool HAS_WGMMA = false;
#endif

enum { SLAB_BYTES = 128, SLAB_COLUMNS = 64, WARPGROUP = 128 };

/* ---- small ---- */

/* Sets the registers per thread of this warpgroup, a multiple of 8. The sum over all warpgroups is
 * 512. */
template <int N> static __device__ __forceinline__ void give_registers(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> static __device__ __forceinline__ void take_registers(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

/* Barrier `id`, 1 .. 15, of n threads, a multiple of 32. */
static __device__ __forceinline__ void named_wait(int id, int n)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory");
}

static __device__ __forceinline__ unsigned cluster_rank(void)
{
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* All threads of all blocks of the cluster. */
static __device__ __forceinline__ void cluster_wait(void)
{
    asm volatile("barrier.cluster.arrive.release;\n"
                 "barrier.cluster.wait.acquire;" ::
                     : "memory");
}

/* Makes this thread's stores to shared memory visible to wgmma and TMA, after a barrier. */
static __device__ __forceinline__ void publish_to_engines(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Programmatic dependent launch: lets the stream's next kernel start as soon as all blocks have
 * called this or ended, and there is room. */
static __device__ __forceinline__ void launch_next(void)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/* Waits until the stream's last kernel has ended, and what it wrote can be read. */
static __device__ __forceinline__ void await_last(void)
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

/* ---- mbarriers: a phase ends after n arrivals and after the bytes that were announced ---- */

static __device__ __forceinline__ void barrier_init(unsigned bar, int n)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(n) : "memory");
}

/* After all barrier_init of a thread, and before __syncthreads. */
static __device__ __forceinline__ void barrier_init_end(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static __device__ __forceinline__ void barrier_arrive(unsigned bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

/* Arrives at the barrier of block `rank` of the cluster, at the same address. This releases shared
 * memory that products have read; stores would need a fence of cluster scope as well. */
static __device__ __forceinline__ void barrier_arrive_at(unsigned bar, unsigned rank)
{
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
                 "}\n" ::"r"(bar),
                 "r"(rank)
                 : "memory");
}

/* One arrival, and the number of bytes that copies will transfer. */
static __device__ __forceinline__ void barrier_expect(unsigned bar, unsigned n_bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(n_bytes)
                 : "memory");
}

/* Waits until the phase of this parity has ended; for a new barrier, that of parity 1 has. */
static __device__ __forceinline__ void barrier_wait(unsigned bar, unsigned parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}\n" ::"r"(bar),
                 "r"(parity)
                 : "memory");
}

/* A place in a ring of N stages, and the parity of its phase. The consumer waits for `full` with
 * parity, the producer for `empty` with parity ^ 1. */
template <int N> struct ring_place {
    int      stage = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void advance(void)
    {
        if (++stage == N) stage = 0, parity ^= 1;
    }
};

/* ---- TMA copies of boxes of a tensor [batch][head][row][column]; one thread issues them ---- */

static __device__ __forceinline__ uint64_t keep_in_l2(void)
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

static __device__ __forceinline__ uint64_t as_usual_in_l2(void)
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

static __device__ __forceinline__ uint64_t drop_from_l2(void)
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

static __device__ __forceinline__ void prefetch_map(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Always transfers the whole box; elements outside the tensor are 0. */
static __device__ __forceinline__ void load_box(unsigned to, const CUtensorMap *map, unsigned bar,
                                                int column, int row, int head, int batch,
                                                uint64_t policy)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
                 "l"(map), "r"(bar), "r"(column), "r"(row), "r"(head), "r"(batch), "l"(policy)
                 : "memory");
}

/* The same for every block of the cluster whose bit is set in `blocks`: each receives the box, and
 * its barrier the bytes, at the same addresses. */
static __device__ __forceinline__ void load_box_to(unsigned blocks, unsigned to,
                                                   const CUtensorMap *map, unsigned bar, int column,
                                                   int row, uint64_t policy)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4, %5, %5}], [%2], %6, "
                 "%7;" ::"r"(to),
                 "l"(map), "r"(bar), "r"(column), "r"(row), "r"(0), "h"((uint16_t)blocks),
                 "l"(policy)
                 : "memory");
}

/* n_bytes contiguous bytes, a multiple of 16; both addresses aligned to 16. */
static __device__ __forceinline__ void load_bytes(unsigned to, const void *from, unsigned n_bytes,
                                                  unsigned bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2,"
                 " [%3];" ::"r"(to),
                 "l"(from), "r"(n_bytes), "r"(bar)
                 : "memory");
}

static __device__ __forceinline__ void store_box(const CUtensorMap *map, unsigned from, int column,
                                                 int row, int head, int batch)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group"
                 " [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                 "r"(from), "r"(column), "r"(row), "r"(head), "r"(batch)
                 : "memory");
}

/* Adds a box of floats in shared memory to the tensor. */
static __device__ __forceinline__ void add_box(const CUtensorMap *map, unsigned from, int column,
                                               int row)
{
    asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group"
                 " [%0, {%2, %3, %4, %4}], [%1];" ::"l"(map),
                 "r"(from), "r"(column), "r"(row), "r"(0)
                 : "memory");
}

/* to[i] += from[i]: n_bytes of floats, a multiple of 16; both addresses aligned to 16. */
static __device__ __forceinline__ void add_floats(float *to, unsigned from, unsigned n_bytes)
{
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
        "r"(from), "r"(n_bytes)
        : "memory");
}

/* Commits this thread's stores and reductions as one batch. */
static __device__ __forceinline__ void stores_end(void)
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Waits until all but the last N batches have read shared memory. */
template <int N> static __device__ __forceinline__ void stores_wait_read(void)
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

/* Waits until all but the last N batches are complete. */
template <int N> static __device__ __forceinline__ void stores_wait(void)
{
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

/* Four 8 x 8 matrices of 16-bit elements to shared memory: lane 4 g + t has row g, columns 2 t and
 * 2 t + 1 of each; lane 8 i + r gives the address of row r of matrix i. */
template <bool TRANSPOSED>
static __device__ __forceinline__ void store_matrices(unsigned row, unsigned w0, unsigned w1,
                                                      unsigned w2, unsigned w3)
{
    if constexpr (TRANSPOSED)
        asm volatile(
            "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(row),
            "r"(w0), "r"(w1), "r"(w2), "r"(w3)
            : "memory");
    else
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(row),
                     "r"(w0), "r"(w1), "r"(w2), "r"(w3)
                     : "memory");
}

/* ---- operands in shared memory ---- */

static __device__ __forceinline__ uint64_t describe(unsigned address, unsigned leading_bytes)
{
    const unsigned stride_bytes = 8 * SLAB_BYTES;
    return (uint64_t)1 << 62 | (uint64_t)(stride_bytes >> 4) << 32 |
           (uint64_t)(leading_bytes >> 4) << 16 | (address & 0x3ffff) >> 4;
}

/* The inner index of the matmul runs along a row: step i uses columns 16 i .. 16 i + 15. The tile's
 * rows are m or n; `first` is the address of row 0, in slabs of R rows. */
template <int R> struct along_rows {
    uint64_t first;

    __device__ __forceinline__ explicit along_rows(unsigned at) : first(describe(at, 16))
    {
    }
    __device__ __forceinline__ uint64_t step(int i) const
    {
        return first + (unsigned)(i / 4 * (R * SLAB_BYTES) + i % 4 * 32) / 16;
    }
};

/* The inner index runs down the rows: step i uses rows 16 i .. 16 i + 15; columns are m or n. */
template <int R> struct down_rows {
    uint64_t first;

    __device__ __forceinline__ explicit down_rows(unsigned at) : first(describe(at, R * SLAB_BYTES))
    {
    }
    __device__ __forceinline__ uint64_t step(int i) const
    {
        return first + (unsigned)(i * 16 * SLAB_BYTES) / 16;
    }
};

/* The address of 16-byte chunk `piece` of a slab's row. */
static __device__ __forceinline__ unsigned slab_piece(unsigned slab, int row, int piece)
{
    return slab + (unsigned)(row * SLAB_BYTES + (piece ^ row % 8) * 16);
}

/* ---- wgmma: d (+)= A B, A 64 x 16, B 16 x N ----
 *
 * d[N / 2]: thread 32 w + 4 g + t has rows 16 w + g and 16 w + g + 8. For each group j of 8
 * columns, d[4 j] and d[4 j + 1] are columns 8 j + 2 t and 8 j + 2 t + 1 of the first row, d[4 j +
 * 2] and d[4 j + 3] those of the second. A in registers has the same layout, with two elements per
 * word: a[0], a[1] have columns 0 to 7, a[2], a[3] columns 8 to 15. So d[8 i .. 8 i + 7] of one
 * matmul, narrowed pairwise, are the a of step i of another. */

/* Call before the first wgmma, and after other code wrote registers or memory that wgmma uses. */
static __device__ __forceinline__ void products_begin(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void products_end(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until all but the last N batches of wgmma are complete. */
template <int N> static __device__ __forceinline__ void products_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* The compiler assumes that a wgmma is complete once issued: this keeps it from moving accesses to
 * these registers. Use it before the issue and after the wait. */
template <int N> static __device__ __forceinline__ void pin(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}

template <int N> static __device__ __forceinline__ void pin(unsigned (&a)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+r"(a[i])::"memory");
}

/* The instruction names every register of d, hence the macros: TEXT_n and REGS_n are n of them, and
 * AFTER_n are the numbers of the operands that come next. */
#define TEXT_8  "%0,%1,%2,%3,%4,%5,%6,%7"
#define TEXT_16 TEXT_8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define TEXT_24 TEXT_16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define TEXT_32 TEXT_24 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define TEXT_40 TEXT_32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define TEXT_48 TEXT_40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define TEXT_56 TEXT_48 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define TEXT_64 TEXT_56 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define TEXT_80 TEXT_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define TEXT_96 TEXT_80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define TEXT_112                                                                                   \
    TEXT_96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define TEXT_128                                                                                   \
    TEXT_112 ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define EIGHT(i)                                                                                   \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define REGS_8    EIGHT(0)
#define REGS_16   EIGHT(0), EIGHT(8)
#define REGS_24   REGS_16, EIGHT(16)
#define REGS_32   REGS_24, EIGHT(24)
#define REGS_40   REGS_32, EIGHT(32)
#define REGS_48   REGS_40, EIGHT(40)
#define REGS_56   REGS_48, EIGHT(48)
#define REGS_64   REGS_56, EIGHT(56)
#define REGS_80   REGS_64, EIGHT(64), EIGHT(72)
#define REGS_96   REGS_80, EIGHT(80), EIGHT(88)
#define REGS_112  REGS_96, EIGHT(96), EIGHT(104)
#define REGS_128  REGS_112, EIGHT(112), EIGHT(120)
#define AFTER_8   8, 9, 10, 11, 12, 13, 14
#define AFTER_16  16, 17, 18, 19, 20, 21, 22
#define AFTER_24  24, 25, 26, 27, 28, 29, 30
#define AFTER_32  32, 33, 34, 35, 36, 37, 38
#define AFTER_40  40, 41, 42, 43, 44, 45, 46
#define AFTER_48  48, 49, 50, 51, 52, 53, 54
#define AFTER_56  56, 57, 58, 59, 60, 61, 62
#define AFTER_64  64, 65, 66, 67, 68, 69, 70
#define AFTER_80  80, 81, 82, 83, 84, 85, 86
#define AFTER_96  96, 97, 98, 99, 100, 101, 102
#define AFTER_112 112, 113, 114, 115, 116, 117, 118
#define AFTER_128 128, 129, 130, 131, 132, 133, 134

#define WGMMA_SHARED(N, TYPE, D)    WGMMA_SHARED_AT(N, TYPE, D, AFTER_##D)
#define WGMMA_REGISTERS(N, TYPE, D) WGMMA_REGISTERS_AT(N, TYPE, D, AFTER_##D)
#define WGMMA_SHARED_AT(...)        WGMMA_SHARED_TEXT(__VA_ARGS__)
#define WGMMA_REGISTERS_AT(...)     WGMMA_REGISTERS_TEXT(__VA_ARGS__)
#define WGMMA_SHARED_TEXT(N, TYPE, D, P, Q, R, S, T, U, V)                                         \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #R ", 0;\n"                              \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" TEXT_##D     \
                 "}, %" #P ", %" #Q ", add, 1, 1, %" #S ", %" #T ";\n}\n"                          \
                 : REGS_##D                                                                        \
                 : "l"(a), "l"(b), "r"(add), "n"(TRANS_A), "n"(TRANS_B)                            \
                 : "memory")
#define WGMMA_REGISTERS_TEXT(N, TYPE, D, P, Q, R, S, T, U, V)                                      \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #U ", 0;\n"                              \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" TEXT_##D     \
                 "}, {%" #P ",%" #Q ",%" #R ",%" #S "}, %" #T ", add, 1, 1, %" #V ";\n}\n"         \
                 : REGS_##D                                                                        \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(add), "n"(TRANS_B)              \
                 : "memory")
/* Of 8-bit elements both operands have their inner index along rows. */
#define WGMMA8_SHARED(N, TYPE, D)    WGMMA8_SHARED_AT(N, TYPE, D, AFTER_##D)
#define WGMMA8_REGISTERS(N, TYPE, D) WGMMA8_REGISTERS_AT(N, TYPE, D, AFTER_##D)
#define WGMMA8_SHARED_AT(...)        WGMMA8_SHARED_TEXT(__VA_ARGS__)
#define WGMMA8_REGISTERS_AT(...)     WGMMA8_REGISTERS_TEXT(__VA_ARGS__)
#define WGMMA8_SHARED_TEXT(N, TYPE, D, P, Q, R, S, T, U, V)                                        \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #R ", 0;\n"                              \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32." TYPE "." TYPE " {" TEXT_##D     \
                 "}, %" #P ", %" #Q ", add, 1, 1;\n}\n"                                            \
                 : REGS_##D                                                                        \
                 : "l"(a), "l"(b), "r"(add)                                                        \
                 : "memory")
#define WGMMA8_REGISTERS_TEXT(N, TYPE, D, P, Q, R, S, T, U, V)                                     \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #U ", 0;\n"                              \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32." TYPE "." TYPE " {" TEXT_##D     \
                 "}, {%" #P ",%" #Q ",%" #R ",%" #S "}, %" #T ", add, 1, 1;\n}\n"                  \
                 : REGS_##D                                                                        \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(add)                            \
                 : "memory")
#define BY_SIZE(FORM, TYPE)                                                                        \
    do {                                                                                           \
        if constexpr (N == 8) FORM(16, TYPE, 8);                                                   \
        else if constexpr (N == 16) FORM(32, TYPE, 16);                                            \
        else if constexpr (N == 24) FORM(48, TYPE, 24);                                            \
        else if constexpr (N == 32) FORM(64, TYPE, 32);                                            \
        else if constexpr (N == 40) FORM(80, TYPE, 40);                                            \
        else if constexpr (N == 48) FORM(96, TYPE, 48);                                            \
        else if constexpr (N == 56) FORM(112, TYPE, 56);                                           \
        else if constexpr (N == 64) FORM(128, TYPE, 64);                                           \
        else if constexpr (N == 80) FORM(160, TYPE, 80);                                           \
        else if constexpr (N == 96) FORM(192, TYPE, 96);                                           \
        else if constexpr (N == 112) FORM(224, TYPE, 112);                                         \
        else if constexpr (N == 128) FORM(256, TYPE, 128);                                         \
        else static_assert(N == 0, "no such product here");                                        \
    } while (0)

/* d has N registers: a product of 2 N columns. A and B in shared memory. add 0: d is overwritten.
 */
template <class T, int TRANS_A, int TRANS_B, int N>
static __device__ __forceinline__ void product(float (&d)[N], uint64_t a, uint64_t b, int add)
{
    if constexpr (std::is_same<T, __half>::value) BY_SIZE(WGMMA_SHARED, "f16");
    else BY_SIZE(WGMMA_SHARED, "bf16");
}

/* A in registers, B in shared memory. */
template <class T, int TRANS_B, int N>
static __device__ __forceinline__ void product(float (&d)[N], unsigned a0, unsigned a1, unsigned a2,
                                               unsigned a3, uint64_t b, int add)
{
    if constexpr (std::is_same<T, __half>::value) BY_SIZE(WGMMA_REGISTERS, "f16");
    else BY_SIZE(WGMMA_REGISTERS, "bf16");
}

/* The same of e4m3 numbers: A is 64 x 32, B 32 x N. */
template <int N>
static __device__ __forceinline__ void product_e4m3(float (&d)[N], uint64_t a, uint64_t b, int add)
{
    BY_SIZE(WGMMA8_SHARED, "e4m3");
}

/* a0 has bytes 4 t to 4 t + 3 of row g, a1 of row g + 8; a2, a3 those 16 bytes further on. */
template <int N>
static __device__ __forceinline__ void product_e4m3(float (&d)[N], unsigned a0, unsigned a1,
                                                    unsigned a2, unsigned a3, uint64_t b, int add)
{
    BY_SIZE(WGMMA8_REGISTERS, "e4m3");
}

#undef TEXT_8
#undef REGS_8
#undef EIGHT
#undef AFTER_8
#undef TEXT_16
#undef REGS_16
#undef AFTER_16
#undef TEXT_24
#undef REGS_24
#undef AFTER_24
#undef TEXT_32
#undef REGS_32
#undef AFTER_32
#undef TEXT_40
#undef REGS_40
#undef AFTER_40
#undef TEXT_48
#undef REGS_48
#undef AFTER_48
#undef TEXT_56
#undef REGS_56
#undef AFTER_56
#undef TEXT_64
#undef REGS_64
#undef AFTER_64
#undef TEXT_80
#undef REGS_80
#undef AFTER_80
#undef TEXT_96
#undef REGS_96
#undef AFTER_96
#undef TEXT_112
#undef REGS_112
#undef AFTER_112
#undef TEXT_128
#undef REGS_128
#undef AFTER_128
#undef WGMMA_SHARED
#undef WGMMA_REGISTERS
#undef WGMMA_SHARED_AT
#undef WGMMA_REGISTERS_AT
#undef WGMMA_SHARED_TEXT
#undef WGMMA_REGISTERS_TEXT
#undef WGMMA8_SHARED
#undef WGMMA8_REGISTERS
#undef WGMMA8_SHARED_AT
#undef WGMMA8_REGISTERS_AT
#undef WGMMA8_SHARED_TEXT
#undef WGMMA8_REGISTERS_TEXT
#undef BY_SIZE

/* ---- the host's side ---- */

/* Whether the current device supports the code under HAS_WGMMA. */
static inline bool wgmma_device(void)
{
    int device = 0, major = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    return major == 9;
}

#endif
