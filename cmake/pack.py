#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pack.py wheel|sdist OUT FILE - writes a wheel or source distribution to OUT again, with equal bytes for equal
contents: files in order, with the time SOURCE_DATE_EPOCH, owner 0 and modes 644 or 755.

A wheel also gets the licence of each library that auditwheel put into it, and its name is verified: no object may
need a newer glibc, another machine or a library from elsewhere."""
import base64
import gzip
import hashlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

WHEN = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))  # a zip has no time before 1980
OF_GLIBC = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux.*)\.so\.\d+")
# Libraries in a wheel: the start of the file's name, Debian's package, the licence, where it comes from.
BUNDLED = (("libgomp", "libgomp1", "GPL-3.0-or-later WITH GCC-exception-3.1", "https://gcc.gnu.org"),
           ("libjansson", "libjansson4", "MIT", "https://github.com/akheron/jansson"))


def stop(text):
    sys.exit("pack.py: %s" % text)


def bundled(name):
    """The row of BUNDLED for a file of a wheel, or None."""
    if ".libs/" not in name:
        return None
    base = name.rsplit("/", 1)[1]
    for row in BUNDLED:
        if base.startswith(row[0]):
            return row
    stop("%s: no licence known; add the library to BUNDLED" % name)


def elf(data):
    """Machine, needed libraries and newest glibc of an object file, or None if it is none."""
    if data[:4] != b"\x7fELF":
        return None
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        text = subprocess.run(["readelf", "-hdVW", file.name], capture_output=True, text=True, check=True,
                              env={**os.environ, "LC_ALL": "C"}).stdout
    machine = re.search(r"Machine: +(.*)", text).group(1)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
    glibc = max(([int(n) for n in v.split(".")] for v in re.findall(r"Name: GLIBC_([0-9.]+)", text)), default=[0])
    return {"x86-64": "x86_64", "aarch64": "aarch64"}.get(machine.split()[-1].lower(), machine), needed, glibc


def verify(name, files):
    """The tag of a wheel's name against its objects."""
    tag = name[:-len(".whl")].split("-")[-1]
    objects = {path: found for path, found in ((p, elf(d)) for p, (d, _) in files.items()) if found}
    if tag == "any":
        if objects:
            stop("%s: contains %s, but is for any machine" % (name, sorted(objects)[0]))
        return
    promised = re.fullmatch(r"manylinux_(\d+)_(\d+)_(\w+)", tag)
    if not promised:
        stop("%s: got the tag %s, expected manylinux_X_Y_ISA" % (name, tag))
    least, isa = [int(promised.group(1)), int(promised.group(2))], promised.group(3)
    inside = {path.rsplit("/", 1)[1] for path in objects}
    for path, (machine, needed, glibc) in sorted(objects.items()):
        if machine != isa:
            stop("%s: %s is for %s" % (name, path, machine))
        if glibc > least:
            stop("%s: %s needs glibc %s" % (name, path, ".".join(map(str, glibc))))
        for library in needed:
            if library not in inside and not OF_GLIBC.fullmatch(library):
                stop("%s: %s needs %s, which is neither in the wheel nor of glibc" % (name, path, library))


def licences(files):
    """A licence text per bundled library, from Debian's package."""
    info = next(p for p in files if p.endswith(".dist-info/RECORD")).rsplit("/", 1)[0]
    for row in sorted({row for row in map(bundled, list(files)) if row}):
        text = pathlib.Path("/usr/share/doc") / row[1] / "copyright"
        if not text.exists():
            stop("%s: missing; expected the licence of %s" % (text, row[0]))
        data = text.read_bytes()
        for common in sorted(set(re.findall(rb"/usr/share/common-licenses/[\w.-]*[\w]", data))):
            if common.endswith((b"GPL-3", b"LGPL-3")):  # the texts that apply and that are not in the file itself
                data += b"\n---- %s\n\n" % common + pathlib.Path(common.decode()).read_bytes()
        files["%s/licenses/%s" % (info, row[0])] = (data, 0o644)


def record(files):
    """RECORD anew: a line per file, in order."""
    path = next(p for p in files if p.endswith(".dist-info/RECORD"))
    lines = []
    for name in sorted(set(files) - {path}):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name][0]).digest()).rstrip(b"=").decode()
        lines.append("%s,sha256=%s,%d\n" % (name, digest, len(files[name][0])))
    files[path] = ("".join(lines + [path + ",,\n"]).encode(), 0o644)


def mode(bits):
    return 0o755 if bits & 0o100 else 0o644


def wheel(out, source):
    files = {}
    with zipfile.ZipFile(source) as z:
        for one in z.infolist():
            if not one.is_dir():
                files[one.filename] = (z.read(one), mode(one.external_attr >> 16))
    verify(source.name, files)
    licences(files)
    record(files)
    # Metadata last, as the format recommends.
    with zipfile.ZipFile(out / source.name, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for name in sorted(files, key=lambda n: (".dist-info/" in n, n)):
            one = zipfile.ZipInfo(name, time.gmtime(WHEN)[:6])
            one.create_system, one.compress_type = 3, zipfile.ZIP_DEFLATED
            one.external_attr = (0o100000 | files[name][1]) << 16
            z.writestr(one, files[name][0])


def sdist(out, source):
    buffer = io.BytesIO()
    with tarfile.open(source) as old, tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as new:
        for one in sorted(old.getmembers(), key=lambda m: m.name):
            data = old.extractfile(one) if one.isfile() else None
            one.uid = one.gid = 0
            one.uname = one.gname = ""
            one.mtime, one.pax_headers = WHEN, {}
            one.mode = 0o755 if one.isdir() else mode(one.mode)
            new.addfile(one, data)
    with open(out / source.name, "wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as z:
        z.write(buffer.getvalue())


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("wheel", "sdist"):
        stop("expected wheel|sdist OUT FILE")
    (wheel if sys.argv[1] == "wheel" else sdist)(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
    print("make dist: %s" % pathlib.Path(sys.argv[3]).name)


if __name__ == "__main__":
    main()
