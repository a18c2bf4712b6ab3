// SPDX-License-Identifier: Apache-2.0
// challenge.js - one challenge: parts of each score, all counts, plots, and why answers did not pass.

const KINDS = [["basic", "ordinary inputs"], ["shapes", "extents of 0, 1 or no multiple of 16"], ["numerics", "offsets, extreme, tiny and subnormal numbers"], ["special", "masks, windows, padding, zeros and empty rows"], ["adversarial", "inputs made to break common shortcuts"], ["canon", "the project’s additional rules: ties, NaN, empty rows"]];
const ROBUST = [["refusals", "invalid calls rejected with nothing written"], ["repeat", "bitwise identical outputs for identical inputs"], ["threads", "bitwise identical outputs for any number of threads"], ["sanitizer", "cases passed by a build that traps undefined behaviour"]];

const sum = pairs => pairs.reduce((s, p) => Array.isArray(p) ? [s[0] + p[0], s[1] + p[1]] : s, [0, 0]);
const share = (pair, title, kind = "") => {
  const known = Array.isArray(pair) && pair[1] > 0;
  return cell(known ? pair[0] / pair[1] : "", { class: `num ${kind}${known && pair[0] < pair[1] ? " short" : ""}`, title: title && clean(title) }, known ? `${pair[0]}/${pair[1]}` : dash());
};
const error = (x, limit) => {
  const v = number(x), known = x !== undefined && x !== null;
  return cell(known ? isNaN(v) ? Infinity : v : "", { class: "num" + (known && !(v <= limit) ? " short" : "") }, known ? brief(v) : dash());
};

// The verdict with the number of cases, and what goes wrong.
function verdictCell(m, e, bare) {
  const v = e.verdict || {}, kind = kindOf(e), why = untimed(m, e);
  return cell(kind + (v.reason || ""), { class: "verdict" }, kind === "PASS" || kind === "none" ? chip(kind) : h("a", { href: flawLink(e) }, chip(kind)), h("small", { class: "count" }, casesText(e)),
    kind !== "PASS" && v.reason && !bare && h("small", {}, wordsOf(e)), why && h("small", {}, "not timed: ", why),
    Array.isArray(v.timed_workloads) && h("small", {}, `timed in ${v.timed_workloads[0]} of ${v.timed_workloads[1]} workloads`));
}

function challengeRow(m, e, first, more) {
  const v = e.verdict || {}, s = passed(e) ? e.score : null, kind = kindOf(e), robust = sum(ROBUST.map(([k]) => (v.robustness || {})[k]));
  const part = (value, ...more) => cell(s ? value : "", { class: "num part" }, s ? percent(value) : dash(), h("small", {}, more));
  return h("tr", {}, first || nameCell(e, e.language, scopeOf(e)), more,
    verdictCell(m, e),
    cell(scored(e) ? s.score : kind === "FAIL" ? 0 : "", { class: "num score" }, scored(e) ? Math.round(s.score) : kind === "FAIL" ? 0 : dash(), e.offers && h("small", {}, `of ${shareOf(e)}`)),
    cell(scored(e) ? -s.score : 1, { class: "grade", title: scored(e) && s.grade !== "-" ? gradeOf(s.grade) : null }, scored(e) && s.grade !== "-" ? s.grade : kind === "FAIL" ? "F" : dash()),
    cell(s ? s.speed ?? s.S : "", { class: "speed" }, bar(speedOf(e)), s && s.of_best > 0 && h("small", {}, h("b", {}, ofBest(s.of_best)), ` of the best ${rivalOf(e) ? "in " + rivalOf(e) : "known"}: ${Math.round(s.speed)} on the scale`), s && h("small", {}, `slowest workload ${percent(s.S_min)} of the limit`)),
    part(s && s.R, robust[1] > 0 && `${robust[0]}/${robust[1]} checks`), part(s && s.P, v.calls !== 0 && v.worst !== undefined && `worst error ${brief(number(v.worst))} of bound`), part(s && s.M, v.calls !== 0 && v.workspace_bytes !== undefined && `${bytes(v.workspace_bytes)} workspace`));
}

const FACTORS = () => [["Verdict"], ["Score", { class: "num" }], ["Grade", { class: "grade", "data-first": "low" }, gradeOf()],
  ...WEIGHTS.map(([name, weight, , text], i) => [`${name} (${weight}\u00a0%)`, i ? { class: "num" } : null, text])];

function countsTable(list, first) {
  const num = { class: "num" }, heads = [["", { class: "who" }], ...KINDS.map(([k, text]) => [k, num, text]), ["worst error / bound", num, "largest error of any element, divided by its bound; above 1 is wrong"], ["p99.9 error / bound", num, "99.9 % of the elements of float32 cases are below it"],
    ["worst error in ulp", num, "of float32 cases, in units of 2^-23 of the expected value"], ...ROBUST.map(([k, text]) => [k, num, text])];
  const row = (e, v = e.verdict || {}) => h("tr", {}, first(e), KINDS.map(([k]) => share((v.categories || {})[k])), [[v.worst, 1], [v.p999, 1], [v.ulp, Infinity]].map(([x, limit]) => error(v.calls === 0 ? null : x, limit)),
    ROBUST.map(([k]) => share((v.robustness || {})[k], k === "sanitizer" ? v.robustness_text : "")));
  return h("details", { class: "counts" }, h("summary", {}, "All counts: cases by category, errors, robustness checks"),
    h("p", { class: "note" }, [...KINDS, ...ROBUST].map(([k, text], i) => [i > 0 && "; ", h("b", {}, k), ": ", text]), "."), table(heads, list.map(e => row(e)), "cards"));
}

// Distinct faults with their words and counts, and the families of input in which cases failed.
function faultList(e) {
  const some = faultsOf(e), short = Object.entries(e.verdict.families || {}).filter(([, p]) => Array.isArray(p) && p[0] < p[1]);
  return [some.length > 0 && h("ul", { class: "faults" }, some.map(f => h("li", {}, h("b", {}, faultText(f)), ` ${f.n} ${f.n === 1 ? "case" : "cases"}${f.words && f.family ? ", first in family " + f.family : ""}`))),
    short.length > 0 && h("p", { class: "note" }, "By family of input: ", short.map(([k, p], i) => [i > 0 && ", ", clean(k), " ", h("b", {}, `${p[0]}/${p[1]}`)]), "; every other family passed.")];
}

function flaw(e) {
  const v = e.verdict, facts = [["case", v.case], ["at", v.index], ["got", v.got], ["want", v.want], ["bound", v.bound]]
    .filter(f => f[1] !== undefined && f[1] !== null && f[1] !== "")
    .map(([k, x]) => [k, k === "bound" ? exact(number(x)) : k === "got" || k === "want" ? exact(number(x), apart(number(v.got), number(v.want))) : clean(x)]);
  const made = h("div", { class: "flaw " + kindOf(e), id: flawOf(e) }, h("h4", {}, SITE === "entrant" ? null : [named(e), " "], e.sample && h("small", {}, clean(e.sample), " "), chip(kindOf(e)), " ", h("span", { class: "reason" }, reasonOf(v))),
    h("p", { class: "count" }, casesText(e)), faultList(e), h("p", {}, v.text), facts.length > 0 && h("dl", {}, facts.map(([k, x]) => [h("dt", {}, k), h("dd", {}, x)])));
  if (v.replay) {
    const code = h("code", {}, v.replay);
    made.append(h("div", { class: "replay" }, code, h("button", { class: "copy", type: "button", on: ev => copy(ev.currentTarget, code) }, "copy")));
  }
  return made;
}

const FEW = 3; // up to this many challenges are unfolded, and named on a phone

const answersPassed = list => cell(list.filter(passed).length / list.length, { class: "num cases" }, `${list.filter(passed).length}/${list.length}`);

// Of a model's answers, the best one is in the table and the plots; all are in a table of their own.
function challenge(m, task) {
  const order = list => list.sort((a, b) => whole(b) - whole(a) || worth(b) - worth(a)), all = order(m.entrants.filter(e => e.task === task));
  const of = e => all.filter(x => x.person === e.person), best = order([...new Set(all.map(e => e.person))].map(p => bestOf(all.filter(e => e.person === p))));
  const several = best.length < all.length, right = best.filter(passed), wrong = all.filter(e => e.verdict && !whole(e));
  const fastest = right.filter(e => e.score).reduce((a, b) => a && a.score.S >= b.score.S ? a : b, null), open = SITE === "challenge" || m.tasks.length <= FEW;
  const heads = several => [["Entrant", { class: "who" }], ...(several ? [["Answers passed", { class: "num" }]] : []), ...FACTORS()];
  const notes = [...new Set(m.anchors.filter(a => a.task === task && a.note).map(a => `No score for ${clean(a.kind)} entrants: ${clean(a.note)}.`))];
  const rest = () => [!SITE && h("a", { class: "up", href: "#scoreboard" }, "\u2191 back to the board"), h("p", { class: "note" }, several ? "The best answer of each entrant: the factors of its score, with their weights." : "The factors of each score, with their weights."),
    table(heads(several), best.map(e => challengeRow(m, e, null, several && answersPassed(of(e)))), "cards"), notes.map(text => h("p", { class: "note after" }, text)),
    several && h("details", { class: "counts" }, h("summary", {}, `All ${all.length} answers`), table(heads(false), all.map(e => challengeRow(m, e)), "cards")),
    countsTable(best, e => nameCell(e, e.language)), figures(m, task, best),
    wrong.length > 0 && h("details", { class: "wrong", open: wrong.length <= 6 ? "" : null }, h("summary", {}, `Why ${wrong.length === 1 ? "one answer" : wrong.length + " answers"} did not get a plain PASS`),
      h("p", { class: "note" }, "The faults of each, and its first flaw; for PASS (common), the first additional rule that it breaks. The command reproduces it."), h("div", { class: "flaws" }, wrong.map(flaw)))];
  const made = h("details", { class: "task", open: open ? "" : null },
    h("summary", {}, h("h2", {}, SITE === "challenge" ? "Results" : plain(task)), h("span", { class: "soft" }, `${right.length} of ${best.length} passed`, fastest && ["; fastest: ", who(fastest), `, ${percent(fastest.score.S)} of the limit`, fastest.score.of_best > 0 && `, ${ofBest(fastest.score.of_best)} ${bestKnown([fastest])}`])));
  made.fill = () => made.childElementCount > 1 || fill(made, {}, rest()); // thousands of answers: only if wanted
  if (open) made.fill();
  made.addEventListener("toggle", () => { made.fill(); redraw(); });
  return h("section", { id: anchor(task), class: made.open ? null : "folded" }, made);
}

// A site's index: the challenges, each on a page of its own.
function challengeList(m) {
  return h("section", { id: "challenges" }, h("h2", {}, "Challenges"), h("p", { class: "note" }, "Each has a page with its contract, its prompts, all results and plots."), h("ul", { class: "links" }, m.tasks.map(t => {
    const by = m.people.filter(p => p.in.some(e => e.task === t)), right = by.filter(p => p.in.some(e => e.task === t && passed(e)));
    return h("li", {}, h("a", { href: taskPage(t) }, plain(t)), h("span", { class: "soft" }, `${right.length} of ${by.length} entrants passed`));
  })));
}
