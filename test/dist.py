#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dist.py BUILD - tests the parts of `make dist` that take seconds.

The source archive has every tracked file and no other; a changed tree is rejected; packed wheels do not depend on the
order, times and modes of their files; a wheel whose name promises too much is rejected; the SBOM is well-formed and lists
every component. `make test-dist` tests the rest."""
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(sys.argv[1]).resolve()
NAME = "touchstone-" + re.search(r"^project\(touchstone VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)
ISA = platform.machine()
METADATA = "Metadata-Version: 2.1\nName: touchstone\nVersion: 0\nRequires-Dist: numpy>=1.23\nRequires-Dist: torch>=2.4; extra == 'torch'\n"


def run(*command, expect=0, **more):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **more)
    assert done.returncode == expect or expect is None and done.returncode, "%s: %d: %s" % (command, done.returncode, done.stdout + done.stderr)
    return done.stdout + done.stderr


def skip(text):
    print("skipped: " + text)
    sys.exit(77)


def source(tmp):
    """The archive of a clone, with what is changed here committed there."""
    clone = tmp / "a clone"
    run("git", "clone", "-q", ROOT, clone)
    changes = run("git", "diff", "--binary", "HEAD", cwd=ROOT)
    git = ("git", "-c", "user.name=test", "-c", "user.email=test@localhost")
    if changes:
        run("git", "apply", "--index", input=changes, cwd=clone)
        run(*git, "commit", "-qm", "changes", cwd=clone)
    run("cmake/dist.sh", "source", cwd=clone)
    made = clone / "build" / "dist" / (NAME + ".tar.gz")
    tracked = set(run("git", "ls-files", cwd=clone).split("\n")) - {""}
    with tarfile.open(made) as tar:
        members = tar.getmembers()
    there = {m.name.partition("/")[2] for m in members if not m.isdir()}
    assert there == tracked, "archive and git ls-files differ: %s" % sorted(there ^ tracked)[:5]
    assert {m.name.partition("/")[0] for m in members} == {NAME}
    assert {(m.uid, m.gid) for m in members} == {(0, 0)} and len({m.mtime for m in members}) == 1
    first = made.read_bytes()
    run("cmake/dist.sh", "source", cwd=clone, env={**os.environ, "TZ": "Asia/Tokyo"}, preexec_fn=lambda: os.umask(0o077))
    assert made.read_bytes() == first, "two archives of one commit differ"
    (clone / "untracked.c").write_text("")
    said = run("cmake/dist.sh", "source", cwd=clone, expect=1)
    assert "1 uncommitted or untracked files, first '?? untracked.c'" in said, said
    return len(tracked)


def write_wheel(path, names, mode=0o644, year=2001):
    with zipfile.ZipFile(path, "w") as z:
        for name in names:
            data = names[name]
            one = zipfile.ZipInfo(name, (year, 2, 3, 4, 5, 6))
            one.external_attr = (0o100000 | mode) << 16
            z.writestr(one, data)
    return path


def pack(wheel, out, **more):
    out.mkdir(exist_ok=True)
    return run(sys.executable, "-B", ROOT / "cmake" / "pack.py", "wheel", out, wheel, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}, **more)


def wheels(tmp):
    """Packed wheels; returns the folder of one."""
    info = "touchstone-0.dist-info/"
    files = {"touchstone/touchstone-probe.so": (BUILD / "touchstone-probe.so").read_bytes(), "touchstone/a.py": b"pass\n",
             info + "METADATA": METADATA.encode(), info + "RECORD": b""}
    name = "%s-py3-none-manylinux_2_35_%s.whl" % (NAME, ISA)
    os.mkdir(tmp / "in")
    pack(write_wheel(tmp / "in" / name, files), tmp / "one")
    pack(write_wheel(tmp / "in" / name, dict(reversed(files.items())), 0o600, 2020), tmp / "two")
    assert (tmp / "one" / name).read_bytes() == (tmp / "two" / name).read_bytes(), "order, time or mode of files reach the wheel"
    other = {"aarch64": "x86_64"}.get(ISA, "aarch64")
    system = next(line for line in run("ldd", BUILD / "touchstone-cage").split("\n") if "libm.so" in line).split()[2]
    jansson = {**files, "touchstone.libs/libother-1.so": files["touchstone/touchstone-probe.so"]}
    for wrong, contents, expected in (
            (name.replace(ISA, other), files, "touchstone-probe.so is for " + ISA),
            (name.replace("manylinux_2_35_" + ISA, "any"), files, "but is for any machine"),
            (name.replace("2_35", "2_4"), {**files, "touchstone/m.so": pathlib.Path(system).read_bytes()}, "m.so needs glibc 2."),
            (name, {**files, "touchstone/t.so": (BUILD / "libtouchstone.so").read_bytes()}, "needs libgomp.so.1, which is neither"),
            (name, jansson, "no licence known")):
        said = pack(write_wheel(tmp / "in" / wrong, contents), tmp / "wrong", expect=1)
        assert expected in said, "%s: got %s, expected %s" % (wrong, said, expected)
    return tmp / "one"


def sbom(dist, tmp):
    shutil.copy(BUILD / "touchstone.pc", dist / (NAME + ".tar.gz"))  # any bytes
    command = (sys.executable, "-B", ROOT / "cmake" / "sbom.py", dist, NAME)
    run(*command, ROOT)
    made = json.loads((dist / (NAME + ".spdx.json")).read_text())
    ids = [p["SPDXID"] for p in made["packages"]] + [made["SPDXID"]]
    assert made["spdxVersion"] == "SPDX-2.3" and made["dataLicense"] == "CC0-1.0"
    assert len(ids) == len(set(ids)) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", i) for i in ids)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made["creationInfo"]["created"])
    for one in made["packages"]:
        assert one["name"] and one["downloadLocation"] and one["licenseDeclared"], one
        for sum_ in one.get("checksums", []):
            assert re.fullmatch("[0-9a-f]{64}", sum_["checksumValue"])
    links = {(r["spdxElementId"], r["relationshipType"], r["relatedSpdxElement"]) for r in made["relationships"]}
    assert len(links) == len(made["relationships"]) and {i for a, _, b in links for i in (a, b)} <= set(ids)
    wheel = next(p for p in made["packages"] if p.get("packageFileName", "").endswith(".whl"))
    data = (dist / wheel["packageFileName"]).read_bytes()
    assert wheel["checksums"][0]["checksumValue"] == hashlib.sha256(data).hexdigest()
    assert (wheel["SPDXID"], "DEPENDS_ON", "SPDXRef-Python-numpy") in links
    assert ("SPDXRef-Python-torch", "OPTIONAL_DEPENDENCY_OF", wheel["SPDXID"]) in links
    unlisted = tmp / "unlisted"
    (unlisted / "cmake").mkdir(parents=True)
    shutil.copy(ROOT / "cmake" / "dist.txt", unlisted / "cmake")
    (unlisted / "CMakeLists.txt").write_text("find_library(A_LIBRARY nonsuch)\n")
    assert "nonsuch: no licence known" in run(*command, unlisted, expect=1)
    return len(ids) - 1


def main():
    if subprocess.run(["git", "rev-parse"], cwd=ROOT, capture_output=True).returncode:
        skip("no git checkout")
    if not shutil.which("readelf"):
        skip("no readelf")
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        n = source(tmp)
        print("%d files in the archive, 5 wrong wheels rejected, %d components" % (n, sbom(wheels(tmp), tmp)))


main()
