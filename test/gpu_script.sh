#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu_script.sh BUILD [NAME|CHALLENGE...] - judges the challenges that are scripts on a device.
#
# Entrants are the library, the obvious solutions of proof/plain/cuda, and copies of them with a bug
# each, which must be rejected for a reason that expect.txt accepts. A missing verdict is a failure.
# Without a GPU they run on a stand-in for the driver, untimed and without the library; of the copies
# of a challenge two, since compiling one takes half a minute, or all with TOUCHSTONE_ALL=1.
set -u
. "$(dirname "$0")/lib.sh"
shift
from=proof/plain/cuda
timing=
if ! nvidia-smi -L 2>/dev/null | grep -q GPU && [ ! -e /dev/nvidia0 ]; then
    stand_in
    timing=--no-timing
    echo 'no CUDA device: on a stand-in'
fi

asked=$*
wanted() { # NAME CHALLENGE
    [ ! "$asked" ] && return 0
    for one in $asked; do [ "$one" = "$1" ] || [ "$one" = "$2" ] && return 0; done
    return 1
}

# NAME CHALLENGE SUBSTITUTION
lay() {
    mkdir -p "$tmp/$1"
    cp proof/plain/number.h $from/number.cuh $from/"$2"*.cu* "$tmp/$1"
    if [ "$3" != - ]; then
        sed -i "$3" "$tmp/$1/$2"*
        for f in "$from/$2"*; do ! cmp -s "$f" "$tmp/$1/${f##*/}" && break; done || complain "$1: its substitution changes nothing"
    fi
    language=cuda sources=$(cd "$tmp/$1" && printf '"%s",' *.cu *.cuh *.h)
    if [ "$3" != - ]; then # built here in parallel: the judge would build them one by one
        language=binary sources="\"$1.so\""
        echo "-o $tmp/$1/$1.so $tmp/$1/$2.cu" >>"$tmp/objects"
    fi
    printf '{"name":"%s","author":"obvious","challenge":"%s","class":"host-gpu","language":"%s","sources":[%s]}' \
        "$1" "$2" "$language" "${sources%,}" >"$tmp/$1/entry.json"
}

# [OPTION...] ENTRANT: judges it, and sets $verdict and $reason.
judge() {
    "$build/touchstone" judge --device cuda --depth quick --first --log "$tmp/log" "$@" </dev/null >"$tmp/out" 2>&1
    status=$?
    line=$(grep '"type":"verdict"' "$tmp/log" 2>/dev/null)
    verdict=$(printf %s "$line" | sed -n 's/.*"verdict":"\([^"]*\)".*/\1/p')
    reason=$(printf %s "$line" | sed -n 's/.*"reason":"\([^"]*\)".*/\1/p')
    [ "$verdict" = PASS ] && reason=pass
    [ "$verdict" ] || { reason="none, status $status" && tail -n 5 "$tmp/out"; }
}

ruled() { # NAME EXPECTED
    case ",$2," in *",$reason,"*) ok=ok ;; *) ok=NOT bad=$((bad + 1)) ;; esac
    printf '%-4s %-20s expected %-18s got %s\n' $ok "$1" "$2" "${verdict:-no verdict} $reason"
    [ $ok = ok ] || tail -n 3 "$tmp/out"
}

n=0 copies=0
while read -r name challenge expected substitution; do
    case $name in '' | '#'*) continue ;; esac
    wanted "$name" "$challenge" || continue
    [ "$substitution" = - ] && copies=0 || copies=$((copies + 1))
    [ "$timing" ] && [ ! "${TOUCHSTONE_ALL-}" ] && [ "$copies" -gt 2 ] && continue
    lay "$name" "$challenge" "$substitution"
    echo "$name $expected $substitution" >>"$tmp/laid"
done <$from/expect.txt
PATH=$PATH:/usr/local/cuda/bin
if [ -e "$tmp/objects" ]; then
    xargs -P "$(nproc)" -L 1 "${TOUCHSTONE_NVCC-nvcc}" -shared -arch=native -std=c++17 -O3 -w -Iinclude -Xcompiler -fPIC \
        <"$tmp/objects" || complain 'an object could not be built'
fi
[ ! -e "$tmp/laid" ] || while read -r name expected substitution; do
    n=$((n + 1))
    rm -f "$tmp/log"
    # A right entrant is timed too.
    if [ "$substitution" = - ]; then judge ${timing:+"$timing"} "$tmp/$name"; else judge --no-timing "$tmp/$name"; fi
    ruled "$name" "$expected"
done <"$tmp/laid"

# Classes that cannot play a script are told so.
refused() { # NAME CLASS LANGUAGE SOURCE MORE
    wanted "$1" kv_cache || return 0
    n=$((n + 1))
    mkdir "$tmp/$1" && printf '%s\n' "$4" >"$tmp/$1/$1.$3"
    [ "$3" = cu ] && language=cuda || language=python
    printf '{"name":"%s","author":"obvious","challenge":"kv_cache","class":"%s","language":"%s","sources":["%s"]%s}' \
        "$1" "$2" "$language" "$1.$3" "$5" >"$tmp/$1/entry.json"
    rm -f "$tmp/log"
    judge --no-timing "$tmp/$1"
    ruled "$1" class
}
refused sealed_kv sealed-gpu cu 'extern "C" __global__ void f(void) {}' ", $(cat proof/exploit/gpu/launch.json)"
refused python_kv python-gpu py 'class kv_cache: pass' ''
if [ ! "$timing" ]; then
    for challenge in $(awk '$4 == "-" { print $2 }' $from/expect.txt); do
        wanted "touchstone/$challenge" "$challenge" || continue
        n=$((n + 1))
        rm -f "$tmp/log"
        judge --challenge "$challenge" touchstone
        ruled "touchstone/$challenge" pass
    done
fi
echo "gpu_script: $n entrants, $bad unexpected"
[ "$bad" = 0 ] && [ "$n" -gt 0 ]
