#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cuda_module.sh BUILD - tests what the CUDA modules export, and that nothing installed but the program
# and touchstone-mutants looks for mutants.
#
# The module exports exactly what base/cuda_module.c and the dispatch tables look up, and the module of
# mutants exactly the mutants of the lists.
set -eu
. "$(dirname "$0")/lib.sh"
knows() { grep -aq 'libtouchstone_mutant\|CUDA_MUTANTS' "$1"; }
[ ! -e "$1/touchstone" ] || knows "$1/touchstone" || { echo 'cuda_module: the program does not find the CUDA mutants' >&2 && exit 1; }
for shipped in "$1"/libtouchstone.so "$1"/libtouchstone.a "$1"/libtouchstone_*cuda.so "$1"/touchstone-*; do
    case $shipped in *_mutant_cuda.so | */touchstone-mutants) continue ;; esac
    [ ! -f "$shipped" ] || ! knows "$shipped" ||
        { echo "cuda_module: ${shipped##*/} looks for mutants" >&2 && exit 1; }
done
module=$1/libtouchstone_cuda.so
[ -e "$module" ] || { echo 'skipped: no CUDA module was built (no nvcc)'; exit 77; }
{
    echo ts_cuda_module
    sed -n 's/.*TS_CUDA.*"\(ts_[a-z0-9_]*\)".*/\1/p' base/*.c kernel/*/*.c
} | sort -u >"$tmp/looked_up"
nm -D --defined-only "$module" | awk '{ print $3 }' | sort -u >"$tmp/exported"
missing=$(comm -23 "$tmp/looked_up" "$tmp/exported")
[ -z "$missing" ] || { echo "cuda_module: not exported: $missing" >&2 && exit 1; }
# Otherwise only their workspace queries.
extra=$(sed 's/_workspace$//' "$tmp/exported" | sort -u | comm -23 - "$tmp/looked_up")
[ -z "$extra" ] || { echo "cuda_module: exported, but never looked up: $extra" >&2 && exit 1; }
for part in model train; do # where cuBLAS and the model's libraries were found
    more=$1/libtouchstone_${part}_cuda.so
    [ ! -e "$more" ] || [ "$(nm -D --defined-only "$more" | awk '{ print $3 }')" = ts_${part}_cuda ] ||
        { echo "cuda_module: ${more##*/} exports something else than ts_${part}_cuda" >&2 && exit 1; }
done
for list in proof/mutant/*_cuda_list.h; do
    stem=${list#proof/mutant/} && stem=${stem%_cuda_list.h}
    sed -n "s/^ *M([A-Z0-9_]*, \([a-z0-9_]*\),.*/ts_mutant_${stem}_\1/p" "$list"
done | sort >"$tmp/named"
nm -D --defined-only "$1/libtouchstone_mutant_cuda.so" | awk '{ print $3 }' | sort >"$tmp/mutants"
[ -s "$tmp/named" ] || { echo 'cuda_module: no mutant is named' >&2 && exit 1; }
diff "$tmp/named" "$tmp/mutants" || { echo 'cuda_module: mutants named (<) and exported (>)' >&2 && exit 1; }
echo "$(wc -l <"$tmp/exported") symbols exported, and $(wc -l <"$tmp/mutants") mutants"
