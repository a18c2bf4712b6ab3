#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# judge_repeat.sh BUILD - tests what the judge learns from a second call: other contents at the same address find an
# entrant that keeps its result by pointer, and the same contents find one of which bits differ.
set -eu
. "$(dirname "$0")/lib.sh"
entrant() { # NAME, and on standard input what is called instead
    mkdir -p "$tmp/$1"
    printf '{"name":"%s","author":"a test","challenge":"layernorm_forward","class":"sealed","language":"c","sources":["a.c","number.h"]}' \
        "$1" >"$tmp/$1/entry.json"
    cp proof/plain/number.h "$tmp/$1"
    sed 's/^ts_status ts_layernorm_forward/static ts_status plain/' proof/plain/layernorm_forward.c >"$tmp/$1/a.c"
    cat >>"$tmp/$1/a.c"
}
entrant steady <<'END'
ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    return plain(a, x);
}
END
entrant moody <<'END'
static int n;
ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    const ts_status s = plain(a, x);
    const float     step = n++ % 2 ? 1 + 1.2e-7f : 1;
    for (int64_t r = 0; !s && r < a->n_rows; r++) ((float *)a->rstd)[r] *= step;
    return s;
}
END
entrant keeper <<'END'
static const void   *at;
static int64_t       rows, stride, cols;
static ts_dtype      dtype;
static unsigned char y[1 << 20], mean[1 << 14], rstd[1 << 14];
static void copy(void *to, const void *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) ((volatile unsigned char *)to)[i] = ((const unsigned char *)from)[i];
}
ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    const ts_status s = refuse(a, x);
    if (s || !a->n_rows) return s;
    const int64_t each = a->dtype == TS_F32 ? 4 : 2, n = each * ((a->n_rows - 1) * a->row_stride + a->n_cols);
    if (n > 1 << 20 || a->n_rows > 4096) return plain(a, x);
    if (a->x == at && a->n_rows == rows && a->row_stride == stride && a->n_cols == cols && a->dtype == dtype) {
        copy(a->y, y, n), copy(a->mean, mean, 4 * rows), copy(a->rstd, rstd, 4 * rows);
        return TS_OK;
    }
    plain(a, x);
    at = a->x, rows = a->n_rows, stride = a->row_stride, cols = a->n_cols, dtype = a->dtype;
    copy(y, a->y, n), copy(mean, a->mean, 4 * rows), copy(rstd, a->rstd, 4 * rows);
    return TS_OK;
}
END
status=0
"$build/touchstone" judge --no-timing --depth quick --log "$tmp/log" "$tmp/steady" "$tmp/moody" "$tmp/keeper" >"$tmp/out" 2>"$tmp/err" ||
    status=$?
[ $status != 3 ] || { echo "skipped: $(tail -n 1 "$tmp/err")" && exit 77; }
grep -q '"name":"keeper"' "$tmp/log" && grep -q 'keeper *sealed *FAIL value' "$tmp/out" ||
    complain "a result that is kept by pointer: $(grep keeper "$tmp/out")"
repeats() { # NAME: passed and all
    id=$(grep '"type":"entrant"' "$tmp/log" | grep "\"name\":\"$1\"" | grep -o '"id":[0-9]*' | head -n 1 | cut -d : -f 2)
    grep '"type":"verdict"' "$tmp/log" | grep "\"entrant\":$id," | grep -o '"repeat":\[[0-9]*,[0-9]*\]' | tr -dc '0-9, '
}
moody=$(repeats moody) steady=$(repeats steady)
[ -n "$moody" ] && [ "${moody%,*}" != "${moody#*,}" ] || complain "bits that differ: repeat is '$moody'"
[ -n "$steady" ] && [ "${steady%,*}" = "${steady#*,}" ] && [ "${steady#*,}" -gt 4 ] || complain "bits that do not: repeat is '$steady'"
[ $bad = 0 ] || exit 1
echo 'judge_repeat: 0 complaints'
