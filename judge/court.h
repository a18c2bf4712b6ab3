/* SPDX-License-Identifier: Apache-2.0 */
/* court.h - one sitting: entrants are read, built, examined, timed against each other and ranked,
 * and every step of it is written to the log.
 *
 * Inputs come from a key of 32 bytes, which the caller draws when all entrants have been read and
 * hashed. The log begins with the key's hash and ends with the key. */
#ifndef TS_COURT_H
#define TS_COURT_H

#include <stdio.h>

#include "build.h"
#include "cage.h"
#include "log.h"

enum { TS_KEY_BYTES = 32, TS_CONTENDERS = 256, TS_WORKLOADS = 4, TS_INSTANCES = 64 };

typedef enum ts_depth { TS_QUICK, TS_NORMAL, TS_FULL, TS_N_DEPTHS } ts_depth;
typedef enum ts_ruling {
    TS_RULING_ERROR,
    TS_RULING_FAIL,
    TS_RULING_AUDIT,
    TS_RULING_PASS
} ts_ruling;

const char *ts_ruling_name(ts_ruling r); /* "PASS" */
const char *ts_depth_name(ts_depth d);   /* "normal" */

typedef struct ts_tally {
    int passed, all;
} ts_tally;

/* An entrant in one challenge. The caller gives the first four, name and author NULL where the
 * entry's own are meant. */
typedef struct ts_contender {
    const char    *path, *challenge, *name, *author;
    ts_candidate   entry;
    ts_built       built;
    const ts_task *task; /* NULL: it could not be read */
    int            id;
    bool           before, ruled; /* by an earlier run of this log; its verdict is written */
    ts_ruling      ruling;
    char           reason[16], text[512], where[192]; /* where: the case of the first flaw */
    ts_flaw        flaw;
    ts_tally       category[TS_N_CATEGORIES], refusals, repeat;
    unsigned       offered, not_offered; /* bit 1u << dtype */
    int            n_calls;
    double         worst, seconds, io_bytes, workspace_bytes;
    double         ns[TS_WORKLOADS][TS_INSTANCES];
    bool           timed; /* all of ns is there */
} ts_contender;

typedef struct ts_court {
    ts_log       *log;
    ts_places     places;
    ts_guarantees machine;
    ts_depth      depth;
    unsigned char key[TS_KEY_BYTES];
    bool          key_given; /* not drawn at random: the log says so */
    int           n_threads; /* an entrant's when it is timed */
    const char   *python;
    FILE         *progress; /* NULL: quiet */
    int           n, n_verdicts;
    ts_contender *contender[TS_CONTENDERS];
    double        best_gbs; /* the most that memory was seen to do */
    const char   *only;     /* a whole case name with its seed: nothing else is asked, or timed */
} ts_court;

/* A number that follows from the key and from what it is for. */
uint64_t ts_court_seed(const ts_court *c, const ts_task *t, int number, int instance);

/* Reads and hashes; its own verdict when it cannot be read. */
void ts_court_admit(ts_court *c, ts_contender *e);

/* Everything that follows, in the log. False: the judge could not work; one line in why. */
bool ts_court_sit(ts_court *c, const ts_records *earlier, char why[TS_WHY]);

/* ---- the parts of it ---- */

/* Builds and examines; sets the ruling. */
void ts_court_examine(ts_court *c, ts_contender *e);
/* Times those who passed against each other, and writes times, matches, scores, ranks and then
 * their verdicts. */
bool ts_court_time(ts_court *c, const ts_task *t);
bool ts_court_log_verdict(ts_court *c, ts_contender *e);

/* A block of cases for this entrant; *plan may be changed before a cage is started with it. */
void ts_court_plan(const ts_court *c, const ts_contender *e, ts_cage_plan *plan);

#endif
