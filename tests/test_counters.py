"""The catalog's shape, and how a counter is found in a launch (or named as missing)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.factories import make_instructions, make_launch, make_metrics
from workbench import counters
from workbench.counters import NEVER_EMULATED, Missing, Reading, catalog, read, read_all
from workbench.errors import UsageError
from workbench.model import Column, InstructionTable, Launch, Metric, Spread

# --- the catalog ----------------------------------------------------------------


def test_every_entry_is_complete_and_can_be_found_somewhere() -> None:
    for counter in catalog():
        assert counter.title and counter.unit and counter.doc.startswith("https://docs.nvidia.com/")
        assert counter.meaning.endswith("."), counter.id
        assert counter.meaning.count(". ") == 0, f"{counter.id}: one sentence"
        assert counter.group in catalog().groups
        assert counter.names or counter.formulas or counter.opcodes, counter.id
        assert counter.noise >= 0 and counter.floor >= 0
        assert re.fullmatch(r"[a-z][a-z0-9_]*", counter.id)


def test_additive_counters_have_a_line_metric_and_belong_to_it() -> None:
    additive = [counter for counter in catalog() if counter.additive]
    assert len(additive) >= 10
    for counter in additive:
        assert counter.line is not None
        assert catalog().by_line(counter.line) is counter


def test_formulas_and_needs_refer_to_counters_that_exist() -> None:
    for counter in catalog():
        for formula in (*counter.formulas, *counter.denied):
            for reference in re.findall(r"@(\w+)", formula):
                assert reference in catalog(), (counter.id, reference)
        for reference in (*counter.needs, *counter.follows, *filter(None, [counter.rest])):
            assert reference in catalog(), (counter.id, reference)


def test_names_of_old_versions_lead_to_the_same_counter() -> None:
    assert catalog().by_line("memory_l1_sectors_shared") is catalog()["shared_wavefronts"]
    assert catalog().by_line("memory_l2_sectors_global") is catalog()["global_sectors"]
    assert catalog().by_name("gpu__time_duration.sum") is catalog()["duration"]
    assert catalog().by_name("nothing__like.this") is None


def test_an_unknown_id_names_the_nearest_ones() -> None:
    with pytest.raises(UsageError) as error:
        catalog()["mio_throtle"]
    assert "mio_throttle" in error.value.hint


# --- reading ----------------------------------------------------------------------


def test_the_first_name_that_is_there_is_taken() -> None:
    launch = make_launch(
        metrics=make_metrics(
            **{"gpu__time_duration.sum": None, "gpu__time_duration.max": 0.5}  # an alternate
        )
    )
    assert read(launch, "duration") == Reading(0.5, "s", "gpu__time_duration.max")


def test_counts_that_ncu_gives_as_floats_become_integers() -> None:
    reading = read(make_launch(), "global_loads")
    assert isinstance(reading, Reading)
    assert reading.value == 1024 and isinstance(reading.value, int)


def test_what_is_not_there_is_missing_with_the_name_that_was_looked_for() -> None:
    launch = make_launch(metrics=make_metrics(**{"l1tex__t_sector_hit_rate.pct": None}))
    reading = read(launch, "l1_hit_rate")
    assert isinstance(reading, Missing)
    assert "l1tex__t_sector_hit_rate.pct" in reading.reason
    assert "not collected" in reading.reason


def test_what_the_emulator_never_has_names_what_to_take() -> None:
    def emulated(**more: float) -> Launch:
        table = InstructionTable()
        return make_launch(
            metrics={
                name: Metric(value=value)
                for name, value in {"ptx__inst_executed": 9.0, **more}.items()
            },
            instructions=table,
        )

    for counter in catalog():
        if counter.instead:
            other = catalog()[counter.instead]
            assert any(not name.startswith(("smsp__sass", "sm__sass")) for name in other.names)
            found = read(emulated(), counter)
            assert isinstance(found, Missing), counter.id
            if not found.undefined:
                assert found.reason == f"the emulator never has it; take {counter.instead}"
    bare = read(emulated(), "l2_hit_rate")
    assert isinstance(bare, Missing) and bare.reason == "the emulator never has it"
    # Of ncu it is said as before: this report lacks it, another may not.
    other_launch = make_launch(metrics={}, instructions=InstructionTable())
    lacking = read(other_launch, "mio_throttle")
    assert isinstance(lacking, Missing) and "not collected" in lacking.reason
    known = read(emulated(memory_l1_wavefronts_shared=3.0), "shared_wavefronts")
    assert isinstance(known, Reading) and known.value == 3


def test_nan_and_text_are_missing_and_never_numbers() -> None:
    name = "lts__t_sector_hit_rate.pct"
    for value in (float("nan"), "n/a"):
        reading = read(make_launch(metrics=make_metrics(**{name: value})), "l2_hit_rate")
        assert isinstance(reading, Missing)
    launch = make_launch(metrics=make_metrics(**{name: None}), absent={name: "NaN"})
    reading = read(launch, "l2_hit_rate")
    assert isinstance(reading, Missing) and "NaN" in reading.reason


def test_a_launch_that_was_never_profiled_says_so() -> None:
    reading = read(make_launch(metrics={}, profiled=False), "duration")
    assert isinstance(reading, Missing) and "never profiled" in reading.reason


def test_a_ratio_of_nothing_is_undefined_and_not_zero() -> None:
    metrics = make_metrics(
        **{
            "smsp__sass_inst_executed_op_global_ld.sum": 0.0,
            "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": 0.0,
        }
    )
    reading = read(make_launch(metrics=metrics), "global_load_bytes_per_sector")
    assert isinstance(reading, Missing) and reading.undefined
    assert "no global loads" in reading.reason


def test_a_hit_rate_without_a_look_up_is_undefined() -> None:
    nothing = {
        "l1tex__t_sector_hit_rate.pct": 0.0,
        "memory_l1_tag_requests_global": 0,
        "smsp__inst_executed_op_local_ld.sum": 0,
        "smsp__inst_executed_op_local_st.sum": 0,
    }
    reading = read(make_launch(metrics=make_metrics(**nothing)), "l1_hit_rate")
    assert isinstance(reading, Missing) and reading.undefined
    assert "no L1 tag look-ups for global, local loads or local stores" in reading.reason
    # Textures are looked up as well: what hits sometimes, was looked up.
    hits = make_launch(metrics=make_metrics(**{**nothing, "l1tex__t_sector_hit_rate.pct": 40.0}))
    assert read(hits, "l1_hit_rate")[0] == 40.0
    local = make_metrics(**{**nothing, "smsp__inst_executed_op_local_ld.sum": 9})
    assert read(make_launch(metrics=local), "l1_hit_rate")[0] == 0


def test_a_share_whose_rest_is_nothing_as_well_is_undefined() -> None:
    # Branches that have no targets of their own: ncu calls none of them uniform, or divergent.
    metrics: dict[str, int | float | str | None] = {
        "smsp__inst_executed_op_branch.sum": 1024,
        "smsp__sass_average_branch_targets_threads_uniform.pct": 0.0,
        "smsp__sass_branch_targets_threads_divergent.sum": 0,
    }
    reading = read(make_launch(metrics=make_metrics(**metrics)), "uniform_branches")
    assert isinstance(reading, Missing) and reading.undefined
    metrics["smsp__sass_branch_targets_threads_divergent.sum"] = 7
    assert read(make_launch(metrics=make_metrics(**metrics)), "uniform_branches")[0] == 0


def test_formulas_are_computed_from_metrics_and_other_counters() -> None:
    launch = make_launch()
    assert read(launch, "global_load_sectors_per_request")[0] == 4.0
    assert read(launch, "shared_wavefronts_excess")[0] == 33792 - 2048
    waves = make_launch(metrics=make_metrics(launch__waves_per_multiprocessor=3.75))
    reading = read(waves, "tail_idle")
    assert isinstance(reading, Reading) and reading.value == pytest.approx(6.25)


def test_every_instruction_that_touches_shared_memory_is_an_access() -> None:
    texts = ("LDSM.16.M88.4 R4, [R2]", "LDGSTS.E.BYPASS.128 [R2], [R4.64]", "LD.E R5, [R6.64]")
    table = InstructionTable(
        address=(0, 16, 32, 48),
        text=(*texts, "LDG.E R7, [R8.64]"),
        file=(-1,) * 4,
        line=(0,) * 4,
        columns={
            # The copy ran twenty times, but only in ten of them a lane was switched on.
            "inst_executed": Column(rows=(0, 1, 2, 3), values=(100, 20, 5, 40)),
            "memory_l1_wavefronts_shared": Column(rows=(0, 1, 2), values=(400, 10, 80)),
            "memory_l1_wavefronts_shared_ideal": Column(rows=(0, 1, 2), values=(400, 10, 5)),
        },
    )
    metrics = make_metrics(
        **{
            "memory_l1_wavefronts_shared": 490,
            "memory_l1_wavefronts_shared_ideal": 415,
            "smsp__sass_inst_executed_op_shared.sum": 100,
        }
    )
    launch = make_launch(metrics=metrics, instructions=table)
    assert read(launch, "shared_accesses")[0] == 100 + 10 + 5
    # A ldmatrix of four takes four wavefronts: that is no conflict.
    assert read(launch, "shared_conflict_ways")[0] == pytest.approx(490 / 415)
    bare = make_launch(metrics=metrics, instructions=InstructionTable())
    assert read(bare, "shared_accesses")[0] == 100


def test_opcodes_are_counted_from_the_instruction_table() -> None:
    texts = ("FFMA R0, R1, R2, R3", "@!P1 FADD R0, R1, R2", "FFMA.FTZ R4, R1, R2, R3")
    ran = {"thread_inst_executed_true": Column(rows=(0, 1, 2), values=(32, 7, 64))}
    none = (0, 0, 0)
    table = InstructionTable(address=none, text=texts, file=none, line=none, columns=ran)
    launch = make_launch(metrics={}, instructions=table)
    assert read(launch, "ffma_threads")[0] == 96
    assert read(launch, "fadd_threads")[0] == 7
    assert read(launch, "flops")[0] == 2 * 96 + 7


def test_generic_loads_may_be_of_a_kind_whose_opcodes_are_counted() -> None:
    ran = {"inst_executed": Column(rows=(0, 1), values=(7, 9))}
    two, texts = (0, 0), ("LDS R0, [R1]", "LD.E R2, [R4.64]")
    table = InstructionTable(address=two, text=texts, file=two, line=two, columns=ran)
    assert isinstance(read(make_launch(metrics={}, instructions=table), "shared_loads"), Missing)
    known = make_metrics(sass__inst_executed_shared_loads=16)
    assert read(make_launch(metrics=known, instructions=table), "shared_loads")[0] == 16


def test_a_value_that_other_counters_leave_no_room_for_is_missing() -> None:
    of, used = "pipe_lsu_mem_global_op", "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld"
    counts = {f"l1tex__t_sectors_{of}_{what}.sum": n for what, n in (("ld", 40), ("st", 60))}
    counts[f"l1tex__t_requests_{of}_ld.sum"] = 10
    for name, metric, value, there in (
        ("global_load_bytes_per_sector", f"{used}.ratio", 128, True),
        ("global_load_bytes_per_sector", f"{used}.ratio", 157, False),
        ("global_load_efficiency", f"{used}.pct", 490, False),
        ("global_sectors", "memory_l2_theoretical_sectors_global", 99, True),
        ("global_sectors", "memory_l2_theoretical_sectors_global", 90, False),
    ):
        found = read(make_launch(metrics=make_metrics(**counts, **{metric: value})), name)
        assert isinstance(found, Missing) != there


def test_opcodes_without_sass_are_missing_and_not_zero() -> None:
    ran = {"thread_inst_executed_true": Column(rows=(0,), values=(32,))}
    table = InstructionTable(address=(0,), text=("",), file=(-1,), line=(0,), columns=ran)
    assert isinstance(read(make_launch(metrics={}, instructions=table), "ffma_threads"), Missing)


def test_an_additive_counter_falls_back_to_the_sum_over_its_lines() -> None:
    launch = make_launch(metrics={})
    reading = read(launch, "shared_wavefronts")
    assert isinstance(reading, Reading)
    assert reading.value == 33792 and "sum of" in reading.ncu


def test_line_metrics_are_found_under_their_old_names() -> None:
    launch = make_launch(instructions=make_instructions(memory_l1_sectors_shared={1: 5}))
    counter = catalog()["shared_wavefronts"]
    assert counters.line_metric(launch, counter) == "memory_l1_sectors_shared"
    assert counters.line_metric(make_launch(), counter) == "memory_l1_wavefronts_shared"
    assert counters.line_metric(make_launch(), catalog()["branches"]) is None


def test_the_spread_of_repeated_captures_is_found_by_name() -> None:
    spread = Spread(n=5, low=1.0, median=2.0, high=3.0)
    launch = make_launch(spreads={"gpu__time_duration.sum": spread})
    assert counters.spread(launch, catalog()["duration"]) == spread
    assert counters.spread(launch, catalog()["cycles"]) is None


@given(
    st.dictionaries(
        st.sampled_from([name for counter in catalog() for name in counter.names]),
        st.one_of(st.integers(-(10**12), 10**12), st.floats(), st.text(max_size=3)),
        max_size=8,
    )
)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_reading_never_raises_and_never_gives_nan(metrics: dict[str, int | float | str]) -> None:
    launch = make_launch(metrics=make_metrics(**metrics), instructions=InstructionTable())
    for reading in read_all(launch).values():
        if isinstance(reading, Missing):
            assert reading.reason
        else:
            assert reading.value == reading.value


# --- real reports -------------------------------------------------------------------


def test_a_full_capture_fills_the_whole_catalog(report: Callable[[str], Path]) -> None:
    from workbench.ncurep.read import read_report

    profile = read_report(report("ladder_full"))
    # v0 and v1 use no shared memory, so the mean conflict of a shared access is undefined.
    undefined = {0: {"shared_conflict_ways"}, 1: {"shared_conflict_ways"}}
    for launch in profile.launches:
        absent = {name for name, r in read_all(launch).items() if isinstance(r, Missing)}
        assert absent == undefined.get(launch.index, set()), launch.kernel


def test_values_agree_with_what_was_measured_by_hand(report: Callable[[str], Path]) -> None:
    from workbench.ncurep.read import read_report

    v2, v3 = read_report(report("ladder_full")).launches[2:4]
    wavefronts = [read(launch, "shared_wavefronts") for launch in (v2, v3)]
    assert [isinstance(each, Reading) for each in wavefronts] == [True, True]
    assert float(wavefronts[0][0]) - float(wavefronts[1][0]) == 32_505_856
    assert read(v3, "shared_wavefronts_excess")[0] == 0
    assert read(v3, "flops")[0] == pytest.approx(2 * 1024**3, rel=1e-9)
    assert read(v3, "duration")[0] == pytest.approx(311.744e-6)


@pytest.mark.parametrize(
    ("name", "kernel", "least"),
    [
        # How many of the catalog's counters a report of somebody else holds.
        ("ladder_focus", 3, 105),
        ("rtx4090-ncu2023.1-transpose-source-no-rules", 2, 100),
        ("v100-ncu2022.2-source-rules", 2, 80),
        ("gtx1660s-ncu2021.1-unprofiled-action", 0, 55),
        ("gh200-ncu2025.2-no-instruction-metrics", 0, 30),
        ("a10g-ncu2023.1-nan-action", 0, 27),
    ],
)
def test_foreign_reports_fill_what_they_hold(
    report: Callable[[str], Path], name: str, kernel: int, least: int
) -> None:
    from workbench.ncurep.read import read_report

    launch = read_report(report(name)).launches[kernel]
    filled = [r for r in read_all(launch).values() if isinstance(r, Reading)]
    assert len(filled) >= least
    assert isinstance(read(launch, "duration"), Reading)


def test_opcode_counts_agree_with_ncus_own_metrics(report: Callable[[str], Path]) -> None:
    """Counting LDG, STS, FFMA … in the instruction table is a true substitute."""
    import msgspec

    from workbench.ncurep.read import read_report

    for launch in read_report(report("ladder_full")).launches:
        bare = msgspec.structs.replace(launch, metrics={})
        for counter in catalog():
            if counter.opcodes:
                assert read(bare, counter)[0] == pytest.approx(read(launch, counter)[0], rel=1e-9)


def test_what_the_emulator_lacks_for_want_of_accesses_is_not_what_it_never_has() -> None:
    counts = {
        "ptx__inst_executed": 9,
        "ptx__inst_executed_op_shared_ld": 0,
        "ptx__inst_executed_op_shared_st": 0,
        "memory_l1_wavefronts_shared": 0,
        "memory_l1_wavefronts_shared_ideal": 0,
    }
    launch = make_launch(
        metrics={name: Metric(value=value) for name, value in counts.items()},
        instructions=InstructionTable(),
    )
    ways, hits = read(launch, "shared_conflict_ways"), read(launch, "l1_hit_rate")
    assert isinstance(ways, Missing) and "executed no shared accesses" in ways.reason
    assert isinstance(hits, Missing) and hits.reason.startswith(NEVER_EMULATED)
