"""The JSON of a step's hunks, attribution and expectations; docs/json.md describes it."""

from __future__ import annotations

from msgspec.structs import asdict

from workbench.analysis.split.attribution import CounterSplit
from workbench.analysis.split.duration import StallDelta, TimePart, TimeSplit
from workbench.analysis.story import Passage, Story
from workbench.analysis.weight import TELLING
from workbench.views.text.documents import Json, picked


def hunk_rows(story: Story) -> list[Json]:
    """``hunks`` of the diff document."""
    return [asdict(hunk) for hunk in story.attribution.hunks]


def attribution_rows(story: Story) -> list[Json]:
    """``attribution`` of the diff document: one entry per line counter."""
    return [_split(split) for split in story.attribution.counters]


def expectation_rows(story: Story) -> list[Json]:
    """``expectations`` of the diff document."""
    return [
        {
            **picked(judgement, "counter expected observed verdict reason why"),
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
        "time_split": _time(story.time) if story.time is not None else None,
        "occupancy": [picked(split, "kernel old new delta causes") for split in story.occupancy],
        "launches": [
            {"old": m.old or None, "new": m.new or None, "how": m.how, "changes": m.changes}
            for m in story.attribution.launches
        ],
        "rules": [asdict(score) for score in story.scores],
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
    return {
        "links": [
            {
                **picked(tie, "link symbol note weight"),
                "time_s": tie.time.delta_s if tie.time is not None else None,
                "stalls": [stall.stall for stall in tie.stalls],
                "counters": [
                    {"counter": fact.split.id, "delta": fact.part.delta, "weight": fact.weight}
                    for fact in tie.facts
                ],
            }
            for tie in passage.ties
        ],
        "left_out": picked(passage.left_out, "symbols numbers share"),
    }


def _split(split: CounterSplit) -> Json:
    return {
        "counter": split.id or split.counter,
        **picked(split, "old new delta"),
        "parts": [
            asdict(part) | {"lines": [asdict(line) for line in part.lines]} for part in split.parts
        ],
        "ncu": split.counter,
        **picked(split, "unit chip_old chip_new"),
    }


def _time(split: TimeSplit) -> Json:
    return {
        **picked(split, "old_s new_s delta_s"),
        "samples": [split.samples_old, split.samples_new],
        "method": split.method,
        "parts": [_time_part(part) for part in split.parts],
    }


def _time_part(part: TimePart) -> Json:
    def stall(of: StallDelta) -> Json:
        return {"id": of.stall, **picked(of, "delta_s low_s high_s")}

    return {
        **picked(part, "link hunk symbol delta_s low_s high_s"),
        "stalls": [stall(one) for one in part.stalls],
    }
