/* SPDX-License-Identifier: Apache-2.0 */
/* unit_gguf.c - tests the reader of GGUF files.
 *
 * Every format decodes to the values of the package gguf; models that make_gguf.py converted give
 * the logits and tokens of the originals; truncated or changed files give one line. */
#include "codes.h"
#include "cpu.h"
#include "dtype.h"
#include "gguf.h"
#include "unit_model.h"

static const char *const formats[] = { "F32",  "F16",  "BF16", "Q8_0", "Q4_0",  "Q4_1", "Q5_0",
                                       "Q5_1", "Q4_K", "Q5_K", "Q6_K", "TQ1_0", "TQ2_0" };
enum { FORMATS = sizeof formats / sizeof *formats, ROWS = 2, COLS = 512 };

/* To the bit, but for the order of two products of floats in Q4_K, Q5_K and Q6_K. */
TEST(formats_decode)
{
    size_t         n;
    char           why[TS_MODEL_WHY] = "", name[32];
    char          *bytes = read_bytes(checkpoint("gguf", "blocks.gguf"), &n);
    ts_gguf       *g;
    const ts_shape shape = { ROWS, COLS };
    assert_true(ts_gguf_parse(bytes, n, &g, why));
    for (int i = 0; i < FORMATS; i++) {
        ts_tensor    t, golden;
        static float got[COLS], want[COLS];
        double       far = 0, most = 0;
        snprintf(name, sizeof name, "%s.f32", formats[i]);
        if (!ts_gguf_find(g, formats[i], shape, &t, why) ||
            !ts_gguf_find(g, name, shape, &golden, why))
            fail_msg("%s", why);
        assert_string_equal(t.block->name, formats[i]);
        for (int r = 0; r < ROWS; r++) {
            ts_block_row(t.block, t.data + r * (COLS / t.block->n) * t.block->n_bytes, COLS, got);
            ts_block_row(golden.block, golden.data + r * COLS * 4, COLS, want);
            for (int c = 0; c < COLS; c++) {
                far = farther(far, (double)got[c], (double)want[c]);
                most = fmax(most, fabs((double)want[c]));
            }
        }
        assert_true(most > 0.01);
        if (far > 3e-7 * most) fail_msg("%s: off by %g of %g", formats[i], far, most);
    }
    ts_gguf_free(&g);
    free(bytes);
}

/* Every one of the 65536. */
TEST(halves_are_exact)
{
    const ts_block *b = ts_block_of(TS_BLOCK_F16);
    for (unsigned h = 0; h < 65536; h++) {
        const uint16_t bits = (uint16_t)h;
        const float    want = (float)ts_widen_f16(bits);
        float          got;
        ts_block_row(b, (const unsigned char *)&bits, 1, &got);
        if (isnan(want) ? !isnan(got) : memcmp(&got, &want, sizeof got))
            fail_msg("half %04x: got %g, expected %g", h, (double)got, (double)want);
    }
}

/* ---- products of codes ---- */

enum { TALL = 40, WIDE = 512, MOST = 17, HEAD = 8 };

static uint32_t drawn(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static float drawn_float(uint32_t *seed)
{
    return (float)drawn(seed) / 8388608 - 1;
}

/* Any bytes are codes, but scales and least values are halves between 2^-7 and 2^-3 or below 0. */
static void fill_blocks(const ts_block *b, int64_t n, unsigned char *to, uint32_t *seed)
{
    const int at = b->code == TS_CODE_Q6_K ? 208 : b->code == TS_CODE_TQ2_0 ? 64 : 0;
    for (int64_t i = 0; i < n * b->n_bytes; i++) to[i] = (unsigned char)drawn(seed);
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < 4 && at + k < b->n_bytes; k += 2) {
            const uint16_t half =
                (uint16_t)(0x2000 + drawn(seed) % 0x1000 + (drawn(seed) & 1) * 0x8000);
            memcpy(to + i * b->n_bytes + at + k, &half, sizeof half);
        }
}

/* The floats that the integers stand for: 16319 is the largest of 32. */
static void round_floats(const float *x, int64_t n, double *to)
{
    for (int64_t g = 0; g < n; g += 32) {
        float most = 0;
        for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(x[g + i]));
        const float scale = most / TS_CODE_MOST, inverse = most > 0 ? TS_CODE_MOST / most : 0;
        for (int i = 0; i < 32; i++)
            to[g + i] = (double)scale * (double)nearbyintf(x[g + i] * inverse);
    }
}

/* One matrix in the order of its rows and one with pairs, together, with rows that fill no tile. */
static void check_products(const ts_block *b, int64_t cols, int64_t n, bool add, uint32_t seed)
{
    static unsigned char memory[TALL * WIDE * 4];
    static float         x[MOST * WIDE], y[2][MOST * TALL], row[WIDE];
    static double        rounded[MOST * WIDE];
    const int64_t        n_block = cols / b->n, rows[2] = { TALL - 3, TALL };
    fill_blocks(b, TALL * n_block, memory, &seed);
    for (int64_t i = 0; i < n * cols; i++) x[i] = drawn_float(&seed) * (float)(1 + i / 32 % 5);
    for (int i = 0; i < 32; i++) x[i] = 0; /* a group without a scale */
    round_floats(x, n * cols, rounded);
    const ts_encoded         e[2] = { { memory, b, 0 }, { memory, b, HEAD } };
    const ts_encoded_product p[2] = { { &e[0], { rows[0], cols }, y[0], x, n, add },
                                      { &e[1], { rows[1], cols }, y[1], x, n, add } };
    void                    *room = malloc(ts_rounded_bytes(n, cols));
    for (int64_t i = 0; i < MOST * TALL; i++) y[0][i] = y[1][i] = 1;
    ts_encoded_linear(p, 2, room, 2);
    for (int k = 0; k < 2; k++)
        for (int64_t r = 0; r < rows[k]; r++) {
            float most = 0;
            ts_encoded_row(&e[k], cols, r, row);
            for (int64_t c = 0; c < cols; c++) most = fmaxf(most, fabsf(row[c]));
            for (int64_t t = 0; t < n; t++) {
                double want = add, all = 0;
                for (int64_t c = 0; c < cols; c++) {
                    want += (double)row[c] * rounded[t * cols + c];
                    all += (double)most * fabs(rounded[t * cols + c]);
                }
                const double got = (double)y[k][t * rows[k] + r];
                if (!(fabs(got - want) <= 2e-6 * all + 1e-6))
                    fail_msg("%s, %lld rows of %lld: row %lld: got %g, expected %g", b->name,
                             (long long)n, (long long)cols, (long long)r, got, want);
            }
        }
    free(room);
}

/* Of every format, with every set of instructions, and activations from one row to several tiles.
 */
TEST(products_of_codes)
{
    static const unsigned masks[] = { ~0u, TS_CPU_DOTPROD | TS_CPU_AVX2, ~TS_CPU_VNNI };
    int                   n_checked = 0;
    for (size_t k = 0; k < sizeof masks / sizeof *masks; k++) {
        ts_cpu_set_mask(masks[k]);
        for (uint32_t number = 0; number < 64; number++) {
            const ts_block *b = ts_block_of(number);
            if (!b || !ts_codes_of(b, 1)) continue;
            for (int64_t n = 1; n <= MOST; n += n < 6 ? 1 : 11)
                for (int64_t cols = b->n == 32 ? 288 : 256; cols <= WIDE; cols += 224)
                    if (cols % b->n == 0)
                        check_products(b, cols, n, (number + (uint32_t)n) & 1, number + 1),
                            n_checked++;
        }
    }
    ts_cpu_set_mask(~0u);
    print_message("%d products of codes\n", n_checked);
    const bool any = ts_cpu_features() & (TS_CPU_DOTPROD | TS_CPU_AVX2);
    assert_true(any ? n_checked > 100 : !n_checked);
}

/* A row that is not finite makes no other one so. */
TEST(rows_that_are_not_finite_stay_alone)
{
    static unsigned char memory[8 * 20];
    static float         x[9 * 32], y[9 * 8];
    const ts_block      *b = ts_block_of(3); /* Q4_1 */
    uint32_t             seed = 7;
    fill_blocks(b, 8, memory, &seed);
    for (int i = 0; i < 9 * 32; i++) x[i] = drawn_float(&seed);
    x[2 * 32 + 5] = NAN;
    x[5 * 32 + 31] = -INFINITY;
    const ts_encoded         e = { memory, b, 0 };
    const ts_encoded_product p = { &e, { 8, 32 }, y, x, 9, false };
    void                    *room = malloc(ts_rounded_bytes(9, 32));
    ts_encoded_linear(&p, 1, room, 1);
    for (int i = 0; i < 9 * 8; i++) assert_int_equal(isfinite(y[i]), i / 8 != 2 && i / 8 != 5);
    free(room);
}

/* ---- models ---- */

static const char *const names[] = { "llama", "mistral", "qwen2", "qwen3", "starcoder2" };
enum { NAMES = sizeof names / sizeof *names };

static const char *converted(const char *name)
{
    char file[64];
    snprintf(file, sizeof file, "%s.gguf", name);
    return checkpoint("gguf", file);
}

/* In double: a GGUF file has epsilons and the factors of a rotation as floats. */
TEST(logits_are_those_of_the_original)
{
    for (int i = 0; i < NAMES; i++) {
        ts_decoder   *a = load(checkpoint(names[i], ""), TS_F64);
        ts_decoder   *b = load(converted(names[i]), TS_F64);
        json_t       *golden = read_json(checkpoint(names[i], "golden.json"));
        int64_t       n;
        int32_t      *token = integers(json_object_get(golden, "tokens"), &n);
        const way     w = { .chunk = n, .store = TS_F64 };
        double       *want = logits_of(a, token, n, w), *got = logits_of(b, token, n, w), far = 0;
        const int64_t n_logit = n * ts_decoder_dims_of(a)->n_vocab;
        assert_int_equal(ts_decoder_dims_of(b)->n_vocab, ts_decoder_dims_of(a)->n_vocab);
        assert_int_equal(ts_decoder_dims_of(b)->window, ts_decoder_dims_of(a)->window);
        for (int64_t k = 0; k < n_logit; k++) far = farther(far, got[k], want[k]);
        print_message("%s: largest difference of a logit %.1e\n", names[i], far);
        assert_true(far <= 1e-9);
        free(want);
        free(got);
        free(token);
        json_decref(golden);
        ts_decoder_free(&a);
        ts_decoder_free(&b);
    }
}

/* In float a matrix of 16 bits stays in the file, its rows in the order of another rotation;
 * decoded, it gives the same. */
TEST(encoded_matrices_are_those_of_the_original)
{
    int n_encoded = 0;
    for (int i = 0; i < NAMES; i++) {
        char        why[TS_MODEL_WHY] = "";
        ts_decoder *exact = load(checkpoint(names[i], ""), TS_F64);
        ts_decoder *m = load(converted(names[i]), TS_F32);
        json_t     *golden = read_json(checkpoint(names[i], "golden.json"));
        int64_t     n;
        int32_t    *token = integers(json_object_get(golden, "tokens"), &n);
        double     *want = logits_of(exact, token, n, (way) { .chunk = n, .store = TS_F64 });
        n_encoded += m->n_encoded > 0;
        for (int decoded = 0; decoded < 2; decoded++)
            for (int64_t chunk = 1; chunk <= n; chunk += n - 1) { /* one row, and many */
                const way w = { .chunk = chunk, .store = TS_F32 };
                double   *got = logits_of(m, token, n, w), far = 0;
                for (int64_t k = 0; k < n * ts_decoder_dims_of(m)->n_vocab; k++)
                    far = farther(far, got[k], want[k]);
                if (far > 2e-5) fail_msg("%s: a logit is off by %g", names[i], far);
                free(got);
                if (!decoded && chunk == n && !ts_decoder_decode(m, why)) fail_msg("%s", why);
            }
        assert_int_equal(m->n_encoded, 0);
        free(want);
        free(token);
        json_decref(golden);
        ts_decoder_free(&exact);
        ts_decoder_free(&m);
    }
    assert_int_equal(n_encoded, 3); /* llama, mistral and qwen2 */
}

TEST(tokens_are_those_of_the_original)
{
    static const char *const with_text[] = { "llama", "qwen3", "starcoder2" };
    for (size_t f = 0; f < sizeof with_text / sizeof *with_text; f++) {
        char          why[TS_MODEL_WHY] = "";
        ts_tokenizer *t;
        json_t       *golden = read_json(checkpoint(with_text[f], "tokens.json")), *o;
        size_t        i;
        assert_true(ts_tokenizer_is_inside(converted(with_text[f])));
        if (!ts_tokenizer_load(converted(with_text[f]), &t, why)) fail_msg("%s", why);
        json_array_foreach(golden, i, o)
        {
            const char *text = json_string_value(json_object_get(o, "text"));
            int64_t     n, n_want;
            int32_t    *got, *want = integers(json_object_get(o, "tokens"), &n_want);
            if (!ts_tokenizer_encode(t, text, strlen(text), &got, &n, why)) fail_msg("%s", why);
            if (n != n_want || memcmp(got, want, (size_t)n * sizeof *got))
                fail_msg("%s: other tokens for '%s'", with_text[f], text);
            free(got);
            free(want);
        }
        json_decref(golden);
        ts_tokenizer_free(&t);
    }
}

/* ---- what is malformed ---- */

/* Reads a copy that ends where the bytes end, so that a sanitizer sees what goes beyond. */
static bool reads(const char *bytes, size_t n, char why[TS_MODEL_WHY])
{
    char         *copy = malloc(n ? n : 1);
    ts_decoder   *m = NULL;
    ts_tokenizer *t = NULL;
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    why[0] = 0;
    const bool ok = ts_decoder_gguf(copy, n, TS_F32, &m, why);
    if (ok != (m != NULL) || (!ok && !*why)) fail_msg("refused without a line");
    if (ts_is_gguf(copy, n) && !ts_tokenizer_parse(copy, n, &t, why) && !*why)
        fail_msg("refused without a line");
    ts_decoder_free(&m);
    ts_tokenizer_free(&t);
    free(copy);
    return ok;
}

TEST(cut_and_changed)
{
    size_t n;
    char   why[TS_MODEL_WHY];
    char  *bytes = read_bytes(converted("qwen3"), &n);
    assert_true(reads(bytes, n, why));
    for (size_t end = 0; end < n; end += end < 4000 ? 37 : 1531)
        if (reads(bytes, end, why)) fail_msg("%zu of %zu bytes were taken for a model", end, n);
    uint64_t seed = 7;
    for (int i = 0; i < 400; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const size_t at = (size_t)(seed >> 33) % 12000;
        const char   was = bytes[at];
        bytes[at] = (char)(seed >> 20);
        reads(bytes, n, why);
        bytes[at] = was;
    }
    free(bytes);
}

static void refused(const char *from, const char *to, const char *word)
{
    size_t n;
    char   why[TS_MODEL_WHY];
    char  *bytes = read_bytes(converted("qwen3"), &n);
    int    changed = 0;
    assert_int_equal(strlen(from), strlen(to));
    for (size_t i = 0; i + strlen(from) <= n; i++)
        if (!memcmp(bytes + i, from, strlen(from))) memcpy(bytes + i, to, strlen(to)), changed++;
    assert_true(changed);
    if (reads(bytes, n, why)) fail_msg("%s for %s was accepted", to, from);
    if (!strstr(why, word)) fail_msg("got '%s', expected something about '%s'", why, word);
    free(bytes);
}

TEST(says_what_is_wrong)
{
    refused("qwen3.block_count", "qwen3.black_count", "block_count: missing");
    refused("blk.1.ffn_up.weight", "blk.1.ffn_ab.weight", "tensor blk.1.ffn_up.weight: missing");
}
