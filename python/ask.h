/* SPDX-License-Identifier: Apache-2.0 */
/* ask.h - plays scripts with functions written in Python: touchstone-player.so, which
 * python/runner.py loads.
 *
 * Class python cannot map new code, so Python cannot pass a callback to C. Instead the player runs
 * on its own stack. To call a function of the entrant it fills a request (ts_asked) and leaves that
 * stack; the runner makes the call and returns with the status. No Python code runs on the player's
 * stack.
 *
 * play_NAME.c maps a challenge's functions to Python: for each function of the player's table, one
 * that fills a request with name and values and sends it. */
#ifndef TS_PYTHON_ASK_H
#define TS_PYTHON_ASK_H

#include <stdbool.h>

#include "player.h"

/* An argument, or the place for a result. runner.py reads this layout. */
enum {
    TS_INTEGER, /* int64_t */
    TS_REAL,    /* double */
    TS_TEXT,
    TS_VIEW,   /* an array; read-only as an argument, ignored as a result if `data` is NULL */
    TS_LENT,   /* a copy of an array, which is overwritten after the call */
    TS_LIST,   /* of integers; as a result at most extent[0], padded with -1, and their number in
                  `more` */
    TS_LISTS,  /* extent[0] lists of integers, concatenated in `data`; lengths in `more` */
    TS_RECORD, /* an object whose attributes are the next `integer` values */
    TS_MODEL,  /* a ts_model; integer 1: it is meant to fail */
};
typedef struct ts_value {
    char        name[16];     /* of an attribute or keyword; "": positional */
    int32_t     kind, letter; /* TS_INTEGER, ...; the dtype, as NumPy spells it */
    int64_t     n_axes, extent[3];
    int64_t     integer;
    double      real;
    const void *data, *more;
} ts_value;

enum { TS_ASKED_GIVEN = 24, TS_ASKED_BACK = 8 };
enum { TS_ASK_FUNCTION = -1 }; /* no object: the challenge's function */
typedef struct ts_asked {
    char     name[16]; /* a method or an attribute; "": the challenge's class, for a new object */
    int32_t  object;
    int32_t  drop;       /* 1: release the object; no call */
    int32_t  ragged;     /* 1: beams are returned, see play_beam_search.c */
    int32_t  refusal[4]; /* statuses of ValueError, MemoryError, KeyError and ArithmeticError */
    int32_t  n_given, n_back, pad;
    ts_value given[TS_ASKED_GIVEN], back[TS_ASKED_BACK];
} ts_asked;
extern TS_API ts_asked ts_player_asked;

/* Statuses of exceptions; TS_OK: the exception is an error of the entrant. */
typedef struct ts_refusals {
    ts_status value, memory, key, arithmetic;
} ts_refusals;

/* A request: begin, add values, send. */
void      ts_ask_begin(const char *name, int object, ts_refusals r);
ts_value *ts_give(const char *name, int kind);
void      ts_give_integer(const char *name, int64_t v);
void      ts_give_real(const char *name, double v);
void      ts_give_text(const char *name, const char *text);
void      ts_give_array(const char *name, int kind, ts_value array);
ts_value *ts_back(int kind, const void *to);
void      ts_back_array(ts_value array);
ts_status ts_ask(void);

char     ts_letter(ts_dtype t);
ts_value ts_array(char letter, const void *p, int n_axes, int64_t a, int64_t b, int64_t c);

/* A challenge's interface to Python. */
typedef struct ts_python {
    const void *table; /* the player's */
    void (*begin)(const void *args);
} ts_python;

#endif
