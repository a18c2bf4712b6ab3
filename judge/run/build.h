/* SPDX-License-Identifier: Apache-2.0 */
/* build.h - builds an entrant for the cage. Neither its sources nor the compiler's behaviour on
 * them is trusted.
 *
 * The sources, as hashed, and the public headers are written to a new folder. The compiler runs
 * there in its own process group, with limits on time, memory and file size; where the system
 * allows, it has no network and no access to other folders than its own. The preprocessed text is
 * searched for flags, and exactly that text is compiled. */
#ifndef TS_BUILD_H
#define TS_BUILD_H

#include "entrant.h"

/* Confinement in effect while the compiler ran. */
enum {
    TS_GUARD_FILES = 1,   /* landlock */
    TS_GUARD_NETWORK = 2, /* a network namespace with nothing in it */
    TS_GUARD_USER = 4,    /* a user other than the judge's */
};

enum { TS_OBJECT_BYTES = 32 << 20 };

/* Locations of the judge's own files; see ts_places_find. */
typedef struct ts_places {
    char include[4096]; /* the folder that contains touchstone/ */
    char runner[4096];  /* runner.py */
    char nvcc[4096];    /* CUDA's compiler; "": none */
    char arch[16];      /* target architecture: "sm_90" */
} ts_places;

/* Relative to the program: in a build folder, or installed. False if a file is missing. */
bool ts_places_find(ts_places *p);

/* A program of CUDA's: what the environment variable names; else on the PATH, or in CUDA's usual
 * folder. False: there is none. */
bool ts_cuda_tool(const char *variable, const char *name, char *place, size_t n);

typedef struct ts_built {
    char     folder[64];    /* the sources, from which a Python entrant runs; removed by _free */
    int      object;        /* a sealed memory file, or -1 for Python */
    int      launch;        /* class sealed-gpu: another one, with the launch plan; else -1 */
    size_t   n_bytes;       /* of it */
    char     sha256[65];    /* of it */
    char     command[2048]; /* how it was compiled */
    unsigned guards;        /* TS_GUARD_* */
    unsigned lacks;         /* see ts_scope; all for Python */
    double   spent_s;       /* seconds spent in compilers so far */
    size_t   n_preprocessed;
} ts_built;

/* `extra` may be NULL: flags appended for a robustness check, such as "-fsanitize=address".
 * Includes the audit. Call ts_built_free even on failure. */
bool ts_build(const ts_entrant *e, const ts_places *p, const char *extra, ts_built *b,
              ts_refusal *why);
void ts_built_free(ts_built *b);

/* Seconds that the compilers of one entrant may take. */
enum { TS_BUILD_LIMIT_S = 120, TS_NVCC_LIMIT_S = 300 };

/* How an entrant is compiled; `own` is where the compiler keeps its intrinsics. */
void ts_build_flags(ts_class cls, bool cxx, const char *own, char *text, size_t n);
void ts_build_nvcc_flags(const char *arch, bool cubin, char *text, size_t n);

#endif
