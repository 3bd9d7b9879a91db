"""The JSON document of ``diff``: what moved, and the story of the step; see docs/json.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import asdict

from workbench.analysis.cause.finding import Cause
from workbench.analysis.compare import Comparison, Side
from workbench.analysis.launches.kernels import KernelChange
from workbench.analysis.machine.code import CodeClass, HunkCode
from workbench.analysis.program.steps import KernelStep
from workbench.analysis.split.attribution import CounterSplit
from workbench.analysis.split.duration import StallDelta, TimePart, TimeSplit
from workbench.analysis.story import Passage, Story
from workbench.analysis.weight import TELLING
from workbench.model import Number, Spread
from workbench.views.text.documents import Json, limit_document, picked


def step_document(
    comparison: Comparison,
    story: Story,
    *,
    notes: Sequence[str] = (),
    stale: tuple[bool, bool] = (False, False),
    codes: Sequence[HunkCode] | None = None,
) -> Json:
    """One step.

    Args:
        comparison: `compare` of the two profiles.
        story: `explain` of the two.
        notes: Sentences that must stand beside any number, such as that a side is stale.
        stale: Whether each side's source was edited after its capture.
        codes: What the compiler made of the hunks, where that was asked for.
    """
    old, new, time = comparison.old, comparison.new, comparison.time
    warnings = [f"not comparable: {reason}" for reason in comparison.reasons]
    warnings += [*comparison.warnings, *notes, *story.attribution.words]
    return {
        "study": new.study or old.study,
        "problem": new.problem or old.problem,
        **picked(new, "engine device"),
        "old": _side(old, stale[0]),
        "new": _side(new, stale[1]),
        "comparable": comparison.comparable,
        "warnings": [*warnings, *([story.time_missing] if story.time_missing else [])],
        "time": asdict(time) if time is not None else None,
        "counters": [
            picked(delta, "id ncu unit old new delta better moved verdict")
            for delta in comparison.counters
        ],
        "hunks": [asdict(hunk) for hunk in story.attribution.hunks],
        "attribution": [_split(split) for split in story.attribution.counters],
        "expectations": [
            {
                **picked(judgement, "counter expected observed verdict reason why"),
                "line": judgement.line or None,
                "learned": judgement.learned,
            }
            for judgement in story.expectations
        ],
        "sentence": story.sentence,
        "strip": [asdict(stop) for stop in story.strip],
        "cause": _cause(story.cause),
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
        "kernels": [_kernel(kernel) for kernel in comparison.kernels],
        "launch_words": comparison.launch_words,
        "tried": [picked(one, "rule title promised gained still verdict") for one in story.tried],
        "machine_code": [_machine(one) for one in codes] if codes is not None else None,
    }


def _cause(cause: Cause) -> Json:
    return {
        "proofs": [
            {
                "counter": proof.counter.id,
                "beside": proof.beside.id if proof.beside is not None else None,
                **picked(proof, "way score"),
                **picked(proof.place, "link hunks share by"),
            }
            for proof in cause.proofs
        ],
        "stalls": [picked(move, "stall old_s new_s") for move in cause.stalls],
        "limit_old": limit_document(cause.limit_old),
        "limit_new": limit_document(cause.limit_new),
        "doubts": [asdict(doubt) for doubt in cause.doubts],
    }


def _machine(one: HunkCode) -> Json:
    code = one.code
    return {
        "hunk": one.hunk,
        "kernel": code.kernel,
        "old": asdict(code.old),
        "new": asdict(code.new),
        "classes": [_class(each) for each in code.classes],
        "replaced": [asdict(each) for each in code.replaced],
        "rows": code.rows,
    }


def _class(one: CodeClass) -> Json:
    def side(of: tuple[int, Number, float]) -> Json:
        return {"instructions": of[0], "executed": of[1], "seconds": of[2]}

    return {**picked(one, "name role"), "old": side(one.old), "new": side(one.new)}


def _side(side: Side, stale: bool) -> Json:
    rest = "label study problem engine device captured kernels"
    return {"version": side.version or side.label, **picked(side, rest), "stale": stale}


def _kernel(kernel: KernelChange) -> Json:
    return {
        "old": kernel.name_old or None,
        "new": kernel.name_new or None,
        "how": kernel.how,
        "launches": kernel.samples,
        **picked(kernel, "old_s new_s"),
        "spread_old": _spread(kernel.spreads[0]),
        "spread_new": _spread(kernel.spreads[1]),
        **picked(kernel, "moved weight"),
        "compared": not kernel.alone,
        "values": [asdict(value) for value in kernel.values],
    }


def _spread(spread: Spread | None) -> Json | None:
    return asdict(spread) if spread is not None else None


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
                **picked(tie, "hunks symbols"),
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
            {
                **picked(part, "link hunk symbol delta shared note"),
                "lines": [asdict(line) for line in part.lines],
                **picked(part, "hunks symbols"),
            }
            for part in split.parts
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
        **picked(part, "note hunks symbols waited_s"),
        "paths": [asdict(path) for path in part.paths],
    }


def steps_document(steps: Iterable[KernelStep]) -> list[Json]:
    """A document a kernel: its name and fate, and its step, or null and why there is none."""
    out = []
    for step in steps:
        told = step.comparison is not None and step.story is not None
        out.append(
            {
                "kernel": step.row.name,
                "fate": step.row.fate,
                "step": step_document(step.comparison, step.story)
                if step.comparison is not None and step.story is not None
                else None,
                "missing": None if told else step.silence,
            }
        )
    return out
