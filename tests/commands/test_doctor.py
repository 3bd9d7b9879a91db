"""``workbench doctor``: a row for everything a measurement needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engines.stand_ins import Cli
from workbench.errors import MissingError
from workbench.project import Project

WHAT = (
    *("GPU", "PyCUDA", "compiler", "emulator", "ncu", "counters", "compute-sanitizer"),
    *("NVML", "PyTorch"),
)


@pytest.mark.usefixtures("no_gpu", "project")
def test_every_row_says_how_to_get_it_and_what_works_without(cli: Cli) -> None:
    code, out, _ = cli("doctor", "--format", "json")
    checks = {row["what"]: row for row in json.loads(out)["checks"]}
    assert code == 0 and tuple(checks) == (*WHAT, "profiles")
    for row in checks.values():
        assert row["state"] in ("ok", "missing", "limited") and row["detail"]
        if row["state"] != "ok":
            assert row["without"] and (row["remedy"] or row["what"] == "counters")
    assert checks["GPU"]["state"] == "missing" and checks["GPU"]["detail"] == "no driver"
    assert checks["ncu"]["state"] == "missing"
    assert checks["profiles"]["detail"] == "0 recorded"


@pytest.mark.usefixtures("no_gpu")
def test_a_damaged_profile_is_named(cli: Cli, project: Project) -> None:
    path = project.profiles / "h200" / "double" / "v0" / "n7.ncu.json.zst"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not zstd")
    code, out, _ = cli("doctor", "--format", "json")
    row = json.loads(out)["checks"][-1]
    assert code == 0 and row["state"] == "limited"
    assert "1 of 1 cannot be read" in row["detail"] and "n7.ncu.json.zst" in row["detail"]


@pytest.mark.usefixtures("no_gpu")
def test_outside_of_a_project_it_works_too(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = cli("doctor", "--format", "csv")
    assert code == 0 and "project,limited" in out and "workbench init" in out


@pytest.mark.usefixtures("project")
def test_a_tool_that_prints_no_version_is_limited(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "ncu"
    tool.write_text("#!/bin/sh\nexit 127\n")
    tool.chmod(0o755)
    monkeypatch.setenv("WORKBENCH_NCU", str(tool))
    _, out, _ = cli("doctor", "--format", "json")
    (row,) = [r for r in json.loads(out)["checks"] if r["what"] == "ncu"]
    assert row["state"] == "limited" and "does not print a version" in row["detail"]


@pytest.mark.usefixtures("project")
def test_without_a_compiler_the_emulator_is_limited_to_recorded_ptx(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> None:
        raise MissingError("no compiler here", "Get one.")

    monkeypatch.setattr("workbench.compile.compilers.choose", none)
    _, out, _ = cli("doctor", "--format", "json")
    rows = {row["what"]: row for row in json.loads(out)["checks"]}
    assert rows["compiler"]["remedy"] == "Get one."
    assert rows["emulator"]["state"] == "limited" and "recorded" in rows["emulator"]["detail"]


@pytest.mark.usefixtures("no_gpu", "project")
def test_it_fits_on_20_lines_and_says_where_the_rest_is(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = cli("doctor")[1].splitlines()
    assert len(rows) <= 20 and sum("how to get it" in row for row in rows) == 1
    assert rows[-1].startswith("--all shows the other ")
    assert sum("how to get it" in row for row in cli("doctor", "--all")[1].splitlines()) > 2


@pytest.mark.usefixtures("no_gpu", "project")
def test_long_advice_is_indented_as_it_begins(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    rows = cli("doctor", "--all")[1].splitlines()
    starts = [n for n, row in enumerate(rows) if row.startswith("  works without it: ")]
    assert any(len(rows[n]) > 50 for n in starts)
    for n in starts:
        words = rows[n + 1 : n + 2]
        assert not words or words[0].startswith("  ") or ": " in words[0]
