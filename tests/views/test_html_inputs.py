"""Which pages an edit writes again: those that it changes, and no page is ever left old.

After every edit the site that was brought up to date is compared, byte for byte, with one that
is written anew from the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.factories import LADDER, VERSION, make_profile, make_project, make_timing, padded
from workbench.analysis.story import explain
from workbench.model import SourceFile
from workbench.project import Project, find_project
from workbench.store import Store
from workbench.study.folder import load_study, run_study, source_hash
from workbench.views.html.build import build_report
from workbench.views.html.site import Writing

Edit = Callable[[Project], None]
_FOLDER = "studies/demo/h200/n1024"
#: Names of pages: the ladder, its versions, and all.
LADDER_PAGE = "index"
VERSIONS = {"v2", "v3", "v4", "v5"}
ALL = {LADDER_PAGE, *VERSIONS, "v2..v3", "v3..v4", "v4..v5", "v3..v5"}


def files(site: Path) -> dict[str, bytes]:
    """Everything that a reader may open, by its path."""
    return {
        path.relative_to(site).as_posix(): path.read_bytes()
        for path in site.rglob("*")
        if path.is_file() and path.suffix in (".html", ".js")
    }


def anew(project: Project, folder: Path) -> dict[str, bytes]:
    build_report(folder, project=project)
    return files(folder)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Four versions in a row, of which pages are written."""
    root = tmp_path_factory.mktemp("inputs")
    made = make_project(root)
    for name in ("v4", "v5"):
        front = VERSION.format(title=f"As {name}", more="")
        (root / f"kernels/demo/{name}.cu").write_text(front + LADDER["v3_padded.cu"][2])
        record(made, name)
    Store(made.profiles).save(make_profile(study="another", version="v0"))
    build_report(root / "reports", project=made)
    return made


def record(project: Project, name: str, **more: float) -> None:
    """Profile and time of a version as it is now."""
    version = load_study(project, "demo").version(name)
    digest = source_hash(project, version)
    source = SourceFile(path=version.path, text=version.text)
    profile = padded(make_profile(version=name, source_hash=digest, sources=(source,)))
    Store.of(project).save(profile)
    timing = make_timing(more.get("seconds", 2e-4), version=name, source_hash=digest, flops=1024)
    Store.of(project).save_timing(timing)


def edited(name: str, old: str, new: str) -> Edit:
    def edit(project: Project) -> None:
        path = project.kernels / "demo" / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    return edit


def told(project: Project) -> None:
    """Another title of the study, told by running it."""
    edited("study.py", "Scale: out", "Twice: out")(project)
    run_study(project, "demo")


def timed(version: str, seconds: float) -> Edit:
    def edit(project: Project) -> None:
        stored = Store.of(project)
        old = next(t for t in stored.timings(study="demo") if t.version == version)
        new = make_timing(seconds, version=version, source_hash=old.source_hash, flops=1024)
        stored.save_timing(new)

    return edit


def added(project: Project) -> None:
    """One more version, with its profile."""
    front = VERSION.format(title="One more", more="")
    (project.kernels / "demo/v6.cu").write_text(front + LADDER["v2_tile.cu"][2])
    record(project, "v6", seconds=1e-4)


def removed(project: Project) -> None:
    for path in (project.profiles / "h200/demo/v6").iterdir():
        path.unlink()


def configured(project: Project) -> None:
    """Another default study, which the index puts first."""
    (project.root / "workbench.toml").write_text('default_study = "another"\n', encoding="utf-8")


PREDICTION = '[[expect]]\ncounter = "registers"\nchange = "same"\n--- */'
#: One after the other, each on what the ones before it left: what is edited, and which pages of
#: the ladder may be others then.
#: Where the way to the fastest version is another, so is what comes next on it.
ALONG_IT = ("v3..v4", "v4", "v4..v5", "v5")
EDITS: list[tuple[str, Edit, set[str]]] = [
    (
        "a line of code: the version is stale",
        edited("v3_padded.cu", "--- */\n", "--- */\n// more\n"),
        {LADDER_PAGE, "v3", "v2..v3", "v3..v4"},
    ),
    (
        "another line of it: it was stale before",
        edited("v3_padded.cu", "// more", "// much more"),
        set(),
    ),
    ("a title", edited("v4.cu", "As v4", "Fourth"), {LADDER_PAGE, "v4", "v3..v4"}),
    (
        "what was changed",
        edited("v4.cu", "\n[[launch]]", 'change = "All of it."\n[[launch]]'),
        {LADDER_PAGE, "v4", "v3..v4"},
    ),
    ("a prediction", edited("v5.cu", "--- */", PREDICTION), {LADDER_PAGE, "v5", "v4..v5"}),
    (
        "a time: all that is made from it, and the ladder",
        timed("v5", 3e-4),
        {LADDER_PAGE, *ALONG_IT},
    ),
    (
        "the time of the library, which all are compared with",
        timed("library", 1.5e-4),
        {LADDER_PAGE, *VERSIONS},
    ),
    ("a new version, and its neighbour", added, {LADDER_PAGE, *ALONG_IT, "v6", "v5..v6"}),
    ("its end", removed, {LADDER_PAGE, *ALONG_IT, "v6", "v5..v6"}),
    ("another parent", edited("v5.cu", "\n[[", 'parent = "v3"\n[['), ALL),
    ("the study's title", told, {LADDER_PAGE}),
    ("what is not to be read", edited("study.py", "title = ", "title = = "), ALL),
    ("the project's default", configured, {LADDER_PAGE}),
]


@pytest.fixture(scope="module")
def made() -> list[int]:
    """Which of the edits were made: a process may have been given some of them alone."""
    return []


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("fresh")


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, id=name, marks=() if number < 2 else pytest.mark.slow)
        for number, (name, *_) in enumerate(EDITS)
    ],
)
def test_an_edit_changes_its_pages_and_leaves_none_old(
    project: Project, fresh: Path, made: list[int], number: int
) -> None:
    for earlier in range(len(made), number):
        EDITS[earlier][1](project)
        made.append(earlier)
        build_report(project.reports, project=find_project(project.root) or project)
    _, edit, expected = EDITS[number]
    before = files(project.reports)
    edit(project)
    made.append(number)
    project = find_project(project.root) or project
    done = build_report(project.reports, project=project).pages
    after = files(project.reports)
    assert after == anew(project, fresh / str(number))
    names = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    changed = {Path(name).stem for name in names if name.startswith(_FOLDER) and "code" not in name}
    assert changed <= expected
    assert bool(names) == bool(expected)
    # And the index of the site, the pages of both studies, and the other ladder.
    assert done.written <= len(expected) + 4


def test_a_strip_that_holds_is_not_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another title makes a step's page another one, and not what is told of the step."""
    project = make_project(tmp_path)
    build_report(project.reports, project=project)
    stories: list[object] = []

    def explained(*sides: Any, **more: Any) -> object:
        stories.append(sides)
        return explain(*sides, **more)

    monkeypatch.setattr("workbench.analysis.story.explain", explained)
    edited("v3_padded.cu", 'title = "', 'title = "Once more: ')(project)
    build_report(project.reports, project=project)
    assert len(stories) == 1
    build_report(project.reports, project=project, how=Writing(force=True))
    assert len(stories) > 1 and files(project.reports) == anew(project, tmp_path / "fresh")


def test_a_header_beside_the_studies_makes_their_pages_others(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    for name, text in (("shared.cuh", "// one\n"), ("demo/parts.inc", "// one\n")):
        (project.kernels / name).write_text(text)
    edited("v3_padded.cu", "--- */\n", '--- */\n#include "../shared.cuh"\n#include "parts.inc"\n')(
        project
    )
    record(project, "v3")
    for number, name in enumerate(("shared.cuh", "demo/parts.inc")):
        for text in ("// one\n", "// another\n", "// one\n"):
            (project.kernels / name).write_text(text)
            build_report(project.reports, project=project)
            build_report(project.reports, project=project)
            page = (project.reports / _FOLDER / "v3.html").read_text("utf-8")
            assert ("stale: the source has changed" in page) == (text != "// one\n"), number
