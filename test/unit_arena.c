/* SPDX-License-Identifier: Apache-2.0 */
/* unit_arena.c - tests what the arena detects around buffers, and how outputs are compared.
 *
 * Every byte that a case does not give to an output is changed once, and must be noticed. */
#include <float.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.h"
#include "dtype.h"
#include "task.h"
#include "unit.h"

enum { ROWS = 3, COLS = 5, STRIDE = 8 };

typedef struct buffers {
    float *in, *out, *both, *last;
} buffers;

static ts_arena m;
static buffers  a;

static ts_buf buffer(const char *name, ts_role role)
{
    return (ts_buf) { .name = name,
                      .role = role,
                      .dtype = TS_F32,
                      .n_rows = ROWS,
                      .n_cols = COLS,
                      .row_stride = STRIDE };
}

static uint64_t layout; /* from which the places of four buffers are drawn */

static void lay(void)
{
    if (!m.base) assert_true(ts_arena_open(&m));
    m.layout = layout;
    ts_arena_begin(&m, &a);
    ts_take(&m, &a.in, buffer("in", TS_IN));
    ts_take(&m, &a.out, buffer("out", TS_OUT));
    ts_take(&m, &a.both, buffer("both", TS_INOUT));
    ts_take(&m, &a.last, buffer("last", TS_OUT));
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++)
            a.in[r * STRIDE + c] = a.both[r * STRIDE + c] = (float)(r + c);
    ts_arena_end(&m);
}

static bool in_a_row(const ts_arena_buf *b, const unsigned char *p)
{
    const size_t at = (size_t)(p - b->p);
    return p >= b->p && at < b->n_bytes && at % (STRIDE * sizeof(float)) < COLS * sizeof(float);
}

TEST(every_byte_beside_the_outputs_is_watched)
{
    ts_flaw f;
    lay();
    assert_true(ts_arena_intact(&m, &f));
    for (int i = 0; i < m.n; i++) {
        const ts_arena_buf *b = &m.buf[i];
        for (unsigned char *p = b->lo; p < b->hi; p++) {
            const bool output = b->b.role != TS_IN && in_a_row(b, p);
            *p ^= 1;
            assert_int_equal(ts_arena_intact(&m, &f), output);
            if (output || in_a_row(b, p)) {
                *p ^= 1;
                continue;
            }
            assert_int_equal(f.fault, p < b->p                 ? TS_FAULT_BEFORE
                                      : p >= b->p + b->n_bytes ? TS_FAULT_PAST
                                                               : TS_FAULT_GAP);
            *p ^= 1;
        }
    }
    assert_true(ts_arena_intact(&m, &f));
}

TEST(every_byte_of_an_output_is_in_its_hash)
{
    lay();
    memset(a.out, 0, sizeof(float) * COLS);
    const uint64_t before = ts_arena_output_hash(&m);
    for (int i = 0; i < m.n; i++)
        for (unsigned char *p = m.buf[i].lo; p < m.buf[i].hi; p++) {
            *p ^= 1;
            const bool output = m.buf[i].b.role != TS_IN && in_a_row(&m.buf[i], p);
            assert_int_equal(ts_arena_output_hash(&m) != before, output);
            *p ^= 1;
        }
}

TEST(outputs_are_as_before_after_a_reset)
{
    ts_flaw f;
    lay();
    assert_true(ts_arena_outputs_untouched(&m, &f));
    float *const written[] = { a.out, a.both, a.last };
    for (int i = 0; i < 3; i++)
        for (int r = 0; r < ROWS; r++) {
            written[i][r * STRIDE + COLS - 1] = 77;
            assert_false(ts_arena_outputs_untouched(&m, &f));
            assert_int_equal(f.fault, TS_FAULT_REFUSAL);
            assert_int_equal(f.row, r);
            ts_arena_reset(&m);
            assert_true(ts_arena_outputs_untouched(&m, &f));
            assert_true(written[i][r * STRIDE + COLS - 1] != 77);
        }
    assert_true(a.both[STRIDE + 1] == 2);
}

/* The signal that a process gets for the access; 0: none. */
static int signal_for(volatile unsigned char *p, bool write)
{
    const pid_t child = fork();
    int         status = 0;
    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        ts_arena_lock(&m);
        const unsigned char v = *p;
        if (write) *p = v;
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(pages_around_buffers_are_closed)
{
    enum { LAYOUTS = 32 };
    int n_front = 0, n_back = 0;
    for (layout = 0; layout < LAYOUTS; layout++) {
        lay();
        for (int i = 0; i < m.n; i++) {
            const ts_arena_buf *b = &m.buf[i];
            n_front += b->p == b->lo;
            n_back += b->p + b->n_bytes == b->hi;
            assert_int_equal(signal_for(b->p, false), 0);
            assert_int_equal(signal_for(b->p, true), b->b.role == TS_IN ? SIGSEGV : 0);
            assert_int_equal(signal_for(b->hi, false), SIGSEGV);
            assert_int_equal(signal_for(b->lo - 1, false), SIGSEGV);
        }
    }
    assert_true(n_front && n_back && n_front + n_back < LAYOUTS * m.n); /* all places are tried */
}

/* ---- a comparison ---- */

static bool is_right(float got, double value, double bound, ts_flaw *f)
{
    const ts_buf  b = { .name = "y", .dtype = TS_F32, .n_rows = 1, .n_cols = 1, .row_stride = 1 };
    const ts_want want = { value, bound };
    ts_errors     e = { 0 };
    return ts_check_buf(b, &got, &want, f, &e);
}

TEST(an_element_is_right_within_its_bound)
{
    ts_flaw     f;
    const float nan = NAN, inf = INFINITY;
    assert_true(is_right(1.5f, 1, 0.5, &f));
    assert_false(is_right(nextafterf(1.5f, 2), 1, 0.5, &f));
    assert_false(is_right(nextafterf(0.5f, 0), 1, 0.5, &f));
    assert_false(is_right(nan, 1, 0.5, &f));
    assert_false(is_right(inf, 1, 0.5, &f));
    assert_true(is_right(nan, (double)NAN, 0, &f));
    const float others[] = { 0, 1, -1, inf, -inf };
    for (int i = 0; i < 5; i++) assert_false(is_right(others[i], (double)NAN, 0, &f));
    assert_true(is_right(inf, INFINITY, 0, &f) && is_right(-inf, -INFINITY, 0, &f));
    assert_false(is_right(-inf, INFINITY, 0, &f) || is_right(inf, -INFINITY, 0, &f));
    assert_false(is_right(1e38f, INFINITY, 0, &f) || is_right(nan, INFINITY, 0, &f));
}

/* Infinity is what a dtype has for a number that rounds to more than its largest. */
TEST(infinity_is_right_beyond_the_largest_number)
{
    ts_flaw      f;
    const float  inf = INFINITY;
    const double most = FLT_MAX, half_a_step = 0x1p103;
    assert_true(is_right(inf, 1e39, 1, &f) && is_right(-inf, -1e39, 1, &f));
    assert_false(is_right(-inf, 1e39, 1, &f) || is_right(FLT_MAX, 1e39, 1, &f));
    assert_true(is_right(inf, most + half_a_step, 0, &f));
    assert_false(is_right(inf, most + half_a_step / 2, half_a_step / 4, &f));
    assert_true(is_right(FLT_MAX, most + half_a_step, half_a_step, &f));
}

TEST(an_element_that_is_not_written_is_wrong)
{
    ts_flaw f;
    float   poison;
    ts_poison(TS_F32, &poison, sizeof poison);
    assert_false(is_right(poison, (double)NAN, 0, &f));
    assert_int_equal(f.fault, TS_FAULT_UNWRITTEN);
    assert_false(is_right(poison, 1, TS_WRITTEN, &f));
    assert_true(is_right(0, 1, TS_WRITTEN, &f));
}

TEST(every_column_of_every_row_is_compared)
{
    enum { WIDE = 70001 };
    static float   got[2][WIDE + 3];
    static ts_want want[2 * WIDE];
    const ts_buf   b = {
          .name = "y", .dtype = TS_F32, .n_rows = 2, .n_cols = WIDE, .row_stride = WIDE + 3
    };
    ts_errors e = { 0 };
    ts_flaw   f;
    assert_true(ts_check_buf(b, got, want, &f, &e));
    const int at[] = { 0, 1, 255, 4095, 4096, 4097, 65535, 65536, WIDE - 1 };
    for (size_t i = 0; i < 2 * sizeof at / sizeof *at; i++) {
        float *p = &got[i % 2][at[i / 2]];
        *p = 1;
        assert_false(ts_check_buf(b, got, want, &f, &e));
        assert_int_equal(f.row, i % 2);
        assert_int_equal(f.col, at[i / 2]);
        *p = 0;
    }
}

TEST(errors_are_told_apart_by_an_eighth_of_an_octave)
{
    enum { N = 1000 };
    static float   got[N];
    static ts_want want[N];
    const ts_buf   b = { .name = "y", .dtype = TS_F32, .n_rows = 1, .n_cols = N, .row_stride = N };
    ts_flaw        f;
    for (double share = 0.9; share > 1e-3; share *= 0.7) {
        ts_errors e = { 0 };
        for (int i = 0; i < N; i++) got[i] = (float)share, want[i] = (ts_want) { 0, 1 };
        got[0] = 0.95f;
        assert_true(ts_check_buf(b, got, want, &f, &e));
        const double q = ts_errors_quantile(&e, 0.99);
        assert_true(q >= share * (1 - 1e-6) && q <= share * 1.126);
    }
}
