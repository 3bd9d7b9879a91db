"""Measuring times on the device: steady conditions, warm-up, rotation, events or graphs, stopping.

The version and its baseline take turns (ABAB …), so that a slow change of clocks or
temperature reaches both alike. Every execution takes the next set of buffers; if cold caches are
requested, the sets together exceed twice the L2, so that nothing of a set is left there when it is
used again. No clock or power limit is set.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from msgspec.structs import replace

from workbench.analysis.times.regression import LEAST_PAIRS, slowdown
from workbench.analysis.times.timing import (
    drifted,
    median_interval,
    minimum_samples,
    moved,
    paired_ratio,
    relative_width,
)
from workbench.engines.gpu.bench import Bench, Call, Run
from workbench.engines.gpu.device import DeviceArray, DeviceContext, aligned, set_bytes
from workbench.engines.gpu.libcuda import CudaGraph, Driver, DriverError
from workbench.engines.gpu.nvml import Sampler
from workbench.engines.host.job import BufferSpec, TimeOptions, Times
from workbench.model import DeviceState, Estimate, Notice
from workbench.units import quantity

#: A clock that moves by more than this while we measure makes times hard to compare.
CLOCK_LIMIT = 0.03
#: The clock is steady when this many readings, each after some load, are this close.
_READINGS, _STRETCH_S, _STANDING = 3, 0.03, 0.01
#: Seconds without load before a hot chip is read again.
_REST_S = 0.25
#: More sets than this only cost time to prepare; such small buffers stay in the L2.
MAX_SETS = 8192
#: GPU time of one graph replay: long against the event's resolution of about 0.5 µs
#: (CUDA Runtime API, cudaEventElapsedTime), short enough to give many samples.
_REPLAY_S = 200e-6
_MAX_GRAPHS = 64
#: Device seconds of one batch of samples between two synchronizations.
_BATCH_S = 0.1
_WARM_UP_S = 0.1
#: Warm-up of one version among many; each one warms the chip for the next.
_BRIEF_S = 0.01
#: After a warm-up of this length, one execution is enough for an estimate.
_LONG_S = 1.0
#: A memset of this size holds the device back while the host fills the queue.
_HOLD_BYTES = 256 * 2**20
#: Bytes written between restoring and work; and the factor on `graph_below_s` if buffers are
#: restored, which costs the next launch a few µs.
_PAUSE_BYTES, _RESTORING = 4096, 10


class Conditions:
    """Watches the device from entering to leaving; then `state` and `notices` are available.

    `bus_id` is the PCI address of the device, `limit_s` how long `settle` may take.
    """

    def __init__(self, bus_id: str, limit_s: float = 5.0) -> None:
        self._sampler = Sampler(bus_id)
        self._limit_s = limit_s
        self._waited: float | None = None
        self._settled = True
        self.state: DeviceState | None = None
        self.notices: tuple[Notice, ...] = ()

    def __enter__(self) -> Conditions:
        self._sampler.start()
        return self

    def settle(self, load: Callable[[], None]) -> None:
        """Wait within the limit until the SM clock is steady under load and no heat lowers it.

        An idle chip lowers its clock, so `load` does a little of the work to be timed and waits for
        its end; a chip that is too hot is left idle to cool. `state` ignores this time.
        """
        begin = time.perf_counter()
        readings: list[float] = []
        self._settled = False
        while not self._settled and time.perf_counter() - begin < self._limit_s:
            end = time.perf_counter() + _STRETCH_S
            while time.perf_counter() < end:
                load()
            look = self._sampler.look()
            if look is None:  # without NVML
                self._settled = True
                return
            if look.hot:
                readings.clear()
                time.sleep(_REST_S)
                continue
            readings = [*readings, look.sm_clock][-_READINGS:]
            low, high = min(readings), max(readings)
            self._settled = len(readings) == _READINGS and moved(low, high) <= _STANDING
        self._waited = time.perf_counter() - begin
        self._sampler.forget()

    def __exit__(self, *exc: object) -> None:
        state = self._sampler.stop()
        if state is not None:
            state = replace(state, waited=self._waited, settled=self._settled)
        self.state = state
        self.notices = judge(state, self._sampler.slowed_by, self._sampler.problem)


def judge(
    state: DeviceState | None, slowed_by: tuple[str, ...], problem: str = ""
) -> tuple[Notice, ...]:
    """Return notices about the conditions under which a time was measured."""
    if state is None:
        return (
            Notice("no-clocks", f"Clocks and power were not recorded: {problem or 'no samples'}."),
        )
    notices = list[Notice]()

    def add(code: str, message: str) -> None:
        notices.append(Notice(code, message))

    if not state.settled:
        add(
            "unsettled",
            f"Throughout the {quantity(state.waited or 0.0, 's')} of waiting before "
            "this was timed, the chip's clock was unsteady, or heat lowered it.",
        )
    for name, (low, high) in (("SM", state.sm_clock), ("memory", state.memory_clock)):
        if moved(low, high) > CLOCK_LIMIT:
            add(
                "clock-moved",
                f"The {name} clock moved between {quantity(low, 'hz')} and "
                f"{quantity(high, 'hz')} while this was timed.",
            )
    if slowed_by:
        add(
            "throttled",
            "The chip lowered its clocks while this was timed: " + ", ".join(slowed_by) + ".",
        )
    return tuple(notices)


@dataclass
class Contestant:
    """A version or its baseline, bound to every set of buffers."""

    name: str
    sets: Sequence[tuple[Call, ...]]
    first_launch: float
    restores: Sequence[tuple[Call, ...]] = ()  # one for each set, if it has any
    turn: int = 0
    graphs: list[CudaGraph] = field(default_factory=list)
    per_graph: int = 1
    samples: list[float] = field(default_factory=list)

    def run(self, index: int) -> None:
        """Enqueue one execution on a set of buffers."""
        for _kernel, call in self.sets[index % len(self.sets)]:
            call()

    def restore(self, first: int = 0, count: int = MAX_SETS) -> None:
        """Enqueue the work that restores the first content of sets of buffers."""
        for index in range(first, first + min(count, len(self.restores))):
            for _, call in self.restores[index % len(self.restores)]:
                call()


def rotation(l2_bytes: int, one_set: int, room: int) -> tuple[int, bool]:
    """Return the number of sets of buffers that keeps the caches cold.

    `one_set` is the bytes of one set of inputs and outputs, `room` the bytes for all sets.
    The second value is True if the sets used between two visits of one really exceed twice the L2.
    """
    wanted = max(2, 1 + -(-2 * l2_bytes // max(1, one_set)))
    possible = max(1, min(wanted, MAX_SETS, room // max(1, one_set)))
    return possible, (possible - 1) * one_set >= 2 * l2_bytes


def make_sets(
    session: DeviceContext, specs: Sequence[BufferSpec], first: dict[str, DeviceArray], count: int
) -> list[dict[str, DeviceArray]]:
    """`count` sets of inputs and outputs: the first as given, the others copies of it."""
    sets = [first]
    if count < 2:
        return sets
    one = set_bytes(specs)
    base = session.arena(one * (count - 1))
    address = base
    for _ in range(count - 1):
        arrays = {}
        for spec in specs:
            source = first[spec.name]
            arrays[spec.name] = DeviceArray(address, spec.shape, source.dtype)
            address += aligned(source.nbytes)
        sets.append(arrays)
    for name, target in sets[1].items():
        session.copy(target, first[name])
    # Each copy doubles the copied part: 13 copies instead of thousands,
    # whose calls would take longer than the kernels.
    done = 1
    while done < count - 1:
        more = min(done, count - 1 - done)
        session.move(base + done * one, base, more * one)
        done += more
    return sets


def rotating(
    session: DeviceContext, bench: Bench, first: dict[str, DeviceArray], cache: str
) -> tuple[list[dict[str, DeviceArray]], tuple[Notice, ...]]:
    """Return the sets of buffers to rotate over, and a notice if they are too few for ``cold``."""
    count, said = 1, tuple[Notice, ...]()
    if cache == "cold":
        l2 = session.describe().l2_bytes
        count, cold = rotation(l2, set_bytes(bench.specs), session.free_bytes() // 2)
        if not cold:
            said = (
                Notice(
                    "not-cold",
                    "The buffers of this problem cannot rotate over twice the L2 "
                    f"({count} sets of them); part of them stays in the cache.",
                ),
            )
    with session.doing("preparing the buffers to rotate over"):
        sets = make_sets(session, bench.specs, first, count)
        for arrays in sets[1:]:
            bench.link(session, arrays)
    return sets, said


def contestant(run: Run, sets: Sequence[dict[str, DeviceArray]]) -> Contestant:
    """A version, bound to every set; all sets share its scratch memory."""
    bound = [run.loaded.bind({**arrays, **run.scratch}) for arrays in sets]
    restores = [each.restores for each in bound if each.restores]
    calls = [each.calls for each in bound]
    return Contestant(run.executable.version, calls, run.first_launch, restores)


def wants_graph(estimates: Sequence[tuple[float, float]], below_s: float) -> bool:
    """Decide whether to replay executions as CUDA graphs or to launch them one by one.

    One by one, the device waits for the host if enqueueing takes longer than running, and then the
    time between two events is the host's. So graphs are used if the version runs for less than
    `below_s` seconds; and also if the version *or its baseline* runs for less time than the host
    takes to enqueue it, as a library called from Python often does. Both are measured in the same
    way, or their ratio would compare two methods. `estimates` are (device seconds, host seconds) of
    one execution from the warm-up, the version's first.
    """
    device, _ = estimates[0]
    return device < below_s or any(device < host for device, host in estimates)


class Stopwatch:
    """Times one version, in turns with a baseline."""

    def __init__(self, session: DeviceContext, options: TimeOptions) -> None:
        self._session = session
        self._options = options
        self._stream = session.stream
        self._hold = 0
        self.notices: list[Notice] = []

    def measure(
        self,
        version: Contestant,
        baseline: Contestant | None,
        settle: Callable[[Callable[[], None]], None] = lambda _load: None,
    ) -> Times:
        """Warm up, choose the method, sample until the interval is narrow enough.

        `baseline` takes turns with it. `settle` waits for steady conditions, with the work passed
        to it as load. Raises WorkerError: a launch failed.
        """
        both = [version] if baseline is None else [version, baseline]
        longer = _RESTORING if any(each.restores for each in both) else 1
        converged = False
        doing = self._session.doing
        with doing(f"timing {version.name}"), self._sampling(both, settle, _WARM_UP_S, 5) as first:
            if wants_graph(first, longer * self._options.graph_below_s):
                self._capture(both, first)
            for _ in self._looks(both, first, swapped=self._options.pairs):
                widths = map(relative_width, self._intervals(both))
                if converged := all(width <= self._options.width for width in widths):
                    break
            kernels = self._kernels(version)
        device, host = first[0]
        self._judge(version, both, converged, device, host)
        return Times(
            time=median_interval(version.samples),
            method="graph" if version.graphs else "events",
            converged=converged,
            first_launch=version.first_launch,
            sets=len(version.sets),
            enqueue=host,
            launches=kernels,
            baseline_time=median_interval(baseline.samples) if baseline else None,
            ratio=paired_ratio(baseline.samples, version.samples) if baseline else None,
            samples=tuple(version.samples) if self._options.pairs else (),
            baseline_samples=tuple(baseline.samples) if baseline and self._options.pairs else (),
        )

    def race(
        self,
        every: Sequence[Contestant],
        settle: Callable[[Callable[[], None]], None] = lambda _load: None,
    ) -> list[Contestant]:
        """Time many in turn, round by round; drop those that are certainly slower than the best.

        A round pairs each with the fastest one, so that a clock change that affects all alike hides
        no difference and prolongs nothing. It ends when no other can be faster by more than
        `TimeOptions.width`. `Contestant.samples` holds the single times afterwards. Each of `every`
        was run once; `settle` is as for `measure`. Returns those that were not dropped. Raises
        WorkerError: a launch failed.
        """
        live, least_s = list(every), _WARM_UP_S if len(every) > 1 else _BRIEF_S
        with (
            self._session.doing(f"timing {', '.join(each.name for each in every)}"),
            self._sampling(every, settle, least_s, 3) as first,
        ):
            if any(wants_graph([each], self._options.graph_below_s) for each in first):
                self._capture(every, first)
            for _ in self._looks(live, first, swapped=True):
                best = min(live, key=lambda each: median(each.samples))
                least = [paired_ratio(each.samples, best.samples).low for each in live]
                live[:] = [each for each, low in zip(live, least, strict=True) if low <= 1]
                if 1 - min(least) <= self._options.width:
                    break
        return live

    @contextlib.contextmanager
    def _sampling(
        self,
        every: Sequence[Contestant],
        settle: Callable[[Callable[[], None]], None],
        warm_s: float,
        tries: int,
    ) -> Iterator[list[tuple[float, float]]]:
        """Warm up and wait for steady conditions; discard captured graphs at the end of the block.

        Yields rough device and host seconds for one execution of each, from `tries` executions.
        """
        for place, each in enumerate(every):
            # Spaced evenly over the round, so that none finds another's data in the caches.
            each.turn = place * len(each.sets) // len(every)
        self._hold = self._session.arena(_HOLD_BYTES)
        self._restore(every)
        long = self._warm_up(every, warm_s) > _LONG_S
        # A round that takes minutes has warmed the chip already.
        settle((lambda: None) if long else lambda: self._round(every))
        self._restore(every)
        first = [self._estimate(each, 1 if long else tries) for each in every]
        self._restore(every)
        try:
            yield first
        finally:
            for each in every:
                for graph in each.graphs:
                    graph.close()

    def _looks(
        self, live: Sequence[Contestant], first: Sequence[tuple[float, float]], *, swapped: bool
    ) -> Iterator[None]:
        """Sample in turns until time is over; yield when the samples should be evaluated.

        A contestant removed from `live` is not sampled further. `first`: rough seconds of one
        execution. `swapped`: every second turn is reversed (ABBA), so that none is always second.
        """
        options, begin = self._options, time.perf_counter()
        per_round = sum(
            device * each.per_graph for each, (device, _) in zip(live, first, strict=True)
        )
        batch = max(1, min(20, int(_BATCH_S / max(per_round, 1e-9))))
        goal, late = options.min_samples, False
        while True:
            while len(live[0].samples) < goal:
                self._hold_back()
                events = [
                    (each, *self._once(each))
                    for turn in range(min(batch, goal - len(live[0].samples)))
                    for each in (live[::-1] if swapped and turn % 2 else live)
                ]
                self._stream.synchronize()
                for each, start, stop in events:
                    each.samples.append(stop.time_since(start) * 1e-3 / each.per_graph)
                late = time.perf_counter() - begin > options.limit_s
                if late and len(live[0].samples) >= minimum_samples():
                    break
            yield
            if late or goal >= options.max_samples:
                return
            # Doubling keeps the number of evaluations small: each one is another chance to stop on
            # a lucky interval.
            goal = min(2 * goal, options.max_samples)

    def _restore(self, both: Sequence[Contestant]) -> None:
        for contestant in both:
            contestant.restore()
        self._stream.synchronize()

    def _event(self) -> Any:
        return self._session.cuda.Event()

    def _next(self, contestant: Contestant) -> None:
        contestant.run(contestant.turn)
        contestant.turn += 1

    def _hold_back(self) -> None:
        self._session.cuda.memset_d8_async(self._hold, 0, _HOLD_BYTES, self._stream)

    def _round(self, both: Sequence[Contestant]) -> None:
        for contestant in both:
            self._next(contestant)
        self._stream.synchronize()

    def _warm_up(self, both: Sequence[Contestant], least_s: float) -> float:
        """Run all contestants in turns; return the seconds taken."""
        begin = time.perf_counter()
        rounds, took = 0, 0.0
        while rounds < 1 or (took < _LONG_S and rounds < 2) or (took < least_s and rounds < 1000):
            self._round(both)
            rounds += 1
            took = time.perf_counter() - begin
        return took

    def _estimate(self, contestant: Contestant, count: int) -> tuple[float, float]:
        """Device and host seconds of one execution, estimated from `count` executions."""
        start, stop = self._event(), self._event()
        self._hold_back()
        start.record(self._stream)
        begin = time.perf_counter()
        for _ in range(count):
            self._next(contestant)
        host = (time.perf_counter() - begin) / count
        stop.record(self._stream)
        self._stream.synchronize()
        return stop.time_since(start) * 1e-3 / count, host

    def _capture(
        self, both: Sequence[Contestant], estimates: Sequence[tuple[float, float]]
    ) -> None:
        """Build the graphs of all contestants, or give the reason why there are none."""
        try:
            driver = Driver()
            handle = int(self._stream.handle)
            for contestant, (estimate, _) in zip(both, estimates, strict=True):
                count = len(contestant.sets)
                per = max(10, int(_REPLAY_S / max(estimate, 1e-7)), -(-count // _MAX_GRAPHS))
                per = min(per, 2000)
                contestant.per_graph = per
                for first in range(0, count, per):
                    contestant.graphs.append(driver.capture(handle, _burst(contestant, first, per)))
                contestant.turn = 0
        except (DriverError, self._session.cuda.Error) as error:
            for contestant in both:
                for graph in contestant.graphs:
                    graph.close()
                contestant.graphs.clear()
                contestant.per_graph = 1
            self.notices.append(
                Notice(
                    "no-graph",
                    "No CUDA graph could be made, so the times of this short kernel "
                    f"include some launch latency: {error}",
                )
            )
            return
        for place, contestant in enumerate(both):
            contestant.turn = place * len(contestant.graphs) // len(both)

    def _once(self, contestant: Contestant) -> tuple[Any, Any]:
        start, stop = self._event(), self._event()
        if contestant.restores:  # otherwise the delay from the last copy to the first kernel counts
            self._session.cuda.memset_d8_async(self._hold, 0, _PAUSE_BYTES, self._stream)
        start.record(self._stream)
        if contestant.graphs:
            graph = contestant.graphs[contestant.turn % len(contestant.graphs)]
            graph.launch(int(self._stream.handle))
            contestant.turn += 1
        else:
            self._next(contestant)
        stop.record(self._stream)
        # After the work, so that the caches are as cold as requested when the set is used again.
        contestant.restore((contestant.turn - 1) * contestant.per_graph, contestant.per_graph)
        return start, stop

    def _intervals(self, both: Sequence[Contestant]) -> list[Estimate]:
        """Return the intervals that must become narrow."""
        if self._options.pairs and len(both) > 1 and len(both[0].samples) >= LEAST_PAIRS:
            return [slowdown(both[1].samples, both[0].samples)]
        return [median_interval(contestant.samples) for contestant in both]

    def _kernels(self, version: Contestant) -> dict[str, float]:
        """Median seconds of each launch, if the version has several."""
        if len(version.sets[0]) < 2:
            return {}
        rounds: dict[str, list[float]] = {}
        for index in range(self._options.min_samples):
            calls = version.sets[index % len(version.sets)]
            self._hold_back()
            marks = [self._event().record(self._stream)]
            for _name, call in calls:
                call()
                marks.append(self._event().record(self._stream))
            self._stream.synchronize()
            once: dict[str, float] = {}
            for (name, _), start, stop in zip(calls, marks, marks[1:], strict=False):
                once[name] = once.get(name, 0.0) + stop.time_since(start) * 1e-3
            for name, seconds in once.items():
                rounds.setdefault(name, []).append(seconds)
        return {name: median(samples) for name, samples in rounds.items()}

    def _judge(
        self,
        version: Contestant,
        both: Sequence[Contestant],
        converged: bool,
        device: float,
        host: float,
    ) -> None:
        def add(code: str, message: str) -> None:
            self.notices.append(Notice(code, message))

        if host > device:
            add(
                "launch-overhead",
                f"Enqueueing {version.name} takes the host {quantity(host, 's')}, "
                f"the device {quantity(device, 's')}: launched one at a time from Python, "
                "it waits for the host.",
            )
        if version.restores and version.per_graph > len(version.sets):
            add(
                "not-restored",
                f"{version.name} is launched {version.per_graph} times in a graph, and "
                f"its {len(version.sets)} sets of buffers are restored before it alone: later "
                "launches began with what earlier ones had written.",
            )
        if not converged:
            add(
                "not-converged",
                "The 95% interval of the median stayed wider than "
                f"{quantity(100 * self._options.width, '%')} of the median "
                f"after {len(version.samples)} samples.",
            )
        for contestant in both:
            if drifted(contestant.samples):
                add(
                    "drift",
                    f"The times of {contestant.name} drifted while they were taken; "
                    "the interval is narrower than it should be.",
                )


def _burst(contestant: Contestant, first: int, count: int) -> Callable[[], None]:
    def enqueue() -> None:
        for index in range(first, first + count):
            contestant.run(index)

    return enqueue
