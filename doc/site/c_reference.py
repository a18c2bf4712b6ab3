# SPDX-License-Identifier: Apache-2.0
"""c_reference.py - pages of the C reference, from the public headers: c_reference.py HEADER prints one.

A header is read as a sequence of declarations, each with the comment before it or behind it on the same
line. The headers are the project's own and laid out by clang-format; this is no C parser."""
import pathlib
import re
import sys

COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
NAME = re.compile(r"\b(?:ts|TS|j)_\w+")


def words(comment):
    """The text of a comment without its frame; indentation beyond the frame stays."""
    lines = comment.split("\n")
    body = [lines[0].strip()] + [re.sub(r"^\s*\* ?", "", line) for line in lines[1:]]
    if not any(re.match(r"\s*\*", line) for line in lines[1:]):  # a comment behind a field has no stars
        body = [line.strip() for line in lines]
    return "\n".join(line.rstrip() for line in body).strip()


class Declaration:
    def __init__(self, code, comment, trailing):
        self.code, self.comment, self.trailing = code, comment, trailing
        plain = COMMENT.sub("", code)
        self.names, self.fields, self.kind = [], [], "other"
        if code.startswith("#define"):
            self.kind, self.names = "macro", [re.match(r"#define\s+(\w+)", code).group(1)]
        elif re.match(r"(typedef )?enum\b", plain):
            self.kind = "enum"
            self.fields = list(members(code[code.index("{") + 1:code.rindex("}")], ","))
            values = plain[plain.index("{") + 1:plain.rindex("}")].split(",")
            self.names = re.findall(r"\}\s*(\w+)\s*;", plain) or [value.split("=")[0].strip() for value in values]
        elif re.match(r"typedef struct\b", plain):
            self.kind, self.names = "struct", [re.search(r"(\w+)\s*;$", plain.strip()).group(1)]
            if "{" in plain:
                self.fields = list(members(code[code.index("{") + 1:code.rindex("}")], ";"))
        elif plain.startswith("typedef"):
            self.kind, self.names = "type", re.findall(r"\(\*(\w+)\)", plain)
        elif re.search(r"\w+\(", plain):
            self.kind, self.names = "function", [re.search(r"(\w+)\s*\(", plain.replace("TS_API ", "")).group(1)]


def members(body, end):
    """(declaration, comment) of each field of a struct, or value of an enum."""
    at, before = 0, ""
    while True:
        match = re.compile(r"\s*(?:/\*(.*?)\*/|([^%s/]+)(?:%s|$|(?=/\*))[ ]*(?:/\*(.*?)\*/)?)" % (end, end), re.S).match(body, at)
        if not match or not match.group().strip():
            return
        at = match.end()
        if match.group(2) is None:
            before = words(match.group(1))
        elif match.group(2).strip():
            yield " ".join(match.group(2).split()), f"{before} {words(match.group(3) or '')}".strip()
            before = ""


def pieces(text):
    """(code, comment, trailing comment, whether a blank line is before it) of every declaration."""
    at, comment, off, gap = 0, "", False, False
    while at < len(text):
        if text[at].isspace():
            gap = gap or text.startswith("\n\n", at)
            at += 1
        elif text.startswith("/*", at):
            match = COMMENT.match(text, at)
            comment, at = words(match.group(1)), match.end()
            off = {"clang-format off": True, "clang-format on": False}.get(comment, off)
            if text.startswith("\n\n", at) or comment.startswith(("clang-format", "SPDX")):
                comment = ""
        elif text[at] == "#":
            match = re.compile(r"#(?:\\\n|[^\n])*").match(text, at)
            if not off and comment and match.group().startswith("#define"):
                yield match.group(), comment, "", True
            comment, at = "", match.end()
        elif re.compile(r'extern "C" \{|\}').match(text, at):
            at = text.index("{" if text[at] == "e" else "}", at) + 1
        else:
            start, depth = at, 0
            while depth or text[at] != ";":
                match = COMMENT.match(text, at)
                depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(text[at], 0)
                at = match.end() if match else at + 1
                if text[at - 1] == "}" and not depth and re.search(r"\)\s*\{", text[start:at]):
                    break  # the body of a function has no semicolon behind it
            else:
                at += 1
            code = text[start:at]
            behind = re.compile(r"[ ]*/\*(.*?)\*/", re.S).match(text, at)
            at = behind.end() if behind else at
            if not off:
                code = re.sub(r"\)\s*\{.*", ");", code, flags=re.S) if code.startswith("static inline") else code
                yield code, comment, words(behind.group(1)) if behind else "", gap
            comment, gap = "", False


class Header:
    def __init__(self, path):
        text = path.read_text()
        self.name = path.name
        opening = [m for m in COMMENT.finditer(text)][1]
        first, _, rest = words(opening.group(1)).partition("\n\n")
        self.title = " ".join(first.split()).partition(" - ")[2]
        self.about, self.declarations, last = rest, [], None
        for code, comment, behind, gap in pieces(text[opening.end():]):
            d = Declaration(code, comment, behind)
            if last and not gap and not comment and not behind and d.kind == last.kind and d.kind in ("function", "type"):
                d.comment = last.comment  # neighbours share a comment
            self.declarations.append(d)
            last = d


def prose(text, known, here):
    """A comment as Markdown: paragraphs, indented formulas as code, and names that link to their places."""
    def name(match):
        word = match.group()
        if word not in known or word == here + ".h":
            return f"`{word}`"
        if word.endswith(".h"):
            return f"[`{word}`]({known[word]}.md)"
        return f"[`{word}`]({'' if known[word] == here else known[word] + '.md'}#{word})"

    def inline(line):
        parts = re.split(r"(`[^`]*`)", line)
        for i in range(0, len(parts), 2):
            parts[i] = re.sub(r"[\\*<>\[\]|&]|(?<!\w)_|_(?!\w)", lambda m: f"&#{ord(m.group())};", parts[i])
            parts[i] = re.sub(r"\b(?:(?:ts|TS|j)_\w+|\w+\.h)\b(?!&)", name, parts[i])
        return "".join(parts)

    out, code = [], False
    for line in text.split("\n"):
        indented = line.startswith("    ")
        if indented != code:
            out += ["```text" if indented else "```", ""] if not indented else ["", "```text"]
        code = indented
        out.append(line[4:] if indented else inline(line))
    return "\n".join(out + ["```"] * code)


def cell(text, known, here):
    return " ".join(prose(text, known, here).split()).replace("```text", "").replace("```", "")


def split_field(code):
    """(names, type) of a field: `void *mean, *rstd` has the names mean, rstd and the type void *."""
    pointer = re.match(r"(.*?)\(\*(\w+)\)\((.*)\)$", code)
    if pointer:
        return pointer.group(2), f"{pointer.group(1).strip()} (*)({pointer.group(3)})"
    first, *others = code.split(",")
    match = re.match(r"(.*?)(\**)(\w+(?:\[\w*\])?)$", first.strip())
    names = [match.group(3)] + [other.strip().lstrip("*") for other in others]
    return ", ".join(names), (match.group(1).strip() + " " + match.group(2)).strip()


def table(d, known, here):
    if d.kind == "enum":
        name = [code.split("=")[0].strip() for code, _ in d.fields]
        rows = [(f"`{code}`" if n == d.names[0] else f'<span id="{n}">`{code}`</span>', text) for n, (code, text) in zip(name, d.fields)]
        if not any(text for _, text in rows):
            yield "Values: " + ", ".join(code for code, _ in rows)
            return
        yield "| value | meaning |\n|---|---|"
        for code, text in rows:
            yield f"| {code} | {cell(text, known, here)} |"
    else:
        yield "| field | type | meaning |\n|---|---|---|"
        for code, text in d.fields:
            names, kind = split_field(code)
            yield f"| `{names}` | `{kind}` | {cell(text, known, here)} |"


def places(headers):
    """The page of every name."""
    known = {h.name: h.name[:-2] for h in headers}
    for h in headers:
        for d in h.declarations:
            inner = [code.split("=")[0].strip() for code, _ in d.fields] if d.kind == "enum" else []
            known.update({name: h.name[:-2] for name in d.names + inner})
    return known


def page(header, known, document=None):
    """The page of a header. document: a link to the document about it."""
    here = header.name[:-2]
    yield f"# {header.name}\n\n{header.title[:1].upper() + header.title[1:]}\n"
    yield f"```c\n#include <touchstone/{header.name}>\n```\n"
    if document:
        yield f"Derivation, speed and limits: [{here}]({document}).\n"
    yield prose(header.about, known, here) + "\n"
    titles = {"function": "Functions", "struct": "Structs", "enum": "Enums", "type": "Types", "macro": "Macros"}
    for kind, title in titles.items():
        chosen = [d for d in header.declarations if d.kind == kind]
        if chosen:
            yield f"## {title}\n"
        for d in chosen:
            if d.trailing.startswith("["):  # the shape of the last parameter
                d.code, d.trailing = f"{d.code} /* {d.trailing} */", ""
            if d.names:
                yield f"### {', '.join(f'`{name}`' for name in d.names)} {{ #{d.names[0]} }}\n"
            if kind in ("function", "type", "macro") or not d.fields:
                yield f"```c\n{dedent(d.code)}\n```\n"
            for text in (d.comment, d.trailing):
                if text:
                    first = re.match(r"\w*", text).group()
                    is_name = "_" in first or first in re.findall(r"\w+", d.code)
                    yield prose(text if is_name else text[:1].upper() + text[1:], known, here) + "\n"
            base = d.names[0][:-len("_workspace")] if d.names and d.names[0].endswith("_workspace") else None
            if base in known and not d.comment:
                yield f"Writes to `n_bytes` the size of the workspace that {prose(base, known, here)} needs for `a`.\n"
            used = [n for n in dict.fromkeys(NAME.findall(d.code)) if n in known and n not in (*d.names, "ts_status", "ts_exec")]
            if kind == "function" and used and not base:
                yield "Types: " + ", ".join(prose(n, known, here) for n in used) + ".\n"
            if d.fields:
                yield "\n".join(table(d, known, here)) + "\n"


def dedent(code):
    """A declaration without TS_API; the lines that continue it move left by as much."""
    code = code.replace("static inline ", "")
    if not code.startswith("TS_API "):
        return code
    return "\n".join(line[7:] if i == 0 or line.startswith(" " * 7) else line for i, line in enumerate(code.split("\n")))


def read(folder):
    return [Header(path) for path in sorted(folder.glob("*.h"))]


if __name__ == "__main__":
    path = pathlib.Path(sys.argv[1])
    every = read(path.parent)
    print("\n".join(page(next(h for h in every if h.name == path.name), places(every))))
