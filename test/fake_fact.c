/* SPDX-License-Identifier: Apache-2.0 */
/* fake_fact.c - the kernels of judge/gpu/fact_ptx.c for the stand-in driver, and a linker that does
 * nothing.
 *
 * ts_band is of judge/gpu/band_look.c. ts_chase is not there: there is no cache to look into. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fact_ptx.h"
#include "fake_cuda.h"
#include "nothing.h"

static uint32_t *module_calls;
static unsigned  n_rows;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void touch(void **params)
{
    volatile uint32_t *p = *(uint32_t **)params[0];
    const uint32_t     how = *(uint32_t *)params[1];
    if (how == 0) (void)*p;
    if (how == 1) *p = 1;
    if (how == 2) __atomic_fetch_add(p, 1, __ATOMIC_RELAXED);
}

static void spin(void **params)
{
    volatile uint64_t *beat = *(uint64_t **)params[0];
    const uint64_t     ns = *(uint64_t *)params[1], begin = now_ns();
    do ++*beat;
    while (now_ns() - begin < ns);
}

static void count(void **params)
{
    **(uint32_t **)params[0] = ++*module_calls;
}

static void band(void **params)
{
    const unsigned char *p = *(unsigned char **)params[0], *const end = p + *(uint64_t *)params[1];
    const uint32_t pattern = *(uint32_t *)params[2];
    uint64_t      *wrong = *(uint64_t **)params[3];
    /* Hundreds of MiB after every call: at the speed of memory if nothing was changed. */
    if (p < end && *p == (unsigned char)pattern && !memcmp(p, p + 1, (size_t)(end - p) - 1)) return;
    for (uint32_t word; p < end; p += sizeof word) {
        const size_t head = (uintptr_t)p % sizeof word, left = (size_t)(end - p);
        const size_t n = left < sizeof word - head ? left : sizeof word - head;
        *wrong += memcmp(p, (const unsigned char *)&pattern + head, n) != 0;
        p -= head;
    }
}

/* All of its threads in turn; a row is one, and its first word stands for when it changed. */
static void poll_rows(void **params)
{
    static char        seen[1 << 16];
    volatile uint32_t *in = *(uint32_t **)params[0];
    const uint32_t    *truth = *(uint32_t **)params[1], cols = *(uint32_t *)params[2];
    const uint32_t     before = *in;
    volatile uint64_t *word = *(uint64_t **)params[3];
    uint64_t           go;
    memset(seen, 0, sizeof seen);
    word[1] = n_rows;
    do {
        word[5] = 0;
        go = word[0];
        if (!word[2] && *in != before) word[2] = now_ns();
        if (!word[3] && go) word[3] = now_ns();
        for (uint32_t r = 0; r < n_rows; r++) {
            uint32_t c = 0;
            while (c < cols && in[r * cols + c] == truth[r * cols + c]) c++;
            word[5] += c == cols;
            if (c < cols || seen[r] || word[0]) continue;
            seen[r] = 1;
            word[4]++;
        }
    } while (go != 2);
}

/* Work is done when it is enqueued, before the judge can say go: so the gate ends at once. And by
 * the host, which may be busy, where a device would take turns with other processes: that never
 * shows. */
static void gate(void **params)
{
    volatile ts_gate_words *w = *(ts_gate_words **)params[0];
    w->begin_ns = w->stamp_ns[2];
    w->begun = w->saw = *(uint32_t *)params[1];
    w->gap_ns = 0;
    w->end_ns = now_ns();
    w->ended = w->begun;
}

static void pause_(void **params)
{
    const uint64_t begin = now_ns();
    (void)params;
    while (now_ns() - begin < TS_PAUSE_NS) {}
}

static void stamp(void **params)
{
    **(uint64_t **)params[0] = now_ns();
}

int fake_fact(const char *name, uint32_t *calls, unsigned n_threads, void **params)
{
    static const struct {
        const char *name;
        fake_call  *call;
    } kernels[] = {
        { "ts_touch", touch },    { "ts_spin", spin }, { "ts_count", count },
        { "ts_poll", poll_rows }, { "ts_gate", gate }, { "ts_pause", pause_ },
        { "ts_stamp", stamp },    { "ts_band", band },
    };
    static fake_state state;
    module_calls = calls;
    n_rows = n_threads;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (!strcmp(kernels[i].name, name))
            return fake_launch(kernels[i].call, &state, (fake_index) { 1, 1, 1 },
                               (fake_index) { 1, 1, 1 }, params);
    return 0;
}

/* ---- linking: a text stays a text ---- */

typedef struct linked {
    char  *text;
    size_t n;
} linked;

int cuLinkCreate_v2(unsigned n_options, int *option, void **value, ts_cu_any **l)
{
    const int code = fake_gate_context();
    (void)option, (void)value;
    if (code || n_options) return code ? code : INVALID_VALUE;
    *l = calloc(1, sizeof(linked));
    return *l ? 0 : OUT_OF_MEMORY;
}

int cuLinkAddData_v2(ts_cu_any *l, int kind, void *data, size_t n, const char *name,
                     unsigned n_options, int *option, void **value)
{
    linked   *a = (linked *)l;
    const int code = fake_gate_context();
    (void)name, (void)option, (void)value;
    if (code) return code;
    if (kind != TS_CU_PTX || !n || n_options || a->text) return INVALID_VALUE;
    a->text = malloc(n);
    if (!a->text) return OUT_OF_MEMORY;
    memcpy(a->text, data, a->n = n);
    return 0;
}

int cuLinkComplete(ts_cu_any *l, void **image, size_t *n)
{
    const linked *a = (linked *)l;
    *image = a->text;
    *n = a->n;
    return fake_gate_context();
}
