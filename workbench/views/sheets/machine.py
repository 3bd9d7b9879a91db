"""Tables of this machine's abilities, and of the meanings of ncu's lines."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict

from workbench.language import N_, _, ngettext, told
from workbench.units import count
from workbench.views.shapes.listed import DoctorDocument, EquipmentFacts, LogDocument, LogLine
from workbench.views.sheets import Sheet

_STATES = {"ok": N_("ok"), "limited": N_("limited"), "missing": N_("missing")}


def doctor_sheet(rows: Sequence[EquipmentFacts], *, everything: bool = True) -> Sheet:
    """The table of ``workbench doctor``, and below it how to get what is missing.

    With `everything`, it covers all missing things and what works without them, else the first one.
    """
    lacking = [row for row in rows if row.state != "ok"]
    notes = []
    for row in lacking if everything else lacking[:1]:
        notes.append(f"{told(row.what)}: {told(row.detail)}")
        if row.remedy:
            notes.append(_("  how to get it: {remedy}").format(remedy=told(row.remedy)))
        if row.without:
            notes.append(_("  works without it: {without}").format(without=told(row.without)))
    if (left := len(lacking) - 1) > 0 and not everything:
        words = ngettext(
            "--all shows the other {n} as well.", "--all shows the other {n} as well.", left
        )
        notes.append(words.format(n=count(left)))
    return Sheet(
        header=("what", "state", "detail"),
        shown=tuple((told(row.what), _(_STATES[row.state]), told(row.detail)) for row in rows),
        raw=tuple(asdict(row) for row in rows),
        document=DoctorDocument(checks=list(rows)).plain(),
        notes=tuple(notes),
    )


def log_sheet(lines: Sequence[LogLine], here: Sequence[str]) -> Sheet:
    """The table of ``workbench doctor --log``: the meaning of ncu's lines, and what to do."""
    return Sheet(
        header=("ncu says", "it means", "what to do"),
        shown=tuple(
            (line.line, told(line.means) or _("an unknown error"), told(line.remedy))
            for line in lines
        ),
        raw=tuple(asdict(line) for line in lines),
        document=LogDocument(lines=list(lines), here=list(here)).plain(),
        notes=(*(() if lines else (_("it contains no error or warning from ncu"),)), *here),
    )
