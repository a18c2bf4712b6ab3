#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""abi.py [--check] - writes include/touchstone/abi.h: the fields of every struct and the values of
every enum in the public headers.

--check compares the file with the headers instead, and fails if they differ."""
import pathlib
import re
import sys

INCLUDE = pathlib.Path(__file__).resolve().parent.parent / "include" / "touchstone"
TARGET = INCLUDE / "abi.h"
HEAD = '''/* SPDX-License-Identifier: Apache-2.0 */
/* abi.h - the layout of every struct, and the value of every enumerator, of the public headers.
 * cmake/abi.py writes this file; do not edit it.
 *
 * A program that includes this header has in ts_abi_fields the layouts that its own compiler saw;
 * the library has the layouts with which it was built. To find a library that does not match the
 * headers, call ts_abi_mismatch once, before any kernel:
 *
 *     const ts_abi_field *bad = ts_abi_mismatch(ts_abi_fields, TS_ABI_FIELDS);
 *     if (bad) fprintf(stderr, "libtouchstone: %s.%s differs\\n", bad->of, bad->name), exit(1);
 */
#ifndef TOUCHSTONE_ABI_H
#define TOUCHSTONE_ABI_H

'''
BODY = '''
#ifdef __cplusplus
extern "C" {
#endif

/* A field of a struct, or, if n_bytes is 0, a value of an enum. */
typedef struct ts_abi_field {
    const char *of, *name; /* names of the struct or enum, and of the field or value */
    size_t      of_bytes;  /* size of the whole struct or enum */
    size_t      at;        /* offset of the field in bytes, or the value */
    size_t      n_bytes;   /* size of the field */
} ts_abi_field;

/* Compares the caller's n fields with those of the library. Returns the first field that differs or
 * is missing on one side, or NULL if all are equal. */
TS_API const ts_abi_field *ts_abi_mismatch(const ts_abi_field *mine, size_t n);

/* clang-format off */
#define TS_ABI_IN(s, f) { #s, #f, sizeof(s), offsetof(s, f), sizeof(((s *)0)->f) }
#define TS_ABI_IS(e, v) { #e, #v, sizeof(e), (size_t)(v), 0 }

static const ts_abi_field ts_abi_fields[] = {
    { "ts_abi_version", "", 0, TS_ABI_VERSION, 0 },
'''
TAIL = '''};
/* clang-format on */
enum { TS_ABI_FIELDS = sizeof ts_abi_fields / sizeof *ts_abi_fields };

/* Returns a hash of n fields (FNV-1a, 64 bits): equal layouts have equal hashes. For processes that
 * cannot read each other's tables. */
static inline uint64_t ts_abi_hash(const ts_abi_field *f, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) {
        const uint64_t number[] = { f[i].of_bytes, f[i].at, f[i].n_bytes };
        for (const char *s = f[i].of; *s; s++) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
        for (const char *s = f[i].name; *s; s++) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
        for (int k = 0; k < 3; k++) h = (h ^ number[k]) * 0x100000001b3u;
    }
    return h;
}

#undef TS_ABI_IN
#undef TS_ABI_IS

#ifdef __cplusplus
}
#endif
#endif
'''


def stop(text):
    sys.exit("abi.py: " + text)


def fields(header, name, body):
    """The names that a struct's declarations declare, in order."""
    for one in filter(None, (d.strip() for d in body.split(";"))):
        pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", one)
        if pointer:  # a pointer to a function
            yield pointer.group(1)
            continue
        for part in one.split(","):
            found = re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)*$", part.strip())
            if not found:
                stop("%s: %s: cannot read '%s'" % (header, name, one))
            yield found.group(1)


def entries(path):
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
    structs = re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text, flags=re.S)
    enums = re.findall(r"typedef enum (\w+) \{(.*?)\} \1;", text, flags=re.S)
    found = len(structs) + len(enums)
    braces = len(re.findall(r"\b(?:struct|enum)\s+\w+\s*\{", text))
    if braces != found:
        stop("%s: %d structs and enums, but %d could be read" % (path.name, braces, found))
    for name, body in enums:
        for value in filter(None, (v.split("=")[0].strip() for v in body.split(","))):
            yield "TS_ABI_IS", name, value
    for name, body in structs:
        for field in fields(path.name, name, body):
            yield "TS_ABI_IN", name, field


def make():
    headers = sorted(p for p in INCLUDE.glob("*.h") if p.name not in ("abi.h", "sealed.h"))
    lines = ['#include "touchstone/%s"\n' % p.name for p in headers]
    table = []
    for p in headers:
        line = "   "
        for macro, of, name in entries(p):
            one = " %s(%s, %s)," % (macro, of, name)
            if len(line) + len(one) > 100:
                table.append(line + "\n")
                line = "   "
            line += one
        if line.strip():
            table.append(line + "\n")
    return HEAD + "".join(lines) + BODY + "".join(table) + TAIL


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        stop("got %s, expected nothing or --check" % " ".join(sys.argv[1:]))
    text = make()
    if not sys.argv[1:]:
        TARGET.write_text(text)
    elif not TARGET.exists() or TARGET.read_text() != text:
        stop("include/touchstone/abi.h does not list what the headers have; run cmake/abi.py")


main()
