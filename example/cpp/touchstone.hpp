// SPDX-License-Identifier: Apache-2.0
// touchstone.hpp - a C++17 layer over the C API, to copy into a project: exceptions, and workspace
// and KV cache that free themselves.
#ifndef EXAMPLE_TOUCHSTONE_HPP
#define EXAMPLE_TOUCHSTONE_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <touchstone/kv_cache.h>
#include <touchstone/touchstone.h>
#include <vector>

namespace touchstone
{

// What a status other than TS_OK becomes.
struct error : std::runtime_error {
    ts_status status;
    error(ts_status s, const std::string &what)
        : std::runtime_error(what + ": " + ts_status_text(s)), status(s)
    {
    }
};

inline void check(ts_status s, const char *what)
{
    if (s != TS_OK) throw error(s, what);
}

// The CPU with a workspace. call() asks a kernel how much it needs, grows the buffer and runs it.
class context
{
    ts_exec                exec {};
    std::vector<std::byte> scratch;

  public:
    explicit context(int n_threads = 0)
    {
        exec.device = TS_CPU;
        exec.n_threads = n_threads;
    }
    const ts_exec *with(std::size_t workspace_bytes)
    {
        if (scratch.size() < workspace_bytes) scratch.resize(workspace_bytes);
        exec.workspace = scratch.data();
        exec.workspace_bytes = scratch.size();
        return &exec;
    }
    template <class Args>
    void call(ts_status (*run)(const Args *, const ts_exec *),
              ts_status (*query)(const Args *, const ts_exec *, std::size_t *), const Args &a,
              const char *what)
    {
        std::size_t bytes = 0;
        check(query(&a, &exec, &bytes), what);
        check(run(&a, with(bytes)), what);
    }
};

// A KV cache and its memory, freed together. It can be moved, not copied; the context must outlive
// it. Sequences are those of ts_kv_open; k, v, q and out are packed as kv_cache.h says.
class kv_cache
{
    struct destroy {
        void operator()(ts_kv *c) const
        {
            ts_kv_destroy(&c);
        }
    };
    context                        *cpu;
    std::size_t                     workspace_bytes = 0;
    std::vector<std::byte>          memory;
    std::unique_ptr<ts_kv, destroy> cache; // behind memory, so that it ends first

  public:
    kv_cache(const ts_kv_dims &d, context &c) : cpu(&c)
    {
        std::size_t bytes = 0;
        ts_kv      *made = nullptr;
        check(ts_kv_bytes(&d, cpu->with(0), &bytes, &workspace_bytes), "size of the KV cache");
        memory.resize(bytes);
        check(ts_kv_create(&d, cpu->with(0), memory.data(), bytes, &made), "KV cache");
        cache.reset(made);
    }
    kv_cache(kv_cache &&) = default;
    std::int32_t open()
    {
        std::int32_t seq = 0;
        check(ts_kv_open(cache.get(), cpu->with(workspace_bytes), &seq), "open");
        return seq;
    }
    void append(int layer, std::int32_t seq, std::int64_t n, const void *k, const void *v)
    {
        check(ts_kv_append(cache.get(), cpu->with(workspace_bytes), layer, 1, &seq, &n, k, v),
              "append");
    }
    void attend(int layer, std::int32_t seq, std::int64_t n, const void *q, void *out)
    {
        check(ts_kv_attend(cache.get(), cpu->with(workspace_bytes), layer, 1, &seq, &n, q, out,
                           nullptr),
              "attend");
    }
};

} // namespace touchstone
#endif
