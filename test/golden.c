/* SPDX-License-Identifier: Apache-2.0 */
/* golden.c - compares a tokenizer with llama.cpp's: encodes the texts in VOCABULARY.gguf.inp and
 * compares with VOCABULARY.gguf.out.
 *
 *     golden VOCABULARY.gguf...
 *
 * The files are those of llama.cpp's own tests: texts separated by a line __ggml_vocab_test__, and
 * a line of tokens per text, without the tokens that begin every text. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"

static const char separator[] = "\n__ggml_vocab_test__\n";

static int32_t *numbers(const char *line, size_t n, int64_t *count)
{
    int32_t *v = malloc((n + 1) * sizeof *v);
    *count = 0;
    for (size_t i = 0; v && i < n;) {
        if (line[i] < '0' || line[i] > '9') {
            i++;
            continue;
        }
        int32_t x = 0;
        for (; i < n && line[i] >= '0' && line[i] <= '9'; i++) x = 10 * x + (line[i] - '0');
        v[(*count)++] = x;
    }
    return v;
}

static bool same(ts_tokenizer *t, const char *text, size_t n, const char *line, size_t n_line)
{
    char     why[TS_MODEL_WHY];
    int32_t *got = NULL;
    int64_t  n_got = 0, n_want;
    int32_t *want = numbers(line, n_line, &n_want);
    if (!ts_tokenizer_encode(t, text, n, &got, &n_got, why)) {
        printf("  %s\n", why);
        free(want);
        return false;
    }
    const int64_t skip = t->n_first;
    const bool    equal =
        n_got - skip == n_want && !memcmp(got + skip, want, (size_t)n_want * sizeof *want);
    if (!equal) {
        printf("  text '%.*s': got", (int)(n < 60 ? n : 60), text);
        for (int64_t i = skip; i < n_got && i < 20; i++) printf(" %d", got[i]);
        printf(", expected");
        for (int64_t i = 0; i < n_want && i < 20; i++) printf(" %d", want[i]);
        printf("\n");
    }
    free(got);
    free(want);
    return equal;
}

static bool open_beside(const char *path, const char *suffix, ts_file *f)
{
    char name[4096], why[TS_MODEL_WHY];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return ts_file_map(name, f, why);
}

/* 0: all equal; 1: not; 2: skipped. */
static int vocabulary(const char *path)
{
    char          why[TS_MODEL_WHY];
    ts_file       in, out;
    ts_tokenizer *t;
    const char   *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (!open_beside(path, ".inp", &in) || !open_beside(path, ".out", &out)) return 2;
    if (!ts_tokenizer_load(path, &t, why)) return printf("%s: refused: %s\n", name, why), 2;
    const char *p = (const char *)in.bytes, *end = p + in.n;
    const char *line = (const char *)out.bytes, *last = line + out.n;
    int         n = 0, n_same = 0;
    while (p < end && line < last) {
        const char *stop = memmem(p, (size_t)(end - p), separator, strlen(separator));
        const char *newline = memchr(line, '\n', (size_t)(last - line));
        if (!stop) stop = end;
        if (!newline) newline = last;
        n_same += same(t, p, (size_t)(stop - p), line, (size_t)(newline - line));
        n++;
        p = stop + strlen(separator);
        line = newline + 1;
    }
    printf("%s: %d of %d texts\n", name, n_same, n);
    ts_tokenizer_free(&t);
    ts_file_unmap(&in);
    ts_file_unmap(&out);
    return n_same != n || !n;
}

int main(int argc, char **argv)
{
    int count[3] = { 0 };
    for (int i = 1; i < argc; i++) count[vocabulary(argv[i])]++;
    printf("%d vocabularies as llama.cpp has them, %d not, %d refused or without texts\n", count[0],
           count[1], count[2]);
    return count[1] || !count[0];
}
