#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# core.sh - tests that doc/threat-model.md lists every file of judge/'s parts, and
# that the trusted core has at most 6500 lines.
#
# A verdict on a CPU entrant depends on the trusted core. Blank lines and comments are not counted.
set -eu
cd "$(dirname "$0")/.."
most=6500
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
sed -n '/^## The trusted core/,/^## Limitations/p' doc/threat-model.md >"$tmp/section"
files() { grep -o '`[a-z/]*/[a-z0-9_]*\.[ch]`' | tr -d '`' | sort; }
grep '^|' "$tmp/section" | files >"$tmp/core"
files <"$tmp/section" >"$tmp/listed"
[ -z "$(uniq -d "$tmp/listed")" ] || { echo "core: listed twice: $(uniq -d "$tmp/listed" | tr '\n' ' ')" && exit 1; }
ls judge/read/*.[ch] judge/call/*.[ch] judge/run/*.[ch] judge/timing/*.[ch] judge/cage/*.[ch] judge/protocol/*.[ch] judge/arena/*.[ch] | sort >"$tmp/there"
[ -z "$(comm -3 "$tmp/listed" "$tmp/there")" ] ||
    { echo "core: listed, or there, but not both: $(comm -3 "$tmp/listed" "$tmp/there" | tr '\n\t' '  ')" && exit 1; }
# Strips comments from /* to */, also multi-line ones; the sources have no // and no /* in strings.
lines=$(xargs cat <"$tmp/core" | awk '
    { while ((at = index($0, "/*")) || inside) {
          if (!inside) { kept = kept substr($0, 1, at - 1); $0 = substr($0, at + 2); inside = 1 }
          if (!(end = index($0, "*/"))) { $0 = ""; break }
          $0 = substr($0, end + 2); inside = 0
      }
      if ((kept $0) ~ /[^ \t]/) n++
      kept = "" }
    END { print n }')
echo "core: $(wc -l <"$tmp/core") files, $lines lines, $(xargs cat <"$tmp/core" | wc -l) with blank ones and comments"
[ "$lines" -le $most ] || { echo "core: more than $most lines" && exit 1; }
