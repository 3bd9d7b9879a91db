"""A capture made without a GPU: what is kept of a run in the emulator."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.engines.stand_ins import Cli
from workbench.errors import UsageError
from workbench.model import Notice
from workbench.programs.capture.capture_store import Shelf
from workbench.programs.capture.counted import CountedLaunch, keep_counted
from workbench.programs.capture.records import Counted
from workbench.programs.standin import running
from workbench.programs.tests.counted import plain_run

SMALL, LARGE = Counted(instructions=10, sectors=4), Counted(instructions=70, wavefronts=8)


def test_launches_their_shapes_and_their_order_are_kept_and_no_time(tmp_path: Path) -> None:
    run = plain_run(("a", 8, SMALL), ("b", 4, LARGE), ("a", 16, SMALL), ("a", 16, SMALL))
    keep_counted(run, Shelf(tmp_path), "v0")
    survey = Shelf(tmp_path).load("v0").survey
    assert [(x.name, x.launches, x.total_ns, x.quantiles_ns) for x in survey.works] == [
        ("b", (1,), (), ()),
        ("a", (3,), (), ()),
    ]
    assert not survey.timed and survey.launches == 4 and survey.steady is None
    assert survey.sequence == (1, 0, 1)
    assert [(x.grid[0], x.launches, x.total_ns) for x in survey.works[1].shapes] == [
        (16, 2, 0),
        (8, 1, 0),
    ]
    assert survey.works[1].counted == Counted(instructions=30, sectors=12)
    assert survey.counted() == Counted(instructions=100, sectors=12, wavefronts=8)


def test_launches_in_a_row_are_as_many(tmp_path: Path) -> None:
    run = plain_run(("a", 8, SMALL))
    many = replace(run, launches=(replace(run.launches[0], times=500),))
    capture = keep_counted(many, Shelf(tmp_path), "v0").capture
    assert capture.survey.launches == 500
    assert capture.survey.counted().instructions == 5000


def test_a_name_that_is_taken_is_replaced_and_nothing_launched_is_refused(tmp_path: Path) -> None:
    shelf, run = Shelf(tmp_path), plain_run(("a", 8, SMALL))
    assert [keep_counted(run, shelf, "v0").replaced for _ in range(2)] == [False, True]
    with pytest.raises(UsageError, match="no kernel"):
        keep_counted(replace(run, launches=()), shelf, "v1")


# --- the command --------------------------------------------------------------------------------


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> running.ProgramOutcome:
    """What running any program gives; there is no GPU."""
    counted = replace(plain_run(("a", 8, SMALL)), notices=(Notice("run", "no surfaces"),))
    run = running.ProgramOutcome(
        code=0,
        seconds=0.1,
        counted=counted,
        faults=(),
        checks=(),
        notices=(),
        launches=1,
        repeated=0,
        failed=0,
        thread_instructions=320,
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("workbench.programs.cli.capture.find_gpus", lambda: ([], "none"))
    monkeypatch.setattr(running, "run_program", lambda program, say: run)
    return run


def test_without_a_gpu_the_emulator_captures(
    ran: running.ProgramOutcome, cli: Cli, tmp_path: Path
) -> None:
    code, _, said = cli("capture", "v0", "--", "./program")
    assert code == 0 and "kept @v0: 1 launch of 1 kernel, counted by the emulator" in said
    assert "no surfaces" in said and " s on the GPU" not in said
    assert Shelf(tmp_path).load("v0").survey.way == "emulator"


@pytest.mark.parametrize("option", ["--top=2", "--no-detail", "--survey=ncu", "--repeat=3"])
def test_what_means_nothing_to_the_emulator_is_refused(
    option: str, ran: running.ProgramOutcome, cli: Cli
) -> None:
    code, _, said = cli("capture", "v0", option, "--", "./program")
    assert code == 2 and "does not apply to the emulator" in said


def test_a_program_that_fails_is_not_kept(
    ran: running.ProgramOutcome, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(running, "run_program", lambda program, say: replace(ran, code=3))
    code, _, said = cli("capture", "v0", "--engine", "emulator", "--", "./program")
    assert code == 3 and "exit code 3" in said and not Shelf(tmp_path).names()


def test_the_launch_that_is_given_is_hashable() -> None:
    """Who collects launches counts them by value."""
    assert len({CountedLaunch(symbol="a", grid=(1, 1, 1), block=(1, 1, 1)) for _ in "ab"}) == 1
