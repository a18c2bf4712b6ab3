#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh BUILD [SECONDS] - fuzz the log's reader with libFuzzer, address and undefined sanitizers, from
# logs that make_log writes. New inputs stay in BUILD/fuzz_log. Skipped without clang's libFuzzer.
set -eu
cd "$(dirname "$0")/.."
build=$1
seconds=${2:-10}
dir=$build/fuzz_log
mkdir -p "$dir/seed" "$dir/corpus"
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d && n > 9; }' |
    clang -fsanitize=fuzzer,address,undefined -x c - -o "$dir/probe" 2>/dev/null || {
    echo 'skipped: no clang with libFuzzer' && exit 77
}
flags='-std=c11 -g -O2 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Ijudge -Ireport -Ibase'
sources="judge/json_read.c judge/json_write.c judge/show.c judge/log.c report/board.c report/table.c report/page.c judge/score.c"
trusted="base/sha256.c $build/ts_page_html.c $build/ts_page_style.c $build/ts_page_script.c"
for f in $trusted; do # sanitizers would spend the time on hashes
    o="$dir/$(basename "$f" .c).o"
    objects="${objects-} $o"
    cc -O2 -Ibase -c "$f" -o "$o"
done
clang $flags test/fuzz_log.c $sources $objects -lm -o "$dir/fuzz"
for kind in full failures untimed empty; do
    rm -f "$dir/$kind.log"
    "$build/test/make_log" "$dir/$kind.log" $kind
    # bodies of records only, times cut short: the target chains them itself
    sed -E 's/^\{"seq":[0-9]+,"prev":"[0-9a-f]*",//; s/,"self":"[0-9a-f]*"\}$//; s/("ns":\[[^],]*,[^],]*)[^]]*\]/\1]/' \
        "$dir/$kind.log" >"$dir/seed/$kind"
    head -n 12 "$dir/seed/$kind" >"$dir/seed/$kind.head"
    head -n 3 "$dir/$kind.log" >"$dir/seed/$kind.raw"
done
awk '{ print >("'"$dir"'/seed/line" NR % 40) }' "$dir/seed/full"
for word in type run entrant verdict time match score rank reveal end seq prev self version machine guarantees badge commit \
    depth started id name author class language task source_sha256 family reason text case index got want bound replay \
    categories worst robustness robustness_text floor_ns ns time_ns lo_ns hi_ns fraction a b effect lo hi pairs S S_lo S_hi S_min P R M \
    grade rows rating seed verdicts PASS FAIL AUDIT overall nan inf tie noise; do
    printf '"\\"%s\\":"\n' $word
done >"$dir/words"
exec "$dir/fuzz" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 -dict="$dir/words" \
    -artifact_prefix="$dir/" -print_final_stats=1 "$dir/corpus" "$dir/seed"
