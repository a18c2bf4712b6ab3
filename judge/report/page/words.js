// SPDX-License-Identifier: Apache-2.0
// words.js - explanations of the page's terms: weights, grades, verdicts, classes and reasons.

// As in judge/report/score.c; test/page.py recomputes every score from the page.
const WEIGHTS = [
  ["Speed", 100, "speed", "the place of its times between those of a textbook version (250), the best known one (800) and the least possible time, the floor (1000)"],
  ["Robustness", 15, "R", "checks beyond correctness: invalid calls rejected, bitwise identical repeats, any number of threads, no undefined behaviour"],
  ["Precision", 10, "P", "correct digits, compared with the best known version"],
  ["Memory", 5, "M", "workspace, compared with the best known version\u2019s; less is better"],
];
const GRADES = [[900, "A+"], [800, "A"], [650, "B"], [450, "C"], [250, "D"], [0, "E"]];

const gradeOf = grade => grade && grade !== "F" ? `grade ${grade}: score from ${(GRADES.find(x => x[1] === grade) || [0])[0]}` : grade ? "grade F: nothing passed" : "by the score: " + GRADES.map(([least, g]) => `${g} from ${least}`).join(", ") + "; F: nothing passed";

const VERDICTS = {
  PASS: "Correct in every case that was run, including the project’s own rules for ties, NaN and empty rows.",
  COMMON: "Correct by the usual contract of the field, but at least one of those additional rules is broken. It counts as a pass; on the board it has a dashed frame.",
  FAIL: "At least one case failed. A click on it shows the reason and a command that reproduces it.",
  AUDIT: "Faster than this machine can possibly be. There is no score until a person has reviewed it.",
  ERROR: "The judge itself failed. This says nothing about the entrant.",
  none: "Not judged yet.",
};

const CLASSES = {
  mixed: "Answers of one model that are of several classes; each challenge’s section says which.",
  "-": "An answer that could not be read has no class.",
  sealed: "C code in a sealed process: no operating system, no library, no clock. Two system calls are allowed.",
  host: "C, C++ or a shared library with threads and the C library, in a sandbox without files and network.",
  python: "Python with NumPy, in a sandbox that can read its own folder and the interpreter.",
  "sealed-gpu": "GPU kernels only. The judge launches them; the entrant has no host code.",
  "host-gpu": "GPU kernels with host code that launches them, in a sandbox.",
  "python-gpu": "Python with PyTorch, Triton or CuPy on the GPU, in a sandbox.",
};

// The best known version that a score is relative to, by class. As in doc/judge.md, "Anchors".
const RIVALS = { sealed: "C", host: "C", python: "NumPy", "sealed-gpu": "CUDA", "host-gpu": "CUDA", "python-gpu": "CUDA" };
const RIVAL_TEXT = { C: ["sealed, host", "this project’s library in C"], NumPy: ["python", "NumPy with whole blocks"], CUDA: ["classes on a GPU", "this project’s library on CUDA"] };

const BADGES = {
  full: "The judge attacked its own sandbox and clock before the run, and every protection worked on this machine.",
  reduced: "The judge attacked its own sandbox and clock before the run. At least one protection does not work on this machine, so trust entrants and times less.",
  none: "The judge’s protections were not verified on this machine.",
};

const REASONS = {
  entry: "its description could not be read", size: "its files are too large", build: "it did not compile",
  symbol: "it uses a symbol that its class may not use", missing: "it lacks the function of the challenge", launch: "its launch plan is invalid",
  status: "it rejected a valid call", raised: "it raised an exception", accepted: "it accepted an invalid call", value: "an output is outside its error bound", unwritten: "an output was not written",
  canon: "one of the project’s additional rules is broken", case: "the requested case does not exist or is not offered",
  input: "it wrote to an input", before: "it accessed memory before a buffer", past: "it accessed memory past a buffer", gap: "it accessed memory between the rows of a buffer",
  crash: "it crashed", hang: "it did not finish in time", seal: "it made a system call that its class may not make", memory: "it used too much memory", protocol: "it left the protocol",
  early: "it worked before the clock started", "output-late": "it worked after reporting that it was done", workspace: "it requested too much workspace",
  fp: "it changed the floating-point mode", floor: "it was faster than this machine can be",
  error: "the machine or the installation is at fault", busy: "the machine was too busy to tell", judge: "not all that was to be checked was checked",
};

const COLUMNS = {
  Passed: "challenges passed, of all challenges in this run; this count ranks",
  Entered: "challenges passed, of those that the entrant entered; this count does not rank",
  "pass@1": "chance that one answer of the entrant passes, mean over all challenges; entrants are ranked by it",
  "pass@k": "chance that at least one of k answers passes, mean over all challenges: an unbiased estimate from all answers",
  Best: "mean over all challenges of the best answer’s score",
  Median: "mean over all challenges of the median answer’s score; one that failed counts 0",
  Score: "mean over all challenges, 0 to 1000; a challenge that was not passed counts 0",
  "Of limit": "share of the machine’s limit that was reached: geometric mean over the challenges passed",
  "Of best": "speed as a multiple of that of the best known version of the entrant’s class (C, NumPy or CUDA): geometric mean over the challenges passed; 1 is as fast, more is faster",
  Rating: "strength in head-to-head matches, as in chess: 400 points more mean odds of ten to one; 1500 is the mean",
  Group: "entrants in one group cannot be told apart; group 1 is the fastest",
};
