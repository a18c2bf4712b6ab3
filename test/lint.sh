#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lint.sh BUILD tidy|cppcheck|analyzer [all] - searches the C files of base/ and judge/, or all, for defects.
#
# Checks: .clang-tidy, and what test/cppcheck.txt leaves. The analyzer is that of clang-tidy, which follows
# paths through a function: seconds per file, so it is a part of `make lint` and not of `make test`, and
# searches the trusted core only. A finding that is no defect is suppressed where it is, with the reason.
set -eu
build=$(cd "$1" && pwd) tool=$2 which=${3-core}
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
[ -e "$build/compile_commands.json" ] || { echo "lint: $build has no compile_commands.json" && exit 1; }

# Other versions find other things.
tidy=$(command -v clang-tidy-14 || command -v clang-tidy || true)
case $tool in
cppcheck) cppcheck --version 2>/dev/null | grep -q ' 2\.10' || { echo 'skipped: no cppcheck 2.10' && exit 77; } ;;
*) $tidy --version 2>/dev/null | grep -q 'version 14\.' || { echo 'skipped: no clang-tidy 14' && exit 77; } ;;
esac

analyzer='-*,clang-analyzer-*,-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling'
run() { # FILE... : findings
    case $tool in
    tidy) printf '%s\n' "$@" | xargs -P 2 -n 8 "$tidy" -p "$build" --quiet ;;
    analyzer) printf '%s\n' "$@" | xargs -P 2 -n 1 "$tidy" -p "$build" --quiet --checks="$analyzer" ;;
    cppcheck)
        sed 's/ *#.*//; /^$/d' test/cppcheck.txt >"$tmp/suppressed"
        # jansson's header is not read.
        cat >"$tmp/macros.h" <<'END'
#define json_array_foreach(a, i, v) for (i = 0; (v = json_array_get(a, i)); i++)
#define json_object_foreach(o, k, v) for (k = key_of(o); k && (v = json_object_get(o, k)); k = key_after(o, k))
END
        printf -- '--file-filter=%s\n' "$@" | xargs cppcheck --project="$build/compile_commands.json" -j 2 --quiet \
            --enable=warning,performance,portability --inline-suppr --suppressions-list="$tmp/suppressed" \
            --include="$tmp/macros.h" --template='{file}:{line}: {id}: {message}' --error-exitcode=1 ;;
    esac >"$tmp/out" 2>"$tmp/err"
}

# A planted defect must be found.
mkdir "$tmp/planted"
cat >"$tmp/planted/planted.c" <<'END'
#include <stdlib.h>
int main(int n, char **v)
{
    int  a[2] = { n, 0 };
    int *p = malloc(sizeof *p * 2);
    if (n == 7 || n == 7) a[1] = 7;
    if (n > 9);
        a[1] = 9;
    if (n > 8) return *p;
    if (v) a[2] = n;
    free(p);
    return a[0] + *p;
}
END
printf '[{ "directory": "%s", "file": "%s", "command": "cc -c %s" }]\n' "$tmp/planted" "$tmp/planted/planted.c" \
    "$tmp/planted/planted.c" >"$tmp/planted/compile_commands.json"
cp .clang-tidy "$tmp/planted"
(build=$tmp/planted && run "$tmp/planted/planted.c") || true
case $tool in
tidy) expect='misc-redundant-expression bugprone-suspicious-semicolon' ;;
analyzer) expect='unix.Malloc' ;;
cppcheck) expect='arrayIndexOutOfBounds' ;;
esac
for name in $expect; do
    grep -q "$name" "$tmp/out" "$tmp/err" || { cat "$tmp/out" "$tmp/err" && echo "lint: $tool does not find $name" && exit 1; }
done

folders='base|judge'
[ "$which" = core ] || folders='[a-z]*'
sed -n "s|^ *\"file\": \"$PWD/\(.*\.c\)\".*|\1|p" "$build/compile_commands.json" | grep -E "^($folders)/" | sort -u >"$tmp/files"
if [ "$tool" = analyzer ]; then
    grep -o '`judge/[a-z0-9_/]*\.c`' doc/threat-model.md | tr -d '`' | sort -u | comm -12 - "$tmp/files" >"$tmp/core"
    mv "$tmp/core" "$tmp/files"
fi
n=$(wc -l <"$tmp/files")
[ "$n" -gt 30 ] || { echo "lint: got $n files, expected more than 30" && exit 1; }
if run $(sed "s|^|$PWD/|" "$tmp/files"); then echo "lint: $tool: $n files, no finding" && exit 0; fi
cat "$tmp/out"
grep -v 'warnings* generated\|^Suppressed\|^Use -header' "$tmp/err" || true
echo "lint: $tool: findings in $n files"
exit 1
