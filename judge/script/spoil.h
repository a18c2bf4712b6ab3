/* SPDX-License-Identifier: Apache-2.0 */
/* spoil.h - derives invalid calls from a valid one.
 *
 * A task declares which pointers of a call are required, which extents it has, and which values of
 * other fields are invalid. Each invalid call differs in one respect only, so that there is only
 * one reason to reject it. */
#ifndef TS_SCRIPT_SPOIL_H
#define TS_SCRIPT_SPOIL_H

#include <stdbool.h>
#include <stddef.h>

#include "touchstone/touchstone.h"

enum { TS_MAX_POINTERS = 12, TS_MAX_EXTENTS = 12, TS_MAX_PRODUCTS = 6, TS_MAX_FACTORS = 4 };

/* ---- rows of invalid values ---- */

enum {
    TS_MAX_VALUES = 8,
    TS_ALSO = -1, /* in place of a status: the row also applies to every call of the row before */
    TS_HOST = 256 /* added to a status: only calls on the CPU see it */
};

/* One invalid call per value. A field is a pointer, a double, an enum or an integer. Its value is
 * value[i], and the number or pointer in field `from`, if there is one; or what `of` returns; or
 * the pointer `to`. With `room`, the field points to an array: the value replaces an element of a
 * copy of it, to which the field then points. */
typedef struct ts_bad {
    int    must; /* the status that the call must return */
    size_t at, bytes;
    bool   real;
    int    n; /* values; 0 ends the table */
    double value[TS_MAX_VALUES];
    size_t from, from_bytes; /* 0 bytes: none */
    int64_t (*of)(void *args);
    const void *to;
    size_t      room, room_bytes, count; /* of the copy; of the number of elements, an int64_t */
    int         element;                 /* TS_FIRST, ... */
} ts_bad;

enum { TS_FIRST, TS_LAST, TS_EVERY };

#define TS_FIELD_BYTES_(type, member) sizeof(((type *)0)->member)
#define TS_IS_REAL_(lvalue)           _Generic(lvalue, double : true, default : false)
#define TS_FIELD_(type, member)                                                                    \
    .at = offsetof(type, member), .bytes = TS_FIELD_BYTES_(type, member),                          \
    .real = TS_IS_REAL_(((type *)0)->member)

/* TS_BAD(type, status, member, value, ...) */
#define TS_BAD(type, status, member, ...)                                                          \
    {                                                                                              \
        .must = status, TS_FIELD_(type, member),                                                   \
        .n = sizeof((const double[]) { __VA_ARGS__ }) / sizeof(double), .value = {                 \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
/* The member is what another is, plus a number. */
#define TS_BAD_LIKE(type, status, member, other, plus)                                             \
    {                                                                                              \
        .must = status, TS_FIELD_(type, member), .n = 1, .value = { plus },                        \
        .from = offsetof(type, other), .from_bytes = TS_FIELD_BYTES_(type, other)                  \
    }
#define TS_BAD_OF(type, status, member, function)                                                  \
    {                                                                                              \
        .must = status, TS_FIELD_(type, member), .n = 1, .of = function                            \
    }
#define TS_BAD_TO(type, status, member, pointer)                                                   \
    {                                                                                              \
        .must = status, TS_FIELD_(type, member), .n = 1, .to = pointer                             \
    }

/* As TS_BAD and TS_BAD_LIKE, for an element of the array of n that the member points to. */
#define TS_BAD_ITEM_(type, status, member, copy, n_items, which)                                   \
    .must = status, .at = offsetof(type, member), .bytes = sizeof(*((type *)0)->member),           \
    .real = TS_IS_REAL_(*((type *)0)->member), .room = offsetof(type, copy),                       \
    .room_bytes = TS_FIELD_BYTES_(type, copy), .count = offsetof(type, n_items), .element = which
#define TS_BAD_ITEM(type, status, member, copy, n_items, which, ...)                               \
    {                                                                                              \
        TS_BAD_ITEM_(type, status, member, copy, n_items, which),                                  \
            .n = sizeof((const double[]) { __VA_ARGS__ }) / sizeof(double), .value = {             \
                __VA_ARGS__                                                                        \
            }                                                                                      \
    }
#define TS_BAD_ITEM_LIKE(type, status, member, copy, n_items, which, other, plus)                  \
    {                                                                                              \
        TS_BAD_ITEM_(type, status, member, copy, n_items, which),                                  \
            .n = 1, .value = { plus }, .from = offsetof(type, other),                              \
            .from_bytes = TS_FIELD_BYTES_(type, other)                                             \
    }

/* Sets what call *i of the rows sets, unless args is NULL, and the status that it must return. If
 * there is no such call, false, and *i is reduced by the number of calls. */
bool ts_bad_call(const ts_bad *rows, int *i, void *args, ts_device d, ts_status *must);

/* ---- all invalid calls of a function ---- */

/* An extent, an int64_t of the args. */
typedef struct ts_extent {
    size_t  at;      /* where in the args */
    int64_t least;   /* below it, TS_E_SHAPE */
    int64_t most;    /* above it, TS_E_SHAPE; 0: only what products say */
    size_t  with;    /* another that must not be smaller, and goes up with it; 0: none */
    bool    empties; /* where it is 0, the call has nothing to do, whatever the others are */
    bool    keeps;   /* the least call keeps it: rows of the valid call, or a script */
} ts_extent;

/* Elements of a tensor: extents by number + 1, 0 ends. */
typedef struct ts_product {
    unsigned char extent[TS_MAX_FACTORS];
} ts_product;

typedef struct ts_invalid {
    size_t        pointer[TS_MAX_POINTERS]; /* that must not be NULL, each + 1: 0 ends */
    ts_extent     extent[TS_MAX_EXTENTS];
    int           n_extent;
    ts_product    product[TS_MAX_PRODUCTS]; /* none of whose bytes fit 63 bits */
    bool          told; /* statuses of calls are in outputs: one that is TS_OK is none of these */
    const ts_bad *bad;  /* further invalid values; NULL: none */
    /* Of a script whose player makes invalid calls itself: where an int64_t of the args selects
     * one, the status of each, and the first of those without a pointer and of the others. */
    size_t how;
    bool (*how_must)(const void *args, int64_t how, ts_status *must);
    int64_t                  without, odd;
    const ts_bad            *always; /* what every invalid call sets as well; NULL: nothing */
    const struct ts_invalid *next;   /* further invalid calls; NULL: none */
} ts_invalid;

#define TS_POINTER(type, member) (offsetof(type, member) + 1)

/* Makes valid args invalid in the i-th respect, and sets the status that must be returned; false:
 * there is no i-th. First each pointer alone is NULL, in the valid call and in the least one; then
 * extents are out of range, each alone, also in calls without work; then products are too large
 * although no extent is; then calls without work, which are TS_OK whatever else is large; then the
 * rows `bad`; then those of `next`. */
bool ts_spoil(const ts_invalid *s, int i, void *args, ts_exec *x, ts_status *must);

#endif
