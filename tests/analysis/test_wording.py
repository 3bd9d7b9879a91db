"""The words of a step's links: one title and one row for every output."""

from __future__ import annotations

import pytest

from workbench.analysis.attribution import CounterSplit, LineShare, Part, PartLink
from workbench.analysis.wording import Fact, LaunchRow, Row, Tie, title_of


def tie(link: PartLink, *symbols: str, hunks: tuple[int, ...] = (), note: str = "") -> Tie:
    return Tie(link=link, hunks=hunks, symbols=symbols, note=note, weight=1.0, facts=())


@pytest.mark.parametrize(
    ("what", "sentence", "lead", "tail"),
    [
        (tie("hunk", hunks=(1,)), "on its own lines", "On its own lines", ""),
        (tie("symbol", "As", "Bs", hunks=(1,)), "linked by As and Bs", "Linked by", None),
        (
            tie("symbol", "As", hunks=(4, 5)),
            "shared by hunks 4 and 5, linked by As",
            "Shared by hunks 4 and 5, linked by",
            "linked by As",
        ),
        (tie("launch"), "the launch", "Linked to the launch", ""),
        (
            tie("launch", "split", note="added"),
            "the launch of split, added",
            "Linked to the launch of",
            "of split",
        ),
        (tie("unknown"), "source unknown", "Source unknown", ""),
        (
            tie("elsewhere", note="device"),
            "unattributed (another device)",
            "Unattributed",
            "(another device)",
        ),
    ],
)
def test_a_link_has_one_title(what: Tie, sentence: str, lead: str, tail: str | None) -> None:
    assert what.title.sentence() == sentence
    assert what.title.lead == lead
    assert tail is None or what.title.tail == tail


def unknown_source(*numbers: int) -> Tie:
    """What is linked to nothing, on these lines of one file, the heaviest first."""
    lines = tuple(
        LineShare(old=n, new=n, old_file="k.cu", new_file="k.cu", delta=-1, via=()) for n in numbers
    )
    part = Part(link="unknown", hunks=(), symbols=(), note="", delta=-len(lines), lines=lines)
    split = CounterSplit(
        counter="memory_l1_wavefronts_shared",
        id="shared_wavefronts",
        unit="wavefront",
        old=9,
        new=9 - len(lines),
        delta=-len(lines),
        parts=(part,),
        chip_old=None,
        chip_new=None,
    )
    facts = (Fact(split=split, part=part),)
    return Tie(link="unknown", hunks=(), symbols=(), note="", weight=1.0, facts=facts)


def test_of_many_lines_only_the_heaviest_are_named_and_that_is_said() -> None:
    assert unknown_source(7).title.sentence() == "source unknown, line 7 of k.cu"
    few, many = unknown_source(7, 2, 9), unknown_source(7, 2, 9, 4)
    assert few.title.sentence() == "source unknown, lines 7, 2 and 9 of k.cu"
    assert many.title.sentence() == "source unknown, mostly lines 7, 2 and 9 of k.cu"


def test_names_are_styled_by_the_output_and_cut_to_its_room() -> None:
    title = tie("symbol", "a", "b", "c", "d", hunks=(1,)).title
    assert title.sentence(lambda name: f"`{name}`", 3) == "linked by `a`, `b` and 2 more"


def test_a_row_says_its_number_its_share_and_its_error() -> None:
    counter = Row(id="shared_wavefronts", delta=-16_300_000, unit="wavefront", share=0.84)
    assert (counter.title, counter.amount) == (title_of("shared_wavefronts"), "−16.3 M")
    assert (counter.of_it, counter.margin) == ("84% of it", "")
    whole = Row(id="shared_wavefronts", delta=1, unit="wavefront", share=1)
    assert whole.of_it == "all of it"
    time = Row(id="duration", delta=-93.8e-6, unit="s", error=1.2e-6)
    assert (time.title, time.phrase, time.margin) == ("time (estimate)", "time", "±1.20 µs")
    assert Row(id="mio_throttle", delta=1e-6, unit="s").phrase == "MIO throttle stalls"


def test_a_launch_changed_or_came() -> None:
    assert LaunchRow("k", "", "grid 8 → 16").words() == "launch of k: grid 8 → 16"
    assert LaunchRow("k", "added", "").words(str.upper) == "launch added: K"
