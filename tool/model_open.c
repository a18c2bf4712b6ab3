/* SPDX-License-Identifier: Apache-2.0 */
/* model_open.c - what commands that run a model share: reading one and its tokenizer, how its
 * tokens are drawn and when they end, and texts. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model_open.h"

/* In the model or next to it, unless named. */
static bool open_tokenizer(const ts_model_plan *s, const ts_decoder *m, ts_tokenizer **t)
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

bool ts_model_open(const ts_model_plan *s, ts_decoder **m, ts_tokenizer **t, ts_generation *g)
{
    char        why[TS_MODEL_WHY];
    const char *absent = s->device == TS_CUDA ? ts_cuda_unavailable_reason() : NULL;
    if (absent) return ts_complain("--device", absent); /* before reading the model */
    if (!ts_decoder_load(s->model, s->dtype, m, why)) return ts_complain(s->model, why);
    ts_decoder_exact(*m, s->exact);
    if (s->device == TS_CUDA && !ts_decoder_to_cuda(*m, why)) return ts_complain("--device", why);
    if (!open_tokenizer(s, *m, t)) return false;
    return !g || ts_generation_load(s->model, ts_decoder_dims_of(*m)->n_vocab, g, why) ||
           ts_complain(s->model, why);
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
    const char *why = !f || ferror(f) ? strerror(errno) : !feof(f) ? "out of memory" : NULL;
    if (!why && !n) why = "got no bytes, expected text";
    if (f && !input) fclose(f);
    *n_bytes = n;
    if (!why) return text;
    free(text);
    ts_complain(input ? "standard input" : path, why);
    return NULL;
}

int ts_model_stops(const ts_decoder *m, const ts_tokenizer *t, const ts_generation *g,
                   int32_t stop[TS_MODEL_STOPS])
{
    const ts_decoder_dims *d = ts_decoder_dims_of(m);
    int                    n_stop = g->n_stop ? g->n_stop : d->n_stop;
    memcpy(stop, g->n_stop ? g->stop : d->stop, sizeof d->stop);
    if (!g->n_stop && ts_tokenizer_stop(t) >= 0 && n_stop < TS_MODEL_STOPS)
        stop[n_stop++] = ts_tokenizer_stop(t);
    return n_stop;
}

ts_sampling ts_model_sampling(const ts_generation *g, const ts_model_plan *p)
{
    ts_sampling s = g->sampling;
    if (p->temperature >= 0) s.temperature = p->temperature;
    if (p->top_k >= 0) s.top_k = p->top_k;
    if (p->top_p >= 0) s.top_p = p->top_p;
    return s;
}

/* ---- texts ---- */

const char *const ts_finish_names[] = {
    [TS_FINISH_STOP] = "stop",
    [TS_FINISH_LENGTH] = "length",
    [TS_FINISH_CONTEXT] = "context",
};

/* A byte that is no part of a character becomes U+FFFD; then the list `bytes` has them all. */
void ts_text_to_json(ts_json *o, const ts_text *t)
{
    char  *valid = o ? calloc(3, t->n + 1) : NULL;
    size_t n = 0, bad = 0;
    for (size_t i = 0; valid && i < t->n;) {
        const size_t len = ts_utf8_length((const unsigned char *)t->p + i, t->n - i);
        memcpy(valid + n, len ? t->p + i : "\xef\xbf\xbd", len ? len : 3);
        n += len ? len : 3;
        i += len ? len : 1;
        bad += !len;
    }
    if (valid) ts_json_textn(o, "text", valid, n);
    ts_json *bytes = valid && bad ? ts_json_array(o, "bytes") : NULL;
    for (size_t i = 0; bytes && i < t->n; i++) ts_json_int(bytes, NULL, (unsigned char)t->p[i]);
    free(valid);
}

/* Control characters are not sent to the terminal. */
void ts_show_text(FILE *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        putc((c < ' ' && c != '\n' && c != '\t') || c == 0x7f ? '?' : c, out);
    }
}
