"""The sentence: says what the parts say, and nothing where they say nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.factories import make_instructions, make_launch, make_metrics, make_profile, make_timing
from workbench.analysis.cause.places import Origin
from workbench.analysis.compare import compare
from workbench.analysis.sentence import strip
from workbench.analysis.story import Story, explain
from workbench.language import using
from workbench.model import InstructionTable, Metric, Profile, SourceFile
from workbench.ncurep.read import read_report, select_kernels
from workbench.store import Store


def story(old: Profile, new: Profile, **times: Any) -> Story:
    """The step's story; what the compiler made of the new side is not what it made of the old."""
    launches = tuple(
        structs.replace(
            launch,
            instructions=structs.replace(
                launch.instructions,
                text=tuple(text.replace("R4", "R14") for text in launch.instructions.text),
            ),
        )
        for launch in new.launches
    )
    new = structs.replace(new, launches=launches)
    times.setdefault("old_time", None)
    times.setdefault("new_time", None)
    comparison = compare(old, new, labels=("v2", "v3"), **times)
    return explain(old, new, comparison)


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
    assert text.startswith(
        "Under the profiler v3 and v2 are equally fast within the noise. The limit"
    )
    assert "linked" not in text


def test_the_same_machine_code_is_no_step_whatever_the_clock_says() -> None:
    comparison = compare(
        make_profile(),
        make_profile(),
        labels=("v2", "v3"),
        old_time=make_timing(200e-6),
        new_time=make_timing(300e-6, version="v3"),
    )
    text = explain(make_profile(), make_profile(), comparison).sentence
    assert text.startswith("Identical machine code: ")
    assert text.endswith("v3 is 1.50× slower than v2.")


def test_one_code_on_two_devices_is_told_by_their_limits_and_by_no_edit() -> None:
    old, new = make_profile(), make_profile()
    new = replaced(new, device=structs.replace(new.device, name="NVIDIA A100", slug="a100"))
    times = make_timing(300e-6), structs.replace(make_timing(200e-6), device=new.device)
    labels = ("v3@h200", "v3@a100")
    comparison = compare(old, new, labels=labels, old_time=times[0], new_time=times[1], across=True)
    assert comparison.comparable
    told = explain(old, new, comparison)
    assert told.sentence.startswith(
        "The same machine code is 1.50× faster on NVIDIA A100 than on NVIDIA H200. The limit is "
    )
    assert told.sentence.endswith(" on both.")
    kinds = [stop.kind for stop in told.strip]
    assert kinds == ["limit", "doubt", "time", "limit"]
    assert (told.tried, told.scores) == ((), ())


def test_another_code_on_another_device_is_linked_to_no_edit() -> None:
    old, new = step(), step()
    new = replaced(new, device=structs.replace(new.device, name="NVIDIA A100", slug="a100"))
    told = story(old, edited(new, "float", "double"), across=True)
    assert told.sentence.startswith("Two devices: NVIDIA H200 and NVIDIA A100. ")
    assert "linked" not in told.sentence and "hunk" not in told.sentence


def test_only_noise_moves_nothing() -> None:
    slower = make_launch(metrics=make_metrics(**{"gpu__time_duration.sum": 312.1e-6}))
    text = story(make_profile(), make_profile(launches=(slower,))).sentence
    assert "equally fast within the noise" in text
    assert "faster" not in text and "slower" not in text and "linked" not in text


def test_no_time_is_said() -> None:
    bare = make_profile(launches=(make_launch(metrics={}),))
    said = story(bare, bare).sentence
    assert said.startswith("No counter moved from v2 to v3.")
    uncounted = make_profile(launches=(make_launch(metrics={}, instructions=InstructionTable()),))
    said = story(uncounted, uncounted).sentence
    assert said.startswith("v2 and v3 do not both have a time.")


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


def test_a_speed_up_that_rounds_to_one_is_told_in_percent() -> None:
    times = {
        "old_time": make_timing(200.6e-6, width=0.0005),
        "new_time": make_timing(200e-6, width=0.0005, version="v3"),
    }
    text = story(make_profile(), make_profile(), **times).sentence
    assert text.startswith("v3 is 0.300% faster than v2.")


def at(seconds: float, instructions: float, table: InstructionTable, **metrics: float) -> Profile:
    """A side that issues in every cycle it can: its time follows its instructions."""
    known = {
        "gpu__time_duration.sum": seconds,
        "smsp__inst_executed.sum": instructions,
        "sm__inst_issued.avg.pct_of_peak_sustained_elapsed": 80.0,
        **metrics,
    }
    given = {name: Metric(value=value) for name, value in known.items()}
    return make_profile(launches=(make_launch(metrics=given, instructions=table),))


def test_code_that_moved_from_hunk_to_hunk_is_one_edit_of_both() -> None:
    # Line 3 (row 1) gives to line 5 (row 3) most of what it loses: one move of both hunks.
    old = at(1e-3, 51_000.0, make_instructions(inst_executed={1: 41_000, 3: 10_000}))
    new = at(0.9e-3, 45_900.0, make_instructions(inst_executed={1: 5_900, 3: 40_000}))
    changed = edited(edited(new, "in[threadIdx.y", "in[1 + threadIdx.y"), "2.0f", "3.0f")
    found = story(old, changed)
    assert [proof.counter.id for proof in found.cause.proofs] == ["instructions"]
    assert found.cause.proofs[0].place.hunks == (1, 2)
    assert "Instructions executed fell 51.0 k → 45.9 k" in found.sentence


def test_a_counter_that_went_against_the_time_is_no_cause() -> None:
    old = at(1e-3, 50_000.0, make_instructions(inst_executed={1: 50_000}))
    new = at(0.8e-3, 60_000.0, make_instructions(inst_executed={1: 60_000}))
    text = story(old, edited(new, "in[threadIdx.y", "in[1 + threadIdx.y")).sentence
    assert "linked" not in text and "No counter that moved explains it." in text


def test_a_warp_that_issues_is_no_stall() -> None:
    prefix = "smsp__pcsamp_warps_issue_stalled_"

    def side(selected: int, wait: int) -> Profile:
        table = make_instructions(
            inst_executed={0: selected * 10},
            **{f"{prefix}selected": {0: selected}, f"{prefix}wait": {0: wait, 3: 1000}},
        )
        return at((selected + wait + 1000) * 1e-7, selected * 10.0, table)

    def told(old: Profile, new: Profile) -> str:
        return story(old, edited(new, "in[threadIdx.y", "in[1 + threadIdx.y")).sentence

    text = told(side(5000, 3000), side(3000, 1000))
    assert "Warps spent an estimated 200 µs less in wait stalls, 50% of the change." in text
    assert "elected" not in text
    # Of 350 µs these are 50: who issues less waits a little less, and that is no reason.
    text = told(side(5000, 1000), side(2000, 500))
    assert "wait stalls" not in text
    assert "Warps spent an estimated 300 µs less issuing, 86% of the change." in text


def test_a_time_that_the_profiler_did_not_see_is_told_as_such() -> None:
    old = at(1e-3, 50_000.0, make_instructions(inst_executed={1: 50_000}))
    words = "Under the profiler they are equally fast within the noise."
    for seconds, said in ((1.001e-3, True), (0.8e-3, False)):
        new = at(seconds, 60_000.0, make_instructions(inst_executed={1: 60_000}))
        text = story(
            old,
            edited(new, "in[threadIdx.y", "in[1 + threadIdx.y"),
            old_time=make_timing(1e-3),
            new_time=make_timing(0.9e-3),
        ).sentence
        assert (words in text) is said and text.startswith("v3 is 1.11× faster than v2.")


def test_a_time_that_only_the_profiler_saw_is_told_as_such() -> None:
    table = make_instructions(inst_executed={1: 50_000})
    told = story(
        at(1e-3, 50_000.0, table),
        edited(at(1.1e-3, 60_000.0, table), "in[threadIdx.y", "in[1 + threadIdx.y"),
        old_time=make_timing(1e-3),
        new_time=make_timing(1e-3),
    )
    assert told.sentence.startswith(
        "v3 and v2 are equally fast within their intervals. Under the profiler v3 is 1.10× slower. "
        "Instructions executed rose 50.0 k → 60.0 k (+20.0%)"
    )
    assert [stop.kind for stop in told.strip][:1] == ["time"]


def test_of_a_time_that_only_the_profiler_saw_the_profilers_clock_is_a_cause() -> None:
    table = make_instructions(inst_executed={1: 50_000})
    sides = [
        at(seconds, 50_000.0, table, **{"smsp__cycles_elapsed.avg.per_second": clock})
        for seconds, clock in ((1e-3, 2.0e9), (1.1e-3, 1.8e9))
    ]
    time = make_timing(1e-3)
    edit = edited(sides[1], "in[threadIdx.y", "in[1 + threadIdx.y")
    told = story(sides[0], edit, old_time=time, new_time=time)
    assert "The SM clock went 2.00 GHz → 1.80 GHz" in told.sentence


def sides(
    study: str, old: str, new: str, problem: str, device: str = "h200"
) -> tuple[Profile, Profile]:
    store = Store(Path(__file__).parents[2] / "profiles")
    pick = {"study": study, "problem": problem, "device": device}
    return store.get(version=old, **pick), store.get(version=new, **pick)


def recorded(study: str, old: str, new: str, problem: str, device: str = "h200") -> Story:
    before, after = sides(study, old, new, problem, device)
    return explain(before, after, compare(before, after))


def test_a_stall_that_no_single_hunk_moved_has_a_strip_that_says_so() -> None:
    old, new = sides("conv2d_half", "v17", "v18", "n32_c128")
    comparison = compare(old, new)
    told = explain(old, new, comparison)
    nobody = structs.replace(told.cause.proofs[0], place=Origin(link="elsewhere"), beside=None)
    cause = structs.replace(told.cause, proofs=(nobody,))
    edit, stall, *_ = strip(comparison, told.attribution, cause)
    assert (edit.text, edit.kind, edit.hunk) == ("no single hunk", "edit", None)
    assert stall.text.startswith("MIO throttle stalls −")


def test_without_a_time_the_step_is_told_by_the_count_that_costs_most(
    report: Callable[[str], Path],
) -> None:
    """As of profiles that were counted without a GPU."""
    ladder = read_report(report("ladder_full"))
    old, new = (
        structs.replace(
            side,
            launches=tuple(
                structs.replace(
                    launch,
                    metrics={
                        name: metric
                        for name, metric in launch.metrics.items()
                        if "time_duration" not in name
                    },
                )
                for launch in side.launches
            ),
        )
        for side in (select_kernels(ladder, f"sgemm_{v}") for v in ("v2", "v3"))
    )
    told = story(old, new)
    assert told.sentence.startswith(
        "Shared wavefronts fell 102 M → 69.2 M (−32.0%), linked to hunk 1 (line 38)."
    )
    assert [stop.text for stop in told.strip[:2]] == [
        "hunk 1 (line 38)",
        "shared wavefronts 102 M → 69.2 M (−32.0%)",
    ]
    # The same counts beside times that were measured elsewhere, which went their way or another.
    slow, fast = make_timing(438e-6), make_timing(317e-6)
    told = story(old, new, old_time=slow, new_time=fast)
    assert "faster than v2. Shared wavefronts fell 102 M → 69.2 M" in told.sentence
    told = story(old, new, old_time=fast, new_time=slow)
    assert "slower than v2. Shared wavefronts" not in told.sentence


def test_no_kernel_changed_most_where_all_of_them_took_as_long() -> None:
    told = recorded("conv2d_half", "v10", "v11", "n32_c128", "h100-80gb-hbm3").sentence
    assert "equally fast" in told and "changed most" not in told


def of_grid(time_s: float, blocks: int, waves: float, active: float, **counts: float) -> Profile:
    """A side by its duration, its grid, how long SMs were active (0-1), and counts.

    `waits` is how often of ten a warp is seen waiting for memory.
    """
    waits = counts.pop("waits")
    state = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    known = {
        "gpu__time_duration.sum": time_s,
        "sm__cycles_elapsed.max": time_s * 1.7e9,
        "sm__cycles_active.avg": active * time_s * 1.7e9,
        "launch__grid_size": blocks,
        "launch__waves_per_multiprocessor": waves,
        "smsp__average_warp_latency_per_inst_issued.ratio": 10.0,
        state.format("long_scoreboard"): waits,
        state.format("lg_throttle"): 0.0,
        state.format("wait"): 9.0 - waits,
        state.format("selected"): 1.0,
        **counts,
    }
    metrics = {name: Metric(value=value) for name, value in known.items()}
    launch = make_launch(metrics=metrics, instructions=InstructionTable())
    return make_profile(launches=(launch,))


LOCAL = "memory_l2_theoretical_sectors_local"
SPILLED = "Local sectors rose 0 → {} (registers were spilled, or arrays are in local memory)."


@pytest.mark.parametrize(
    ("old", "new", "grid", "spilled"),
    [
        # Tuned matrix products and convolutions on an H100: tiles that no longer fit in registers.
        (
            of_grid(579e-6, 128, 0.970, 0.95, waits=1.9, **{LOCAL: 0}),
            of_grid(1.66e-3, 64, 0.485, 0.48, waits=2.1, **{LOCAL: 129e6}),
            "from 128 to 64 blocks (0.970 → 0.485 waves), and SMs are active 48% of the time",
            SPILLED.format("129 M"),
        ),
        # A tuned matrix product whose grid shrank alone, and one where nobody counted.
        (
            of_grid(85.6e-6, 32, 0.121, 0.24, waits=3.6, **{LOCAL: 0}),
            of_grid(125e-6, 16, 0.121, 0.12, waits=4.9, **{LOCAL: 0}),
            "from 32 to 16 blocks, and SMs are active 12% of the time",
            "",
        ),
        (
            of_grid(579e-6, 128, 0.970, 0.95, waits=1.9),
            of_grid(1.66e-3, 64, 0.485, 0.48, waits=2.1, **{LOCAL: 129e6}),
            "from 128 to 64 blocks (0.970 → 0.485 waves), and SMs are active 48% of the time",
            "",
        ),
    ],
)
def test_what_spilled_is_told_beside_a_grid_that_shrank(
    old: Profile, new: Profile, grid: str, spilled: str
) -> None:
    text = story(old, new).sentence
    assert f"The grid went {grid}" in text
    assert spilled in text and ("ocal sectors" in text) is bool(spilled)
    assert text.find(spilled) == 0 or text.index("The grid went") < text.index(spilled)
    back = story(new, old).sentence
    assert ("Local sectors fell" in back) is bool(spilled) and "registers were spilled" not in back


@pytest.mark.parametrize("edit", [True, False])
def test_what_spilled_more_is_told_beside_the_wait_for_it(edit: bool) -> None:
    """As profiled: 56.7 M local sectors and then 2.15 G, and a wait that took all of the time."""
    old = of_grid(637e-6, 512, 1.94, 0.95, waits=3.0, **{LOCAL: 56.7e6})
    new = of_grid(9.66e-3, 512, 1.94, 0.95, waits=8.7, **{LOCAL: 2.15e9})
    new = edited(new, "float", "double") if edit else new
    text = story(old, new).sentence
    assert "Time in long scoreboard stalls rose" in text
    assert text.count("local sectors rose 56.7 M → 2.15 G (×37.9)") == 1


@pytest.mark.parametrize(
    ("slower", "waits", "partly"), [(8.0, 6.5, False), (8.0, 3.0, True), (1.5, 3.0, False)]
)
def test_what_explains_half_of_the_seconds_explains_no_part_of_them_only(
    slower: float, waits: float, partly: bool
) -> None:
    """As profiled: of 8.3× as long, two thirds were waits for local memory, which was new.

    Half of the waits follow the count: a third of the time, which is a fifth of its logarithm.
    """
    old = of_grid(4.6e-6, 512, 1.94, 0.95, waits=0.5, **{LOCAL: 0})
    new = of_grid(slower * 4.6e-6, 512, 1.94, 0.95, waits=waits, **{LOCAL: 5e6})
    told = story(old, new)
    first = told.cause.proofs[0]
    assert first.counter.id == "local_sectors" or first.beside is not None
    assert ("only part" in told.sentence) is partly


def test_what_spilled_is_told_in_chinese() -> None:
    old = of_grid(14.4e-6, 79, 0.299, 0.47, waits=1.2, **{LOCAL: 0})
    new = of_grid(79.8e-6, 40, 0.152, 0.28, waits=6.2, **{LOCAL: 7.2e6})
    with using("zh"):
        text = story(old, new).sentence
    assert "局部扇区数升高 0 → 7.20 M（寄存器溢出，或数组位于局部内存）。" in text
