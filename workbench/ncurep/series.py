"""The instances of metrics, as a report's bytes hold them: what each belongs to, and its value.

A launch with all its counters has ten thousand, nearly all of them whole numbers of its
instructions. Those of a launch are read at once, as arrays; where anything about them is not as
ncu writes it, every metric is read number by number. Runs in the child process only.

Of a metric (`workbench.ncurep.direct`) this is read::

    3  instance*      1 id   2 value
       value          1 text   3 double   5 unsigned number
    4  number
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from workbench.ncurep.wire import read_varint

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[tuple[int], np.dtype[np.uint64]]

#: How fields begin on the wire: number shifted by three, and the kind of what follows.
INSTANCE, LAST = 0x1A, 0x20  # of a metric
_ID, _VALUE = 0x0A, 0x12  # of an instance
_TEXT, _DOUBLE, UNSIGNED = 0x0A, 0x19, 0x28  # of a value
_FLOAT64 = struct.Struct("<d")
#: The first instance is of a whole number, and has a number.
_NUMBER = re.compile(
    rb"\x1a[\x06-\x1a]\x0a[\x02-\x0b]\x28[\x80-\xff]{0,9}[\x00-\x7f]\x12[\x02-\x0b][\x19\x28]"
).match
#: Bytes of an unsigned number, and what the last of so many can be.
_LONGEST, _HIGHEST = 10, 1
#: The first instance is of a text.
_NAME = re.compile(rb"\x1a[\x00-\x7f]\x0a[\x00-\x7f]\x0a").match
#: Lists of ids that are remembered; the metrics of a launch have some twenty.
_REMEMBERED = 2000

Scalar = int | float | str | None


class UnsureError(Exception):
    """The bytes hold something that is not known here, or that the reader gives otherwise."""


class Ids:
    """What instances belong to; compared by identity, for metrics and launches share them."""

    def __init__(self, each: tuple[Any, ...]) -> None:
        self.each = each

    @cached_property
    def ascending(self) -> bool:
        """Whether they are whole numbers, each higher than the one before."""
        whole = [x for x in self.each if isinstance(x, int)]
        return len(whole) == len(self.each) and all(a < b for a, b in pairwise(whole))

    @cached_property
    def held(self) -> frozenset[Any]:
        """All of them."""
        return frozenset(self.each)


class Instances:
    """A metric's instances; compared by identity."""

    def __init__(self, ids: Ids, values: tuple[Any, ...] | Numbers) -> None:
        self.ids, self._values = ids, values

    @property
    def values(self) -> tuple[Any, ...]:
        """The value of each."""
        values = self._values
        return values if isinstance(values, tuple) else tuple(values.tolist())

    @property
    def counts(self) -> Numbers | None:
        """The values as an array, where they were whole numbers in the report's bytes."""
        return None if isinstance(self._values, tuple) else self._values


class NamedInstances:
    """A metric's instances that belong to names, such as opcodes, as they were written.

    No profile holds them, so that they are read where somebody asks for them.
    """

    counts = None

    def __init__(self, run: bytes) -> None:
        self._run = run

    @cached_property
    def _read(self) -> Instances:
        return series_of(self._run)

    @property
    def ids(self) -> Ids:
        """What they belong to; raises as `series_of`."""
        return self._read.ids

    @property
    def values(self) -> tuple[Any, ...]:
        """The value of each; raises as `series_of`."""
        return self._read.values


Series = Instances | NamedInstances


class InstanceReader:
    """Reads the instances of launches, which have most of their ids in common."""

    def __init__(self) -> None:
        self._ids: dict[bytes, Ids] = {}

    def read(self, runs: Sequence[bytes]) -> list[Series]:
        """The instances of several metrics.

        Args:
            runs: Each a metric's bytes from its first instance to its end.

        Raises:
            UnsureError, WireError, IndexError, UnicodeDecodeError: they cannot be read here.
        """
        if len(self._ids) > _REMEMBERED:
            self._ids.clear()
        numbers = [run for run in runs if _NUMBER(run)]
        found = self._numbers(numbers) if numbers else None
        known: dict[bytes, Series] = dict(zip(numbers, found or (), strict=False))
        return [
            known.get(run) or (NamedInstances if _NAME(run) else series_of)(run) for run in runs
        ]

    def _numbers(self, runs: list[bytes]) -> list[Instances] | None:
        """The same, of whole numbers that have numbers of one kind; None where one has not.

        Instances are looked for at every byte that can begin one, and are those that were
        written if they follow each other from the first byte to the last.
        """
        import numpy as np  # where a report is small, the child does without

        # Behind its instances a metric has a number; no instance ends in such a pair of bytes.
        bare = [run[:-2] if run[-2] == LAST and run[-1] < 0x80 else run for run in runs]
        data = np.frombuffer(b"".join(bare) + bytes(2 * _LONGEST), np.uint8)
        size = len(data) - 2 * _LONGEST
        begins = (data[:size] == INSTANCE) & (data[2 : size + 2] == _ID)
        at = np.flatnonzero(begins & (data[4 : size + 4] == UNSIGNED))
        first = data[at + 3].astype(np.intp) - 1  # bytes of the id's number, without its tag
        at, first = at[first <= _LONGEST], first[first <= _LONGEST]
        behind = at + 5 + first
        second, kind = data[behind + 1].astype(np.intp) - 1, data[behind + 2]
        whole = (kind == UNSIGNED) & (second <= _LONGEST)
        sure = whole | ((kind == _DOUBLE) & (second == _FLOAT64.size))
        sure &= (data[behind] == _VALUE) & (first >= 1) & (second >= 1)
        sure &= data[at + 1] == first + second + 6
        at, first, behind, second, whole = (x[sure] for x in (at, first, behind, second, whole))
        ends = np.append(behind + 3 + second, size)
        starts = np.cumsum([0, *map(len, bare)])
        bounds = np.searchsorted(at, starts)
        at = np.append(at, size)
        if at[0] or (ends[:-1] != at[1:]).any() or (at[bounds] != starts).any():
            return None
        ids = _varints(data, at[:-1] + 5, first)
        counts = _varints(data, behind + 3, np.where(whole, second, 0))
        if ids is None or counts is None:
            return None
        found = []
        for a, b in pairwise(bounds.tolist()):
            values: Any = counts[a:b].copy()
            if not whole[a]:
                places = behind[a:b, None] + np.arange(3, 3 + _FLOAT64.size)
                values = tuple(data[places].reshape(-1).view("<f8").tolist())
            if (whole[a:b] != whole[a]).any():
                return None
            found.append(Instances(self._shared(ids[a:b]), values))
        return found

    def _shared(self, ids: Numbers) -> Ids:
        key = ids.tobytes()
        known = self._ids.get(key)
        if known is None:
            known = self._ids[key] = Ids(tuple(ids.tolist()))
        return known


def _varints(data: np.ndarray, at: np.ndarray, sizes: np.ndarray) -> Numbers | None:
    """Unsigned numbers of so many bytes from `at` on; None where one is none of 64 bits."""
    import numpy as np

    found = np.zeros(len(at), np.uint64)
    for place in range(int(sizes.max())):
        part, within = data[at + place], sizes > place
        wrong = (part < 0x80) != (sizes == place + 1)
        if place == _LONGEST - 1:
            wrong |= part > _HIGHEST
        if (wrong & within).any():
            return None
        found |= np.where(within, part & 0x7F, 0).astype(np.uint64) << np.uint64(7 * place)
    return found


def series_of(run: bytes) -> Instances:
    """The instances of a metric, of any kind, one by one.

    Raises:
        UnsureError, WireError, IndexError, UnicodeDecodeError: they cannot be read here.
    """
    ids: list[Scalar] = []
    values: list[Scalar] = []
    at = 0
    while at < len(run) and run[at] == INSTANCE:
        length, at = read_varint(run, at + 1)
        end = at + length
        for tag, into in ((_ID, ids), (_VALUE, values)):
            if run[at] != tag:
                raise UnsureError(f"tag {run[at]} of an instance")
            length, at = read_varint(run, at + 1)
            into.append(scalar_of(run[at : at + length]))
            at += length
        if at != end:
            raise UnsureError("an instance of another length")
    if at < len(run) and (run[at] != LAST or read_varint(run, at + 1)[1] != len(run)):
        raise UnsureError("something behind the instances of a metric")
    return Instances(Ids(tuple(ids)), tuple(values))


def scalar_of(value: bytes) -> Scalar:
    """A value on the wire.

    Raises:
        UnsureError, WireError, IndexError, UnicodeDecodeError: of a kind that is not known here.
    """
    tag = value[0]
    if tag == _DOUBLE and len(value) == 1 + _FLOAT64.size:
        number: float = _FLOAT64.unpack_from(value, 1)[0]
        return number
    if tag in (UNSIGNED, _TEXT):
        content, at = read_varint(value, 1)
        if tag == _TEXT and at + content == len(value):
            return value[at:].decode("utf-8")
        if tag == UNSIGNED and at == len(value):
            return content
    raise UnsureError(f"a value with tag {tag}")
