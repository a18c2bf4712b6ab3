#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page.py BUILD [SHOTS] - the report's page in headless Chromium: loads, sorts, fits a phone, says nothing on the console.

SHOTS: a folder for screenshots and a print. Speaks the DevTools protocol over two pipes; needs no package."""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Browser:
    def __init__(self, program, home):
        to_browser, self.out = os.pipe()
        self.inn, from_browser = os.pipe()
        os.set_blocking(self.inn, True)
        self.buffer, self.last, self.events = b"", 0, []

        def wire():
            os.dup2(os.dup(to_browser), 103), os.dup2(os.dup(from_browser), 104)
            os.dup2(103, 3), os.dup2(104, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--no-first-run", f"--user-data-dir={home}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=wire, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser), os.close(from_browser)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.page(domain + ".enable")

    def read(self):
        while b"\0" not in self.buffer:
            piece = os.read(self.inn, 1 << 20)
            if not piece:
                raise SystemExit("page: the browser went away")
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            got = self.read()
            if got.get("id") == self.last:
                if "error" in got:
                    raise SystemExit(f"page: {method}: {got['error']}")
                return got["result"]
            self.events.append(got)

    def page(self, method, **params):
        return self.call(method, self.session, **params)

    def run(self, script):
        got = self.page("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in got:
            raise SystemExit(f"page: {script}: {got['exceptionDetails']}")
        return got["result"].get("value")

    def load(self, path, width=1280, height=900, dark=False):
        self.events = []
        self.page("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.page("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.page("Page.navigate", url=path.resolve().as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.read())

    def complaints(self):
        """Whatever the page said, threw, or asked the network for."""
        self.run("1")
        for e in self.events:
            method, params = e.get("method"), e.get("params", {})
            if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                yield json.dumps(params)[:400]
            if method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:")):
                yield "asked for " + params["request"]["url"]

    def shot(self, path):
        size = self.page("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000), "scale": 1}
        path.write_bytes(base64.b64decode(self.page("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]))


def expect(ok, what):
    if not ok:
        raise SystemExit(f"page: {what}")


NAMES = "[...document.querySelectorAll('#scoreboard tbody td.who b bdi')].map(e => e.textContent)"


def sorting(b):
    before = b.run(NAMES)
    press = "[...document.querySelectorAll('#scoreboard th button')].find(e => e.textContent == '{}').click()"
    b.run(press.format("Entrant"))
    after = b.run(NAMES)
    expect(before != after and sorted(before) == sorted(after), f"a click on Entrant did not sort: {after}")
    b.run(press.format("Score"))
    down = b.run(NAMES)
    b.run(press.format("Score"))
    expect(down[0] == "touchstone" and b.run(NAMES)[-1] == "touchstone", f"clicks on Score did not sort: {down}")
    expect(b.run("document.querySelectorAll('#scoreboard th[aria-sort]').length") == 1, "more than one column says it is sorted")
    b.run(press.format("Speed of the floor"))
    fast = b.run(NAMES)
    b.run(press.format("Speed of the floor"))
    slow = b.run(NAMES)
    expect(fast[-1] == slow[-1] and fast[0] == slow[-2], f"who has no speed is not last: {fast}, {slow}")
    b.run("document.querySelector('.copy').click()")
    said = b.run("document.querySelector('.copy').textContent + ' ' + getSelection()")
    expect(said.startswith(("copied touchstone judge --replay", "selected touchstone judge --replay")), f"copy: {said}")
    b.run("[...document.querySelectorAll('.tabs button')].at(-1).click()")
    expect(b.run("document.querySelectorAll('.matrix tbody tr').length") == 4, "the last challenge's matrix has another number of rows")


def hostile(b):
    expect(b.run("document.title") == "Touchstone: scoreboard", "an entrant's name ran as a script")
    expect(b.run("document.querySelectorAll('img, #page script, #page b b').length") == 0, "an entrant's name became an element")
    expect(b.run("/[\\u0000-\\u0009\\u000b-\\u001f\\u202e]/.test(document.getElementById('page').textContent)") is False,
           "a control character reached the page")


def whole(b, kind):
    figures = b.run("document.querySelectorAll('figure svg').length")
    expect(figures == {"full": 12, "failures": 2, "untimed": 3, "empty": 0}[kind], f"{kind}: {figures} pictures")
    broken = "[...document.querySelectorAll('figure *')].filter(e => [...e.attributes].some(a => /NaN|Infinity|undefined/.test(a.value))).length"
    expect(b.run(broken) == 0, f"{kind}: a picture with coordinates that are no numbers")
    expect(b.run("/undefined|\\[object/.test(document.getElementById('page').innerText)") is False, f"{kind}: 'undefined' on the page")
    hash_ = b.run("document.getElementById('last').textContent")
    expect(len(hash_) == 64, f"{kind}: the footer's hash is '{hash_}'")


def main():
    build = pathlib.Path(sys.argv[1])
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not program:
        print("skipped: no Chromium")
        return 77
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        shots = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else tmp
        b = Browser(program, tmp / "home")
        for kind in ("full", "failures", "untimed", "empty"):
            log = tmp / f"{kind}.log"
            subprocess.run([build / "test" / "make_log", log, kind], check=True)
            subprocess.run([build / "touchstone", "report", log, "--out", tmp / kind], check=True, stdout=subprocess.DEVNULL)
            index = tmp / kind / "index.html"
            for name, width, dark in (("wide", 1280, False), ("dark", 1280, True), ("phone", 390, False)):
                b.load(index, width, dark=dark)
                wide = b.run("document.documentElement.scrollWidth")
                expect(wide <= width, f"{kind}: {wide} px wide on a screen of {width}")
                expect(not list(b.complaints()), f"{kind}, {name}: {list(b.complaints())}")
                whole(b, kind)
                b.shot(shots / f"{kind}-{name}.png")
            if kind == "full":
                hostile(b), sorting(b)
                expect(not list(b.complaints()), f"after the clicks: {list(b.complaints())}")
                b.load(index)
                (shots / "full.pdf").write_bytes(base64.b64decode(b.page("Page.printToPDF", preferCSSPageSize=True)["data"]))
            print(f"{kind}: loaded wide, dark and on a phone")
        b.process.kill()
        b.process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
