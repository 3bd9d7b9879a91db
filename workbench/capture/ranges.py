"""NVTX ranges: what a launch was inside of, as the tracer wrote it, and which of them are meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from workbench.captures.records import RangeShare
from workbench.errors import UsageError
from workbench.model import Record
from workbench.units import listed

#: Between ranges in the tracer's texts, and before one that was started and not pushed.
_BETWEEN, _STARTED = "\x1f", "\x1e"
#: What ncu's filters know and a survey does not.
_FOREIGN = ("regex:", "[", "]", "+", ",")
#: Ranges that are kept of a kernel.
MOST = 4


class Range(Record, frozen=True):
    """One range. `pushed` ones nest in their thread; others were started and are ended."""

    name: str
    domain: str = ""
    pushed: bool = True

    def __str__(self) -> str:
        """As ncu's filters spell it, without what says that it nests."""
        return f"{self.domain}@{self.name}" if self.domain else self.name


def read_ranges(text: str) -> tuple[Range, ...]:
    """The ranges of a thread, the outermost first, of the text that the tracer made of them."""
    out = []
    for word in filter(None, text.split(_BETWEEN)):
        domain, mark, name = word.removeprefix(_STARTED).partition("@")
        pushed = not word.startswith(_STARTED)
        out.append(Range(name if mark else domain, domain if mark else "", pushed))
    return tuple(out)


class WantedRange(Record, frozen=True):
    """Which launches are meant: inside of these ranges of a domain, one right in the other.

    `names` of one without a slash may be of either kind (`either`).
    """

    text: str
    domain: str
    names: tuple[str, ...]
    either: bool

    def holds(self, ranges: Sequence[Range]) -> bool:
        """Whether a launch that was inside of `ranges` is meant."""
        own = [x.name for x in ranges if x.domain == self.domain and (x.pushed or self.either)]
        size = len(self.names)
        return any(tuple(own[at : at + size]) == self.names for at in range(len(own) - size + 1))

    @property
    def ncu_words(self) -> tuple[str, ...]:
        """The same for ncu, which includes what any of several filters does."""
        both = (self.text, f"{self.text}/") if self.either else (self.text,)
        return ("--nvtx", *(word for text in both for word in ("--nvtx-include", text)))


def wanted_range(text: str) -> WantedRange:
    """``step``, ``train@step``, ``train@step/forward/`` as a filter.

    Raises:
        UsageError: no name, or a filter of ncu's that a survey cannot apply.
    """
    domain, mark, rest = text.partition("@") if "@" in text else ("", "", text)
    names = tuple(rest.removesuffix("/").split("/"))
    if not all(names) or (mark and not domain) or any(word in text for word in _FOREIGN):
        raise UsageError(
            f"--nvtx {text!r} is not a range",
            "Write NAME or DOMAIN@NAME, and OUTER/INNER/ for ranges pushed directly inside each "
            "other.",
        )
    either = "/" not in rest
    if not either and not rest.endswith("/"):
        text += "/"  # as ncu knows ranges that nest
    return WantedRange(text=text, domain=domain, names=names, either=either)


def shares(launches: Iterable[tuple[Sequence[Range], int]]) -> tuple[tuple[RangeShare, ...], int]:
    """The ranges that most of a kernel's time was spent in, and how many there were.

    Args:
        launches: The ranges and the nanoseconds of each.
    """
    time: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for ranges, length in launches:
        if path := "/".join(map(str, ranges)):
            time[path] += length
            count[path] += 1
    order = sorted(time, key=lambda path: (-time[path], path))
    kept = (RangeShare(path=path, launches=count[path], total_ns=time[path]) for path in order)
    return tuple(kept)[:MOST], len(order)


def unknown_range(wanted: WantedRange, seen: Iterable[Sequence[Range]]) -> UsageError:
    """The error for a range that no launch was inside of; names those that there are."""
    found = Counter(str(one) for ranges in seen for one in ranges)
    there = [name for name, _ in found.most_common()]
    hint = (
        f"The ranges with launches are {listed(there, 8)}."
        if there
        else (
            "No range has any launch: does the program use NVTX, and does the thread that "
            "launches push the range?"
        )
    )
    return UsageError(f"no launch of the program is inside --nvtx {wanted.text!r}", hint)
