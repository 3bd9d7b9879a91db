"""What is judged, and how it is told: steps, counts that hang on timing, programs, every format."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from rich.cells import cell_len

import workbench as wb
from tests import goldens
from tests.analysis.test_chance import LINES, of_waves, other_code
from tests.commands.test_schema import holds, printed
from tests.factories import H200, make_profile, make_project, make_timing
from tests.test_documentation import fences
from workbench import language
from workbench.analysis.compare import Comparison, compare
from workbench.cli import app
from workbench.gate.rules import Gate, Rules, check_programs, check_step, overall, read_rules
from workbench.gate.shown import github, junit
from workbench.views.text.safe_output import write

REPO = Path(__file__).resolve().parents[3]


def test_what_is_not_plausible_stands_in_the_step_and_fails_its_check() -> None:
    old, new = make_profile(), make_profile(version="v1")
    times = make_timing(1e-3), replace(make_timing(1e-9), device=H200, bytes=10**9)
    step = compare(old, new, old_time=times[0], new_time=times[1])
    assert step.implausible and set(step.implausible) <= set(step.warnings)
    gates = check_step(step, (), Rules(), version="demo/v1", file="v1.cu")
    assert [gate.status for gate in gates if gate.name == "plausible"] == ["fail"]
    assert overall(gates) == "fail"
    fine = compare(old, new)
    assert not fine.implausible
    names = [gate.name for gate in check_step(fine, (), Rules(), version="v", file="")]
    assert "plausible" not in names


def limited(comparison: Comparison, sign: str, bound: float) -> Gate:
    rules = Rules(limits={"shared_wavefronts": (sign, bound)}, timed=False)
    *_, gate = check_step(comparison, (), rules, version="demo/v3", file="v3.cu")
    assert gate.kind == "limit"
    return gate


def regressed(comparison: Comparison, allowed: float) -> Gate:
    rules = Rules(counters={"shared_wavefronts": allowed}, timed=False)
    (gate,) = check_step(comparison, (), rules, version="demo/v3", file="v3.cu")
    return gate


def test_a_limit_that_hangs_on_timing_is_inconclusive() -> None:
    comparison = compare(of_waves(1000), of_waves(450, 400))
    gate = limited(comparison, "<=", 500)
    assert gate.status == "inconclusive"
    assert gate.message == (
        f"Shared wavefronts is 450; it must be <= 500; {LINES}, and hold 11.1% of the count"
    )
    assert limited(comparison, "<=", 399).status == "fail"
    assert limited(comparison, ">=", 400).status == "pass"
    # What the side before may have been does not matter.
    assert limited(compare(of_waves(1000, 10), of_waves(450)), "<=", 500).status == "pass"


def test_a_regression_that_hangs_on_timing_is_inconclusive() -> None:
    better = compare(of_waves(1000), of_waves(450, 400))
    worse = compare(of_waves(300), of_waves(450, 400))
    assert regressed(better, 5).status == "inconclusive"
    assert regressed(worse, 5).status == "fail"
    assert regressed(worse, 40).status == "inconclusive"
    assert regressed(worse, 40).message.endswith(f"; {LINES}, and hold 11.1% of the count")
    assert regressed(compare(of_waves(450, 400), of_waves(380)), 5).status == "pass"


def test_what_timing_does_to_the_same_code_is_no_regression() -> None:
    both = compare(of_waves(450, 400), of_waves(450, 400))
    assert regressed(both, 0).status == "pass"
    assert (
        limited(both, "<=", 500).status == "inconclusive"
    )  # the number itself is as open as before
    other = compare(of_waves(450, 400), other_code(of_waves(450, 400)))
    assert regressed(other, 5).status == "inconclusive"


def test_no_time_is_judged_and_what_was_not_kept_is_inconclusive() -> None:
    pytest.importorskip("workbench.programs.compared")
    from workbench.programs.compared.program import compare_programs
    from workbench.programs.compared.steps import kernel_steps
    from workbench.programs.tests.test_counted_programs import FEWER, C, capture

    found = compare_programs(capture(("a", 8, C)), capture(("a", 8, FEWER)))
    assert not check_programs(found, (), Rules())
    same = compare_programs(found.old, found.old)
    assert [gate.status for gate in check_programs(same, (), Rules())] == ["pass"]
    (step,) = kernel_steps(found, (None, None), force=False)
    assert step.story is None and "was profiled" in step.silence
    assert [gate.status for gate in check_programs(found, (step,), Rules())] == ["inconclusive"]


def test_a_program_that_tries_configurations_is_not_judged() -> None:
    pytest.importorskip("workbench.programs.compared")
    from workbench.programs.compared.program import compare_programs
    from workbench.programs.tests.test_program_difference import capture, sized, tuned

    new = capture(tuned())
    new = replace(new, survey=replace(new.survey, steady=None))
    found = compare_programs(capture(sized(*[(32, 3000, 8)] * 20)), new)
    assert found.tried
    gates = check_programs(found, (), Rules(max_regression=5.0))
    assert [gate.status for gate in gates] == ["inconclusive"]


def test_a_command_of_ours_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    gate = Gate("v2\n::x", "limit", "a,b:c", "fail", "100%\r\n::error::\x1b[2J\u202e", "k\n.cu", 3)
    text = github([gate])
    write(text, commands=True)
    told = capsys.readouterr().out
    assert told == text and [line[:8] for line in told.split("\n")] == ["::error ", "1 failed", ""]
    assert "title=v2%0A%3A%3Ax%3A a%2Cb%3Ac::100%25·%0A::error::·[2J⟨U+202E⟩" in told
    assert not [line for line in junit([gate]).split("\n") if line.strip().startswith("::")]


def test_a_session_has_the_gates_of_a_step(tmp_path: Path) -> None:
    make_project(tmp_path)
    gates = wb.open(tmp_path).check("v2", "v3")
    assert gates and {gate.version for gate in gates} == {"demo/v3"}


@pytest.mark.parametrize("words", [("check", "v2", "v3"), ("check", "v3", "v2")], ids=" ".join)
def test_documents_have_their_schema(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    holds("check", printed(words))


@pytest.mark.parametrize(
    ("options", "golden"),
    [
        (("--format", "json"), "check.json"),
        (("--format", "junit"), "check.xml"),
        (("--format", "github"), "check.txt"),
        ((), "check.80.txt"),
    ],
)
def test_answers(
    options: tuple[str, ...], golden: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = [*(() if options else ("--lang", "zh")), "check", "v2", "v3", *options]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "80"}, catch_exceptions=False)
    language.use("en")
    assert result.exit_code == 0, result.stderr
    assert options or max(map(cell_len, result.stdout.splitlines())) <= 80
    goldens.same(f"gate/{golden}", result.stdout)


def test_settings_in_the_how_to_are_accepted() -> None:
    (text,) = fences(REPO / "workbench/gate/docs/how-to/ci.md", "toml")
    rules = read_rules(tomllib.loads(text)["tool"]["workbench"])
    assert rules.require_expectations and rules.max_regression == 2.0
    assert set(rules.counters) == {"dram_bytes"} and set(rules.limits) == {"spill_instructions"}
