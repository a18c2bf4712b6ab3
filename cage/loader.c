/* SPDX-License-Identifier: Apache-2.0 */
/* loader.c - places a shared object by hand. Strict: what it does not know, it refuses; every
 * number of the file is checked before it is used. Nothing of the object runs here. */
#define _GNU_SOURCE
#include <math.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "allow.h"
#include "cage.h"
#include "isa_elf.h"

typedef void (*any)(void);

enum { PAGE = 4096, MAX_SEGMENTS = 16 };

#define ROW(result, name, parameters) { #name, (any)name },
/* All that a sealed entrant may call. */
static const struct {
    const char *name;
    any         fn;
} allowed[] = { TS_ALLOWED(ROW) };

static struct {
    const unsigned char *file;
    size_t               file_bytes;
    unsigned char       *base; /* where address 0 of the object lies */
    size_t               span;
    Elf64_Phdr           segment[MAX_SEGMENTS];
    int                  n_segments;
    uint64_t             tag[64]; /* DT_* below 64, 0: absent */
    uint64_t             gnu_hash;
    const Elf64_Sym     *sym;
    size_t               n_sym;
    const char          *str;
    size_t               str_bytes;
} o;

_Noreturn static void refuse(const char *what)
{
    cage_stop(TS_STOP_SYMBOL, "%s", what);
}

/* n bytes of the placed object, or a refusal. */
static void *at(uint64_t address, uint64_t n, const char *what)
{
    if (address > o.span || n > o.span - address) refuse(what);
    return o.base + address;
}

static const Elf64_Phdr *segment_of(uint64_t address, uint64_t n)
{
    for (int i = 0; i < o.n_segments; i++) {
        const Elf64_Phdr *s = &o.segment[i];
        if (address >= s->p_vaddr && address - s->p_vaddr <= s->p_memsz &&
            n <= s->p_memsz - (address - s->p_vaddr))
            return s;
    }
    return NULL;
}

static uint64_t page_up(uint64_t n)
{
    return (n + PAGE - 1) / PAGE * PAGE;
}

static void add_segment(const Elf64_Phdr *p, size_t max_bytes)
{
    if (o.n_segments == MAX_SEGMENTS) refuse("too many segments");
    if (p->p_filesz > p->p_memsz || p->p_offset > o.file_bytes ||
        p->p_filesz > o.file_bytes - p->p_offset)
        refuse("a segment outside of the file");
    if (p->p_vaddr > max_bytes || p->p_memsz > max_bytes - p->p_vaddr)
        cage_stop(TS_STOP_SIZE, "the object wants more than %zu bytes", max_bytes);
    if ((p->p_flags & PF_W) && (p->p_flags & PF_X)) refuse("a segment to write and to execute");
    if (p->p_vaddr / PAGE * PAGE < o.span) refuse("segments that overlap");
    o.span = page_up(p->p_vaddr + p->p_memsz);
    o.segment[o.n_segments++] = *p;
}

/* The dynamic section's place, after the segments have been noted. */
static Elf64_Phdr read_headers(size_t max_bytes)
{
    Elf64_Ehdr h;
    Elf64_Phdr p, dynamic = { 0 };
    bool       stack = false;
    if (o.file_bytes < sizeof h) refuse("not an ELF object");
    memcpy(&h, o.file, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 ||
        h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_type != ET_DYN || h.e_machine != TS_ELF_MACHINE ||
        h.e_phentsize != sizeof p)
        refuse("not a shared object for " TS_ISA_NAME);
    if (h.e_phoff > o.file_bytes || h.e_phnum > (o.file_bytes - h.e_phoff) / sizeof p)
        refuse("program headers outside of the file");
    for (int i = 0; i < h.e_phnum; i++) {
        memcpy(&p, o.file + h.e_phoff + (size_t)i * sizeof p, sizeof p);
        switch (p.p_type) {
        case PT_LOAD:
            add_segment(&p, max_bytes);
            break;
        case PT_DYNAMIC:
            dynamic = p;
            break;
        case PT_GNU_STACK:
            stack = true;
            if (p.p_flags & PF_X) refuse("an executable stack");
            break;
        case PT_TLS:
            refuse("thread-local storage");
        case PT_NULL:
        case PT_NOTE:
        case PT_GNU_EH_FRAME:
        case PT_GNU_PROPERTY:
        case PT_GNU_RELRO:
            break;
        default:
            cage_stop(TS_STOP_SYMBOL, "a program header of type 0x%x", p.p_type);
        }
    }
    if (!stack) refuse("an executable stack");
    if (!o.n_segments || !dynamic.p_memsz) refuse("no dynamic section");
    return dynamic;
}

static void place(void)
{
    /* A dead page on either side. */
    unsigned char *m = mmap(NULL, o.span + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED) cage_stop(TS_STOP_SIZE, "no room for %zu bytes of object", o.span);
    o.base = m + PAGE;
    if (mprotect(o.base, o.span, PROT_READ | PROT_WRITE)) cage_stop(TS_STOP_SETUP, "mprotect");
    for (int i = 0; i < o.n_segments; i++)
        memcpy(o.base + o.segment[i].p_vaddr, o.file + o.segment[i].p_offset,
               o.segment[i].p_filesz);
}

static void read_tag(const Elf64_Dyn *d)
{
    switch (d->d_tag) {
    case DT_HASH:
    case DT_STRTAB:
    case DT_SYMTAB:
    case DT_RELA:
    case DT_RELASZ:
    case DT_RELAENT:
    case DT_STRSZ:
    case DT_SYMENT:
    case DT_SONAME:
    case DT_SYMBOLIC:
    case DT_PLTGOT:
    case DT_PLTRELSZ:
    case DT_PLTREL:
    case DT_JMPREL:
    case DT_BIND_NOW:
        o.tag[d->d_tag] = d->d_un.d_val;
        return;
    case DT_GNU_HASH:
        o.gnu_hash = d->d_un.d_val;
        return;
    case DT_FLAGS:
        if (d->d_un.d_val & ~(uint64_t)(DF_BIND_NOW | DF_SYMBOLIC)) refuse("text relocations");
        return;
    case DT_FLAGS_1:
        if (d->d_un.d_val & ~(uint64_t)DF_1_NOW) refuse("flags that are not known");
        return;
    case DT_RELACOUNT:
        return;
    case DT_INIT:
    case DT_FINI:
    case DT_INIT_ARRAY:
    case DT_FINI_ARRAY:
    case DT_PREINIT_ARRAY:
    case DT_INIT_ARRAYSZ:
    case DT_FINI_ARRAYSZ:
    case DT_PREINIT_ARRAYSZ:
        refuse("code that runs when loaded (a constructor or destructor)");
    case DT_NEEDED:
        refuse("a library that it needs");
    default:
        cage_stop(TS_STOP_SYMBOL, "a dynamic tag 0x%llx", (unsigned long long)d->d_tag);
    }
}

/* How many symbols there are is written only in the hash tables. */
static size_t count_symbols(void)
{
    uint32_t h[4];
    if (o.tag[DT_HASH]) {
        memcpy(h, at(o.tag[DT_HASH], 8, "a hash table"), 8);
        return h[1];
    }
    if (!o.gnu_hash) refuse("no symbols");
    memcpy(h, at(o.gnu_hash, 16, "a hash table"), 16);
    const uint64_t buckets = o.gnu_hash + 16 + (uint64_t)h[2] * 8;
    const uint64_t chains = buckets + (uint64_t)h[0] * 4;
    uint32_t       last = 0, link = 0;
    for (uint32_t i = 0; i < h[0]; i++) {
        uint32_t first;
        memcpy(&first, at(buckets + (uint64_t)i * 4, 4, "a hash table"), 4);
        if (first > last) last = first;
    }
    if (last < h[1]) return h[1];
    for (; !(link & 1); last++)
        memcpy(&link, at(chains + ((uint64_t)last - h[1]) * 4, 4, "a hash table"), 4);
    return last;
}

static void read_dynamic(const Elf64_Phdr *dynamic)
{
    const size_t     n = dynamic->p_memsz / sizeof(Elf64_Dyn);
    const Elf64_Dyn *d = at(dynamic->p_vaddr, dynamic->p_memsz, "a dynamic section");
    if (dynamic->p_vaddr % 8) refuse("a dynamic section");
    for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++) read_tag(&d[i]);
    if (!o.tag[DT_STRTAB] || !o.tag[DT_SYMTAB] || o.tag[DT_SYMENT] != sizeof(Elf64_Sym) ||
        o.tag[DT_SYMTAB] % 8)
        refuse("no symbols");
    o.n_sym = count_symbols();
    o.sym = at(o.tag[DT_SYMTAB], o.n_sym * sizeof(Elf64_Sym), "a symbol table");
    o.str_bytes = o.tag[DT_STRSZ];
    o.str = at(o.tag[DT_STRTAB], o.str_bytes, "a string table");
    if (!o.str_bytes || o.str[o.str_bytes - 1]) refuse("a string table");
}

static const char *name_of(const Elf64_Sym *s)
{
    if (s->st_name >= o.str_bytes) refuse("a symbol without a name");
    return o.str + s->st_name;
}

static uint64_t resolve(uint64_t index)
{
    if (index >= o.n_sym) refuse("a symbol out of range");
    const Elf64_Sym *s = &o.sym[index];
    const int        type = ELF64_ST_TYPE(s->st_info);
    if (type == STT_GNU_IFUNC) refuse("a function chosen when loaded (IFUNC)");
    if (type == STT_TLS) refuse("thread-local storage");
    if (s->st_shndx != SHN_UNDEF) return (uint64_t)at(s->st_value, 0, "a symbol out of range");
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (!strcmp(name_of(s), allowed[i].name)) return (uint64_t)allowed[i].fn;
    cage_stop(TS_STOP_SYMBOL, "%.80s is not among what a sealed entrant may call", name_of(s));
}

static void relocate(uint64_t table, uint64_t n_bytes)
{
    if (table % 8 || n_bytes % sizeof(Elf64_Rela)) refuse("a relocation table");
    const Elf64_Rela *r = at(table, n_bytes, "a relocation table");
    for (size_t i = 0; i < n_bytes / sizeof *r; i++) {
        const Elf64_Rela  e = r[i];
        const Elf64_Phdr *s = segment_of(e.r_offset, 8);
        const uint64_t    symbol = ELF64_R_SYM(e.r_info), type = ELF64_R_TYPE(e.r_info);
        uint64_t          value;
        if (!s || !(s->p_flags & PF_W)) refuse("a relocation outside of its data");
        if (type == TS_ELF_RELATIVE) value = (uint64_t)o.base;
        else if (type == TS_ELF_GLOB_DAT || type == TS_ELF_JUMP_SLOT || type == TS_ELF_ABS64)
            value = resolve(symbol);
        else cage_stop(TS_STOP_SYMBOL, "a relocation of type %u", (unsigned)type);
        value += (uint64_t)e.r_addend;
        memcpy(o.base + e.r_offset, &value, sizeof value);
    }
}

void cage_protect(void)
{
    if (mprotect(o.base, o.span, PROT_NONE)) cage_stop(TS_STOP_SETUP, "mprotect");
    for (int i = 0; i < o.n_segments; i++) {
        const Elf64_Phdr *s = &o.segment[i];
        const uint64_t    begin = s->p_vaddr / PAGE * PAGE;
        const int how = (s->p_flags & PF_R ? PROT_READ : 0) | (s->p_flags & PF_W ? PROT_WRITE : 0) |
                        (s->p_flags & PF_X ? PROT_EXEC : 0);
        if (mprotect(o.base + begin, page_up(s->p_vaddr + s->p_memsz) - begin, how))
            cage_stop(TS_STOP_SETUP, "mprotect");
    }
}

void cage_load(int fd, size_t max_bytes)
{
    struct stat st;
    if (fstat(fd, &st) || st.st_size <= 0) refuse("an empty object");
    o.file_bytes = (size_t)st.st_size;
    o.file = mmap(NULL, o.file_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (o.file == MAP_FAILED) cage_stop(TS_STOP_SETUP, "the object cannot be mapped");
    const Elf64_Phdr dynamic = read_headers(max_bytes);
    place();
    read_dynamic(&dynamic);
    if (o.tag[DT_RELA]) relocate(o.tag[DT_RELA], o.tag[DT_RELASZ]);
    if (o.tag[DT_JMPREL]) {
        if (o.tag[DT_PLTREL] != DT_RELA) refuse("a relocation table");
        relocate(o.tag[DT_JMPREL], o.tag[DT_PLTRELSZ]);
    }
    munmap((void *)o.file, o.file_bytes);
    o.file = NULL;
}

void *cage_symbol(const char *name)
{
    for (size_t i = 1; i < o.n_sym; i++) {
        const Elf64_Sym  *s = &o.sym[i];
        const Elf64_Phdr *in = segment_of(s->st_value, 1);
        if (s->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(s->st_info) != STT_FUNC) continue;
        if (in && (in->p_flags & PF_X) && !strcmp(name_of(s), name)) return o.base + s->st_value;
    }
    return NULL;
}
