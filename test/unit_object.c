/* SPDX-License-Identifier: Apache-2.0 */
/* unit_object.c - objects that fuzzing found judge/protocol/object.c to treat wrongly, each made by
 * one change of the object of fuzz_elf.c. */
#include "object.h"

#include <string.h>

#include "fuzz_elf.h"
#include "unit.h"

static uint8_t object[FUZZ_ELF_BYTES];

static int make(void **state)
{
    (void)state;
    fuzz_elf_make(object);
    return 0;
}

static bool passes(char why[256])
{
    ts_elf      f;
    const char *bad = ts_elf_read(&f, object, sizeof object);
    if (bad) fail_msg("the object has %s", bad);
    return ts_elf_sealed(&f, why, 256);
}

static void must_say(const char *part)
{
    char why[256] = "";
    assert_false(passes(why));
    if (!strstr(why, part)) fail_msg("'%s' does not say '%s'", why, part);
    for (const char *p = why; *p; p++) assert_in_range(*p, ' ', '~');
}

TEST_WITH(accepts_what_is_valid, make, NULL)
{
    char     why[256] = "";
    ts_elf   f;
    uint64_t address = 0;
    if (!passes(why)) fail_msg("%s", why);
    assert_null(ts_elf_read(&f, object, sizeof object));
    assert_true(ts_elf_function(&f, "ts_softmax_topk", &address));
    assert_non_null(ts_elf_within(&f, address, 1, PF_X));
    assert_false(ts_elf_function(&f, "expf", &address));  /* undefined */
    assert_false(ts_elf_function(&f, "table", &address)); /* no function */
}

/* The file's place of relocation i. */
static size_t relocation(int i)
{
    Elf64_Rela r;
    ts_elf     f;
    uint64_t   at = 0;
    assert_null(ts_elf_read(&f, object, sizeof object));
    assert_true(ts_elf_tag(&f, DT_RELA, &at) && ts_elf_relocation(&f, DT_RELA, (uint64_t)i, &r));
    return (size_t)at + (size_t)i * sizeof r; /* the first segment is at 0 in both */
}

/* The loader has no symbol 0, and refused what the audit had accepted. */
TEST_WITH(refuses_relocations_against_no_symbol, make, NULL)
{
    const uint64_t info = ELF64_R_INFO(0, TS_ELF_GLOB_DAT);
    memcpy(object + relocation(1) + offsetof(Elf64_Rela, r_info), &info, sizeof info);
    must_say("a relocation against an undefined symbol");
}

/* One page cannot have the rights of two segments. */
TEST_WITH(refuses_segments_that_share_a_page, make, NULL)
{
    Elf64_Ehdr h;
    Elf64_Phdr p;
    memcpy(&h, object, sizeof h);
    const size_t data = h.e_phoff + sizeof p, constants = data + sizeof p;
    memcpy(&p, object + data, sizeof p);
    p.p_memsz = 0x1800;
    memcpy(object + data, &p, sizeof p);
    const uint64_t next = p.p_vaddr + p.p_memsz;
    memcpy(object + constants + offsetof(Elf64_Phdr, p_vaddr), &next, sizeof next);
    must_say("segments that share a page");
}

/* The cage writes this text where the judge reads a line. */
TEST_WITH(says_names_in_plain_text, make, NULL)
{
    ts_elf f;
    assert_null(ts_elf_read(&f, object, sizeof object));
    memcpy(object + f.strtab + 1,
           "\n\x1b\xff"
           "f",
           4);
    must_say("calls '???f'");
}

/* A name that the table's end cuts off is none. */
TEST_WITH(refuses_names_without_end, make, NULL)
{
    ts_elf f;
    assert_null(ts_elf_read(&f, object, sizeof object));
    object[f.strtab + f.n_strings - 1] = 'x';
    must_say("symbol 3 cannot be read");
}
