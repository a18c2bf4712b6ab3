# SPDX-License-Identifier: Apache-2.0
"""python_reference.py - writes the pages of the Python reference from the sources of the package:
signatures, docstrings and the `#:` comments of fields.

Nothing is imported, so the package need not be built. python_reference.py FOLDER prints the pages;
python_reference.py FOLDER --check lists public names without a docstring."""
import ast
import pathlib
import re
import sys

MODULES = {"touchstone": "__init__.py", "touchstone.torch": "torch.py", "touchstone.jax": "jax.py"}
WIDTH = 88


class Module:
    def __init__(self, folder, file):
        self.folder, self.source = folder, (folder / file).read_text()
        self.lines = self.source.split("\n")
        self.tree = ast.parse(self.source)
        self.nodes, self.origins, self.all = {}, {}, None
        for node in self.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                self.nodes[node.name] = node
            elif isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
                self.origins.update({alias.asname or alias.name: node.module for alias in node.names})
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    for name in target.elts if isinstance(target, ast.Tuple) else [target]:
                        if isinstance(name, ast.Name):
                            self.nodes[name.id] = node
        if "__all__" in self.nodes:
            self.all = ast.literal_eval(self.nodes["__all__"].value)

    def public(self):
        """(name, module that defines it, node), functions last."""
        names = self.all or [n for n, node in self.nodes.items() if isinstance(node, ast.FunctionDef) and n[0] != "_"]
        for name in sorted(names, key=str.lower):
            home = self
            while name not in home.nodes and name in home.origins:
                home = Module(self.folder, home.origins[name] + ".py")
            yield name, home, home.nodes[name]


def signature(module, name, node):
    """The head of a function as its source has it, without self, filled to WIDTH columns."""
    head = " ".join(line.strip() for line in module.lines[node.lineno - 1:node.body[0].lineno - 1])
    inside, returns = re.match(r"def \w+\((.*)\)(.*?):(?:\s*#.*)?$", head).groups()
    inside = re.sub(r"^(self|cls)(, )?", "", inside)
    parts = re.split(r", (?![^\[\](]*[\])])", inside)  # not inside brackets
    parts = [part + ", " for part in parts[:-1]] + [parts[-1] + ")" + returns]
    lines = [name + "("]
    for part in parts:
        if len(lines[-1]) + len(part.rstrip()) > WIDTH and lines[-1].strip() != name + "(":
            lines.append(" " * (len(name) + 1))
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def inline(text, known, here):
    """Prose with its marks escaped; names of the package, whole or behind `touchstone.`, link to their places."""
    def link(match):
        word = match.group()
        name = word.removesuffix("()")
        full = name if name in known else f"{here}.{name}"
        code = known.get(full)
        return f"[`{word}`]({code}#{full})" if code and "_" in name or code and "." in name else word

    parts = re.split(r"(`[^`]*`)", text)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"[\\*<>\[\]|&]|(?<!\w)_|_(?!\w)", lambda m: f"&#{ord(m.group())};", parts[i])
        parts[i] = re.sub(r"\b[a-z]\w*(?:\.\w+)*(?:\(\))?", link, parts[i])
    return "".join(parts)


def prose(text, known, here):
    """A docstring: paragraphs, and lines of `name  meaning` as a table."""
    out, table = [], False
    for line in text.split("\n"):
        row = re.match(r"(\S(?:.*?\S)?) {2,}(\S.*)$", line)
        if row:
            out += [] if table else ["", "| parameter | meaning |", "|---|---|"]
            out.append(f"| `{row.group(1)}` | {inline(row.group(2), known, here)} |")
        else:
            out.append(inline(line, known, here))
        table = bool(row)
    return "\n".join(out) + "\n"


def comment_of(module, node):
    return module.lines[node.end_lineno - 1].partition("#:")[2].strip()


def fields(module, node, known, here):
    """The annotated fields of a class, each with its `#:` comment."""
    rows = []
    for item in node.body:
        if isinstance(item, ast.AnnAssign):
            text = inline(comment_of(module, item), known, here)
            rows.append(f"| `{item.target.id}` | `{ast.unparse(item.annotation)}` | {text} |")
    return "\n".join(["| field | type | meaning |", "|---|---|---|"] + rows) + "\n" if rows else ""


def member(name, module, node, known, here, level):
    full = f"{here}.{name}"
    yield f"{'#' * level} `{name}` {{ #{full} }}\n"
    if isinstance(node, ast.FunctionDef):
        is_property = any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list)
        if not is_property:
            yield f"```python\n{signature(module, name, node)}\n```\n"
        yield prose(ast.get_docstring(node) or "", known, here)
    elif isinstance(node, ast.ClassDef):
        inside = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
        if "__init__" in inside:
            yield f"```python\n{signature(module, name, inside['__init__'])}\n```\n"
        yield prose(ast.get_docstring(node) or "", known, here)
        yield fields(module, node, known, here)
        for method, inner in inside.items():
            if method[0] != "_" and ast.get_docstring(inner):
                yield from member(f"{name}.{method}", module, inner, known, here, level + 1)
    else:
        yield prose(comment_of(module, node), known, here)


def places(folder):
    """The page of every public name."""
    return {f"{name}.{member}": f"{name}.md" for name, file in MODULES.items()
            for member, _, _ in Module(folder, file).public()}


def pages(folder):
    """(name, Markdown) of every module."""
    known = places(folder)
    for name, file in MODULES.items():
        module = Module(folder, file)
        title, _, about = (ast.get_docstring(module.tree) or "").partition("\n\n")
        out = [f"# {name}\n", prose(title, known, name), prose(about, known, name)]
        kinds = (("Functions", ast.FunctionDef), ("Classes", ast.ClassDef), ("Constants", ast.Assign))
        for heading, kind in kinds:
            chosen = [(n, m, node) for n, m, node in module.public() if isinstance(node, kind)]
            if chosen:
                out.append(f"## {heading}\n")
            for n, m, node in chosen:
                out += member(n, m, node, known, name, 3)
        yield name, "\n".join(out)


def undocumented(folder):
    for name, file in MODULES.items():
        for n, module, node in Module(folder, file).public():
            if not (comment_of(module, node) if isinstance(node, ast.Assign) else ast.get_docstring(node)):
                yield f"{name}.{n}"
            for inner in node.body if isinstance(node, ast.ClassDef) else []:
                if isinstance(inner, ast.FunctionDef) and inner.name[0] != "_" and not ast.get_docstring(inner):
                    if inner.name not in ("forward", "extra_repr"):  # PyTorch's protocol; the class says what they do
                        yield f"{name}.{n}.{inner.name}"


if __name__ == "__main__":
    place = pathlib.Path(sys.argv[1])
    if "--check" in sys.argv:
        missing = list(undocumented(place))
        sys.exit("without a docstring: " + ", ".join(missing) if missing else 0)
    print("\n".join(text for _, text in pages(place)))
