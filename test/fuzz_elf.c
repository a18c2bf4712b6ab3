/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_elf.c - shared objects for fuzz_object.c: one made by hand, and mutations of any.
 *
 * The mutations know where the tables are, so that most objects stay readable and the deeper checks
 * are reached. A table's place is read from the object itself, which may be mutated already. */
#include "fuzz_elf.h"

#include <stdbool.h>
#include <string.h>

#include "isa_elf.h"

/* ---- made by hand ---- */

enum {
    SYMTAB = 0x200,
    STRTAB = 0x300,
    HASH = 0x380,
    GNU_HASH = 0x400,
    RELA = 0x480,
    JMPREL = 0x500,
    TEXT = 0x600,
    DATA = 0x1000,
    DATA_AT = 0x10000, /* in a page of its own, of up to 64 KiB */
    CONSTANTS = 0x1800,
    CONSTANTS_AT = 0x20800,
    GOT = 0x200, /* in the data */
    N_SYMBOLS = 4,
};
static const char names[] = "\0expf\0table\0ts_softmax_topk"; /* at 1, 6 and 12 */

static void put(uint8_t *object, size_t at, const void *from, size_t n)
{
    memcpy(object + at, from, n);
}

static void put_segments(uint8_t *object)
{
    const Elf64_Ehdr h = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
                           .e_type = ET_DYN,
                           .e_machine = TS_ELF_MACHINE,
                           .e_version = EV_CURRENT,
                           .e_phoff = sizeof h,
                           .e_ehsize = sizeof h,
                           .e_phentsize = sizeof(Elf64_Phdr),
                           .e_phnum = 5 };
    const Elf64_Phdr p[] = {
        { PT_LOAD, PF_R | PF_X, 0, 0, 0, DATA, DATA, 0x10000 },
        { PT_LOAD, PF_R | PF_W, DATA, DATA_AT, DATA_AT, 0x400, 0x2000, 0x10000 },
        { PT_LOAD, PF_R, CONSTANTS, CONSTANTS_AT, CONSTANTS_AT, 0x100, 0x100, 0x10000 },
        { PT_DYNAMIC, PF_R | PF_W, DATA, DATA_AT, DATA_AT, 0x200, 0x200, 8 },
        { PT_GNU_STACK, PF_R | PF_W, 0, 0, 0, 0, 0, 16 },
    };
    put(object, 0, &h, sizeof h);
    put(object, sizeof h, p, sizeof p);
}

void fuzz_elf_make(uint8_t object[FUZZ_ELF_BYTES])
{
    const Elf64_Dyn tags[] = {
        { DT_SYMTAB, { SYMTAB } },
        { DT_STRTAB, { STRTAB } },
        { DT_STRSZ, { sizeof names } },
        { DT_SYMENT, { sizeof(Elf64_Sym) } },
        { DT_HASH, { HASH } },
        { DT_GNU_HASH, { GNU_HASH } },
        { DT_RELA, { RELA } },
        { DT_RELASZ, { 3 * sizeof(Elf64_Rela) } },
        { DT_JMPREL, { JMPREL } },
        { DT_PLTRELSZ, { sizeof(Elf64_Rela) } },
        { DT_PLTREL, { DT_RELA } },
        { DT_PLTGOT, { DATA_AT + GOT } },
        { DT_FLAGS, { DF_BIND_NOW } },
        { DT_FLAGS_1, { DF_1_NOW } },
        { DT_NULL, { 0 } },
    };
    const Elf64_Sym symbols[N_SYMBOLS] = {
        { 0 },
        { 1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, SHN_UNDEF, 0, 0 },
        { 6, ELF64_ST_INFO(STB_LOCAL, STT_OBJECT), 0, 2, DATA_AT + 0x300, 64 },
        { 12, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 1, TEXT, 16 },
    };
    const Elf64_Rela relocations[] = {
        { DATA_AT + GOT, ELF64_R_INFO(0, TS_ELF_RELATIVE), TEXT },
        { DATA_AT + GOT + 8, ELF64_R_INFO(1, TS_ELF_GLOB_DAT), 0 },
        { DATA_AT + GOT + 16, ELF64_R_INFO(2, TS_ELF_ABS64), 8 },
    };
    const Elf64_Rela jump = { DATA_AT + GOT + 24, ELF64_R_INFO(1, TS_ELF_JUMP_SLOT), 0 };
    /* one bucket: its first symbol, then a link from each symbol to the next */
    const uint32_t hash[] = { 1, N_SYMBOLS, 1, 0, 2, 3, 0 };
    /* one bucket, of hashed symbols from 1 on; a bloom word; the last link is odd */
    const uint32_t gnu[] = { 1, 1, 1, 0, ~0u, ~0u, 1, 2, 4, 7 };
    memset(object, 0, FUZZ_ELF_BYTES);
    put_segments(object);
    put(object, SYMTAB, symbols, sizeof symbols);
    put(object, STRTAB, names, sizeof names);
    put(object, HASH, hash, sizeof hash);
    put(object, GNU_HASH, gnu, sizeof gnu);
    put(object, RELA, relocations, sizeof relocations);
    put(object, JMPREL, &jump, sizeof jump);
    memset(object + TEXT, 0xc3, 16);
    put(object, DATA, tags, sizeof tags);
}

/* ---- mutations ---- */

static uint64_t draw(uint64_t *chance)
{
    uint64_t x = *chance ? *chance : 1;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *chance = x;
}

static bool inside(size_t n, uint64_t at, size_t len)
{
    return at <= n && len <= n - at;
}

/* Segment i; false: there is none. */
static bool segment(const uint8_t *object, size_t n, unsigned i, Elf64_Phdr *p)
{
    Elf64_Ehdr h;
    memcpy(&h, object, sizeof h);
    if (i >= h.e_phnum || !inside(n, h.e_phoff, (i + 1) * sizeof *p)) return false;
    memcpy(p, object + h.e_phoff + i * sizeof *p, sizeof *p);
    return true;
}

/* An address near the begin or the end of a segment, in the file or in memory. */
static uint64_t near_segment(const uint8_t *object, size_t n, uint64_t *chance)
{
    Elf64_Phdr p;
    if (!segment(object, n, (unsigned)(draw(chance) % 6), &p)) return n;
    const uint64_t size[] = { 0, p.p_filesz, p.p_memsz };
    return p.p_vaddr + size[draw(chance) % 3] - draw(chance) % 32;
}

/* A field's new value: around the old one, the object's size, a power of two, or a segment. */
static uint64_t odd_value(const uint8_t *object, size_t n, uint64_t old, uint64_t *chance)
{
    const uint64_t near = draw(chance) % 3 - 1, step = (uint64_t)1 << draw(chance) % 64;
    switch (draw(chance) % 10) {
    case 0:
        return draw(chance) % 4;
    case 7:
    case 8:
        return near_segment(object, n, chance);
    case 1:
        return n + near;
    case 2:
        return step + near;
    case 3:
        return 0 - step + near;
    case 4:
        return old ^ step;
    case 5:
        return old + (draw(chance) % 2 ? step : 0 - step);
    case 6:
        return draw(chance) % (n + 1);
    default:
        return old + near * (draw(chance) % 2 ? 1 : 8);
    }
}

/* A field of `size` bytes; most are of 8, 4 or 2. */
static void change(uint8_t *object, size_t n, uint64_t at, size_t size, uint64_t *chance)
{
    uint64_t v = 0;
    if (!inside(n, at, size)) return;
    memcpy(&v, object + at, size);
    v = odd_value(object, n, v, chance);
    memcpy(object + at, &v, size);
}

static void store(uint8_t *object, size_t n, uint64_t at, uint64_t v, size_t size)
{
    if (inside(n, at, size)) memcpy(object + at, &v, size);
}

/* Where the file has an address; past its end: nowhere. */
static uint64_t offset_of(const uint8_t *object, size_t n, uint64_t address)
{
    Elf64_Phdr p;
    for (unsigned i = 0; segment(object, n, i, &p); i++)
        if (p.p_type == PT_LOAD && address >= p.p_vaddr && address - p.p_vaddr < p.p_filesz)
            return p.p_offset + (address - p.p_vaddr);
    return UINT64_MAX;
}

/* The dynamic tags: where, and how many. */
static uint64_t tags_of(const uint8_t *object, size_t n, uint64_t *count)
{
    Elf64_Phdr p;
    for (unsigned i = 0; segment(object, n, i, &p); i++)
        if (p.p_type == PT_DYNAMIC) {
            const uint64_t at = offset_of(object, n, p.p_vaddr);
            *count = p.p_filesz / sizeof(Elf64_Dyn) % 64 + 1;
            return at;
        }
    return UINT64_MAX;
}

static uint64_t tag_value(const uint8_t *object, size_t n, int64_t tag)
{
    uint64_t       count = 0;
    const uint64_t at = tags_of(object, n, &count);
    for (uint64_t i = 0; i < count && inside(n, at, (i + 1) * sizeof(Elf64_Dyn)); i++) {
        Elf64_Dyn d;
        memcpy(&d, object + at + i * sizeof d, sizeof d);
        if (d.d_tag == tag) return d.d_un.d_val;
    }
    return UINT64_MAX;
}

static void change_header(uint8_t *object, size_t n, uint64_t *chance)
{
    static const struct {
        uint8_t at, size;
    } field[] = { { 4, 1 }, { 5, 1 }, { 16, 2 }, { 18, 2 }, { 32, 8 }, { 54, 2 }, { 56, 2 } };
    const size_t i = draw(chance) % (sizeof field / sizeof *field);
    change(object, n, field[i].at, field[i].size, chance);
}

static void change_segment(uint8_t *object, size_t n, uint64_t *chance)
{
    static const uint32_t types[] = { PT_NULL, PT_LOAD, PT_DYNAMIC,   PT_INTERP,
                                      PT_NOTE, PT_TLS,  PT_GNU_STACK, PT_GNU_RELRO };
    Elf64_Ehdr            h;
    memcpy(&h, object, sizeof h);
    const uint64_t i = draw(chance) % (h.e_phnum ? h.e_phnum : 1);
    const uint64_t at = h.e_phoff + i * sizeof(Elf64_Phdr), what = draw(chance) % 12;
    if (!inside(n, at, 2 * sizeof(Elf64_Phdr))) return;
    if (what == 0) store(object, n, at, types[draw(chance) % (sizeof types / sizeof *types)], 4);
    else if (what == 1) store(object, n, at + 4, draw(chance) % 8, 4); /* its rights */
    else if (what == 2) memcpy(object + at + sizeof(Elf64_Phdr), object + at, sizeof(Elf64_Phdr));
    else if (what == 3) { /* moved, and still to be mapped */ uint64_t address;
        memcpy(&address, object + at + 16, 8);
        store(object, n, at + 16, address + (draw(chance) % 64 - 32) * 4096, 8);
    } else if (what == 4) { /* longer in memory than in the file */
        change(object, n, at + 32, 8, chance);
        memcpy(object + at + 40, object + at + 32, 8);
    } else change(object, n, at + 8 + draw(chance) % 6 * 8, 8, chance);
}

static void change_tag(uint8_t *object, size_t n, uint64_t *chance)
{
    static const int64_t known[] = {
        DT_NULL,    DT_NEEDED,    DT_PLTRELSZ, DT_HASH,   DT_STRTAB,  DT_SYMTAB,  DT_RELA,
        DT_RELASZ,  DT_STRSZ,     DT_INIT,     DT_FLAGS,  DT_PLTREL,  DT_JMPREL,  DT_FINI,
        DT_TEXTREL, DT_RELACOUNT, DT_FLAGS_1,  DT_SYMENT, DT_RUNPATH, DT_GNU_HASH
    };
    uint64_t       count = 0;
    const uint64_t all = tags_of(object, n, &count);
    const uint64_t at = all + draw(chance) % (count ? count : 1) * sizeof(Elf64_Dyn);
    if (all > n || !inside(n, at, 2 * sizeof(Elf64_Dyn))) return;
    switch (draw(chance) % 6) {
    case 0:
        store(object, n, at, (uint64_t)known[draw(chance) % (sizeof known / sizeof *known)], 8);
        break;
    case 1:
        memcpy(object + at + sizeof(Elf64_Dyn), object + at, sizeof(Elf64_Dyn));
        break;
    case 2:
        change(object, n, at, 8, chance);
        break;
    default:
        change(object, n, at + 8, 8, chance);
    }
}

static void change_symbol(uint8_t *object, size_t n, uint64_t *chance)
{
    static const struct {
        uint8_t at, size;
    } field[] = { { 0, 4 }, { 4, 1 }, { 6, 2 }, { 8, 8 }, { 8, 8 } };
    const size_t   i = draw(chance) % (sizeof field / sizeof *field);
    const uint64_t at = offset_of(object, n, tag_value(object, n, DT_SYMTAB));
    if (at > n) return;
    change(object, n, at + draw(chance) % 32 * sizeof(Elf64_Sym) + field[i].at, field[i].size,
           chance);
}

static void change_relocation(uint8_t *object, size_t n, uint64_t *chance)
{
    static const uint32_t types[] = { TS_ELF_ABS64, TS_ELF_GLOB_DAT, TS_ELF_JUMP_SLOT,
                                      TS_ELF_RELATIVE };
    const bool            jump = draw(chance) % 2;
    const uint64_t        bytes = tag_value(object, n, jump ? DT_PLTRELSZ : DT_RELASZ);
    const uint64_t        count = bytes / sizeof(Elf64_Rela) % 4096 + 1;
    const uint64_t table = offset_of(object, n, tag_value(object, n, jump ? DT_JMPREL : DT_RELA));
    if (table > n) return;
    const uint64_t at = table + draw(chance) % count * sizeof(Elf64_Rela);
    switch (draw(chance) % 5) {
    case 0:
        store(object, n, at + 8, types[draw(chance) % 4], 4);
        break;
    case 1:
        store(object, n, at + 12, draw(chance) % 8, 4); /* its symbol */
        break;
    case 2:
        change(object, n, at + 8, 8, chance);
        break;
    case 3:
        change(object, n, at + 16, 8, chance);
        break;
    default:
        change(object, n, at, 8, chance);
    }
}

static void change_table(uint8_t *object, size_t n, uint64_t *chance)
{
    static const int64_t table[] = { DT_HASH, DT_GNU_HASH, DT_STRTAB };
    const int            which = (int)(draw(chance) % 3);
    const uint64_t       at = offset_of(object, n, tag_value(object, n, table[which]));
    if (at > n) return;
    if (which == 2) change(object, n, at + draw(chance) % 256, 1, chance);
    else change(object, n, at + draw(chance) % 16 * 4, 4, chance);
}

void fuzz_elf_change(uint8_t *object, size_t n, uint64_t *chance)
{
    static void (*const ways[])(uint8_t *, size_t, uint64_t *) = {
        change_header,     change_segment,    change_segment, change_tag,    change_tag,
        change_relocation, change_relocation, change_symbol,  change_symbol, change_table,
    };
    if (n >= sizeof(Elf64_Ehdr))
        ways[draw(chance) % (sizeof ways / sizeof *ways)](object, n, chance);
}
