/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - one judging run: entrants are read, built, examined and timed against each other, and
 * every step is written to the log.
 *
 * Inputs are derived from a 32-byte key, which the caller draws after all entrants have been read
 * and hashed. The log begins with the key's hash and ends with the key. */
#ifndef TS_RUN_H
#define TS_RUN_H

#include "build.h"
#include "cage.h"
#include "floor.h"
#include "keeper.h"
#include "log.h"
#include "progress.h"
#include "ruling.h"
#include "scope.h"

enum {
    TS_DRAW = 8, /* version of the derivation of cases from a key */
    TS_KEY_BYTES = 32,
    TS_MOST_ENTRANTS = 4096,
    TS_WORKLOADS = 4,
    TS_INSTANCES = 64,
    TS_TOOLS = 4,
    TS_TOOL_TEXT = 200
};

typedef enum ts_depth { TS_QUICK, TS_NORMAL, TS_FULL, TS_N_DEPTHS } ts_depth;
const char *ts_depth_name(ts_depth d); /* "normal" */

typedef struct ts_words ts_words; /* words.c */

typedef struct ts_tally {
    int passed, all;
} ts_tally;

/* An entrant being judged in one challenge. The caller sets the first four; name and author may be
 * NULL for the entrant's own. */
struct ts_judged {
    const char     *path, *challenge, *name, *author;
    const char     *root; /* the tree that it is an answer in; NULL: none */
    bool            built_in;
    const char     *sample; /* which of several answers of a model; NULL: not read from a tree */
    ts_entrant      entrant;
    ts_built        built;
    char            object[512], folder[128], launch[64]; /* paths for ts_run_plan */
    const ts_task  *task;                                 /* NULL: the entrant could not be read */
    ts_scope        scope;
    int             id;
    bool            before; /* judged by an earlier run of this log */
    bool            hidden; /* an anchor, no entrant: only timed, without a verdict */
    double          work;   /* of the run, once it has been examined */
    ts_evidence     evidence;
    ts_words       *words; /* what serves to describe its failures; NULL: nothing */
    const ts_ruled *ruled; /* the verdict, once it is written; NULL before */
    ts_tally        category[TS_N_CATEGORIES], refusals, repeat, sanitizer, threads;
    char            robustness_text[384];   /* the first finding of the sanitizer build */
    unsigned        supported, unsupported; /* bit 1u << dtype */
    int             n_calls;
    double          worst, seconds, io_bytes, workspace_bytes;
    double          spent_ns; /* in the calls of the correctness stage */
    double          timed_workspace[TS_WORKLOADS], own_bytes[TS_WORKLOADS]; /* when timed */
    /* Results of compute-sanitizer: "passed", "failed: ...", "skipped: ..."; "": not run. */
    char      tool[TS_TOOLS][TS_TOOL_TEXT];
    ts_errors errors; /* of the correctness stage; without narrow dtypes, where rounding to store
                         uses the whole bound */
    ts_errors timed_errors[TS_WORKLOADS]; /* of the timed calls */
    double    ns[TS_WORKLOADS][TS_INSTANCES];
    int       n_ns[TS_WORKLOADS];    /* of an anchor, which may have fewer */
    double    idle_ns[TS_WORKLOADS]; /* on a device: time of an empty call, already subtracted; */
    double    late_ns[TS_WORKLOADS]; /* time it was busy after done, already added */
    bool      timed;                 /* ns is complete */
};

/* Versions of a challenge whose times give those of entrants of a kind a place on the score's
 * scale: a textbook's, and the best known one's. An entrant of the run may be one of them. */
typedef struct ts_anchor {
    const ts_task *task;
    const char    *kind;                    /* see ts_kind_of */
    ts_judged     *text, *best;             /* NULL: there is none */
    ts_judged     *timed_text, *timed_best; /* these, or the entrants that are the same */
    char           note[128]; /* which is missing, though there should be one; "": none */
} ts_anchor;

enum { TS_MOST_ANCHORS = 64 };

struct ts_run {
    ts_log            *log;
    ts_places          places;
    ts_guarantees      machine;
    ts_device          device; /* of every entrant of this run */
    ts_survey          survey; /* TS_CUDA: its properties */
    ts_depth           depth;
    unsigned char      key[TS_KEY_BYTES];
    bool               key_given; /* not drawn at random; recorded in the log */
    int                n_threads; /* of an entrant when it is timed */
    bool               unsafe;    /* run entrants even if they cannot be confined */
    const char        *python;
    ts_progress        progress;
    int                n, n_verdicts;
    ts_judged         *entrant[TS_MOST_ENTRANTS];
    int                n_anchors;
    ts_anchor          anchor[TS_MOST_ANCHORS];
    const ts_exp_sums *exp_sums; /* the fastest known; NULL: the floor has none */
    ts_peaks           peaks;    /* peak rates measured on this machine */
    bool               sanitize; /* run compute-sanitizer, as at depth full */
    bool               untimed;  /* correctness only, no timing */
    bool               first;    /* stop at an entrant's first failure */
    const char *only; /* a full case name with its seed: the only case to run, without timing */
};

/* Classes that have the same anchors: "c", "python", "cuda", "python-gpu". */
const char *ts_kind_of(ts_class cls);

/* A challenge's name in the log: "softmax_topk", or "softmax_topk/cuda", which has its own
 * scoreboard. */
const char *ts_run_label(const ts_run *c, const ts_task *t);

/* The label of an entrant's challenge, even if the entrant could not be read; "-": unknown. */
const char *ts_run_task_of(const ts_run *c, const ts_judged *e);

/* What a seed is for. Each purpose has its own numbers: no two seeds of a key are equal. */
typedef enum ts_purpose {
    TS_FOR_INPUTS,        /* of case `number`, in the correctness stage */
    TS_FOR_SECOND,        /* other inputs at the same addresses */
    TS_FOR_CASE_ORDER,    /* `i` of a shuffle of the cases */
    TS_FOR_INSTANCE,      /* timed instance `i` of workload `number` */
    TS_FOR_WARM_UP,       /* the untimed call before them */
    TS_FOR_OTHER,         /* `i`-th call with other contents, between them */
    TS_FOR_OTHER_CHOICE,  /* which contents those are */
    TS_FOR_TURN_ORDER,    /* `i` of a shuffle of timed and other calls */
    TS_FOR_ENTRANT_ORDER, /* `number` of a shuffle of the entrants, in turn `i` */
    TS_FOR_MANY_CALLS     /* which block is called often, and how often */
} ts_purpose;

/* A seed derived from the key and its purpose. */
uint64_t ts_run_seed(const ts_run *c, const ts_task *t, ts_purpose p, int number, int i);

/* Reads and hashes an entrant; records it if it cannot be read. admit.c */
void ts_run_admit(ts_run *c, ts_judged *e);

/* Finds the entrants in the earlier runs of the log; returns how many have no verdict there. */
int ts_run_recall(ts_run *c, const ts_records *earlier);
int ts_run_next_id(const ts_records *earlier); /* above all of theirs */

/* Runs everything else and writes it to the log. False: that cannot be written, see its error. */
bool ts_run_all(ts_run *c, const ts_records *earlier);
bool ts_run_end(ts_run *c); /* the key, and the last record */

/* ---- parts of a run ---- */

/* Log records. */
bool ts_run_log_run(ts_run *c);
bool ts_run_log_entrant(ts_run *c, const ts_judged *e);
/* Before it is timed: the verdict if nothing else were found. */
bool ts_run_log_correctness(ts_run *c, const ts_judged *e, const ts_ruled *r);
/* Writes the command that reproduces a case; "" if it cannot be run on its own. */
void ts_run_replay(const ts_run *c, const ts_judged *e, const char *where, char *s, size_t n);

/* Measures the peaks that do not depend on the workload, and memory for the first time. */
void ts_run_measure_all(ts_run *c);
/* Raises the peaks to the current measurement; returns the bandwidth for this many bytes. */
double ts_run_measure(ts_run *c, double bytes);

/* Builds and examines; adds to the entrant's evidence. */
void ts_run_examine(ts_run *c, ts_judged *e);
/* Draws the cases for an entrant of this class and scope: their numbers in ts_scope_cases, to be
 * freed, and how many; 0 if c->only does not exist. First one of every family in every dtype; then,
 * for each category, one of every ts_case_group in turn, rare groups first, up to the depth's
 * limit. */
int     *ts_run_draw(const ts_run *c, const ts_task *t, ts_class cls, const ts_scope *s, int *n);
uint64_t ts_run_case_seed(const ts_run *c, const ts_task *t, int number); /* its inputs' */
/* ts_exec.n_threads of a case's calls, derived from its seed so that the case alone has the same:
 * 1 to TS_FEW_THREADS, more, or as many as when it is timed. */
enum { TS_FEW_THREADS = 7 };
int ts_run_case_threads(const ts_run *c, uint64_t seed);
/* The number of a case "task/.../family@seed" in the scope's list, or -1; and its seed. */
int ts_run_case_named(const ts_scope *s, const ts_task *t, const char *which, uint64_t *seed);
/* Writes the dtypes that the entrant rejects, "f16 bf16", and returns names. */
const char *ts_run_unsupported(const ts_judged *e, char *names, size_t n);
/* Robustness checks that need their own cages: invalid calls; and, for an entrant that passed these
 * cases, other numbers of threads and a sanitizer build. */
void ts_run_refusals(ts_run *c, ts_judged *e);
void ts_run_robustness(ts_run *c, ts_judged *e, const int *number, int n);
/* Runs each tool of compute-sanitizer on these cases of an entrant on a device. */
void ts_run_tools(ts_run *c, ts_judged *e, const int *number, int n);

extern const char *const ts_tool_name[TS_TOOLS]; /* "memcheck" */

/* The numbers of the largest timed cases within the depth's limits, and how many. */
int ts_run_workloads(const ts_run *c, const ts_task *t, int number[TS_WORKLOADS]);
/* That workload, or what it was adapted to for the scope; NULL: there is none within it. */
const ts_case *ts_run_workload_within(const ts_task *t, const ts_scope *s, int number);
double ts_run_timed_work(const ts_run *c, const ts_task *t); /* of timing it, see progress.h */
/* Times the entrants with `timed` against each other, adds to their evidence, and logs their times.
 * `timed` stays for those whose times are complete. Scores and ranks are derived in judge/report/.
 */
bool ts_run_time(ts_run *c, const ts_task *t);

/* Limits of an entrant's process. */
enum {
    TS_CALL_LIMIT_S = 10,
    TS_PYTHON_LIMIT_S = 20,
    TS_GPU_PYTHON_LIMIT_S = 90, /* compiles kernels in the first call */
    TS_ALL_CALLS_LIMIT_S = 900, /* of the correctness stage; the slowest correct ones take 60 s */
    TS_MEMORY_GIB = 1,
    TS_PYTHON_ARRAYS = 8,   /* class python: so many times the least bytes of a case more */
    TS_GPU_MEMORY_GIB = 32, /* mostly the driver's */
    TS_WORKSPACE_MIB = 16,  /* see ts_workspace_most */
    TS_GPU_WORKSPACE_MIB = 256,
};
int ts_call_limit_s(ts_class cls);
/* The most workspace in bytes that may be requested for a case: TS_WORKSPACE_MIB, since a small
 * case with long rows needs room to sort one, and each of 131,073 rows may have a line or two; plus
 * twice the least bytes that it moves, where 16-bit numbers count as floats; plus what a script's
 * objects may keep there. */
double ts_workspace_most(ts_class cls, const ts_task *t, const ts_case *c);

/* An empty block of cases for this entrant; the caller may change *plan before starting a cage. */
void ts_run_plan(const ts_run *c, ts_judged *e, ts_cage_plan *plan);
void ts_run_plan_case(ts_cage_plan *plan, const ts_case *c, uint64_t seed);

#endif
