# SPDX-License-Identifier: Apache-2.0
"""page.py - the results of run.py as a table (text), as a page of plots (HTML with SVG, no script) and as one SVG file.

ratio = time of the fastest peer / our time: above 1 we are faster. A peer counts if its output was correct and it does
the whole work of the row."""
import html
import math
import os
import statistics

ABSENT = "not in this library"
COLOURS = """
:root { --paper: #fff; --ink: #1a1a1a; --faint: #6b6b6b; --rule: #d5d5d5; --ahead: #1f6f43; --behind: #b3261e;
  --peer: #9a9a9a; --before: #b08400 }
@media (prefers-color-scheme: dark) { :root { --paper: #16181b; --ink: #e8e8e8; --faint: #9aa0a6; --rule: #3a3e44;
  --ahead: #6fcf97; --behind: #ff8a80; --peer: #7d838a; --before: #e0b64a } }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif } svg .axis { fill: var(--faint); text-anchor: middle }
svg .row { text-anchor: end } svg line { stroke: var(--rule) } svg .one { stroke: var(--ink) }
svg .peer { stroke: var(--peer); stroke-width: 2 } svg .ahead { fill: var(--ahead) } svg .behind { fill: var(--behind) }
svg .before { fill: none; stroke: var(--before); stroke-width: 2 }
"""
STYLE = COLOURS + """body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; max-width: 75rem;
  margin: 2rem auto; padding: 0 1rem }
h1, h2 { font-weight: 600 } .faint { color: var(--faint) } .scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: 13px } th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--rule);
  text-align: right; white-space: nowrap } th:first-child, td:first-child { text-align: left }
td.behind { color: var(--behind) } td.ahead { color: var(--ahead) }
"""


def read(data):
    """Data of a peers.json, checked as far as the page needs it."""
    if not isinstance(data, dict) or not isinstance(data.get("rows"), list) or "about" not in data:
        raise ValueError("not a result of bench/peers")
    for r in data["rows"]:
        judge(r)
    return data


def judge(record):
    """Adds the fastest peer and the ratio, where there are both."""
    record.pop("best", None), record.pop("ratio", None)
    peers = {n: m["us"] for n, m in record["methods"].items() if n != "ours" and not m.get("part")}
    if "ours" in record["methods"] and peers:
        record["best"] = min(peers, key=peers.get)
        record["ratio"] = peers[record["best"]] / record["methods"]["ours"]["us"]
    return record


def title(record):
    return record["row"] + (", " + record["pass"] if record["pass"] else "")


def rate(record, us):
    return record["work"] / us / {"GB/s": 1e3, "TFLOP/s": 1e6}[record["unit"]]


def share(record, data):
    """Our rate, and its share of the ceiling of this run."""
    if not record["work"] or "ours" not in record["methods"]:
        return ""
    mine = rate(record, record["methods"]["ours"]["us"])
    top = statistics.mean(c[record["ceiling"]] for c in data["ceilings"]) if data["ceilings"] else 0
    return "%.0f %s%s" % (mine, record["unit"], ", %.0f %%" % (100 * mine / top) if top else "")


def line(record, data):
    times = sorted(record["methods"].items(), key=lambda m: (m[0] != "ours", m[1]["us"]))
    text = "%-62s %s" % (title(record), "  ".join("%s %.1f" % (n, m["us"]) for n, m in times))
    more = share(record, data)
    if "ratio" in record:
        text += "  | %.2f of %s" % (record["ratio"], record["best"])
    text += "  [%s]" % more if more else ""
    return text + "".join("\n    %s: %s" % f for f in record["failed"].items() if f[1] != "not installed")


def opening(data):
    about = data["about"]
    text = "%s, CUDA %s, PyTorch %s, cuDNN %s; us, medians of at most %s calls, cold L2" % tuple(
        about.get(k) for k in ("device", "cuda", "torch", "cudnn", "rounds"))
    for c in data["ceilings"]:
        text += "\nceilings: copy %.0f GB/s, read %.0f GB/s, bf16 matmul %.0f TFLOP/s" % (c["copy"], c["read"], c["matmul"])
    return text + missing(data)


def missing(data):
    text = "\n%d peers missing" % len(data["missing"]) if data["missing"] else "\nno peer missing"
    return text + "".join("\n    %s: %s" % m for m in data["missing"].items())


def ours_failed(data):
    return [title(r) for r in data["rows"] if "ours" in r["failed"] and r["failed"]["ours"] != ABSENT]


def closing(data):
    ratios = [r["ratio"] for r in data["rows"] if "ratio" in r]
    behind = sorted((r for r in data["rows"] if r.get("ratio", 1) < 1), key=lambda r: r["ratio"])
    text = "%d rows, %d with a peer; behind in %d" % (len(data["rows"]), len(ratios), len(behind))
    if ratios:
        text += "; ratio %.2f to %.2f, median %.2f" % (min(ratios), max(ratios), statistics.median(ratios))
    text += "".join("\n    behind: %s: %.2f of %s" % (title(r), r["ratio"], r["best"]) for r in behind)
    text += "".join("\n    ours failed: " + t for t in ours_failed(data))
    if data["not_reached"]:
        text += "\n%d rows not reached: %s" % (len(data["not_reached"]), "; ".join(data["not_reached"]))
    return text


def table(data):
    """Markdown, most of all for doc/ and for reading in a terminal."""
    out = [opening(data), "", "| row | ours, us | rate, share of ceiling | fastest peer | its us | ratio |", "|-|-|-|-|-|-|"]
    for r in data["rows"]:
        mine, peer = r["methods"].get("ours"), r["methods"].get(r.get("best"))
        out.append("| %s | %s | %s | %s | %s | %s |" % (
            title(r), "%.1f" % mine["us"] if mine else r["failed"].get("ours", ""), share(r, data), r.get("best", "none"),
            "%.1f" % peer["us"] if peer else "", "%.2f" % r["ratio"] if "ratio" in r else ""))
    return "\n".join([*out, "", closing(data)])


# ---- the page ----

def plot(records, before):
    """Ratios of one kernel on a logarithmic axis: a dot is the fastest peer, a tick every other one."""
    label, width, step = 430, 620, 22
    values = [m["us"] / r["methods"]["ours"]["us"] for r in records for n, m in r["methods"].items() if n != "ours"]
    values += [before[title(r)] for r in records if title(r) in before]
    low, high = 0.95 * min([0.5, *values]), 1.05 * max([2.0, *values])
    def x(ratio):
        return label + 10 + (math.log(ratio) - math.log(low)) / (math.log(high) - math.log(low)) * width
    bottom = step * len(records) + 8
    out = ['<svg viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img">'.format(label + width + 60, bottom + 26)]
    for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100):
        if low <= tick <= high:
            out.append('<line %sx1="%.1f" x2="%.1f" y2="%d"/><text class="axis" x="%.1f" y="%d">%g</text>' % (
                'class="one" ' * (tick == 1), x(tick), x(tick), bottom, x(tick), bottom + 18, tick))
    for i, r in enumerate(records):
        y, mine = step * i + 14, r["methods"]["ours"]["us"]
        marks = ['<path class="peer" d="M%.1f %dv10"><title>%s %.1f us</title></path>' % (
            x(m["us"] / mine), y - 5, html.escape(n), m["us"]) for n, m in r["methods"].items() if n not in ("ours", r["best"])]
        old = before.get(title(r))
        if old:
            marks.append('<circle class="before" cx="%.1f" cy="%d" r="5"><title>before: %.2f</title></circle>' % (x(old), y, old))
        marks.append('<circle class="%s" cx="%.1f" cy="%d" r="5"><title>%s %.1f us, ours %.1f us: %.2f</title></circle>' % (
            "ahead" if r["ratio"] >= 1 else "behind", x(r["ratio"]), y, html.escape(r["best"]),
            r["methods"][r["best"]]["us"], mine, r["ratio"]))
        out.append('<text class="row" x="%d" y="%d">%s</text>%s' % (label, y + 4, html.escape(title(r)), "".join(marks)))
    return "\n".join([*out, "</svg>"])


def by_kernel(data):
    """(kernel, its rows that have a ratio), in the order of the run."""
    for kernel in dict.fromkeys(r["kernel"] for r in data["rows"]):
        records = [r for r in data["rows"] if r["kernel"] == kernel and "ratio" in r]
        if records:
            yield kernel, records


def svg(data):
    """All plots below each other, as a picture that follows the reader's colour scheme."""
    about, y, out = data["about"], 66, []
    for kernel, records in by_kernel(data):
        drawn = plot(records, {})
        out.append('<text class="kernel" x="16" y="%d">%s</text>' % (y + 14, html.escape(kernel)))
        out.append(drawn.replace("<svg ", '<svg y="%d" ' % (y + 24), 1))
        y += 44 + int(drawn.split('height="')[1].split('"')[0])
    told = "%s, CUDA %s, PyTorch %s, %s; cold L2. Right of 1 we are faster than the fastest correct peer (dot); ticks are other peers" % tuple(
        about.get(k) for k in ("device", "cuda", "torch", "date"))
    return ('<svg xmlns="http://www.w3.org/2000/svg" width="1110" height="{0}" viewBox="0 0 1110 {0}">\n<style>{1}'
            'svg .title {{ font-size: 17px; font-weight: 600 }} svg .kernel {{ font-size: 14px; font-weight: 600 }}\n'
            '.paper {{ fill: var(--paper) }}</style>\n<rect class="paper" width="1110" height="{0}"/>\n'
            '<text class="title" x="16" y="28">Time of the fastest peer / ours</text>\n<text x="16" y="50">{2}</text>\n{3}\n</svg>'
            ).format(y, COLOURS, html.escape(told), "\n".join(out))


def page(data, earlier=None):
    before = {title(r): r["ratio"] for r in earlier["rows"] if "ratio" in r} if earlier else {}
    out = ['<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
           "<title>Touchstone next to its peers</title><style>%s</style>" % STYLE, "<h1>Touchstone next to its peers</h1>",
           "<p>Ratio: time of the fastest correct peer / our time, so above 1 we are faster. A dot is the fastest peer, "
           "a tick every other one%s; point at a mark for its name and time.</p>" % (
               ", a ring the earlier run" if before else "")]
    out.append("<p class=faint>%s</p>" % html.escape(opening(data)).replace("\n", "<br>"))
    for kernel, records in by_kernel(data):
        out.append("<h2>%s</h2><div class=scroll>%s</div>" % (html.escape(kernel), plot(records, before)))
    out.append("<h2>Times</h2><div class=scroll><table><tr><th>row<th>ours, us<th>quartiles<th>rate, share of ceiling"
               "<th>relative error<th>fastest peer<th>its us<th>ratio%s<th>other methods, us</tr>" % (
                   "<th>before" if before else ""))
    for r in data["rows"]:
        mine, peer = r["methods"].get("ours"), r["methods"].get(r.get("best"))
        rest = ["%s %.1f" % (n, m["us"]) for n, m in r["methods"].items() if n not in ("ours", r.get("best"))]
        rest += ["%s: %s" % f for f in r["failed"].items() if f[0] != "ours" and f[1] != "not installed"]
        cells = [title(r), "%.1f" % mine["us"] if mine else r["failed"].get("ours", ""),
                 "%.1f to %.1f" % (mine["low"], mine["high"]) if mine else "", share(r, data),
                 "%.1e" % mine["error"] if mine and "error" in mine else "", r.get("best", "none"),
                 "%.1f" % peer["us"] if peer else "", "%.2f" % r["ratio"] if "ratio" in r else ""]
        cells += ["%.2f" % before[title(r)] if title(r) in before else ""] if before else []
        side = "" if "ratio" not in r else ' class="ahead"' if r["ratio"] >= 1 else ' class="behind"'
        out.append("<tr>" + "".join("<td%s>%s" % (side if i == 7 else "", html.escape(c))
                                    for i, c in enumerate([*cells, "; ".join(rest)])) + "</tr>")
    out.append("</table></div><p>%s</p></html>" % html.escape(closing(data)).replace("\n", "<br>"))
    return "\n".join(out)


def write(folder, data, earlier=None):
    os.makedirs(folder, exist_ok=True)
    for name, text in (("peers.txt", table(data)), ("peers.html", page(data, earlier)), ("peers.svg", svg(data))):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text + "\n")
