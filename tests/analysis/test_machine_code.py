"""Machine code of a hunk on both sides: classes, alignment, registers live."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.analysis.test_blame import kernel
from tests.factories import make_launch
from workbench.analysis.code import flow_between, targets_of
from workbench.analysis.listing import Listing, hunk_codes, live_registers
from workbench.cli import app
from workbench.model import InstructionTable
from workbench.sass import parse, role, shape
from workbench.store import Store

STORE = Store(Path(__file__).resolve().parent.parent.parent / "profiles")


def listing(text: str) -> Listing:
    return Listing(kernel(text, {"selected": {0: 1}}))


def live(text: str) -> list[int]:
    rows = text.strip().splitlines()
    operations = [parse(row) for row in rows]
    return live_registers(
        operations,
        flow_between(operations, targets_of(operations, [16 * n for n in range(len(rows))], {})),
    )


def test_registers_are_live_from_their_write_to_their_last_read() -> None:
    text = """
    MOV R1, 0x1
    MOV R2, 0x2
    FADD R3, R1, R2
    STG.E [R4.64], R3
    EXIT
    """
    # R4 and R5, the address, are live from the start; R1 and R2 die in the sum.
    assert live(text) == [3, 4, 4, 3, 0]


def test_a_value_is_live_around_the_loop_and_under_a_condition() -> None:
    text = """
    MOV R1, 0x1
    @P1 MOV R2, R1
    FADD R3, R2, R3
    @P0 BRA 0x7f0000000010
    STG.E [R4.64], R3
    EXIT
    BRA 0x7f0000000060
    """
    # R1 is read again by the next turn; R2 may keep its old value, so it is live before.
    assert live(text)[3] == 5


def test_a_kernel_without_machine_code_has_no_flow_and_nothing_is_live() -> None:
    assert flow_between((), {}).first == []
    assert Listing(make_launch(instructions=InstructionTable())).live == []


@pytest.mark.parametrize(
    ("text", "named", "job"),
    [
        ("LDG.E.128.CONSTANT R4, desc[UR4][R2.64]", "LDG.128", "global load"),
        ("LDGSTS.E.BYPASS.128 [R2], desc[UR4][R4.64]", "LDGSTS.BYPASS.128", "shared store"),
        ("HMMA.16816.F32 R4, R8, R12, R4", "HMMA.16816.F32", "product"),
        ("IMAD.MOV.U32 R4, RZ, RZ, R5", "IMAD.MOV", "move"),
        ("IMAD R4, R5, R6, R7", "IMAD", "integer"),
    ],
)
def test_shapes_and_roles(text: str, named: str, job: str) -> None:
    operation = parse(text)
    assert (shape(operation), role(operation)) == (named, job)


def test_recorded_step_narrows_its_shared_loads() -> None:
    old, new = (
        STORE.load(STORE.find(study="sgemm", version=v, problem="n4096", device="h200")[0].path)
        for v in ("v4", "v5")
    )
    codes = hunk_codes(old, new)
    found = {(one.old, one.new): one.rows for each in codes for one in each.code.replaced}
    assert found["LDS.128", "LDS.64"] == 32
    assert found["STG.128", "STG.64"] >= 15
    for each in codes:
        assert max(each.code.old.live, each.code.new.live) <= 128  # what v4 was given


def test_diff_shows_it_where_asked() -> None:
    runner = CliRunner()
    plain = runner.invoke(app, ["diff", "sgemm/v4", "sgemm/v5"])
    assert plain.exit_code == 0 and "machine code" not in plain.output
    shown = runner.invoke(app, ["diff", "sgemm/v4", "sgemm/v5", "--sass"])
    assert shown.exit_code == 0
    assert "LDS.128 → LDS.64 (32×)" in shown.output and "registers live" in shown.output
    document = json.loads(
        runner.invoke(app, ["diff", "sgemm/v4", "sgemm/v5", "--sass", "--format", "json"]).output
    )
    codes = document["machine_code"]
    assert any(one["old"] == "LDS.128" for code in codes for one in code["replaced"])
    assert sum(len(code["rows"]) for code in codes) > 1000
