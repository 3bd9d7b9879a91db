"""Names of the pages' figures, for those who want one as a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from workbench.analysis.aggregate import main_launch
from workbench.errors import UsageError
from workbench.session.workspace import Selection, apart
from workbench.views.html.charts.several import roof_path
from workbench.views.html.charts.steps import time_waterfall
from workbench.views.html.pages.ladder import speed, sweep

if TYPE_CHECKING:
    from workbench.ladder import Ladder
    from workbench.session.api import CoreSession
    from workbench.views.html.charts.figure import Figure

Kind = Literal["ladder", "sweep", "roofline", "step"]
KINDS: tuple[Kind, ...] = get_args(Kind)


_NOTHING = {
    "ladder": "no time of {name} is recorded there",
    "sweep": "no times of two problems of {name} are recorded there",
    "roofline": "no profile of {name} is recorded there",
}


def figure_of(
    session: CoreSession, kind: Kind, targets: tuple[str, ...], selection: Selection
) -> Figure:
    """The figure that the pages have: of a study, or of the step between two versions.

    Args:
        session: What is recorded where.
        kind: Which figure.
        targets: A study, or none for the default one; of a step its two versions.
        selection: Which problem and device.

    Raises:
        UsageError: the targets mean nothing, or nothing is recorded of them to be drawn.
        DataError: a damaged file.
    """
    if kind == "step":
        if len(targets) != 2:
            raise UsageError(
                f"a step has two versions, not {len(targets)}", "`workbench plot step v2 v3`"
            )
        step = session.diff(*targets, selection)
        if step.story.time is None:
            raise UsageError(
                "neither side has samples of its warps, so its time has no parts",
                "`workbench profile` records them under ncu.",
            )
        drawn: Figure = time_waterfall(step.story.time, *step.labels).figure
        return drawn
    if len(targets) > 1:
        raise UsageError(f"{kind} is of one study", f"`workbench plot {kind} {targets[0]}`")
    study, selection = apart("".join(targets), selection)
    ladder = session.ladder(study or selection.study, selection.problem, selection.device)
    found = _of_ladder(kind, ladder)
    if found is None:
        raise UsageError(
            _NOTHING[kind].format(name=ladder.name),
            f"`workbench list {ladder.name}` shows what is.",
        )
    return found


def _of_ladder(kind: Kind, ladder: Ladder) -> Figure | None:
    baselines = frozenset(rung.id for rung in ladder.order if rung.is_baseline)
    if kind == "ladder":
        plot = speed(ladder)
        return plot.figure if plot is not None else None
    if kind == "sweep":
        order = [rung.id for rung in ladder.order]
        section = sweep(ladder.family.timings, order, set(baselines), ladder.study.work)
        first: Figure | None = section.charts[0].figure if section is not None else None
        return first
    profiles = {rung.id: rung.profile for rung in ladder.order if rung.profile}
    launches = [
        (name, launch)
        for name, profile in profiles.items()
        if (launch := main_launch(profile)) is not None
    ]
    if not launches:
        return None
    path = roof_path("roofline", launches, next(iter(profiles.values())), apart=baselines)
    return path.figure if path is not None else None
