// SPDX-License-Identifier: Apache-2.0
// plot.js - the plots, drawn for the available width, so that text keeps its size on a phone.

function scale(from, to, begin, end) {
  const a = Math.log10(from), b = Math.log10(to);
  const place = v => begin + (end - begin) * Math.min(1, Math.max(0, (Math.log10(v) - a) / (b - a)));
  place.ticks = [];
  const whole = Math.floor(a + 1e-9), span = b - a, per = Math.abs(end - begin) / span;
  const steps = per > 150 ? [1, 2, 5] : per > 75 ? [1, 3] : [1], skip = Math.ceil(34 / per);
  for (let d = whole; d <= b + 1e-9; d++)
    for (const s of steps) {
      const v = s * 10 ** d, l = Math.log10(v);
      if (l >= a - 1e-9 && l <= b + 1e-9 && (d - whole) % skip === 0) place.ticks.push(v);
    }
  return place;
}

const label = (x, y, text, more) => g("text", { x, y, ...more }, text);
const line = (x1, y1, x2, y2, kind) => g("line", { x1, y1, x2, y2, class: kind });
// The width of a text in px, as style.css sets it.
const ruler = document.createElement("canvas").getContext("2d");
const wide = (s, size) => { ruler.font = `${size}px ${getComputedStyle(document.documentElement).getPropertyValue("--sans")}`; return ruler.measureText(s).width; };
// As much of a text as fits. Names of one family differ at their end, and so do workloads: that stays.
function cut(s, room, size, tail) {
  const c = [...clean(s)], of = n => n < c.length ? [...c.slice(0, Math.max(1, n - tail)), "\u2026", ...c.slice(c.length - tail)].join("") : c.join("");
  let n = c.length;
  while (n > tail + 1 && wide(of(n), size) > room) n--;
  return of(n);
}

// Labels below an axis; those at its ends stay inside the picture.
function below(svg, x, top, bottom, format) {
  const width = +svg.getAttribute("viewBox").split(" ")[2];
  for (const v of x.ticks) {
    const text = format(v), half = wide(text, 11.5) / 2 + 1;
    svg.append(line(x(v), top, x(v), bottom, "grid"));
    svg.append(label(Math.max(half, Math.min(width - half, x(v))), bottom + 16, text, { "text-anchor": "middle" }));
  }
}
const bare = v => v >= 1e4 || v < 1e-3 ? v.toExponential(0).replace("e+", "e") : String(+v.toPrecision(2));
const asPercent = v => +(100 * v).toPrecision(2) + " %";

// One row per workload: the share of the limit that each entrant reaches.
// With the best known version and the textbook's, where the log has them.
function fractions(entrants, anchors, width) {
  const cases = [...new Set(entrants.flatMap(e => e.times.map(t => t.case)))];
  const floors = new Map(entrants.flatMap(e => e.times.map(t => [t.case, t.floor_ns]))), marks = c => anchors.filter(a => a.workload === c).flatMap(a => [["T", "textbook", a.text_ns, a.kind], ["B", "best known", a.best_ns, a.kind]]).filter(x => x[2] > 0).map(([sign, name, ns, kind]) => ({ sign, name, kind, at: floors.get(c) / ns }));
  const all = [...entrants.flatMap(e => e.times.map(t => t.fraction)), ...cases.flatMap(c => marks(c).map(k => k.at))];
  const least = Math.min(0.1, ...all) * 0.8;
  const most = Math.max(1.25, ...all.map(f => f * 1.1)), row = 44, top = 18, bottom = top + row * cases.length;
  const x = scale(least, most, 6, width - 8);
  const svg = g("svg", { viewBox: `0 0 ${width} ${bottom + 24}`, role: "img", "aria-label": "share of the limit by workload" });
  svg.append(g("rect", { x: x(1.02), y: top, width: x(most) - x(1.02), height: bottom - top, class: "zone" }));
  below(svg, x, top, bottom, asPercent);
  svg.append(line(x(1), top - 4, x(1), bottom, "roof"), label(x(1), top - 7, "floor", { "text-anchor": "end" }));
  cases.forEach((c, i) => {
    const y = top + row * i + 28;
    svg.append(label(6, y - 14, cut(c, width - 16, 11.5, 12)), line(6, y, width - 8, y, "grid"));
    for (const k of marks(c)) svg.append(g("g", { class: "anchor" }, g("title", {}, `${k.name} (${clean(k.kind)}): ${percent(k.at)} of the limit`), line(x(k.at), y - 7, x(k.at), y + 7, k.sign === "B" ? "best" : "text")));
    for (const e of entrants)
      for (const t of e.times.filter(t => t.case === c)) {
        const dot = g("g", {}, g("title", {}, `${e.label}: ${percent(t.fraction)} of the limit, ${brief(t.time_ns / 1e3)} us [${brief(t.lo_ns / 1e3)}, ${brief(t.hi_ns / 1e3)}]`));
        const ends = [x(t.floor_ns / t.hi_ns), x(t.floor_ns / t.lo_ns)];
        dot.append(g("line", { x1: ends[0], x2: ends[1], y1: y, y2: y, stroke: COLOURS[e.mark % 8], "stroke-width": 2 }), marker(e.mark, x(t.fraction), y, 4.6));
        svg.append(dot);
      }
  });
  return svg;
}

// Roofline: work per byte against work per second, below the measured peaks.
function roofline(entrants, floors, width) {
  const points = entrants.flatMap(e => e.times.map(t => ({ e, t, x: t.flops / t.bytes, y: t.flops / t.time_ns })));
  const xs = points.map(p => p.x), ys = points.map(p => p.y), bandwidth = floors.memory_gbs, peak = floors.gflops;
  const ridge = peak / bandwidth, height = 250, left = 46, top = 14, bottom = height - 40;
  const x = scale(Math.min(...xs) / 2, Math.max(ridge * 2, ...xs), left, width - 8);
  const y = scale(Math.min(...ys) / 1.6, peak * 1.6, bottom, top);
  const svg = g("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "roofline" });
  below(svg, x, top, bottom, bare);
  for (const v of y.ticks) svg.append(line(left, y(v), width - 8, y(v), "grid"), label(left - 6, y(v) + 4, bare(v), { "text-anchor": "end" }));
  const from = Math.min(...xs) / 2, to = Math.max(ridge * 2, ...xs);
  svg.append(g("path", { class: "roof", d: `M${x(from)} ${y(bandwidth * from)}L${x(ridge)} ${y(peak)}L${x(to)} ${y(peak)}` }));
  svg.append(label(width - 10, y(peak) - 6, `${brief(peak)} GFLOP/s`, { "text-anchor": "end" }));
  // Beside the slope, where it is neither at the left edge nor at the roof's name.
  const middle = Math.sqrt(from * ridge), rate = `${brief(bandwidth)} GB/s`, end = Math.max(x(middle) - 8, left + wide(rate, 11.5) + 4);
  svg.append(label(end, Math.max(top + 24, y(bandwidth * middle) - 8), rate, { "text-anchor": "end" }));
  for (const p of points) svg.append(g("g", {}, g("title", {}, `${p.e.label}, ${p.t.case}: ${brief(p.y)} GFLOP/s`), marker(p.e.mark, x(p.x), y(p.y), 4)));
  svg.append(label((left + width) / 2, height - 4, "flops per byte", { "text-anchor": "middle" }));
  svg.append(label(0, top - 3, "GFLOP/s"));
  return svg;
}

// A row with a name, filled by draw().
function rows(entrants, width, x, left, format, mark, draw) {
  const row = 34, top = 14, bottom = top + row * entrants.length;
  const svg = g("svg", { viewBox: `0 0 ${width} ${bottom + 24}`, role: "img" });
  if (mark.zone) svg.append(g("rect", { x: x(1), y: top, width: width - 8 - x(1), height: bottom - top, class: "zone" }));
  below(svg, x, top, bottom, format);
  svg.append(line(x(1), top, x(1), bottom, "roof"), label(x(1), top - 4, mark.text, { "text-anchor": mark.anchor }));
  entrants.forEach((e, i) => {
    const y = top + row * i + row / 2;
    svg.append(g("text", { x: 0, y: y + 4, class: "name" }, g("title", {}, e.label), cut(e.label, left - 14, 12, 5)));
    svg.append(draw(e, y));
  });
  return svg;
}
const gutter = (width, entrants) => Math.min(Math.round(width * .42), 24 + Math.ceil(Math.max(...entrants.map(e => wide(clean(e.label), 12)))));

// Every timed call of every workload, over its floor. One path per entrant: thousands of dots are cheap.
function strips(entrants, width) {
  const over = e => e.times.flatMap(t => t.ns.map(ns => ns / t.floor_ns));
  const all = entrants.flatMap(over), left = gutter(width, entrants);
  const most = all.reduce((a, b) => Math.max(a, b), 2), least = all.reduce((a, b) => Math.min(a, b), 0.9);
  const x = scale(least * 0.95, most * 1.1, left, width - 8);
  return rows(entrants, width, x, left, v => bare(v) + "\u00d7", { text: "floor", anchor: "middle" }, (e, y) => {
    const colour = COLOURS[e.mark % 8];
    const d = over(e).map((v, i) => `M${x(v).toFixed(1)} ${(y + ((i * 0.618) % 1 - 0.5) * 20).toFixed(1)}h0`).join("");
    const made = g("g", {}, g("path", { d, stroke: colour, "stroke-width": 2.8, "stroke-linecap": "round", opacity: .42 }));
    for (const t of e.times) {
      const at = x(t.time_ns / t.floor_ns);
      made.append(g("line", { x1: at, x2: at, y1: y - 11, y2: y + 11, stroke: colour, "stroke-width": 1.5 },
        g("title", {}, `${e.label}, ${t.case}: lower quartile ${brief(t.time_ns / 1e3)} us, ${t.ns.length} calls`)));
    }
    return made;
  });
}

// The worst error over its bound; right of the line is wrong.
function errors(entrants, width) {
  const of = e => [number(e.verdict.p999 ?? e.verdict.worst), number(e.verdict.worst)];
  const seen = entrants.flatMap(of).filter(v => v > 0 && isFinite(v)), left = gutter(width, entrants);
  const least = Math.max(1e-9, Math.min(0.01, ...seen)), most = Math.min(1e6, Math.max(10, ...seen));
  const x = scale(least / 2, most * 3, left, width - 8);
  return rows(entrants, width, x, left, bare, { text: "bound", anchor: "middle", zone: true }, (e, y) => {
    const [p999, worst] = of(e).map(v => isNaN(v) ? Infinity : v), ends = [x(p999), x(worst)];
    const beyond = worst > most * 3 || !isFinite(worst);
    return g("g", {}, g("title", {}, `${e.label}: worst ${brief(worst)} of the bound, p99.9 ${brief(p999)}`),
      g("line", { x1: ends[0], x2: ends[1], y1: y, y2: y, stroke: COLOURS[e.mark % 8], "stroke-width": 2 }),
      marker(e.mark, ends[0], y, 4.4, true), marker(e.mark, ends[1], y, 4.4),
      beyond && label(ends[1] - 10, y + 4, isFinite(worst) ? "" : "NaN", { "text-anchor": "end" }));
  });
}

// Folded plots are drawn when unfolded.
const redraw = () => document.querySelectorAll("figure").forEach(f => f.closest("details:not([open])") || f.redraw());

function figure(title, note, draw) {
  const f = h("figure", {}, h("h3", {}, title), h("p", { class: "note" }, note));
  f.redraw = () => {
    const old = f.querySelector("svg"), width = Math.max(260, Math.round(f.clientWidth - 36));
    if (old && old.dataset.width === String(width)) return;
    const made = draw(width);
    made.dataset.width = width;
    if (old) old.replaceWith(made); else f.append(made);
  };
  return f;
}

// The kind of anchor that an entrant is compared with.
const kindFor = e => e.language === "python" ? e.device === "cuda" ? "python-gpu" : "python" : e.device === "cuda" ? "cuda" : "c";

function figures(m, task, entrants) {
  const timed = entrants.filter(e => e.times.length), judged = entrants.filter(e => (passed(e) || kindOf(e) === "AUDIT") && e.verdict.calls !== 0 && !isNaN(number(e.verdict.worst)));
  const kinds = new Set(timed.map(kindFor)), anchors = m.anchors.filter(a => a.task === task && kinds.has(a.kind));
  const costs = timed.length && timed.every(e => e.times.every(t => t.bytes > 0 && t.flops > 0));
  const floors = (m.timed && m.timed[task] || m.run || {}).floors || {}, made = [];
  if (timed.length) {
    made.push(figure("Speed, as a share of the limit", "One marker per entrant and workload, with its 95 % interval. The floor is the least time in which this machine can move the bytes and do the arithmetic." + (anchors.length ? " Long strokes: the best known version; dashed: the textbook\u2019s." : ""), w => fractions(timed, anchors, w)));
    if (costs && floors.memory_gbs > 0 && floors.gflops > 0)
      made.push(figure("Roofline", "Arithmetic rate of each workload, below the limits that memory bandwidth and arithmetic units set.", w => roofline(timed, floors, w)));
    made.push(figure("Every timed call", "One dot per call, as a multiple of its workload’s floor. A stroke marks the lower quartile of each workload, which is the time that counts.", w => strips(timed, w)));
  }
  if (judged.length) made.push(figure("Error, as a multiple of its bound", "Answers that failed are left out. Filled marker: the worst element of all calls. Hollow marker: 99.9 % of the elements of float32 cases are to the left of it. An element to the right of the bound is wrong.", w => errors(judged, w)));
  if (!made.length) return [];
  return [timed.length > 0 && h("p", { class: "legend" }, timed.map(e => h("span", {}, g("svg", { viewBox: "0 0 14 14" }, marker(e.mark, 7, 7, 4.6)), h("bdi", {}, e.label)))),
    h("div", { class: "figures" }, made)];
}
