/* SPDX-License-Identifier: Apache-2.0 */
/* honest.c - tests that the judge passes every correct entrant of proof/honest/ and
 * contest/entrant/, in every case of `check`.
 *
 * A reject is a bug, of the entrant or of the judge.
 *
 *     honest [-n PART] [-w WAYS] [-t THREADS] [-s SECONDS] [-c CASES] [-k SEED] [-l FOLDER]
 * [NAME...]
 *
 * -n 1/8: every eighth case. -w 1/3: one way in three of each file, by the seed. -t 64: with so
 * many threads, not with 1, 2 and 3 in turn. -s: again with other seeds until the time is up. -c:
 * again until so many cases have been run. -k: the seed of a run, which every run prints. -l: only
 * lay them out in FOLDER, as entrants are handed in. Python entrants run in the interpreter that
 * test/python.sh finds; where it finds none, they are skipped.
 *
 * Every file and folder of proof/honest/ is an entrant. A file whose comment has a line
 *
 *     Ways: NAME...           or       Common ways: NAME...
 *
 * is one for each name, with WAY defined as that name; both lines may be there. Ways that are
 * common keep the usual contract and may break the canon; "-" is the file without WAY. */
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
#include "rng.h"
#include "scope.h"
#include "selfcheck.h"
#include "show.h"

enum { MAX_ENTRANTS = 512, LIMIT_MS = 30000, SLOTS = 32 };

static char     python[4096];                       /* "": none has NumPy */
static int      part = 1, ways_part = 1, n_threads; /* 0: in turn */
static uint64_t key;                                /* of all seeds of this run */

typedef struct tally {
    long cases, calls, refusals, unsupported, common, wrong;
} tally;

typedef struct entrant {
    char       path[512], name[256];
    ts_entrant e;
    ts_built   built;
    bool       ready, common; /* common: it may break rules of the canon */
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

/* The file, with those of proof/honest/ and proof/plain/ that it includes in their places. */
static void lay_text(FILE *to, const char *from)
{
    char  line[512], name[64], path[700];
    FILE *f = open_or_exit(from, "r");
    while (fgets(line, sizeof line, f)) {
        const bool ours = !strchr(line, '/') && sscanf(line, "#include \"%63[^\"]", name) == 1;
        snprintf(path, sizeof path, TS_TEST_SOURCE "/proof/honest/%s", ours ? name : "");
        if (ours && access(path, R_OK))
            snprintf(path, sizeof path, TS_TEST_SOURCE "/proof/plain/%s", name);
        if (ours) lay_text(to, path);
        else fputs(line, to);
    }
    fclose(f);
}

/* Also says which way it goes. */
static void lay_single(const char *from, const char *to, const char *way)
{
    FILE *g = open_or_exit(to, "w");
    if (*way) fprintf(g, strstr(from, ".py") ? "WAY = \"%s\"\n" : "#define WAY %s\n", way);
    lay_text(g, from);
    fclose(g);
}

/* What a folder says of itself. */
static void write_entry(const char *folder, const char *name, const char *task, const char *class,
                        const char *language, const char *sources)
{
    char to[1400];
    snprintf(to, sizeof to, "%s/entry.json", folder);
    FILE *f = open_or_exit(to, "w");
    fprintf(f,
            "{\"name\": \"%.*s\", \"author\": \"touchstone\", \"challenge\": \"%s\", "
            "\"class\": \"%s\", \"language\": \"%s\", \"sources\": [%s]}\n",
            (int)strcspn(name, "."), name, task, class, language, sources);
    fclose(f);
}

static void lay_keys(const char *from, const char *file, const char *folder)
{
    char to[1400], sources[300];
    mkdir(folder, 0755);
    snprintf(to, sizeof to, "%s/%s", folder, file);
    copy(from, to);
    snprintf(to, sizeof to, "%s/honest.h", folder);
    copy(TS_TEST_SOURCE "/proof/honest/honest.h", to);
    snprintf(to, sizeof to, "%s/keys.h", folder);
    copy(TS_TEST_SOURCE "/proof/honest/keys.h", to);
    snprintf(sources, sizeof sources, "\"%s\", \"honest.h\", \"keys.h\"", file);
    write_entry(folder, file, "softmax_topk", "sealed", "c", sources);
}

/* The challenge whose class a Python file contains; NULL: none, and it may be handed in alone. */
static const char *class_in(const char *path)
{
    for (int i = 0; ts_tasks[i] && strstr(path, ".py"); i++) {
        char line[128];
        snprintf(line, sizeof line, "class %s:", ts_tasks[i]->name);
        if (mentions(path, line)) return ts_tasks[i]->name;
    }
    return NULL;
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

static entrant *next_entrant(const char *where, const char *prefix, const char *name)
{
    if (n_list == MAX_ENTRANTS) exit(fprintf(stderr, "honest: more than %d entrants\n", n_list));
    entrant *e = &list[n_list++];
    snprintf(e->path, sizeof e->path, "%.200s/%s%.200s", where, prefix, name);
    snprintf(e->name, sizeof e->name, "%s", strrchr(e->path, '/') + 1);
    return e;
}

static void lay_way(const char *from, const char *name, const char *where, const char *way,
                    bool common)
{
    char              as[300];
    const char *const dot = strrchr(name, '.');
    const bool        itself = !strcmp(way, "-");
    snprintf(as, sizeof as, "%.*s%s%.60s%s", (int)(dot - name), name, itself ? "" : "_",
             itself ? "" : way, dot);
    entrant *e = next_entrant(where, "", as);
    e->common = common;
    const char *const task = class_in(from);
    char              to[1400], source[310];
    snprintf(to, sizeof to, "%s%s%s", e->path, task ? "/" : "", task ? as : "");
    if (task) mkdir(e->path, 0755);
    lay_single(from, to, itself ? "" : way);
    snprintf(source, sizeof source, "\"%s\"", as);
    if (task) write_entry(e->path, as, task, "python", "python", source);
}

/* By the lines of its comment that name ways; the number of ways. */
static int lay_ways(const char *from, const char *name, const char *where)
{
    char  line[512];
    int   n = 0;
    FILE *f = open_or_exit(from, "r");
    while (fgets(line, sizeof line, f)) {
        static const char ways[] = "ays: ";
        const char *const at = strstr(line, ways);
        if (!at || at == line || (at[-1] != 'W' && at[-1] != 'w')) continue;
        const bool common = strstr(line, "Common ways: ") != NULL;
        if (!common && at[-1] != 'W') continue;
        char *rest = line + (at - line) + strlen(ways), *way;
        for (; (way = strtok_r(rest, " \n", &rest)) && strcmp(way, "*/"); n++)
            if (!strcmp(way, "-") || (ts_mix(key) + (uint64_t)n) % (uint64_t)ways_part == 0)
                lay_way(from, name, where, way, common);
    }
    fclose(f);
    return n;
}

static void lay_out(const char *from, const char *where)
{
    struct dirent *d;
    DIR           *dir = opendir(from);
    const char    *prefix = strstr(from, "numpy") ? "numpy_" : "";
    while (dir && (d = readdir(dir))) {
        struct stat st;
        char        path[700];
        snprintf(path, sizeof path, "%s/%s", from, d->d_name);
        if (*d->d_name == '.' || strstr(d->d_name, ".h") || stat(path, &st)) continue;
        if (S_ISDIR(st.st_mode)) lay_folder(path, next_entrant(where, prefix, d->d_name)->path);
        else if (mentions(path, "#include \"keys.h\"")) {
            entrant *e = next_entrant(where, prefix, d->d_name);
            *strrchr(e->path, '.') = 0;
            lay_keys(path, d->d_name, e->path);
        } else if (!lay_ways(path, d->d_name, where)) lay_way(path, d->d_name, where, "-", false);
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

/* Whether a wrong output breaks no more than the canon, which this entrant may. */
static bool excused(entrant *e, const ts_task *t, const ts_case *c, const void *args,
                    const ts_want *want, ts_flaw *f)
{
    ts_errors errors = { 0 };
    if (!e->common || !ts_canon_broken(t, c, args, want, f, &errors)) return false;
    return e->n.common++, true;
}

static void ask(entrant *e, ts_cage *k, int slot, const ts_task *t, const ts_case *c, bool again)
{
    static uint64_t n_seeds;
    const uint64_t  seed = ts_mix(key + n_seeds++);
    ts_call         r = { 0 };
    ts_flaw         f = { 0 };
    const void     *args = ts_cage_fill(k, slot, seed);
    ts_want        *want = calloc(t->n_want(c) + 1, sizeof *want);
    if (!want) exit(3);
    t->oracle(c, args, want);
    e->n.cases++;
    bool ok = e->e.cls == TS_PYTHON || ts_cage_workspace(k, slot, &r);
    if (ok && !r.status) ok = ts_cage_call(k, slot, &r);
    e->n.calls++;
    if (!ok) reject(e, c, t, seed, ts_call_reason(&r), &r, &r.flaw);
    else if (c->dtype != TS_F32 && (r.status == TS_E_DTYPE || r.status == TS_E_UNSUPPORTED))
        e->n.unsupported++;
    else if (r.status) reject(e, c, t, seed, "status", &r, &f);
    else if (r.fp_changed) reject(e, c, t, seed, "fp", &r, &f);
    else if (!ts_arena_intact(ts_cage_arena(k, slot), &f) ||
             (!t->check(c, args, want, &f, &e->errors) && !excused(e, t, c, args, want, &f)))
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

/* The case from which the judge makes its invalid calls, see judge/run/refuse.c. */
static const ts_case *sound_case(const ts_task *t)
{
    const ts_case *c = t->cases();
    while (c->dtype != TS_F32 || c->dim[0] <= 1) c++;
    return c;
}

static void ask_all(entrant *e, int round)
{
    const ts_task *t = ts_task_called(e->e.task);
    const ts_case *block[SLOTS];
    int            n = 0, n_blocks = 0, at = 0;
    const double   begin = ts_seconds();
    const ts_scope scope = { .lacks = e->built.lacks }; /* optional functions that it has not */
    if (!round) block[n++] = sound_case(t);
    for (const ts_case *c = t->cases();; c++) {
        /* Always the one that takes the most addresses. */
        const bool wanted = (c->use & TS_USE_CHECK) && ts_scope_takes(&scope, t, c) &&
                            ((at++ + round) % part == 0 || !strcmp(c->family, "far"));
        if (wanted) block[n++] = c;
        if (n && (n == SLOTS || !c->use)) {
            ask_block(e, t, block, n, n_threads ? n_threads : 1 + (n_blocks + round) % 3,
                      n_blocks + round == 0);
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

static void add_tally(tally *all, const tally *n)
{
    all->cases += n->cases, all->calls += n->calls, all->refusals += n->refusals;
    all->unsupported += n->unsupported, all->common += n->common, all->wrong += n->wrong;
}

static int report(void)
{
    tally all = { 0 };
    int   n = 0;
    for (int i = 0; i < n_list; i++) {
        const entrant *e = &list[i];
        if (!e->ready && !e->n.wrong) continue;
        printf("%-28s %-6s %-18s %6ld cases %6ld calls %3ld refusals %4ld unsupported %4ld common "
               "%3ld wrong, worst %.3f, %.1f s\n",
               e->name, ts_class_name(e->e.cls), e->e.task, e->n.cases, e->n.calls, e->n.refusals,
               e->n.unsupported, e->n.common, e->n.wrong, e->errors.worst, e->seconds);
        add_tally(&all, &e->n);
        n++;
    }
    printf("all: %d entrants, %ld cases, %ld calls, %ld invalid calls, %ld unsupported dtypes, %ld "
           "outside of the canon, %ld false rejects; seed 0x%llx\n",
           n, all.cases, all.calls, all.refusals, all.unsupported, all.common, all.wrong,
           (unsigned long long)key);
    return all.wrong != 0;
}

/* Whether there is to be another round. */
static bool goes_on(int round, double begin, double seconds, long cases)
{
    tally all = { 0 };
    for (int i = 0; i < n_list; i++) add_tally(&all, &list[i].n);
    if (round && !all.cases) return false;
    return round == 0 || ts_seconds() - begin < seconds || all.cases < cases;
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
    long         cases = 0;
    const double begin = ts_seconds();
    if (getrandom(&key, sizeof key, 0) != sizeof key) return 3;
    for (int o; (o = getopt(argc, argv, "n:w:t:s:c:k:l:")) != -1;) {
        if (o == 'n' && !strncmp(optarg, "1/", 2)) part = atoi(optarg + 2);
        else if (o == 'w' && !strncmp(optarg, "1/", 2)) ways_part = atoi(optarg + 2);
        else if (o == 't') n_threads = atoi(optarg);
        else if (o == 's') limit = atof(optarg);
        else if (o == 'c') cases = atol(optarg);
        else if (o == 'k') key = strtoull(optarg, NULL, 0);
        else if (o == 'l') where = optarg;
        else return 2;
    }
    if (part < 1 || ways_part < 1 || n_threads < 0) return 2;
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
    for (int round = 0; goes_on(round, begin, limit, cases); round++)
        for (int i = 0; i < n_list; i++)
            if (list[i].ready) ask_all(&list[i], round);
    const int status = report();
    for (int i = 0; i < n_list; i++) {
        if (list[i].ready) ts_built_free(&list[i].built);
        ts_entrant_free(&list[i].e);
    }
    nftw(temporary, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return status;
}
