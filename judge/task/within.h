/* SPDX-License-Identifier: Apache-2.0 */
/* within.h - cases within a part of a task: made like those of cover.h, and adapted from others.
 *
 * The part is a condition of several clauses. From a case that breaks some, one parameter after the
 * other takes a value with which fewer are broken. What is found depends on nothing but the task
 * and the condition. */
#ifndef TS_TASK_WITHIN_H
#define TS_TASK_WITHIN_H

#include "cover.h"

enum { TS_MOST_HINTS = 96 };

typedef struct ts_within {
    /* How many clauses the case breaks; 0: it is within. */
    int (*breaks)(const void *of, const ts_case *c);
    /* Writes numbers at which a clause about the case may begin to hold; returns how many. */
    int (*hints)(const void *of, const ts_case *c, int64_t value[TS_MOST_HINTS]);
    const void *of;
} ts_within;

/* Writes at least n cases (fewer if there are not as many within): every two classes that can meet
 * within do, and random ones are added up to n. Returns how many there are, at most room. */
int ts_within_cover(const ts_task *t, const ts_cover *v, const ts_within *w, ts_case *list, int n,
                    int room);

/* Moves a case of the task's list within, with its family and dtype; false if that is not found. */
bool ts_within_adapt(const ts_task *t, const ts_within *w, ts_case *c);
/* The same for a timed case, which keeps about its size, and its shape as far as the condition
 * lets it. */
bool ts_within_adapt_timed(const ts_task *t, const ts_within *w, ts_case *c);

#endif
