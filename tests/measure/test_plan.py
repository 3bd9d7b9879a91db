"""What a campaign has to do: problems by pattern, combinations, and what is stored of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.factories import make_timing
from workbench.errors import UsageError
from workbench.measure.plan import UnableError, by_work, chosen, recorded, to_time
from workbench.model import Notice, Timing
from workbench.project import Project
from workbench.store import Store
from workbench.study.folder import Study, load_study, source_hash

# The fixtures above are arguments below.

Edit = Callable[[str, str, str], None]
KEYS = [("v0", "n1000"), ("library", "n1000"), ("v0", "n7")]


@pytest.fixture
def sized(project: Project, project_file: Edit) -> Study:
    """The study with sweep sizes, out of order."""
    sizes = ", ".join(f'"s{n}": {{"n": {n}, "uses": ("sweep",)}}' for n in (64, 16, 2048))
    project_file("study.py", "problems = {", f"problems = {{ {sizes},")
    return load_study(project, "double")


def test_patterns_choose_among_what_is_timed_and_names_among_all(sized: Study) -> None:
    def timed(name: str | None, every: bool = False) -> list[str]:
        return [each.problem.name for each in to_time(sized, sized.version("v0"), name, every)]

    assert timed(None) == ["n1000"] and timed("n7") == ["n7"]
    assert sorted(timed(None, every=True)) == ["n1000", "s16", "s2048", "s64"]
    assert sorted(timed("s?4,s1*")) == ["s16", "s64"] and timed("n7,s16,s16") == ["n7", "s16"]
    assert timed("n*") == ["n1000"]  # n7 is for verifying alone
    for wrong in ("s65,s64", "x*"):
        with pytest.raises(UsageError, match="study double has no problem"):
            timed(wrong)
    assert [p.name for p in by_work(sized, sized.problems_for("sweep"))] == ["s16", "s64", "s2048"]


def test_a_version_is_run_on_what_it_can_do_and_says_why_it_can_do_nothing(
    sized: Study, project: Project, project_file: Edit
) -> None:
    needs = 'requires = "n > 16"\nrequires_why = "tiles of 17"\n[[launch]]'
    project_file("v0_plain.cu", "[[launch]]", needs)
    study = load_study(project, "double")
    v0, library = study.version("v0"), study.version("library")
    assert [each.problem.name for each in chosen(study, v0, None, "verify")] == ["n1000"]
    assert [each.problem.name for each in to_time(study, v0, None, True)] == [
        "n1000",
        "s64",
        "s2048",
    ]
    assert [each.key for each in chosen(study, library, "n7", "verify")] == [("library", "n7")]
    for name in ("n7", "s16"):
        with pytest.raises(UnableError, match="tiles of 17"):
            chosen(study, v0, name, "verify")


# --- the store ------------------------------------------------------------------------------


@pytest.fixture
def store(project: Project, study: Study) -> Callable[..., None]:
    """``store("v0", "n7", cache="warm")`` records a time as `workbench time` would."""

    def save(version: str, problem: str, **changes: Any) -> None:
        beside = study.versions["library"]
        fields: dict[str, Any] = {
            "study": "double",
            "version": version,
            "problem": problem,
            "source_hash": source_hash(project, study.version(version)),
        }
        if version != "library":
            fields |= {"baseline": "library", "baseline_hash": source_hash(project, beside)}
        Store.of(project).save_timing(make_timing(**(fields | changes)))

    return save


def held(project: Project, **options: Any) -> list[tuple[str, str]]:
    study = load_study(project, "double")
    return sorted(recorded(project, study, KEYS, "h200", **options).current)


def test_the_same_sources_hold(project: Project, store: Callable[..., None]) -> None:
    for key in KEYS:
        store(*key)
    assert held(project) == sorted(KEYS)
    assert held(project, cache="warm") == []
    found = recorded(project, load_study(project, "double"), KEYS[:1], "h200")
    assert list(found.current) == KEYS[:1] and not found.stale
    assert recorded(project, load_study(project, "double"), KEYS, "a100").current == {}


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, True),
        ({"source_hash": "b" * 64}, False),
        ({"baseline_hash": ""}, True),  # from before it was kept
        ({"baseline_hash": "b" * 64}, False),
        ({"baseline": "cublas"}, False),
        ({"baseline": "", "baseline_hash": ""}, False),  # from before there was a baseline
        (
            {
                "baseline": "",
                "baseline_hash": "",
                "notices": (Notice(code="no-baseline", message="not installed"),),
            },
            True,
        ),
        ({"converged": False}, True),
    ],
)
def test_what_makes_a_time_hold(
    project: Project, store: Callable[..., None], changes: dict[str, Any], holds: bool
) -> None:
    store("v0", "n7", **changes)
    assert held(project) == ([("v0", "n7")] if holds else [])
    found = recorded(project, load_study(project, "double"), KEYS, "h200")
    assert list(found.stale) == ([] if holds else [("v0", "n7")])


def test_times_from_before_a_moment_do_not_hold(
    project: Project, store: Callable[..., None]
) -> None:
    store("v0", "n7", captured="2026-11-20T10:05:00Z")
    store("v0", "n1000", captured="2026-11-21T10:05:00Z")
    assert held(project, since="2026-11-21") == [("v0", "n1000")]
    assert held(project, since="2026-11-21T10:05:00Z") == [("v0", "n1000")]
    assert held(project, since="2026-11-21T10:05:01Z") == []


def test_a_study_whose_baseline_was_taken_away_measures_anew(
    project: Project, store: Callable[..., None]
) -> None:
    store("v0", "n7")
    (project.kernels / "double" / "library.py").unlink()
    assert held(project) == []
    store("v0", "n7", baseline="", baseline_hash="")
    assert held(project) == [("v0", "n7")]


def test_records_without_the_baselines_hash_still_decode() -> None:
    text = msgspec.json.encode(make_timing(baseline="library"))
    assert b"baseline_hash" not in text
    assert msgspec.json.decode(text, type=Timing).baseline_hash == ""
