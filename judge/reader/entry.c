/* SPDX-License-Identifier: Apache-2.0 */
/* entry.c - parses entry.json. */
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "kind.h"
#include "reader.h"

static bool take_name(const ts_jr_node *doc, const char *key, char *out, ts_refusal *why)
{
    const char *text = ts_jr_str(ts_jr_get(doc, key));
    if (!text) return ts_refuse(why, "entry", "entry.json: '%s': missing, expected a string", key);
    const long count = ts_name_length(text); /* the JSON reader guarantees valid UTF-8 */
    if (count < 0)
        return ts_refuse(why, "entry", "entry.json: '%s': contains a control character", key);
    if (count == 0 || count > TS_ENTRANT_NAME)
        return ts_refuse(why, "entry", "entry.json: '%s': got %ld characters, expected 1 to %d",
                         key, count, TS_ENTRANT_NAME);
    strcpy(out, text);
    return true;
}

static bool take_choice(const ts_jr_node *doc, const char *key, const char *const *names, int n,
                        uint32_t *choice, ts_refusal *why)
{
    char known[128] = "", got[4 * TS_ENTRANT_NAME + 1];
    if (!take_name(doc, key, got, why)) return false;
    for (int i = 0; i < n; i++) {
        *choice = (uint32_t)i;
        if (!strcmp(got, names[i])) return true;
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
                 names[i]);
    }
    return ts_refuse(why, "entry", "entry.json: '%s': got '%s', expected one of %s", key, got,
                     known);
}

static bool known_keys(const ts_jr_node *doc, ts_refusal *why)
{
    static const char *const keys[] = { "name",    "author",  "challenge", "class",     "language",
                                        "sources", "adapter", "launch",    "workspace", "offers" };
    for (size_t k = 0; k < ts_jr_len(doc); k++) {
        const char *key = ts_jr_key(doc, k);
        size_t      i = 0;
        while (i < sizeof keys / sizeof *keys && strcmp(key, keys[i])) i++;
        if (i == sizeof keys / sizeof *keys)
            return ts_refuse(why, "entry", "entry.json: unknown key '%.64s'", key);
    }
    return true;
}

/* The judge knows the challenges: r->task is there for it as soon as it would be compared. */
static bool take_head(const ts_jr_node *doc, ts_reading *r, ts_refusal *why)
{
    char task[sizeof r->task];
    if (ts_jr_is(doc) != TS_JR_OBJ)
        return ts_refuse(why, "entry", "entry.json: expected an object");
    if (!known_keys(doc, why) || !take_name(doc, "name", r->name, why) ||
        !take_name(doc, "author", r->author, why) || !take_name(doc, "challenge", task, why) ||
        !take_choice(doc, "class", ts_class_names, TS_N_CLASSES, &r->cls, why) ||
        !take_choice(doc, "language", ts_language_names, TS_N_LANGUAGES, &r->language, why))
        return false;
    strcpy(r->task, task);
    const ts_jr_node *offers = ts_jr_get(doc, "offers");
    if (offers && !ts_offers_ok(ts_jr_str(offers), why)) return false;
    if (offers) strcpy(r->offers, ts_jr_str(offers));
    if (!ts_class_takes((ts_class)r->cls, (ts_language)r->language))
        return ts_refuse(why, "entry", "entry.json: class '%s' does not accept language '%s'",
                         ts_class_names[r->cls], ts_language_names[r->language]);
    if (r->cls == TS_GPU_SEALED) return ts_launch_from_json(doc, r->launch, sizeof r->launch, why);
    return (!ts_jr_get(doc, "launch") && !ts_jr_get(doc, "workspace")) ||
           ts_refuse(why, "entry",
                     "entry.json: class '%s' takes no 'launch' or 'workspace'; host code launches "
                     "the kernels",
                     ts_class_names[r->cls]);
}

static bool take_source(const char *name, ts_reading *r, ts_refusal *why)
{
    if (!ts_source_ok(name, (ts_language)r->language, (int)r->n_sources, why)) return false;
    strcpy(r->source[r->n_sources++], name);
    return true;
}

static bool take_sources(const ts_jr_node *doc, ts_reading *r, ts_refusal *why)
{
    const ts_jr_node *list = ts_jr_get(doc, "sources"), *extra = ts_jr_get(doc, "adapter");
    const size_t      n = ts_jr_is(list) == TS_JR_ARR ? ts_jr_len(list) : 0;
    if (n == 0)
        return ts_refuse(why, "entry", "entry.json: 'sources': missing, expected a list of files");
    for (size_t i = 0; i < n; i++) {
        const char *name = ts_jr_str(ts_jr_at(list, i));
        if (!name)
            return ts_refuse(why, "entry", "entry.json: 'sources': expected a list of strings");
        if (!take_source(name, r, why)) return false;
    }
    if (r->language == TS_BINARY && (n > 1 || extra))
        return ts_refuse(why, "entry",
                         "entry.json: 'sources': expected exactly one binary and no adapter");
    if (!extra) return true;
    if (!ts_jr_str(extra))
        return ts_refuse(why, "entry", "entry.json: 'adapter': expected the name of a file");
    if (!take_source(ts_jr_str(extra), r, why)) return false;
    r->adapter = (int32_t)r->n_sources - 1;
    return true;
}

bool ts_reader_entry(const char *json, size_t n, ts_reading *r, ts_refusal *why)
{
    char       what[256];
    ts_jr_doc *doc = ts_jr_parse(json, n, what, sizeof what);
    if (!doc) return ts_refuse(why, "entry", "entry.json: %s", what);
    const bool ok = take_head(ts_jr_root(doc), r, why) && take_sources(ts_jr_root(doc), r, why);
    ts_jr_free(doc);
    return ok;
}
