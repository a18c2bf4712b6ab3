#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page.py BUILD [SHOTS] - the report's page and site in headless Chromium, at three widths, light and dark.

Findings, board and head to head are first and fit, names are whole, columns have names, every term is explained, text
has contrast, tables sort, filters count again, links lead somewhere, sources and prompts are shown as they are, nothing
is said on the console; page_views.py has the tests of single views. SHOTS: a folder for screenshots and a print; then large boards are tested too.
page.py BUILD --shoot LOG STEM: the first screen of a log's page as STEM-light.png and STEM-dark.png.
page.py BUILD --tour LOG STEM: screens of its site, of at least 16 entrants: STEM-PAGE-WIDTH-MODE.png.
Speaks the DevTools protocol over two pipes; needs no package."""
import base64
import collections
import json
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

import page_views

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Browser:
    def __init__(self, program, home):
        to_browser, self.out = os.pipe()
        self.inn, from_browser = os.pipe()
        os.set_blocking(self.inn, True)
        self.buffer, self.last, self.events = b"", 0, []

        def wire():
            os.dup2(os.dup(to_browser), 103), os.dup2(os.dup(from_browser), 104)
            os.dup2(103, 3), os.dup2(104, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--no-first-run", f"--user-data-dir={home}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=wire, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser), os.close(from_browser)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.page(domain + ".enable")

    def read(self):
        while b"\0" not in self.buffer:
            piece = os.read(self.inn, 1 << 20)
            if not piece:
                raise SystemExit("page: the browser went away")
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            got = self.read()
            if got.get("id") == self.last:
                if "error" in got:
                    raise SystemExit(f"page: {method}: {got['error']}")
                return got["result"]
            self.events.append(got)

    def page(self, method, **params):
        return self.call(method, self.session, **params)

    def run(self, script):
        got = self.page("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in got:
            raise SystemExit(f"page: {script}: {got['exceptionDetails']}")
        return got["result"].get("value")

    def mode(self, dark):
        self.dark = dark
        self.page("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def load(self, path, width=1280, height=900, dark=False):
        self.events = []
        self.page("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.mode(dark)
        self.page("Page.navigate", url=path.resolve().as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.read())

    def complaints(self):
        """Everything that the page logged, threw, or requested from the network."""
        self.run("1")
        for e in self.events:
            method, params = e.get("method"), e.get("params", {})
            if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                yield json.dumps(params)[:400]
            if method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:")):
                yield "asked for " + params["request"]["url"]

    def close(self):
        self.process.kill()
        self.process.wait()

    def shot(self, path, height=16000, top=0):
        size = self.page("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": top, "width": size["width"], "height": min(size["height"] - top, height), "scale": 1}
        path.write_bytes(base64.b64decode(self.page("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]))


# Logs of make_log, and the pictures on their pages while challenges are folded.
KINDS = {"full": 12, "old": 12, "failures": 0, "untimed": 3, "empty": 0, "1x1": 4, "models": 0, "10x14": 0, "23x5x2": 0, "14x40": 0, "23x40x3": 0}
SOON = [kind for kind in KINDS if "x40" not in kind]  # those take most of the time: with a folder for the pictures
SITES = {"full": 5, "untimed": 6, "models": 2, "23x5x2": 3}  # whose sites are tested, and the place of the entrant that is looked at
WIDTHS = (1280, 820, 390)


def expect(ok, what):
    if not ok:
        raise SystemExit(f"page: {what}")


NAMES = "[...document.querySelectorAll('#scoreboard tbody td.who b bdi')].map(e => e.textContent)"


def sorting(b):
    before = b.run(NAMES)
    press = "[...document.querySelectorAll('#scoreboard th button')].find(e => e.textContent == '{}').click()"
    b.run(press.format("Entrant"))
    after = b.run(NAMES)
    expect(before != after and sorted(before) == sorted(after), f"a click on Entrant did not sort: {after}")
    b.run(press.format("Score"))
    down = b.run(NAMES)
    b.run(press.format("Score"))
    expect(down[0] == "touchstone" and b.run(NAMES)[-1] == "touchstone", f"clicks on Score did not sort: {down}")
    expect(b.run("document.querySelectorAll('#scoreboard th[aria-sort]').length") == 1, "more than one column says it is sorted")
    b.run(press.format("Of limit"))
    fast = b.run(NAMES)
    b.run(press.format("Of limit"))
    slow = b.run(NAMES)
    expect(fast[-1] == slow[-1] and fast[0] == slow[-2], f"an entrant without a speed is not last: {fast}, {slow}")
    b.run(press.format("softmax topk"))
    expect(b.run(NAMES)[0] == "touchstone", f"a click on a challenge did not sort by it: {b.run(NAMES)}")
    b.run("document.querySelector('.copy').click()")
    said = b.run("document.querySelector('.copy').textContent + ' ' + getSelection()")
    expect(said.startswith(("copied touchstone judge --replay", "selected touchstone judge --replay")), f"copy: {said}")
    choose = "{{ const s = document.querySelector('#matches {}'); s.selectedIndex = s.options.length - 1; s.dispatchEvent(new Event('change')); }}"
    b.run(choose.format("select"))
    expect(b.run("document.querySelectorAll('.matrix tbody tr').length") == 4, "the last challenge's matrix has another number of rows")
    b.run(choose.format(".one select"))
    expect(b.run("document.querySelector('.against').textContent").startswith("touchstone0\u20131\u20130"), "the last entrant did not lose to the first")


def hostile(b):
    expect(b.run("document.title") == "Touchstone: scoreboard", "an entrant's name ran as a script")
    expect(b.run("document.querySelectorAll('img, #page script, #page b b').length") == 0, "an entrant's name became an element")
    expect(b.run("/[\\u0000-\\u0009\\u000b-\\u001f\\u202e]/.test(document.getElementById('page').textContent)") is False,
           "a control character reached the page")


def whole(b, kind):
    figures = b.run("document.querySelectorAll('figure svg').length")
    expect(figures == KINDS[kind], f"{kind}: {figures} pictures")
    broken = "[...document.querySelectorAll('figure *')].filter(e => [...e.attributes].some(a => /NaN|Infinity|undefined/.test(a.value))).length"
    expect(b.run(broken) == 0, f"{kind}: a picture with coordinates that are no numbers")
    expect(b.run("/undefined(?! behaviour)|\\[object/.test(document.getElementById('page').innerText)") is False, f"{kind}: 'undefined' on the page")
    hash_ = b.run("document.getElementById('last').textContent")
    expect(len(hash_) == 64, f"{kind}: the footer's hash is '{hash_}'")



# What sticks out of the page, of the box that holds its table, or of its picture.
OUTSIDE = """(() => {
  const out = [], name = e => e.tagName + '.' + (e.getAttribute('class') || '') + ' ' + e.textContent.slice(0, 40);
  const boxes = new Map(), box = e => boxes.get(e) || (boxes.set(e, e.getBoundingClientRect()), boxes.get(e));
  for (const e of document.querySelectorAll('body *')) {
    if (!e.checkVisibility() || e.closest('details:not([open]) > :not(summary)')) continue; // what is folded has a box, too
    if (e.closest('.code pre, pre.plain')) continue; // code scrolls
    const r = box(e), holder = e.parentElement.closest('.box, figure, .flaw, .key-box > div');
    if (!r.width || !r.height) continue;
    const { left, right } = holder ? box(holder) : { left: 0, right: innerWidth };
    if (r.left < left - 1 || r.right > right + 1 || r.right > innerWidth + 1) out.push(name(e));
    if (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible' && !e.closest('.legend')) out.push('cut: ' + name(e));
  }
  return out.slice(0, 5); })()"""

# Words of names that are on two lines though they would fit on one.
BROKEN = """(() => {
  const out = [];
  for (const e of document.querySelectorAll('#page bdi')) {
    const text = e.firstChild;
    if (!text || !e.checkVisibility() || e.closest('.legend')) continue;
    for (const w of text.data.matchAll(/[^\\s-]+-?/g)) {
      const range = document.createRange();
      range.setStart(text, w.index), range.setEnd(text, w.index + w[0].length);
      const lines = new Set([...range.getClientRects()].map(r => Math.round(r.top)));
      if (w[0].length <= 20 && lines.size > 1 && /^[\\x20-\\x7e]+$/.test(text.data)) out.push(text.data + ': ' + w[0]);
    }
  }
  return out.slice(0, 5); })()"""

# Text whose contrast with what is behind it is below 4.5 : 1 (WCAG AA).
FAINT = """(() => {
  const parse = s => { const v = s.match(/-?[\\d.]+(e-?\\d+)?/g).map(Number); return s.startsWith('color(') ? [...v.slice(0, 3).map(x => 255 * x), v[3] ?? 1] : [...v.slice(0, 3), v[3] ?? 1]; };
  const light = c => { const l = c.slice(0, 3).map(x => { x /= 255; return x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4; }); return .2126 * l[0] + .7152 * l[1] + .0722 * l[2]; };
  const out = [], styles = new Map();
  const style = e => {
    if (!styles.has(e)) { const s = getComputedStyle(e); styles.set(e, { back: parse(s.backgroundColor), opacity: +s.opacity }); }
    return styles.get(e); };
  for (const e of document.querySelectorAll('#page *, #foot *')) {
    if (e.closest('svg') || !e.checkVisibility() || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const layers = [];
    let opacity = 1;
    for (let p = e; p; p = p.parentElement) {
      const c = style(p).back;
      opacity *= style(p).opacity;
      layers.push(c);
      if (c[3] === 1) break;
    }
    const back = layers.at(-1), ink = parse(getComputedStyle(e).color).map((x, i) => i < 3 ? opacity * x + (1 - opacity) * back[i] : 1);
    const [a, b] = [light(ink), light(back)].sort((x, y) => y - x), ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) out.push(ratio.toFixed(2) + ' ' + e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 30));
  }
  return [...new Set(out)].slice(0, 5); })()"""

# Where everything in sight is. Equal in light and dark, what is true of the layout of one is true of the other.
PLACES = """[...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && !e.closest('details:not([open]) > :not(summary)'))
  .map(e => { const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; }).join()"""

TEXT = "document.querySelector('{}')?.innerText.replace(/\\s+/g, ' ') || ''"


def records(log, kind):
    return [r for r in map(json.loads, log.read_text().splitlines()) if r["type"] == kind]


def board_first(b, where):
    order = b.run("[...document.getElementById('page').children].map(e => e.tagName + '#' + e.id)")
    expect(order[:3] == ["HEADER#", "SECTION#findings", "SECTION#scoreboard"], f"{where}: findings and board are not the first sections: {order}")
    expect(len(order) < 4 or order[3] == "SECTION#matches" or "1x1" in where, f"{where}: head to head does not follow the board: {order}")
    top = b.run("document.querySelector('#findings h2').getBoundingClientRect().top")
    expect(top < 260, f"{where}: the findings begin {top} px below the top")


def plain(task):
    return task.replace("_", " ").replace("/", " on ")


def filters(b, log, where):
    """What is chosen is counted again: the entrants that have such answers, and the challenges that those passed."""
    entrants = records(log, "entrant")
    right = {r["entrant"] for r in records(log, "verdict") if r["verdict"].startswith("PASS")}
    device = lambda r: "cuda" if r["task"].endswith("/cuda") else "cpu"
    keys = {"device": device, "class": lambda r: r["class"], "language": lambda r: r["language"]}
    some = {k: sorted({of(r) for r in entrants} - {"-"}) for k, of in keys.items()}
    shown = "[...document.querySelectorAll('#scoreboard .board tbody tr')].map(e => [e.querySelector('.who bdi').textContent, parseInt(e.cells[2].textContent)])"
    choose = "(s => { s.value = [...s.options].find(o => o.textContent === '%s').value; s.dispatchEvent(new Event('change')); })([...document.querySelectorAll('.filters label')].find(e => e.textContent.startsWith('%s')).querySelector('select'))"
    clean = lambda name: re.sub("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]", "\ufffd", name)
    for key, of in keys.items():
        names = b.run("[...document.querySelectorAll('.filters label')].map(e => e.textContent.split(' ')[0])")
        expect((key in names) == (len(some[key]) > 1), f"{where}: filters {names}, but {key} is one of {some[key]}")
        for value in some[key] if len(some[key]) > 1 else []:
            b.run(choose % (value, key))
            now = [r for r in entrants if of(r) == value]
            people = {}
            for r in now:
                mine = people.setdefault((r["name"], r["author"]), set())
                mine |= {r["task"]} if r["id"] in right else set()
            want = sorted([clean(k[0]), len(v)] for k, v in people.items())
            got = sorted(b.run(shown))
            expect(got == want, f"{where}: {key} {value}: {got}, expected {want}")
        if len(some[key]) > 1:
            b.run(choose % ("all", key))


def folded(b, log, where):
    expect(b.run("document.getElementById('badge').open") is False, f"{where}: the guarantees are not folded")
    expect(b.run("[...document.querySelectorAll('.guard')].every(e => !e.checkVisibility() && e.closest('#badge'))"), f"{where}: guarantees outside of the badge")
    b.run("document.getElementById('badge').open = true")
    shown = b.run(TEXT.format("#badge"))
    for g in records(log, "run")[0]["guarantees"]:
        expect(g["name"] + ": " + g["text"] in shown, f"{where}: the unfolded badge does not show {g['name']}")


def explained(b, log, where):
    """Every column has its name; every verdict, class, grade and weight its meaning, folded at first."""
    expect(b.run("document.getElementById('terms').open") is False, f"{where}: the legend is not folded")
    b.run("document.getElementById('terms').open = true")
    tasks = list(dict.fromkeys(plain(r["task"]) for r in records(log, "entrant")))
    heads = b.run("[...document.querySelectorAll('#scoreboard th.task')].filter(e => e.checkVisibility()).map(e => e.innerText.replace(/\\s+/g, ' '))")
    labels = b.run("[...document.querySelectorAll('#scoreboard tbody tr:first-child td.heat')].map(e => getComputedStyle(e, '::before').content.slice(1, -1))")
    expect(tasks in (heads, labels), f"{where}: the challenges' columns are named {heads}, {labels}")
    classes, verdicts, grades, score = (b.run(TEXT.format("#key-" + k)) for k in ("class", "verdict", "grade", "score"))
    for c in {r["class"] for r in records(log, "entrant")}:
        expect(re.search(rf"(^| ){c} [A-Z].{{30}}", classes), f"{where}: class {c} is not explained: {classes}")
    for v in {r["verdict"] for r in records(log, "verdict")}:
        expect(re.search(re.escape(v) + r" [A-Z].{30}", verdicts), f"{where}: verdict {v} is not explained: {verdicts}")
    for grade, least in (("A+", 900), ("A", 800), ("B", 650), ("C", 450), ("D", 250)):
        expect(f"{grade} from {least}" in grades, f"{where}: grade {grade} is not explained: {grades}")
    weights = {k: int(v) / 100 for k, v in re.findall(r"(Speed|Robustness|Precision|Memory) (\d+) %", score)}
    expect(len(weights) == 4, f"{where}: weights {weights}")
    share = {r["id"]: r.get("share", 1) for r in records(log, "entrant")}
    for r in (r for r in records(log, "score") if "speed" in r):
        want = share[r["entrant"]] ** 0.5 * math.prod(r[k] ** w for k, w in (("speed", weights["Speed"]), ("R", weights["Robustness"]), ("P", weights["Precision"]), ("M", weights["Memory"])))
        expect(abs(want - r["score"]) < 1e-6 * want, f"{where}: by the weights shown, a score of {r['score']} would be {want}")
    reasons = {r["reason"] for r in records(log, "verdict") if r["reason"]}
    bare = b.run("[...document.querySelectorAll('.flaw .reason')].map(e => e.textContent)")
    b.run("document.getElementById('terms').open = false")
    expect(not reasons & set(bare), f"{where}: a reason without words: {bare}")


# Names of challenges that are cut or too small to read, and scores that are.
SMALL = """[...document.querySelectorAll('.board th.task button, .board td.heat')].filter(e => e.checkVisibility() &&
  (e.scrollWidth > e.clientWidth + 1 && e.tagName === 'TD' || parseFloat(getComputedStyle(e).fontSize) < 11 ||
   e.tagName === 'BUTTON' && e.getBoundingClientRect().width > e.closest('th').getBoundingClientRect().width)).map(e => e.textContent).slice(0, 5)"""


def unfolds(b, where):
    """On a phone the first card names its challenges, the others on demand."""
    named = "getComputedStyle(document.querySelector('.board tbody tr:nth-child(%d) td.heat'), '::before').display"
    expect(b.run(named % 1) != "none" and b.run(named % 2) == "none", f"{where}: not only the first card names the challenges")
    b.run("document.querySelector('.board tbody tr:nth-child(2) .more').click()")
    expect(b.run(named % 2) != "none", f"{where}: a card does not unfold")


def site(b, build, log, folder, place, widths):
    """The pages of a site: the board, one entrant, one challenge; and that every link leads to a page and a place in it."""
    subprocess.run([build / "touchstone", "report", log, "--site", folder], check=True, stdout=subprocess.DEVNULL)
    entrant = next(folder.glob(f"entrant/{place}-*.html"))
    b.load(folder / "index.html")
    me = b.run(f"ABOUT.entrants[{place - 1}].name")
    entrants = [r for r in records(log, "entrant") if r["name"] == me]
    challenge = folder / "challenge" / (entrants[-1]["task"].replace("/", "-") + ".html")
    for page in (folder / "index.html", entrant, challenge):
        for width in widths:
            where = f"{log.stem}: {page.name[:40]}, {width} px"
            b.load(page, width)
            wide = b.run("document.documentElement.scrollWidth")
            expect(wide <= width, f"{where}: {wide} px wide")
            layout(b, where)
            b.run("document.querySelectorAll('details').forEach(e => e.open = true)")
            b.run("new Promise(done => setTimeout(done, 50))")
            layout(b, where + ", unfolded")
            expect(not list(b.complaints()), f"{where}: {list(b.complaints())}")
        for link in b.run("[...new Set([...document.querySelectorAll('#page a')].map(e => e.getAttribute('href')))]"):
            file, _, part = link.partition("#")
            if part.startswith("pair-") and not file:
                expect(all(0 < int(n) <= b.run("ABOUT.entrants.length") for n in part.split("-")[1:]), f"{page.name}: a link to {link}")
                continue
            expect((page.parent / file).resolve().is_file() if file else b.run(f"!!document.getElementById({json.dumps(part)})"), f"{page.name}: a link to {link}, which is not there")
    b.load(folder / "index.html")
    links = b.run("[...document.querySelectorAll('td.heat a')].map(e => e.getAttribute('href')).filter((h, i) => i % 7 == 0).slice(0, 12)")
    for link in links:
        b.load(folder / link.partition("#")[0])
        expect(b.run(f"!!document.getElementById({json.dumps(link.partition('#')[2])})"), f"index.html: no place {link}")
    b.load(entrant)
    b.run("document.querySelectorAll('details').forEach(e => e.open = true)")
    b.run("new Promise(done => setTimeout(done, 50))")
    rank = b.run("document.querySelector('.facts dd').textContent")
    expect(rank == f"{place} of {len(list(folder.glob('entrant/*')))}", f"{entrant.name}: rank {rank}")
    expect(b.run("document.title") != "owned" and b.run("document.querySelectorAll('img, #page script').length") == 0, "a source or a name ran as a script")
    text = b.run("[...document.querySelectorAll('.source pre')].map(e => e.textContent)")
    ids = {r["id"] for r in entrants}
    want = [r["text"].replace("\u202e", "\ufffd") for r in records(log, "source") if r["entrant"] in ids]
    expect(want and text == want, f"{entrant.name}: sources {text[:1]}, expected {want[:1]}")
    replays = {r["replay"] for r in records(log, "verdict") if r["entrant"] in ids and r.get("replay")}
    expect(replays == set(b.run("[...document.querySelectorAll('.replay code')].map(e => e.textContent)")), f"{entrant.name}: not every flaw has its command")
    n = len([r for r in records(log, "time") if r["entrant"] in ids])
    expect(b.run("document.querySelectorAll('td.case').length") == n, f"{entrant.name}: not {n} times")
    b.load(challenge)
    told = b.run("ABOUT.prompts.map(p => p.title)")
    name, _, device = entrants[-1]["task"].partition("/")
    for title, language in zip(told, ("cuda", "triton") if device else ("c", "c++", "python")):
        prompt = subprocess.run([build / "touchstone", "new", "--prompt", "--challenge", name, "--language", language], check=True, capture_output=True, text=True).stdout
        b.run(f"(s => {{ s.selectedIndex = {told.index(title)}; s.dispatchEvent(new Event('change')); }})(document.querySelector('#prompt select'))")
        expect(b.run("document.querySelector('#prompt pre').textContent") == prompt, f"{name}: the prompt in {language} is another")
    expect(len(told) == (2 if device else 3), f"{name}: prompts in {told}")
    contract = b.run(TEXT.format("#contract"))
    expect("Shapes: " in contract, f"{name}: the contract is {contract[:80]}")


def layout(b, where):
    """The layout in the present mode, light or dark, and the contrast of text in both; ends in the other mode."""
    modes = ("dark", "light") if b.dark else ("light", "dark")
    for what, script in (("sticks out", OUTSIDE), ("broken name", BROKEN), ("faint", FAINT), ("unreadable", SMALL)):
        found = b.run(script)
        expect(not found, f"{where}, {modes[0]}: {what}: {found}")
    places = b.run(PLACES)
    b.mode(not b.dark)
    found = b.run(FAINT)
    expect(not found, f"{where}, {modes[1]}: faint: {found}")
    expect(b.run(PLACES) == places, f"{where}: other places in dark than in light")


def small(path):
    """The PNG again with 256 colours, a third of the bytes: the commonest, and then those that are farthest from all chosen."""
    data, chunks, at = pathlib.Path(path).read_bytes(), {}, 8
    while at < len(data):
        n, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
        chunks[kind] = chunks.get(kind, b"") + data[at + 8:at + 8 + n]
        at += n + 12
    width, height, depth, form = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    expect(depth == 8 and form in (2, 6), f"{path}: a PNG of another kind")
    n, raw = {2: 3, 6: 4}[form], zlib.decompress(chunks[b"IDAT"])
    rows, above = [], bytearray(width * n)
    for y in range(height):
        kind, row = raw[y * (width * n + 1)], bytearray(raw[y * (width * n + 1) + 1:(y + 1) * (width * n + 1)])
        for i in range(len(row)):
            left, up, corner = row[i - n] if i >= n else 0, above[i], above[i - n] if i >= n else 0
            p = left + up - corner
            paeth = min((abs(p - left), 0, left), (abs(p - up), 1, up), (abs(p - corner), 2, corner))[2] if kind == 4 else 0
            row[i] = row[i] + (0, left, up, (left + up) // 2, paeth)[kind] & 255
        rows.append([bytes(row[i:i + 3]) for i in range(0, len(row), n)])
        above = row
    counts = collections.Counter(c for row in rows for c in row)
    best = [c for c, _ in counts.most_common(200)]
    apart = lambda a, c: sum((x - y) ** 2 for x, y in zip(a, c))
    near = {c: min((apart(c, x), i) for i, x in enumerate(best)) for c in counts}
    while len(best) < 256:
        best.append(max(near, key=lambda c: near[c][0]))
        near = {c: min(old, (apart(c, best[-1]), len(best) - 1)) for c, old in near.items()}
    place = {c: i for c, (_, i) in near.items()}
    packed = zlib.compress(b"".join(b"\0" + bytes(place[c] for c in row) for row in rows), 9)
    made = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)), (b"PLTE", b"".join(best)), (b"IDAT", packed), (b"IEND", b"")]
    pathlib.Path(path).write_bytes(data[:8] + b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in made))


def shoot(build, log, stem):
    """Head, findings, board and head to head, at 1280 px."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as tmp:
        tmp = pathlib.Path(tmp)
        subprocess.run([build / "touchstone", "report", log, "--out", tmp], check=True, stdout=subprocess.DEVNULL)
        b = Browser(next(filter(None, map(shutil.which, BROWSERS))), tmp / "home")
        for mode in ("light", "dark"):
            b.load(tmp / "index.html", dark=mode == "dark")
            b.shot(pathlib.Path(f"{stem}-{mode}.png"), b.run("document.querySelector('#matches, #scoreboard + section, #scoreboard').getBoundingClientRect().bottom + 24"))
            small(f"{stem}-{mode}.png")
        b.close()


def tour(build, log, stem):
    """First screens of a site: the board at three widths, light and dark; an entrant, a challenge."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as tmp:
        tmp = pathlib.Path(tmp)
        subprocess.run([build / "touchstone", "report", log, "--site", tmp / "site"], check=True, stdout=subprocess.DEVNULL)
        b = Browser(next(filter(None, map(shutil.which, BROWSERS))), tmp / "home")
        pages = {"board": "index.html", "entrant": "entrant/16-*.html", "challenge": "challenge/kv_cache.html"}
        for name, page in pages.items():
            for width in WIDTHS:
                for mode in ("light", "dark") if name == "board" else ("light",):
                    b.load(next((tmp / "site").glob(page)), width, dark=mode == "dark")
                    top = 0
                    if name == "entrant":  # its first wrong answer, with the source
                        b.run("{ const s = document.querySelector('.flaw').closest('section'); s.firstChild.open = s.querySelector('.source').open = true; }")
                        b.run("new Promise(done => setTimeout(done, 50))")
                        top = b.run("document.querySelector('.flaw').closest('section').getBoundingClientRect().top + scrollY - 12")
                    path = f"{stem}-{name}-{width}-{mode}.png"
                    b.shot(pathlib.Path(path), 1000, top)
                    small(path)
        b.close()


def main():
    build = pathlib.Path(sys.argv[1])
    if sys.argv[2:3] == ["--tour"]:
        return tour(build, *sys.argv[3:])
    if sys.argv[2:3] == ["--shoot"]:
        return shoot(build, *sys.argv[3:])
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not program:
        print("skipped: no Chromium")
        return 77
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as tmp:
        tmp = pathlib.Path(tmp)
        shots = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else tmp
        b = Browser(program, tmp / "home")
        for kind in KINDS if shots != tmp else SOON:
            log = tmp / f"{kind}.log"
            subprocess.run([build / "test" / "make_log", log, kind], check=True)
            subprocess.run([build / "touchstone", "report", log, "--out", tmp / kind], check=True, stdout=subprocess.DEVNULL)
            index = tmp / kind / "index.html"
            for width in WIDTHS:
                where = f"{kind}, {width} px"
                if shots != tmp:
                    for mode in ("light", "dark"):
                        b.load(index, width, dark=mode == "dark")
                        b.shot(shots / f"{kind}-{width}-{mode}.png")
                b.load(index, width)
                wide = b.run("document.documentElement.scrollWidth")
                expect(wide <= width, f"{where}: {wide} px wide")
                whole(b, kind)
                if kind != "empty":
                    board_first(b, where)
                    explained(b, log, where)
                    filters(b, log, where)
                    page_views.cases(b, log, where)
                layout(b, where)
                if width < 560 and "x" in kind and kind != "1x1":
                    unfolds(b, where)
                folded(b, log, where)
                b.run("document.querySelectorAll('section:nth-of-type(-n+3) details').forEach(e => e.open = true)")
                b.run("new Promise(done => setTimeout(done, 50))")
                layout(b, where + ", unfolded")
                expect(not list(b.complaints()), f"{where}: {list(b.complaints())}")
            b.load(index, dark=True)  # begun in dark: a script could ask for the mode
            whole(b, kind)
            expect(not list(b.complaints()), f"{kind}, dark: {list(b.complaints())}")
            if kind == "full":
                b.load(index)
                hostile(b), sorting(b)
                expect(not list(b.complaints()), f"after the clicks: {list(b.complaints())}")
                b.load(index)
                (shots / "full.pdf").write_bytes(base64.b64decode(b.page("Page.printToPDF", preferCSSPageSize=True)["data"]))
            page_views.of_kind(b, index, log, kind)
            print(f"{kind}: three widths, light and dark")
        for kind, place in SITES.items():
            site(b, build, tmp / f"{kind}.log", tmp / f"{kind}-site", place, WIDTHS)
            print(f"{kind}: a site of {len(list((tmp / f'{kind}-site').glob('**/*.html')))} pages")
        page_views.changes(b, build, tmp, layout, WIDTHS)
        page_views.devices(b, build, tmp, layout)
        print("two logs side by side; a CPU and a GPU log on one board")
        b.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
