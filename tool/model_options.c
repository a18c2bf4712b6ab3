/* SPDX-License-Identifier: Apache-2.0 */
/* model_options.c - options of the commands that run a model. */
#include <stdlib.h>
#include <string.h>

#include "model_options.h"

bool ts_complain(const char *what, const char *why)
{
    size_t n = 0; /* ts_say writes ? for each byte that is not printable ASCII */
    while (what[n] && (why[n] == what[n] || why[n] == '?')) n++;
    const bool named = !what[n] && (why[n] == ':' || why[n] == '/');
    fprintf(stderr, "touchstone %s: %s%s%s\n", ts_command(), what, named ? "" : ": ",
            named ? why + n : why);
    return false;
}

bool ts_parse_real(const char *option, const char *text, double lo, double hi, double *value)
{
    char *end;
    if (!text) return true;
    *value = strtod(text, &end);
    if (*text && !*end && *value >= lo && *value <= hi) return true;
    fprintf(stderr, "touchstone %s: %s: got '%s', expected %g to %g\n", ts_command(), option, text,
            lo, hi);
    return false;
}

bool ts_parse_count(const char *option, const char *text, uint64_t lo, uint64_t hi, uint64_t *value)
{
    if (!text) return true;
    if (!ts_parse_u64(option, text, value)) return false;
    if (*value >= lo && *value <= hi) return true;
    fprintf(stderr, "touchstone %s: %s: got '%s', expected %u to %u\n", ts_command(), option, text,
            (unsigned)lo, (unsigned)hi);
    return false;
}

bool ts_parse_dtype(const char *text, ts_dtype *dtype)
{
    *dtype = text && !strcmp(text, "f64") ? TS_F64 : TS_F32;
    if (!text || *dtype == TS_F64 || !strcmp(text, "f32")) return true;
    fprintf(stderr, "touchstone %s: --dtype: got '%s', expected f32 or f64\n", ts_command(), text);
    return false;
}

bool ts_parse_device(const char *text, ts_dtype dtype, ts_device *device)
{
    *device = text && !strcmp(text, "cuda") ? TS_CUDA : TS_CPU;
    if (*device == TS_CUDA && dtype != TS_F32)
        return ts_complain("--device", "got cuda with --dtype f64, expected f32");
    if (!text || *device == TS_CUDA || !strcmp(text, "cpu")) return true;
    fprintf(stderr, "touchstone %s: --device: got '%s', expected cpu or cuda\n", ts_command(),
            text);
    return false;
}

bool ts_find_model(const char **model)
{
    static const char *const places[] = { "../share/austen", "../share/touchstone/austen", NULL };
    static char              path[4096];
    if (*model) return true;
    *model = getenv("TOUCHSTONE_MODEL");
    if (!*model && ts_find(places, path, sizeof path)) *model = path;
    return *model ||
           ts_complain(
               "--model",
               "missing, and no bundled model found; name a folder, a GGUF or a llama2.c file");
}
