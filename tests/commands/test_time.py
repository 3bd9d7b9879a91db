"""``workbench time``: what it keeps, and that one failure does not end the rest."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.engines.stand_ins import THERE, Cli
from workbench.project import Project
from workbench.store import Store

pytestmark = pytest.mark.usefixtures("stand_in")
QUICK = ("--limit", "0.2")


def kept(project: Project) -> list[tuple[str, str]]:
    return [(t.version, t.problem) for t in Store(project.profiles).timings()]


def test_a_time_is_printed_and_kept(cli: Cli, project: Project) -> None:
    code, out, err = cli("time", "v0", *THERE, *QUICK)
    assert code == 0 and "time v0 on n1000 (cold caches)" in err
    assert out.startswith("study double on NVIDIA Stand-In 1, ")
    assert " UTC, cold caches, by CUDA events" in out.partition("version")[0].replace("\n", " ")
    assert "speed to library" in out
    assert kept(project) == [("v0", "n1000")]


def test_json_and_warm_caches(cli: Cli) -> None:
    code, out, _ = cli("time", "v0", "--warm", *THERE, *QUICK, "--format", "json")
    (time,) = json.loads(out)["times"]
    assert code == 0 and time["cache"] == "warm" and time["baseline"] == "library"
    assert time["seconds"]["low"] <= time["seconds"]["value"] <= time["seconds"]["high"]


def test_one_failure_does_not_end_the_rest(
    cli: Cli, project: Project, add_version: Callable[[str, str], None]
) -> None:
    add_version("v1", "does not compile")
    code, out, err = cli("time", "--all", *THERE, *QUICK, "--format", "csv")
    assert code == 4
    assert [line.split(",")[1] for line in out.splitlines()] == ["version", "v0", "library"]
    assert "v1 n1000: error: " in err and "1 of 3 failed: v1 n1000" in err
    assert kept(project) == [("library", "n1000"), ("v0", "n1000")]


def test_a_single_failure_is_its_own_error_and_keeps_nothing(
    cli: Cli, project: Project, stand_in: Callable[[str], None]
) -> None:
    stand_in("wrong")
    code, out, err = cli("time", "v0", *THERE, *QUICK)
    assert code == 4 and out == "" and kept(project) == []
    assert "error: v0 gives a wrong result on n1000" in err and "failed:" not in err


def test_all_problems_are_those_to_profile_or_sweep(
    cli: Cli, project: Project, project_file: Callable[[str, str, str], None]
) -> None:
    project_file("study.py", '("verify",)', '("verify", "sweep")')
    code, _, _ = cli("time", "v0", "--all-problems", *THERE, *QUICK)
    assert code == 0 and kept(project) == [("v0", "n7"), ("v0", "n1000")]


def test_wrong_usage(cli: Cli) -> None:
    code, _, err = cli("time", "v0", "--problem", "n7", "--all-problems", *THERE)
    assert code == 2 and "cannot stand together" in err
    code, _, err = cli("time", "v1", *THERE)
    assert code == 2 and "v0" in err


def test_a_baseline_that_cannot_run_is_passed_over_with_all(
    cli: Cli, project: Project, project_file: Callable[[str, str, str], None]
) -> None:
    project_file("library.py", 'return ""', 'return "no library here"')
    code, out, err = cli("time", "--all", *THERE, *QUICK)
    assert code == 0 and kept(project) == [("v0", "n1000")]
    assert "library: passed over: " in err and "The baseline library was not timed" in out


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu(cli: Cli) -> None:
    code, out, err = cli("time", "v0")
    assert code == 3 and out == "" and "show, diff, list and report work" in err
