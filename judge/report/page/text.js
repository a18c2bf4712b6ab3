// SPDX-License-Identifier: Apache-2.0
// text.js - texts on the page: sources and prompts as they are, and the Markdown that prompts use.

// A block of code with numbered lines and a button that copies it.
function block(text, kind = "") {
  const code = h("code", {}, String(text).replace(/\n$/, "").split("\n").map(l => h("span", {}, verbatim(l + "\n"))));
  return h("div", { class: "code " + kind }, h("button", { class: "copy", type: "button", on: ev => copy(ev.currentTarget, code) }, "copy"), h("pre", { tabindex: 0 }, code));
}

function copy(button, code) {
  const range = document.createRange(), selection = getSelection();
  range.selectNodeContents(code);
  selection.removeAllRanges();
  selection.addRange(range);
  button.textContent = document.execCommand("copy") ? "copied" : "selected";
  setTimeout(() => button.textContent = "copy", 1500);
}

// What the judge compiled, as the log has it.
function sources(e) {
  if (!e.sources.length) return h("p", { class: "note" }, "The log has no copy of the source: it is a shared library, or the log is of an older version.");
  return e.sources.map(s => {
    const made = h("details", { class: "source" }, h("summary", {}, h("b", {}, [e.sample, s.file].filter(Boolean).map(clean).join(": ")), h("span", { class: "soft" }, ` ${String(s.text).trimEnd().split("\n").length} lines`)));
    made.addEventListener("toggle", () => made.childElementCount > 1 || made.append( // thousands of lines: only if wanted
      h("p", { class: "note" }, e.block && `From the answer in Markdown: ${clean(e.block)}. `, "SHA-256 of the file: ", h("code", {}, s.sha256)), block(s.text)));
    return made;
  });
}

// `code`, **strong** and *emphasis* in a line.
const inline = text => text.split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*\s][^*]*\*)/).map(s =>
  /^`.+`$/.test(s) ? h("code", {}, s.slice(1, -1)) : /^\*\*.+\*\*$/.test(s) ? h("b", {}, s.slice(2, -2)) : /^\*.+\*$/.test(s) ? h("em", {}, s.slice(1, -1)) : s);

// Paragraphs, lists, tables and code; no headings, which `section` has taken away.
function markdown(text) {
  const out = [], lines = text.split("\n");
  const take = (fits, form = l => l) => { const got = []; while (lines.length && fits(lines[0])) got.push(form(lines.shift())); return got; };
  while (lines.length) {
    if (!lines[0].trim()) lines.shift();
    else if (lines[0].startsWith("```")) { lines.shift(); out.push(block(take(l => !l.startsWith("```")).join("\n"))); lines.shift(); }
    else if (lines[0].startsWith("    ")) out.push(h("pre", { class: "plain", tabindex: 0 }, verbatim(take(l => l.startsWith("    ") || !l.trim(), l => l.slice(4)).join("\n").trimEnd())));
    else if (lines[0].startsWith("- ")) {
      const items = [];
      for (const l of take(l => l.startsWith("- ") || l.startsWith("  "))) l.startsWith("- ") ? items.push(l.slice(2)) : items.push(items.pop() + " " + l.trim());
      out.push(h("ul", {}, items.map(x => h("li", {}, inline(x)))));
    } else if (lines[0].startsWith("|")) {
      const rows = take(l => l.startsWith("|")).filter(l => !/^[|\s:-]+$/.test(l)).map(l => l.split("|").slice(1, -1));
      out.push(h("div", { class: "box" }, h("table", {}, rows.map((r, i) => h("tr", {}, r.map(c => h(i ? "td" : "th", {}, inline(c.trim()))))))));
    } else out.push(h("p", {}, inline(take(l => l.trim() && !/^(```|- |\|)/.test(l)).join(" "))));
  }
  return out;
}

// The text below a heading, up to the next; "": what is before the first, without the title.
const section = (text, title) => (title ? text.split(`\n## ${title}\n`)[1] || "" : text.replace(/^# .*\n/, "")).split("\n## ")[0];

// A challenge's page begins with what it asks for.
const lead = m => [h("div", { class: "prose lead" }, ABOUT.prompts.length > 0 && markdown(section(ABOUT.prompts[0].text, "")), h("p", {}, [["contract", "Contract"], ["prompt", "Prompt"], ["matches", "Head to head"], ["terms", "What the words mean"]]
  .filter(([id]) => id === "contract" ? ABOUT.prompts.length : id !== "matches" || m.matches.length).map(([id, text], i) => [i > 0 && " \u00b7 ", h("a", { href: "#" + id }, text)])))];

// And has what its entrants were given.
function given() {
  if (!ABOUT.prompts.length) return [h("section", { id: "prompt" }, h("h2", {}, "Prompt"), h("p", { class: "empty" }, "This version of touchstone does not have this challenge."))];
  const first = ABOUT.prompts[0].text, header = section(first, "The header"), shown = h("div", {});
  const show = p => shown.replaceChildren(block(p.text, "wrap"));
  show(ABOUT.prompts[0]);
  return [h("section", { id: "contract" }, h("h2", {}, "Contract"), h("div", { class: "prose" }, markdown(section(first, "The contract"))),
      header && h("details", { class: "counts" }, h("summary", {}, "The header in C"), h("div", { class: "prose" }, markdown(header)))),
    h("section", { id: "prompt" }, h("h2", {}, "Prompt"), h("p", { class: "note" }, "The whole text that an author gets, as this version of ", h("code", {}, "touchstone new --prompt"), " prints it."),
      h("p", { class: "choices" }, choice("language", ABOUT.prompts.map(p => [p.title, p]), show)), h("details", { class: "source" }, h("summary", {}, "Show the prompt"), shown))];
}
