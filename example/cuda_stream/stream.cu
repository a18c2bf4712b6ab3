// SPDX-License-Identifier: Apache-2.0
// stream.cu - kernels on CUDA streams: two streams at once, then the same work as a CUDA graph.
//
// The program calls the kernels of work.h on two streams, then captures both into one graph,
// replays the graph with other inputs, and compares every result with the CPU's. Where TS_CUDA
// cannot be used it says why and ends with status 77.
#include "work.h"

#include <chrono>
#include <vector>

static std::vector<float> inputs(double phase)
{
    std::vector<float> m(FLOATS);
    for (int i = 0; i < MATRIX; i++) m[i] = (float)std::sin(phase * i * i);
    for (int j = 0; j < WIDTH; j++) m[3 * MATRIX + j] = 1; // gamma; beta is 0
    return m;
}

static void load(const work &gpu, double phase)
{
    must(cudaMemcpy(gpu.memory, inputs(phase).data(), FLOATS * 4, cudaMemcpyDefault), "copy");
}

static bool agrees(const char *name, const work &gpu, double phase) // with the CPU
{
    std::vector<float> want = inputs(phase), got(FLOATS);
    work               cpu(want.data(), TS_CPU, nullptr);
    const work         result(got.data(), TS_CPU, nullptr);
    std::vector<char>  scratch(cpu.workspace());
    cpu.exec.workspace = scratch.data(), cpu.exec.workspace_bytes = scratch.size();
    cpu.run();
    must(cudaMemcpy(got.data(), gpu.memory, FLOATS * 4, cudaMemcpyDefault), "copy");
    int n = 0;
    for (int i = 0; i < TOP * TOKENS; i++)
        n += result.top.index[i] == cpu.top.index[i] &&
             std::fabs(result.top.prob[i] - cpu.top.prob[i]) < 1e-5;
    std::printf("%s: %d of %d as on the CPU\n", name, n, TOP * TOKENS);
    return n == TOP * TOKENS;
}

int main()
{
    if (const char *reason = ts_cuda_unavailable_reason())
        return std::printf("skipped: %s\n", reason), 77;
    cudaStream_t      stream[2];
    std::vector<work> gpu;
    for (cudaStream_t &s : stream) { // calls that may overlap need a workspace each
        void *memory, *workspace;
        must(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "stream");
        must(cudaMalloc(&memory, FLOATS * 4), "memory");
        gpu.emplace_back((float *)memory, TS_CUDA, s);
        gpu.back().exec.workspace_bytes = gpu.back().workspace();
        must(cudaMalloc(&workspace, gpu.back().exec.workspace_bytes + 1), "memory");
        gpu.back().exec.workspace = workspace;
    }

    // 1. Both streams at once: run() does not wait for the device.
    load(gpu[0], 0.37), load(gpu[1], 0.73);
    gpu[0].run(), gpu[1].run();
    must(cudaDeviceSynchronize(), "streams");
    bool ok = agrees("stream 0", gpu[0], 0.37) && agrees("stream 1", gpu[1], 0.73);

    // 2. The same calls, recorded instead of run: the second stream branches off the first and
    // joins it again. The graph keeps the pointers; the contents of x may change between replays.
    cudaGraph_t     graph;
    cudaGraphExec_t replay;
    cudaEvent_t     fork, join;
    must(cudaEventCreate(&fork), "event"), must(cudaEventCreate(&join), "event");
    must(cudaStreamBeginCapture(stream[0], cudaStreamCaptureModeThreadLocal), "capture");
    must(cudaEventRecord(fork, stream[0]), "capture");
    must(cudaStreamWaitEvent(stream[1], fork), "capture");
    gpu[0].run(), gpu[1].run();
    must(cudaEventRecord(join, stream[1]), "capture");
    must(cudaStreamWaitEvent(stream[0], join), "capture");
    must(cudaStreamEndCapture(stream[0], &graph), "capture");
    must(cudaGraphInstantiate(&replay, graph, 0), "graph");
    load(gpu[0], 1.3), load(gpu[1], 0.9);
    must(cudaGraphLaunch(replay, stream[0]), "graph");
    must(cudaDeviceSynchronize(), "graph");
    ok = agrees("graph, stream 0", gpu[0], 1.3) && agrees("graph, stream 1", gpu[1], 0.9) && ok;

    for (int mode = 0; mode < 2; mode++) { // what the graph saves, to stderr: it varies
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < 1000; i++)
            if (mode) must(cudaGraphLaunch(replay, stream[0]), "graph");
            else gpu[0].run(), gpu[1].run();
        must(cudaDeviceSynchronize(), "streams");
        const std::chrono::duration<double, std::micro> t =
            std::chrono::steady_clock::now() - begin;
        std::fprintf(stderr, "%s: %.1f us\n", mode ? "a replay" : "six calls", t.count() / 1000);
    }
    return ok ? 0 : 1; // the process ends: streams, graph and memory are freed with it
}
