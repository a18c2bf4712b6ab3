/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_object.c - fuzzes the audit of shared objects and the loader of the sealed class.
 *
 * The loader, of judge/cage/, runs in this process; mmap, mprotect, munmap and cage_stop are this
 * file's. Its view of the file is a heap block of exactly the file's size. What it maps for the
 * object is poisoned except while it is readable and writable, so that the sanitizer sees any
 * access outside.
 *
 * Properties:
 * - a refusal gives one plain line, and nothing stays mapped, also where the system refuses a map;
 * - what the audit accepts the loader loads, unless it is too large; what the audit rejects as a
 *   sealed object the loader rejects;
 * - each page has the rights of its segment, none is writable and executable;
 * - memory is what the file has, then zeros; it differs only in relocated words of writable data;
 * - the function that the audit saw is the one that is called, and its page is executable. */
#define _GNU_SOURCE
#include <sanitizer/asan_interface.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "audit.h"
#include "fuzz.h"
#include "fuzz_elf.h"
#include "object.h"
#include "process.h"

static const size_t      most_bytes = 1 << 20;
static const char *const wanted = "ts_softmax_topk";

/* ---- the system, as the loader sees it ---- */

static struct {
    size_t         page, n;      /* bytes of the block */
    unsigned char *block, *file; /* NULL: not mapped */
    unsigned char  rights[(1 << 20) / 4096 + 64];
    int            n_calls, fails; /* which call fails; 0: none */
    jmp_buf        stopped;
    int            reason;
    char           text[184]; /* as long as the control page's */
} sys;

static bool failing(void)
{
    return ++sys.n_calls == sys.fails;
}

void *fuzz_mmap(void *at, size_t n, int rights, int flags, int fd, off_t offset)
{
    must(!at && !offset && !(flags & (MAP_FIXED | MAP_SHARED)) && n > 0);
    if (failing()) return MAP_FAILED;
    if (fd >= 0) {
        must(!sys.file && rights == PROT_READ);
        sys.file = malloc(n);
        must(sys.file && pread(fd, sys.file, n, 0) == (ssize_t)n);
        return sys.file;
    }
    must(!sys.block && rights == PROT_NONE && n % sys.page == 0);
    must(n / sys.page <= sizeof sys.rights);
    sys.block = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(sys.block != MAP_FAILED);
    sys.n = n;
    memset(sys.rights, PROT_NONE, sizeof sys.rights);
    ASAN_POISON_MEMORY_REGION(sys.block, n);
    return sys.block;
}

int fuzz_mprotect(void *at, size_t n, int rights)
{
    const size_t from = (size_t)((unsigned char *)at - sys.block);
    must(sys.block && (unsigned char *)at >= sys.block && from <= sys.n && n <= sys.n - from);
    must(from % sys.page == 0 && n % sys.page == 0);
    must((rights & (PROT_WRITE | PROT_EXEC)) != (PROT_WRITE | PROT_EXEC));
    if (failing()) return -1;
    memset(sys.rights + from / sys.page, rights, n / sys.page);
    if (rights == (PROT_READ | PROT_WRITE)) ASAN_UNPOISON_MEMORY_REGION(at, n);
    else ASAN_POISON_MEMORY_REGION(at, n);
    return 0;
}

int fuzz_munmap(void *at, size_t n)
{
    if (at == sys.file) {
        free(sys.file);
        sys.file = NULL;
        return 0;
    }
    must(at == sys.block && n == sys.n);
    ASAN_UNPOISON_MEMORY_REGION(sys.block, n);
    sys.block = NULL;
    return munmap(at, n);
}

void cage_stop(int reason, const char *format, ...)
{
    va_list a;
    va_start(a, format);
    vsnprintf(sys.text, sizeof sys.text, format, a);
    va_end(a);
    sys.reason = reason;
    longjmp(sys.stopped, 1);
}

/* In the loader's table; nothing of an object is called here. */
void j_parallel_for(int64_t n, void (*fn)(int64_t i, void *ctx), void *ctx)
{
    (void)n, (void)fn, (void)ctx;
    abort();
}

/* ---- what should have come of it ---- */

static int rights_of(const Elf64_Phdr *p)
{
    return (p->p_flags & PF_R ? PROT_READ : 0) | (p->p_flags & PF_W ? PROT_WRITE : 0) |
           (p->p_flags & PF_X ? PROT_EXEC : 0);
}

/* Takes over what relocations wrote, which must be in writable data. */
static void take_relocated(const ts_elf *e, int64_t tag, int64_t size_tag,
                           const unsigned char *writable, unsigned char *image, size_t span)
{
    uint64_t   size = 0;
    Elf64_Rela r;
    ts_elf_tag(e, size_tag, &size);
    for (uint64_t i = 0; i < size / sizeof r; i++) {
        must(ts_elf_relocation(e, tag, i, &r));
        must(r.r_offset <= span && 8 <= span - r.r_offset);
        for (int j = 0; j < 8; j++) must(writable[r.r_offset + j]);
        memcpy(image + r.r_offset, sys.block + sys.page + r.r_offset, 8);
    }
}

static void must_be_the_object(const uint8_t *object, size_t n)
{
    const size_t   span = sys.n - 2 * sys.page;
    unsigned char *image = calloc(2, span), *writable = image + span;
    unsigned char  rights[sizeof sys.rights] = { 0 };
    Elf64_Ehdr     h;
    Elf64_Phdr     p;
    ts_elf         e;
    must(image && !ts_elf_read(&e, object, n));
    memcpy(&h, object, sizeof h);
    for (unsigned i = 0; i < h.e_phnum; i++) {
        memcpy(&p, object + h.e_phoff + i * sizeof p, sizeof p);
        if (p.p_type != PT_LOAD) continue;
        must(p.p_vaddr <= span && p.p_memsz <= span - p.p_vaddr && p.p_filesz <= p.p_memsz);
        memcpy(image + p.p_vaddr, object + p.p_offset, p.p_filesz);
        if (p.p_flags & PF_W) memset(writable + p.p_vaddr, 1, p.p_memsz);
        const uint64_t first = p.p_vaddr / sys.page;
        for (uint64_t j = first; j * sys.page < p.p_vaddr + p.p_memsz; j++) {
            must(!rights[1 + j]); /* no other segment is in this page */
            rights[1 + j] = (unsigned char)rights_of(&p);
        }
    }
    must(!memcmp(rights, sys.rights, sys.n / sys.page));
    ASAN_UNPOISON_MEMORY_REGION(sys.block, sys.n);
    take_relocated(&e, DT_RELA, DT_RELASZ, writable, image, span);
    take_relocated(&e, DT_JMPREL, DT_PLTRELSZ, writable, image, span);
    must(!memcmp(image, sys.block + sys.page, span));
    free(image);
}

/* ---- one object ---- */

static unsigned n_tried, n_loaded;

static void count(void)
{
    printf("fuzz_object: %u of %u objects loaded\n", n_loaded, n_tried);
}

/* True: it was loaded, and is as it should be. Call `fails` of mmap and mprotect does. */
static bool load(const uint8_t *object, size_t n)
{
    static int fd = -1;
    if (fd < 0) fd = memfd_create("object", MFD_CLOEXEC);
    must(!ftruncate(fd, (off_t)n) && pwrite(fd, object, n, 0) == (ssize_t)n);
    sys.n_calls = 0;
    if (setjmp(sys.stopped)) {
        must_be_plain(sys.text);
        must(!sys.file && !sys.block);
        return false;
    }
    cage_load(fd, most_bytes);
    unsigned char *f = cage_symbol(wanted);
    must((f != NULL) == ts_audit_exports(object, n, wanted));
    cage_protect();
    must(!sys.file && sys.block);
    if (f) must(sys.rights[(size_t)(f - sys.block) / sys.page] & PROT_EXEC);
    must_be_the_object(object, n);
    fuzz_munmap(sys.block, sys.n);
    return true;
}

static bool try(const uint8_t *object, size_t n)
{
    ts_refusal why = { 0 };
    const bool sealed = ts_audit(object, n, TS_SEALED, "softmax_topk", &why);
    if (!sealed) must_be_plain(why.text);
    const bool loaded = n > 0 && load(object, n);
    if (sealed) must(loaded || sys.reason == TS_STOP_SIZE || sys.fails);
    else if (!strcmp(why.reason, "symbol")) must(!loaded);
    why = (ts_refusal) { 0 };
    if (!ts_audit(object, n, TS_HOST, "kv_cache", &why)) must_be_plain(why.text);
    n_tried++;
    n_loaded += loaded;
    return loaded;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!sys.page) {
        static uint8_t made[FUZZ_ELF_BYTES];
        sys.page = (size_t)sysconf(_SC_PAGESIZE);
        fuzz_elf_make(made);
        must(try(made, sizeof made)); /* else nothing below is tried */
        atexit(count);
    }
    uint8_t *copy = exact(data, n);
    try(copy, n);
    if (n_tried % 16 == 0) { /* and once more, on a system that fails */
        sys.fails = 1 + (int)(n_tried / 16 % 6);
        try(copy, n);
        sys.fails = 0;
    }
    free(copy);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t room, unsigned seed)
{
    uint64_t chance = (uint64_t)seed * 0x9e3779b97f4a7c15u + 1;
    /* Often from the start: around the simplest object most is accepted. */
    if ((n < sizeof(Elf64_Ehdr) || seed % 8 == 7) && room >= FUZZ_ELF_BYTES) {
        fuzz_elf_make(data);
        n = FUZZ_ELF_BYTES;
    }
    if (seed % 16 == 0) return LLVMFuzzerMutate(data, n, room);
    if (seed % 64 == 1) return n - seed / 64 % (n / 4 + 1);
    fuzz_elf_change(data, n, &chance);
    return n;
}
