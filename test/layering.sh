#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# layering.sh BUILD symbols|includes - tests the include lists of doc/architecture.md, and that
# libraries use no symbol from a higher layer.
#
# Layers: include <- base <- kernel <- model <- train and serve, and include <- base <- arena <-
# task <- exam <- judge <- selfcheck and report. The cage uses nothing of judge/. Neither judge nor
# program uses anything of the reader, which parses the text of entrants. Each half first proves
# that it can fail.
set -eu
cd "$(dirname "$0")/.."
build=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "layering: $*" >&2 && exit 1; }

base=$(echo "$build"/CMakeFiles/touchstone_base.dir/base/*.o "$build"/CMakeFiles/touchstone_base.dir/base/isa/*/*.o)
real=$build/CMakeFiles/touchstone_base.dir/base/real/real.c.o
base="$base $real"
mutant=$(echo "$build"/CMakeFiles/mutant.dir/proof/mutant/*.o)
script=$(find "$build/CMakeFiles/script.dir" -name '*.o')
arena=$build/libarena.a
task=$build/libtask.a
exam=$build/libexam.a
protocol=$build/libprotocol.a
judge=$build/libjudge.a
selfcheck=$build/libselfcheck.a
report=$build/libreport.a
reader=$build/libreader.a
gpu=$build/libgpu.a
kernel=$(echo "$build"/CMakeFiles/touchstone_kernel.dir/kernel/*/*.o)
model=$build/libmodel.a train=$build/libtrain.a serve=$build/libserve.a # if their libraries were built
plan=$build/libplan.a gguf=$build/libgguf.a

# foreign "USERS" "PROVIDERS": ts_ symbols that the users need and no provider defines
foreign() {
    nm -g --defined-only $2 | awk 'NF == 3 { print $3 }' | sort -u >"$tmp/defined"
    nm -u $1 | awk '$1 == "U" && $2 ~ /^ts_/ { print $2 }' | sort -u >"$tmp/used"
    comm -23 "$tmp/used" "$tmp/defined"
}
closed() { # NAME "USERS" "PROVIDERS"
    [ -z "$(foreign "$2" "$3")" ] || fail "$1 reaches for: $(foreign "$2" "$3" | tr '\n' ' ')"
    echo "$1: $(wc -l <"$tmp/used") ts_ symbols used, all from below"
}
symbols() {
    echo '#include "touchstone/layernorm.h"
ts_status planted(void); ts_status planted(void) { return ts_layernorm_forward(0, 0); }' |
        cc -x c -std=c11 -Iinclude -c - -o "$tmp/planted.o"
    [ "$(foreign "$tmp/planted.o" "$arena $task $exam $protocol $judge $base")" = ts_layernorm_forward ] ||
        fail 'a planted reference to a kernel was not seen'
    echo 'void ts_scrub(void); void planted(void); void planted(void) { ts_scrub(); }' | cc -x c -std=c11 -c - -o "$tmp/planted.o"
    [ "$(foreign "$tmp/planted.o" "$arena $task $exam $gpu $protocol $judge $selfcheck $report $base")" = ts_scrub ] ||
        fail 'a planted reference to a parser of the reader was not seen'
    closed base "$base" "$base"
    closed kernel "$kernel" "$kernel $base"
    [ ! -f "$model" ] || closed model "$model" "$model $gguf $kernel $base"
    [ ! -f "$train" ] || closed train "$train" "$train $model $gguf $kernel $base"
    [ ! -f "$serve" ] || closed serve "$serve" "$serve $model $gguf $kernel $base"
    closed gguf "$gguf" "$gguf"
    closed plan "$plan" "$plan $gguf $base"
    closed real "$real" "$real"
    closed script "$script" "$script $real"
    closed arena "$arena" "$arena $base"
    closed task "$task" "$task $arena $base"
    closed exam "$exam" "$exam $task $arena $base"
    closed gpu "$gpu" "$gpu"
    closed protocol "$protocol" "$protocol $base"
    closed judge "$judge" "$arena $task $exam $gpu $protocol $judge $base"
    closed reader "$reader" "$reader $judge $gpu $base"
    nm -g --defined-only "$reader" | awk 'NF == 3 && $3 ~ /^ts_/ { print $3 }' | sort -u >"$tmp/parsers"
    [ "$(wc -l <"$tmp/parsers")" -gt 5 ] || fail "the reader has $(wc -l <"$tmp/parsers") functions"
    nm "$build/touchstone" | awk '{ print $3 }' | sort -u >"$tmp/program"
    grep -qx ts_entrant_read "$tmp/program" || fail 'nm saw no functions of the program'
    comm -12 "$tmp/program" "$tmp/parsers" >"$tmp/both"
    [ ! -s "$tmp/both" ] || fail "the program has parsers of the reader: $(tr '\n' ' ' <"$tmp/both")"
    closed selfcheck "$selfcheck" "$arena $task $exam $gpu $protocol $judge $selfcheck $base"
    closed report "$report" "$judge $report $base"
    closed mutant "$mutant" "$mutant $task $arena $base"
    [ "$(wc -l <"$tmp/used")" -gt 0 ] || fail 'nm saw no symbols at all'
}

# compiles FOLDER HEADER: whether a file that includes HEADER compiles with FOLDER's include list
compiles() {
    flags=$(sed -n "s|^ *\"command\": \"\(.* -c $PWD/$1/[^ ]*\.c\)\".*|\1|p" "$build/compile_commands.json" |
        head -n 1 | tr ' ' '\n' | grep '^-I')
    [ -n "$flags" ] || fail "no include list for $1"
    echo "#include \"$2\"" | cc -x c -std=c11 $flags -fsyntax-only - 2>"$tmp/why"
}
may() { compiles "$1" "$2" || fail "$1 should see $2: $(cat "$tmp/why")"; }
must_not() {
    ! compiles "$1" "$2" || fail "$1 can include $2"
    grep -q "$2.*\(No such file\|not found\)" "$tmp/why" || fail "$1, $2: $(cat "$tmp/why")"
    echo "$1 cannot include $2"
}
# twins FOLDER: names that two headers share, which makes an include line ambiguous. base/isa/ has
# the same headers for every instruction set; one set counts.
twins() {
    find "$1" \( -name .git -o -path './build*' -o -path '*/base/isa/[!g]*' \) -prune -o \
        -type f \( -name '*.h' -o -name '*.cuh' \) -print | sed 's|.*/||' | sort | uniq -d
}
judged="judge/arena judge/task judge/exam judge/run judge/selfcheck judge/report"
includes() {
    mkdir "$tmp/one" "$tmp/two"
    touch "$tmp/one/twin.h" "$tmp/two/twin.h" "$tmp/two/other.h"
    [ "$(twins "$tmp")" = twin.h ] || fail 'two planted headers of one name were not seen'
    [ -z "$(twins .)" ] || fail "two headers have the name: $(twins . | tr '\n' ' ')"
    for folder in base kernel $judged proof/mutant; do may $folder touchstone/layernorm.h; done
    may judge/run task.h
    for header in allow.h call.h class.h kv_cache_script.h real.h; do may judge/cage $header; done
    may judge/script real.h
    for header in player.h kv_cache_script.h; do may python $header; done
    for header in task.h call.h dtype.h; do must_not python $header; done
    for folder in judge/task proof/mutant; do may $folder kv_cache_script.h; done
    for folder in base kernel; do must_not $folder kv_cache_script.h; done
    may proof/mutant plain/number.h
    must_not proof/mutant unit.h
    for header in task.h dtype.h; do must_not judge/script $header; done
    for folder in base $judged proof/mutant judge/cage; do must_not $folder layernorm_impl.h; done
    for header in task.h dtype.h arena.h cage_inside.h run.h; do must_not judge/cage $header; done
    for folder in base kernel judge/arena; do must_not $folder task.h; done
    for folder in base kernel judge/task judge/run model/plan; do must_not $folder decoder.h; done
    for folder in base kernel judge/task judge/run; do must_not $folder plan.h; done
    may model/plan touchstone/kv_cache.h
    for header in kv_cache_impl.h task.h tool.h; do must_not model/plan $header; done
    if [ -f "$model" ]; then
        may model/decode touchstone/kv_cache.h
        for header in layernorm_impl.h task.h tool.h train.h; do must_not model/decode $header; done
        for header in decoder.h ternary_training_layer.h; do may model/train $header; done
        must_not model/decode ternary_training_layer.h
        for header in layernorm_impl.h task.h tool.h server.h; do must_not model/train $header; done
        for header in train.h server.h; do must_not model/decode $header; done
        [ ! -f "$serve" ] || may model/serve decoder.h
        for header in layernorm_impl.h task.h tool.h train.h; do [ ! -f "$serve" ] || must_not model/serve $header; done
    fi
    for folder in base kernel judge/report; do must_not $folder arena.h; done
    ! grep -ln '"arena.h"' judge/task/*.[ch] judge/task/*/*.[ch] proof/mutant/*.[ch] | grep -v '^judge/task/setup.c$' || fail 'a task looks into the arena'
    for folder in judge/task judge/exam; do must_not $folder run.h; done
    for header in board.h selfcheck.h; do must_not judge/run $header; done
    for folder in judge/run judge/read judge/report tool; do
        for header in reader.h source.h markdown.h; do must_not $folder $header; done
    done
    for header in reading.h json.h launch.h; do may judge/reader $header; done
    for header in task.h arena.h run.h cage.h; do must_not judge/reader $header; done
    ! grep -rn '#include "\.\./' include base kernel model judge proof/mutant tool || fail 'a way around the list'
}
"$2"
