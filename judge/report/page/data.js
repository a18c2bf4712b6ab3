// SPDX-License-Identifier: Apache-2.0
// data.js - the log as objects, and functions that create elements. Text of entrants reaches the page through text
// nodes only: no markup is built from strings.
"use strict";

// Of a page of a site (judge/report/site.c): its kind, all challenges of the log, all entrants by rank with their pages or the
// place of its own, and the prompts of its challenge. Empty where this page is all there is.
const ABOUT = JSON.parse(document.getElementById("about").textContent), SITE = ABOUT.kind || "";
// One entrant has one name, one author and one class on each device; answers of a model are one entrant's, whatever
// their classes. As in judge/report/board.c.
const keyOf = (name, author, device, klass) => JSON.stringify([name, author, device, klass]);
const PAGES = new Map((ABOUT.entrants || []).flatMap((e, place) => Object.entries(e.classes).map(([device, klass]) => [keyOf(e.name, e.author, device, klass), { place, page: (SITE === "index" ? "" : "../") + e.page }])));

// Replaces control characters and direction overrides by a visible mark; of code, not tabs and ends of lines.
const clean = s => String(s ?? "").replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, "\ufffd");

function fill(e, attributes, children) {
  for (const [k, v] of Object.entries(attributes || {}))
    if (k === "on") e.addEventListener("click", v);
    else if (v !== undefined && v !== null) e.setAttribute(k, v);
  for (const c of children.flat(9))
    if (c !== null && c !== undefined && c !== false) e.append(c.nodeType ? c : clean(c));
  return e;
}
const verbatim = s => document.createTextNode(String(s).replace(/[^\n\t]+/g, clean));
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const g = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const who = e => h("bdi", {}, e.name);

// JSON has no infinities; the log writes them as strings.
const number = x => typeof x === "number" ? x : x === "inf" ? Infinity : x === "-inf" ? -Infinity : NaN;
const percent = x => isNaN(x) ? "" : (100 * x).toFixed(x < 0.0995 ? 2 : 1) + " %";
const brief = x => isNaN(x) ? "NaN" : !isFinite(x) ? (x < 0 ? "-inf" : "inf")
  : x !== 0 && (Math.abs(x) < 1e-3 || Math.abs(x) >= 1e5) ? x.toExponential(1).replace("e+", "e") : String(+x.toPrecision(3));
// As many digits, at least 9, as it takes to tell two numbers apart.
const apart = (x, y) => { let n = 9; while (n < 17 && x !== y && x.toPrecision(n) === y.toPrecision(n)) n++; return n; };
// The share of a challenge: two digits below 10 %. As in judge/report/table.c.
const shareOf = e => `${e.share < 0.1 ? +(100 * e.share).toPrecision(2) : Math.round(100 * e.share)} %`;
const exact = (x, n = 9) => isNaN(x) ? "NaN" : !isFinite(x) ? (x < 0 ? "-inf" : "inf") : String(+x.toPrecision(n));
const bytes = n => n >= 2 ** 20 ? +(n / 2 ** 20).toPrecision(3) + " MiB" : n >= 1024 ? +(n / 1024).toPrecision(3) + " KiB" : n + " B";
// A log ratio of speeds as text: small differences in percent of the other's speed, large ones as a factor. Half the
// speed is \u221250 %, twice the speed +100 %. As in judge/report/table.c.
const margin = m => {
  const r = Math.exp(Math.abs(m)), factor = r < 9.95 ? r.toFixed(1) : r.toFixed(0), part = 100 * (m < 0 ? 1 - 1 / r : r - 1);
  if (r >= 1.995) return m < 0 ? "\u00f7" + factor : factor + "\u00d7";
  return (m < 0 ? "\u2212" : "+") + part.toFixed(part < 9.95 ? 1 : 0) + " %";
};

// The colour-blind safe palette of Okabe and Ito; shapes differ too.
const COLOURS = ["#2b83ba", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#8c6bb1", "#7f7f7f"];
const SHAPES = [[0, 0], [4, 45], [3, 0], [4, 0], [3, 180]]; // corners, turn; 0 corners: a circle
function marker(i, x, y, size, hollow) {
  const [corners, turn] = SHAPES[i % SHAPES.length], colour = COLOURS[i % COLOURS.length];
  const look = { fill: hollow ? "var(--card)" : colour, stroke: colour, "stroke-width": 1.5 };
  if (!corners) return g("circle", { cx: x, cy: y, r: size, ...look });
  const points = Array.from({ length: corners }, (_, k) => {
    const a = (turn - 90 + 360 * k / corners) * Math.PI / 180, r = size * (corners === 3 ? 1.35 : 1.2);
    return (x + r * Math.cos(a)).toFixed(1) + "," + (y + r * Math.sin(a)).toFixed(1);
  });
  return g("polygon", { points: points.join(" "), ...look });
}

// The entrant of a record: the first of its name and author with this class, or with none yet, on the record's device.
function personOf(people, r, device) {
  const klass = "sample" in r ? "" : r.class, key = JSON.stringify([r.name, r.author]);
  if (!people.has(key)) people.set(key, []);
  let p = people.get(key).find(p => (p.on[device] ?? klass) === klass && p.model === ("sample" in r));
  if (!p) people.get(key).push(p = { name: r.name, author: r.author, model: "sample" in r, on: {}, in: [], met: new Map() });
  p.on[device] = klass;
  return p;
}

function model(records) {
  const m = { run: null, tasks: [...ABOUT.tasks || []], entrants: [], matches: [], people: [], ended: false, verdicts: 0, anchors: [], changes: [] };
  const byId = new Map(), people = new Map();
  for (const r of records) {
    const e = byId.get(r.entrant);
    if (r.type === "run") m.run = m.run || r;
    if (r.type === "merge") m.note = r.note, m.timed = r.timed;
    if (r.type === "anchor") m.anchors.push(r);
    if (r.type === "against") m.against = r;
    if (r.type === "change") m.changes.push(r);
    if (r.type === "lines") for (const [id, n] of r.of) if (byId.has(id)) byId.get(id).lines = (byId.get(id).lines || 0) + n;
    if (r.type === "entrant") {
      const device = deviceOf(r.task), person = personOf(people, r, device);
      const made = { ...r, device, times: [], sources: [], person, verdict: null, score: null, rank: null };
      byId.set(r.id, made);
      person.in.push(made);
      m.entrants.push(made);
      if (!m.tasks.includes(r.task)) m.tasks.push(r.task);
    }
    if (r.type === "verdict") e.verdict = r, m.verdicts++;
    if (r.type === "score") e.score = r;
    if (r.type === "time") e.times.push(r);
    if (r.type === "source") e.sources.push(r);
    if (r.type === "match") {
      const a = byId.get(r.a), b = byId.get(r.b), match = { ...r, a, b };
      m.matches.push(match);
      for (const [x, y] of [[a.person, b.person], [b.person, a.person]]) x.met.set(y, [...x.met.get(y) || [], match]);
    }
    if (r.type === "rank") for (const row of r.rows) {
      const of = byId.get(row.entrant);
      if (r.task === "overall") of.person.rank = row; else of.rank = row;
    }
    if (r.type === "end") m.ended = true;
  }
  const all = [...people.values()].flat();
  for (const p of all) sumUp(p, m.tasks);
  m.people = ranked(all);
  m.timing = m.entrants.some(e => e.score);
  m.samples = m.people.some(p => p.n > 1);
  m.devices = [...new Set(m.tasks.map(deviceOf))];
  m.people.forEach((p, i) => Object.assign(p, { place: ABOUT.place ?? i }, ...Object.entries(p.on).map(([device, klass]) => PAGES.get(keyOf(p.name, p.author, device, klass)))));
  m.people.sort((a, b) => a.place - b.place);
  for (const p of m.people) p.in.forEach((e, i) => { // in plots: entrants, or the answers of one
    e.mark = SITE === "entrant" ? p.in.slice(0, i).filter(x => x.task === e.task).length : p.place;
    e.label = SITE === "entrant" ? e.sample || e.name : e.name;
  });
  return m;
}

const countOf = tasks => Math.max(1, tasks.filter(t => t !== "-").length); // "-": entrants that could not be read
const deviceOf = task => task.endsWith("/cuda") ? "cuda" : "cpu";
const ranked = people => people.sort((a, b) => Math.abs(b.pass1 - a.pass1) > 1e-9 ? b.pass1 - a.pass1 : b.score - a.score || b.cases - a.cases);

// The board of some answers only: `only` has a class, a language, a device, or none of them. Ratings are over all.
function view(m, only) {
  const fits = e => ["class", "language", "device"].every(key => (only[key] ?? e[key]) === e[key]);
  const tasks = m.tasks.filter(t => (only.device ?? deviceOf(t)) === deviceOf(t));
  const people = m.people.map(p => ({ ...p, in: p.in.filter(fits), rank: Object.values(only).some(v => v) ? null : p.rank })).filter(p => p.in.length);
  for (const p of people) sumUp(p, tasks);
  return { ...m, tasks, people: ranked(people) };
}

// Of several answers of an entrant to a challenge, the one with the highest score.
const bestOf = list => [...list].sort((a, b) => worth(b) - worth(a))[0];
const worth = e => passed(e) ? 1 + whole(e) + pointsOf(e) : casesOf(e).passed / Math.max(1, casesOf(e).drawn);

const passed = e => !!e.verdict && ["PASS", "PASS (common)"].includes(e.verdict.verdict);
// Whether it has a place on the scale: older logs have scores of another scale.
const scored = e => passed(e) && !!e.score && e.score.speed !== undefined && e.score.speed !== null;
const pointsOf = e => scored(e) ? e.score.score : 0;
// The version that its score and "of best" are relative to: "C", "NumPy", "CUDA". "": not known, or of several.
const rivalOf = e => RIVALS[e.class] || "";
const rivals = list => [...new Set(list.filter(e => e.score && e.score.of_best > 0).map(rivalOf))].filter(r => r);
const bestKnown = list => { const r = rivals(list); return r.length === 1 ? `of the best known ${r[0]} version` : r.length ? "of the best known versions" : "of the best known"; };
const whole = e => !!e.verdict && e.verdict.verdict === "PASS"; // by the canon too

// Cases of the correctness stage: passed, run, drawn. Older logs have counts by category only.
function casesOf(e) {
  const v = e && e.verdict || {}, of = Array.isArray(v.cases) ? v.cases : Object.values(v.categories || {}).reduce((s, p) => [s[0] + p[0], s[1] + p[1], s[1] + p[1]], [0, 0, 0]);
  return { passed: of[0], run: of[1], drawn: of[2] };
}
const casesText = e => {
  const { passed, run, drawn } = casesOf(e);
  const common = e.verdict.common > 0 ? `, ${e.verdict.common} of them by the usual contract only` : "";
  return !drawn ? "" : !run ? `none of ${drawn} cases run` : `${passed} of ${run} cases` + common + (run < drawn ? `; ${drawn} drawn` : "");
};
// What goes wrong, in words; without them, the reason.
const faultsOf = e => e.verdict && Array.isArray(e.verdict.faults) ? e.verdict.faults : [];
const VERBS = { crash: "crashes", hang: "hangs" };
const inWords = (words, reason) => words && words.replace(/^fails only /, `${VERBS[reason] || "fails"} only `);
const faultText = f => inWords(f.words, f.reason) || [reasonOf(f), f.family && `family ${f.family}`].filter(Boolean).join(", ");
const wordsOf = e => {
  const words = e.verdict && e.verdict.words || (faultsOf(e).find(f => f.words) || {}).words;
  return inWords(words, (faultsOf(e).find(f => f.words === words) || e.verdict || {}).reason) || reasonOf(e.verdict);
};
// Why an answer that passed has no score; "" in a run that timed nothing.
const untimed = (m, e) => passed(e) && !e.score ? e.verdict.not_timed || (m.timing ? "no time was measured" : "") : "";

// The chance that one of k of n answers is among the c correct ones, unbiased.
function passAt(n, c, k) {
  let none = 1;
  for (let i = 0; i < k; i++) none *= n - c - i > 0 ? (n - c - i) / (n - i) : 0;
  return 1 - none;
}

// As in judge/report/board.c: the mean score over all tasks (of several answers their mean), the geometric mean of the
// speeds.
function sumUp(p, tasks) {
  p.passed = p.in.filter(passed);
  const timed = p.passed.filter(e => e.score), mean = key => Math.exp(timed.reduce((s, e) => s + Math.log(Math.max(1e-3, e.score[key])), 0) / timed.length);
  const answers = tasks.map(t => p.in.filter(e => e.task === t)).filter(list => list.length);
  const scores = list => list.map(pointsOf).sort((a, b) => a - b);
  const share = e => { const c = casesOf(e); return c.drawn ? c.passed / c.drawn : 0; };
  const over = f => answers.reduce((s, list) => s + f(list), 0) / countOf(tasks), right = list => list.filter(passed).length;
  p.speed = undefined;
  p.languages = [...new Set(p.in.map(e => e.language).filter(l => l && l !== "-"))].join(", ");
  p.n = Math.max(0, ...answers.map(list => list.length));
  p.k = Math.min(...answers.map(list => list.length));
  p.class = new Set(p.in.map(e => e.class).filter(c => c !== "-")).size > 1 ? "mixed" : (p.in.find(e => e.class !== "-") || p.in[0]).class;
  p.classes = [...new Set(p.in.map(e => e.class))].filter((c, _, all) => c !== "-" || all.length === 1);
  p.entered = answers.length;
  p.cases = over(list => list.reduce((s, e) => s + share(e), 0) / list.length);
  p.solved = answers.filter(right).length;
  p.pass1 = over(list => right(list) / list.length);
  p.passk = over(list => passAt(list.length, right(list), p.k));
  p.score = over(list => scores(list).reduce((s, x) => s + x, 0) / list.length);
  p.best = over(list => scores(list).at(-1));
  p.median = over(list => { const s = scores(list), n = s.length; return (s[(n - 1) >> 1] + s[n >> 1]) / 2; });
  if (timed.length) p.speed = { S: mean("S"), lo: mean("S_lo"), hi: mean("S_hi") };
  p.scored = timed.filter(scored).length;
  p.ofBest = timed.length && timed.every(e => e.score.of_best > 0) ? mean("of_best") : undefined;
  const open = e => !e.verdict || e.verdict.verdict === "AUDIT" || e.verdict.verdict === "ERROR";
  p.grade = p.passed.length ? p.scored ? GRADES.find(x => p.score + 1e-6 >= x[0])[1] : "-" : p.in.some(open) ? "-" : "F";
}
