"""The memory chart: its flows are the counters, its parts add up, the unknown stays unknown."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.factories import make_instructions, make_launch, make_metrics, make_profile
from workbench.analysis.aggregate import Combined, combine
from workbench.analysis.limits.memory import MemoryChart, access_of, memory, shown
from workbench.model import Column, InstructionTable, Profile
from workbench.ncurep.read import read_report
from workbench.store.codec import decode

RECORDED = Path(__file__).resolve().parents[2] / "profiles"
#: A plain ladder, bulk copies by TMA, several launches, local memory and atomics.
SAMPLE = (
    *("sgemm/v3/n1024", "sgemm/v10/n1024", "conv2d_half/cudnn/n32_c128", "scale_add/v0"),
    *("conv2d_int8/cublas_im2col/n32_c128", "conv2d_direct/v1", "conv2d_tile/v8/c6"),
)
#: Flow -> counter of the catalog and its bytes.
COUNTED = {
    "global_loads": ("global_load_sectors", 32),
    "global_stores": ("global_store_sectors", 32),
    "l2_reads": ("l2_read_sectors", 32),
    "l2_writes": ("l2_write_sectors", 32),
    "dram_reads": ("dram_read_bytes", 1),
    "dram_writes": ("dram_write_bytes", 1),
}


def chart(profile: Profile) -> MemoryChart:
    found = memory(profile)
    assert found is not None
    return found


def consistent(profile: Profile) -> None:
    """Flows are the counters' numbers, parts and lines add up to them, shares are shares."""
    found, table = chart(profile), combine(profile)
    for identity, (counter, size) in COUNTED.items():
        flow, entry = found[identity], table[counter]
        assert flow.amount == (size * entry.value if isinstance(entry, Combined) else None)
    waves = table["shared_wavefronts"]
    parts = [flow.amount for flow in found.flows if flow.unit == "wavefront"]
    if isinstance(waves, Combined):
        assert sum(part or 0 for part in parts) == waves.value
    sectors = [found[i].lines for i in ("global_loads", "global_stores", "global_atomics")]
    total = table["global_sectors"]
    if isinstance(total, Combined):
        assert sum(line.amount for lines in sectors for line in lines) == total.value
    for flow in found.flows:
        assert (flow.amount is None) == bool(flow.missing), flow.id
        # The tag stage of an H200 lets through a little more than is documented.
        assert flow.share is None or 0 <= flow.share <= 1.2, (flow.id, flow.share)
        assert not flow.lines or sum(line.share for line in flow.lines) == pytest.approx(1)


@cache
def recorded(name: str) -> Profile:
    (path, *_) = sorted((RECORDED / "h200").glob(f"{name}*/*.ncu.json.zst")) or sorted(
        (RECORDED / "h200").glob(f"{name}*.ncu.json.zst")
    )
    return decode(path, Profile)


@pytest.mark.parametrize("name", SAMPLE)
def test_flows_are_the_counters(name: str) -> None:
    consistent(recorded(name))


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(3, marks=pytest.mark.slow, id="every third"),
        pytest.param(1, marks=pytest.mark.long, id="all"),
    ],
)
def test_flows_are_the_counters_of_every_recorded_profile(step: int) -> None:
    paths = sorted(RECORDED.glob("*/*/*/*.ncu.json.zst"))[::step]
    assert len(paths) > 100
    for path in paths:
        consistent(decode(path, Profile))


def test_shares_by_formula_are_those_that_ncu_measured(report: Callable[[str], Path]) -> None:
    """A report with everything holds the percentages that others must be computed for."""
    profile = read_report(report("ladder_full"))
    seen = 0
    for launch in profile.launches:
        found = chart(replace(profile, launches=(launch,)))
        waves = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
        peak = ".pct_of_peak_sustained_elapsed"
        for identity, name in (
            ("shared_loads", waves.format("ld")),
            ("shared_stores", waves.format("st")),
            ("dram_reads", "dram__bytes_read.sum"),
        ):
            flow, metric = found[identity], launch.metrics.get(name + peak)
            if metric is not None and flow.amount and float(metric.value) > 0.1:
                assert 100 * (flow.share or 0) == pytest.approx(
                    float(metric.value), rel=0.05, abs=0.5
                )
                seen += 1
        crossed = float(launch.metrics["l1tex__m_xbar2l1tex_read_bytes.sum"].value)
        # A Hopper answers several SMs with one read of the L2: more arrives than was read.
        assert (found["l2_reads"].amount or 0) < 1.03 * crossed
    assert seen >= 5


def test_who_asked_is_told_by_line() -> None:
    found = chart(recorded("sgemm/v3/n1024"))
    source = (recorded("sgemm/v3/n1024").sources[0].text or "").splitlines()
    (load,) = found["shared_loads"].lines
    assert "As" in source[load.key[1] - 1] and load.share == 1
    assert [line.share for line in found["global_loads"].lines] == [0.5, 0.5]
    assert found["dram_reads"].lines == found["global_loads"].lines  # they asked


def test_bytes_of_bulk_copies_are_unknown_and_not_zero() -> None:
    found = chart(recorded("conv2d_half/cudnn/n32_c128"))
    loads = found["tma_loads"]
    assert loads.shown and loads.amount is None and loads.share is None
    assert "op_tma_ld" in loads.missing
    assert not chart(recorded("sgemm/v3/n1024"))["tma_loads"].shown


def test_a_report_without_counters_of_the_chip_has_only_what_addresses_tell() -> None:
    metrics = {
        name: metric
        for name, metric in make_metrics().items()
        if name.startswith(("memory_", "launch__"))
    }
    found = chart(make_profile(launches=(make_launch(metrics=metrics),)))
    assert found["global_loads"].amount == 32 * 4096
    assert (
        found["global_loads"].ncu == "32 × memory_l2_theoretical_sectors_global of loads and copies"
    )
    assert found["shared_stores"].amount == 32768
    for identity in ("l2_reads", "l2_writes", "dram_reads", "dram_writes"):
        assert found[identity].amount is None and found[identity].missing
    assert all(flow.share is None for flow in found.flows)
    assert all(level.hit_rate is None for level in found.levels)


def test_machine_code_that_nobody_can_read_leaves_loads_and_stores_unknown() -> None:
    table = make_instructions()
    blind = replace(table, text=("",) * len(table.text))
    found = chart(make_profile(launches=(make_launch(instructions=blind),)))
    assert found["shared_loads"].amount is None
    assert found["shared_loads"].missing and not found["shared_loads"].lines


def test_several_launches_add_up() -> None:
    one = make_launch()
    both = chart(make_profile(launches=(one, replace(one, index=1))))
    alone = chart(make_profile(launches=(one,)))
    for flow, single in zip(both.flows, alone.flows, strict=True):
        assert flow.amount == (None if single.amount is None else 2 * single.amount)
        assert flow.share == (None if single.share is None else pytest.approx(single.share))


def test_what_one_side_has_is_shown_of_both() -> None:
    table = make_instructions()
    name = "memory_l2_theoretical_sectors_local"
    spilling = replace(table, columns={**table.columns, name: Column(rows=(1,), values=(64,))})
    plain = chart(make_profile(launches=(make_launch(metrics=make_metrics(**{name: 0})),)))
    spilled = chart(
        make_profile(
            launches=(
                make_launch(
                    instructions=replace(
                        spilling, text=(*table.text[:1], "STL [R1], R4", *table.text[2:])
                    ),
                    metrics=make_metrics(**{name: 64}),
                ),
            )
        )
    )
    rows = {row[0].id: row for row in shown((plain, spilled))}
    assert [flow.amount for flow in rows["local_stores"]] == [0, 2048]
    assert "local_loads" not in rows and "texture" not in rows
    assert rows["global_loads"][0].counter == "global_load_sectors"


def test_nothing_measured_has_no_chart() -> None:
    assert memory(make_profile(launches=(make_launch(profiled=False),))) is None
    nothing = make_launch(metrics={}, instructions=InstructionTable())
    assert memory(make_profile(launches=(nothing,))) is None


@pytest.mark.parametrize(
    ("text", "access"),
    [
        ("LDG.E.128 R4, [R2.64]", "load"),
        ("@!P0 STG.E [R8.64], R5", "store"),
        ("LDSM.16.MT88.4 R4, [R2]", "load"),
        ("@P1 LDGSTS.E.BYPASS.128 [R1], [R2.64]", "copy"),
        ("LDGDEPBAR", ""),
        ("LDC R1, c[0x0][0x28]", ""),
        ("HGMMA.64x128x16.F32 R24, gdesc[UR8]", "load"),
        ("ATOMS.ADD RZ, [R3], R4", "atomic"),
        ("REDUX.SUM UR4, R3", ""),
        ("RED.E.ADD.F32 [R2.64], R5", "atomic"),
        ("UTMALDG.2D [UR8], [UR4]", "bulk in"),
        ("UBLKCP.S.G [UR4], [UR6], UR8", "bulk in"),
        ("UBLKCP.G.S [UR4], [UR6], UR8", "bulk out"),
        ("UTMASTG.5D [UR8], [UR4]", "bulk out"),
        ("UTMACMDFLUSH", ""),
        ("FFMA R0, R1, R2, R3", ""),
        ("ld.global.nc.f32 %f1, [%rd4]", "load"),
        ("@%p1 st.shared.v4.f32 [%r5], {%f1}", "store"),
        ("cp.async.cg.shared.global [%r1], [%rd1], 16", "copy"),
        ("cp.async.commit_group", ""),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.tile [%r1], [%rd1]", "bulk in"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64", "bulk out"),
        ("cp.async.bulk.commit_group", ""),
        ("redux.sync.add.s32 %r1, %r2, %r3", ""),
        ("", ""),
    ],
)
def test_what_an_instruction_does_with_memory(text: str, access: str) -> None:
    assert access_of(text) == access


def test_a_profile_is_looked_at_once_and_told_from_one_that_equals_it() -> None:
    profile = make_profile()
    chart = memory(profile)
    assert chart is not None and memory(profile) is chart
    same = replace(profile)
    assert memory(same) == chart and memory(same) is not chart
