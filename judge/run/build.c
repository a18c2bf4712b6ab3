/* SPDX-License-Identifier: Apache-2.0 */
/* build.c - compiles an entrant in a confined process and seals the object in memory. */
#define _GNU_SOURCE
#include "build.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "allow.h"
#include "audit.h"
#include "clock.h"
#include "confine.h"
#include "isa_source.h"
#include "sha256.h"
#include "smuggled.h"
#include "temporary.h"

enum { MAX_ARGS = 128, PREPROCESSED_BYTES = 64 << 20 };

/* ---- the judge's own files ---- */

bool ts_cuda_tool(const char *variable, const char *name, char *place, size_t n)
{
    const char *asked = getenv(variable), *path = getenv("PATH");
    for (; !asked && path && *path; path += strcspn(path, ":"), path += *path == ':') {
        snprintf(place, n, "%.*s/%s", (int)strcspn(path, ":"), path, name);
        if (!access(place, X_OK)) return true;
    }
    snprintf(place, n, "%s%s", asked ? asked : "/usr/local/cuda/bin/", asked ? "" : name);
    return !access(place, X_OK);
}

bool ts_places_find(ts_places *p)
{
    static const char *const runner[] = { "runner.py", "../share/touchstone/runner.py" };
    char                     self[3072];
    const ssize_t            n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) return false;
    self[n] = 0;
    *strrchr(self, '/') = 0;
    snprintf(p->include, sizeof p->include, "%s/../include", self);
    for (int i = 0; i < 2; i++) {
        snprintf(p->runner, sizeof p->runner, "%s/%s", self, runner[i]);
        if (!access(p->runner, R_OK)) break;
    }
    snprintf(p->arch, sizeof p->arch, "sm_90");
    if (!ts_cuda_tool("TOUCHSTONE_NVCC", "nvcc", p->nvcc, sizeof p->nvcc)) p->nvcc[0] = 0;
    return !access(p->include, R_OK) && !access(p->runner, R_OK);
}

/* ---- the folder ---- */

static bool put(const char *folder, const char *name, const char *bytes, size_t n)
{
    char path[4300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *s = path + strlen(folder) + 1; (s = strchr(s, '/')); s++) {
        *s = 0;
        mkdir(path, 0755);
        *s = '/';
    }
    const int  fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    const bool ok = fd >= 0 && write(fd, bytes, n) == (ssize_t)n;
    return (fd < 0 || !close(fd)) && ok;
}

static char *slurp(const char *path, size_t limit, size_t *n)
{
    struct stat st;
    char       *bytes = NULL;
    const int   fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && (uint64_t)st.st_size <= limit)
        bytes = malloc((size_t)st.st_size + 1);
    if (bytes) {
        *n = (size_t)st.st_size;
        bytes[*n] = 0;
        if (read(fd, bytes, *n) != st.st_size) {
            free(bytes);
            bytes = NULL;
        }
    }
    if (fd >= 0) close(fd);
    return bytes;
}

static bool put_contract(const char *folder, const char *include)
{
    char from[4200];
    bool ok = true;
    snprintf(from, sizeof from, "%s/touchstone", include);
    DIR *d = opendir(from);
    for (struct dirent *e; d && ok && (e = readdir(d));) {
        char   name[300], path[4500];
        size_t n;
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", from, e->d_name);
        snprintf(name, sizeof name, "include/touchstone/%s", e->d_name);
        char *text = slurp(path, 1 << 20, &n);
        ok = text && put(folder, name, text, n);
        free(text);
    }
    if (d) closedir(d);
    return d && ok;
}

/* The standard headers of a sealed entrant: the functions of allow.h only. Functions that the
 * compiler's intrinsic headers need are declared too; the audit finds any use of them. */
static bool put_sealed_headers(const char *folder)
{
#define X(result, name, parameters) #result " " #name #parameters ";\n"
    static const char *const header[][2] = {
        { "sealed/math.h",
          "#pragma once\n"
          "#define INFINITY __builtin_inff()\n#define NAN __builtin_nanf(\"\")\n"
          "#define HUGE_VAL __builtin_huge_val()\n#define HUGE_VALF __builtin_huge_valf()\n"
          "#define isnan(x) __builtin_isnan(x)\n#define isinf(x) __builtin_isinf_sign(x)\n"
          "#define isfinite(x) __builtin_isfinite(x)\n#define signbit(x) __builtin_signbit(x)\n"
          "#define isnormal(x) __builtin_isnormal(x)\n"
          "#define M_PI 3.14159265358979323846\n#define M_LN2 0.69314718055994530942\n"
          "#define M_LOG2E 1.4426950408889634074\n#define M_E 2.7182818284590452354\n" //
          TS_ALLOWED_MATH(X) },
        { "sealed/string.h", "#pragma once\n#include <stddef.h>\n" TS_ALLOWED_STRING(X) },
        { "sealed/stdlib.h", "#pragma once\n#include <stddef.h>\nvoid *malloc(size_t);\n"
                             "void free(void *);\nint posix_memalign(void **, size_t, size_t);\n" },
        { "sealed/malloc.h", "#include <stdlib.h>\n" },
        { "sealed/errno.h", "" },
        { "sealed/assert.h",
          "#undef assert\n#define assert(e) ((void)0)\n"
          "#ifndef static_assert\n#define static_assert _Static_assert\n#endif\n" },
        { "sealed/limits.h",
          "#pragma once\n#define CHAR_BIT 8\n#define INT_MAX __INT_MAX__\n"
          "#define INT_MIN (-INT_MAX - 1)\n#define UINT_MAX (INT_MAX * 2U + 1U)\n"
          "#define LONG_MAX __LONG_MAX__\n#define LONG_MIN (-LONG_MAX - 1L)\n"
          "#define LLONG_MAX __LONG_LONG_MAX__\n#define LLONG_MIN (-LLONG_MAX - 1LL)\n"
          "#define SHRT_MAX __SHRT_MAX__\n#define SCHAR_MAX __SCHAR_MAX__\n" },
    };
#undef X
    bool ok = true;
    for (size_t i = 0; i < sizeof header / sizeof *header; i++)
        ok = ok && put(folder, header[i][0], header[i][1], strlen(header[i][1]));
    return ok;
}

static bool lay_out(const ts_entrant *e, const ts_places *p, ts_built *b, ts_refusal *why)
{
    char         src[80];
    const mode_t mask = umask(022); /* the compiler runs as another user and must read it all */
    if (!ts_temporary(b->folder)) {
        b->folder[0] = 0;
        umask(mask);
        return ts_refuse(why, TS_FAULT_OF_JUDGE, "no temporary folder: %s", strerror(errno));
    }
    snprintf(src, sizeof src, "%s/src", b->folder);
    bool ok = !mkdir(src, 0755);
    for (int i = 0; i < e->n_sources && e->language != TS_BINARY; i++)
        ok = ok && put(src, e->source[i].name, e->source[i].bytes, e->source[i].n);
    ok = ok && put_contract(b->folder, p->include) &&
         (e->cls != TS_SEALED || put_sealed_headers(b->folder));
    umask(mask);
    return ok || ts_refuse(why, TS_FAULT_OF_JUDGE, "cannot write the sources: %s", strerror(errno));
}

/* ---- the compiler ---- */

typedef struct line {
    int         n;
    const char *arg[MAX_ARGS];
    char       *room; /* copies that add_all split */
} line;

static void add(line *l, const char *arg)
{
    if (l->n < MAX_ARGS - 1) l->arg[l->n++] = arg;
}

/* Adds all words of a text, which it modifies. */
static void add_all(line *l, char *words)
{
    for (char *save, *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save)) add(l, w);
}

/* The compiler driver prints "Killed" for a subprocess that reached a limit, but not which limit.
 * Text of the entrant may be in that output, so that a word alone does not excuse it. */
static bool complain_of_limit(const ts_confined *c, const char *what, int limit_s, ts_refusal *why)
{
    const bool memory = strstr(c->said, "virtual memory exhausted") ||
                        strstr(c->said, "out of memory") || strstr(c->said, "bad_alloc") ||
                        strstr(c->said, "annot allocate memory");
    const bool size =
        strstr(c->said, "File size limit exceeded") || strstr(c->said, "File too large");
    const bool killed = (WIFSIGNALED(c->status) && WTERMSIG(c->status) == SIGKILL) ||
                        strstr(c->said, "Killed") || strstr(c->said, "died due to signal 9");
    if (c->starved)
        return ts_refuse(
                   why, TS_FAULT_OF_JUDGE,
                   "%s: not finished within %d s, with %.0f s of CPU time: the machine is too "
                   "busy",
                   what, limit_s, c->cpu_s),
               true;
    if (c->late)
        return ts_refuse(why, "build", "%s: not finished within %d s", what, limit_s), true;
    if (memory)
        return ts_refuse(why, "build", "%s: more than %d GiB of memory used", what,
                         TS_CONFINED_GIB),
               true;
    if (size)
        return ts_refuse(why, "build", "%s: a file of more than %d MiB written", what,
                         TS_CONFINED_MIB),
               true;
    if (!killed) return false;
    if (c->cpu_s >= limit_s - 1)
        ts_refuse(why, "build", "%s: killed after more than %d s of CPU time", what, limit_s);
    else if (!c->out_of_memory) return false;
    else
        ts_refuse(why, TS_FAULT_OF_JUDGE,
                  "%s: killed after %.0f s of CPU time with at most %.1f GiB, below the limits of "
                  "%d s and %d GiB: this machine ran out of memory",
                  what, c->cpu_s, c->gib, limit_s, TS_CONFINED_GIB);
    return true;
}

/* Reports the compiler's first error message. */
static bool complain(const ts_confined *c, const char *what, int limit_s, ts_refusal *why)
{
    const char *best = c->said;
    if (complain_of_limit(c, what, limit_s, why)) return false;
    for (const char *p = c->said; *p; p += *p == '\n') {
        const size_t n = strcspn(p, "\n");
        if (memmem(p, n, "rror:", 5) || memmem(p, n, "undefined", 9)) {
            best = p;
            break;
        }
        p += n;
    }
    const int n = (int)strcspn(best, "\n");
    if (n) return ts_refuse(why, "build", "%s: %.*s", what, n < 300 ? n : 300, best);
    return ts_refuse(why, "build", "%s: the compiler exited with status 0x%x", what,
                     (unsigned)c->status);
}

/* ---- what the machine did ---- */

/* Whether there is room for what a build may write: preprocessed text, assembly and object. */
static bool has_room(const char *folder)
{
    struct statvfs s;
    return !statvfs(folder, &s) && !(s.f_flag & ST_RDONLY) &&
           s.f_bavail * s.f_frsize >= (uint64_t)3 * TS_CONFINED_MIB << 20 &&
           (!s.f_files || s.f_favail >= 64);
}

/* Whether the compiler works on a source that is known to compile. */
static bool compiles_control(const ts_built *b)
{
    static const char        text[] = "int control;\n";
    static const char *const line[] = { "cc", "-c", "control.c", "-o", "control.o", NULL };
    ts_confined              c;
    return put(b->folder, "control.c", text, sizeof text - 1) &&
           ts_confine(b->folder, b->folder, line, TS_BUILD_LIMIT_S, &c) && !c.status;
}

/* What the compiler said that the machine did to it; NULL: nothing. Text of the entrant may be in
 * that output, so that a fact must confirm it. */
static const char *machine_did(const ts_built *b, const ts_confined *c)
{
    static const int error[] = {
        ENOSPC, EROFS, EDQUOT, EIO, EMFILE, ENFILE, EAGAIN, EINTR, ENOMEM
    };
    for (size_t i = 0; i < sizeof error / sizeof *error; i++)
        if (strstr(c->said, strerror(error[i])))
            return !has_room(b->folder) || !compiles_control(b) ? strerror(error[i]) : NULL;
    return NULL;
}

enum { ATTEMPTS = 3 }; /* at what a busy machine did not let finish */

static bool run_within(int limit_s, ts_built *b, line *l, const char *what, ts_confined *c,
                       ts_refusal *why)
{
    char         src[80];
    const double begin = ts_seconds();
    const int    left_s = limit_s - (int)b->spent_s; /* for the whole build, not for each call */
    snprintf(src, sizeof src, "%s/src", b->folder);
    l->arg[l->n] = NULL;
    if (left_s < 1) return ts_refuse(why, "build", "%s: not done in %d s", what, limit_s);
    bool started = true;
    c->starved = true;
    for (int i = 0; i < ATTEMPTS && c->starved && started; i++)
        started = ts_confine(b->folder, src, l->arg, left_s, c);
    if (!started)
        return ts_refuse(why, TS_FAULT_OF_JUDGE, "%s: the compiler could not be started: %s", what,
                         c->said);
    const char *did = c->status ? machine_did(b, c) : NULL;
    if (did) return ts_refuse(why, TS_FAULT_OF_JUDGE, "%s: %s", what, did);
    if (!c->starved) b->spent_s += c->late ? ts_seconds() - begin : c->cpu_s;
    b->guards &= c->guards;
    return (!c->late && WIFEXITED(c->status) && WEXITSTATUS(c->status) == 0) ||
           complain(c, what, limit_s, why);
}

static bool run(ts_built *b, line *l, const char *what, ts_confined *c, ts_refusal *why)
{
    return run_within(TS_BUILD_LIMIT_S, b, l, what, c, why);
}

#define COMMON "-O3 " TS_ISA_FLAGS " -fPIC -ffp-contract=off -fno-math-errno -frandom-seed=0"

/* Flags for one language; `own` is the folder of the compiler's intrinsic headers. */
void ts_build_flags(ts_class cls, bool cxx, const char *own, char *text, size_t n)
{
    if (cls == TS_SEALED)
        snprintf(text, n,
                 "-std=c11 -w " COMMON " -fvisibility=hidden -fno-stack-protector"
                 " -fno-asynchronous-unwind-tables -D__STDC_HOSTED__=0 -nostdinc -I../include"
                 " -isystem ../sealed -isystem %.500s",
                 own);
    else
        snprintf(text, n, "%s -w " COMMON " -fopenmp -I../include",
                 cxx ? "-std=gnu++17" : "-std=gnu11");
}

void ts_build_nvcc_flags(const char *arch, bool cubin, char *text, size_t n)
{
    snprintf(text, n, "-arch=%s -std=c++17 -O3 -w -I../include %s", arch,
             cubin ? "-cubin" : "-shared -Xcompiler -fPIC");
}

static const char *link_flags(const ts_entrant *e)
{
    return e->cls == TS_SEALED ? "-shared -nostdlib -Wl,-z,noexecstack,-z,now,-z,norelro"
                                 ",--hash-style=sysv,--build-id=none -lgcc"
                               : "-shared -Wl,-z,noexecstack -lm";
}

static bool is_cxx(const ts_source *s)
{
    return strcmp(strrchr(s->name, '.'), ".c") != 0;
}

/* Preprocesses source i into ../<i>.i and reads the result. */
static bool preprocess(const ts_entrant *e, int i, ts_built *b, const char *own, const char *extra,
                       ts_refusal *why)
{
    const ts_source *s = &e->source[i];
    line             l = { 0 };
    char             flags[1024], more[256], out[32], path[128];
    ts_confined      c;
    size_t           n = 0;
    ts_build_flags(e->cls, is_cxx(s), own, flags, sizeof flags);
    snprintf(more, sizeof more, "%s", extra ? extra : "");
    snprintf(out, sizeof out, "../%d.i", i);
    snprintf(path, sizeof path, "%s/%d.i", b->folder, i);
    add(&l, is_cxx(s) ? "c++" : "cc");
    add_all(&l, flags);
    add_all(&l, more);
    add(&l, "-E");
    add(&l, s->name);
    add(&l, "-o");
    add(&l, out);
    if (!run(b, &l, "preprocessing", &c, why)) return false;
    char *text = slurp(path, PREPROCESSED_BYTES - b->n_preprocessed, &n);
    if (!text) return ts_refuse(why, "size", "%s: too large when preprocessed", s->name);
    b->n_preprocessed += n;
    const char *found = ts_smuggled(text, n);
    free(text);
    return !found || ts_refuse(why, "symbol", "%s: '%s' changes the judge's flags", s->name, found);
}

/* Compiles with `level` appended to the judge's flags; "": as they are. *crashed: the compiler
 * itself failed. */
static bool compile_at(const char *level, const ts_entrant *e, ts_built *b, const char *own,
                       const char *extra, bool *crashed, ts_refusal *why)
{
    line        l = { 0 };
    bool        cxx = false, any = false;
    char        flags[1024], linked[256], more[256], units[TS_ENTRANT_SOURCES][24];
    ts_confined c;
    *crashed = false;
    for (int i = 0; i < e->n_sources; i++) cxx |= e->source[i].compiled && is_cxx(&e->source[i]);
    ts_build_flags(e->cls, cxx, own, flags, sizeof flags);
    snprintf(linked, sizeof linked, "%s", link_flags(e));
    snprintf(more, sizeof more, "%s %s", extra ? extra : "", level);
    snprintf(b->command, sizeof b->command, "%s %s %s %s", cxx ? "c++" : "cc", flags, more, linked);
    add(&l, cxx ? "c++" : "cc");
    /* -std is valid for one language only; a C unit among C++ ones gets the compiler's default. */
    add_all(&l, flags);
    add_all(&l, more);
    for (int i = 0; i < e->n_sources; i++) {
        if (!e->source[i].compiled) continue;
        snprintf(units[i], sizeof units[i], "../%d.i", i);
        add(&l, "-x");
        add(&l, is_cxx(&e->source[i]) ? "c++-cpp-output" : "cpp-output");
        add(&l, units[i]);
        any = true;
    }
    if (!any)
        return ts_refuse(why, "build", "no source to compile: every source is included by another");
    add(&l, "-x");
    add(&l, "none");
    add(&l, "-o");
    add(&l, "../object.so");
    add_all(&l, linked);
    if (run(b, &l, "compiling", &c, why)) return true;
    *crashed = strstr(c.said, "internal compiler error") != NULL;
    return false;
}

/* If an optimisation crashes the compiler, retries at a lower level: gcc 12 on aarch64 crashes on a
 * compensated sum. */
static bool compile(const ts_entrant *e, ts_built *b, const char *own, const char *extra,
                    ts_refusal *why)
{
    bool crashed;
    return compile_at("", e, b, own, extra, &crashed, why) ||
           (crashed && compile_at("-O2", e, b, own, extra, &crashed, why));
}

/* Copies into a sealed memory file, which no process can modify; -1 on failure. */
static int sealed_memory(const char *bytes, size_t n)
{
    const int fd = memfd_create("entrant", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    size_t    done = 0;
    while (fd >= 0 && done < n) {
        const ssize_t got = write(fd, bytes + done, n - done);
        if (got <= 0) break;
        done += (size_t)got;
    }
    if (fd < 0 || (done == n && !fcntl(fd, F_ADD_SEALS,
                                       F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)))
        return fd;
    close(fd);
    return -1;
}

static bool seal(const ts_entrant *e, ts_built *b, const char *bytes, size_t n, ts_refusal *why)
{
    b->lacks = ts_audit_lacks(bytes, n, e->task);
    b->object = sealed_memory(bytes, n);
    if (b->object < 0)
        return ts_refuse(why, TS_FAULT_OF_JUDGE, "no memory for the object: %s", strerror(errno));
    b->n_bytes = n;
    ts_sha256_hex(bytes, n, b->sha256);
    return true;
}

static bool build_native(const ts_entrant *e, ts_built *b, const char *extra, ts_refusal *why)
{
    char        path[80];
    line        l = { .n = 2, .arg = { "cc", "-print-file-name=include" } };
    ts_confined c;
    size_t      n = 0;
    if (!run(b, &l, "locating headers", &c, why)) return false;
    c.said[strcspn(c.said, "\n ")] = 0;
    for (int i = 0; i < e->n_sources; i++)
        if (e->source[i].compiled && !preprocess(e, i, b, c.said, extra, why)) return false;
    if (!compile(e, b, c.said, extra, why)) return false;
    snprintf(path, sizeof path, "%s/object.so", b->folder);
    char *bytes = slurp(path, TS_OBJECT_BYTES, &n);
    if (!bytes) return ts_refuse(why, "size", "the object has more than %d bytes", TS_OBJECT_BYTES);
    const bool ok = ts_audit(bytes, n, e->cls, e->task, why) && seal(e, b, bytes, n, why);
    free(bytes);
    return ok;
}

/* One call of nvcc: makes a cubin, which contains no host code, or a shared object. */
static bool build_cuda(const ts_entrant *e, const ts_places *p, ts_built *b, ts_refusal *why)
{
    const bool  cubin = e->cls == TS_GPU_SEALED;
    line        l = { 0 };
    char        flags[512], path[80];
    ts_confined c;
    size_t      n = 0;
    if (!*p->nvcc) return ts_refuse(why, TS_FAULT_OF_JUDGE, "nvcc not found on this machine");
    ts_build_nvcc_flags(p->arch, cubin, flags, sizeof flags);
    strcat(flags, " -o ../object");
    snprintf(b->command, sizeof b->command, "nvcc %s", flags);
    add(&l, p->nvcc);
    add_all(&l, flags);
    for (int i = 0; i < e->n_sources; i++)
        if (e->source[i].compiled) add(&l, e->source[i].name);
    if (!run_within(TS_NVCC_LIMIT_S, b, &l, "compiling", &c, why)) return false;
    snprintf(path, sizeof path, "%s/object", b->folder);
    char *bytes = slurp(path, TS_OBJECT_BYTES, &n);
    if (!bytes) return ts_refuse(why, "size", "the object has more than %d bytes", TS_OBJECT_BYTES);
    const bool ok =
        (cubin || ts_audit(bytes, n, e->cls, e->task, why)) && seal(e, b, bytes, n, why);
    free(bytes);
    if (cubin) b->launch = sealed_memory(e->launch, strlen(e->launch));
    return ok && (!cubin || b->launch >= 0 ||
                  ts_refuse(why, TS_FAULT_OF_JUDGE, "no memory for the launch plan"));
}

/* The folder that the entrant, as another user, may write to. The cage mounts a tmpfs over it. */
static bool lay_scratch(const ts_built *b, ts_refusal *why)
{
    char path[96];
    snprintf(path, sizeof path, "%s/tmp", b->folder);
    return (!mkdir(path, 0777) && !chmod(path, 01777)) ||
           ts_refuse(why, TS_FAULT_OF_JUDGE, "%s: %s", path, strerror(errno));
}

bool ts_build(const ts_entrant *e, const ts_places *p, const char *extra, ts_built *b,
              ts_refusal *why)
{
    *b = (ts_built) { .object = -1,
                      .launch = -1,
                      .guards = TS_GUARD_FILES | TS_GUARD_NETWORK | TS_GUARD_USER,
                      .lacks = ~0u };
    *why = (ts_refusal) { 0 };
    if (e->language == TS_BINARY) {
        const ts_source *s = &e->source[0];
        return ts_audit(s->bytes, s->n, e->cls, e->task, why) && seal(e, b, s->bytes, s->n, why);
    }
    if (!lay_out(e, p, b, why)) return false;
    if (e->language == TS_CU) {
        if (!build_cuda(e, p, b, why)) return false;
    } else if (e->language != TS_PY && !build_native(e, b, extra, why)) return false;
    if (e->cls == TS_GPU_PYTHON && !lay_scratch(b, why)) return false;
    return !chmod(b->folder, 0755) ||
           ts_refuse(why, TS_FAULT_OF_JUDGE, "%s: %s", b->folder, strerror(errno));
}

void ts_built_free(ts_built *b)
{
    if (b->object >= 0) close(b->object);
    if (b->launch >= 0) close(b->launch);
    ts_temporary_remove(b->folder);
    b->object = b->launch = -1;
    b->folder[0] = 0;
}
