/* SPDX-License-Identifier: Apache-2.0 */
/* unit_beam_search_random.c [cuda] - tests beam search with random models. BEAM_SEED in the
 * environment replays a run.
 *
 * It is compared with all possible strings, with the pool of the definition, and with itself:
 * alone, in other batches, in another order, by other instructions and with other numbers of
 * threads. */
#include "unit_beam_search.h"

enum { MOST_NEW = 24, MOST_STRINGS = 1 << 14 };

/* A string and what it is worth, by long double. */
typedef struct hypothesis {
    int32_t     token[MOST_NEW + 8]; /* the prompt first */
    int64_t     n_prompt, length;
    long double logprob, score;
    int64_t     parent;
    int32_t     last, finished;
} hypothesis;

static hypothesis pool[MOST_STRINGS], kept[MOST_STRINGS];
static int64_t    n_pool, n_kept;

static double alpha_of(int64_t i)
{
    const double list[] = { 0, 0.6, 1, 2 };
    return list[i % 4];
}

/* In the order of the contract. */
static int by_rank(const void *a, const void *b)
{
    const hypothesis *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->parent != y->parent) return x->parent < y->parent ? -1 : 1;
    return x->last < y->last ? -1 : x->last > y->last;
}

/* In that of the archive's search: what has ended is in the archive, which comes first, and in it
 * what came first. */
static int by_archive_rank(const void *a, const void *b)
{
    const hypothesis *x = a, *y = b;
    if (x->score != y->score) return by_rank(a, b);
    if (x->finished != y->finished) return y->finished - x->finished;
    if (x->finished && x->length != y->length) return x->length < y->length ? -1 : 1;
    return by_rank(a, b);
}

static void add(hypothesis *list, int64_t *n, const hypothesis *h)
{
    assert_true(*n < MOST_STRINGS);
    list[(*n)++] = *h;
}

/* Every extension of h goes to the pool. */
static void extend(const ts_beam_dims *d, const toy *t, const hypothesis *h, int64_t parent)
{
    float       logits[128];
    long double max = -INFINITY, sum = 0;
    toy_after(t, h->n_prompt + h->length, h->token, logits);
    for (int64_t v = 0; v < t->m.n_vocab; v++) max = fmaxl(max, logits[v]);
    for (int64_t v = 0; v < t->m.n_vocab; v++) sum += expl(logits[v] - max);
    for (int32_t v = 0; v < t->m.n_vocab; v++) {
        if (logits[v] == -INFINITY) continue;
        hypothesis next = *h;
        next.token[h->n_prompt + next.length++] = next.last = v;
        next.parent = parent;
        next.logprob += (logits[v] - max) - logl(sum);
        next.score = next.logprob / powl((long double)next.length, d->alpha);
        next.finished = v == d->eos;
        add(pool, &n_pool, &next);
    }
}

static hypothesis started(const int32_t *prompt, int64_t n)
{
    hypothesis h = { .n_prompt = n };
    memcpy(h.token, prompt, (size_t)n * sizeof *prompt);
    return h;
}

/* ---- three oracles: the answer comes to be in pool ---- */

static void all_strings(const ts_beam_dims *d, const toy *t, const hypothesis *h)
{
    if (h->finished || h->length == d->max_new_tokens) {
        add(kept, &n_kept, h);
        return;
    }
    const int64_t before = n_pool;
    extend(d, t, h, 0);
    for (int64_t i = before; i < n_pool; i++) {
        const hypothesis next = pool[i];
        all_strings(d, t, &next);
    }
    n_pool = before;
}

static void exhaustive(const ts_beam_dims *d, const toy *t, const int32_t *prompt, int64_t n)
{
    const hypothesis first = started(prompt, n);
    n_pool = n_kept = 0;
    all_strings(d, t, &first);
    memcpy(pool, kept, (size_t)n_kept * sizeof *pool);
    n_pool = n_kept;
    qsort(pool, (size_t)n_pool, sizeof *pool, by_rank);
}

static int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

static void by_slots(const ts_beam_dims *d, const toy *t, const int32_t *prompt, int64_t n)
{
    static hypothesis beam[256];
    pool[0] = started(prompt, n);
    n_pool = 1;
    for (int64_t step = 0; step < d->max_new_tokens; step++) {
        const int64_t n_beams = n_pool;
        memcpy(beam, pool, (size_t)n_beams * sizeof *beam);
        n_pool = 0;
        for (int64_t j = 0; j < n_beams; j++) {
            beam[j].parent = j;
            if (beam[j].finished) add(pool, &n_pool, beam + j);
            else extend(d, t, beam + j, j);
        }
        qsort(pool, (size_t)n_pool, sizeof *pool, by_rank);
        n_pool = at_most(n_pool, d->beam_width);
    }
}

/* Nothing is ever dropped from this archive, and nothing stops early. */
static void by_archive(const ts_beam_dims *d, const toy *t, const int32_t *prompt, int64_t n)
{
    static hypothesis beam[256];
    int64_t           n_beams = 1;
    beam[0] = started(prompt, n);
    n_kept = 0;
    for (int64_t step = 0; step < d->max_new_tokens; step++) {
        n_pool = 0;
        for (int64_t j = 0; j < n_beams; j++) extend(d, t, beam + j, j);
        qsort(pool, (size_t)n_pool, sizeof *pool, by_rank);
        n_beams = 0;
        for (int64_t i = 0; i < n_pool; i++) {
            if (pool[i].finished) add(kept, &n_kept, pool + i);
            else if (n_beams < d->beam_width) beam[n_beams++] = pool[i];
        }
    }
    for (int64_t j = 0; j < n_beams; j++) add(kept, &n_kept, beam + j);
    memcpy(pool, kept, (size_t)n_kept * sizeof *pool);
    qsort(pool, (size_t)n_kept, sizeof *pool, by_archive_rank);
    n_pool = at_most(n_kept, d->beam_width);
}

static void is_pool(const search *s, int64_t item)
{
    assert_int_equal(s->a.n_found[item], n_pool);
    for (int64_t r = 0; r < n_pool; r++) {
        const hypothesis *h = pool + r;
        const int64_t     p = place_of(s, item, r);
        assert_int_equal(s->a.length[p], h->length);
        assert_memory_equal(tokens_of(s, item, r), h->token + h->n_prompt, (size_t)h->length * 4);
        assert_int_equal(s->a.finished[p], h->finished);
        assert_true(fabsl(s->a.logprob[p] - h->logprob) <= 1e-12L * (long double)h->length);
        assert_true(fabsl(s->a.score[p] - h->score) <= 1e-12L * (long double)h->length);
    }
    is_tidy(s);
}

/* ---- the tests ---- */

/* Some tokens are impossible, but 0 never is. */
static int64_t n_masked;

static void table_masked(const int32_t *token, int64_t n, float *out, int64_t n_vocab)
{
    uint64_t h = seed + (uint64_t)n_masked;
    for (int64_t i = 0; i < n; i++) h = ts_mix(h * 5 + (uint64_t)token[i] + 1);
    for (int64_t v = 0; v < n_vocab; v++)
        out[v] = v > 0 && ts_bits(h, v) % 4 == 0 ? (float)-INFINITY : (float)(2 * ts_normal(h, v));
}

static void drawn_model(toy *t, int64_t n_vocab)
{
    const toy_kind kind = (toy_kind)below(3);
    toy_make(t, kind, n_vocab, ts_bits(seed, n_drawn++));
    t->table = table_masked;
    n_masked++;
}

/* With room for all strings, both searches find all of them, in their order. */
TEST(finds_all_strings)
{
    int64_t n_finished = 0;
    for (int trial = 0; trial < 1000; trial++) {
        const int64_t n_vocab = 2 + below(3), most = 1 + below(n_vocab == 2 ? 6 : 4);
        const int32_t prompt[] = { (int32_t)below(n_vocab), (int32_t)below(n_vocab) };
        const int64_t len[] = { 1 + below(2) };
        int64_t       width = 1;
        for (int64_t i = 0; i < most; i++) width *= n_vocab;
        const ts_beam_dims d = { 1, width + below(3), most, alpha_of(trial),
                                 (int32_t)below(n_vocab + 1) - 1 };
        toy                t;
        drawn_model(&t, n_vocab);
        ts_cpu_set_mask(masks[trial % N_MASKS]);
        search s = search_make(d, &t, prompt, len);
        exhaustive(&d, &t, prompt, len[0]);
        for (int archive = 0; archive < 2; archive++) {
            assert_int_equal(run_with(&s, archive, 1), TS_OK);
            qsort(pool, (size_t)n_pool, sizeof *pool, archive ? by_archive_rank : by_rank);
            is_pool(&s, 0);
        }
        for (int64_t i = 0; i < n_pool; i++) n_finished += pool[i].finished;
        search_free(&s);
    }
    ts_cpu_set_mask(~0u);
    assert_true(n_finished > 1000);
}

typedef struct batch {
    ts_beam_dims d;
    int32_t      prompts[32];
    int64_t      len[4], begin[4];
} batch;

static batch drawn_batch(int64_t n_vocab, double alpha)
{
    batch   b = { .d = { 1 + below(4), 1 + below(8), 1 + below(12), alpha,
                       below(4) ? (int32_t)below(n_vocab) : -1 } };
    int64_t n = 0;
    for (int64_t i = 0; i < b.d.n_items; i++) {
        b.begin[i] = n;
        b.len[i] = 1 + below(6);
        for (int64_t j = 0; j < b.len[i]; j++) b.prompts[n++] = (int32_t)below(n_vocab);
    }
    return b;
}

/* Results depend neither on other items, nor on their order, nor on the number of threads. */
static void is_alone(const batch *b, const toy *t, const search *all, int archive)
{
    batch   back = { .d = b->d };
    int64_t n = 0;
    for (int64_t i = 0; i < b->d.n_items; i++) {
        const int64_t from = b->d.n_items - 1 - i;
        back.len[i] = b->len[from];
        memcpy(back.prompts + n, b->prompts + b->begin[from], (size_t)b->len[from] * 4);
        n += b->len[from];
    }
    search turned = search_make(back.d, t, back.prompts, back.len);
    assert_int_equal(run_with(&turned, archive, 3), TS_OK);
    ts_beam_dims one = b->d;
    one.n_items = 1;
    for (int64_t i = 0; i < b->d.n_items; i++) {
        search s = search_make(one, t, b->prompts + b->begin[i], b->len + i);
        assert_int_equal(run_with(&s, archive, 2), TS_OK);
        assert_true(same_bits(&s, 0, all, i));
        assert_true(same_bits(&turned, b->d.n_items - 1 - i, all, i));
        search_free(&s);
    }
    search_free(&turned);
}

/* Strings differ, and nothing follows EOS. */
static void is_sane(const search *s)
{
    for (int64_t i = 0; i < s->a.d.n_items; i++)
        for (int64_t r = 0; r < s->a.n_found[i]; r++) {
            const int64_t n = s->a.length[place_of(s, i, r)];
            for (int64_t k = 0; k < n; k++)
                assert_true(tokens_of(s, i, r)[k] != s->a.d.eos || k == n - 1);
            for (int64_t q = 0; q < r; q++)
                assert_true(memcmp(tokens_of(s, i, r), tokens_of(s, i, q),
                                   (size_t)s->a.d.max_new_tokens * 4));
        }
}

TEST(follows_the_rule)
{
    int64_t n_differ = 0;
    for (int trial = 0; trial < 400; trial++) {
        const int64_t n_vocab = 2 + below(trial % 2 ? 6 : 60);
        const batch   b = drawn_batch(n_vocab, alpha_of(trial / 3));
        toy           t;
        drawn_model(&t, n_vocab);
        ts_cpu_set_mask(masks[trial % N_MASKS]);
        search s[2];
        for (int archive = 0; archive < 2; archive++) {
            s[archive] = search_make(b.d, &t, b.prompts, b.len);
            t.n_next = 0;
            assert_int_equal(run_with(s + archive, archive, 1), TS_OK);
            assert_true(t.n_next <= b.d.max_new_tokens);
            is_sane(s + archive);
            for (int64_t i = 0; i < b.d.n_items; i++) {
                (archive ? by_archive : by_slots)(&b.d, &t, b.prompts + b.begin[i], b.len[i]);
                is_pool(s + archive, i);
            }
            is_alone(&b, &t, s + archive, archive);
        }
        n_differ += !same_bits(s, 0, s + 1, 0);
        search_free(s);
        search_free(s + 1);
    }
    ts_cpu_set_mask(~0u);
    assert_true(n_differ > 20); /* the two rules are not one */
}

TEST(one_beam_is_greedy)
{
    float logits[97];
    for (int trial = 0; trial < 100; trial++) {
        const int64_t len[] = { 3 };
        int32_t       string[3 + 20];
        toy           t;
        drawn_model(&t, 97);
        for (int j = 0; j < 3; j++) string[j] = (int32_t)below(97);
        search s = search_make((ts_beam_dims) { 1, 1, 20, 0, -1 }, &t, string, len);
        ts_cpu_set_mask(masks[trial % N_MASKS]);
        run_slots(&s);
        for (int64_t n = 3; n < 23; n++) {
            string[n] = 0;
            toy_after(&t, n, string, logits);
            for (int32_t v = 1; v < 97; v++)
                if (logits[v] > logits[string[n]]) string[n] = v;
        }
        assert_memory_equal(tokens_of(&s, 0, 0), string + 3, 20 * sizeof *string);
        search_free(&s);
    }
    ts_cpu_set_mask(~0u);
}

/* A vocabulary of many pieces: every row of the table, and any number of threads. */
TEST(large_vocabularies)
{
    enum { N_VOCAB = 50257, STEPS = 4 };
    const int32_t prompts[] = { 7, 50256, 3, 1, 4 };
    const int64_t len[] = { 1, 3, 1 };
    toy           t;
    toy_make(&t, TOY_HASH, N_VOCAB, ts_bits(seed, n_drawn++));
    for (int archive = 0; archive < 2; archive++) {
        const ts_beam_dims d = { 3, 5, STEPS, 0.6, 11 };
        search             plain = search_make(d, &t, prompts, len);
        search             s = search_make(d, &t, prompts, len);
        const ts_device    there = where;
        where = TS_CPU;
        ts_cpu_set_mask(0);
        assert_int_equal(run_with(&plain, archive, 1), TS_OK);
        where = there;
        for (int mask = 1; mask < N_MASKS; mask++)
            for (int n = 1; n < 4; n++) {
                ts_cpu_set_mask(masks[mask]);
                search_poison(&s);
                assert_int_equal(run_with(&s, archive, n), TS_OK);
                assert_memory_equal(s.a.tokens, plain.a.tokens, 3 * 5 * STEPS * 4);
                for (int p = 0; p < 15; p++)
                    assert_true(fabs(s.a.logprob[p] - plain.a.logprob[p]) <= 1e-12 * STEPS);
                if (n > 1 || mask > 1) continue;
                memcpy(plain.a.logprob, s.a.logprob, 15 * 8); /* from here on, bits */
                memcpy(plain.a.score, s.a.score, 15 * 8);
            }
        for (int64_t i = 0; i < 3; i++) assert_true(same_bits(&s, i, &plain, i));
        search_free(&plain);
        search_free(&s);
    }
    ts_cpu_set_mask(~0u);
}

/* More rows in a step than softmax_topk is given at a time. */
TEST(many_rows)
{
    enum { ITEMS = 300, WIDTH = 5 };
    static int32_t prompts[ITEMS];
    static int64_t len[ITEMS];
    toy            t;
    toy_make(&t, TOY_HASH, 7, ts_bits(seed, n_drawn++));
    for (int i = 0; i < ITEMS; i++) prompts[i] = (int32_t)below(7), len[i] = 1;
    for (int archive = 0; archive < 2; archive++) {
        search all = search_make((ts_beam_dims) { ITEMS, WIDTH, 3, 1, -1 }, &t, prompts, len);
        assert_int_equal(run_with(&all, archive, 2), TS_OK);
        assert_int_equal(t.last_rows, ITEMS * WIDTH);
        for (int i = 0; i < ITEMS; i++) {
            search s = search_make((ts_beam_dims) { 1, WIDTH, 3, 1, -1 }, &t, prompts + i, len);
            assert_int_equal(run_with(&s, archive, 1), TS_OK);
            assert_true(same_bits(&s, 0, &all, i));
            search_free(&s);
        }
        search_free(&all);
    }
}

/* Legal, but beyond any memory: the query is to say so at once. */
TEST(vast_searches_are_sized)
{
    const int32_t prompt[] = { 0 };
    const int64_t len[] = { 1 };
    toy           t;
    toy_make(&t, TOY_HASH, 7, 0);
    search s = search_make((ts_beam_dims) { 1, 1, 3, 1, 6 }, &t, prompt, len);
    s.a.d.beam_width = INT32_MAX;
    const ts_exec x = { 0 };
    size_t        n = 0;
    assert_int_equal(ts_beam_search_workspace(&s.a, &x, &n), TS_OK);
    assert_true(n > (size_t)INT32_MAX * 7 * 4);
    assert_int_equal(ts_beam_search(&s.a, &x), TS_E_WORKSPACE);
    s.a.d.beam_width = 1;
    search_free(&s);
}

/* A model that looks at the last token alone would hide most mistakes. */
TEST(models_look_at_everything)
{
    float before[97], after[97];
    for (int kind = 0; kind < 3; kind++) {
        int64_t n_moved = 0;
        for (int trial = 0; trial < 200; trial++) {
            int32_t string[6];
            toy     t;
            toy_make(&t, (toy_kind)kind, 97, ts_bits(seed, n_drawn++));
            t.table = table_masked;
            n_masked++;
            for (int j = 0; j < 6; j++) string[j] = (int32_t)below(97);
            toy_after(&t, 6, string, before);
            const int64_t j = below(5);
            string[j] = (int32_t)((string[j] + 1 + below(96)) % 97);
            toy_after(&t, 6, string, after);
            n_moved += memcmp(before, after, sizeof before) != 0;
        }
        assert_true(n_moved > 190);
    }
}

int main(int argc, char **argv)
{
    const int absent = choose_device(argc, argv);
    if (absent) return absent;
    draw_seed("BEAM_SEED");
    return unit_run();
}
