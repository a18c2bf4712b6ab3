/* SPDX-License-Identifier: Apache-2.0 */
/* unit_model_packed.c - a model that stays packed against the same one dequantised, and what a
 * packed file can have wrong with it. */
#define _DEFAULT_SOURCE
#include <unistd.h>

#include "touchstone/ternary.h"
#include "unit_model.h"
#include "unit_train.h"

static const char *const files[] = { "config.json", "model.safetensors", "ternary.safetensors" };

/* Into a folder of its own: rows of several groups, of one, and of part of one. */
static void export_net(char *folder, int64_t width, int64_t n_ffn)
{
    char           why[TS_MODEL_WHY] = "";
    ts_net_options o = net_options(2, width, 4, 2, 32, n_ffn, 300);
    o.ternary = true;
    ts_net *n = net_of(&o, (uint64_t)width);
    assert_non_null(mkdtemp(folder));
    if (!ts_net_export(n, folder, -1, why)) fail_msg("%s", why);
    ts_net_free(&n);
}

static const char *in(const char *folder, const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void remove_folder(const char *folder)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) unlink(in(folder, files[i]));
    rmdir(folder);
}

/* The workspace of a forward has room for its matmuls, the head's and the widest. */
static void expect_room(const ts_decoder *packed, const ts_decoder *dense, int64_t n)
{
    const ts_decoder_dims *d = ts_decoder_dims_of(packed);
    const int64_t          shape[2][2] = { { d->n_vocab, d->width }, { d->width, d->n_ffn } };
    const size_t  more = ts_decoder_workspace(packed, n, 0) - ts_decoder_workspace(dense, n, 0);
    const ts_exec x = { .device = TS_CPU };
    double        any[1] = { 0 };
    for (int i = 0; i < 2; i++) {
        const ts_ternary_linear_packed_args a = {
            .d = { ts_decoder_dtype(packed), shape[i][0], shape[i][1], n },
            .code = (const uint8_t *)any,
            .scale = (const uint16_t *)(const void *)any,
            .in = any,
            .y = any,
        };
        size_t asked;
        assert_int_equal(ts_ternary_linear_packed_workspace(&a, &x, &asked), TS_OK);
        assert_true(more >= asked);
    }
}

TEST(packed_is_dequantised)
{
    static const struct {
        int64_t width, n_ffn;
    } sizes[] = { { 128, 384 }, { 96, 200 }, { 264, 130 } };
    const ts_dtype dtypes[] = { TS_F32, TS_F64 };
    const double   most[] = { 1e-5, 1e-13 }; /* of the largest logit */
    int32_t        token[40];
    for (int i = 0; i < 40; i++) token[i] = (int32_t)(ts_bits(7, i) % 300);
    for (int s = 0; s < 3; s++)
        for (int t = 0; t < 2; t++) {
            char folder[] = "/tmp/unit-packed-XXXXXX";
            export_net(folder, sizes[s].width, sizes[s].n_ffn);
            const way   w = { t ? 40 : 7, t ? 0 : 4, dtypes[t], TS_KEY_CHANNEL };
            ts_decoder *dense = load(folder, dtypes[t]);
            ts_decoder *packed = load(in(folder, files[2]), dtypes[t]);
            expect_room(packed, dense, w.chunk);
            double *a = logits_of(dense, token, 40, w), *b = logits_of(packed, token, 40, w);
            double  off = 0, largest = 0;
            for (int64_t i = 0; i < 40 * 300; i++) {
                off = farther(off, a[i], b[i]);
                largest = fmax(largest, fabs(a[i]));
            }
            print_message("width %3d, %s: logits to %.2f, off by %.1e; %zu bytes for %zu\n",
                          (int)sizes[s].width, t ? "f64" : "f32", largest, off,
                          ts_decoder_bytes(packed), ts_decoder_bytes(dense));
            assert_true(largest > 0.1);
            assert_true(off <= most[t] * largest);
            assert_true(4 * ts_decoder_bytes(packed) < ts_decoder_bytes(dense));
            ts_decoder_free(&dense);
            ts_decoder_free(&packed);
            /* With nothing else in it, the folder itself is read so. */
            unlink(in(folder, files[1]));
            packed = load(folder, dtypes[t]);
            double *c = logits_of(packed, token, 40, w);
            assert_memory_equal(b, c, 40 * 300 * sizeof *b);
            ts_decoder_free(&packed);
            remove_folder(folder);
            free(a);
            free(b);
            free(c);
        }
}

/* ---- on a device ---- */

/* Few rows at a time and many: other kernels. */
TEST_IN(cuda, packed_on_cuda)
{
    static const int64_t sizes[][2] = { { 128, 384 }, { 96, 200 }, { 264, 130 } };
    static const way ways[] = { { 1, 0, TS_F32, 0 }, { 7, 4, TS_F32, 0 }, { 90, 16, TS_F32, 0 } };
    int32_t          token[90];
    for (int i = 0; i < 90; i++) token[i] = (int32_t)(ts_bits(8, i) % 300);
    for (int s = 0; s < 3; s++) {
        char folder[] = "/tmp/unit-packed-XXXXXX";
        export_net(folder, sizes[s][0], sizes[s][1]);
        ts_decoder *exact = load(in(folder, files[2]), TS_F64),
                   *m = load(in(folder, files[2]), TS_F32);
        double *want = logits_of(exact, token, 90, (way) { .chunk = 90, .store = TS_F64 });
        double  off = 0, largest = 0;
        to_cuda(m);
        for (int w = 0; w < 3; w++) {
            double *got = logits_of(m, token, 90, ways[w]);
            for (int64_t i = 0; i < 90 * 300; i++) {
                off = farther(off, got[i], want[i]);
                largest = fmax(largest, fabs(want[i]));
            }
            free(got);
        }
        print_message("width %3d: logits to %.2f, off by %.1e\n", (int)sizes[s][0], largest, off);
        assert_true(off <= 1e-5 * largest);
        free(want);
        ts_decoder_free(&exact);
        ts_decoder_free(&m);
        remove_folder(folder);
    }
}

/* ---- what is rejected ---- */

typedef struct packed_file {
    char  *config, *bytes;
    size_t n_config, n;
} packed_file;

/* What the header says of a tensor, and where its bytes are. */
static char *entry(const packed_file *f, const char *name, char **data)
{
    char      key[128];
    uint64_t  n_header;
    long long begin;
    memcpy(&n_header, f->bytes, 8);
    snprintf(key, sizeof key, "\"%s\":", name);
    char *at = strstr(f->bytes + 8, key);
    assert_non_null(at);
    assert_int_equal(sscanf(strstr(at, "\"data_offsets\":["), "\"data_offsets\":[%lld", &begin), 1);
    if (data) *data = f->bytes + 8 + n_header + begin;
    return at;
}

static void expect(const packed_file *f, size_t n, const char *word)
{
    char        why[TS_MODEL_WHY] = "";
    ts_decoder *m = NULL;
    const bool  ok = ts_decoder_safetensors(f->config, f->n_config, f->bytes, n, TS_F32, &m, why);
    ts_decoder_free(&m);
    if (!word) {
        if (!ok) fail_msg("%s", why);
        return;
    }
    assert_false(ok);
    print_message("%s\n", why);
    if (!strstr(why, word) || strchr(why, '\n')) fail_msg("'%s' says nothing of '%s'", why, word);
}

/* One byte is another for the time of a try. */
static void expect_with(const packed_file *f, char *at, char value, const char *word)
{
    const char was = *at;
    *at = value;
    expect(f, f->n, word);
    *at = was;
}

TEST(malformed)
{
    char folder[] = "/tmp/unit-packed-XXXXXX", *data;
    export_net(folder, 128, 384);
    packed_file f;
    f.config = read_bytes(in(folder, files[0]), &f.n_config);
    f.bytes = read_bytes(in(folder, files[2]), &f.n);
    const char *code = "model.layers.1.mlp.up_proj.weight.code";
    const char *scale = "model.layers.0.self_attn.k_proj.weight.scale";
    expect(&f, f.n, NULL);
    entry(&f, code, &data);
    for (int i = 0; i < 4; i++)
        expect_with(&f, data + 70 + i, (char)(data[70 + i] | 3 << 2 * i),
                    "up_proj.weight.code: byte 7");
    entry(&f, scale, &data);
    expect_with(&f, data + 11, 0x7c, "k_proj.weight.scale: element 5: expected a finite number");
    expect_with(&f, data + 11, (char)0xff, "expected a finite number");
    expect_with(&f, strstr(entry(&f, code, NULL), "\"U8\"") + 1, 'I', "dtype");
    expect_with(&f, strstr(entry(&f, scale, NULL), "F16") + 1, '3', "shape and dtype");
    expect_with(&f, entry(&f, scale, NULL) + 1, 'M', "scale: missing");
    expect_with(&f, entry(&f, code, NULL) + 1, 'M', "up_proj.weight: missing");
    expect(&f, f.n - 1, "data_offsets");
    char *ffn = strstr(f.config, "\"intermediate_size\": 384");
    assert_non_null(ffn);
    memcpy(ffn, "\"intermediate_size\": 512", 24);
    expect(&f, f.n, "wrong shape");
    free(f.config);
    free(f.bytes);
    remove_folder(folder);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "cuda")) return no_cuda() ? 77 : run_group("cuda", NULL, NULL);
    return unit_run();
}
