# SPDX-License-Identifier: Apache-2.0
"""test_judge.py - the judge from Python: a correct function passes, a wrong one is told why, the
command works."""
import os
import subprocess
import sys

import numpy as np
import pytest

import touchstone
import touchstone_program as _program
from touchstone import _judge

BLOCK = 4


def widen(a):
    if a.dtype == np.uint16:
        a = (a.astype(np.uint32) << 16).view(np.float32)
    return a.astype(np.float64)


@touchstone.entrant("softmax_topk")
def wrong(logits, k, inv_temperature, out):
    out["index"][...] = BLOCK
    out["prob"][...] = widen(logits)[:, :1]


def judged(entrant, **options):
    try:
        return touchstone.judge(entrant, timing=False, **options)
    except touchstone.JudgeError as error:
        if "missing" in str(error):
            pytest.skip(str(error))
        raise


def test_a_function_is_written_down_with_what_it_uses():
    text = _judge.source_of(wrong, "softmax_topk")
    assert "import numpy as np" in text and "BLOCK = 4" in text and "def widen" in text and "@" not in text
    space = {}
    exec(text, space)
    assert callable(space["softmax_topk"]) and space["BLOCK"] == 4


rows, prob = np.zeros(3), np.ones(2)  # globals with the names of a parameter and a local


def shadows(rows, scale=BLOCK):
    prob = [widen(r) for r in rows]
    return prob


def test_globals_that_parameters_and_locals_hide_are_left_out():
    text = _judge.source_of(shadows, "softmax_topk")
    assert "BLOCK = 4" in text and "def widen" in text and "rows =" not in text and "zeros" not in text


def test_a_wrong_function_fails_and_says_where():
    verdict = judged(wrong)
    assert not verdict and not verdict.passed and verdict.verdict == "FAIL", verdict
    assert len(verdict.flaws) == 1 and "softmax_topk/" in verdict.flaws[0]
    assert "FAIL" in repr(verdict) and "<table>" in verdict._repr_html_()
    assert wrong.__name__ == "wrong" and "softmax_topk" in repr(wrong)


def test_one_case_is_judged_again():
    first = judged(wrong)
    again = judged(wrong, case=first.replay)
    assert not again.passed and again.flaws == first.flaws and again.replay == first.replay


@touchstone.entrant("layernorm_forward")
def floats_only(x, gamma, beta, eps, out):
    if x.dtype != np.float32:
        raise NotImplementedError
    a = x.astype(np.float64)
    exponent = np.frexp(np.abs(a).max(axis=1, keepdims=True, initial=0))[1]
    scale = np.ldexp(1.0, -np.clip(exponent, -1000, 1000))
    a *= scale
    mean, var = a.mean(axis=1, keepdims=True), a.var(axis=1, keepdims=True)
    added = eps * scale * scale
    flat = (var == 0) | np.isinf(added)
    root = np.where(flat, 1 / np.sqrt(eps) / scale, 1 / np.sqrt(var + added))
    out["y"][...] = (a - mean) * root * gamma.astype(np.float64) + beta.astype(np.float64)
    out["mean"][...], out["rstd"][...] = (mean / scale)[:, 0], (root * scale)[:, 0]


def test_what_an_entrant_leaves_out_is_named():
    verdict = judged(floats_only)
    assert verdict.passed and "bf16" in verdict.unsupported and verdict.share == 1, verdict
    assert "unsupported" in repr(verdict) and "bf16" in repr(verdict)
    part = judged(floats_only, offers="dtype == f32 && cols <= 64")
    assert part.passed and part.offers == "dtype == f32 && cols <= 64" and 0 < part.share < 0.5, part
    with pytest.raises(ValueError, match="offers"):
        touchstone.judge(os.path.dirname(__file__), "layernorm_forward", offers="cols <= 64")


@touchstone.entrant("softmax_topk")
def starter(logits, k, inv_temperature, out):
    raise NotImplementedError("begin here")


def test_a_rejected_call_keeps_its_words():
    verdict = judged(starter)
    assert not verdict and "raised NotImplementedError: begin here" in verdict.flaws[0], verdict
    assert verdict.worst_error is None


def test_a_pass_by_the_common_contract_is_a_pass():
    assert _judge.Verdict("e", "c", "PASS (common)", []).passed
    assert not _judge.Verdict("e", "c", "AUDIT", []).passed


def test_an_answer_that_is_ignored_is_said(tmp_path):
    (tmp_path / "softmax.md").write_text("an answer?")
    (tmp_path / "softmax_topk.py").write_text("def softmax_topk():\n    pass\n")
    with pytest.warns(UserWarning, match="1 file ignored, such as .*softmax.md"):
        judged(str(tmp_path))


def test_a_module_of_the_caller_is_rejected(tmp_path, monkeypatch):
    (tmp_path / "own_module.py").write_text("def f(x):\n    return x\n")
    (tmp_path / "own_entrant.py").write_text("import own_module\ndef softmax_topk(logits):\n    return own_module.f(logits)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_entrant
    with pytest.raises(ValueError, match="own_module.*expected an installed module"):
        touchstone.judge(own_entrant.softmax_topk, "softmax_topk", timing=False)


def test_a_correct_folder_passes():
    folder = os.path.join(os.path.dirname(_program.path()), "../libexec/touchstone/entrant/numpy/layernorm_forward")
    if not os.path.isdir(folder):
        folder = os.path.join(os.path.dirname(_program.path()), "../entrant/numpy/layernorm_forward")
    verdict = judged(folder)
    assert verdict and verdict.flaws == [], verdict
    assert verdict.cases["basic"][0] == verdict.cases["basic"][1] > 0
    assert verdict.challenge == "layernorm_forward"


def test_errors():
    with pytest.raises(ValueError, match="challenge: got None"):
        touchstone.judge(lambda: None)
    with pytest.raises(FileNotFoundError):
        touchstone.judge("/nowhere/at/all", "softmax_topk")
    with pytest.raises(ValueError, match="judge: challenge: got 'no_such', expected "):
        touchstone.judge(wrong.function, "no_such")
    with pytest.raises(TypeError):
        touchstone.entrant(wrong)


def test_another_challenge_than_the_folders(tmp_path):
    (tmp_path / "entry.json").write_text('{"name": "mine", "challenge": "layernorm_forward"}')
    with pytest.raises(ValueError, match="challenge: got 'softmax_topk', expected 'layernorm_forward', as .*entry.json says"):
        touchstone.judge(tmp_path, "softmax_topk")


def test_a_challenge_that_does_not_exist():
    with pytest.raises(ValueError, match="entrant: challenge: got 'layernorm_foward', expected 'layernorm_forward' or "):
        touchstone.entrant("layernorm_foward")
    with pytest.raises(ValueError, match="entrant: challenge: got '12345', expected a name that"):
        touchstone.entrant("12345")


def closure(n):
    def inner(logits, k, inv_temperature, out):
        out["index"][...] = n
    return inner


INNER = closure(3)


def uses_a_closure(logits, k, inv_temperature, out):
    INNER(logits, k, inv_temperature, out)


@pytest.mark.parametrize("function,message", [
    (lambda logits, k, inv_temperature, out: None, "judge: got a lambda, expected a function that `def` defines"),
    (closure(3), "judge: inner uses n of the function around it, which cannot be written down"),
    (uses_a_closure, "judge: inner uses n of the function around it"),
    (np.mean, "judge: got mean, a .*, expected a function that `def` defines"),
    (np.add, "judge: got add, a ufunc, expected a function"),
    (len, "judge: got len, a builtin_function_or_method, expected a function"),
], ids=["lambda", "closure", "global closure", "numpy function", "ufunc", "builtin"])
def test_what_cannot_be_written_down_is_refused_before_a_run(function, message, monkeypatch):
    _judge._known("judge", "softmax_topk")
    monkeypatch.setattr(_judge.subprocess, "run", lambda *a, **k: pytest.fail("the judge was run"))
    with pytest.raises(ValueError, match=message) as raised:
        touchstone.judge(function, "softmax_topk")
    assert "\n" not in str(raised.value)


def test_the_command(tmp_path):
    run = lambda *a: subprocess.run([sys.executable, "-c", "from touchstone_program import main; main()", *a],  # noqa: E731
                                    capture_output=True, text=True)
    assert "usage: touchstone" in run("--help").stdout
    assert run("new", str(tmp_path / "mine")).returncode == 0
    assert (tmp_path / "mine").is_dir() and any((tmp_path / "mine").rglob("PROMPT.md"))
    plan = run("plan", "--model", "llama-3-8b", "--gpu", "h100", "--context", "8192")
    assert plan.returncode == 0 and "GiB" in plan.stdout, plan.stderr
    assert run("report", str(tmp_path / "none.log")).returncode != 0
    assert run("list", "challenges").stdout.startswith("layernorm_forward")
