/* SPDX-License-Identifier: Apache-2.0 */
/* expr.c - parser and evaluator of untrusted integer expressions. */
#include "expr.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    NUMBER,
    NAME,
    NEGATE,
    TRUTH, /* 0 or 1: what && and || give */
    OR,
    AND,
    EQUAL,
    UNEQUAL,
    AT_MOST,
    AT_LEAST,
    LESS,
    MORE,
    ADD,
    SUBTRACT,
    MULTIPLY,
    DIVIDE,
    REMAINDER,
    MIN,
    MAX,
    CEIL_DIV,
    ALIGN,
};

/* A longer operator comes before its prefix. */
static const struct sign {
    char    text[3];
    uint8_t rank, code; /* a higher rank binds tighter */
} signs[] = {
    { "||", 1, OR },       { "&&", 2, AND },      { "==", 3, EQUAL },   { "!=", 3, UNEQUAL },
    { "<=", 4, AT_MOST },  { ">=", 4, AT_LEAST }, { "<", 4, LESS },     { ">", 4, MORE },
    { "+", 5, ADD },       { "-", 5, SUBTRACT },  { "*", 6, MULTIPLY }, { "/", 6, DIVIDE },
    { "%", 6, REMAINDER },
};

static const struct call {
    const char *name;
    uint8_t     code;
} calls[] = { { "min", MIN }, { "max", MAX }, { "ceil_div", CEIL_DIV }, { "align", ALIGN } };

bool ts_mistake_at(ts_mistake *f, size_t at, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(f->text, sizeof f->text, format, list);
    va_end(list);
    f->at = at;
    return false;
}

/* ---- reading ---- */

/* Not <ctype.h>, which depends on the locale. */
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static char next(const ts_reader *r)
{
    return r->at < r->end ? r->code.text[r->at] : 0;
}

void ts_read_blanks(ts_reader *r)
{
    while (next(r) == ' ') r->at++;
}

size_t ts_read_name(ts_reader *r)
{
    const size_t from = r->at;
    while (is_letter(next(r)) || (r->at > from && (is_digit(next(r)) || next(r) == '.'))) r->at++;
    return r->at - from;
}

bool ts_read_wrong(ts_reader *r, const char *expected)
{
    if (r->at == r->end)
        return ts_mistake_at(&r->fault, r->at, "the text ends, expected %s", expected);
    return ts_mistake_at(&r->fault, r->at, "got '%c', expected %s", next(r), expected);
}

/* There is room: every step corresponds to at least one character. */
static ts_op *emit(ts_reader *r, uint8_t code, size_t at)
{
    ts_op *op = &r->code.op[r->n_ops++];
    *op = (ts_op) { .code = code, .at = (uint16_t)at };
    return op;
}

static bool read_binary(ts_reader *r, int least);
static bool read_operand(ts_reader *r);

/* Limits the recursion, so that input cannot exhaust the stack. */
static bool deeper(ts_reader *r, bool (*read)(ts_reader *))
{
    if (r->depth == TS_EXPR_DEPTH)
        return ts_mistake_at(&r->fault, r->at, "nested more than %d deep", TS_EXPR_DEPTH);
    r->depth++;
    const bool ok = read(r);
    r->depth--;
    return ok;
}

static bool read_all(ts_reader *r)
{
    return read_binary(r, 1);
}

/* No octal, which 010 would be in C. */
static bool read_number(ts_reader *r)
{
    const size_t from = r->at;
    int64_t      v = 0;
    for (; is_digit(next(r)); r->at++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, next(r) - '0', &v))
            return ts_mistake_at(&r->fault, from, "a number that does not fit 64 bits");
    if (r->code.text[from] == '0' && r->at - from > 1)
        return ts_mistake_at(&r->fault, from, "a number that begins with 0");
    if (is_letter(next(r)) || next(r) == '.')
        return ts_mistake_at(&r->fault, from, "a number that runs into '%c'", next(r));
    emit(r, NUMBER, from)->value = v;
    return true;
}

static bool expect(ts_reader *r, char c, const char *expected)
{
    ts_read_blanks(r);
    if (next(r) != c) return ts_read_wrong(r, expected);
    r->at++;
    return true;
}

static bool read_call(ts_reader *r, uint8_t code, size_t from)
{
    if (!expect(r, '(', "'('") || !deeper(r, read_all) || !expect(r, ',', "',' or an operator") ||
        !deeper(r, read_all) || !expect(r, ')', "')' or an operator"))
        return false;
    emit(r, code, from);
    return true;
}

static bool read_word(ts_reader *r)
{
    const size_t from = r->at, n = ts_read_name(r);
    const char  *word = r->code.text + from;
    if (n > TS_EXPR_NAME)
        return ts_mistake_at(&r->fault, from, "a name of more than %d characters", TS_EXPR_NAME);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strlen(calls[i].name) == n && !memcmp(calls[i].name, word, n))
            return read_call(r, calls[i].code, from);
    ts_read_blanks(r);
    if (next(r) == '(')
        return ts_mistake_at(&r->fault, from, "unknown function '%.*s'", (int)n, word);
    emit(r, NAME, from)->n = (uint16_t)n;
    return true;
}

static bool read_operand(ts_reader *r)
{
    ts_read_blanks(r);
    const size_t from = r->at;
    if (is_digit(next(r))) return read_number(r);
    if (is_letter(next(r))) return read_word(r);
    if (next(r) == '(') {
        r->at++;
        return deeper(r, read_all) && expect(r, ')', "')' or an operator");
    }
    if (next(r) != '-') return ts_read_wrong(r, "a number, a name, '-' or '('");
    r->at++;
    if (!deeper(r, read_operand)) return false;
    emit(r, NEGATE, from);
    return true;
}

static const struct sign *sign_at(const ts_reader *r)
{
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        const size_t n = strlen(signs[i].text);
        if (r->end - r->at >= n && !memcmp(signs[i].text, r->code.text + r->at, n))
            return &signs[i];
    }
    return NULL;
}

/* Operators of at least this rank; equal ones from the left. */
static bool read_binary(ts_reader *r, int least)
{
    const struct sign *s;
    if (!read_operand(r)) return false;
    for (ts_read_blanks(r); (s = sign_at(r)) && s->rank >= least; ts_read_blanks(r)) {
        const bool   jumps = s->code == AND || s->code == OR;
        const size_t from = r->at;
        ts_op       *jump = jumps ? emit(r, s->code, from) : NULL;
        r->at += strlen(s->text);
        if (!read_binary(r, s->rank + 1)) return false;
        emit(r, jumps ? TRUTH : s->code, from);
        if (jumps) jump->value = r->n_ops;
    }
    return true;
}

bool ts_expr_read(ts_reader *r, ts_expr *e)
{
    const int first = r->n_ops;
    if (!read_binary(r, 1)) return false;
    *e = (ts_expr) { (uint16_t)first, (uint16_t)(r->n_ops - first) };
    return true;
}

/* ---- names ---- */

const ts_env_value *ts_env_find(const ts_launch_env *e, const char *text, size_t at, size_t n,
                                unsigned kinds, ts_mistake *f)
{
    const char         *what = kinds & TS_ENV_INTEGER ? "an integer" : "a buffer";
    const ts_env_value *v = NULL,
                       *other = NULL; /* of that name; a dimension and a buffer may share one */
    for (int i = 0; i < e->n; i++) {
        v = &e->v[i];
        if (strncmp(v->name, text + at, n) || v->name[n]) continue;
        if (v->kind & kinds) return v;
        other = v;
    }
    if ((v = other)) {
        ts_mistake_at(f, at, "'%s' is %s, expected %s%s", v->name,
                      v->kind == TS_ENV_INTEGER ? "an integer"
                      : v->kind == TS_ENV_REAL  ? "a real number"
                                                : "a buffer",
                      what, kinds & TS_ENV_REAL ? " or a real number" : "");
        return NULL;
    }
    ts_mistake_at(f, at, "unknown name '%.*s'", (int)n, text + at);
    return NULL;
}

const ts_op *ts_expr_name(const ts_code *c, ts_expr e)
{
    const ts_op *op = &c->op[e.first];
    return e.n == 1 && op->code == NAME ? op : NULL;
}

bool ts_expr_knows(const ts_code *c, ts_expr e, const ts_launch_env *names, ts_mistake *f)
{
    for (const ts_op *op = c->op + e.first, *end = op + e.n; op < end; op++)
        if (op->code == NAME && !ts_env_find(names, c->text, op->at, op->n, TS_ENV_INTEGER, f))
            return false;
    return true;
}

/* ---- values ---- */

static bool too_large(const ts_op *op, const char *sign, int64_t a, int64_t b, ts_mistake *f)
{
    return ts_mistake_at(f, op->at, "%lld %s %lld does not fit 64 bits", (long long)a, sign,
                         (long long)b);
}

static bool divide(const ts_op *op, int64_t a, int64_t b, int64_t *v, ts_mistake *f)
{
    const bool whole = op->code == DIVIDE;
    if (b == 0) return ts_mistake_at(f, op->at, "division by zero");
    if (a == INT64_MIN && b == -1) return too_large(op, whole ? "/" : "%", a, b, f);
    *v = whole ? a / b : a % b;
    return true;
}

/* Rounds up for negative a too. */
static bool round_up(const ts_op *op, int64_t a, int64_t b, int64_t *v, ts_mistake *f)
{
    const bool divides = op->code == CEIL_DIV;
    if (b < 1)
        return ts_mistake_at(f, op->at, "%s by %lld, expected 1 or more",
                             divides ? "ceil_div" : "align", (long long)b);
    *v = a / b + (a % b > 0);
    if (!divides && __builtin_mul_overflow(*v, b, v)) return too_large(op, "aligned to", a, b, f);
    return true;
}

static bool compute(const ts_op *op, int64_t a, int64_t b, int64_t *v, ts_mistake *f)
{
    switch (op->code) {
    case EQUAL:
        return *v = a == b, true;
    case UNEQUAL:
        return *v = a != b, true;
    case AT_MOST:
        return *v = a <= b, true;
    case AT_LEAST:
        return *v = a >= b, true;
    case LESS:
        return *v = a < b, true;
    case MORE:
        return *v = a > b, true;
    case MIN:
        return *v = a < b ? a : b, true;
    case MAX:
        return *v = a > b ? a : b, true;
    case ADD:
        return !__builtin_add_overflow(a, b, v) || too_large(op, "+", a, b, f);
    case SUBTRACT:
        return !__builtin_sub_overflow(a, b, v) || too_large(op, "-", a, b, f);
    case MULTIPLY:
        return !__builtin_mul_overflow(a, b, v) || too_large(op, "*", a, b, f);
    case DIVIDE:
    case REMAINDER:
        return divide(op, a, b, v, f);
    default:
        return round_up(op, a, b, v, f);
    }
}

bool ts_expr_value(const ts_code *c, ts_expr e, const ts_launch_env *env, int64_t *v, ts_mistake *f)
{
    /* A level has at most 4 left operands, one of each rank above &&, and a call's first argument.
     */
    int64_t   stack[5 * (TS_EXPR_DEPTH + 1) + 1];
    int       n = 0;
    const int end = e.first + e.n;
    for (int i = e.first; i < end; i++) {
        const ts_op        *op = &c->op[i];
        const ts_env_value *named;
        switch (op->code) {
        case NUMBER:
            stack[n++] = op->value;
            break;
        case NAME:
            named = ts_env_find(env, c->text, op->at, op->n, TS_ENV_INTEGER, f);
            if (!named) return false;
            stack[n++] = named->i;
            break;
        case NEGATE:
            if (__builtin_sub_overflow(0, stack[n - 1], &stack[n - 1]))
                return too_large(op, "-", 0, stack[n - 1], f);
            break;
        case TRUTH:
            stack[n - 1] = stack[n - 1] != 0;
            break;
        case AND:
        case OR: /* the left operand decides, or is dropped */
            if ((stack[n - 1] != 0) == (op->code == OR)) {
                stack[n - 1] = op->code == OR;
                i = (int)op->value - 1;
            } else n--;
            break;
        default:
            n--;
            if (!compute(op, stack[n - 1], stack[n], &stack[n - 1], f)) return false;
        }
    }
    *v = stack[0];
    return true;
}
