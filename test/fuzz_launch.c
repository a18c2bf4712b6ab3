/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_launch.c - fuzzes launch plans and scopes.
 *
 * The first byte selects a reader: JSON, the plan's text, or the scope of an entrant. What is read
 * is evaluated, and the results must be within the limits. */
#include "fuzz.h"
#include "json.h"
#include "launch.h"
#include "reader.h"
#include "scope.h"

static const ts_launch_env env = {
    .n = 9,
    .v = { { .name = "rows", .kind = TS_ENV_INTEGER, .i = 7 },
           { .name = "k", .kind = TS_ENV_INTEGER, .i = 64 },
           { .name = "n", .kind = TS_ENV_INTEGER, .i = 0 },
           { .name = "m", .kind = TS_ENV_INTEGER, .i = INT64_MIN },
           { .name = "x.stride", .kind = TS_ENV_INTEGER, .i = INT64_MAX },
           { .name = "t", .kind = TS_ENV_REAL, .d = 1.25 },
           { .name = "h", .kind = TS_ENV_REAL, .d = 1e300 },
           { .name = "x", .kind = TS_ENV_POINTER, .p = UINT64_MAX - 4096 },
           { .name = "workspace", .kind = TS_ENV_POINTER, .p = 0 } },
    .dtype = "bf16",
};

static void must_fit(const ts_step *s)
{
    must(s->kernel[0] && strlen(s->kernel) <= TS_LAUNCH_KERNEL);
    if (!s->applies || s->empty) return;
    const uint64_t threads = (uint64_t)s->block[0] * s->block[1] * s->block[2];
    must(threads >= 1 && threads <= TS_LAUNCH_THREADS && s->shared_bytes <= TS_LAUNCH_SHARED);
    must(s->grid[0] >= 1 && s->grid[0] <= INT32_MAX);
    for (int d = 1; d < 3; d++) must(s->grid[d] >= 1 && s->grid[d] <= 65535);
    must(s->n_args >= 0 && s->n_args <= TS_LAUNCH_ARGS);
    for (int i = 0; i < s->n_args; i++) must(s->arg_bytes[i] == 4 || s->arg_bytes[i] == 8);
}

/* Whether it was read. */
static bool evaluate(const char *text, size_t n)
{
    char       why[256] = "";
    ts_step    s;
    int64_t    bytes;
    ts_launch *l = ts_launch_read(text, n, why, sizeof why);
    if (!l) return must_be_ascii(why), false;
    const bool known = ts_launch_knows(l, &env, why, sizeof why);
    if (!known) must_be_ascii(why);
    if (ts_launch_workspace(l, &env, &bytes, why, sizeof why))
        must(bytes >= 0 && bytes <= TS_LAUNCH_WORKSPACE);
    else must_be_ascii(why);
    must(ts_launch_steps(l) >= 1 && ts_launch_steps(l) <= TS_LAUNCH_STEPS);
    for (int i = 0; i < ts_launch_steps(l); i++)
        if (ts_launch_step(l, i, &env, &s, why, sizeof why)) must_fit(&s);
        else {
            must_be_ascii(why);
            must(!known || (!strstr(why, "unknown name") && !strstr(why, "' is a")));
        }
    ts_launch_free(l);
    return true;
}

static void from_json(const char *json, size_t n)
{
    char       what[200], text[TS_LAUNCH_BYTES + 1];
    ts_refusal why;
    ts_jr_doc *doc = ts_jr_parse(json, n, what, sizeof what);
    if (!doc) return;
    if (ts_launch_from_json(ts_jr_root(doc), text, sizeof text, &why))
        must(evaluate(text, strlen(text)));
    else {
        must_be_plain(why.text);
        must(!strcmp(why.reason, "launch"));
    }
    ts_jr_free(doc);
}

static void scope(const char *text, size_t n)
{
    char       copy[TS_ENTRANT_OFFERS + 1] = { 0 };
    ts_refusal why = { 0 };
    ts_scope   s;
    memcpy(copy, text, n < TS_ENTRANT_OFFERS ? n : TS_ENTRANT_OFFERS);
    for (const char *p = copy; *p; p++)
        if (*p < ' ' || *p > '~') return; /* ts_offers_ok lets nothing else through */
    if (ts_scope_read(copy, ts_tasks[n % 2], TS_CPU, &s, &why)) must(s.share > 0 && s.share <= 1);
    else must_be_plain(why.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    char *copy = exact(data + 1, n - 1);
    if (data[0] % 3 == 0) from_json(copy, n - 1);
    else if (data[0] % 3 == 1) evaluate(copy, n - 1);
    else scope(copy, n - 1);
    free(copy);
    return 0;
}
