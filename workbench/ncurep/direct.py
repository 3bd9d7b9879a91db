"""Metrics of a launch straight from a report's bytes, where its kernel was read before.

NVIDIA's reader takes some 50 ms for a launch with all its counters: a call for every number of
every instruction. The first launch of a kernel is read by it, and from the bytes as well; where
both agree, the metrics of the kernel's other launches come from the bytes alone, and the reader
is given these launches without them. What is not known here is an `UnsureError`, and all is left
to the reader. Runs in the child process only.

Of a result (`workbench.ncurep.container` has the frame) this is read::

    13  metric    1 number of its name   2 value   3 instance*   4 number
        instance  1 id                   2 value
        value     1 text   3 double   5 unsigned number
"""

from __future__ import annotations

import contextlib
import mmap
import re
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.errors import DataError
from workbench.ncurep.container import MAGIC, RESULT_FUNCTION, RESULT_MANGLED, SIZE, read_blocks
from workbench.ncurep.excerpt import METRIC, METRIC_NAMES, packed
from workbench.ncurep.wire import WireError, divide, messages, read_varint, text

#: Of a result: what ncu-ui lays its pages out by; nothing that is read here comes from it.
_SECTIONS = 17
#: How fields begin on the wire: number shifted by three, and the kind of what follows.
_NUMBER, _VALUE, _INSTANCE, _LAST = 0x08, 0x12, 0x1A, 0x20  # of a metric
_ID = 0x0A  # of an instance, whose value is tagged as that of a metric
_TEXT, _DOUBLE, _UNSIGNED = 0x0A, 0x19, 0x28  # of a value
_FLOAT64 = struct.Struct("<d")
#: A metric of one number without instances; and one instance, which counts something, or many
#: of them to the end of the metric. A thousand and some ten thousand of them are in a launch.
_VARINT = rb"([\x80-\xff]{0,9}[\x00-\x7f])"
_SINGLE = re.compile(
    rb"\x08%b\x12(?:\x09\x19(.{8})|[\x02-\x0b]\x28%b)(?:\x20[\x00-\x7f])?" % (_VARINT, _VARINT),
    re.DOTALL,
).fullmatch
_COUNT = re.compile(
    rb"\x1a[\x06-\x1a]\x0a[\x02-\x0b]\x28%b\x12[\x02-\x0b]\x28%b" % (_VARINT, _VARINT)
)
_COUNTS = re.compile(rb"(?:%b)+(?:\x20[\x00-\x7f])?" % _COUNT.pattern).fullmatch

Scalar = int | float | str | None


class UnsureError(Exception):
    """The bytes hold something that is not known here, or that the reader gives otherwise."""


@dataclass(frozen=True, eq=False)
class Instances:
    """A metric's instances: what each belongs to, and its value."""

    ids: tuple[Scalar, ...]
    values: tuple[Scalar, ...]


class DirectMetric:
    """A metric as ``ncu_report.IMetric`` gives it; `series` where it has instances."""

    def __init__(self, value: Scalar, unit: str = "", series: Instances | None = None) -> None:
        self._value, self._unit, self.series = value, unit, series

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
        ids = () if self.series is None else self.series.ids
        return DirectMetric(None, series=Instances(ids, ids))


class DirectAction:
    """``ncu_report.IAction`` of a launch without metrics, and its metrics."""

    def __init__(self, native: Any, metrics: dict[str, DirectMetric]) -> None:
        self._native, self._metrics = native, metrics

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def metric_names(self) -> tuple[str, ...]:
        """The names of all metrics."""
        return tuple(self._metrics)

    def metric_by_name(self, name: str) -> DirectMetric | None:
        """The metric of a name; None where the launch has none."""
        return self._metrics.get(name)


class DirectReport:
    """A report whose kernels were launched several times.

    Attributes:
        bare: The same report, in which only the first launch of each kernel has its metrics.
        first: The places of these launches, in the reader's order.
    """

    def __init__(self, data: bytes | mmap.mmap, path: Path, bare: Path) -> None:
        self.bare = bare
        self._names: list[str] = []
        self._metrics: dict[int, list[bytes]] = {}
        self._symbols: set[str] = set()
        self._units: dict[str, str] = {}
        self._singles: dict[bytes, tuple[str, DirectMetric]] = {}
        self._numbers = _NumberOf()
        self._series: dict[bytes, Instances] = {}
        self.first: set[int] = set()
        with bare.open("wb") as file:
            file.write(data[: len(MAGIC) + SIZE.size + SIZE.unpack_from(data, len(MAGIC))[0]])
            for block in read_blocks(data, path):
                for key, table in block.header:
                    if key == METRIC_NAMES and isinstance(table, bytes):
                        self._names += [name.decode("utf-8") for name in messages(table, 1)]
                file.write(packed(block, [self._taken(result) for result in block.results]))
        if len(self.first) == len(self._metrics):
            raise UnsureError("no kernel was launched twice")

    def _taken(self, result: bytes) -> bytes:
        """The result as the reader is given it; its metrics are kept here."""
        symbol = text(result, RESULT_MANGLED) or text(result, RESULT_FUNCTION)
        place = len(self._metrics)
        rest, taken = divide(result, (METRIC, _SECTIONS))
        self._metrics[place] = [x for key, x in taken if key == METRIC and isinstance(x, bytes)]
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
        metrics: dict[str, DirectMetric] = {}
        try:
            # ncu writes some metrics twice, in the same words.
            for message in dict.fromkeys(self._metrics.pop(place)):
                name, metric = self._metric(message)
                if name in metrics:
                    raise UnsureError(f"two values of {name}")
                metrics[name] = metric
        except (WireError, IndexError, UnicodeDecodeError) as error:
            raise UnsureError(str(error)) from error
        return DirectAction(native, metrics)

    def _metric(self, message: bytes) -> tuple[str, DirectMetric]:
        known = self._singles.get(message)
        if known is not None:
            return known
        single = _SINGLE(message)
        if single is None:
            return self._long_metric(message)
        number, double, whole = single.groups()
        value = self._numbers[whole] if double is None else _FLOAT64.unpack(double)[0]
        named = self._named(self._numbers[number], value, None)
        self._singles[message] = named
        return named

    def _long_metric(self, message: bytes) -> tuple[str, DirectMetric]:
        """A metric with a text, without a value, or with instances."""
        number, value, series, at = 0, b"", None, 0
        while at < len(message):
            tag = message[at]
            if tag == _INSTANCE:
                run = message[at:]
                series = self._series.get(run) or self._remember(run)
                break
            found, at = read_varint(message, at + 1)
            if tag == _NUMBER:
                number = found
            elif tag == _VALUE:
                value = message[at : at + found]
                at += found
            elif tag != _LAST:
                raise UnsureError(f"tag {tag} of a metric")
        single = _scalar(value) if value else None if series is None else 0.0
        named = self._named(number, single, series)
        if series is None:
            self._singles[message] = named
        return named

    def _named(
        self, number: int, value: Scalar, series: Instances | None
    ) -> tuple[str, DirectMetric]:
        name = self._names[number]
        unit = self._units.get(name)
        if unit is None:
            raise UnsureError(f"{name} is no metric of the first launches")
        return name, DirectMetric(value, unit, series)

    def _remember(self, run: bytes) -> Instances:
        if _COUNTS(run):
            pairs = _COUNT.findall(run)
            series = Instances(
                tuple([self._numbers[x] for x, _ in pairs]),
                tuple([self._numbers[x] for _, x in pairs]),
            )
        else:
            series = _series(run)
        self._series[run] = series
        return series


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
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="workbench-"))
            report = DirectReport(data, path, Path(folder) / "bare.ncu-rep")
        except (OSError, ValueError, DataError) as error:
            raise UnsureError(str(error)) from error
        yield report


def _series(run: bytes) -> Instances:
    """The instances of a metric, of any kind."""
    ids: list[Scalar] = []
    values: list[Scalar] = []
    at = 0
    while at < len(run) and run[at] == _INSTANCE:
        length, at = read_varint(run, at + 1)
        end = at + length
        for tag, into in ((_ID, ids), (_VALUE, values)):
            if run[at] != tag:
                raise UnsureError(f"tag {run[at]} of an instance")
            length, at = read_varint(run, at + 1)
            into.append(_scalar(run[at : at + length]))
            at += length
        if at != end:
            raise UnsureError("an instance of another length")
    if at < len(run) and (run[at] != _LAST or read_varint(run, at + 1)[1] != len(run)):
        raise UnsureError("something behind the instances of a metric")
    return Instances(tuple(ids), tuple(values))


def _scalar(value: bytes) -> Scalar:
    tag = value[0]
    if tag == _DOUBLE and len(value) == 1 + _FLOAT64.size:
        number: float = _FLOAT64.unpack_from(value, 1)[0]
        return number
    if tag in (_UNSIGNED, _TEXT):
        content, at = read_varint(value, 1)
        if tag == _TEXT and at + content == len(value):
            return value[at:].decode("utf-8")
        if tag == _UNSIGNED and at == len(value):
            return content
    raise UnsureError(f"a value with tag {tag}")
