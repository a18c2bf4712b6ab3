/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_entrant.c - fuzzes the readers of an entrant's text. The first byte selects one: JSON,
 * entry.json, or source text; a single source file is also read as an entrant of its own. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "entrant.h"
#include "fuzz.h"
#include "json.h"
#include "source.h"

/* Of long arrays the beginning: to reach an item, those before it are stepped over. */
static size_t count(const ts_jr_node *v)
{
    const char *s = ts_jr_str(v);
    size_t      n = 1 + (s ? strlen(s) : 0);
    for (size_t i = 0; i < ts_jr_len(v) && i < 64; i++) n += count(ts_jr_at(v, i));
    return n;
}

static void fuzz_json(const char *text, size_t n)
{
    char       why[200] = "", *copy = calloc(1, n + 1);
    ts_jw      w = { 0 };
    ts_jr_doc *doc = ts_jr_parse(text, n, why, sizeof why);
    if (doc) must(count(ts_jr_root(doc)) <= 2 * n + 1);
    else must_be_plain(why);
    ts_jr_free(doc);
    /* What was escaped is JSON again, whatever it was. */
    if (!copy) return;
    memcpy(copy, text, n);
    ts_jw_text(&w, NULL, copy);
    must_be_plain(w.text);
    doc = ts_jr_parse(w.text, w.n, why, sizeof why);
    must(doc != NULL);
    ts_jr_free(doc);
    ts_jw_free(&w);
    free(copy);
}

static char folder[64];

static void put(const char *name, const char *bytes, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && !close(fd));
}

static void remove_folder(void)
{
    static const char *const names[] = {
        "entry.json", "k.c", "k.h", "k.cu", "k.py", "s.c", "s.py"
    };
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* A folder of one's own, removed in the end. */
static void lay_out(void)
{
    if (folder[0]) return;
    /* In memory, if there is such a place: a disk would take most of the time. */
    strcpy(folder, access("/dev/shm", W_OK) ? "/tmp/touchstone-fuzz-XXXXXX"
                                            : "/dev/shm/touchstone-fuzz-XXXXXX");
    must(mkdtemp(folder) != NULL);
    put("k.c", "int ts_softmax_topk(void);\n#include \"k.h\"\n", 41);
    put("k.h", "\n", 1);
    put("k.cu", "\n", 1);
    put("k.py", "def softmax_topk(x): pass\n", 26);
    atexit(remove_folder);
}

/* Reads the folder, or a file in it, as an entrant. */
static void enter(const char *name)
{
    ts_entrant e;
    ts_refusal why;
    char       path[128];
    snprintf(path, sizeof path, "%s%s", folder, name);
    if (ts_entrant_read(path, NULL, &e, &why)) {
        must_be_plain(e.name);
        must_be_plain(e.author);
        for (int i = 0; i < e.n_sources; i++) must(strchr("ks", e.source[i].name[0]) != NULL);
        must(strlen(e.source_sha256) == 64 && strlen(e.family) == 64);
        if (*e.offers) must_be_ascii(e.offers);
    } else must_be_plain(why.text);
    ts_entrant_free(&e);
}

static void fuzz_entrant(const char *text, size_t n)
{
    lay_out();
    put("entry.json", text, n);
    enter("");
}

static void fuzz_source(const char *text, size_t n)
{
    char       *out = malloc(n + 1), name[65];
    bool        quoted;
    const char *p = out;
    if (!out) return;
    for (int python = 0; python < 2; python++) {
        ts_scrub(text, n, python, out);
        must(strlen(out) <= n);
        ts_calls(out, "ts_softmax_topk");
        ts_needs_host(out);
        for (p = out; (p = ts_next_include(p, name, sizeof name, &quoted));) must(name[0]);
    }
    ts_smuggled(text, n);
    free(out);
    lay_out();
    put("s.c", text, n);
    enter("/s.c");
    put("s.py", text, n);
    enter("/s.py");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    char *copy = exact(data + 1, n - 1);
    switch (data[0] % 3) {
    case 0:
        fuzz_json(copy, n - 1);
        break;
    case 1:
        fuzz_entrant(copy, n - 1);
        break;
    default:
        fuzz_source(copy, n - 1);
    }
    free(copy);
    return 0;
}
