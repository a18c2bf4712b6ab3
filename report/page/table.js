// SPDX-License-Identifier: Apache-2.0
// The tables, the flaws, and the page put together.

const chip = (kind, text) => h("i", { class: "chip " + kind }, text || wordOf(kind));
const COMMON = "PASS (common)";
const kindOf = e => e && e.verdict && e.verdict.verdict === COMMON ? "COMMON" : ["PASS", "FAIL", "AUDIT", "ERROR"].find(k => e && e.verdict && e.verdict.verdict === k) || "none";
const wordOf = kind => kind === "COMMON" ? COMMON : kind;
const anchor = task => "task-" + task.replace(/[^a-z0-9_]/gi, "-");
const plain = task => task.replace(/_/g, " ");

// td with the value it sorts by.
const cell = (value, attributes, ...children) => h("td", { ...attributes, "data-v": value }, children);

function bar(s) {
  if (!s) return h("span", { class: "soft" }, "\u2013");
  const at = v => 90 * Math.min(1, v);
  return h("div", { class: "bar" }, h("span", {}, percent(s.S)),
    g("svg", { viewBox: "0 0 92 14" },
      g("rect", { x: 1, y: 3, width: 90, height: 8, rx: 2, fill: "var(--track)" }),
      g("rect", { x: 1, y: 3, width: at(s.S), height: 8, rx: 2, fill: "var(--gold)" }),
      g("path", { d: `M${1 + at(s.lo)} 1v12M${1 + at(s.hi)} 1v12M${1 + at(s.lo)} 7H${1 + at(s.hi)}`, stroke: "var(--ink)", "stroke-width": 1 })),
    h("small", {}, `${(100 * s.lo).toFixed(s.lo < 0.0995 ? 2 : 1)} \u2013 ${(100 * s.hi).toFixed(s.hi < 0.0995 ? 2 : 1)}`));
}
const speedOf = e => passed(e) && e.score ? { S: e.score.S, lo: e.score.S_lo, hi: e.score.S_hi } : null;

// Heads: [text, attributes]. A click sorts by it, a second one turns the order round.
function table(heads, groups, body) {
  const t = h("table", {}), head = h("tr", {}), rows = h("tbody", {}, body);
  heads.forEach(([text, attributes], i) => {
    const th = h("th", { scope: "col", ...attributes });
    th.append(h("button", { type: "button", title: attributes && attributes.title, on: () => sort(rows, head, th, i) }, text));
    head.append(th);
  });
  t.append(h("thead", {}, groups && h("tr", { class: "groups" }, groups.map(([text, span]) => h("th", { colspan: span, class: text ? "" : "who" }, text))), head), rows);
  return h("div", { class: "box", tabindex: 0 }, t);
}

function sort(rows, head, th, i) {
  const value = tr => { const v = tr.cells[i].dataset.v; return v !== "" && !isNaN(v) ? +v : v; };
  const text = [...rows.rows].some(tr => typeof value(tr) === "string" && value(tr) !== "");
  const up = th.ariaSort ? th.ariaSort !== "ascending" : text || th.dataset.first === "low";
  const order = (x, y) => x === "" || y === "" ? (x === "") - (y === "") // what is not there comes last
    : (up ? 1 : -1) * (text ? String(x).localeCompare(String(y)) : x - y);
  for (const other of head.cells) other.removeAttribute("aria-sort");
  th.ariaSort = up ? "ascending" : "descending";
  rows.append(...[...rows.rows].sort((a, b) => order(value(a), value(b))));
}

const nameCell = (e, more) => cell(clean(e.name).toLowerCase(), { class: "who", title: clean(e.name) }, h("b", {}, who(e)),
  h("small", {}, h("bdi", {}, e.author), more && " \u00b7 " + clean(more)));

function scoreboard(m) {
  const rated = m.people.some(p => p.rank);
  const body = m.people.map((p, i) => h("tr", {},
    cell(i + 1, { class: "num soft" }, i + 1), nameCell(p, p.first.language),
    cell(p.class, {}, h("span", { class: "class" }, p.class)),
    cell(p.score, { class: "num score" }, Math.round(p.score)),
    cell(GRADES.findIndex(x => x[1] === p.grade) + 1 || 9, { class: "grade" }, p.grade === "-" ? "\u2013" : p.grade),
    cell(p.passed.length, {}, m.tasks.map(t => {
      const e = p.in.find(e => e.task === t), kind = kindOf(e);
      return h("a", { class: "chip " + kind, href: "#" + anchor(t), title: `${plain(t)}: ${e ? kind === "none" ? "not judged yet" : wordOf(kind) + " " + clean(e.verdict.reason) : "not entered"}` }, kind === "none" ? "\u2013" : wordOf(kind));
    })),
    cell(p.speed ? p.speed.S : "", {}, bar(p.speed)),
    rated && cell(p.rank ? p.rank.rating : "", { class: "num" }, p.rank ? [Math.round(p.rank.rating), h("small", { class: "soft" }, ` ${Math.round(p.rank.lo)} \u2013 ${Math.round(p.rank.hi)}`)] : "\u2013"),
    rated && cell(p.rank ? p.rank.rank : "", { class: "num" }, p.rank ? p.rank.rank : "\u2013")));
  const heads = [["#", { class: "num", "data-first": "low" }], ["Entrant", { class: "who" }], ["Class"], ["Score", { class: "num" }], ["Grade", { "data-first": "low" }], ["Challenges", { title: m.tasks.map(plain).join(", ") }],
    ["Speed of the floor", { title: "geometric mean over the challenges it passed, with its 95 % interval" }]];
  if (rated) heads.push(["Rating", { class: "num" }], ["Group", { class: "num", "data-first": "low", title: "one more than the number of entrants whose whole rating interval lies above" }]);
  return h("section", { id: "scoreboard" }, h("h2", {}, "Scoreboard"),
    h("p", { class: "note" }, "Speed is the part of the machine\u2019s measured limit that an entrant reaches, over the challenges it passed. The score is the mean over all challenges, 0 to 1000; one that was not passed counts nothing. ",
      GRADES.map(([least, grade], i) => `${grade} ${i === 5 ? "below" : "from " + least}`).join(", "), ", F: passed nothing."),
    table(heads, null, body));
}

// ---- head to head ----

function meet(m, a, b, task) {
  const c = { won: 0, lost: 0, tied: 0, margin: 0, n: 0, said: [] };
  for (const x of m.matches) {
    const way = x.a.person === a && x.b.person === b ? 1 : x.b.person === a && x.a.person === b ? -1 : 0;
    if (!way || task && x.task !== task) continue;
    const mine = way > 0 ? "a" : "b", his = way > 0 ? "b" : "a";
    if (x.verdict === mine) c.won++; else if (x.verdict === his) c.lost++; else c.tied++;
    c.margin += way * x.effect, c.n++;
    const ends = [way * x.lo, way * x.hi].sort((p, q) => p - q);
    c.said.push(`${plain(x.task)}: ${margin(way * x.effect)} [${margin(ends[0])}, ${margin(ends[1])}]${x.verdict === "noise" ? ", too noisy to say" : x.verdict === "tie" ? ", a tie" : ""}, ${x.pairs} pairs`);
  }
  c.margin /= c.n || 1;
  return c;
}

function matrixTable(m, task) {
  const people = m.people.filter(p => m.matches.some(x => (!task || x.task === task) && (x.a.person === p || x.b.person === p)));
  const t = h("table", { class: "matrix" }), body = h("tbody", {});
  t.append(h("thead", {}, h("tr", {}, h("th", { class: "who" }, "faster, against"), people.map(p => h("th", { title: clean(p.name) }, h("i", { class: "place" }, p.place + 1), h("bdi", {}, cut(p.name, 10)))))), body);
  for (const a of people)
    body.append(h("tr", {}, h("td", { class: "who", title: clean(a.name) }, h("b", {}, h("i", { class: "place" }, a.place + 1), who(a))), people.map(b => {
      if (a === b) return h("td", { class: "cell self" });
      const c = meet(m, a, b, task);
      if (!c.n) return h("td", { class: "cell soft", title: "they did not meet" }, "\u00b7");
      const kind = c.won > c.lost ? "won" : c.lost > c.won ? "lost" : "tied";
      const td = h("td", { class: "cell " + kind, title: clean(`${a.name} against ${b.name}\n`.replace(/\n/, " \u2014 ")) + c.said.map(clean).join("; ") },
        c.n > 1 || !task ? `${c.won}\u2013${c.lost}\u2013${c.tied}` : kind, h("small", {}, margin(c.margin)));
      td.style.setProperty("--a", 14 + 38 * Math.min(1, Math.abs(c.margin) / Math.log(4)));
      return td;
    })));
  return h("div", { class: "box", tabindex: 0 }, t);
}

function headToHead(m) {
  if (!m.matches.length) return null;
  const tabs = h("div", { class: "tabs" }), section = h("section", { id: "matches" }, h("h2", {}, "Head to head"),
    h("p", { class: "note" }, "Won\u2013lost\u2013tied, and by how much the row is faster (+) or slower (\u2212) than the column, from twice on as a factor. Both were timed on the same inputs, in pairs, in turns; a win needs the whole 95 % interval beyond 1 %.",
      h("span", { class: "keys" }, h("i", { class: "key won" }), "row faster", h("i", { class: "key lost" }), "row slower")), tabs);
  section.querySelector(".key.won").style.background = "var(--win)";
  section.querySelector(".key.lost").style.background = "var(--lose)";
  const show = (button, task) => {
    for (const b of tabs.children) b.setAttribute("aria-pressed", b === button);
    const old = section.querySelector(".box"), made = matrixTable(m, task);
    if (old) old.replaceWith(made); else section.append(made);
  };
  for (const task of [null, ...m.tasks.filter(t => m.matches.some(x => x.task === t))])
    tabs.append(h("button", { type: "button", on: ev => show(ev.currentTarget, task) }, task ? plain(task) : "all challenges"));
  show(tabs.firstChild, null);
  return section;
}

// ---- a challenge ----

const share = (pair, edge, title) => {
  const known = Array.isArray(pair) && pair[1] > 0;
  return cell(known ? pair[0] / pair[1] : "", { class: "num" + (edge ? " edge" : "") + (known && pair[0] < pair[1] ? " short" : " soft"), title: title && clean(title) }, known ? `${pair[0]}/${pair[1]}` : "\u2013");
};
const error = (x, edge) => {
  const v = number(x), known = x !== undefined && x !== null;
  return cell(known ? isNaN(v) ? Infinity : v : "", { class: "num" + (edge ? " edge" : "") + (known && !(v <= 1) && edge !== null ? " short" : "") }, known ? brief(v) : "\u2013");
};

const ROBUST = { refusals: "senseless calls refused, with nothing written", repeat: "equal bits for equal inputs", threads: "equal bits with one thread and with several",
  sanitizer: "cases that a build which traps undefined behaviour answered" };

function challengeRow(e, kinds, robust) {
  const v = e.verdict || {}, s = passed(e) ? e.score : null, kind = kindOf(e);
  return h("tr", {}, nameCell(e, e.offers ? `${e.language} \u00b7 offers ${e.offers}: ${percent(e.share)}` : e.language), cell(e.class, { class: "edge" }, h("span", { class: "class" }, e.class)),
    cell(kind + (v.reason || ""), {}, chip(kind, kind === "none" ? "not judged" : wordOf(kind)), kind !== "PASS" && h("span", { class: "reason" }, v.reason)),
    cell(s ? s.score : 0, { class: "num score edge" }, s ? Math.round(s.score) : passed(e) || kind === "none" ? "\u2013" : 0),
    cell(s ? -s.score : 1, { class: "grade" }, s ? s.grade === "-" ? "\u2013" : s.grade : kind === "FAIL" ? "F" : "\u2013"),
    cell(s ? s.S : "", { class: "edge" }, bar(speedOf(e))), cell(s ? s.S_min : "", { class: "num" }, s ? percent(s.S_min) : "\u2013"),
    kinds.map((k, i) => share((v.categories || {})[k], !i)), error(v.worst, true), error(v.p999), error(v.ulp, null),
    robust.map((k, i) => share((v.robustness || {})[k], !i, k === "sanitizer" ? v.robustness_text : "")),
    cell(v.workspace_bytes ?? "", { class: "num edge" }, v.workspace_bytes === undefined ? "\u2013" : bytes(v.workspace_bytes)));
}

function flaw(e) {
  const v = e.verdict, facts = [["case", v.case], ["at", v.index], ["got", v.got], ["want", v.want], ["bound", v.bound]]
    .filter(f => f[1] !== undefined && f[1] !== null && f[1] !== "")
    .map(([k, x]) => [k, k === "bound" ? exact(number(x)) : k === "got" || k === "want" ? exact(number(x), apart(number(v.got), number(v.want))) : clean(x)]);
  const made = h("div", { class: "flaw " + kindOf(e) }, h("h4", {}, who(e), " ", chip(kindOf(e)), h("span", { class: "reason" }, v.reason)),
    h("p", {}, v.text), facts.length > 0 && h("dl", {}, facts.map(([k, x]) => [h("dt", {}, k), h("dd", {}, x)])));
  if (v.replay) {
    const code = h("code", {}, v.replay);
    made.append(h("div", { class: "replay" }, code, h("button", { class: "copy", type: "button", on: ev => copy(ev.currentTarget, code) }, "copy")));
  }
  return made;
}

function copy(button, code) {
  const range = document.createRange(), selection = getSelection();
  range.selectNodeContents(code);
  selection.removeAllRanges();
  selection.addRange(range);
  button.textContent = document.execCommand("copy") ? "copied" : "selected";
  setTimeout(() => button.textContent = "copy", 1500);
}

function challenge(m, task) {
  const entrants = m.entrants.filter(e => e.task === task).sort((a, b) => whole(b) - whole(a) || (speedOf(b) ? b.score.score : passed(b) ? 0 : -1) - (speedOf(a) ? a.score.score : passed(a) ? 0 : -1));
  const kinds = ["basic", "shapes", "numerics", "special", "adversarial", "canon"], robust = ["refusals", "repeat", "threads", "sanitizer"];
  const right = entrants.filter(passed), wrong = entrants.filter(e => e.verdict && !whole(e));
  const edge = { class: "num edge" }, num = { class: "num" };
  const heads = [["Entrant", { class: "who" }], ["Class", { class: "edge" }], ["Verdict"], ["Score", edge], ["Grade", { "data-first": "low" }], ["Of the floor", { class: "edge" }], ["Worst", num],
    ...kinds.map((k, i) => [k, { ...(i ? num : edge), title: "passed of all " + k + " cases" }]), ["worst", { ...edge, title: "largest error over its bound" }], ["p99.9", num], ["ulp", num],
    ...robust.map((k, i) => [k, { ...(i ? num : edge), title: ROBUST[k] }]), ["Workspace", edge]];
  const groups = [["", 1], ["Verdict", 2], ["Score", 2], ["Speed", 2], ["Correct", 6], ["Error / bound", 3], ["Robust", 4], ["Memory", 1]];
  return h("section", { id: anchor(task) }, h("h2", {}, plain(task)),
    h("p", { class: "note" }, `${right.length} of ${entrants.length} passed`, right.length && right[0].score ? [". Fastest to the floor: ", who(right.reduce((a, b) => (b.score ? b.score.S : 0) > a.score.S ? b : a)), "."] : "."),
    table(heads, groups, entrants.map(e => challengeRow(e, kinds, robust))), figures(m, entrants),
    wrong.length > 0 && [h("h3", { class: "after" }, "First flaws"), h("p", { class: "note" }, "What each entrant that did not pass did first; of those that are right by the field\u2019s usual contract, the rule of the canon that they break. The command does it again."), h("div", { class: "flaws" }, wrong.map(flaw))]);
}

// ---- the page ----

const mark = () => g("svg", { viewBox: "0 0 66 66", "aria-hidden": "true" },
  g("path", { d: "M12 20Q16 6 34 7Q55 8 59 27Q63 47 46 57Q28 64 14 53Q3 42 12 20Z", fill: "#2c2d31" }),
  g("path", { d: "M20 43L47 21", stroke: "#d9b25a", "stroke-width": 5, "stroke-linecap": "round" }),
  g("path", { d: "M28 48L50 31", stroke: "#b98d35", "stroke-width": 2.4, "stroke-linecap": "round", opacity: .75 }));

function headOf(m) {
  const run = m.run || {}, count = k => m.entrants.filter(e => kindOf(e) === k).length;
  const when = new Date(run.started), held = (run.guarantees || []).filter(x => x.held).length, all = (run.guarantees || []).length;
  const fact = (value, text, kind) => h("div", {}, h("b", { class: kind }, value), h("span", {}, text));
  return [h("header", { class: "head" }, mark(), h("h1", {}, "Touchstone"),
    h("p", { class: "soft" }, isNaN(when) ? clean(run.started || "no run recorded") : when.toISOString().slice(0, 16).replace("T", " ") + " UTC", run.depth && `, ${run.depth} depth`, run.version && `, version ${run.version}`, run.machine && [h("br", {}), run.machine], run.device && [h("br", {}), run.device])),
  h("div", { class: "facts" }, fact(run.badge || "none", "badge of this machine", "badge"), fact(`${held} of ${all}`, "guarantees held"), fact(m.people.length, m.people.length === 1 ? "entrant" : "entrants"),
    fact(m.tasks.length, m.tasks.length === 1 ? "challenge" : "challenges"), fact(count("PASS") + count("COMMON"), "passed"), count("COMMON") > 0 && fact(count("COMMON"), "of them by the usual contract only"), fact(count("FAIL"), "failed"), count("AUDIT") > 0 && fact(count("AUDIT"), "under audit"), count("ERROR") > 0 && fact(count("ERROR"), "errors of the judge"), !m.ended && fact("open", "the run has not ended")),
  all > 0 && h("ul", { class: "guard" }, run.guarantees.map(x => h("li", {}, chip(x.held ? "held" : "lost", x.held ? "held" : "not held"), h("b", {}, x.name), ": ", x.text)))];
}

function page(m) {
  const main = document.getElementById("page"), matches = headToHead(m);
  main.append(...headOf(m).filter(Boolean));
  if (!m.entrants.length) return main.append(h("p", { class: "empty" }, "Nobody has entered yet."));
  main.append(h("nav", {}, h("a", { href: "#scoreboard" }, "Scoreboard"), matches && h("a", { href: "#matches" }, "Head to head"), m.tasks.map(t => h("a", { href: "#" + anchor(t) }, plain(t)))),
    scoreboard(m), ...(matches ? [matches] : []), ...m.tasks.map(t => challenge(m, t)));
  const redraw = () => document.querySelectorAll("figure").forEach(f => f.redraw());
  redraw();
  addEventListener("resize", redraw);
}
page(model(JSON.parse(document.getElementById("log").textContent)));
