#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mutant.sh BUILD [TASKS [NAMES]] - judges every CPU mutant, or those whose task and name match the
# patterns, as a third-party shared library: at depth normal, and survivors at depth full.
#
# Prints a table: per task, how many were rejected, break only a rule of the canon (PASS (common),
# here COMMON), fail only robustness checks, or were not detected; and the controls. Fails if a
# control fails, or if a mutant was not detected and is not on the list of known ones.
set -eu
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
includes=$(printf ' -I%s' include base judge/script judge/arena judge/task judge/task/*/ proof/mutant)
# Mutants that the judge does not detect; doc/judge.md explains why.
known='softmax_topk/refuses_f16 flash_attention/refuses_f64 flash_attention_backward/refuses_f64'

lay() { # TASK NAME
    to=$work/all/$1.$2
    mkdir -p "$to"
    entry=test/mutant_entrant.c
    case $1 in
    kv_cache) entry=test/mutant_entrant_kv.c ;;
    beam_search) entry=test/mutant_entrant_beam.c ;;
    tree_verify) entry=test/mutant_entrant_tree.c ;;
    ternary_*) entry=test/mutant_entrant_ternary.c ;;
    esac
    cc -std=c11 -Wall -Wextra -Werror -O2 -s -shared -fPIC -fvisibility=hidden -Wl,--no-undefined \
        "-DTASK=$1" "-DMUTANT=$2" $includes $entry \
        "$build/libmutant_entrant.a" -lm -ldl -lpthread -o "$to/mutant.so"
    printf '{"name":"%s","author":"a mutant","challenge":"%s","class":"host","language":"binary","sources":["mutant.so"]}' \
        "$2" "$1" >"$to/entry.json"
}

pick() { # FOLDER - selects those whose task and name are on standard input
    mkdir -p "$work/$1"
    while read -r of who; do cp -R "$work/all/$of.$who" "$work/$1"; done
}

# gate DEPTH FOLDER - writes a line per mutant to $work/verdicts: task, name, depth, verdict,
# reason, case. Without timing: timing the mutants that passed would take long and show little.
gate() {
    rm -f "$work/log"
    "$build/touchstone" judge --depth "$1" --no-timing --first --log "$work/log" "$work/$2" >"$work/out" 2>"$work/err" ||
        [ $? = 1 ] || { cat "$work/err" && exit 1; }
    awk -v depth="$1" '
        function text(key) {
            if (!match($0, "\"" key "\":\"[^\"]+\"")) return "-"
            return substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 5)
        }
        function number(key) {
            match($0, "\"" key "\":[0-9]+")
            return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
        }
        /"type":"entrant"/ { who[number("id")] = text("task") " " text("name") }
        /"type":"verdict"/ {
            verdict = text("verdict") == "PASS (common)" ? "COMMON" : text("verdict")
            ruled[number("entrant")] = verdict " " text("reason") " " text("case")
        }
        END {
            for (id in who) print who[id], depth, (id in ruled ? ruled[id] : "MISSING - -")
        }' "$work/log" >>"$work/verdicts"
}

survivors() { # FAULTS TASKS - mutants that passed at depth normal
    awk -v faults="$1" -v tasks="$2" '
        FNR == NR { fault[$1 $2] = $3; next }
        $3 == "normal" && $4 == "PASS" && fault[$1 $2] ~ faults && $1 ~ tasks { print $1, $2 }' \
        "$work/list" "$work/verdicts"
}

"$build/touchstone" list challenges >"$work/challenges"
"$build/touchstone" list mutants | awk -v tasks="${2:-.}" -v names="${3:-.}" '
    FNR == NR { judged[$1] = 1; next }
    judged[$1] && $1 ~ tasks && $2 ~ names && $2 !~ /^cuda_/ { print $1, $2, $3 }' "$work/challenges" - >"$work/list"
while read -r task name _; do lay "$task" "$name"; done <"$work/list"
gate normal all
survivors '^[^rn]' . | pick full
[ -z "$(ls "$work/full")" ] || gate full full

# Robustness checks (invalid calls, repeatability, threads) do not decide: one case of many rows
# shows whether they fail. The scoreboard truncates long names, so entrants are identified by
# number. Writes a line per mutant to $work/robust: task, name, checks passed and run.
: >"$work/robust"
for task in layernorm_forward layernorm_backward softmax_topk kv_cache flash_attention flash_attention_backward \
    beam_search tree_verify ternary_linear ternary_training rms_norm_forward rms_norm_backward \
    cross_entropy cross_entropy_logits; do
    survivors . "^$task$" >"$work/odd"
    pick "odd-$task" <"$work/odd"
    n=0
    while read -r _ name; do
        n=$((n + 1))
        sed -i "s/\"name\":\"[^\"]*\"/\"name\":\"$n\"/" "$work/odd-$task/$task.$name/entry.json"
    done <"$work/odd"
    case=$("$build/touchstone" list cases | grep -o "$task/f32/\(rows=257\|seqs=5,len=129\|q=128,k=128\|items=17\|nodes=60\|out=65\|vocab=11,width=8,layers=1,heads=2,kv_heads=1,head_dim=4,batch=3,tokens=9\)[,/].*" | tail -n 1)
    "$build/touchstone" judge --case "$case" "$work/odd-$task" 2>/dev/null |
        awk -v task="$task" '
            FNR == NR { name[FNR] = $2; next }
            $1 == task { on = 1 }
            on && $4 == "PASS" { sub("/", " ", $(NF - 2)); print task, name[$2], $(NF - 2) }' "$work/odd" - >>"$work/robust"
done

# Controls and survivors run with timing, since timed outputs are checked too.
{
    awk '$3 == "nothing" { print $1, $2 }' "$work/list"
    awk '$3 == "full" && $4 == "PASS" { print $1, $2 }' "$work/verdicts"
} | pick last
"$build/touchstone" judge --depth normal --log "$work/log" --json "$work/json" "$work/last" >"$work/out" 2>"$work/err" || true
awk -F '"' '
    /^ *"(name|task|verdict|reason|case)":/ { v[$2] = $4 == "" ? "-" : $4 }
    /^ *"verdict":/ && $4 == "PASS (common)" { v["verdict"] = "COMMON" }
    /^ *"case":/ { print v["task"], v["name"], "timed", v["verdict"], v["reason"], v["case"] }' "$work/json" >>"$work/verdicts"

awk -v known="$known" '
    FILENAME ~ /list$/ { fault[$1 " " $2] = $3; next }
    FILENAME ~ /robust$/ {
        less[$1 " " $2] = $3 + 0 < $4 + 0
        cells[$1 " " $2] = $3 "/" $4
        next
    }
    { last[$1 " " $2] = $3; verdict[$1 " " $2] = sprintf("%-6s %-5s %-9s %s", $3, $4, $5, $6); killed[$1 " " $2] = $4 ~ /^(FAIL|AUDIT)$/; canon[$1 " " $2] = $4 == "COMMON" }
    END {
        for (m in fault) {
            split(m, part, " ")
            t = part[1]
            if (fault[m] == "nothing") {
                controls++
                right += !killed[m] && !canon[m] && !less[m]
                continue
            }
            all[t]++
            normal[t] += killed[m] && last[m] == "normal"
            full[t] += killed[m] && last[m] == "full"
            timed[t] += killed[m] && last[m] == "timed"
            note = ""
            if (canon[m]) {
                common[t]++
                note = "canon"
            } else if (!killed[m] && less[m]) {
                seen[t]++
                note = "robust " cells[m]
            } else if (!killed[m]) {
                unseen[t]++
                note = index(" " known " ", " " t "/" part[2] " ") ? "known" : "NOT KNOWN"
                bad += note != "known"
            }
            printf "%-31s %-18s %-9s %s %s\n", part[2], t, fault[m], verdict[m], note | "sort -k 2b,2 -k 1,1"
        }
        close("sort -k 2b,2 -k 1,1")
        for (t in all)
            printf "%s: of %d mutants %d rejected (%d at depth normal, %d more at full, %d in timed calls), %d break the canon alone, %d seen in robustness, %d unseen\n", t, all[t], normal[t] + full[t] + timed[t], normal[t], full[t], timed[t], common[t], seen[t], unseen[t]
        printf "controls: %d of %d pass\n", right, controls
        exit bad > 0 || right < controls
    }' "$work/list" "$work/robust" "$work/verdicts"
