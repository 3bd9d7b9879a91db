"""The story of one step from a version to the next: its facts worth showing, in order.

Terminal, Markdown, HTML and JSON print a `Story`, without any decision of their own. It has:

* for every hunk that can move a counter, its own lines first, then the symbols that link it, the
  heaviest first, then (outside single hunks) launches, amounts that several hunks share, and the
  unexplained rest;
* for each of them the time, if its sign is certain despite the sampling error, and every counter to
  which it contributes `weight.TELLING` or more, the heaviest first;
* for smaller ones their amount: the number of symbols and numbers, and the largest part of one
  counter (or of the time) that all of them make together.

Warp samples are shown as time, an ideal and an excess by their counter, and lanes by the
instructions of their warps, unless they moved differently by `TELLING` or more.

This is the order of the source. `leading`, `beyond`, `telling` and `excerpt` sort the same facts
for a reader in a hurry, with the same weights: the hunks of the cause's first proof lead, since the
strip and the sentence name them; then the time that is linked to a hunk counts, or, if unknown, its
heaviest counter. `movers` is the reverse, from a counter to the hunks that moved it. `Step` is two
profiles with all of this, made on demand.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import takewhile

from msgspec.structs import replace

from workbench.analysis.attribution import Attribution, CounterSplit, LineShare, Part, attribute
from workbench.analysis.cause.finding import Cause, find_cause
from workbench.analysis.compare import Comparison, Delta, compare
from workbench.analysis.duration import TimePart, TimeSplit, split_time
from workbench.analysis.expectations import Judgement, Score, judge, score, side_effects
from workbench.analysis.launches import side_by_side
from workbench.analysis.limits.headroom import Panel, panel_of, panel_of_launch, score_ways
from workbench.analysis.limits.occupancy import OccupancySplit, split_launches
from workbench.analysis.listing import HunkCode, hunk_codes
from workbench.analysis.placing import PartKey, Placing
from workbench.analysis.sameness import Doubt, doubts
from workbench.analysis.sentence import Stop, strip, tell
from workbench.analysis.source.hunks import Hunk
from workbench.analysis.weight import TELLING, WELL, Scale, most_moved, ranked
from workbench.analysis.wording import (
    SAMPLES,
    Chapter,
    Fact,
    LaunchRow,
    LeftOut,
    LinkedLine,
    Passage,
    Row,
    Tie,
    tellable,
)
from workbench.counters import catalog
from workbench.errors import UsageError
from workbench.language import _
from workbench.model import Number, Profile, Record, Timing
from workbench.specs import Expectation
from workbench.units import listed, several, signed

_LANES = "thread_instructions"
#: The maximum number of warp states to name beside a time: those that changed most.
_STALLS = 2


class Story(Record, frozen=True):
    """One step. `time_missing` says why `time` is None.

    `panel` has the experiments left to try, `tried` the outcome of the old version's experiments.
    `chapters` are the hunks that can move a counter, in the order of the source; `rest` is the part
    that no hunk explains, or no single one.
    """

    attribution: Attribution
    time: TimeSplit | None
    time_missing: str
    occupancy: tuple[OccupancySplit, ...]
    expectations: tuple[Judgement, ...]
    side_effects: tuple[Delta, ...]
    scores: tuple[Score, ...]
    cause: Cause
    sentence: str
    strip: tuple[Stop, ...]
    panel: Panel | None
    tried: tuple[Score, ...]
    chapters: tuple[Chapter, ...]
    rest: Passage
    #: Change of the time in seconds; 0 if it did not move.
    change_s: float = 0.0

    @property
    def named(self) -> tuple[int, ...]:
        """The hunks of the cause's first proof: the sentence and the strip name them."""
        proofs = () if self.cause.other_work else self.cause.proofs
        return proofs[0].place.hunks if proofs else ()

    @property
    def launch_leads(self) -> bool:
        """True if the step changes only the launch (block, grid, constants, flags), not code."""
        shown = {chapter.hunk.id for chapter in self.chapters}
        launch = any(proof.place.link == "launch" for proof in self.cause.proofs[:1])
        return not shown or (not shown.intersection(self.named) and (launch or bool(self.named)))

    @property
    def launches(self) -> tuple[LaunchRow, ...]:
        """The kernels whose launch was changed, added or removed."""
        return tuple(
            LaunchRow(
                match.new or match.old, "" if match.changes else match.how, ", ".join(match.changes)
            )
            for match in self.attribution.launches
            if match.changes or match.how in ("added", "removed")
        )

    @property
    def quiet_words(self) -> str:
        """``No code change: 1 comment hunk, 2 renamed hunks.``, by kind; "" if there are none."""
        kinds = Counter(hunk.kind for hunk in self.quiet)
        said = [several(number, f"{kind} hunk") for kind, number in kinds.items()]
        return _("No code change: {said}.").format(said=", ".join(said)) if said else ""

    @property
    def quiet(self) -> tuple[Hunk, ...]:
        """The hunks that cannot move any counter: comments, white space, names."""
        told = any(launch.changes for launch in self.launches)  # in words, for each of its changes
        quiet = (hunk for hunk in self.attribution.hunks if not _active(hunk))
        return tuple(hunk for hunk in quiet if not (told and hunk.kind == "front-matter"))


def explain(
    old: Profile,
    new: Profile,
    comparison: Comparison,
    expectations: Sequence[Expectation] = (),
    placing: Placing | None = None,
) -> Story:
    """Attribute, judge and explain one step.

    `comparison` is `compare` of the two, `expectations` the predictions of the version's author,
    `placing` the placement of their lines, if already computed. Raises UsageError: an expectation
    cannot be read.
    """
    doubted = doubts(old, new, (comparison.old.label, comparison.new.label))
    both = side_by_side(old, new)
    old, new = both.old, both.new
    placing = placing or Placing(old, new, both.pairs)
    attribution = attribute(old, new, placing)
    found = split_time(old, new, placing)
    time = None if isinstance(found, str) else found
    speed = comparison.speed
    speedup = comparison.time.speedup if comparison.time is not None else None
    if speedup is None and time is not None and time.new_s:
        speedup = time.old_s / time.new_s
    chapters, rest = choose(attribution, time, doubted)
    unchanged = attribution.sources.same and not any(m.changes for m in attribution.launches)
    occupancy = split_launches(old, new, both.pairs)
    cause = find_cause(both, comparison, attribution, time, occupancy, doubted)
    panels = panel_of(old), panel_of(new)
    panel, limit = panels[1], cause.limit_new
    if limit is not None and limit.kernel:  # the limit of the kernel that the sentence names
        named = {kernel.name_new: kernel.new for kernel in comparison.kernels}
        if (at := named.get(limit.kernel)) is not None:
            panel = replace(panel_of_launch(both.each[1].launches[at], new.device), limit=limit)
    return Story(
        attribution=attribution,
        time=time,
        time_missing=found if isinstance(found, str) else "",
        occupancy=occupancy,
        expectations=judge(expectations, comparison, unchanged=unchanged),
        side_effects=side_effects(comparison, expectations),
        # Whatever happened to the time, a step that changed nothing followed no advice.
        scores=score(old, new, speedup) if speedup and not unchanged else (),
        cause=cause,
        sentence=tell(comparison, attribution, cause, time),
        strip=strip(comparison, attribution, cause),
        panel=panel,
        tried=score_ways(*panels, speedup)
        if speedup and not unchanged and not cause.other_work
        else (),
        chapters=chapters,
        rest=rest,
        change_s=speed.new_s - speed.old_s if speed is not None and speed.moved else 0.0,
    )


#: The most changes of launches to name beside their links, and the most letters of each.
_CHANGES, _SHORT = 2, 60
#: From this part of a step's change on, an amount without a linked edit is not noise.
_MUCH = 0.5


def choose(
    attribution: Attribution, time: TimeSplit | None, doubted: Sequence[Doubt] = ()
) -> tuple[tuple[Chapter, ...], Passage]:
    """A chapter for every hunk that can move a counter, and a passage on the unexplained rest.

    A part without a link is not the compiler's if the same machine code ran (`doubted`); its origin
    is unknown if it is much of the step's change, with it or against it.
    """
    drafts: dict[int | None, dict[PartKey, _Numbers]] = defaultdict(dict)

    def draft(part: Part | TimePart) -> _Numbers:
        # A changed launch names the hunk of the front matter, but belongs to no hunk; nor do
        # amounts that several hunks share.
        hunk = part.hunk if part.link in ("hunk", "symbol") else None
        found = drafts[hunk].setdefault(part.key, _Numbers(part.key))
        found.symbols.update(dict.fromkeys(part.symbols))
        return found

    for split in tellable(attribution):
        for part in split.parts:
            if part.delta:
                draft(part).facts.append(Fact(split=split, part=part))
    for one in time.parts if time is not None else ():
        if time is not None and one.certain:
            draft(one).add_time(one, max(time.old_s, time.new_s))
    lines = _linked_lines(attribution)
    chapters = []
    for hunk in filter(_active, attribution.hunks):
        ties, left_out = _told(drafts[hunk.id].values())
        told = [symbol for tie in ties for symbol in tie.symbols]
        chapters.append(
            Chapter(
                hunk=hunk,
                ties=ties,
                left_out=left_out,
                symbols=tuple(dict.fromkeys((*told, *hunk.symbols))),
                lines=frozenset(lines[hunk.id]),
            )
        )
    ties, left_out = _told(drafts[None].values())
    whose = {"input": _("another input"), "debug": _("the debug build")}
    less = any(x.certain and x.kind in ("arithmetic", "output", "size") for x in doubted)
    other = next((whose[x.kind] for x in doubted if x.certain and x.kind in whose), "")

    changes = dict.fromkeys(each for match in attribution.launches for each in match.changes)
    short = [each for each in changes if len(each) <= _SHORT]

    def reason(tie: Tie) -> str:
        if tie.link == "launch" and not tie.symbols:
            return listed(short, _CHANGES)
        if tie.link != "elsewhere" or tie.note:
            return ""
        if other:
            return other
        much = time and tie.time and abs(tie.time.delta_s) >= _MUCH * abs(time.delta_s)
        return (_("the other work") if less else "unknown") if much else ""

    ties = tuple(replace(tie, instead=reason(tie)) for tie in ties)
    return tuple(chapters), Passage(ties=ties, left_out=left_out)


def _active(hunk: Hunk) -> bool:
    return hunk.kind in ("code", "moved")


class _Numbers:
    """All numbers of one link, before some of them are chosen."""

    def __init__(self, key: PartKey) -> None:
        self.key = key
        self.symbols: dict[str, None] = {}
        self.facts: list[Fact] = []
        self.time: TimePart | None = None
        self.seconds = 1.0

    def add_time(self, part: TimePart, seconds: float) -> None:
        """The link's part of the duration; `seconds` is the longer of the two sides'."""
        self.time, self.seconds = part, seconds or 1.0

    def tie(self) -> Tie | None:
        """The facts of the link; None if all are too small to show."""
        facts = in_order(list(filter(self._is_told, self.facts)))
        timed = self._time_weight() >= TELLING
        if not facts and not timed:
            return None
        stalls = self.time.stalls if self.time is not None and timed else ()
        large = [
            stall
            for stall in stalls
            if stall.stall in catalog()
            and stall.stall not in WELL
            and abs(stall.delta_s) >= TELLING * self.seconds
        ]
        heaviest = max(facts, key=lambda fact: fact.weight).part.symbols if facts else ()
        return Tie(
            link=self.key.link,
            hunks=self.key.hunks,
            symbols=tuple(dict.fromkeys((*heaviest, *self.symbols))),
            note=self.key.note,
            weight=max([self._time_weight(), *(fact.weight for fact in facts)]),
            facts=tuple(facts),
            time=self.time if timed else None,
            stalls=tuple(large[:_STALLS]),
        )

    def small(self) -> dict[str, float]:
        """Counter (or ``duration``) -> weight below which a change is not shown."""
        out = {fact.split.counter: fact.weight for fact in self.facts if fact.weight < TELLING}
        if 0 < self._time_weight() < TELLING:
            out["duration"] = self._time_weight()
        return out

    def _time_weight(self) -> float:
        return abs(self.time.delta_s) / self.seconds if self.time is not None else 0.0

    def _is_told(self, fact: Fact) -> bool:
        if fact.weight < TELLING or not fact.split.id.startswith(_LANES):
            return fact.weight >= TELLING
        warps = next((f for f in self.facts if f.split.id == "instructions"), None)
        repeated = warps is not None and abs(fact.change - warps.change) < TELLING
        return warps is None or warps.weight < TELLING or not repeated


def in_order(facts: Sequence[Fact]) -> list[Fact]:
    """The heaviest first; but counters that only move with another, and new ones, come last.

    A count that begins at zero is all new, however little it weighs.
    """
    known = [fact.split.id for fact in facts if fact.split.id in catalog()]
    echoes = {name for cause in known for name in catalog().following(cause)}

    def order(fact: Fact) -> tuple[bool, bool, float]:
        return not fact.split.old, fact.split.id in echoes, -fact.weight

    return sorted(facts, key=order)


def _told(drafts: Iterable[_Numbers]) -> tuple[tuple[Tie, ...], LeftOut]:
    ties: list[Tie] = []
    sums: dict[str, float] = defaultdict(float)
    symbols = numbers = 0
    for draft in drafts:
        tie, small = draft.tie(), draft.small()
        for counter, weight in small.items():
            sums[counter] += weight
        if tie is not None:
            ties.append(tie)
        if tie is None and draft.key.link == "symbol":
            symbols += 1
        else:
            numbers += len(small)
    # The hunk's own lines come first, launches before the unexplained rest.
    rank = {"symbol": 1, "unknown": 2, "elsewhere": 3}
    ties.sort(key=lambda tie: (rank.get(tie.link, 0), -tie.weight))
    share = max(sums.values(), default=0.0)
    return tuple(ties), LeftOut(symbols=symbols, numbers=numbers, share=share)


def _linked_lines(attribution: Attribution) -> dict[int, set[LinkedLine]]:
    """Hunk -> the unchanged lines that contribute to any counter, samples included."""
    out: dict[int, set[LinkedLine]] = defaultdict(set)
    for split in attribution.counters:
        least = TELLING * max(abs(split.old), abs(split.new), 1)
        for part in split.parts:
            large = [line for line in part.lines if abs(line.delta) >= least]
            for hunk in part.hunks if part.link == "symbol" else ():
                out[hunk].update((0, line.old_file, line.old) for line in large if line.old)
                out[hunk].update((1, line.new_file, line.new) for line in large if line.new)
    return out


#: First and last line, 1-based; empty if the last is before the first.
Span = tuple[int, int]


def leading(story: Story) -> tuple[Chapter, ...]:
    """The chapters with facts, the most important first; all chapters if none has facts.

    The edit that the sentence names leads, then the time that moved with the step; code whose time
    moved against it comes last.
    """

    def rank(chapter: Chapter) -> tuple[int, float, float]:
        place = (*story.named, chapter.hunk.id).index(chapter.hunk.id)
        with_it = chapter.seconds * story.change_s
        return place, -with_it, -max((tie.weight for tie in chapter.ties), default=0.0)

    told = [one for one in story.chapters if one.ties or one.hunk.id in story.named]
    return tuple(sorted(told or story.chapters, key=rank))


#: Least part of its change for which time against the step is shown.
_AGAINST = 0.02


def against(story: Story, chapter: Chapter) -> str:
    """The reason for showing code whose time moved against the step; "" for other code."""
    seconds, change = chapter.seconds, story.change_s
    if seconds * change >= 0 or abs(seconds) < _AGAINST * abs(change):
        return ""
    text = _("The time of this code moved against the step: {time}.")
    counter = ""
    if chapter.hunk.id in story.named:
        text = _("The time of this code moved against the step: {time}. It leads by {counter}.")
        counter = Row(id=story.cause.proofs[0].counter.id, delta=0, unit="").phrase
    return text.format(time=signed(seconds, "s"), counter=counter)


def beyond(story: Story, most: int) -> tuple[Tie, ...]:
    """Ties that no hunk explains alone: the `most` ones with the longest time, in story order.

    Unknown source is included, whatever its time.
    """
    ties = [tie for tie in story.rest.ties if tie.time is not None or tie.link == "unknown"]

    def rank(tie: Tie) -> tuple[bool, float]:
        return tie.link != "unknown", -abs(tie.time.delta_s) if tie.time is not None else 0.0

    chosen = sorted(ties, key=rank)[:most]
    return tuple(tie for tie in ties if tie in chosen)


def telling(comparison: Comparison, story: Story, scale: Scale, most: int) -> tuple[Delta, ...]:
    """The counters to read first, in the catalog's order: the strip's, and the `most` heaviest.

    The strip shows a stall as time; if its ratio to instructions moved the other way, that ratio is
    not among them.
    """
    light = {delta.id for weight, delta in ranked(comparison, scale) if not weight}
    chosen = {stop.counter for stop in story.strip} - light
    chosen.update(delta.id for delta in most_moved(comparison, scale, most))
    chosen.add("duration")
    return tuple(delta for delta in comparison.counters if delta.moved and delta.id in chosen)


def source_lines(profile: Profile, path: str) -> list[str]:
    """The lines of a source file; empty if the profile does not hold its text."""
    text = next((s.text for s in profile.sources if s.path == path and s.text is not None), "")
    return text.replace("\r\n", "\n").split("\n") if text else []


def excerpt(chapter: Chapter, rows: int, sides: tuple[Profile, Profile]) -> tuple[Span, Span]:
    """The old and new lines of a hunk that are shown if there is room for `rows` in all.

    It does not begin with lines that are the same on both sides. The line that moved most of the
    heaviest counter is in the middle of its side; every side with code keeps one row.
    """
    hunk = chapter.hunk
    before = source_lines(sides[0], hunk.old_file)[hunk.old[0] - 1 : hunk.old[1]]
    after = source_lines(sides[1], hunk.new_file)[hunk.new[0] - 1 : hunk.new[1]]
    pairs = zip(map(str.strip, before), map(str.strip, after), strict=False)
    same = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    old, new = ((min(a + same, max(a, b)), b) for a, b in (hunk.old, hunk.new))
    lengths = [span[1] - span[0] + 1 for span in (old, new)]
    half = max(rows // 2, 1)
    fewer = min(lengths)
    shares = [max(rows - fewer, 1) if length > fewer else fewer for length in lengths]
    if fewer > half:
        shares = [half, max(rows - half, 1)]
    cores = _cores(chapter)
    return (_around(old, cores[0], shares[0]), _around(new, cores[1], shares[1]))


def _cores(chapter: Chapter) -> tuple[int, int]:
    """The hunk's own lines that moved most, old and new; 0 if none did."""
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


#: A line is named if it holds this part of the amount that a mover moved.
_HOLDS = 0.5


class Mover(Record, frozen=True):
    """The part of a counter's change that one hunk, or several together, made.

    `delta` is in `unit`, which is seconds for warp states and the duration; `line` holds most of
    it, if one line does.
    """

    hunks: tuple[int, ...]
    delta: Number
    unit: str
    line: LineShare | None = None


def movers(story: Story) -> dict[str, tuple[Mover, ...]]:
    """Catalog id -> its movers, those that moved most first; ids without any are left out.

    A counter has movers if it is split over the source's lines, a warp state or the duration if its
    time is; other counters (ratios, occupancy) are not tied to lines. Amounts below `TELLING`, or
    of uncertain sign, are left out as everywhere.
    """
    found = {
        split.id: _of_counter(split)
        for split in story.attribution.counters
        # Samples are shown as time, below.
        if split.id and not split.counter.startswith(SAMPLES)
    }
    if story.time is not None:
        found.update(_of_time(story.time))
    return {counter: every for counter, every in found.items() if every}


def _of_counter(split: CounterSplit) -> tuple[Mover, ...]:
    amounts: dict[tuple[int, ...], Number] = defaultdict(int)
    lines: dict[tuple[int, ...], list[LineShare]] = defaultdict(list)
    for part in split.parts:
        if part.hunks and part.link in ("hunk", "symbol"):
            amounts[part.hunks] += part.delta
            lines[part.hunks] += part.lines
    return _heaviest(amounts, max(abs(split.old), abs(split.new), 1), split.unit, lines)


def _of_time(time: TimeSplit) -> dict[str, tuple[Mover, ...]]:
    """The movers of the duration and of every warp state."""
    amounts: dict[str, dict[tuple[int, ...], Number]] = defaultdict(lambda: defaultdict(float))
    for part in time.parts:
        if not part.hunks or part.link not in ("hunk", "symbol"):
            continue
        if part.certain:
            amounts["duration"][part.hunks] += part.delta_s
        for stall in part.stalls:
            if not stall.low_s <= 0.0 <= stall.high_s:
                amounts[stall.stall][part.hunks] += stall.delta_s
    whole = max(time.old_s, time.new_s)
    return {counter: _heaviest(found, whole, "s", {}) for counter, found in amounts.items()}


def _heaviest(
    amounts: Mapping[tuple[int, ...], Number],
    whole: Number,
    unit: str,
    lines: Mapping[tuple[int, ...], Iterable[LineShare]],
) -> tuple[Mover, ...]:
    told = [hunks for hunks, amount in amounts.items() if abs(amount) >= TELLING * whole]
    return tuple(
        Mover(
            hunks=hunks,
            delta=amounts[hunks],
            unit=unit,
            line=_mover_line(amounts[hunks], lines.get(hunks, ())),
        )
        for hunks in sorted(told, key=lambda hunks: (-abs(amounts[hunks]), hunks))
    )


def _mover_line(amount: Number, lines: Iterable[LineShare]) -> LineShare | None:
    largest = max(lines, key=lambda line: abs(line.delta), default=None)
    holds = largest is not None and abs(largest.delta) >= _HOLDS * abs(amount)
    return largest if holds and largest is not None and (largest.old or largest.new) else None


class Step:
    """Two profiles that are compared.

    `expected` are the predictions of the new version's author for this step. `across`: two devices
    are compared on purpose, so their difference is not a reason to refuse. Pages never refuse
    (`force`): they also compare profiles that are not comparable, with the reasons above the
    numbers (`Comparison.reasons`).
    """

    def __init__(
        self,
        old: Profile,
        new: Profile,
        labels: tuple[str, str],
        times: tuple[Timing | None, Timing | None] = (None, None),
        expected: tuple[Expectation, ...] = (),
        *,
        across: bool = False,
        force: bool = True,
    ) -> None:
        self._whole = old, new
        both = side_by_side(old, new)
        self.old, self.new, self._pairs = both.old, both.new, both.pairs
        self.labels = labels
        self.times = times
        self.across, self._force = across, force
        self._expected = expected
        self.unread = ""

    @cached_property
    def comparison(self) -> Comparison:
        """Whole-kernel counters and time.

        Raises InconclusiveError: the two are not comparable, and `force` is not set.
        """
        return compare(
            *self._whole,
            old_time=self.times[0],
            new_time=self.times[1],
            force=self._force,
            labels=self.labels,
            across=self.across,
        )

    @cached_property
    def scale(self) -> Scale:
        """The weights of counters on this device."""
        return Scale(self.old, self.comparison)

    @cached_property
    def placing(self) -> Placing:
        """Their lines, each with the part of the change that it belongs to."""
        return Placing(self.old, self.new, self._pairs)

    @cached_property
    def codes(self) -> tuple[HunkCode, ...]:
        """The machine code of every hunk, kernel by kernel."""
        return hunk_codes(self.old, self.new, self.placing)

    @property
    def leading_codes(self) -> tuple[HunkCode, ...]:
        """The machine code of every hunk, the most important hunks first."""
        order = [chapter.hunk.id for chapter in leading(self.story)]
        return tuple(sorted(self.codes, key=lambda one: [*order, one.hunk].index(one.hunk)))

    @cached_property
    def story(self) -> Story:
        """Hunks, attribution, time split, verdicts, sentence."""
        try:
            return explain(*self._whole, self.comparison, self._expected, self.placing)
        except UsageError as error:
            # An unreadable expectation is not a reason to withhold measurements.
            self.unread = error.message
            return explain(*self._whole, self.comparison, placing=self.placing)
