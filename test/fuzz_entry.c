/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_entry.c - libFuzzer on every reader of what strangers hand in. The first byte picks one:
 * JSON, entry.json, source text, or an object file.
 *
 *     build/test/fuzz_entry -max_len=65536 -max_total_time=1800 CORPUS */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit.h"
#include "entry.h"
#include "json.h"
#include "show.h"
#include "source.h"

static void must(bool ok)
{
    if (!ok) abort();
}

/* One line that a terminal survives. */
static void must_be_plain(const char *text)
{
    while (*text) {
        uint32_t  c = 0;
        const int n = ts_utf8(text, strlen(text), &c);
        must(n && !ts_hostile(c));
        text += n;
    }
}

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

static void fuzz_entry(const char *text, size_t n)
{
    ts_candidate e;
    ts_refusal   why;
    if (!folder[0]) {
        strcpy(folder, "/tmp/touchstone-fuzz-XXXXXX");
        must(mkdtemp(folder) != NULL);
        put("k.c", "int ts_softmax_topk(void);\n#include \"k.h\"\n", 41);
        put("k.h", "\n", 1);
        put("k.py", "def softmax_topk(x): pass\n", 26);
    }
    put("entry.json", text, n);
    if (ts_entry_read(folder, NULL, &e, &why)) {
        must_be_plain(e.name);
        must_be_plain(e.author);
        for (int i = 0; i < e.n_sources; i++) must(e.source[i].name[0] == 'k');
    } else must_be_plain(why.text);
    ts_entry_free(&e);
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
}

static void fuzz_object(const char *bytes, size_t n)
{
    ts_refusal why;
    for (int cls = TS_SEALED; cls <= TS_HOST; cls++)
        if (!ts_audit(bytes, n, (ts_class)cls, "softmax_topk", &why)) must_be_plain(why.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    char *copy = malloc(n > 1 ? n - 1 : 1); /* at its true size, so that one byte too far is seen */
    if (!copy) return 0;
    memcpy(copy, data + 1, n - 1);
    switch (data[0] % 4) {
    case 0:
        fuzz_json(copy, n - 1);
        break;
    case 1:
        fuzz_entry(copy, n - 1);
        break;
    case 2:
        fuzz_source(copy, n - 1);
        break;
    default:
        fuzz_object(copy, n - 1);
    }
    free(copy);
    return 0;
}
