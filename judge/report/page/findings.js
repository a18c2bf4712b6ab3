// SPDX-License-Identifier: Apache-2.0
// findings.js - what the log says, in sentences: who leads and why, what each entrant got wrong, and what they share.

const ENOUGH = 6, WRONG = 2; // entrants in sight, and wrong answers that are named of each

// Nodes with commas, and "and" before the last.
const joined = list => list.map((x, i) => [i > 0 && (i < list.length - 1 ? ", " : list.length > 2 ? ", and " : " and "), x]);
const speedText = p => p.ofBest ? `${ofBest(p.ofBest)} ${bestKnown(p.passed)}` : p.speed ? percent(p.speed.S) + " of the limit" : "";

function standing(m, p) {
  const all = countOf(m.tasks), some = p.entered < all ? ` (${p.solved} of ${p.entered} entered)` : "";
  const count = m.samples ? `pass@1 ${p.pass1.toFixed(2)}, ${p.solved} of ${all} challenges passed` : `${p.solved} of ${all} passed`;
  return [count + some, speedText(p)].filter(Boolean).join(", ");
}

// Why the first is ahead of the second.
function lead1(m, a, b) {
  const rank = p => m.samples ? p.pass1.toFixed(2) : p.solved;
  if (!b) return ".";
  if (Math.abs(a.pass1 - b.pass1) > 1e-9) return ["; next is ", named(b), " with ", rank(b), "."];
  if (a.score > b.score) {
    const digits = [0, 1, 2].find(n => a.score.toFixed(n) !== b.score.toFixed(n));
    return ["; ", named(b), " passed as many, with ", digits === undefined ? "nearly the same score." : `the lower score: ${b.score.toFixed(digits)} against ${a.score.toFixed(digits)}.`];
  }
  return a.cases > b.cases ? ["; ", named(b), " passed as many challenges, but fewer cases."] : ["; ", named(b), " did as well."];
}

// The best answer to a challenge counts: a model that passed one of three did not get it wrong.
const failures = (m, p) => m.tasks.map(t => bestOf(p.in.filter(e => e.task === t))).filter(e => e && e.verdict && !passed(e) && e.verdict.verdict === "FAIL");

function wrongText(m, p) {
  const wrong = failures(m, p).sort((a, b) => !!b.verdict.words - !!a.verdict.words);
  const one = e => [h("a", { href: flawLink(e) }, plain(e.task)), ": ", clean(wordsOf(e)), casesOf(e).run > 0 && h("span", { class: "soft" }, ` (${casesOf(e).passed}/${casesOf(e).run} cases)`)];
  if (!wrong.length) return p.in.every(passed) && p.in.length > 1 ? " Every answer passed." : null;
  return [" Wrong in ", wrong.slice(0, WRONG).map((e, i) => [i > 0 && "; ", one(e)]), wrong.length > WRONG && `; and ${wrong.length - WRONG} more`, "."];
}

function sentence(m, p, i) {
  const leads = !i && p.solved > 0 && m.people.length > 1; // of none that passed, none leads
  return h("li", { value: i + 1 }, h("b", {}, named(p)), leads ? " leads: " : ": ", standing(m, p), leads ? lead1(m, p, m.people[1]) : ".", wrongText(m, p));
}

// Mistakes that several entrants make in one challenge.
function shared(m) {
  const groups = new Map();
  for (const p of m.people)
    for (const e of failures(m, p)) {
      const words = (e.verdict.words || "").startsWith("behaves like ") && e.verdict.words, key = JSON.stringify([e.task, words]);
      if (words) groups.set(key, [...groups.get(key) || [], e]);
    }
  return [...groups.values()].filter(list => list.length > 1).sort((a, b) => b.length - a.length).slice(0, 2)
    .map(list => [h("b", {}, `${list.length} entrants make one mistake`), ` in ${plain(list[0].task)}: `, clean(list[0].verdict.words), " (", joined(list.slice(0, 4).map(e => who(e))), list.length > 4 && ` and ${list.length - 4} more`, ")."]);
}

function hardest(m) {
  const counts = m.tasks.filter(t => t !== "-").map(t => {
    const by = m.people.filter(p => p.in.some(e => e.task === t && e.verdict));
    return { t, of: by.length, right: by.filter(p => p.in.some(e => e.task === t && passed(e))) };
  }).filter(c => c.of > 1);
  const none = counts.filter(c => !c.right.length), names = list => joined(list.slice(0, 3).map(c => plain(c.t))), more = list => list.length > 3 && ` and ${list.length - 3} more`;
  const least = counts.filter(c => c.right.length && c.right.length < c.of).sort((a, b) => a.right.length / a.of - b.right.length / b.of)[0];
  return [none.length && [h("b", {}, "No entrant passed "), names(none), more(none), "."],
    !none.length && least && [h("b", {}, "Hardest: "), plain(least.t), `, passed by ${least.right.length} of ${least.of} that entered`, least.right.length === 1 && [" (", who(least.right[0]), ")"], "."]].filter(Boolean);
}

// Within 10 % two versions count as equally fast, as on the scale (judge/report/score.h): less may be noise.
const FASTER = 1.1;
function beyond(m) {
  const fast = m.entrants.filter(e => passed(e) && e.score && e.score.of_best >= FASTER).sort((a, b) => b.score.of_best - a.score.of_best);
  return [...new Set(fast.map(rivalOf))].map(r => {
    const list = fast.filter(e => rivalOf(e) === r);
    return [h("b", {}, `Faster than the best known${r && ` ${r} version`}: `), list.slice(0, 3).map((e, i) => [i > 0 && "; ", who(e), ` in ${plain(e.task)}, ${ofBest(e.score.of_best)} times its speed`]), list.length > 3 && `; and ${list.length - 3} more`, "."];
  });
}

// What no score says: answers to review, failures of the judge, answers that were not timed.
function open1(m) {
  const list = (some, text) => some.length ? [[text, joined(some.slice(0, 3).map(e => [who(e), " in ", plain(e.task)])), some.length > 3 && ` and ${some.length - 3} more`, "."]] : [];
  const late = m.entrants.filter(e => untimed(m, e)), first = late[0];
  return [...list(m.entrants.filter(e => kindOf(e) === "AUDIT"), [h("b", {}, "To be reviewed"), ", because it was faster than this machine can be: "]), ...list(m.entrants.filter(e => kindOf(e) === "ERROR"), [h("b", {}, "The judge failed"), ", which says nothing about the entrant: "]),
    ...(first ? [[h("b", {}, "Passed, but not timed: "), who(first), ` in ${plain(first.task)} (`, clean(untimed(m, first)), ")", late.length > 1 && ` and ${late.length - 1} more`, "."]] : [])];
}

function findings(m) {
  const said = m.people.map((p, i) => [p, i]), list = some => h("ol", {}, some.map(([p, i]) => sentence(m, p, i))), many = m.people.length > ENOUGH + 1;
  const rest = h("details", { class: "counts" }, h("summary", {}, `The other ${m.people.length - ENOUGH} entrants`));
  rest.addEventListener("toggle", () => rest.childElementCount > 1 || rest.append(list(said.slice(ENOUGH)))); // hundreds: only if wanted
  const field = [...shared(m), ...hardest(m), ...beyond(m), ...open1(m)];
  return h("section", { id: "findings" }, h("h2", {}, "Findings"), h("div", { class: "said" }, list(many ? said.slice(0, ENOUGH) : said), many && rest, field.length > 0 && h("ul", {}, field.map(x => h("li", {}, x)))));
}
