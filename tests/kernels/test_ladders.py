"""Every shipped ladder keeps what the tables say of it: story, sizes, code, refusals, mistakes."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest

from tests import ladders
from tests.kernels import tables
from tests.kernels.tables import JOBS, STUDIES, Mistake
from workbench.model import Problem
from workbench.specs import Version
from workbench.store import Store
from workbench.store.codec import decode_totals
from workbench.study.folder import Study, source_hash

shipped = functools.cache(ladders.shipped)


#: The quick tests take a sample: the first mistake of each ladder, the rung that it is about, and
#: the first and the last one. The slow tests take all rungs, and of the other mistakes each fifth;
#: `make test-long` takes the rest.
SAMPLE = {
    name: {ids[0], ids[-1], tables.MISTAKES[name][0].version}
    for name in STUDIES
    for ids in [[version.id for version in ladders.rungs(shipped(name))]]
}


def slow_unless(quick: bool, later: bool = False) -> Any:
    slow = pytest.mark.long if later else pytest.mark.slow
    return () if quick else slow


def problem_of(study: Study, text: str) -> Problem:
    """One of the study's, or one that is made: ``M=3 N=5 K=16``."""
    if "=" not in text:
        return study.problem(text)
    pairs = (each.split("=") for each in text.split())
    return Problem(name="made", parameters={name: int(value) for name, value in pairs})


def rows(table: dict[str, Any]) -> list[Any]:
    """Each row of each ladder with the ladder's name."""
    return [
        pytest.param(study, *row, id=f"{study}-{row[0]}-{row[1]}".replace(" ", "_"))
        for study in STUDIES
        for row in table.get(study, ())
    ]


def versions_of(study: Study, words: str) -> list[Version]:
    found = ladders.rungs(study) if words == "*" else map(study.version, words.split())
    return list(found)


# --- what a ladder is ------------------------------------------------------------------


@pytest.mark.parametrize("name", STUDIES)
def test_each_rung_says_what_it_changed_and_what_it_expects(name: str) -> None:
    ladders.check_story(shipped(name))


@pytest.mark.parametrize("name", tables.PARENTS)
def test_each_rung_goes_on_from_where_it_says(name: str) -> None:
    study, parents = shipped(name), tables.PARENTS[name]
    in_cuda = [version for version in ladders.rungs(study) if version.kind == "cuda"]
    for before, version in itertools.pairwise(in_cuda):
        assert version.parent == parents.get(version.id, before.id)


@pytest.mark.parametrize("name", STUDIES)
def test_its_problems_are_those_of_the_job(name: str) -> None:
    study, job = shipped(name), JOBS[name]
    assert study.problem().name == job.default
    assert tuple(each.name for each in study.problems_for("profile")) == job.profiled
    assert len(study.problems_for("sweep")) == job.swept
    assert max(study.flops(each) for each in study.problems_for("verify")) < job.verified


@pytest.mark.parametrize("name", STUDIES)
def test_work_and_traffic(name: str) -> None:
    study = shipped(name)
    for problem, (flops, size) in JOBS[name].work.items():
        assert study.flops(study.problem(problem)) == flops, problem
        assert study.bytes(study.problem(problem)) == size, problem


@pytest.mark.parametrize(
    ("name", "problem", "atol"),
    [(name, *each) for name in STUDIES for each in JOBS[name].sampled.items()],
)
def test_single_outputs_are_those_of_the_whole(name: str, problem: str, atol: float) -> None:
    study = shipped(name)
    assert study.can_sample
    ladders.check_sampled_reference(study, problem_of(study, problem), atol=atol)


@pytest.mark.parametrize("name", STUDIES)
def test_a_library_says_why_it_cannot_run_here(name: str) -> None:
    study, (first, *others) = shipped(name), JOBS[name].baselines
    assert study.baseline is not None
    assert study.baseline.id == first
    found = [version.id for version in study.versions.values() if version.baseline]
    assert sorted(found) == sorted([first, *others])
    for each in found:
        ladders.check_library_says_why(study, each)


@pytest.mark.parametrize(("name", "versions", "problem", "sentence"), rows(tables.REFUSED))
def test_what_a_rung_cannot_do_is_refused_with_the_reason(
    name: str, versions: str, problem: str, sentence: str
) -> None:
    study = shipped(name)
    for version in versions_of(study, versions):
        ladders.check_refused(study, version, problem_of(study, problem), sentence)


@pytest.mark.parametrize(("name", "versions", "problem"), rows(tables.NOT_REFUSED))
def test_what_is_next_to_it_is_done(name: str, versions: str, problem: str) -> None:
    study = shipped(name)
    for version in versions_of(study, versions):
        study.check_requirements(version, problem_of(study, problem))


@pytest.mark.parametrize("name", STUDIES)
def test_no_kernel_was_edited_since_it_was_recorded(name: str) -> None:
    """So its instructions are still those that its step is about, and that the docs tell of."""
    study, store = shipped(name), Store.of(ladders.PROJECT)
    for entry in store.find(study=name, engine="ncu"):
        now = source_hash(ladders.PROJECT, study.version(entry.version))
        assert decode_totals(entry.path).source_hash == now, entry.path


# --- what it is compiled to ------------------------------------------------------------------


def _clean() -> list[Any]:
    """Each version and what it is compiled for; what is for one chip alone, for no other.

    For the other chip the slow tests take each third one, and all that the quick ones take.
    """
    return [
        pytest.param(
            *(name, version.id, arch),
            marks=slow_unless(
                arch == "sm_90" and version.id in SAMPLE[name],
                later=arch != "sm_90" and place % 3 > 0 and version.id not in SAMPLE[name],
            ),
        )
        for name in STUDIES
        for place, version in enumerate(ladders.rungs(shipped(name)))
        for arch in ("sm_80", "sm_90")
        if arch == "sm_90"
        or not (version.arch_specific or version.id in tables.NOT_ON_8_0.get(name, ()))
    ]


@ladders.needs_compiler
@pytest.mark.parametrize(("name", "version", "arch"), _clean())
def test_every_rung_compiles_clean(name: str, version: str, arch: str) -> None:
    """Without warnings, local memory and spills; as small as its blocks need it."""
    study = shipped(name)
    ladders.check_clean_build(study.version(version), arch)
    found = {each.name: each for each in ladders.built(study.version(version), arch).resources}
    assert {each.kernel for each in study.version(version).launches} == found.keys()
    kernel = found.get(tables.KERNEL.get(name, ""), next(iter(found.values())))
    assert kernel.registers <= tables.REGISTERS.get(name, {}).get(version, 255)


# --- mistakes, and how they are found ----------------------------------------------------------


def _mistakes(table: dict[str, list[Mistake]]) -> list[Any]:
    return [
        pytest.param(
            name,
            row,
            id=f"{name}-{row.version}-{row.problem}-{row.says}".replace(" ", "_"),
            marks=slow_unless(place == 0, later=place % 5 > 0),
        )
        for name in table
        for place, row in enumerate(table[name])
    ]


@functools.cache
def verdict(name: str, version: str, problem: str) -> str:
    study = shipped(name)
    return ladders.verdict(study, study.version(version), problem_of(study, problem))


@ladders.needs_compiler
@pytest.mark.parametrize(("name", "row"), _mistakes(tables.MISTAKES))
def test_the_emulator_finds_a_kernel_that_is_wrong(name: str, row: Mistake) -> None:
    study = shipped(name)
    broken = ladders.mutated(study.version(row.version), row.right, row.wrong)
    said = ladders.verdict(study, broken, problem_of(study, row.problem))
    assert any(word in said for word in row.says.split("|")), said or "nothing"
    assert verdict(name, row.version, row.problem) == ""  # and nothing where nothing is
