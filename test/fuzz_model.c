/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_model.c - fuzzes all readers of model/.
 *
 * The first byte selects the reader: a llama2.c checkpoint, a GGUF file, config.json with a
 * safetensors header, or a tokenizer. Rejected input must give one plain line; accepted input is
 * run. */
#include "decoder.h"
#include "fuzz.h"

enum { N_DATA = 80000, CONTEXT = 8 };

static void ignore(void *user, const ts_event *e)
{
    int *n_ended = user;
    *n_ended += e->token < 0;
}

/* A few tokens, through both the cache and a draw. */
static void generate(const ts_decoder *m)
{
    const ts_decoder_dims  *d = ts_decoder_dims_of(m);
    const int64_t           capacity = d->n_context < CONTEXT ? d->n_context : CONTEXT;
    const int32_t           prompt[2] = { 0, (int32_t)(d->n_vocab - 1) };
    const ts_engine_options o = { .n_seq = 2,
                                  .capacity = capacity,
                                  .page = 2,
                                  .n_page = 4 * d->n_layer,
                                  .chunk = 3,
                                  .store = TS_F32 };
    const ts_request        r = {
               .prompt = prompt, .n_prompt = capacity < 2 ? 1 : 2, .n_new = 4, .sampling = { 1, 3, 0.9, 7 }
    };
    char       why[TS_MODEL_WHY] = "";
    ts_engine *e;
    int        n_ended = 0, n_step = 0;
    if (!ts_engine_create(m, &o, &e, why)) {
        must_be_ascii(why);
        return;
    }
    for (int i = 0; i < 3; i++) must(ts_engine_add(e, &r, why));
    while (ts_engine_step(e, ignore, &n_ended)) must(n_step++ < 1000);
    must(n_ended == 3);
    ts_engine_free(&e);
}

static void decoder(bool ok, ts_decoder *m, const char *why)
{
    must(ok == (m != NULL));
    if (!ok) must_be_ascii(why);
    else generate(m);
    ts_decoder_free(&m);
}

static void llama2c(const uint8_t *p, size_t n)
{
    char        why[TS_MODEL_WHY] = "";
    ts_decoder *m;
    void       *copy = exact(p, n);
    const bool  ok = ts_decoder_llama2c(copy, n, n % 2 ? TS_F32 : TS_F64, &m, why);
    free(copy);
    decoder(ok, m, why);
}

static void gguf(const uint8_t *p, size_t n)
{
    char        why[TS_MODEL_WHY] = "";
    ts_decoder *m;
    void       *copy = exact(p, n);
    const bool  ok = ts_decoder_gguf(copy, n, TS_F32, &m, why);
    free(copy);
    decoder(ok, m, why);
}

/* A config, a NUL, and a header; the weights are zeros. */
static void safetensors(const uint8_t *p, size_t n)
{
    char           why[TS_MODEL_WHY] = "";
    ts_decoder    *m;
    const uint8_t *end = memchr(p, 0, n);
    const size_t   n_config = end ? (size_t)(end - p) : n, n_header = end ? n - n_config - 1 : 0;
    char          *config = exact(p, n_config), *file = calloc(1, 8 + n_header + N_DATA);
    must(file);
    for (int i = 0; i < 8; i++) file[i] = (char)((uint64_t)n_header >> 8 * i);
    if (n_header) memcpy(file + 8, end + 1, n_header);
    const bool ok =
        ts_decoder_safetensors(config, n_config, file, 8 + n_header + N_DATA, TS_F32, &m, why);
    free(config);
    free(file);
    decoder(ok, m, why);
}

static void encode(const ts_tokenizer *t, const char *text)
{
    char     why[TS_MODEL_WHY] = "";
    int32_t *token;
    int64_t  n_token;
    size_t   n_bytes;
    if (!ts_tokenizer_encode(t, text, strlen(text), &token, &n_token, why)) {
        must_be_ascii(why);
        return;
    }
    for (int64_t i = 0; i < n_token; i++) {
        must(token[i] >= 0 && token[i] < ts_tokenizer_size(t));
        const char *piece = ts_tokenizer_piece(t, i ? token[i - 1] : -1, token[i], &n_bytes);
        free(exact(piece, n_bytes));
    }
    free(token);
}

static void tokenizer(const uint8_t *p, size_t n)
{
    char          why[TS_MODEL_WHY] = "";
    ts_tokenizer *t;
    void         *copy = exact(p, n);
    const bool    ok = ts_tokenizer_parse(copy, n, &t, why);
    free(copy);
    must(ok == (t != NULL));
    if (!ok) must_be_ascii(why);
    else {
        encode(t, "The\nThe");
        encode(t, "The 2 d\xc3\xb6gs, they'll  run\n\n <|end|> \xf0\x9f\x98\x80!");
    }
    ts_tokenizer_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!n) return 0;
    switch (data[0]) {
    case 'c':
        llama2c(data + 1, n - 1);
        break;
    case 'g':
        gguf(data + 1, n - 1);
        break;
    case 's':
        safetensors(data + 1, n - 1);
        break;
    case 't':
        tokenizer(data + 1, n - 1);
        break;
    }
    return 0;
}
