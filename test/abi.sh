#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# abi.sh BUILD - tests the checks of the binary interface: headers, library, cage and prebuilt
# entrants.
#
# A program compiled with other headers than the library is told so, with the field's name; abi.h
# lists what the headers have; a cage of another layout exits; a prebuilt entrant that is marked
# with another version is rejected.
set -eu
. "$(dirname "$0")/lib.sh"
python=$(command -v python3) || { echo 'skipped: no python3' && exit 77; }
"$python" cmake/abi.py --check

mkdir "$tmp/cmake"
cp cmake/abi.py "$tmp/cmake"
# differs EXPECTED SED-SCRIPT HEADER [again]: with `again` abi.h is written anew, as a release would have it
n=0
differs() {
    rm -rf "$tmp/include"
    cp -r include "$tmp"
    sed "$2" "include/touchstone/$3" >"$tmp/include/touchstone/$3"
    [ "$1" = same ] || ! cmp -s "include/touchstone/$3" "$tmp/include/touchstone/$3" || fail "$2 changes nothing in $3"
    [ $# -lt 4 ] || "$python" "$tmp/cmake/abi.py"
    cc -std=c11 -I"$tmp/include" test/abi.c "$build/libtouchstone.a" -fopenmp -ldl -lpthread -lm $flags -o "$tmp/abi"
    got=$("$tmp/abi")
    [ "${got#* }" = "$1" ] || fail "$3 changed by '$2': got ${got#* }, expected $1"
    [ "$1" = same ] || [ "${got% *}" != "$hash" ] || fail "$3 changed by '$2': the hash is the same"
    [ "$1" != same ] || hash=${got% *}
    n=$((n + 1))
}
flags=
! nm "$build/libtouchstone.a" 2>/dev/null | grep -q __asan_init || flags=-fsanitize=address,undefined
differs same '' layernorm.h
differs ts_softmax_topk_args.prob 's/ \*prob;/ *lse;/; t; s/ \*lse;/ *prob;/' softmax_topk.h
differs ts_exec.device 's/^    void     \*stream;/    int64_t more;\n&/' touchstone.h
differs ts_exec.more 's/^    int       deterministic;/    int       deterministic, more;/' touchstone.h again
differs ts_kv_dims.n_layer '/window, n_sink;/d' kv_cache.h again
differs ts_dtype.TS_F16 's/^    TS_F16,/    TS_BF16,/; t; s/^    TS_BF16,/    TS_F16,/' touchstone.h
differs ts_attention_dims.scale 's/^    double              scale; .*/    float scale;/' attention.h
differs ts_abi_version. 's/TS_ABI_VERSION = 1/TS_ABI_VERSION = 2/' touchstone.h

rm -rf "$tmp/include"
cp -r include "$tmp"
sed 's/^    int       deterministic;/    int       deterministic, more;/' include/touchstone/touchstone.h >"$tmp/include/touchstone/touchstone.h"
! "$python" "$tmp/cmake/abi.py" --check 2>"$tmp/said" || fail 'a field that abi.h does not list is not noticed'
grep -q 'run cmake/abi.py' "$tmp/said" || fail "abi.py: got '$(cat "$tmp/said")'"

head -c 1048576 /dev/zero >"$tmp/control" # a judge that has another hash
status=0
"$build/touchstone-cage" 3<>"$tmp/control" >/dev/null 2>&1 || status=$?
[ $status != 0 ] && grep -aq 'different struct layouts' "$tmp/control" || fail "the cage runs for another judge: $status"

cat >"$tmp/mark.c" <<'EOF'
#include "touchstone/layernorm.h"
TS_ABI_MARK;
ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    (void)a, (void)x;
    return TS_OK;
}
EOF
for version in 1 2; do
    sed "s/TS_ABI_VERSION = 1/TS_ABI_VERSION = $version/" include/touchstone/touchstone.h >"$tmp/include/touchstone/touchstone.h"
    cc -std=c11 -Wall -Wextra -Werror -shared -fPIC -I"$tmp/include" "$tmp/mark.c" -o "$tmp/marked.so"
    said=$("$build/touchstone" judge "$tmp/marked.so" --challenge layernorm_forward --no-timing --log "$tmp/log$version" 2>&1) || true
    case $version$said in
    *missing*) echo "prebuilt entrants: $said" && break ;; # the judge cannot confine entrants here
    1*'compiled with version'*) fail 'an entrant of this version is rejected' ;;
    2*'compiled with version 2 of the headers, expected 1'* | 1*unwritten*) ;;
    *) fail "an entrant marked with version $version: got $said" ;;
    esac
done
echo "$n layouts compared"
