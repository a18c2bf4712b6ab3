/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - command-line options by tables: help, conversion, ranges; and errors. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plan.h"
#include "show.h"
#include "touchstone/touchstone.h"

static const char *command = "";

const ts_choice ts_devices[] = { { "cpu", TS_CPU }, { "cuda", TS_CUDA }, { 0 } };

/* ---- errors ---- */

bool ts_fail(const char *format, ...)
{
    char    raw[8192], line[2 * sizeof raw];
    va_list list;
    va_start(list, format);
    vsnprintf(raw, sizeof raw, format, list);
    va_end(list);
    /* Names and paths may be anybody's: one line, and no terminal codes. */
    ts_show(raw, strlen(raw), line, sizeof line);
    fprintf(stderr, "touchstone%s%s: %s\n", *command ? " " : "", command, line);
    return false;
}

void ts_print(FILE *to, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (to) vfprintf(to, format, list);
    va_end(list);
}

bool ts_complain(const char *what, const char *why)
{
    size_t n = 0; /* ts_say writes ? for each byte that is not printable ASCII */
    while (what[n] && (why[n] == what[n] || why[n] == '?')) n++;
    const bool named = !what[n] && (why[n] == ':' || why[n] == '/');
    return ts_fail("%s%s%s", what, named ? "" : ": ", named ? why + n : why);
}

void ts_nearer(const char *word, const char *name, const char **best)
{
    const size_t n = strlen(word);
    const int    d = n > 3 && !strncmp(word, name, n) ? 1 : ts_edit_distance(word, name);
    if ((size_t)(3 * d) > strlen(name) + 1) return;
    if (!*best || d < ts_edit_distance(word, *best)) *best = name;
}

/* ---- help ---- */

/* "a, b or c" */
static const char *names_of(const ts_choice *c, char text[256])
{
    size_t n = 0;
    for (const ts_choice *k = c; k->name; k++)
        n += (size_t)snprintf(text + n, 256 - n, "%s%s",
                              k == c      ? ""
                              : k[1].name ? ", "
                                          : " or ",
                              k->name);
    return text;
}

static void help(const ts_option *options)
{
    for (const ts_option *o = options; o->name; o++) {
        char        left[64], names[256];
        const char *end = strstr(o->help ? o->help : "", " (default");
        if (o->more) {
            help(o->more);
            continue;
        }
        snprintf(left, sizeof left, "%s%s%s", o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        printf("  %-22s %.*s", left, end ? (int)(end - o->help) : (int)strlen(o->help), o->help);
        if (o->choices && o->choices[1].name) printf(": %s", names_of(o->choices, names));
        if (end) printf("%s", end);
        if (o->standard) printf(" (default %s)", o->standard);
        putchar('\n');
    }
}

/* ---- values ---- */

static bool is_u64(const char *text, uint64_t *value)
{
    char *end = NULL;
    errno = 0;
    if (text[0] >= '0' && text[0] <= '9') *value = strtoull(text, &end, 0);
    return end && !*end && !errno;
}

static bool wrong(const char *option, const char *got, const char *expected)
{
    return ts_fail("%s: got '%s', expected %s", option, got, expected);
}

bool ts_parse_u64(const char *option, const char *text, uint64_t *value)
{
    return is_u64(text, value) || wrong(option, text, "an unsigned integer such as 7 or 0x5eed");
}

/* A whole number, or one of units of 1024, such as 128k. */
static bool parse_count(const ts_option *o, const char *text)
{
    const size_t n = strlen(text);
    char         digits[24];
    uint64_t     v = 0;
    const bool   kilo = n > 1 && n < sizeof digits && strspn(text, "0123456789") == n - 1 &&
                      (text[n - 1] == 'k' || text[n - 1] == 'K');
    snprintf(digits, sizeof digits, "%.*s", (int)n - 1, text);
    if (!kilo && !ts_parse_u64(o->name, text, &v)) return false;
    if (kilo) v = is_u64(digits, &v) && v < UINT64_MAX >> 10 ? v << 10 : UINT64_MAX;
    *o->count = (int64_t)v;
    return ((double)v >= o->range[0] && (double)v <= o->range[1]) ||
           ts_fail("%s: got '%s', expected %.0f to %.0f", o->name, text, o->range[0], o->range[1]);
}

static bool parse_real(const ts_option *o, const char *text)
{
    char *end;
    *o->real = strtod(text, &end);
    return (*text && !*end && *o->real >= o->range[0] && *o->real <= o->range[1]) ||
           ts_fail("%s: got '%s', expected %g to %g", o->name, text, o->range[0], o->range[1]);
}

static bool parse_choice(const ts_option *o, const char *text)
{
    char             names[256];
    const ts_choice *c = o->choices;
    while (c->name && strcmp(c->name, text)) c++;
    if (c->name) *(int *)o->to = c->value;
    return c->name || wrong(o->name, text, names_of(o->choices, names));
}

static bool add_text(const ts_option *o, const char *text)
{
    int at = 0;
    while (o->texts[at]) at++;
    if (at == TS_OPTION_MANY - 1) return ts_fail("%s: got more than %d values", o->name, at);
    o->texts[at] = text;
    return *text || ts_complain(o->name, "got an empty text");
}

static bool store(const ts_option *o, const char *text)
{
    if (o->flag) *o->flag = true;
    if (o->text) *o->text = text;
    return o->texts     ? add_text(o, text)
           : o->count   ? parse_count(o, text)
           : o->seed    ? ts_parse_u64(o->name, text, o->seed)
           : o->real    ? parse_real(o, text)
           : o->choices ? parse_choice(o, text)
           : o->parse   ? o->parse(text, o->to) || wrong(o->name, text, o->expected)
                        : true;
}

/* ---- the command line ---- */

static void store_defaults(const ts_option *options)
{
    for (const ts_option *o = options; o->name; o++)
        if (o->more) store_defaults(o->more);
        else if (o->standard) store(o, o->standard);
}

/* NULL: none has this name; then *near may be one that is meant. */
static const ts_option *find(const ts_option *options, const char *name, const char **near)
{
    for (const ts_option *o = options; o->name; o++) {
        const ts_option *found = o->more ? find(o->more, name, near) : NULL;
        if (found) return found;
        if (!o->more && !strcmp(o->name, name)) return o;
        if (!o->more) ts_nearer(name, o->name, near);
    }
    return NULL;
}

bool ts_options(int argc, char **argv, const char *usage, const ts_option *options,
                const char **operand, int most, int *status)
{
    int n = 0;
    command = argv[0];
    *status = TS_EXIT_USAGE;
    store_defaults(options);
    for (int i = 1; i < argc; i++) {
        const char      *near = NULL;
        const ts_option *o = find(options, argv[i], &near);
        if (!strcmp(argv[i], "--help")) {
            printf("usage: touchstone %s\n\n", usage);
            help(options);
            printf("  %-22s %s\n", "--help", "print this help");
            *status = TS_EXIT_PASSED;
            return false;
        }
        if (!o && argv[i][0] != '-' && n < most) operand[n++] = argv[i];
        else if (!o)
            return ts_fail("unknown argument '%s'; %s%s%stry --help", argv[i],
                           near ? "did you mean " : "", near ? near : "", near ? "; " : "");
        else if (o->value && i + 1 == argc)
            return ts_fail("%s: got no value, expected %s", o->name, o->value);
        else if (!store(o, o->value ? argv[++i] : NULL)) return false;
        else if (o->given) *o->given = true;
    }
    return true;
}
