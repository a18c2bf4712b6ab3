// SPDX-License-Identifier: Apache-2.0
// change.js - what changed since another log (`report --against`): records `against` and `change`, which compare.c derives.

const CHANGES = { lost: "no longer passes", gained: "passes now", verdict: "other verdict", faults: "other faults", cases: "other count of cases", faster: "faster", slower: "slower", new: "new", removed: "not in this log" };

const WAYS = { gained: " better", faster: " better", lost: " worse", slower: " worse" };

function side(s) {
  if (!s) return [dash()];
  const kind = s.verdict === COMMON ? "COMMON" : VERDICTS[s.verdict] ? s.verdict : "none", run = Array.isArray(s.cases) && s.cases[1] > 0;
  return [chip(kind), h("small", { class: "count" }, run ? `${s.cases[0]} of ${s.cases[1]} cases` : ""), s.answers > 1 && h("small", {}, `${s.passed} of ${s.answers} answers passed`)];
}

function changeRow(r) {
  const was = r.was || {}, now = r.now || {}, both = (x, y, form) => x === undefined && y === undefined ? dash() : [x === undefined ? "\u2013" : form(x), " \u2192 ", y === undefined ? "\u2013" : form(y)];
  const faults = (title, list) => list && list.length > 0 && h("small", {}, h("b", {}, title), " ", list.map((f, i) => [i > 0 && "; ", clean(f)]));
  return h("tr", {}, cell(clean(r.name).toLowerCase(), { class: "who" }, h("b", {}, h("bdi", {}, r.name)), h("small", {}, plain(r.task))), cell(r.kind, { class: "verdict" }, h("b", { class: "way" + (WAYS[r.kind] || "") }, CHANGES[r.kind] || r.kind), r.same_files && h("small", {}, "same files")),
    cell(was.verdict || "", { class: "verdict" }, side(r.was)), cell(now.verdict || "", { class: "verdict" }, side(r.now)),
    cell((now.score ?? 0) - (was.score ?? 0), { class: "num" }, both(was.score, now.score, x => String(Math.round(x)))),
    cell(now.of_best ?? now.S ?? "", { class: "num" }, was.of_best !== undefined || now.of_best !== undefined ? both(was.of_best, now.of_best, ofBest) : both(was.S, now.S, percent)),
    cell("", { class: "faulty" }, faults("new:", r.faults_new), faults("gone:", r.faults_gone), !(r.faults_new || []).length && !(r.faults_gone || []).length && dash()));
}

function changes(m) {
  const a = m.against;
  if (!a) return null;
  const n = kind => m.changes.filter(r => r.kind === kind).length, many = (n, one, more) => `${n} ${n === 1 ? one : more}`;
  const moved = a.people.filter(p => p.was && p.now && (p.was.passed !== p.now.passed || p.was.entered !== p.now.entered)), come = a.people.filter(p => !p.was), gone = a.people.filter(p => !p.now), names = list => joined(list.slice(0, 8).map(p => h("bdi", {}, p.name)));
  const counts = [["gained", "answer passes now", "answers pass now"], ["lost", "no longer passes", "no longer pass"], ["verdict", "has another verdict", "have another verdict"], ["faults", "fails otherwise", "fail otherwise"], ["cases", "passes another number of cases", "pass another number of cases"], ["faster", "is faster", "are faster"], ["slower", "is slower", "are slower"]].filter(([k]) => n(k)).map(([k, one, more]) => many(n(k), one, more));
  const order = Object.keys(CHANGES), shown = m.changes.filter(r => r.kind !== "new" && r.kind !== "removed").sort((x, y) => order.indexOf(x.kind) - order.indexOf(y.kind)), line = (...x) => h("li", {}, x);
  return h("section", { id: "changes" }, h("h2", {}, "Changes"), h("p", { class: "note" }, "This log (now) compared with ", h("b", {}, a.label), a.started && `, begun ${clean(a.started).slice(0, 16).replace("T", " ")} UTC`, " (was). Entrants are matched by name and author."), a.note && h("p", {}, h("b", {}, a.note)),
    m.changes.some(r => r.same_files) && h("p", { class: "note" }, "\u201csame files\u201d: the entrant\u2019s files are those of the earlier log. The two runs drew other cases or timed at another moment, and the change comes from there."),
    h("ul", { class: "pair-text" }, line(h("b", {}, `Of ${many(a.both, "answer", "answers")} in both logs: `), counts.length ? counts.join(", ") : "no change", a.both > shown.length && counts.length ? `; ${a.both - shown.length} as before` : "", "."),
      ...moved.map(p => line(h("b", {}, h("bdi", {}, p.name)), `: ${p.was.passed} of ${p.was.entered} entered passed, now ${p.now.passed} of ${p.now.entered}`, p.was.score !== undefined && p.now.score !== undefined && `; score ${Math.round(p.was.score)}, now ${Math.round(p.now.score)}`, ".")),
      come.length > 0 && line("Only in this log: ", names(come), come.length > 8 && ` and ${come.length - 8} more`, "."), gone.length > 0 && line("No longer there: ", names(gone), gone.length > 8 && ` and ${gone.length - 8} more`, ".")),
    shown.length > 0 && table([["Entrant, challenge", { class: "who" }], ["Change"], ["Was"], ["Now"], ["Score", { class: "num" }], [m.changes.some(r => r.now && r.now.of_best) ? "Of the best known" : "Of the limit", { class: "num" }], ["Faults"]], shown.map(changeRow), "cards change"));
}
