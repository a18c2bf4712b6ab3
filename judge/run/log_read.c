/* SPDX-License-Identifier: Apache-2.0 */
/* log_read.c - reads and verifies the hash-chained log, and opens it to be continued. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "sha256.h"

enum { N_TAIL = 9 + 64 + 2 }; /* ,"self":"HASH"} */

static const char ZEROS[] = "0000000000000000000000000000000000000000000000000000000000000000";

/* Required keys per record type: s string, i integer, n number, b boolean, o object, a array. Other
 * keys are allowed; other types are not. */
static const struct {
    const char *type, *fields;
} SHAPES[] = {
    { "run", "sversion smachine aguarantees sbadge scommit sstarted" },
    { "entrant", "iid sname sauthor sclass slanguage stask ssource_sha256 sfamily" },
    { "source", "ientrant sfile ssha256 stext" },
    { "correctness", "ientrant stask sverdict sreason stext" },
    { "verdict", "ientrant stask sverdict sreason stext" },
    { "time", "ientrant stask scase nfloor_ns ans ntime_ns nlo_ns nhi_ns nfraction" },
    { "anchor", "stask skind sworkload" },
    { "match", "stask ia ib neffect nlo nhi sverdict ipairs" },
    { "score", "ientrant stask nS nS_lo nS_hi nS_min nP nR nM sgrade" },
    { "rank", "stask arows" },
    { "reveal", "sseed" },
    { "end", "iverdicts" },
    { "signature", "ssignature" },
};

static bool fits(const ts_jr_node *v, char kind)
{
    int64_t i;
    double  x;
    switch (kind) {
    case 's':
        return ts_jr_is(v) == TS_JR_STR;
    case 'i':
        return ts_jr_int(v, &i);
    case 'n':
        return ts_jr_num(v, &x);
    case 'b':
        return ts_jr_is(v) == TS_JR_BOOL;
    case 'o':
        return ts_jr_is(v) == TS_JR_OBJ;
    default:
        return ts_jr_is(v) == TS_JR_ARR;
    }
}

static bool shaped(const ts_record *r, char *why)
{
    const char *f = NULL;
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
        if (r->type && !strcmp(r->type, SHAPES[i].type)) f = SHAPES[i].fields;
    if (!f) return snprintf(why, TS_WHY, "unknown record type"), false;
    while (*f) {
        char         key[32];
        const size_t n = strcspn(f + 1, " ");
        snprintf(key, sizeof key, "%.*s", (int)n, f + 1);
        if (!fits(ts_jr_get(r->root, key), *f))
            return snprintf(why, TS_WHY, "%s: '%s': missing or of the wrong type", r->type, key),
                   false;
        f += 1 + n;
        if (*f) f++;
    }
    return true;
}

/* Reads line number seq; prev is the hash of the line before. */
static bool read_line(ts_record *r, size_t seq, const char *prev, char *why)
{
    char    self[65], bad[TS_WHY - 64];
    int64_t got;
    snprintf(why, TS_WHY, "checksum mismatch: not a judge log, or altered after writing");
    if (r->n < N_TAIL) return false;
    ts_sha256_hex(r->line, r->n - N_TAIL, self);
    const char *tail = r->line + r->n - N_TAIL;
    if (memcmp(tail, ",\"self\":\"", 9) || memcmp(tail + 9, self, 64) ||
        memcmp(tail + 73, "\"}", 2))
        return false;
    r->doc = ts_jr_parse(r->line, r->n, bad, sizeof bad);
    if (!r->doc) {
        const char *said = bad + (strncmp(bad, "line 1, ", 8) ? 0 : 8); /* a record is one line */
        return snprintf(why, TS_WHY, "not JSON: %s", said), false;
    }
    r->root = ts_jr_root(r->doc);
    r->type = ts_jr_str(ts_jr_get(r->root, "type"));
    if (!ts_jr_int(ts_jr_get(r->root, "seq"), &got) || got != (int64_t)seq)
        return snprintf(why, TS_WHY, "sequence number out of order"), false;
    if (strcmp(ts_jr_text(r->root, "prev", ""), prev))
        return snprintf(why, TS_WHY, "does not match the checksum of the previous line"), false;
    return shaped(r, why);
}

static bool add(ts_records *r, size_t *cap, const char *line, size_t n)
{
    if (r->n == *cap) {
        const size_t more = *cap ? 2 * *cap : 64;
        ts_record   *at = realloc(r->at, more * sizeof *at);
        if (!at) return false;
        r->at = at;
        *cap = more;
    }
    r->at[r->n++] = (ts_record) { .line = line, .n = n };
    return true;
}

bool ts_records_parse(char *text, size_t n, ts_records *r, char why[TS_WHY])
{
    char   bad[TS_WHY];
    size_t cap = 0;
    *r = (ts_records) { .text = text, .n_torn = n };
    memcpy(r->last, ZEROS, sizeof ZEROS);
    *why = 0;
    for (char *p = text, *end; r->n_torn && (end = memchr(p, '\n', r->n_torn)); p = end + 1) {
        const size_t len = (size_t)(end - p);
        const bool   added = add(r, &cap, p, len);
        if (!added || !read_line(&r->at[r->n - 1], r->n - 1, r->last, bad)) {
            snprintf(why, TS_WHY, "line %zu: %.180s", r->n + !added, added ? bad : "out of memory");
            ts_records_free(r);
            return false;
        }
        ts_sha256_hex(p, len, r->last);
        r->n_bytes += len + 1;
        r->n_torn -= len + 1;
    }
    return true;
}

/* Reads the whole file; NULL and why on failure. */
static char *slurp(int fd, size_t *n, char *why)
{
    struct stat is;
    char       *text = NULL;
    *n = 0;
    if (!fstat(fd, &is) && S_ISREG(is.st_mode) && (text = malloc((size_t)is.st_size + 1))) {
        ssize_t got = 1;
        while (*n < (size_t)is.st_size && got > 0) {
            got = pread(fd, text + *n, (size_t)is.st_size - *n, (off_t)*n);
            if (got > 0) *n += (size_t)got;
        }
        if (got >= 0) return text;
    }
    snprintf(why, TS_WHY, "cannot be read: %s", errno ? strerror(errno) : "not a file");
    free(text);
    return NULL;
}

bool ts_records_read(const char *path, ts_records *r, char why[TS_WHY])
{
    size_t    n;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        snprintf(why, TS_WHY, "cannot be read: %s", strerror(errno));
        return false;
    }
    errno = 0;
    char *text = slurp(fd, &n, why);
    close(fd);
    return text && ts_records_parse(text, n, r, why);
}

void ts_records_free(ts_records *r)
{
    for (size_t i = 0; i < r->n; i++) ts_jr_free(r->at[i].doc), free(r->at[i].own);
    free(r->at);
    free(r->text);
    *r = (ts_records) { 0 };
}

bool ts_records_ended(const ts_records *r)
{
    size_t n = r->n;
    while (n && ts_record_is(&r->at[n - 1], "signature")) n--;
    return n && ts_record_is(&r->at[n - 1], "end");
}

const ts_record *ts_records_verdict(const ts_records *r, const char *source_sha256,
                                    const char *task)
{
    for (size_t v = 0; v < r->n; v++) {
        int64_t id, other;
        if (!ts_record_is(&r->at[v], "verdict") ||
            strcmp(ts_jr_text(r->at[v].root, "task", ""), task))
            continue;
        ts_jr_int(ts_jr_get(r->at[v].root, "entrant"), &id);
        for (size_t e = 0; e < v; e++)
            if (ts_record_is(&r->at[e], "entrant") &&
                ts_jr_int(ts_jr_get(r->at[e].root, "id"), &other) && other == id &&
                !strcmp(ts_jr_text(r->at[e].root, "source_sha256", ""), source_sha256))
                return &r->at[v];
    }
    return NULL;
}

/* Locks the log, so that two judges cannot extend one chain, then reads and verifies it, and
 * removes an incomplete last line. */
static bool take_over(ts_log *l, ts_records *r, char *why)
{
    size_t n;
    if (flock(l->fd, LOCK_EX | LOCK_NB))
        return snprintf(why, TS_WHY, "another process is writing to the log"), false;
    char *text = slurp(l->fd, &n, why);
    if (!text || !ts_records_parse(text, n, r, why)) return false;
    memcpy(l->prev, r->last, sizeof l->prev);
    l->seq = (int64_t)r->n;
    if (!r->n_torn) return true;
    const bool cut = !ftruncate(l->fd, (off_t)r->n_bytes) && !fsync(l->fd);
    if (cut)
        snprintf(why, TS_WHY, "line %zu was incomplete; its %zu bytes were removed", r->n + 1,
                 r->n_torn);
    else snprintf(why, TS_WHY, "the incomplete last line cannot be removed: %s", strerror(errno));
    if (!cut) ts_records_free(r);
    return cut;
}

ts_log *ts_log_open(const char *path, ts_records *r, char why[TS_WHY])
{
    ts_records held = { 0 };
    ts_log    *l = calloc(1, sizeof *l);
    *why = 0;
    if (!l) return snprintf(why, TS_WHY, "out of memory"), NULL;
    l->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    errno = l->fd < 0 ? errno : 0;
    if (l->fd < 0) snprintf(why, TS_WHY, "cannot be opened: %s", strerror(errno));
    if (l->fd < 0 || !take_over(l, &held, why)) return ts_log_close(l), NULL;
    if (r) *r = held;
    else ts_records_free(&held);
    return l;
}
