#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cli_run.sh BUILD - tests demos, check and bench from outside: their output, and that it depends on
# the seed only.
. "$(dirname "$0")/program.sh"

demos='flash gqa paged cage prefix' plots='flash paged cage'
if [ -f "$build/libmodel.a" ]; then
    demos="$demos cache ragged chunked quantised sampling beam tree" plots="$plots cache chunked quantised sampling beam tree"
    export TOUCHSTONE_MODEL= # random weights, which every machine has and which are small
    run 0 demo quantised; silent; shows 'random weights'
else
    run 2 demo quantised; refused
fi
run 0 demo --help; silent
for demo in $demos; do shows "^  $demo "; done
run 3 demo paged --svg "$tmp/no/such/folder"; [ "$(wc -l <"$tmp/err")" = 1 ] || complain 'no line on standard error'

if [ -x "$build/test/json_get" ]; then
    for demo in $demos; do
        svg=
        case " $plots " in *" $demo "*) svg="--svg $tmp/$demo.svg" ;; esac
        run 0 demo $demo --seed 7 $svg --json -; silent
        json demo seed rows.0 rows.1 && json passed && [ "$(cat "$tmp/values")" = true ] || complain 'not passed'
    done
    for demo in $plots; do
        args="demo $demo --svg"
        grep -q '</svg>' "$tmp/$demo.svg" || complain 'no plot'
        ! grep -qiE 'nan|inf' "$tmp/$demo.svg" || complain 'a plot with what is no number'
    done
    for demo in paged quantised beam tree; do # no times in it: the seed says it all
        case " $demos " in *" $demo "*) ;; *) continue ;; esac
        run 0 demo $demo --seed 7 --json -; cp "$tmp/out" "$tmp/seven"
        run 0 demo $demo --seed 7 --json -; cmp -s "$tmp/out" "$tmp/seven" || complain 'the same seed, and other numbers'
        run 0 demo $demo --seed 8 --json -; json rows; cp "$tmp/values" "$tmp/eight"
        cp "$tmp/seven" "$tmp/out"; json rows; ! cmp -s "$tmp/values" "$tmp/eight" || complain 'another seed, and the same numbers'
    done
    run 0 check --task layernorm_forward --small --seed 7 --json - # all the rest is in the test `check`
    if json cases passed failed skipped; then
        set -- $(cat "$tmp/values")
        [ "$1" -gt 0 ] && [ "$2" -gt 0 ] && [ "$3" = 0 ] || complain "cases $1, passed $2, failed $3"
    fi
    run 0 check --only-mutants --task tree_verify --json -
    if json mutants.total mutants.rejected; then
        set -- $(cat "$tmp/values")
        [ "$1" -gt 0 ] && [ "$2" = "$1" ] || complain "$1 mutants, $2 rejected"
    fi
    run 0 bench --task layernorm_forward --case f32/rows=8192,cols=768 --rounds 1 --json -
    if json machine ceilings.copy ceilings.read rows.0.task rows.0.impl rows.0.case rows.0.time_ns \
        rows.0.spread rows.0.gbs rows.0.floor_fraction rows.0.verified; then
        [ "$(tail -n 1 "$tmp/values")" = true ] || complain 'its first row is not verified'
    fi
    run 0 bench --task softmax_topk --case f32/rows=1,vocab=128256,k=10, --rounds 1 --json -
    if json rows.0.floor_fraction rows.0.read_gbs rows.0.verified rows.0.ceiling; then
        [ "$(tail -n 1 "$tmp/values")" = '"read"' ] || complain 'is not measured against reading'
    fi
fi
verdict
