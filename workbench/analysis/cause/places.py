"""The place of a counter's change: the hunk, the launch, or unedited code.

A hunk's amount is the net of its own lines and of those that a symbol links to it, so that code
that only moved from one hunk to another is not a cause in either.

The compiler decides how many registers a thread gets, and ``__launch_bounds__`` (or
``__maxnreg__``) how many it may (CUDA C++ Programming Guide, "Launch Bounds"). So for a change of
registers the edit of a bound, or of a macro in one, is better evidence than the lines whose
instructions changed most.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from msgspec import structs

from workbench.analysis.attribution import Attribution, CounterSplit
from workbench.analysis.compare import Comparison, Delta
from workbench.analysis.duration import TimePart, TimeSplit
from workbench.analysis.limits.occupancy import OccupancySplit
from workbench.analysis.optional import growth
from workbench.analysis.source.hunks import Size
from workbench.analysis.source.lines import Tokens, scan
from workbench.language import N_
from workbench.model import Number, Profile, Record

Link = Literal["hunk", "launch", "compiler", "source unknown", "elsewhere"]

#: Counters whose lines are counted under another name: the nearest counter that a line has, for
#: instructions of the same kind. The copy engine's reads are counted at no line: copies replace
#: them.
_LINES = {
    "global_load_requests": ("load_tags", "load_sectors"),
    "global_store_requests": ("store_tags", "store_sectors"),
    "shared_accesses": ("shared_wavefronts",),
    "shared_bank_conflicts": ("shared_wavefronts_excess",),
    "global_load_sectors": ("load_sectors",),
    "global_store_sectors": ("store_sectors",),
    "global_atomics": ("atomics",),
    "l2_read_sectors": ("load_sectors", "load_tags", "bulk_loads"),
    "dram_bytes": ("global_sectors", "bulk_loads"),
    "tensor_utilization": ("products",),
}
#: Kind -> the counter that replaces it if the machine code cannot be read.
_WHOLE = {
    "load_tags": "l1_tag_requests",
    "store_tags": "l1_tag_requests",
    "load_sectors": "global_sectors",
    "store_sectors": "global_sectors",
}
#: A hunk with less than this part of the largest one's amount is not named beside it.
_BESIDE = 0.5
#: Amounts of opposite sign whose sum is less than this part of the larger one count as one move.
_CANCEL = 0.15
#: A hunk that took over this part of another's amount is named beside it.
_TAKEN = 0.25
#: The maximum number of hunks that one proposition names.
_MOST = 3
#: The smallest share of a change for which hunks are named; below it, unedited code changed.
_EDITED = 0.2


class Dealt(Record, frozen=True):
    """A count that moved with the number of threads; the `sizes` in `hunks` that set it, if known.

    `threads` is the factor by which threads (or blocks, as `of` says) multiplied, `each` the factor
    of the count in each of them.
    """

    hunks: tuple[int, ...]
    sizes: tuple[Size, ...]
    threads: float
    each: float
    of: str = N_("threads")

    @property
    def alone(self) -> bool:
        """True if the launch alone moved the count: each thread, or block, has the same amount."""
        return not self.sizes and abs(math.log(self.each)) <= _ONE


class Origin(Record, frozen=True):
    """The place where a counter moved.

    `share` is the hunks' part of its change (0-1), None if unknown. `by` says how the hunks are
    known: by the counter's own ``lines``, by the ``time`` that is linked to them, as the only
    edit (``one``), by changed synchronization of warps there (``order``), or as bounds on registers
    (``bounds``); only ``lines`` ties the counter to the hunks directly. `gained` are hunks that
    took over the amount of the hunks in `lost`, which was more than all of the change. `launch` is
    the part of a changed launch, if it is larger than the hunks'. `called` is another hunk, which
    calls the functions that have most of it. `dealt` is set if its lines only follow the number of
    threads.
    """

    link: Link
    hunks: tuple[int, ...] = ()
    share: float | None = None
    by: Literal["lines", "time", "one", "order", "bounds"] = "lines"
    lost: tuple[int, ...] = ()
    gained: tuple[int, ...] = ()
    launch: float | None = None
    called: tuple[int, ...] = ()
    dealt: Dealt | None = None

    @property
    def edited(self) -> frozenset[int]:
        """All hunks that are named."""
        return frozenset((*self.hunks, *self.called, *(self.dealt.hunks if self.dealt else ())))


def place_of(
    counter: str,
    way: str,
    attribution: Attribution,
    time: TimeSplit | None,
    occupancy: Sequence[OccupancySplit],
    *,
    known: bool = True,
    change: Number | None = None,
) -> Origin:
    """The place where a hypothesis' counter moved.

    `way` is the subject of the hypothesis, `attribution` the split of the line counters, `time`
    that of the duration, `occupancy` its causes by kernel. `known`: both sources' text is known.
    `change` is the counter's change: lines that moved the other way do not explain it.
    """
    if not known:
        return Origin(link="source unknown")
    code = [hunk for hunk in attribution.hunks if hunk.kind in ("code", "moved")]
    if way == "clock":
        return Origin(link="elsewhere")
    if way == "launch":
        return Origin(link="launch")
    if way == "occupancy":
        return _of_occupancy(attribution, occupancy)
    if way == "tail":
        changed = any(match.changes for match in attribution.launches)
        return Origin(link="launch" if changed else "elsewhere")
    if way == "wait":
        waited = sum(_amount(part, counter) for part in (time.parts if time is not None else ()))
        return _largest(_seconds(time, counter), waited) or Origin(link="elsewhere")
    splits = [_split(attribution, name) for name in _LINES.get(counter, (counter,))]
    moved = [s for s in splits if s is not None and s.delta]
    if change is not None:
        moved = [split for split in moved if split.delta * change >= 0]
    for split in moved:
        found = _largest(_by_hunk(split), float(split.delta))
        if found is not None:
            # A copy's bytes are unknown: its share of reads may differ from its share of copies.
            if split is attribution.kinds.get("bulk_loads"):
                return structs.replace(found, share=None)
            found = structs.replace(found, called=_called(split, found.hunks))
            launch = _launched(split)
            more = found.share is not None and found.share < launch <= 1
            return structs.replace(found, launch=launch) if more else found
    if len(code) == 1:
        return Origin(link="hunk", hunks=(code[0].id,), by="one")
    if moved and (code or _launched(moved[0]) > 0):
        # No hunk has it: it is due to the launch if its lines show that, else to the compiler.
        return Origin(link="launch" if _launched(moved[0]) > 0 else "compiler")
    whole = _largest(_seconds(time), time.delta_s) if time is not None else None
    return structs.replace(whole, share=None, by="time") if whole else Origin(link="elsewhere")


def own_hunks(counter: str, attribution: Attribution) -> tuple[int, ...]:
    """The hunks on whose own lines most of a counter's change lies; none if it lies on no edit."""
    splits = (_split(attribution, name) for name in _LINES.get(counter, (counter,)))
    split = next((split for split in splits if split is not None and split.delta), None)
    amounts = _by_hunk(split, "hunk") if split is not None else {}
    found = _largest(amounts, sum(amounts.values()))
    return found.hunks if found is not None else ()


def _called(split: CounterSplit, hunks: tuple[int, ...]) -> tuple[int, ...]:
    """The one hunk that calls the functions in some hunks; None if several do."""
    found = {n for part in split.parts if set(part.hunks) & set(hunks) for n in part.callers}
    return tuple(found.difference(hunks)) if len(found) == 1 else ()


#: Counts of the warps' own work; threads share the amounts moved by caches and memory.
_BY_WARPS = frozenset(
    {"instructions", "shared_wavefronts", "shared_accesses", "global_load_requests",
     "global_atomics"}
)  # fmt: skip
#: From this factor on, the number of threads counts as changed.
_OTHERS = math.log(1.2)
#: A count follows the threads if the logarithm of their factor is at least this part of its own.
_FOLLOWS = 0.9
#: Two factors that differ by less count as equal.
_ONE = 0.05


def _ways(comparison: Comparison) -> dict[str, float]:
    """The logarithms by which the number of threads, and of blocks, became another one."""
    both = {of: comparison[of] for of in (N_("threads"), N_("blocks"))}
    found = {of: growth(delta.old, delta.new) or 0.0 for of, delta in both.items()}
    return {of: way for of, way in found.items() if abs(way) >= _OTHERS}


def went_with(counter: Delta, comparison: Comparison) -> Dealt | None:
    """The launch's number of threads (or blocks) that leaves part of a count's change to them."""
    moved = growth(counter.old, counter.new)
    for of, way in _ways(comparison).items() if moved and len(comparison.launches) == 1 else ():
        if moved and _EDITED <= way / moved <= 1 + _ONE / abs(moved):
            return Dealt((), (), math.exp(way), math.exp(moved - way), of)
    return None


def dealt_in(
    counter: Delta, comparison: Comparison, attribution: Attribution, *sides: Profile
) -> Dealt | None:
    """The launch's number of threads (or blocks), if a count moved with it, and what set it.

    A constant of the source or the command line changed by the inverse of the factor of threads or
    blocks (half as large tiles are twice as many), and the front matter uses it for the launch.
    Without one, the launch explains part of the count if no thread has more of it than before.
    """
    if counter.id not in _BY_WARPS:
        return None
    ways, moved = _ways(comparison), growth(counter.old, counter.new)
    threads, found = ways.get("threads"), dict[int, list[Size]]()
    if threads and moved and threads / moved >= _FOLLOWS:
        defined, words = _defined(*sides), [_launch_words(side) for side in sides]
        for hunk in attribution.hunks:
            sizes = [
                size
                for size in (defined if hunk.kind == "front-matter" else hunk.sizes)
                if words[0] & {size.name, str(size.old)} and words[1] & {size.name, str(size.new)}
            ]
            if decided := _decided(sizes, tuple(ways.values())):
                found[hunk.id] = decided
    if not threads or not moved or not found:
        return went_with(counter, comparison)
    every = tuple(dict.fromkeys(size for sizes in found.values() for size in sizes))
    return Dealt(tuple(found), every, math.exp(threads), math.exp(moved - threads))


#: A line of front matter that sets the number of threads.
_LAUNCH = re.compile(r"^\W*(?:grid|block)\s*=(.*)", re.MULTILINE)


def _launch_words(profile: Profile) -> set[str]:
    """The names and numbers in the expressions of launches."""
    lines = (line for source in profile.sources for line in _LAUNCH.findall(source.text or ""))
    return {word for line in lines for word in re.findall(r"\w+", line)}


def _decided(sizes: Sequence[Size], ways: Sequence[float]) -> list[Size]:
    """The sizes, if one (or the product of all) grew by the factor by which others fell."""

    def fits(*some: Size) -> bool:
        factor = sum(math.log(size.new / size.old) for size in some)
        return any(abs(factor + way) <= _ONE for way in ways)

    return [size for size in sizes if fits(size)] or (list(sizes) if fits(*sizes) else [])


def _defined(old: Profile, new: Profile) -> list[Size]:
    """Macros that the command lines define as different numbers."""
    before, after = (
        {name: int(value) for name, _, value in pairs if value.isdecimal() and int(value)}
        for pairs in ([macro.partition("=") for macro in _macros(side)] for side in (old, new))
    )
    both = sorted(before.keys() & after.keys())
    return [Size(name, before[name], after[name]) for name in both if before[name] != after[name]]


def _split(attribution: Attribution, counter: str) -> CounterSplit | None:
    if counter in attribution.kinds:
        return attribution.kinds[counter]
    counter = _WHOLE.get(counter, counter)
    return next((s for s in attribution.counters if s.id == counter), None)


#: Hunks, one or several together -> their part of an amount.
_Amounts = dict[tuple[int, ...], float]


def _by_hunk(split: CounterSplit, *links: str) -> _Amounts:
    out: _Amounts = defaultdict(float)
    for part in split.parts:
        if part.hunks and part.link in (links or ("hunk", "symbol")):
            out[part.hunks] += float(part.delta)
    return out


def _each(amounts: _Amounts) -> dict[int, float]:
    """The possible amount of each hunk: its own, and an equal part of each shared amount."""
    out: dict[int, float] = defaultdict(float)
    for hunks, amount in amounts.items():
        for hunk in hunks:
            out[hunk] += amount / len(hunks)
    return out


def _moves(each: dict[int, float]) -> _Amounts:
    """Net amounts: if others take over what one hunk loses, this is one move of all of them."""
    left = sorted(each, key=lambda hunk: -abs(each[hunk]))
    out: dict[tuple[int, ...], float] = {}
    while left:
        first = left.pop(0)
        group, net = [first], each[first]
        for other in [hunk for hunk in left if each[hunk] * each[first] < 0]:
            if abs(net + each[other]) >= abs(net):
                break
            group.append(other)
            net += each[other]
        if len(group) > 1 and abs(net) <= _CANCEL * abs(each[first]):
            left = [hunk for hunk in left if hunk not in group]
            out[tuple(group)] = net
        else:
            out[first,] = each[first]
    return out


def _largest(amounts: _Amounts, change: float) -> Origin | None:
    """The hunks that moved with the change, the largest first; None if too little did."""
    each = _each(amounts)
    moves = _moves(each)
    if not any(amount * change > 0 for amount in moves.values()):
        moves = {(hunk,): amount for hunk, amount in each.items()}
    along = {hunks: amount for hunks, amount in moves.items() if amount * change > 0}
    order = sorted(along, key=lambda hunks: -abs(along[hunks]))
    if not order or abs(sum(along.values())) < _EDITED * abs(change):
        return None
    most = abs(along[order[0]])
    chosen = [hunk for hunks in order if abs(along[hunks]) >= _BESIDE * most for hunk in hunks]
    if len(chosen) == 1:
        # The work that it gave up continued elsewhere, at less cost: both places are the edit.
        other = [m for m, a in moves.items() if a * change < 0 and abs(a) >= _TAKEN * most]
        chosen += [hunk for hunks in other for hunk in hunks]
    # Of hunks that share all that they have with a larger one, this is the edit.
    chosen = [hunk for hunk in chosen if not any(_inside(hunk, x, amounts, each) for x in chosen)]
    chosen = chosen[:_MOST]
    # Amounts shared with an unnamed hunk do not belong to the named ones.
    share = sum(amount for hunks, amount in amounts.items() if set(hunks) <= set(chosen)) / change
    known = _EDITED <= share <= 1
    swapped = _swapped(each, moves, change, chosen)
    return Origin(
        link="hunk",
        hunks=tuple(chosen),
        share=share if known else None,
        lost=tuple(sorted(hunk for hunk in swapped if each[hunk] < 0)),
        gained=tuple(sorted(hunk for hunk in swapped if each[hunk] > 0)),
    )


def _inside(hunk: int, other: int, amounts: _Amounts, each: dict[int, float]) -> bool:
    """True if a larger hunk shares every amount of this one."""
    larger = abs(each[other]) > abs(each[hunk])
    return larger and all(other in hunks for hunks in amounts if hunk in hunks)


def _swapped(
    each: dict[int, float], moves: _Amounts, change: float, chosen: Sequence[int]
) -> tuple[int, ...]:
    """Unnamed hunks that moved more from one to another than the whole change."""
    for hunks in moves:
        large = all(abs(each[hunk]) > abs(change) for hunk in hunks[:2])
        if len(hunks) > 1 and large and not set(hunks) & set(chosen):
            return hunks
    return ()


def _amount(part: TimePart, state: str) -> float:
    """Seconds of one warp state; of all states if the name is ""."""
    if not state:
        return part.delta_s
    return sum(stall.delta_s for stall in part.stalls if stall.stall == state)


def _seconds(time: TimeSplit | None, state: str = "") -> _Amounts:
    out: _Amounts = defaultdict(float)
    for part in time.parts if time is not None else ():
        if part.hunks and part.link in ("hunk", "symbol"):
            out[part.hunks] += _amount(part, state)
    return out


def _launched(split: CounterSplit) -> float:
    """The part of a change that belongs to changed launches (below zero: against the change)."""
    launch = sum(float(part.delta) for part in split.parts if part.link == "launch")
    return launch / float(split.delta) if split.delta else 0.0


#: State -> the synchronization that causes it: warps that wait at a block's barrier may also have
#: come late from an mbarrier.
_ORDERS = {"barrier_stall": ("barriers", "arrivals"), "long_scoreboard": ("arrivals",)}


def ordered_in(state: str, attribution: Attribution) -> Origin | None:
    """The hunks whose own lines (else those linked to them) arrive and wait more or less often."""
    for kind in _ORDERS.get(state, ()):
        split = attribution.kinds.get(kind)
        for link in ("hunk", "symbol"):
            amounts = _each(
                {
                    part.hunks: float(part.delta)
                    for part in (split.parts if split is not None else ())
                    if part.link == link and len(part.hunks) == 1
                }
            )
            most = max(map(abs, amounts.values()), default=0.0)
            order = sorted(amounts, key=lambda hunk: -abs(amounts[hunk]))
            chosen = [hunk for hunk in order if abs(amounts[hunk]) >= _BESIDE * most > 0]
            if chosen:
                return Origin(link="hunk", hunks=tuple(chosen[:_MOST]), by="order")
    return None


def _of_occupancy(attribution: Attribution, occupancy: Sequence[OccupancySplit]) -> Origin:
    causes: dict[str, float] = defaultdict(float)
    for split in occupancy:
        for cause, points in split.causes.items():
            causes[cause] += abs(points)
    largest = max(causes, key=lambda cause: causes[cause], default="")
    if largest == "block size":
        return Origin(link="launch")
    instructions = _split(attribution, "instructions")
    amounts = _each(_by_hunk(instructions)) if instructions is not None else {}
    order = sorted(amounts, key=lambda hunk: -abs(amounts[hunk]))[:_MOST]
    # Registers are not edited: these are the hunks whose code changed most.
    return Origin(link="compiler" if largest == "registers" else "hunk", hunks=tuple(order))


_BOUNDS = frozenset({"__launch_bounds__", "__maxnreg__"})


def bounded_in(attribution: Attribution, old: Profile, new: Profile) -> Origin | None:
    """The hunks that changed a bound; None if none did.

    A bound with the same text may use a macro that the command line defines: its change is an edit
    of the front matter, if there is one.
    """
    changed = {macro.partition("=")[0] for macro in _macros(old) ^ _macros(new)}
    sides = _bounds(old), _bounds(new)
    hunks: set[int] = set()
    for side, bounds in enumerate(sides):
        for bound, places in bounds.items():
            if changed & set(bound):
                hunks |= {hunk.id for hunk in attribution.hunks if hunk.kind == "front-matter"}
            if bound not in sides[1 - side]:
                hunks |= {n for path, line in places for n in _over(attribution, side, path, line)}
    return Origin(link="compiler", hunks=tuple(sorted(hunks)), by="bounds") if hunks else None


def _bounds(profile: Profile) -> dict[Tokens, list[tuple[str, int]]]:
    """The tokens of each bound, up to the end of its line -> its place (file, line)."""
    out: dict[Tokens, list[tuple[str, int]]] = defaultdict(list)
    for source in profile.sources:
        for number, tokens in enumerate(scan(source.text or "", source.path).tokens, 1):
            for at, token in enumerate(tokens):
                if token in _BOUNDS:
                    out[_call(tokens[at:])].append((source.path, number))
    return out


def _call(tokens: Tokens) -> Tokens:
    """A name with its arguments: up to the bracket that closes the first one."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token == "(") - (token == ")")
        if at and not depth:
            return tokens[: at + 1]
    return tokens


def _macros(profile: Profile) -> set[str]:
    """``-DBLOCKS=6`` -> ``BLOCKS=6``."""
    flags = profile.build.flags if profile.build is not None else ()
    return {flag.removeprefix("-D") for flag in flags if flag.startswith("-D")}


def _over(attribution: Attribution, side: int, path: str, line: int) -> set[int]:
    """Code hunks that hold a line of one side."""
    found = set()
    for hunk in attribution.hunks:
        (first, last), file = (hunk.new, hunk.new_file) if side else (hunk.old, hunk.old_file)
        if hunk.kind == "code" and file == path and first <= line <= last:
            found.add(hunk.id)
    return found
