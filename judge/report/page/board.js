// SPDX-License-Identifier: Apache-2.0
// board.js - the scoreboard: a row per entrant, a column per challenge; below it, an explanation of terms.

// One entrant in one challenge: its score, or the verdict in a word. Of several answers: their mean score, how many
// passed, and the details of the best.
function heat(m, list, task, tight) {
  const e = bestOf(list), kind = kindOf(e), n = list.length, right = list.filter(passed).length;
  const score = e && scored(e) ? list.reduce((s, x) => s + pointsOf(x), 0) / n : null;
  const why = e ? untimed(m, e) : "", cases = casesOf(e);
  const said = `${plain(task)}: ${!e ? "not entered" : [wordOf(kind), casesText(e), wordsOf(e), why && "not timed: " + why].filter(Boolean).join(", ")}${e && e.offers ? `; offers ${shareOf(e)} of the challenge` : ""}${n > 1 ? `; ${right} of ${n} answers passed` : ""}`;
  const text = !e ? "\u2013" : score !== null ? String(Math.round(score)) : kind === "COMMON" ? "PASS" : kind === "none" ? "?" : tight && kind.length > 4 ? kind.slice(0, 3) : kind;
  const td = cell(!e ? "" : score ?? ({ PASS: 1, COMMON: .5, AUDIT: -1, none: -2, ERROR: -3 })[kind] ?? -4, { class: `heat ${e ? kind : "absent"}`, title: clean(said) },
    e ? h("a", { href: (e.person.page || "") + "#" + (whole(e) || kind === "none" ? anchor(task) : flawOf(e)) }, text) : text, !tight && e && e.offers && h("small", {}, `of ${shareOf(e)}`),
    n > 1 ? h("small", {}, tight ? `${right}/${n}` : `${right} of ${n}`) : e && !passed(e) && cases.run > 0 && h("small", {}, tight ? `${Math.floor(100 * cases.passed / cases.run)} %` : `${cases.passed}/${cases.run}`), !tight && why && h("small", {}, "not timed"));
  td.style.setProperty("--a", score === null ? 24 : 4 + 40 * score / 1000);
  return td;
}

function key(m, rated, scored) {
  const kinds = Object.keys(VERDICTS).filter(k => ["PASS", "FAIL"].includes(k) || m.entrants.some(e => kindOf(e) === k));
  const classes = [...new Set(m.entrants.map(e => e.class))], list = (kind, pairs) => h("dl", { class: kind }, pairs.map(([t, d]) => [h("dt", {}, t), h("dd", {}, d)]));
  const part = (id, title, ...more) => h("div", { id }, h("h3", {}, title), more);
  return h("div", { class: "key-box" },
    part("key-score", "Score", h("p", {}, "Per challenge 1 to 1000: the place of the speed on a scale, times the other factors, each raised to the power of its weight. On the scale 250 is a textbook version, 800 the best known one, 1000 the floor; all times are measured in the same run, and the scale is logarithmic in time. ",
        "The score of an entrant is the mean over all challenges; a challenge that was not passed counts 0. " + rule(m)),
      m.entrants.some(e => e.score && e.score.of_best > 0) && [h("p", {}, "The textbook and the best known version are those of the entrant\u2019s class. The best known version by class:"), list("", rivals(m.entrants).map(r => RIVAL_TEXT[r])), unlike(m.entrants) && h("p", {}, unlike(m.entrants))],
      list("weights", WEIGHTS.map(([name, weight, , text]) => [h("span", {}, h("b", {}, name), " ", h("span", { class: "weight" }, weight + " %")), text])),
      m.entrants.some(e => e.offers) && h("p", {}, "\u201cof N %\u201d below a score: the entrant offers only that share of the challenge, and its score is multiplied by the root of it.")),
    part("key-verdict", "Verdicts", list("", kinds.map(k => [chip(k), VERDICTS[k]])), m.people.some(p => p.in.length < m.tasks.length) && h("p", {}, "\u2013 means not entered.")),
    h("div", {}, part("key-class", "Classes", h("p", {}, "The class says what an entrant may do while it is judged."), list("", classes.map(c => [classChip(c), CLASSES[c] || "a class this page does not know"]))),
      part("key-grade", "Grades", h("p", { class: "grades" }, GRADES.map(([least, grade], i) => h("span", {}, h("b", {}, grade), i === 5 ? " below 250" : ` from ${least}`)), h("span", {}, h("b", {}, "F"), " nothing passed")))),
    part("key-column", "Other columns", list("", Object.entries(COLUMNS).filter(([k]) => k === "Passed" || k === "Entered" && m.people.some(p => p.entered < countOf(m.tasks)) || m.samples && (/@/.test(k) && (k !== "pass@k" || m.people.some(p => p.k > 1)) || scored && ["Best", "Median"].includes(k)) || k === "Of limit" && limit(m) || k === "Of best" && m.people.some(p => p.ofBest) || rated && ["Rating", "Group"].includes(k)))));
}

// The explanation of terms, folded.
const legend = (m, rated, scored) => h("details", { class: "counts", id: "terms" }, h("summary", {}, "What the words mean: score, verdicts, classes, grades, columns"), key(m, rated, scored));
const terms = m => h("section", { class: "folded" }, legend(m, false, m.people.some(p => p.speed)));

// Which count ranks.
const rule = m => `Ranked by ${countOf(m.tasks) === 1 ? m.samples ? "pass@1" : "whether the challenge was passed" : `${m.samples ? "pass@1 over" : "challenges passed of"} all ${countOf(m.tasks)} challenges (one that was not entered counts as not passed)`}, then by score, then by cases passed.`;

// Of entrants that are next to different versions.
const unlike = list => { const r = rivals(list); return r.length > 1 ? `Score and \u201cof best\u201d are relative to the best known version of the class (${r.slice(0, -1).join(", ")} or ${r.at(-1)}): those of different classes are on different scales; \u201cof limit\u201d and head to head compare them.` : ""; };

// Columns left and right of the challenges: [head, cell of an entrant].
function columns(m, v) {
  const num = { class: "num" }, points = v.people.some(p => p.scored), rated = v.people.some(p => p.rank), some = m.samples;
  return { points, rated, left: [
    [["#", { class: "num rank", "data-first": "low" }], (p, i) => cell(i + 1, { class: "num soft rank" }, i + 1)],
    [["Entrant", { class: "who" }], p => nameCell(p, p.languages)],
    [["Passed", num, COLUMNS.Passed], p => cell(p.solved, num, p.solved, h("span", { class: "soft" }, "/" + countOf(v.tasks)))],
    v.people.some(p => p.entered < countOf(v.tasks)) && [["Of entered", num, COLUMNS.Entered], p => cell(p.solved / p.entered, { class: "num entered" }, p.solved, h("span", { class: "soft" }, "/" + p.entered))],
    some && [["pass@1", num, COLUMNS["pass@1"]], p => cell(p.pass1, num, p.pass1.toFixed(2))],
    points && [["Score", num, COLUMNS.Score], p => cell(p.score, { class: "num score" }, Math.round(p.score))],
    points && [["Grade", { class: "grade", "data-first": "low" }, gradeOf()], p => cell(GRADES.findIndex(x => x[1] === p.grade) + 1 || 9, { class: "grade", title: gradeOf(p.grade) }, p.grade === "-" ? "\u2013" : p.grade)],
  ].filter(Boolean), right: [
    some && v.people.some(p => p.k > 1) && [["pass@k", num, COLUMNS["pass@k"]], p => p.k > 1 ? cell(p.passk, { class: "num", title: `k = ${p.k}` }, p.passk.toFixed(2), h("small", {}, "k = " + p.k)) : cell("", num, dash())],
    some && points && [["Best", num, COLUMNS.Best], p => cell(p.best, num, Math.round(p.best))],
    some && points && [["Median", num, COLUMNS.Median], p => cell(p.median, num, Math.round(p.median))],
    limit(v) && [["Of limit", num, COLUMNS["Of limit"]], p => cell(p.speed ? p.speed.S : "", { class: "num", title: p.speed && `95 % interval: ${percent(p.speed.lo)} to ${percent(p.speed.hi)}` }, p.speed ? percent(p.speed.S) : dash())],
    v.people.some(p => p.ofBest) && [["Of best", num, COLUMNS["Of best"]], p => cell(p.ofBest ?? "", num, p.ofBest ? ofBest(p.ofBest) : dash())],
    rated && [["Rating", num, COLUMNS.Rating], p => cell(p.rank ? p.rank.rating : "", { class: "num", title: p.rank && `95 % interval: ${Math.round(p.rank.lo)} to ${Math.round(p.rank.hi)}` }, p.rank ? Math.round(p.rank.rating) : dash())],
    rated && [["Group", { ...num, "data-first": "low" }, COLUMNS.Group], p => cell(p.rank ? p.rank.rank : "", num, p.rank ? p.rank.rank : dash())],
  ].filter(Boolean) };
}

// How the board ranks, and why it has no scores.
const ranking = (m, v) => [v.people.some(p => p.scored) ? "" : limit(v) ? "This log has no times of a textbook and of the best known version, so there are no scores. " : v.people.some(p => p.passed.length) ? "This run tested correctness only: nothing was timed, so there are no scores. " : "No entrant passed a challenge, so there are no scores. ",
  rule({ ...m, tasks: v.tasks }), " ", unlike(v.people.flatMap(p => p.in)), v.tasks.length > FEW && h("span", { class: "phone" }, " \u25be names the challenges.")];

const TIGHT = 16; // more challenges than this have upright names, so that CPU and GPU fit on one board
const limit = v => v.people.some(p => p.speed);

// The board of a view. Columns that do not fit in 1280 px next to the challenges are in a table of their own.
function drawn(m, v) {
  const tight = v.tasks.length > TIGHT, { points, rated, left, right } = columns(m, v), fits = 345 + 58 * (left.length - 5) + 60 * v.tasks.length + 58 * right.length <= 1224;
  const beside = fits ? right : [], row = (list, p, i) => list.map(([, make]) => make(p, i)), heads = list => list.map(([head]) => head);
  const body = v.people.map((p, i) => {
    const tr = h("tr", { class: i && v.tasks.length > FEW ? null : "open" }, row(left, p, i), v.tasks.map(t => heat(m, p.in.filter(e => e.task === t), t, tight)), row(beside, p, i));
    if (v.tasks.length > FEW) tr.querySelector(".who").append(h("button", { class: "more", type: "button", title: "name the challenges", on: () => tr.classList.toggle("open") }));
    return tr;
  });
  return [table([...heads(left), ...v.tasks.map(t => [plain(t), { class: "task" }]), ...heads(beside)], body, `cards board${fits ? "" : " lean"}${tight ? " tight" : ""}`),
    right.length > beside.length && h("details", { class: "counts" }, h("summary", {}, "More figures of each entrant: ", heads(right).map(([name]) => name.toLowerCase()).join(", ")),
      table(heads([...left.slice(0, 2), ...right]), v.people.map((p, i) => h("tr", {}, row([...left.slice(0, 2), ...right], p, i))), "cards")),
    legend(m, rated, points)];
}

// Filters, where there is a choice: only answers that fit count. At first, challenges of all devices are on the board.
function scoreboard(m) {
  const shown = h("div", {}), said = h("p", { class: "note ranking" }), only = { class: null, language: null, device: null };
  const options = key => [...new Set(m.entrants.map(e => e[key]))].filter(v => v && v !== "-").sort();
  const count = h("span", { class: "soft" }), draw = () => {
    const v = view(m, only);
    shown.replaceChildren(...drawn(m, v).filter(Boolean));
    said.replaceChildren(...ranking(m, v).filter(Boolean));
    count.textContent = `${v.people.length} of ${m.people.length} entrants`;
  };
  const filters = ["device", "class", "language"].filter(key => options(key).length > 1).map(key =>
    choice(key, [["all", null], ...options(key).map(v => [v, v])], v => { only[key] = v; draw(); }));
  draw();
  return h("section", { id: "scoreboard" }, h("div", { class: "bar-line" }, h("h2", {}, "Scoreboard"), filters.length > 0 && h("p", { class: "choices filters" }, filters, count), said), shown);
}
