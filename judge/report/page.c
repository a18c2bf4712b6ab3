/* SPDX-License-Identifier: Apache-2.0 */
/* page.c - fills the {{marks}} of page/index.html. The records are embedded as JSON, which the
 * script renders; by its hash, that script is the only one allowed to run. */
#define _GNU_SOURCE
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

static void records(const ts_records *r, bool sources, FILE *f)
{
    fputs("[", f);
    for (size_t i = 0, n = 0; i < r->n; i++) {
        if (!sources && ts_record_is(&r->at[i], "source")) continue;
        fputs(n++ ? ",\n" : "", f);
        json(r->at[i].line, r->at[i].n, f);
    }
    fputs("]", f);
}

/* Of several logs, the hashes of their last lines follow each other. */
static void hashes(const ts_records *r, FILE *f)
{
    const ts_jr_node *last = NULL;
    for (size_t i = 0; i < r->n && !last; i++)
        if (ts_record_is(&r->at[i], "merge")) last = ts_jr_get(r->at[i].root, "last");
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
}

static void text(const ts_board *b, FILE *f)
{
    char  *s = NULL;
    size_t n = 0;
    FILE  *m = open_memstream(&s, &n);
    if (!m) return;
    ts_board_print(b, m);
    fclose(m);
    for (size_t i = 0; s && i < n; i++) {
        if (s[i] == '<') fputs("&lt;", f);
        else if (s[i] == '>') fputs("&gt;", f);
        else if (s[i] == '&') fputs("&amp;", f);
        else fputc(s[i], f);
    }
    free(s);
}

static bool write_page(const ts_records *r, const ts_board *b, const char *about, FILE *f)
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
        else if (!strncmp(mark, "log}", 4)) records(r, about != NULL, f);
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
    return write_page(r, b, NULL, f);
}

bool ts_page_write_about(const ts_records *r, const ts_board *b, const char *about, FILE *f)
{
    return write_page(r, b, about, f);
}
