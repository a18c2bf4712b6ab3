#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cuda.sh test|bench - what needs a GPU. Whether there is one is not asked of the program under test.
set -u
cd "$(dirname "$0")/.."
if ! nvidia-smi -L 2>/dev/null | grep -q GPU && [ ! -e /dev/nvidia0 ]; then
    echo 'skipped: no CUDA device'
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi
[ "$1" = bench ] && exec build/touchstone bench --device cuda --peers torch,torch.lse,torch.compile

passed=0 failed=0 skipped=0
step() { # NAME COMMAND...
    name=$1
    shift
    echo "== $name"
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "failed: $name"; fi
}
step check build/touchstone check --device cuda
# The mutants are no concern of the sanitizers: some would be reported for what they are.
for tool in memcheck racecheck; do
    if command -v compute-sanitizer >/dev/null; then
        step $tool compute-sanitizer --tool $tool --error-exitcode 1 --target-processes all \
            build/touchstone check --device cuda --small --no-mutants --seed 0x5eed
    else
        echo "skipped: $tool: no compute-sanitizer"
        skipped=$((skipped + 1))
    fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
