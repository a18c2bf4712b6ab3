/* SPDX-License-Identifier: Apache-2.0 */
/* loader.c - maps and relocates a sealed entrant's object without the system's loader.
 * judge/protocol/object.c checks the object again here; none of its code runs during loading. */
#define _GNU_SOURCE
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allow.h"
#include "object.h"
#include "process.h"

typedef void (*any)(void);

#define ROW(result, name, parameters) { #name, (any)name },
/* Every external function that a sealed entrant may call. */
static const struct {
    const char *name;
    any         fn;
} allowed[] = { TS_ALLOWED(ROW) };

static struct {
    ts_elf         elf;
    unsigned char *base; /* where address 0 of the object is mapped */
    size_t         span, page;
} o;

static void release_file(void)
{
    munmap((void *)(uintptr_t)o.elf.bytes, o.elf.n);
    o.elf = (ts_elf) { 0 };
}

/* A rejected object is unmapped completely. */
__attribute__((format(printf, 2, 3))) _Noreturn static void refuse(int reason, const char *format,
                                                                   ...)
{
    char    text[sizeof((ts_control *)0)->error.text];
    va_list a;
    va_start(a, format);
    vsnprintf(text, sizeof text, format, a);
    va_end(a);
    if (o.base) munmap(o.base - o.page, o.span + 2 * o.page);
    if (o.elf.bytes) release_file();
    cage_stop(reason, "%s", text);
}

static uint64_t page_down(uint64_t n)
{
    return n / o.page * o.page;
}

static uint64_t page_up(uint64_t n)
{
    return page_down(n + o.page - 1);
}

/* How far the segments reach. */
static void measure(size_t max_bytes)
{
    for (int i = 0; i < o.elf.n_loads; i++) {
        const Elf64_Phdr *s = &o.elf.load[i];
        if (s->p_vaddr > max_bytes || s->p_memsz > max_bytes - s->p_vaddr)
            refuse(TS_STOP_SIZE, "the object needs more than %zu bytes", max_bytes);
        o.span = page_up(s->p_vaddr + s->p_memsz);
    }
}

static void place(void)
{
    /* A guard page on either side. */
    unsigned char *m =
        mmap(NULL, o.span + 2 * o.page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED) refuse(TS_STOP_SIZE, "no address space for %zu bytes of object", o.span);
    o.base = m + o.page;
    if (mprotect(o.base, o.span, PROT_READ | PROT_WRITE)) refuse(TS_STOP_SETUP, "mprotect");
    for (int i = 0; i < o.elf.n_loads; i++) {
        const Elf64_Phdr *s = &o.elf.load[i];
        memcpy(o.base + s->p_vaddr, o.elf.bytes + s->p_offset, s->p_filesz);
    }
}

static uint64_t resolve(uint64_t index)
{
    Elf64_Sym s;
    char      name[128];
    if (!ts_elf_symbol(&o.elf, (uint32_t)index, &s, name, sizeof name))
        refuse(TS_STOP_SYMBOL, "a symbol out of range");
    if (s.st_shndx != SHN_UNDEF) return (uint64_t)o.base + s.st_value;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (!strcmp(name, allowed[i].name)) return (uint64_t)allowed[i].fn;
    refuse(TS_STOP_SYMBOL, "%.80s: a sealed entrant must not call this function", name);
}

static void relocate(int64_t tag, int64_t size_tag)
{
    uint64_t n_bytes = 0;
    ts_elf_tag(&o.elf, size_tag, &n_bytes);
    for (uint64_t i = 0; i < n_bytes / sizeof(Elf64_Rela); i++) {
        Elf64_Rela r;
        if (!ts_elf_relocation(&o.elf, tag, i, &r)) refuse(TS_STOP_SYMBOL, "a relocation table");
        const bool relative = ELF64_R_TYPE(r.r_info) == TS_ELF_RELATIVE;
        uint64_t   value = relative ? (uint64_t)o.base : resolve(ELF64_R_SYM(r.r_info));
        value += (uint64_t)r.r_addend;
        /* Inside writable data: checked before. */
        memcpy(o.base + r.r_offset, &value, sizeof value);
    }
}

/* The code was written as data: on some machines the instruction cache is stale. */
void cage_protect(void)
{
    __builtin___clear_cache((char *)o.base, (char *)o.base + o.span);
    if (mprotect(o.base, o.span, PROT_NONE)) refuse(TS_STOP_SETUP, "mprotect");
    for (int i = 0; i < o.elf.n_loads; i++) {
        const Elf64_Phdr *s = &o.elf.load[i];
        const uint64_t    begin = page_down(s->p_vaddr);
        const int how = (s->p_flags & PF_R ? PROT_READ : 0) | (s->p_flags & PF_W ? PROT_WRITE : 0) |
                        (s->p_flags & PF_X ? PROT_EXEC : 0);
        if (mprotect(o.base + begin, page_up(s->p_vaddr + s->p_memsz) - begin, how))
            refuse(TS_STOP_SETUP, "mprotect");
    }
    release_file();
}

void cage_load(int fd, size_t max_bytes)
{
    struct stat st;
    char        why[256];
    o.base = NULL;
    o.span = 0;
    if (fstat(fd, &st) || st.st_size <= 0) refuse(TS_STOP_SYMBOL, "an empty object");
    const void *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file == MAP_FAILED) refuse(TS_STOP_SETUP, "the object cannot be mapped");
    const char *bad = ts_elf_read(&o.elf, file, (size_t)st.st_size);
    if (bad) refuse(TS_STOP_SYMBOL, "the object has %s", bad);
    if (!ts_elf_sealed(&o.elf, why, sizeof why)) refuse(TS_STOP_SYMBOL, "%s", why);
    o.page = (size_t)sysconf(_SC_PAGESIZE);
    measure(max_bytes);
    place();
    relocate(DT_RELA, DT_RELASZ);
    relocate(DT_JMPREL, DT_PLTRELSZ);
}

void *cage_symbol(const char *wanted)
{
    uint64_t address;
    return ts_elf_function(&o.elf, wanted, &address) ? o.base + address : NULL;
}
