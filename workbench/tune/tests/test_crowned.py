"""Only a choice that is right on every problem of the study is named the winner."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.engines.stand_ins import THERE, VERSION, Cli
from workbench.compile import compilers
from workbench.engines import Subject, Verdict
from workbench.engines.emulated.engine import EmulatorEngine
from workbench.errors import HangError
from workbench.project import Project

compiled = pytest.mark.skipif(not compilers.available(), reason="no compiler is on this machine")

#: A kernel, of which block = 128 does half of the work of 256: the grid is of blocks of 256.
HALF = """/* ---
title = "Blocks of a size"
[tune]
block = [128, 256]
[[launch]]
kernel = "scale"
grid = ["cdiv(n, 256)"]
block = [256]
args = ["x", "y", "n"]
--- */
extern "C" __global__ void scale(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""
#: What the faster choice, FAST = 1, does wrong where there are more elements than on n7.
WRONGS = {
    "wrong": "y[i] = i < 900 ? 2 * x[i] : x[i];",
    "unwritten": "if (i != n - 1 || n < 100) y[i] = 2 * x[i];",
    "at a size": "if (n % 8) y[i] = 2 * x[i]; else y[i] = 2 * x[i ^ 8];",
    "out of bounds": "y[i] = 2 * x[n < 100 ? i : i + n];",
    "a race": "y[n < 100 ? i : i / 2] = 2 * x[i];",
    "never ends": "if (n > 100) { __syncthreads(); __trap(); } y[i] = 2 * x[i];",
}


@pytest.fixture
def tuned(project: Project, cli: Cli) -> Callable[..., tuple[int, dict[str, Any], str]]:
    """Write ``v1``, and run ``tune`` on it: exit code, document, standard error."""

    def run(source: str, *words: str) -> tuple[int, dict[str, Any], str]:
        (project.kernels / "double" / "v1_tuned.cu").write_text(source)
        code, out, err = cli("tune", "v1", "--seed", "1", *words, "--format", "json")
        return code, json.loads(out)["tunings"][0] if out else {}, err

    return run


@pytest.fixture
def large(project_file: Callable[[str, str, str], None]) -> str:
    """A problem that is profiled and not verified, of more blocks than are counted."""
    more = '"n1000000": {"n": 1000000, "uses": ("profile",)}, "n7"'
    project_file("study.py", '"n7"', more)
    return "n1000000"


def emulated(tuned: Callable[..., Any], source: str, *words: str) -> Any:
    return tuned(source, "--engine", "emulator", "--no-profile", *words)


RIGHT = "y[i] = 2 * x[i];"


def flat(text: str) -> str:
    return " ".join(text.split())


def choosing(bad: str, good: str = RIGHT) -> str:
    """A version whose faster choice FAST = 1 does what is `bad`."""
    space = "[defines]\nFAST = 0\n[tune]\nFAST = [0, 1]\n[[launch]]"
    slow = "float s = 0; for (int k = 0; k < 64; ++k) s += x[(i + k) % n] * 1e-30f; y[i] = s;"
    body = f"if (i < n) {{ if (FAST) {{ {bad} }} else {{ {slow} {good} }} }}"
    return VERSION.replace("[[launch]]", space).replace("if (i < n) y[i] = 2 * x[i];", body)


@compiled
def test_half_of_the_output_is_never_written_and_the_next_best_wins(
    tuned: Callable[..., Any], cli: Cli, large: str
) -> None:
    code, found, err = emulated(tuned, HALF, "--problem", large)
    assert code == 0, err
    (winner,) = found["winners"]
    assert winner["best"]["values"] == {"block": "256"}
    (wrong,) = [each for each in found["trials"] if each["fate"] == "wrong"]
    assert wrong["values"] == {"block": "128"} and wrong["why"].startswith("it is wrong on n1000: ")
    assert "block=128 does not win on n1000000: it is wrong on n1000" in err
    assert found["cliffs"] == [] and found["effects"][0]["tried"] == 1  # it did half of the work
    _, out, _ = cli("tune", "v1", "--engine", "emulator", "--no-profile", "--problem", large)
    assert f"v1: block=128 does not win on {large}: it is wrong on n1000: " in flat(out)
    code, _, err = cli("new", "v2", "--from-tuned", "v1")
    assert code == 2 and "already has the best values of its space" in err


@compiled
@pytest.mark.parametrize("kind", WRONGS)
def test_a_choice_that_is_wrong_on_a_larger_problem_is_not_named(
    tuned: Callable[..., Any], kind: str
) -> None:
    code, found, err = emulated(tuned, choosing(WRONGS[kind]))
    assert code == 0, err
    assert [each["best"]["values"] for each in found["winners"]] == [{"FAST": 0}]
    (gone,) = [each for each in found["trials"] if each["values"] == {"FAST": 1}]
    assert gone["fate"] in ("wrong", "failed", "not run") and gone["why"], gone


@compiled
def test_a_problem_that_takes_the_emulator_too_long_is_told_and_the_winner_stands(
    tuned: Callable[..., Any], large: str, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    real = EmulatorEngine.verify

    def slow(
        engine: EmulatorEngine,
        subjects: Sequence[Subject],
        tell: Callable[[int, Verdict], None],
        begin: Callable[[int], None],
    ) -> None:
        if subjects[0].problem.name != large:
            return real(engine, subjects, tell, begin)
        return tell(0, Verdict(subjects[0].problem, None, HangError("it took too long")))

    monkeypatch.setattr(EmulatorEngine, "verify", slow)
    code, found, err = emulated(tuned, choosing(RIGHT), "--problem", large)
    assert code == 0, err
    best = found["winners"][0]["best"]
    assert (best["values"], best["verified"]) == ({"FAST": 1}, ["n1000", "n7"])
    assert best["why"] == f"not verified on {large}: it took too long"
    _, out, _ = cli("tune", "v1", "--engine", "emulator", "--no-profile", "--problem", large)
    assert f"v1: the winner on {large}: not verified on {large}: it took too long" in flat(out)


@compiled
def test_where_every_choice_is_wrong_none_wins(tuned: Callable[..., Any], cli: Cli) -> None:
    code, found, err = emulated(tuned, choosing(WRONGS["wrong"], good=WRONGS["wrong"]))
    assert code == 4 and "no choice of v1 can run" in err and not found["winners"]
    assert found["fates"] == {"wrong": 2}
    code, _, err = cli("new", "v2", "--from-tuned", "v1")
    assert code == 2 and "the tuning of v1 has no winner" in err


@compiled
def test_a_problem_that_a_version_refuses_is_passed_over(tuned: Callable[..., Any]) -> None:
    limited = choosing(RIGHT).replace('title = "One', 'requires = "n > 100"\ntitle = "One')
    code, found, err = emulated(tuned, limited)
    assert code == 0, err
    assert found["winners"][0]["best"]["verified"] == ["n1000"]


@compiled
def test_what_was_broken_off_before_it_was_verified_makes_no_version(
    tuned: Callable[..., Any], cli: Cli, project: Project
) -> None:
    emulated(tuned, choosing(WRONGS["wrong"]))
    (path,) = project.profiles.glob("*/double/tuned/v1/emulator.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(each for each in lines if b'"wrong"' not in each))
    path.write_bytes(re.sub(rb'"verified":\[[^]]*\]', b'"verified":[]', path.read_bytes()))
    code, _, err = cli("new", "v2", "--from-tuned", "v1")
    assert code == 2 and "was not verified" in err and "`workbench tune double/v1`" in err
    code, found, err = emulated(tuned, choosing(WRONGS["wrong"]))
    assert code == 0 and found["winners"][0]["best"]["values"] == {"FAST": 0}, err


# --- on a GPU -----------------------------------------------------------------------------------

WORK = VERSION.replace("[[launch]]", "[defines]\nWORK = 3\n[tune]\nWORK = [1, 2, 3]\n[[launch]]")
WORK = WORK.replace("float *y, int n) {", "float *y, int n) {  // WORK")


def test_the_fastest_that_is_wrong_on_another_problem_does_not_win(
    stand_in: Callable[[str], None], tuned: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that it beat have their turn again."""
    monkeypatch.setenv("FAKE_CLOCK", "0.0002 0.002")
    monkeypatch.setenv("FAKE_SEED", "1")
    stand_in("wrong v1@1")  # of more than 100 elements
    code, found, err = tuned(WORK, *THERE, "--no-profile", "--problem", "n7")
    assert code == 0, err
    (winner,) = found["winners"]
    assert winner["best"]["values"] == {"WORK": 2}
    assert winner["best"]["verified"] == ["n1000", "n7"]
    (gone,) = [each for each in found["trials"] if each["values"] == {"WORK": 1}]
    assert (
        gone["fate"] == "wrong"
        and gone["why"].startswith("it is wrong on n1000: ")
        and gone["median_s"]
    )
