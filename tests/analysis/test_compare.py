"""What counts as moved, better, comparable; how several launches become one number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import (
    H200,
    make_launch,
    make_metrics,
    make_profile,
    make_timing,
    padded,
    with_metrics,
)
from workbench.analysis.aggregate import Combined, combine, kernel_seconds, pair_launches
from workbench.analysis.compare import Comparison, compare
from workbench.analysis.misread import misread_words
from workbench.analysis.times.noise import noise_of
from workbench.analysis.times.timing import TimeChange, time_change
from workbench.counters import Counter, Missing, Reading, catalog, read
from workbench.errors import InconclusiveError
from workbench.model import Capture, Column, InstructionTable, Launch, Profile, Spread, Verification

DURATION = "gpu__time_duration.sum"


def compared(old: Profile, new: Profile, **options: object) -> Comparison:
    return compare(old, new, **options)  # type: ignore[arg-type]


def test_a_profile_does_not_move_against_itself() -> None:
    comparison = compared(make_profile(), make_profile())
    assert not any(delta.moved for delta in comparison.counters)
    assert {delta.verdict for delta in comparison.counters} == {"same", "missing"}
    assert [delta.id for delta in comparison.counters] == [c.id for c in catalog()]


def test_deltas_verdicts_and_directions() -> None:
    comparison = compared(make_profile(), padded(make_profile(version="v3")))
    wavefronts = comparison["shared_wavefronts"]
    assert (wavefronts.old, wavefronts.new, wavefronts.delta) == (33792, 2048, -31744)
    assert wavefronts.moved and wavefronts.verdict == "better"
    assert wavefronts.relative == pytest.approx(-31744 / 33792)
    assert comparison["duration"].verdict == "better"
    assert comparison["registers"].verdict == "changed"  # neither direction is good by itself
    assert comparison["l2_hit_rate"].verdict == "same"
    with pytest.raises(KeyError):
        comparison["no_such_counter"]


def test_worse_is_worse() -> None:
    comparison = compared(padded(make_profile()), make_profile())
    assert comparison["shared_bank_conflicts"].verdict == "worse"
    assert comparison["duration"].verdict == "worse"


@pytest.mark.parametrize(
    ("ncu", "inside", "outside", "counter"),
    [
        (DURATION, 312e-6 * 1.008, 312e-6 * 1.012, "duration"),  # 1 % of the duration
        ("lts__t_sector_hit_rate.pct", 95.9, 96.1, "l2_hit_rate"),  # 2 points
        (
            "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
            5.6,
            5.8,
            "barrier_stall",
        ),
        ("memory_l1_wavefronts_shared", 33792, 33793, "shared_wavefronts"),  # exact
        ("smsp__pcsamp_sample_count", 1091, 1092, "warp_samples"),  # two Poisson counts: 2·√2091
    ],
)
def test_a_counter_moves_when_it_leaves_its_noise(
    ncu: str, inside: float, outside: float, counter: str
) -> None:
    old = make_profile()
    assert not compared(old, with_metrics(old, **{ncu: inside}))[counter].moved
    assert compared(old, with_metrics(old, **{ncu: outside}))[counter].moved


def test_repeated_captures_replace_the_default_noise() -> None:
    def with_spread(low: float, high: float) -> Profile:
        spread = Spread(n=5, low=low, median=(low + high) / 2, high=high)
        launch = make_launch(
            metrics=make_metrics(**{DURATION: (low + high) / 2}), spreads={DURATION: spread}
        )
        return make_profile(launches=(launch,))

    # 0.5 %: inside of the default noise, but the intervals are narrower and apart.
    assert compared(with_spread(300e-6, 300.2e-6), with_spread(301.4e-6, 301.6e-6))[
        "duration"
    ].moved
    # 10 %: outside of the default noise, but the intervals overlap.
    wide = compared(with_spread(300e-6, 340e-6), with_spread(330e-6, 380e-6))
    assert not wide["duration"].moved


def test_few_captures_are_not_taken_for_many() -> None:
    """Three captures hold the next one half of the time: their range is widened."""

    def with_spread(n: int, low: float, high: float) -> Profile:
        spread = Spread(n=n, low=low, median=(low + high) / 2, high=high)
        launch = make_launch(
            metrics=make_metrics(**{DURATION: (low + high) / 2}), spreads={DURATION: spread}
        )
        return make_profile(launches=(launch,))

    near, far = (300e-6, 302e-6), (303e-6, 305e-6)
    assert not compared(with_spread(3, *near), with_spread(3, *far))["duration"].moved
    # Each of 2 µs is widened by 2 µs at both ends.
    for low, moved in ((305.9e-6, False), (306.1e-6, True)):
        other = with_spread(3, low, low + 2e-6)
        assert compared(with_spread(3, *near), other)["duration"].moved == moved
        assert compared(other, with_spread(3, *near))["duration"].moved == moved
    # A single capture has no spread: the catalog's noise of 1% decides.
    assert not compared(with_spread(1, *near), with_spread(20, *far))["duration"].moved
    assert compared(with_spread(20, *near), with_spread(20, *far))["duration"].moved


def test_repeats_do_not_call_a_thousandth_of_a_percent_a_change() -> None:
    def with_spread(value: float) -> Profile:
        spread = Spread(n=3, low=value, median=value, high=value)
        launch = make_launch(metrics=make_metrics(**{DURATION: value}), spreads={DURATION: spread})
        return make_profile(launches=(launch,))

    assert not compared(with_spread(300e-6), with_spread(300.003e-6))["duration"].moved
    assert compared(with_spread(300e-6), with_spread(301e-6))["duration"].moved


def test_what_one_side_lacks_is_missing_with_the_reason() -> None:
    old = make_profile()
    new = with_metrics(old, **{"l1tex__t_sector_hit_rate.pct": None})
    delta = compared(old, new)["l1_hit_rate"]
    assert (delta.old, delta.new, delta.delta, delta.verdict) == (0.5, None, None, "missing")
    assert delta.reason.startswith("new: ") and not delta.moved


@given(st.floats(0, 1e12), st.floats(0, 1e12))
def test_noise_is_symmetric_and_never_negative(a: float, b: float) -> None:
    for counter in catalog():
        assert noise_of(counter, a, b) == noise_of(counter, b, a) >= 0


def test_two_captures_of_the_same_kernels_do_not_move(report: Callable[[str], Path]) -> None:
    """The default noise floors hold on hardware: other sections, other replay passes."""
    from workbench.ncurep.read import read_report, select_kernels

    full, focus = read_report(report("ladder_full")), read_report(report("ladder_focus"))
    for name in (f"sgemm_v{step}" for step in range(5)):
        comparison = compare(select_kernels(full, name), select_kernels(focus, name))
        assert [delta.id for delta in comparison.counters if delta.moved] == [], name
    steps = compare(select_kernels(full, "sgemm_v2"), select_kernels(focus, "sgemm_v3"))
    assert sum(delta.moved for delta in steps.counters) > 20


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"device": msgspec.structs.replace(H200, name="NVIDIA A100")}, "devices"),
        ({"problem": "n4096"}, "problems"),
        ({"study": "other"}, "studies"),
        ({"engine": "emulator"}, "engines"),
        ({"parameters": {"N": 4096}}, "parameters"),
        ({"tools": {"ncu": "2024.1.0"}}, "major versions of ncu"),
        ({"capture": Capture(clock_control="base")}, "clock policies"),
    ],
)
def test_what_is_not_comparable_is_refused_with_the_reason(
    change: dict[str, object], word: str
) -> None:
    other = make_profile(**change)
    with pytest.raises(InconclusiveError) as error:
        compare(make_profile(), other)
    assert word in error.value.message and "--force" in error.value.hint
    assert error.value.exit_code == 6
    forced = compare(make_profile(), other, force=True)
    assert not forced.comparable and word in forced.reasons[0]


def test_nan_counters_are_refused_and_named() -> None:
    launch = make_launch(metrics=make_metrics(**{DURATION: None}), absent={DURATION: "NaN"})
    with pytest.raises(InconclusiveError) as error:
        compare(make_profile(), make_profile(launches=(launch,)))
    assert "NaN" in error.value.message and "duration" in error.value.message


def test_a_profile_without_a_profiled_launch_is_refused() -> None:
    empty = make_profile(launches=(make_launch(metrics={}, profiled=False),))
    with pytest.raises(InconclusiveError) as error:
        compare(make_profile(), empty)
    assert "no profiled launch" in error.value.message


def test_what_nobody_recorded_is_no_reason_to_refuse() -> None:
    bare = make_profile(
        study="", version="", problem="", parameters={}, tools={}, capture=Capture()
    )
    assert compare(bare, make_profile()).comparable


def test_another_minor_version_of_ncu_is_comparable() -> None:
    assert compare(make_profile(), make_profile(tools={"ncu": "2025.1.0"})).comparable


def test_different_clocks_and_drivers_are_warned_of() -> None:
    old = with_metrics(make_profile(), **{"smsp__cycles_elapsed.avg.per_second": 1.98e9})
    new = with_metrics(
        make_profile(tools={"ncu": "2025.3.1.0", "driver": "570.1"}),
        **{"smsp__cycles_elapsed.avg.per_second": 1.4e9},
    )
    warnings = " ".join(compare(old, new).warnings)
    assert "clock" in warnings and "1.40 GHz" in warnings and "drivers" in warnings
    for clock, warned in ((1.93e9, False), (1.91e9, True)):  # 2.5% and 3.5%
        new = with_metrics(make_profile(), **{"smsp__cycles_elapsed.avg.per_second": clock})
        assert any("SM clock" in each for each in compare(old, new).warnings) == warned
    # In short kernels an SM counts too few cycles, a GPC does not.
    sides = (with_metrics(x, **{"gpc__cycles_elapsed.avg.per_second": 5.8e8}) for x in (old, new))
    assert "clock" not in " ".join(compare(*sides).warnings)


def test_different_inputs_are_warned_of() -> None:
    def drawn(seed: int | None) -> Profile:
        check = Verification(problem="n1024", error=0, worst=0, tolerance=1e-5, seed=seed or 0)
        return make_profile(verification=None if seed is None else check)

    found = compare(drawn(3), drawn(4))
    assert found.warnings == ("different input seeds: 3, 4",)
    assert found.concerns == {found.warnings[0]: ""}  # no verdict depends on it
    assert not compare(drawn(3), drawn(3)).warnings and not compare(drawn(None), drawn(4)).warnings


def test_the_interval_of_a_speedup_holds_both_intervals() -> None:
    old = make_timing(300e-6, width=0.01)
    new = make_timing(200e-6, width=0.02)
    change = time_change(old, new)
    assert change is not None and change.moved
    assert change.speedup == pytest.approx(1.5)
    assert change.low == pytest.approx(1.5 * 0.99 / 1.02)
    assert change.high == pytest.approx(1.5 * 1.01 / 0.98)


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.2), (0.9, 1.0), (0.9, 1.1)])
def test_an_interval_that_touches_equally_fast_has_not_moved(low: float, high: float) -> None:
    assert not TimeChange(old_s=1.0, new_s=1.0, speedup=1.0, low=low, high=high).moved


@pytest.mark.parametrize("widths", [(1.0, 0.1), (0.1, 1.0)])
def test_a_time_that_may_be_nothing_is_compared_with_none(widths: tuple[float, float]) -> None:
    assert time_change(*(make_timing(1e-3, width=width) for width in widths)) is None


@given(*[st.floats(1e-6, 1.0)] * 2, *[st.floats(0, 0.5)] * 2, st.floats(-1, 1), st.floats(-1, 1))
def test_any_two_true_times_inside_give_a_ratio_inside(
    a: float, b: float, wa: float, wb: float, ta: float, tb: float
) -> None:
    change = time_change(make_timing(a, width=wa), make_timing(b, width=wb))
    assert change is not None
    true = (a * (1 + ta * wa)) / (b * (1 + tb * wb))
    assert change.low * (1 - 1e-9) <= true <= change.high * (1 + 1e-9)


def test_overlapping_times_did_not_move() -> None:
    change = time_change(make_timing(300e-6, 0.02), make_timing(297e-6, 0.02))
    assert change is not None and not change.moved


def test_times_of_unlike_things_are_not_compared() -> None:
    other = make_timing(problem="n4096")
    assert time_change(make_timing(), other) is None
    assert time_change(None, make_timing()) is None
    warm = make_timing(cache="warm")
    comparison = compare(make_profile(), make_profile(), old_time=make_timing(), new_time=warm)
    assert comparison.time is None
    assert any("not compared" in warning for warning in comparison.warnings)


def test_blocks_of_another_size_are_not_better_by_being_more() -> None:
    names = {"launch__block_size": 1024, "launch__occupancy_limit_warps": 2}
    for threads, verdict in ((1024, "better"), (512, "changed")):
        new = names | {"launch__block_size": threads, "launch__occupancy_limit_warps": 4}
        comparison = compare(
            with_metrics(make_profile(), **names), with_metrics(make_profile(), **new)
        )
        assert comparison["occupancy_limit_warps"].verdict == verdict


def test_a_time_that_the_profiler_alone_saw_move_is_left_to_the_sentence() -> None:
    time, old = make_timing(312e-6), make_profile()
    for old_time, new_time, seconds in (
        (time, time, 280e-6),
        (time, make_timing(290e-6, version="v3"), 312e-6),
    ):
        new = with_metrics(make_profile(), **{DURATION: seconds})
        comparison = compare(old, new, old_time=old_time, new_time=new_time)
        assert comparison.time is not None
        assert comparison.time.moved != comparison["duration"].moved
        assert not [text for text in comparison.warnings if "disagree" in text]


def launch(kernel: str, index: int, seconds: float, **metrics: float) -> Launch:
    return make_launch(
        kernel=kernel, index=index, metrics=make_metrics(**{DURATION: seconds, **metrics})
    )


def test_counts_add_up_and_rates_are_weighted() -> None:
    lanes, ran = "smsp__thread_inst_executed_per_inst_executed.ratio", "smsp__inst_executed.sum"
    busy = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
    registers = "launch__registers_per_thread"
    first = launch("im2col", 0, 1e-3, **{busy: 10.0, registers: 20, lanes: 8, ran: 3e6})
    second = launch("gemm", 1, 3e-3, **{busy: 90.0, registers: 100, lanes: 32, ran: 1e6})
    both = combine(make_profile(launches=(first, second)))
    duration, sectors = both["duration"], both["global_sectors"]
    assert isinstance(duration, Combined) and isinstance(sectors, Combined)
    assert duration.value == pytest.approx(4e-3) and duration.rule == "sum of 2 launches"
    assert sectors.value == 2 * 8192
    throughput, used = both["sm_throughput"], both["registers"]
    assert isinstance(throughput, Combined) and isinstance(used, Combined)
    assert throughput.value == pytest.approx(70.0) and "by duration" in throughput.rule
    assert both["lanes_per_instruction"][0] == pytest.approx(14.0)  # by the instructions
    assert used.value == 100 and used.rule == "of the longest launch, gemm"


def test_without_every_duration_instructions_weigh_and_there_is_no_sum() -> None:
    busy, ran = "sm__throughput.avg.pct_of_peak_sustained_elapsed", "smsp__inst_executed.sum"
    timed = launch("clear", 0, 1e-3, **{busy: 10.0, ran: 100, "launch__registers_per_thread": 8})
    untimed = make_launch(
        kernel="gemm", index=1, metrics=make_metrics(**{busy: 90.0, DURATION: None, ran: 300})
    )
    skipped = make_launch(index=2, metrics={}, profiled=False)
    both = make_profile(launches=(timed, untimed))
    throughput, used = combine(both)["sm_throughput"], combine(both)["registers"]
    assert isinstance(throughput, Combined) and isinstance(used, Combined)
    assert (throughput.value, throughput.rule) == (70.0, "mean of 2 launches, by instructions")
    # A kernel that clears a buffer is nobody's representative, whatever is not known.
    assert (used.value, used.rule) == (29, "of the largest launch, gemm")
    bare = [
        msgspec.structs.replace(
            x,
            instructions=InstructionTable(),
            metrics={
                name: metric for name, metric in x.metrics.items() if name not in (DURATION, ran)
            },
        )
        for x in both.launches
    ]
    plain = combine(make_profile(launches=tuple(bare)))["sm_throughput"]
    assert isinstance(plain, Combined)
    assert (plain.value, plain.rule) == (50.0, "plain mean of 2 launches")
    assert kernel_seconds(both) is None
    assert kernel_seconds(make_profile(launches=(timed, timed, skipped))) == pytest.approx(2e-3)
    assert kernel_seconds(make_profile(launches=(skipped,))) is None


def test_a_sum_with_a_hole_is_missing() -> None:
    hole = make_launch(index=1, metrics=make_metrics(memory_l1_wavefronts_shared=None))
    hole = msgspec.structs.replace(hole, instructions=type(hole.instructions)())
    both = combine(make_profile(launches=(make_launch(), hole)))
    missing = both["shared_wavefronts"]
    assert isinstance(missing, Missing) and "launch 1" in missing.reason


def test_a_launch_that_does_nothing_of_the_kind_leaves_a_mean_alone() -> None:
    none = {"smsp__sass_inst_executed_op_global_ld.sum": 0.0}
    name = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
    both = combine(
        make_profile(
            launches=(
                launch("a", 0, 1e-3, **{name: 16.0}),
                launch("b", 1, 1e-3, **none, **{name: 0}),
            )
        )
    )
    used = both["global_load_bytes_per_sector"]
    assert isinstance(used, Combined) and used.value == 16.0
    assert used.rule == "of a"


@pytest.mark.parametrize(
    ("text", "ran", "warned"),
    [
        ("@P0   LDGSTS.E.BYPASS.128 [R3], desc[UR6][R4.64]", 4, True),
        ("@P0   LDGSTS.E.BYPASS.128 [R3], desc[UR6][R4.64]", 0, False),
        ("@P1   LDGSTS.E.BYPASS.128 [R3], desc[UR6][R4.64]", 4, False),
    ],
)
def test_copies_that_ncu_misreads_are_said(text: str, ran: int, warned: bool) -> None:
    column = Column(rows=(0,), values=(ran,)) if ran else Column(rows=(), values=())
    table = InstructionTable(
        address=(0,), text=(text,), file=(-1,), line=(0,), columns={"inst_executed": column}
    )
    launches = (make_launch(instructions=table),)
    new = make_profile(version="v3", launches=launches, tools={"ncu": "2025.3.1.0"})
    said = "v3: ncu misreads 1 copy to shared memory"
    assert any(said in warning for warning in compare(make_profile(), new).warnings) == warned
    emulated = msgspec.structs.replace(new, engine="emulator")
    older = msgspec.structs.replace(new, tools={"ncu": "2023.1.0.0"})
    # Nobody has seen it there; and of another architecture nothing is known.
    assert all("may misread" in words for words in misread_words(older))
    ampere = msgspec.structs.replace(new.device, compute_capability=(8, 0))
    assert misread_words(msgspec.structs.replace(new, device=ampere)) == []
    assert misread_words(new) != [] if warned else misread_words(new) == []
    assert misread_words(emulated) == []


def test_launches_that_were_never_profiled_are_left_out_with_a_warning() -> None:
    ghost = make_launch(index=1, metrics={}, profiled=False)
    comparison = compare(make_profile(), make_profile(launches=(make_launch(), ghost)))
    assert comparison["duration"].verdict == "same"
    assert any("never profiled" in warning for warning in comparison.warnings)


def names(*kernels: str) -> tuple[Launch, ...]:
    return tuple(make_launch(kernel=kernel, index=i) for i, kernel in enumerate(kernels))


def test_launches_pair_by_name_and_then_by_order() -> None:
    pairs = pair_launches(names("a", "b", "a"), names("b", "a", "a"))
    assert [(p.old, p.new, p.how) for p in pairs] == [
        (0, 1, "signature"),
        (1, 0, "signature"),
        (2, 2, "signature"),
    ]


def test_a_renamed_kernel_is_matched_and_a_merged_one_is_not() -> None:
    renamed = pair_launches(names("init", "sgemm_v2"), names("init", "sgemm_v3"))
    assert [(p.old, p.new, p.how) for p in renamed] == [(0, 0, "signature"), (1, 1, "renamed")]
    merged = pair_launches(names("im2col", "gemm"), names("direct"))
    assert [(p.kernel, p.old, p.new) for p in merged] == [
        ("im2col", 0, None),
        ("gemm", 1, None),
        ("direct", None, 0),
    ]


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abcd"), max_size=8))
def test_every_launch_stands_in_exactly_one_pair(old: list[str], new: list[str]) -> None:
    pairs = pair_launches(names(*old), names(*new))
    assert sorted(p.old for p in pairs if p.old is not None) == list(range(len(old)))
    assert sorted(p.new for p in pairs if p.new is not None) == list(range(len(new)))


def test_the_sides_say_what_they_are() -> None:
    comparison = compare(make_profile(), make_profile(version="v3"))
    assert (comparison.old.label, comparison.new.label) == ("v2", "v3")
    foreign = make_profile(version="", launches=names("x", "y"))
    assert compare(foreign, foreign).old.label == "2 launches"


@pytest.mark.parametrize("turned", [False, True])
def test_two_engines_are_refused_with_the_command_that_helps(turned: bool) -> None:
    sides = [make_profile(), make_profile(version="v3", engine="emulator")]
    with pytest.raises(InconclusiveError) as error:
        compared(*(reversed(sides) if turned else sides))
    assert "different engines" in error.value.message
    assert "`workbench profile demo/v2:n1024 --engine emulator`" in error.value.hint
    assert "--force" in error.value.hint


@pytest.mark.parametrize(
    ("durations", "clocks", "said"),
    [
        (
            (312e-6, 260e-6),
            (1.8e9, 1.8e9),
            "1.04× faster by the recorded times, 1.20× faster under",
        ),
        (
            (312e-6, 320e-6),
            (1.8e9, 1.8e9),
            "1.04× faster by the recorded times, 1.03× slower under",
        ),
        ((312e-6, 260e-6), (1.7e9, 1.95e9), "(where the SM clock was 1.70 GHz, then 1.95 GHz)"),
        ((312e-6, 298e-6), (1.8e9, 1.8e9), ""),
    ],
)
def test_times_that_disagree_with_the_profiler_are_warned_of(
    durations: tuple[float, float], clocks: tuple[float, float], said: str
) -> None:
    old, new = (
        with_metrics(
            make_profile(version=version),
            **{"gpu__time_duration.sum": seconds, "smsp__cycles_elapsed.avg.per_second": clock},
        )
        for version, seconds, clock in zip(("v2", "v3"), durations, clocks, strict=True)
    )
    times = make_timing(312e-6), make_timing(300e-6, version="v3")
    comparison = compare(old, new, old_time=times[0], new_time=times[1])
    told = [warning for warning in comparison.warnings if "disagree" in warning]
    assert (said in told[0]) if said else not told


def test_every_counter_of_a_launch_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(launch: Launch, counter: Counter | str) -> Reading | Missing:
        asked.append(counter if isinstance(counter, str) else counter.id)
        return read(launch, counter)

    monkeypatch.setattr("workbench.counters.read", counted)
    profile = make_profile()
    first = combine(profile)
    assert len(asked) >= len(first)
    asked.clear()
    assert combine(profile) == first and not asked
    slower = with_metrics(profile, **{"gpu__time_duration.sum": 1e-3})
    assert combine(slower)["duration"] != first["duration"]
