"""Which metrics are per instruction, and the table they make."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.ncurep.fake_reader import Broken, FakeAction, FakeMetric
from workbench.model import Column, InstructionTable
from workbench.ncurep.instructions import read_table

BASE = 0x7F00_0000_1000
Code = Mapping[int, tuple[str, tuple[str, int] | None]]
CODE: dict[int, tuple[str, tuple[str, int] | None]] = {
    BASE + 16 * i: (f"      OP{i} ;", ("a.cu", 3 + i // 2) if i != 3 else None) for i in range(6)
}


def table(metrics: Mapping[str, FakeMetric | None], code: Code = CODE) -> InstructionTable:
    files: list[str] = []

    def index(path: str) -> int:
        if path and path not in files:
            files.append(path)
        return files.index(path) if path else -1

    return read_table(FakeAction(metrics, code), index)


def per_pc(values: dict[int, int | float], unit: str = "inst") -> FakeMetric:
    return FakeMetric(sum(values.values()), unit, {BASE + 16 * i: v for i, v in values.items()})


def test_addresses_lines_and_sparse_columns() -> None:
    read = table({"inst_executed": per_pc({0: 4, 1: 4, 2: 0, 3: 2})})
    assert read.address == (0, 16, 32, 48)
    assert read.text == ("OP0 ;", "OP1 ;", "OP2 ;", "OP3 ;")
    assert read.line == (3, 3, 4, 0)
    assert read.file == (0, 0, 0, -1)
    assert read.ptx == ()
    assert read.columns == {"inst_executed": Column(rows=(0, 1, 3), values=(4, 4, 2), unit="inst")}


def test_instructions_that_never_ran_fill_the_gap() -> None:
    read = table({"inst_executed": per_pc({0: 1, 4: 1})})
    assert read.address == (0, 16, 32, 48, 64)
    assert read.columns["inst_executed"].rows == (0, 4)


def test_the_function_starts_where_the_launch_says() -> None:
    read = table(
        {"inst_executed": per_pc({2: 1}), "launch__function_pcs": FakeMetric(1, "", {0: BASE})}
    )
    # Ids number the functions, values are their first PCs; two instructions never ran.
    assert read.address == (0, 16, 32)
    assert read.columns["inst_executed"].rows == (2,)


def test_a_gap_between_two_functions_is_left_open() -> None:
    far = {BASE + 0x10_0000: ("CALLEE ;", None)}
    metric = FakeMetric(2, "inst", {BASE: 1, BASE + 0x10_0000: 1})
    assert table({"inst_executed": metric}, CODE | far).address == (0, 0x10_0000)


def test_what_only_looks_like_program_counters() -> None:
    curves = {
        "launch__cluster_size": FakeMetric(1, "", {0: 1}),
        "numa__id_cpu": FakeMetric(1, "", {0: 1}),
        "derived__avg_thread_executed": per_pc({0: 32}),
        "memory_access_type": per_pc({0: 4}),
        "sass__inst_executed_per_opcode": FakeMetric(9, "", {"LDS": 4, "FFMA": 5}),
        "unknown__series": FakeMetric(9, "", {0: 4, 16: 5}),
        "unknown__far": FakeMetric(9, "", {BASE + 16 * 999: 4}),
    }
    near_zero = CODE | {0: ("NOP ;", None), 16: ("NOP ;", None)}
    read = table({"inst_executed": per_pc({0: 1}), **curves}, near_zero)
    assert list(read.columns) == ["inst_executed"]
    assert table(curves, near_zero) == InstructionTable()


def test_unknown_metrics_count_where_all_their_ids_are_instructions() -> None:
    read = table({"sass__something_new": per_pc({1: 5})})
    assert read.columns["sass__something_new"].values == (5,)


def test_counts_that_came_as_doubles_and_true_fractions() -> None:
    read = table(
        {"inst_executed": per_pc({0: 4.0, 1: 8.0}), "smsp__pcsamp_x": per_pc({0: 0.5, 1: 1.0})}
    )
    assert read.columns["inst_executed"].values == (4, 8)
    assert all(isinstance(v, int) for v in read.columns["inst_executed"].values)
    assert read.columns["smsp__pcsamp_x"].values == (0.5, 1.0)


def test_an_unreadable_column_does_not_lose_the_table() -> None:
    broken = Broken()
    broken._instances = {BASE: 1}
    read = table({"inst_executed": per_pc({0: 4}), "memory_l1_wavefronts_shared": broken})
    assert list(read.columns) == ["inst_executed"]


def test_lines_that_the_reader_cannot_give() -> None:
    class Bad(FakeAction):
        def source_info(self, pc: int) -> None:
            raise RuntimeError

    read = read_table(Bad({"inst_executed": per_pc({0: 1})}, CODE), lambda path: -1)
    assert (read.file, read.line, read.text) == ((-1,), (0,), ("OP0 ;",))


def test_samples_outside_of_any_code_do_not_move_the_addresses() -> None:
    stray = FakeMetric(9, "", {0: 2, BASE: 3, BASE + 16: 4})
    read = table({"smsp__pcsamp_sample_count": stray, "inst_executed": per_pc({0: 1})})
    assert read.address == (0, 16)
    assert read.columns["smsp__pcsamp_sample_count"].values == (3, 4)


def test_a_chip_that_the_reader_cannot_disassemble() -> None:
    unknown = {pc: ("??? ", info) for pc, (_, info) in CODE.items()}
    read = table({"inst_executed": per_pc({0: 1, 2: 1})}, unknown)
    assert read.address == (0, 16, 32)
    assert read.text == ("", "", "")


@pytest.mark.parametrize("stride", [8, 24])
def test_chips_with_eight_byte_instructions(stride: int) -> None:
    code = {BASE + 8 * i: (f"OP{i}", None) for i in range(9)}
    metric = FakeMetric(2, "inst", {BASE: 1, BASE + stride: 1})
    assert table({"inst_executed": metric}, code).address == tuple(range(0, stride + 1, 8))
