/* SPDX-License-Identifier: Apache-2.0 */
/* template.h - chat templates: the subset of Jinja that models' templates use, as transformers runs
 * them (trim_blocks, lstrip_blocks, break and continue, generation blocks).
 *
 * A template is untrusted: parsing and running are bounded in depth, steps and bytes of output.
 * Values are those of jansson; NULL is undefined. A function that fails returns NULL and sets
 * t->bad; what is unknown is rejected when the template is parsed, even where it would never run.
 */
#ifndef TS_MODEL_TEMPLATE_H
#define TS_MODEL_TEMPLATE_H

#include <jansson.h>
#include <time.h>

#include "model_impl.h"

typedef struct ts_template ts_template;

bool ts_template_parse(const char *source, size_t n, ts_template **t, char why[TS_MODEL_WHY]);
void ts_template_free(ts_template **t);
/* Appends to *out. `variables`: an object; `now`: of strftime_now, in local time. */
bool ts_template_run(ts_template *t, const json_t *variables, time_t now, ts_text *out,
                     char why[TS_MODEL_WHY]);

/* ---- what the files of the interpreter share ---- */

typedef enum ts_node_kind {
    TS_N_LITERAL, /* value */
    TS_N_NAME,    /* name */
    TS_N_LIST,    /* a: items */
    TS_N_DICT,    /* a: items, each a key `a` and a value `b` */
    TS_N_ATTR,    /* a.name */
    TS_N_ITEM,    /* a[b] */
    TS_N_SLICE,   /* a[b:c:d] */
    TS_N_CALL,    /* name(args), of a global function or a macro */
    TS_N_METHOD,  /* a.name(args) */
    TS_N_FILTER,  /* a | name(args) */
    TS_N_TEST,    /* a is name(args) */
    TS_N_NOT,
    TS_N_NEGATE,
    TS_N_AND,
    TS_N_OR,
    TS_N_BINARY, /* a op b */
    TS_N_CHOICE, /* b if a else c */
    TS_N_ARG,    /* a, by name or by place */
    TS_N_TEXT,   /* value */
    TS_N_OUT,    /* {{ a }} */
    TS_N_FOR,    /* for b in a if c: body; no item: other; b: names */
    TS_N_IF,     /* a: body; else: other */
    TS_N_SET,    /* b = a; b: a name, or an attribute of one */
    TS_N_BLOCK,  /* set b to the text of body */
    TS_N_MACRO,  /* name(b): body; b: names, with defaults `a` */
    TS_N_BREAK,
    TS_N_CONTINUE,
    TS_N_PART, /* body, as it is */
} ts_node_kind;

typedef enum ts_binary {
    TS_OP_ADD,
    TS_OP_SUB,
    TS_OP_CONCAT,
    TS_OP_MUL,
    TS_OP_DIV,
    TS_OP_FLOOR,
    TS_OP_MOD,
    TS_OP_EQ,
    TS_OP_NE,
    TS_OP_LT,
    TS_OP_LE,
    TS_OP_GT,
    TS_OP_GE,
    TS_OP_IN,
    TS_OP_NOT_IN,
} ts_binary;

typedef struct ts_node ts_node;
struct ts_node {
    ts_node_kind kind;
    ts_binary    op;
    int          line;
    int          call;   /* index of a function, method, filter or test */
    bool         negate; /* of a test */
    const char  *name;
    json_t      *value;
    ts_node     *a, *b, *c, *d, *args, *body, *other, *next;
};

enum { TS_SCOPES = 64, TS_ARGS = 8 };

struct ts_template {
    char    *source;
    ts_node *root;
    void    *memory; /* of nodes */
    json_t  *keep;   /* values of nodes */
    ts_node *macro;  /* all of them, by other */
    ts_node *calls;  /* of macros, by other */
    char    *why;
    bool     bad;
    int      line, depth;
    int64_t  n_step;
    json_t  *scope[TS_SCOPES];
    int      n_scope, floor; /* scope[0] and those from floor on are visible */
    json_t  *spaces;         /* namespaces: what may be assigned to */
    ts_text *out;
    time_t   now;
    ts_node *jump; /* the break or continue that is under way */
};

/* Sets t->bad, with the line of the template; returns NULL. */
void *ts_template_fail(ts_template *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* template_value.c */

bool        ts_value_true(const json_t *v);
bool        ts_value_equal(const json_t *a, const json_t *b);
const char *ts_value_kind(const json_t *v);
json_t     *ts_value_text(const char *p, size_t n);
/* As Python's str. */
bool    ts_value_print(ts_template *t, const json_t *v, ts_text *out);
json_t *ts_value_string(ts_template *t, const json_t *v);
/* As Python's len; characters of a string. -1: has none. */
int64_t ts_value_length(const json_t *v);
json_t *ts_value_item(ts_template *t, const json_t *v, const json_t *key);
json_t *ts_value_slice(ts_template *t, const json_t *v, const json_t *from, const json_t *to,
                       const json_t *step);
json_t *ts_value_binary(ts_template *t, ts_binary op, const json_t *a, const json_t *b);
/* What `for` runs through, as an array. */
json_t *ts_value_list(ts_template *t, const json_t *v);

/* template_call.c */

typedef struct ts_call_args {
    int         n;
    json_t     *value[TS_ARGS];
    const char *name[TS_ARGS]; /* NULL: by place */
} ts_call_args;

/* By name, or else by place; NULL: not given. */
json_t     *ts_arg(const ts_call_args *a, int at, const char *name);
const char *ts_arg_text(ts_template *t, const ts_call_args *a, int at, const char *name,
                        const char *otherwise);
bool ts_arg_count(ts_template *t, const ts_call_args *a, int at, const char *name, int64_t *n);

/* Of ASCII letters; the others stay. TS_TITLE: after what is no letter; TS_WORDS: after a space, a
 * hyphen or an opening bracket. */
typedef enum ts_letters { TS_UPPER, TS_LOWER, TS_CAPITAL, TS_TITLE, TS_WORDS } ts_letters;

json_t *ts_string_case(const json_t *v, ts_letters how);
json_t *ts_string_strip(const json_t *v, const char *chars, bool left, bool right);
json_t *ts_string_replace(ts_template *t, const json_t *v, const char *from, const char *to,
                          int64_t most);
json_t *ts_string_join(ts_template *t, const json_t *list, const char *by, const char *attribute);
void    ts_string_add(ts_template *t, ts_text *out, const char *p, size_t n);
json_t *ts_string_end(ts_template *t, ts_text *out); /* frees the text */
json_t *ts_value_pairs(ts_template *t, const json_t *v);

/* The index of a name, -1: unknown. */
int     ts_name_find(const char *const *list, const char *name);
int     ts_filter_find(const char *name);
int     ts_method_find(const char *name);
int     ts_test_find(const char *name);
int     ts_function_find(const char *name);
bool    ts_test_takes_one(int call); /* is NAME ARGUMENT */
json_t *ts_filter_call(ts_template *t, int call, const json_t *v, const ts_call_args *a);
json_t *ts_method_call(ts_template *t, int call, const json_t *v, const ts_call_args *a);
bool    ts_test_call(ts_template *t, int call, const json_t *v, const ts_call_args *a);
json_t *ts_function_call(ts_template *t, int call, const ts_call_args *a);

#endif
