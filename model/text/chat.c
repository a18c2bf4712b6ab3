/* SPDX-License-Identifier: Apache-2.0 */
/* chat.c - a conversation as a model wants it: its chat template, and the text that it makes. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "model_impl.h"
#include "template.h"

struct ts_chat {
    ts_template *t;
    json_t      *variables; /* bos_token and eos_token */
};

/* ---- where the template is ---- */

static json_t *text_of(ts_gguf_text s)
{
    return ts_value_text(s.p, s.n);
}

static bool from_gguf(ts_chat *c, const ts_file *f, char why[TS_MODEL_WHY])
{
    static const char *const keys[2][2] = { { "tokenizer.ggml.bos_token_id", "bos_token" },
                                            { "tokenizer.ggml.eos_token_id", "eos_token" } };
    ts_gguf                 *g;
    ts_gguf_text             source;
    if (!ts_gguf_parse(f->bytes, f->n, &g, why)) return false;
    for (int i = 0; i < 2; i++) {
        const unsigned char *next = NULL;
        int64_t              id, at = 0;
        const int64_t        n = ts_gguf_count(g, "tokenizer.ggml.tokens", true);
        if (!ts_gguf_integer(g, keys[i][0], &id) || id < 0 || id >= n) continue;
        for (; at < id; at++) ts_gguf_next(g, "tokenizer.ggml.tokens", &next);
        json_object_set_new(c->variables, keys[i][1],
                            text_of(ts_gguf_next(g, "tokenizer.ggml.tokens", &next)));
    }
    const bool ok = ts_gguf_string(g, "tokenizer.chat_template", &source)
                        ? ts_template_parse(source.p, source.n, &c->t, why)
                        : ts_say(why, "gguf: tokenizer.chat_template: missing; the model has no "
                                      "chat template");
    ts_gguf_free(&g);
    return ok;
}

/* A string, or an object with its `content`. */
static void token_from(ts_chat *c, const json_t *config, const char *key)
{
    const json_t *v = json_object_get(config, key);
    if (json_is_object(v)) v = json_object_get(v, "content");
    if (json_is_string(v)) json_object_set(c->variables, key, (json_t *)v);
}

/* One template, or the default of several with names. */
static const json_t *template_in(const json_t *config)
{
    const json_t *v = json_object_get(config, "chat_template"), *item;
    size_t        i;
    if (!json_is_array(v)) return v;
    json_array_foreach(v, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && !strcmp(name, "default")) return json_object_get(item, "template");
    }
    return NULL;
}

/* chat_template.jinja, or a key of tokenizer_config.json. */
static bool from_folder(ts_chat *c, const char *folder, char why[TS_MODEL_WHY])
{
    char         path[4096];
    ts_file      f;
    json_error_t e;
    json_t      *config = NULL;
    bool         ok = false;
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    if (ts_file_map(path, &f, why)) {
        config = json_loadb((const char *)f.bytes, f.n, 0, &e);
        ts_file_unmap(&f);
        if (!config) return ts_say(why, "tokenizer_config.json: line %d: %.100s", e.line, e.text);
        token_from(c, config, "bos_token");
        token_from(c, config, "eos_token");
    }
    const json_t *inside = template_in(config);
    snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
    if (ts_file_map(path, &f, why)) {
        ok = ts_template_parse((const char *)f.bytes, f.n, &c->t, why);
        ts_file_unmap(&f);
    } else if (json_is_string(inside))
        ok = ts_template_parse(json_string_value(inside), json_string_length(inside), &c->t, why);
    else
        ts_say(why, "chat template: got neither chat_template.jinja nor chat_template in "
                    "tokenizer_config.json; the model has none");
    json_decref(config);
    return ok;
}

bool ts_chat_load(const char *model, ts_chat **out, char why[TS_MODEL_WHY])
{
    struct stat is;
    ts_file     f;
    char        folder[4096];
    bool        ok = false;
    const char *slash = strrchr(model, '/');
    ts_chat    *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c || !(c->variables = json_object())) {
        free(c);
        return ts_say(why, "out of memory");
    }
    if (!stat(model, &is) && S_ISDIR(is.st_mode)) ok = from_folder(c, model, why);
    else if (ts_file_map(model, &f, why)) {
        if (ts_is_gguf(f.bytes, f.n)) ok = from_gguf(c, &f, why);
        else {
            snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - model) : 1,
                     slash ? model : ".");
            ok = from_folder(c, folder, why);
        }
        ts_file_unmap(&f);
    }
    if (ok) *out = c;
    else ts_chat_free(&c);
    return ok;
}

bool ts_chat_parse(const char *source, size_t n, ts_chat **out, char why[TS_MODEL_WHY])
{
    ts_chat *c = calloc(1, sizeof *c);
    *out = c;
    if (c && (c->variables = json_object()) && ts_template_parse(source, n, &c->t, why))
        return true;
    if (!c || !c->variables) ts_say(why, "out of memory");
    ts_chat_free(out);
    return false;
}

void ts_chat_free(ts_chat **c)
{
    if (!*c) return;
    ts_template_free(&(*c)->t);
    json_decref((*c)->variables);
    free(*c);
    *c = NULL;
}

/* ---- the text ---- */

static bool valid(const char *p, char why[TS_MODEL_WHY])
{
    for (size_t at = 0, n = strlen(p), len; at < n; at += len)
        if (!(len = ts_utf8_length((const unsigned char *)p + at, n - at)))
            return ts_say(why, "message: invalid UTF-8 at byte %zu", at);
    return true;
}

bool ts_chat_render(ts_chat *c, const ts_message *message, int64_t n, bool answer, ts_text *out,
                    char why[TS_MODEL_WHY])
{
    json_t *variables = json_copy(c->variables), *list = json_array();
    bool    ok = variables && list;
    if (!ok) ts_say(why, "out of memory");
    for (int64_t i = 0; ok && i < n; i++)
        ok = valid(message[i].content, why) &&
             (!json_array_append_new(list, json_pack("{ssss}", "role", message[i].role, "content",
                                                     message[i].content)) ||
              ts_say(why, "out of memory"));
    if (ok) {
        json_object_set(variables, "messages", list);
        json_object_set_new(variables, "add_generation_prompt", json_boolean(answer));
        ok = ts_template_run(c->t, variables, time(NULL), out, why);
    }
    json_decref(list);
    json_decref(variables);
    return ok;
}
