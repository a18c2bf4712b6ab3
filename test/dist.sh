#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# dist.sh [FRESH [DIST]] - `make dist` twice, in two clones of the last commit that differ in path, umask, locale, time
# zone and time; the files must be equal. Then each file is installed and run, and build/dist has the first clone's.
#
# With DIST the files of that folder, such as a downloaded release, are installed and run, and none are made. With
# FRESH=no nothing is installed outside of virtual environments. Otherwise wheel and source archive are tried on a
# fresh Debian 13, and the other instruction set's wheel on that set's Debian 13 under QEMU. That needs root,
# mmdebstrap and qemu-user-static. Half an hour on two cores; needs a network.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD fresh=${1:-yes}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "test-dist: $*" >&2 && exit 1; }
say() { echo "test-dist: $*"; }

twice() { # leaves the files in build/dist
    local begin first=$tmp/a second="$tmp/b/a path that is longer, with blanks"
    git clone -q . "$first"
    git clone -q . "$second"
    begin=$(date +%s)
    (cd "$first" && umask 022 && TZ=UTC LC_ALL=C make dist) || fail 'make dist failed'
    say "make dist: $(($(date +%s) - begin)) s"
    (cd "$second" && umask 077 && TZ=Asia/Tokyo LC_ALL=C.UTF-8 LANG=C.UTF-8 make dist >/dev/null) || fail 'make dist failed in another folder'
    diff -r "$first/build/dist" "$second/build/dist" || fail 'two runs differ'
    mkdir -p build
    rm -rf build/dist "$second"
    cp -r "$first/build/dist" build/dist
    say "equal: $(wc -l <build/dist/SHA256SUMS) files"
}
if [ -n "${2-}" ]; then
    dist=$(cd "$2" && pwd)
else
    twice
    dist=$root/build/dist
fi
(cd "$dist" && sha256sum --quiet -c SHA256SUMS) || fail "$dist: a file and SHA256SUMS differ"

python3 -m venv "$tmp/spdx"
"$tmp/spdx/bin/pip" install -q --disable-pip-version-check 'spdx-tools==0.8.5'
"$tmp/spdx/bin/pyspdxtools" -i "$dist"/touchstone-*.spdx.json || fail 'the SBOM is not valid SPDX 2.3'
say 'SBOM: valid SPDX 2.3'

here=$(uname -m)
case $here in
arm64 | aarch64) here=aarch64 other=x86_64 debian=amd64 ;;
*) here=x86_64 other=aarch64 debian=arm64 ;;
esac
wheel=$(echo "$dist"/touchstone-*"_$here.whl") others=$(echo "$dist"/touchstone-*"_$other.whl")

# Wheels and contest package in a new environment: a mock model's answer is judged by the installed program.
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q --disable-pip-version-check "$wheel" "$dist"/touchstone_contest-*.whl
cd "$tmp"
"$tmp/venv/bin/python" "$root/example/python/first.py"
tasks=$(PATH=$tmp/venv/bin:$PATH "$tmp/venv/bin/python" -c 'import touchstone_contest._registry
from inspect_ai._util.registry import registry_find
print(sum(t.type == "task" and t.name.startswith("touchstone/") for t in map(lambda f: f.__registry_info__, registry_find(lambda i: True))))')
[ "$tasks" -ge 14 ] || fail "the contest package: $tasks tasks"
PATH=$tmp/venv/bin:$PATH "$tmp/venv/bin/inspect" eval touchstone/layernorm_forward --model mockllm/model --display none \
    --log-dir "$tmp/logs" >"$tmp/said" 2>&1 || fail "inspect: $(tail -n 5 "$tmp/said")"
ls "$tmp"/logs/*.eval >/dev/null
"$tmp/venv/bin/touchstone" judge "$root/example/contest/careful/softmax_topk.c" --no-timing --depth quick \
    --challenge softmax_topk --log "$tmp/judge.log" | grep PASS || fail 'the wheel judges no entrant'
"$tmp/venv/bin/pip" install -q --disable-pip-version-check --force-reinstall --no-deps "$dist"/touchstone_contest-*.tar.gz
"$tmp/venv/bin/touchstone-contest" --help >/dev/null
say "$here wheel, contest wheel and sdist: installed; $tasks Inspect tasks, one evaluated; one entrant judged"
cd "$root"
[ "$fresh" != no ] || { say 'fresh systems: skipped' && exit 0; }

[ "$(id -u)" = 0 ] || fail 'fresh systems need root; FRESH=no leaves them out'
command -v mmdebstrap >/dev/null && command -v "qemu-$other-static" >/dev/null ||
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q mmdebstrap qemu-user-static >/dev/null 2>&1 ||
    fail 'missing; install with: apt-get install -y mmdebstrap qemu-user-static; FRESH=no leaves fresh systems out'
needs() { # ISA FOLDER: what a wheel needs at run time, for the fresh system's Python
    python3 -m pip download -q --disable-pip-version-check -d "$2" --only-binary=:all: --python-version 3.13 \
        --platform "manylinux_2_28_$1" --platform "manylinux_2_27_$1" --platform "manylinux_2_17_$1" \
        'apache-tvm-ffi>=0.1.15,<0.2' 'numpy>=1.23'
}

# A fresh system of this machine's kind: the wheel without a compiler, then the source archive.
new=$tmp/fresh
mmdebstrap -q --variant=apt --include=ca-certificates,make,mount,python3-venv trixie "$new"
cp /etc/resolv.conf "$new/etc"
cp -r "$dist" "$new/dist"
needs "$here" "$new/needs"
cp example/python/first.py example/contest/careful/softmax_topk.c "$new"
test/fresh.sh "$new" sh -ec "
head -n 1 /etc/os-release
! command -v cc
python3 -m venv /opt/venv
/opt/venv/bin/pip install -q --no-index --find-links /needs /dist/touchstone-*_$here.whl
/opt/venv/bin/python /first.py
/opt/venv/bin/touchstone --version
/opt/venv/bin/touchstone judge --no-timing --depth quick --challenge softmax_topk --log /opt/log | grep -c PASS" ||
    fail "the $here wheel does not work on a fresh system"
say "$here wheel: works on a fresh Debian 13 without a compiler"
test/fresh.sh "$new" sh -ec '
tar xzf /dist/touchstone-*.tar.gz -C /opt --no-same-owner
cd /opt/touchstone-*
make run >/opt/run.txt 2>&1 || { tail -n 20 /opt/run.txt && exit 1; }
grep -A 6 "entrant .*class" /opt/run.txt | head -n 7
test -s build/report/index.html
/opt/venv/bin/touchstone judge /softmax_topk.c --no-timing --depth quick --challenge softmax_topk --log /opt/log2 | grep PASS' ||
    fail 'the source archive does not work on a fresh system'
say 'source archive: make run works on a fresh Debian 13'

# The other kind, under QEMU. Maintainer scripts cannot run there, and neither can cages: the program and the kernels do.
new=$tmp/other
mmdebstrap -q --variant=extract --arch="$debian" --include=libstdc++6,python3,python3-pip trixie "$new" 2>/dev/null
for folder in bin sbin lib lib64; do [ -e "$new/$folder" ] || ln -s "usr/$folder" "$new/$folder"; done
mkdir -p "$new/etc/ssl/certs" "$new/tmp"
cp /etc/ssl/certs/ca-certificates.crt "$new/etc/ssl/certs"
cp "/usr/bin/qemu-$other-static" "$new/qemu"
cp "$others" example/python/first.py "$new"
needs "$other" "$new/needs"
emulated() { env -i PATH="$PATH" chroot "$new" /qemu -cpu max -E PYTHONPATH=/site -E PYTHONDONTWRITEBYTECODE=1 "$@"; }
emulated /usr/bin/python3.13 -m pip install -q --root-user-action ignore --no-index --find-links /needs --target /site "/${others##*/}"
emulated /usr/bin/python3.13 /first.py || fail "the $other wheel does not work under QEMU"
emulated /site/touchstone/bin/touchstone --version
emulated /site/touchstone/bin/touchstone list impls | grep "layernorm_forward *\(avx2\|neon\)" || fail "the $other wheel has no implementation of its kind"
say "$other wheel: works on a Debian 13 of that kind under QEMU"
