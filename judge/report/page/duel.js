// SPDX-License-Identifier: Apache-2.0
// duel.js - head to head: a matrix of all pairs if it fits, and one entrant against all others.

const MANY = 16; // from this size on, cells have colours only

function meet(a, b, task) {
  const c = { won: 0, lost: 0, tied: 0, margin: 0, n: 0, said: [] };
  for (const x of a.met.get(b) || []) {
    const way = x.a.person === a ? 1 : -1;
    if (task && x.task !== task) continue;
    const mine = way > 0 ? "a" : "b", his = way > 0 ? "b" : "a";
    if (x.verdict === mine) c.won++; else if (x.verdict === his) c.lost++; else c.tied++;
    c.margin += way * x.effect, c.n++;
    const ends = [way * x.lo, way * x.hi].sort((p, q) => p - q);
    c.said.push(`${plain(x.task)}: ${margin(way * x.effect)} [${margin(ends[0])}, ${margin(ends[1])}]${x.verdict === "noise" ? ", too noisy to decide" : x.verdict === "tie" ? ", a tie" : ""}, ${x.pairs} pairs`);
  }
  c.margin /= c.n || 1;
  c.kind = c.won > c.lost ? "won" : c.lost > c.won ? "lost" : "tied";
  return c;
}
const tint = (e, c) => { e.style.setProperty("--a", 14 + 38 * Math.min(1, Math.abs(c.margin) / Math.log(4))); return e; };
const tally = c => `${c.won}\u2013${c.lost}\u2013${c.tied}`;

function matrix(people, task) {
  const many = people.length > MANY, place = p => h("i", { class: "place" }, p.place + 1);
  return h("table", { class: many ? "matrix many" : "matrix" },
    h("thead", {}, h("tr", {}, h("th", { class: "who" }, "row against column"), people.map(p => h("th", { title: clean(p.name) }, p.place + 1)))),
    h("tbody", {}, people.map(a => h("tr", {}, h("td", { class: "who", title: clean(a.name) }, h("div", {}, place(a), h("b", {}, who(a)))), people.map(b => {
      if (a === b) return h("td", { class: "cell self" });
      const c = meet(a, b, task);
      if (!c.n) return h("td", { class: "cell soft", title: "no match" }, many ? "" : "\u00b7");
      return tint(h("td", { class: "cell " + c.kind, title: clean(`${a.name} against ${b.name} \u2014 `) + c.said.map(clean).join("; ") },
        h("a", { href: pairLink(a, b), "aria-label": clean(`${a.name} and ${b.name}`) }, !many && [margin(c.margin), h("small", {}, task ? c.kind : tally(c))])), c);
    })))));
}

function opponents(people, a, task) {
  const met = people.filter(b => b !== a).map(b => ({ b, ...meet(a, b, task) })).filter(c => c.n);
  return h("ul", { class: "against" }, met.map(c => tint(h("li", { class: c.kind }, h("b", {}, h("a", { href: pairLink(a, c.b) }, who(c.b))), h("span", {}, tally(c)), h("span", {}, margin(c.margin))), c)));
}

function headToHead(m) {
  if (!m.matches.length) return SITE === "challenge" || m.people.length < 2 ? null : h("section", { id: "matches" }, h("h2", {}, "Head to head"), pairChoice(m));
  const shown = h("div", {}), list = h("div", {}), chosen = h("p", { class: "choices one" });
  const in_ = task => m.people.filter(p => m.matches.some(x => (!task || x.task === task) && (x.a.person === p || x.b.person === p)));
  const show = task => {
    const people = in_(task), one = p => list.replaceChildren(opponents(people, p, task));
    shown.replaceChildren(h("div", { class: "box", tabindex: 0 }, matrix(people, task)));
    chosen.replaceChildren(choice("Entrant", people.map(p => [`${p.place + 1}. ${clean(p.name)}`, p]), one));
    one(people[0]);
  };
  show(null);
  return h("section", { id: "matches", class: in_(null).length > MANY ? "crowd" : null }, h("div", { class: "bar-line" }, h("h2", {}, "Head to head"),
      SITE !== "challenge" && h("p", { class: "choices filters" }, choice("challenge", [["all challenges", null], ...m.tasks.filter(t => m.matches.some(x => x.task === t)).map(t => [plain(t), t])], show)),
      SITE !== "challenge" && pairChoice(m)),
    h("div", { class: "pairs" }, shown), h("div", { class: "one" }, chosen, list),
    h("p", { class: "note after" }, "How much faster (+) or slower (\u2212) one entrant is than another: in percent, from twice on as a factor (2.1\u00d7 faster, \u00f72.1 slower). Below that, matches won\u2013lost\u2013tied. Both entrants are timed on the same inputs in alternation; a match is won only if the whole 95 % interval of the difference is beyond 1 %. A click on a cell shows the two side by side. ",
      h("span", { class: "keys" }, h("i", { class: "key won" }), "faster", h("i", { class: "key lost" }), "slower")));
}
