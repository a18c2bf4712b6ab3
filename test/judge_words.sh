#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# judge_words.sh BUILD - how the judge describes wrong answers: an exception with the line of the answer
# that raised it, and the first wrong operation of a script.
set -u
. "$(dirname "$0")/lib.sh"
python=$(test/python.sh) || { echo 'skipped: no NumPy' && exit 77; }
said() { # NAME PATTERN : in the text of its verdict
    id=$(grep -o '"type":"entrant","id":[0-9]*,"name":"'"$1\"" "$tmp/log" | tr -dc 0-9)
    text=$(grep '"type":"verdict","entrant":'"$id," "$tmp/log" | grep -o '"text":"[^"]*"' | head -n 1)
    echo "$text" | grep -q "$2" || complain "$1: '$2' is not in $text"
    ! echo "$text" | grep -q 'TS_E\|pointer\|rejected' || complain "$1: words of C in $text"
}
two_files() { # NAME CHALLENGE SED : an adapter, and the answer in a second file
    mkdir -p "$tmp/all/$1"
    sed "$3" "contest/entrant/numpy/$2/$2.py" >"$tmp/all/$1/answer.py"
    ! cmp -s "contest/entrant/numpy/$2/$2.py" "$tmp/all/$1/answer.py" || complain "nothing was planted in $1"
    echo "from answer import $2" >"$tmp/all/$1/$2.py"
    printf '{"name":"%s","author":"a test","challenge":"%s","class":"python","language":"python","sources":["%s.py","answer.py"]}' \
        "$1" "$2" "$2" >"$tmp/all/$1/entry.json"
}
two_files append kv_cache 's/^            raise MemoryError("no page left")/&\n        if max(n_new, default=0) > 3:\n            raise ValueError("too many tokens")/'
two_files order kv_cache 's/s = d.scale \*/s = 1.1 * d.scale */; s/^        return self.keys(seq, layer, begin, begin + n)/& + 1/'
two_files index softmax_topk 's|^    return chosen|    np.zeros(3)[5]\n&|'
"$build/touchstone" judge --depth quick --no-timing --first --seed 4 --log "$tmp/log" "$tmp/all" >"$tmp/out" 2>"$tmp/err"
[ $? = 1 ] || complain "status $?: $(cat "$tmp/err")"
line() { grep -n "$2" "$tmp/all/$1/answer.py" | head -n 1 | cut -d : -f 1; }
said append "operation [0-9]* of [0-9]*, append in layer [0-9]*: raised ValueError: too many tokens at answer.py:$(line append 'too many')\""
said order 'operation [0-9]* of [0-9]*, attend in layer'
said index "raised IndexError: index 5 is out of bounds .* at answer.py:$(line index 'zeros(3)')\""

# a textbook formula with whole arrays in double, some of them at once, in a large timed shape; and the user's name,
# which PyTorch's optimizers ask for
mkdir "$tmp/whole"
cat >"$tmp/whole/layernorm_forward.py" <<'END'
import getpass
import numpy as np

getpass.getuser()

def layernorm_forward(x, gamma, beta, eps, out):
    wide = x.astype(np.float64)
    mean = wide.mean(axis=1, keepdims=True)
    rest = wide - mean
    rstd = 1 / np.sqrt((rest ** 2).mean(axis=1, keepdims=True) + eps)
    out["mean"][:], out["rstd"][:] = mean[:, 0], rstd[:, 0]
    normal = rest * rstd
    scaled = normal * gamma
    out["y"][:] = scaled + beta
END
"$build/touchstone" judge --no-timing --log "$tmp/log" --case 'layernorm_forward/f32/rows=32768,cols=1024,pad=0/normal@0x5eed' \
    "$tmp/whole" >"$tmp/out" 2>"$tmp/err" || complain "whole arrays: $(grep -A1 FAIL "$tmp/out" "$tmp/err")"
echo "judge_words: $bad complaints"
[ $bad = 0 ]
