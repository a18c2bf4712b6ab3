#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mutant_seeds.sh BUILD TASK this|that [SEEDS] - runs mutants of a task with each of SEEDS (20)
# seeds, one per run; a seed means itself and the next.
#
# Prints a line per mutant that some seed misses; fails if there is one.
set -eu
n=${4:-20}
missed=0
seed=2
while [ "$seed" -le $((2 * n)) ]; do
    "$1/touchstone" check --only-mutants --task "$2" --impl "$3" --seed "$seed" >"${TMPDIR:-/tmp}/seeds.$$" || missed=$((missed + 1))
    grep '^FAIL' "${TMPDIR:-/tmp}/seeds.$$" | sed "s/^/seed $seed: /" || true
    tail -n 2 "${TMPDIR:-/tmp}/seeds.$$" | grep '^mutants' | grep -v ' 0 of 0 ' >"${TMPDIR:-/tmp}/last.$$" || missed=$((missed + 1))
    seed=$((seed + 2))
done
echo "$2: $(cat "${TMPDIR:-/tmp}/last.$$"), $((n - missed)) of $n seeds"
rm -f "${TMPDIR:-/tmp}/seeds.$$" "${TMPDIR:-/tmp}/last.$$"
[ "$missed" = 0 ]
