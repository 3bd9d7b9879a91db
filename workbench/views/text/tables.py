"""``--format csv`` and ``--format markdown``: the same facts as flat tables.

CSV holds raw numbers in base units for other programs; Markdown holds formatted
ones for people. A missing value is an empty CSV cell with its reason beside it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from workbench.analysis.compare import Comparison, Delta
from workbench.analysis.launches.kernels import kernel_words, values_words
from workbench.counters import Missing, catalog, read_all
from workbench.model import Profile
from workbench.units import count, points, quantity, relative, signed
from workbench.views.sheets.list import StudyList
from workbench.views.text.escaping import inline, visible

Cells = Sequence[Any]


def to_csv(header: Sequence[str], rows: Iterable[Cells]) -> str:
    """RFC 4180 text, but with Unix line ends and no control characters; None is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_cell, header))
    writer.writerows(map(_cell, row) for row in rows)
    return out.getvalue()


def _cell(cell: object) -> object:
    if isinstance(cell, str):
        return visible(cell)
    return "" if cell is None else cell


def to_markdown(header: Sequence[str], rows: Iterable[Cells]) -> str:
    """A GitHub-flavoured table; cells are text, whatever they hold."""

    def line(cells: Iterable[Any]) -> str:
        return "| " + " | ".join(inline(str(cell)) for cell in cells) + " |"

    ruler = "|" + "|".join(" --- " for _ in header) + "|"
    return "\n".join([line(header), ruler, *(line(row) for row in rows)]) + "\n"


def more(number: int, what: str) -> str:
    """``3 more hunks``."""
    return f"{count(number)} more {what}{'' if number == 1 else 's'}"


# --- list ------------------------------------------------------------------------

_LIST = ("study", "version", "title", "baseline", "parent", "problem", "device", "engine")
_LIST_TAIL = ("captured", "stale", "seconds", "low", "high")


def list_csv(lists: list[StudyList]) -> str:
    """One row per version and recorded problem, device and engine (empty: nothing recorded)."""
    rows: list[Cells] = []
    for each in lists:
        for version in each.study.versions.values():
            head = (each.study.name, version.id, version.title, version.baseline, version.parent)
            times = {
                (timing.problem, timing.device.name): timing.time
                for timing in each.timings(version.id)
            }
            profiles = each.profiles(version.id)
            for profile in profiles:
                time = times.pop((profile.problem, profile.device), None)
                seconds = (time.value, time.low, time.high) if time else (None, None, None)
                where = (profile.problem, profile.device, profile.engine)
                rows.append((*head, *where, profile.captured, profile.stale, *seconds))
            for (problem, device), time in times.items():
                seconds = (time.value, time.low, time.high)
                rows.append((*head, problem, device, None, None, None, *seconds))
            if not profiles and not times:
                rows.append((*head, *(None,) * 8))
    return to_csv(_LIST + _LIST_TAIL, rows)


def list_markdown(lists: list[StudyList]) -> str:
    """A heading and a table per study, as a README can hold."""
    parts = []
    for each in lists:
        where = f" ({each.problem}, {each.device})" if each.problem else ""
        rows = []
        for rung in each.rungs:
            time, profile = rung.time, rung.record
            share = rung.of_baseline if time else None
            shown = quantity(time.time.value if time else None, "s")
            rows.append(
                (
                    rung.id,
                    rung.title,
                    f"{shown}*" if time and time.profiled else shown,
                    quantity(100.0 * share if share is not None else None, "%"),
                    (profile.captured[:10] + (" (stale)" if profile.stale else ""))
                    if profile
                    else quantity(None),
                )
            )
        table = to_markdown(("version", "title", "time", "of baseline", "profiled"), rows)
        parts.append(f"### {inline(f'{each.study.name}: {each.study.title}{where}')}\n\n{table}")
        if any(rung.time.profiled for rung in each.rungs if rung.time):
            parts.append("\\* under the profiler\n")
    return "\n".join(parts)


# --- show ------------------------------------------------------------------------


def show_csv(profile: Profile) -> str:
    """One row per launch and counter."""
    rows: list[Cells] = []
    for launch in profile.launches:
        for name, reading in read_all(launch).items():
            group = catalog()[name].group
            found: Cells = (*reading, "")
            if isinstance(reading, Missing):
                found = (None, "", "", reading.reason)
            rows.append((launch.index, launch.kernel, name, group, *found))
    header = ("launch", "kernel", "counter", "group", "value", "unit", "ncu", "missing")
    return to_csv(header, rows)


def show_markdown(profile: Profile) -> str:
    """A table of counters per launch."""
    parts = []
    for launch in profile.launches:
        rows = []
        for name, reading in read_all(launch).items():
            if not isinstance(reading, Missing):
                value = quantity(reading.value, reading.unit)
                rows.append((catalog()[name].title, value, reading.unit))
        table = to_markdown(("counter", "value", "unit"), rows)
        parts.append(f"### {inline(launch.kernel)} (launch {launch.index})\n\n{table}")
    return "\n".join(parts)


# --- diff ------------------------------------------------------------------------


def change_of(delta: Delta) -> tuple[str, str]:
    """(difference, relative change) of one counter, formatted; percentages in points."""
    if delta.delta is None or delta.old is None or delta.new is None:
        return quantity(None), ""
    if delta.unit == "%":
        return points(float(delta.delta)), ""
    return signed(delta.delta, delta.unit), relative(delta.old, delta.new)


KERNELS_HEAD = ("kernel", "launches", "before", "after", "change", "its own values")


def kernel_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """What became of each kernel, as text under `KERNELS_HEAD`; none for one and one."""
    if len(comparison.kernels) <= 1:
        return []
    rows = []
    for kernel in sorted(comparison.kernels, key=lambda k: -abs(k.change_s or 0.0)):
        change = kernel_words(kernel).rpartition(", ")[2] if kernel.change_s is not None else ""
        if not kernel.matched:
            change = "removed" if kernel.samples[0] else "added"
        rows.append(
            (
                kernel.name,
                " → ".join(dict.fromkeys(str(n) for n in kernel.samples if n)),
                *(quantity(seconds, "s") for seconds in (kernel.old_s, kernel.new_s)),
                change,
                values_words(kernel).removeprefix(f"{kernel.name}: "),
            )
        )
    return rows


def diff_csv(comparison: Comparison) -> str:
    """One row per counter."""
    first = ("id", "group", "ncu", "unit", "old", "new", "delta", "relative", "better")
    fields = (*first, "moved", "verdict", "rule", "reason")
    rows = [[getattr(delta, field) for field in fields] for delta in comparison.counters]
    return to_csv(["counter", *fields[1:-1], "missing"], rows)
