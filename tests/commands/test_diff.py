"""``workbench diff``: two versions or two reports, refused where not comparable."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tests.factories import make_project
from workbench.cli import app
from workbench.errors import InconclusiveError, UsageError
from workbench.store import Store

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["diff", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_two_versions_in_one_word_are_taken_as_the_report_takes_them(project: Path) -> None:
    assert run("demo/v2..v3") == run("v2..v3") == run("v2", "v3")


@pytest.mark.parametrize(
    ("old", "new", "hunks", "edit"),
    [
        ("sgemm/v2", "sgemm/v3", 1, "hunk 1 (line 38)"),
        ("conv2d/v10", "conv2d/v11", 1, "hunk 8 (lines 212–239)"),
        ("conv2d_half/v8", "conv2d_half/v9", 3, "hunks 12, 13 and 17"),
        ("conv2d_direct/v0", "conv2d_direct/v1", 1, "hunk 4 (lines 52–79)"),
    ],
)
def test_the_first_screen_holds_what_was_edited_and_what_it_did(
    old: str, new: str, hunks: int, edit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded steps on 40 rows of 80 columns; the edit of the sentence is among the hunks."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")
    rows = run(old, new).splitlines()
    assert max(map(len, rows)) <= 80
    start = next(n for n, row in enumerate(rows) if row.startswith("What changed"))
    end = next(n for n in range(start, len(rows)) if not rows[n])
    above = " ".join(" ".join(rows[:start]).split())
    assert len(rows) <= 40 and "--all" in rows[-1]
    assert f"linked to {edit}" in above and "The limit is" in above
    heads = [row.split()[1] for row in rows[start:end] if row.startswith("  Hunk ")]
    assert len(heads) == hunks and heads[0] in edit.partition("(")[0]
    assert any("time -" in row or "time +" in row for row in rows[start:end])
    table = rows[next(n for n in range(end, len(rows)) if "  change" in rows[n]) :]
    assert not any("…" in row for row in table)


def test_memory_of_both_sides(project: Path) -> None:
    text = run("v2", "v3", "--memory")
    assert text.startswith("Memory, v2 → v3\n")
    row = next(line for line in text.splitlines() if line.startswith("Shared stores"))
    assert row.count("32.8 k wavefronts") == 2 and "±0%" in row  # the lines' own numbers
    both = json.loads(run("v2", "v3", "--memory", "--format", "json"))["memory"]
    assert list(both) == ["old", "new"]
    assert [side["flows"][1]["id"] for side in both.values()] == ["shared_stores"] * 2


def test_all_shows_what_did_not_move(project: Path) -> None:
    assert "L2 hit rate" in run("v2", "v3", "--all")
    assert "L2 hit rate" not in run("v2", "v3")


def test_a_stale_side_is_marked(project: Path) -> None:
    path = project / "kernels" / "demo" / "v3_padded.cu"
    path.write_text(path.read_text().replace("2.0f", "3.0f"))
    document = json.loads(run("v2", "v3", "--format", "json"))
    assert (document["old"]["stale"], document["new"]["stale"]) == (False, True)
    assert any(warning.startswith("v3: stale") for warning in document["warnings"])


def test_incomparable_profiles_are_refused_and_can_be_forced(project: Path) -> None:
    store = Store(project / "profiles")
    (entry,) = store.find(study="demo", version="v3")
    profile = store.load(entry.path)
    store.save(msgspec.structs.replace(profile, tools={"ncu": "2024.3.0"}))
    with pytest.raises(InconclusiveError) as error:
        CliRunner().invoke(app, ["diff", "v2", "v3"], catch_exceptions=False)
    assert "2025" in error.value.message and "2024" in error.value.message
    document = json.loads(run("v2", "v3", "--force", "--format", "json"))
    assert document["comparable"] is False
    assert document["warnings"][0].startswith("not comparable")
    assert "not comparable" in run("v2", "v3", "--force")


def test_the_exit_code_is_six(project: Path) -> None:
    store = Store(project / "profiles")
    (entry,) = store.find(study="demo", version="v3")
    profile = store.load(entry.path)
    capture = msgspec.structs.replace(profile.capture, clock_control="base")
    store.save(msgspec.structs.replace(profile, capture=capture))
    done = subprocess.run(
        [sys.executable, "-m", "workbench.cli", "diff", "v2", "v3"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 6 and done.stdout == ""
    assert "clock policies" in done.stderr and "--force" in done.stderr
    assert "Traceback" not in done.stderr


def test_two_kernels_of_one_report(report: Callable[[str], Path]) -> None:
    path = report("ladder_full")
    document = json.loads(run(f"{path}::sgemm_v2", f"{path}::sgemm_v3", "--format", "json"))
    moved = {counter["id"]: counter["delta"] for counter in document["counters"]}
    assert moved["shared_wavefronts"] == -32_505_856
    assert document["time"] is None and document["comparable"] is True
    assert document["old"]["version"] == "ladder_full::sgemm_v2"
    assert document["old"]["kernels"] == ["sgemm_v2"]
    text = run(f"{path}::sgemm_v0", f"{path}::sgemm_v1")
    assert "13.4× faster" in text and "Global sectors" in text


def test_one_report_beside_itself_is_said_to_be_one(report: Callable[[str], Path]) -> None:
    path, words = str(report("ladder_focus")), "both sides are one profile"
    assert words in run(path, path) and words not in run(path, str(report("ladder_full")))


def test_two_reports_of_several_launches(report: Callable[[str], Path]) -> None:
    text = " ".join(run(str(report("ladder_full")), str(report("ladder_focus"))).split())
    assert "equally fast" in text
    for kernel in ("sgemm_v0", "sgemm_v1", "sgemm_v2", "sgemm_v3", "sgemm_v4"):
        assert re.search(rf"{kernel} [\d.]+ [mµ]s [\d.]+ [mµ]s same time", text)


def test_one_launch_of_a_report(report: Callable[[str], Path]) -> None:
    path = report("ladder_full")
    text = run(f"{path}::sgemm#1", f"{path}::sgemm#2")
    assert "ladder_full::sgemm#1 → ladder_full::sgemm#2" in text and "13.4× faster" in text
    document = json.loads(run(str(path), f"{path}::sgemm_v1", "--launch", "1", "--format", "json"))
    assert document["old"]["version"] == "ladder_full#1"
    assert document["old"]["kernels"] == ["sgemm_v0"]
    assert document["new"]["version"] == "ladder_full::sgemm_v1"
    with pytest.raises(UsageError, match="no launch 9 of 'ladder_full'") as error:
        run(str(path), str(path), "--launch", "9")
    assert "There are 5 launches: 1 sgemm_v0 grid" in error.value.hint


def test_reports_of_one_name_are_told_apart_by_their_folders(
    report: Callable[[str], Path], tmp_path: Path
) -> None:
    for folder in ("before", "after"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run.ncu-rep").write_bytes(report("ladder_full").read_bytes())
    text = run(*(str(tmp_path / folder / "run.ncu-rep") for folder in ("before", "after")))
    assert "before/run → after/run" in text


def test_a_version_against_a_report(project: Path, report: Callable[[str], Path]) -> None:
    text = run("v2", f"{report('ladder_full')}::sgemm_v3")
    assert "v2 → ladder_full::sgemm_v3" in text


def test_reports_of_different_chips_are_refused(report: Callable[[str], Path]) -> None:
    arguments = [str(report("ladder_full")), str(report("v100-ncu2022.2-source-rules"))]
    with pytest.raises(InconclusiveError) as error:
        CliRunner().invoke(app, ["diff", *arguments], catch_exceptions=False)
    assert "devices" in error.value.message
    assert "with --force" in run(*arguments, "--force")


def test_two_devices_that_were_named_are_compared_and_said_to_be_two(project: Path) -> None:
    store = Store(project / "profiles")
    profile = store.load(store.find(study="demo", version="v3")[0].path)
    recorded = store.load(store.find(study="demo", version="v2")[0].path)
    (timing,) = store.timings(study="demo", version="v3")
    half = msgspec.structs.replace(profile.device, name="NVIDIA H100", slug="h100")
    store.save(msgspec.structs.replace(profile, device=half))
    value, low, high = (2 * getattr(timing.time, key) for key in ("value", "low", "high"))
    twice = msgspec.structs.replace(timing.time, value=value, low=low, high=high)
    store.save_timing(msgspec.structs.replace(timing, device=half, time=twice))
    text = run("v3@h100", "v3@h200")
    assert "v3@h100 → v3@h200" in text and "2.00× faster" in text
    said = "The same machine code is 2.00× faster on NVIDIA H200 than on NVIDIA H100."
    assert said in " ".join(text.split())
    assert "the sources are the same" in text and "compiler" not in text
    # What the author of v3 predicted was of one chip.
    source = project / "kernels" / "demo" / "v3_padded.cu"
    expected = '[[expect]]\ncounter = "shared_wavefronts"\nchange = "down"\n--- */'
    source.write_text(source.read_text().replace("--- */", expected, 1))
    store.save(msgspec.structs.replace(recorded, device=half))
    judged = json.loads(run("v2@h200", "v3@h200", "--format", "json"))["expectations"]
    across = json.loads(run("v2@h100", "v3@h200", "--format", "json"))["expectations"]
    assert judged and not across
    arguments = ["diff", "v2", "v3@h100", "--device", "h200"]  # of one side it may be a slip
    with pytest.raises(InconclusiveError) as error:
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "devices" in error.value.message


def test_diff_imports_nothing_heavy(project: Path) -> None:
    code = (
        "import sys\n"
        "from workbench.cli import main\n"
        "try:\n    main(['diff', 'v2', 'v3'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'pandas', 'numpy', 'plotly', 'jinja2', 'ncu_report'} & set(sys.modules)\n"
        "sys.exit(','.join(sorted(heavy)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_sass_of_emulated_profiles_says_that_there_is_none(project: Path) -> None:
    store = Store(project / "profiles")
    for profile in list(store.profiles(study="demo")):
        store.save(msgspec.structs.replace(profile, engine="emulator"))
    arguments = ["diff", "demo/v2", "demo/v3", "--sass", "--engine", "emulator"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "! --sass: the emulator runs PTX, so there is no machine code" in result.output


def test_versions_of_two_studies_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(app, ["diff", "sgemm/v3", "scale_add/v3"])
    assert isinstance(result.exception, InconclusiveError)
    assert result.exception.message.startswith("sgemm/v3 and scale_add/v3 are not comparable")


def test_a_version_behind_one_of_a_study_is_of_that_study(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    both = run("scale_add/v0", "v1")
    assert both == run("scale_add/v0", "scale_add/v1") == run("scale_add/v1")
    with pytest.raises(UsageError, match="scale_add/v0 has no parent"):
        CliRunner().invoke(app, ["diff", "scale_add/v0"], catch_exceptions=False)
