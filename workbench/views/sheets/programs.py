"""The difference of two captured programs as tables: what became of every kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from workbench.analysis.launches.titles import shortened
from workbench.analysis.program import ProgramDifference, WorkChange
from workbench.units import listed, quantity, relative, several, signed
from workbench.views.shapes.program import KernelFate, ProgramsDocument, ProgramSide, ProgramStep
from workbench.views.sheets import Sheet
from workbench.views.sheets.program import (
    ROWS,
    count_words,
    names_of,
    program_time,
    side_fields,
    time_words,
)

_FATES = {
    "same": "",
    "renamed": "renamed",
    "fused": "fused",
    "split": "split",
    "replaced": "replaced",
    "came": "came",
    "went": "went",
}


def difference_sheet(
    difference: ProgramDifference, *, everything: bool = False, rest: str = "--all"
) -> Sheet:
    """Two captures: what became of every kernel, and a line that all rows add up to.

    Args:
        difference: Of the two.
        everything: Show people all rows.
        rest: Where they find the others.
    """
    rows = difference.rows
    kept = rows if everything else rows[:ROWS]
    names = row_names(difference)
    shown = [_shown(difference, row, names[n]) for n, row in enumerate(kept)]
    if len(kept) < len(rows):
        left = rows[len(kept) :]
        words = f"{several(len(left), 'more kernel')} ({rest})"
        shown.append(_line(words, difference, left))
    shown.append(_line("all of them", difference, rows))
    return Sheet(
        header=("", "kernel", "before", "after", "change", "share of change", "launches"),
        shown=tuple(shown),
        raw=tuple(_raw(difference, row, names[n]) for n, row in enumerate(rows)),
        document=difference_document(difference).plain(),
        title=headline(difference),
        notes=tuple(f"note: {warning}" for warning in difference.warnings),
        extra=("share of change", "launches"),
    )


def headline(difference: ProgramDifference) -> str:
    """The program's change in a sentence, its interval with it, and what came and went."""
    lines = [f"@{difference.old.name} → @{difference.new.name}"]
    lines += [f"not comparable, compared by force: {reason}" for reason in difference.reasons]
    hint = "" if difference.interval_known else "; one run has no interval, --repeat gives one"
    lines.append(change_words(difference) + hint)
    words = fate_words(difference)
    return "\n".join([*lines, words] if words else lines) + "\n"


def change_words(difference: ProgramDifference) -> str:
    """``22.6 ms → 14.8 ms on the GPU: 1.53× faster, −7.80 ms``, with its interval if any."""
    old, new = difference.totals
    change = difference.change_s
    text = f"{time_words(old)} → {time_words(new)} on the GPU: "
    if not difference.moved:
        noise = "its interval holds zero" if change.n > 1 else "within a duration's usual noise"
        text += f"no change that can be told ({signed(change.value, 's')}, {noise})"
    else:
        ratio = max(old.value, new.value) / max(min(old.value, new.value), 1e-12)
        word = "faster" if new.value < old.value else "slower"
        text += f"{ratio:.3g}× {word}, {signed(change.value, 's')}"
        if change.n > 1:
            text += f" ({signed(change.low, 's')} to {signed(change.high, 's')})"
    return text


def fate_words(difference: ProgramDifference) -> str:
    """``4 kernels came, 6 kernels went and 1 kernel renamed``; "" where all stayed."""
    fates = Counter(row.fate for row in difference.rows)
    words = [
        f"{several(number, 'kernel')} {_FATES[fate]}"
        for fate, number in fates.items()
        if _FATES[fate]
    ]
    return listed(words, 8) if words else ""


def row_names(difference: ProgramDifference) -> list[str]:
    """What rows are called: as in the tables of either side, arguments only where needed."""
    sides = [names_of(side.survey.works) for side in (difference.old, difference.new)]
    out = []
    for row in difference.rows:
        if row.fate == "same":
            out.append(sides[1][row.new[0]])
            continue
        parts = [
            " + ".join(dict.fromkeys(names[place] for place in places))
            for names, places in zip(sides, (row.old, row.new), strict=True)
        ]
        out.append(" → ".join(filter(None, parts)))
    return out


def _shown(difference: ProgramDifference, row: WorkChange, name: str) -> tuple[str, ...]:
    return (_FATES[row.fate], shortened(name), *_cells(difference, [row]))


def _line(title: str, difference: ProgramDifference, rows: Sequence[WorkChange]) -> tuple[str, ...]:
    return ("", title, *_cells(difference, rows))


def _cells(difference: ProgramDifference, rows: Sequence[WorkChange]) -> tuple[str, ...]:
    before, after = (sum(difference.seconds(row)[side] for row in rows) for side in (0, 1))
    launches = [sum(difference.launches(row)[side] for row in rows) for side in (0, 1)]
    share = difference.share(after - before)
    return (
        quantity(before, "s") if before else "—",
        quantity(after, "s") if after else "—",
        f"{signed(after - before, 's')} {relative(before, after)}".replace(" —", ""),
        quantity(100 * share, "%") if share is not None else "—",
        " → ".join(dict.fromkeys(map(count_words, launches))),
    )


def _raw(difference: ProgramDifference, row: WorkChange, name: str) -> dict[str, Any]:
    old_s, new_s = difference.seconds(row)
    launches = difference.launches(row)
    return {
        "kernel": name,
        "fate": row.fate,
        "old_s": old_s if row.old else None,
        "new_s": new_s if row.new else None,
        "change_s": new_s - old_s,
        "share": difference.share(new_s - old_s),
        "old_launches": launches[0] if row.old else None,
        "new_launches": launches[1] if row.new else None,
    }


def difference_document(
    difference: ProgramDifference, steps: Sequence[ProgramStep] = ()
) -> ProgramsDocument:
    """The JSON document, with the steps of kernels where these are told."""
    old, new = difference.totals
    names = row_names(difference)
    rows = [_raw(difference, row, names[n]) for n, row in enumerate(difference.rows)]
    return ProgramsDocument(
        old=ProgramSide(**side_fields(difference.old, old)),
        new=ProgramSide(**side_fields(difference.new, new)),
        comparable=not difference.reasons,
        warnings=[*(f"not comparable: {x}" for x in difference.reasons), *difference.warnings],
        change=program_time(difference.change_s),
        moved=difference.moved,
        kernels=[msgspec.convert(row, KernelFate) for row in rows],
        steps=list(steps),
    )
