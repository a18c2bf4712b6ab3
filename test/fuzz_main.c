/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_main.c - drives a fuzz target where there is no libFuzzer, with libFuzzer's options.
 *
 *     fuzz_NAME [-seed=N] [-runs=N] [-max_total_time=SECONDS] [-max_len=BYTES] [-timeout=SECONDS]
 *               [-dict=FILE] [-artifact_prefix=PATH] [FOLDER... | FILE...]
 *
 * Inputs come from the folders; the first of several also gets the inputs that reached a new place.
 * Files are run once each instead. One seed gives one sequence of inputs. Seconds are CPU seconds.
 * The input under test lies in a file, which is left behind if the target dies of it.
 *
 * The compiler calls __sanitizer_cov_trace_pc at every branch: an input is kept if it reaches a
 * branch for the first time, or 2, 4, 8 ... times for the first time. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"

enum { MOST_INPUTS = 1 << 16, MOST_WORDS = 1024, WORD = 64, MOST_HITS = 1 << 20 };

typedef struct input {
    uint8_t *bytes;
    size_t   n;
} input;

#pragma weak LLVMFuzzerCustomMutator

static struct {
    const char *name, *prefix, *corpus; /* corpus: NULL: new inputs are not kept in files */
    uint64_t    seed, state, n_runs, most_runs;
    size_t      max_len;
    double      seconds;
    unsigned    timeout;
    input       all[MOST_INPUTS];
    size_t      n_all;
    input       word[MOST_WORDS];
    size_t      n_words;
    char        at[4096]; /* the file of the input under test */
    int         fd;
} f = { .max_len = 4096, .timeout = 20, .prefix = "", .most_runs = UINT64_MAX };

/* ---- which branches were taken ---- */

extern const char __executable_start, __etext;

static struct {
    uint8_t *seen;           /* of each place, a bit for each power of two */
    uint8_t *times;          /* in this run, at most 255 */
    uint32_t hit[MOST_HITS]; /* the places of this run */
    size_t   n_hits, n_seen;
} cover;

void                                                      __sanitizer_cov_trace_pc(void);
__attribute__((no_sanitize("address", "undefined"))) void __sanitizer_cov_trace_pc(void)
{
    const size_t place = (size_t)((const char *)__builtin_return_address(0) - &__executable_start);
    if (!cover.times || place / 4 >= (size_t)(&__etext - &__executable_start) / 4) return;
    uint8_t *times = &cover.times[place / 4];
    if (*times == 0 && cover.n_hits < MOST_HITS) cover.hit[cover.n_hits++] = (uint32_t)(place / 4);
    if (*times < 255) ++*times;
}

/* Was something new in this run? */
static bool look(void)
{
    bool fresh = false;
    for (size_t i = 0; i < cover.n_hits; i++) {
        const uint32_t place = cover.hit[i];
        const uint8_t  bit = (uint8_t)(1u << (31 - __builtin_clz(cover.times[place])));
        cover.n_seen += !cover.seen[place];
        fresh |= !(cover.seen[place] & bit);
        cover.seen[place] |= bit;
        cover.times[place] = 0;
    }
    cover.n_hits = 0;
    return fresh;
}

/* ---- chance ---- */

static uint64_t draw(void)
{
    uint64_t z = f.state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static size_t below(size_t n)
{
    return n ? (size_t)(draw() % n) : 0;
}

/* ---- mutations: each returns the new length ---- */

static size_t put(uint8_t *data, size_t n, size_t room, const void *bytes, size_t len, bool over)
{
    const size_t at = below(n + 1);
    if (over && len <= n - at) return memcpy(data + at, bytes, len), n;
    if (len > room - n) return n;
    memmove(data + at + len, data + at, n - at);
    memcpy(data + at, bytes, len);
    return n + len;
}

static size_t put_number(uint8_t *data, size_t n, size_t room)
{
    static const uint64_t odd[] = { 0,          1,
                                    2,          7,
                                    0x7f,       0x80,
                                    0xff,       0x100,
                                    0x7fff,     0x8000,
                                    0xffff,     0x10000,
                                    0x7fffffff, 0x80000000,
                                    0xffffffff, (uint64_t)1 << 32,
                                    INT64_MAX,  (uint64_t)1 << 63,
                                    UINT64_MAX };
    const uint64_t        v = odd[below(sizeof odd / sizeof *odd)] + draw() % 3 - 1;
    return put(data, n, room, &v, (size_t)1 << below(4), true);
}

static size_t put_digits(uint8_t *data, size_t n, size_t room)
{
    char         text[32];
    const size_t len = (size_t)snprintf(text, sizeof text, "%lld",
                                        (long long)(draw() >> below(64)) * (below(4) ? 1 : -1));
    return put(data, n, room, text, len, below(2));
}

static size_t take_out(uint8_t *data, size_t n)
{
    const size_t at = below(n), len = 1 + below(below(4) ? 8 : n);
    if (len > n - at) return at;
    memmove(data + at, data + at + len, n - at - len);
    return n - len;
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t room)
{
    uint8_t      some[16];
    const input *other = &f.all[below(f.n_all)];
    const size_t from = below(other->n), len = 1 + below(below(4) ? 16 : other->n);
    switch (below(n ? 9 : 4)) {
    case 0:
        for (size_t i = 0; i < sizeof some; i++) some[i] = (uint8_t)draw();
        return put(data, n, room, some, 1 + below(sizeof some), below(2));
    case 1:
        if (!f.n_words) return put_number(data, n, room);
        other = &f.word[below(f.n_words)];
        return put(data, n, room, other->bytes, other->n, below(2));
    case 2:
        return put_digits(data, n, room);
    case 3:
        return other->n ? put(data, n, room, other->bytes + from,
                              len < other->n - from ? len : other->n - from, below(2))
                        : n;
    case 4:
        data[below(n)] ^= (uint8_t)(1u << below(8));
        return n;
    case 5:
        data[below(n)] += (uint8_t)(draw() % 3 - 1);
        return n;
    case 6:
        return put_number(data, n, room);
    case 7:
        return take_out(data, n);
    default: { /* a part of itself once more */
        const size_t at = below(n), most = n - at < 64 ? n - at : 64;
        uint8_t      part[64];
        memcpy(part, data + at, most);
        return put(data, n, room, part, most, below(2));
    }
    }
}

/* ---- inputs ---- */

static input slurp(const char *path)
{
    struct stat st;
    const int   fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) perror(path), exit(2);
    input         x = { malloc((size_t)st.st_size + 1), 0 };
    const ssize_t got = x.bytes ? read(fd, x.bytes, (size_t)st.st_size) : -1;
    if (got < 0) perror(path), exit(2);
    close(fd);
    x.n = (size_t)got;
    return x;
}

static void keep(const uint8_t *bytes, size_t n)
{
    if (f.n_all == MOST_INPUTS) return;
    f.all[f.n_all++] = (input) { exact(bytes, n), n };
}

static void keep_in_file(const uint8_t *bytes, size_t n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%llu-%zu", f.corpus, (unsigned long long)f.seed, f.n_all);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n) perror(path), exit(2);
    close(fd);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int shown(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

/* "word", with \" and \\ for those two; a line a word. */
static void read_words(const char *path)
{
    char  line[4 * WORD];
    FILE *file = fopen(path, "r");
    if (!file) perror(path), exit(2);
    while (f.n_words < MOST_WORDS && fgets(line, sizeof line, file)) {
        char *to = line, *p = strchr(line, '"');
        if (!p) continue;
        for (p++; *p && *p != '"' && *p != '\n'; p++) *to++ = *p == '\\' && p[1] ? *++p : *p;
        f.word[f.n_words++] = (input) { exact(line, (size_t)(to - line)), (size_t)(to - line) };
    }
    fclose(file);
}

/* ---- runs ---- */

static void say(const char *what)
{
    /* NOLINTNEXTLINE(bugprone-signal-handler): the process ends after it */
    fprintf(stderr, "%s: %s: seed %llu, run %llu; the input is in %s\n", f.name, what,
            (unsigned long long)f.seed, (unsigned long long)f.n_runs, f.at);
}

static void died(void)
{
    say("stopped by a sanitizer");
}

static void late(int sig)
{
    (void)sig;
    say("not done in time");
    abort();
}

/* CPU seconds as well: a machine that is busy is no fault of the input's. */
static void watch(unsigned seconds)
{
    setitimer(ITIMER_PROF, &(struct itimerval) { .it_value = { seconds, 0 } }, NULL);
}

static bool run(const uint8_t *bytes, size_t n)
{
    uint8_t *copy = exact(bytes, n);
    if (ftruncate(f.fd, (off_t)n) || pwrite(f.fd, bytes, n, 0) != (ssize_t)n) perror(f.at), exit(2);
    watch(f.timeout);
    f.n_runs++;
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
    return look();
}

static void read_folder(const char *folder)
{
    struct dirent **e = NULL;
    const int       n = scandir(folder, &e, shown, by_name);
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, e[i]->d_name);
        input x = slurp(path);
        if (x.n > f.max_len) x.n = f.max_len;
        run(x.bytes, x.n);
        keep(x.bytes, x.n);
        free(x.bytes);
        free(e[i]);
    }
    free(e);
}

static double spent(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static void mutate_and_run(uint8_t *data)
{
    /* Half of the time one of those that came last: there is most to find around them. */
    const size_t recent = f.n_all > 32 && below(2) ? 32 : f.n_all;
    const input *x = &f.all[f.n_all - 1 - below(recent)];
    size_t       n = x->n;
    if (n) memcpy(data, x->bytes, n);
    do /* mostly one: what is changed in many places is rejected at the first */
        n = LLVMFuzzerCustomMutator ? LLVMFuzzerCustomMutator(data, n, f.max_len, (unsigned)draw())
                                    : LLVMFuzzerMutate(data, n, f.max_len);
    while (below(2));
    if (!run(data, n)) return;
    keep(data, n);
    if (f.corpus) keep_in_file(data, n);
}

static const char *option(const char *arg, const char *name)
{
    const size_t n = strlen(name);
    return *arg == '-' && !strncmp(arg + 1, name, n) && arg[n + 1] == '=' ? arg + n + 2 : NULL;
}

static void read_options(char **argv)
{
    const char *v;
    if (getrandom(&f.seed, 4, 0) != 4) f.seed = (uint64_t)time(NULL);
    for (char **a = argv + 1; *a; a++) {
        if ((v = option(*a, "seed"))) f.seed = strtoull(v, NULL, 10);
        else if ((v = option(*a, "runs"))) f.most_runs = strtoull(v, NULL, 10);
        else if ((v = option(*a, "max_total_time"))) f.seconds = atof(v);
        else if ((v = option(*a, "max_len"))) f.max_len = strtoull(v, NULL, 10);
        else if ((v = option(*a, "timeout"))) f.timeout = (unsigned)atoi(v);
        else if ((v = option(*a, "artifact_prefix"))) f.prefix = v;
        else if ((v = option(*a, "dict"))) read_words(v);
    }
    f.state = f.seed;
}

__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char                                        *__asan_default_options(void)
{
    return "handle_abort=1:allocator_may_return_null=1"; /* as libFuzzer has them */
}

int main(int argc, char **argv)
{
    struct stat  st;
    const size_t places = (size_t)(&__etext - &__executable_start) / 4;
    int          n_folders = 0, n_files = 0;
    f.name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    read_options(argv);
    cover.seen = calloc(1, places);
    cover.times = calloc(1, places);
    uint8_t *data = malloc(f.max_len + 1);
    if (!cover.seen || !cover.times || !data) return 2;
    snprintf(f.at, sizeof f.at, "%s%s-%d", f.prefix, f.name, (int)getpid());
    f.fd = open(f.at, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (f.fd < 0) return perror(f.at), 2;
    __sanitizer_set_death_callback(died);
    signal(SIGPROF, late);
    keep(NULL, 0);
    printf("%s: seed %llu\n", f.name, (unsigned long long)f.seed);
    fflush(stdout);
    for (int i = 1; i < argc; i++) {
        if (*argv[i] == '-') continue;
        if (stat(argv[i], &st)) return perror(argv[i]), 2;
        if (S_ISDIR(st.st_mode)) {
            if (++n_folders == 1) f.corpus = argv[i];
            read_folder(argv[i]);
        } else {
            const input x = slurp(argv[i]);
            run(x.bytes, x.n);
            free(x.bytes);
            n_files++;
        }
    }
    if (n_folders < 2) f.corpus = NULL;
    const size_t n_given = f.n_all;
    while (!n_files && f.n_runs < f.most_runs && (f.seconds == 0 || spent() < f.seconds))
        mutate_and_run(data);
    watch(0);
    unlink(f.at);
    printf("%s: %llu runs in %.1f s, %zu places reached, %zu inputs given, %zu found\n", f.name,
           (unsigned long long)f.n_runs, spent(), cover.n_seen, n_given, f.n_all - n_given);
    for (size_t i = 0; i < f.n_all; i++) free(f.all[i].bytes);
    for (size_t i = 0; i < f.n_words; i++) free(f.word[i].bytes);
    free(cover.seen), free(cover.times), free(data);
    return 0;
}
