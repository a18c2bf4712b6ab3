/* SPDX-License-Identifier: Apache-2.0 */
/* cli.h - what the program's commands share: exit statuses, options, JSON, plots. */
#ifndef TS_CLI_H
#define TS_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Exit statuses of the program. */
enum { TS_EXIT_PASSED = 0, TS_EXIT_FAILED = 1, TS_EXIT_USAGE = 2, TS_EXIT_BROKEN = 3 };

/* ---- errors ---- */

/* Prints "touchstone COMMAND: ..." as one line on standard error; returns false. */
bool ts_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* ts_fail("WHAT: WHY"); a `why` that begins with `what` does not repeat it: a reader names the file
 * that it cannot open, or a file in a folder. */
bool ts_complain(const char *what, const char *why);

/* fprintf, unless `to` is NULL: tables are not printed if JSON goes to standard output. */
void ts_print(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- options ---- */

typedef struct ts_choice {
    const char *name; /* NULL ends a list */
    int         value;
} ts_choice;

/* A row of a command's table: what an option is called, takes, and where its value goes. One of
 * flag, text, texts, count, seed, real and `to` is set, and says the kind. */
typedef struct ts_option {
    const char *name;     /* "--task"; NULL ends the table */
    const char *value;    /* placeholder in --help: "NAME"; NULL: a flag */
    const char *standard; /* the default as one would type it, stored first; NULL: none */
    const char *help;     /* --help adds choices and default */

    bool        *flag;
    const char **text;
    const char **texts; /* repeatable: [TS_OPTION_MANY], NULL after the last */
    int64_t     *count; /* within range; 8k is 8192 */
    uint64_t    *seed;
    double      *real;     /* within range */
    double       range[2]; /* least, most */
    void        *to;       /* an enum, which gets the value of one of `choices`; or for `parse` */

    const ts_choice *choices;
    bool (*parse)(const char *text, void *to); /* false: not what is `expected` */
    const char *expected;

    bool                   *given; /* whether it was; may be NULL */
    const struct ts_option *more;  /* instead of all but a name, which is "": the rows of a table */
} ts_option;

enum { TS_OPTION_MANY = 9 };

extern const ts_choice ts_devices[]; /* cpu, cuda */

/* Stores the defaults, then what the command line has; up to `most` operands, NULL after the last.
 * True: continue; *status is TS_EXIT_USAGE, for further checks. False: --help or one error line was
 * printed, and the caller returns *status. */
bool ts_options(int argc, char **argv, const char *usage, const ts_option *options,
                const char **operand, int most, int *status);

/* Decimal or 0x number; one line on standard error and false if it is not one. */
bool ts_parse_u64(const char *option, const char *text, uint64_t *value);

/* Sets *best to `name` if that is near to `word`, and nearer than *best, which may be NULL. */
void ts_nearer(const char *word, const char *name, const char **best);

/* The first readable path of `places`, a NULL-terminated list relative to the program's folder. */
bool ts_find(const char *const *places, char *path, size_t n);

/* JSON output: a thin layer over jansson. Without jansson ts_json_open fails, and every other call
 * accepts NULL and does nothing, so that callers need no #if. */

typedef struct json_t ts_json;

/* False and one line on standard error if the program was built without jansson. `path` may be
 * NULL: then *root is NULL and nothing is written. */
bool     ts_json_open(const char *path, ts_json **root);
void     ts_json_text(ts_json *o, const char *key, const char *value);
void     ts_json_textn(ts_json *o, const char *key, const char *value, size_t n); /* UTF-8 */
void     ts_json_number(ts_json *o, const char *key, double value);
void     ts_json_int(ts_json *o, const char *key, int64_t value);
void     ts_json_bool(ts_json *o, const char *key, bool value);
ts_json *ts_json_object(ts_json    *o,
                        const char *key); /* a new object under key; in an array, key NULL */
ts_json *ts_json_array(ts_json *o, const char *key);
/* Where tables go: standard output, or `instead` if JSON goes there. */
FILE *ts_json_beside(const char *path, FILE *instead);
/* Writes the document to `path` ("-": standard output) and frees it. */
bool ts_json_close(const char *path, ts_json *root);

/* ---- plots ---- */

typedef struct ts_series {
    const char   *name;
    const double *y; /* one per x; a value <= 0 is drawn on the lower edge */
} ts_series;

/* A log-log line plot. */
typedef struct ts_plot {
    const char      *title, *x_title, *y_title;
    const double    *x;
    int              n; /* of x */
    const ts_series *series;
    int              n_series;
} ts_plot;

/* A stand-alone SVG file of n plots; false and one line on standard error on failure. */
bool ts_svg_write(const char *path, const ts_plot *p, int n);
/* A file of one plot, with a limit that its series are compared with: a black line, no markers. */
bool ts_svg_write_under(const char *path, const ts_plot *p, const ts_series *limit);
/* Draws the plot into a page. */
void ts_svg_draw(FILE *f, const ts_plot *p);

/* A chart of dots: a row per label, in each a dot per series, over a logarithmic axis. */
typedef struct ts_dots {
    const char        *title, *x_title;
    const char *const *series; /* names; a dot's look is its series' */
    int                n_series;
    const char *const *label; /* [n] */
    const double      *value; /* [n][n_series]; a NaN is no dot, a value <= 0 is on the left edge */
    int                n;
    double             mark; /* a line that all dots are compared with */
    const char        *mark_name;
} ts_dots;

bool ts_svg_dots(const char *path, const ts_dots *d);

/* A stand-alone file for another drawing. NULL, or false, and one line on standard error on
 * failure. It follows the reader's colour scheme in these colours: fill white, #222 and #000000,
 * stroke #444, #e4e4e4 and #000000, #0072b2 in both, and those that suit any background. */
FILE *ts_svg_open(const char *path, int width, int height);
bool  ts_svg_close(FILE *f, const char *path);

/* Writes text with XML escapes. */
void ts_svg_text(FILE *f, const char *s);

#endif
