"""The cause of a step's speed, in a few sentences and in a strip of one line.

Both are made from the `Cause`, so neither can say more than the cause does. Every clause is built
from one number and is left out if that is missing, within its noise, or too small to matter. The
strip is edit → counter → stall → time → current limit; every stop says where its proof is: the
hunk, the counter's row, the split of the time, or the panel of the current limit. A step that is
not faster has no edit to show.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, NamedTuple

from workbench.analysis.attribution import Attribution
from workbench.analysis.cause.finding import MEMORY, Cause, Proof, StallMove, is_pipe
from workbench.analysis.cause.hypotheses import HALF, WAITS
from workbench.analysis.cause.places import Dealt, went_with
from workbench.analysis.compare import Comparison, Delta
from workbench.analysis.duration import TimeSplit
from workbench.analysis.kernels import KernelChange, kernel_words
from workbench.analysis.limits.limit import RESOURCES, Limit, stall_words
from workbench.analysis.optional import Maybe, growth
from workbench.analysis.sameness import asides, headline, precision_words
from workbench.analysis.source.hunks import Hunk
from workbench.analysis.weight import WELL
from workbench.analysis.wording import hunks_named
from workbench.language import N_, _
from workbench.model import Record
from workbench.units import (
    capital,
    faster,
    inside,
    interval,
    joined,
    lines_named,
    lines_span,
    listed,
    quantity,
    signed,
    won,
)

#: Least part of the longer duration for which time without an edit is shown.
_UNEXPLAINED = 0.05
#: A proof that accounts for less than this part of the change explains only some of it.
_PARTLY = 0.3
#: The maximum number of stalls to name that replaced another one.
_INSTEAD = 2
#: States that are not stalls -> the warps' activity in them.
_WELL = {"selected": N_("issuing"), "not_selected": N_("ready while others issued")}
#: Link -> words for a place other than a hunk.
_WORDS = {
    "compiler": N_("code that was not edited"),
    "launch": N_("the launch"),
    "source unknown": N_("unknown source"),
}


def tell(
    comparison: Comparison, attribution: Attribution, cause: Cause, time: TimeSplit | None
) -> str:
    """The sentences for a step.

    `attribution` is the split of the line counters, for the places of hunks; `cause` is the cause
    of the step.
    """
    if cause.broken:
        return joined([f"{capital(text)}." for text in cause.broken])
    precise = precision_words(cause.doubts)
    if head := headline(cause.doubts):
        # With the same machine code, a difference in time is due to the machine, and is mentioned.
        kinds = {doubt.kind for doubt in cause.doubts if doubt.certain}
        if kinds == {"same-code"}:
            counted = next((x for x in cause.proofs if x.way not in ("wait", "tail")), None)
            if counted is None or comparison.speed is None or not comparison.speed.moved:
                launched = _set_of_kernels(comparison, cause)
                return joined([head, _speed(comparison, cause.more), launched])
            # The counters that moved with it depend on the arguments or the data.
            told = _proof(counted, comparison, attribution.hunks, cause)
            return joined(
                [head, _speed(comparison), told, _limit(cause.limit_old, cause.limit_new)]
            )
        if kinds == {"devices"}:
            return joined([_on_devices(head, comparison), *_limits(comparison, cause)])
        return joined([head, precise, comparison.partial, _limit(cause.limit_old, cause.limit_new)])
    clauses = [
        precise,
        *(words for __, words in asides(cause.doubts)),
        # Without a time, the counts come first; the head of a step says so as well.
        comparison.partial
        or ("" if comparison.speed is None and cause.proofs else _speed(comparison, cause.more)),
        _unseen(comparison),
        _set_of_kernels(comparison, cause),
        _by_kernel(cause.kernel, comparison.kernels),
    ]
    speed = comparison.speed
    alone = comparison.profiler_alone
    why = speed is None or speed.moved or cause.kernel is not None or (alone and cause.proofs)
    if why and not cause.apart:  # which says all
        proof = cause.proofs[0] if cause.proofs else None
        unknown = proof is not None and proof.place.link == "source unknown"
        clauses += [
            _proof(proof, comparison, attribution.hunks, cause)
            if proof
            else ("" if precise else _nothing(comparison, cause.more)),
            _second(comparison, cause, attribution.hunks),
            _lanes(comparison),
            _stall(comparison, cause),
            "" if unknown or not comparison["duration"].moved else _unexplained(time),
        ]
    clauses.append(_limit(cause.limit_old, cause.limit_new))
    return joined(clauses)


#: The smallest share of the change for which a warp state is shown.
_MUCH = 0.25
#: Samples cannot distinguish two states whose parts differ by less.
_ALIKE = 0.9


def stall_of(cause: Cause) -> StallMove | None:
    """The stall shown beside the first proof, the one that moved most with the time.

    One of the proof's own kind replaces another that samples hardly distinguish from it. If no
    stall is much of the change, warps may have issued, or been ready to issue, for a longer or
    shorter time: they had more or less work.
    """
    if not cause.proofs:
        return None
    large = [move for move in cause.stalls if move.share >= _MUCH]
    large.sort(key=lambda move: (move.stall in WELL, -move.share))
    own = WAITS.get(cause.proofs[0].counter.id, ())
    alike = (m for m in large if m.stall in own and m.share >= _ALIKE * large[0].share)
    return next(alike, next(iter(large), None))


def _instead(cause: Cause, stall: StallMove) -> list[StallMove]:
    """The stalls that moved against one that exceeds the whole change."""
    if stall.share <= 1.0 or stall.stall in WELL:
        return []
    against = [m for m in cause.stalls if m.share <= -_MUCH and m.stall not in WELL]
    return against[:_INSTEAD]


def lines_of(hunk: Hunk) -> str:
    """``line 131``, ``lines 4-9``, ``old line 7`` if nothing is left of it."""
    if hunk.new[0] <= hunk.new[1]:
        return lines_named(hunk.new)
    return _("old {lines}").format(lines=lines_named(hunk.old))


def _speed(comparison: Comparison, more: str | None = None) -> str:
    old, new = comparison.old.label, comparison.new.label
    speed = comparison.speed
    words = "" if speed is None else faster(speed.speedup, more and "")
    # Only a few launches of a program are profiled; their time is not the program's.
    launches = comparison.new.of_program or any(one.uneven for one in comparison.kernels)
    counted, time = comparison["instructions"].delta is not None, comparison["duration"]
    still = counted and not any(each.moved for each in comparison.counters)
    if speed is None and still and time.old is time.new is None:
        text = _("No counter moved from {old} to {new}.")
    elif speed is None:
        text = _("{old} and {new} do not both have a time.")
    elif more is not None:
        takes = _("{new} takes {words} of {old}.")
        text = _("Under the profiler {new} takes {words} of {old}.") if speed.profiled else takes
    elif speed.moved and speed.profiled and launches:
        text = _("Under the profiler these launches of {new} are {words} than those of {old}.")
    elif speed.profiled and launches:
        text = _("Under the profiler these launches of {new} and {old} are equally fast.")
    elif speed.moved and speed.profiled:
        text = _("Under the profiler {new} is {words} than {old}.")
    elif speed.moved:
        text = _("{new} is {words} than {old}.")
    elif speed.profiled:
        text = _("Under the profiler {new} and {old} are equally fast within the noise.")
    else:
        text = _("{new} and {old} are equally fast within their intervals.")
    return text.format(old=old, new=new, words=words)


def _on_devices(head: str, comparison: Comparison) -> str:
    """The same code on two devices: which of them runs it faster."""
    speed, devices = comparison.speed, (comparison.old.device, comparison.new.device)
    if speed is None or not speed.moved or _("the same machine code on ") not in head:
        return joined([head, _speed(comparison)])
    text = _("The same machine code is {words} on {new} than on {old}.")
    return text.format(words=faster(speed.speedup), new=devices[1], old=devices[0])


def _unseen(comparison: Comparison) -> str:
    """A sentence if either the measured time or the profiler's duration moved, but not both."""
    speed, duration = comparison.speed, comparison["duration"]
    if speed is None or speed.profiled or speed.moved == duration.moved:
        return ""
    if duration.moved and duration.old and duration.new:
        words = faster(duration.old / duration.new)
        return _("Under the profiler {new} is {words}.").format(
            new=comparison.new.label, words=words
        )
    if duration.old and duration.new and any(delta.moved for delta in comparison.counters):
        return _("Under the profiler they are equally fast within the noise.")
    return ""


def _by_kernel(kernel: KernelChange | None, kernels: Sequence[KernelChange]) -> str:
    """The kernel of several that changed most in the direction of the whole."""
    text = _("The kernel that changed most: {kernel}.")
    moved = [abs(s) for x in kernels if x.moved and (s := x.in_all_s)]
    if kernel and moved and max(moved) > abs(kernel.in_all_s or 0):
        text = _("The kernel that changed most in this direction: {kernel}.")
    return text.format(kernel=kernel_words(kernel)) if kernel is not None else ""


#: Least part of the change for which added and removed kernels are shown.
_MOSTLY = 0.5
#: The maximum number of kernels of a side that are named.
_SEEN = 3


def _set_of_kernels(comparison: Comparison, cause: Cause) -> str:
    """The added and removed kernels, if they are most of the change, or much of a report's."""
    duration = comparison["duration"]
    change = duration.delta if duration.moved else 0.0
    if change is None or duration.old is None or duration.new is None:
        return ""
    apart = cause.apart or [x for x in comparison.kernels if not x.matched and not x.alone]
    known = [(one, *one.spent) for one in apart if one.spent]
    parts = [after - before for _one, before, after in known]
    if len(known) < len(apart) or not parts:
        return ""  # a kernel's time is unknown
    mostly = sum(parts) * change > 0 and abs(sum(parts)) >= _MOSTLY * abs(change)
    foreign = not (comparison.new.version or comparison.new.of_program)
    much = max(map(abs, parts)) >= _UNEXPLAINED * max(duration.old, duration.new)
    if not mostly and not (foreign and much):
        return ""
    gone = _functions([(one.name_old, old) for one, old, _new in known if one.new is None])
    come = _functions([(one.name_new, new) for one, _old, new in known if one.old is None])
    said = [
        f"{x.name} ({x.times}, {quantity(old, 's')} → {quantity(new, 's')})"
        for x, old, new in known
        if x.matched
    ]
    said += [
        text.format(kernels=listed(names, _SEEN))
        for names, text in ((gone, _("{kernels} removed")), (come, _("{kernels} added")))
        if names
    ]
    if cause.apart:
        text = _("Only the set of launches differs: {kernels}; all others take {old} → {new}.")
    elif not mostly:
        text = _("The set of kernels differs as well: {kernels}.")
    elif any(one.matched for one in comparison.kernels):
        text = _("Most of it is in the set of kernels: {kernels}; all others take {old} → {new}.")
    # If there are more kernels than are named, the words give their number.
    elif gone and come and 1 < max(len(gone), len(come)) <= _SEEN:
        text = _("The set of kernels changed, {gone} replaced by {come}: {kernels}.")
    else:
        text = _("The set of kernels changed: {kernels}.")
    old = quantity(duration.old - sum(x for _one, x, _new in known), "s")
    new = quantity(duration.new - sum(x for _one, _old, x in known), "s")
    return text.format(gone=len(gone), come=len(come), kernels=_(", ").join(said), old=old, new=new)


def _functions(kernels: Sequence[tuple[str, float]]) -> list[str]:
    """Each function once, with the time of all its configurations."""
    taken: dict[str, list[float]] = defaultdict(list)
    for name, seconds in kernels:
        taken[name.partition(" grid ")[0] if len(kernels) > 1 else name].append(seconds)
    several_of = _("{name} ({time} in {n} configurations)")
    return [
        (several_of if len(own) > 1 else "{name} ({time})").format(
            name=name, time=quantity(sum(own), "s"), n=len(own)
        )
        for name, own in taken.items()
    ]


def _nothing(comparison: Comparison, more: str | None) -> str:
    """A sentence if no cause is known, with the count that moved with the time at least as far.

    Where there is `more` work, or threads with as much of the count each, the sizes explain it.
    """
    moved = [delta for delta in comparison.counters if delta.moved and delta.id != "duration"]
    speed = comparison.speed
    if speed is None or not moved or more is not None:
        return ""
    taken = -math.log(speed.speedup)
    for delta in moved:
        went = growth(delta.old, delta.new) or 0.0
        if delta.id in ("instructions", *WAITS) and went * taken >= 0.99 * taken * taken:
            if (dealt := went_with(delta, comparison)) is not None and dealt.alone:
                return _("{text}.").format(text=_counted(delta) + _led(dealt, delta))
            text = _("No counter that moved explains it; with it, {what} {moved}.")
            return text.format(what=delta.phrase, moved=_moved(delta))
    return _("No counter that moved explains it.")


def _proof(proof: Proof, comparison: Comparison, hunks: Sequence[Hunk], cause: Cause) -> str:
    if proof.way in ("launch", "tail"):
        text = _launch(proof, cause)
    elif proof.way == "occupancy":
        text = _occupancy(proof, cause)
    elif proof.way == "clock":
        return _("The SM clock went {words}, which no edit explains.").format(
            words=proof.counter.words
        )
    elif proof.way == "wait":
        text = _("Time in {stalls} {went}").format(
            stalls=stall_words(proof.counter.id), went=_went(cause, proof)
        )
        if proof.beside is not None and not is_pipe(proof.beside):
            text += _beside(proof.beside)
    else:
        text = _counted(proof.counter)
        if proof.beside is not None:
            text += _beside(proof.beside)
    # Counts and waits take seconds of the slower side; a grid is a factor of its whole time.
    taken = proof.way in ("count", "work", "wait")
    of = cause.kernel or comparison.speed
    part = _of_seconds(proof.score, of.old_s, of.new_s) if taken and of else proof.score
    partly = _("It explains only part of the time.") if part < _PARTLY else ""
    first = _("{text}.").format(text=f"{text}{_where(proof, hunks)}")
    if cause.kernel is not None:
        first = _("In it, {text}").format(text=inside(first))
    return joined([first, _held(proof), partly])


def _of_seconds(score: float, old_s: Maybe, new_s: Maybe) -> float:
    """A score, which is a part of the logarithm of a gain or loss, as a part (0-1) of the gain."""
    change = abs(growth(old_s, new_s) or 0.0)
    return math.expm1(-score * change) / math.expm1(-change) if change else score


def _beside(delta: Delta) -> str:
    """A clause on the counter that moved as well."""
    return _(", and {what} {moved}").format(what=delta.phrase, moved=_moved(delta))


def _held(proof: Proof) -> str:
    """A sentence on the work that a wait held up: a pipe whose share moved, with equal work."""
    if proof.beside is None or not is_pipe(proof.beside):
        return ""
    old, new = (quantity(value, "%") for value in (proof.beside.old, proof.beside.new))
    if proof.beside.id == MEMORY:
        text = _("With the same bytes, device memory was busy {new} of the time instead of {old}.")
    else:
        text = _(
            "With the same work, the {pipe} was busy {new} of the active time instead of {old}."
        )
    return text.format(pipe=proof.beside.phrase, old=old, new=new)


def _second(comparison: Comparison, cause: Cause, hunks: Sequence[Hunk]) -> str:
    """A clause added to the first proof: occupancy that explains as much as a wait, and spills.

    Larger tiles make a smaller grid and need more registers: two effects of one edit. Without a
    duration, the clause is about the count that moved the other way.
    """
    if not cause.proofs:
        return ""
    first, rest = cause.proofs[0], cause.proofs[1:]
    local = next((proof for proof in rest if proof.counter.id == "local_sectors"), None)
    if local is not None and (first.way == "launch" or not local.counter.old):
        return _also(local, hunks)
    if comparison["duration"].delta is None:
        return _also(rest[0], hunks) if rest else ""
    if not rest or rest[0].way != "occupancy" or first.way not in ("wait", "count"):
        return ""
    if rest[0].score < first.score:
        return ""
    return _("{text}.").format(text=_occupancy(rest[0], cause))


def _lanes(comparison: Comparison) -> str:
    """Lanes that an instruction keeps busy, if there are more in less time, or fewer in more."""
    lanes, speed = comparison["lanes_per_instruction"], comparison.speed
    moved = growth(lanes.old, lanes.new) or 0.0
    with_it = speed is not None and speed.moved and moved * math.log(speed.speedup) > 0
    return _("{text}.").format(text=_counted(lanes)) if with_it and abs(moved) >= HALF else ""


def _also(proof: Proof, hunks: Sequence[Hunk]) -> str:
    return _("{text}.").format(text=f"{_counted(proof.counter)}{_where(proof, hunks)}")


def _counted(delta: Delta) -> str:
    text = _("{what} {moved}").format(what=delta.title, moved=_moved(delta))
    if delta.id != "local_sectors" or delta.old != 0:
        return text
    why = _("registers were spilled, or arrays are in local memory")
    return _("{text} ({why})").format(text=text, why=why)


def _change(delta: Delta) -> str:
    """A counter and its change, as in a row."""
    return _("{what} {change}").format(what=delta.phrase, change=delta.words)


def _moved(delta: Delta) -> str:
    if delta.delta is None:
        return _("went {words}").format(words=delta.words)
    text = _("fell {words}") if delta.delta < 0 else _("rose {words}")
    return text.format(words=delta.words)


def _went(cause: Cause, proof: Proof) -> str:
    move = next((move for move in cause.stalls if move.stall == proof.counter.id), None)
    if move is None:
        return _("changed")
    fell = move.delta_s < 0
    text = _("fell by an estimated {time}") if fell else _("rose by an estimated {time}")
    text = text.format(time=quantity(abs(move.delta_s), "s"))
    if not 0 < move.share <= 1:
        return text
    return text + _(" ({share} of the change)").format(share=f"{100 * move.share:.0f}%")


def _launch(proof: Proof, cause: Cause) -> str:
    before, after = (f"{100 * part:.0f}%" for part in cause.active or (0, 0))
    active = _("SMs are active {after} of the time instead of {before}").format(
        after=after, before=before
    )
    if proof.way == "tail":
        return _("With the same number of blocks, {active}").format(active=active)
    old, new = (quantity(value, "") for value in (proof.counter.old, proof.counter.new))
    text = _("The grid went from {old} to {new} blocks").format(old=old, new=new)
    if proof.beside is not None:
        waves = (quantity(value, "") for value in (proof.beside.old, proof.beside.new))
        text += _(" ({waves} waves)").format(waves=" → ".join(waves))
    if cause.active is None:
        return text
    return _("{text}, and {active}").format(text=text, active=active)


def _occupancy(proof: Proof, cause: Cause) -> str:
    text = _("{what} {moved}").format(what=proof.counter.title, moved=_moved(proof.counter))
    because = _(", ").join(_change(delta) for delta in cause.room)
    if proof.beside is not None and any(delta.id == "blocks" for delta in cause.room):
        waves = (quantity(value, "") for value in (proof.beside.old, proof.beside.new))
        because += _(" ({waves} waves)").format(waves=" → ".join(waves))
    elif proof.beside is not None:
        grid = _(" in a grid that does not fill the SMs ({waves} waves)")
        because += grid.format(waves=quantity(proof.beside.new, ""))
    return _("{text}: {because}").format(text=text, because=because) if because else text


def where_of(proof: Proof, hunks: Sequence[Hunk]) -> str:
    """``hunks 4 and 5 (lines 128 and 131)``, ``code that nobody edited``, or ""."""
    return _lines_in(proof.place.hunks, hunks) or _(_WORDS.get(proof.place.link, ""))


def _lines_in(numbers: Sequence[int], hunks: Sequence[Hunk]) -> str:
    named = [hunk for hunk in hunks if hunk.id in numbers]
    if not named:
        return ""
    if len(named) > 1 and all(hunk.new[0] <= hunk.new[1] for hunk in named):
        lines = _("lines {lines}").format(lines=listed([lines_span(hunk.new) for hunk in named]))
    else:
        lines = listed([lines_of(hunk) for hunk in named])
    numbered = hunks_named([hunk.id for hunk in named])
    return _("{hunks} ({lines})").format(hunks=numbered, lines=lines)


def _led(dealt: Dealt, counter: Delta) -> str:
    text = _("; the launch has {threads:.3g}× as many {of}, each with {each:.3g}× the {counter}")
    return text.format(
        threads=dealt.threads, of=_(dealt.of), each=dealt.each, counter=counter.phrase
    )


def _where(proof: Proof, hunks: Sequence[Hunk]) -> str:
    where, dealt = where_of(proof, hunks), proof.place.dealt
    led = _led(dealt, proof.counter) if dealt is not None and not dealt.sizes else ""
    if proof.place.link == "source unknown":
        return _("; the source is unknown")
    if proof.way == "wait" and proof.place.link == "launch":
        return _(
            "; blocks, which ran in waves, now all run at once and advance together in {where}"
        ).format(where=where)
    only = proof.place.link == "launch" and not proof.place.hunks
    if not where or (only and (led or proof.way != "count")):
        return led
    if proof.place.by == "one":
        return led + _("; {where} is the only edit").format(where=where)
    if proof.place.by == "order":
        return _("; the synchronization of warps changed in {where}").format(where=where)
    if proof.place.by == "time":
        return led + _("; the time changed most in {where}").format(where=where)
    if proof.place.by == "bounds":
        return _("; the register bound changed in {where}").format(where=where)
    if proof.way == "occupancy" and proof.place.link == "compiler":
        return _("; instructions changed most in {where}").format(where=where)
    share = proof.place.share
    swapped = ""
    if proof.place.lost and proof.place.gained:
        lost, gained = (hunks_named(each) for each in (proof.place.lost, proof.place.gained))
        swapped = _("; {gained} gained the part that {lost} lost").format(lost=lost, gained=gained)
    if called := _lines_in(proof.place.called, hunks):
        where = _("{where}, in functions that {called} calls").format(where=where, called=called)
    if dealt is not None and not led:
        swapped += _(
            "; with {sizes} ({hunks}) there are {threads:.3g}× as many threads, each with "
            "{each:.3g}× the {counter}"
        ).format(
            sizes=listed([f"{size.name} {size.old} → {size.new}" for size in dealt.sizes]),
            hunks=hunks_named(dealt.hunks),
            threads=dealt.threads,
            each=dealt.each,
            counter=proof.counter.phrase,
        )
    if led or share is None or share >= 0.995:
        return led + _(", linked to {where}").format(where=where) + swapped
    launch = proof.place.launch
    part = _(", {share} of it linked to {where}").format(share=f"{100 * share:.0f}%", where=where)
    if launch is not None:
        part += _(", {share} to the launch").format(share=f"{100 * launch:.0f}%")
    return part + swapped


def _stall(comparison: Comparison, cause: Cause) -> str:
    move = stall_of(cause)
    if move is None or (cause.proofs[0].way == "wait" and cause.proofs[0].counter.id == move.stall):
        return ""
    spent = [_spent(move), *(_spent(other) for other in _instead(cause, move))]
    if len(spent) > 1:
        text = _("Warps spent an estimated {time}.")
    elif move.share <= 1.0:
        text = _("Warps spent an estimated {time}, {share} of the change.")
    else:
        text = _("Warps spent an estimated {time}, more than the whole change.")
    text = text.format(time=listed(spent), share=f"{100 * move.share:.0f}%")
    each = comparison[move.stall]
    if cause.kernel is None and each.moved and (each.delta or 0.0) * move.delta_s < 0:
        text = joined(
            [text, _("Per issued instruction, these waits {moved}.").format(moved=_moved(each))]
        )
    return text


def _spent(move: StallMove) -> str:
    where = _(_WELL.get(move.stall, "")) or _("in {stalls}").format(stalls=stall_words(move.stall))
    text = _("{time} less {where}") if move.delta_s < 0 else _("{time} more {where}")
    return text.format(time=quantity(abs(move.delta_s), "s"), where=where)


def _unexplained(time: TimeSplit | None) -> str:
    """The part of the change that is not linked to any edit; the rows cover whole launches."""
    rest = [p for p in time.parts if p.link == "elsewhere" and p.certain] if time else []
    rest = [p for p in rest if p.note != "no-samples" and time and p.delta_s * time.delta_s > 0]
    if time is None or not rest:
        return ""
    largest = max(rest, key=lambda part: abs(part.delta_s))
    if abs(largest.delta_s) < _UNEXPLAINED * max(time.old_s, time.new_s):
        return ""
    text = _("An estimated {time} is not linked to any source change.")
    return text.format(time=signed(largest.delta_s, "s"))


def _limits(comparison: Comparison, cause: Cause) -> list[str]:
    """Sentences about the code's limits on two devices."""
    both = (comparison.old.label, cause.limit_old), (comparison.new.label, cause.limit_new)
    known = [(limit.words, label) for label, limit in both if limit is not None]
    if len({words for words, __ in known}) == 1 < len(known):
        return [_("The limit is {words} on both.").format(words=known[0][0])]
    each = [_("{words}, on {label}").format(words=words, label=label) for words, label in known]
    return [_("The limit is {words}.").format(words=_("; it is ").join(each))] if each else []


def _limit(old: Limit | None, new: Limit | None) -> str:
    if new is None:
        return ""
    texts = {
        "still ": _("The limit is still {words}."),
        "now ": _("The limit is now {words}."),
        "": _("The limit is {words}."),
    }
    return texts[new.when(old)].format(words=new.words)


StopKind = Literal["edit", "counter", "stall", "time", "limit", "doubt"]


class Stop(Record, frozen=True):
    """One stop of the strip. Its proof is `hunk`, else the catalog's `counter`, else its kind's."""

    text: str
    hunk: int | None = None
    counter: str = ""
    kind: StopKind = "counter"


def strip(comparison: Comparison, attribution: Attribution, cause: Cause) -> tuple[Stop, ...]:
    """The stops of a step, in order."""
    new = cause.limit_new
    end = [limit_stop(new, new.when(cause.limit_old))] if new is not None else []
    if cause.other_work:
        head = headline(cause.doubts).partition(_(":"))[0]
        doubt = Stop(text=head, kind="doubt")
        if {each.kind for each in cause.doubts if each.certain} != {"devices"}:
            return (doubt, *end)
        begin = [limit_stop(cause.limit_old, "")] if cause.limit_old is not None else []
        here = [limit_stop(new)] if new is not None else []
        return (*begin, doubt, *_time_stop(comparison, cause), *here)
    out = []
    if precision_words(cause.doubts):
        out.append(Stop(text=_("other precision"), kind="doubt"))
    for head, __ in asides(cause.doubts):
        out.append(Stop(text=head[:1].lower() + head[1:], kind="doubt"))
    if cause.proofs and (comparison.speed is None or comparison.speed.moved):
        proof = cause.proofs[0]
        where = where_of(proof, attribution.hunks)
        if not where and proof.way != "clock" and attribution.hunks:
            where = _("no single hunk")
        if where:
            edits = (h for h in attribution.hunks if h.kind != "front-matter")
            hunk = next((h.id for h in edits if h.id in proof.place.hunks), None)
            out.append(Stop(text=where, hunk=hunk, kind="edit"))
        both = (proof.counter, proof.beside)
        moved = [delta for delta in both if delta is not None and delta.moved]
        # A wait's ratio per instruction says less than its time, which the stall shows.
        told = moved[1:] if proof.way == "wait" else moved
        for delta in told:
            text = _change(delta)
            if proof.way == "tail" and cause.active is not None:
                # A slower kernel always takes more cycles: they explain nothing.
                before, after = (f"{100 * part:.0f}%" for part in cause.active)
                text = _("SMs active {before} → {after} of the time").format(
                    before=before, after=after
                )
            out.append(Stop(text=text, counter=delta.id))
        stall = stall_of(cause)
        if proof.way == "wait":
            stall = next((m for m in cause.stalls if m.stall == proof.counter.id), stall)
        if stall is not None:
            text = f"{stall_words(stall.stall)} {signed(stall.delta_s, 's')}"
            out.append(Stop(text=text, counter=stall.stall, kind="stall"))
    return (*out, *_time_stop(comparison, cause), *end)


def line(stops: tuple[Stop, ...]) -> str:
    """All of it as one line of text."""
    return " → ".join(stop.text for stop in stops)


def _time_stop(comparison: Comparison, cause: Cause) -> tuple[Stop, ...]:
    row = time_row(comparison, cause.more)
    return (Stop(text=row.words, counter="duration", kind="time"),) if row else ()


class TimeRow(NamedTuple):
    """A step's time: its fate, both times, their difference, and how certain it is."""

    words: str
    times: str
    change: str
    note: str
    good: bool | None


def time_row(comparison: Comparison, more: str | None) -> TimeRow | None:
    """The row of the time; None if a side has no time. `more`: as in `Cause`."""
    speed, time = comparison.speed, comparison.time
    if speed is None:
        return None
    told = speed.moved or more is not None
    note = _("under the profiler; no time is recorded")
    if time is not None:
        text = _("speed-up {range} (95%)") if speed.speedup >= 1 else _("slow-down {range} (95%)")
        note = text.format(range=interval(time.low, time.speedup, time.high))
    return TimeRow(
        words=faster(speed.speedup, more) if told else _("equally fast"),
        times=f"{quantity(speed.old_s, 's')} → {quantity(speed.new_s, 's')}",
        change=signed(speed.new_s - speed.old_s, "s"),
        note=note,
        good=won(speed.speedup) if speed.moved and more is None else None,
    )


def limit_stop(limit: Limit, when: str = "now ") -> Stop:
    """The last stop, which is the only one for a version without a step."""
    known = next((r.counter for r in RESOURCES if r.id == limit.id), "")
    text = {"still ": _("still {limit}"), "now ": _("now {limit}")}.get(when, "{limit}")
    return Stop(text=text.format(limit=limit.words), counter=known, kind="limit")
