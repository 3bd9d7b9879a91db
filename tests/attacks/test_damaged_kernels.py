"""Damaged kernels: each is right, wrong, at fault or refused, with a line, and soon."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.attacks import harness
from tests.attacks.book import Portion, Turn, book, dealt
from tests.attacks.mutants import REPO, any_version, cuda_mutant, ptx_mutant
from workbench.engines import Subject

pytestmark = [pytest.mark.attack, pytest.mark.timeout(3000)]

PTX, CUDA = 2000, 300
PARTS = 10
#: Where a damaged kernel is told to be wrong.
_PLACE = re.compile(
    r"\.(?:cu|cuh|h|hpp|py):\d+|PTX line \d+|kernel \w+|gives a wrong result|does not compile"
)
_LIMITS = "--engine emulator --timeout 50 --instruction-limit 20000 --seed 1"


@pytest.fixture
def copy(root: Path) -> Path:
    """The shipped studies, in a project that may be written to."""
    shutil.copytree(REPO / "kernels", root / "kernels", dirs_exist_ok=True)
    return root


def judge(act: Callable[[], object], root: Path, turn: Turn) -> None:
    ended = harness.run(act, root, turn.kind)
    # 6: what the emulator refuses is not judged.
    told = ended.code == 0 or (ended.code in (2, 4, 5, 6) and bool(_PLACE.search(ended.text)))
    book.must(told, turn.kind, ended)


@pytest.mark.parametrize("portion", dealt("PTX mutants", PTX, PARTS))
def test_ptx(copy: Path, portion: Portion) -> None:
    for turn in book.turns(portion):
        subject = any_version(turn.rng)
        judge(damaged(subject, turn.rng), copy, turn)


def damaged(subject: Subject, rng: random.Random) -> Callable[[], object]:
    """``verify`` of a version whose compiler gives a mutant of its PTX."""
    assert subject.built is not None
    build = msgspec.structs.replace(
        subject.built.build, ptx=ptx_mutant(subject.built.build.ptx, rng), arch="sm_90"
    )
    built = msgspec.structs.replace(subject.built, build=build)
    what = f"{subject.study.name}/{subject.version.id} --problem {subject.problem.name}"

    def act() -> object:
        from workbench.engines.emulated import engine

        setattr(engine, "build", lambda *_, **__: built)  # noqa: B010 - it is not theirs to export
        return harness.command(f"verify {what} {_LIMITS}")()

    return act


@pytest.mark.nvcc
@pytest.mark.parametrize("portion", dealt("CUDA mutants", CUDA, PARTS))
def test_cuda(copy: Path, portion: Portion) -> None:
    for turn in book.turns(portion):
        subject = any_version(turn.rng)
        while not subject.version.path.endswith(".cu"):
            subject = any_version(turn.rng)
        path = copy / subject.version.path
        plain = path.read_text()
        path.write_text(cuda_mutant(plain, turn.rng))
        what = f"{subject.study.name}/{subject.version.id} --problem {subject.problem.name}"
        judge(harness.command(f"verify {what} {_LIMITS}"), copy, turn)
        path.write_text(plain)
