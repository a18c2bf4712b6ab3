# SPDX-License-Identifier: Apache-2.0
"""read.py - finds the commands, programs and shown outputs of a Markdown document.

A fenced block without a language is read as commands if one of its lines begins like one; what follows a command
there, and does not begin like one, is its output. In ```sh every line is a command; in ```console those after `$ `.
```c, ```cpp, ```cuda and ```python are code; any other language is text. Code in a sentence that begins like a
command is one, too: `touchstone plan --model X` is run, `touchstone plan` alone is a name,
and so is what a block of the document has as well."""
import dataclasses
import re
import textwrap
import typing

TOOLS = ("touchstone|touchstone-contest|make|python3?|pip3?|inspect|cmake|ctest|ninja|cc|c\\+\\+|gcc|g\\+\\+|clang|clang\\+\\+|nvcc|git|docker|"
         "podman|cp|mv|rm|mkdir|cd|export|source|tar|sha256sum|curl|wget|sbatch|srun|mpirun|sudo|apt|apt-get|dnf|mkdocs|cat|ls|echo|"
         "sh|bash|printf|pytest|uv|gh|cosign|LD_LIBRARY_PATH")
BEGIN = re.compile(r"(?:[A-Za-z_]\w*=\S+ +)*(?:(?:%s)(?=\s|$)|(?:\./)?(?:build|example|test|bench|python|cmake|venv|\.venv)/[\w./*-]*\w(?=\s|$)|\./\w[\w./-]*(?=\s|$))" % TOOLS)
FENCE = re.compile(r"^([ >]*)(```+|~~~+)([^\n`]*)\n(.*?)^\1\2 *$", re.S | re.M)
INLINE = re.compile(r"(?<![`\\])`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
SHELL = {"sh", "bash", "shell", "console", "shell-session"}
CODE = {"c": "c", "cpp": "c++", "c++": "c++", "cuda": "cuda", "cu": "cuda", "python": "python", "py": "python"}
FILE = re.compile(r"[\w./-]+\.(?:c|h|cpp|cu|py|json|md|txt|toml|sh)|(?:[\w./-]+/)?(?:CMakeLists\.txt|Makefile)")


@dataclasses.dataclass
class Item:
    document: str
    line: int
    kind: str  # command, name, c, c++, cuda, python, file
    text: str
    shown: typing.Optional[str] = None  # output that the document shows
    exact: bool = False  # of which figures must be equal, too
    status: typing.Optional[str] = None  # "fails", or the number that the document states
    path: typing.Optional[str] = None  # where a reader is told to save the block
    fenced: bool = False  # in a block, not in a sentence
    loose: bool = False  # the document says that the output differs from run to run
    block: typing.Optional[list] = None  # the commands of its block
    group: typing.Optional[list] = None  # those whose outputs `shown` has, if not this one's alone

    def place(self):
        return f"{self.document}:{self.line}"


def join(body):
    """Lines of a shell block: continued lines, here-documents, loops and quotes that are still open are one."""
    whole, begun = "", 0
    for number, line in enumerate(body.splitlines()):
        begun = begun if whole else number
        whole = whole + "\n" + line if whole else line
        if whole.endswith("\\"):
            whole = re.sub(r"\s*\\$", "", whole) + " \\"
            continue
        if "<<" not in whole and re.search(r"(&&|\|)$", cut(line)[0]):
            whole = re.sub(r"\s*\\\n\s*", " ", cut(whole)[0]) + " \\"
            continue
        whole = re.sub(r" \\\n\s*", " ", whole)
        here = re.search(r"<<-?\s*['\"]?(\w+)", whole)
        code = cut(whole)[0] if "\n" not in whole else re.sub(r"(^|\s)#.*", "", whole, flags=re.M)
        if here and not re.search(r"\n\s*%s$" % here[1], whole):
            continue
        if not here and (code.count("'") % 2 or code.count('"') % 2 or len(re.findall(r"\bdo\b", code)) > len(re.findall(r"\bdone\b", code))):
            continue
        yield begun, whole
        whole = ""
    if whole:
        yield begun, whole


def cut(line):
    """A command and the remark after it: behind `#`, or, in a list of commands, behind two spaces."""
    quoted = re.sub(r"'[^']*'|\"[^\"]*\"", lambda m: "q" * len(m[0]), line)
    found = re.search(r"\s#|\S(?=  +\S)", quoted) if "<<" not in line else None
    if not found:
        return line.strip(), ""
    return line[: found.end() - (found[0][-1] == "#")].strip(), line[found.end():].strip(" #")


def status(words):
    """What the document says of the exit status: "exit status 3", "fails"; a starter "fails all"."""
    found = re.search(r"exit(?:s with)? status (?:is )?(\d)", words)
    return found[1] if found else "fails" if re.search(r"\bfails\b", words) else None


def begins(line):
    """Does a line of a block begin a command? `touchstone chat: ...` is a message."""
    line = line[2:] if line.startswith("$ ") else line
    return bool(BEGIN.match(line)) and not re.match(r"touchstone [\w-]+:", line)


def shell(document, line, body, every):
    """Items of a block of commands. every: each line is one, whatever it begins with."""
    items, console = [], bool(re.search(r"^\s*\$ ", body, re.M))
    for at, text in join(body):
        bare = text.strip()
        if console:
            is_command = bare.startswith("$ ")
            bare = bare[2:] if is_command else bare
        else:
            is_command = (every or begins(text)) and not bare.startswith("#")
        if is_command and bare:
            command, remark = cut(bare)
            items.append(Item(document, line + at, "command", command, status=status(remark), fenced=True))
        elif items and re.match(r" +\[?-", text):  # a synopsis goes on
            items[-1].text += " " + bare
        elif items and not (bare.startswith("#") and not console):
            items[-1].shown = (items[-1].shown + "\n" if items[-1].shown else "") + text
    for item in items:
        if item.shown and not item.shown.strip():
            item.shown = None
        if item.shown and ends_badly(item.shown):
            item.status = item.status or "fails"
    return items


def sentence(document, line, text):
    """Items of code within sentences: commands, and names of commands."""
    for found in INLINE.finditer(text):
        code = re.sub(r"\s*\n[\s>]*", " ", found[1]).strip()
        begin = BEGIN.match(code)
        if not begin or re.match(r"touchstone [\w-]+:", code) or re.search(r"\.(?:c|h|cu|cpp|md|json|svg|txt|ipynb|log|yml|html|png)$|/$", begin[0]):
            continue
        script = re.fullmatch(r"(\./)?(test|bench|python|cmake|example)/\S+\.(py|sh)", code)
        if not script and not re.search(r"\s\S", code):
            continue  # `python3`, `touchstone`: a word
        named = script or re.fullmatch(r"((build/)?touchstone|make|git|inspect|docker) [\w-]+|(nvcc|cc|cmake) -\S+", code)
        yield Item(document, line + text[: found.start()].count("\n"), "name" if named else "command", code)


def parts(text):
    """(line, "text", paragraphs) and (line, "block", (language, attributes, body)) in their order."""
    text = re.sub(r"<!--.*?-->", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)
    at = 0
    for found in FENCE.finditer(text):
        yield text[:at].count("\n") + 1, "text", text[at: found.start()]
        body = "".join(row[len(found[1]):] if row.startswith(found[1]) else row.lstrip() for row in found[4].splitlines(True))
        words = found[3].strip().strip("{}").split(None, 1) + ["", ""]
        yield text[: found.start()].count("\n") + 2, "block", (words[0].lstrip("."), words[1], textwrap.dedent(body))
        at = found.end()
    yield text[:at].count("\n") + 1, "text", text[at:]


def saved(before, attributes):
    """The file that the sentence before a block, or its title, names."""
    title = re.search(r"title=\"([^\"]+)\"", attributes)
    if title:
        return title[1] if FILE.fullmatch(title[1]) else None
    names = [code for code in re.findall(r"`([^`\n]+)`", before) if FILE.fullmatch(code)]
    told = re.search(r"\b([Ss]ave|[Ww]rite|[Pp]ut|[Cc]reate)\b", before) or re.search(r"`%s`( is| contains)?:$" % re.escape(names[-1] if names else "-"), before.rstrip())
    return names[-1] if names and told and before.rstrip().endswith(":") else None


def prints(item, before):
    """Does the text between item and a block, or a paragraph that has item in it, say that the block is its output?"""
    text = re.sub(r"\s+", " ", before).strip()
    code = "`%s`" % item.text
    if code in text:
        return re.search(r"\b(output of|printed by|prints?|shows?) %s|%s[^.]*\b(prints?|shows?|output)\b" % (re.escape(code), re.escape(code)), text)
    return not text or (text.endswith(":") and len(text) < 200 and re.search(r"\b(prints?|printed|[Oo]utput|shows?|agrees?|says?|gives?|answers?|ends)\b", text))


def ends_badly(text):
    return re.search(r"^(touchstone [\w-]+: |FAIL )", text, re.M)


def items(document, text):
    """Every Item of a document, in its order."""
    found, before, last = [], "", None  # last: the item that an output may be of
    for line, kind, what in parts(text):
        if kind == "text":
            paragraphs = [p for p in what.strip().split("\n\n") if p.strip()]
            said = re.search(r"\b[Pp]rints\s+`([^`]+)`", paragraphs[0]) if paragraphs else None
            if last and said and last.kind in CODE.values() and not last.shown:
                last.shown, last.exact = said[1], True
            inline = list(sentence(document, line, what))
            found += inline
            before = paragraphs[-1] if paragraphs else ""
            if len(paragraphs) > 1 or before.lstrip().startswith(("#", "|")):
                last = None
            bare = re.sub(r"[`\s]", "", before)
            last = next((i for i in reversed(inline) if i.kind == "command" and re.sub(r"\s", "", i.text) in bare), last)
            continue
        language, attributes, body = what
        if language in CODE:
            last = Item(document, line, CODE[language], body, path=saved(before, attributes))
            found.append(last)
        elif language in SHELL or (not language and any(begins(row) for _, row in join(body))):
            block = shell(document, line, body, language in SHELL and language not in ("console", "shell-session"))
            found += block
            last = block[-1] if block else None
            for item in block:
                item.block, item.group = block, None if any(other.shown for other in block) else block
        elif saved(before, attributes):
            found.append(Item(document, line, "file", body, path=saved(before, attributes)))
            last = None
        elif language in ("", "text", "output") and last and prints(last, before):
            last.shown = (last.shown + "\n" if last.shown else "") + body
            last.exact, last.loose = last.kind in CODE.values(), "run to run" in re.sub(r"\s+", " ", before)
            if ends_badly(body) and len(last.group or [last]) == 1:
                last.status = last.status or "fails"
        else:
            last = None
        before = ""
    whole = [item.text for item in found if item.fenced]
    for item in found:  # what a sentence only repeats, or shortens, is run where a block has it
        if item.kind == "command" and not item.fenced and not item.shown and any(text.startswith(item.text) for text in whole):
            item.kind = "name"
    return found
