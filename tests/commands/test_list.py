"""``workbench list``: the ladder in every format, from what is recorded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tests.factories import emulate_demo, make_profile, make_project, make_timing
from workbench.cli import app
from workbench.errors import DataError, UsageError
from workbench.model import Device, Estimate
from workbench.project import require_project
from workbench.store import Store
from workbench.study.folder import run_study
from workbench.views.sheets.list import ListPage


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["list", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_a_ladder_that_nobody_timed_has_the_profilers_durations(project: Path) -> None:
    for path in (project / "profiles").rglob("*.time.json.zst"):
        path.unlink()
    text = run()
    assert (
        "208 µs*" in text and "* under the profiler; `workbench time demo --all-problems`" in text
    )
    document = json.loads(run("--format", "json"))
    assert all(not version["times"] for version in document["studies"][0]["versions"])
    table = run("--format", "markdown")
    assert "| 208 µs\\* |" in table and "\\* under the profiler" in table


def test_the_share_of_the_baseline_is_the_one_measured_side_by_side(project: Path) -> None:
    beside = Estimate(value=0.45, low=0.44, high=0.46, n=50)
    timing = make_timing(206e-6, version="v3", baseline="library", ratio=beside)
    Store(project / "profiles").save_timing(timing)
    assert "45.0%" in run() and "48.5%" not in run()
    assert "| 206 µs | 45.0% |" in run("--format", "markdown")


def test_what_is_recorded_elsewhere_alone_says_where(project: Path) -> None:
    for entry in Store(project / "profiles").find(study="demo", version="v2"):
        entry.path.unlink()
    elsewhere = Device(name="Another GPU", slug="another-gpu", compute_capability=(8, 0))
    Store(project / "profiles").save(make_profile(version="v2", device=elsewhere))
    assert "other device" in run("demo")


def test_an_edited_source_makes_its_profile_stale(project: Path) -> None:
    path = project / "kernels" / "demo" / "v3_padded.cu"
    path.write_text(path.read_text().replace("2.0f *", "2.0f  *"))
    document = json.loads(run("--format", "json"))
    stale = {
        version["id"]: [profile["stale"] for profile in version["profiles"]]
        for version in document["studies"][0]["versions"]
    }
    assert stale == {"v0": [], "v2": [False], "v3": [True], "library": []}
    assert "stale" in run()


def test_a_project_with_nothing_recorded_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_project(tmp_path, recorded=False)
    run_study(require_project(tmp_path), "demo")
    monkeypatch.chdir(tmp_path)
    assert "workbench profile" in run()
    assert json.loads(run("--format", "json"))["studies"][0]["versions"][1]["profiles"] == []


@pytest.mark.parametrize(
    ("arguments", "word"), [(("dem",), "demo"), ((":n1025",), "n1024"), (("@a100",), "NVIDIA H200")]
)
def test_wrong_names_are_answered_with_the_right_ones(
    project: Path, arguments: tuple[str, ...], word: str
) -> None:
    with pytest.raises(UsageError) as error:
        CliRunner().invoke(app, ["list", *arguments], catch_exceptions=False)
    assert word in error.value.hint


def test_outside_of_a_project_it_says_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as error:
        CliRunner().invoke(app, ["list"], catch_exceptions=False)
    assert "workbench init" in error.value.hint


def test_the_newest_device_is_shown(project: Path) -> None:
    import msgspec

    store = Store(project / "profiles")
    (entry,) = store.find(study="demo", version="v2")
    profile = store.load(entry.path)
    device = msgspec.structs.replace(profile.device, name="NVIDIA A100", slug="a100")
    older = msgspec.structs.replace(profile, device=device, captured="2020-01-01T00:00:00Z")
    store.save(older)
    assert "n1024 on NVIDIA H200" in run()
    assert "n1024 on NVIDIA A100" in run("@a100")


def test_the_projects_device_is_shown_with_the_problems_recorded_on_it(project: Path) -> None:
    import msgspec

    store = Store(project / "profiles")
    (entry,) = store.find(study="demo", version="v2")
    profile = store.load(entry.path)
    device = msgspec.structs.replace(profile.device, name="NVIDIA A100 80GB", slug="a100-80gb")
    changes = {"device": device, "problem": "n64", "captured": "2027-01-01T00:00:00Z"}
    store.save(msgspec.structs.replace(profile, **changes))
    assert "n64 on NVIDIA A100 80GB" in run("@a100") and "also" not in run()
    (project / "workbench.toml").write_text('default_study = "demo"\ndefault_device = "h200"\n')
    assert "n1024 on NVIDIA H200" in run() and "also recorded" not in run()
    assert "n64 on NVIDIA A100 80GB" in run("@a100")


def test_an_emulated_profile_does_not_hide_the_hardware(project: Path) -> None:
    """Newer or not: times and steps are the hardware's, and they are what a ladder shows."""
    emulated = make_profile(
        engine="emulator",
        device=Device(name="emulator", slug="emulator-sm90"),
        captured="2027-01-01T00:00:00Z",
    )
    Store(project / "profiles").save(emulated)
    assert "n1024 on NVIDIA H200" in run()
    assert "n1024 on emulator" in run("@emulator")


def test_an_emulated_ladder_shows_what_was_counted(project: Path) -> None:
    """There are no times, steps and shares to be shown, and never will be."""
    emulate_demo(project)
    text = run("demo")
    head = next(line for line in text.splitlines() if line.lstrip().startswith("version"))
    assert head.split() == [
        "version",
        "from",
        "instr.",
        "(est.)",
        "sectors",
        "wavefronts",
        "profiled",
    ]
    rows = {line.split()[0]: line for line in text.splitlines() if line.startswith("v")}
    assert not rows["v2"].rstrip().endswith("emulator")  # the heading says so
    assert "1,300" in rows["v2"] and "2,048" in rows["v3"] and rows["v0"].count("—") == 4
    assert "counted by the emulator, which measures no times" in text
    (_, v2, *_) = json.loads(run("--format", "json"))["studies"][0]["versions"]
    assert v2["profiles"][0]["counts"]["instructions"] == 1300


def damage(project: Path, name: str) -> Path:
    (path,) = (project / "profiles").rglob(f"v2/{name}")
    path.write_bytes(path.read_bytes()[:60])
    return path


@pytest.mark.parametrize("name", ["n1024.ncu.json.zst", "n1024.time.json.zst"])
@pytest.mark.parametrize("format_", ["table", "json"])
def test_a_damaged_file_does_not_hide_the_others(project: Path, name: str, format_: str) -> None:
    path = damage(project, name)
    result = CliRunner().invoke(app, ["list", "--format", format_])
    assert isinstance(result.exception, DataError)
    assert str(path) in result.exception.message and "cut short" in result.exception.message
    assert "v3" in result.output and "2026-11-20" in result.output
    if format_ == "json":
        (study,) = json.loads(result.output)["studies"]
        versions = {version["id"]: version for version in study["versions"]}
        kept = "times" if "ncu" in name else "profiles"
        assert [bool(versions["v2"][key]) for key in ("profiles", "times")].count(True) == 1
        assert versions["v2"][kept] and versions["v3"]["profiles"]


def test_two_damaged_files_are_both_named(project: Path) -> None:
    paths = [damage(project, f"n1024.{kind}.json.zst") for kind in ("ncu", "time")]
    result = CliRunner().invoke(app, ["list"])
    assert isinstance(result.exception, DataError)
    assert result.exception.message.startswith("2 files cannot be read: ")
    assert all(str(path) in result.exception.message for path in paths)


def test_a_broken_study_does_not_hide_the_others(project: Path) -> None:
    other = project / "kernels" / "other"
    other.mkdir()
    (other / "study.py").write_text("def broken(:\n")
    result = CliRunner().invoke(app, ["list"])
    assert isinstance(result.exception, UsageError)
    assert result.exception.message.startswith("kernels/other/study.py:1: not valid Python")
    assert "demo" in result.output and "310 µs" in result.output


def test_where_no_study_can_be_read_the_error_alone_is_said(project: Path) -> None:
    (project / "kernels" / "demo" / "study.py").write_text("title = (")
    result = CliRunner().invoke(app, ["list"])
    assert isinstance(result.exception, UsageError)
    assert result.exception.message.startswith("kernels/demo/study.py:1: not valid Python")
    assert result.output == ""


def test_a_second_list_decodes_no_profile_and_says_the_same(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulated = make_profile(
        engine="emulator",
        device=Device(name="emulator", slug="emulator-sm90"),
        captured="2027-01-01T00:00:00Z",
    )
    Store(project / "profiles").save(emulated)
    formats = ("table", "json", "csv", "markdown")
    first = [run("--format", each) for each in formats]
    before = sorted(project.joinpath("profiles").rglob("*"))
    monkeypatch.delattr("workbench.ladder.summaries.decode_totals")
    assert [run("--format", each) for each in formats] == first
    assert sorted(project.joinpath("profiles").rglob("*")) == before
    # What became of the source is looked at every time.
    (source,) = (project / "kernels/demo").glob("v2*.cu")
    source.write_text(source.read_text() + "// edited\n")
    assert "stale" in run() and "stale" not in first[0]


def test_a_damaged_profile_is_named_every_time(project: Path) -> None:
    run()
    path = damage(project, "n1024.ncu.json.zst")
    for _ in range(2):
        result = CliRunner().invoke(app, ["list"])
        assert isinstance(result.exception, DataError) and str(path) in result.exception.message


def test_a_long_table_is_shown_page_by_page(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.views.sheets.list.PAGE", 3)
    whole = run("--format", "csv")
    first, second = run(), run("--page", "2")
    assert first == run("--page", "1") and "page 1 of 2: versions 1 to 3 of 4; --page 2" in first
    assert "Padded tile" in first and "library" not in first
    assert "library" in second and "Padded tile" not in second and "v3" not in second
    assert "page 2 of 2: versions 4 to 4 of 4\n" in second
    # A bar is as long as on one page: the fastest version may stand on another one.
    monkeypatch.undo()
    monkeypatch.chdir(project)
    monkeypatch.setenv("COLUMNS", "80")
    assert "page" not in run() and run("--format", "csv") == whole
    row = next(line for line in run().splitlines() if line.startswith("library"))
    assert row.split()[-1] in second


def test_studies_of_other_pages_are_not_read(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(project / "kernels/demo", project / "kernels/other")
    run_study(require_project(), "other")
    Store(project / "profiles").save(make_profile(study="other", version="v2"))
    (damaged,) = Store(project / "profiles").find(study="other")
    damaged.path.write_bytes(b"no profile")
    monkeypatch.setattr("workbench.views.sheets.list.PAGE", 4)
    assert "page 1 of 2" in run() and "other" not in run()
    with pytest.raises(DataError, match=r"n1024\.ncu\.json\.zst is damaged"):
        run("--page", "2")
    # Nor is what their sources say, which takes most of the time.
    (project / "kernels/other/study.py").write_text("title = (\n")
    assert "page 1 of 2" in run() and "other" not in run()
    with pytest.raises(UsageError, match=r"kernels/other/study\.py"):
        run("--page", "2")


def test_pages_that_are_not_there_and_formats_without_pages(project: Path) -> None:
    with pytest.raises(UsageError, match="no page 7: the list has 4 versions") as caught:
        run("--page", "7")
    assert caught.value.hint == "The last page is --page 1."
    with pytest.raises(UsageError, match="--format csv prints everything"):
        run("--format", "csv", "--page", "1")


def test_every_version_is_on_one_page() -> None:
    sizes = [0, 700, 0, 300, 0, 1200, 0]
    pages = [ListPage(sizes, number) for number in (1, 2, 3, 4, 5)]
    assert {page.pages for page in pages} == {5}
    for study, size in enumerate(sizes):
        parts = [page.parts[study] for page in pages]
        shown = [part for part in parts if part is not None]
        assert [n for part in shown for n in range(size)[part]] == list(range(size))
        assert len(shown) == 1 or size


def test_of_every_study_there_are_seven_lines_and_show_has_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    monkeypatch.setenv("COLUMNS", "80")
    studies = run().rstrip().split("\n\n")
    assert len(studies) == 7 and max(len(study.splitlines()) for study in studies) <= 7
    (sgemm,) = (study for study in studies if study.startswith("sgemm "))
    rows = [line.split() for line in sgemm.splitlines()]
    assert rows[2][:2] == ["version", "from"] and "`workbench show sgemm`" in sgemm
    whole = run("sgemm")
    every = [line.split()[0] for line in whole.splitlines() if line.startswith("v")][1:]
    left = len(every) + 1 - 3  # with the baseline, less those that are listed
    assert [row[0] for row in rows[3:6]] == ["v0", "v15", "cublas"] and rows[6][0] == str(left)
    assert rows[4][1] == "v10"  # which it was made from
    shown = CliRunner().invoke(app, ["show", "sgemm"], catch_exceptions=False)
    assert (shown.exit_code, shown.output) == (0, whole)


def test_no_word_of_a_title_is_cut_for_the_sake_of_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    """A baseline's long name left eleven columns to ``"asynchronous"``."""
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    for width in ("80", "90", "100", "120"):
        monkeypatch.setenv("COLUMNS", width)
        text = run("conv2d_int8")
        assert '"asynchronous"' in text
        assert max(map(len, text.splitlines())) <= int(width)
    assert "█" in text  # where there is room, they are there


@pytest.mark.parametrize("wrong", [True, False])
def test_a_time_of_forty_terabytes_a_second_is_marked_in_every_form(
    project: Path, wrong: bool
) -> None:
    moved = 40_000_000_000 if wrong else 400_000_000
    Store(project / "profiles").save_timing(replace(make_timing(1e-3), bytes=moved))
    for form in ("table", "markdown"):
        said = run("--format", form)
        assert ("(!)" in said and "not plausible" in said) == wrong, said
    versions = json.loads(run("--format", "json"))["studies"][0]["versions"]
    reasons = [text for one in versions for time in one["times"] for text in time["implausible"]]
    assert bool(reasons) == wrong
