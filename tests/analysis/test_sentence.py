"""The sentence: says what the parts say, and nothing where they say nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.factories import (
    make_instructions,
    make_launch,
    make_metrics,
    make_profile,
    make_timing,
)
from workbench.analysis.compare import compare
from workbench.analysis.story import Story, explain
from workbench.model import Device, InstructionTable, Metric, Profile, SourceFile
from workbench.ncurep.read import read_report, select_kernels


def story(old: Profile, new: Profile, **times: Any) -> Story:
    times.setdefault("old_time", None)
    times.setdefault("new_time", None)
    comparison = compare(old, new, labels=("v2", "v3"), **times)
    return explain(old, new, comparison)


#: Seconds in which the counts of `factories` are no small matter to an H200.
SHORT = 1e-6


def short(**metrics: float) -> dict[str, Metric]:
    return make_metrics(**{"gpu__time_duration.sum": SHORT, **metrics})


def counted(**metrics: float) -> Profile:
    """A profile of one millisecond with these metrics and nothing on its lines."""
    table = make_metrics(**{"gpu__time_duration.sum": 1e-3, **metrics})
    return make_profile(
        launches=(make_launch(metrics=table, instructions=InstructionTable()),),
    )


def side_effect(text: str) -> str:
    found = re.search(r"The largest side effect: (.*)", text)
    return found[1] if found else ""


def step(**columns: dict[int, int]) -> Profile:
    return make_profile(launches=(make_launch(instructions=make_instructions(**columns)),))


def replaced(profile: Profile, **changes: Any) -> Profile:
    fields = {f: getattr(profile, f) for f in profile.__struct_fields__}
    return Profile(**{**fields, **changes})


def edited(profile: Profile, old: str, new: str) -> Profile:
    source = profile.sources[0]
    text = (source.text or "").replace(old, new)
    return replaced(profile, sources=(SourceFile(path=source.path, text=text),))


def test_nothing_changed() -> None:
    text = story(make_profile(), make_profile()).sentence
    assert text == "Under the profiler v3 and v2 are equally fast within the noise."


def test_only_noise_moves_nothing() -> None:
    slower = make_launch(metrics=make_metrics(**{"gpu__time_duration.sum": 312.1e-6}))
    text = story(make_profile(), make_profile(launches=(slower,))).sentence
    assert "equally fast within the noise" in text
    assert "faster" not in text and "slower" not in text and "linked" not in text


def test_no_time_is_said() -> None:
    bare = make_profile(launches=(make_launch(metrics={}),))
    assert story(bare, bare).sentence.startswith("No time of both v2 and v3 is known.")


def test_slower_is_not_told_as_faster() -> None:
    times = {"old_time": make_timing(200e-6), "new_time": make_timing(300e-6, version="v3")}
    assert story(make_profile(), make_profile(), **times).sentence.startswith(
        "v3 is 1.50× slower than v2."
    )


def test_overlapping_intervals_are_no_speed_up() -> None:
    times = {
        "old_time": make_timing(200e-6, width=0.05),
        "new_time": make_timing(199e-6, width=0.05, version="v3"),
    }
    text = story(make_profile(), make_profile(), **times).sentence
    assert text.startswith("v3 and v2 are equally fast within their intervals.")


def test_no_source_links_nothing() -> None:
    old = make_profile(sources=(), launches=(make_launch(metrics=short()),))
    launch = make_launch(
        metrics=short(memory_l1_wavefronts_shared=2048),
        instructions=make_instructions(memory_l1_wavefronts_shared={1: 1024, 3: 1024}),
    )
    text = story(old, make_profile(sources=(), launches=(launch,))).sentence
    assert "is linked to −" not in text and "hunk" not in text.lower()
    assert "linked to no change of the source" in text


def test_strongest_link_with_its_share() -> None:
    launch = make_launch(
        metrics=short(memory_l1_wavefronts_shared=2048),
        instructions=make_instructions(
            memory_l1_wavefronts_shared={1: 1024, 3: 1024},
            memory_l1_wavefronts_shared_ideal={1: 1024, 3: 1024},
        ),
    )
    new = edited(make_profile(launches=(launch,)), "[32][32]", "[32][33]")
    found = story(make_profile(launches=(make_launch(metrics=short()),)), new)
    assert (
        "The change of `tile` (line 2) is linked to −31.7 k shared wavefronts, all of the change."
        in found.sentence
    )
    assert "cause" not in found.sentence


def test_parts_that_cancel_are_not_all_of_a_change() -> None:
    # The hunk's line loses what an unrelated line gains: the whole change is small. Nothing is
    # known of the device, so that counts are weighed against themselves.
    nameless = Device(name="", slug="")
    old = replaced(step(inst_executed={0: 1000, 2: 1000, 4: 1000}), device=nameless)
    launch = make_launch(
        metrics=make_metrics(**{"smsp__inst_executed.sum": 40_000.0}),
        instructions=make_instructions(inst_executed={0: 200, 2: 1700, 4: 1000}),
    )
    new = make_profile(launches=(launch,), device=nameless)
    text = story(old, edited(new, "in[threadIdx.y", "in[1 + threadIdx.y")).sentence
    assert "all of the change" not in text
    match = re.search(r"is linked to (\S+) .*?; the whole change is (\S+?)\.", text)
    assert match is not None and match[1] == "−800" and match[2] == "−100"


def test_every_number_of_a_real_step_is_in_the_parts(report: Callable[[str], Path]) -> None:
    ladder = read_report(report("ladder_full"))
    old, new = (select_kernels(ladder, f"sgemm_{v}") for v in ("v2", "v3"))
    found = story(old, new)
    assert found.sentence == (
        "Under the profiler v3 is 1.39× faster than v2. The change of `As` (line 38) is linked to "
        "−32.5 M shared wavefronts, all of the change. By warp samples, time in MIO throttle fell "
        "by an estimated 89.1 µs (±2.40 µs) on the unchanged lines linked by `As`. An estimated "
        "−7.13 µs is linked to no change of the source."
    )
    assert found.time is not None
    stalls = {p.symbol: {s.stall: s.delta_s for s in p.stalls} for p in found.time.parts}
    assert f"{-1e6 * stalls['As']['mio_throttle']:.1f}" == "89.1"
    back = story(new, old).sentence
    assert "v3 is 1.39× slower than v2" in back and "+32.5 M" in back and "rose" in back


def test_counters_without_time_and_time_without_counters() -> None:
    moved = make_launch(metrics=make_metrics(memory_l1_wavefronts_shared=2048))
    text = story(make_profile(), make_profile(launches=(moved,))).sentence
    assert re.search(r"equally fast within the noise\. \d+ counters? moved all the same\.", text)
    times = {"old_time": make_timing(300e-6), "new_time": make_timing(200e-6, version="v3")}
    text = story(make_profile(), make_profile(), **times).sentence
    assert text.startswith("v3 is 1.50× faster than v2. No counter moved with it.")


def test_a_speed_up_that_rounds_to_one_is_told_in_percent() -> None:
    times = {
        "old_time": make_timing(200.6e-6, width=0.0005),
        "new_time": make_timing(200e-6, width=0.0005, version="v3"),
    }
    text = story(make_profile(), make_profile(), **times).sentence
    assert text.startswith("v3 is 0.300% faster than v2.")


def test_the_side_effect_is_what_takes_most_time_not_what_grew_most() -> None:
    # From nothing to 4,608 requests is nanoseconds; 10 M wavefronts more are 38 µs of the 1 ms.
    old = counted(
        **{
            "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 0.0,
            "memory_l1_wavefronts_shared": 100e6,
        }
    )
    new = counted(
        **{
            "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 4608.0,
            "memory_l1_wavefronts_shared": 110e6,
        }
    )
    assert side_effect(story(old, new).sentence) == (
        "Shared wavefronts got worse (+10.0%); at the device's peak rate, what was added takes "
        "4% of v3's time."
    )


def test_what_costs_no_time_is_no_side_effect() -> None:
    branches = "smsp__sass_branch_targets_threads_divergent.sum"
    text = story(counted(**{branches: 0.0}), counted(**{branches: 5120.0})).sentence
    assert "side effect" not in text


def test_a_part_that_is_most_of_a_change_is_named_in_its_place() -> None:
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_"

    def at(wavefronts: float, loads: float, stores: float) -> Profile:
        return counted(
            **{
                "memory_l1_wavefronts_shared": wavefronts,
                f"{conflicts}ld.sum": loads,
                f"{conflicts}st.sum": stores,
            }
        )

    most = story(at(10e6, 1e6, 0.0), at(20e6, 1e6, 8e6)).sentence
    assert side_effect(most).startswith("Shared store bank conflicts got worse (0 → 8.00 M)")
    few = story(at(10e6, 1e6, 0.0), at(20e6, 1e6, 3e6)).sentence
    assert side_effect(few).startswith("Shared wavefronts got worse (×2.00)")


def test_a_grid_that_leaves_sms_without_work_is_said() -> None:
    old, new = counted(launch__grid_size=1024), counted(launch__grid_size=32)
    assert side_effect(story(old, new).sentence) == (
        "a grid of 32 blocks leaves 100 of 132 SMs without work."
    )
    assert "SMs" not in story(new, old).sentence
    assert "SMs" not in story(old, counted(launch__grid_size=132)).sentence


def test_occupancy_is_named_where_nothing_costs_time() -> None:
    occupancy = "sm__maximum_warps_per_active_cycle_pct"
    text = story(counted(**{occupancy: 50.0}), counted(**{occupancy: 37.5})).sentence
    assert side_effect(text) == "Theoretical occupancy got worse (−12.5 points)."
    assert (
        "side effect"
        not in story(counted(**{occupancy: 50.0}), counted(**{occupancy: 48.0})).sentence
    )


def test_half_a_wave_is_not_idle_time() -> None:
    waves = "launch__waves_per_multiprocessor"
    full = counted(**{waves: 4.0})
    assert "last wave got worse (+30.0 points)" in story(full, counted(**{waves: 1.4})).sentence
    assert "last wave" not in story(full, counted(**{waves: 0.5})).sentence


def linked(time: tuple[float, float], old: dict[int, int], new: dict[int, int]) -> str:
    """The sentence of a step that changes line 3 (rows 0 and 1) and line 5 (rows 3 and 4)."""
    sides = []
    for seconds, lines in zip(time, (old, new), strict=True):
        total = float(sum(lines.values()))
        metrics = make_metrics(
            **{"gpu__time_duration.sum": seconds, "memory_l1_wavefronts_shared": total}
        )
        table = make_instructions(memory_l1_wavefronts_shared=lines)
        sides.append(make_profile(launches=(make_launch(metrics=metrics, instructions=table),)))
    changed = edited(edited(sides[1], "in[threadIdx.y", "in[1 + threadIdx.y"), "2.0f", "3.0f")
    return story(sides[0], changed).sentence


def test_code_that_moved_is_no_link() -> None:
    # 30 M wavefronts went from line 3 to line 5; what changed is 1 M less on line 3.
    million = 1_000_000
    text = linked(
        (1e-3, 0.9e-3), {1: 40 * million, 3: 10 * million}, {1: 9 * million, 3: 40 * million}
    )
    assert "linked" not in text
    text = linked(
        (1e-3, 0.9e-3), {1: 40 * million, 3: 10 * million}, {1: 10 * million, 3: 15 * million}
    )
    assert (
        "Hunk 1 (line 3) is linked to −30.0 M shared wavefronts; the whole change is −25.0 M"
        in text
    )


def test_a_counter_that_went_against_the_time_is_said_to() -> None:
    million = 1_000_000
    old = {1: 10 * million, 3: 10 * million}
    more = linked((1e-3, 0.8e-3), old, {1: 40 * million, 3: 10 * million})
    assert "On the other hand, hunk 1 (line 3) is linked to +30.0 M shared wavefronts" in more
    little = linked((1e-3, 0.8e-3), old, {1: 15 * million, 3: 10 * million})
    assert "linked" not in little


def test_a_warp_that_issues_is_no_stall() -> None:
    prefix = "smsp__pcsamp_warps_issue_stalled_"

    def at(selected: int, wait: int) -> Profile:
        table = make_instructions(
            **{f"{prefix}selected": {0: selected}, f"{prefix}wait": {0: wait, 3: 1000}}
        )
        metrics = make_metrics(**{"gpu__time_duration.sum": (selected + wait + 1000) * 1e-7})
        return make_profile(launches=(make_launch(metrics=metrics, instructions=table),))

    old, new = at(5000, 1000), at(2000, 500)
    text = story(old, edited(new, "in[threadIdx.y", "in[1 + threadIdx.y")).sentence
    assert "time in Wait fell by an estimated 50.0 µs" in text
    assert "Selected" not in text
