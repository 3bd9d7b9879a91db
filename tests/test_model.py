"""The waist: records survive JSON, and line sums lose nothing."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.model import Column, Device, InstructionTable, Launch, Profile, line_counters


@st.composite
def launches(draw: st.DrawFn) -> Launch:
    """A launch with random instructions, lines and sparse integer columns."""
    n = draw(st.integers(0, 30))
    columns = {}
    for name in draw(st.lists(st.sampled_from(["a", "b", "c"]), unique=True)):
        rows = draw(st.lists(st.integers(0, n - 1), unique=True)) if n else []
        values = [draw(st.integers(1, 2**40)) for _ in rows]
        columns[name] = Column(rows=tuple(rows), values=tuple(values))
    table = InstructionTable(
        address=tuple(16 * i for i in range(n)),
        text=("NOP",) * n,
        file=tuple(draw(st.integers(-1, 2)) for _ in range(n)),
        line=tuple(draw(st.integers(0, 9)) for _ in range(n)),
        columns=columns,
    )
    return Launch(kernel="k", index=0, instructions=table)


@given(launches())
def test_line_sums_equal_instruction_sums_exactly(launch: Launch) -> None:
    totals: dict[str, int | float] = {}
    for counters in line_counters(launch).values():
        for name, value in counters.items():
            totals[name] = totals.get(name, 0) + value
    expected = {n: sum(c.values) for n, c in launch.instructions.columns.items() if c.values}
    assert totals == expected


@given(launches())
def test_a_profile_survives_json(launch: Launch) -> None:
    profile = Profile(
        engine="ncu",
        device=Device(name="NVIDIA H200", slug="h200"),
        captured="",
        launches=(launch,),
    )
    assert msgspec.json.decode(msgspec.json.encode(profile), type=Profile) == profile


def test_wrong_shape_is_a_validation_error() -> None:
    with pytest.raises(msgspec.ValidationError, match="engine"):
        msgspec.json.decode(b'{"engine": "nsys"}', type=Profile)
