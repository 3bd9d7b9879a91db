"""Doubts that both sides of a step do the same work; they come before any praise.

A kernel may be faster because the compiler removed a result that is not used, because it
ran on a smaller problem, or because the other side was built for debugging; and two captures of the
same machine code differ only by the machine.

*Not the same work* needs proof: arithmetic or a result that is gone, another problem, another input
of the same code, or a size that bytes show as well. Equally many bytes from half of the blocks or
instructions are the same work. Another algorithm, a fused kernel or fewer accumulations in global
memory are the author's work. Apparently less data, another kernel, or fewer bits per number are
mentioned first (`Doubt.certain` is false), and the step is still explained.

Launches of one kernel and configuration are counted both together and once; a doubt needs both:
a program may run a kernel three times before and four times after.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import PurePath
from typing import Literal

from msgspec import structs

from workbench.analysis.aggregate import COMPILED, LADDER, Recent, main_launch, value_of
from workbench.analysis.launches import side_by_side
from workbench.analysis.limits.roofline import (
    Amounts,
    all_arithmetic,
    amounts_of,
    each_once,
    loaded_bytes,
    measured,
    operations_of,
    stored_bytes,
)
from workbench.analysis.optional import over
from workbench.analysis.precision import VANISHED, format_words
from workbench.counters import PTX, catalog
from workbench.gpus import SECTOR_BYTES
from workbench.language import N_, _
from workbench.model import DEBUG_BUILD, Launch, Profile, Record
from workbench.units import factor, joined, listed, quantity, several

Kind = Literal[
    "same-code",
    "devices",
    "debug",
    "parameters",
    "arithmetic",
    "output",
    "input",
    "size",
    "precision",
    "kernels",
]

_DEBUG_FLAGS = frozenset({"-G", "--device-debug"})

#: A size differs if operations and stored bytes both change by this factor or more.
_OTHER_SIZE = 1.5
#: The same code that executes this part more or fewer instructions runs on another size. Below it,
_SAME_INSTRUCTIONS = 0.1
#: Threads that each execute up to this factor more or fewer instructions do equal work.
_AS_MUCH = 1.25
#: The most elements that a thread may load at once.
_WIDEST = 16.0
#: Two factors within the first part are equal; those of lanes and memory, within the second.
_AGREE, _ALIKE = 0.05, 0.1
#: Numbers of another format are wider or narrower by this factor at most.
_CAST = 4.0
#: Bytes of a number, and the part of threads that store one if some are beyond the border.
_WORD, _MOST = 4, 0.9
#: Kind of a doubt -> the head of its sentence if the work of a launch is the same.
_HEADS = {
    "debug": N_("Built for debugging"),
    "devices": N_("Two devices"),
    "same-code": N_("Identical machine code"),
    "kernels": N_("Different kernels"),
}
#: Kinds that leave the ratio of times valid.
_RATIOS = frozenset({"debug", "devices", "same-code", "precision"})
#: Kinds for which the work may also be the same.
_ASIDES = {"size": N_("Different amount of data"), "kernels": _HEADS["kernels"]}
#: Metrics of the compiler's output for PTX that ran.
_RESOURCES = ("launch__registers_per_thread", "launch__shared_mem_per_block_static")
#: Addresses of device code have nine digits or more; 32-bit constants have eight.
_ADDRESS = re.compile(r"0x[0-9a-f]{9,}")


class Doubt(Record, frozen=True):
    """One reason why the two sides may not be compared as the same work, in words.

    `certain` is false if a better algorithm could look the same. `more` is the amount of
    additional work: ``84.0× the operations``.
    """

    kind: Kind
    words: str
    certain: bool = True
    more: str = ""

    @property
    def unlike(self) -> bool:
        """True if neither side is faster: the amounts of work differ."""
        return self.kind == "size" or (self.certain and self.kind not in _RATIOS)


def doubts(old: Profile, new: Profile, labels: tuple[str, str] | None = None) -> tuple[Doubt, ...]:
    """Reasons to doubt that `old` and `new` do the same work; empty if there are none.

    `labels`: their names; None: the old and the new side.
    """
    sides = (old, new)
    labels = labels or (_("the old side"), _("the new side"))
    found: list[Doubt | None] = [_debug(sides, labels), _parameters(sides)]
    same = one_code(old, new)
    apart = _devices(sides, same)
    found.append(apart)
    if same:
        found += _of_one_code(sides, apart=apart is not None, debug=found[0] is not None)
    else:
        found += _by_amount(sides, labels)
        both = side_by_side(old, new)
        if formats := format_words((both.old, both.new)):
            found.append(Doubt(kind="precision", words=formats))
    return tuple(doubt for doubt in found if doubt is not None)


def headline(found: Iterable[Doubt]) -> str:
    """The certain doubts, as one sentence: ``Not the same work: …`` before all else; or ""."""
    words: dict[str, list[str]] = defaultdict(list)
    for doubt in found:
        if doubt.certain and doubt.kind != "precision":
            words[_HEADS.get(doubt.kind, "Not the same work")].append(doubt.words)
    heads = (N_("Not the same work"), *_HEADS.values())
    each = [
        _("{head}: {words}.").format(head=_(head), words=_("; ").join(words[head]))
        for head in heads
        if words[head]
    ]
    return joined(each[: 2 if words[heads[0]] and words[heads[1]] else 1])  # a different build too


def precision_words(found: Iterable[Doubt]) -> str:
    """``Different precision: float64 operations 6.68 G → 0.``, shown before any praise; or ""."""
    words = (each.words for each in found if each.kind == "precision")
    return "".join(_("Different precision: {words}.").format(words=each) for each in words)


def asides(found: Iterable[Doubt]) -> list[tuple[str, str]]:
    """Heads and sentences to place before any praise: ``Different amount of data: 8.39 MB → …``."""
    heads = ((_(_ASIDES[d.kind]), d) for d in found if d.kind in _ASIDES and not d.certain)
    return [(head, _("{head}: {words}.").format(head=head, words=d.words)) for head, d in heads]


def _debug(sides: tuple[Profile, Profile], labels: tuple[str, str]) -> Doubt | None:
    """A doubt if only one side was built for debugging."""
    built = [_built_for_debugging(side) for side in sides]
    if built[0] != built[1]:
        words = _("{labels} with -G, the other side without").format(
            labels=labels[built.index(True)]
        )
        return Doubt(kind="debug", words=words)
    return None


def both_for_debugging(old: Profile, new: Profile) -> str:
    """A warning about two debug builds; "" if a side was not built for debugging."""
    if not (_built_for_debugging(old) and _built_for_debugging(new)):
        return ""
    return _("both sides were built for debugging (-G): the compiler optimized neither")


def _built_for_debugging(profile: Profile) -> bool:
    flags = profile.build.flags if profile.build is not None else ()
    return bool(_DEBUG_FLAGS & set(flags)) or any(
        notice.code == DEBUG_BUILD for notice in profile.notices
    )


def _parameters(sides: tuple[Profile, Profile]) -> Doubt | None:
    a, b = (side.parameters for side in sides)
    if not a or not b or sides[0].study != sides[1].study:
        return None
    differing = [key for key in sorted({*a, *b}) if a.get(key) != b.get(key)]
    if not differing:
        return None
    words = ", ".join(f"{key} {a.get(key, '—')} → {b.get(key, '—')}" for key in differing)
    return Doubt(kind="parameters", words=_("the problem differs ({words})").format(words=words))


def _devices(sides: tuple[Profile, Profile], same: bool) -> Doubt | None:
    """A doubt if the chips differ, with what is known about the code that they ran."""
    a, b = (side.device.name for side in sides)
    if not a or not b or a == b:
        return None
    what = _("the same machine code on ") if same else ""
    return Doubt(kind="devices", words=_("{what}{a} and {b}").format(what=what, a=a, b=b))


def _codes(profile: Profile) -> set[tuple[str, ...]] | None:
    """The machine code of every kernel that was measured; None if one has no text."""
    launches = measured(profile)
    held = all(COMPILED in x.metrics or any(x.instructions.text) for x in launches)
    return {machine_code(launch) for launch in launches} if launches and held else None


def one_code(old: Profile, new: Profile) -> bool:
    """True if both sides ran the same machine code, whatever their launches."""
    codes = _codes(old)
    return codes is not None and codes == _codes(new) and not _other_flags((old, new))


def _other_flags(sides: tuple[Profile, Profile]) -> bool:
    """True if PTX was compiled to unknown machine code with flags beyond definitions."""
    if all(COMPILED in x.metrics or PTX not in x.metrics for x in measured(sides[0])):
        return False
    built = [[x for x in p.build.flags if x[:2] != "-D"] for p in sides if p.build is not None]
    return len(built) == 2 and built[0] != built[1]


def _relative(launch: Launch) -> tuple[str, ...]:
    """The machine code with relative jumps: its load address is chance.

    If PTX was run: the machine code from ptxas, or, if that is unknown, PTX and its resources.
    """
    base: list[int] = []
    held = [launch.metrics[name] for name in (COMPILED, *_RESOURCES) if name in launch.metrics]
    made = tuple(str(metric.value) for metric in held) if PTX in launch.metrics else ()
    if COMPILED in launch.metrics:
        return made

    def shorten(found: re.Match[str]) -> str:
        base.append(int(found[0], 16))
        return f"{base[-1] - base[0]:+#x}"

    return made + tuple(_ADDRESS.sub(shorten, text) for text in launch.instructions.text)


machine_code = Recent(_relative, most=LADDER)


def _of_one_code(
    sides: tuple[Profile, Profile], *, apart: bool, debug: bool
) -> Iterator[Doubt | None]:
    """A doubt if the same code ran twice, over more or fewer elements, or on another input.

    A grid that is divided differently stores as much, and repeats at most some work at its borders.
    The same grid that stores as much has the same size, whatever its loops do: another input.
    """
    alike = (
        len({frozenset((machine_code(x), x.config) for x in measured(side)) for side in sides}) == 1
    )
    ran = amounts_of(sides, _instructions)
    if alike and not apart and ran is not None and _close(*ran.once, _SAME_INSTRUCTIONS):
        known = all(COMPILED in x.metrics for x in measured(sides[0]))
        what = "instructions" if known or sides[0].engine == "ncu" else "PTX"
        words = _("both sides have the same {what} and the same launch configuration")
        yield Doubt(kind="same-code", words=words.format(what=what))
    for measure, what, unit, least in (
        (stored_bytes, "stored", "byte", 1 + _SAME_INSTRUCTIONS),
        (operations_of, _("arithmetic operations"), "", _OTHER_SIZE),
    ):
        amounts = amounts_of(sides, measure)
        if amounts is not None and amounts.changed >= least and not (alike and not unit):
            words = _("the same machine code ran on a different size ({amounts} {what})").format(
                amounts=_moved(amounts, unit), what=what
            )
            yield Doubt(kind="size", words=words, more=_more(amounts, unit))
            return
    if not alike or debug or ran is None or ran.changed < 1 + _SAME_INSTRUCTIONS:
        return
    old, new = ran.once
    time = over(*(each_once(side, _seconds) for side in reversed(sides)))
    each = over(time, over(new, old))
    piece = (
        _(", {each} × the time per instruction").format(each=quantity(each))
        if each is not None
        else ""
    )
    words = _(
        "the same machine code, launched alike, executed {old} × the "
        "instructions: another input{piece}"
    ).format(old=quantity(new / old), piece=piece)
    more = _("{factor} the instructions").format(factor=factor(new / old))
    yield Doubt(kind="input", words=words, more=more)


_seconds = partial(value_of, counter="duration")
_instructions = partial(value_of, counter="instructions")
_dram_bytes = partial(value_of, counter="dram_bytes")


def _by_amount(sides: tuple[Profile, Profile], labels: tuple[str, str]) -> list[Doubt | None]:
    operations, stored = amounts_of(sides, operations_of), amounts_of(sides, stored_bytes)
    one = [(side.study, side.problem, side.parameters) for side in sides]
    found = (
        _nothing_written(sides, labels)
        or _nothing_loaded(sides, labels)
        or _vanished(sides, operations, stored, labels)
    )
    if found is not None or (one[0] == one[1] and all(one[0])):
        return [found]
    data = _data(sides, stored)
    same = any(amounts.changed < _AS_MUCH for amounts in data)
    least = math.inf if same else _OTHER_SIZE if data else _WIDEST
    found = (
        (None if same else _other_size(sides, operations, stored))
        or _other_launch(sides, least, labels)
        or (None if same else _other_results(sides))
        or _other_data(sides, operations)
    )
    # Counterparts in a program do one job, and so do versions of a study.
    one_job = labels[0].startswith("@") or all(side.study for side in sides)
    return [found, None if one_job else _other_kernels(sides, operations, stored)]


def _data(sides: tuple[Profile, Profile], stored: Amounts | None) -> list[Amounts]:
    """The known bytes, which are equal if the same work is done in another way.

    Device memory sees few accesses to data that a cache holds.
    """
    moved = amounts_of(sides, _dram_bytes)
    known = [each for each in (stored, moved) if each is not None and min(each.once) > 0]
    if len(known) == 2 and any(
        2 * b < a for a, b in zip(known[0].once, known[1].once, strict=True)
    ):
        known.pop()
    return known


def _other_launch(
    sides: tuple[Profile, Profile], least: float, labels: tuple[str, str]
) -> Doubt | None:
    """A doubt if the longest kernel has more or fewer threads, each with as much work.

    Threads that take over the work of others execute more, except for moves: a thread loads
    up to `_WIDEST` elements in one instruction. `least` is the factor from which the size differs;
    within one build, more threads may each do more. As many threads may also have left work undone.
    """
    old, new = (main_launch(side) for side in sides)
    if old is None or new is None or old.kernel != new.kernel:
        return None
    more = over(_threads(new), _threads(old))
    each = over(over(_instructions(new), _instructions(old)), more)
    if not more or not each:
        return None
    much = max(each, 1 / each) <= _AS_MUCH or (_one_build(old, new) and (each > 1) == (more > 1))
    if max(more, 1 / more) >= least and much:
        words = _(
            "another size: {dotted} → {dotted2}, {more} × the threads, and each "
            "executes {each} × the instructions"
        ).format(
            dotted=_dotted(old), dotted2=_dotted(new), more=quantity(more), each=quantity(each)
        )
        read = amounts_of(sides, partial(value_of, counter="dram_read_bytes"))
        did = _("{factor} the instructions").format(factor=factor(more * each))
        did = _more(read, "byte") if read is not None and min(read.once) > 0 else did
        return Doubt(kind="size", words=words, more=did)
    # One instruction of a matrix unit replaces hundreds.
    used = [value_of(launch, "tensor_utilization") for launch in (old, new)]
    few = min(each, 1 / each)
    debug = len({*map(_built_for_debugging, sides)}) == 2  # which shows where instructions went
    if more != 1 or few > VANISHED or debug or any(x is None or x >= 1.0 for x in used):
        return None
    words = _(
        "{idle} executes {min} of the other side's instructions in as many "
        "threads: its loops may end early, or the compiler may have removed code that no result "
        "depends on"
    ).format(idle=labels[int(each < 1)], min=quantity(100 * few, "%"))
    return Doubt(kind="arithmetic", words=words)


def _other_results(sides: tuple[Profile, Profile]) -> Doubt | None:
    """A doubt if more or fewer threads of the one kernel each store as much: a word or more."""
    launches = [x for side in sides for x in measured(side)]
    stored = amounts_of(sides, partial(value_of, counter="global_store_sectors"))
    ran = amounts_of(sides, _threads)
    if len({(x.kernel, x.block) for x in launches}) > 1 or stored is None or ran is None:
        return None
    old, new = (SECTOR_BYTES * x / n for x, n in zip(stored.once, ran.once, strict=True))
    more = min(stored.changed, ran.changed)
    if not _close(old, new, _AGREE) or min(old, new) < _MOST * _WORD or more < _AS_MUCH:
        return None
    words = _("another size: {dotted} → {dotted2}, and each stores as much")
    words = words.format(dotted=_dotted(launches[0]), dotted2=_dotted(launches[-1]))
    return Doubt(kind="size", words=words, more=_more(stored, "byte"))


def _one_build(old: Launch, new: Launch) -> bool:
    """True if registers, shared memory and blocks show that the same code was launched."""
    built = [
        (x.signature, x.block, *(x.metrics.get(name) for name in _RESOURCES)) for x in (old, new)
    ]
    return built[0] == built[1] and None not in built[0]


def _other_kernels(
    sides: tuple[Profile, Profile], operations: Amounts | None, stored: Amounts | None
) -> Doubt | None:
    """A doubt if kernels with other names replaced all kernels: perhaps other work.

    One kernel with as many operations and stores does the same work. Several with more or less of
    both do other work.
    """
    launches = [sorted(measured(side), key=lambda x: -(_seconds(x) or 0.0)) for side in sides]
    named = [list(dict.fromkeys(launch.kernel for launch in own)) for own in launches]
    one = list(map(len, named)) == [1, 1]
    found = {pair.how for pair in side_by_side(*sides).pairs}
    if not all(named) or (not one and found & {"signature", "name", "renamed"}):
        return None
    if one and len({re.sub(r"\d+$", "", own[0]) for own in named}) == 1:  # a version's number
        return None
    words = " → ".join(listed(own) for own in named)
    known = [each for each in (operations, stored) if each is not None]
    if not (one and len(known) == 2 and all(_close(*each.once, _AGREE) for each in known)):
        words = _("{words}; the report does not say if they do the same work").format(words=words)
    other = not one and len(known) == 2 and all(each.changed >= _OTHER_SIZE for each in known)
    more = _another_program(sides, stored) if one else ""
    return Doubt(kind="kernels", words=words, certain=other or bool(more), more=more)


def _another_program(sides: tuple[Profile, Profile], stored: Amounts | None) -> str:
    """How much more the kernel of another file stores, in bytes and in sectors; "" for one job."""
    sectors = amounts_of(sides, partial(value_of, counter="global_store_sectors"))
    if sectors is None or stored is None or min(*stored.once, *sectors.once) <= 0:
        return ""
    files = [
        {PurePath(side.sources[at].path).name for x in measured(side) for at in x.instructions.file
         if 0 <= at < len(side.sources)} for side in sides]  # fmt: skip
    much = stored.changed >= _AS_MUCH and sectors.changed >= _OTHER_SIZE
    return _more(stored, "byte") if much and all(files) and not files[0] & files[1] else ""


def _dotted(launch: Launch) -> str:
    grid, block = (math.prod(extents) for extents in (launch.grid, launch.block))
    return _("{grid} of {block}").format(
        grid=several(grid, "block"), block=several(block, "thread")
    )


def _other_data(sides: tuple[Profile, Profile], operations: Amounts | None) -> Doubt | None:
    """A doubt if lanes' loads and memory's traffic changed alike: less data, or one read fewer.

    If lanes are unknown: memory's reads, its writes and the instructions; for one build with the
    same launch: its traffic.
    """
    text, shown = _("{data} loaded, {ratio} × as much"), amounts_of(sides, loaded_bytes)
    every = [shown, amounts_of(sides, _dram_bytes)]
    if shown is None:
        text, shown = _("{data} of device memory, {ratio} × as much"), every[1]
        counters = "dram_read_bytes", "dram_write_bytes", "instructions"
        every = [amounts_of(sides, partial(value_of, counter=name)) for name in counters]
        first, second = (main_launch(side) for side in sides)
        if first is not None and second is not None and first.config == second.config:
            every[:2] = [shown] if None in every and _one_build(first, second) else every[:2]
    amounts = [each for each in every if each is not None and min(each.once) > 0]
    if shown is None or len(amounts) < len(every):
        return None
    ratios = [over(amount.once[1], amount.once[0]) or 0.0 for amount in amounts]
    if operations is not None and max(operations.once) > 0:
        # A block computes the same number of sums, whatever it reads.
        amounts.append(operations)
        least, most = sorted((ratios[0], 1.0))
        done = over(operations.once[1], operations.once[0]) or 0.0
        ratios.append(ratios[0] if least <= done <= most else done)
    if any(amount.changed < _OTHER_SIZE for amount in amounts):
        return None
    if not all(_close(ratio, ratios[0], _ALIKE) for ratio in ratios):
        return None
    words = text.format(data=_moved(shown, "byte"), ratio=quantity(ratios[0]))
    return Doubt(kind="size", words=words, certain=False, more=_more(shown, "byte"))


def _nothing_loaded(sides: tuple[Profile, Profile], labels: tuple[str, str]) -> Doubt | None:
    """A doubt if one side reads nothing from global memory, by its instructions and L2 sectors."""
    loaded = amounts_of(sides, loaded_bytes)
    read = amounts_of(sides, partial(value_of, counter="l2_read_sectors"))
    text = N_("{labels} reads nothing from global memory ({labels2}: {there})")
    idle = None if read is None else int(read.once[1] < read.once[0])
    if idle is None or read is None or read.once[idle] > VANISHED * read.once[1 - idle]:
        return None
    return _nothing(loaded, labels, text, "input")


def _nothing_written(sides: tuple[Profile, Profile], labels: tuple[str, str]) -> Doubt | None:
    """A doubt if a side stores nothing, in all or in a kernel that stores on the other side."""
    both = side_by_side(*sides)
    found = [_nothing(amounts_of(sides, x), labels, _NO_STORE, "output", y)
             for x, y in ((stored_bytes, "byte"), (_written, "thread inst"))]  # fmt: skip
    for pair in both.pairs:
        if pair.matched and pair.how in ("signature", "name"):
            launches = zip(both.each, pair.of(*both.each), strict=True)
            old, new = (structs.replace(x, launches=(y,)) for x, y in launches if y is not None)
            names = joined([labels[0], pair.kernel]), joined([labels[1], pair.kernel])
            stored = amounts_of((old, new), stored_bytes)
            found.append(_nothing(stored, names, _NO_STORE, "output"))
    return next(filter(None, found), None)


def _written(launch: Launch) -> float | None:
    """Bytes that were stored; for a kernel with atomics, their number: not bytes, but not zero."""
    stored, atomics = stored_bytes(launch), value_of(launch, "global_atomics")
    return atomics if stored is None and atomics else stored


_NO_STORE = N_("{labels} writes nothing to global memory ({labels2}: {there})")


def _nothing(
    amounts: Amounts | None, labels: tuple[str, str], text: str, kind: Kind, unit: str = "byte"
) -> Doubt | None:
    if amounts is None or (amounts.together[0] > 0) == (amounts.together[1] > 0):
        return None
    idle = 0 if not amounts.together[0] else 1
    there = quantity(amounts.once[1 - idle], unit)
    if unit != "byte":
        there = _("{what} {change}").format(what=catalog()["global_atomics"].phrase, change=there)
    words = _(text).format(labels=labels[idle], labels2=labels[1 - idle], there=there)
    return Doubt(kind=kind, words=words)


def _vanished(
    sides: tuple[Profile, Profile],
    operations: Amounts | None,
    stored: Amounts | None,
    labels: tuple[str, str],
) -> Doubt | None:
    """A doubt if only one side has some arithmetic: code whose result is not used.

    Integer multiply-adds count with it: they may have replaced floats or dot products, and in a
    kernel of integers the floats divide indices.
    """
    if operations is None or not _collapsed(operations):
        return None
    whole = amounts_of(sides, all_arithmetic)
    if whole is None or not _collapsed(whole):
        return None
    idle = 0 if operations.once[0] < operations.once[1] else 1
    # Some arithmetic for every word or thread shows a better algorithm, not dead code.
    outputs = stored.once[idle] / _WORD if stored is not None else None
    words = outputs or each_once(sides[idle], _threads)
    threads = each_once(sides[1 - idle], _threads)
    if words is None or threads is None:
        return None
    if operations.once[idle] >= words / 2 or operations.once[1 - idle] < threads:
        return None
    said = _(
        "{labels} does {once} arithmetic operations, {labels2} {once2}: the compiler may have "
        "removed code that no result depends on"
    ).format(
        labels=labels[idle],
        once=quantity(operations.once[idle]),
        labels2=labels[1 - idle],
        once2=quantity(operations.once[1 - idle]),
    )
    return Doubt(kind="arithmetic", words=said)


def _collapsed(amounts: Amounts) -> bool:
    """True if, in both readings, one side has almost nothing of the other's amount."""
    return all(max(both) > 0 and min(both) <= VANISHED * max(both) for both in amounts)


def _other_size(
    sides: tuple[Profile, Profile], operations: Amounts | None, stored: Amounts | None
) -> Doubt | None:
    """A doubt if operations (none or unknown: loaded bytes) and stored bytes changed alike."""
    if stored is None or min(stored.once) <= 0:
        return None
    if any(len({x.kernel for x in measured(side)}) > 1 for side in sides):
        return None  # kernels that hand over intermediate results may need fewer of them
    first, second = operations, _("arithmetic operations")
    unit = ""
    if operations is None or max(operations.once) <= 0:
        first, second, unit = amounts_of(sides, loaded_bytes), "loaded", "byte"
    if first is None or min(first.once) <= 0:
        return None
    a, b = (amounts.once[1] / amounts.once[0] for amounts in (first, stored))
    if (a < 1) != (b < 1) or min(max(a, 1 / a), max(b, 1 / b)) < _OTHER_SIZE:
        return None
    if unit and (not _close(a, b, _AGREE) or (operations is None and 1 / _CAST <= a <= _CAST)):
        return None
    words = _("another size: {first} {second}, {stored} stored").format(
        first=_moved(first, unit), second=second, stored=_moved(stored, "byte")
    )
    return Doubt(kind="size", words=words, more=_more(first, unit))


def _more(amounts: Amounts, unit: str) -> str:
    text = _("{factor} the data") if unit else _("{factor} the operations")
    return text.format(factor=factor(amounts.once[1] / amounts.once[0]))


def _moved(amounts: Amounts, unit: str = "") -> str:
    old, new = amounts.once
    return f"{quantity(old, unit)} → {quantity(new, unit)}"


def _close(a: float, b: float, part: float) -> bool:
    return abs(a - b) <= part * max(abs(a), abs(b))


def _threads(launch: Launch) -> float | None:
    return float(math.prod(launch.grid) * math.prod(launch.block)) or None
