"""From a counter back to the hunks that moved it."""

from __future__ import annotations

from msgspec.structs import replace

from tests.factories import make_instructions, make_launch, make_profile
from tests.views.test_terminal_hunks import padded_step
from workbench.analysis.attribution import CounterSplit, LineShare, Part
from workbench.analysis.compare import compare
from workbench.analysis.duration import StallDelta, TimePart, TimeSplit
from workbench.analysis.story import Step, Story, excerpt, explain, movers
from workbench.model import Profile, SourceFile


def story(*splits: CounterSplit, time: TimeSplit | None = None) -> Story:
    old, new = padded_step()
    whole = explain(old, new, compare(old, new, old_time=None, new_time=None))
    return replace(whole, attribution=replace(whole.attribution, counters=splits), time=time)


def part(delta: int, *hunks: int, link: str = "hunk", line: int = 0) -> Part:
    lines = (
        (LineShare(old=None, new=line, old_file="", new_file="k.cu", delta=delta, via=()),)
        if line
        else ()
    )
    return Part(link=link, hunks=hunks, symbols=(), note="", delta=delta, lines=lines)  # type: ignore[arg-type]


def split(*parts: Part, counter: str = "inst_executed", old: int = 1000) -> CounterSplit:
    delta = sum(one.delta for one in parts)
    return CounterSplit(
        counter=counter, id="instructions", unit="inst", old=old, new=old + int(delta),
        delta=delta, parts=parts, chip_old=None, chip_new=None,
    )  # fmt: skip


def test_a_hunks_own_lines_and_its_symbols_are_one_mover_and_the_largest_comes_first() -> None:
    counter = split(
        part(-40, 1, line=7),
        part(-200, 2, line=9),
        part(-400, 1, link="symbol", line=8),
        part(-30, 3, 4, link="symbol"),
        part(-1, 5),  # below what is told
        part(-99, link="elsewhere"),
        part(-99, 6, link="launch"),  # a launch names the hunk of the front matter
    )
    found = movers(story(counter))["instructions"]
    assert [(one.hunks, one.delta) for one in found] == [((1,), -440), ((2,), -200), ((3, 4), -30)]
    assert [one.line.new if one.line else None for one in found] == [8, 9, None]


def test_what_cancels_within_a_hunk_moved_nothing() -> None:
    counter = split(part(300, 1), part(-300, 1, link="symbol"), part(-50, 2))
    assert [one.hunks for one in movers(story(counter))["instructions"]] == [(2,)]


def test_samples_are_told_as_time_and_only_where_their_sign_is_certain() -> None:
    sampled = split(part(-500, 1), counter="smsp__pcsamp_warps_issue_stalled_barrier")
    sure = StallDelta(stall="mio_throttle", delta_s=-8e-5, low_s=-9e-5, high_s=-7e-5)
    unsure = StallDelta(stall="barrier", delta_s=-1e-5, low_s=-3e-5, high_s=1e-5)
    time = TimeSplit(
        old_s=4e-4, new_s=3e-4, delta_s=-1e-4, samples_old=1000, samples_new=900,
        parts=(
            TimePart(
                link="hunk", hunks=(1,), symbols=(), note="", delta_s=-9e-5, low_s=-1e-4,
                high_s=-8e-5, stalls=(sure, unsure),
            ),
        ),
    )  # fmt: skip
    found = movers(story(sampled, time=time))
    assert set(found) == {"duration", "mio_throttle"}
    (mover,) = found["mio_throttle"]
    assert (mover.hunks, mover.delta, mover.unit, mover.line) == ((1,), -8e-5, "s", None)


def test_the_line_that_moved_most_stands_in_the_middle_of_what_is_shown_of_its_hunk() -> None:
    def side(word: str, line: int, count: int) -> Profile:
        text = "\n".join(["__global__ void k() {", *(f"{word}({n});" for n in range(20)), "}"])
        table = replace(make_instructions(inst_executed={0: count}), line=(line,) * 5)
        launches = (make_launch(instructions=table),)
        return make_profile(sources=(SourceFile(path="k.cu", text=text),), launches=launches)

    sides = side("before", 21, 1000), side("after", 12, 9000)
    (chapter,) = Step(*sides, ("a", "b")).story.chapters
    assert excerpt(chapter, 10, sides) == ((17, 21), (10, 14))
