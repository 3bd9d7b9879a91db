"""Run folders: relative, empty, never shared."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.engines.host import client as module
from workbench.engines.host.client import folder_for, workspace
from workbench.errors import MissingError


def test_a_folder_is_relative_named_and_empty_before_and_after(tmp_path: Path) -> None:
    old = tmp_path / "build" / "runs" / "sgemm-v3-n1024"
    (old / "nested").mkdir(parents=True)
    (old / "left-over").write_text("x")
    with workspace(tmp_path, "sgemm-v3-n1024") as folder:
        assert folder == Path("build/runs/sgemm-v3-n1024")
        assert [p.name for p in (tmp_path / folder).iterdir()] == [".lock"]
        (tmp_path / folder / "report").write_text("x")
    assert [p.name for p in old.iterdir()] == [".lock"]
    assert (tmp_path / "build" / "runs" / ".gitignore").read_text() == "*\n"


def test_a_second_run_takes_the_next_name(tmp_path: Path) -> None:
    with workspace(tmp_path, "a") as first, workspace(tmp_path, "a") as second:
        assert (first.name, second.name) == ("a", "a-2")
    with workspace(tmp_path, "a") as again:
        assert again.name == "a"


def test_it_is_emptied_after_an_error_too(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), workspace(tmp_path, "a") as folder:
        (tmp_path / folder / "half").write_text("x")
        raise RuntimeError
    assert not (tmp_path / "build/runs/a/half").exists()


def test_names_cannot_climb_out(tmp_path: Path) -> None:
    assert folder_for(tmp_path, "a/../b c") == Path("build/runs/a_.._b_c")


def test_too_many_runs_and_no_room_are_missing_things(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_RUNS", 1)
    with (
        workspace(tmp_path, "a"),
        pytest.raises(MissingError, match="1 runs named a"),
        workspace(tmp_path, "a"),
    ):
        pass
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(MissingError, match="cannot write"), workspace(blocked, "a"):
        pass
    with pytest.raises(MissingError, match="cannot write"):
        folder_for(blocked, "a")
