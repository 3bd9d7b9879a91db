"""Branch targets by label."""

from __future__ import annotations

from msgspec.structs import replace

from tests.analysis.test_blame import kernel
from workbench.analysis.code import code_of

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
