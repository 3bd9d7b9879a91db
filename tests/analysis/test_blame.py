"""Account: every sample is put on the instruction that made the warp wait, and none is lost."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.factories import make_launch
from workbench.analysis.blame import STALLED, UNITS, Account, apportion, blame_launch, samples
from workbench.analysis.code import code_of
from workbench.model import Column, InstructionTable, Launch
from workbench.ncurep.read import read_report
from workbench.store import Entry, Store

LOOP = """
MOV R17, RZ
@!P1 LDG.E R17, desc[UR6][R4.64]
STS [R14], R17
BAR.SYNC.DEFER_BLOCKING 0x0
LDS R2, [R13]
LDS.64 R20, [R13+0x8]
FFMA R3, R2, R20, R3
IADD3 R4, R4, 0x80, RZ
@!P0 BRA 0x7f0000000000
STG.E desc[UR6][R6.64], R3
EXIT
BRA 0x7f00000000b0
"""


def kernel(text: str, stalls: Mapping[str, Mapping[int, int]], **counters: list[int]) -> Launch:
    """A launch of one instruction a line, with samples by ncu's state and row."""
    rows = tuple(text.strip().splitlines())
    columns = {
        STALLED + state: Column(rows=tuple(cells), values=tuple(cells.values()))
        for state, cells in stalls.items()
    }
    counters.setdefault("inst_executed", [32] * len(rows))
    for name, values in counters.items():
        cells = {row: value for row, value in enumerate(values) if value}
        columns[name] = Column(rows=tuple(cells), values=tuple(cells.values()))
    table = InstructionTable(
        address=tuple(range(0, 16 * len(rows), 16)),
        text=rows,
        file=(0,) * len(rows),
        line=tuple(range(1, len(rows) + 1)),
        columns=columns,
    )
    return make_launch(instructions=table)


def totals_of(found: Account) -> dict[int, dict[str, Fraction]]:
    """Row -> state -> samples that it is to blame for."""
    return {
        row: {state: Fraction(units, UNITS) for state, units in states.items()}
        for row, states in found.units().items()
    }


def blamed(text: str, state: str, row: int, **counters: list[int]) -> dict[int, float]:
    """Row -> share of 1,000 samples of one state at one row."""
    found = blame_launch(kernel(text, {state: {row: 1000}}, **counters))
    assert conserved(found, {row: 1000})
    shares: dict[int, float] = {}
    for at, states in totals_of(found).items():
        shares[at] = float(sum(states.values())) / 1000
    return shares


def conserved(found: Account, waited: Mapping[int, int]) -> bool:
    whole = sum((sum(states.values()) for states in totals_of(found).values()), Fraction())
    return whole == sum(waited.values())


def test_a_scoreboard_belongs_to_its_load() -> None:
    # The conditional load does not end the search, the unconditional move before it does.
    assert blamed(LOOP, "long_scoreboard", 2) == {1: 1.0}
    found = blame_launch(kernel(LOOP, {"long_scoreboard": {2: 7}}))
    (debt,) = found.debts
    assert debt.kind == "register" and [cause.via for cause in debt.causes] == ["R17"]


def test_a_short_scoreboard_is_shared_by_the_loads_that_are_still_out() -> None:
    shares = blamed(LOOP, "short_scoreboard", 6)
    # LDS.64 writes R20 and R21, and is one instruction away where the other is two.
    assert shares == pytest.approx({4: 1 / 3, 5: 2 / 3}, abs=1e-4)


def test_who_read_first_has_waited_already() -> None:
    text = "LDG.E R4, [R2]\nFADD R5, R4, R4\nFMUL R6, R4, R4\nEXIT"
    assert blamed(text, "long_scoreboard", 1) == {0: 1.0}
    # Row 2 cannot wait for R4: the nearest load stands in, by order and by no register.
    found = blame_launch(kernel(text, {"long_scoreboard": {2: 1}}))
    assert [(d.kind, [c.row for c in d.causes]) for d in found.debts] == [("order", [0])]


def test_through_a_move_and_around_the_loop() -> None:
    text = """
    LDG.E R9, [R2]
    MOV R4, R9
    FADD R5, R4, R5
    LDG.E R9, [R2]
    @P0 BRA 0x7f0000000010
    EXIT
    BRA 0x7f0000000060
    """
    shares = blamed(text, "long_scoreboard", 1)
    # From before the loop it is one instruction, from the end of the loop's body two.
    assert shares == pytest.approx({0: 2 / 3, 3: 1 / 3}, abs=1e-4)
    assert set(blamed(text, "long_scoreboard", 2)) == {0, 3}


def test_what_never_ran_is_not_to_blame() -> None:
    text = "LDG.E R4, [R2]\n@P0 LDG.E R4, [R6]\nFADD R5, R4, R4\nEXIT"
    assert set(blamed(text, "long_scoreboard", 2)) == {0, 1}
    assert blamed(text, "long_scoreboard", 2, inst_executed=[32, 0, 32, 32]) == {0: 1.0}


def test_overwriting_what_a_store_still_reads() -> None:
    text = "STS [R6], R15\nIADD3 R15, R15, 0x1, RZ\nEXIT"
    assert blamed(text, "short_scoreboard", 1) == {0: 1.0}


def test_waits_for_copies_belong_to_the_copies() -> None:
    text = """
    LDGSTS.E [R2], desc[UR4][R8.64]
    LDGDEPBAR
    LDGSTS.E [R3], desc[UR4][R8.64]
    LDGDEPBAR
    DEPBAR.LE SB0, {pending}
    BAR.SYNC 0x0
    EXIT
    """
    assert set(blamed(text.format(pending="0x0"), "long_scoreboard", 5)) == {0, 2}
    # One group may still be out: the wait is for the one before it.
    assert blamed(text.format(pending="0x1"), "long_scoreboard", 5) == {0: 1.0}


def test_drain_belongs_to_the_stores() -> None:
    # The sample of a warp in EXIT lies behind it.
    assert blamed(LOOP, "drain", 11) == {9: 1.0}


def test_a_throttle_belongs_to_what_fills_the_queue() -> None:
    wavefronts = [0] * 12
    wavefronts[2], wavefronts[4], wavefronts[5] = 1024, 32, 32
    shares = blamed(LOOP, "mio_throttle", 5, memory_l1_wavefronts_shared=wavefronts)
    # The store's conflicts keep the queue full; the load of the loop goes through it as well.
    assert shares == pytest.approx({1: 32 / 1120, 2: 1024 / 1120, 4: 32 / 1120, 5: 32 / 1120}, 1e-3)
    # The store behind the loop is no part of it.
    assert 9 not in shares
    assert blamed(LOOP, "math_pipe_throttle", 6) == {6: 1.0}


def test_a_barrier_keeps_its_wait_and_says_what_came_before_it() -> None:
    stalls = {"barrier": {4: 100}, "long_scoreboard": {2: 300}, "selected": {2: 100, 6: 50}}
    found = blame_launch(kernel(LOOP, stalls))
    (debt,) = [debt for debt in found.debts if debt.kind == "barrier"]
    assert [(cause.row, cause.units) for cause in debt.causes] == [(3, 100 * UNITS)]
    # Between two barriers, around the loop: the load's 300, the store's own 100 and FFMA's 50.
    passed = {cause.row: cause.units / UNITS for cause in debt.passed}
    assert passed == pytest.approx({1: 300 / 4.5, 2: 100 / 4.5, 6: 50 / 4.5}, abs=1e-3)
    assert sum(cause.units for cause in debt.passed) == 100 * UNITS


def test_warps_of_a_group_that_wait_for_one_another_do_not_wait_at_the_blocks_barrier() -> None:
    text = (
        "LDG.E R5, [R2]\nBAR.SYNC.DEFER_BLOCKING 0x0\nHGMMA.64x64x16.F32 R24, gdesc[UR4], R24\n"
        "WARPGROUP.DEPBAR.LE gsb0, 0x0\nLDS R2, [R13]\nEXIT"
    )
    assert blamed(text, "barrier", 3) == {3: 1.0}
    assert not blame_launch(kernel(text, {"barrier": {3: 100}})).debts
    (debt,) = blame_launch(kernel(text, {"barrier": {2: 100}})).debts
    assert debt.kind == "barrier"


def test_fixed_latency_branches_and_fences() -> None:
    assert blamed(LOOP, "wait", 8) == {8: 1.0}  # P0 is written nowhere
    text = "FADD R1, R2, R3\nFADD R4, R1, R1\nEXIT"
    assert blamed(text, "wait", 1) == {0: 1.0}
    assert blamed(LOOP, "branch_resolving", 0) == {8: 1.0}
    fence = "STG.E [R2], R4\nMEMBAR.SC.GPU\nLDG.E R5, [R2]\nEXIT"
    assert blamed(fence, "membar", 2) == {1: 1.0}
    group = "HGMMA.64x64x16.F32 R24, gdesc[UR4], R24\nWARPGROUP.DEPBAR.LE gsb0, 0x0\nEXIT"
    assert blamed(group, "gmma", 1) == {0: 1.0}


@pytest.mark.parametrize("state", ["selected", "not_selected", "imc_miss", "dispatch_stall"])
def test_what_nobody_else_caused_stays(state: str) -> None:
    assert blamed(LOOP, state, 6) == {6: 1.0}


def test_text_that_is_no_sass_is_followed_nowhere() -> None:
    launch = kernel("ld.global.f32 %f1, [%rd4];\nadd.f32 %f2, %f1, %f1;", {"selected": {1: 5}})
    found = blame_launch(launch)
    assert not found.known and found.own == {"selected": {1: 5}}


OPCODES = st.sampled_from([*LOOP.strip().splitlines()[:9], "MUFU.RCP R2, R3", "NOP", "gibberish"])
STATES = st.sampled_from(
    """
    long_scoreboard short_scoreboard wait barrier drain mio_throttle lg_throttle gmma
    math_pipe_throttle branch_resolving membar selected sleeping unheard_of
    """.split()  # noqa: SIM905
)


@given(
    lines=st.lists(OPCODES, min_size=1, max_size=30),
    cells=st.dictionaries(
        STATES, st.dictionaries(st.integers(0, 29), st.integers(1, 10**6), min_size=1)
    ),
)
def test_no_sample_is_lost_or_made(lines: list[str], cells: dict[str, dict[int, int]]) -> None:
    inside = {
        state: {row: count for row, count in rows.items() if row < len(lines)}
        for state, rows in cells.items()
    }
    launch = kernel("\n".join(lines), inside)
    found, waited = blame_launch(launch), samples(launch)
    per_state: dict[str, Fraction] = {}
    for states in totals_of(found).values():
        for state, amount in states.items():
            per_state[state] = per_state.get(state, Fraction()) + amount
    assert per_state == {state: sum(rows.values()) for state, rows in waited.items() if rows}
    for debt in found.debts:
        assert sum(cause.units for cause in debt.causes) == debt.samples * UNITS
        assert not debt.passed or sum(c.units for c in debt.passed) == debt.samples * UNITS


@given(
    amount=st.integers(0, 10**12), weights=st.lists(st.integers(0, 10**9), min_size=1, max_size=50)
)
def test_apportioned_shares_add_up(amount: int, weights: list[int]) -> None:
    shares = apportion(amount, weights)
    assert sum(shares) == amount
    whole = sum(weights)
    if whole:
        assert all(
            abs(s - amount * w / whole) < 1.001 for s, w in zip(shares, weights, strict=True)
        )


def test_recorded_waits_go_to_the_loads(report: Callable[[str], Path]) -> None:
    ladder = read_report(report("ladder_full"))
    launch = next(one for one in ladder.launches if one.kernel == "sgemm_v3")
    found, waited = blame_launch(launch), samples(launch)
    assert found.known
    texts = launch.instructions.text
    loads = {row for row, text in enumerate(texts) if "LDG" in text}
    whole = sum(waited["long_scoreboard"].values())
    # No load waits for a load, and all of them are to blame.
    assert sum(waited["long_scoreboard"].get(row, 0) for row in loads) < whole / 100
    totals = totals_of(found)
    share = sum(totals.get(row, {}).get("long_scoreboard", Fraction()) for row in loads) / whole
    assert share > Fraction(99, 100)


STORE = Store(Path(__file__).resolve().parent.parent.parent / "profiles")
RECORDED = [entry for entry in STORE.find(engine="ncu", device="h200") if entry.version]
#: States that have nothing to follow, and those that a register or a queue explains.
FOLLOWED = {
    "long_scoreboard": 0.9,
    "short_scoreboard": 0.9,
    "mio_throttle": 1.0,
    "lg_throttle": 0.99,
    "math_pipe_throttle": 1.0,
}
#: Half of these waits are for registers that a store in one arm of a condition still reads, and are
#: met behind the condition, where nothing follows them.
FOLLOWED_LESS = {("conv2d_int8/v17/n32_c128", "long_scoreboard"): 0.6}


def waits_for_a_phase(text: Sequence[str], row: int) -> bool:
    """Whether it is the branch of a loop that tries an mbarrier until its phase is over."""
    branch = re.match(r"@!?(P\d)\s+BRA", text[row])
    before = reversed(text[max(row - 24, 0) : row])
    return branch is not None and any(
        "SYNCS.PHASECHK" in line and branch[1] in line for line in before
    )


def name_of(entry: Entry) -> str:
    return f"{entry.study}/{entry.version}/{entry.problem}"


QUICK = [
    pytest.param(
        entry,
        id=name_of(entry),
        marks=() if n % 12 == 0 else pytest.mark.slow if n % 3 == 0 else pytest.mark.long,
    )
    for n, entry in enumerate(RECORDED)
]


@pytest.mark.parametrize("entry", QUICK)
def test_every_recorded_launch_keeps_its_samples_and_is_followed(entry: Entry) -> None:
    for launch in STORE.load(entry.path).launches:
        found, waited = blame_launch(launch), samples(launch)
        assert found.known
        units: dict[str, int] = {}
        for state, rows in found.own.items():
            units[state] = sum(rows.values()) * UNITS
        for debt in found.debts:
            owed = sum(cause.units for cause in debt.causes)
            assert owed == debt.samples * UNITS
            assert not debt.passed or owed == sum(cause.units for cause in debt.passed)
            units[debt.state] = units.get(debt.state, 0) + owed
        whole = {state: sum(rows.values()) * UNITS for state, rows in waited.items() if rows}
        assert units == whole
        for state, least in FOLLOWED.items():
            known = [debt.samples for debt in found.debts if debt.state == state]
            rows = waited.get(state, {})
            # A wait for an mbarrier's phase is for copies, or for other warps: nobody knows whom.
            text = launch.instructions.text
            phases = [samples for row, samples in rows.items() if waits_for_a_phase(text, row)]
            count = sum(rows.values()) - sum(phases)
            least = FOLLOWED_LESS.get((name_of(entry), state), least)
            # A handful of samples may lie anywhere.
            assert count < 200 or sum(known) >= least * count, (launch.kernel, state)


CODE = """MOV R1, 0x1
@!P0 BRA `(.L_x_0) 0x7f0000000040 ;
FADD R3, R2, 0x10
BRA 0x7f0000000010
STG.E [R4.64], R3
EXIT
BRA 0x7f0000000060"""


def test_targets_are_numbered_in_the_order_of_the_code() -> None:
    found = code_of(kernel(CODE, {}))
    assert found.labels == {1: ".L1", 4: ".L2", 6: ".L3"}
    assert found.texts[1] == "@!P0 BRA .L2"
    assert found.texts[3] == "BRA .L1"
    # Numbers that are no targets stay.
    assert found.texts[0] == "MOV R1, 0x1" and found.texts[2] == "FADD R3, R2, 0x10"


def test_another_runs_addresses_give_the_same_labels() -> None:
    moved = CODE.replace("0x7f00000000", "0x55aa000000")
    assert code_of(kernel(moved, {})) == code_of(kernel(CODE, {}))


def test_what_leads_out_of_the_kernel_keeps_its_address() -> None:
    out = CODE.replace("BRA 0x7f0000000010", "BRA 0x7f00000ff010")
    found = code_of(kernel(out, {}))
    assert found.texts[3] == "BRA 0x7f00000ff010" and 1 not in found.labels


def test_text_that_is_no_machine_code_stays_as_it_is() -> None:
    launch = kernel(CODE, {})
    table = replace(launch.instructions, text=("bra $L__BB0_2;",) * len(launch.instructions.text))
    found = code_of(replace(launch, instructions=table))
    assert not found.labels and set(found.texts) == {"bra $L__BB0_2"}
