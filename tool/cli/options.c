/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - command-line options: help, values, numbers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const char *command = "";

const char *ts_command(void)
{
    return command;
}

static void help(const char *usage, const ts_option *options)
{
    printf("usage: touchstone %s\n\n", usage);
    for (const ts_option *o = options; o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        printf("  %-22s %s\n", left, o->help);
    }
    printf("  %-22s %s\n", "--help", "print this help");
}

static const ts_option *find(const ts_option *options, const char *name)
{
    for (const ts_option *o = options; o->name; o++)
        if (!strcmp(o->name, name)) return o;
    return NULL;
}

static bool store(const char *who, const ts_option *o, const char *value)
{
    const size_t n = strlen(o->value);
    int          at = 0;
    if (n > 3 && !strcmp(o->value + n - 3, "..."))
        while (o->text[at]) at++;
    if (at == TS_OPTION_MANY - 1) {
        fprintf(stderr, "touchstone %s: %s: got more than %d values\n", who, o->name, at);
        return false;
    }
    o->text[at] = value;
    return true;
}

bool ts_options(int argc, char **argv, const char *usage, const ts_option *options,
                const char **operand, int *status)
{
    return ts_options_many(argc, argv, usage, options, operand, operand ? 1 : 0, status);
}

bool ts_options_many(int argc, char **argv, const char *usage, const ts_option *options,
                     const char **operand, int most, int *status)
{
    int n = 0;
    command = argv[0];
    *status = TS_EXIT_USAGE;
    for (int i = 1; i < argc; i++) {
        const ts_option *o = find(options, argv[i]);
        if (!strcmp(argv[i], "--help")) {
            help(usage, options);
            *status = TS_EXIT_PASSED;
            return false;
        }
        if (!o && argv[i][0] != '-' && n < most) operand[n++] = argv[i];
        else if (!o) {
            fprintf(stderr, "touchstone %s: unknown argument '%s'; try --help\n", argv[0], argv[i]);
            return false;
        } else if (!o->value) *o->text = o->name;
        else if (i + 1 == argc) {
            fprintf(stderr, "touchstone %s: %s: got no value, expected %s\n", argv[0], o->name,
                    o->value);
            return false;
        } else if (!store(argv[0], o, argv[++i])) return false;
    }
    return true;
}

bool ts_parse_u64(const char *option, const char *text, uint64_t *value)
{
    char *end = NULL;
    errno = 0;
    if (text[0] >= '0' && text[0] <= '9') *value = strtoull(text, &end, 0);
    if (end && !*end && !errno) return true;
    fprintf(stderr,
            "touchstone %s: %s: got '%s', expected an unsigned integer such as 7 or 0x5eed\n",
            command, option, text);
    return false;
}
