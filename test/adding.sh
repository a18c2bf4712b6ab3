#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# adding.sh BUILD - adds two challenges to a copy of the tree as described in
# doc/adding-a-kernel.md, a plain one and one with a script.
#
# They are the files of adding/, and one line each in judge/script/challenges.h. Then checks both, with
# mutants, and judges them.
set -eu
. "$(dirname "$0")/lib.sh"
cached() { sed -n "s|^$1:[A-Z]*=||p" "$build/CMakeCache.txt"; }
if [ "$(cached CMAKE_GENERATOR)" != Ninja ]; then echo 'skipped: not built by Ninja' && exit 77; fi

tree=$tmp/tree
mkdir "$tree"
tar --exclude=./build* --exclude=./.git --exclude=./share --exclude=./doc -cf - . | tar -xf - -C "$tree"
: >"$tree/test/CMakeLists.txt" # none of its tests is built

for kind in plain script; do
    for file in $(cd "test/adding/$kind" && find . -type f | sort); do
        [ ! -e "$tree/$file" ] || fail "$file exists already"
        mkdir -p "$tree/$(dirname "$file")"
        cp "test/adding/$kind/$file" "$tree/$file"
        echo "wrote $kind ${file#./}, $(wc -l <"$tree/$file") lines"
    done
done
list=judge/script/challenges.h
for line in 'PLAIN(scale_rows)' 'SCRIPT(tally)'; do
    sed -i "/^#define TS_CHALLENGES/a\\    $line \\\\" "$tree/$list"
    echo "edited $list: $line"
done
[ "$(diff $list "$tree/$list" | grep -c '^[<>]')" = 2 ] || fail "$list: not two lines"

# Only files that depend on the list, and the new files, are compiled; other objects come from the
# build.
"$(cached CMAKE_MAKE_PROGRAM)" -C "$build" -t deps |
    awk -v list="$list" '/^[^ ]/ { object = $1; sub(/:$/, "", object) } index($1, list) { print object }' >"$tmp/changed"
[ -s "$tmp/changed" ] || fail "no object depends on $list"
cat >"$tmp/reuse" <<'END'
#!/bin/sh
build=$1 changed=$2
shift 2
object= deps= previous=
for word; do
    case $previous in -o) object=$word ;; -MF) deps=$word ;; esac
    previous=$word
done
if [ -z "$deps" ] || [ ! -f "$build/$object" ] || grep -qxF "$object" "$changed"; then exec "$@"; fi
cp "$build/$object" "$object" && echo "$object:" >"$deps"
END
chmod +x "$tmp/reuse"
set -- -DTS_CUDA=OFF "-DCMAKE_C_COMPILER_LAUNCHER=$tmp/reuse;$build;$tmp/changed"
for option in CMAKE_BUILD_TYPE CMAKE_C_COMPILER TS_ISA TS_MPI TS_SANITIZE; do set -- "$@" "-D$option=$(cached $option)"; done
cmake -S "$tree" -B "$tree/build" -G Ninja "$@" >"$tmp/out" 2>&1 || fail "cmake: $(tail -n 5 "$tmp/out")"
cmake --build "$tree/build" --target touchstone runner touchstone-cage touchstone-reader touchstone-player touchstone-probe >"$tmp/out" 2>&1 ||
    fail "build: $(grep -A 5 'error\|FAILED' "$tmp/out" | head -n 20)"

run() { # STATUS ARGUMENT... : output in $tmp/out
    want=$1 got=0
    shift
    "$tree/build/touchstone" "$@" >"$tmp/out" 2>&1 </dev/null || got=$?
    [ $got = "$want" ] || fail "$*: exit status $got, expected $want: $(tail -n 20 "$tmp/out")"
}
says() { grep -q "$1" "$tmp/out" || fail "'$1' is not in: $(cat "$tmp/out")"; }
run 0 list arguments
says '^scale_rows  *s  *input, 1 axis, reals'
python=$(test/python.sh || true)
[ -z "$python" ] || export TOUCHSTONE_PYTHON="$python"
for task in scale_rows tally; do
    run 0 check --task $task
    says "^$task  *ref  *[1-9][0-9]* passed  *0 failed"
    echo "check --task $task: $(tail -n 1 "$tmp/out")"
    run 0 check --only-mutants --task $task
    echo "check --only-mutants --task $task: $(grep -m 1 'mutants' "$tmp/out")"
done
right=$(ls test/adding/entrant/*.c ${python:+test/adding/entrant/*.py})
run 0 judge --depth quick --no-timing --log "$tmp/log" $right
[ "$(grep -cE ' (sealed|host|python)  *PASS ' "$tmp/out")" = "$(echo "$right" | wc -l)" ] || fail "$(cat "$tmp/out")"
echo "judge" $right: PASS
sed 's/= s\[r\] \*/= 1.001f * s[r] */' test/adding/entrant/scale_rows.c >"$tmp/scale_rows.c"
sed 's/t->sum += /t->sum = /' test/adding/entrant/tally.c >"$tmp/tally.c"
for task in scale_rows tally; do
    ! cmp -s "$tmp/$task.c" "test/adding/entrant/$task.c" || fail "nothing was planted in $task.c"
done
run 1 judge --depth quick --no-timing --log "$tmp/log" "$tmp/scale_rows.c" "$tmp/tally.c"
[ "$(grep -cE ' (sealed|host)  *FAIL value' "$tmp/out")" = 2 ] || fail "$(cat "$tmp/out")"
echo 'judge, each with a bug: FAIL value'
[ -n "$python" ] || exit 0
sed 's/self.n += len(x)/self.n += 1/' test/adding/entrant/tally.py >"$tmp/wrong.py"
sed 's/return self.sum .*/return self.none/' test/adding/entrant/tally.py >"$tmp/raises.py"
run 1 judge --depth quick --no-timing --log "$tmp/log" "$tmp/wrong.py" "$tmp/raises.py"
says 'wrong  *python  *FAIL value'
says 'raises  *python  *FAIL status'
says "AttributeError: 'tally' object has no attribute 'none' at raises.py:"
echo 'judge, in Python: FAIL value, FAIL status'
