// SPDX-License-Identifier: Apache-2.0
// table.js - tables that sort by a click and become cards on a narrow screen, and the contents of their cells.

const COMMON = "PASS (common)";
const kindOf = e => e && e.verdict && e.verdict.verdict === COMMON ? "COMMON" : ["PASS", "FAIL", "AUDIT", "ERROR"].find(k => e && e.verdict && e.verdict.verdict === k) || "none";
const wordOf = kind => kind === "COMMON" ? COMMON : kind === "none" ? "not judged" : kind;
const chip = (kind, text) => h("i", { class: "chip " + kind, title: VERDICTS[kind] }, text || wordOf(kind));
const classChip = name => h("span", { class: "class", title: CLASSES[name] }, name);
// Of a status the text says more: "raised ValueError: ...", "ok instead of state", "returned, expected KeyError".
const reasonOf = v => !v || !v.reason ? "" : v.reason !== "status" ? REASONS[v.reason] || v.reason :
  /\braised /.test(v.text) ? REASONS.raised : /: ok instead of |\breturned, expected /.test(v.text) ? REASONS.accepted : REASONS.status;
const anchor = task => "task-" + task.replace(/[^a-z0-9_]/gi, "-");
const flawOf = e => "flaw-" + e.id;
const flawLink = e => (SITE === "index" ? e.person.page : "") + "#" + flawOf(e); // the page of an entrant has its flaws
const plain = task => task === "-" ? "not judged" : task.replace(/_/g, " ").replace("/", " on ");
const taskPage = task => (SITE === "index" ? "" : "../") + `challenge/${task.replace(/[^A-Za-z0-9._-]/g, "-")}.html`;
const named = e => e.page || (e.person && e.person.page) ? h("a", { href: e.page || e.person.page }, who(e)) : who(e);
const ofBest = x => isNaN(x) ? "" : x < 0.00995 ? String(+(+x).toPrecision(1)) : x < 9.995 ? (+x).toFixed(2) : String(Math.round(x)); // a share of the best known speed
const dash = () => h("span", { class: "soft" }, "\u2013");

// A td with its sort value.
const cell = (value, attributes, ...children) => h("td", { ...attributes, "data-v": value }, children);

function bar(s) {
  if (!s) return dash();
  const at = v => 90 * Math.min(1, v);
  return h("div", { class: "bar" }, h("span", {}, percent(s.S)),
    g("svg", { viewBox: "0 0 92 14", preserveAspectRatio: "none", "aria-hidden": "true" },
      g("rect", { x: 1, y: 3, width: 90, height: 8, rx: 2, fill: "var(--track)" }),
      g("rect", { x: 1, y: 3, width: at(s.S), height: 8, rx: 2, fill: "var(--gold)" }),
      g("path", { d: `M${1 + at(s.lo)} 1v12M${1 + at(s.hi)} 1v12M${1 + at(s.lo)} 7H${1 + at(s.hi)}`, stroke: "var(--ink)", "stroke-width": 1 })),
    h("small", {}, `${(100 * s.lo).toFixed(s.lo < 0.0995 ? 2 : 1)} \u2013 ${(100 * s.hi).toFixed(s.hi < 0.0995 ? 2 : 1)} %`));
}
const speedOf = e => passed(e) && e.score ? { S: e.score.S, lo: e.score.S_lo, hi: e.score.S_hi } : null;

// Heads: [text, attributes, explanation]. A click sorts by the column, a second click reverses the order. On a
// narrow screen there are no heads, and each cell has its head as a label.
function table(heads, body, kind) {
  const head = h("tr", {}), rows = h("tbody", {}, body);
  heads.forEach(([text, attributes, title], i) => {
    const th = h("th", { scope: "col", ...attributes });
    th.append(h("button", { type: "button", title, on: () => sort(rows, head, th, i) }, text));
    head.append(th);
  });
  for (const tr of rows.rows) [...tr.cells].forEach((td, i) => td.dataset.label = heads[i][0]);
  return h("div", { class: "box", tabindex: 0 }, h("table", { class: kind }, h("thead", {}, head), rows));
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

const classChips = e => (e.classes || [e.class]).map((c, i) => [i > 0 && " ", classChip(c)]);
const nameCell = (e, language, more) => cell(clean(e.name).toLowerCase(), { class: "who", title: clean(e.name) }, h("b", {}, SITE === "entrant" ? who(e) : named(e)), e.sample && h("small", {}, clean(e.sample)),
  h("small", {}, classChips(e), " ", clean(language), e.author && [" \u00b7 ", h("bdi", {}, e.author)]), more);

// What an entrant leaves out: by its declaration, and the dtypes that it rejected.
const scopeOf = e => [e.offers && h("small", { class: "scope" }, `offers ${shareOf(e)}: `, h("code", {}, e.offers)),
  e.verdict && e.verdict.unsupported && h("small", { class: "scope" }, "rejects ", clean(e.verdict.unsupported).replaceAll(" ", ", "))];

const choice = (label, values, change) => {
  const made = h("select", {}, values.map(([text], i) => h("option", { value: i }, text)));
  made.addEventListener("change", () => change(values[made.value][1]));
  return h("label", {}, label, " ", made);
};
