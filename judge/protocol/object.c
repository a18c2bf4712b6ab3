/* SPDX-License-Identifier: Apache-2.0 */
/* object.c - reads ELF shared objects from memory, with every access bounds-checked. */
#include "object.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "allow.h"

enum { MAX_SYMBOLS = 1 << 20 };
static const uint64_t max_span = (uint64_t)1 << 32; /* of addresses; keeps all sums small */

bool ts_allowed(const char *symbol)
{
#define X(result, name, parameters) #name,
    static const char *const names[] = { TS_ALLOWED(X) };
#undef X
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(symbol, names[i])) return true;
    return false;
}

/* ---- bounds-checked reading ---- */

/* The file's bytes from an address to the end of its segment, *n of them; NULL if there are none.
 */
static const unsigned char *from(const ts_elf *f, uint64_t address, uint64_t *n)
{
    for (int i = 0; i < f->n_loads; i++) {
        const Elf64_Phdr *s = &f->load[i];
        if (address < s->p_vaddr || address - s->p_vaddr >= s->p_filesz) continue;
        *n = s->p_filesz - (address - s->p_vaddr);
        return f->bytes + s->p_offset + (address - s->p_vaddr);
    }
    return NULL;
}

static bool fetch(const ts_elf *f, uint64_t address, void *to, size_t n)
{
    uint64_t             most = 0;
    const unsigned char *at = from(f, address, &most);
    if (!at || n > most) return false;
    memcpy(to, at, n);
    return true;
}

bool ts_elf_tag(const ts_elf *f, int64_t tag, uint64_t *value)
{
    for (int i = 0; i < f->n_tags; i++)
        if (f->tag[i].d_tag == tag) {
            *value = f->tag[i].d_un.d_val;
            return true;
        }
    return false;
}

/* A name of the string table, truncated to fit; false if it does not end inside table and segment.
 */
static bool name_at(const ts_elf *f, uint64_t offset, char *name, size_t room)
{
    uint64_t             n = 0;
    const unsigned char *at = offset < f->n_strings ? from(f, f->strtab + offset, &n) : NULL;
    if (!at) return false;
    if (n > f->n_strings - offset) n = f->n_strings - offset;
    const size_t         most = n < room ? (size_t)n : room;
    const unsigned char *end = memchr(at, 0, most);
    if (!end && most < room) return false;
    const size_t len = end ? (size_t)(end - at) : room - 1;
    memcpy(name, at, len);
    name[len] = 0;
    return true;
}

/* The highest bucket's chain ends at the last symbol. */
static bool count_gnu(const ts_elf *f, uint64_t table, uint32_t *count)
{
    uint32_t head[4], highest = 0, word; /* buckets, first symbol, bloom words, shift */
    if (!fetch(f, table, head, sizeof head) || head[0] > MAX_SYMBOLS || head[2] > MAX_SYMBOLS)
        return false;
    const uint64_t buckets = table + 16 + (uint64_t)head[2] * 8;
    const uint64_t chains = buckets + (uint64_t)head[0] * 4;
    for (uint32_t i = 0; i < head[0]; i++) {
        if (!fetch(f, buckets + (uint64_t)i * 4, &word, 4)) return false;
        if (word > highest) highest = word;
    }
    *count = head[1];
    if (highest == 0) return true;
    if (highest < head[1]) return false;
    do {
        if (highest >= MAX_SYMBOLS ||
            !fetch(f, chains + (uint64_t)(highest - head[1]) * 4, &word, 4))
            return false;
        highest++;
    } while (!(word & 1));
    *count = highest;
    return true;
}

static bool count_symbols(ts_elf *f)
{
    uint64_t table;
    uint32_t head[2];
    if (ts_elf_tag(f, DT_HASH, &table)) {
        if (!fetch(f, table, head, sizeof head)) return false;
        f->n_symbols = head[1];
    } else if (!ts_elf_tag(f, DT_GNU_HASH, &table) || !count_gnu(f, table, &f->n_symbols))
        return false;
    return f->n_symbols <= MAX_SYMBOLS;
}

bool ts_elf_symbol(const ts_elf *f, uint32_t i, Elf64_Sym *s, char *name, size_t room)
{
    return fetch(f, f->symtab + (uint64_t)i * sizeof *s, s, sizeof *s) &&
           name_at(f, s->st_name, name, room);
}

bool ts_elf_relocation(const ts_elf *f, int64_t tag, uint64_t i, Elf64_Rela *r)
{
    uint64_t table = 0;
    return ts_elf_tag(f, tag, &table) && table < max_span && i < max_span / sizeof *r &&
           fetch(f, table + i * sizeof *r, r, sizeof *r);
}

/* ---- headers ---- */

static bool read_dynamic(ts_elf *f, const Elf64_Phdr *p)
{
    const uint64_t n = p->p_filesz / sizeof(Elf64_Dyn);
    for (uint64_t i = 0; i < n && f->n_tags < TS_ELF_TAGS; i++) {
        Elf64_Dyn *d = &f->tag[f->n_tags];
        /* By address, as a loader does; the offset in the header could differ. */
        if (!fetch(f, p->p_vaddr + i * sizeof *d, d, sizeof *d)) return false;
        if (d->d_tag == DT_NULL) return true;
        f->n_tags++;
    }
    return false;
}

static bool known_header(uint32_t type)
{
    static const uint32_t known[] = { PT_LOAD,         PT_DYNAMIC,   PT_INTERP,     PT_NOTE,
                                      PT_PHDR,         PT_TLS,       PT_GNU_STACK,  PT_GNU_EH_FRAME,
                                      PT_GNU_PROPERTY, PT_GNU_RELRO, TS_ELF_HEADERS };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i] == type) return true;
    return false;
}

static const char *read_segments(ts_elf *f, const Elf64_Ehdr *h)
{
    Elf64_Phdr p, dynamic = { 0 };
    uint64_t   end = 0;
    int        n_dynamic = 0;
    f->exec_stack = true; /* the default of a file without PT_GNU_STACK */
    for (int i = 0; i < h->e_phnum; i++) {
        memcpy(&p, f->bytes + h->e_phoff + (size_t)i * sizeof p, sizeof p);
        if (p.p_type == PT_TLS) f->tls = true;
        if (p.p_type == PT_INTERP) f->interp = true;
        if (p.p_type == PT_GNU_STACK) f->exec_stack = p.p_flags & PF_X;
        if (p.p_type > PT_NULL && !known_header(p.p_type)) f->odd_header = p.p_type;
        if (p.p_type == PT_DYNAMIC) {
            dynamic = p;
            n_dynamic++;
        }
        if (p.p_type != PT_LOAD) continue;
        if (p.p_offset > f->n || p.p_filesz > f->n - p.p_offset) return "a segment past its end";
        if (p.p_vaddr >= max_span || p.p_memsz >= max_span || p.p_filesz > p.p_memsz)
            return "a segment of an invalid size";
        if (p.p_vaddr < end) return "segments that overlap or are out of order";
        if (p.p_vaddr % 4096 != p.p_offset % 4096) return "a segment that cannot be mapped";
        end = p.p_vaddr + p.p_memsz;
        f->load[f->n_loads++] = p;
    }
    if (n_dynamic != 1) return "no dynamic segment, or more than one";
    return read_dynamic(f, &dynamic) ? NULL : "an invalid dynamic segment";
}

const char *ts_elf_read(ts_elf *f, const void *object, size_t n)
{
    Elf64_Ehdr h;
    uint64_t   size;
    memset(f, 0, sizeof *f);
    f->bytes = object;
    f->n = n;
    if (n < sizeof h) return "no ELF header";
    memcpy(&h, object, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 ||
        h.e_ident[EI_DATA] != ELFDATA2LSB)
        return "no 64-bit ELF header";
    if (h.e_type != ET_DYN || h.e_machine != TS_ELF_MACHINE)
        return "the wrong type or machine, expected a shared object for this machine";
    if (h.e_phentsize != sizeof(Elf64_Phdr) || h.e_phnum > TS_ELF_SEGMENTS || h.e_phoff > n ||
        (uint64_t)h.e_phnum * sizeof(Elf64_Phdr) > n - h.e_phoff)
        return "an invalid segment table";
    const char *bad = read_segments(f, &h);
    if (bad) return bad;
    if (!ts_elf_tag(f, DT_SYMTAB, &f->symtab) || !ts_elf_tag(f, DT_STRTAB, &f->strtab) ||
        !ts_elf_tag(f, DT_STRSZ, &f->n_strings) || f->symtab >= max_span || f->strtab >= max_span ||
        f->n_strings >= max_span)
        return "no symbol table";
    if (ts_elf_tag(f, DT_SYMENT, &size) && size != sizeof(Elf64_Sym)) return "invalid symbols";
    return count_symbols(f) ? NULL : "an invalid symbol table";
}

const Elf64_Phdr *ts_elf_within(const ts_elf *f, uint64_t address, uint64_t n, uint32_t flags)
{
    for (int i = 0; i < f->n_loads; i++) {
        const Elf64_Phdr *s = &f->load[i];
        if ((s->p_flags & flags) == flags && address >= s->p_vaddr &&
            address - s->p_vaddr <= s->p_memsz && n <= s->p_memsz - (address - s->p_vaddr))
            return s;
    }
    return NULL;
}

bool ts_elf_function(const ts_elf *f, const char *wanted, uint64_t *address)
{
    for (uint32_t i = 1; i < f->n_symbols; i++) {
        Elf64_Sym s;
        char      name[128];
        if (!ts_elf_symbol(f, i, &s, name, sizeof name)) return false;
        if (!strcmp(name, wanted) && s.st_shndx != SHN_UNDEF &&
            ELF64_ST_TYPE(s.st_info) == STT_FUNC && ELF64_ST_BIND(s.st_info) != STB_LOCAL &&
            ts_elf_within(f, s.st_value, 1, PF_X)) {
            *address = s.st_value;
            return true;
        }
    }
    return false;
}

/* ---- what a sealed entrant may be ---- */

typedef struct text {
    char  *at;
    size_t n;
} text;

/* Symbol names are untrusted: the result is always one printable line. */
__attribute__((format(printf, 2, 3))) static bool refuse(text *why, const char *format, ...)
{
    va_list a;
    va_start(a, format);
    vsnprintf(why->at, why->n, format, a);
    va_end(a);
    for (char *p = why->at; *p; p++)
        if (*p < ' ' || *p > '~') *p = '?';
    return false;
}

static bool tags_ok(const ts_elf *f, text *why)
{
    static const int64_t fine[] = { DT_HASH,    DT_GNU_HASH,    DT_STRTAB,   DT_SYMTAB,
                                    DT_STRSZ,   DT_SYMENT,      DT_RELA,     DT_RELASZ,
                                    DT_RELAENT, DT_RELACOUNT,   DT_PLTGOT,   DT_PLTRELSZ,
                                    DT_PLTREL,  DT_JMPREL,      DT_BIND_NOW, DT_SYMBOLIC,
                                    DT_SONAME,  TS_ELF_TAGS_TOO };
    for (int i = 0; i < f->n_tags; i++) {
        const Elf64_Dyn d = f->tag[i];
        size_t          j = 0;
        char            name[64] = "";
        while (j < sizeof fine / sizeof *fine && fine[j] != d.d_tag) j++;
        if (j < sizeof fine / sizeof *fine) continue;
        switch (d.d_tag) {
        case DT_FLAGS:
            if (!(d.d_un.d_val & ~(uint64_t)(DF_BIND_NOW | DF_SYMBOLIC))) continue;
            return refuse(why, "relocations in code (DF_TEXTREL), or unsupported flags");
        case DT_FLAGS_1:
            if (!(d.d_un.d_val & ~(uint64_t)DF_1_NOW)) continue;
            return refuse(why, "unknown flags (DT_FLAGS_1)");
        case DT_NEEDED:
            name_at(f, d.d_un.d_val, name, sizeof name);
            return refuse(why, "needs library '%s'; a sealed entrant may link none", name);
        case DT_INIT:
        case DT_FINI:
        case DT_INIT_ARRAY:
        case DT_FINI_ARRAY:
        case DT_PREINIT_ARRAY:
            return refuse(why, "code that runs at load or exit (constructor: tag %lld)",
                          (long long)d.d_tag);
        case DT_TEXTREL:
            return refuse(why, "relocations in code (DT_TEXTREL)");
        default:
            return refuse(why, "a dynamic tag not allowed in a sealed entrant: 0x%llx",
                          (unsigned long long)d.d_tag);
        }
    }
    return true;
}

static bool symbols_ok(const ts_elf *f, text *why)
{
    for (uint32_t i = 1; i < f->n_symbols; i++) {
        Elf64_Sym s;
        char      name[128];
        if (!ts_elf_symbol(f, i, &s, name, sizeof name))
            return refuse(why, "symbol %u cannot be read", i);
        const int type = ELF64_ST_TYPE(s.st_info);
        if (type == STT_GNU_IFUNC || type == STT_TLS)
            return refuse(why, "'%s' is %s", name,
                          type == STT_TLS ? "thread-local" : "an indirect function");
        if (s.st_shndx == SHN_UNDEF && !ts_allowed(name))
            return refuse(why, "calls '%s', which a sealed entrant must not call", name);
        if (s.st_shndx != SHN_UNDEF && !ts_elf_within(f, s.st_value, 0, PF_R))
            return refuse(why, "'%s' is outside the object", name);
    }
    return true;
}

static bool relocations_ok(const ts_elf *f, int64_t tag, int64_t size_tag, text *why)
{
    static const uint32_t plain[] = { TS_ELF_ABS64, TS_ELF_GLOB_DAT, TS_ELF_JUMP_SLOT,
                                      TS_ELF_RELATIVE };
    uint64_t              size = 0, kind = DT_RELA;
    ts_elf_tag(f, size_tag, &size);
    ts_elf_tag(f, DT_PLTREL, &kind);
    if (size % sizeof(Elf64_Rela) || kind != DT_RELA)
        return refuse(why, "an invalid relocation table");
    for (uint64_t i = 0; i < size / sizeof(Elf64_Rela); i++) {
        Elf64_Rela r;
        size_t     j = 0;
        if (!ts_elf_relocation(f, tag, i, &r)) return refuse(why, "an invalid relocation table");
        while (j < sizeof plain / sizeof *plain && plain[j] != ELF64_R_TYPE(r.r_info)) j++;
        if (j == sizeof plain / sizeof *plain)
            return refuse(why, "a relocation of type %u, such as for indirect functions",
                          (unsigned)ELF64_R_TYPE(r.r_info));
        if (!ts_elf_within(f, r.r_offset, 8, PF_W))
            return refuse(why, "a relocation outside writable data");
        /* Symbol 0 is reserved and was not checked. */
        if (ELF64_R_TYPE(r.r_info) != TS_ELF_RELATIVE &&
            (ELF64_R_SYM(r.r_info) == 0 || ELF64_R_SYM(r.r_info) >= f->n_symbols))
            return refuse(why, "a relocation against an undefined symbol");
    }
    return true;
}

static bool segments_ok(const ts_elf *f, text *why)
{
    if (f->tls) return refuse(why, "thread-local data");
    if (f->interp) return refuse(why, "an interpreter (PT_INTERP)");
    if (f->odd_header) return refuse(why, "a program header of type 0x%x", f->odd_header);
    if (f->exec_stack) return refuse(why, "an executable stack");
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t       end = 0;
    for (int i = 0; i < f->n_loads; i++) {
        const Elf64_Phdr *s = &f->load[i];
        if ((s->p_flags & (PF_W | PF_X)) == (PF_W | PF_X))
            return refuse(why, "a segment that is writable and executable");
        if (s->p_vaddr / page * page < end) return refuse(why, "segments that share a page");
        end = s->p_vaddr + s->p_memsz;
    }
    return true;
}

bool ts_elf_sealed(const ts_elf *f, char *why, size_t n)
{
    text w = { why, n };
    return segments_ok(f, &w) && tags_ok(f, &w) && symbols_ok(f, &w) &&
           relocations_ok(f, DT_RELA, DT_RELASZ, &w) &&
           relocations_ok(f, DT_JMPREL, DT_PLTRELSZ, &w);
}
