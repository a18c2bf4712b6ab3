/* SPDX-License-Identifier: Apache-2.0 */
/* ask.c - runs a player on its own stack, and switches back to Python wherever it calls the
 * entrant: see ask.h. */
#define _GNU_SOURCE
#include "ask.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "challenges.h"

enum { STACK_BYTES = 1 << 20, ARGS_BYTES = 512 };

#define PLAIN(name)
#define SCRIPT(name) extern const ts_python ts_python_##name;
TS_CHALLENGES(PLAIN, SCRIPT)

/* Functions that runner.py calls. */
TS_API int ts_player_start(const char *challenge, const void *args);
TS_API int ts_player_next(int status);
ts_asked   ts_player_asked;

static struct {
    const ts_player *player;
    const ts_python *python;
    _Alignas(16) unsigned char args[ARGS_BYTES];
    ucontext_t runner, own;
    bool       playing;
    int        status; /* of the requested call; at the end, of the script */
} now;
static _Alignas(64) unsigned char stack[STACK_BYTES];

/* ---- requests ---- */

void ts_ask_begin(const char *name, int object, ts_refusals r)
{
    ts_asked *const a = &ts_player_asked;
    snprintf(a->name, sizeof a->name, "%s", name);
    a->object = object;
    a->drop = a->ragged = a->n_given = a->n_back = 0;
    a->refusal[0] = (int32_t)r.value, a->refusal[1] = (int32_t)r.memory;
    a->refusal[2] = (int32_t)r.key, a->refusal[3] = (int32_t)r.arithmetic;
}

ts_value *ts_give(const char *name, int kind)
{
    ts_value *const v = &ts_player_asked.given[ts_player_asked.n_given++];
    *v = (ts_value) { .kind = kind };
    snprintf(v->name, sizeof v->name, "%s", name);
    return v;
}

void ts_give_integer(const char *name, int64_t v)
{
    ts_give(name, TS_INTEGER)->integer = v;
}

void ts_give_real(const char *name, double v)
{
    ts_give(name, TS_REAL)->real = v;
}

void ts_give_text(const char *name, const char *text)
{
    ts_give(name, TS_TEXT)->data = text;
}

void ts_give_array(const char *name, int kind, ts_value array)
{
    ts_value *const v = ts_give(name, kind);
    memcpy(array.name, v->name, sizeof array.name);
    array.kind = kind;
    *v = array;
}

ts_value *ts_back(int kind, const void *to)
{
    ts_value *const v = &ts_player_asked.back[ts_player_asked.n_back++];
    *v = (ts_value) { .kind = kind, .data = to };
    return v;
}

void ts_back_array(ts_value array)
{
    array.kind = TS_VIEW;
    *ts_back(TS_VIEW, NULL) = array;
}

char ts_letter(ts_dtype t)
{
    return "fdeHBBi"[t];
}

ts_value ts_array(char letter, const void *p, int n_axes, int64_t a, int64_t b, int64_t c)
{
    return (ts_value) { .letter = letter, .data = p, .n_axes = n_axes, .extent = { a, b, c } };
}

/* ---- two stacks ---- */

ts_status ts_ask(void)
{
    swapcontext(&now.own, &now.runner);
    return (ts_status)now.status;
}

/* A shared mapping, which counts as address space and not as data: the player reserves state there
 * that a Python object does not use, so its pages are never touched. */
static void *room(size_t n)
{
    static void  *have;
    static size_t n_have;
    if (n <= n_have) return have;
    if (n_have) munmap(have, n_have);
    have = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    n_have = have == MAP_FAILED ? 0 : n;
    return n_have ? have : NULL;
}

static void play(void)
{
    const void *const table = now.python->table;
    ts_exec           x = { .device = TS_CPU, .n_threads = 1, .deterministic = 1 };
    ts_status         s = now.player->workspace(table, now.args, &x, &x.workspace_bytes);
    if (!s && x.workspace_bytes && !(x.workspace = room(x.workspace_bytes))) s = TS_E_WORKSPACE;
    if (!s) s = now.player->play(table, &ts_by_value, now.args, &x);
    now.status = (int)s;
    now.playing = false;
}

/* 1: the challenge has no script. */
int ts_player_start(const char *challenge, const void *args)
{
    now.player = ts_player_of(challenge);
    now.python = NULL;
#undef SCRIPT
#define SCRIPT(name)                                                                               \
    if (!strcmp(challenge, #name)) now.python = &ts_python_##name;
    TS_CHALLENGES(PLAIN, SCRIPT)
    if (!now.python) return 1;
    memcpy(now.args, args, sizeof now.args);
    now.python->begin(now.args);
    getcontext(&now.own);
    now.own.uc_stack.ss_sp = stack;
    now.own.uc_stack.ss_size = sizeof stack;
    now.own.uc_link = &now.runner;
    makecontext(&now.own, play, 0);
    now.playing = true;
    return 0;
}

/* Continues with the status of the requested call. -1: there is another request, see
 * ts_player_asked; otherwise the script has ended with this status. */
int ts_player_next(int status)
{
    now.status = status;
    swapcontext(&now.runner, &now.own);
    return now.playing ? -1 : now.status;
}
