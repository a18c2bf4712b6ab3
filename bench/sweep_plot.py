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
COLOURS = {"f32": "#0072b2", "bf16": "#d55e00", "f16": "#009e73"}
DARK = ("@media (prefers-color-scheme: dark) { svg { fill: #e0e0e0 } .paper { fill: #161b22 } .frame { stroke: #8b949e } "
        ".grid { stroke: #30363d } .f32 { stroke: #3b9ddd } .dot.f32 { fill: #3b9ddd } }")


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
    right, bottom = WIDTH - 14, HEIGHT - 34
    at = lambda p: LEFT + (right - LEFT) * (math.log2(p[key] + (key == "offset")) - low) / max(high - low, 1e-9)
    out = ['<text x="%d" y="16" font-weight="600">%s</text>' % (LEFT, escape(kernel)),
           '<text x="%d" y="28" font-size="10">%s</text>' % (LEFT, escape(line))]
    for share in 0, 50, 100:
        y = bottom - (bottom - TOP) * share / 110
        out.append('<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#e4e4e4"/>'
                   '<text x="%d" y="%.1f" text-anchor="end" font-size="10">%d %%</text>' % (LEFT, right, y, y, LEFT - 4, y + 3, share))
    for dtype, points in by_dtype.items():
        points = sorted(points, key=lambda p: p[key])
        best = min(p["ns"] for p in points) if not gpu else 0
        height = [min(110, p["of_copy"] if gpu else 100 * best / p["ns"]) for p in points]
        dots = [(at(p), bottom - (bottom - TOP) * h / 110) for p, h in zip(points, height)]
        out.append('<polyline class="%s" points="%s" fill="none" stroke="%s" stroke-width="1.6"/>' % (
            dtype, " ".join("%.1f,%.1f" % d for d in dots), COLOURS.get(dtype, "#7f7f7f")))
        for p, (x, y) in zip(points, dots):
            out.append('<circle class="dot %s" cx="%.1f" cy="%.1f" r="2" fill="%s"/>' % (dtype, x, y, COLOURS.get(dtype, "#7f7f7f")))
            if (p["above"] or 0) * (1 if gpu else 100) > 15:
                out.append('<circle cx="%.1f" cy="%.1f" r="5.5" fill="none" stroke="#cc0000" stroke-width="1.6"/>' % (x, y))
    ticks = sorted({p[key] for ps in by_dtype.values() for p in ps})
    for v in (ticks[0], ticks[len(ticks) // 2], ticks[-1]):
        out.append('<text x="%.1f" y="%d" text-anchor="middle" font-size="10">%s</text>' % (at({key: v}), bottom + 14, label(v)))
    out.append('<text x="%d" y="%d" text-anchor="middle" font-size="10">%s</text>' % ((LEFT + right) // 2, bottom + 27, escape(key)))
    out.append('<rect class="frame" x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#444"/>' % (
        LEFT, TOP, right - LEFT, bottom - TOP))
    return "\n".join(out)


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
    with open(o.out, "w") as f:
        f.write('<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" '
                'font-family="system-ui, sans-serif" font-size="12" fill="#222">\n<style>{2}</style>\n'
                '<rect class="paper" width="{0}" height="{1}" fill="white"/>\n'.format(WIDTH * ACROSS, height, DARK))
        f.write('<text x="%d" y="24" font-size="15" font-weight="600">%s</text>\n' % (LEFT, escape(o.title)))
        for i, (name, colour) in enumerate(COLOURS.items()):
            if any(r["dtype"] == name for r in rows):
                x = WIDTH * ACROSS - 260 + 60 * i
                f.write('<circle class="dot %s" cx="%d" cy="20" r="4" fill="%s"/><text x="%d" y="24">%s</text>\n' % (
                    name, x, colour, x + 8, name))
        f.write('<circle cx="%d" cy="20" r="5.5" fill="none" stroke="#cc0000" stroke-width="1.6"/><text x="%d" y="24">cliff</text>\n' % (
            WIDTH * ACROSS - 70, WIDTH * ACROSS - 58))
        for i, p in enumerate(panels):
            f.write('<g transform="translate(%d %d)">\n%s\n</g>\n' % (WIDTH * (i % ACROSS), 40 + HEIGHT * (i // ACROSS), p))
        f.write("</svg>\n")


if __name__ == "__main__":
    main()
