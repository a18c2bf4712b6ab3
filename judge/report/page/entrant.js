// SPDX-License-Identifier: Apache-2.0
// entrant.js - the page of one entrant: its figures, its answers, and for each challenge flaws, times, plots, sources.

function facts(m, p) {
  const pairs = [["Rank", `${p.place + 1} of ${ABOUT.of}`], ["Challenges passed", `${p.solved} of ${countOf(m.tasks)}`], p.entered < countOf(m.tasks) && ["Of those entered", `${p.solved} of ${p.entered}`], m.samples && ["pass@1", p.pass1.toFixed(2)], m.samples && p.k > 1 && [`pass@${p.k}`, p.passk.toFixed(2)],
    p.scored && ["Score", Math.round(p.score)], p.scored && m.samples && ["Best", Math.round(p.best)], p.scored && m.samples && ["Median", Math.round(p.median)], p.scored && ["Grade", p.grade], p.speed && ["Of the limit", percent(p.speed.S)], p.ofBest && [rivals(p.in).length === 1 ? `Of the best known in ${rivals(p.in)[0]}` : "Of the best known", ofBest(p.ofBest)]].filter(Boolean);
  return h("dl", { class: "facts" }, pairs.map(([k, v]) => h("div", {}, h("dt", { title: COLUMNS[k.startsWith("pass@") && k !== "pass@1" ? "pass@k" : ({ "Challenges passed": "Passed", "Of those entered": "Entered", "Of the limit": "Of limit" })[k] || (k.startsWith("Of the best") ? "Of best" : k)] || (k === "Grade" ? gradeOf() : null) }, k), h("dd", {}, v))));
}

const answerCell = (e, one) => cell(plain(e.task) + (e.sample || ""), { class: "who" }, h("b", {}, one === true ? clean(e.sample || e.name) : h("a", { href: "#" + anchor(e.task) }, plain(e.task))), h("small", {}, e.sample && one !== true && [clean(e.sample), " \u00b7 "], classChip(e.class), " ", clean(e.language)),
  scopeOf(e));

const us = ns => brief(ns / 1e3);

function timesTable(list) {
  const num = { class: "num" }, rows = list.flatMap(e => e.times.map(t => ({ e, t })));
  if (!rows.length) return null;
  return h("details", { class: "counts" }, h("summary", {}, "Times"), h("p", { class: "note" }, "Microseconds per call: the lower quartile of all timed calls with its 95 % interval, and the floor, the least time in which this machine could do the work."),
    table([["Workload", { class: "who" }], ["Time", num], ["95 % interval", num], ["Floor", num], ["Share of the limit", num, "floor divided by time"], ["Calls", num]],
      rows.map(({ e, t }) => h("tr", {}, cell(t.case, { class: "who case" }, h("b", {}, clean(t.case)), e.sample && h("small", {}, clean(e.sample))), cell(t.time_ns, num, us(t.time_ns) + " \u00b5s"), cell(t.lo_ns, num, `${us(t.lo_ns)} \u2013 ${us(t.hi_ns)}`),
        cell(t.floor_ns, num, us(t.floor_ns)), cell(t.fraction, num, percent(t.fraction)), cell(t.ns.length, num, t.ns.length))), "cards"));
}

function answersTo(m, p, task) {
  const list = p.in.filter(e => e.task === task), right = list.filter(passed), wrong = list.filter(e => e.verdict && !whole(e)), best = bestOf(list);
  const said = list.length > 1 ? `${right.length} of ${list.length} answers passed` : [wordOf(kindOf(best)), casesText(best), untimed(m, best) && "not timed: " + untimed(m, best)].filter(Boolean).join(", ");
  const made = h("details", { class: "task", open: p.in.length <= FEW ? "" : null },
    h("summary", {}, h("h2", {}, plain(task)), h("span", { class: "soft" }, said, best.score && passed(best) && `; ${scored(best) ? `score ${Math.round(best.score.score)}, ` : ""}${percent(best.score.S)} of the limit` + (best.score.of_best > 0 ? `, ${ofBest(best.score.of_best)} ${bestKnown([best])}` : ""))),
    h("a", { class: "up", href: taskPage(task) }, "contract, prompt and all entrants"),
    wrong.length > 0 && [h("h3", {}, "Flaws"), h("p", { class: "note" }, "The first flaw of each answer; for PASS (common), the first additional rule that it breaks. The command reproduces it."), h("div", { class: "flaws" }, wrong.map(flaw))],
    list.length > 1 && [h("h3", {}, "Answers"), table([["Answer", { class: "who" }], ...FACTORS()], list.map(e => challengeRow(m, e, answerCell(e, true))), "cards")],
    h("h3", {}, "Source"), list.map(sources), timesTable(list), countsTable(list, e => answerCell(e, true)), figures(m, task, list));
  made.addEventListener("toggle", redraw);
  return h("section", { id: anchor(task), class: "folded" }, made);
}

function entrantPage(m) {
  const p = m.people[0], several = p.n > 1, of = t => p.in.filter(e => e.task === t);
  const entered = m.tasks.filter(t => of(t).length), missing = m.tasks.filter(t => !entered.includes(t));
  return [facts(m, p), ABOUT.of > 1 && h("p", { class: "after" }, h("a", { href: `../index.html#pair-${p.place + 1}-${p.place ? 1 : 2}` }, "Compare with another entrant")), h("section", { id: "answers" }, h("h2", {}, "Answers"), h("p", { class: "note" }, several ? "The best answer to each challenge: the factors of its score, with their weights. All answers, flaws, times and sources are below." : "The factors of each score, with their weights. Flaws, times and sources are below."),
      table([["Challenge", { class: "who" }], ...(several ? [["Answers passed", { class: "num" }]] : []), ...FACTORS()], entered.map(t => challengeRow(m, bestOf(of(t)), answerCell(bestOf(of(t))), several && answersPassed(of(t)))), "cards"),
      missing.length > 0 && h("p", { class: "note after" }, "Not entered: ", missing.map(plain).join(", "), ".")),
    ...entered.map(t => answersTo(m, p, t)), terms(m)];
}
