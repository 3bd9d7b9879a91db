"""A second opinion on counters that mislead, from machine code and addresses.

ncu has two counts of bank conflicts. The counter of the L1 (``l1tex__data_bank_conflicts…``) counts
delayed passes: two lanes in one bank, but also passes that waited for other traffic of the same
data banks (arbitration). The line counters are derived from addresses: the wavefronts that an
instruction needs, and the least that the bytes of its lanes would need. If the two differ, both are
given, with the reason if it can be known:

* Accesses with only the passes that their bytes need cannot conflict: the counter shows waits.
* Loads of 8 or 16 bytes a lane are an exception: their ideal is that of lanes with bytes of their
  own, so the loss of lanes that share words is not an excess. If the counter has a conflict for one
  in twenty of them, it may be right.
* Asynchronous copies are only in the counter's sum, neither among its loads nor its stores, and
  copies past the L1 (``LDGSTS.BYPASS``) are in none of the three.

Also misleading: a theoretical occupancy for which the grid has too few blocks, and copies whose
line counters ncu gets wrong.

ncu 2025.3 on an H200 counts sectors and wavefronts of ``LDGSTS.…BYPASS`` (``cp.async.cg``) wrongly
if the instruction depends on predicate register P0, which reads as false there. Under ``@P0`` a
copy costs nothing at all; under ``@!P0`` it costs as if no lane were switched off, more sectors
than its lanes have bytes; if P0 chooses between data and zeros, it takes the wavefronts of zeros,
half as many as neighbours with the same addresses under P1 to P6. Tags are counted correctly, and
so are copies whose size is in a register (``.ZFILL``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from workbench.analysis.aggregate import Recent, value_of
from workbench.counters import catalog, line_metric
from workbench.language import _
from workbench.model import Launch, Number, Profile, Record
from workbench.sass import OPCODES, opcode_of
from workbench.units import quantity, several

#: Counts of one thing agree within this part of the larger (`counters.toml`: conflicts by kind).
_NEAR = 0.15
#: A conflict due to addresses recurs with the instruction: at least this often.
_OFTEN = 0.05
#: As a part of all passes: a comparison does not report a smaller change.
_SMALL = 0.01
_ALL = "shared_bank_conflicts"
_LIMITS = tuple(f"occupancy_limit_{by}" for by in ("registers", "shared", "warps", "blocks"))


class Opinion(Record, frozen=True):
    """A counter of the catalog, its value, the exact one (None: not known), and why they differ."""

    counter: str
    reported: Number
    exact: Number | None
    why: str

    @property
    def unit(self) -> str:
        """The unit of both values, as `quantity` takes it: "" for counts."""
        unit = catalog()[self.counter].unit
        return unit if unit == "%" else ""


class _Passes(NamedTuple):
    """The wavefronts of some instructions, and those above the ideal."""

    taken: Number = 0
    excess: Number = 0
    wide: Number = 0  # number of loads of more than a word per lane


def opinions(launch: Launch) -> tuple[Opinion, ...]:
    """The counters of a launch that mislead, each with its exact value."""
    return (*_conflicts(launch), *_grid(launch)) if launch.profiled else ()


def _conflicts(launch: Launch) -> Iterator[Opinion]:
    whole = value_of(launch, _ALL)
    passes = _passes(launch)
    if whole is None or passes is None:
        return
    if not sum(each.taken for each in passes.values()):
        if whole and "bulk" not in passes:
            why = _("no instruction touches shared memory; the L1's data banks had other traffic")
            yield Opinion(counter=_ALL, reported=whole, exact=0, why=why)
        return
    known: Number = 0
    for kind in ("load", "store"):
        name = f"shared_{kind}_bank_conflicts"
        counted = value_of(launch, name)
        known += counted or 0
        if counted:
            yield from _of_kind(name, kind, counted, passes.get(kind, _Passes()))
    copied, past = (passes.get(kind, _Passes()).excess for kind in ("copy", "past"))
    exact = sum(each.excess for each in passes.values())
    reasons = []
    if copied and whole - known > _NEAR * whole:
        rest = _("{known} of the counter's ({copied} by addresses)").format(
            known=quantity(whole - known), copied=quantity(copied)
        )
        reasons.append(
            _("{rest} are from asynchronous copies, neither loads nor stores").format(rest=rest)
        )
    if past > _NEAR * max(whole, exact):
        those = _("copies that bypass the L1 (LDGSTS.BYPASS)")
        reasons.append(
            _("{past} are from {those}, which the counter leaves out").format(
                past=quantity(past), those=those
            )
        )
    if reasons:
        yield Opinion(counter=_ALL, reported=whole, exact=exact, why=_("; ").join(reasons))


def _of_kind(name: str, kind: str, counted: Number, passes: _Passes) -> Iterator[Opinion]:
    more = counted - passes.excess
    if more <= _NEAR * counted:
        return
    exact: Number | None = passes.excess
    if not passes.taken:
        why = _("no instruction is a shared {kind}; the L1's data banks had other traffic").format(
            kind=kind
        )
    elif passes.wide and more > _OFTEN * passes.wide:
        exact = None
        ideal = _("the ideal for their width, which ignores that lanes of wide loads share words")
        why = _("{excess} above {ideal}: the counter may be right").format(
            excess=quantity(passes.excess), ideal=ideal
        )
    elif passes.excess:
        why = _("the other {more} waited for other traffic (arbitration)").format(
            more=quantity(more)
        )
    else:
        fewest = _("the fewest passes for their width")
        why = _("{fewest}; the counter also counts waits for other traffic (arbitration)").format(
            fewest=fewest
        )
    yield Opinion(counter=name, reported=counted, exact=exact, why=why)


def _count_passes(launch: Launch) -> Mapping[str, _Passes] | None:
    """Shared-memory passes by their kind; None if not all of the launch's passes are on lines."""
    table = launch.instructions
    names = [line_metric(launch, catalog()[f"shared_wavefronts{end}"]) for end in ("", "_ideal")]
    columns = [table.columns.get(name or "") for name in (*names, "inst_executed")]
    if any(name is None for name in names) or columns[2] is None or launch.by_timing is not None:
        return None
    taken, ideal, ran = (
        dict(zip(column.rows, column.values, strict=True)) if column is not None else {}
        for column in columns
    )
    whole = value_of(launch, "shared_wavefronts")
    if whole is None or abs(sum(taken.values()) - whole) > _SMALL * whole:
        return None
    out: dict[str, _Passes] = {}
    for row, often in ran.items():
        kind = _kind(table.text[row])
        if not (kind or taken.get(row)) or is_misread(table.text[row]):
            continue
        old, passes = out.get(kind, _Passes()), taken.get(row, 0)
        wide = often if kind == "load" and ideal.get(row, 0) > often else 0
        out[kind] = _Passes(
            old.taken + passes, old.excess + passes - ideal.get(row, 0), old.wide + wide
        )
    return out


#: Both sides of a step need the result, and so do the neighbouring steps.
_passes = Recent(_count_passes)


@lru_cache(maxsize=1 << 14)
def _kind(text: str) -> str:
    """A machine instruction's class for the counters of bank conflicts; "" for none."""
    opcode, __ = opcode_of(text)
    row = OPCODES.get(opcode)
    if row is None or opcode == "LDGSTS":
        return "" if row is None else "past" if is_copy(text) else "copy"
    if row.access in ("bulk in", "bulk out"):
        return "bulk"
    return row.access if row.space == "shared" or opcode in ("LD", "ST") else ""


def _grid(launch: Launch) -> Iterator[Opinion]:
    """The theoretical occupancy, if the grid has fewer blocks than fit on the SMs."""
    most = value_of(launch, "theoretical_occupancy")
    known = [limit for name in _LIMITS if (limit := value_of(launch, name))]
    sms = launch.metrics.get("launch__sm_count")
    if most is None or len(known) < len(_LIMITS) or sms is None or isinstance(sms.value, str):
        return
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
    fit, each = min(known), -(-blocks // int(sms.value))
    if 0 < each < fit:
        has = _("{blocks} for {value}").format(
            blocks=several(blocks, "block"), value=several(int(sms.value), "SM")
        )
        why = _("the grid has {has}: {each:,} of the {fit:,.0f} that fit on one").format(
            has=has, each=each, fit=fit
        )
        exact = most * each / fit
        yield Opinion(counter="theoretical_occupancy", reported=most, exact=exact, why=why)


def conflicts_told(old: Profile, new: Profile) -> list[str]:
    """Both changes of bank conflicts, if the counter shows one and the addresses do not."""
    known = [_conflicts_of(profile) for profile in (old, new)]
    if None in known:
        return []
    (a, was, taken), (b, now, took) = (each for each in known if each is not None)
    counted, exact = b - a, now - was
    moved = abs(counted) > max(_NEAR * max(a, b), _SMALL * max(taken, took))
    if not moved or (counted * exact > 0 and abs(exact) > _NEAR * max(was, now)):
        return []
    exactly = _("as before") if was == now else f"{quantity(was)} → {quantity(now)}"
    return [
        _(
            "bank conflicts: {a} → {b} by the L1's counter, which includes waits for "
            "other traffic; by addresses {exactly}"
        ).format(a=quantity(a), b=quantity(b), exactly=exactly)
    ]


def _conflicts_of(profile: Profile) -> tuple[Number, Number, Number] | None:
    """Conflicts by counter and by addresses, and all passes; None if one of them is unknown."""
    counted: Number = 0
    exact: Number = 0
    taken: Number = 0
    for launch in profile.launches:
        if not launch.profiled:
            continue
        whole, passes = value_of(launch, _ALL), _passes(launch)
        told = _conflicts(launch)
        if whole is None or passes is None or any(each.exact is None for each in told):
            return None
        counted += whole
        exact += sum(each.excess for kind, each in passes.items() if kind != "past")
        taken += sum(each.taken for each in passes.values())
    return counted, exact, taken


_P0 = re.compile(r"\bP0\b")


def is_copy(text: str) -> bool:
    """True if a machine instruction copies to shared memory past the first-level cache."""
    return "LDGSTS" in text and ".BYPASS" in text


# The launches of a report share their instructions.
@lru_cache(maxsize=1 << 14)
def is_misread(text: str) -> bool:
    """True if ncu's sectors and wavefronts of this machine instruction are wrong."""
    return is_copy(text) and ".ZFILL" not in text and bool(_P0.search(text))


def _count_misread(launch: Launch) -> int:
    """The number of a launch's executed machine instructions that ncu misread."""
    table, ran = launch.instructions, launch.instructions.columns.get("inst_executed")
    if not launch.profiled or ran is None:
        return 0
    often = zip(ran.rows, ran.values, strict=True)
    return sum(is_misread(table.text[row]) for row, value in often if value)


_misread = Recent(_count_misread)


def misread_words(profile: Profile) -> list[str]:
    """A warning about the profile's line counters; empty if all are right."""
    count = sum(map(_misread, profile.launches)) if profile.engine == "ncu" else 0
    # Other architectures were not measured.
    if not count or profile.device.compute_capability != (9, 0):
        return []
    copies = "copy" if count == 1 else "copies"
    which = _("{count} {copies} to shared memory (LDGSTS.BYPASS under predicate P0)").format(
        count=count, copies=copies
    )
    if profile.tools.get("ncu", "").startswith("2025."):
        return [
            _(
                "ncu misreads {which}: the sectors and wavefronts that it reports for "
                "these lines did not occur"
            ).format(which=which)
        ]
    return [
        _(
            "ncu may misread {which}: ncu 2025 reported sectors and wavefronts for such lines "
            "that did not occur"
        ).format(which=which)
    ]


def misread_sides(old: Profile, new: Profile) -> list[str]:
    """The warnings for two profiles, each with its side; given once if both are the same."""
    before, after = misread_words(old), misread_words(new)
    if before == after:
        return [_("on both sides: {text}").format(text=text) for text in before]
    words = [f"{old.version or 'old'}: {text}" for text in before]
    return [*words, *(f"{new.version or 'new'}: {text}" for text in after)]
