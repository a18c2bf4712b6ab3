# SPDX-License-Identifier: Apache-2.0
"""The code of an answer in Markdown, chosen as the judge chooses it (judge/reader/markdown.c)."""
import re

MARKS = {"c": "c", "c11": "c", "cpp": "cpp", "c++": "cpp", "cxx": "cpp", "cc": "cpp", "cuda": "cu", "cu": "cu",
         "python": "py", "python3": "py", "py": "py", "triton": "py"}


def ending_of(mark, code):
    kernel = "__global__" in code
    if mark:
        ending = MARKS.get(mark.lower())
        return "cu" if kernel and ending in ("c", "cpp", "cu") else ending
    if kernel:
        return "cu"
    if "#include" in code:
        return "c"
    return "py" if "def " in code or "class " in code else None


def blocks(text):
    """(mark, code) of every fenced block; one that is not closed ends with the text."""
    fence, mark, lines = None, "", []
    for line in text.split("\n"):
        opened = re.match(r" {0,3}(`{3,}|~{3,})(.*)$", line)
        if fence and opened and opened.group(1).startswith(fence) and not opened.group(2).strip():
            yield mark, "".join(lines)
            fence = None
        elif fence:
            lines.append(line + "\n")
        elif opened:
            fence, lines = opened.group(1), []
            mark = re.split(r"[\s{:]", opened.group(2).strip() + " ")[0]
    if fence:
        yield mark, "".join(lines)


def code_of(text, challenge):
    """(code, ending) of the last block that names the challenge, else of the last one; or None."""
    found = [(code, ending_of(mark, code)) for mark, code in blocks(text)]
    found = [(code, ending) for code, ending in found if ending]
    named = [one for one in found if challenge in one[0]]
    return (named or found or [None])[-1]
