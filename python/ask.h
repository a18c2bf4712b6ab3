/* SPDX-License-Identifier: Apache-2.0 */
/* ask.h - scripts played over functions that are written in Python: touchstone-player.so, which
 * python/runner.py loads.
 *
 * Class python may not map new code, so Python cannot give C a function to call. Instead the player
 * runs on a stack of its own, and where it calls a function of the entrant it says what is to be
 * called (ts_asked) and leaves that stack; the runner calls it, and goes back with the status. No
 * Python runs on the player's stack.
 *
 * A challenge says in play_NAME.c how Python sees its functions: for each entry of the player's
 * table a function that says name and values, and asks. */
#ifndef TS_PYTHON_ASK_H
#define TS_PYTHON_ASK_H

#include <stdbool.h>

#include "player.h"

/* A value that is given, or the place for one that is returned. runner.py reads this layout. */
enum {
    TS_INTEGER, /* int64_t */
    TS_REAL,    /* double */
    TS_TEXT,
    TS_VIEW,   /* an array; read-only where it is given, not looked at where `data` is NULL */
    TS_LENT,   /* a copy of an array, which is spoilt after the call */
    TS_LIST,   /* of integers; where it is returned: at most extent[0], -1 behind them, and how many
                  to `more` */
    TS_LISTS,  /* extent[0] lists of integers, one behind the other in `data`; lengths in `more` */
    TS_RECORD, /* an object whose attributes are the next `integer` values */
    TS_MODEL,  /* a ts_model; integer 1: it is meant to fail */
};
typedef struct ts_value {
    char        name[16];     /* of an attribute, or a keyword; "": by place */
    int32_t     kind, letter; /* TS_INTEGER, ...; the dtype, as NumPy spells it */
    int64_t     n_axes, extent[3];
    int64_t     integer;
    double      real;
    const void *data, *more;
} ts_value;

enum { TS_ASKED_GIVEN = 24, TS_ASKED_BACK = 8 };
enum { TS_ASK_FUNCTION = -1 }; /* not of an object: the challenge's own function */
typedef struct ts_asked {
    char     name[16]; /* a method or an attribute; "": the challenge's class, for a new object */
    int32_t  object;
    int32_t  drop;       /* 1: the object is not needed any more; nothing is called */
    int32_t  ragged;     /* 1: beams are returned, see play_beam_search.c */
    int32_t  refusal[4]; /* what ValueError, MemoryError, KeyError and ArithmeticError stand for */
    int32_t  n_given, n_back, pad;
    ts_value given[TS_ASKED_GIVEN], back[TS_ASKED_BACK];
} ts_asked;
extern TS_API ts_asked ts_player_asked;

/* Exceptions that are statuses; TS_OK: such a one is no answer. */
typedef struct ts_refusals {
    ts_status value, memory, key, arithmetic;
} ts_refusals;

/* What is to be called next: begun, given values, and asked for. */
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

/* How a challenge is seen from Python. */
typedef struct ts_python {
    const void *table; /* the player's */
    void (*begin)(const void *args);
} ts_python;

#endif
