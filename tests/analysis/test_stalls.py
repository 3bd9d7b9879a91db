"""Shares of warp time: from samples, from ratios, per line; they always add up."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_instructions, make_launch
from workbench.analysis.limits.limit import breakdown, heaviest_states, sampled_lines
from workbench.counters import catalog
from workbench.model import InstructionTable, Metric

STATES = [counter.line for counter in catalog().group("stalls") if counter.line]


def test_without_samples_the_ratios_are_used() -> None:
    found = breakdown(make_launch(instructions=InstructionTable()))
    assert found.source == "ratios" and {share.samples for share in found.shares} == {None}
    shares = {share.state.id: share.share for share in found.shares}
    assert shares["mio_throttle"] == pytest.approx(33.0 / 44.0)
    assert sum(shares.values()) == pytest.approx(1.0)


def test_two_samples_are_no_evidence() -> None:
    table = make_instructions(
        smsp__pcsamp_warps_issue_stalled_wait={0: 2}, smsp__pcsamp_sample_count={0: 2}
    )
    found = breakdown(make_launch(instructions=table))
    assert found.source == "ratios" and found.top and found.top.state.id == "mio_throttle"
    metrics = {counter.names[0]: Metric(value=1.0) for counter in catalog().group("stalls")}
    for n, source in ((999, "ratios"), (1000, "samples")):  # if counters of all states are known
        many = make_instructions(smsp__pcsamp_warps_issue_stalled_wait={0: n})
        assert breakdown(make_launch(instructions=many, metrics=metrics)).source == source
    assert [line.telling for line in sampled_lines(make_launch(instructions=table))] == [False]
    # Without ratios they are all there is.
    assert breakdown(make_launch(instructions=table, metrics={})).source == "samples"


def test_without_either_there_is_nothing_to_show() -> None:
    found = breakdown(make_launch(metrics={}, instructions=InstructionTable()))
    assert (found.source, found.shares, found.top) == ("", (), None)
    alone = {catalog()["dispatch_stall"].names[0]: Metric(value=3.0, unit="inst")}
    assert not breakdown(make_launch(metrics=alone, instructions=InstructionTable())).shares


def test_the_reports_own_total_counts_where_there_is_one() -> None:
    # Samples of states that the catalog does not know are samples, too.
    table = make_instructions(
        smsp__pcsamp_sample_count={0: 10, 2: 90}, smsp__pcsamp_warps_issue_stalled_barrier={2: 60}
    )
    first, second = sampled_lines(make_launch(instructions=table))
    assert (first.samples, first.share, second.samples) == (90, 0.9, 10)
    assert [share for _, share in first.stalls] == [60 / 90] and second.stalls == ()


def test_no_state_is_more_than_all_of_a_line() -> None:
    # Counted in a pass of its own: 101 samples of a state on a line that has 100 in all.
    table = make_instructions(
        smsp__pcsamp_sample_count={0: 100}, smsp__pcsamp_warps_issue_stalled_barrier={0: 101}
    )
    (line,) = sampled_lines(make_launch(instructions=table))
    assert line.samples == 100 and [share for _, share in line.stalls] == [1.0]


def test_reports_without_a_total_add_up_their_states() -> None:
    launch = make_launch()
    columns = dict(launch.instructions.columns)
    del columns["smsp__pcsamp_sample_count"]
    table = msgspec.structs.replace(launch.instructions, columns=columns)
    lines = sampled_lines(msgspec.structs.replace(launch, instructions=table))
    assert [line.samples for line in lines] == [800, 120, 80]
    assert sampled_lines(make_launch(instructions=InstructionTable())) == ()


def test_instructions_without_a_line_count_in_the_total_only() -> None:
    launch = make_launch()
    table = msgspec.structs.replace(launch.instructions, line=(0, 3, 4, 5, 5))
    lines = sampled_lines(msgspec.structs.replace(launch, instructions=table))
    assert sum(line.share for line in lines) == pytest.approx(0.9)


@given(
    st.dictionaries(
        st.sampled_from(STATES),
        st.dictionaries(st.integers(0, 4), st.integers(0, 10**6), min_size=1),
        min_size=1,
    )
)
def test_shares_add_up_to_one_or_there_are_none(columns: dict[str, dict[int, int]]) -> None:
    launch = make_launch(metrics={}, instructions=make_instructions(**columns))
    found, lines = breakdown(launch), sampled_lines(launch)
    total = sum(sum(cells.values()) for cells in columns.values())
    assert sum(share.share for share in found.shares) == pytest.approx(1.0 if total else 0.0)
    assert sum(line.samples for line in lines) == total


def test_states_are_weighed_by_their_shares_and_not_by_the_slow_version() -> None:
    slow = {"selected": 6.0, "barrier_stall": 3.0, "wait_stall": 1.0}
    fast = {"barrier_stall": 0.09, "wait_stall": 0.01}
    # Every share that is seen anywhere has its name.
    assert heaviest_states([slow, fast], 1) == [
        ("Barrier", ["barrier_stall"]),
        ("Selected (issuing)", ["selected"]),
        ("All others", ["wait_stall"]),
    ]
    titles = [title for title, _ in heaviest_states([slow, fast], 3)]
    assert titles == ["Barrier", "Selected (issuing)", "Wait"]
