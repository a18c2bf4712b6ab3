/* SPDX-License-Identifier: Apache-2.0 */
/* generation.c - how a model's authors want its tokens drawn: generation_config.json. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "model_impl.h"

static const char file_name[] = "generation_config.json";

static bool number(const json_t *o, const char *key, double lo, double hi, double *value,
                   char why[TS_MODEL_WHY])
{
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) return true;
    if (!json_is_number(v) || !(json_number_value(v) >= lo && json_number_value(v) <= hi))
        return ts_say(why, "%s: %s: expected a number from %g to %g", file_name, key, lo, hi);
    *value = json_number_value(v);
    return true;
}

/* One token or a list of them. */
static bool stops(const json_t *o, int64_t n_vocab, ts_generation *g, char why[TS_MODEL_WHY])
{
    const json_t *v = json_object_get(o, "eos_token_id");
    const size_t  n = json_is_array(v) ? json_array_size(v) : json_is_integer(v) ? 1 : 0;
    if (n > TS_MODEL_STOPS)
        return ts_say(why, "%s: eos_token_id: got %zu tokens, expected at most %d", file_name, n,
                      (int)TS_MODEL_STOPS);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= n_vocab)
            return ts_say(why, "%s: eos_token_id: expected tokens of the vocabulary", file_name);
        g->stop[g->n_stop++] = (int32_t)json_integer_value(id);
    }
    return true;
}

static bool read(const json_t *o, int64_t n_vocab, ts_generation *g, char why[TS_MODEL_WHY])
{
    double temperature = 1, top_k = 50, top_p = 1;
    if (!json_is_object(o)) return ts_say(why, "%s: expected a JSON object", file_name);
    if (!number(o, "temperature", 0, 1000, &temperature, why) ||
        !number(o, "top_k", 0, 1 << 24, &top_k, why) || !number(o, "top_p", 1e-6, 1, &top_p, why) ||
        !stops(o, n_vocab, g, why))
        return false;
    if (!json_is_true(json_object_get(o, "do_sample"))) return true;
    g->sampling.temperature = temperature;
    g->sampling.top_k = (int64_t)top_k;
    g->sampling.top_p = top_p;
    return true;
}

/* Only a folder, or a .safetensors file in one, has such a file. */
bool ts_generation_load(const char *model, int64_t n_vocab, ts_generation *g,
                        char why[TS_MODEL_WHY])
{
    static const char suffix[] = ".safetensors";
    const size_t      n = strlen(model), n_suffix = sizeof suffix - 1;
    char              path[4096];
    struct stat       is;
    ts_file           f;
    json_error_t      e;
    *g = (ts_generation) { .sampling.top_p = 1 };
    const char *slash = strrchr(model, '/');
    if (!stat(model, &is) && S_ISDIR(is.st_mode))
        snprintf(path, sizeof path, "%s/%s", model, file_name);
    else if (n > n_suffix && !strcmp(model + n - n_suffix, suffix))
        snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash - model + 1) : 0, model,
                 file_name);
    else return true;
    if (stat(path, &is) && errno == ENOENT) return true;
    if (!ts_file_map(path, &f, why)) return false;
    json_t *o = json_loadb((const char *)f.bytes, f.n, 0, &e);
    bool    ok = o || ts_say(why, "%s: line %d: %.100s", file_name, e.line, e.text);
    ts_file_unmap(&f);
    ok = ok && read(o, n_vocab, g, why);
    g->found = ok;
    json_decref(o);
    return ok;
}
