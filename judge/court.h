/* SPDX-License-Identifier: Apache-2.0 */
/* court.h - one sitting: entrants are read, built, examined and timed against each other,
 * and every step of it is written to the log.
 *
 * Inputs come from a key of 32 bytes, which the caller draws when all entrants have been read and
 * hashed. The log begins with the key's hash and ends with the key. */
#ifndef TS_COURT_H
#define TS_COURT_H

#include "build.h"
#include "cage.h"
#include "floor.h"
#include "keeper.h"
#include "log.h"
#include "progress.h"
#include "scope.h"

enum {
    TS_DRAW = 4, /* how cases follow from a key: another number, other cases */
    TS_KEY_BYTES = 32,
    TS_CONTENDERS = 4096,
    TS_MOST_CASES = 2048,
    TS_WORKLOADS = 4,
    TS_INSTANCES = 64,
    TS_LABELS = 32,
    TS_TOOLS = 4,
    TS_TOOL_TEXT = 200
};

typedef enum ts_depth { TS_QUICK, TS_NORMAL, TS_FULL, TS_N_DEPTHS } ts_depth;
typedef enum ts_ruling {
    TS_RULING_ERROR,
    TS_RULING_FAIL,
    TS_RULING_AUDIT,
    TS_RULING_COMMON, /* right by the field's usual contract; a rule of the canon is broken */
    TS_RULING_PASS
} ts_ruling;

const char        *ts_ruling_name(ts_ruling r); /* "PASS", "PASS (common)" */
static inline bool ts_ruling_passes(ts_ruling r)
{
    return r >= TS_RULING_COMMON;
}
const char *ts_depth_name(ts_depth d); /* "normal" */

typedef struct ts_tally {
    int passed, all;
} ts_tally;

/* An entrant in one challenge. The caller gives the first four, name and author NULL where the
 * entry's own are meant. */
typedef struct ts_contender {
    const char    *path, *challenge, *name, *author;
    const char    *sample; /* which of several answers of a model; NULL: not read from a tree */
    ts_candidate   entry;
    ts_built       built;
    char           object[512], folder[128], launch[64]; /* ts_court_plan's paths into it */
    const ts_task *task;                                 /* NULL: it could not be read */
    ts_scope       scope;
    int            id;
    bool           before, ruled; /* by an earlier run of this log; its verdict is written */
    double         work;          /* of the sitting, when it has been examined */
    ts_ruling      ruling;
    char           reason[16], text[512], where[192]; /* where: the case of the first flaw */
    ts_flaw        flaw;
    ts_tally       category[TS_N_CATEGORIES], refusals, repeat, sanitizer, threads;
    const char    *rule;                 /* of the canon, the first that was broken; NULL: none */
    int            n_canon;              /* answers that broke one */
    char           lane_text[384];       /* the first that the sanitizer lane found */
    unsigned       offered, not_offered; /* bit 1u << dtype */
    int            n_calls;
    double         worst, seconds, io_bytes, workspace_bytes;
    double         spent_ns; /* in the calls of the gate */
    double         timed_workspace[TS_WORKLOADS], own_bytes[TS_WORKLOADS]; /* when timed */
    /* Of compute-sanitizer: "passed", "failed: ...", "skipped: ..."; "": not asked. */
    char      tool[TS_TOOLS][TS_TOOL_TEXT];
    ts_errors errors; /* the gate's; not of narrow dtypes, where storing takes all of the bound */
    ts_errors timed_errors[TS_WORKLOADS]; /* of the calls that are timed */
    double    ns[TS_WORKLOADS][TS_INSTANCES];
    double    idle_ns[TS_WORKLOADS]; /* on a device: what a call to nobody takes, off already; */
    double    late_ns[TS_WORKLOADS]; /* how long it was busy after done, on already */
    bool      timed;                 /* all of ns is there */
} ts_contender;

typedef struct ts_court {
    ts_log       *log;
    ts_places     places;
    ts_guarantees machine;
    ts_device     device; /* of every entrant of this sitting */
    ts_survey     survey; /* TS_CUDA: what it is */
    char          label[TS_LABELS][80];
    ts_depth      depth;
    unsigned char key[TS_KEY_BYTES];
    bool          key_given; /* not drawn at random: the log says so */
    int           n_threads; /* an entrant's when it is timed */
    const char   *unsafe;    /* not NULL: they run even where they cannot be confined */
    const char   *python;
    ts_progress   progress;
    int           n, n_verdicts;
    ts_contender *contender[TS_CONTENDERS];
    ts_peaks      peaks;    /* what this machine was seen to do at best */
    const char   *sanitize; /* not NULL: with compute-sanitizer, as at depth full */
    const char   *gate;     /* not NULL: nobody is timed */
    const char   *only;     /* a whole case name with its seed: nothing else is asked, or timed */
} ts_court;

/* A challenge's name in the log: "softmax_topk", or "softmax_topk/cuda", whose board is another. */
const char *ts_court_label(ts_court *c, const ts_task *t);

/* A number that follows from the key and from what it is for. */
uint64_t ts_court_seed(const ts_court *c, const ts_task *t, int number, int instance);

/* Reads and hashes; its own verdict when it cannot be read. */
void ts_court_admit(ts_court *c, ts_contender *e);

/* Everything that follows, in the log. False: the judge could not work; one line in why. */
bool ts_court_sit(ts_court *c, const ts_records *earlier, char why[TS_WHY]);
bool ts_court_end(ts_court *c); /* the key, and the last record */

/* ---- the parts of it ---- */

/* In the log. */
bool ts_court_log_run(ts_court *c);
bool ts_court_log_entrant(ts_court *c, const ts_contender *e);
bool ts_court_log_gate(ts_court *c, const ts_contender *e); /* before it is timed */
bool ts_court_log_verdict(ts_court *c, ts_contender *e);

/* The peaks that do not depend on the workload, and a first look at memory. */
void ts_court_measure_all(ts_court *c);
/* Raises the peaks to what is seen now; gives the bandwidth of so many bytes. */
double ts_court_measure(ts_court *c, double bytes);

/* Builds and examines; sets the ruling. */
void ts_court_examine(ts_court *c, ts_contender *e);
/* The numbers of the cases that an entrant of this class and scope is asked, and how many; 0: there
 * is no such case as c->only. One of every family in every dtype; then, of each category, one of
 * every ts_case_group in turn, the rare ones first, up to as many as the depth says. */
int      ts_court_draw(const ts_court *c, const ts_task *t, ts_class cls, const ts_scope *s,
                       int number[TS_MOST_CASES]);
uint64_t ts_court_case_seed(const ts_court *c, const ts_task *t, int number); /* its inputs' */
/* What counts for robustness and needs cages of its own: senseless calls; and, for one that passed
 * these cases, other numbers of threads and another build. */
void ts_court_refusals(ts_court *c, ts_contender *e);
void ts_court_lanes(ts_court *c, ts_contender *e, const int *number, int n);
/* What each tool of compute-sanitizer says of these cases of an entrant on a device. */
void ts_court_tools(ts_court *c, ts_contender *e, const int *number, int n);

extern const char *const ts_tool_name[TS_TOOLS]; /* "memcheck" */

/* The numbers of the largest timed cases within the depth's limits, and how many. */
int    ts_court_workloads(const ts_court *c, const ts_task *t, int number[TS_WORKLOADS]);
double ts_court_timed_work(const ts_court *c, const ts_task *t); /* of timing it, see progress.h */
/* Times those who passed against each other, and writes their times and then their verdicts; what
 * follows from those, report/ derives. */
bool ts_court_time(ts_court *c, const ts_task *t);

/* A block of cases for this entrant, yet without any; *plan may be changed before a cage is started
 * with it. Workspace may be twice the case's least bytes, and 8 MiB in any case: a small case of
 * long rows must have room to sort one. */
void ts_court_plan(const ts_court *c, ts_contender *e, ts_cage_plan *plan);
void ts_court_plan_case(ts_cage_plan *plan, const ts_case *c);

/* The ruling FAIL with its reason, an escaped text and the case; false, to be returned. By a call:
 * one that failed, changed the floating-point environment, or gave a status. `args` of the call say
 * in words what a flaw is; NULL: there are none. */
bool ts_court_fail(ts_contender *e, const ts_case *c, uint64_t seed, const char *reason,
                   const char *text);
bool ts_court_fail_by_flaw(ts_contender *e, const ts_case *c, uint64_t seed, const void *args,
                           ts_flaw f);
/* An answer that `check` refused with this flaw: true if it breaks nothing but the canon, which is
 * noted, else the ruling is FAIL. */
bool ts_court_excuse(ts_contender *e, const ts_case *c, uint64_t seed, const void *args,
                     const ts_want *want, ts_flaw f, ts_errors *errors);
/* Called on what is open, an entrant may refuse: by the usual contract that is no flaw, and noted.
 */
bool ts_court_may_refuse(ts_contender *e, const ts_case *c, uint64_t seed, ts_status s);
bool ts_court_fail_by_call(ts_contender *e, const ts_case *c, uint64_t seed, const ts_call *r);

#endif
