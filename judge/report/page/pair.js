// SPDX-License-Identifier: Apache-2.0
// pair.js - two entrants side by side, challenge by challenge: the view at #pair-A-B, where A and B are ranks.

const pairLink = (a, b) => `${SITE === "challenge" ? "../index.html" : ""}#pair-${a.place + 1}-${b.place + 1}`;
const linesOf = e => e.lines ?? (e.sources.length ? e.sources.reduce((s, x) => s + String(x.text).split("\n").filter(l => l.trim()).length, 0) : undefined);

// The measures of an answer: [name, value, text, whether less is better, explanation].
function measures(e) {
  const v = e.verdict || {}, s = passed(e) ? e.score : null, n = linesOf(e);
  const worst = passed(e) && v.calls !== 0 && v.worst !== undefined ? number(v.worst) : NaN, room = passed(e) && v.calls !== 0 ? v.workspace_bytes : undefined;
  return [
    ["Score", scored(e) ? s.score : NaN, scored(e) && String(Math.round(s.score)), false, COLUMNS.Score],
    ["Of the limit", s ? s.S : NaN, s && percent(s.S), false, "least possible time, divided by the measured time"],
    ["Of the best known", s && s.of_best > 0 ? s.of_best : NaN, s && ofBest(s.of_best), false, "the best known version\u2019s time, divided by the measured time"],
    ["Error / bound", worst, brief(worst), true, "largest error of any element, divided by its bound"],
    ["Workspace", room ?? NaN, room !== undefined && bytes(room), true, "memory that it requested"],
    ["Lines", n ?? NaN, n !== undefined && String(n), null, "lines of the source that are not blank"],
  ];
}

// Whether they were timed in the same workloads: scopes may leave none in common. A match is of common ones. A site's
// index has no times: there only those that were timed in all are known to have all in common.
function comparable(a, b, task, x, y) {
  const some = e => e.offers || (e.verdict || {}).timed_workloads, cases = e => e.times.map(t => t.case).sort().join(" ");
  return meet(a, b, task).n > 0 || (x.times.length && y.times.length ? cases(x) === cases(y) : !some(x) && !some(y));
}
const bothTimed = (x, y) => !!x && !!y && passed(x) && passed(y) && !!x.score && !!y.score;

// Of the measures only those are compared that are relative to the same: times of the same workloads, and for the first
// and the third the same best known version.
function compared(a, b, task, x, y) {
  const same = comparable(a, b, task, x, y), scale = same && rivalOf(x) === rivalOf(y);
  return [scale, same, scale, true, true, true];
}

function pairRow(m, p, i, list, other, fair) {
  const e = bestOf(list), head = h("td", { class: "who" }, h("b", {}, marked(i), named(p)), e && h("small", {}, classChip(e.class)), e && scopeOf(e), list.length > 1 && h("small", {}, `best of ${list.length} answers; ${list.filter(passed).length} passed`));
  if (!e) return h("tr", {}, head, h("td", { class: "verdict" }, h("span", { class: "soft" }, "not entered")), h("td", { class: "faulty" }), Array.from({ length: 6 }, () => h("td", { class: "num" }, dash())));
  const his = other && measures(other), some = kindOf(e) === "PASS" ? [] : faultsOf(e);
  return h("tr", {}, head, verdictCell(m, e, some.length > 0), h("td", { class: "faulty" }, some.length ? h("ul", { class: "faults" }, some.slice(0, 3).map(f => h("li", {}, faultText(f), h("span", { class: "soft" }, ` (${f.n})`)))) : dash()),
    measures(e).map(([, value, text, less], i) => {
      const better = his && fair[i] && less !== null && (less ? value < his[i][1] : value > his[i][1]);
      return h("td", { class: "num" + (better ? " better" : "") }, isNaN(value) ? dash() : text);
    }));
}
const marked = i => g("svg", { class: "dot", viewBox: "0 0 14 14", "aria-hidden": "true" }, marker(i, 7, 7, 4.6)); // two that differ

// Of a challenge: who is faster, by their match, or by their times.
function faster(a, b, task, x, y) {
  const c = meet(a, b, task), name = m => who(m > 0 ? a : b);
  if (c.n) return c.won || c.lost ? [name(c.margin), ` is faster: ${margin(Math.abs(c.margin))}`] : "no difference in speed is sure";
  if (!x || !y || !passed(x) || !passed(y) || !x.score || !y.score) return x && y && passed(x) !== passed(y) ? ["only ", who(passed(x) ? a : b), " passed"] : "";
  if (!comparable(a, b, task, x, y)) return "timed in different workloads: no speeds to compare";
  return x.score.S_lo > y.score.S_hi || y.score.S_lo > x.score.S_hi ? [name(x.score.S - y.score.S), ` is faster: ${margin(Math.abs(Math.log(x.score.S / y.score.S)))}`] : "no difference in speed is sure";
}

function pairText(m, a, b, tasks, best) {
  const by = f => tasks.filter(t => f(!!best(a, t) && passed(best(a, t)), !!best(b, t) && passed(best(b, t)))), names = list => joined(list.map(plain));
  const both = by((x, y) => x && y), left = by((x, y) => x && !y), right = by((x, y) => !x && y), neither = by((x, y) => !x && !y);
  const won = (p, q) => both.filter(t => { const x = best(p, t), y = best(q, t), c = meet(p, q, t); return c.n ? c.won > c.lost : x.score && y.score && comparable(p, q, t, x, y) && x.score.S_lo > y.score.S_hi; }).length;
  const scores = both.filter(t => bothTimed(best(a, t), best(b, t))), apart = scores.filter(t => !comparable(a, b, t, best(a, t), best(b, t))), timed = scores.length - apart.length, line = (text, list) => list.length > 0 && h("li", {}, text, names(list), ".");
  const first = a.place < b.place ? a : b, second = first === a ? b : a;
  return h("ul", { class: "pair-text" }, h("li", {}, h("b", {}, who(first)), ` is ahead on the board, ${first.place + 1} against ${second.place + 1}: ${standing(m, first)}; `, who(second), ` ${standing(m, second)}.`),
    timed > 0 && h("li", {}, `Of ${timed} ${timed === 1 ? "challenge" : "challenges"} that both passed, and in which both were timed${apart.length ? " in common workloads" : ""}, `, who(a), ` is faster in ${won(a, b)}, `, who(b), ` in ${won(b, a)}`, won(a, b) + won(b, a) < timed && "; in the others no difference is sure", "."),
    line("They were timed in different workloads of ", apart), unlike([a, b].flatMap(p => p.in)) && h("li", {}, unlike([a, b].flatMap(p => p.in))),
    line([h("b", {}, "Only "), who(a), " passed "], left), line([h("b", {}, "Only "), who(b), " passed "], right), line([h("b", {}, "Neither"), " passed "], neither));
}

function pairTable(m, a, b, tasks, best) {
  const names = measures({ verdict: null, sources: [] }), of = (p, t) => p.in.filter(e => e.task === t);
  const rows = (t, x, y, fair = x && y && compared(a, b, t, x, y)) => [pairRow(m, a, 0, of(a, t), y, fair), pairRow(m, b, 1, of(b, t), x, fair)];
  const heads = [["Entrant", "who"], ["Verdict, cases"], ["Faults, cases"], ...names.map(([name, , , , title]) => [name, "num", title])];
  const made = h("table", { class: "cards duo" }, h("thead", {}, h("tr", {}, heads.map(([text, kind, title]) => h("th", { class: kind, scope: "col", title }, text)))), tasks.map(t => h("tbody", {},
    h("tr", { class: "over" }, h("th", { colspan: 9, scope: "rowgroup" }, h("b", {}, SITE === "index" ? h("a", { href: taskPage(t) }, plain(t)) : h("a", { href: "#" + anchor(t) }, plain(t))), h("span", { class: "soft" }, faster(a, b, t, best(a, t), best(b, t))))),
    rows(t, best(a, t), best(b, t)))));
  for (const tr of made.querySelectorAll("tr:not(.over)")) [...tr.cells].forEach((td, i) => td.dataset.label = heads[i] ? heads[i][0] : "");
  return h("div", { class: "box", tabindex: 0 }, made);
}

const pick = (m, label, p, change) => {
  const made = choice(label, m.people.map(q => [`${q.place + 1}. ${clean(q.name)}`, q]), change);
  made.querySelector("select").selectedIndex = m.people.indexOf(p);
  return made;
};

function pairView(m, a, b) {
  const memory = new Map(), best = (p, t) => {
    if (!memory.has(p)) memory.set(p, new Map(m.tasks.map(t => [t, bestOf(p.in.filter(e => e.task === t))])));
    return memory.get(p).get(t);
  };
  const tasks = m.tasks.filter(t => best(a, t) || best(b, t)), go = (x, y) => { if (x !== y) location.hash = pairLink(x, y); };
  return [h("p", {}, h("a", { href: "#scoreboard" }, "\u2190 the whole board")), h("h2", {}, who(a), " and ", who(b)), h("p", { class: "choices filters" }, pick(m, "compare", a, p => go(p, b)), pick(m, "with", b, p => go(a, p))),
    pairText(m, a, b, tasks, best), pairTable(m, a, b, tasks, best)];
}

// Shows the pair that the address names, or the page; true if it is a pair.
function route(m) {
  const main = document.getElementById("page"), shown = document.getElementById("pair"), at = /^#pair-(\d+)-(\d+)$/.exec(location.hash);
  const [a, b] = at && shown ? [at[1], at[2]].map(n => m.people.find(p => p.place === n - 1)) : [];
  const on = !!a && !!b && a !== b;
  main.classList.toggle("pairing", on);
  if (shown) shown.replaceChildren(...(on ? pairView(m, a, b) : []));
  if (on) scrollTo(0, 0);
  return on;
}

// Where a pair is chosen.
function pairChoice(m) {
  let a = m.people[0], b = m.people[1];
  const link = h("a", {}, "side by side"), set = () => { link.hidden = a === b; link.setAttribute("href", pairLink(a, b)); };
  set();
  return h("p", { class: "choices filters" }, pick(m, "compare", a, p => { a = p; set(); }), pick(m, "with", b, p => { b = p; set(); }), link);
}
