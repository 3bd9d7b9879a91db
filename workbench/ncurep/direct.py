"""Metrics of a launch straight from a report's bytes, where its kernel was read before.

NVIDIA's reader takes some 50 ms for a launch with all its counters: a call for every number of
every instruction. The first launch of a kernel is read by it, and from the bytes as well; where
both agree, the metrics of the kernel's other launches come from the bytes alone, and the reader
is given these launches without them. What is not known here is an `UnsureError`, and all is left
to the reader. Runs in the child process only.

Of a result (`workbench.ncurep.container` has the frame) this is read::

    13  metric    1 number of its name   2 value   3 instance*   4 number

Values and instances are the matter of `workbench.ncurep.series`.
"""

from __future__ import annotations

import contextlib
import mmap
import re
import struct
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.disk.writing import private_folder
from workbench.errors import DataError
from workbench.model import Metric
from workbench.ncurep.container import (
    MAGIC,
    RESULT_FUNCTION,
    RESULT_MANGLED,
    SIZE,
    Entries,
    read_blocks,
)
from workbench.ncurep.excerpt import METRIC, METRIC_NAMES, packed
from workbench.ncurep.series import (
    INSTANCE,
    LAST,
    Ids,
    InstanceReader,
    Instances,
    Scalar,
    Series,
    UnsureError,
    scalar_of,
)
from workbench.ncurep.wire import WireError, divide, messages, read_varint, text

#: Of a result: what ncu-ui lays its pages out by; nothing that is read here comes from it.
_SECTIONS = 17
#: How the fields of a metric begin on the wire: number shifted by three, and the kind.
_NUMBER, _VALUE = 0x08, 0x12
_FLOAT64 = struct.Struct("<d")
#: A metric of one number without instances, of which a launch has a thousand.
_VARINT = rb"([\x80-\xff]{0,9}[\x00-\x7f])"
_SINGLE = re.compile(
    rb"\x08%b\x12(?:\x09\x19(.{8})|[\x02-\x0b]\x28%b)(?:\x20[\x00-\x7f])?" % (_VARINT, _VARINT),
    re.DOTALL,
).fullmatch
#: Metrics that are remembered by their bytes, for launches have most in common: those of one
#: number, and longer ones, of which a launch with all its counters has a hundred.
_SINGLES, _LONGS = 100_000, 2000


class DirectMetric:
    """A metric as ``ncu_report.IMetric`` gives it.

    Attributes:
        series: Its instances, where it has some.
        reading: What its value was read as; launches with the same bytes share the metric.
    """

    __slots__ = ("_unit", "_value", "reading", "series")

    def __init__(self, value: Scalar, unit: str = "", series: Series | None = None) -> None:
        self._value, self._unit, self.series = value, unit, series
        self.reading: Metric | str | None = None

    def value(self, i: int | None = None) -> Scalar:
        """The metric's own value, or that of an instance."""
        if i is None:
            return self._value
        return None if self.series is None else self.series.values[i]

    def unit(self) -> str:
        """The unit as the reader gives it; empty for none."""
        return self._unit

    def num_instances(self) -> int:
        """How many values the metric has beside its own."""
        return 0 if self.series is None else len(self.series.values)

    def has_correlation_ids(self) -> bool:
        """Whether it is known what the instances belong to."""
        return self.series is not None

    def correlation_ids(self) -> DirectMetric:
        """What the instances belong to, as the instances of a metric."""
        ids = Ids(()) if self.series is None else self.series.ids
        return DirectMetric(None, series=Instances(ids, ids.each))


_Named = tuple[str, DirectMetric]


class DirectAction:
    """``ncu_report.IAction`` of a launch without metrics, and its metrics."""

    def __init__(self, native: Any, metrics: dict[str, DirectMetric]) -> None:
        self._native, self._metrics = native, metrics
        self.metric_by_name = metrics.get

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def metric_names(self) -> tuple[str, ...]:
        """The names of all metrics."""
        return tuple(self._metrics)


class DirectReport:
    """A report whose kernels were launched several times.

    Attributes:
        bare: The same report, in which only the first launch of each kernel has its metrics.
        first: The places of these launches, in the reader's order.
    """

    def __init__(self, data: bytes | mmap.mmap, path: Path, bare: Path) -> None:
        self.bare = bare
        self._data = data
        self._names: list[str] = []
        self._places: list[tuple[int, array[int]]] = []
        self._symbols: set[str] = set()
        self._units: dict[str, str] = {}
        self._singles: dict[bytes, _Named] = {}
        self._longs: dict[bytes, _Named] = {}
        self._numbers = _NumberOf()
        self._series = InstanceReader()
        self.first: set[int] = set()
        with bare.open("wb") as file:
            file.write(data[: len(MAGIC) + SIZE.size + SIZE.unpack_from(data, len(MAGIC))[0]])
            for block in read_blocks(data, path):
                for key, table in block.header:
                    if key == METRIC_NAMES and isinstance(table, bytes):
                        self._names += [name.decode("utf-8") for name in messages(table, 1)]
                starts = block.results.starts if isinstance(block.results, Entries) else ()
                each = zip(block.results, starts, strict=True)
                file.write(packed(block, [self._taken(*result) for result in each]))
        if len(self.first) == len(self._places):
            raise UnsureError("no kernel was launched twice")

    def _taken(self, result: bytes, start: int) -> bytes:
        """The result as the reader is given it; where its metrics lie is kept here."""
        symbol = text(result, RESULT_MANGLED) or text(result, RESULT_FUNCTION)
        place = len(self._places)
        rest, bounds = divide(result, METRIC, without=_SECTIONS)
        self._places.append((start, array("Q", bounds)))
        if symbol in self._symbols:
            return rest
        self._symbols.add(symbol)
        self.first.add(place)
        return result

    def learn(self, native: Any) -> None:
        """Take over from a launch that the reader gives whole what the bytes do not say."""
        for name in native.metric_names():
            self._units[name] = native.metric_by_name(name).unit() or ""

    def action(self, native: Any, place: int) -> DirectAction:
        """The launch at `place` with the metrics that the bytes give it.

        Raises:
            UnsureError: they cannot be read here.
        """
        for known, most in ((self._singles, _SINGLES), (self._longs, _LONGS)):
            if len(known) > most:
                known.clear()
        single, long = self._singles.get, self._longs.get
        fresh: list[bytes] = []
        try:
            # ncu writes some metrics twice, in the same words.
            messages = dict.fromkeys(self._messages(place))
            found: list[_Named] = []
            for message in messages:
                if named := single(message) or long(message) or self._single(message):
                    found.append(named)
                else:
                    fresh.append(message)
            found += self._long(fresh)
        except (WireError, IndexError, UnicodeDecodeError) as error:
            raise UnsureError(str(error)) from error
        metrics = dict(found)
        if len(metrics) != len(messages):
            names = Counter(name for name, _ in found)
            raise UnsureError(f"two values of {names.most_common(1)[0][0]}")
        return DirectAction(native, metrics)

    def _messages(self, place: int) -> list[bytes]:
        """The metrics of a launch, as they stand in the report."""
        start, bounds = self._places[place]
        result = self._data[start : start + max(bounds, default=0)]
        return [result[a:b] for a, b in zip(bounds[::2], bounds[1::2], strict=True)]

    def _single(self, message: bytes) -> _Named | None:
        """A metric of one number; None for any other."""
        single = _SINGLE(message)
        if single is None:
            return None
        number, double, whole = single.groups()
        value = self._numbers[whole] if double is None else _FLOAT64.unpack(double)[0]
        name = self._names[self._numbers[number]]
        self._singles[message] = found = name, self._metric(name, value, None)
        return found

    def _long(self, messages: list[bytes]) -> list[_Named]:
        """Metrics with a text, without a value, or with instances."""
        parted = [_parted(message) for message in messages]
        series = iter(self._series.read([run for _, _, run in parted if run]))
        found = []
        for message, (number, value, run) in zip(messages, parted, strict=True):
            name = self._names[number]
            named = name, self._metric(name, value, next(series) if run else None)
            self._longs[message] = named
            found.append(named)
        return found

    def _metric(self, name: str, value: Scalar, series: Series | None) -> DirectMetric:
        unit = self._units.get(name)
        if unit is None:
            raise UnsureError(f"{name} is no metric of the first launches")
        return DirectMetric(value, unit, series)


def _parted(message: bytes) -> tuple[int, Scalar, bytes]:
    """A metric's number in the table of names, its value, and its bytes from its instances on."""
    number, value, run, at = 0, b"", b"", 0
    while at < len(message):
        tag = message[at]
        if tag == INSTANCE:
            run = message[at:]
            break
        found, at = read_varint(message, at + 1)
        if tag == _NUMBER:
            number = found
        elif tag == _VALUE:
            value = message[at : at + found]
            at += found
        elif tag != LAST:
            raise UnsureError(f"tag {tag} of a metric")
    return number, scalar_of(value) if value else 0.0 if run else None, run


class _NumberOf(dict[bytes, int]):
    """Numbers by their bytes; few differ in a report."""

    def __missing__(self, data: bytes) -> int:
        self[data] = number = read_varint(data, 0)[0]
        return number


@contextlib.contextmanager
def direct_report(path: Path) -> Iterator[DirectReport]:
    """The report for as long as it is read.

    Raises:
        UnsureError: nothing is gained by it, or it cannot be read here.
    """
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("rb"))
            data = stack.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            folder = stack.enter_context(private_folder())
            report = DirectReport(data, path, Path(folder) / "bare.ncu-rep")
        except (OSError, ValueError, DataError) as error:
            raise UnsureError(str(error)) from error
        yield report
