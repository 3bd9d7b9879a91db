"""The page of a tuned version: winner and runner-up, important parameters, and cliffs."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from workbench import units
from workbench.ladder import Ladder
from workbench.ladder.tunings import FATES, Tuning, Value, score
from workbench.language import _, told
from workbench.tune.effects import Effects, effects
from workbench.tune.shown import (
    best_sheet,
    cliffs_sheet,
    effects_sheet,
    percent,
    sizes_sheet,
    step_sheet,
)
from workbench.tune.steps import tuned_steps
from workbench.views.html.charts.figure import IntervalBar, Mark, Plot, intervals
from workbench.views.html.page import Head, Rendered, View
from workbench.views.html.pages.ladder import HeatCell
from workbench.views.html.render import render


def render_tuned(path: str, ladder: Ladder, tuning: Tuning, head: Head) -> Rendered:
    """The page of a tuning on one of its problems, which has a winner."""
    problem = ladder.problem
    unread = [told(each) for each in (tuning.winners[problem].why,) if each]
    step = tuned_steps(ladder.store, tuning, unread.append, (problem,)).get(problem)
    found = effects(tuning, problem)
    became = [each.fate for each in tuning.of(problem)]
    view = View(
        head=replace(head, notices=(*head.notices, *unread)),
        best=best_sheet(tuning, problem),
        step=step_sheet(step) if step else None,
        chart=_chart(found),
        effects=effects_sheet(tuning, problem),
        heat=_heat(tuning, problem, found),
        cliffs=cliffs_sheet(tuning, problem),
        sizes=sizes_sheet(tuning) if len(tuning.winners) > 1 else None,
        # The number of choices of each fate.
        fates=[(_(fate), became.count(fate)) for fate in FATES if fate in became],
    )
    return Rendered(html=render("tuned.html", path, view=view))


def _chart(found: Effects) -> Plot | None:
    told = [each for each in (*found.mains, *found.pairs) if each.share is not None]
    if not told:
        return None
    bars, rows = [], []
    for each in sorted(told, key=lambda each: -(each.share or 0.0)):
        name, said = " × ".join(each.parameters), percent(each.share)
        bars.append(IntervalBar(name=name, mark=Mark(100 * (each.share or 0.0), said)))
        rows.append((name, said))
    label = _("Share of the variance of the time's logarithm, by parameter")
    figure = intervals("effects", label, bars, "%", _("share of the variance"), None)
    return Plot(figure=figure, head=(_("Parameter"), _("Share")), rows=tuple(rows))


def _heat(tuning: Tuning, problem: str, found: Effects) -> View | None:
    """The best time of each pair of values of the two parameters that matter most."""
    names = [each.parameters[0] for each in found.mains if not each.why][:2]
    if len(names) < 2:
        return None
    first, second = names
    best: dict[tuple[Value, Value], float] = {}
    for trial in tuning.of(problem):
        seconds, key = score(tuning.engine, trial), (trial.values[first], trial.values[second])
        if seconds:
            best[key] = min(seconds, best.get(key, seconds))
    least = min(best.values())

    def cells(one: Value) -> Iterator[HeatCell | None]:
        for other in tuning.parameters[second]:
            seconds = best.get((one, other))
            said = units.quantity(seconds, "s")
            yield HeatCell(said, int(100 * least / seconds)) if seconds else None

    return View(
        names=names,
        columns=[str(each) for each in tuning.parameters[second]],
        rows=[(str(each), list(cells(each))) for each in tuning.parameters[first]],
    )
