# SPDX-License-Identifier: Apache-2.0
"""hook.py - what MkDocs does not do by itself for the documents' site; mkdocs.yml names it.

Documents link to files as a code host shows them: ../README.md, ../include/touchstone/rope.h. Here README is the
page overview.md, other Markdown is under project/, a public header is its page of the C reference, and any other file
is a page under source/ (or a link to the repository, if mkdocs.yml has its address). The pages of reference/ are made
from headers, docstrings and, if the program is built, its help."""
import os
import pathlib
import posixpath
import re
import subprocess
import sys

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "doc" / "site"))
import c_reference  # noqa: E402
import python_reference  # noqa: E402
import text  # noqa: E402

LANGUAGES = {".c": "c", ".h": "c", ".cu": "cuda", ".cuh": "cuda", ".py": "python", ".sh": "sh", ".json": "json",
             ".toml": "toml", ".yml": "yaml", ".cpp": "cpp", ".cmake": "cmake"}
PICTURE = re.compile(r"<picture>\s*<source[^>]*dark[^>]*srcset=\"([^\"]*)\">\s*<img alt=\"([^\"]*)\" src=\"([^\"]*)\">\s*</picture>")
PAGES = {}  # path in the site: (path in the repository or None, Markdown)


def place(path):
    """Where the site has a file of the repository, whose path is relative to its root."""
    if (ROOT / path / "README.md").exists():
        path = posixpath.normpath(path + "/README.md")
    if path.startswith("doc/"):
        return path[4:]
    if path in ("README.md", "include/touchstone"):
        return {"README.md": "overview.md"}.get(path, "reference/c/index.md")
    if path.startswith("include/touchstone/") and path.endswith(".h"):
        return f"reference/c/{posixpath.basename(path)[:-2]}.md"
    return f"project/{path}" if path.endswith(".md") else f"source/{path}.md"


def targets(path, markdown):
    """(start, end, path in the repository, anchor) of the links to files in a document."""
    for start, end, target in text.links(markdown):
        name, _, part = target.partition("#")
        if name and not re.match(r"[a-z]+:", target):
            yield start, end, posixpath.normpath(posixpath.join(posixpath.dirname(path), name)), part


def shown(path):
    """A file, or the list of a folder's files, as a page."""
    here = ROOT / path
    content = here.read_text(errors="replace") if here.is_file() else "\n".join(sorted(
        str(f.relative_to(here)) for f in here.rglob("*") if f.is_file() and "__pycache__" not in f.parts))
    language = LANGUAGES.get(here.suffix, "text")
    return f"---\nsearch:\n  exclude: true\n---\n# {path}\n\n``````{language}\n{content.rstrip()}\n``````\n"


def follow(path, repository):
    """Adds the pages of all files outside doc/ that a document links to, and of those that they link to."""
    markdown = (ROOT / path).read_text()
    if not path.startswith("doc/"):
        PAGES[place(path)] = path, markdown
    for _, _, to, _ in targets(path, markdown):
        there = place(to)
        if to.startswith("doc/") or there in PAGES or not (ROOT / to).exists():
            continue
        if (ROOT / to / "README.md").exists():
            follow(f"{to}/README.md", repository)
        elif to.endswith(".md"):
            follow(to, repository)
        elif not repository:
            PAGES[there] = None, shown(to)


def c_pages():
    headers = c_reference.read(ROOT / "include" / "touchstone")
    known = c_reference.places(headers)
    rows = ["# C reference\n", "One page per public header, made from its comments. `touchstone.h` has the types that all "
            "others use.\n", "| header | subject |", "|---|---|"]
    for h in headers:
        name = h.name[:-2]
        document = {"attention_fp8": "attention", "ternary_training": "ternary"}.get(name, name)
        link = f"../../{document}.md" if (ROOT / "doc" / f"{document}.md").exists() and name != "model" else None
        yield f"reference/c/{name}.md", "\n".join(c_reference.page(h, known, link))
        rows.append(f"| [{h.name}]({name}.md) | {h.title} |")
    yield "reference/c/index.md", "\n".join(rows) + "\n"


def python_pages():
    yield "reference/python/index.md", (
        "# Python reference\n\nMade from the docstrings of the package. [From Python](../../python.md) explains it with "
        "examples.\n\n| module | subject |\n|---|---|\n| [touchstone](touchstone.md) | functions for NumPy, PyTorch, JAX and "
        "CuPy arrays, the KV cache, searches, the judge |\n| [touchstone.torch](touchstone.torch.md) | operators, functions "
        "and modules for PyTorch, and `patch` |\n| [touchstone.jax](touchstone.jax.md) | functions for JAX |\n")
    for name, markdown in python_reference.pages(ROOT / "python" / "touchstone"):
        yield f"reference/python/{name}.md", markdown


def program_pages():
    """Help of the program and of each command, as it prints it."""
    program = ROOT / os.environ.get("TOUCHSTONE", "build/touchstone")
    if not program.exists():
        return

    def help_of(*command):
        return subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True).stdout.rstrip()

    general = help_of()
    commands = re.findall(r"^  (\w+) +(.*)$", general, re.M)
    yield "reference/program/index.md", "# Program reference\n\n```text\n" + general + "\n```\n\n" + "\n".join(
        ["| command | what it does |", "|---|---|"] + [f"| [{name}]({name}.md) | {what} |" for name, what in commands]) + "\n"
    for name, what in commands:
        yield f"reference/program/{name}.md", f"# touchstone {name}\n\n{what[:1].upper() + what[1:]}.\n\n```text\n{help_of(name)}\n```\n"


def grown(nav):
    """The navigation with the pages of the reference; that of the program is left out where it is not built."""
    out = []
    for item in nav:
        title, page = next(iter(item.items())) if isinstance(item, dict) else (None, item)
        if isinstance(page, list):
            out.append({title: grown(page)})
        elif page.startswith("reference/"):
            inside = sorted((p for p in PAGES if p.startswith(page + "/") and not p.endswith("/index.md")), key=lambda p: p[:-3])
            if inside:
                names = [posixpath.basename(p)[:-3] + ".h" * page.endswith("/c") for p in inside]
                out.append({title: [f"{page}/index.md"] + [{n: p} for n, p in zip(names, inside)]})
        else:
            out.append(item)
    return out


def deeper(markdown):
    """What belongs to a list item, which a code host indents by two columns, indented by four, as MkDocs wants it."""
    plain, inside, out = text.without_blocks(markdown).split("\n"), False, []
    for line, seen in zip(markdown.split("\n"), plain):
        after_blank = not out or not out[-1].strip()
        if inside and seen.startswith("- "):
            out.append("")
        inside = bool(re.match(r" {2,3}\S", seen)) and (inside or after_blank)
        out.append("  " + line if inside else line)
    return "\n".join(out)


def on_config(config):
    PAGES.clear()
    config["mdx_configs"].setdefault("toc", {})["slugify"] = lambda heading, _: text.slug(heading)
    for made in (c_pages, python_pages, program_pages):
        PAGES.update({there: (None, markdown) for there, markdown in made()})
    repository = config["extra"]["repository"]
    for path in sorted(p for pattern in ("*.md", "doc/*.md", "example/README.md", "contest/README.md") for p in ROOT.glob(pattern)):
        follow(str(path.relative_to(ROOT)), repository)
    config["nav"] = grown(config["nav"])
    return config


def on_files(files, config):
    for there, (_, markdown) in PAGES.items():
        files.append(File.generated(config, there, content=markdown))
    return files


def on_page_markdown(markdown, page, config, files):
    uri = page.file.src_uri
    if uri == "index.md":  # here and not in the document, whose head a code host would show
        page.meta["hide"] = ["navigation", "toc"]
    path = PAGES[uri][0] if uri in PAGES else "doc/" + uri
    if path is None:
        if uri.startswith("reference/"):  # a document about a word comes before the functions that have it
            page.meta.setdefault("search", {"boost": 0.2})
        return markdown
    repository, out, at = config["extra"]["repository"].rstrip("/"), [], 0
    for start, end, to, part in targets(path, markdown):
        there = place(to)
        if there.startswith("source/") and repository:
            there = f"{repository}/{to}"
        else:
            there = posixpath.relpath(there, posixpath.dirname(uri) or ".")
        out += [markdown[at:start], there + ("#" + part if part else "")]
        at = end
    markdown = deeper("".join(out) + markdown[at:])
    return PICTURE.sub(r"![\2](\3#only-light)![\2](\1#only-dark)", markdown)


def on_page_content(html, page, config, files):
    """Cells with sentences are marked, so that they stay wide enough to read on a phone. Options stay whole at line ends."""
    html = re.sub(r"(?<!</span>)<code>([^<\n]*)</code>", lambda m: "<code>" + re.sub(
        r"(?<![\w-])--?[a-z][\w-]*", r'<span class="option">\g<0></span>', m.group(1)) + "</code>", html)
    return re.sub(r"<td(?=[ >])(?=[^>]*>(.*?)</td>)", lambda m: m.group() + ' class="long"' * (
        len(re.sub(r"<[^>]*>", "", m.group(1))) > 40), html, flags=re.S)
