"""The causal strip: one step in one line, edit → counter → stall → time → what limits now.

Every stop is a number of the analysis, and says where its proof is: the hunk, the counter's row,
the split of the time, or the panel of what limits now. A stop of which nothing is known is left
out; a step that is no faster has no edit to show.
"""

from __future__ import annotations

from typing import Literal

from workbench.analysis.cause.finding import Cause
from workbench.analysis.cause.sentence import speed_words, stall_of, where_of
from workbench.analysis.compare import Comparison
from workbench.analysis.limit import RESOURCES, Limit
from workbench.analysis.sameness import headline
from workbench.analysis.split.attribution import Attribution
from workbench.analysis.stalls import stall_words
from workbench.counters import catalog
from workbench.model import Record
from workbench.units import signed

StopKind = Literal["edit", "counter", "stall", "time", "limit", "doubt"]


class Stop(Record, frozen=True):
    """One word of the strip. Its proof is `hunk`, else the catalog's `counter`, else its kind's."""

    text: str
    hunk: int | None = None
    counter: str = ""
    kind: StopKind = "counter"


def strip(comparison: Comparison, attribution: Attribution, cause: Cause) -> tuple[Stop, ...]:
    """The stops of a step, in order."""
    new = cause.limit_new
    end = [limit_stop(new, f"{new.when(cause.limit_old)} ")] if new is not None else []
    if cause.other_work:
        head = headline(cause.doubts).partition(":")[0]
        doubt = Stop(text=head, kind="doubt")
        if {each.kind for each in cause.doubts if each.certain} != {"devices"}:
            return (doubt, *end)
        begin = [limit_stop(cause.limit_old, "")] if cause.limit_old is not None else []
        here = [limit_stop(new)] if new is not None else []
        return (*begin, doubt, *_time(comparison), *here)
    out = []
    if cause.proofs and (comparison.speed is None or comparison.speed.moved):
        proof = cause.proofs[0]
        where = where_of(proof, attribution.hunks)
        if not where and proof.way != "clock" and attribution.hunks:
            where = "no single hunk"
        if where:
            out.append(Stop(text=where, hunk=next(iter(proof.place.hunks), None), kind="edit"))
        moved = [delta for delta in (proof.counter, proof.beside) if delta is not None]
        # A wait's ratio per instruction says less than its time, which the stall tells.
        told = moved[1:] if proof.way == "wait" else moved
        for delta in told:
            text = f"{catalog()[delta.id].phrase} {delta.words}"
            if proof.way == "tail" and cause.active is not None:
                # That a slower kernel takes more cycles says nothing.
                before, after = (f"{100 * part:.0f}%" for part in cause.active)
                text = f"SMs active {before} → {after} of the time"
            out.append(Stop(text=text, counter=delta.id))
        stall = stall_of(cause)
        if proof.way == "wait":
            stall = next((m for m in cause.stalls if m.stall == proof.counter.id), stall)
        if stall is not None:
            text = f"{stall_words(stall.stall)} {signed(stall.delta_s, 's')}"
            out.append(Stop(text=text, counter=stall.stall, kind="stall"))
    return (*out, *_time(comparison), *end)


def line(stops: tuple[Stop, ...]) -> str:
    """All of it as one line of text."""
    return " → ".join(stop.text for stop in stops)


def _time(comparison: Comparison) -> tuple[Stop, ...]:
    speed = comparison.speed
    if speed is None:
        return ()
    if not speed.moved:
        return (Stop(text="equally fast", counter="duration", kind="time"),)
    return (Stop(text=speed_words(speed.speedup), counter="duration", kind="time"),)


def limit_stop(limit: Limit, when: str = "now ") -> Stop:
    """The last word, which is all that there is to say of a version without a step."""
    known = next((r.counter for r in RESOURCES if r.id == limit.id), "")
    return Stop(text=f"{when}{limit.words}", counter=known, kind="limit")
