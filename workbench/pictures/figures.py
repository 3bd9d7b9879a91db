"""Find a figure or card of the pages, to save it as a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from workbench.errors import UsageError
from workbench.session.workspace import Selection, apart
from workbench.views.html.page import Head, View
from workbench.views.html.pages.diff import diff_view
from workbench.views.html.pages.ladder import ladder_view
from workbench.views.html.render import card

if TYPE_CHECKING:
    from workbench.session.api import CoreSession
    from workbench.views.html.charts.figure import Figure

Kind = Literal["card", "ladder", "sweep", "roofline", "step"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_NOTHING = {
    "ladder": "no time for {name} is recorded there",
    "sweep": "no times for two problems of {name} are recorded there",
    "roofline": "no profile of {name} is recorded there",
}


def card_of(session: CoreSession, targets: tuple[str, ...], selection: Selection) -> bytes:
    """The card of a ladder or step, as SVG; raises the same errors as `figure_of`."""
    return card("", _view(session, "card", targets, selection))[".card.svg"]


def figure_of(
    session: CoreSession, kind: Kind, targets: tuple[str, ...], selection: Selection
) -> Figure:
    """The figure of the pages: of a study (without a target: the default one), or of a step.

    Raises:
        UsageError: unknown targets, or their records hold nothing to draw.
        DataError: a damaged file.
    """
    view = _view(session, kind, targets, selection)
    if kind == "step" and view.waterfall is None:
        raise UsageError(
            "neither side has warp samples, so the time cannot be attributed to source lines",
            "`workbench profile` records them under ncu.",
        )
    of = {"step": "waterfall", "ladder": "speed", "roofline": "roof"}
    plot = getattr(view, of[kind]) if kind in of else view.sweep and view.sweep.charts[0]
    if plot is None:
        raise UsageError(
            _NOTHING[kind].format(name=view.ladder.name),
            f"`workbench list {view.ladder.name}` shows the records.",
        )
    found: Figure = plot.figure
    return found


def _view(session: CoreSession, kind: Kind, targets: tuple[str, ...], selection: Selection) -> View:
    if kind == "step" and len(targets) != 2:
        raise UsageError(
            f"a step has two versions, not {len(targets)}", "`workbench export figure step v2 v3`"
        )
    if kind in ("step", "card") and len(targets) == 2:
        step = session.diff(*targets, selection)
        return diff_view(step, Head(heading=step.title, name=" → ".join(step.labels)))
    if len(targets) > 1:
        hint = f"`workbench export figure {kind} {targets[0]}`"
        raise UsageError(f"{kind} shows one study", hint)
    study, selection = apart("".join(targets), selection)
    name = study or selection.study
    ladder = session.ladder(name, selection.problem, selection.device)
    if not any(rung.profile or rung.timing for rung in ladder.order):
        hint = "`workbench time` and `workbench profile` record what is drawn."
        raise UsageError(f"nothing is recorded for {ladder.name}", hint)
    return ladder_view(ladder)
