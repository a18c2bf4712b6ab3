/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - each challenge with the library's implementations, its API and its mutants. */
#include "registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_module.h"
#include "entries.h"
#include "player.h"
#include "tool.h"

/* Baselines in kernel/softmax_topk. */
ts_status ts_softmax_topk_textbook(const void *a, const ts_exec *x);
ts_status ts_softmax_topk_textbook_workspace(const void *a, const ts_exec *x, size_t *n_bytes);
ts_status ts_softmax_topk_three_pass(const void *a, const ts_exec *x);
ts_status ts_softmax_topk_three_pass_workspace(const void *a, const ts_exec *x, size_t *n_bytes);

static ts_status play(const ts_player *p, const void *table, const void *a, const ts_exec *x)
{
    if (!x || x->device != TS_CUDA) return p->play(table, NULL, a, x);
    if (ts_cuda_unavailable_reason()) return TS_E_DEVICE;
    const ts_cuda_module_ops *cuda = ts_cuda_ops();
    const ts_mover m = { cuda->copy_in, cuda->copy_out, cuda->copy_within, cuda->fill, false };
    return p->play(table, &m, a, x);
}

#define DECLARE(name)                                                                              \
    extern const ts_task   ts_task_##name;                                                         \
    extern const ts_impl   ts_##name##_impls[];                                                    \
    extern const ts_mutant ts_##name##_mutants[];

#define PLAIN(name)                                                                                \
    DECLARE(name)                                                                                  \
    struct ts_##name##_args;                                                                       \
    ts_status ts_##name(const struct ts_##name##_args *, const ts_exec *);                         \
    ts_status ts_##name##_workspace(const struct ts_##name##_args *, const ts_exec *, size_t *);   \
    ENTRY(ts_##name)                                                                               \
    QUERY(ts_##name##_workspace)

#define SCRIPT(name)                                                                               \
    DECLARE(name)                                                                                  \
    extern const ts_player ts_player_##name;                                                       \
    static ts_status       any_ts_##name(const void *a, const ts_exec *x)                          \
    {                                                                                              \
        return play(&ts_player_##name, ts_##name##_entries, a, x);                                 \
    }                                                                                              \
    static ts_status any_ts_##name##_workspace(const void *a, const ts_exec *x, size_t *n)         \
    {                                                                                              \
        return ts_player_##name.workspace(ts_##name##_entries, a, x, n);                           \
    }
TS_CHALLENGES(PLAIN, SCRIPT)

#define ROW(name)                                                                                  \
    { &ts_task_##name, ts_##name##_impls, any_ts_##name, any_ts_##name##_workspace,                \
      ts_##name##_mutants },
const ts_challenge ts_challenges[] = { TS_CHALLENGES(ROW, ROW) { 0 } };

ts_function ts_function_of(const ts_challenge *ch, const ts_impl *row)
{
    unsigned mask = 0;
    for (const ts_impl *r = row; r->name; r++) mask |= r->needs;
    return (ts_function) { .name = row->name,
                           .device = row->device,
                           .dtypes = row->dtypes,
                           .mask = mask,
                           .run = ch->run,
                           .workspace = ch->workspace };
}

const ts_function *ts_baselines_of(const ts_challenge *ch)
{
    enum { FAST = TS_HAS_F32 | TS_HAS_BF16 | TS_HAS_F16 };
    static const ts_function none[] = { { 0 } };
    static const ts_function of_softmax_topk[] = {
        { "three_pass", TS_CPU, FAST, ~0u, ts_softmax_topk_three_pass,
          ts_softmax_topk_three_pass_workspace, false, false },
        { "textbook", TS_CPU, FAST, ~0u, ts_softmax_topk_textbook,
          ts_softmax_topk_textbook_workspace, false, false },
        { 0 },
    };
    return ch->task == &ts_task_softmax_topk ? of_softmax_topk : none;
}

bool ts_task_matches(const ts_task *t, const char *filter)
{
    const size_t n = filter ? strlen(filter) : 0;
    return !filter || (!strncmp(t->name, filter, n) && (t->name[n] == 0 || t->name[n] == '_'));
}

bool ts_task_known(const char *option, const char *filter, bool challenge)
{
    char        names[1024];
    size_t      n = 0;
    const char *near = NULL;
    for (const ts_task *const *t = ts_tasks; *t; t++) {
        if (challenge && filter ? !(*t)->no_challenge && !strcmp((*t)->name, filter)
                                : ts_task_matches(*t, filter))
            return true;
        if (challenge && (*t)->no_challenge) continue;
        ts_nearer(filter, (*t)->name, &near);
        n += (size_t)snprintf(names + n, sizeof names - n, "%s %s", n ? "," : "", (*t)->name);
    }
    return ts_fail("%s: got '%s', expected one of%s%s%s", option, filter, names,
                   near ? "; did you mean " : "", near ? near : "");
}

bool ts_case_seed(const char *filter, bool *given, uint64_t *seed)
{
    *given = false;
    for (const char *at = filter ? strchr(filter, '@') : NULL; at; at = strchr(at + 1, '@')) {
        char         text[32];
        uint64_t     value;
        const size_t n = strcspn(at + 1, "|");
        snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : sizeof text - 1), at + 1);
        if (!ts_parse_u64("--case ...@", text, &value)) return false;
        if (*given && value != *seed)
            return ts_fail("--case: got two seeds, expected one for all names");
        *given = true;
        *seed = value;
    }
    return true;
}

bool ts_case_matches(const ts_task *t, const ts_case *c, const char *filter)
{
    char name[256], part[256];
    ts_case_string(t, c, 0, name, sizeof name);
    name[strcspn(name, "@")] = 0;
    for (bool more = filter != NULL; more;) {
        const size_t n = strcspn(filter, "|@"), whole = strcspn(filter, "|");
        if (n >= sizeof part) return false;
        memcpy(part, filter, n);
        part[n] = 0;
        /* A name with a seed is complete and selects one case. */
        if (filter[n] == '@' ? !strcmp(name, part) : strstr(name, part) != NULL) return true;
        more = filter[whole] == '|';
        filter += whole + 1;
        if (!more) return false;
    }
    return true;
}

bool ts_case_find(const char **only)
{
    static char    name[192];
    const char    *at = strrchr(*only, '@');
    const size_t   n = strcspn(*only, "@");
    char          *end = NULL;
    const uint64_t seed = at ? strtoull(at + 1, &end, 0) : 0;
    for (int t = 0; ts_tasks[t]; t++) {
        ts_case  c;
        uint64_t unused;
        if (!ts_case_read(ts_tasks[t], *only, &c, &unused)) continue;
        ts_case_string(ts_tasks[t], &c, seed, name, sizeof name);
        if (strcspn(name, "@") != n || strncmp(name, *only, n)) continue;
        if (!at) return ts_fail("--case: got %s without a seed, expected %s@0x...", *only, *only);
        if (*only + n == at && at[1] && !*end) return *only = name, true;
    }
    return ts_fail(
        "--case: got '%s', expected NAME@SEED with a NAME of 'touchstone list cases', or "
        "of a verdict",
        *only);
}
