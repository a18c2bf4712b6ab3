/* SPDX-License-Identifier: Apache-2.0 */
/* demo_pages.c - `demo paged`: use, waste and cost of pages, compared with reservations for the
 * longest sequence; `demo prefix`: sequences with a common prefix share its pages. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "demo_kv.h"
#include "rng.h"

enum { N_LAYER = 2, HEADS = 2, D = 32, TOKEN_BYTES = 2 * HEADS * D * 2 }; /* per layer, in bf16 */

static ts_kv_dims page_dims(int64_t page, int64_t n_page, int64_t n_seq, int64_t capacity)
{
    ts_kv_dims d = ts_demo_kv_dims(N_LAYER, n_seq, HEADS, HEADS, D, capacity);
    d.page = page, d.n_page = n_page;
    return d;
}

/* ---- paged ---- */

enum { CAPACITY = 2048, SLOTS = 16, MOST_SEQ = 512, N_PAGES = 7 };

static const int64_t PAGES[N_PAGES] = { 1, 4, 16, 64, 256, 512, 0 }; /* 0: contiguous */

/* A pool filled until a sequence did not fit. */
typedef struct fill {
    int64_t n_seq, n_token; /* of a layer */
    int64_t pages;          /* held */
    double  used, waste;    /* shares of the pool: tokens; places in pages without tokens */
} fill;

typedef struct pool {
    fill   first, again; /* again: after every other sequence has left */
    double book;         /* bytes of tables and lists, relative to the pool */
    bool   sound;
} pool;

static int64_t length_of(uint64_t seed, int64_t i)
{
    return (int64_t)exp2(4 +
                         3.5 * (1 + ts_uniform(seed, i))); /* 16 to 2047, as many of each size */
}

/* Adds sequences, from number *next on, until one does not fit. */
static bool fill_pool(ts_demo_kv *k, uint64_t seed, int64_t *next, int64_t *len, const void *zeros)
{
    for (;; ++*next) {
        const int64_t n = length_of(seed, *next);
        int32_t       seq;
        ts_status     s = ts_kv_open(k->c, &k->x, &seq);
        if (s == TS_E_CAPACITY) return true;
        if (!ts_demo_ok("open", s)) return false;
        for (int64_t l = 0; !s && l < N_LAYER; l++)
            s = ts_kv_append(k->c, &k->x, l, 1, &seq, &n, zeros, zeros);
        if (!s) len[seq] = n;
        else if (!ts_demo_ok("free", ts_kv_free(k->c, &k->x, seq))) return false;
        if (s == TS_E_CAPACITY) return true;
        if (!ts_demo_ok("append", s)) return false;
    }
}

/* Measures what is in use, and checks it against the lengths. */
static bool look(const ts_demo_kv *k, int64_t page, const int64_t *len, fill *f, bool *sound)
{
    const double  total = (double)SLOTS * CAPACITY * N_LAYER * TOKEN_BYTES;
    const int64_t each = page ? page : CAPACITY;
    int64_t       pages = 0;
    ts_kv_usage   u;
    *f = (fill) { 0 };
    for (int64_t i = 0; i < MOST_SEQ; i++) {
        f->n_seq += len[i] > 0;
        f->n_token += len[i];
        pages += N_LAYER * ((len[i] + each - 1) / each);
    }
    int32_t any = 0;
    while (any < MOST_SEQ - 1 && !len[any]) any++;
    if (!ts_demo_ok("status", ts_kv_status(k->c, 0, any, NULL, &u))) return false;
    f->pages = page ? u.n_page - u.n_free : pages;
    const double held = (double)(f->pages * each * TOKEN_BYTES);
    f->used = (double)u.bytes_live / total;
    f->waste = (held - (double)u.bytes_live) / total;
    *sound =
        *sound && f->pages == pages && u.bytes_live == (size_t)(f->n_token * N_LAYER * TOKEN_BYTES);
    return true;
}

static bool measure_pool(uint64_t seed, int64_t page, const void *zeros, pool *p)
{
    const int64_t    n_page = page ? N_LAYER * SLOTS * CAPACITY / page : 0;
    const ts_kv_dims d = page_dims(page, n_page, page ? MOST_SEQ : SLOTS, CAPACITY);
    int64_t          len[MOST_SEQ] = { 0 }, next = 0;
    ts_demo_kv       k;
    ts_kv_usage      u = { 0 };
    *p = (pool) { .sound = true };
    bool ok = ts_demo_kv_make(&d, &k) && fill_pool(&k, seed, &next, len, zeros) &&
              look(&k, page, len, &p->first, &p->sound);
    for (int32_t i = 0, odd = 0; ok && i < MOST_SEQ; i++) {
        if (!len[i] || (odd = !odd)) continue;
        ok = ts_demo_ok("free", ts_kv_free(k.c, &k.x, i));
        len[i] = 0;
    }
    ok = ok && fill_pool(&k, seed, &next, len, zeros) && look(&k, page, len, &p->again, &p->sound);
    for (int32_t i = 0, last = -1; ok && i < MOST_SEQ; i++) {
        if (!len[i]) continue;
        if (last >= 0) ok = ts_demo_ok("free", ts_kv_free(k.c, &k.x, last));
        last = i;
        if (ok)
            ok = ts_demo_ok("truncate", ts_kv_truncate(k.c, &k.x, i, 0)) &&
                 ts_demo_ok("status", ts_kv_status(k.c, 0, i, NULL, &u));
    }
    p->sound = p->sound && u.n_free == u.n_page && u.bytes_live == 0;
    p->book = (double)k.state_bytes / ((double)SLOTS * CAPACITY * N_LAYER * TOKEN_BYTES) - 1;
    ts_demo_kv_free(&k);
    return ok;
}

static void show_pool(const ts_demo_args *a, int64_t page, const pool *p, ts_json *rows)
{
    ts_json *o = ts_json_object(rows, NULL);
    char     name[24] = "contiguous";
    if (page) snprintf(name, sizeof name, "%lld", (long long)page);
    ts_json_int(o, "page", page);
    ts_json_int(o, "pages_held", p->first.pages);
    ts_json_int(o, "sequences", p->first.n_seq);
    ts_json_int(o, "tokens", p->first.n_token);
    ts_json_number(o, "used", p->first.used);
    ts_json_number(o, "waste", p->first.waste);
    ts_json_number(o, "book", p->book);
    ts_json_int(o, "sequences_again", p->again.n_seq);
    ts_json_number(o, "used_again", p->again.used);
    ts_json_number(o, "waste_again", p->again.waste);
    ts_json_bool(o, "sound", p->sound);
    ts_print(a->table, "%-10s  %6lld  %9lld  %6.1f %%  %6.1f %%  %6.2f %%  %9lld  %6.1f %%  %s\n",
             name, (long long)p->first.pages, (long long)p->first.n_seq, 100 * p->first.used,
             100 * p->first.waste, 100 * p->book, (long long)p->again.n_seq, 100 * p->again.used,
             p->sound ? "yes" : "NO");
}

static bool plot_pools(const char *path, const pool *p)
{
    enum { N = N_PAGES - 1 };
    double x[N], waste[N], book[N], reserved[N];
    for (int i = 0; i < N; i++) {
        x[i] = (double)PAGES[i];
        waste[i] = 100 * p[i].first.waste;
        book[i] = 100 * p[i].book;
        reserved[i] = 100 * p[N].first.waste;
        if (!waste[i])
            waste[i] = NAN; /* pages of one token waste nothing, and log 0 cannot be drawn */
    }
    const ts_series s[] = { { "contiguous", reserved },
                            { "waste in pages", waste },
                            { "table and lists", book } };
    return ts_svg_write(path,
                        &(ts_plot) { "Part of a full pool that holds no tokens", "tokens per page",
                                     "percent of the pool", x, N, s, 3 },
                        1);
}

int ts_demo_paged(const ts_demo_args *a)
{
    pool     p[N_PAGES];
    bool     sound = true;
    ts_json *rows = ts_json_array(a->json, "rows");
    void    *zeros = calloc(CAPACITY, TOKEN_BYTES);
    ts_print(a->table,
             "One pool of %d tokens, %d layers; sequences of 16 to %d tokens arrive until one "
             "does not fit.\nContiguous reserves %d per sequence. A page is allocated when a "
             "token needs it; only the last page\nof a sequence is partly empty. Then every "
             "other sequence leaves and more arrive: any page can be reused.\n\n%-10s  %6s  %9s "
             " %8s  %8s  %8s  %9s  %8s  %s\n",
             SLOTS * CAPACITY, N_LAYER, CAPACITY - 1, CAPACITY, "page", "pages", "sequences",
             "used", "waste", "tables", "refilled", "used", "adds up");
    for (int i = 0; i < N_PAGES; i++) {
        if (!zeros || !measure_pool(a->seed, PAGES[i], zeros, &p[i])) {
            free(zeros);
            return TS_EXIT_BROKEN;
        }
        show_pool(a, PAGES[i], &p[i], rows);
        sound = sound && p[i].sound;
    }
    free(zeros);
    const bool more = p[2].first.n_seq > p[N_PAGES - 1].first.n_seq;
    ts_print(a->table,
             "\nUsed: tokens as a share of the pool. Waste: allocated places without a token. "
             "Tables: page table and\nlists. The pool holds %.1f times as many sequences in "
             "pages of %lld as in reservations.\n%s\n",
             (double)p[2].first.n_seq / (double)p[N_PAGES - 1].first.n_seq, (long long)PAGES[2],
             sound && more ? "Every page and byte is accounted for."
                           : "FAILED: pages do not add up, or save nothing.");
    return ts_demo_end(a, sound && more, !a->svg || plot_pools(a->svg, p));
}

/* ---- prefix ---- */

enum { PREFIX = 1000, FORKS = 8, PAGE = 16, OWN = 40, ROW = HEADS * D };
enum { ROWS = PREFIX + OWN * FORKS };

typedef struct family {
    const ts_demo_args *a;
    ts_json            *rows;
    ts_demo_kv          k;
    uint16_t           *data; /* [2][ROWS][ROW]: keys, values */
    int32_t             seq[1 + FORKS];
    int64_t             len[1 + FORKS], before; /* before: pages at the previous line */
    bool                right;
} family;

static int64_t pages_of(int64_t n)
{
    return N_LAYER * ((n + PAGE - 1) / PAGE);
}

/* Prints a line; `expected`: pages in use with sharing. */
static bool tell(family *f, const char *what, int64_t expected)
{
    ts_kv_usage u;
    int64_t     apart = 0;
    int32_t     any = 0;
    while (f->seq[any] < 0) any++;
    if (!ts_demo_ok("status", ts_kv_status(f->k.c, 0, f->seq[any], NULL, &u))) return false;
    for (int i = 0; i <= FORKS; i++) apart += pages_of(f->len[i]);
    const int64_t held = u.n_page - u.n_free;
    const bool    right = held == expected;
    ts_json      *o = ts_json_object(f->rows, NULL);
    ts_json_text(o, "step", what);
    ts_json_int(o, "pages", held);
    ts_json_int(o, "expected", expected);
    ts_json_int(o, "pages_apart", apart);
    ts_json_int(o, "bytes_live", (int64_t)u.bytes_live);
    ts_print(f->a->table, "%-38s  %6lld  %+7lld  %8lld  %7lld  %6.1fx  %10zu\n", what,
             (long long)held, (long long)(held - f->before), (long long)expected, (long long)apart,
             (double)apart / (double)held, u.bytes_live);
    f->before = held;
    f->right = f->right && right;
    return true;
}

/* Appends n tokens from row `from` of the data to sequence i. */
static bool append(family *f, int i, int64_t from, int64_t n)
{
    const uint16_t *k = f->data + from * ROW, *v = k + ROWS * ROW;
    bool            ok = true;
    for (int64_t l = 0; ok && l < N_LAYER; l++)
        ok = ts_demo_ok("append", ts_kv_append(f->k.c, &f->k.x, l, 1, &f->seq[i], &n, k, v));
    f->len[i] += n;
    return ok;
}

/* Whether sequence i reads back its prefix and its own tokens, bit for bit. */
static bool reads_back(family *f, int i)
{
    static float  k[(PREFIX + OWN) * ROW], v[(PREFIX + OWN) * ROW];
    const int64_t n = f->len[i];
    bool          same = true;
    for (int64_t l = 0; l < N_LAYER; l++) {
        if (!ts_demo_ok("read", ts_kv_read(f->k.c, &f->k.x, l, f->seq[i], 0, n, k, v)))
            return false;
        for (int64_t t = 0; t < n; t++) {
            const int64_t row = t < PREFIX ? t : PREFIX + OWN * (i - 1) + t - PREFIX;
            for (int64_t j = 0; j < ROW; j++) {
                const uint32_t key = (uint32_t)f->data[row * ROW + j] << 16;
                const uint32_t value = (uint32_t)f->data[(ROWS + row) * ROW + j] << 16;
                same = same && !memcmp(&key, &k[t * ROW + j], sizeof key) &&
                       !memcmp(&value, &v[t * ROW + j], sizeof value);
            }
        }
    }
    return same;
}

static bool run_family(family *f, double *append_s, double *fork_s)
{
    const int64_t whole = pages_of(PREFIX), last = PREFIX % PAGE ? N_LAYER : 0;
    double        begin = ts_demo_seconds();
    bool          ok =
        ts_demo_ok("open", ts_kv_open(f->k.c, &f->k.x, &f->seq[0])) && append(f, 0, 0, PREFIX);
    *append_s = ts_demo_seconds() - begin;
    ok = ok && tell(f, "one sequence stores the prefix", whole);
    begin = ts_demo_seconds();
    for (int i = 1; ok && i <= FORKS; i++) {
        ok = ts_demo_ok("fork", ts_kv_fork(f->k.c, &f->k.x, f->seq[0], &f->seq[i]));
        f->len[i] = PREFIX;
    }
    *fork_s = (ts_demo_seconds() - begin) / FORKS;
    ok = ok && tell(f, "forks of it: nothing is copied", whole);
    for (int i = 1; ok && i <= FORKS; i++) ok = append(f, i, PREFIX + OWN * (i - 1), 1);
    ok = ok && tell(f, "a token each: the last page is copied", whole + FORKS * last);
    for (int i = 1; ok && i <= FORKS; i++) ok = append(f, i, PREFIX + OWN * (i - 1) + 1, OWN - 1);
    const int64_t own = pages_of(PREFIX + OWN) - (whole - last);
    ok = ok && tell(f, "more tokens each: pages of their own", whole + FORKS * own);
    for (int i = 1; ok && i <= FORKS; i++) f->right = reads_back(f, i) && f->right;
    ok = ok && ts_demo_ok("free", ts_kv_free(f->k.c, &f->k.x, f->seq[0]));
    f->seq[0] = -1, f->len[0] = 0;
    ok = ok && tell(f, "the first leaves: frees its last page", whole - last + FORKS * own);
    for (int i = 1; ok && i < FORKS; i++) {
        ok = ts_demo_ok("free", ts_kv_free(f->k.c, &f->k.x, f->seq[i]));
        f->seq[i] = -1, f->len[i] = 0;
    }
    ok = ok && tell(f, "all but one leave: its pages remain", pages_of(PREFIX + OWN));
    if (ok) f->right = reads_back(f, FORKS) && f->right;
    return ok;
}

int ts_demo_prefix(const ts_demo_args *a)
{
    const int64_t    n = 2 * ROWS * ROW;
    const ts_kv_dims d =
        page_dims(PAGE, (1 + FORKS) * pages_of(PREFIX + OWN), 1 + FORKS, PREFIX + OWN);
    family f = { .a = a, .right = true };
    double append_s = 0, fork_s = 0;
    f.rows = ts_json_array(a->json, "rows");
    f.data = malloc((size_t)n * sizeof *f.data);
    for (int64_t i = 0; f.data && i < n; i++) /* any finite bf16 */
        f.data[i] = (uint16_t)(ts_bits(a->seed, i) & 0xbfff);
    ts_print(a->table,
             "A prefix of %d tokens shared by %d sequences, %d layers, pages of %d tokens. "
             "Apart: the pages that\nthe same sequences would hold if nothing were "
             "shared.\n\n%-38s  %6s  %7s  %8s  %7s  %7s  %10s\n",
             PREFIX, FORKS + 1, N_LAYER, PAGE, "step", "pages", "change", "expected", "apart",
             "saving", "live bytes");
    const bool ok = f.data && ts_demo_kv_make(&d, &f.k) && run_family(&f, &append_s, &fork_s);
    ts_demo_kv_free(&f.k);
    free(f.data);
    if (!ok) return TS_EXIT_BROKEN;
    ts_print(a->table,
             "\nEach fork reads back its prefix and its own tokens: %s. A fork took 1/%.0f of "
             "the time of\nstoring the prefix once, not counting its computation.\n",
             f.right ? "bitwise identical" : "FAILED", append_s / fork_s);
    ts_json_number(a->json, "append_seconds", append_s);
    ts_json_number(a->json, "fork_seconds", fork_s);
    return ts_demo_end(a, f.right, true);
}
