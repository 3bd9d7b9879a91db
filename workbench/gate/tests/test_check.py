"""``workbench check``: exit codes, formats, and what it refuses."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from benchmarks.recordings import opened
from tests.factories import LADDER, emulate_demo, make_project
from workbench.cli import app
from workbench.compile import compilers
from workbench.errors import UsageError
from workbench.gate.rules import Gate
from workbench.gate.shown import github, junit
from workbench.model import Capture
from workbench.store import Store

REPO = Path(__file__).resolve().parents[3]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["check", *arguments], catch_exceptions=False)


def settings(project: Path, text: str) -> None:
    with (project / "workbench.toml").open("a", encoding="utf-8") as file:
        file.write(text)


def test_a_good_step_ends_with_0(project: Path) -> None:
    for arguments in ((), ("--all",), ("v2", "v3"), ("v3",), ("demo/v3",)):
        result = run(*arguments)
        assert result.exit_code == 0, result.output
        assert "demo/v3" in result.output and "passed" in result.output


def test_a_limit_that_fails_ends_with_1(project: Path) -> None:
    settings(project, '[check]\nlimits = { registers = "<= 8" }\n')
    result = run("v3")
    assert result.exit_code == 1
    assert "fail" in result.output and "must be <= 8" in result.output


def test_of_a_whole_ladder_the_total_and_what_failed_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(REPO)
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("--all").output.splitlines()
    failed = int(lines[0].split(", ")[1].removesuffix(" failed"))
    rows = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert rows == ["fail"] * failed + ["inconclusive"] * (len(rows) - failed)
    assert lines[-1] == "--passed lists what passed as well." and len(lines) <= 60
    every = run("--all", "--passed").output.splitlines()
    assert every[0] == lines[0] and "--passed" not in every[-1]
    passed = sum(line.startswith("  pass") for line in every)
    assert lines[0].startswith(f"{passed} passed")


def test_the_way_back_is_a_regression(project: Path) -> None:
    result = run("v3", "v2")
    assert result.exit_code == 1 and "slower than allowed" in result.output


PREDICTED = """parent = "v2"
[[expect]]
counter = "mio_throttle"
change = "down"
[[expect]]
counter = "duration"
change = "down"
[[expect]]
counter = "shared_wavefronts"
change = "-50%"
"""


@pytest.fixture
def predicting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The demo, whose v3 predicts a stall, its time and what follows from addresses."""
    monkeypatch.setitem(LADDER, "v3_padded.cu", ("Padded", PREDICTED, LADDER["v3_padded.cu"][2]))
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def names(*arguments: str) -> list[str]:
    gates = json.loads(run("v3", "--format", "json", *arguments).output)["gates"]
    return [gate["name"] for gate in gates]


def test_without_a_clock_a_step_can_pass(predicting: Path) -> None:
    """A laptop has no GPU: what follows from the program is judged, and nothing else."""
    emulate_demo(predicting)
    unknown = run("v3")
    words = " ".join(unknown.output.split())
    assert unknown.exit_code == 6 and "the emulator never has it; take shared_wavefronts" in words
    result = run("v3", "--no-time")
    assert result.exit_code == 0, result.output
    counted = ["instructions", "global_sectors", "shared_wavefronts"]
    assert names("--no-time") == ["shared_wavefronts", *counted]
    back = run("v3", "v2")  # no counter of the way back was predicted
    assert back.exit_code == 1 and "Duration" not in back.output
    assert "worse than allowed (0%): Shared wavefronts" in " ".join(back.output.split())
    settings(predicting, '[check]\nlimits = { registers = "<= 8" }\n')
    assert run("v3", "--no-time").exit_code == 1


SUMS = """parent = "v0"
[[expect]]
counter = "shared_wavefronts"
change = "<= 200000"
[[expect]]
counter = "shared_wavefronts"
change = "up"
[[expect]]
counter = "global_sectors"
change = "down"
"""
LIMITS = """[check]
limits = { shared_wavefronts = "<= 200000", global_sectors = "<= 20000" }
"""


@pytest.mark.nvcc
@pytest.mark.skipif(not compilers.available(), reason="no CUDA compiler here")
def test_what_hangs_on_how_warps_meet_is_inconclusive_and_its_lines_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the GPU that the study was recorded on, v1 has 500,344 wavefronts; emulated 131,200."""
    study = tmp_path / "kernels" / "moments"
    shutil.copytree(opened(REPO / "tests" / "data" / "unseen").root / "kernels" / "moments", study)
    (study / "v2_warps.cu").unlink()
    (tmp_path / "workbench.toml").write_text('default_study = "moments"\n' + LIMITS)
    file = study / "v1_shared.cu"
    file.write_text(file.read_text().replace("[[launch]]", SUMS + "[[launch]]", 1))
    monkeypatch.chdir(tmp_path)
    profiled = CliRunner().invoke(app, ["profile", "v0", "v1", "--engine", "emulator"])
    assert profiled.exit_code == 0, profiled.output
    result = run("v1", "--no-time", "--format", "json")
    assert result.exit_code == 6, result.output
    found = json.loads(result.output)
    assert found["status"] == "inconclusive"
    told = [(gate["kind"], gate["name"], gate["status"]) for gate in found["gates"]]
    assert told == [
        ("expectation", "shared_wavefronts", "inconclusive"),
        ("expectation", "shared_wavefronts", "pass"),
        ("expectation", "global_sectors", "pass"),
        ("regression", "instructions", "inconclusive"),
        ("regression", "global_sectors", "pass"),
        ("regression", "shared_wavefronts", "pass"),
        ("limit", "shared_wavefronts", "inconclusive"),
        ("limit", "global_sectors", "pass"),
    ]
    at = "lines 50, 51, 52 and 53 of kernels/moments/v1_shared.cu run a number of times"
    for gate in found["gates"]:
        assert (at in gate["message"]) == (gate["status"] == "inconclusive")
    document = CliRunner().invoke(app, ["diff", "v0", "v1", "--format", "json"]).output
    first, second, third = json.loads(document)["expectations"]
    assert first["verdict"] == "inconclusive" and first["reason"].startswith(at)
    assert (second["verdict"], third["verdict"]) == ("confirmed", "confirmed")


def test_no_time_still_judges_the_stalls_that_are_known(predicting: Path) -> None:
    assert names() == ["mio_throttle", "duration", "shared_wavefronts", "duration"]
    assert names("--no-time") == ["mio_throttle", "shared_wavefronts"]


def test_an_edited_source_cannot_be_judged(project: Path) -> None:
    file = next((project / "kernels" / "demo").glob("v3*.cu"))
    file.write_text(file.read_text().replace("}", "} // edited\nint more;", 1))
    result = run("v3")
    assert result.exit_code == 6 and "stale" in result.output


def test_a_first_version_has_nothing_to_be_compared_with(project: Path) -> None:
    assert run("v0").exit_code == 6


def test_profiles_that_cannot_be_compared_end_with_6(project: Path) -> None:
    store = Store(project / "profiles")
    (entry,) = store.find(version="v3")
    profile = store.load(entry.path)
    store.save(msgspec.structs.replace(profile, capture=Capture(clock_control="base")))
    result = run("v3")
    assert result.exit_code == 6 and "clock" in result.output
    forced = run("v3", "--force")
    assert forced.exit_code == 6 and "compared with --force" in forced.output


def hostile(status: str) -> Gate:
    return Gate(
        version='v<"3">',
        kind="expectation",
        name="a,b:c",
        status=status,  # type: ignore[arg-type]
        message="50% <&> \x07\n::error::x",
        file="a,b.cu",
        line=7,
    )


def test_hostile_text_stays_text() -> None:
    gates = [hostile("fail"), hostile("inconclusive"), hostile("pass")]
    root = ET.fromstring(junit(gates))
    assert len(list(root.iter("testcase"))) == 3
    (failure,) = root.iter("failure")
    assert "<&>" in (failure.get("message") or "")
    lines = github(gates).splitlines()
    assert len(lines) == 3  # two annotations and the summary; a passed gate is silent
    assert lines[0].startswith('::error file=a%2Cb.cu,line=7,title=v<"3">%3A a%2Cb%3Ac::50%25')
    assert "%0A::error::x" in lines[0]
    assert lines[1].startswith("::warning ")


def test_a_report_is_checked_against_another_one(
    project: Path, report: Callable[[str], Path]
) -> None:
    old, new = (f"{report('ladder_full')}::{kernel}" for kernel in ("sgemm_v1", "sgemm_v0"))
    settings(project, "[check]\nrequire_expectations = true\n")
    for arguments in ((old, new), (new, "--against", old)):
        result = run(*arguments)
        assert result.exit_code == 1 and "Duration: ×13.4" in result.output, result.output
        assert "expect" not in result.output
    assert run(new, old).exit_code == 0
    with pytest.raises(UsageError, match="is checked against another one") as error:
        run(new)
    assert "check OLD.ncu-rep" in error.value.hint


def test_without_a_default_study_all_of_them_are_meant(project: Path) -> None:
    shutil.copytree(project / "kernels" / "demo", project / "kernels" / "other")
    (project / "workbench.toml").write_text("")
    for arguments in ((), ("--all",)):
        result = run(*arguments)
        assert result.exit_code == 0 and "demo/v3" in result.output, result.output
    result = run("--study", "other")
    assert result.exit_code == 6
    result = run("--baseline")
    assert result.exit_code == 6


@pytest.mark.parametrize(
    "arguments", [("v2", "--all"), ("v2", "v3", "v0"), ("x.ncu-rep",), ("v9",)]
)
def test_what_it_refuses(project: Path, arguments: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        run(*arguments)


def test_where_no_step_is_recorded_it_says_what_to_do(project: Path) -> None:
    for path in (project / "profiles").rglob("v2/*"):
        path.unlink()
    result = run("--all")
    assert result.exit_code == 6 and "nothing was checked" in result.stdout
    assert "No version of demo is recorded together with its parent" in result.stderr
    assert "No version of demo is recorded" in result.stderr
    # What another program reads stays a document.
    assert json.loads(run("--format", "json").stdout)["gates"] == []


def test_a_counter_that_is_not_known_is_named(project: Path) -> None:
    store = Store(project / "profiles")
    for path in (project / "profiles").rglob("*.time.json.zst"):
        path.unlink()
    for entry in store.find(study="demo"):
        profile = store.load(entry.path)
        launches = tuple(
            msgspec.structs.replace(
                launch,
                metrics={k: m for k, m in launch.metrics.items() if "time_duration" not in k},
            )
            for launch in profile.launches
        )
        store.save(msgspec.structs.replace(profile, launches=launches))
    result = run("v3")
    assert result.exit_code == 6
    text = " ".join(result.stdout.split())
    assert "Duration is not known on both sides: not collected" in text
    assert "old: not collected" not in text  # one reason for both is said once
