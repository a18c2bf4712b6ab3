/* SPDX-License-Identifier: Apache-2.0 */
/* fake_module.c - modules of the stand-in driver: a shared object that fake_nvcc made, or text in
 * PTX, for whose kernels see fake_fact.c. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "isa_elf.h"

typedef struct module module;

typedef struct function {
    struct function  *next;
    module           *of;
    fake_call        *call; /* NULL: an entry of a text */
    const fake_param *params;
    int               max_shared;
    char              name[];
} function;

struct module {
    void     *so;
    int       fd;
    char     *text;
    uint32_t  calls; /* of ts_count */
    function *functions;
};

/* The file stays open: dlopen knows objects by name, and the next one must have another. */
static int load_object(module *m, const Elf64_Ehdr *e)
{
    const size_t n = e->e_shoff + (size_t)e->e_shnum * e->e_shentsize;
    char         name[64];
    m->fd = fake_file("fake_module");
    if (m->fd < 0) return OUT_OF_MEMORY;
    snprintf(name, sizeof name, "/proc/self/fd/%d", m->fd);
    if (write(m->fd, e, n) == (ssize_t)n) m->so = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (m->so) return 0;
    close(m->fd);
    return INVALID_IMAGE;
}

int cuModuleLoadData(ts_cu_any **out, const void *image)
{
    const char       *text = image;
    const Elf64_Ehdr *e = image;
    int               code = fake_gate_context();
    if (code || !image) return code ? code : INVALID_VALUE;
    module *m = calloc(1, sizeof *m);
    if (!m) return OUT_OF_MEMORY;
    if (*text == '.' || *text == '/') code = (m->text = strdup(text)) ? 0 : OUT_OF_MEMORY;
    else if (memcmp(e->e_ident, ELFMAG, SELFMAG) || e->e_ident[EI_CLASS] != ELFCLASS64 ||
             e->e_machine != TS_ELF_MACHINE || e->e_type != ET_DYN || !e->e_shoff)
        code = INVALID_IMAGE;
    else code = load_object(m, e);
    if (code) free(m);
    else *out = (ts_cu_any *)m;
    return code;
}

int cuModuleUnload(ts_cu_any *handle)
{
    module   *m = (module *)handle;
    const int code = fake_synchronise();
    if (code || !m) return code ? code : INVALID_HANDLE;
    for (function *f = m->functions, *next; f; f = next) {
        next = f->next;
        free(f);
    }
    if (m->so) {
        dlclose(m->so);
        close(m->fd);
    }
    free(m->text);
    free(m);
    return 0;
}

static int has_entry(const char *text, const char *name)
{
    const size_t n = strlen(name);
    while ((text = strstr(text, ".entry"))) {
        text += strlen(".entry");
        text += strspn(text, " \t\r\n");
        if (!strncmp(text, name, n) && strchr(" \t\r\n(", text[n])) return 1;
    }
    return 0;
}

static void *symbol(const module *m, const char *name, const char *suffix)
{
    char text[512];
    if (snprintf(text, sizeof text, "%s%s", name, suffix) >= (int)sizeof text) return NULL;
    return dlsym(m->so, text);
}

int cuModuleGetFunction(ts_cu_any **out, ts_cu_any *handle, const char *name)
{
    module   *m = (module *)handle;
    const int code = fake_gate_context();
    if (code || !m) return code ? code : INVALID_HANDLE;
    void     *call = m->so ? symbol(m, name, "__call") : NULL;
    function *f = m->functions;
    if (m->so ? !call : !has_entry(m->text, name)) return NOT_FOUND;
    while (f && strcmp(f->name, name) != 0) f = f->next;
    if (!f) {
        f = calloc(1, sizeof *f + strlen(name) + 1);
        if (!f) return OUT_OF_MEMORY;
        f->next = m->functions;
        f->of = m;
        memcpy(&f->call, &call, sizeof call);
        f->params = m->so ? symbol(m, name, "__params") : NULL;
        f->max_shared = FAKE_SHARED;
        strcpy(f->name, name);
        m->functions = f;
    }
    *out = (ts_cu_any *)f;
    return 0;
}

int cuFuncGetAttribute(int *v, int attribute, ts_cu_any *handle)
{
    const function *f = (const function *)handle;
    const int       code = fake_gate_context();
    if (code || !f) return code ? code : INVALID_HANDLE;
    switch (attribute) {
    case 0:
        *v = FAKE_MAX_THREADS;
        break; /* in a block */
    case TS_CU_SHARED_BYTES:
        *v = 0;
        break;
    case TS_CU_LOCAL_BYTES:
        *v = 0;
        break;
    case TS_CU_REGISTERS:
        *v = 32;
        break;
    case TS_CU_MAX_DYNAMIC_SHARED:
        *v = f->max_shared;
        break;
    default:
        return INVALID_VALUE;
    }
    return 0;
}

int cuFuncSetAttribute(ts_cu_any *handle, int attribute, int v)
{
    function *f = (function *)handle;
    const int code = fake_gate_context();
    if (code || !f) return code ? code : INVALID_HANDLE;
    if (attribute != TS_CU_MAX_DYNAMIC_SHARED) return 0; /* a hint */
    if (v < 0 || v > FAKE_MAX_SHARED) return INVALID_VALUE;
    return f->max_shared = v, 0;
}

int cuFuncGetParamInfo(ts_cu_any *handle, size_t at, size_t *offset, size_t *n_bytes)
{
    const function *f = (const function *)handle;
    const int       code = fake_gate_context();
    if (code || !f) return code ? code : INVALID_HANDLE;
    const fake_param *p = f->params;
    while (p && p->n_bytes && at) p++, at--;
    if (!p || !p->n_bytes) return INVALID_VALUE;
    *offset = p->offset;
    if (n_bytes) *n_bytes = p->n_bytes;
    return 0;
}

int cuLaunchKernel(ts_cu_any *handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                   unsigned by, unsigned bz, unsigned shared_bytes, ts_cu_any *stream,
                   void **params, void **extra)
{
    const function *f = (const function *)handle;
    const int       code = fake_gate_context();
    (void)stream;
    if (code || !f) return code ? code : INVALID_HANDLE;
    if (!gx || !gy || !gz || !bx || !by || !bz || gx > INT32_MAX || gy > 65535 || gz > 65535)
        return INVALID_VALUE;
    if (bx > 1024 || by > 1024 || bz > 64 || bx * by * bz > FAKE_MAX_THREADS) return INVALID_VALUE;
    if (shared_bytes > (unsigned)f->max_shared || extra) return INVALID_VALUE;
    if (fake_pending) return 0; /* after a fault nothing more is run */
    if (!f->call) {
        fake_pending = fake_fact(f->name, &f->of->calls, gx * bx, params);
        return 0;
    }
    if (f->params->n_bytes && !params) return INVALID_VALUE;
    fake_pending = fake_launch(f->call, dlsym(f->of->so, "fake_now"), (fake_index) { gx, gy, gz },
                               (fake_index) { bx, by, bz }, params);
    return 0;
}
