/* SPDX-License-Identifier: Apache-2.0 */
/* spoil.c - derives invalid calls from a valid one: see spoil.h. */
#include "spoil.h"

#include <string.h>

/* The bytes of 2^62 elements do not fit 63 bits, though their number does; 2^66 are none in 64. */
enum { ELEMENTS = 62, MANY_ELEMENTS = 66, LEAST_ELEMENTS = 60, FEW = 3 };

static int64_t get(const void *args, size_t at)
{
    int64_t v;
    memcpy(&v, (const char *)args + at, sizeof v);
    return v;
}

static void put(const ts_extent *e, void *args, int64_t v)
{
    memcpy((char *)args + e->at, &v, sizeof v);
    if (e->with && get(args, e->with) < v) memcpy((char *)args + e->with, &v, sizeof v);
}

/* Is it this one's turn? */
static bool turn(int *left)
{
    return (*left)-- == 0;
}

/* Every extent as small as can be with something to do. */
static void shrink(const ts_invalid *s, void *args)
{
    for (int k = 0; k < s->n_extent; k++) {
        const ts_extent *e = &s->extent[k];
        if (!e->keeps) put(e, args, e->least > 1 ? e->least : 1);
    }
}

static bool drop_pointer(const ts_invalid *s, int *left, void *args)
{
    for (int small = 0; small < 2; small++)
        for (int k = 0; k < TS_MAX_POINTERS && s->pointer[k]; k++) {
            if (!turn(left)) continue;
            if (small) shrink(s, args);
            memset((char *)args + s->pointer[k] - 1, 0, sizeof(void *));
            return true;
        }
    return false;
}

/* The call has something to do, or nothing. */
static bool leave_range(const ts_invalid *s, int *left, void *args)
{
    for (int none = -1; none < s->n_extent; none++) {
        if (none >= 0 && !s->extent[none].empties) continue;
        for (int k = 0; k < s->n_extent; k++) {
            const ts_extent *e = &s->extent[k];
            const int64_t    value[] = { -1, INT64_MIN, e->least - 1, e->most + 1 };
            for (int i = 0; i < 4; i++) {
                if (k == none || (i == 2 && e->least < 1) || (i == 3 && !e->most)) continue;
                if (!turn(left)) continue;
                if (none >= 0) put(&s->extent[none], args, 0);
                put(e, args, value[i]);
                return true;
            }
        }
    }
    return false;
}

/* ---- products ---- */

/* The largest power of two that an extent may be. */
static int most_power(const ts_extent *e)
{
    int p = 0;
    while (p < ELEMENTS && (!e->most || (int64_t)1 << (p + 1) <= e->most)) p++;
    return p;
}

/* One as large as it takes, the other factors of `set` a few; or, if it may not be so large, as
 * large as it may, and the others share the rest. */
static bool lead(const ts_extent *const *e, int n, unsigned set, int leader, int *power)
{
    int left = ELEMENTS, n_others = 0;
    if (!(set >> leader & 1)) return false;
    for (int k = 0; k < n; k++) {
        if (!(set >> k & 1) || k == leader) continue;
        power[k] = most_power(e[k]) < FEW ? most_power(e[k]) : FEW;
        left -= power[k];
        n_others++;
    }
    power[leader] = left;
    const int most = most_power(e[leader]);
    if (left <= most) return true;
    power[leader] = most;
    for (int k = 0; k < n && n_others; k++)
        if (set >> k & 1 && k != leader) power[k] = (ELEMENTS - most + n_others - 1) / n_others;
    for (int k = 0; k < n; k++)
        if (set >> k & 1 && power[k] > most_power(e[k])) return false;
    return n_others > 0;
}

/* All factors of `set` alike large, as far as they may; where all are as large as they may, some
 * elements fewer are still too many with those of other extents. */
static bool share(const ts_extent *const *e, int n, unsigned set, int elements, int *power)
{
    int left = elements, n_left = 0;
    for (int k = 0; k < n; k++) n_left += set >> k & 1;
    if (n_left < 2) return false;
    for (int k = 0; k < n; k++) power[k] = -1;
    for (int k = 0; k < n; k++) {
        if (!(set >> k & 1) || (n_left > 0 && most_power(e[k]) * n_left >= left)) continue;
        power[k] = most_power(e[k]);
        left -= power[k], n_left--;
    }
    for (int k = 0; k < n && n_left; k++)
        if (set >> k & 1 && power[k] < 0) power[k] = (left + n_left - 1) / n_left;
    for (int k = 0; k < n; k++)
        if (set >> k & 1 && power[k] > most_power(e[k])) return false;
    return n_left > 0 || elements - left >= LEAST_ELEMENTS;
}

static bool overflow(const ts_invalid *s, const ts_product *p, int *left, void *args)
{
    const ts_extent *e[TS_MAX_FACTORS];
    int              n = 0, power[TS_MAX_FACTORS];
    for (; n < TS_MAX_FACTORS && p->extent[n]; n++) e[n] = &s->extent[p->extent[n] - 1];
    for (unsigned set = 1; set < 1u << n; set++)
        for (int leader = 0; leader < n + 2; leader++) {
            const int many = leader == n ? MANY_ELEMENTS : ELEMENTS;
            if (leader < n ? !lead(e, n, set, leader, power) : !share(e, n, set, many, power))
                continue;
            if (!turn(left)) continue;
            for (int k = 0; k < n; k++)
                if (set >> k & 1) put(e[k], args, (int64_t)1 << power[k]);
            return true;
        }
    return false;
}

/* ---- rows of invalid values ---- */

static int64_t whole_of(const void *args, const ts_bad *b)
{
    const char *const from = (const char *)args + b->from;
    int64_t           v = 0;
    int32_t           half = 0;
    if (b->from_bytes == sizeof v) memcpy(&v, from, sizeof v);
    if (b->from_bytes != sizeof half) return v;
    memcpy(&half, from, sizeof half);
    return half;
}

/* Stores value number `which` of a row. */
static void put_value(const ts_bad *b, int which, void *args, char *at)
{
    const double  real = b->value[which];
    const int64_t whole = b->of     ? b->of(args)
                          : b->real ? 0
                                    : whole_of(args, b) + (int64_t)b->value[which];
    const int32_t half = (int32_t)whole;
    if (b->to) memcpy(at, &b->to, sizeof b->to);
    else if (b->real) memcpy(at, &real, sizeof real);
    else if (b->bytes == sizeof half) memcpy(at, &half, sizeof half);
    else memcpy(at, &whole, sizeof whole);
}

static void set_field(const ts_bad *b, int which, void *args)
{
    char *const at = (char *)args + b->at, *const room = (char *)args + b->room;
    const char *from;
    if (!b->room_bytes) {
        put_value(b, which, args, at);
        return;
    }
    const int64_t n = get(args, b->count);
    if (n < 1 || n > (int64_t)(b->room_bytes / b->bytes)) return;
    memcpy(&from, at, sizeof from);
    memmove(room, from, (size_t)n * b->bytes);
    memcpy(at, &room, sizeof room);
    for (int64_t i = b->element == TS_LAST ? n - 1 : 0; i < n; i++) {
        put_value(b, which, args, room + (size_t)i * b->bytes);
        if (b->element == TS_FIRST) return;
    }
}

bool ts_bad_call(const ts_bad *rows, int *left, void *args, ts_device d, ts_status *must)
{
    for (const ts_bad *b = rows; b->n; b++) {
        if (b->must == TS_ALSO || (b->must & TS_HOST && d != TS_CPU)) continue;
        *left -= b->n;
        if (*left >= 0) continue;
        *must = (ts_status)(b->must & ~TS_HOST);
        if (args) set_field(b, *left + b->n, args);
        for (b++; args && b->n && b->must == TS_ALSO; b++) set_field(b, 0, args);
        return true;
    }
    return false;
}

/* ---- nothing to do ---- */

/* A call that needs workspace all the same is told that there is enough: it must not use any. */
static bool empty(const ts_invalid *s, int *left, void *args, ts_exec *x)
{
    for (int k = 0; k < s->n_extent; k++)
        for (int j = 0; j < s->n_extent && s->extent[k].empties && !s->told; j++) {
            if (j == k || !s->extent[j].most || !turn(left)) continue;
            put(&s->extent[j], args, s->extent[j].most);
            put(&s->extent[k], args, 0);
            if (!x->workspace) x->workspace = x;
            x->workspace_bytes = SIZE_MAX / 2;
            return true;
        }
    return false;
}

/* ---- calls that the player of a script makes ---- */

static bool select_how(const ts_invalid *s, bool without, int *left, void *args, ts_status *must)
{
    for (int64_t how = without ? s->without : s->odd; s->how_must && s->how_must(args, how, must);
         how++)
        for (int small = 0; small < 1 + without; small++) {
            if (!turn(left)) continue;
            if (small) shrink(s, args);
            memcpy((char *)args + s->how, &how, sizeof how);
            return true;
        }
    return false;
}

static bool spoil(const ts_invalid *s, int *left, void *args, ts_exec *x, ts_status *must)
{
    for (const ts_bad *b = s->always; b && b->n; b++) set_field(b, 0, args);
    if (select_how(s, true, left, args, must)) return true;
    *must = TS_E_ARG;
    if (drop_pointer(s, left, args)) return true;
    *must = TS_E_SHAPE;
    if (leave_range(s, left, args)) return true;
    for (int k = 0; k < TS_MAX_PRODUCTS && s->product[k].extent[0]; k++)
        if (overflow(s, &s->product[k], left, args)) return true;
    *must = TS_OK;
    if (empty(s, left, args, x)) return true;
    if (s->bad && ts_bad_call(s->bad, left, args, x->device, must)) return true;
    return select_how(s, false, left, args, must);
}

bool ts_spoil(const ts_invalid *s, int i, void *args, ts_exec *x, ts_status *must)
{
    while (s && !spoil(s, &i, args, x, must)) s = s->next;
    return s;
}
