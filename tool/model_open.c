/* SPDX-License-Identifier: Apache-2.0 */
/* model_open.c - reads a model and its tokenizer, and texts for them. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model_open.h"

/* In the model or next to it, unless named. */
static bool open_tokenizer(const ts_model_source *s, const ts_decoder *m, ts_tokenizer **t)
{
    char        path[4096], why[TS_MODEL_WHY];
    struct stat is;
    const char *slash = strrchr(s->model, '/');
    const bool  folder = !stat(s->model, &is) && S_ISDIR(is.st_mode);
    const int   n = folder ? (int)strlen(s->model) : slash ? (int)(slash - s->model) : 1;
    snprintf(path, sizeof path, "%.*s/tokenizer.json", n, folder || slash ? s->model : ".");
    const char *from = s->tokenizer                       ? s->tokenizer
                       : ts_tokenizer_is_inside(s->model) ? s->model
                                                          : path;
    if (!ts_tokenizer_load(from, t, why)) return ts_complain("--tokenizer", why);
    if (ts_tokenizer_size(*t) <= ts_decoder_dims_of(m)->n_vocab) return true;
    return ts_complain(
        from, "more tokens than the model's vocabulary; expected the model's own tokenizer");
}

bool ts_model_open(const ts_model_source *s, ts_decoder **m, ts_tokenizer **t)
{
    char        why[TS_MODEL_WHY];
    const char *absent = s->device == TS_CUDA ? ts_cuda_unavailable_reason() : NULL;
    if (absent) return ts_complain("--device", absent); /* before reading the model */
    if (!ts_decoder_load(s->model, s->dtype, m, why)) return ts_complain(s->model, why);
    if (s->device == TS_CUDA && !ts_decoder_to_cuda(*m, why)) return ts_complain("--device", why);
    return open_tokenizer(s, *m, t);
}

char *ts_read_text(const char *path, size_t *n_bytes)
{
    const bool input = !strcmp(path, "-");
    FILE      *f = input ? stdin : fopen(path, "rb");
    char      *text = NULL;
    size_t     n = 0, room = 0;
    while (f && !feof(f) && !ferror(f)) {
        char *more = n + 1 >= room ? realloc(text, room = 2 * room + 4096) : text;
        if (!more) break;
        text = more;
        n += fread(text + n, 1, room - n - 1, f);
    }
    const bool ok = f && feof(f) && n;
    if (f && !input) fclose(f);
    *n_bytes = n;
    if (ok) return text;
    free(text);
    ts_complain(input ? "standard input" : path, "cannot be read or is empty");
    return NULL;
}
