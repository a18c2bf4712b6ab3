/* SPDX-License-Identifier: Apache-2.0 */
/* page.c - fills the {{marks}} of page/index.html. The records are embedded as JSON, which the
 * script renders; by its hash, that script is the only one allowed to run. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "page.h"
#include "sha256.h"

extern const char ts_page_html[], ts_page_style[], ts_page_script[];

static void base64(const unsigned char *p, size_t n, FILE *f)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const unsigned b = i + 1 < n ? p[i + 1] : 0, c = i + 2 < n ? p[i + 2] : 0;
        const unsigned v = (unsigned)p[i] << 16 | b << 8 | c;
        fputc(digits[v >> 18], f);
        fputc(digits[v >> 12 & 63], f);
        fputc(i + 1 < n ? digits[v >> 6 & 63] : '=', f);
        fputc(i + 2 < n ? digits[v & 63] : '=', f);
    }
}

/* In JSON these three characters occur in strings only, where the escape means the same: so no text
 * can close the element that contains it. */
static void json(const char *s, size_t n, FILE *f)
{
    for (size_t k = 0; k < n; k++)
        if (s[k] == '<' || s[k] == '>' || s[k] == '&') fprintf(f, "\\u%04x", (unsigned)s[k]);
        else fputc(s[k], f);
}

/* Lines of a source that are not blank. */
static int64_t lines_of(const char *text)
{
    int64_t n = 0;
    for (bool counted = false; *text; text++) {
        const bool blank = isspace((unsigned char)*text);
        n += !counted && !blank;
        counted = *text != '\n' && (counted || !blank);
    }
    return n;
}

/* Instead of the sources: {"type":"lines","of":[[ENTRANT, LINES],...]}. */
static void put_lines(const ts_records *r, const char *comma, FILE *f)
{
    const char *between = "";
    int64_t     sum = 0, id = -1;
    fprintf(f, "%s{\"type\":\"lines\",\"of\":[", comma);
    for (size_t i = 0; i <= r->n; i++) {
        const ts_jr_node *v = i < r->n && ts_record_is(&r->at[i], "source") ? r->at[i].root : NULL;
        const int64_t     of = v ? ts_jr_whole(v, "entrant", -1) : id;
        if (i < r->n && !v) continue;
        if (id >= 0 && (of != id || i == r->n)) {
            fprintf(f, "%s[%lld,%lld]", between, (long long)id, (long long)sum);
            between = ",";
            sum = 0;
        }
        id = of;
        if (v) sum += lines_of(ts_jr_text(v, "text", ""));
    }
    fputs("]}", f);
}

static void records(const ts_records *r, bool sources, FILE *f)
{
    size_t n = 0;
    fputs("[", f);
    for (size_t i = 0; i < r->n; i++) {
        if (!sources && ts_record_is(&r->at[i], "source")) continue;
        fputs(n++ ? ",\n" : "", f);
        json(r->at[i].line, r->at[i].n, f);
    }
    if (!sources) put_lines(r, n ? ",\n" : "", f);
    fputs("]", f);
}

static void escape(const char *s, size_t n, FILE *f)
{
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '<') fputs("&lt;", f);
        else if (s[i] == '>') fputs("&gt;", f);
        else if (s[i] == '&') fputs("&amp;", f);
        else fputc(s[i], f);
    }
}

/* Of several logs, the hashes of their last lines follow each other. */
static void hashes(const ts_records *r, FILE *f)
{
    const ts_jr_node *last = NULL, *signatures = NULL;
    for (size_t i = 0; i < r->n && !last; i++)
        if (ts_record_is(&r->at[i], "merge")) {
            last = ts_jr_get(r->at[i].root, "last");
            signatures = ts_jr_get(r->at[i].root, "signed");
        }
    const size_t n = ts_jr_len(last);
    if (n < 2)
        fprintf(f, "from one log of <code>touchstone judge</code>. SHA-256 of its last line:");
    else
        fprintf(f,
                "from %zu logs of <code>touchstone judge</code>. SHA-256 of their last lines:", n);
    fputs("</p>\n<p><code id=\"last\">", f);
    if (n < 2) fputs(r->last, f);
    for (size_t i = 0; i < n && n > 1; i++)
        fprintf(f, "%s%s", i ? " " : "", ts_jr_str(ts_jr_at(last, i)));
    fputs("</code>", f);
    for (size_t i = 0; i < ts_jr_len(signatures); i++) {
        const char *s = ts_jr_str(ts_jr_at(signatures, i));
        if (!*s) continue;
        fprintf(f, "</p>\n<p>%s", i ? "" : "Signatures: ");
        escape(s, strlen(s), f);
    }
}

static void text(const ts_board *b, FILE *f)
{
    char  *s = NULL;
    size_t n = 0;
    FILE  *m = open_memstream(&s, &n);
    if (!m) return;
    ts_board_print(b, m);
    fclose(m);
    if (s) escape(s, n, f);
    free(s);
}

static bool write_page(const ts_records *r, const ts_board *b, const char *about, bool sources,
                       FILE *f)
{
    const char *p = ts_page_html, *mark;
    for (; (mark = strstr(p, "{{")); p = strstr(mark, "}}") + 2) {
        unsigned char hash[32];
        fwrite(p, 1, (size_t)(mark - p), f);
        mark += 2;
        if (!strncmp(mark, "style}", 6)) fputs(ts_page_style, f);
        else if (!strncmp(mark, "script}", 7)) fputs(ts_page_script, f);
        else if (!strncmp(mark, "text}", 5)) text(b, f);
        else if (!strncmp(mark, "about}", 6))
            json(about ? about : "{}", about ? strlen(about) : 2, f);
        else if (!strncmp(mark, "log}", 4)) records(r, sources, f);
        else if (!strncmp(mark, "logs}", 5)) hashes(r, f);
        else {
            ts_sha256(ts_page_script, strlen(ts_page_script), hash);
            base64(hash, sizeof hash, f);
        }
    }
    fputs(p, f);
    return !fflush(f) && !ferror(f);
}

bool ts_page_write(const ts_records *r, const ts_board *b, FILE *f)
{
    return write_page(r, b, NULL, false, f);
}

bool ts_page_write_about(const ts_records *r, const ts_board *b, const char *about, bool sources,
                         FILE *f)
{
    return write_page(r, b, about, sources, f);
}
