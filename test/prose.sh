#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# prose.sh - tests that every source file opens with its own name and what it contains, in at most
# two lines, that public headers explain every declaration, and that comments avoid known odd words.
#
# Layout of an opening: SPDX line; `name.c [ARGUMENTS] - what the file contains.`; then, after a
# blank comment line, details. Modules of Python packages begin with their description instead,
# which help() shows. Files of contest/challenge/ are named as `touchstone new` writes them.
set -eu
cd "$(dirname "$0")/.."

find . \( -name .git -o -path './build*' -o -name __pycache__ -o -path './answers' \) -prune -o -type f \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.py' -o -name '*.sh' \
    -o -name '*.cmake' -o -name CMakeLists.txt -o -name Makefile -o -path './.ci/run' \) -print |
    xargs awk '
function complain(line, what) { print "prose: " name ":" line ": " what; bad = 1 }
function details(text) { return text ~ /^( \*|#|\/\/|)$/ } # a blank line of a comment
function ends(text) { return text ~ /\*\/$/ || (python && text ~ /"""$/) || (!block && text !~ /^(# |\/\/ )/) }
FNR == 1 {
    name = substr(FILENAME, 3)
    base = name; sub(/.*\//, "", base)
    kind = base; sub(/.*\./, "", kind)
    python = kind == "py"
    package = name ~ /^(python\/touchstone|contest\/touchstone_contest)/
    state = "start"
    public = name ~ /^include\/touchstone\/[a-z0-9_]*\.h$/ && base != "abi.h"
    explained = inside = 0
}
state == "start" { # at most a #! line comes before the SPDX line, which test/format.sh demands
    if (/SPDX-License-Identifier/) state = "opening"
    next
}
state == "opening" {
    state = "done"; first = FNR
    block = /^(\/\*|""")/
    text = $0
    if (!sub(/^(\/\* |\/\/ |# |""")/, "", text)) { complain(FNR, "no opening comment"); next }
    word = text; sub(/ .*/, "", word)
    end = word; sub(/.*\./, "", end)
    if (package) ;
    else if (text !~ /^[^ ]+( [^-].*)? - / || (word != base && !(name ~ /^contest\/challenge\// && end == kind)))
        complain(FNR, "got \"" substr(text, 1, 40) "\", expected \"" base " - \" and what the file contains")
    if (!ends($0) || (python && /^"""[^"]*$/)) state = "summary"
    next
}
state == "summary" {
    if (!block && ends($0)) state = "done"
    else if (details($0)) state = "done"
    else if (FNR - first > 1) { complain(FNR, "an opening of more than two lines; put details after a blank line"); state = "done" }
    else if (ends($0)) state = "done"
}
# Every typedef and function of a public header has a comment before it, every field one behind it.
public {
    if (/^\/\*/ || /^ \*/) explained = 1
    else if (/^(typedef|TS_API|enum)/) {
        if (!explained) complain(FNR, "a declaration without a comment")
        inside = /\{$/
        explained = 0
    } else if (/^}/) inside = 0
    else if (inside && /;$/ && !/\*\//) { if (!explained) complain(FNR, "a field without a comment") }
    else if (/^$/) explained = 0
    if (inside && /^ +\/\*/) explained = 1
}
/(\/\*|^ *\*|\/\/|^ *#|""").*[^a-z_.](nobody|somebody|whoever|whom|strangers?|senseless|likeliest|besides?)[^a-z_]/ &&
    name != "test/prose.sh" { complain(FNR, "an odd word: " $0) }
END { exit bad }'

# In touchstone.h the comment of each status begins with the words of ts_status_text.
awk -F '"' '
FILENAME ~ /status\.c$/ { if (match($0, /\[TS_[A-Z_]*\]/)) text[substr($0, RSTART + 1, RLENGTH - 2)] = $2; next }
/^typedef enum ts_status/, /^}/ {
    if (!match($0, /TS_[A-Z_]+/)) next
    name = substr($0, RSTART, RLENGTH); said = $0; sub(/.*\/\* /, "", said); n++
    if (!(name in text) || index(said, text[name]) != 1) {
        print "prose: touchstone.h: " name ": got \"" said "\", expected \"" text[name] "\" first"; bad = 1 }
}
END { exit bad || n < 12 }' base/status.c include/touchstone/touchstone.h
