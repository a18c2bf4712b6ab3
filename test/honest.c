/* SPDX-License-Identifier: Apache-2.0 */
/* honest.c - tests that the judge passes every correct entrant of proof/honest/ and
 * contest/entrant/, in every case of `check`.
 *
 * A reject is a bug, of the entrant or of the judge.
 *
 *     honest [-n PART] [-t THREADS] [-s SECONDS] [-l FOLDER] [NAME...]
 *
 * -n 1/8: every eighth case. -t 64: with so many threads, not with 1, 2 and 3 in turn. -s: again
 * with fresh seeds until the time is up. -l: only lay them out in FOLDER, as entrants are handed
 * in. Python entrants run in the interpreter that test/python.sh finds; where it finds none, they
 * are skipped. */
#define _GNU_SOURCE
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "build.h"
#include "cage.h"
#include "clock.h"
#include "scope.h"
#include "selfcheck.h"
#include "show.h"

enum { MAX_ENTRANTS = 128, LIMIT_MS = 30000 };

static char python[4096];        /* "": none has NumPy */
static int  part = 1, n_threads; /* 0: in turn */

typedef struct tally {
    long cases, calls, refusals, unsupported, wrong;
} tally;

typedef struct entrant {
    char       path[512], name[256];
    ts_entrant e;
    ts_built   built;
    bool       ready;
    ts_errors  errors;
    double     seconds;
    tally      n;
} entrant;

static entrant list[MAX_ENTRANTS];
static int     n_list;

/* ---- laying them out: with keys.h as a folder, else as one file that holds honest.h ---- */

static FILE *open_or_exit(const char *path, const char *mode)
{
    FILE *f = fopen(path, mode);
    if (f) return f;
    perror(path);
    exit(3);
}

static void append(FILE *to, const char *from)
{
    char   buffer[4096];
    FILE  *f = open_or_exit(from, "rb");
    size_t n;
    while ((n = fread(buffer, 1, sizeof buffer, f))) fwrite(buffer, 1, n, to);
    fclose(f);
}

static void copy(const char *from, const char *to)
{
    FILE *f = open_or_exit(to, "wb");
    append(f, from);
    fclose(f);
}

static bool mentions(const char *path, const char *what)
{
    char  line[512];
    bool  found = false;
    FILE *f = open_or_exit(path, "r");
    while (fgets(line, sizeof line, f)) found |= strstr(line, what) != NULL;
    fclose(f);
    return found;
}

static void lay_single(const char *from, const char *to)
{
    char  line[512];
    FILE *f = open_or_exit(from, "r"), *g = open_or_exit(to, "w");
    while (fgets(line, sizeof line, f))
        if (strstr(line, "#include \"honest.h\""))
            append(g, TS_TEST_SOURCE "/proof/honest/honest.h");
        else fputs(line, g);
    fclose(f);
    fclose(g);
}

static void lay_keys(const char *from, const char *file, const char *folder)
{
    char to[1400];
    mkdir(folder, 0755);
    snprintf(to, sizeof to, "%s/%s", folder, file);
    copy(from, to);
    snprintf(to, sizeof to, "%s/honest.h", folder);
    copy(TS_TEST_SOURCE "/proof/honest/honest.h", to);
    snprintf(to, sizeof to, "%s/keys.h", folder);
    copy(TS_TEST_SOURCE "/proof/honest/keys.h", to);
    snprintf(to, sizeof to, "%s/entry.json", folder);
    FILE *f = open_or_exit(to, "w");
    fprintf(f,
            "{\"name\": \"%.*s\", \"author\": \"touchstone\", \"challenge\": \"softmax_topk\", "
            "\"class\": \"sealed\", \"language\": \"c\", "
            "\"sources\": [\"%s\", \"honest.h\", \"keys.h\"]}\n",
            (int)strcspn(file, "."), file, file);
    fclose(f);
}

static void lay_folder(const char *from, const char *folder)
{
    char           path[1400], to[1400];
    struct dirent *d;
    DIR           *dir = opendir(from);
    mkdir(folder, 0755);
    while (dir && (d = readdir(dir))) {
        if (*d->d_name == '.' || !strcmp(d->d_name, "__pycache__")) continue;
        snprintf(path, sizeof path, "%s/%s", from, d->d_name);
        snprintf(to, sizeof to, "%s/%s", folder, d->d_name);
        copy(path, to);
    }
    if (dir) closedir(dir);
    snprintf(to, sizeof to, "%s/honest.h", folder);
    copy(TS_TEST_SOURCE "/proof/honest/honest.h", to);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const entrant *)a)->path, ((const entrant *)b)->path);
}

static void lay_out(const char *from, const char *where)
{
    struct dirent *d;
    DIR           *dir = opendir(from);
    while (dir && (d = readdir(dir)) && n_list < MAX_ENTRANTS) {
        struct stat st;
        char        path[700];
        entrant    *e = &list[n_list];
        snprintf(path, sizeof path, "%s/%s", from, d->d_name);
        if (*d->d_name == '.' || strstr(d->d_name, ".h") || stat(path, &st)) continue;
        snprintf(e->path, sizeof e->path, "%.200s/%s%.200s", where,
                 strstr(from, "numpy") ? "numpy_" : "", d->d_name);
        snprintf(e->name, sizeof e->name, "%s", strrchr(e->path, '/') + 1);
        if (S_ISDIR(st.st_mode)) lay_folder(path, e->path);
        else if (mentions(path, "#include \"keys.h\"")) {
            *strrchr(e->path, '.') = 0;
            lay_keys(path, d->d_name, e->path);
        } else lay_single(path, e->path);
        n_list++;
    }
    if (dir) closedir(dir);
}

/* ---- running cases ---- */

static void reject(entrant *e, const ts_case *c, const ts_task *t, uint64_t seed, const char *what,
                   const ts_call *r, const ts_flaw *f)
{
    char name[256], said[256];
    ts_case_string(t, c, seed, name, sizeof name);
    ts_show(r->stderr_tail, strnlen(r->stderr_tail, sizeof r->stderr_tail), said, sizeof said);
    printf("REJECT %s: %s: %s: status %d, %s", e->name, name, what, r->status, r->text);
    if (r->early)
        printf("; took %.0f us, CPU before %.1f us, after %.1f us, outside %.1f us", r->ns / 1e3,
               r->cpu_before_ns / 1e3, r->cpu_after_ns / 1e3, r->cpu_outside_ns / 1e3);
    if (f->fault)
        printf("; %s %s[%lld][%lld] got %.9g, want %.9g +- %.3g", ts_fault_name(f->fault), f->what,
               (long long)f->row, (long long)f->col, f->got, f->want, f->bound);
    printf("; %s\n", said);
    fflush(stdout);
    e->n.wrong++;
}

static void ask(entrant *e, ts_cage *k, int slot, const ts_task *t, const ts_case *c, bool again)
{
    uint64_t seed;
    ts_call  r = { 0 };
    ts_flaw  f = { 0 };
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) exit(3);
    const void *args = ts_cage_fill(k, slot, seed);
    ts_want    *want = calloc(t->n_want(c) + 1, sizeof *want);
    if (!want) exit(3);
    t->oracle(c, args, want);
    e->n.cases++;
    bool ok = e->e.cls == TS_PYTHON || ts_cage_workspace(k, slot, &r);
    if (ok && !r.status) ok = ts_cage_call(k, slot, &r);
    e->n.calls++;
    if (!ok) reject(e, c, t, seed, ts_call_reason(&r), &r, &r.flaw);
    else if (r.status && c->dtype == TS_F64 &&
             (r.status == TS_E_DTYPE || r.status == TS_E_UNSUPPORTED))
        e->n.unsupported++;
    else if (r.status) reject(e, c, t, seed, "status", &r, &f);
    else if (r.fp_changed) reject(e, c, t, seed, "fp", &r, &f);
    else if (!ts_arena_intact(ts_cage_arena(k, slot), &f) ||
             !t->check(c, args, want, &f, &e->errors))
        reject(e, c, t, seed, "wrong", &r, &f);
    else if (again) {
        const uint64_t bits = ts_arena_output_hash(ts_cage_arena(k, slot));
        e->n.calls++;
        if (!ts_cage_call(k, slot, &r)) reject(e, c, t, seed, ts_call_reason(&r), &r, &r.flaw);
        else if (ts_arena_output_hash(ts_cage_arena(k, slot)) != bits)
            reject(e, c, t, seed, "repeat", &r, &f);
    }
    free(want);
}

static void ask_invalid(entrant *e, ts_cage *k, int slot, const ts_task *t, const ts_case *c)
{
    unsigned char args[TS_CALL_ARGS];
    ts_exec       x;
    ts_status     must;
    const void   *sound = ts_cage_fill(k, slot, 1);
    for (int i = 0;; i++) {
        ts_call r;
        ts_flaw f = { 0 };
        memcpy(args, sound, t->args_bytes);
        ts_cage_exec(k, slot, &x);
        if (!ts_task_spoil(t, i, args, &x, &must)) return;
        e->n.refusals++;
        if (!ts_cage_call_with(k, slot, args, &x, &r))
            reject(e, c, t, (uint64_t)i, ts_call_reason(&r), &r, &r.flaw);
        else if (r.status != must || !ts_arena_outputs_untouched(ts_cage_arena(k, slot), &f))
            reject(e, c, t, (uint64_t)i, "refusal", &r, &f);
    }
}

static void ask_block(entrant *e, const ts_task *t, const ts_case *const *c, int n, int threads,
                      bool invalid)
{
    char         why[256], object[256], folder[128];
    ts_cage_plan p = { .class = e->e.cls,
                       .object = object,
                       .task = t,
                       .n_slots = n,
                       .n_threads = threads,
                       .memory_bytes = (size_t)1 << 30,
                       .workspace_bytes = (size_t)64 << 20,
                       .limit_ms = LIMIT_MS };
    memcpy(p.slot, c, (size_t)n * sizeof *c);
    snprintf(folder, sizeof folder, "%s/src", e->built.folder);
    snprintf(object, sizeof object, "/proc/self/fd/%d", e->built.object);
    if (e->e.cls == TS_PYTHON) {
        snprintf(object, sizeof object, "%.60s/%s", folder, ts_entrant_main(&e->e)->name);
        p.folder = folder, p.python = python, p.runner = TS_TEST_RUNNER;
    }
    ts_cage *k = ts_cage_start(&p, why, sizeof why);
    if (!k) {
        printf("REJECT %s: no cage: %s\n", e->name, why);
        e->n.wrong++;
        return;
    }
    for (int i = 0; i < n; i++) ask(e, k, i, t, c[i], i % 8 == 0);
    for (int i = 0; i < n && invalid && e->e.cls != TS_PYTHON; i++) {
        if (c[i]->dim[0] < 1 || c[i]->dim[1] < 1 || (t->dim_name[2][0] == 'k' && !c[i]->dim[2]))
            continue; /* of nothing, pointers need not be there */
        ask_invalid(e, k, i, t, c[i]);
        break;
    }
    ts_cage_stop(&k);
}

static void ask_all(entrant *e, int round)
{
    const ts_task *t = ts_task_called(e->e.task);
    const ts_case *block[TS_MAX_SLOTS];
    int            n = 0, n_blocks = 0, at = 0;
    const double   begin = ts_seconds();
    const ts_scope scope = { .lacks = e->built.lacks }; /* optional functions that it has not */
    for (const ts_case *c = t->cases();; c++) {
        /* Always the one that takes the most addresses. */
        const bool wanted = (c->use & TS_USE_CHECK) && ts_scope_takes(&scope, t, c) &&
                            ((at++ + round) % part == 0 || !strcmp(c->family, "far"));
        if (wanted) block[n++] = c;
        if (n && (n == TS_MAX_SLOTS || !c->use)) {
            ask_block(e, t, block, n, n_threads ? n_threads : 1 + (n_blocks + round) % 3,
                      n_blocks == 0);
            n_blocks++;
            n = 0;
        }
        if (!c->use) break;
    }
    e->seconds += ts_seconds() - begin;
}

/* ---- all of it ---- */

static bool chosen(const entrant *e, char **names, int n)
{
    for (int i = 0; i < n; i++)
        if (strstr(e->name, names[i])) return true;
    return n == 0;
}

static void find_python(void)
{
    FILE *f = popen(TS_TEST_SOURCE "/test/python.sh", "r");
    if (!f || !fgets(python, sizeof python, f)) *python = 0;
    python[strcspn(python, "\n")] = 0;
    if (f) pclose(f);
}

static bool prepare(entrant *e)
{
    const bool numpy = *python;
    ts_places  places = { .include = TS_TEST_SOURCE "/include", .runner = TS_TEST_RUNNER };
    ts_refusal why;
    e->built.object = e->built.launch = -1;
    if (!ts_entrant_read(e->path, NULL, &e->e, &why) ||
        (e->e.cls != TS_PYTHON && !ts_build(&e->e, &places, NULL, &e->built, &why)) ||
        (e->e.cls == TS_PYTHON && numpy && !ts_build(&e->e, &places, NULL, &e->built, &why))) {
        printf("REJECT %s: %s: %s\n", e->name, why.reason, why.text);
        e->n.wrong++;
        return false;
    }
    if (e->e.cls == TS_PYTHON && !numpy) printf("skipped %s: no Python with NumPy\n", e->name);
    return e->e.cls != TS_PYTHON || numpy;
}

static int report(void)
{
    tally all = { 0 };
    for (int i = 0; i < n_list; i++) {
        const entrant *e = &list[i];
        if (!e->ready && !e->n.wrong) continue;
        printf("%-24s %-6s %-18s %6ld cases %6ld calls %3ld refusals %4ld unsupported %3ld wrong, "
               "worst %.3f, %.1f s\n",
               e->name, ts_class_name(e->e.cls), e->e.task, e->n.cases, e->n.calls, e->n.refusals,
               e->n.unsupported, e->n.wrong, e->errors.worst, e->seconds);
        all.cases += e->n.cases, all.calls += e->n.calls, all.refusals += e->n.refusals;
        all.unsupported += e->n.unsupported, all.wrong += e->n.wrong;
    }
    printf("all: %ld cases, %ld calls, %ld invalid calls, %ld unsupported (float64), %ld false "
           "rejects\n",
           all.cases, all.calls, all.refusals, all.unsupported, all.wrong);
    return all.wrong != 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)st, (void)type, (void)walk;
    return remove(path);
}

int main(int argc, char **argv)
{
    char         temporary[] = "/tmp/honest-XXXXXX";
    const char  *where = NULL;
    double       limit = 0;
    const double begin = ts_seconds();
    for (int o; (o = getopt(argc, argv, "n:t:s:l:")) != -1;) {
        if (o == 'n' && !strncmp(optarg, "1/", 2)) part = atoi(optarg + 2);
        else if (o == 't') n_threads = atoi(optarg);
        else if (o == 's') limit = atof(optarg);
        else if (o == 'l') where = optarg;
        else return 2;
    }
    if (part < 1 || n_threads < 0) return 2;
    if (where) mkdir(where, 0755);
    if (!where && !mkdtemp(temporary)) return 3;
    lay_out(TS_TEST_SOURCE "/proof/honest", where ? where : temporary);
    lay_out(TS_TEST_SOURCE "/contest/entrant/numpy", where ? where : temporary);
    qsort(list, (size_t)n_list, sizeof *list, by_path);
    if (where) return printf("%d entrants in %s\n", n_list, where) < 0;
    find_python();
    static ts_guarantees machine;
    if (!ts_guarantee_all(&machine)) return puts("skipped: nothing can be judged here"), 77;
    for (int i = 0; i < n_list; i++)
        if (chosen(&list[i], argv + optind, argc - optind)) list[i].ready = prepare(&list[i]);
    for (int round = 0; round == 0 || ts_seconds() - begin < limit; round++)
        for (int i = 0; i < n_list; i++)
            if (list[i].ready && (round == 0 || ts_seconds() - begin < limit))
                ask_all(&list[i], round);
    const int status = report();
    for (int i = 0; i < n_list; i++) {
        if (list[i].ready) ts_built_free(&list[i].built);
        ts_entrant_free(&list[i].e);
    }
    nftw(temporary, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return status;
}
