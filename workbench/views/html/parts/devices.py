"""A version on the other devices that it is recorded on: its time there, and what limits it.

A share is of the peak of the device that it was measured on. Whether a time is shorter is said
where both were measured in the same way, outside of the profiler or under it.
"""

from __future__ import annotations

import msgspec

from workbench import units
from workbench.analysis.aggregate import kernel_seconds
from workbench.analysis.cause.sentence import speed_words
from workbench.analysis.limit import limit_of
from workbench.analysis.timing import time_change
from workbench.ladder import Rung
from workbench.model import Profile, Record, Timing
from workbench.store.codec import decode
from workbench.views.html.addresses import beside, version_page
from workbench.views.html.parts.common import Tone


class DeviceRow(Record, frozen=True):
    """A version on one device; `href` leads to its page there, "" for the page that this is.

    `step` compares its time with that of the page's own device; `note` says how it was measured,
    where that is not as usual.
    """

    device: str
    href: str
    time: str
    note: str
    step: str
    tone: Tone
    limit: str


class DevicesView(Record, frozen=True):
    """The devices of a version, the page's own first, and the command that compares two."""

    rows: tuple[DeviceRow, ...]
    command: str


def devices_view(rung: Rung, profile: Profile) -> DevicesView | None:
    """The table of a version's page; None where ncu profiled it on no other device.

    Raises:
        MissingError, DataError: what is recorded on another device cannot be read.
    """
    ladder = rung.ladder
    others = ladder.elsewhere if profile.engine == "ncu" else {}
    there = {slug: files for slug, files in others.items() if (rung.id, "ncu") in files}
    if not there:
        return None
    rows = [_row(profile, rung.timing)]
    for slug, files in there.items():
        other = ladder.store.load(files[rung.id, "ncu"])
        time = files.get((rung.id, "time"))
        timing = decode(time, Timing) if time else None
        step, tone = _compared(rung.timing, timing)
        note = "" if other.source_hash == profile.source_hash else "of another source"
        row = _row(other, timing, note)
        page = beside(ladder, slug, version_page(rung.id, "ncu"))
        rows.append(msgspec.structs.replace(row, href=page, step=step, tone=tone))
    sides = " ".join(
        f"{ladder.name}/{rung.id}@{slug}" for slug in (next(iter(there)), ladder.device)
    )
    return DevicesView(
        rows=tuple(rows),
        command=f"workbench report --single-file {sides} --problem {ladder.problem}",
    )


def _row(profile: Profile, timing: Timing | None, note: str = "") -> DeviceRow:
    seconds = timing.time.value if timing else kernel_seconds(profile)
    seen = "under the profiler" if timing is None and seconds is not None else ""
    limit = limit_of(profile)
    return DeviceRow(
        device=profile.device.name,
        href="",
        time=units.quantity(seconds, "s"),
        note=", ".join(filter(None, (seen, note))),
        step="",
        tone="",
        limit=limit.words if limit else "",
    )


def _compared(here: Timing | None, there: Timing | None) -> tuple[str, Tone]:
    change = time_change(here, there, across=True)
    if change is None:
        return "", ""
    if not change.moved:
        return "equally fast", ""
    return speed_words(change.speedup), "good" if change.speedup > 1 else "bad"
