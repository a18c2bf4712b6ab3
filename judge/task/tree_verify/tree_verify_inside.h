/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_inside.h - the items of the tree verification task: its cases, what is drawn for
 * each, and decoding without a tree. */
#ifndef TS_TASK_TREE_VERIFY_INSIDE_H
#define TS_TASK_TREE_VERIFY_INSIDE_H

#include "model_draw.h"
#include "task.h"
#include "tree_verify_script.h"

/* dim: prompt is that of the first cycle; temperature in hundredths; model a TS_TOY_*. */
enum { NODES, VOCAB, PROMPT, MAX_NEW, CYCLES, TEMPERATURE, MODEL };

const ts_case        *ts_tree_verify_cases(void);
extern const ts_cover ts_tree_verify_cover, ts_tree_more_cover;

/* The most rows of any pass, and the words that a script may take. */
double  ts_tree_temperature(const ts_case *c);
int64_t ts_tree_most_rows(const ts_case *c);
int64_t ts_tree_script_words(const ts_case *c);
int64_t ts_tree_model_states(const ts_case *c);

typedef struct ts_tree_quiz {
    ts_drawn model;
    int32_t *script; /* malloc, both; ts_tree_script_words */
    double  *u;      /* [CYCLES][MAX_NEW] */
} ts_tree_quiz;

/* Gives the least margin of any choice; see ts_tree_pick. */
double ts_tree_draw(const ts_case *c, uint64_t seed, ts_tree_quiz *q);
void   ts_tree_quiz_free(ts_tree_quiz *q);
bool   ts_tree_means_ties(const ts_case *c);

/* The token that a row chooses, by the definition; -1: the row is none. *margin falls to how near
 * another choice was: in logits at temperature 0, else in probability. */
int32_t ts_tree_pick(const float *logits, int64_t n_vocab, double temperature, double u,
                     double *margin);

/* A draw next to u that is so near to where one token's part ends and the next one's begins, on
 * either side of it, that sums in float choose wrongly. */
double ts_tree_beside(const float *logits, int64_t n_vocab, double temperature, double u,
                      bool side);
static const double TS_TREE_BESIDE = 1e-8;

/* One cycle, by decoding token after token and testing after each whether the tree has it. */
typedef struct ts_tree_walk {
    int64_t  n_out, n_path;
    int32_t *out, *path; /* malloc, all; [max_new], [n_node] */
    uint8_t *status;     /* [n_node] */
    bool     nonfinite;
} ts_tree_walk;

/* Rules of the canon that an output may break and still keep the usual contract: bits. The first
 * two leave a choice of tokens; the others are what a walk always does, in every cycle. */
enum {
    TS_TREE_BY_TIES = 1,  /* among equal logits any token is chosen */
    TS_TREE_BY_FLOAT = 2, /* probabilities are summed in float */
    TS_TREE_STOPS = 4,    /* it ends at the first child that is wrong: no later one is examined */
    TS_TREE_LEAVES = 8,   /* with STOPS: children after the one where it ends are unreached */
    TS_TREE_PASSES = 16,  /* children after an accepted one are unreached */
};

/* An output of a cycle, and what it may break. */
typedef struct ts_tree_told {
    const int32_t *out; /* [max_new] */
    unsigned       rules;
} ts_tree_told;

/* `told` NULL: by the canon. Otherwise, where several tokens may be chosen, it is that of the
 * output. Where a walk ends follows from the rules alone, not from where the output ends. */
void ts_tree_decode(const ts_toy *m, const int32_t *cycle, int64_t n_node, int64_t max_new,
                    double temperature, const double *u, const ts_tree_told *told, ts_tree_walk *w);
void ts_tree_walk_free(ts_tree_walk *w);

/* tree_more.c: the function that a case tests, TS_TREE_VERIFY or another, and whether its calls
 * must be rejected (may be NULL); and the parts of the task for the others. */
int64_t ts_tree_function(const ts_case *c, bool *refused);
void    ts_tree_more_setup(const ts_case *c, uint64_t seed, ts_arena *m, ts_tree_play_args *a);
size_t  ts_tree_more_n_want(const ts_case *c);
void    ts_tree_more_oracle(const ts_case *c, const ts_tree_play_args *a, ts_want *want);
bool    ts_tree_more_check(const ts_case *c, const ts_tree_play_args *a, const ts_want *want,
                           ts_flaw *f, ts_errors *e);
double  ts_tree_more_bytes(const ts_case *c);
/* Whether no invalid call, even if it was accepted, wrote outside its outputs; or where in *f. */
bool ts_tree_more_spares(const ts_tree_play_args *a, ts_flaw *f);

/* tree_verify_canon.c. Of the cycles of an output, which gave the model's rows that are none, which
 * are excused: those that end with TS_E_MODEL, and may have written; and those that went on, and in
 * which all is right that does not depend on such rows. Their wants, in the order of the outputs,
 * are lifted, but for those of the model's pass. False: a cycle went on and is wrong; where in *f.
 */
bool ts_tree_excuse(const ts_tree_play_args *a, int64_t i, const int32_t *cycle,
                    const ts_tree_walk *t, ts_want *out, ts_want *path, ts_want *seen, ts_flaw *f);

#endif
