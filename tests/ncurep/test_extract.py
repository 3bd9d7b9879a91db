"""From the native reader's objects to records, whatever a report lacks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.ncurep.fake_reader import FakeAction, FakeMetric
from workbench.model import Profile
from workbench.ncurep import extract as module
from workbench.ncurep.extract import extract, main

#: A report of these ranges of actions, extracted.
Read = Callable[..., Profile]
BASE = 0x7F00_0000_1000
CODE = {BASE: ("LDG", ("a.cu", 1)), BASE + 16: ("EXIT", ("b.cu", 2))}
DEVICE = {
    "device__attribute_display_name": FakeMetric("NVIDIA H200"),
    "device__attribute_compute_capability_major": FakeMetric(9),
    "device__attribute_compute_capability_minor": FakeMetric(0),
    "device__attribute_multiprocessor_count": FakeMetric(132),
    "device__attribute_clock_rate": FakeMetric(1_980_000),
    "device__attribute_max_mem_frequency_khz": FakeMetric(3_201_000),
    "device__attribute_fb_bus_width": FakeMetric(6016),
}
LAUNCH = {
    "launch__grid_dim_x": FakeMetric(8.0),
    "launch__grid_dim_y": FakeMetric(4.0),
    "launch__grid_dim_z": FakeMetric(1.0),
    "launch__block_size": FakeMetric(256),
    "launch__shared_mem_per_block_dynamic": FakeMetric(1.024, "Kbyte/block"),
    "profiler__replayer_passes": FakeMetric(35.0),
}
TIME = {"gpu__time_duration.sum": FakeMetric(1000.0, "ns")}
INST = {"inst_executed": FakeMetric(8, "inst", {BASE: 4, BASE + 16: 4})}
RULE = {
    "rule_identifier": "CPIStall",
    "section_identifier": "WarpStateStats",
    "name": "Warp Stall",
    "rule_message": {
        "title": "Stalls",
        "message": "See @section:Src:the table@ and @url:the guide:https://x.y/z#a@ at "
        "@source:a.cu:12:line 12@, mail a@b.c.",
        "type": 2,
    },
    "focus_metrics": [
        {"name": "m", "value": 1.5, "info": "less @section:A:b@"},
        {"name": "n", "value": float("nan"), "info": ""},
    ],
    "speedup_estimation": {"type": 2, "speedup": 40.0},
}
EMPTY_RULE = RULE | {
    "rule_message": {"title": "", "message": "", "type": 0},
    "focus_metrics": [],
    "speedup_estimation": {"type": 0, "speedup": None},
}
BAD_RULE = {"rule_identifier": "X"}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    """Extract a report of these ranges of actions."""

    def run(*ranges: list[FakeAction | None]) -> Profile:
        made = [
            SimpleNamespace(num_actions=lambda r=r: len(r), action_by_idx=lambda i, r=r: r[i])
            for r in ranges
        ]
        context = SimpleNamespace(num_ranges=lambda: len(made), range_by_idx=lambda i: made[i])
        fake = SimpleNamespace(load_report=lambda path: context)
        monkeypatch.setitem(sys.modules, "ncu_report", fake)
        profile = extract("x.ncu-rep")
        assert msgspec.json.decode(msgspec.json.encode(profile), type=Profile) == profile
        return profile

    return run


def codes(profile: Profile) -> set[str]:
    return {notice.code for notice in profile.notices}


def test_a_complete_launch(read: Read) -> None:
    profile = read([FakeAction(DEVICE | LAUNCH | TIME | INST, CODE, rules=[RULE, EMPTY_RULE])])
    (launch,) = profile.launches
    assert (launch.kernel, launch.signature, launch.workload) == ("kernel", "kernel(int)", "kernel")
    assert (launch.grid, launch.block, launch.dynamic_shared) == ((8, 4, 1), (256, 1, 1), 1024)
    assert launch.metrics["gpu__time_duration.sum"].value == 1e-6
    assert profile.device.slug == "h200"
    assert profile.device.compute_capability == (9, 0)
    assert profile.device.sm_clock == 1.98e9
    assert profile.device.memory_clock == 3.201e9
    assert profile.device.memory_bus_bits == 6016
    assert profile.capture.passes == 35
    assert [(s.path, s.text) for s in profile.sources] == [("a.cu", "int x;\n"), ("b.cu", None)]
    assert launch.instructions.file == (0, 1)
    assert codes(profile) == set()


def test_rules_come_without_markup_and_without_nan(read: Read) -> None:
    (launch,) = read([FakeAction(TIME, rules=[BAD_RULE, RULE, EMPTY_RULE])]).launches
    (rule,) = launch.rules
    assert rule.message == "See the table and the guide at line 12, mail a@b.c."
    assert (rule.kind, rule.speedup, rule.scope) == ("optimization", 40.0, "global")
    assert [(f.metric, f.value, f.info) for f in rule.focus] == [("m", 1.5, "less b")]


def test_many_launches_over_ranges_are_numbered_through(read: Read) -> None:
    action = FakeAction(TIME)
    profile = read([action, action], [], [action])
    assert [launch.index for launch in profile.launches] == [0, 1, 2]


def test_a_launch_that_was_never_measured(read: Read) -> None:
    profile = read([FakeAction(DEVICE | LAUNCH), FakeAction(TIME)])
    assert [launch.profiled for launch in profile.launches] == [False, True]
    assert "unprofiled-launch" in codes(profile)


def test_a_launch_of_nothing_but_nan(read: Read) -> None:
    nan = {f"m{i}": FakeMetric(float("nan"), "%") for i in range(4)}
    profile = read([FakeAction(DEVICE | LAUNCH | nan)])
    (launch,) = profile.launches
    assert launch.profiled
    assert set(launch.absent.values()) == {"NaN"}
    assert not any(name in launch.metrics for name in nan)
    assert "nan-launch" in codes(profile)


def test_counters_of_a_new_chip_that_are_nan_are_named(read: Read) -> None:
    nan = {f"m{i}": FakeMetric(float("nan"), "%") for i in range(2)}
    profile = read([FakeAction(DEVICE | LAUNCH | TIME | INST | {"n": FakeMetric(1)} | nan)])
    (notice,) = (x for x in profile.notices if x.code == "nan-counters")
    assert "2 metrics" in notice.message and notice.message.endswith("m0 and m1")
    assert "nan-launch" not in codes(profile)
    assert "nan-counters" not in codes(read([FakeAction(DEVICE | LAUNCH | TIME)]))


def test_warp_samples_under_the_other_of_their_two_names(read: Read) -> None:
    per_pc = FakeMetric(3, "inst", {BASE: 1, BASE + 16: 2})
    other = "smsp__pcsamp_warp_stall_barrier"
    known = "smsp__pcsamp_warps_issue_stalled_barrier"
    over_time = {"warpsampling:" + known: FakeMetric(7)}
    new = read([FakeAction(DEVICE | LAUNCH | INST | {other: per_pc} | over_time, CODE)])
    old = read([FakeAction(DEVICE | LAUNCH | INST | {known: per_pc}, CODE)])
    assert new.launches == old.launches
    assert known in new.launches[0].instructions.columns and known in new.launches[0].metrics
    apart = {other + "_not_issued": per_pc, known + "_not_issued": FakeMetric(9, "inst")}
    both = read([FakeAction(DEVICE | LAUNCH | INST | apart, CODE)]).launches[0]
    assert both.metrics[known + "_not_issued"].value == 9
    assert both.metrics[other + "_not_issued"].value == 3


def test_an_action_that_the_reader_cannot_give(read: Read) -> None:
    class Bad(FakeAction):
        def metric_names(self) -> tuple[str, ...]:
            raise RuntimeError("no table")

    profile = read([None, Bad({}), FakeAction(TIME)])
    assert [launch.profiled for launch in profile.launches] == [False, False, True]
    (notice,) = [n for n in profile.notices if n.code == "unreadable-launch"]
    assert "action 1 of range 0: no table" in notice.message


def test_parts_that_fail_are_parts_that_are_missing(read: Read) -> None:
    class Bad(FakeAction):
        def rule_results(self) -> Any:
            raise RuntimeError

        def source_files(self) -> Any:
            raise RuntimeError

        def nvtx_state(self) -> Any:
            raise RuntimeError

        def ptx_by_pc(self, pc: int) -> Any:
            raise RuntimeError

    (launch,) = read([Bad(TIME | INST, CODE)]).launches
    assert launch.metrics["gpu__time_duration.sum"].value == 1e-6
    assert launch.rules == ()
    assert launch.instructions.address == ()


@pytest.mark.parametrize(
    ("kind", "workload"), [(1, "range"), (2, "cmdlist"), (3, "graph"), (4, "other")]
)
def test_workloads_without_a_kernel_name(read: Read, kind: int, workload: str) -> None:
    profile = read([FakeAction(TIME, name="", workload=kind)])
    assert profile.launches[0].kernel == f"{workload} 0"
    assert profile.launches[0].workload == workload
    assert "no-instruction-metrics" not in codes(profile)


def test_very_long_names_stay_whole(read: Read) -> None:
    name = "gemm<" + "cutlass::" * 900 + ">"
    profile = read([FakeAction(TIME, name=name)])
    assert profile.launches[0].signature == name + "(int)"
    assert all(len(notice.message) < 600 for notice in profile.notices)


def test_a_kernel_has_the_name_that_its_author_gave_it(read: Read) -> None:
    raw = "_ZN6cudapy8__main__10matmul$241E5ArrayIfLi2E1C7mutable7alignedE"
    (launch,) = read([FakeAction(TIME, name=raw)]).launches
    assert (launch.kernel, launch.signature) == ("matmul", f"{raw}(int)")
    (launch,) = read([FakeAction(TIME, name="add_kernel_0d1d2de3")]).launches
    assert launch.kernel == "add_kernel"


def test_several_devices_are_named(read: Read) -> None:
    other = DEVICE | {"device__attribute_display_name": FakeMetric("NVIDIA A10")}
    profile = read([FakeAction(DEVICE | TIME), FakeAction(other | TIME)])
    assert profile.device.name == "NVIDIA H200"
    (notice,) = [n for n in profile.notices if n.code == "several-devices"]
    assert "NVIDIA A10" in notice.message


def test_an_empty_report_and_a_nameless_device(read: Read) -> None:
    assert read().launches == ()
    profile = read([FakeAction(TIME)])
    assert profile.device.slug == "unknown"
    assert {"no-rules"} <= codes(profile)


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_sources_and_code_are_asked_of_kernels_alone(read: Read, kind: int) -> None:
    # The native reader ends with a segmentation fault where a graph is asked for them.
    asked: list[str] = []

    class Noted(FakeAction):
        def source_files(self) -> dict[str, str]:
            asked.append("source_files")
            return {}

    profile = read([Noted(DEVICE | TIME | INST, CODE, workload=kind)])
    assert not asked
    assert profile.launches[0].profiled and profile.launches[0].instructions.address == ()
    assert read([Noted(DEVICE | TIME | INST, CODE)]) and asked


def test_nvtx_ranges_are_spelt_as_ncu_filters_are(read: Read) -> None:
    def domain(name: str, push: object, start: object = ()) -> SimpleNamespace:
        return SimpleNamespace(
            name=lambda: name, push_pop_ranges=lambda: push, start_end_ranges=lambda: start
        )

    found = {0: domain("<default domain>", ("step",)), 5: domain("workbench", ("v3",), ("all",))}

    class Ranged(FakeAction):
        def nvtx_state(self) -> SimpleNamespace:
            return SimpleNamespace(domains=lambda: tuple(found), domain_by_id=lambda i: found[i])

    assert read([Ranged(TIME)]).launches[0].nvtx == ("step", "workbench@v3", "workbench@all")


def test_main_writes_the_profile(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read([FakeAction(TIME)])
    (tmp_path / "x").write_bytes(b"")
    monkeypatch.setattr(module, "_limit_memory", lambda size: None)
    assert main([str(tmp_path / "x"), str(tmp_path / "out")]) == 0
    assert msgspec.json.decode((tmp_path / "out").read_bytes(), type=Profile) == expected


def test_code_is_read_once_of_launches_of_one_function(read: Read) -> None:
    asked: list[int] = []

    class Counted(FakeAction):
        def sass_by_pc(self, pc: int) -> str:
            asked.append(pc)
            return super().sass_by_pc(pc)

    one = Counted(DEVICE | LAUNCH | INST, CODE)
    once = read([one]).launches[0].instructions
    first = len(asked)
    again = read([one, one, one])
    assert len(asked) == 2 * first
    assert all(launch.instructions == once for launch in again.launches)
    # Another function of the same name is another one.
    moved = {BASE + 4096: ("STG", ("c.cu", 7))}
    other = FakeAction(
        DEVICE | LAUNCH | {"inst_executed": FakeMetric(4, "inst", {BASE + 4096: 4})}, moved
    )
    both = read([one, other])
    assert both.launches[1].instructions.text == ("STG",)
    assert {source.path for source in both.sources} >= {"a.cu", "c.cu"}
