"""Looking at a project runs none of its code; what was kept of it is enough, or is missed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from tests.factories import make_project
from tests.study_maker import VERSION, Maker
from workbench.cli import main
from workbench.errors import MissingError, UsageError
from workbench.project import Project
from workbench.study.folder import (
    StudyFacts,
    facts_of,
    load_study,
    run_study,
    study_names,
    view_study,
)

REPO = Path(__file__).resolve().parent.parent.parent
VIEWS = (
    "list",
    "list --format json",
    "show v3",
    "show v3 --format json",
    "diff v2 v3",
    "check v3",
    "check --all",
    "report",
    "report --single-file v3 --out page.html",
    "report --single-file demo --out ladder.html",
    "time demo:n1024 --recorded",
    "new v4",
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A checkout whose study.py does more than it says."""
    project = make_project(tmp_path)
    study = project.kernels / "demo" / "study.py"
    mine = f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
    study.write_text(study.read_text() + mine)
    monkeypatch.chdir(tmp_path)
    return project


def run(line: str) -> int:
    try:
        return main(line.split())
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize("record", ["none", "older", "damaged", "current"])
@pytest.mark.parametrize("line", VIEWS)
def test_looking_runs_nothing(
    project: Project, capsys: pytest.CaptureFixture[str], line: str, record: str
) -> None:
    path = project.facts("demo")
    if record == "none":
        path.unlink()
    elif record == "damaged":
        path.write_text('{"title": 3}')
    elif record == "current":
        run_study(project, "demo")
        (project.root / "ran").unlink()
    code = run(line)
    told = capsys.readouterr()
    assert not (project.root / "ran").exists(), "code of the checkout was run"
    assert code in (0, 1, 6), told.err
    assert told.out
    if line.startswith(("list", "time")) or line == "report":
        notes = {"older": "was edited since it was run", "current": ""}
        note = notes.get(record, "was not run here")
        assert note in told.err and bool(note) == ("note: kernels/demo" in told.err)


def test_the_dry_run_of_a_profile_runs_nothing(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    run("profile v3 --dry-run --arch sm_90")
    assert not (project.root / "ran").exists()
    project.facts("demo").unlink()
    run("profile v3 --dry-run --arch sm_90")
    assert "verify demo" in capsys.readouterr().err
    assert not (project.root / "ran").exists()


def test_what_is_run_on_purpose_is_kept(project: Project) -> None:
    project.facts("demo").unlink()
    run("verify v3:no_such")  # ends before anything but study.py has run
    assert (project.root / "ran").exists()
    assert view_study(project, "demo").note == ""


def test_a_view_knows_what_the_study_said(project: Project) -> None:
    study = run_study(project, "demo")
    seen = view_study(project, "demo")
    assert (seen.title, list(seen.problems), seen.work) == (
        study.title,
        list(study.problems),
        study.work,
    )
    for problem in study.problems.values():
        assert seen.problem(problem.name) == problem
        assert seen.parameters(problem) == study.parameters(problem)
        assert seen.outputs(problem) == study.outputs(problem)
        assert (seen.flops(problem), seen.bytes(problem)) == (
            study.flops(problem),
            study.bytes(problem),
        )
    assert seen.versions == study.versions
    with pytest.raises(UsageError, match="has no problem"):
        seen.problem("no_such")


def test_without_a_record_what_is_not_known_is_missed_by_name(project: Project) -> None:
    project.facts("demo").unlink()
    seen = view_study(project, "demo")
    assert (seen.title, seen.problems, seen.work) == ("demo", {}, "flop")
    assert seen.problem("n1024").name == "n1024"
    for ask in (lambda: seen.problem(), lambda: seen.flops(seen.problem("n1024"))):
        with pytest.raises(MissingError, match="is unknown without running") as caught:
            ask()
        assert "workbench verify" in caught.value.hint


def test_a_record_that_leads_elsewhere_is_not_written_through(project: Project) -> None:
    path = project.facts("demo")
    path.unlink()
    path.parent.rmdir()
    outside = project.root.parent / f"{project.root.name}-outside"
    outside.mkdir()
    path.parent.symlink_to(outside)
    run_study(project, "demo")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", study_names(Project(root=REPO)))
def test_the_shipped_records_are_those_of_the_shipped_studies(name: str) -> None:
    project = Project(root=REPO)
    kept = msgspec.convert(json.loads(project.facts(name).read_bytes()), StudyFacts)
    assert kept == facts_of(load_study(project, name)), "run a version of it, and keep the record"


@pytest.mark.parametrize("damage", ["pipe", "text", "huge"])
def test_a_record_that_cannot_be_read_is_named_and_hides_nothing(maker: Maker, damage: str) -> None:
    maker.write("v0.cu", VERSION)
    run_study(maker.project, "s")
    path = maker.project.facts("s")
    path.unlink()
    if damage == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("[" * (5 << 20 if damage == "huge" else 9))
    study = view_study(maker.project, "s")
    assert list(study.versions) == ["v0"]
    said = {"pipe": "it is a pipe", "text": "Expected `object`", "huge": "the limit for the record"}
    assert "profiles/.studies/s.json cannot be used: " in study.note
    assert said[damage] in study.note
