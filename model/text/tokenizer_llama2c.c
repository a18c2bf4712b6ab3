/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer_llama2c.c - int32 longest piece, then for each piece float32 score, int32 length and
 * its bytes. `<0xHH>` is a byte. */
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"

enum { MOST_PIECES = 1 << 20, LONGEST = 256, BEGIN = 1, END = 2 };

int ts_raw_byte(const char *p, size_t n)
{
    static const char digits[] = "0123456789ABCDEF";
    const char       *hi, *lo;
    if (n != 6 || memcmp(p, "<0x", 3) || p[5] != '>') return -1;
    hi = memchr(digits, p[3], 16);
    lo = memchr(digits, p[4], 16);
    return hi && lo ? (int)(16 * (hi - digits) + (lo - digits)) : -1;
}

/* Reads piece i at *at; its bytes go to `text`. */
static bool piece(ts_tokenizer *t, int64_t i, const unsigned char *p, size_t n, size_t *at,
                  char **text, char why[TS_MODEL_WHY])
{
    float   score;
    int32_t len;
    if (n - *at < 8) return ts_say(why, "vocabulary: file ends inside piece %lld", (long long)i);
    memcpy(&score, p + *at, 4);
    memcpy(&len, p + *at + 4, 4);
    *at += 8;
    if (!(score - score == 0))
        return ts_say(why, "vocabulary: piece %lld: expected a finite score", (long long)i);
    if (len < 0 || len > LONGEST || (size_t)len > n - *at)
        return ts_say(why, "vocabulary: piece %lld: got a length of %d with %zu bytes left",
                      (long long)i, len, n - *at);
    memcpy(*text, p + *at, (size_t)len);
    *at += (size_t)len;
    const int byte = ts_raw_byte(*text, (size_t)len);
    if (byte >= 0) {
        (*text)[0] = (char)byte;
        len = 1;
        t->byte[byte] = (int32_t)i;
    }
    t->piece[i] = (ts_piece) { .bytes = *text, .n = (size_t)len, .score = score };
    *text += len;
    return true;
}

bool ts_tokenizer_llama2c(ts_tokenizer *t, const unsigned char *p, size_t n, char why[TS_MODEL_WHY])
{
    size_t at = 4;
    if (n < 12) return ts_say(why, "vocabulary: got %zu bytes, expected at least 12", n);
    const size_t most = n / 8 < MOST_PIECES ? n / 8 : MOST_PIECES;
    t->piece = calloc(most, sizeof *t->piece);
    t->text = malloc(n);
    bool *ordinary = malloc(most);
    bool  ok = (t->piece && t->text && ordinary) || ts_say(why, "out of memory for a vocabulary");
    char *text = t->text;
    for (; ok && at < n; t->n_piece++) {
        ok = (size_t)t->n_piece < most || ts_say(why, "vocabulary: got more than %zu pieces", most);
        ok = ok && piece(t, t->n_piece, p, n, &at, &text, why);
    }
    ok = ok && (t->n_piece > END || ts_say(why, "vocabulary: got %lld pieces, which is too few",
                                           (long long)t->n_piece));
    for (int64_t i = 0; ok && i < t->n_piece; i++) ordinary[i] = i > END;
    for (int i = 0; ok && i < 256; i++)
        if (t->byte[i] >= 0) ordinary[t->byte[i]] = false; /* only for what has no piece */
    ok = ok && ts_tokenizer_sort(t, ordinary, why);
    free(ordinary);
    t->first[t->n_first++] = BEGIN;
    t->stop = END;
    t->leading_space = t->characters = true;
    return ok;
}
