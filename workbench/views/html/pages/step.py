"""What a step's page says besides the comparison: names, neighbours, marks."""

from __future__ import annotations

from workbench.measure.ladder import Ladder
from workbench.views.html.addresses import ladder_folder, step_page, version_page
from workbench.views.html.parts.common import Badge, Head, Link, neighbours


def ladder_head(ladder: Ladder, old: str, new: str, engine: str) -> Head:
    """The head of a step's page on a ladder."""
    before, after = ladder.rungs[old], ladder.rungs[new]
    declared = after.declared
    is_step = (old, new, engine) in ladder.steps
    stale = [rung.id for rung in (before, after) if rung.stale(rung.captured(engine))]
    notices = []
    if ladder.study.problem:
        notices.append(f"The study could not be read: {ladder.study.problem}")
    return Head(
        name=f"{old} → {new}",
        heading=(after.title if is_step else "") or ladder.study.title,
        change=declared.change if declared and is_step else "",
        crumbs=(
            Link("Overview", "index.html"),
            Link(ladder.name, f"{ladder_folder(ladder)}/index.html"),
            Link(f"{old} → {new}"),
        ),
        steps=_neighbours(ladder, (old, new, engine)),
        pages=(Link(old, version_page(old, engine)), Link(new, version_page(new, engine))),
        listings=True,
        chips=tuple(
            Badge(text=f"{name} is stale: its source has changed since", tone="warn")
            for name in stale
        ),
        notices=tuple(notices),
    )


def _neighbours(ladder: Ladder, step: tuple[str, str, str]) -> tuple[Link, ...]:
    if step not in ladder.steps:
        return ()  # a pair that somebody asked for is no step of the ladder
    order = [each for each in ladder.steps if each[2] == step[2]]
    links = [(f"{old} → {new}", step_page(old, new, engine)) for old, new, engine in order]
    return neighbours(links, order.index(step), "step")
