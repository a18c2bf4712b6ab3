/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.cu - the module of training on a CUDA device: its stream, copies, recordings, clock, and
 * cuBLAS for the products. */
#include <cublas_v2.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda_impl.cuh"

namespace
{

const size_t BLAS_BYTES = (size_t)64 << 20;

enum { MOST_MARKS = 1 << 14 };

/* cuBLAS on a stream, with a workspace of its own: [BLAS_BYTES]. */
struct lane {
    cublasHandle_t blas;
    cudaStream_t   stream;
    void          *workspace;
};

struct gpu {
    lane           first, beside;
    cudaStream_t   stream; /* the first one's */
    cudaEvent_t    forked, left[TS_CUDA_BESIDES];
    float         *numbers; /* 0 and 1, on the device */
    cublasStatus_t failed;  /* the first failure since the last query */
    cudaError_t    broken;  /* likewise, of what has no other way to say so */
    cudaEvent_t   *mark;    /* [MOST_MARKS]; NULL: not measured */
    ts_cuda_part  *part;    /* what begins at each */
    int            n_mark;
};

void note(gpu *g, cublasStatus_t s)
{
    if (!g->failed) g->failed = s;
}

void note(gpu *g, cudaError_t e)
{
    if (!g->broken) g->broken = e;
}

void *stream_of(void *self)
{
    return ((gpu *)self)->stream;
}

ts_status wait(void *self)
{
    gpu              *g = (gpu *)self;
    const cudaError_t waited = cudaStreamSynchronize(g->stream), launched = cudaGetLastError();
    const bool        bad = g->failed || g->broken || waited || launched;
    g->failed = CUBLAS_STATUS_SUCCESS;
    g->broken = cudaSuccess;
    return bad ? TS_E_DEVICE : TS_OK;
}

/* ---- copies ---- */

/* From pageable memory: it has been read when this is back. */
void put(void *self, void *to, const void *host, size_t n_bytes)
{
    gpu *g = (gpu *)self;
    note(g, cudaMemcpyAsync(to, host, n_bytes, cudaMemcpyHostToDevice, g->stream));
}

ts_status get(void *self, void *host, const void *from, size_t n_bytes)
{
    gpu *g = (gpu *)self;
    note(g, cudaMemcpyAsync(host, from, n_bytes, cudaMemcpyDeviceToHost, g->stream));
    return wait(self);
}

void clear(void *self, void *p, size_t n_bytes)
{
    gpu *g = (gpu *)self;
    note(g, cudaMemsetAsync(p, 0, n_bytes, g->stream));
}

/* ---- recordings: a launch costs the host more than some kernels the device ---- */

void record(void *self)
{
    gpu *g = (gpu *)self;
    note(g, cudaStreamBeginCapture(g->stream, cudaStreamCaptureModeThreadLocal));
}

void *recorded(void *self)
{
    gpu            *g = (gpu *)self;
    cudaGraph_t     graph = NULL;
    cudaGraphExec_t made = NULL;
    note(g, cudaStreamEndCapture(g->stream, &graph));
    if (graph) {
        note(g, cudaGraphInstantiate(&made, graph, 0));
        cudaGraphDestroy(graph);
    }
    return made;
}

void play(void *self, void *recording)
{
    gpu *g = (gpu *)self;
    note(g, cudaGraphLaunch((cudaGraphExec_t)recording, g->stream));
}

void forget(void *self, void *recording)
{
    (void)self;
    if (recording) cudaGraphExecDestroy((cudaGraphExec_t)recording);
}

/* ---- the second stream ---- */

void fork_beside(void *self)
{
    gpu *g = (gpu *)self;
    note(g, cudaEventRecord(g->forked, g->stream));
    note(g, cudaStreamWaitEvent(g->beside.stream, g->forked, 0));
}

void leave(void *self, int slot)
{
    gpu *g = (gpu *)self;
    note(g, cudaEventRecord(g->left[slot], g->beside.stream));
}

void meet(void *self, int slot)
{
    gpu *g = (gpu *)self;
    note(g, cudaStreamWaitEvent(g->stream, g->left[slot], 0));
}

/* ---- the clock ---- */

void watch(void *self)
{
    gpu *g = (gpu *)self;
    g->mark = (cudaEvent_t *)calloc(MOST_MARKS, sizeof *g->mark);
    g->part = (ts_cuda_part *)calloc(MOST_MARKS, sizeof *g->part);
    g->n_mark = 0;
}

/* Work that does not change its part needs no mark. */
void part(void *self, ts_cuda_part p)
{
    gpu *g = (gpu *)self;
    if (!g->mark || !g->part || g->n_mark == MOST_MARKS) return;
    if (g->n_mark && g->part[g->n_mark - 1] == p) return;
    note(g, cudaEventCreate(&g->mark[g->n_mark]));
    note(g, cudaEventRecord(g->mark[g->n_mark], g->stream));
    g->part[g->n_mark++] = p;
}

ts_status times(void *self, double *ms)
{
    gpu            *g = (gpu *)self;
    const ts_status s = wait(self);
    for (int i = 0; i < TS_PARTS; i++) ms[i] = 0;
    for (int i = 0; !s && i + 1 < g->n_mark; i++) {
        float took = 0;
        note(g, cudaEventElapsedTime(&took, g->mark[i], g->mark[i + 1]));
        if (g->part[i] < TS_PARTS) ms[g->part[i]] += took;
    }
    for (int i = 0; i < g->n_mark; i++) cudaEventDestroy(g->mark[i]);
    free(g->mark);
    free(g->part);
    g->mark = NULL;
    g->part = NULL;
    return s ? s : wait(self);
}

/* ---- products ---- */

cudaDataType_t blas_type(ts_dtype t)
{
    return t == TS_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* To cuBLAS a matrix that lies row by row is its transpose: c^T = b^T a^T. CUBLAS_COMPUTE_32F does
 * not round to TF32. */
void product(void *self, const ts_cuda_product *p)
{
    gpu                 *g = (gpu *)self;
    const float          one = 1, beta = p->add ? 1 : 0;
    const cublasHandle_t blas = p->aside ? g->beside.blas : g->first.blas;
    if (p->scale) note(g, cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE));
    note(g,
         cublasGemmEx(blas, p->turn_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                      p->turn_a ? CUBLAS_OP_T : CUBLAS_OP_N, (int)p->n, (int)p->m, (int)p->k,
                      p->scale ? p->scale : &one, p->b, blas_type(p->in), (int)p->n_b, p->a,
                      blas_type(p->in), (int)p->n_a, p->scale ? g->numbers + p->add : &beta, p->c,
                      blas_type(p->out), (int)p->n_c, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    if (p->scale) note(g, cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_HOST));
}

/* ---- begin and end ---- */

void close_lane(lane *l)
{
    if (l->blas) cublasDestroy(l->blas);
    if (l->stream) cudaStreamDestroy(l->stream);
    cudaFree(l->workspace);
}

/* Work that nothing waits for has the lower priority. */
cudaError_t open_lane(lane *l, int priority, cublasStatus_t *s)
{
    cudaError_t e = cudaMalloc(&l->workspace, BLAS_BYTES);
    if (!e) e = cudaStreamCreateWithPriority(&l->stream, cudaStreamDefault, priority);
    if (!e) *s = cublasCreate(&l->blas);
    if (!e && !*s) *s = cublasSetStream(l->blas, l->stream);
    if (!e && !*s) *s = cublasSetWorkspace(l->blas, l->workspace, BLAS_BYTES);
    return e;
}

void close_gpu(void *self)
{
    gpu *g = (gpu *)self;
    close_lane(&g->first);
    close_lane(&g->beside);
    cudaFree(g->numbers);
    if (g->forked) cudaEventDestroy(g->forked);
    for (int i = 0; i < TS_CUDA_BESIDES; i++)
        if (g->left[i]) cudaEventDestroy(g->left[i]);
    free(g);
}

cudaError_t open_events(gpu *g)
{
    cudaError_t e = cudaEventCreateWithFlags(&g->forked, cudaEventDisableTiming);
    for (int i = 0; !e && i < TS_CUDA_BESIDES; i++)
        e = cudaEventCreateWithFlags(&g->left[i], cudaEventDisableTiming);
    return e;
}

cudaError_t open_numbers(gpu *g)
{
    const float numbers[] = { 0, 1 };
    cudaError_t e = cudaMalloc((void **)&g->numbers, sizeof numbers);
    if (!e) e = cudaMemcpy(g->numbers, numbers, sizeof numbers, cudaMemcpyHostToDevice);
    return e;
}

bool open_gpu(void **self, char *why, size_t n_why)
{
    gpu *g = (gpu *)calloc(1, sizeof *g);
    if (!g) {
        snprintf(why, n_why, "out of memory for a handle of cuBLAS");
        return false;
    }
    int            low = 0, high = 0;
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    cudaError_t    e = cudaDeviceGetStreamPriorityRange(&low, &high);
    if (!e) e = open_lane(&g->first, high, &s);
    if (!e && !s) e = open_lane(&g->beside, low, &s);
    if (!e && !s) e = open_events(g);
    if (!e && !s) e = open_numbers(g);
    g->stream = g->first.stream;
    if (e) {
        cudaGetLastError(); /* it has been told of */
        snprintf(why, n_why, "cuBLAS workspace: cannot be allocated on the CUDA device: %s",
                 cudaGetErrorString(e));
    } else if (s)
        snprintf(why, n_why, "cuBLAS cannot be initialised: %s", cublasGetStatusString(s));
    else {
        *self = g;
        return true;
    }
    close_gpu(g);
    return false;
}

} // namespace

cudaStream_t ts_train_stream(const void *self)
{
    return ((const gpu *)self)->stream;
}

extern "C" TS_API const ts_train_module ts_train_cuda = {
    TS_TRAIN_CUDA_ABI,
    open_gpu,
    close_gpu,
    stream_of,
    wait,
    put,
    get,
    clear,
    record,
    recorded,
    play,
    forget,
    fork_beside,
    leave,
    meet,
    watch,
    part,
    times,
    product,
    ts_train_project,
    ts_train_clip,
};
