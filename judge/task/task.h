/* SPDX-License-Identifier: Apache-2.0 */
/* task.h - a task: the cases of one kernel, and how outputs are checked. A task uses the definition
 * in include/ and no implementation. */
#ifndef TS_TASK_H
#define TS_TASK_H

#include <stdbool.h>
#include <string.h>

#include "buffer.h"
#include "flaw.h"
#include "touchstone/touchstone.h"

enum { TS_MAX_DIMS = 8, TS_MAX_MORE = 4, TS_MAX_NAMES = 13, TS_MAX_NUMBERS = 8, TS_MAX_RANK = 4 };

/* What a case is for. */
enum {
    TS_USE_CHECK = 1,    /* `check`, on every device */
    TS_USE_DEVICE = 2,   /* `check`, on devices other than the CPU: enough work to fill one */
    TS_USE_TIME = 4,     /* `bench`, which checks every output that it times */
    TS_USE_JUDGE = 8,    /* `judge` also times it: enough pairs in little time */
    TS_USE_LARGE = 16,   /* with TIME or JUDGE: on devices other than the CPU only */
    TS_USE_COVER = 64,   /* with CHECK: made by cover.c */
    TS_USE_WITHIN = 128, /* with COVER: for a value within a class; not a part of the share */
    TS_USE_ALWAYS = 256, /* with CHECK: in every run at normal depth, not one for many */
    TS_USE_HOST = 32,    /* with CHECK: on the CPU only, where a call can read its tensors */
};

/* A case: one call with a dtype, a shape and a kind of input; with a seed, its inputs are fixed. */
typedef struct ts_case {
    unsigned use; /* TS_USE_* bits; 0 ends the list */
    ts_dtype dtype;
    /* Extents, which the task names in dim_name; then other numbers of the call, which it names in
     * more_name, 0 by default. */
    int64_t     dim[TS_MAX_DIMS + TS_MAX_MORE];
    const char *family; /* how inputs are drawn: "normal", "offset", ... */
} ts_case;

/* Whether its inputs are drawn like this. */
static inline bool ts_is(const ts_case *c, const char *family)
{
    return !strcmp(c->family, family);
}

/* Whether the case checks outputs of that device. */
static inline bool ts_case_checks(const ts_case *c, ts_device d)
{
    if (d == TS_CPU) return c->use & TS_USE_CHECK;
    return c->use & (TS_USE_CHECK | TS_USE_DEVICE) && !(c->use & TS_USE_HOST);
}

/* ---- what is expected ---- */

/* The expected value of one output element, and its largest allowed error. */
typedef struct ts_want {
    double value; /* NaN: the output must be NaN */
    double bound; /* pass if |got - value| <= bound; INFINITY: any value passes; or TS_WRITTEN */
} ts_want;

/* The bound of an element that may have any value, but must have been written. */
#define TS_WRITTEN (-1.0)

/* The least work of any implementation, from which the floor (least time) is computed. */
typedef struct ts_cost {
    double bytes, flops; /* bytes to read and write; arithmetic operations */
    bool   reads_only;   /* next to nothing is written: the read rate is the limit, not copy */
    double least_flops;  /* if tables of partial sums save some flops; 0: none can be saved */
    double exps, dexps;  /* exponentials to the precision of float, and of double */
    /* Logits that the judge's model writes before the entrant can go on; and those that the player
     * then sums, because the entrant need not read them: `bytes` contains theirs. */
    double model_logits, model_sums;
} ts_cost;

/* Statistics of errors divided by their bounds: the largest, and a histogram. A bin is an eighth of
 * an octave; errors below 2^-20 are negligible. */
enum { TS_ERROR_BINS = 160 };
typedef struct ts_errors {
    double  worst;
    double  ulps; /* the largest error in units of 2u of the expected value, about an ulp */
    int64_t n, bin[TS_ERROR_BINS]; /* number of errors; bin 0: above 1 - 2^-4 of the bound */
} ts_errors;

/* The q-quantile of all errors, up to the width of a bin. */
double ts_errors_quantile(const ts_errors *e, double q);

/* ---- the task ---- */

/* How an entrant is called: one function with the args, or several functions by a script
 * (judge/script/).
 */
typedef enum ts_kind { TS_PLAIN, TS_SCRIPT } ts_kind;

/* Devices on which entrants are judged: bits. */
enum { TS_ON_CPU = 1 << TS_CPU, TS_ON_CUDA = 1 << TS_CUDA };

/* A buffer of the task, the same in every case that has it. */
typedef struct ts_tensor {
    const char *name;
    ts_role     role;   /* TS_INOUT in cases that add to it, or change it in place */
    int         n_axes; /* as in the shape in the public header */
    bool        integers;
} ts_tensor;

/* A number that `setup` passes to ts_scalar. */
typedef struct ts_number {
    const char *name;
    bool        integer;
} ts_number;

/* A rule of the canon: a requirement beyond the field's usual contract, the common ground. */
typedef struct ts_canon {
    const char *family; /* the cases that test it */
    const char *rule;   /* "equal logits: the lower index first" */
    bool        open;   /* by the usual contract the call may be rejected */
} ts_canon;
enum { TS_MAX_CANON = 12 };

/* A named number of a case, for an entrant's scope. */
typedef struct ts_parameter {
    const char *name;
    int64_t     value;
} ts_parameter;
enum { TS_MAX_PARAMETERS = 20 };

typedef struct ts_cover   ts_cover;
typedef struct ts_invalid ts_invalid; /* judge/script/spoil.h */

/* A task. Function pointers without a comment "NULL" are required. */
typedef struct ts_task {
    const char        *name; /* "layernorm_forward"; an entrant exports ts_layernorm_forward */
    const char        *dim_name[TS_MAX_DIMS];
    const char        *more_name[TS_MAX_MORE];
    const char        *dim_says[TS_MAX_DIMS]; /* meaning of each, for authors of entrants */
    const char        *more_says[TS_MAX_MORE];
    const char        *scope_says; /* the names that `scope` adds, as a clause; NULL: none */
    ts_kind            kind;
    bool               no_challenge; /* for `check` and `bench` alone: takes no entrants */
    unsigned           devices;      /* TS_ON_*, where entrants are judged */
    bool               has_model;    /* calls get one of the judge's models, judge/script/toy.h */
    ts_tensor          buffer[TS_MAX_NAMES + 1];   /* all that `setup` takes; a name NULL ends */
    ts_number          number[TS_MAX_NUMBERS + 1]; /* all that ts_scalar gets; a name NULL ends */
    const char *const *exports; /* TS_SCRIPT: what an entrant exports; NULL ends */
    /* Further functions of the contract; NULL ends. NULL: none. An entrant that does not export one
     * is not run on its cases. */
    const char *const *optional;
    /* The number of the optional function that a case tests; -1: none. */
    int (*about)(const ts_case *c);
    size_t args_bytes;             /* size of the function's args struct */
    const ts_case *(*cases)(void); /* the list of cases */
    const ts_cover *cover;         /* the ranges of its parameters; see cover.h */
    const ts_cover *further;       /* the same for cases of optional functions; NULL: none */
    /* Takes the buffers of a case from m, draws inputs from the seed, and fills args. */
    void (*setup)(const ts_case *c, uint64_t seed, ts_arena *m, void *args);
    size_t (*n_want)(const ts_case *c); /* number of expected values */
    /* Computes the expected values and their bounds from the inputs, in wider arithmetic. */
    void (*oracle)(const ts_case *c, const void *args, ts_want *want);
    /* Compares outputs with want, and adds the errors to *e. False, and where in *f, at the first
     * wrong element. */
    bool (*check)(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                  ts_errors *e);
    ts_cost (*cost)(const ts_case *c); /* the least work of a case */
    /* The most bytes that objects of a script may keep in the workspace between its calls, by the
     * contract; NULL: none. */
    double (*kept)(const ts_case *c);
    /* The extents of a buffer of three axes or more. One axis is its elements, two are its rows and
     * columns. NULL: no buffer has more than two. */
    void (*shape)(const ts_case *c, const char *buffer, int64_t extent[TS_MAX_RANK]);
    /* A dimension that is a number of the call and changes no extent: timed calls may be repeated
     * with another value, up to `most`. name NULL: there is none. */
    struct {
        const char *name;
        int64_t     most;
    } varies;
    /* Two dimensions: if the first exceeds the second, more is requested than exists. */
    const char       *scarce[2];
    const ts_invalid *invalid;                 /* the calls that must be rejected; NULL: none */
    ts_canon          canon[TS_MAX_CANON + 1]; /* a family NULL ends */
    /* The rule that a case tests if its family alone does not say so, such as one of extreme
     * numbers; NULL: none. May be NULL. */
    const ts_canon *(*canon_of)(const ts_case *c);
    /* Sets TS_WRITTEN in the wants that the rule of the case is about, of which the usual contract
     * says nothing, and in no others. Called after the entrant, so it may look at outputs. NULL:
     * none is excused. */
    void (*excuse)(const ts_case *c, const void *args, ts_want *want);
    /* Called after `check` has failed. Keeps wants of TS_WRITTEN. Returns the one rule of the canon
     * that the output breaks, and adds to *e; or NULL, and where in *f, if the output is
     * wrong by the usual contract. NULL: every failure is wrong by the usual contract. */
    const char *(*common)(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e);
    bool common_decides; /* in open cases too: by the usual contract their calls may be rejected */
    /* Describes the element of a flaw in words; "" if name and index are enough. NULL: always "".
     */
    void (*explain)(const ts_case *c, const void *args, const ts_flaw *f, char *s, size_t n);
    /* Writes the numbers that an entrant's scope may use in addition to dimensions, or instead of
     * one, and returns how many. May be NULL. */
    int (*scope)(const ts_case *c, ts_parameter p[TS_MAX_PARAMETERS]);
} ts_task;

extern const ts_task *const ts_tasks[];                       /* NULL ends */
const ts_task              *ts_task_called(const char *name); /* NULL: none */
const char *ts_task_label(const ts_task *t, ts_device d);     /* its name, or "NAME/cuda" */

/* For ts_arena.layout: a case with its seed always has the same layout, so that a replay finds the
 * same fault; a second content lies where the first one did. A one-way function: an entrant sees
 * the layout before the inputs. */
uint64_t ts_layout_of(const ts_case *c, uint64_t seed);

/* Allocates the buffers of a case and draws its inputs. */
void ts_arena_setup(ts_arena *m, const ts_task *t, const ts_case *c, uint64_t seed, void *args);

/* As ts_spoil, with the task's invalid calls. */
bool ts_task_spoil(const ts_task *t, int i, void *args, ts_exec *x, ts_status *must);

/* The i-th function that an entrant must export, stored in `name` if necessary; NULL: no more. */
enum { TS_EXPORT_NAME = 64 };
const char *ts_task_export(const ts_task *t, int i, char name[TS_EXPORT_NAME]);
/* The buffer or number of that name; NULL: there is none. */
const ts_tensor *ts_task_tensor(const ts_task *t, const char *name);
const ts_number *ts_task_number(const ts_task *t, const char *name);
/* Writes the extents of a buffer of a case, and returns their number. */
int ts_task_shape(const ts_task *t, const ts_case *c, const ts_buf *b, int64_t extent[TS_MAX_RANK]);

void ts_errors_add(ts_errors *to, const ts_errors *e);

/* Compares one buffer, row by row. NaN fails unless it is expected. Poison means unwritten. */
bool ts_check_buf(ts_buf b, const void *p, const ts_want *want, ts_flaw *f, ts_errors *e);

/* Whether a rejected call left an output as it was: poison. */
bool ts_check_untouched(ts_buf b, const void *p, ts_flaw *f);

/* For a task's `common`: the rule if the outputs keep the wider bounds of this oracle, otherwise
 * NULL, and where in *f. The oracle is called after the entrant, so it gets the wants of the canon,
 * whose values it keeps: a tensor that the call changes in place no longer holds its input. Wants
 * of TS_WRITTEN and of INFINITY stay. */
typedef void ts_oracle_of(const ts_case *c, const void *args, ts_want *want);
typedef bool ts_check_of(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                         ts_errors *e);
const char  *ts_common_by(ts_oracle_of *wider, ts_check_of *check, const ts_want *want,
                          size_t n_want, const char *rule, const ts_case *c, const void *args,
                          ts_flaw *f, ts_errors *e);

/* For a task's `excuse`: n elements; those of them that are NaN by the canon; and, of a buffer
 * whose wants these are, those that are no finite numbers but should be. */
void ts_excuse(ts_want *want, int64_t n);
void ts_excuse_nan(ts_want *want, int64_t n);
void ts_excuse_nonfinite(ts_buf b, const void *p, ts_want *want);

/* A family of inputs as a clause: "where rows have no unmasked key"; NULL: none is known. */
const char *ts_family_words(const ts_task *t, const char *family);

/* The number of the optional function that a case tests, or -1. */
static inline int ts_case_about(const ts_task *t, const ts_case *c)
{
    return t->about ? t->about(c) : -1;
}

/* What a case tests, for the judge's tables. */
typedef enum ts_category {
    TS_BASIC,
    TS_SHAPES,
    TS_NUMERICS,
    TS_SPECIAL,
    TS_ADVERSARIAL,
    TS_CANON,
    TS_N_CATEGORIES
} ts_category;
ts_category ts_case_category(const ts_task *t, const ts_case *c);
const char *ts_category_name(ts_category c);

/* The rule of the canon that the case tests; NULL: none, it tests the usual contract. */
const ts_canon *ts_canon_of(const ts_task *t, const ts_case *c);
/* After `check` has set *f: the one rule of the canon that is broken, or NULL; see
 * ts_task.common. */
const char *ts_canon_broken(const ts_task *t, const ts_case *c, const void *args,
                            const ts_want *want, ts_flaw *f, ts_errors *e);

/* Equal for cases of one family whose dtypes have the same width, whose extents are of similar
 * size, and which agree in whether more is requested than exists. */
uint64_t ts_case_group(const ts_task *t, const ts_case *c);

/* Writes the name of a case: "layernorm_forward/bf16/rows=9,cols=1025,pad=3/offset@0x5eed". */
void ts_case_string(const ts_task *t, const ts_case *c, uint64_t seed, char *s, size_t n);
/* Reads a name, of a case in the task's list or not, as one to check; the seed, if any, is after
 * the '@'. False if the task has no such dimensions, dtype or family: values are not examined. */
bool ts_case_read(const ts_task *t, const char *name, ts_case *c, uint64_t *seed);

#endif
