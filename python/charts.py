#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""charts.py - charts of the tables in doc/*.md, as SVG files next to them.

usage: python3 python/charts.py [--check]

The figures come from the tables, so a chart always agrees with its page. --check writes nothing and
fails if a chart differs from its table."""
import math
import re
import sys
from pathlib import Path
from xml.sax.saxutils import escape

DOC = Path(__file__).resolve().parent.parent / "doc"
WIDTH, LEFT, RIGHT = 860, 230, 30  # pixels; LEFT is for the names of the bars
BAR, GAP, ROW = 10, 7, 21
COLOURS = {"ours": "#d55e00", "cuDNN": "#0072b2", "FlashAttention-2": "#8c8c8c", "PyTorch": "#0072b2",
           "patched": "#d55e00", "transformers": "#0072b2"}
STYLE = """<style>@media (prefers-color-scheme: dark) {
svg { fill: #e0e0e0 } .paper { fill: #161b22 } .grid { stroke: #30363d } .one { stroke: #e0e0e0 }
[fill="#0072b2"] { fill: #3b9ddd } [stroke="#0072b2"] { stroke: #3b9ddd } }</style>"""


def tables(page):
    """Each table of the page as a list of rows of cells; an empty first cell repeats the one above."""
    found, rows = [], []
    for line in (DOC / page).read_text().splitlines() + [""]:
        if line.startswith("|"):
            cells = [c.strip() for c in line.strip().strip("|").split("|")]
            if rows and not cells[0] and len(rows) > 1:
                cells[0] = rows[-1][0]
            if not re.fullmatch(r"[-:| ]+", "".join(cells)):
                rows.append(cells)
        elif rows:
            found.append(rows)
            rows = []
    return found


def table_with(page, *words):
    """The only table of the page whose header has all these words."""
    hits = [t for t in tables(page) if all(any(w in c for c in t[0]) for w in words)]
    if len(hits) != 1:
        sys.exit(f"charts.py: doc/{page}: got {len(hits)} tables with {words} in the header, expected 1")
    return hits[0]


def number(cell):
    return float(re.match(r"[\d.]+", cell).group())


class Chart:
    def __init__(self, title, note):
        self.y, self.parts = 62, []
        self.text(16, 28, title, 'font-size="17" font-weight="600"')
        self.text(16, 48, note)

    def mark(self, shape, x, y, s, more=""):
        """A shape and the text next to it."""
        self.text(x, y, s, more)
        self.parts[-1] = shape + self.parts[-1]

    def text(self, x, y, s, more=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{more and " "}{more}>{escape(s)}</text>')

    def scale(self, low, high, log=False):
        f = math.log10 if log else float
        self.at = lambda v: LEFT + (WIDTH - LEFT - RIGHT) * (f(v) - f(low)) / (f(high) - f(low))

    def grid(self, ticks, top):
        self.rules(f"M{self.at(t):.1f} {top}V{self.y}" for t in ticks)
        for t in ticks:
            self.text(self.at(t), self.y + 15, f"{t:g}", 'text-anchor="middle"')

    def rules(self, paths):
        """Lines below everything else."""
        self.parts.insert(0, f'<path class="grid" d="{"".join(paths)}" stroke="#e4e4e4"/>')

    def heights(self, ticks, up, left):
        self.rules(f"M{left} {up(v):.1f}H{WIDTH - RIGHT}" for v in ticks)
        for v in ticks:
            self.text(left - 8, up(v) + 4, f"{v:g}", 'text-anchor="end"')

    def heading(self, s, names=()):
        self.y += 24
        self.text(16, self.y, s, 'font-size="14" font-weight="600"')
        x = WIDTH - RIGHT - 140 * len(names)
        for name in names:
            self.mark(f'<rect x="{x}" y="{self.y - 9}" width="12" height="10" fill="{COLOURS[name]}"/>', x + 18, self.y, name)
            x += 140
        self.y += 10

    def bars(self, head, names, groups, ticks, log=False):
        """groups: (label, [value of each name], note after the last)."""
        self.heading(head, names)
        top = self.y
        self.scale(ticks[0], ticks[-1], log)
        for label, values, note in groups:
            self.y += GAP
            self.text(LEFT - 8, self.y + BAR * len(values) / 2 + 4, label, 'text-anchor="end"')
            for name, v in zip(names, values):
                x = self.at(v)
                self.mark(f'<rect x="{LEFT}" y="{self.y}" width="{x - LEFT:.1f}" height="{BAR - 1}" fill="{COLOURS[name]}"/>',
                          x + 4, self.y + BAR - 1.5, f"{v:g}" + note * (name == names[-1]), 'font-size="10"')
                self.y += BAR
        self.y += GAP
        self.grid(ticks, top)
        self.y += 24

    def ranges(self, head, rows, ticks, log=False):
        """rows: (label, peer, low, high), ratios; a line marks 1."""
        self.heading(head)
        top = self.y
        self.scale(ticks[0], ticks[-1], log)
        for label, peer, low, high in rows:
            self.y += ROW
            a, b = self.at(low), self.at(high)
            self.text(LEFT - 8, self.y + 4, label, 'text-anchor="end"')
            colour = COLOURS["ours"] if high >= 1 else COLOURS["cuDNN"]
            span = f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
            self.mark(f'<rect x="{a - 4:.1f}" y="{self.y - 5}" width="{b - a + 8:.1f}" height="10" rx="5" fill="{colour}"/>',
                      b + 10, self.y + 4, f"{span}  ({peer})", 'font-size="11"')
        self.y += ROW
        x = self.at(1)
        self.grid(ticks, top)
        self.parts.insert(0, f'<line class="one" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{self.y}" stroke="#222" stroke-dasharray="4 3"/>')
        self.y += 24

    def lines(self, head, names, xs, rows, xticks, yticks, height=300):
        """rows: the values of each name over xs. Later names are dashed, so that earlier ones show below."""
        self.heading(head, names)
        top, left = self.y, 60
        self.at = lambda v: left + (WIDTH - left - RIGHT) * (v - xticks[0]) / (xticks[-1] - xticks[0])
        up = lambda v: top + height * (yticks[-1] - v) / (yticks[-1] - yticks[0])  # noqa: E731
        self.heights(yticks, up, left)
        for i, (name, values) in enumerate(zip(names, rows)):
            path = " ".join(f"{self.at(x):.1f},{up(v):.1f}" for x, v in zip(xs, values))
            dash = ' stroke-dasharray="6 5"' if i else ""
            self.parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="{3 - i}"{dash}/>')
        self.y += height
        self.grid(xticks, top)
        self.y += 24

    def roofline(self, head, slope, peak, points, xticks, yticks, height=340):
        """points: (number, flops per byte, TFLOP/s); slope: TB/s; peak: TFLOP/s. Both axes are logarithmic."""
        self.heading(head)
        top, left = self.y, 60
        at = lambda v, ticks: (math.log(v) - math.log(ticks[0])) / (math.log(ticks[-1]) - math.log(ticks[0]))  # noqa: E731
        self.at = lambda v: left + (WIDTH - left - RIGHT) * at(v, xticks)
        up = lambda v: top + height * (1 - at(v, yticks))  # noqa: E731
        self.heights(yticks, up, left)
        roof = [(xticks[0], xticks[0] * slope), (peak / slope, peak), (xticks[-1], peak)]
        path = " ".join(f"{self.at(x):.1f},{up(y):.1f}" for x, y in roof)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS["cuDNN"]}" stroke-width="2"/>')
        for number, x, y in points:
            self.mark(f'<circle cx="{self.at(x):.1f}" cy="{up(y):.1f}" r="4" fill="{COLOURS["ours"]}"/>',
                      self.at(x) + 7, up(y) + 10, str(number), 'font-size="11"')
        self.y += height
        self.grid(xticks, top)
        self.y += 24

    def svg(self):
        h = self.y + 8
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{h}" viewBox="0 0 {WIDTH} {h}" '
                f'font-family="system-ui, sans-serif" font-size="12" fill="#222">\n{STYLE}\n'
                f'<rect class="paper" width="{WIDTH}" height="{h}" fill="white"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


def attention():
    c = Chart("Attention on an H200: bf16 rates, and ratios to the fastest peer",
              "Shapes are batch, query heads, KV heads, length, head dimension. Longer bars are faster.")
    names = ["ours", "cuDNN", "FlashAttention-2"]
    for head in ("forward", "backward"):
        table = table_with("attention.md", f"{head}: ours", "cuDNN")
        columns = [next(i for i, cell in enumerate(table[0]) if name in cell) for name in names]
        groups = [(f"{r[0]} {r[1]}", [number(r[i]) for i in columns], "") for r in table[1:]]
        c.bars(f"{head.capitalize()}, TFLOP/s in a burst", names, groups, [0, 200, 400, 600, 800])
    rows = []
    for case, head, peer, ratio in table_with("attention.md", "case", "pass", "ratio")[1:]:
        ends = [float(v) for v in ratio.split(" to ")]
        rows.append((f"{re.split('[;,] [0-9]+, 16, ', case)[0]} {head}", peer, ends[0], ends[-1]))
    c.ranges("Peer's time / ours against the fastest peer found; below 1 the peer is faster", rows,
             [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2])
    return c.svg()


def softmax_topk():
    c = Chart("Softmax and top-k on an H200, k = 50: time, log scale",
              "Shapes are rows x vocabulary. PyTorch is the faster of softmax + topk and topk + logsumexp, with its time over ours.")
    table = table_with("softmax_topk.md", "rows x vocab", "k = 50", "ratio")
    ours, torch = table[0].index("k = 50"), table[0].index("PyTorch, k = 50")
    groups = [(r[0], [number(r[ours]), min(float(v) for v in re.findall(r"[\d.]+", r[torch]))],
               f"  ({r[-1].replace(' ', '')})") for r in table[1:]]
    c.bars("Microseconds", ["ours", "PyTorch"], groups, [10, 100, 1000, 10000], log=True)
    return c.svg()


def peers_ratios():
    c = Chart("Next to the fastest peer on an H200: range of ratios by kind of work, log scale",
              "Ratio: the fastest peer's time / ours. Above 1 ours is faster. In parentheses the median, and in how many figures ours is behind.")
    rows = []
    for work, n, ratio, median, behind, _ in table_with("peers.md", "work", "ratio", "behind")[1:]:
        low, high = (float(v) for v in ratio.split(" to "))
        rows.append((work.replace(" (peers: bf16)", ""), f"{median}; {behind} of {n}", low, high))
    c.ranges("Ratio", rows, [0.5, 1, 2, 4, 8, 16, 32, 64], log=True)
    return c.svg()


def roofline():
    c = Chart("Roofline of an H200: TFLOP/s over flops per byte, log scales",
              "The line: 4254 GB/s of copy, measured, and 989 TFLOP/s of bf16 matmuls. Points are numbered as below.")
    table = table_with("gpus.md", "flops per byte", "TFLOP/s")
    points = [(i, float(r[3]), float(r[4])) for i, r in enumerate(table[1:], 1)]
    c.roofline("TFLOP/s", 4.254, 989, points, [0.25, 1, 4, 16, 64, 256, 1024, 4096, 16384], [1, 10, 100, 1000])
    for i, r in enumerate(table[1:], 1):
        c.y += 16
        c.text(60, c.y, f"{i}   {r[0]}: {r[4]} TFLOP/s, {r[5]} of its limit")
    c.y += 8
    return c.svg()


def llama_loss():
    c = Chart("Training a Llama of 1B sizes on an H200: loss with and without patch()",
              "Random weights, bfloat16, 4 x 2048 bytes of text per step, AdamW. Both runs see the same batches.")
    table = table_with("python.md", "step", "patched")
    names = ["transformers", "patched"]
    values = [[float(r[table[0].index(n)]) for r in table[1:]] for n in names]
    c.lines("Loss over steps", names, [int(r[0]) for r in table[1:]], values, [0, 20, 40, 60, 80, 100], [0, 2, 4, 6, 8, 10, 12, 14])
    return c.svg()


CHARTS = {"attention_speed.svg": attention, "softmax_topk_speed.svg": softmax_topk, "llama_loss.svg": llama_loss,
          "peers_ratios.svg": peers_ratios, "roofline_h200.svg": roofline}


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(f"charts.py: got {sys.argv[1]}, expected --check or nothing")
    for name, draw in CHARTS.items():
        path, svg = DOC / name, draw()
        if not check:
            path.write_text(svg)
        elif not path.exists() or path.read_text() != svg:
            sys.exit(f"charts.py: doc/{name}: got another chart than its table's; run python3 python/charts.py")


if __name__ == "__main__":
    main()
