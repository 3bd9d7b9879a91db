"""The JSON documents of ``list``, ``show`` and ``diff``; docs/json.md describes them.

The shapes are a stable interface: keys are never renamed or removed, and a value
that is not known is null, an empty list or an entry in ``missing``, never zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from workbench.analysis.compare import Comparison, Side
from workbench.analysis.misread import remarks
from workbench.counters import Missing, read_all
from workbench.model import Build, Launch, Profile, Rule, Timing, line_counters

Json = dict[str, Any]


def dumps(document: Json) -> str:
    """Pretty JSON with a final newline, keys in their documented order."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


# --- show ------------------------------------------------------------------------


def show_document(
    profile: Profile,
    timing: Timing | None = None,
    *,
    stale: bool = False,
    notes: Sequence[str] = (),
) -> Json:
    """One profile: every launch with its counters, lines and rules."""
    return {
        "study": profile.study,
        "version": profile.version,
        "problem": profile.problem,
        "engine": profile.engine,
        "device": profile.device.name,
        "launches": [_launch(profile, launch) for launch in profile.launches],
        "build": _build(profile.build),
        "time": _time(timing),
        "captured": profile.captured,
        "stale": stale,
        "parameters": profile.parameters,
        "tools": profile.tools,
        "notices": [*notes, *remarks(profile)],
    }


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
        "rules": [_rule(rule) for rule in launch.rules],
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


def _rule(rule: Rule) -> Json:
    return {
        "id": rule.id,
        "section": rule.section,
        "name": rule.name,
        "kind": rule.kind,
        "title": rule.title,
        "message": rule.message,
        "speedup": rule.speedup,
        "scope": rule.scope,
        "focus": [
            {"metric": focus.metric, "value": focus.value, "info": focus.info}
            for focus in rule.focus
        ],
    }


def _build(build: Build | None) -> Json:
    if build is None:
        return {}
    return {
        "compiler": build.compiler,
        "arch": build.arch,
        "flags": list(build.flags),
        "kernels": [
            {
                "name": kernel.name,
                "registers": kernel.registers,
                "static_shared": kernel.static_shared,
                "constant": kernel.constant,
                "stack": kernel.stack,
                "spill_stores": kernel.spill_stores,
                "spill_loads": kernel.spill_loads,
            }
            for kernel in build.resources
        ],
    }


def _time(timing: Timing | None) -> Json:
    if timing is None:
        return {}
    return {
        "seconds": timing.time.value,
        "low": timing.time.low,
        "high": timing.time.high,
        "n": timing.time.n,
        "cache": timing.cache,
        "method": timing.method,
        "converged": timing.converged,
        "captured": timing.captured,
        "flops": timing.flops,
        "bytes": timing.bytes,
        "baseline": timing.baseline,
        "ratio": timing.ratio.value if timing.ratio else None,
    }


# --- diff ------------------------------------------------------------------------


def diff_document(
    comparison: Comparison,
    *,
    hunks: Iterable[Json] = (),
    attribution: Iterable[Json] = (),
    expectations: Iterable[Json] = (),
    notes: Sequence[str] = (),
    stale: tuple[bool, bool] = (False, False),
) -> Json:
    """Two profiles: what moved, and (where given) the code that it is linked to."""
    old, new, time = comparison.old, comparison.new, comparison.time
    refused = [f"not comparable: {reason}" for reason in comparison.reasons]
    return {
        "study": new.study or old.study,
        "problem": new.problem or old.problem,
        "engine": new.engine,
        "device": new.device,
        "old": _side(old, stale[0]),
        "new": _side(new, stale[1]),
        "comparable": comparison.comparable,
        "warnings": [*refused, *comparison.warnings, *notes],
        "time": None
        if time is None
        else {
            "old_s": time.old_s,
            "new_s": time.new_s,
            "speedup": time.speedup,
            "low": time.low,
            "high": time.high,
        },
        "counters": [
            {
                "id": delta.id,
                "ncu": delta.ncu,
                "unit": delta.unit,
                "old": delta.old,
                "new": delta.new,
                "delta": delta.delta,
                "better": delta.better,
                "moved": delta.moved,
                "verdict": delta.verdict,
            }
            for delta in comparison.counters
        ],
        "hunks": list(hunks),
        "attribution": list(attribution),
        "expectations": list(expectations),
    }


def _side(side: Side, stale: bool) -> Json:
    return {
        "version": side.version or side.label,
        "label": side.label,
        "study": side.study,
        "problem": side.problem,
        "engine": side.engine,
        "device": side.device,
        "captured": side.captured,
        "kernels": list(side.kernels),
        "stale": stale,
    }
