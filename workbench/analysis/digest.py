"""What of a step fits on one screen: its hunks in order of weight, and what to show of each.

`story` says what is worth telling, in the order of the source; here the same is put in the
order in which a reader in a hurry wants it. Nothing is weighed anew: the hunks of the cause's
first proof lead, since the strip and the sentence speak of them; then counts the time that is
linked to a hunk, and where none is known its heaviest counter.
"""

from __future__ import annotations

from workbench.analysis.compare import Comparison, Delta
from workbench.analysis.story import Chapter, Story, Tie
from workbench.analysis.weight import Scale, most_moved, ranked

#: First and last line, 1-based; empty where the last is before the first.
Span = tuple[int, int]


def leading(story: Story) -> tuple[Chapter, ...]:
    """The chapters that tell anything, those that matter most first; all where none does."""
    named = [hunk for proof in story.cause.proofs[:1] for hunk in proof.place.hunks]

    def rank(chapter: Chapter) -> tuple[int, float, float]:
        place = (*named, chapter.hunk.id).index(chapter.hunk.id)
        seconds = sum(abs(tie.time.delta_s) for tie in chapter.ties if tie.time is not None)
        return place, -seconds, -max((tie.weight for tie in chapter.ties), default=0.0)

    told = [one for one in story.chapters if one.ties or one.hunk.id in named]
    return tuple(sorted(told or story.chapters, key=rank))


def beyond(story: Story, most: int) -> tuple[Tie, ...]:
    """What no hunk explains alone: the `most` ties with the longest time, in the story's order.

    Unknown source has a say whatever its time is.
    """
    ties = [tie for tie in story.rest.ties if tie.time is not None or tie.link == "unknown"]

    def rank(tie: Tie) -> tuple[bool, float]:
        return tie.link != "unknown", -abs(tie.time.delta_s) if tie.time is not None else 0.0

    chosen = sorted(ties, key=rank)[:most]
    return tuple(tie for tie in ties if tie in chosen)


def telling(comparison: Comparison, story: Story, scale: Scale, most: int) -> tuple[Delta, ...]:
    """The counters to read first, in the catalog's order: the strip's, and the `most` heaviest.

    The strip tells a stall as time; where its ratio to instructions moved the other way, that is
    not among them.
    """
    light = {delta.id for weight, delta in ranked(comparison, scale) if not weight}
    chosen = {stop.counter for stop in story.strip} - light
    chosen.update(delta.id for delta in most_moved(comparison, scale, most))
    chosen.add("duration")
    return tuple(delta for delta in comparison.counters if delta.moved and delta.id in chosen)


def excerpt(chapter: Chapter, rows: int) -> tuple[Span, Span]:
    """The lines of a hunk, old and new, that are shown where there is room for `rows` in all.

    The line that moved most of the heaviest counter stands in the middle of its side's part;
    a side without one begins with its first line. Every side with code keeps one row.
    """
    old, new = chapter.hunk.old, chapter.hunk.new
    lengths = [span[1] - span[0] + 1 for span in (old, new)]
    half = max(rows // 2, 1)
    fewer = min(lengths)
    shares = [max(rows - fewer, 1) if length > fewer else fewer for length in lengths]
    if fewer > half:
        shares = [half, max(rows - half, 1)]
    cores = _cores(chapter)
    return (_around(old, cores[0], shares[0]), _around(new, cores[1], shares[1]))


def _cores(chapter: Chapter) -> tuple[int, int]:
    """The hunk's own lines that moved most, old and new; 0 where none did."""
    own = [
        line
        for tie in chapter.ties
        if tie.link == "hunk" and tie.facts
        for line in tie.facts[0].part.lines
        if line.delta
    ]
    old = next((line.old for line in own if line.old), 0)
    new = next((line.new for line in own if line.new), 0)
    return old, new


def _around(span: Span, core: int, rows: int) -> Span:
    first, last = span
    if last - first + 1 <= rows:
        return span
    start = min(max(core - rows // 2, first), last - rows + 1) if first <= core <= last else first
    return start, start + rows - 1
