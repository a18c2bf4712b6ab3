/* SPDX-License-Identifier: Apache-2.0 */
/* read.c - reads a model's dimensions from disk. Files are untrusted, and only headers of tensors
 * are read. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "plan_impl.h"

enum { MOST_JSON = 16 << 20, MOST_PATH = 1024 };

bool ts_plan_check_model(const ts_plan_model *m, char why[TS_PLAN_WHY])
{
    const int64_t large = 1 << 20;
    const struct {
        const char *name;
        int64_t     value, least, most;
    } all[] = {
        { "layers", m->n_layer, 1, 1 << 14 },
        { "width", m->width, 1, large },
        { "query heads", m->n_head, 1, 1 << 14 },
        { "KV heads", m->n_kv_head, 1, 1 << 14 },
        { "channels per head", m->head_dim, 1, 1 << 14 },
        { "vocabulary", m->n_vocab, 1, 1 << 26 },
        { "feed-forward", m->n_ffn, m->n_expert ? 0 : 1, large },
        { "positions", m->n_context, 0, INT64_C(1) << 40 },
        { "window", m->window, 0, INT64_C(1) << 40 },
        { "layers with a window", m->n_window_layer, 0, m->n_layer },
        { "experts", m->n_expert, 0, 1 << 16 },
        { "experts per token", m->n_expert_used, m->n_expert ? 1 : 0, m->n_expert },
        { "shared experts", m->n_expert_shared, 0, 1 << 10 },
        { "feed-forward of an expert", m->n_expert_ffn, m->n_expert ? 1 : 0, large },
        { "layers without experts", m->n_dense_layer, 0, m->n_layer },
        { "latent of keys", m->kv_rank, 0, large },
        { "latent of queries", m->q_rank, 0, large },
        { "unrotated channels", m->nope, m->kv_rank ? 1 : 0, 1 << 14 },
        { "rotated channels", m->rope, m->kv_rank ? 1 : 0, 1 << 14 },
        { "channels of a value", m->v_dim, m->kv_rank ? 1 : 0, 1 << 14 },
        { "layers with linear attention", m->n_linear_layer, 0, m->n_layer - m->n_window_layer },
        { "linear key heads", m->n_linear_key, m->n_linear_layer ? 1 : 0, 1 << 10 },
        { "linear value heads", m->n_linear_value, m->n_linear_layer ? 1 : 0, 1 << 10 },
        { "channels of a linear key", m->linear_key_dim, m->n_linear_layer ? 1 : 0, 1 << 12 },
        { "channels of a linear value", m->linear_value_dim, m->n_linear_layer ? 1 : 0, 1 << 12 },
        { "inputs of the convolution", m->conv, m->n_linear_layer ? 1 : 0, 1 << 10 },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].value < all[i].least || all[i].value > all[i].most)
            return ts_say(why, "%s: got %lld, expected %lld to %lld", all[i].name,
                          (long long)all[i].value, (long long)all[i].least, (long long)all[i].most);
    if (m->n_head % m->n_kv_head)
        return ts_say(why, "query heads: got %lld, expected a multiple of the %lld KV heads",
                      (long long)m->n_head, (long long)m->n_kv_head);
    return true;
}

static bool ends_in(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && !strcmp(path + n - m, end);
}

#if TS_HAVE_JANSSON

/* `name` in the folder of `path`, or in `path` if that is a folder. */
static bool beside(const char *path, bool is_folder, const char *name, char out[MOST_PATH])
{
    const char *slash = strrchr(path, '/');
    const int   n = is_folder ? (int)strlen(path) : slash ? (int)(slash - path) : 0;
    const bool  bare = !is_folder && !slash;
    return snprintf(out, MOST_PATH, "%.*s%s%s", n, path, bare ? "" : "/", name) < MOST_PATH;
}

static bool slurp(const char *path, char **text, size_t *n, char why[TS_PLAN_WHY])
{
    FILE *f = fopen(path, "rb");
    *text = f ? malloc(MOST_JSON + 1) : NULL;
    *n = *text ? fread(*text, 1, MOST_JSON + 1, f) : 0;
    const bool ok = *text && !ferror(f) && *n <= MOST_JSON;
    if (f) fclose(f);
    if (ok) return true;
    free(*text);
    *text = NULL;
    return f ? ts_say(why, "%.150s: cannot be read, or larger than 16 MiB", path)
             : ts_say(why, "%.150s: cannot be opened", path);
}

typedef struct sum {
    const char *index;
    int64_t     bytes;
    char       *why;
} sum;

static bool add_shard(void *user, const char *name)
{
    sum    *s = user;
    int64_t n;
    char    path[MOST_PATH];
    if (!beside(s->index, false, name, path)) return ts_say(s->why, "path too long");
    if (!ts_plan_safetensors(path, &n, s->why)) return false;
    s->bytes = ts_plus(s->bytes, n);
    return true;
}

static bool read_index(const char *path, ts_plan_model *m, char why[TS_PLAN_WHY])
{
    char  *text;
    size_t n;
    sum    s = { path, 0, why };
    if (!slurp(path, &text, &n, why)) return false;
    const bool ok = ts_plan_shards(text, n, add_shard, &s, why);
    free(text);
    m->file_bytes = s.bytes;
    return ok;
}

static bool read_config(const char *path, ts_plan_model *m, char why[TS_PLAN_WHY])
{
    char  *text;
    size_t n;
    if (!slurp(path, &text, &n, why)) return false;
    const bool ok = ts_plan_config(text, n, m, why);
    free(text);
    return ok;
}

static bool is_file(const char *path)
{
    struct stat is;
    return !stat(path, &is) && S_ISREG(is.st_mode);
}

static bool read_json(const char *path, bool is_folder, ts_plan_model *m, char why[TS_PLAN_WHY])
{
    char       config[MOST_PATH], weights[MOST_PATH] = "";
    const bool is_tensors = ends_in(path, ".safetensors"), is_index = ends_in(path, ".index.json");
    if (!beside(path, is_folder, "config.json", config)) return ts_say(why, "path too long");
    if (!is_folder && !is_tensors && !is_index) return read_config(path, m, why);
    if (!is_folder) snprintf(weights, sizeof weights, "%s", path);
    else if (beside(path, true, "model.safetensors.index.json", weights) && !is_file(weights))
        beside(path, true, "model.safetensors", weights);
    if (is_folder && !is_file(weights)) beside(path, true, "ternary.safetensors", weights);
    if (!is_file(config) && !is_folder)
        return ts_say(why,
                      "no config.json next to the file; expected one with the number of heads");
    if (!read_config(config, m, why)) return false;
    if (!is_file(weights)) return true; /* a folder may have only a config */
    return ends_in(weights, ".index.json") ? read_index(weights, m, why)
                                           : ts_plan_safetensors(weights, &m->file_bytes, why);
}

#else

static bool read_json(const char *path, bool is_folder, ts_plan_model *m, char why[TS_PLAN_WHY])
{
    (void)path, (void)is_folder, (void)m;
    return ts_say(why, "only GGUF files can be read, built without jansson");
}

#endif

bool ts_plan_read(const char *path, ts_plan_model *m, char why[TS_PLAN_WHY])
{
    struct stat is;
    char        magic[4] = "";
    *m = (ts_plan_model) { .id = path };
    if (strlen(path) >= MOST_PATH) return ts_say(why, "path too long");
    if (stat(path, &is)) return ts_say(why, "no such file");
    if (S_ISDIR(is.st_mode)) return read_json(path, true, m, why);
    if (!S_ISREG(is.st_mode)) return ts_say(why, "expected a file or a folder");
    FILE *f = fopen(path, "rb");
    if (!f) return ts_say(why, "cannot be opened");
    const bool gguf =
        (fread(magic, 1, 4, f) == 4 && !memcmp(magic, "GGUF", 4)) || ends_in(path, ".gguf");
    fclose(f);
    return gguf ? ts_plan_gguf(path, m, why) : read_json(path, false, m, why);
}
