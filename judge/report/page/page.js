// SPDX-License-Identifier: Apache-2.0
// page.js - assembles the page: a short header, findings, the scoreboard, head to head, then everything else.

const mark = () => g("svg", { viewBox: "0 0 66 66", "aria-hidden": "true" },
  g("path", { d: "M12 20Q16 6 34 7Q55 8 59 27Q63 47 46 57Q28 64 14 53Q3 42 12 20Z", fill: "#2c2d31" }),
  g("path", { d: "M20 43L47 21", stroke: "#d9b25a", "stroke-width": 5, "stroke-linecap": "round" }),
  g("path", { d: "M28 48L50 31", stroke: "#b98d35", "stroke-width": 2.4, "stroke-linecap": "round", opacity: .75 }));

const DEPTHS = { quick: "quick depth (few cases and timed calls)", normal: "normal depth", full: "full depth (all cases)" };

function badge(run) {
  const all = run.guarantees || [], held = all.filter(x => x.held).length;
  return h("details", { id: "badge" }, h("summary", {}, "Badge ", h("b", {}, run.badge || "none"), all.length > 0 && `: ${held} of ${all.length} guarantees verified`),
    h("p", { class: "note" }, BADGES[run.badge] || BADGES.none),
    all.length > 0 && h("ul", { class: "guard" }, [...all].sort((a, b) => a.held - b.held).map(x => h("li", {}, chip(x.held ? "held" : "lost", x.held ? "verified" : "missing"), h("b", {}, x.name), ": ", x.text))));
}

function headOf(m) {
  const run = m.run || {}, count = k => m.entrants.filter(e => kindOf(e) === k).length, when = new Date(run.started);
  const many = (n, one, more) => `${n} ${n === 1 ? one : more}`, common = count("COMMON");
  const verdicts = [`${count("PASS") + common} passed${common ? `, ${common} of them PASS (common)` : ""}`, `${count("FAIL")} failed`, count("AUDIT") && `${count("AUDIT")} AUDIT`, count("ERROR") && many(count("ERROR"), "judge error", "judge errors"), count("none") && `${count("none")} not judged`].filter(Boolean);
  return [h("header", { class: "head" }, mark(), h("div", {}, h("h1", {}, SITE === "entrant" ? who(m.people[0]) : SITE === "challenge" ? plain(m.entrants[0].task) : "Touchstone"),
    ["entrant", "challenge"].includes(SITE) && h("p", {}, h("a", { href: "../index.html#scoreboard" }, "\u2190 the whole board")),
    h("p", { class: "soft" }, [isNaN(when) ? clean(run.started || "no run recorded") : when.toISOString().slice(0, 16).replace("T", " ") + " UTC", run.machine, run.device, DEPTHS[run.depth] || run.depth, run.version && "version " + run.version].filter(Boolean).map((x, i) => [i > 0 && " \u00b7 ", x])),
    m.entrants.length > 0 && h("p", {}, SITE === "entrant" ? many(m.entrants.length, "answer", "answers") : SITE === "challenge" ? many(m.people.length, "entrant", "entrants") + (m.samples ? `, ${m.entrants.length} answers` : "") : `${many(m.people.length, "entrant", "entrants")}, ${many(m.tasks.length, "challenge", "challenges")}${m.samples ? `, ${m.entrants.length} answers` : ""}`, `: ${verdicts.join(", ")}.`,
      !m.ended && h("b", {}, " The run has not ended: more verdicts may follow.")), m.note && h("p", {}, m.note)), badge(run))];
}

// A link to a folded element unfolds it.
function unfold(m) {
  const id = location.hash && decodeURIComponent(location.hash.slice(1)), e = m.entrants.find(e => flawOf(e) === id), section = e && document.getElementById(anchor(e.task));
  if (section && section.firstChild.fill) section.firstChild.fill();
  const target = id && document.getElementById(id);
  for (let e = target && target.tagName === "SECTION" ? target.firstChild : target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
  if (target) target.scrollIntoView();
}

function page(m) {
  const main = document.getElementById("page"), matches = headToHead(m);
  main.append(...headOf(m));
  if (!m.entrants.length) return main.append(h("p", { class: "empty" }, "No entrant has been judged yet."));
  main.append(...(SITE === "entrant" ? entrantPage(m) : SITE === "challenge" ? [...lead(m), challenge(m, m.entrants[0].task), matches, ...given(), terms(m)]
    : [changes(m), findings(m), scoreboard(m), matches, ...(SITE === "index" ? [challengeList(m)] : m.tasks.map(t => challenge(m, t))), h("section", { id: "pair" })]).filter(Boolean));
  if (SITE === "entrant" || SITE === "challenge") document.title = `Touchstone: ${clean(SITE === "entrant" ? m.people[0].name : plain(m.entrants[0].task))}`;
  redraw();
  addEventListener("beforeprint", () => { document.querySelectorAll("section > details").forEach(d => { if (d.fill) d.fill(); d.open = true; }); redraw(); });
  addEventListener("resize", redraw);
  const go = () => { route(m) || unfold(m); redraw(); };
  addEventListener("hashchange", go);
  go();
}
page(model(JSON.parse(document.getElementById("log").textContent)));
