"""``workbench report``: a site, a watch over it, or one page as one file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.factories import make_project
from workbench.cli import app
from workbench.errors import DataError, UsageError, WorkbenchError
from workbench.model import Device
from workbench.project import Project
from workbench.store import Store
from workbench.study import folder
from workbench.views.html import build
from workbench.views.html.single import NOTE


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["report", *arguments], catch_exceptions=False)


def refused(*arguments: str) -> WorkbenchError:
    with pytest.raises(WorkbenchError) as error:
        run(*arguments)
    return error.value


def test_the_last_line_is_the_index(project: Path) -> None:
    lines = run().output.splitlines()
    assert lines[-1] == str(project / "reports" / "index.html")
    assert lines[0].endswith("pages written, 0 unchanged")
    assert run().output.startswith("0 pages written")


def test_the_pages_of_a_pair_that_was_asked_for_are_named(project: Path) -> None:
    lines = run("v2..v3").stdout.splitlines()
    assert Path(lines[-2]).name == "v2..v3.html" and Path(lines[-2]).is_file()
    assert Path(lines[-1]).name == "index.html"


def test_a_study_that_cannot_be_read_is_noted(project: Path) -> None:
    (project / "kernels" / "demo" / "study.py").write_text("title = (\n")
    result = CliRunner().invoke(app, ["report"], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].endswith("index.html")
    assert result.stderr.startswith("note: kernels/demo/study.py:1: not valid Python")
    assert "its pages show its records" in result.stderr
    assert run("--single-file", "demo").exit_code == 0


def test_out_is_another_folder(project: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    assert run("demo", "--out", str(out)).output.splitlines()[-1] == str(out / "index.html")
    assert not (project / "reports").exists()
    (project / "a.txt").write_text("")
    assert "a.txt is not a folder" in refused("--out", "a.txt").message


def test_options_of_a_single_file_mean_nothing_to_a_site(project: Path) -> None:
    for option in ("--problem", "--device", "--study"):
        assert "choose the page of --single-file" in refused(option, "x").message
    assert "--single-file" in refused("--engine", "ncu").message


def test_a_version_as_one_file(project: Path) -> None:
    result = run("--single-file", "v3")
    assert result.output == "demo-v3-n1024-h200.html\n"
    text = (project / "demo-v3-n1024-h200.html").read_text(encoding="utf-8")
    assert "Padded tile" in text and NOTE in text
    assert run("--single-file", "demo/v3:n1024").output == result.output
    (project / "mail").mkdir()
    assert run("--single-file", "v3", "--out", "mail").output == f"mail/{result.output}"


def test_a_study_as_one_file(project: Path) -> None:
    assert run("--single-file", "demo").output == "demo-ladder-n1024-h200.html\n"
    assert "How fast" in (project / "demo-ladder-n1024-h200.html").read_text(encoding="utf-8")
    assert run("--single-file", "demo@h200").exit_code == 0
    error = refused("--single-file", "demo@h201")
    assert error.exit_code == 2 and "h200" in error.hint
    assert "n1024" in refused("--single-file", "demo:n1025").hint


def test_a_ladder_of_the_emulator_does_not_stand_before_the_hardwares(project: Path) -> None:
    store = Store(project / "profiles")
    for entry in store.find(study="demo"):
        emulated = msgspec.structs.replace(
            store.load(entry.path),
            engine="emulator",
            device=Device(name="emulator", slug="emulator-sm90"),
        )
        store.save(emulated)
    assert "-h200.html" in run("--single-file", "demo").output
    chosen = run("--single-file", "demo@emulator-sm90").output
    assert "-emulator-sm90.html" in chosen


def record_elsewhere(project: Path) -> None:
    store = Store(project / "profiles")
    other = Device(name="NVIDIA H100 80GB HBM3", slug="h100-80gb-hbm3")
    for entry in store.find(study="demo"):
        store.save(msgspec.structs.replace(store.load(entry.path), device=other))


def test_a_page_is_of_one_device_which_may_be_named_with_the_version(project: Path) -> None:
    record_elsewhere(project)
    assert run("--single-file", "v3@h100").output == "demo-v3-n1024-h100-80gb-hbm3.html\n"
    (project / "workbench.toml").write_text('default_study = "demo"\ndefault_device = "h200"\n')
    assert "-h200.html" in run("--single-file", "demo").output


def test_two_devices_as_one_file(project: Path) -> None:
    record_elsewhere(project)
    name = "demo-v3-h100-80gb-hbm3-v3-h200-n1024.html"
    assert run("--single-file", "v3@h100", "v3@h200").output == f"{name}\n"
    text = (project / name).read_text(encoding="utf-8")
    assert "<title>v3@h100 → v3@h200: " in text
    assert "on NVIDIA H100 80GB HBM3 and NVIDIA H200" in text
    assert "Two devices: the same machine code" in text and "not comparable" not in text
    assert "own device" in text and "Predicted and measured" not in text
    both = run("--single-file", "v2@h200", "v3@h100").output
    assert both == "demo-v2-h200-v3-h100-80gb-hbm3-n1024.html\n"
    assert 'id="hunk-1"' in (project / both.strip()).read_text(encoding="utf-8")


def test_two_devices_are_both_named(project: Path) -> None:
    record_elsewhere(project)
    (project / "workbench.toml").write_text('default_study = "demo"\ndefault_device = "h200"\n')
    error = refused("--single-file", "v2", "v3@h100")
    assert error.exit_code == 2 and "two that both sides name: v5@h100 v5@h200" in error.hint


def test_a_step_as_one_file(project: Path) -> None:
    assert run("--single-file", "v2", "v3").output == "demo-v2-v3-n1024-h200.html\n"
    text = (project / "demo-v2-v3-n1024-h200.html").read_text(encoding="utf-8")
    assert "v2" in text and "v3" in text and NOTE in text


def test_any_two_versions_as_one_file(project: Path) -> None:
    assert run("--single-file", "v3", "v2").output == "demo-v3-v2-n1024-h200.html\n"
    assert run("--single-file", "v3..v2").output == "demo-v3-v2-n1024-h200.html\n"
    assert run("--single-file", "demo/v2..v3").output == "demo-v2-v3-n1024-h200.html\n"


def test_a_page_of_the_site_as_one_file(project: Path) -> None:
    run()
    out = project / "mail" / "words.html"
    assert run("--single-file", "reports/glossary.html", "--out", str(out)).exit_code == 0
    assert NOTE in out.read_text(encoding="utf-8")


def test_a_report_file_needs_no_project(
    report: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = report("ladder_full")
    assert run("--single-file", str(path)).output == "ladder_full.html\n"
    assert "sgemm_v4" in (tmp_path / "ladder_full.html").read_text(encoding="utf-8")
    assert run("--single-file", f"{path}::sgemm_v2").output == "ladder_full-sgemm_v2.html\n"
    # One launch: its own page, with the source, and not an overview of one row.
    assert "As[" in (tmp_path / "ladder_full-sgemm_v2.html").read_text(encoding="utf-8")
    two = (f"{path}::sgemm_v2", f"{path}::sgemm_v3")
    assert run("--single-file", *two).output == "ladder_full-sgemm_v2-ladder_full-sgemm_v3.html\n"
    text = (tmp_path / "ladder_full-sgemm_v2-ladder_full-sgemm_v3.html").read_text("utf-8")
    assert "−32.5 M" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "ladder_full-sgemm_v2-ladder_full-sgemm_v3.html",
        "ladder_full-sgemm_v2.html",
        "ladder_full.html",
    ]


def test_only_an_earlier_page_is_overwritten(project: Path) -> None:
    run("--single-file", "v3", "--out", "a.html")
    assert run("--single-file", "v3", "--out", "a.html").exit_code == 0
    (project / "thesis.html").write_text("<h1>Thesis</h1>")
    assert "not a page of a report" in refused("--single-file", "thesis.html").message
    error = refused("--single-file", "v3", "--out", "thesis.html")
    assert error.exit_code == 2 and "--force" in error.hint
    assert (project / "thesis.html").read_text() == "<h1>Thesis</h1>"
    assert run("--single-file", "v3", "--out", "thesis.html", "--force").exit_code == 0
    os.mkfifo(project / "x.html")
    assert "is not a page of a report" in refused("--single-file", "v3", "--out", "x.html").message


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("v1", "v2", "v3"),
        ("nothing.html",),
        ("v9",),
        ("v0",),  # a version with nothing recorded
        ("v3", "library"),  # a baseline that was only timed
        ("v3", "a.ncu-rep"),
        ("a.ncu-rep", "b.ncu-rep"),
        ("gone.ncu-rep",),
    ],
)
def test_what_is_no_page_is_wrong_usage(project: Path, arguments: tuple[str, ...]) -> None:
    error = refused("--single-file", *arguments)
    assert error.exit_code in (2, 5) and error.hint
    assert list(project.glob("*.html")) == []


def test_a_study_of_which_nothing_is_said_is_not_read_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run()
    (version,) = (project / "kernels" / "demo").glob("v3*.cu")
    real = folder.view_study
    read: list[str] = []

    def watched(project: Project, name: str) -> folder.SeenStudy:
        read.append(name)
        return real(project, name)

    monkeypatch.setattr(folder, "view_study", watched)
    assert run().stderr == "" and read == []
    version.write_text(version.read_text() + "\n// edited\n")
    assert run().stderr == "" and "demo" in read


@pytest.mark.parametrize("wrong", ["title = (\n", "title = 'edited'\n"])
def test_what_is_wrong_with_a_study_is_said_until_it_is_mended(project: Path, wrong: str) -> None:
    study = project / "kernels" / "demo" / "study.py"
    whole = study.read_text()
    assert run().stderr == ""
    study.write_text(wrong)
    said = [run().stderr for _ in range(3)]
    assert said[0].startswith("note: kernels/demo/study.py") and len(set(said)) == 1
    study.write_text(whole)
    assert run().stderr == ""


def test_a_changed_program_reads_studies_anew(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run()
    monkeypatch.setattr(build, "code_stamp", lambda: "another")
    monkeypatch.setattr(folder, "view_study", raising(UsageError("as this program sees it", "")))
    assert run().stderr.startswith("note: as this program sees it")


def raising(error: WorkbenchError) -> Callable[..., None]:
    def raised(*_: object) -> None:
        raise error

    return raised


#: What renders and reads: templates, comparisons, machine code, processes.
_SLOW = "jinja2", "workbench.analysis", "multiprocessing", "pandas"


def test_a_run_that_changes_nothing_loads_nothing_that_renders(project: Path) -> None:
    run()
    code = (
        "import sys\nfrom workbench.cli import app\n"
        "app(['report'], standalone_mode=False)\n"
        f"print(sorted({{*{_SLOW!r}}} & {{*sys.modules}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("0 pages written") and done.stdout.splitlines()[-1] == "[]"


def test_a_damaged_profile_ends_a_report_with_its_name(project: Path) -> None:
    (path,) = (project / "profiles").rglob("v3/*.ncu.json.zst")
    path.write_bytes(b"x")
    result = CliRunner().invoke(app, ["report"])
    assert isinstance(result.exception, DataError) and str(path) in result.exception.message
    assert str(project / "reports" / "index.html") in result.output
    home = project / "reports" / "studies" / "demo" / "h200" / "n1024"
    assert (home / "v2.html").exists() and not (home / "v3.html").exists()


def tree(root: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("targets", [("v3",), ("v2", "v3"), ("v3", "v2"), ("demo",)])
@pytest.mark.parametrize("site", [True, False])
def test_a_single_file_is_all_that_is_written(
    project: Path, targets: tuple[str, ...], site: bool
) -> None:
    if site:
        run()
    before = tree(project)
    run("--single-file", *targets, "--out", "x.html")
    after = tree(project)
    assert after.pop(project / "x.html")
    assert after == before
    assert (project / "reports").exists() == site
