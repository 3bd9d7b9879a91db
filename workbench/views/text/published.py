"""A ladder in somebody's README: a block between two markers, written anew in its place."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from workbench.analysis.limits.roofline import rate, rate_unit
from workbench.errors import UsageError
from workbench.ladder.listing import StudyList
from workbench.language import _
from workbench.units import factor, quantity, span, symbol
from workbench.views.text.escaping import inline


def markers(study: str) -> tuple[str, str]:
    """The lines between which the block of a study stands; Markdown shows neither."""
    return f"<!-- workbench publish {study} -->", f"<!-- end of {study} -->"


def placed(text: str, study: str, block: str, name: str) -> str:
    """The text of a file of that name with its block of a study replaced.

    Raises:
        UsageError: the two markers are not there, once each and in order.
    """
    begin, end = markers(study)
    first, last = text.find(begin), text.find(end)
    if not (0 <= first < last) or text.count(begin) > 1 or text.count(end) > 1:
        raise UsageError(
            f"{name} does not say where the table of {study} belongs",
            f"Put two lines there, once: `{begin}` and below it `{end}`.",
        )
    return f"{text[:first]}{begin}\n{block}{text[last:]}"


def ladder_block(found: StudyList, chart: str, where: Callable[[str], str]) -> str:
    """What is measured, a table of all versions, and a chart, relative to the file; "" for none.

    `where` tells what a version's path, relative to the project, is relative to the file.
    """
    timings = [rung.timing for rung in found.rungs if rung.timing]
    unit = rate_unit(timings, found.study.work)
    rival = next((rung.id for rung in found.rungs if rung.is_baseline), "")
    beside = [f"× {inline(rival)}"] if rival else []
    header = [_("version"), _("what"), _("time"), symbol(unit), *beside]
    rows = [header, ["---", "---", *["---:"] * (len(header) - 2)]]
    for rung in found.rungs:
        timing, share = rung.timing, rung.of_baseline
        if timing is None:
            continue
        version = found.study.versions[rung.id]
        cells = [
            f"[{inline(rung.id)}]({quote(where(version.path))})",
            inline(rung.title),
            quantity(timing.time.value, "s"),
            quantity(rate(timing, unit), unit),
        ]
        rows.append([*cells, *([factor(share) if share is not None else ""] if rival else [])])
    what = _("Speed of every version of {study}").format(study=inline(found.study.name))
    picture = f"![{what}]({quote(chart)})"
    days = sorted(timing.captured[:10] for timing in timings)
    told = _("{problem} on {device}, timed {days}; written by {command}.").format(
        problem=inline(found.problem),
        device=inline(found.device),
        days=span(days[0], days[-1]),
        command=f"`workbench publish {found.study.name}`",
    )
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return "\n\n".join([table, *([picture] if chart else []), told]) + "\n"
