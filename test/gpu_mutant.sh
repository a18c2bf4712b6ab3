#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu_mutant.sh BUILD [NAME] - judges every CUDA mutant, or one, as a third-party shared library
# with host code, at depth normal; and the control, which must pass. Needs nvcc and a device.
set -eu
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
work=$(mktemp -d)
judge=
trap 'rm -rf "$work"; [ -z "$judge" ] || kill "$judge"' EXIT
trap 'exit 1' INT TERM
nvcc="nvcc -O2 -std=c++17 -arch=sm_90 -Iinclude -Ibase -Xcompiler=-fPIC"
$nvcc -c proof/mutant/softmax_topk_cuda.cu -o "$work/all.o"

lay() { # NAME
    mkdir -p "$work/all/$1"
    printf '#include "touchstone/softmax_topk.h"
ts_status ts_mutant_softmax_topk_%s(const void *a, const ts_exec *x);
ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x) { return ts_mutant_softmax_topk_%s(a, x); }
' "$1" "$1" >"$work/$1.c"
    cc -std=c11 -O2 -fPIC -Iinclude -c "$work/$1.c" -o "$work/$1.o"
    nvcc -arch=sm_90 -shared -cudart static "$work/$1.o" "$work/all.o" -o "$work/all/$1/mutant.so"
    printf '{"name":"%s","author":"a mutant","challenge":"softmax_topk","class":"host-gpu","language":"binary","sources":["mutant.so"]}' \
        "$1" >"$work/all/$1/entry.json"
}
"$build/touchstone" list mutants | awk -v one="${2-}" '
    $1 == "softmax_topk" && $2 ~ /^cuda_/ { sub("cuda_", "", $2); if (one == "" || $2 == one || $2 == "control") print $2, $3 }' >"$work/list"
while read -r name _; do lay "$name" & done <"$work/list"
wait
# Timing shows nothing more here: so the judge is stopped at the last entrant, which is invalid.
mkdir "$work/end"
echo '{}' >"$work/end/entry.json"
"$build/touchstone" judge --device cuda --depth normal --log "$work/log" "$work/all" "$work/end" >"$work/out" 2>"$work/err" &
judge=$!
until grep -q '^end ' "$work/err"; do
    kill -0 "$judge" 2>/dev/null || { cat "$work/err" && exit 1; }
    sleep 1
done
kill "$judge" 2>/dev/null || true
wait "$judge" 2>/dev/null || true
judge=
awk '
    function text(key) {
        if (!match($0, "\"" key "\":\"[^\"]+\"")) return "-"
        return substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 5)
    }
    function number(key) {
        match($0, "\"" key "\":[0-9]+")
        return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
    }
    FNR == NR { fault[$1] = $2; next }
    /"type":"entrant"/ { who[number("id")] = text("name") }
    /"type":"verdict"/ { ruled[who[number("entrant")]] = text("verdict") " " text("reason") " " text("case") }
    END {
        for (m in fault) {
            got = m in ruled ? ruled[m] : "PASS - -"
            right = fault[m] == "nothing:" ? got ~ /^PASS/ : got ~ /^FAIL/
            if (fault[m] != "nothing:") { all++; killed += right }
            bad += !right
            printf "%s %-28s %-10s %s\n", right ? "ok  " : "NOT ", m, fault[m], got | "sort -k 2"
        }
        close("sort -k 2")
        printf "gpu_mutant: %d of %d rejected; control %s\n", killed, all, "control" in ruled ? "rejected" : "passed"
        exit bad > 0
    }' "$work/list" "$work/log"
