/* SPDX-License-Identifier: Apache-2.0 */
/* codes.c - selects the instructions that multiply codes, and lays out rounded activations. */
#include "codes.h"

#include "cpu.h"
#include "impl.h"
#include "scratch.h"

/* Best first. */
static const ts_codes *const all[] = {
    TS_ON_AARCH64(&ts_codes_i8mm, &ts_codes_few_i8mm, &ts_codes_dotprod, )
        TS_ON_X86_64(&ts_codes_vnni, &ts_codes_avx2, ) NULL,
};

const ts_codes *ts_codes_of(const ts_block *b, int64_t n)
{
    const unsigned has = ts_cpu_features();
    if (!b->code) return NULL;
    for (int i = 0; all[i]; i++)
        if ((has & all[i]->needs) == all[i]->needs && n >= all[i]->n_least) return all[i];
    return NULL;
}

/* With memory NULL it only counts. Room for an even number of rows, and each scale and sum twice.
 */
static size_t lay(char *memory, int64_t n, int64_t cols, ts_rounded *r)
{
    const int64_t even = n + n % 2, groups = cols / TS_CODE_GROUP;
    size_t        at = memory ? (size_t)(-(uintptr_t)memory % TS_LINE) : TS_LINE - 1;
    r->code = ts_cut(memory, &at, 2 * even * cols, sizeof *r->code);
    r->scale = ts_cut(memory, &at, 2 * even * groups, sizeof *r->scale);
    r->sum = ts_cut(memory, &at, 2 * even * groups, sizeof *r->sum);
    return at;
}

size_t ts_rounded_bytes(int64_t n, int64_t cols)
{
    ts_rounded r;
    return lay(NULL, n, cols, &r);
}

ts_rounded ts_rounded_in(void *memory, int64_t n, int64_t cols)
{
    ts_rounded r = { .n = n, .cols = cols };
    lay(memory, n, cols, &r);
    return r;
}
