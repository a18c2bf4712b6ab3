#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# isa.sh BUILD - tests that code specific to an instruction set is only in base/isa/<set>, and that
# every set has the same files.
#
# Files that include them must compile for a machine without its own set.
set -eu
. "$(dirname "$0")/lib.sh"

known='__x86_64__|__aarch64__|__amd64__|__arm64__|__i386__|__arm__|__riscv'
strays() { git grep -nE "$known" -- "$@" ':!base/isa' ':!test/isa.sh' ':!doc' ':!CHANGELOG.md' || true; }
echo "#if defined(__x86_64__)" | grep -qE "$known" || fail 'the pattern sees nothing'
if git rev-parse >/dev/null 2>&1; then
    [ -z "$(strays .)" ] || fail "outside of base/isa: $(strays . | head -n 3)"
fi

list() { (cd "base/isa/$1" && ls features.c isa_*.h); }
for set in aarch64 generic; do
    [ "$(list $set)" = "$(list x86_64)" ] || fail "base/isa/$set and base/isa/x86_64 have other files"
done

# The commands of this build, with base/isa/generic instead of this machine's set.
n=0

for file in base/isa/generic/features.c base/*.c judge/exam/*.c judge/read/*.c judge/call/*.c judge/run/*.c judge/timing/*.c judge/cage/[!p]*.c judge/cage/pool.c kernel/layernorm/layernorm.c; do
    like=$file
    [ "$file" != base/isa/generic/features.c ] || like=base/cpu.c
    flags=$(sed -n "s|^ *\"command\": \"\(.*\) -o .* -c [^ ]*/$like\".*|\1|p" "$build/compile_commands.json" | head -n 1 |
        tr ' ' '\n' | grep -E '^-(I|std)' | sed -E 's|/base/isa/[a-z0-9_]+|/base/isa/generic|' | tr '\n' ' ')
    [ -n "$flags" ] || fail "$file is not compiled"
    echo "$flags" | grep -q base/isa/generic || fail "$file cannot see base/isa"
    cc $flags '-DTS_VERSION="0"' -Wall -Wextra -Werror -Wno-unused-function -fsyntax-only "$file" || fail "$file does not compile for any other machine"
    n=$((n + 1))
done
[ "$n" -ge 40 ] || fail "only $n files were tried"
echo "isa: nothing outside of base/isa; $n files compile for any other machine"
