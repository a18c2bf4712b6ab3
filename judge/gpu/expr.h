/* SPDX-License-Identifier: Apache-2.0 */
/* expr.h - untrusted integer expressions: parsed and checked once, evaluated for each call.
 *
 * Signed 64-bit numbers, C's operators and precedence: || && == != < <= > >= + - * / % and unary -,
 * min, max, ceil_div and align of two. && and || evaluate the right operand only if C would.
 * Undefined behaviour of C is an error here. Launch plans and an entrant's scope consist of such
 * expressions. */
#ifndef TS_GPU_EXPR_H
#define TS_GPU_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TS_EXPR_DEPTH = 32, /* of nested brackets, calls and signs */
    TS_EXPR_NAME = 63,  /* characters in a name: letters, digits, _ and . */
    TS_ENV_NAMES = 96,
};

typedef enum ts_env_kind { TS_ENV_INTEGER = 1, TS_ENV_REAL = 2, TS_ENV_POINTER = 4 } ts_env_kind;

typedef struct ts_env_value {
    const char *name;
    ts_env_kind kind; /* selects one of the next three */
    int64_t     i;
    double      d;
    uint64_t    p;
} ts_env_value;

/* The values of a plan's names in one call. */
typedef struct ts_launch_env {
    int          n;
    ts_env_value v[TS_ENV_NAMES];
    const char  *dtype; /* "f32", "f64", "f16" or "bf16" */
} ts_launch_env;

/* What is wrong, and where in the text. */
typedef struct ts_mistake {
    size_t at;
    char   text[192];
} ts_mistake;

bool ts_mistake_at(ts_mistake *f, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4))); /* false */

/* A step of a stack machine, so that evaluation never recurses. */
typedef struct ts_op {
    int64_t  value; /* the number, or the jump target of && and || */
    uint16_t at, n; /* its offset in the text; the length of a name */
    uint8_t  code;
} ts_op;

/* A range of ts_code.op; empty: there is no expression. */
typedef struct ts_expr {
    uint16_t first, n;
} ts_expr;

typedef struct ts_code {
    const char *text; /* below 64 KiB */
    ts_op      *op;
} ts_code;

typedef struct ts_reader {
    ts_code    code;    /* op has room for one step per character of text */
    size_t     at, end; /* what is left to read */
    int        n_ops, depth;
    ts_mistake fault;
} ts_reader;

void   ts_read_blanks(ts_reader *r);
size_t ts_read_name(ts_reader *r); /* skips a name and returns its length; 0: none */
bool   ts_read_wrong(ts_reader *r, const char *expected); /* false: "got 'x', expected ..." */

/* Reads an expression and the blanks after it. */
bool ts_expr_read(ts_reader *r, ts_expr *e);

/* The value of the name at text[at .. at + n), NULL and a fault if it is not one of `kinds`. */
const ts_env_value *ts_env_find(const ts_launch_env *e, const char *text, size_t at, size_t n,
                                unsigned kinds, ts_mistake *f);

/* The name's step if the expression is a single name, else NULL. */
const ts_op *ts_expr_name(const ts_code *c, ts_expr e);

bool ts_expr_knows(const ts_code *c, ts_expr e, const ts_launch_env *names, ts_mistake *f);
bool ts_expr_value(const ts_code *c, ts_expr e, const ts_launch_env *env, int64_t *v,
                   ts_mistake *f);

#endif
