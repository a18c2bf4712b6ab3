#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - runs `make test`: three builds, their tests, one total.
set -u
cd "$(dirname "$0")/.."
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# suite NAME FOLDER "CTEST ARGUMENTS" CMAKE-ARGUMENT...
suite() {
    local name=$1 folder=$2 select=$3
    shift 3
    echo "== $name"
    if ! { cmake -S . -B "$folder" -G Ninja "$@" && cmake --build "$folder"; } >"$log" 2>&1; then
        cat "$log"
        echo "failed: the $name build"
        failed=$((failed + 1))
        return
    fi
    ctest --test-dir "$folder" -j2 --no-tests=error --output-on-failure $select 2>&1 | tee "$log"
    local n p s
    n=$(ctest --test-dir "$folder" -N $select | sed -n 's/^Total Tests: //p')
    p=$(grep -c '^ *[0-9]*/[0-9]* Test .* Passed ' "$log")
    s=$(grep -c '^ *[0-9]*/[0-9]* Test .*\*\*\*Skipped ' "$log")
    [ "${n:-0}" -gt 0 ] || n=$((p + s + 1)) # a suite without tests is a failure
    passed=$((passed + p)) skipped=$((skipped + s)) failed=$((failed + n - p - s))
}
skip() {
    echo "== $1"
    echo "skipped: $2"
    skipped=$((skipped + 1))
}
openmp() { echo 'int main(void) { return 0; }' | "$@" -fopenmp -x c - -o /dev/null 2>/dev/null; }

suite gcc build '-E ^check_small$' -DTS_CUDA=AUTO # without a GPU: cuda_build.sh compiles it
# One in three of the small cases, a different selection each time: the gcc build runs others. Cages and simulated matches do not depend on the
# compiler.
if openmp clang; then
    suite clang build-clang '-R ^(unit_|check_small) -E ^unit_(block|board|build|cage|run|draw|fact|gpu|hostile|plan_decode)$' -DCMAKE_C_COMPILER=clang -DTS_CUDA=OFF
else
    skip clang 'no clang with OpenMP'
fi
# Unit tests and the command line: the rest would take minutes. Times are meaningless here, and
# cages are built without sanitizers. The draw of cases, half a minute here, reads no input.
if openmp cc -fsanitize=address,undefined; then
    export TOUCHSTONE_LEAKS=$(($(date +%s) % 4)) # read on aarch64 only: see leaks.sh
    echo "TOUCHSTONE_LEAKS=$TOUCHSTONE_LEAKS"
    suite sanitize build-sanitize '-R ^(unit_|cli$) -E ^unit_(block|board|build|draw|gpu|hostile|plan_decode)$' -DTS_SANITIZE=ON -DTS_CUDA=OFF
else
    skip sanitize 'no compiler with sanitizers and OpenMP'
fi
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
