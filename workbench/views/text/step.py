"""The JSON of a step's hunks, attribution and expectations; docs/json.md describes it."""

from __future__ import annotations

from typing import Any

from workbench.analysis.source.hunks import Hunk
from workbench.analysis.split.attribution import CounterSplit, Part
from workbench.analysis.split.duration import TimePart, TimeSplit
from workbench.analysis.story import Passage, Story
from workbench.analysis.weight import TELLING

Json = dict[str, Any]


def hunk_rows(story: Story) -> list[Json]:
    """``hunks`` of the diff document."""
    return [_hunk(hunk) for hunk in story.attribution.hunks]


def attribution_rows(story: Story) -> list[Json]:
    """``attribution`` of the diff document: one entry per line counter."""
    return [_split(split) for split in story.attribution.counters]


def expectation_rows(story: Story) -> list[Json]:
    """``expectations`` of the diff document."""
    return [
        {
            "counter": judgement.counter,
            "expected": judgement.expected,
            "observed": judgement.observed,
            "verdict": judgement.verdict,
            "reason": judgement.reason,
            "why": judgement.why,
            "line": judgement.line or None,
            "learned": judgement.learned,
        }
        for judgement in story.expectations
    ]


def more_rows(story: Story) -> Json:
    """What stands beside the promised keys: sentence, time, occupancy, launches, scores."""
    return {
        "sentence": story.sentence,
        "side_effects": [delta.id for delta in story.side_effects],
        "time_split": _time(story.time),
        "occupancy": [
            {
                "kernel": split.kernel,
                "old": split.old,
                "new": split.new,
                "delta": split.delta,
                "causes": split.causes,
            }
            for split in story.occupancy
        ],
        "launches": [
            {"old": m.old or None, "new": m.new or None, "how": m.how, "changes": list(m.changes)}
            for m in story.attribution.launches
        ],
        "rules": [
            {
                "rule": score.rule,
                "title": score.title,
                "kernel": score.kernel,
                "promised": score.promised,
                "gained": score.gained,
                "still": score.still,
                "verdict": score.verdict,
            }
            for score in story.scores
        ],
        "story": {
            "threshold": TELLING,
            "hunks": [{"hunk": chapter.hunk.id, **_passage(chapter)} for chapter in story.chapters],
            "rest": _passage(story.rest),
        },
    }


def words(story: Story) -> list[str]:
    """Sentences for ``warnings``: what could not be done, and why."""
    out = list(story.attribution.words)
    if story.time_missing:
        out.append(story.time_missing)
    return out


def _passage(passage: Passage) -> Json:
    left = passage.left_out
    return {
        "links": [
            {
                "link": tie.link,
                "symbol": tie.symbol,
                "note": tie.note,
                "weight": tie.weight,
                "time_s": tie.time.delta_s if tie.time is not None else None,
                "stalls": [stall.stall for stall in tie.stalls],
                "counters": [
                    {"counter": fact.split.id, "delta": fact.part.delta, "weight": fact.weight}
                    for fact in tie.facts
                ],
            }
            for tie in passage.ties
        ],
        "left_out": {"symbols": left.symbols, "numbers": left.numbers, "share": left.share},
    }


def _hunk(hunk: Hunk) -> Json:
    return {
        "id": hunk.id,
        "old": list(hunk.old),
        "new": list(hunk.new),
        "kind": hunk.kind,
        "symbols": list(hunk.symbols),
        "old_file": hunk.old_file,
        "new_file": hunk.new_file,
    }


def _split(split: CounterSplit) -> Json:
    return {
        "counter": split.id or split.counter,
        "old": split.old,
        "new": split.new,
        "delta": split.delta,
        "parts": [_part(part) for part in split.parts],
        "ncu": split.counter,
        "unit": split.unit,
        "chip_old": split.chip_old,
        "chip_new": split.chip_new,
    }


def _part(part: Part) -> Json:
    return {
        "link": part.link,
        "hunk": part.hunk,
        "symbol": part.symbol,
        "delta": part.delta,
        "shared": part.shared,
        "note": part.note,
        "lines": [
            {
                "old": line.old,
                "new": line.new,
                "old_file": line.old_file,
                "new_file": line.new_file,
                "delta": line.delta,
                "via": list(line.via),
            }
            for line in part.lines
        ],
    }


def _time(split: TimeSplit | None) -> Json | None:
    if split is None:
        return None
    return {
        "old_s": split.old_s,
        "new_s": split.new_s,
        "delta_s": split.delta_s,
        "samples": [split.samples_old, split.samples_new],
        "method": split.method,
        "parts": [_time_part(part) for part in split.parts],
    }


def _time_part(part: TimePart) -> Json:
    return {
        "link": part.link,
        "hunk": part.hunk,
        "symbol": part.symbol,
        "delta_s": part.delta_s,
        "low_s": part.low_s,
        "high_s": part.high_s,
        "stalls": [
            {"id": s.stall, "delta_s": s.delta_s, "low_s": s.low_s, "high_s": s.high_s}
            for s in part.stalls
        ],
    }
