/* SPDX-License-Identifier: Apache-2.0 */
/* build.h - makes of an entrant what the cage can run, trusting neither it nor its compiler's
 * input.
 *
 * The sources as they were read and the contract's headers are laid into a fresh folder. There the
 * compiler runs in a process group of its own, with limits of time, memory and files; where the
 * system allows, it sees no other folder than the compiler's own and has no network. What it
 * preprocessed is read for flags in the text, and then that very text is compiled. */
#ifndef TS_BUILD_H
#define TS_BUILD_H

#include "entry.h"

/* What held while the compiler ran. */
enum {
    TS_GUARD_FILES = 1,   /* landlock */
    TS_GUARD_NETWORK = 2, /* a network namespace with nothing in it */
    TS_GUARD_USER = 4,    /* another user than the judge's */
};

enum { TS_OBJECT_BYTES = 32 << 20 };

/* Where the judge finds its own files; see ts_places_find. */
typedef struct ts_places {
    char include[4096]; /* the folder that holds touchstone/ */
    char runner[4096];  /* runner.py */
    char nvcc[4096];    /* CUDA's compiler; "" where there is none */
    char arch[16];      /* what it compiles for: "sm_90" */
} ts_places;

/* From the program's own place: in a build folder, or installed. False if something is not there.
 */
bool ts_places_find(ts_places *p);

typedef struct ts_built {
    char     folder[64];    /* the sources, for a Python entrant to be run from; removed by _free */
    int      object;        /* a sealed memory file, or -1 for Python */
    int      launch;        /* class sealed-gpu: another one, with the launch plan; else -1 */
    size_t   n_bytes;       /* of it */
    char     sha256[65];    /* of it */
    char     command[2048]; /* how it was compiled */
    unsigned guards;        /* TS_GUARD_* */
    unsigned lacks;         /* see ts_scope; of Python all */
    double   spent_s;       /* by compilers, of what a build may take */
    size_t   n_preprocessed;
} ts_built;

/* `extra` may be NULL: flags appended for another lane, such as "-fsanitize=address". In any case
 * ts_built_free may follow. Includes the audit. */
bool ts_build(const ts_candidate *e, const ts_places *p, const char *extra, ts_built *b,
              ts_refusal *why);
void ts_built_free(ts_built *b);

/* Seconds that the compilers of one entrant may take. */
enum { TS_BUILD_LIMIT_S = 120, TS_NVCC_LIMIT_S = 300 };

/* How an entrant is compiled; `own` is where the compiler keeps its intrinsics. */
void ts_build_flags(ts_class cls, bool cxx, const char *own, char *text, size_t n);
void ts_build_nvcc_flags(const char *arch, bool cubin, char *text, size_t n);

#endif
