"""One step judged by its label: are edit and counter named, is anything said that is false?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchmarks.truth.labels import Falsehood, Label, Lines
from benchmarks.truth.shown import Shown, shown
from workbench.analysis.cause.finding import Proof
from workbench.analysis.sentence import stall_of
from workbench.analysis.source.hunks import Hunk
from workbench.analysis.story import Step
from workbench.model import Record

#: How many of a step's propositions count as "among the first".
FIRST = 3


class Verdict(Record, frozen=True):
    """What the tool said of one step.

    `top` and `first`: one proposition (of the first three) names both edit and counter. `shown` is
    what its own screen says of it.
    """

    pair: str
    top: bool
    first: bool
    limit: bool
    contradictions: tuple[str, ...]
    said: str
    shown: Shown


def judge(label: Label, step: Step) -> Verdict:
    """Compare what is told of a step with what is true of it."""
    story = step.story
    cause, hunks = story.cause, story.attribution.hunks
    if label.link == "none":
        right = [not cause.proofs]
    elif label.link == "other work":
        right = [bool(cause.other_work)]
    else:
        right = [
            _names_edit(proof, hunks, label) and _names_counter(proof, label)
            for proof in cause.proofs[:FIRST]
        ]
    return Verdict(
        pair=label.pair,
        top=any(right[:1]),
        first=any(right),
        limit=cause.limit_new is not None and cause.limit_new.id in label.limit,
        contradictions=tuple(
            word for falsehood in label.must_not if (word := _told(falsehood, step))
        ),
        said=story.sentence,
        shown=shown(label.pair, step),
    )


#: Two names of one count: an access to global memory is one request.
_TWINS = {"global_loads": "global_load_requests", "global_stores": "global_store_requests"}


def _names_counter(proof: Proof, label: Label) -> bool:
    named = {delta.id for delta in (proof.counter, proof.beside) if delta is not None}
    return any(moved.id in named or _TWINS.get(moved.id) in named for moved in label.counter)


def _names_edit(proof: Proof, hunks: Sequence[Hunk], label: Label) -> bool:
    """Whether a named hunk holds lines of the edit; a cause that is no hunk needs its own link.

    A label without lines asks for none.
    """
    if label.link != "hunk" and proof.place.link == label.link:
        return True
    if not label.edit_old and not label.edit_new and label.pair.startswith("public/"):
        return True
    named = [hunk for hunk in hunks if hunk.id in proof.place.edited]
    return any(_touches(hunk, label.edit_old, label.edit_new) for hunk in named)


def _touches(hunk: Hunk, old: Lines, new: Lines) -> bool:
    ranges = [(hunk.old, lines) for lines in old] + [(hunk.new, lines) for lines in new]
    return any(own[0] <= last and first <= own[1] for own, (first, last) in ranges)


def _told(falsehood: Falsehood, step: Step) -> str:
    """What was said of a falsehood, "" where nothing was."""
    story = step.story
    cause, hunks = story.cause, story.attribution.hunks
    first = cause.proofs[0] if cause.proofs and not cause.other_work else None
    if falsehood.kind == "counter":
        return falsehood.id if first is not None and first.counter.id == falsehood.id else ""
    if falsehood.kind == "edit":
        named = [h for h in hunks if first is not None and h.id in first.place.hunks]
        wrong = named and all(_touches(h, falsehood.old, falsehood.new) for h in named)
        return "edit" if wrong else ""
    if falsehood.kind == "limit":
        limit = cause.limit_new
        return f"limit {limit.id}" if limit is not None and limit.id == falsehood.id else ""
    if falsehood.kind == "stall":
        stall = stall_of(cause)
        made = stall is not None and stall.delta_s > 0
        same = stall is not None and stall.stall == falsehood.id
        wrong_way = made == (falsehood.way == "made")
        return f"{falsehood.id} {falsehood.way}" if same and wrong_way else ""
    found = re.search(falsehood.re, story.sentence, re.IGNORECASE)
    return repr(found[0]) if found else ""
