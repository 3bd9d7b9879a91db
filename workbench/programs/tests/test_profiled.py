"""``wb.profiled``: a block of a script, captured by running the script again."""

from __future__ import annotations

import builtins
import os
import sys
from pathlib import Path

import pytest

import workbench as wb
from workbench.errors import UsageError
from workbench.programs.capture.capture_store import Shelf
from workbench.programs.tests.test_taking import place

__all__ = ["place"]
SCRIPT = """
import os, sys
from pathlib import Path
import workbench as wb
from workbench.programs.tests import fake_program

@wb.profiled("step")
def step():
    fake_program.main()
step()
with Path("runs").open("a") as runs:
    runs.write(os.environ["WORKBENCH_PROFILED"] + "\\n")
"""


@pytest.fixture
def script(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that launches kernels inside and outside of its block; we are its first run."""
    (place / "bench.py").write_text(SCRIPT)
    inside = "sgemm_v3*40@900!workbench@step sgemm_v1*10@5000"
    monkeypatch.setenv("FAKE_LAUNCHES", inside)
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "bench.py"])
    monkeypatch.delattr(builtins, "get_ipython", raising=False)
    return place


def test_a_block_is_captured_by_another_run_of_its_script(script: Path) -> None:
    with wb.profiled("step") as seen:
        assert "WORKBENCH_PROFILED" not in os.environ
    assert seen.target is not None and "WORKBENCH_PROFILED" not in os.environ
    assert [launch.kernel for launch in seen.target.profile.launches] == ["sgemm_v3"]
    assert not seen.target.counters.empty
    survey = Shelf(script).load("step").survey
    assert [(work.name, work.launches) for work in survey.works] == [("sgemm_v3", (40,))]
    assert (script / "runs").read_text().splitlines() == ["step", "step"]  # traced, then under ncu
    shown = wb.Session(script).show("@step")
    assert shown.profile == seen.target.profile


def test_a_function_is_captured_at_its_first_call(script: Path) -> None:
    calls = []
    block = wb.profiled("step")

    @block
    def work(value: int) -> int:
        calls.append(value)
        return value

    assert [work(1), work(2)] == [1, 2] and calls == [1, 2]
    assert block.target is not None
    assert len((script / "runs").read_text().splitlines()) == 2


def test_a_block_that_fails_is_not_captured(script: Path) -> None:
    with pytest.raises(ZeroDivisionError), wb.profiled("step") as seen:
        _ = 1 / 0
    assert seen.target is None and not (script / "runs").exists()


@pytest.mark.parametrize("name", ["WORKBENCH_PROFILED", "CUDA_INJECTION64_PATH"])
def test_a_process_that_is_looked_at_only_marks_the_block(
    script: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "x")
    with wb.profiled("step") as seen:
        pass
    assert seen.target is None and not (script / "runs").exists()


def test_a_notebook_is_told_what_to_do_before_anything_runs(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtins, "get_ipython", lambda: None, raising=False)
    with pytest.raises(UsageError, match="a notebook or a prompt") as error, wb.profiled("step"):
        pytest.fail("the block ran")
    assert "%%writefile" in error.value.hint


def test_a_name_that_no_capture_can_have_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be named"):
        wb.profiled("a/b")
