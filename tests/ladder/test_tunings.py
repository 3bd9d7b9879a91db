"""Tunings on disk: what was kept survives, what was cut off is told."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from workbench.disk.lock import BusyError
from workbench.errors import DataError, MissingError
from workbench.ladder.tunings import (
    Trial,
    Tuning,
    TuningBegun,
    TuningEnded,
    find,
    key_of,
    load,
    path_of,
    writing,
)

BEGUN = TuningBegun(
    study="sgemm",
    version="v5",
    source_hash="abc",
    problems=("n512",),
    gpu="h200",
    engine="gpu",
    parameters={"TILE": (16, 32), "block": ("16x16", "32x8")},
    default={"TILE": 16, "block": "16x16"},
    requires="TILE <= 32",
    strategy="all",
    seed=7,
    budget_s=300.0,
    started="2026-11-26T09:00:00Z",
)


def trial(tile: int, seconds: float | None = None, **more: object) -> Trial:
    samples = () if seconds is None else (seconds, seconds * 1.01)
    made = Trial(
        values={"TILE": tile, "block": "16x16"},
        fate="wrong" if seconds is None else "timed",
        problem="n512",
        samples_s=samples,
        median_s=seconds,
        gpu_s=None if seconds is None else 0.5,
    )
    return replace(made, **more)


def kept(root: Path, *trials: Trial, ended: bool = True, begun: TuningBegun = BEGUN) -> Path:
    with writing(root, begun) as (writer, _):
        for each in trials:
            writer.add(each)
        if ended:
            writer.add(TuningEnded(ended="space", stopped="2026-11-26T09:05:00Z", gpu_s=2.0))
    return path_of(root, "h200", "sgemm", "v5", begun.engine)


def test_what_is_kept_is_read_back(tmp_path: Path) -> None:
    trials = (trial(16, 2e-3), trial(32, 1e-3))
    path = kept(tmp_path, *trials)
    found = load(path)
    assert path == tmp_path / "h200/sgemm/tuned/v5/gpu.jsonl"
    assert found.trials == trials
    assert found.parameters == BEGUN.parameters
    assert found.winners == {"n512": trials[1]}
    assert found.ranked("n512") == trials[::-1]
    assert found.default_trial("n512") == trials[0]
    assert (found.ended, found.gpu_s, found.stopped) == ("space", 2.0, "2026-11-26T09:05:00Z")
    assert find(tmp_path, "sgemm") == find(tmp_path, "sgemm", "v5") == [path]
    assert find(tmp_path, "sgemm", "v4") == []


def test_what_was_killed_is_interrupted_and_has_its_trials(tmp_path: Path) -> None:
    found = load(kept(tmp_path, trial(16, 2e-3), ended=False))
    assert found.ended == "interrupted"
    assert not found.stopped
    assert found.gpu_s == 0.5
    assert len(found.trials) == 1


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_torn_last_line_is_told_and_the_next_run_goes_on_without_it(
    tmp_path: Path, cut: int
) -> None:
    path = kept(tmp_path, trial(16, 2e-3), trial(32, 1e-3), ended=False)
    os.truncate(path, path.stat().st_size - cut)
    assert load(path).torn
    assert [each.values["TILE"] for each in load(path).trials] == [16]
    with writing(tmp_path, BEGUN) as (writer, so_far):
        assert so_far.torn
        assert len(so_far.trials) == 1
        writer.add(trial(32, 3e-3))
    after = load(path)
    assert not after.torn
    assert [each.median_s for each in after.trials] == [2e-3, 3e-3]


def test_a_damaged_line_that_is_not_the_last_is_damage(tmp_path: Path) -> None:
    path = kept(tmp_path, trial(16, 2e-3))
    path.write_bytes(path.read_bytes().replace(b'"fate":"timed"', b'"fate":"eaten"'))
    with pytest.raises(DataError, match="line 2"):
        load(path)


def test_what_is_no_tuning_is_refused(tmp_path: Path) -> None:
    path = kept(tmp_path, trial(16, 2e-3))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[1:]))
    with pytest.raises(DataError, match="does not start"):
        load(path)
    path.write_bytes(lines[0].replace(b'"study"', b'"schema_version":2,"study"'))
    with pytest.raises(DataError, match="newer"):
        load(path)
    with pytest.raises(MissingError, match="no tuning"):
        load(tmp_path / "none.jsonl")


def test_a_run_goes_on_with_the_same_space_and_on_further_problems(tmp_path: Path) -> None:
    kept(tmp_path, trial(16, 2e-3))
    more = replace(BEGUN, problems=("n1024",), started="later")
    path = kept(tmp_path, trial(16, 9e-3, problem="n1024"), begun=more)
    found = load(path)
    assert found.problems == ("n512", "n1024")
    assert found.started == BEGUN.started
    assert found.gpu_s == 4.0
    assert set(found.winners) == {"n512", "n1024"}


@pytest.mark.parametrize(
    "other", [{"source_hash": "other"}, {"parameters": {"TILE": (16, 32, 64)}}, {"requires": ""}]
)
def test_another_space_begins_anew(tmp_path: Path, other: dict[str, object]) -> None:
    kept(tmp_path, trial(16, 2e-3))
    path = kept(tmp_path, trial(32, 1e-3), begun=replace(BEGUN, **other))
    assert [each.values["TILE"] for each in load(path).trials] == [32]


def test_anew_is_anew(tmp_path: Path) -> None:
    path = kept(tmp_path, trial(16, 2e-3))
    with writing(tmp_path, BEGUN, anew=True) as (_, so_far):
        assert so_far.trials == ()
    assert load(path).trials == ()


def test_the_later_of_two_lines_of_a_trial_counts(tmp_path: Path) -> None:
    found = load(kept(tmp_path, trial(16, 2e-3), trial(16, 1e-3)))
    assert [each.median_s for each in found.trials] == [1e-3]
    assert found.fates == {"timed": 1}


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    with writing(tmp_path, BEGUN), pytest.raises(BusyError), writing(tmp_path, BEGUN):
        pass


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kept(tmp_path, trial(16, 2e-3), ended=False)
    before = path.read_bytes()
    real = os.write

    def full(handle: int, data: bytes) -> int:
        if b"trial" not in bytes(data):
            return real(handle, data)
        real(handle, bytes(data)[:10])
        raise OSError(errno.ENOSPC, "full")

    with writing(tmp_path, BEGUN) as (writer, _):
        begun = path.read_bytes()
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(MissingError, match="no space"):
            writer.add(trial(32, 1e-3))
        monkeypatch.undo()
    assert path.read_bytes() == begun
    assert begun.startswith(before)


def test_saved_runs_are_those_that_no_gpu_saw(tmp_path: Path) -> None:
    tuning: Tuning = load(kept(tmp_path, trial(16, 2e-3), trial(32), trial(64, gpu_s=0.1)))
    assert tuning.saved == 1
    assert tuning.fates == {"timed": 1, "wrong": 2}


def test_a_key_does_not_depend_on_order() -> None:
    assert key_of({"b": 2, "a": "1x2"}) == key_of({"a": "1x2", "b": 2}) == "a=1x2,b=2"
