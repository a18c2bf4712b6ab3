/* SPDX-License-Identifier: Apache-2.0 */
/* json_write.c - writes a line of JSON, with untrusted text escaped. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "show.h"

void ts_jw_raw(ts_jw *w, const char *s, size_t n)
{
    if (w->failed) return;
    if (w->n + n + 1 > w->cap) {
        const size_t cap = 2 * (w->n + n + 1) + 256;
        char        *more = realloc(w->text, cap);
        w->failed = !more;
        if (!more) return;
        w->text = more;
        w->cap = cap;
    }
    memcpy(w->text + w->n, s, n);
    w->n += n;
    w->text[w->n] = 0;
}

static void puts_(ts_jw *w, const char *s)
{
    ts_jw_raw(w, s, strlen(s));
}

static void name(ts_jw *w, const char *key)
{
    if (w->n && !strchr("{[", w->text[w->n - 1])) puts_(w, ",");
    if (!key) return;
    puts_(w, "\"");
    puts_(w, key);
    puts_(w, "\":");
}

void ts_jw_open(ts_jw *w, const char *key, char bracket)
{
    name(w, key);
    ts_jw_raw(w, &bracket, 1);
}

void ts_jw_close(ts_jw *w, char bracket)
{
    ts_jw_raw(w, &bracket, 1);
}

/* '<' and '>' too, so that a record can be embedded in a page verbatim. */
static void quoted(ts_jw *w, const char *s)
{
    size_t left = strlen(s);
    puts_(w, "\"");
    while (left) {
        uint32_t  c = 0;
        char      escaped[13];
        const int n = ts_utf8(s, left, &c);
        if (!n) puts_(w, "?");
        else if (c == '"' || c == '\\') ts_jw_raw(w, "\\", 1), ts_jw_raw(w, s, 1);
        else if (ts_hostile(c) || c == '<' || c == '>' || c == '&')
            ts_escape(c, escaped), puts_(w, escaped);
        else ts_jw_raw(w, s, (size_t)n);
        s += n ? n : 1;
        left -= (size_t)(n ? n : 1);
    }
    puts_(w, "\"");
}

void ts_jw_text(ts_jw *w, const char *key, const char *value)
{
    name(w, key);
    if (value) quoted(w, value);
    else puts_(w, "null");
}

void ts_jw_num(ts_jw *w, const char *key, double value)
{
    char s[40];
    name(w, key);
    snprintf(s, sizeof s, "%.15g", value);
    if (isfinite(value) && strtod(s, NULL) != value) snprintf(s, sizeof s, "%.17g", value);
    puts_(w, isnan(value) ? "\"nan\"" : isinf(value) ? value < 0 ? "\"-inf\"" : "\"inf\"" : s);
}

void ts_jw_int(ts_jw *w, const char *key, int64_t value)
{
    char s[24];
    name(w, key);
    snprintf(s, sizeof s, "%lld", (long long)value);
    puts_(w, s);
}

void ts_jw_bool(ts_jw *w, const char *key, bool value)
{
    name(w, key);
    puts_(w, value ? "true" : "false");
}

void ts_jw_free(ts_jw *w)
{
    free(w->text);
    *w = (ts_jw) { 0 };
}
