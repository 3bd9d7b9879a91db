"""The public face: what a notebook, a script or a test of somebody else's asks for."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

import workbench as wb
from tests.factories import make_project
from workbench.errors import DataError, UsageError
from workbench.face import Session

REPO = Path(__file__).resolve().parent.parent.parent
REPORT = REPO / "tests" / "data" / "ncurep" / "sgemm_v3.ncu-rep.zst"


@pytest.fixture
def project(tmp_path: Path) -> Session:
    make_project(tmp_path)
    return wb.open(tmp_path)


def test_importing_it_costs_nothing() -> None:
    slow = {"pandas", "numpy", "rich", "click", "jinja2", "msgspec"}
    code = "import sys, workbench; dir(workbench); print(*{%s} & {*sys.modules})"
    code %= ", ".join(map(repr, sorted(slow)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_every_name_of_the_face_is_there() -> None:
    assert {"open", "read_report", "Session", "Diff"} <= set(dir(wb)) >= set(wb.__all__)
    for name in wb.__all__:
        assert getattr(wb, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        wb.opne  # type: ignore[attr-defined] # noqa: B018


def test_a_project_has_studies_and_versions(project: Session, tmp_path: Path) -> None:
    assert project.studies() == ["demo"] and str(tmp_path) in repr(project)
    assert [version.id for version in project.versions()][:3] == ["v0", "v2", "v3"]
    assert all(len(repr(version)) < 100 for version in project.versions())
    inside = wb.open(tmp_path / "kernels" / "demo")
    assert inside.project.root == tmp_path


def test_a_step_is_a_sentence_frames_hunks_and_a_time(project: Session) -> None:
    step = project.diff("v2", "v3")
    assert step.sentence == step.story.sentence and "v3" in step.sentence
    assert repr(step) == "<demo v2 → v3 on NVIDIA H200>"
    assert step.time is not None and step.time.speedup > 1
    assert [hunk.id for hunk in step.hunks] == [1, 2]
    moved = step.counters[step.counters.moved]
    assert moved.verdict["shared_bank_conflicts"] == "better"
    assert (moved.new - moved.old == moved.delta).all()
    missing = step.counters[step.counters.verdict == "missing"]
    assert missing.reason.all() and missing.delta.isna().all()
    for (counter, ncu), parts in step.links.groupby(["counter", "ncu"]):
        (split,) = [each for each in step.story.attribution.counters if each.counter == ncu]
        assert counter == split.id and parts.delta.sum() == split.delta


def test_lines_of_both_versions_are_joined_by_hunk(project: Session) -> None:
    step = project.diff("v2", "v3")
    lines = step.lines
    for split in step.story.attribution.counters:
        own = lines[lines.ncu == split.counter]
        assert (own.old.sum(), own.new.sum()) == (split.old, split.new)
        assert own.delta.sum() == split.delta and set(own.counter) <= {split.id}
    (changed,) = [hunk for hunk in step.hunks if hunk.kind == "code"]
    here = lines[lines.hunks == (changed.id,)]
    assert set(here[here.link == "hunk"].new_line) <= {
        0,
        *range(changed.new[0], changed.new[1] + 1),
    }
    assert not lines[(lines.old_line > 0) & (lines.new_line > 0)].empty
    for side in (0, 1):
        known = lines[lines[("old_line", "new_line")[side]] > 0]
        sources = step.sides[side].profile.sources
        texts = {file.path: (file.text or "").splitlines() for file in sources}
        names = [f"{('old', 'new')[side]}_{word}" for word in ("file", "line", "text")]
        for file, line, text in known[names].itertuples(index=False):
            assert texts[file][line - 1] == text


def test_a_notebook_shows_a_step_and_a_profile_in_one_element(project: Session) -> None:
    step, found = project.diff("v2", "v3"), project.show("v3")
    for html in (step._repr_html_(), found._repr_html_()):
        assert html.startswith("<pre") and html.rstrip().endswith("</pre>")
        assert "<script" not in html and "\ufdd0" not in html
    assert "v2" in step._repr_html_() and "Padded tile" in found._repr_html_()


def test_a_target_has_its_counters_and_lines(project: Session) -> None:
    found = project.show("v3", problem="n1024")
    assert set(found.counters.version) == {"v3"} and found.name == "demo/v3"
    assert project.profile("v3") == found.profile
    assert not found.lines.empty
    with pytest.raises(UsageError, match="no version"):
        project.show("v9")


def test_a_session_is_a_line_on_a_prompt_without_a_project_as_well(tmp_path: Path) -> None:
    assert str(tmp_path) in repr(wb.Session(tmp_path))


def test_a_target_is_a_line_on_a_prompt(project: Session) -> None:
    shown = repr(project.show("v3"))
    assert shown.startswith("<") and "launch" in shown and len(shown) < 100


def test_a_profile_and_a_launch_are_a_line_on_a_prompt(project: Session) -> None:
    profile, report = project.profile("v3"), wb.read_report(REPORT).profile
    for shown in (repr(profile), repr(profile.launches[0]), repr(report)):
        assert shown.startswith("<") and len(shown) < 160 and "\n" not in shown
    assert "demo/v3 n1024 on NVIDIA H200 (ncu)" in repr(profile) and "sgemm_v3" in repr(report)


def test_a_report_needs_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = wb.read_report(REPORT)
    assert report.counters.set_index("counter").value["dram_throughput"] > 0
    assert wb.read_report(f"{REPORT}::sgemm").profile.launches == report.profile.launches
    step = wb.Session().diff(str(REPORT), str(REPORT))
    assert not step.counters.moved.any() and step.time is None
    with pytest.raises(UsageError, match="no workbench project"):
        wb.Session().studies()


def test_to_open_no_project_is_an_error_that_speaks_python(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no workbench project at or above") as caught:
        wb.open(tmp_path)
    assert "wb.Session().show('x.ncu-rep')" in caught.value.hint


def test_an_authors_change_is_of_the_step_to_another_version(project: Session) -> None:
    store = project.store
    profile = project.profile("v3")
    there = replace(profile.device, name="NVIDIA H100", slug="h100")
    store.save(replace(profile, device=there))
    assert project.diff("v2", "v3", device="h200").change
    assert not project.diff("v3@h100", "v3@h200").change  # on two devices nobody changed anything


@pytest.mark.parametrize(("old", "said"), [("v2", True), ("v1", False), ("v5", False)])
def test_what_an_author_changed_is_told_of_the_step_from_the_parent(old: str, said: bool) -> None:
    assert bool(wb.open(REPO).diff(f"sgemm/{old}", "sgemm/v3", device="h200").change) is said


def test_a_damaged_file_is_an_error_unless_somebody_takes_it(project: Session) -> None:
    (entry,) = project.store.find(study="demo", version="v3")
    entry.path.write_bytes(b"no profile")
    with pytest.raises(DataError):
        project.recorded()
    damaged: list[DataError] = []
    assert "v2" in project.recorded(damaged=damaged).shown.rungs and len(damaged) == 1


def test_what_is_not_comparable_is_refused_unless_it_is_forced(project: Session) -> None:
    profile = project.profile("v3")
    capture = replace(profile.capture, clock_control="other")
    project.store.save(replace(profile, capture=capture))
    with pytest.raises(wb.InconclusiveError, match="different clock policies"):
        project.diff("v2", "v3")
    assert project.diff("v2", "v3", force=True).comparison.reasons


def test_a_ladder_and_times(project: Session) -> None:
    ladder = project.ladder()
    assert [rung.id for rung in ladder.order] == ["v2", "v3", "library"]
    assert "demo n1024" in repr(ladder) and "v2" in repr(ladder.order[0])
    assert len(project.times()) == 3


def test_the_examples_of_the_documentation_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.test_documentation import fences

    monkeypatch.chdir(REPO)
    names: dict[str, object] = {"folder": tmp_path / "site"}
    blocks = list(fences(REPO / "docs" / "api.md", "python"))
    for block in blocks:
        exec(compile(block, "docs/api.md", "exec"), names)
    assert len(blocks) == 8 and (tmp_path / "site" / "index.html").exists()
    for page in (REPO / "workbench").glob("*/docs/**/*.md"):
        for block in fences(page, "python"):
            made = compile(block, page.name, "exec")
            exec("" if re.search("torch|numba|cupy", block) else made, {})
