#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build.sh - makes the documents' site in build/docs, with MkDocs in an environment of its own, build/docs-venv.
#
# The environment is made once and again when requirements.txt changes; only that needs a network.
set -eu
cd "$(dirname "$0")/../.."
venv=build/docs-venv
fail() { echo "make docs: $*" >&2 && exit 3; }

if ! cmp -s doc/site/requirements.txt "$venv/requirements.txt"; then
    command -v python3 >/dev/null || fail "python3 is missing; expected Python 3.10 or later"
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        fail "got $(python3 --version), expected Python 3.10 or later"
    mkdir -p build
    python3 -m venv --clear "$venv" >"build/docs-venv.log" 2>&1 ||
        fail "python3 -m venv failed; install python3-venv (Debian) or see build/docs-venv.log"
    echo "installing MkDocs into $venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 -r doc/site/requirements.txt \
        >>"build/docs-venv.log" 2>&1 ||
        fail "pip could not install doc/site/requirements.txt; a network is needed once, see build/docs-venv.log"
    cp doc/site/requirements.txt "$venv/requirements.txt"
fi
# Not --quiet, with which MkDocs 1.6 does not count warnings, and --strict finds nothing.
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --strict --clean >build/docs.log 2>&1 ||
    { grep -E '^(WARNING|ERROR|Aborted)' build/docs.log >&2 || cat build/docs.log >&2; exit 1; }
echo "build/docs/index.html: $(find build/docs -name '*.html' | wc -l) pages"
