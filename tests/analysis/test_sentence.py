"""The sentence: says what the parts say, and nothing where they say nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from factories import make_instructions, make_launch, make_metrics, make_profile, make_timing

from workbench.analysis.compare import compare
from workbench.analysis.explanation import Explanation, explain
from workbench.model import Profile, SourceFile
from workbench.ncurep.read import read_report, select_kernels


def story(old: Profile, new: Profile, **times: Any) -> Explanation:
    times.setdefault("old_time", None)
    times.setdefault("new_time", None)
    comparison = compare(old, new, labels=("v2", "v3"), **times)
    return explain(old, new, comparison)


def step(**columns: dict[int, int]) -> Profile:
    return make_profile(launches=(make_launch(instructions=make_instructions(**columns)),))


def edited(profile: Profile, old: str, new: str) -> Profile:
    source = profile.sources[0]
    fields = {f: getattr(profile, f) for f in profile.__struct_fields__}
    text = (source.text or "").replace(old, new)
    return Profile(**{**fields, "sources": (SourceFile(path=source.path, text=text),)})


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
    old = make_profile(sources=())
    launch = make_launch(
        metrics=make_metrics(memory_l1_wavefronts_shared=2048),
        instructions=make_instructions(memory_l1_wavefronts_shared={1: 1024, 3: 1024}),
    )
    text = story(old, make_profile(sources=(), launches=(launch,))).sentence
    assert "is linked to −" not in text and "hunk" not in text.lower()
    assert "linked to no change of the source" in text


def test_strongest_link_with_its_share() -> None:
    launch = make_launch(
        metrics=make_metrics(memory_l1_wavefronts_shared=2048),
        instructions=make_instructions(
            memory_l1_wavefronts_shared={1: 1024, 3: 1024},
            memory_l1_wavefronts_shared_ideal={1: 1024, 3: 1024},
        ),
    )
    new = edited(make_profile(launches=(launch,)), "[32][32]", "[32][33]")
    found = story(make_profile(), new)
    assert (
        "The change of `tile` (line 2) is linked to −31.7 k shared wavefronts, all of the change."
        in found.sentence
    )
    assert "cause" not in found.sentence


def test_parts_that_cancel_are_not_all_of_a_change() -> None:
    # The hunk's line loses what an unrelated line gains: the whole change is small.
    old = step(inst_executed={0: 1000, 2: 1000, 4: 1000})
    launch = make_launch(
        metrics=make_metrics(**{"smsp__inst_executed.sum": 40_000.0}),
        instructions=make_instructions(inst_executed={0: 200, 2: 1700, 4: 1000}),
    )
    new = edited(make_profile(launches=(launch,)), "in[threadIdx.y", "in[1 + threadIdx.y")
    text = story(old, new).sentence
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
