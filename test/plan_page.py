#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plan_page.py BUILD [SHOTS] - the planner's page in headless Chromium, at two widths, light and dark.

The answer is first and equals the exit status, every option that it names makes the plan fit, tables fit a phone,
text has contrast, nothing is said on the console. SHOTS: a folder for screenshots."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

from page import BROWSERS, FAINT, TEXT, Browser, expect

ASKED = {
    "fits": ["--model", "gpt-oss-20b", "--gpu", "rtx-4090"],
    "short": ["--model", "llama-3.3-70b", "--gpu", "h100"],
    "long": ["--model", "llama-3-8b", "--gpu", "rtx-3090", "--context", "131072", "--batch", "2"],
    "linear": ["--model", "qwen3.5-397b-a17b", "--gpu", "gb200", "--gpus", "2"],
}
NARROW = "[...document.querySelectorAll('.wide')].filter(e => !e.querySelector('.matrix') && e.scrollWidth > e.clientWidth + 1).map(e => e.textContent.slice(0, 60))"


def plan(build, *options):
    return subprocess.run([build / "touchstone", "plan", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def answered(b, build, asked, status, where):
    name = b.run(TEXT.format("h1"))
    expect(asked[1] in name and asked[3] in name, f"{where}: the heading is '{name}'")
    top = b.run("document.querySelector('.answer').getBoundingClientRect().top")
    said = b.run(TEXT.format(".answer"))
    expect(top < 300 and said.startswith("No:" if status else "Yes:"), f"{where}: '{said}' at {top} px")
    ways = b.run("[...document.querySelectorAll('li code')].map(e => e.textContent)")
    expect(bool(ways) == bool(status), f"{where}: options {ways}")
    return ways


def look(b, path, width, dark, where, shots):
    b.load(path, width, dark=dark)
    wide = b.run("document.documentElement.scrollWidth")
    expect(wide <= width, f"{where}: {wide} px wide")
    if shots:
        b.shot(shots / (where.replace(", ", "-").replace(" px", "") + ".png"))
    b.run("document.querySelectorAll('details').forEach(e => e.open = true)")
    for what, script in (("cut table", NARROW), ("faint", FAINT.replace("#page *, #foot *", "body *"))):
        found = b.run(script)
        expect(not found, f"{where}: {what}: {found}")
    expect(b.run("document.documentElement.scrollWidth") <= width, f"{where}: too wide when unfolded")
    expect(not list(b.complaints()), f"{where}: {list(b.complaints())}")


def main():
    build = pathlib.Path(sys.argv[1])
    shots = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not program:
        print("skipped: no Chromium")
        return 77
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as tmp:
        path = pathlib.Path(tmp) / "plan.html"
        b = Browser(program, pathlib.Path(tmp) / "home")
        for kind, asked in {**ASKED, "all": []}.items():
            status = plan(build, *asked, "--html", path)
            expect(status == (kind not in ("fits", "all")), f"{kind}: exit status {status}")
            for width in (1280, 390):
                for dark in (False, True):
                    look(b, path, width, dark, f"{kind}, {width} px, {'dark' if dark else 'light'}", shots)
                    ways = answered(b, build, asked, status, f"{kind}, {width} px") if asked else []
            for way in ways:
                changed = way.split()
                kept = [w for i in range(0, len(asked), 2) for w in asked[i:i + 2] if asked[i] not in changed]
                expect(plan(build, *kept, *changed) == 0, f"{kind}: {way} does not fit")
            print(f"{kind}: two widths, light and dark; options: {', '.join(ways) or 'none'}")
        b.process.kill()
        b.process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
