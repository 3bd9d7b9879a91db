"""What a tuning says besides its winner: effects, cliffs with their limiters, other sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

import pytest

from workbench.ladder.tunings import Trial, Tuning, Value, Values
from workbench.tune.effects import Cliff, Effects, cliffs, effects, limiters, wrong_choices

SPACE: dict[str, tuple[Value, ...]] = {
    "TILE": (16, 32, 64),
    "UNROLL": (1, 2, 4, 8),
    "block": ("8x8", "16x8"),
}


def every(space: dict[str, tuple[Value, ...]] = SPACE) -> list[Values]:
    return [dict(zip(space, each, strict=True)) for each in itertools.product(*space.values())]


def timed(
    values: Mapping[str, Value],
    seconds: float,
    problem: str = "n512",
    half: float = 0.002,
    **more: Any,
) -> Trial:
    return Trial(
        values=dict(values),
        fate="timed",
        problem=problem,
        median_s=seconds,
        low_s=seconds * (1 - half),
        high_s=seconds * (1 + half),
        **more,
    )


def tuning(
    trials: Iterable[Trial], space: dict[str, tuple[Value, ...]] = SPACE, engine: str = "gpu"
) -> Tuning:
    trials = tuple(trials)
    return Tuning(
        study="sgemm",
        version="v5",
        source_hash="abc",
        problems=tuple(dict.fromkeys(each.problem for each in trials)),
        gpu="h100",
        engine=engine,  # type: ignore[arg-type]
        parameters=space,
        default={name: values[0] for name, values in space.items()},
        strategy="all",
        seed=1,
        started="2026-11-26T09:00:00Z",
        trials=trials,
    )


def of(found: Effects, *names: str) -> float | None:
    (one,) = (each for each in (*found.mains, *found.pairs) if each.parameters == names)
    return one.share


def why(found: Effects, *names: str) -> str:
    (one,) = (each for each in (*found.mains, *found.pairs) if each.parameters == names)
    return one.why


# --- effects -------------------------------------------------------------------------------------


def product(values: Values) -> float:
    """TILE doubles the time at each value, UNROLL makes it 1.1× longer; block does nothing."""
    return 1e-3 * 2.0 ** at("TILE", values) * 1.1 ** at("UNROLL", values)


def at(name: str, values: Values) -> int:
    return SPACE[name].index(values[name])


def together(values: Values) -> float:
    """Neither of two matters alone: what counts is whether they are both large or both small."""
    return 1e-3 * (2.0 if (values["A"] == 2) == (values["B"] == 2) else 1.0)


def test_shares_of_a_whole_grid_are_those_of_the_textbook() -> None:
    found = effects(tuning(timed(each, product(each), half=1e-9) for each in every()), "n512")
    tile = math.log(2) ** 2 * 2 / 3  # variance of 0, 1, 2 times log 2
    unroll = math.log(1.1) ** 2 * 5 / 4  # of 0, 1, 2, 3
    assert (found.complete, found.tried) == (True, 24)
    assert of(found, "TILE") == pytest.approx(tile / (tile + unroll))
    assert of(found, "UNROLL") == pytest.approx(unroll / (tile + unroll))
    assert of(found, "block") == pytest.approx(0, abs=1e-9)
    assert [each.parameters for each in found.mains] == [("TILE",), ("UNROLL",), ("block",)]
    assert all(each.share == pytest.approx(0, abs=1e-9) for each in found.pairs)
    costs = {each.value: each.factor for each in found.mains[0].levels}
    assert costs == {16: pytest.approx(1), 32: pytest.approx(2), 64: pytest.approx(4)}


def test_two_that_matter_only_together_are_an_interaction() -> None:
    space: dict[str, tuple[Value, ...]] = {"A": (1, 2), "B": (1, 2)}
    trials = [timed(each, together(each), half=1e-9) for each in every(space)]
    found = effects(tuning(trials, space), "n512")
    assert of(found, "A", "B") == pytest.approx(1)
    assert [of(found, name) for name in "AB"] == pytest.approx([0, 0])


def part(seed: int) -> Effects:
    """Two thirds of the grid, each time off by a hundredth of its own."""
    random = Random(seed)
    chosen = [each for place, each in enumerate(every()) if place % 3]
    return effects(
        tuning(timed(each, product(each) * random.gauss(1.0, 0.01)) for each in chosen), "n512"
    )


def test_a_part_of_the_grid_tells_the_same_factors() -> None:
    found = part(1)
    assert not found.complete
    costs = {each.value: each.factor for each in found.mains[0].levels}
    assert costs == {16: 1.0, 32: pytest.approx(2, rel=0.03), 64: pytest.approx(4, rel=0.03)}
    assert (of(found, "TILE") or 0) > 0.9
    assert (of(found, "block"), why(found, "block")) == (None, "could be chance")


def test_chance_is_seldom_told_for_an_interaction() -> None:
    told = [each for seed in range(40) for each in part(seed).pairs if each.share is not None]
    assert len(told) <= 6  # of 120, where 1 in 100 was allowed


def test_what_the_timed_choices_cannot_tell_apart_is_not_told() -> None:
    # UNROLL rose whenever TILE did: nobody knows which of them it was.
    both = [each for each in every() if at("TILE", each) == at("UNROLL", each)]
    found = effects(tuning(timed(each, product(each)) for each in both), "n512")
    for name in ("TILE", "UNROLL"):
        assert of(found, name) is None
        assert why(found, name) == "its values were timed only together with certain others"
    assert all(level.factor is None for each in found.mains[-2:] for level in each.levels)


def test_equal_times_have_no_effects_and_a_single_value_none() -> None:
    some = [each for each in every() if each["block"] == "8x8"]
    found = effects(tuning(timed(each, 1e-3) for each in some), "n512")
    assert why(found, "TILE") == "all times are equal"
    assert why(found, "block") == "only one value was timed"
    assert {each.tried for each in found.mains[-1].levels} >= {0, 12}


def test_what_was_not_timed_takes_no_part_and_the_emulator_has_estimates() -> None:
    trials = [timed(each, product(each)) for each in every()]
    trials.append(Trial(values=every()[3], fate="wrong", problem="n512"))
    trials.append(timed(every()[0], 9.0, problem="n4096"))
    assert effects(tuning(trials), "n512").tried == 24
    counted = [
        Trial(values=each, fate="counted", problem="n512", estimate=product(each))
        for each in every()
    ]
    found = effects(tuning(counted, engine="emulator"), "n512")
    assert found.complete and (of(found, "TILE") or 0) > 0.9


# --- cliffs --------------------------------------------------------------------------------------

#: As many of each on both sides.
ALIKE = {"shared_wavefronts": 1e6, "global_sectors": 1e6, "instructions": 1e6, "atomics": 1e6}


def line(*seconds: float, **facts: Callable[[int], Any]) -> Tuning:
    """A tuning of one parameter: a time and facts a value."""
    space: dict[str, tuple[Value, ...]] = {"TILE": tuple(range(len(seconds)))}
    trials = [
        timed({"TILE": place}, each, **{name: at(place) for name, at in facts.items()})
        for place, each in enumerate(seconds)
    ]
    return tuning(trials, space)


def only(told: tuple[Cliff, ...]) -> Cliff:
    (one,) = told
    return one


def test_a_step_to_more_registers_is_told_by_the_blocks_that_no_longer_fit() -> None:
    told = cliffs(
        line(
            1e-3, 1.01e-3, 1.6e-3,
            registers=lambda at: (40, 42, 80)[at],
            shared=lambda _: 4096,
            occupancy=lambda at: (0.75, 0.75, 0.375)[at],
            facts=lambda at: {
                **ALIKE,
                "occupancy_limit_registers": (6.0, 6.0, 3.0)[at],
                "occupancy_limit_shared": 20.0,
            },
        ),
        "n512",
    )  # fmt: skip
    cliff = only(told)
    assert cliff.limiter == "registers → occupancy"
    assert (cliff.fast, cliff.slow) == ({"TILE": 1}, {"TILE": 2})
    assert cliff.factor == pytest.approx(1.6 / 1.01)
    assert cliff.moved == ("registers 42 → 80 per thread, theoretical occupancy 75.0% → 37.5%",)


def test_shared_memory_that_takes_the_blocks_is_told_and_either_where_nobody_knows() -> None:
    def at(limits: bool) -> str:
        facts = {"occupancy_limit_registers": 8.0, "occupancy_limit_shared": 2.0} if limits else {}
        return only(
            cliffs(
                line(
                    1e-3, 2e-3,
                    registers=lambda at: 40 + at,
                    shared=lambda at: 20_000 + 80_000 * at,
                    occupancy=lambda at: 0.5 / (1 + at),
                    facts=lambda _: ALIKE | facts,
                ),
                "n512",
            )
        ).limiter  # fmt: skip

    assert at(True) == "shared memory → occupancy"
    assert at(False) == "occupancy"  # registers and shared memory both rose


@pytest.mark.parametrize("counted", [*ALIKE, ""])
def test_occupancy_is_no_reason_where_what_would_decide_was_not_counted(counted: str) -> None:
    """As profiled: conflicts, not counted in time, filled 95% of the L1 data stage."""
    grid = line(
        1e-3, 1.64e-3,
        registers=lambda at: (40, 80)[at],
        occupancy=lambda at: (0.75, 0.375)[at],
        facts=lambda at: {name: 1e6 for name in ALIKE if at or name != counted},
    )  # fmt: skip
    assert bool(cliffs(grid, "n512")) == (not counted)


def test_conflicts_spills_and_a_short_last_wave_have_their_names() -> None:
    def named(facts: Callable[[int], dict[str, float]], slower: float = 1.8) -> str:
        return only(cliffs(line(1e-3, slower * 1e-3, facts=facts), "n512")).limiter

    def conflicts(at: int) -> dict[str, float]:
        return {
            "shared_wavefronts": (100.0, 400.0)[at],
            "shared_wavefronts_excess": (0.0, 300.0)[at],
            "shared_memory_s": (0.3e-3, 1.2e-3)[at],
        }

    assert named(conflicts) == "bank conflicts"
    assert named(lambda at: {**conflicts(at), "shared_wavefronts_excess": 0.0}) == (
        "shared-memory wavefronts"
    )
    assert named(lambda at: {"spill_bytes": (0.0, 64.0)[at]}) == "spills"
    assert named(lambda at: {"waves": (1.0, 1.0078)[at]}) == "last wave"
    assert named(lambda at: {"global_sectors": (1e6, 4e6)[at]}) == "global sectors"


def test_a_grid_that_fills_no_chip_is_told_of_blocks_for_each_sm_and_not_of_occupancy() -> None:
    """As profiled: 128 blocks and then 64 on 132 SMs, whose achieved occupancy rose."""
    grid = line(
        1e-3, 1.76e-3,
        registers=lambda at: (168, 174)[at],
        shared=lambda _: 0,
        occupancy=lambda at: (0.188, 0.125)[at],
        facts=lambda at: {
            "occupancy_limit_registers": (3.0, 1.0)[at],
            "waves": (128 / 132 / 3, 64 / 132)[at],
        },
    )  # fmt: skip
    cliff = only(cliffs(grid, "n512"))
    assert cliff.limiter == "small grid"
    assert cliff.moved == ("blocks per SM 0.970 → 0.485",)
    # Half as many on each SM, but as many SMs at work: 15.5 blocks for each and then as many.
    same = line(
        1e-3, 1.64e-3,
        facts=lambda at: {"waves": (0.97, 0.485)[at], "occupancy_limit_warps": (16.0, 32.0)[at]},
    )  # fmt: skip
    assert cliffs(same, "n512") == ()


def test_a_resource_of_which_a_block_takes_less_takes_no_occupancy() -> None:
    """As profiled: three blocks of a warp on an SM where there were two of two."""
    smaller = line(
        1e-3, 1.56e-3,
        registers=lambda _: 128,
        shared=lambda at: (98_304, 65_536)[at],
        occupancy=lambda at: (0.0625, 0.0469)[at],
        facts=lambda at: {
            **ALIKE,
            "occupancy_limit_registers": 8.0,
            "occupancy_limit_shared": (2.0, 3.0)[at],
            "waves": 9.0,
        },
    )  # fmt: skip
    assert only(cliffs(smaller, "n512")).limiter == "block size → occupancy"


def test_arrays_in_local_memory_are_told_before_what_their_registers_take() -> None:
    """As profiled: no spills, 135 M local sectors of an array, and 66 → 116 registers."""
    grid = line(
        1e-3, 1.31e-3,
        registers=lambda at: (66, 116)[at],
        occupancy=lambda at: (0.375, 0.25)[at],
        facts=lambda at: {
            "spill_bytes": 0.0,
            "stack_bytes": (0.0, 128.0)[at],
            "occupancy_limit_registers": (3.0, 2.0)[at],
            "waves": (1.29, 1.94)[at],
        },
    )  # fmt: skip
    cliff = only(cliffs(grid, "n512"))
    assert cliff.limiter == "local memory"
    assert cliff.moved[0] == "local memory 0 → 128 bytes per thread"


@pytest.mark.parametrize(
    ("stack", "spilled", "said"),
    [(528.0, 4.0, "local memory 0 → 528"), (280.0, 280.0, "spills 0 → 280")],
)
def test_what_takes_most_of_local_memory_is_named(stack: float, spilled: float, said: str) -> None:
    """As profiled: 2.15 G local sectors of an array in local memory, and one register spilled."""
    fast = timed({"TN": 8}, 637e-6, facts={"spill_bytes": 0.0, "stack_bytes": 0.0})
    slow = timed({"TN": 4}, 9.66e-3, facts={"spill_bytes": spilled, "stack_bytes": stack})
    name, (text,) = limiters(fast, slow, 15.2)
    assert said.startswith(name) and text == f"{said} bytes per thread"


def test_smaller_blocks_of_a_grid_that_fills_no_chip_are_told() -> None:
    """As profiled: 64 blocks on 132 SMs, of four warps and then of two."""
    grid = line(
        1e-3, 1.94e-3,
        registers=lambda at: (80, 128)[at],
        occupancy=lambda at: (0.375, 0.25)[at],
        facts=lambda at: {
            "occupancy_limit_registers": (6.0, 8.0)[at],
            "waves": (64 / 132 / 6, 64 / 132 / 8)[at],
        },
    )  # fmt: skip
    cliff = only(cliffs(grid, "n512"))
    assert cliff.limiter == "block size"
    assert cliff.moved == ("warps 3.03% → 1.52% of the chip's limit, in as many blocks",)


def test_a_cliff_without_a_reason_is_not_listed() -> None:
    tried: list[Callable[[int], dict[str, float]]] = [
        lambda _: {},
        lambda at: {"shared_wavefronts": (400.0, 100.0)[at]},  # fewer are no reason
        lambda at: {"instructions": (100.0, 101.0)[at]},  # a hundredth is none for 80%
        lambda at: {"waves": (30.1, 30.2)[at]},
        lambda at: {"global_sectors": 4e6} if at else {},  # of one side nobody knows
    ]
    for facts in tried:
        assert cliffs(line(1e-3, 1.8e-3, facts=facts), "n512") == ()


def test_small_steps_and_intervals_that_meet_are_no_cliffs() -> None:
    assert cliffs(line(1.0e-3, 1.14e-3), "n512") == ()
    space: dict[str, tuple[Value, ...]] = {"TILE": (0, 1)}
    wide = [timed({"TILE": at}, (1e-3, 1.3e-3)[at], half=0.2) for at in (0, 1)]
    assert cliffs(tuning(wide, space), "n512") == ()
    unknown = [Trial(values={"TILE": at}, fate="timed", problem="n512", median_s=1e-3 + at)
               for at in (0, 1)]  # fmt: skip
    assert cliffs(tuning(unknown, space), "n512") == ()


def test_only_neighbours_in_one_parameter_are_compared_and_like_cliffs_are_one() -> None:
    space: dict[str, tuple[Value, ...]] = {"A": (1, 2, 4), "B": (1, 2)}
    cost: dict[Value, float] = {1: 1.0, 2: 2.0, 4: 2.1}
    trials = [
        timed(each, 1e-3 * took, facts={"global_sectors": 1e6 * took})
        for each in every(space)
        for took in [cost[each["A"]] * (1.05 if each["B"] == 2 else 1.0)]
    ]
    cliff = only(cliffs(tuning(trials, space), "n512"))
    assert (cliff.parameter, cliff.cases) == ("A", 2)
    assert (cliff.fast["A"], cliff.slow["A"]) == (1, 2)
    apart = [each for each in trials if each.values["A"] != 2]
    assert cliffs(tuning(apart, space), "n512") == ()


# --- other sizes ---------------------------------------------------------------------------------


def test_the_winner_of_each_size_costs_what_it_took_on_the_others() -> None:
    space: dict[str, tuple[Value, ...]] = {"TILE": (16, 32)}
    small, large = {"TILE": 16}, {"TILE": 32}
    trials = [
        timed(small, 1e-4, "n64"), timed(large, 3e-4, "n64"),
        timed(small, 6e-3, "n4096"), timed(large, 4e-3, "n4096"),
        timed(small, 1e-3, "n512"),
    ]  # fmt: skip
    found = {each.problem: each for each in wrong_choices(tuning(trials, space))}
    assert found["n64"].costs == {"n64": 1.0, "n4096": pytest.approx(1.5), "n512": 1.0}
    assert found["n4096"].values == large
    assert found["n4096"].costs["n64"] == pytest.approx(3.0)
    assert found["n4096"].costs["n512"] is None  # never timed there
