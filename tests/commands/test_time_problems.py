"""``workbench time`` over a study's sizes: order, store, patterns, interruptions, stored times.

The workers are real processes on a stand-in for the GPU.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.engines.stand_ins import THERE, Cli
from tests.factories import make_timing
from workbench.model import Device
from workbench.project import Project
from workbench.store import Store
from workbench.study.folder import run_study

pytestmark = pytest.mark.usefixtures("stand_in")
QUICK = (*THERE, "--limit", "0.1")
Edit = Callable[[str, str, str], None]
Add = Callable[[str, str], None]
EVERY = ("double", "--all-problems")
COMBINATIONS = [(v, p) for p in ("n200", "n1000", "n4000") for v in ("v0", "library")]


@pytest.fixture(autouse=True)
def sizes(project: Project, project_file: Edit) -> None:
    """Three sizes to time; n7 stays for verifying alone."""
    more = ", ".join(f'"n{n}": {{"n": {n}, "uses": ("sweep",)}}' for n in (4000, 200))
    project_file(
        "study.py", '("verify", "profile")},', f'("verify", "profile", "sweep")}}, {more},'
    )
    run_study(project, "double")


def kept(project: Project) -> dict[tuple[str, str], str]:
    return {(t.version, t.problem): t.captured for t in Store.of(project).timings()}


def rows(out: str) -> list[tuple[str, str]]:
    """Version and problem of each row of the CSV."""
    return [(line.split(",")[1], line.split(",")[2]) for line in out.splitlines()[1:]]


def test_every_version_at_every_size_smallest_first(cli: Cli, project: Project) -> None:
    code, out, err = cli("time", *EVERY, *QUICK)
    assert code == 0 and sorted(kept(project)) == sorted(COMBINATIONS)
    told = [line.split(":")[0] for line in err.splitlines() if line.startswith("[")]
    assert told == [f"[{i}/6] {v} {p}" for i, (v, p) in enumerate(COMBINATIONS, 1)]
    assert "time 6 combinations (cold caches)" in err and "fastest" not in out  # of one version


def test_the_fastest_version_of_each_size_is_named(cli: Cli, add_version: Add) -> None:
    add_version("v1", "one")
    code, out, _ = cli("time", *EVERY, *QUICK)
    said = out[out.index("fastest: ") :]
    assert code == 0 and all(problem in said for problem in ("n200", "n1000", "n4000"))
    assert "library" not in said


def test_what_is_stored_is_not_measured_again_unless_asked(cli: Cli, project: Project) -> None:
    cli("time", "double:n200", *QUICK)
    store = Store.of(project)
    for timing in store.timings():
        store.save_timing(msgspec.structs.replace(timing, captured="2020-01-01T00:00:00Z"))
    code, _, err = cli("time", *EVERY, *QUICK)
    assert code == 0 and "2 of 6 are taken from the store (stand-in-1, same sources)" in err
    old = {key for key, captured in kept(project).items() if captured.startswith("2020")}
    assert old == {("v0", "n200"), ("library", "n200")}
    _, _, err = cli("time", *EVERY, *QUICK, "--since", "2021-01-01")
    assert "4 of 6 are taken from the store" in err
    assert "2 stored times are out of date" in err and "[2/2]" in err


def test_a_changed_version_is_measured_again_and_a_changed_baseline_all(
    cli: Cli, project_file: Edit, add_version: Add
) -> None:
    add_version("v1", "one")
    cli("time", "double:n200", *QUICK)
    project_file("v1_added.cu", "// one", "// two")
    _, _, err = cli("time", "double:n200", *QUICK)
    assert "2 of 3 are taken" in err and "1 stored time is out of date" in err
    project_file("v1_added.cu", 'title = "One', 'title = "Still one')
    _, _, err = cli("time", "double:n200", *QUICK)
    assert "3 of 3 are taken" in err  # prose is not part of the source
    project_file("library.py", "import ctypes", "import ctypes  # changed")
    _, _, err = cli("time", "double:n200", *QUICK)
    assert "taken" not in err and "[3/3]" in err


def test_a_crash_costs_one_combination_and_decides_the_exit_code(
    cli: Cli, project: Project, add_version: Add, stand_in: Callable[[str], None]
) -> None:
    add_version("v1", "crashes")
    add_version("v2", "does not compile")
    stand_in("crash v1")
    code, _, err = cli("time", "double:n200,n1000", *QUICK)
    assert code == 4 and sorted(kept(project)) == sorted(COMBINATIONS[:4])
    assert "v1 n200: error: v1 crashed on n200" in err and "workbench verify" in err
    assert "failed: v2 n200, v1 n200, v1 n1000" in err
    # What failed has its place in the count, too.
    assert re.findall(r"^\[(\d)/8\]", err, re.M)[-1] == "8"


def test_a_version_is_timed_on_the_sizes_that_it_can_do(
    cli: Cli, project: Project, project_file: Edit
) -> None:
    needs = 'requires = "n % 1000 == 0"\nrequires_why = "blocks of a thousand"\n[[launch]]'
    project_file("v0_plain.cu", "[[launch]]", needs)
    code, _, _ = cli("time", *EVERY, *QUICK)
    assert code == 0 and set(kept(project)) == {*COMBINATIONS} - {("v0", "n200")}
    code, _, err = cli("time", "double/v0:n200", *QUICK)
    assert code == 2 and "blocks of a thousand" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("double:n10,n200",), "study double has no problem `n10`"),
        (("double:x*",), "study double has no problem `x*`"),
        (("v0", "--recorded", "--again"), "--recorded measures nothing"),
        (("v0", "--recorded", "--since", "2026-01-01"), "--recorded measures nothing"),
        (("v0@h100", "library@h200", "--recorded"), "several devices: h100, h200"),
    ],
)
def test_wrong_usage(cli: Cli, words: tuple[str, ...], message: str) -> None:
    code, out, err = cli("time", *words, *(() if "--recorded" in words else THERE))
    assert code == 2 and out == "" and message in err


def test_a_study_without_sizes_is_timed_on_what_is_to_profile(
    cli: Cli, project: Project, project_file: Edit
) -> None:
    project_file("study.py", '"sweep"', '"verify"')
    code, _, _ = cli("time", *EVERY, *QUICK)
    assert code == 0 and set(kept(project)) == {("v0", "n1000"), ("library", "n1000")}


@pytest.mark.usefixtures("no_gpu")
def test_stored_times_need_no_gpu(cli: Cli, project: Project, project_file: Edit) -> None:
    code, out, err = cli("time", "double", "--recorded")
    assert code == 3 and out == "" and "`workbench time double --all-problems`" in err
    cli("time", "double:n?000", *QUICK)
    for words, found in (
        (
            ("double",),
            {("v0", "n4000"), ("v0", "n1000"), ("library", "n1000"), ("library", "n4000")},
        ),
        (("double:n4000@stand-in-1",), {("v0", "n4000"), ("library", "n4000")}),
        (("v0:n1*,n200",), {("v0", "n1000")}),
    ):
        code, out, err = cli("time", *words, "--recorded", "--format", "csv")
        assert code == 0 and err == "" and set(rows(out)) == found, words
    assert cli("time", "double", "--recorded", "--warm")[0] == 3
    code, _, err = cli("time", "double@h100", "--recorded")
    assert code == 3 and "Recorded devices: NVIDIA Stand-In 1." in err
    project_file("v0_plain.cu", "2 * x[i]", "x[i] * 2")
    code, out, err = cli("time", "double", "--recorded", "--format", "csv")
    assert code == 0 and {version for version, _ in rows(out)} == {"library"}
    assert "note: 2 stored times from older sources left out" in err
    code, out, err = cli("time", "v0", "--recorded")
    assert (code, out) == (0, "") and "`workbench time double --all-problems` measures new" in err


def test_of_several_devices_the_newest_is_shown(cli: Cli, project: Project) -> None:
    other = Device(name="NVIDIA A100-SXM4-80GB", slug="a100-sxm4-80gb")
    cli("time", "v0:n200", *QUICK)
    (timing,) = Store.of(project).timings()
    for device, captured in ((other, "2029-11-21T10:05:00Z"), (make_timing().device, "2020-01-01")):
        Store.of(project).save_timing(
            msgspec.structs.replace(timing, device=device, captured=captured)
        )
    _, out, _ = cli("time", "v0", "--recorded", "--format", "json")
    assert {each["device"] for each in json.loads(out)["times"]} == {other.name}


def test_ctrl_c_keeps_what_is_measured_and_says_how_to_go_on(
    cli: Cli, project: Project, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    from workbench.engines.host.job import read_results as real

    # In the background of a shell Ctrl-C is ignored from the start.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    def interrupted(target: Any) -> Any:
        results = real(target)[:3]  # however far the worker is when a busy machine looks
        if len(results) == 3:  # the first says that the worker is ready
            os.kill(os.getpid(), signal.SIGINT)
        return results

    monkeypatch.setattr("workbench.engines.host.client.read_results", interrupted)
    code, _, err = cli("time", *EVERY, *QUICK, "--again")
    assert code == 130 and "interrupted" in err
    done = len(kept(project))
    assert 2 <= done < 6 and f"{done} of 6 combinations are measured and kept" in err
    line = next(line for line in err.splitlines() if "continue with" in line)
    since = line.partition("--since ")[2].split()[0]
    assert "the same command, --since 20" in line
    monkeypatch.setattr("workbench.engines.host.client.read_results", real)
    code, _, err = cli("time", *EVERY, *QUICK, "--since", since)
    assert code == 0 and f"{done} of 6 are taken from the store" in err and len(kept(project)) == 6


def test_the_command_of_the_last_release_says_what_it_has_become(
    cli: Cli, project: Project
) -> None:
    code, _, err = cli("sweep", "double", *QUICK)
    assert code == 0 and sorted(kept(project)) == sorted(COMBINATIONS)
    assert "`workbench sweep` is `workbench time --all-problems --resume` from now on" in err
