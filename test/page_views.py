# SPDX-License-Identifier: Apache-2.0
"""page_views.py - tests of page.py that concern one view: findings, pairs, changes, devices, plots, counts."""
import json
import re
import subprocess

TEXT = "document.querySelector('{}')?.innerText.replace(/\\s+/g, ' ') || ''"


def expect(ok, what):
    if not ok:
        raise SystemExit(f"page: {what}")


def records(log, kind):
    return [r for r in map(json.loads, log.read_text().splitlines()) if r["type"] == kind]


def plain(task):
    return task.replace("_", " ").replace("/", " on ")


def told(fault):
    """The words of a fault on the page: of a crash and a hang, what happens."""
    return fault["words"].replace("fails only ", {"crash": "crashes only ", "hang": "hangs only "}.get(fault["reason"], "fails only "))


class Log:
    """A log by entrant and challenge; of one answer each."""

    def __init__(self, path):
        self.entrants = {(r["name"], r["task"]): r for r in records(path, "entrant")}
        self.verdict = {r["entrant"]: r for r in records(path, "verdict")}
        self.score = {r["entrant"]: r for r in records(path, "score")}
        self.source = {}
        for r in records(path, "source"):
            self.source[r["entrant"]] = self.source.get(r["entrant"], 0) + len([l for l in r["text"].split("\n") if l.strip()])
        self.names = list(dict.fromkeys(name for name, _ in self.entrants))
        self.tasks = list(dict.fromkeys(task for _, task in self.entrants))

    def of(self, name, task):
        e = self.entrants.get((name, task))
        return e and self.verdict.get(e["id"])

    def passed(self, name):
        return [t for t in self.tasks if (self.of(name, t) or {"verdict": ""})["verdict"].startswith("PASS")]

    def entered(self, name):
        return [t for t in self.tasks if self.of(name, t)]


def of_kind(b, index, log, kind):
    if kind == "models":
        first_screen(b, index)
        findings(b, log)
        texts(b)
        entered(b, log)
        long_scope(b, index)
        pairs(b, index, log)
        faults(b, index, log)
        shapes(b, index, log)
    if kind == "failures":
        expect(" leads" not in b.run(TEXT.format("#findings")), "failures: of none that passed, one leads")
    if kind == "full":
        hostile_pair(b, index)
    if kind == "23x5x2":
        pass_once(b, index)
    expect(not list(b.complaints()), f"{kind}: {list(b.complaints())}")


def first_screen(b, index):
    """Findings, the whole board and the head of the matches are in the first 900 px."""
    b.load(index, 1280, 900)
    ends = b.run("['#findings', '#scoreboard .board', '#matches h2', '#matches tbody tr'].map(s => document.querySelector(s).getBoundingClientRect().bottom)")
    expect(max(ends) <= 940 and ends[2] <= 880 and ends == sorted(ends), f"models: findings, board, head to head and its first row end at {ends} px")


def findings(b, path):
    log = Log(path)
    said = b.run("[...document.querySelectorAll('#findings ol > li')].map(e => e.innerText.replace(/\\s+/g, ' '))")
    order = sorted(log.names, key=lambda n: -len(log.passed(n)))
    expect([s.split(":")[0].replace(" leads", "") for s in said][0] == order[0], f"findings: {said[0]} is first, expected {order[0]}")
    expect(said[0].startswith(f"{order[0]} leads: {len(log.passed(order[0]))} of {len(log.tasks)} passed, "), f"findings: {said[0]}")
    expect(re.search(r"0\.\d\d of the best known NumPy version; next is \S+ with \d", said[0]), f"findings: not why the first leads: {said[0]}")
    counts = [int(re.search(r"(\d+) of \d+ passed", s).group(1)) for s in said]
    expect(len(said) == len(log.names) and counts == sorted(counts, reverse=True), f"findings: not ranked: {counts}")
    for s in said:
        name = re.split(r" leads:|:", s)[0]
        wrong = [t for t in log.entered(name) if t not in log.passed(name)]
        named = [t for t in wrong if f"{plain(t)}: " in s]
        expect(len(named) == min(2, len(wrong)), f"findings: {s}: expected two of {wrong}")
        for t in named:
            v = log.of(name, t)
            expect(not v["words"] or f"{plain(t)}: {told(v)} ({v['cases'][0]}/{v['cases'][1]} cases)" in s, f"findings: {s}: expected {v['words']}")
        expect(f"and {len(wrong) - 2} more" in s or len(wrong) <= 2, f"findings: {s}: not how many more")
    field = b.run(TEXT.format("#findings .said > ul"))
    for want in ("2 entrants make one mistake in ", "Passed, but not timed: quartz-coder-480b in softmax topk (no timed workload within the declared offers).", "Hardest: "):
        expect(want in field, f"findings: no '{want}' in {field}")
    kinds = {"sealed": "C", "host": "C", "python": "NumPy"}
    classes = {r["id"]: kinds[r["class"]] for r in records(path, "entrant") if r["class"] in kinds}
    beyond = {classes[r["entrant"]] for r in records(path, "score") if r["of_best"] >= 1.1}
    expect(set(re.findall(r"Faster than the best known (\S+) version: ", field)) == beyond, f"findings: {field}: expected {beyond}")
    lead, field = [f"m.people = [{{ name: 'a', pass1: 1, score: {x} }}, {{ name: 'b', pass1: 1, score: {y} }}], h('p', {{}}, lead1(m, ...m.people)).textContent" for x, y in ((109.4, 109.2), (109.4, 100))], []
    for script, want in zip(lead, ("the lower score: 109.2 against 109.4", "the lower score: 100 against 109")):
        expect(want in b.run(f"(m => ({script}))({{}})"), f"findings: {b.run(f'(m => ({script}))({{}})')}: expected {want}")


def texts(b):
    """Forms of numbers and words that the logs of make_log do not have."""
    for script, want in (("margin(Math.log(1 / 1.95))", "\u221249 %"), ("margin(Math.log(1.95))", "+95 %"), ("margin(-Math.log(2.1))", "\u00f72.1"), ("margin(Math.log(.995))", "\u22120.5 %"),
                         ("shareOf({ share: .0083 })", "0.83 %"), ("shareOf({ share: .004 })", "0.4 %"), ("shareOf({ share: .41 })", "41 %"),
                         ("rule({ tasks: ['a'] })", "Ranked by whether the challenge was passed, then by score, then by cases passed."),
                         ("bestKnown([{ class: 'python', score: { of_best: 1 } }])", "of the best known NumPy version"),
                         ("bestKnown([{ class: 'python', score: { of_best: 1 } }, { class: 'host', score: { of_best: 1 } }])", "of the best known versions"),
                         ("['', '2'].map(c => comparable({ met: new Map() }, {}, '', { times: [{ case: '1' }] }, { times: [{ case: '1' + c }] })).join()", "true,false"),
                         ("['', 'k < 4'].map(o => comparable({ met: new Map() }, {}, '', { times: [] }, { times: [], offers: o })).join()", "true,false")):
        expect(b.run(script) == want, f"{script} is {b.run(script)}, expected {want}")
    fast = "[1.09, 1.11].map(x => beyond({ entrants: [{ class: 'host', task: 'a', name: 'a', verdict: { verdict: 'PASS' }, score: { of_best: x } }] }).length).join()"
    expect(b.run(fast) == "0,1", f"findings: faster than the best known by 9 and by 11 %: {b.run(fast)}")
    apart = "h('p', {}, faster({ name: 'a', met: new Map() }, { name: 'b' }, '', ...['1', '2'].map(c => ({ verdict: { verdict: 'PASS' }, score: { S: +c, S_lo: +c, S_hi: +c }, times: [{ case: c }] })))).textContent"
    expect(b.run(apart) == "timed in different workloads: no speeds to compare", f"pair: {b.run(apart)}")


def long_scope(b, index):
    """A scope is whole on a phone's card."""
    b.load(index, 390)
    b.run("document.querySelectorAll('details.task').forEach(e => e.open = true)")
    b.run("new Promise(done => setTimeout(done, 50))")
    b.run("document.querySelectorAll('.scope code').forEach(e => e.textContent = 'q == k && q_heads == kv_heads && window == 0 && kv_len == 0')")
    wide = "[...document.querySelectorAll('.scope')].map(e => e.getBoundingClientRect().right)"
    expect(b.run(wide) and max(b.run(wide)) <= 390, f"models: a scope ends at {b.run(wide)} px of 390")


def entered(b, path):
    """Passed of all, of entered, and which of them ranks."""
    log = Log(path)
    rows = b.run("[...document.querySelectorAll('#scoreboard .board tbody tr')].map(e => [e.querySelector('.who bdi').textContent, e.cells[2].textContent, e.querySelector('.entered')?.textContent])")
    want = [[n, f"{len(log.passed(n))}/{len(log.tasks)}", f"{len(log.passed(n))}/{len(log.entered(n))}"] for n, _, _ in rows]
    expect(rows == want, f"models: passed of all and of entered {rows}, expected {want}")
    rule = b.run(TEXT.format("#scoreboard .ranking"))
    expect(f"challenges passed of all {len(log.tasks)} challenges (one that was not entered counts as not passed)" in rule, f"models: the rule is '{rule}'")


def measures(log, name, task):
    e, v = log.entrants[name, task], log.of(name, task)
    s, ok = log.score.get(e["id"]), v["verdict"].startswith("PASS")
    cases = f"{v['cases'][0]} of {v['cases'][1]} cases" if v["cases"][1] else f"none of {v['cases'][2]} cases run"
    shown = [v["verdict"], cases]
    if s:
        percent = lambda x: f"{100 * x:.{2 if x < 0.0995 else 1}f} %"
        shown += [str(int(s["score"] + .5)), percent(s["S"]), f"{s['of_best']:.2f}"]
    if ok:
        shown += [f"{v['worst']:.3g}"]
    if "not_timed" in v:
        shown += ["not timed: " + v["not_timed"]]
    shown += [told(f) for f in v["faults"][:3] if f["words"] and v["verdict"] != "PASS"]
    return shown + [str(log.source[e["id"]])]


def pairs(b, index, path):
    """Every pair has a view with all that is known of both."""
    log = Log(path)
    for i, j in ((1, 3), (2, 6), (6, 1)):
        b.load(index)
        b.run(f"location.hash = '#pair-{i}-{j}'")
        b.run("new Promise(done => setTimeout(done, 50))")
        a, c = (b.run(f"document.querySelectorAll('#pair .choices select')[{k}].selectedOptions[0].textContent.replace(/^\\d+. /, '')") for k in (0, 1))
        expect(b.run("[...document.querySelectorAll('#page > section')].filter(e => e.checkVisibility()).map(e => e.id).join()") == "pair", f"pair {i}, {j}: other sections are in sight")
        expect(b.run(TEXT.format("#pair h2")) == f"{a} and {c}", f"pair {i}, {j}: {b.run(TEXT.format('#pair h2'))}")
        blocks = b.run("[...document.querySelectorAll('.duo tbody')].map(e => [...e.rows].map(r => r.innerText.replace(/\\s+/g, ' ')))")
        tasks = [t for t in log.tasks if log.of(a, t) or log.of(c, t)]
        expect([x[0].startswith(plain(t)) for x, t in zip(blocks, tasks)] == [True] * len(tasks), f"pair {i}, {j}: challenges {[x[0] for x in blocks]}")
        for rows, task in zip(blocks, tasks):
            for text, name in zip(rows[1:], (a, c)):
                if not log.of(name, task):
                    expect("not entered" in text, f"pair {i}, {j}: {task}: {text}")
                    continue
                at = 0
                for want in measures(log, name, task):
                    at = text.find(want)
                    expect(at >= 0, f"pair {i}, {j}: {task}: no '{want}' in '{text}'")
        both = set(log.passed(a)) & set(log.passed(c))
        said = b.run(TEXT.format("#pair .pair-text"))
        only = [t for t in tasks if t in log.passed(a) and t not in both]
        expect(all(plain(t) in said for t in only), f"pair {i}, {j}: {said}: not {only}")
        b.run("document.querySelector('#pair a').click()")
        b.run("new Promise(done => setTimeout(done, 50))")
        expect(b.run("document.querySelector('#scoreboard').checkVisibility() && !document.querySelector('#pair').checkVisibility()"), f"pair {i}, {j}: no way back to the board")
    b.run("document.querySelector('.matrix td.won a').click()")
    b.run("new Promise(done => setTimeout(done, 50))")
    expect(b.run("/^#pair-1-/.test(location.hash) && document.querySelector('#pair').checkVisibility()"), "a cell of head to head does not lead to the pair")


def hostile_pair(b, index):
    for i in range(1, 8):
        b.load(index)
        b.run(f"location.hash = '#pair-{i}-{i + 1}'")
        b.run("new Promise(done => setTimeout(done, 50))")
        expect(b.run("document.querySelectorAll('#pair .duo tbody').length") > 0, f"full: no pair {i}, {i + 1}")
        expect(b.run("document.querySelectorAll('img, #page script').length") == 0 and b.run("document.title") == "Touchstone: scoreboard", "pair: a name or a fault became an element")
        expect(b.run("/[\\u0000-\\u0009\\u000b-\\u001f\\u202e]/.test(document.getElementById('page').textContent)") is False, "pair: a control character")
    for bad in ("#pair-1-1", "#pair-0-1", "#pair-1-99", "#pair-1-2-3", "#pair-%3Cb%3E-1"):
        b.load(index)
        b.run(f"location.hash = '{bad}'")
        b.run("new Promise(done => setTimeout(done, 30))")
        expect(b.run("document.querySelector('#scoreboard').checkVisibility()"), f"full: {bad} hides the board")
    expect(not list(b.complaints()), f"full: {list(b.complaints())}")


def cases(b, log, where):
    """The number of cases is next to every verdict of a table and of a flaw, and the reason for no time."""
    if not any("cases" in r or r.get("categories") for r in records(log, "verdict")):
        return
    b.run("document.querySelectorAll('details.task').forEach(e => e.fill && e.fill())")
    bare = b.run("""[...document.querySelectorAll('#page section[id^=task] td.verdict, #page .flaw')].filter(e => e.querySelector('.chip') && !/\\d+ of \\d+ cases|none of \\d+ cases run/.test(e.querySelector('.count')?.textContent))
      .map(e => e.textContent.slice(0, 80)).slice(0, 3)""")
    some = any(not (r.get("cases") or [1, 1, 1])[2] for r in records(log, "verdict"))
    expect(not bare or some, f"{where}: verdicts without a number of cases: {bare}")
    for r in records(log, "verdict"):
        if "not_timed" in r:
            expect("not timed: " + r["not_timed"] in b.run("document.getElementById('page').textContent"), f"{where}: no word of why {r['entrant']} was not timed")


def faults(b, index, path):
    """A flaw has all faults in words with their counts, and the families that failed."""
    b.load(index)
    b.run("document.querySelectorAll('details').forEach(e => e.open = true)")
    names = {r["id"]: r["name"] for r in records(path, "entrant")}
    for r in records(path, "verdict"):
        if r["verdict"] != "FAIL" or not r["faults"]:
            continue
        text = b.run(f"[...document.querySelectorAll('#task-{r['task']} .flaw')].find(e => e.querySelector('bdi').textContent === '{names[r['entrant']]}').innerText")
        for f in r["faults"]:
            case = f"{told(f)} {f['n']} case{'' if f['n'] == 1 else 's'}, first in family {f['family']}" if f["words"] else f"family {f['family']} {f['n']} case"
            expect(case in text, f"models: flaw {r['entrant']}: no '{case}' in {text}")
        for name, (passed, run) in r["families"].items():
            expect((f"{name} {passed}/{run}" in text) == (passed < run), f"models: flaw {r['entrant']}: family {name}, {passed} of {run}: {text}")


# Labels of pictures that stick out of their picture or lie on each other.
LABELS = """(() => {
  const out = [];
  for (const svg of document.querySelectorAll('figure svg')) {
    const box = svg.getBoundingClientRect(), card = svg.closest('figure').getBoundingClientRect(), all = [...svg.querySelectorAll('text')].map(e => [e.textContent, e.getBoundingClientRect()]);
    for (const [t, r] of all) if (r.left < box.left - 1 || r.right > box.right + 1 || r.top < card.top || r.bottom > card.bottom) out.push('outside: ' + t);
    for (let i = 0; i < all.length; i++) for (let k = 0; k < i; k++) {
      const [a, b] = [all[i][1], all[k][1]];
      if (a.width && b.width && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4) out.push(`${all[i][0]} on ${all[k][0]}`);
    }
  }
  return out.slice(0, 5); })()"""


def shapes(b, index, path):
    """Plots: labels are inside, failed answers are not among the errors."""
    log = Log(path)
    for width in (1280, 1100, 390):
        b.load(index, width)
        b.run("document.querySelectorAll('details.task').forEach(e => e.open = true)")
        b.run("new Promise(done => setTimeout(done, 50))")
        found = b.run(LABELS)
        expect(not found, f"models, {width} px: labels {found}")
    for task in log.tasks:
        wrong = [n for n in log.names if log.of(n, task) and task not in log.passed(n)]
        shown = b.run(f"[...[...document.querySelectorAll('#task-{task} figure')].find(e => e.textContent.startsWith('Error')).querySelectorAll('text.name title')].map(e => e.textContent)")
        expect(sorted(shown) == sorted(n for n in log.names if task in log.passed(n)), f"models: {task}: errors of {shown}; {wrong} failed")


def pass_once(b, index):
    b.load(index)
    heads = b.run("[...document.querySelectorAll('#scoreboard th')].map(e => e.textContent)")
    expect(heads.count("pass@1") == 1, f"23x5x2: {heads}")
    cells = b.run("[...document.querySelectorAll('#scoreboard td')].filter(e => e.dataset.label === 'pass@k').map(e => e.textContent)")
    expect(cells and not any("k = 1" in c for c in cells) and "\u2013" in "".join(cells), f"23x5x2: pass@k {cells}")


def changes(b, build, tmp, layout, widths):
    """Two logs: what changed, on the terminal and on the page."""
    was, now = tmp / "models.log", tmp / "later.log"
    subprocess.run([build / "test" / "make_log", now, "models", "later"], check=True)
    said = subprocess.run([build / "touchstone", "report", now, "--against", was, "--out", tmp / "changed"], check=True, capture_output=True, text=True).stdout
    said = said[said.index("Changes since models.log"):]
    for want in ("of 36 answers in both logs: 1 lost, 1 gained, 5 faster; 29 as before", "kestrel-2", "only in this log", "no longer there"):
        expect(want in said, f"changes: no '{want}' in {said}")
    expect(said.count("      same files\n") == 7 and "same files: the entrant did not change" in said, f"changes: same files in {said}")
    for want in (r"lost +quartz-coder-480b +layernorm_forward +PASS 201/201 +FAIL \d+/201 +\d+ +-\n +new fault: \w", r"gained +heron-3-preview +rms_norm_backward +FAIL \d+/201 +PASS 201/201 +- +\d+\n +gone: \w",
                 r"faster +lumen-2 +layernorm_forward +PASS 201/201 +PASS 201/201 +\d+ +\d+\n", r"heron-3-preview +passed 6 of 8 entered, now 7 of 8; score \d+, now \d+"):
        expect(re.search(want, said), f"changes: no '{want}' in {said}")
    expect(max(map(len, said.splitlines())) <= 100, "changes: wider than 100 columns")
    for width in widths:
        b.load(tmp / "changed" / "index.html", width)
        layout(b, f"changes, {width} px")
        expect(b.run("document.documentElement.scrollWidth") <= width, f"changes: wider than {width} px")
        inside = "[...document.querySelectorAll('.change td.verdict')].filter(e => { const r = document.createRange(); r.selectNodeContents(e); return r.getBoundingClientRect().right > e.getBoundingClientRect().right + 1; }).map(e => e.textContent)"
        b.run("document.querySelectorAll('.change td.verdict .chip').forEach(e => { e.className = 'chip COMMON'; e.textContent = 'PASS (common)'; })")
        expect(not b.run(inside), f"changes, {width} px: sticks out of its cell: {b.run(inside)}")
        left = b.run("[...new Set([...document.querySelectorAll('.change .way')].map(e => getComputedStyle(e).paddingLeft))]")
        expect(left == ["0px"], f"changes, {width} px: indented by {left}")
    rows = b.run("[...document.querySelectorAll('#changes tbody tr')].map(e => e.innerText.replace(/\\s+/g, ' '))")
    expect(len(rows) == 7 and rows[0].startswith("quartz-coder-480b layernorm forward") and "no longer passes" in rows[0] and "new: behaves like" in rows[0], f"changes: {rows[:1]}")
    expect("passes now" in rows[1] and "gone: " in rows[1] and sum("faster" in r for r in rows) == 5, f"changes: {rows}")
    expect(all("same files" in r for r in rows), f"changes: no word of same files: {rows}")
    text = b.run(TEXT.format("#changes"))
    for want in ("compared with models.log", "Of 36 answers in both logs: 1 answer passes now, 1 no longer passes, 5 are faster; 29 as before.", "Only in this log: kestrel-2.", "No longer there: kestrel.", "heron-3-preview: 6 of 8 entered passed, now 7 of 8"):
        expect(want in text, f"changes: no '{want}' in {text}")
    none = subprocess.run([build / "touchstone", "report", was, "--against", was, "--json", "-"], check=True, capture_output=True, text=True).stdout
    expect(json.loads(none).get("changes") == [], "changes: of a log against itself")
    full = subprocess.run([build / "touchstone", "report", tmp / "full.log", "--against", tmp / "old.log", "--out", tmp / "older"], check=True, capture_output=True, text=True).stdout
    expect("answers in both logs" in full and "\x1b" not in full, "changes: against an older log")
    b.load(tmp / "older" / "index.html")
    expect(b.run("document.querySelectorAll('img, #page script').length") == 0 and not list(b.complaints()), "changes: a hostile name")


def devices(b, build, tmp, layout):
    """A CPU log and a GPU log on one board: one row per entrant, a column per challenge and device."""
    for part in ("cpu", "cuda"):
        subprocess.run([build / "test" / "make_log", tmp / f"{part}.log", "23x5", part], check=True)
    subprocess.run([build / "touchstone", "report", tmp / "cpu.log", tmp / "cuda.log", "--out", tmp / "devices"], check=True, stdout=subprocess.DEVNULL)
    entrants = records(tmp / "cpu.log", "entrant") + records(tmp / "cuda.log", "entrant")
    for width in (1280, 390):
        b.load(tmp / "devices" / "index.html", width)
        layout(b, f"cpu and cuda, {width} px")
    b.load(tmp / "devices" / "index.html")
    rows = b.run("[...document.querySelectorAll('#scoreboard .board tbody tr')].map(e => [e.querySelector('.who bdi').textContent, [...e.querySelectorAll('.class')].map(c => c.textContent), e.querySelectorAll('td.heat').length, e.querySelectorAll('td.heat:not(.absent)').length])")
    want = {n: [sorted({r["class"] for r in entrants if r["name"] == n}), 23, len({r["task"] for r in entrants if r["name"] == n})] for n in dict.fromkeys(r["name"] for r in entrants)}
    expect({n: [sorted(c), all_, some] for n, c, all_, some in rows} == want and len(rows) == len(want), f"cpu and cuda: {rows}, expected {want}")
    b.run("location.hash = '#task-softmax_topk-cuda'")
    b.run("new Promise(done => setTimeout(done, 80))")
    roof = b.run("[...document.querySelectorAll('#task-softmax_topk-cuda figure')].find(e => e.textContent.startsWith('Roofline'))?.textContent")
    expect(roof and "4400 GB/s" in roof, f"cpu and cuda: the roofline of the GPU is {roof}")
