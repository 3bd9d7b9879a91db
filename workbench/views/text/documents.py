"""The JSON document of ``show``, and what all documents share; docs/json.md describes them.

The shapes are a stable interface: keys are never renamed or removed, and a value
that is not known is null, an empty list or an entry in ``missing``, never zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict

from workbench.analysis.headroom import Panel, Way
from workbench.analysis.headroom.panel import line_at, panel_of, waited_most
from workbench.analysis.limit import Limit
from workbench.analysis.remarks import remarks
from workbench.counters import Missing, read_all
from workbench.model import Build, Launch, LineKey, Profile, Timing, line_counters

Json = dict[str, Any]


def dumps(document: Json) -> str:
    """Pretty JSON with a final newline, keys in their documented order."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def picked(record: object, fields: str) -> Json:
    """Some fields of a record, in this order; their names stand with blanks between them."""
    return {field: getattr(record, field) for field in fields.split()}


def show_document(
    profile: Profile,
    timing: Timing | None = None,
    *,
    stale: bool = False,
    notes: Sequence[str] = (),
) -> Json:
    """One profile: every launch with its counters, lines and rules."""
    return {
        **picked(profile, "study version problem engine"),
        "device": profile.device.name,
        "launches": [_launch(profile, launch) for launch in profile.launches],
        "build": _build(profile.build),
        "time": _time(timing),
        "captured": profile.captured,
        "stale": stale,
        "parameters": profile.parameters,
        "tools": profile.tools,
        "notices": [*notes, *remarks(profile)],
        "seed": None if profile.verification is None else profile.verification.seed,
        "headroom": headroom_document(profile, panel_of(profile)),
    }


def headroom_document(profile: Profile, panel: Panel | None) -> Json | None:
    """What limits a profile, its hottest line, and what can be tried."""
    if panel is None:
        return None
    hot, stall = panel.hot, waited_most(panel.hot) if panel.hot is not None else None
    return {
        "limit": limit_document(panel.limit),
        "hottest": None
        if hot is None
        else {
            **_line_of(profile, hot.key),
            "share": 100.0 * hot.share,
            "stall": stall[0].id if stall is not None else None,
        },
        "ways": [_way(profile, way) for way in panel.ways],
    }


def limit_document(limit: Limit | None) -> Json | None:
    """A limit, with the other resources that are full."""
    if limit is None:
        return None
    others = [{"id": o.resource.id, "share": o.active} for o in limit.others]
    return {**picked(limit, "id words share"), "others": others}


def _way(profile: Profile, way: Way) -> Json:
    return {
        **picked(way, "kind words saves speedup because effort counter"),
        "line": _line_of(profile, way.line) if way.line is not None else None,
    }


def _line_of(profile: Profile, key: LineKey) -> Json:
    path, text = line_at(profile, key)
    return {"file": path, "line": key[1], "text": text}


def _launch(profile: Profile, launch: Launch) -> Json:
    counters: dict[str, Json] = {}
    missing: dict[str, str] = {}
    for name, reading in read_all(launch).items():
        if isinstance(reading, Missing):
            missing[name] = reading.reason
        else:
            counters[name] = {"value": reading.value, "unit": reading.unit, "ncu": reading.ncu}
    return {
        "kernel": launch.kernel,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "counters": counters,
        "missing": missing,
        "lines": _lines(profile, launch),
        "rules": [
            asdict(rule) | {"focus": [asdict(focus) for focus in rule.focus]}
            for rule in launch.rules
        ],
        "index": launch.index,
        "workload": launch.workload,
        "profiled": launch.profiled,
        "signature": launch.signature or launch.kernel,
    }


def _lines(profile: Profile, launch: Launch) -> list[Json]:
    texts = [(file.path, (file.text or "").splitlines()) for file in profile.sources]
    out = []
    for (index, line), counters in sorted(line_counters(launch).items()):
        path, text = texts[index] if 0 <= index < len(texts) else ("", [])
        out.append(
            {
                "file": path,
                "line": line,
                "text": text[line - 1] if 0 < line <= len(text) else "",
                "counters": counters,
            }
        )
    return out


def _build(build: Build | None) -> Json:
    if build is None:
        return {}
    return {
        "compiler": build.compiler,
        "arch": build.arch,
        "flags": list(build.flags),
        "kernels": [asdict(kernel) for kernel in build.resources],
    }


def _time(timing: Timing | None) -> Json:
    if timing is None:
        return {}
    return {
        "seconds": timing.time.value,
        "low": timing.time.low,
        "high": timing.time.high,
        "n": timing.time.n,
        **picked(timing, "cache method converged captured flops bytes baseline"),
        "ratio": timing.ratio.value if timing.ratio else None,
    }
