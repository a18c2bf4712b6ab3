#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs.py BUILD [--shoot FOLDER [PAGE...]] - the documents' site: strict build, whole reference, no foreign host, layout.

Every public Python name has a docstring. The rest needs MkDocs, from BUILD/docs-venv (`make docs`
makes it) or from this Python, and is skipped without: every function of the headers and every Python name has its place.
In headless Chromium, where there is one, pages fit a window of 1280 px, light, and of 390 px, dark, ask no network and say
nothing on the console, and the search finds a page.
--shoot: screenshots of pages and of README as a code host shows it, for people to look at."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "test"), str(ROOT / "doc" / "site")]
import page  # noqa: E402
import python_reference  # noqa: E402

PAGES = ("index", "layernorm", "judge", "reference/c/kv_cache", "reference/python/touchstone")
SHOWN = (*PAGES, "overview", "architecture", "attention", "project/CHANGELOG", "reference/program/judge", "README-plain")
PLAIN = """body { font: 16px/1.5 system-ui, "Liberation Sans", sans-serif; max-width: 1012px; margin: 0 auto; padding: 32px 16px;
  color: #1f2328; background: #fff; overflow-wrap: break-word } img { max-width: 100% } a { color: #0969da }
  h1, h2 { border-bottom: 1px solid #d1d9e0; padding-bottom: .3em } pre, code { background: #f6f8fa; border-radius: 6px;
  font: 85% ui-monospace, "DejaVu Sans Mono", monospace } code { padding: .2em .4em } pre { padding: 16px; overflow: auto }
  pre code { padding: 0 } table { display: block; overflow: auto; border-collapse: collapse; width: max-content; max-width: 100% }
  td, th { border: 1px solid #d1d9e0; padding: 6px 13px }
  @media (prefers-color-scheme: dark) { body { color: #f0f6fc; background: #0d1117 } a { color: #4493f8 }
    pre, code { background: #151b23 } td, th, h1, h2 { border-color: #3d444d } }"""
OUTSIDE = """[...document.querySelectorAll('.md-content *')].filter(e => {
  if (!e.checkVisibility() || e.closest('.md-typeset__scrollwrap, pre, .highlight, [hidden]')) return false;
  const r = e.getBoundingClientRect();
  return r.width && (r.right > innerWidth + 1 || r.left < -1);
}).map(e => e.tagName + ' ' + e.textContent.slice(0, 60)).slice(0, 5)"""


def expect(ok, what):
    if not ok:
        sys.exit(f"docs: {what}")


def make(python, build, config, site):
    """Not with --quiet: MkDocs 1.6 would not count its warnings then, and --strict would find nothing."""
    return subprocess.run([python, "-m", "mkdocs", "build", "--strict", "--config-file", config, "--site-dir", site], cwd=ROOT, text=True,
                          capture_output=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "TOUCHSTONE": str(build / "touchstone")})


def planted(python, build, tmp):
    """The build fails at a link and at an anchor that are not there, by the rules of mkdocs.yml."""
    rules = re.search(r"^validation:\n(?: .*\n)+", (ROOT / "mkdocs.yml").read_text(), re.M).group()
    (tmp / "doc").mkdir()
    (tmp / "mkdocs.yml").write_text(f"site_name: x\ndocs_dir: doc\nplugins: []\n{rules}")
    for link, good in (("#x", True), ("no.md", False), ("#no", False)):
        (tmp / "doc" / "index.md").write_text(f"# X\n[a]({link})\n")
        done = make(python, build, tmp / "mkdocs.yml", tmp / "planted")
        expect((done.returncode == 0) == good, f"planted a link to {link}: mkdocs build --strict answered {done.returncode}: {done.stderr}")


def python_with_mkdocs(build):
    for python in (build / "docs-venv" / "bin" / "python", pathlib.Path(sys.executable)):
        if python.exists() and subprocess.run([python, "-c", "import material, mkdocs"], capture_output=True).returncode == 0:
            return python
    return None


def whole(site):
    """Every public function and Python name has a place; nothing is loaded from another host."""
    ids = {f: set(re.findall(r' id="([^"]+)"', f.read_text())) for f in site.glob("reference/**/*.html")}
    functions = 0
    for header in sorted((ROOT / "include" / "touchstone").glob("*.h")):
        names = re.findall(r"^TS_API [^;(]*?\b(ts_\w+)\(", header.read_text(), re.M)
        functions += len(names)
        missing = set(names) - ids[site / "reference" / "c" / f"{header.stem}.html"]
        expect(not missing, f"{header.name}: the C reference lacks {sorted(missing)}")
        for name in re.findall(r"^enum \{ (\w+)", header.read_text(), re.M):
            text = (site / "reference" / "c" / f"{header.stem}.html").read_text()
            expect(f'<h3 id="{name}"' in text, f"{header.name}: the enum {name} has no heading")
    places = python_reference.places(ROOT / "python" / "touchstone")
    for name, where in places.items():
        expect(name in ids[site / "reference" / "python" / where.replace(".md", ".html")], f"the Python reference lacks {name}")
    for f in [*site.rglob("*.html"), *site.rglob("*.css")]:
        foreign = re.search(r"(?:<(?:script|img|link|iframe|source)\b[^>]*(?:src|srcset|href)=\"|url\(\"?)(?:https?:)?//[^\">)]*", f.read_text())
        expect(not foreign, f"{f.relative_to(site)}: loads {foreign and foreign.group()}")
    return functions, len(places)


def browser(tmp):
    program = next(filter(None, map(shutil.which, page.BROWSERS)), None)
    return page.Browser(program, tmp / "home") if program else None


def layout(b, site):
    for name in PAGES:
        for width, mode in ((1280, "light"), (390, "dark")):
            where = f"{name}, {width} px, {mode}"
            b.load(site / f"{name}.html", width, dark=mode == "dark")
            wide, out, scheme = b.run("document.documentElement.scrollWidth"), b.run(OUTSIDE), b.run("getComputedStyle(document.body).colorScheme")
            expect(wide <= width, f"{where}: {wide} px wide: {out}")
            expect(not out, f"{where}: sticks out: {out}")
            expect(scheme == mode, f"{where}: the colour scheme is {scheme}")
            expect(not list(b.complaints()), f"{where}: {list(b.complaints())}")


def search(b, site):
    """The search finds a page that is opened from the disk, as it would from a server."""
    b.load(site / "index.html")
    b.run("{ const q = document.querySelector('.md-search__input'); q.focus(); q.value = 'residual sampling'; q.dispatchEvent(new Event('keyup')); }")
    found = b.run("""new Promise(done => { const start = Date.now(), look = () => {
      const links = [...document.querySelectorAll('.md-search-result__link')].map(e => e.getAttribute('href'));
      links.length || Date.now() > start + 10000 ? done(links) : setTimeout(look, 50); }; look(); })""")
    expect(any("tree_verify.html" in link for link in found), f"a search for 'residual sampling' found {found}")
    expect(not list(b.complaints()), f"search: {list(b.complaints())}")


def shoot(b, site, python, folder, *names):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    script = "import markdown, sys; print(markdown.markdown(sys.stdin.read(), extensions=['tables', 'fenced_code', 'toc', 'md_in_html']))"
    body = subprocess.run([python, "-c", script], input=(ROOT / "README.md").read_text(), capture_output=True, text=True, check=True).stdout
    readme = site / "README-plain.html"
    readme.write_text(f'<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><base href="{ROOT.as_uri()}/"><style>{PLAIN}</style>{body}')
    for name in names or SHOWN:
        for width in (1280, 390):
            for mode in ("light", "dark"):
                b.load(site / f"{name}.html", width, dark=mode == "dark")
                b.run("document.head.insertAdjacentHTML('beforeend', '<style>* { transition: none !important }</style>')")
                b.run("new Promise(done => setTimeout(done, 150))")
                b.shot(folder / f"{name.replace('/', '-')}-{width}-{mode}.png", 6000)
    print(f"{folder}: {len(list(folder.glob('*.png')))} pictures")


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    bare = list(python_reference.undocumented(ROOT / "python" / "touchstone"))
    expect(not bare, f"without a docstring: {', '.join(bare)}")
    python = python_with_mkdocs(build)
    if not python:
        print("skipped: no MkDocs Material; `make docs` installs it")
        return 77
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as tmp:
        tmp = pathlib.Path(tmp)
        site = tmp / "site"
        planted(python, build, tmp)
        made = make(python, build, ROOT / "mkdocs.yml", site)
        expect(made.returncode == 0, "mkdocs build --strict: " + "\n".join(re.findall(r"^(?:WARNING|ERROR).*", made.stderr, re.M) or [made.stderr]))
        functions, names = whole(site)
        b = browser(tmp)
        if b:
            if sys.argv[2:3] == ["--shoot"]:
                shoot(b, site, python, *sys.argv[3:])
            else:
                layout(b, site), search(b, site)
            b.close()
        print(f"{len(list(site.rglob('*.html')))} pages; reference of {functions} C functions and {names} Python names; "
              + (f"{len(PAGES)} pages fit at 1280 and 390 px" if b else "layout not tested: no Chromium"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
