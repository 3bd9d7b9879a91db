"""Damaged kernels that ran on a GPU, whose word the emulator must not contradict."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.fuzz.comparison import disagrees, relation
from benchmarks.fuzz.emulated import emulated
from benchmarks.fuzz.findings import read, replay

REPO = Path(__file__).resolve().parent.parent.parent
ROOTS = (REPO, REPO / "tests/data/unseen")
#: What the GPU said of some mutants: `benchmarks.fuzz gpu` on an H200.
RECORDED = read(REPO / "tests/data/fuzz.jsonl")
#: Those of small kernels, which stand for all where there is little time.
QUICK = [
    n for n, one in RECORDED.items() if re.match("scale_add|gather|transpose|reduce", one.title)
]


def agree(number: int) -> None:
    """The emulator's word on a recorded mutant does not contradict the GPU's."""
    case, theirs = replay(ROOTS, RECORDED[number]), RECORDED[number]
    assert case is not None, "the PTX is another by now: take the line out of fuzz.jsonl"
    ours = emulated(case)
    assert not disagrees(ours, theirs), f"{relation(ours, theirs)}: {ours} {theirs}"


@pytest.mark.parametrize("number", QUICK)
def test_the_emulator_does_not_contradict_a_gpu(number: int) -> None:
    agree(number)


@pytest.mark.slow
@pytest.mark.parametrize("number", sorted(RECORDED))
def test_the_emulator_contradicts_a_gpu_nowhere(number: int) -> None:
    agree(number)
