/* SPDX-License-Identifier: Apache-2.0 */
/* called.h - the end of a file of mutants that are single calls: the table of a task.
 *
 * The file defines
 *
 *   TASK     rope     the task
 *   MUTANTS  ROPE     its list: bug, name, fault, family, and the workspace query if there is one
 *   CALL     run      ts_status run(const void *args, const ts_exec *x, trap bug)
 *
 * and, where a .cu file has more of them, CUDA_MUTANTS, their list; CUDA_STEM, which their symbols
 * have after ts_mutant_; CUDA_DTYPE(args), the dtype of a call; and check, which validates one. */
#define PASTE_(a, b, c, d)   a##b##c##d
#define PASTE(a, b, c, d)    PASTE_(a, b, c, d)
#define TEXT_(a)             #a
#define TEXT(a)              TEXT_(a)
#define SECOND_(a, b, ...)   b
#define WORKSPACE(none, ...) SECOND_(none, ##__VA_ARGS__, NULL, NULL)
#define ALL                  PASTE(ts_, TASK, _mutants, )

#define RUN(trap, ...)                                                                             \
    static ts_status PASTE(TASK, _, run_, trap)(const void *a, const ts_exec *x)                   \
    {                                                                                              \
        return CALL(a, x, trap);                                                                   \
    }
MUTANTS(RUN)

#define ROW(trap, name, fault, family, ...)                                                        \
    { name,                                                                                        \
      TEXT(TASK),                                                                                  \
      TS_FAULT_##fault,                                                                            \
      family,                                                                                      \
      PASTE(TASK, _, run_, trap),                                                                  \
      WORKSPACE(0, ##__VA_ARGS__),                                                                 \
      TS_CPU },

#ifdef CUDA_MUTANTS
#include "mutant_cuda.h"

static ts_status run_cuda(const char *symbol, const void *args, const ts_exec *x)
{
    const ts_status s = check(args, x, HONEST);
    return s ? s
             : ts_mutant_cuda_run(symbol, TS_HAS_F32 | TS_HAS_F64 | TS_HAS_F16 | TS_HAS_BF16,
                                  CUDA_DTYPE(args), args, x);
}

#define CUDA_RUN(trap, name, fault, family)                                                        \
    static ts_status run_cuda_##name(const void *a, const ts_exec *x)                              \
    {                                                                                              \
        return run_cuda("ts_mutant_" TEXT(CUDA_STEM) "_" #name, a, x);                             \
    }
CUDA_MUTANTS(CUDA_RUN)

#define CUDA_ROW(trap, name, fault, family)                                                        \
    { "cuda_" #name, TEXT(TASK), TS_FAULT_##fault, family, run_cuda_##name, NULL, TS_CUDA },
#else
#define CUDA_MUTANTS(M)
#define CUDA_ROW
#endif

extern const ts_mutant ALL[];
const ts_mutant        ALL[] = { MUTANTS(ROW) CUDA_MUTANTS(CUDA_ROW) { 0 } };

/* For another task of the same file. */
#undef PASTE_
#undef PASTE
#undef TEXT_
#undef TEXT
#undef SECOND_
#undef WORKSPACE
#undef ALL
#undef RUN
#undef ROW
#undef CUDA_MUTANTS
#undef CUDA_ROW
#undef TASK
#undef MUTANTS
#undef CALL
