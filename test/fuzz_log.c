/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_log.c - fuzzes the readers of a log.
 *
 * The bytes are read as they are, and as the bodies of records in a valid chain, which an attacker
 * with the hash function can write. What is read is rendered. */
#include "fuzz.h"
#include "merge.h"
#include "page.h"
#include "sha256.h"

static FILE *nowhere;

static void draw(char *text, size_t n)
{
    char       why[TS_WHY];
    ts_records r;
    ts_board   b;
    if (!ts_records_parse(text, n, &r, why)) return;
    ts_records_verdict(&r, "5eed", "softmax_topk");
    ts_merge  *m = ts_merge_begin();
    const bool once = ts_merge_add(m, &r, why);
    if (once && n % 2) ts_merge_add(m, &r, why); /* every answer is there again */
    ts_records_free(&r);
    if (!once) return ts_merge_free(m);
    if (ts_merge_end(m, &r, why) && ts_board_make(&r, &b, why)) {
        ts_board_print(&b, nowhere);
        /* mostly the same long script: now and then is enough */
        if (n % 8 == 0 && !ts_page_write(&r, &b, nowhere)) abort();
        ts_board_free(&b);
    }
    ts_records_free(&r);
}

/* Each line of the input becomes {"seq":N,"prev":"HASH",LINE,"self":"HASH"}. */
static void chained(const char *p, size_t n)
{
    ts_jw   all = { 0 }, one = { 0 };
    char    hash[65];
    int64_t seq = 0;
    memset(hash, '0', 64);
    hash[64] = 0;
    for (const char *end = p + n; p < end; seq++) {
        const char  *stop = memchr(p, '\n', (size_t)(end - p));
        const size_t len = stop ? (size_t)(stop - p) : (size_t)(end - p);
        one.n = 0;
        ts_jw_open(&one, NULL, '{');
        ts_jw_int(&one, "seq", seq);
        ts_jw_text(&one, "prev", hash);
        ts_jw_raw(&one, ",", 1);
        ts_jw_raw(&one, p, len);
        ts_sha256_hex(one.text, one.n, hash);
        ts_jw_raw(&one, ",\"self\":\"", 9);
        ts_jw_raw(&one, hash, 64);
        ts_jw_raw(&one, "\"}", 2);
        ts_sha256_hex(one.text, one.n, hash);
        ts_jw_raw(&one, "\n", 1);
        ts_jw_raw(&all, one.text, one.n);
        p += len + 1;
    }
    ts_jw_free(&one);
    draw(all.text, all.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *copy = malloc(n + 1);
    if (!nowhere) nowhere = fopen("/dev/null", "w");
    if (!copy || !nowhere) abort();
    memcpy(copy, data, n);
    draw(copy, n);
    chained((const char *)data, n);
    return 0;
}
