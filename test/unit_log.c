/* SPDX-License-Identifier: Apache-2.0 */
/* unit_log.c - hash, JSON, log, and what is made of a log. */
#define _GNU_SOURCE
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "page.h"
#include "sha256.h"

/* ---- sha256 ---- */

TEST(sha256_vectors)
{
    char   hex[65];
    char  *million = malloc(1000000);
    size_t n = 0;
    ts_sha256_hex("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    ts_sha256_hex("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    ts_sha256_hex(two, strlen(two), hex);
    assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_non_null(million);
    for (n = 0; n < 1000000; n++) million[n] = 'a';
    ts_sha256_hex(million, n, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

/* ---- JSON ---- */

static bool reads(const char *text)
{
    char       why[64];
    ts_jr_doc *d = ts_jr_parse(text, strlen(text), why, sizeof why);
    ts_jr_free(d);
    return d;
}

TEST(json_takes_and_refuses)
{
    static const char *const good[] = { "0",
                                        "-0.5e-3",
                                        " [ ] ",
                                        "{\"a\":{}}",
                                        "\"\\u00e9\"",
                                        "[1,[2,[3]]]",
                                        "[true,false,null]",
                                        "\"\\ud83d\\ude00\"",
                                        "\"\xc3\xa9\"" };
    static const char *const bad[] = {
        "",
        "01",
        "1.",
        "+1",
        ".5",
        "1e",
        "nan",
        "[1,]",
        "{\"a\"}",
        "{a:1}",
        "[1 2]",
        "\"",
        "\"\\x\"",
        "tru",
        "1 1",
        "{\"a\":1,}",
        "\"\t\"",
        "\"\xff\"",
        "\"\xc0\x80\"",
        "\"\\ud800\"",
        "\"\\u0000\"",
        "1e999",
        "{\"a\":1,\"a\":2}",
        "[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]",
        "\"\xed\xa0\x80\"",
        "\"\xc1\xbf\"",
        "\"\xe0\x80\xaf\"",
        "\"\\udc00\"",
        "-",
        "[",
        "{\"a\":",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!reads(good[i])) fail_msg("refused %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (reads(bad[i])) fail_msg("took %s", bad[i]);
}

TEST(json_round_trip)
{
    static const double numbers[] = { 0.1, -1e-320, 1.7976931348623157e308, 1.0 / 3, 0 };
    const char         *text = "<\"\\\x01\t\x7f\xe2\x80\xa8&\xf0\x9f\x98\x80>";
    ts_jw               w = { 0 };
    char                why[64];
    double              x;
    int64_t             i;
    ts_jw_open(&w, NULL, '{');
    ts_jw_text(&w, "text", text);
    ts_jw_text(&w, "broken",
               "a\xff"
               "b");
    ts_jw_open(&w, "numbers", '[');
    for (int k = 0; k < 5; k++) ts_jw_num(&w, NULL, numbers[k]);
    ts_jw_num(&w, NULL, (double)NAN);
    ts_jw_num(&w, NULL, -HUGE_VAL);
    ts_jw_int(&w, NULL, INT64_MIN);
    ts_jw_close(&w, ']');
    ts_jw_bool(&w, "yes", true);
    ts_jw_close(&w, '}');
    assert_null(strpbrk(w.text, "<>&\x01\t\x7f"));
    ts_jr_doc        *d = ts_jr_parse(w.text, w.n, why, sizeof why);
    const ts_jr_node *root = ts_jr_root(d), *a = ts_jr_get(root, "numbers");
    assert_string_equal(ts_jr_text(root, "text", ""), text);
    assert_string_equal(ts_jr_text(root, "broken", ""), "a?b");
    for (size_t k = 0; k < 5; k++) assert_true(ts_jr_num(ts_jr_at(a, k), &x) && x == numbers[k]);
    assert_true(ts_jr_num(ts_jr_at(a, 5), &x) && isnan(x));
    assert_true(ts_jr_num(ts_jr_at(a, 6), &x) && x == -HUGE_VAL);
    assert_true(ts_jr_int(ts_jr_at(a, 7), &i) && i == INT64_MIN);
    assert_true(ts_jr_bool(ts_jr_get(root, "yes")));
    assert_int_equal(ts_jr_len(a), 8);
    assert_string_equal(ts_jr_key(root, 3), "yes");
    assert_null(ts_jr_get(a, "text"));
    assert_false(ts_jr_int(ts_jr_at(a, 0), &i));
    ts_jr_free(d);
    ts_jw_free(&w);
}

/* ---- the log ---- */

static char path[] = "/tmp/unit_board.XXXXXX";

static void fresh(void)
{
    strcpy(path + sizeof path - 7, "XXXXXX");
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
}

static void put_entrant(ts_log *l, int64_t id, const char *hash)
{
    ts_jw *w = ts_log_begin(l, "entrant");
    ts_jw_int(w, "id", id);
    ts_jw_text(w, "name", "n\n<\"");
    ts_jw_text(w, "author", "a");
    ts_jw_text(w, "class", "sealed");
    ts_jw_text(w, "language", "c");
    ts_jw_text(w, "task", "softmax_topk");
    ts_jw_text(w, "source_sha256", hash);
    ts_jw_text(w, "family", "f");
    assert_true(ts_log_commit(l));
}

static void put_verdict(ts_log *l, int64_t id)
{
    ts_jw *w = ts_log_begin(l, "verdict");
    ts_jw_int(w, "entrant", id);
    ts_jw_text(w, "task", "softmax_topk");
    ts_jw_text(w, "verdict", "PASS");
    ts_jw_text(w, "reason", "");
    ts_jw_text(w, "text", "");
    assert_true(ts_log_commit(l));
}

static void small_log(void)
{
    char    why[TS_WHY];
    ts_log *l;
    fresh();
    l = ts_log_open(path, NULL, why);
    assert_non_null(l);
    put_entrant(l, 0, "aa");
    put_verdict(l, 0);
    put_entrant(l, 1, "bb");
    ts_log_close(l);
}

static char *contents(size_t *n)
{
    FILE *f = fopen(path, "r");
    char *text = malloc(1 << 16);
    assert_true(f && text);
    *n = fread(text, 1, (1 << 16) - 1, f);
    text[*n] = 0;
    fclose(f);
    return text;
}

static void write_back(const char *text, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_true(f && fwrite(text, 1, n, f) == n && !fclose(f));
}

static bool whole(const char *text, size_t n, char *why, ts_records *r)
{
    char *copy = malloc(n + 1);
    assert_non_null(copy);
    memcpy(copy, text, n);
    return ts_records_parse(copy, n, r, why);
}

/* Any byte, to any of four others: found, and in its own line; only the last newline may go
 * unnoticed as a change, and then its line is torn. */
TEST(log_detects_every_byte)
{
    char       why[TS_WHY];
    size_t     n, line = 1;
    ts_records r;
    small_log();
    char *text = contents(&n);
    assert_true(whole(text, n, why, &r) && r.n == 3 && !r.n_torn);
    ts_records_free(&r);
    for (size_t i = 0; i < n; i++) {
        const char was = text[i];
        for (int k = 0; k < 4; k++) {
            text[i] = (char)(was ^ "\x01\x80\x20\x0a"[k]);
            unsigned long said = 0;
            if (text[i] == was) continue;
            if (!whole(text, n, why, &r)) assert_int_equal(sscanf(why, "line %lu", &said), 1);
            else {
                assert_true(i == n - 1 && r.n == 2 && r.n_torn);
                ts_records_free(&r);
                continue;
            }
            if (said != line) fail_msg("byte %zu of line %zu: said '%s'", i, line, why);
        }
        text[i] = was;
        line += was == '\n';
    }
    free(text);
    unlink(path);
}

TEST(log_detects_lines)
{
    char       why[TS_WHY];
    size_t     n;
    ts_records r;
    small_log();
    char        *text = contents(&n);
    char        *second = strchr(text, '\n') + 1, *third = strchr(second, '\n') + 1;
    const size_t n1 = (size_t)(second - text), n2 = (size_t)(third - second), n3 = n - n1 - n2;
    char        *other = malloc(2 * n);
    memcpy(other, text, n1); /* the second is missing */
    memcpy(other + n1, third, n3);
    assert_false(whole(other, n1 + n3, why, &r));
    assert_string_equal(why, "line 2: sequence number out of order");
    memcpy(other, text, n1 + n2); /* twice */
    memcpy(other + n1 + n2, second, n2);
    assert_false(whole(other, n1 + 2 * n2, why, &r));
    assert_string_equal(why, "line 3: sequence number out of order");
    fresh(); /* another log's second line: whole in itself, and of the right number */
    ts_log *l = ts_log_open(path, NULL, why);
    put_entrant(l, 0, "zz");
    put_verdict(l, 0);
    ts_log_close(l);
    size_t n4;
    char  *strange = contents(&n4), *its = strchr(strange, '\n') + 1;
    memcpy(other + n1, its, strlen(its));
    assert_false(whole(other, n1 + n4 - (size_t)(its - strange), why, &r));
    assert_string_equal(why, "line 2: does not match the checksum of the previous line");
    free(strange);
    free(other);
    free(text);
    unlink(path);
}

/* Cut anywhere: what was whole stays, the torn rest goes, and the log goes on. */
TEST(log_continues_torn)
{
    char       why[TS_WHY];
    size_t     n, after;
    ts_records r;
    small_log();
    char *text = contents(&n);
    for (size_t cut = 0; cut < n; cut += 7) {
        size_t lines = 0, kept = 0;
        for (size_t i = 0; i < cut; i++)
            if (text[i] == '\n') lines++, kept = i + 1;
        write_back(text, cut);
        ts_log *l = ts_log_open(path, &r, why);
        assert_non_null(l);
        assert_int_equal(r.n, lines);
        assert_int_equal(kept != cut, *why != 0); /* and it is said */
        ts_records_free(&r);
        put_entrant(l, 9, "cc");
        ts_log_close(l);
        assert_true(ts_records_read(path, &r, why) && r.n == lines + 1 && !r.n_torn);
        ts_records_free(&r);
        char *now = contents(&after);
        assert_memory_equal(now, text, kept); /* nothing else was touched */
        free(now);
    }
    free(text);
    unlink(path);
}

TEST(log_refuses)
{
    char       why[TS_WHY];
    size_t     n, m;
    ts_records r;
    small_log();
    ts_log *l = ts_log_open(path, NULL, why);
    assert_non_null(l);
    assert_null(ts_log_open(path, NULL, why)); /* two writers */
    assert_non_null(strstr(why, "another"));
    ts_log_begin(l, "gossip"); /* an unknown type */
    assert_true(ts_log_commit(l));
    ts_log_close(l);
    assert_false(ts_records_read(path, &r, why));
    assert_non_null(strstr(why, "line 4: unknown record type"));
    small_log();
    char *text = contents(&n);
    text[n / 2] ^= 1;
    write_back(text, n);
    assert_null(ts_log_open(path, NULL, why)); /* a changed log is neither continued nor repaired */
    char *now = contents(&m);
    assert_true(m == n && !memcmp(now, text, n));
    free(now);
    free(text);
    unlink(path);
    assert_false(ts_records_read(path, &r, why));
}

TEST(log_resumes)
{
    char       why[TS_WHY];
    ts_records r;
    small_log();
    assert_true(ts_records_read(path, &r, why));
    assert_ptr_equal(ts_records_verdict(&r, "aa", "softmax_topk"), &r.at[1]);
    assert_null(ts_records_verdict(&r, "bb", "softmax_topk")); /* entered, not judged */
    assert_null(ts_records_verdict(&r, "aa", "layernorm_forward"));
    ts_records_free(&r);
    unlink(path);
}

/* A writer killed at any moment loses at most the line it was writing. */
TEST(log_survives_kill)
{
    char       why[TS_WHY];
    ts_records r;
    size_t     before = 0;
    fresh();
    for (int round = 0; round < 20; round++) {
        const pid_t child = fork();
        if (!child) {
            ts_log *l = ts_log_open(path, NULL, why);
            for (int64_t id = 0;; id++) put_entrant(l, id, "aa");
            _exit(1);
        }
        usleep(2000 + 700 * (unsigned)round);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        assert_true(ts_records_read(path, &r, why));
        assert_true(r.n >= before);
        before = r.n;
        ts_records_free(&r);
    }
    assert_true(before > 20);
    unlink(path);
}

TEST(board_refuses)
{
    char       why[TS_WHY];
    ts_records r;
    ts_board   b;
    small_log();
    ts_log *l = ts_log_open(path, NULL, why);
    put_verdict(l, 7); /* of no entrant */
    ts_log_close(l);
    assert_true(ts_records_read(path, &r, why));
    assert_false(ts_board_make(&r, &b, why));
    assert_non_null(strstr(why, "line 4"));
    ts_records_free(&r);
    small_log();
    l = ts_log_open(path, NULL, why);
    put_verdict(l, 0); /* a second time */
    ts_log_close(l);
    assert_true(ts_records_read(path, &r, why));
    assert_false(ts_board_make(&r, &b, why));
    ts_records_free(&r);
    unlink(path);
}

/* A record that some other program wrote with bare markup in it cannot leave its element. */
TEST(page_holds_markup)
{
    static const char raw[] = ",\"machine\":\"</script><script>alert(1)</script><!--\"";
    char              why[TS_WHY], *html = NULL;
    size_t            n = 0, scripts = 0;
    ts_records        r;
    ts_board          b;
    fresh();
    ts_log *l = ts_log_open(path, NULL, why);
    ts_jw  *w = ts_log_begin(l, "run");
    ts_jw_raw(w, raw, sizeof raw - 1);
    for (int i = 0; i < 4; i++)
        ts_jw_text(w, (const char *[]) { "version", "badge", "commit", "started" }[i], "");
    ts_jw_open(w, "guarantees", '[');
    ts_jw_close(w, ']');
    assert_true(ts_log_commit(l));
    ts_log_close(l);
    assert_true(ts_records_read(path, &r, why) && ts_board_make(&r, &b, why));
    FILE *f = open_memstream(&html, &n);
    assert_true(f && ts_page_write(&r, &b, f) && !fclose(f));
    for (const char *p = html; (p = strstr(p, "<script")); p++) scripts++;
    assert_int_equal(scripts, 3);
    assert_null(strstr(html, "alert(1)</script>"));
    free(html);
    ts_board_free(&b);
    ts_records_free(&r);
    unlink(path);
}
