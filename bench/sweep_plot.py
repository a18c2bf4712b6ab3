#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sweep_plot.py - draws what sweep.py or sweep_cpu.py wrote with --json: a panel per kernel and
line, one curve per dtype, cliffs ringed.

    sweep_plot.py FILE.json OUT.svg [--title TEXT] [--kernel NAME]

Up is faster: a GPU's panels show the share of the copy rate, a CPU's the best point's cost over that of each point.
"""
import argparse
import json
import math
from html import escape

WIDTH, HEIGHT, ACROSS, LEFT, TOP = 300, 190, 3, 44, 34
RIGHT, BOTTOM = WIDTH - 14, HEIGHT - 34
COLOURS = {"f32": "#0072b2", "bf16": "#d55e00", "f16": "#009e73"}
STYLE = """<style>
polyline { fill: none; stroke-width: 1.6 } .cliff { fill: none } .ring { fill: none; stroke: #cc0000; stroke-width: 1.6 }
.grid { stroke: #e4e4e4 } .frame { fill: none; stroke: #444 } .bold { font-weight: 600 } .small { font-size: 10px }
%s@media (prefers-color-scheme: dark) { svg { fill: #e0e0e0 } .paper { fill: #161b22 } .frame { stroke: #8b949e }
.grid { stroke: #30363d } .f32 { stroke: #3b9ddd } .dot.f32 { fill: #3b9ddd } }
</style>"""
MARKER = '<marker id="%s" overflow="visible" markerUnits="userSpaceOnUse"><circle class="%s" r="%s"/></marker>'


def head(dtypes):
    """Styles, and what all panels share: a curve is one element, whose points and cliffs are markers; axes are drawn once."""
    rules = "".join(".{0} {{ stroke: {1}; marker: url(#{0}) }} .dot.{0} {{ fill: {1}; stroke: none; marker: none }}\n".format(
        d, COLOURS.get(d, "#7f7f7f")) for d in dtypes)
    out = [STYLE % (rules + ".cliff { marker: url(#cliff) }\n"), "<defs>"]
    out += [MARKER % (d, "dot " + d, 2) for d in dtypes] + [MARKER % ("cliff", "ring", 5.5), '<g id="axes">']
    for share in 0, 50, 100:
        y = BOTTOM - (BOTTOM - TOP) * share / 110
        out.append('<path class="grid" d="M%d %.1fH%d"/><text class="small" x="%d" y="%.1f" text-anchor="end">%d %%</text>' % (
            LEFT, y, RIGHT, LEFT - 4, y + 3, share))
    out.append('<rect class="frame" x="%d" y="%d" width="%d" height="%d"/>\n</g>\n</defs>' % (LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP))
    return "\n".join(out)


def parameter(points):
    """The key that varies along a line."""
    keys = [k for k in points[0] if isinstance(points[0][k], int) and k != "above"]
    varied = [k for k in keys if len({p.get(k) for p in points}) > 1]
    return max(varied, key=lambda k: (k != "rows" or len(varied) == 1, len({p.get(k) for p in points}))) if varied else None


def lines_of(rows):
    """(kernel, line) in the order of the file, each with its points by dtype."""
    found = {}
    for r in rows:
        if not r["line"].startswith(("layout", "shapes")):
            found.setdefault((r["kernel"], r["line"]), {}).setdefault(r["dtype"], []).append(r)
    return found


def label(v):
    return "%gk" % (v / 1024) if v >= 16384 and v % 1024 == 0 else "%g" % v


def panel(kernel, line, by_dtype):
    key = parameter(next(iter(by_dtype.values())))
    if key is None:
        return None
    gpu = "of_copy" in next(iter(by_dtype.values()))[0]
    xs = [math.log2(p[key] + (key == "offset")) for ps in by_dtype.values() for p in ps]
    low, high = min(xs), max(xs)
    at = lambda p: LEFT + (RIGHT - LEFT) * (math.log2(p[key] + (key == "offset")) - low) / max(high - low, 1e-9)
    out = ['<text class="bold" x="%d" y="16">%s</text><text class="small" x="%d" y="28">%s</text><use href="#axes"/>' % (
        LEFT, escape(kernel), LEFT, escape(line))]
    for dtype, points in by_dtype.items():
        points = sorted(points, key=lambda p: p[key])
        best = min(p["ns"] for p in points) if not gpu else 0
        height = [min(110, p["of_copy"] if gpu else 100 * best / p["ns"]) for p in points]
        dots = ["%.1f,%.1f" % (at(p), BOTTOM - (BOTTOM - TOP) * h / 110) for p, h in zip(points, height)]
        out.append('<polyline class="%s" points="%s"/>' % (dtype, " ".join(dots)))
        cliffs = [d for p, d in zip(points, dots) if (p["above"] or 0) * (1 if gpu else 100) > 15]
        if cliffs:
            out.append('<path class="cliff" d="M%s"/>' % " ".join(cliffs))
    ticks = sorted({p[key] for ps in by_dtype.values() for p in ps})
    labels = [(at({key: v}), 14, label(v)) for v in (ticks[0], ticks[len(ticks) // 2], ticks[-1])]
    return "\n".join(out) + '\n<g class="small" text-anchor="middle">%s</g>' % "".join(
        '<text x="%.1f" y="%d">%s</text>' % (x, BOTTOM + y, text) for x, y, text in labels + [((LEFT + RIGHT) // 2, 27, escape(key))])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("file")
    parser.add_argument("out")
    parser.add_argument("--title", default="")
    parser.add_argument("--kernel", default="", help="kernels whose names contain this")
    o = parser.parse_args()
    with open(o.file) as f:
        rows = [r for r in json.load(f) if o.kernel in r["kernel"]]
    panels = [p for p in (panel(*name, points) for name, points in lines_of(rows).items()) if p]
    if not panels:
        raise SystemExit("sweep_plot.py: %s: no line to draw" % o.file)
    height = 44 + HEIGHT * -(-len(panels) // ACROSS)
    dtypes = sorted({r["dtype"] for r in rows}, key=lambda d: (list(COLOURS) + [d]).index(d))
    edge = WIDTH * ACROSS
    with open(o.out, "w") as f:
        f.write('<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" '
                'font-family="system-ui, sans-serif" font-size="12" fill="#222">\n{2}\n'
                '<rect class="paper" width="{0}" height="{1}" fill="white"/>\n'.format(edge, height, head(dtypes)))
        f.write('<text class="bold" x="%d" y="24" font-size="15">%s</text>\n' % (LEFT, escape(o.title)))
        for i, name in enumerate(COLOURS):
            if name in dtypes:
                f.write('<circle class="dot {0}" cx="{1}" cy="20" r="4"/><text x="{2}" y="24">{0}</text>\n'.format(
                    name, edge - 260 + 60 * i, edge - 252 + 60 * i))
        f.write('<circle class="ring" cx="%d" cy="20" r="5.5"/><text x="%d" y="24">cliff</text>\n' % (edge - 70, edge - 58))
        for i, p in enumerate(panels):
            f.write('<g transform="translate(%d %d)">%s</g>\n' % (WIDTH * (i % ACROSS), 40 + HEIGHT * (i // ACROSS), p))
        f.write("</svg>\n")


if __name__ == "__main__":
    main()
