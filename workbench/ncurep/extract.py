"""From a report to a `Profile`, with NVIDIA's native reader; run as a child process.

Given REPORT and OUTPUT as arguments, it writes the profile as JSON; with ``--orders`` it takes both
from standard input, again and again, and with ``--standby`` it warms up the reader first. The
reader is native code that trusts damaged files: only `workbench.ncurep.child` calls it, across a
process border.

Missing data is named: in `Profile.notices` if a whole report lacks it, in `Launch.absent` if it is
a single metric.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import math
import os
import re
import sys
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Literal

import msgspec

from workbench.disk.limits import MIB, ByteLimit
from workbench.disk.writing import private_folder
from workbench.model import (
    Capture,
    Column,
    Device,
    Dim3,
    InstructionTable,
    Launch,
    Metric,
    Notice,
    Profile,
    Rule,
    RuleFocus,
    SourceFile,
    Timeline,
)
from workbench.ncurep.child import DONE, ORDERS
from workbench.ncurep.instructions import FunctionCodes, read_table
from workbench.ncurep.names import kernel_name
from workbench.ncurep.values import clean, instances, is_static, lacks, read_metrics
from workbench.processes.following import follow_parent
from workbench.store import device_slug

# --- PM samples: what the chip did over the time of a launch, as series --------------------------
#
# A sampled metric has time stamps as correlation ids. ncu takes
# its metrics in several passes over the kernel, each with a clock and a lead-in of its own; what
# lies before and after the kernel is cut away here by the SMs' activity, so that all series start
# with the kernel. Their names are ncu's without the prefix that names the pass
# (``TPC.TriageCompute.`` or ``pmsampling:``).

_SAMPLED = re.compile(r"^(?:\w+\.Triage\w*\.|pmsampling:)(?P<name>.+)$")
#: Metrics worth keeping: shares of peak, hit rates, and warps by state.
_KEPT = re.compile(r"\.pct(_of_peak_sustained_elapsed)?$|__warps_issue_stalled_\w+\.avg$")
#: A part of the name of a warp state.
_STATE = "__warps_issue_stalled_"
#: Units that are busy while, and only while, a kernel runs.
_ACTIVE = ("sm__", "smsp__", "l1tex__")
#: Time stamps are nanoseconds since 1970; smaller values are not times.
_EARLIEST = 10**15
#: The most samples to keep; more are merged into their means.
_MOST = 256
_NS = 1e-9

_Series = dict[int, float]  # time stamp -> value


def read_timeline(action: Any) -> Timeline | None:
    """The PM samples of an ``ncu_report.IAction``; None if the report holds none."""
    # Metrics of one pass share their time stamps.
    passes: dict[tuple[int, ...], dict[str, _Series]] = defaultdict(dict)
    for raw, name in _sampled(tuple(action.metric_names())):
        series = _samples(action.metric_by_name(raw))
        if len(series) > 1:
            passes[tuple(series)][name] = series
    runs = [run for one in passes.values() if (run := _run(one))]
    if not runs:
        return None
    # Passes may be sampled at different intervals: the coarsest one sets the grid for all.
    length = max(times[-1] - times[0] + _step(times) for times, _ in runs)
    samples = min(_MOST, *(max(1, round(length / _step(times))) for times, _ in runs))
    runs = [(_to_the_end(times, sampled, length), sampled) for times, sampled in runs]
    columns: dict[str, Column] = {}
    reached: dict[str, int] = {}
    for times, sampled in runs:
        rows = [(time - times[0]) * samples // length for time in times]
        for name, values in sampled.items():
            if _KEPT.search(name):
                columns[name] = _column(rows, [values[time] for time in times])
                if rows[-1] + 1 < samples:
                    reached[name] = rows[-1] + 1
    if not columns:
        return None
    return Timeline(
        interval=length / samples * _NS, samples=samples, columns=columns, reached=reached
    )


# Launches of one kernel have the same metrics.
@lru_cache(maxsize=64)
def _sampled(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The metrics that are sampled over time: ncu's name, and the name without the pass."""
    found = (_SAMPLED.match(raw) for raw in sorted(names))
    return tuple((match[0], clean(match["name"])) for match in found if match)


def _step(times: list[int]) -> int:
    return round(median(b - a for a, b in pairwise(times)))


def _samples(native: Any) -> _Series:
    """Time stamp -> value, in order; empty if an id is not a time or a value not a number."""
    if native is None or not native.has_correlation_ids():
        return {}
    ids, count = native.correlation_ids(), native.num_instances()
    out: _Series = {}
    if ids.num_instances() != count:
        return out
    for time, value in zip(instances(ids, count), instances(native, count), strict=True):
        if not isinstance(time, int) or not isinstance(value, (int, float)):
            return {}
        if time >= _EARLIEST:
            if not math.isfinite(value):
                return {}
            out[time] = float(value)
    return dict(sorted(out.items()))


def _run(series: dict[str, _Series]) -> tuple[list[int], dict[str, _Series]] | None:
    """The time stamps of a pass between which SMs were active; None if none was active."""
    busy = {
        time
        for name, values in series.items()
        if name.startswith(_ACTIVE)
        for time, value in values.items()
        if value
    }
    if len(busy) < 2:
        return None
    first, last = min(busy), max(busy)
    times = [time for time in next(iter(series.values())) if first <= time <= last]
    return times, series


def _to_the_end(times: list[int], series: dict[str, _Series], length: int) -> list[int]:
    """The time stamps of a pass, extended past the last warp that was seen to wait.

    Units are busy until the kernel ends, but a pass over a few warp states may stop seeing them
    long before: from there to the end of the longest pass its samples are zeros.
    """
    if not all(_STATE in name for name in series):
        return times
    end = times[0] + length
    return [*times, *(time for time in next(iter(series.values())) if times[-1] < time < end)]


def _column(rows: list[int], values: list[float]) -> Column:
    """The non-zero rows of a series to four digits; a row with several samples is their mean."""
    found: dict[int, list[float]] = defaultdict(list)
    for row, value in zip(rows, values, strict=True):
        found[row].append(value)
    means = {row: float(f"{sum(part) / len(part):.4g}") for row, part in found.items()}
    kept = {row: mean for row, mean in means.items() if mean}
    return Column(rows=tuple(kept), values=tuple(kept.values()))


Workload = Literal["kernel", "graph", "range", "cmdlist", "other"]

#: Exit code of the child process if NVIDIA's reader cannot be imported.
NO_READER = 77

#: ``IFrontend`` message types, in the order of ``ncu_report.MsgType``.
_RULE_KINDS: tuple[Literal["note", "ok", "optimization", "warning", "error"], ...] = (
    "note",
    "ok",
    "optimization",
    "warning",
    "error",
)
_SCOPES: tuple[Literal["unknown", "local", "global"], ...] = ("unknown", "local", "global")
#: ``@section:Id:text@``, ``@url:text:address@``, ``@source:file:line:text@`` … in rule messages.
_LINK = re.compile(r"@(?:(url):([^@:]*):[^@]*|(?:section|sass|source):[^@]*:([^@:]*))@")


def extract(path: str) -> Profile:
    """Read a report. Only ever called in a process of its own."""
    import ncu_report

    context = ncu_report.load_report(path)
    sources = _Sources()
    launches: list[Launch] = []
    failures: list[str] = []
    known: FunctionCodes = {}
    for r in range(context.num_ranges()):
        result_range = context.range_by_idx(r)
        for a in range(result_range.num_actions() if result_range is not None else 0):
            try:
                action = result_range.action_by_idx(a)
                launch = _launch(action, len(launches), sources, known)
                launches.append(launch)
            except Exception as error:
                # One bad action must not lose the others; it is named in a notice.
                failures.append(f"action {a} of range {r}: {error}")
                launches.append(Launch(kernel="", index=len(launches), profiled=False))
    device, others = _device(launches)
    passes = [_integer(launch.metrics, "profiler__replayer_passes") for launch in launches]
    return Profile(
        engine="ncu",
        device=device,
        captured="",
        launches=tuple(launches),
        capture=Capture(passes=max(passes, default=0)),
        sources=sources.files(),
        notices=(*_troubles(failures, others), *lacks(launches, sources.files())),
    )


class _Sources:
    """The source files of a report, numbered in the order in which they appear."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._texts: list[str | None] = []

    def index(self, path: str) -> int:
        path = clean(path)
        if not path:
            return -1
        if path not in self._index:
            self._index[path] = len(self._texts)
            self._texts.append(None)
        return self._index[path]

    def add(self, path: str, text: str) -> None:
        index = self.index(path)
        if index >= 0 and text:
            self._texts[index] = clean(text)

    def add_all(self, files: Mapping[str, str] | None) -> None:
        for path, text in dict(files or {}).items():
            self.add(path, text)

    def files(self) -> tuple[SourceFile, ...]:
        return tuple(
            SourceFile(
                path=path,
                text=text,
                sha256="" if text is None else hashlib.sha256(text.encode()).hexdigest(),
            )
            for path, text in zip(self._index, self._texts, strict=True)
        )


def _launch(action: Any, index: int, sources: _Sources, known: FunctionCodes) -> Launch:
    if action is None:
        raise ValueError("the reader returns nothing for it")
    metrics, absent = read_metrics(action)
    workload = _workload(action)
    raw = clean(action.name() or "")
    kernel = kernel_name(raw) or f"{workload} {index}"
    signature = clean(action.name(action.NameBase_DEMANGLED) or "") or raw
    # The reader crashes on the sources of other workloads; a graph has neither sources nor code.
    if workload == "kernel":
        before, name = len(known), action.name(action.NameBase_MANGLED)
        fresh = all(name != function for function, _ in known)
        if fresh:
            sources.add_all(_or_nothing(action.source_files))
        instructions = _or_nothing(lambda: read_table(action, sources.index, known))
        if not fresh and len(known) > before:  # another function of that name
            sources.add_all(_or_nothing(action.source_files))
    else:
        instructions = None
    measured = any(not is_static(name) for name in metrics)
    grid = _dim3(metrics, "launch__grid_dim_", "launch__grid_size")
    return Launch(
        kernel=kernel,
        index=index,
        signature=signature if signature != kernel else "",
        workload=workload,
        grid=grid,
        block=_dim3(metrics, "launch__block_dim_", "launch__block_size"),
        dynamic_shared=_integer(metrics, "launch__shared_mem_per_block_dynamic"),
        metrics=metrics,
        absent=absent,
        instructions=instructions or InstructionTable(),
        timeline=_or_nothing(lambda: read_timeline(action)),
        rules=_or_nothing(lambda: _rules(action)) or (),
        nvtx=_or_nothing(lambda: _nvtx(action)) or (),
        # Listed, but neither launched nor measured: ncu gave up before.
        profiled=measured or any(reason == "NaN" for reason in absent.values()),
    )


def _or_nothing(call: Any) -> Any:
    """A part that the reader cannot give counts as missing; the rest stays."""
    try:
        return call()
    except Exception:
        return None


def _workload(action: Any) -> Workload:
    kinds: dict[Any, Workload] = {
        action.WorkloadType_KERNEL: "kernel",
        action.WorkloadType_RANGE: "range",
        action.WorkloadType_GRAPH: "graph",
        action.WorkloadType_CMDLIST: "cmdlist",
    }
    return kinds.get(_or_nothing(action.workload_type), "other")


def _integer(metrics: dict[str, Metric], name: str) -> int:
    metric = metrics.get(name)
    return int(metric.value) if metric is not None and not isinstance(metric.value, str) else 0


def _dim3(metrics: dict[str, Metric], prefix: str, total: str) -> Dim3:
    x, y, z = (_integer(metrics, prefix + axis) for axis in "xyz")
    return (x, y, z) if x else (_integer(metrics, total), 1, 1) if total in metrics else (0, 0, 0)


def _nvtx(action: Any) -> tuple[str, ...]:
    """NVTX ranges as ``domain@range``; without a domain, as ncu's own filters spell it."""
    state = action.nvtx_state()
    names: list[str] = []
    for number in state.domains() if state is not None else ():
        domain = state.domain_by_id(number)
        prefix = "" if domain.name().startswith("<default") else f"{domain.name()}@"
        for name in (*domain.push_pop_ranges(), *domain.start_end_ranges()):
            names.append(clean(prefix + name))
    return tuple(names)


def _plain(message: str) -> str:
    """A rule's message without ncu-ui's link markup: the words that a reader sees."""
    return _LINK.sub(lambda m: m[2] or m[3] or "", clean(message)).strip()


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _pick(choices: tuple[Any, ...], index: object) -> Any:
    return choices[index] if isinstance(index, int) and 0 <= index < len(choices) else choices[0]


def _rules(action: Any) -> tuple[Rule, ...]:
    found = [_or_nothing(lambda raw=raw: _rule(raw)) for raw in action.rule_results()]
    # Rules that found nothing leave an empty result.
    return tuple(
        rule
        for rule in found
        if rule and (rule.title or rule.message or rule.speedup is not None or rule.focus)
    )


def _rule(raw: Any) -> Rule:
    message = raw.rule_message() or {}
    estimate = raw.speedup_estimation() if raw.has_speedup_estimation() else {}
    focus = tuple(
        RuleFocus(metric=clean(f["name"]), value=value, info=_plain(f.get("info") or ""))
        for f in raw.focus_metrics() or ()
        if (value := _number(f.get("value"))) is not None
    )
    return Rule(
        id=clean(raw.rule_identifier() or ""),
        section=clean(raw.section_identifier() or ""),
        name=clean(raw.name() or ""),
        kind=_pick(_RULE_KINDS, int(message.get("type") or 0)),
        title=_plain(message.get("title") or ""),
        message=_plain(message.get("message") or ""),
        speedup=_number(estimate.get("speedup")),
        scope=_pick(_SCOPES, int(estimate.get("type") or 0)),
        focus=focus,
    )


def _device(launches: list[Launch]) -> tuple[Device, list[str]]:
    """The device of the first launch that names one, and the names of other devices."""
    found: list[Device] = []
    for launch in launches:
        metrics = launch.metrics
        named = metrics.get("device__attribute_display_name")
        if named is None:
            continue

        def get(name: str, metrics: dict[str, Metric] = metrics) -> int:
            return _integer(metrics, f"device__attribute_{name}")

        name = str(named.value)
        device = Device(
            name=name,
            slug=device_slug(name),
            compute_capability=(get("compute_capability_major"), get("compute_capability_minor")),
            sms=get("multiprocessor_count"),
            sm_clock=get("clock_rate") * 1e3,  # attributes give kHz
            memory_clock=(get("memory_clock_rate") or get("max_mem_frequency_khz")) * 1e3,
            memory_bus_bits=get("global_memory_bus_width") or get("fb_bus_width"),
            l2_bytes=get("l2_cache_size"),
            memory_bytes=get("total_memory"),
        )
        if device not in found:
            found.append(device)
    if not found:
        return Device(name="unknown device", slug=device_slug("")), []
    return found[0], [other.name for other in found[1:]]


def _troubles(failures: list[str], others: list[str]) -> list[Notice]:
    """Notices of read errors, which the records themselves do not show."""
    out = []
    if failures:
        message = "the native reader failed on " + "; ".join(failures[:3])
        out.append(Notice("unreadable-launch", clean(message)[:600]))
    if others:
        message = "launches on other devices, too: " + ", ".join(others)
        out.append(Notice("several-devices", message))
    return out


def _limit_memory(size: int) -> None:
    """Keep a damaged length field from taking the machine's memory, and core dumps off the disk.

    Whole reports took less than 150 MB plus 40 times their size; libraries do not count.
    """
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # POSIX only

        limit = ByteLimit("reading a report", 512 * MIB + 64 * size).bytes
        # The next report may be larger: only the soft limit is lowered.
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _warm_up() -> None:
    """Let the reader do its one-time work: load its tables and its disassembler.

    The bundled report is one launch on an H200, without everything that the warm-up does not need.
    An error here will recur, and be reported, with the report itself.
    """
    from workbench.store.codec import unpack

    bundled = Path(__file__).resolve().parents[1] / "data" / "warmup.ncu-rep.zst"
    with contextlib.suppress(Exception), private_folder() as folder:
        plain = Path(folder) / "warmup.ncu-rep"
        plain.write_bytes(unpack(bundled.read_bytes(), bundled))
        extract(str(plain))


def _order() -> list[str]:
    """REPORT and OUTPUT from standard input; empty if it was closed."""
    line = sys.stdin.readline()
    return [str(word) for word in json.loads(line)] if line else []


def main(argv: list[str]) -> int:
    """Extract ``argv[0]`` to the JSON file ``argv[1]``, or as standard input says."""
    try:
        import ncu_report  # noqa: F401 - told apart from a report that cannot be read
    except ImportError as error:
        print(error, file=sys.stderr)  # noqa: T201 - the parent shows it
        return NO_READER
    if argv == ["--standby"]:
        _warm_up()
    elif argv != [ORDERS]:
        _answer(*argv)
        return 0
    while order := _order():
        _answer(*order)
        sys.stdout.buffer.write(DONE + b"\n")
        sys.stdout.buffer.flush()
    return 0


def _answer(report: str, output: str) -> None:
    _limit_memory(Path(report).stat().st_size)
    # Millions of records without reference cycles: searching for cycles took a fifth of the time.
    gc.disable()
    Path(output).write_bytes(msgspec.json.encode(extract(report)))
    gc.collect()


if __name__ == "__main__":
    follow_parent()
    code = main(sys.argv[1:])
    sys.stderr.flush()
    # The output is written: the kernel frees at once what Python and the reader would tidy up.
    os._exit(code)
