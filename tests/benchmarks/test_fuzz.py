"""Damaged kernels that ran on a GPU, whose word the emulator must not contradict."""

from __future__ import annotations

import random
import re
import time
from functools import cache
from pathlib import Path

import pytest

from benchmarks.fuzz.cases import Case
from benchmarks.fuzz.comparison import disagrees, fault_of, relation, same_values
from benchmarks.fuzz.crew import Answer, Begun, run
from benchmarks.fuzz.emulated import emulated, meaning
from benchmarks.fuzz.findings import Finding, Status, line_of, read, replay, write
from benchmarks.fuzz.mutations import KINDS, mutate, statements

REPO = Path(__file__).resolve().parent.parent.parent
ROOTS = (REPO, REPO / "tests/data/unseen")
#: What the GPU said of some mutants: `benchmarks.fuzz gpu` on an H200.
RECORDED = read(REPO / "tests/data/fuzz.jsonl")
#: Those of small kernels, which stand for all where there is little time.
QUICK = [
    n for n, one in RECORDED.items() if re.match("scale_add|gather|transpose|reduce", one.title)
]

PTX = """.visible .entry k(
	.param .u64 k_param_0
)
{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<5>;
	.reg .b64 	%rd<5>;

	ld.param.u64 	%rd1, [k_param_0];
	mov.u32 	%r1, %tid.x;
	setp.lt.s32 	%p1, %r1, 7;
	@%p1 bra 	$L__BB0_2;

	shl.b32 	%r2, %r1, 2;
	sub.s32 	%r3, %r2, %r1;
	mul.wide.s32 	%rd2, %r3, 4;
	add.s64 	%rd3, %rd1, %rd2;
	bar.sync 	0;
	st.global.u32 	[%rd3+8], %r3;

$L__BB0_2:
	ret;
}
"""


@cache
def again(number: int) -> Case | None:
    return replay(ROOTS, RECORDED[number])


def agree(number: int) -> None:
    """The emulator's word on a recorded mutant does not contradict the GPU's."""
    case = again(number)
    if case is None:
        pytest.skip("the PTX of this version is another by now")
    ours, theirs = emulated(case), RECORDED[number]
    assert not disagrees(ours, theirs), f"{relation(ours, theirs)}: {ours} {theirs}"


def test_mutants_can_be_made_again() -> None:
    """Else nothing is compared: then the GPU has to be asked anew (`make fuzz-gpu`)."""
    made = [number for number in QUICK if again(number) is not None]
    assert len(made) >= 0.75 * len(QUICK)


@pytest.mark.parametrize("number", QUICK)
def test_the_emulator_does_not_contradict_a_gpu(number: int) -> None:
    agree(number)


@pytest.mark.slow
@pytest.mark.parametrize("number", sorted(RECORDED))
def test_the_emulator_contradicts_a_gpu_nowhere(number: int) -> None:
    agree(number)


@pytest.mark.slow
def test_most_recorded_mutants_can_still_be_made() -> None:
    assert sum(again(number) is not None for number in RECORDED) >= 40


def test_every_kind_of_edit_changes_one_statement() -> None:
    seen = set()
    for seed in range(200):
        text, edit = mutate(PTX, random.Random(seed))
        seen.add(edit.kind)
        before, after = PTX.split("\n"), text.split("\n")
        changed = [at for at, line in enumerate(before, 1) if line != after[at - 1]]
        assert changed == [edit.line]
        assert edit.before == " ".join(before[edit.line - 1].split())
        assert edit.after == " ".join(after[edit.line - 1].split())
        assert mutate(PTX, random.Random(seed)) == (text, edit)
    assert seen == set(KINDS)


def test_statements_leave_declarations_and_labels_out() -> None:
    found = [(one.line, one.opcode) for one in statements(PTX)]
    assert found[0] == (9, "ld.param.u64")
    assert len(found) == 10  # `ret` has nothing to change


def said(status: Status, error: float | None = None, **more: int) -> Finding:
    return Finding(1, "s v p", "bound", 3, "a", "b", status, error=error, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ours", "theirs", "at_fault"),
    [
        (said("right"), said("right"), False),
        (said("right"), said("wrong"), True),
        (said("right"), said("fault"), True),
        (said("right"), said("hung"), True),
        (said("right"), said("refused"), False),
        (said("wrong", 0.5), said("wrong", 0.5001), False),
        (said("wrong", 0.5), said("wrong", 0.6), True),
        (said("wrong", 0.5, far_off=3), said("wrong", 0.5, far_off=4), True),
        (said("wrong"), said("wrong", 0.5), True),
        (said("wrong", 0.5), said("right"), True),
        (said("fault"), said("right"), False),
        (said("broken"), said("refused"), True),
        (said("hung"), said("hung"), True),
    ],
)
def test_what_counts_as_the_emulators_fault(ours: Finding, theirs: Finding, at_fault: bool) -> None:
    assert disagrees(ours, theirs) is at_fault


def test_wrong_results_are_the_same_if_as_much_is_off() -> None:
    assert same_values(said("wrong"), said("wrong"))
    assert not same_values(said("wrong", unwritten=1), said("wrong"))


def test_kinds_of_faults_have_no_places() -> None:
    words = "k/v0.cu:3 (in system/a.hpp:7): shared-memory race in a warp: thread (0, 0, 0) reads"
    one = Finding(1, "s v p", "bound", 3, "a", "b", "fault", said=words)
    assert fault_of(one) == "shared-memory race in a warp"


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("k.cu:3: out of bounds: thread", "fault"),
        ("k.cu:3: kernel k is still running after 3 instructions", "endless"),
        ("k.cu:3: kernel k: the emulator does not support `tex`", "refused"),
        ("k.cu:3: kernel k: the emulator cannot run `popc` with these values", "broken"),
    ],
)
def test_messages_are_understood(message: str, status: Status) -> None:
    assert meaning(message) == status


def test_findings_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "found.jsonl"
    one = said("wrong", 0.5, far_off=3)
    write(path, [one])
    assert read(path) == {1: one}
    assert path.read_bytes() == line_of(one)
    assert read(tmp_path / "none") == {}


def test_children_that_die_or_hang_are_replaced() -> None:
    def work(number: int, begun: Begun) -> Answer:
        begun()
        if number == 2:
            raise SystemExit(3)
        if number == 3:
            time.sleep(60)
        return Answer(finding_of(number, "right"), alive=number != 4)

    def finding_of(number: int, status: Status, _said: str = "") -> Finding:
        return Finding(number, "s v p", "bound", 3, "a", "b", status)

    found = {
        one.number: one.status for one in run(range(7), work, finding_of, processes=2, seconds=1.0)
    }
    assert found == {0: "right", 1: "right", 2: "broken", 3: "hung", 4: "right", 5: "right",
                     6: "right"}  # fmt: skip
