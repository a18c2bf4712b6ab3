#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu_mutant.sh BUILD [TASK [NAME...]] - judges every CUDA mutant, or those of a task, or some of it, as a third-party
# shared library with host code, at depth normal; and each task's control, which must pass.
#
# Prints each verdict as it comes. Needs nvcc and a device.
set -eu
. "$(dirname "$0")/lib.sh"
PATH=$PATH:/usr/local/cuda/bin
only=${2-}
[ $# -lt 2 ] || shift
shift
"$build/touchstone" list mutants >"$tmp/all"
# TASK NAME FAULT; the fault of a control is `nothing`.
awk -v only="$only" -v names="$*" '
    BEGIN { k = split(names, asked, " "); for (i = 1; i <= k; i++) wanted[asked[i]] = 1 }
    $2 ~ /^cuda_/ && (only == "" || $1 == only) {
        sub("cuda_", "", $2)
        if (!k || $2 in wanted || $3 == "nothing") print $1, $2, $3
        there[$2] = n = 1
    }
    END {
        for (i = 1; i <= k; i++) if (!(asked[i] in there)) n = 0
        exit !n
    }' "$tmp/all" >"$tmp/list" || fail "got ${only:-any task} $*; expected the task and names of CUDA mutants (touchstone list mutants)"

of_task() { # TASK - sets what its mutants are called in their source: $stem, $source, $header
    case $1 in
    softmax_topk) stem=softmax_topk source=softmax_topk_cuda header=softmax_topk ;;
    flash_attention) stem=attention source=attention_cuda header=attention ;;
    flash_attention_backward) stem=attention_backward source=attention_cuda header=attention ;;
    *) fail "$1 has CUDA mutants; of_task must say where they are" ;;
    esac
}
lay() { # NAME - of $task
    to=$tmp/$task/$1
    mkdir -p "$to"
    printf '#include "touchstone/%s.h"
ts_status ts_mutant_%s_%s(const void *a, const ts_exec *x);
ts_status ts_%s(const ts_%s_args *a, const ts_exec *x) { return ts_mutant_%s_%s(a, x); }
' "$header" "$stem" "$1" "$task" "$task" "$stem" "$1" >"$tmp/$task.$1.c"
    cc -std=c11 -O2 -fPIC -Iinclude -c "$tmp/$task.$1.c" -o "$tmp/$task.$1.o"
    nvcc -arch=native -shared -cudart static -Xlinker --no-undefined "$tmp/$task.$1.o" "$tmp/$source.o" -o "$to/mutant.so"
    printf '{"name":"%s","author":"a mutant","challenge":"%s","class":"host-gpu","language":"binary","sources":["mutant.so"]}' \
        "$1" "$task" >"$to/entry.json"
}

# A mutant must be rejected for a wrong result, not because it cannot be built, loaded or timed.
for task in $(cut -d ' ' -f 1 "$tmp/list" | uniq); do
    of_task "$task"
    [ -e "$tmp/$source.o" ] || nvcc -O2 -std=c++17 -arch=native -Iinclude -Ibase -Xcompiler=-fPIC -c "proof/mutant/$source.cu" -o "$tmp/$source.o"
    grep "^$task " "$tmp/list" | awk '{ print $2, "host-gpu", $3 == "nothing" ? "pass" : "rejected,common" }' \
        >"$tmp/$task.expected"
    laying=
    while read -r name _; do lay "$name" & laying="$laying $!"; done <"$tmp/$task.expected"
    for one in $laying; do wait "$one" || fail "a mutant of $task could not be built"; done
    python3 test/gpu_follow.py --untimed --before "$task." "$tmp/$task.expected" "$tmp/$task.log" "$build/touchstone" judge --device cuda \
        --depth normal --no-timing --first --log "$tmp/$task.log" "$tmp/$task" || bad=1
done
[ $bad = 0 ]
