#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu_fair.sh BUILD [TIMES] - tests whether matches are fair on a device.
#
# Copies of one kernel, some of which compute the first twentieth of the rows twice, in one run;
# sealed, with the device's clock, and with host code, with the judge's. Copies must tie, the slower
# ones lose, and the two clocks agree. TIMES: launches per call; one launch takes some 100 us on an
# H200, too little compared with the noise of host code.
set -eu
. "$(dirname "$0")/lib.sh"
times=${2-5}
# A row of up to 1024 elements stays in registers; longer ones are read three times.
cat >"$tmp/kernel.cu" <<'END'
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
enum { THREADS = 256, HELD = 4 };
static __device__ float wide(float v) { return v; }
static __device__ float wide(__half v) { return __half2float(v); }
static __device__ float wide(__nv_bfloat16 v) { return __bfloat162float(v); }
static __device__ void put(float *to, double v) { *to = (float)v; }
static __device__ void put(__half *to, double v) { *to = __double2half(v); }
static __device__ void put(__nv_bfloat16 *to, double v) { *to = __double2bfloat16(v); }
template <class T> static __device__ T sum(T v)
{
    __shared__ T part[THREADS / 32];
    for (int i = 16; i; i /= 2) v += __shfl_xor_sync(~0u, v, i);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    T all = 0;
    for (int i = 0; i < THREADS / 32; i++) all += part[i];
    return all;
}
template <class T>
static __device__ void row(const T *x, int64_t stride, int n, double eps, const T *gamma, const T *beta, T *y,
                           float *mean, float *rstd, int rows)
{
    const int at = blockIdx.x % rows;
    float     v[HELD];
    double    m, r, s = 0;
    x += at * stride, y += at * stride;
    if (n <= THREADS * HELD) {
        for (int k = 0; k < HELD; k++) {
            const int i = threadIdx.x + k * THREADS;
            s += v[k] = i < n ? wide(x[i]) : 0;
        }
        m = sum(s) / n, s = 0;
        for (int k = 0; k < HELD; k++)
            if (threadIdx.x + k * THREADS < n) s += (v[k] - m) * (v[k] - m);
        r = 1 / sqrt(sum(s) / n + eps);
        for (int k = 0; k < HELD; k++) {
            const int i = threadIdx.x + k * THREADS;
            if (i < n) put(&y[i], (v[k] - m) * r * wide(gamma[i]) + wide(beta[i]));
        }
    } else {
        for (int i = threadIdx.x; i < n; i += THREADS) s += wide(x[i]);
        m = sum(s) / n, s = 0;
        for (int i = threadIdx.x; i < n; i += THREADS) s += (wide(x[i]) - m) * (wide(x[i]) - m);
        r = 1 / sqrt(sum(s) / n + eps);
        for (int i = threadIdx.x; i < n; i += THREADS)
            put(&y[i], (wide(x[i]) - m) * r * wide(gamma[i]) + wide(beta[i]));
    }
    if (threadIdx.x == 0) mean[at] = (float)m, rstd[at] = (float)r;
}
#define KERNEL(name, T) extern "C" __global__ void name(const T *x, int64_t stride, int n, double eps, \
    const T *gamma, const T *beta, T *y, float *mean, float *rstd, int rows) \
    { row(x, stride, n, eps, gamma, beta, y, mean, rstd, rows); }
KERNEL(layernorm_forward_f32, float)
KERNEL(layernorm_forward_f16, __half)
KERNEL(layernorm_forward_bf16, __nv_bfloat16)
END

# enter NAME CLASS TIMES ROWS: the kernel, launched TIMES times over ROWS rows
enter() {
    mkdir -p "$tmp/entrants/$1"
    cp "$tmp/kernel.cu" "$tmp/entrants/$1/k.cu"
    [ "$2" = sealed-gpu ] || cat >>"$tmp/entrants/$1/k.cu" <<END
#include "touchstone/layernorm.h"
#define LAUNCH(T, kernel) kernel<<<(unsigned)($4), THREADS, 0, (cudaStream_t)e->stream>>>((const T *)a->x, a->row_stride, \\
        (int)a->n_cols, a->eps, (const T *)a->gamma, (const T *)a->beta, (T *)a->y, (float *)a->mean, (float *)a->rstd, (int)rows)
extern "C" TS_API ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *e)
{
    const int64_t rows = a->n_rows;
    for (int i = 0; i < $3 && rows; i++)
        if (a->dtype == TS_F32) LAUNCH(float, layernorm_forward_f32);
        else if (a->dtype == TS_F16) LAUNCH(__half, layernorm_forward_f16);
        else if (a->dtype == TS_BF16) LAUNCH(__nv_bfloat16, layernorm_forward_bf16);
        else return TS_E_DTYPE;
    return cudaGetLastError() ? TS_E_DEVICE : TS_OK;
}
END
    launch=
    step='{"kernel":"layernorm_forward_{dtype}","grid":["'$4'"],"block":["256"],"args":["ptr x","i64 x.stride",
        "i32 cols","f64 eps","ptr gamma","ptr beta","ptr y","ptr mean","ptr rstd","i32 rows"]}'
    for once in $(seq "$3"); do : "$once"; launch=$launch${launch:+,}$step; done
    [ "$2" = sealed-gpu ] && launch=",\"launch\":[$launch]" || launch=
    echo "{\"name\":\"$1\",\"author\":\"a test\",\"challenge\":\"layernorm_forward\",\"class\":\"$2\",
        \"language\":\"cuda\",\"sources\":[\"k.cu\"]$launch}" >"$tmp/entrants/$1/entry.json"
}
slower='rows + rows / 20'
for i in 1 2 3; do
    enter sealed-same-$i sealed-gpu "$times" rows
    enter host-same-$i host-gpu "$times" rows
    [ $i -gt 2 ] || enter sealed-slow-$i sealed-gpu "$times" "$slower"
    [ $i -gt 2 ] || enter host-slow-$i host-gpu "$times" "$slower"
done
# The judge says each verdict on standard error as it comes; matches are known at the end.
echo 'plan sealed-same sealed-handicap host-same host-handicap'
"$build/touchstone" judge --depth quick --device cuda --log "$tmp/log" "$tmp/entrants" >"$tmp/out" || {
    cat "$tmp/out" && exit 1; }

# Names by number, then matches and times.
awk -v RS='\n' '
function field(name,   s) {
    if (!match($0, "\"" name "\":(\"[^\"]*\"|[-0-9.e+]+)")) return ""
    s = substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3)
    gsub(/"/, "", s)
    return s
}
/"type":"entrant"/ { name[field("id")] = field("name") }
/"type":"time"/ {
    split(name[field("entrant")], part, "-")
    c = field("case")
    if (!(c in seen)) seen[c] = ++n_cases
    kind = part[1] "-" part[2]
    total[kind, c] += field("time_ns"); count[kind, c]++; idle[kind, c] += field("idle_ns")
}
/"type":"match"/ {
    split(name[field("a")], a, "-"); split(name[field("b")], b, "-")
    if (a[1] != b[1]) next
    kind = a[1] (a[2] == b[2] ? "-same" : "-handicap")
    matches[kind]++
    outcome[kind, field("verdict")]++
    e = field("effect") * (a[2] == "slow" ? -1 : 1); sum[kind] += e
    faster = a[2] == "slow" ? "b" : "a"
    verdict = field("verdict")
    right[kind] += a[2] == b[2] ? verdict == "tie" || verdict == "noise" : verdict == faster
}
END {
    n_kinds = split("sealed-same sealed-handicap host-same host-handicap", kinds, " ")
    for (i = 1; i <= n_kinds; i++) {
        k = kinds[i]
        if (!matches[k]) { bad = 1; print "NOT  " k " no match was held"; continue }
        unfair = right[k] < (k ~ /same/ ? 1 : 0.95) * matches[k]
        bad = bad || unfair
        printf "%-4s %-16s %3d matches, %3d as they must be (%d a, %d b, %d tie, %d noise), mean effect %+.2f %%\n", unfair ? "NOT" : "ok", k,
            matches[k], right[k], outcome[k, "a"], outcome[k, "b"], outcome[k, "tie"], outcome[k, "noise"],
            100 * sum[k] / matches[k]
    }
    for (c in seen) {
        s = total["sealed-same", c] / count["sealed-same", c]
        h = total["host-same", c] / count["host-same", c]
        printf "%s: sealed %.2f us, host %.2f us (ratio %.3f), idle call %.2f us\n", c, s / 1e3, h / 1e3, h / s,
            idle["host-same", c] / count["host-same", c] / 1e3
    }
    exit bad
}' "$tmp/log" || { echo 'gpu_fair: NOT fair' && exit 1; }
echo 'gpu_fair: fair'
