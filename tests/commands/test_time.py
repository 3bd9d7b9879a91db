"""``workbench time``: what it keeps, and that one failure does not end the rest."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest

from tests.engines.stand_ins import THERE, Cli
from workbench.project import Project
from workbench.store import Store

pytestmark = pytest.mark.usefixtures("stand_in")
QUICK = ("--limit", "0.1")


def kept(project: Project) -> list[tuple[str, str]]:
    return [(t.version, t.problem) for t in Store.of(project).timings()]


def test_a_time_is_printed_and_kept(cli: Cli, project: Project) -> None:
    code, out, err = cli("time", "v0", *THERE, *QUICK)
    assert code == 0 and "time v0 on n1000 (cold caches)" in err
    assert out.startswith("study double on NVIDIA Stand-In 1, ")
    assert " UTC, cold caches, by CUDA events" in out.partition("version")[0].replace("\n", " ")
    assert "speed to library" in out
    assert "first launch" in out and "not part of the median" in out
    assert kept(project) == [("v0", "n1000")]


def test_json_warm_caches_and_all_problems_that_are_to_profile_or_sweep(
    cli: Cli, project: Project, project_file: Callable[[str, str, str], None]
) -> None:
    project_file("study.py", '("verify",)', '("verify", "sweep")')
    words = ("--warm", "--all-problems", "--format", "json")
    code, out, _ = cli("time", "v0", *words, *THERE, *QUICK)
    assert code == 0 and kept(project) == [("v0", "n7"), ("v0", "n1000")]
    time, _ = json.loads(out)["times"]
    assert time["cache"] == "warm" and time["baseline"] == "library"
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


def test_wrong_usage(cli: Cli) -> None:
    code, _, err = cli("time", "v0", "--problem", "n7", "--all-problems", *THERE)
    assert code == 2 and "cannot be used together" in err
    code, _, err = cli("time", "v1", *THERE)
    assert code == 2 and "v0" in err


def test_a_baseline_that_cannot_run_is_passed_over_with_all(
    cli: Cli, project: Project, project_file: Callable[[str, str, str], None]
) -> None:
    project_file("library.py", 'return ""', 'return "no library here"')
    code, out, err = cli("time", "--all", *THERE, *QUICK)
    assert code == 0 and kept(project) == [("v0", "n1000")]
    assert "library: skipped: " in err and "The baseline library was not timed" in out


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu(cli: Cli) -> None:
    code, out, err = cli("time", "v0")
    assert code == 3 and out == "" and "show, diff, list and report work" in err


def aged(project: Project) -> None:
    """Make every stored time an old one."""
    store = Store.of(project)
    for timing in store.timings():
        store.save_timing(msgspec.structs.replace(timing, captured="2020-01-01T00:00:00Z"))


def old(project: Project) -> list[str]:
    return [t.version for t in Store.of(project).timings() if t.captured < "2021"]


def test_all_goes_on_where_it_was_interrupted(cli: Cli, project: Project) -> None:
    cli("time", "v0", *THERE, *QUICK)
    aged(project)
    code, out, err = cli("time", "--all", *THERE, *QUICK, "--format", "csv")
    assert code == 0 and "1 of 2 are taken from the store (stand-in-1, same sources)" in err
    assert [line.split(",")[1] for line in out.splitlines()[1:]] == ["v0", "library"]
    assert old(project) == ["v0"]
    code, _, err = cli("time", "--all", *THERE, *QUICK)
    assert code == 0 and "2 of 2 are taken" in err and old(project) == ["v0"]


def test_who_is_named_is_measured_and_options_say_otherwise(cli: Cli, project: Project) -> None:
    cli("time", "v0", *THERE, *QUICK)
    aged(project)
    for words, left in (
        (("v0", "--resume"), ["v0"]),
        (("v0", "--since", "2019-01-01"), ["v0"]),
        (("v0",), []),
        (("v0", "--since", "2021-01-01"), []),
        (("--all", "--again"), []),
    ):
        aged(project)
        code, _, err = cli("time", *words, *THERE, *QUICK)
        assert code == 0 and ("taken from the store" in err) == bool(left), words
        assert old(project) == left, words


def test_since_is_checked(cli: Cli) -> None:
    code, _, err = cli("time", "v0", "--since", "monday", *THERE)
    assert code == 2 and "2026-11-21T10:30:00Z" in err
    code, _, err = cli("time", "--all", "--again", "--since", "2026-01-01", *THERE)
    assert code == 2 and "cannot be used together" in err
