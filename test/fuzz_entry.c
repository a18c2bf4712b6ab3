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
#include "reader.h"
#include "source.h"

static void must(bool ok)
{
    if (!ok) abort();
}

/* One line that a terminal survives. */
static void must_be_plain(const char *text)
{
    for (size_t used, n = strlen(text); n; text += used, n -= used)
        must(!ts_utf8_hostile(ts_utf8_next(text, n, &used)));
}

static size_t count(const ts_node *v)
{
    size_t n = 1;
    if (v->kind == TS_TEXT) n += strlen(v->text);
    for (const ts_node *i = v->first; i; i = i->next) n += count(i);
    return n;
}

static void fuzz_json(const char *text, size_t n)
{
    char     why[200] = "", *out = malloc(6 * n + 16);
    ts_node *doc = ts_json_read(text, n, why, sizeof why);
    if (doc) must(count(doc) <= 2 * n + 1);
    else must_be_plain(why);
    free(doc);
    /* What was escaped is JSON again, whatever it was. */
    if (!out) return;
    out[0] = '"';
    const size_t m = ts_json_escape(text, n, out + 1, 6 * n + 8);
    strcpy(out + 1 + m, "\"");
    must_be_plain(out);
    doc = ts_json_read(out, m + 2, why, sizeof why);
    must(doc || memchr(text, 0, n)); /* U+0000 is the one that is refused */
    free(doc);
    free(out);
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
