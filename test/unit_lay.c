/* SPDX-License-Identifier: Apache-2.0 */
/* unit_lay.c - tests where buffers lie: at every address modulo 32 bytes that the contract permits,
 * on the CPU and on a device, and at both guards.
 *
 * Of every task, the cases of a run at depth normal are laid out, and residues are counted by role
 * and size of the element. A change to the draw that leaves one out fails here. */
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "dtype.h"
#include "keeper_inside.h"
#include "run.h"
#include "unit.h"

enum { ROLES = TS_INOUT + 1, SIZES = 4, PLACES = TS_LAY_BYTES };
static const size_t GRANULE = (size_t)2 << 20;
static const double SMALL = 2e4, LARGE = 2e5; /* bytes */

/* By role, log2 of the element's bytes, and residue in elements; n: all of them together. */
typedef struct tally {
    int n[ROLES][SIZES], at[ROLES][SIZES][PLACES], lay[ROLES][SIZES][TS_LAY_INSIDE + 1];
} tally;

static tally on_cpu, on_device;
static bool  inside_only; /* those flush with a guard have many residues by their sizes */

static int log_of(const ts_arena_buf *b)
{
    int n = 0;
    while (((size_t)1 << n) < ts_format_of(b->b.dtype)->n_bytes) n++;
    return n;
}

static void count(tally *t, const ts_arena_buf *b, uintptr_t address)
{
    const int size = log_of(b);
    assert_int_equal(address % ((uintptr_t)1 << size), 0);
    t->n[b->b.role][size]++;
    if (!inside_only || b->lay == TS_LAY_INSIDE)
        t->at[b->b.role][size][address % TS_LAY_BYTES >> size]++;
    t->lay[b->b.role][size][b->lay]++;
}

/* What the comment of arena.h promises. */
static void check_place(const ts_arena_buf *b)
{
    const size_t before = (size_t)(b->p - b->lo), after = (size_t)(b->hi - b->p) - b->n_bytes;
    assert_true(before + after >= TS_LAY_SLACK);
    if (b->lay == TS_LAY_END) assert_int_equal(after, 0);
    if (b->lay == TS_LAY_FRONT) assert_int_equal(before, 0);
    if (b->lay != TS_LAY_INSIDE) return;
    assert_int_equal((uintptr_t)b->p % TS_LAY_BYTES, b->residue);
    assert_true(before >= TS_LAY_BYTES && after >= TS_LAY_BYTES);
}

static void lay(const ts_task *t, const ts_case *c, uint64_t seed, ts_arena *m)
{
    void *args = calloc(1, t->args_bytes);
    assert_non_null(args);
    ts_arena_setup(m, t, c, seed, args);
    for (const ts_arena_buf *b = m->buf; b < m->buf + m->n; b++) {
        const uintptr_t there = ts_kept_offset(b, GRANULE);
        check_place(b);
        assert_true(there + b->n_bytes <= ts_kept_mapped(b->n_bytes, GRANULE));
        if (!b->n_bytes) continue;
        count(&on_cpu, b, (uintptr_t)b->p);
        count(&on_device, b, there);
    }
    free(args);
}

/* How many of the residues of a kind of buffer occurred. */
static int n_seen(const tally *t, int role, int size)
{
    int n = 0;
    for (int k = 0; k < PLACES >> size; k++) n += t->at[role][size][k] > 0;
    return n;
}

static int n_seen_of(const tally *t, int *possible)
{
    int n = 0;
    for (int r = 0; r < ROLES; r++)
        for (int s = 0; s < SIZES; s++)
            if (t->n[r][s]) n += n_seen(t, r, s), *possible += PLACES >> s;
    return n;
}

static void must_have_all(const char *name, const tally *t, const char *where)
{
    for (int r = 0; r < ROLES; r++)
        for (int s = 0; s < SIZES; s++) {
            if (!t->n[r][s]) continue;
            if (n_seen(t, r, s) < PLACES >> s)
                fail_msg("%s, %s: role %d, %d bytes: %d buffers at %d of %d residues", name, where,
                         r, 1 << s, t->n[r][s], n_seen(t, r, s), PLACES >> s);
            for (int k = 0; k <= TS_LAY_INSIDE; k++) assert_true(t->lay[r][s][k] > 0);
        }
}

static void add(tally *to, const tally *t)
{
    const int *from = (const int *)t;
    for (size_t i = 0; i < sizeof *t / sizeof(int); i++) ((int *)to)[i] += from[i];
}

/* One run: each residue occurs for each role and size, and nearly each in every task alone. Cases
 * above LARGE, which take long to fill, are left out. */
static void one_run(ts_depth depth, double share)
{
    const ts_run c = { .depth = depth, .key = { 1 } };
    tally        cpu = { 0 }, device = { 0 };
    int          seen = 0, possible = 0;
    ts_arena     m;
    assert_true(ts_arena_open(&m));
    for (const ts_task *const *t = ts_tasks; *t; t++) {
        memset(&on_cpu, 0, sizeof on_cpu);
        memset(&on_device, 0, sizeof on_device);
        int n, *number = ts_run_draw(&c, *t, TS_SEALED, NULL, &n);
        for (int i = 0; i < n; i++) {
            const ts_case *one = &(*t)->cases()[number[i]];
            if ((*t)->cost(one).bytes < LARGE)
                lay(*t, one, ts_run_case_seed(&c, *t, number[i]), &m);
        }
        free(number);
        seen += n_seen_of(&on_cpu, &possible) + n_seen_of(&on_device, &possible);
        add(&cpu, &on_cpu), add(&device, &on_device);
    }
    ts_arena_close(&m);
    printf("depth %s: %d of %d residues\n", ts_depth_name(depth), seen, possible);
    assert_true(seen >= share * possible);
    if (depth == TS_QUICK) return;
    must_have_all("all tasks", &cpu, "on the CPU");
    must_have_all("all tasks", &device, "on a device");
}

TEST(every_residue_is_drawn_at_normal)
{
    one_run(TS_NORMAL, 0.95);
}

TEST(most_residues_are_drawn_at_quick)
{
    one_run(TS_QUICK, 0.8);
}

static bool is_complete(void)
{
    int       possible = 0;
    const int n = n_seen_of(&on_cpu, &possible) + n_seen_of(&on_device, &possible);
    for (int r = 0; r < ROLES; r++)
        for (int s = 0; s < SIZES; s++)
            for (int k = 0; on_cpu.n[r][s] && k <= TS_LAY_INSIDE; k++)
                if (!on_cpu.lay[r][s][k]) return false;
    return possible && n == possible;
}

/* No task leaves out a residue: all of its small cases with several seeds, since some tasks have
 * few buffers of a kind. */
TEST(every_task_has_every_residue)
{
    enum { SEEDS = 64 };
    ts_arena m;
    inside_only = true;
    assert_true(ts_arena_open(&m));
    for (const ts_task *const *t = ts_tasks; *t; t++) {
        memset(&on_cpu, 0, sizeof on_cpu);
        memset(&on_device, 0, sizeof on_device);
        for (uint64_t k = 0; k < SEEDS; k++)
            for (const ts_case *c = (*t)->cases(); c->use && !is_complete(); c++)
                if ((*t)->cost(c).bytes < SMALL) lay(*t, c, k, &m);
        must_have_all((*t)->name, &on_cpu, "on the CPU");
        must_have_all((*t)->name, &on_device, "on a device");
    }
    ts_arena_close(&m);
    inside_only = false;
}

/* A workspace may begin at any byte on the CPU; some of them end at the guard. */
TEST(a_workspace_begins_anywhere)
{
    for (size_t n = 64; n < 70; n++) {
        int at[TS_LAY_BYTES] = { 0 }, flush = 0;
        for (uint64_t k = 0; k < 1000; k++) {
            const ts_arena m = { .layout = k };
            const size_t   beyond = ts_arena_beyond(&m, n);
            assert_true(beyond < TS_LAY_BYTES);
            flush += !beyond;
            at[(ts_page() - n - beyond) % TS_LAY_BYTES]++;
        }
        for (int r = 0; r < TS_LAY_BYTES; r++) assert_true(at[r] > 0);
        assert_true(flush > 400 && flush < 600);
    }
    for (size_t n = 0; n < 200; n++) {
        const ts_arena m = { .aligned = true };
        assert_int_equal((n + ts_arena_beyond(&m, n)) % 64, 0);
    }
}

/* The same case has the same layout, and another seed or another case has another. */
TEST(a_layout_is_of_a_case_and_its_seed)
{
    const ts_case a = { .dtype = TS_F32, .dim = { 3, 5 }, .family = "normal" };
    ts_case       b = a;
    assert_true(ts_layout_of(&a, 1) == ts_layout_of(&b, 1));
    assert_true(ts_layout_of(&a, 1) != ts_layout_of(&a, 2));
    b.dim[1] = 6;
    assert_true(ts_layout_of(&a, 1) != ts_layout_of(&b, 1));
    b = a, b.family = "ties";
    assert_true(ts_layout_of(&a, 1) != ts_layout_of(&b, 1));
}
