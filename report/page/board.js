// SPDX-License-Identifier: Apache-2.0
// board.js - the scoreboard: a row per entrant, a column per challenge; below it, an explanation of terms.

// One entrant in one challenge: its score, or the verdict in a word. Of several answers: their mean score, how many
// passed, and the details of the best.
function heat(list, task) {
  const of = x => passed(x) && x.score ? x.score.score : passed(x) ? 0 : -1, e = [...list].sort((a, b) => of(b) - of(a))[0];
  const kind = kindOf(e), n = list.length, right = list.filter(passed).length;
  const score = e && passed(e) && e.score ? list.reduce((s, x) => s + Math.max(0, of(x)), 0) / n : null;
  const said = `${plain(task)}: ${!e ? "not entered" : wordOf(kind) + (reasonOf(e.verdict) ? ", " + reasonOf(e.verdict) : "")}${e && e.offers ? `; offers ${percent(e.share)} of the challenge` : ""}`;
  const text = !e ? "\u2013" : score !== null ? String(Math.round(score)) : kind === "COMMON" ? "common" : kind === "none" ? "?" : kind;
  const td = cell(!e ? "" : score ?? ({ PASS: 1, COMMON: .5, AUDIT: -1, none: -2, ERROR: -3 })[kind] ?? -4, { class: `heat ${e ? kind : "absent"}`, title: clean(said) },
    e ? h("a", { href: "#" + (whole(e) || kind === "none" ? anchor(task) : flawOf(e)) }, text) : text, e && e.offers && h("small", {}, `of ${Math.round(100 * e.share)} %`), n > 1 && h("small", {}, `${right} of ${n}`));
  td.style.setProperty("--a", score === null ? 24 : 4 + 40 * score / 1000);
  return td;
}

function key(m, rated, scored) {
  const kinds = Object.keys(VERDICTS).filter(k => ["PASS", "FAIL"].includes(k) || m.entrants.some(e => kindOf(e) === k));
  const classes = [...new Set(m.entrants.map(e => e.class))], list = (kind, pairs) => h("dl", { class: kind }, pairs.map(([t, d]) => [h("dt", {}, t), h("dd", {}, d)]));
  const part = (id, title, ...more) => h("div", { id }, h("h3", {}, title), more);
  return h("div", { class: "key-box" },
    part("key-score", "Score", h("p", {}, "Per challenge 0 to 1000: 1000 times the product of four factors, each raised to the power of its weight. The score of an entrant is the mean over all challenges; a challenge that was not passed counts 0. Entrants are ranked by challenges passed, then by score."),
      list("weights", WEIGHTS.map(([name, weight, , text]) => [h("span", {}, h("b", {}, name), " ", h("span", { class: "weight" }, weight + " %")), text])),
      m.entrants.some(e => e.offers) && h("p", {}, "\u201cof N %\u201d below a score: the entrant offers only that share of the challenge, and its score is multiplied by it.")),
    part("key-verdict", "Verdicts", list("", kinds.map(k => [chip(k), VERDICTS[k]])), m.people.some(p => p.in.length < m.tasks.length) && h("p", {}, "\u2013 means not entered.")),
    h("div", {}, part("key-class", "Classes", h("p", {}, "The class says what an entrant may do while it is judged."), list("", classes.map(c => [classChip(c), CLASSES[c] || "a class this page does not know"]))),
      part("key-grade", "Grades", h("p", { class: "grades" }, GRADES.map(([least, grade], i) => h("span", {}, h("b", {}, grade), i === 5 ? " below 250" : ` from ${least}`)), h("span", {}, h("b", {}, "F"), " nothing passed")))),
    part("key-column", "Other columns", list("", Object.entries(COLUMNS).filter(([k]) => k === "Passed" || m.samples && (/@/.test(k) || scored && ["Best", "Median"].includes(k)) || scored && k === "Speed" || rated && ["Rating", "Group"].includes(k)))));
}

function scoreboard(m) {
  const rated = m.people.some(p => p.rank), scored = m.people.some(p => p.speed), num = { class: "num" };
  const body = m.people.map((p, i) => h("tr", {},
    cell(i + 1, { class: "num soft rank" }, i + 1), nameCell(p, p.languages),
    cell(p.solved, { class: "num" }, p.solved, h("span", { class: "soft" }, "/" + m.tasks.length)),
    m.samples && [cell(p.pass1, { class: "num" }, p.pass1.toFixed(2)), cell(p.passk, { class: "num", title: `k = ${p.k}` }, p.passk.toFixed(2), h("small", {}, "k = " + p.k))],
    scored && cell(p.score, { class: "num score" }, Math.round(p.score)),
    scored && m.samples && [cell(p.best, { class: "num" }, Math.round(p.best)), cell(p.median, { class: "num" }, Math.round(p.median))],
    scored && cell(GRADES.findIndex(x => x[1] === p.grade) + 1 || 9, { class: "grade" }, p.grade === "-" ? "\u2013" : p.grade),
    m.tasks.map(t => heat(p.in.filter(e => e.task === t), t)),
    scored && cell(p.speed ? p.speed.S : "", { class: "num", title: p.speed && `95 % interval: ${percent(p.speed.lo)} to ${percent(p.speed.hi)}` }, p.speed ? percent(p.speed.S) : dash()),
    rated && cell(p.rank ? p.rank.rating : "", { class: "num", title: p.rank && `95 % interval: ${Math.round(p.rank.lo)} to ${Math.round(p.rank.hi)}` }, p.rank ? Math.round(p.rank.rating) : dash()),
    rated && cell(p.rank ? p.rank.rank : "", { class: "num" }, p.rank ? p.rank.rank : dash())));
  const heads = [["#", { class: "num rank", "data-first": "low" }], ["Entrant", { class: "who" }], ["Passed", num, COLUMNS.Passed],
    ...(m.samples ? [["pass@1", num, COLUMNS["pass@1"]], ["pass@k", num, COLUMNS["pass@k"]]] : []),
    ...(scored ? [["Score", num, COLUMNS.Score], ...(m.samples ? [["Best", num, COLUMNS.Best], ["Median", num, COLUMNS.Median]] : []), ["Grade", { class: "grade", "data-first": "low" }]] : []),
    ...m.tasks.map(t => [plain(t), { class: "task" }]), ...(scored ? [["Speed", num, COLUMNS.Speed]] : []),
    ...(rated ? [["Rating", num, COLUMNS.Rating], ["Group", { ...num, "data-first": "low" }, COLUMNS.Group]] : [])];
  // Filters, where there is a choice: rows that have no such answer are hidden.
  const filter = { class: null, language: null }, apply = () => body.forEach((tr, i) => tr.hidden = !m.people[i].in.some(e => (filter.class ?? e.class) === e.class && (filter.language ?? e.language) === e.language));
  const options = key => [...new Set(m.entrants.map(e => e[key]))].filter(v => v && v !== "-").sort();
  const filters = ["class", "language"].filter(key => options(key).length > 1).map(key => choice(key, [["all", null], ...options(key).map(v => [v, v])], v => { filter[key] = v; apply(); }));
  return h("section", { id: "scoreboard" }, h("h2", {}, "Scoreboard"), filters.length > 0 && h("p", { class: "choices" }, filters.map((f, i) => [i > 0 && " ", f])),
    h("p", { class: "note" }, scored ? "Each column named after a challenge shows the score in it, 0 to 1000. " : m.people.some(p => p.passed.length) ? "This run tested correctness only: nothing was timed, so there are no scores. " : "No entrant passed a challenge, so there are no scores. ",
      h("span", { class: "wide" }, "Click a heading to sort, a cell for its details.")),
    table(heads, body, "cards board"), key(m, rated, scored));
}
