"""What is known of opcodes: the table speaks of states that exist, and sets follow from it."""

from __future__ import annotations

from workbench import sass
from workbench.counters import catalog


def test_the_tables_states_are_those_of_the_catalog() -> None:
    words = {word for row in sass.OPCODES.values() for word in row.holds.split()}
    assert len(words) == len(sass.HOLDING)  # none that is no state
    for state, opcodes in sass.HOLDING.items():
        assert catalog()[state].group == "stalls" and opcodes


def test_an_opcode_is_found_by_what_it_does() -> None:
    assert {"LDG", "LDGSTS"} <= sass.GLOBAL_LOADS and "ATOMG" not in sass.GLOBAL_LOADS
    assert {"LDGSTS", "UTMALDG"} <= sass.COPIES and "LDG" not in sass.COPIES
    assert "ATOMG" in sass.HOLDING["long_scoreboard"] & sass.HOLDING["drain_stall"]
    assert "LDS" in sass.fillers("mio_throttle", "MIO") - sass.fillers("lg_throttle", "LSU")
    assert sass.fillers("math_pipe_throttle", "FP64") >= {"DFMA", "DADD"}


def test_what_the_table_does_not_list_is_an_integer_operation() -> None:
    made = sass.parse("XYZZY.WIDE R4, R6, 0x2 ;")
    assert (made.opcode, sass.role(made), sass.pipe("XYZZY")) == ("XYZZY", "integer", "ALU")
    assert (
        sass.pipe("UXYZZY") == "uniform"
        and sass.role(sass.parse("UTCQMMA gdesc[UR4]")) == "product"
    )


def test_an_opcodes_name_is_read_without_its_operands() -> None:
    assert sass.opcode_of("@!P0 LDG.E.128 R4, [R2]") == ("LDG", frozenset({"", "E", "128"}))
    assert sass.opcode_of("ld.global.f32 %f1, [%rd4]") == ("", frozenset())
    assert sass.lane_width(["E", "128"]) == 16 and sass.lane_width([]) == 4
    assert sass.product_operations(["16816", "F32"]) == 2 * 16 * 8 * 16
