"""What a step's page says besides the comparison: names, neighbours, marks."""

from __future__ import annotations

from workbench.views.html.data import Ladder
from workbench.views.html.pages.diff import Head
from workbench.views.html.parts.common import Chip, Link
from workbench.views.html.render import step_page


def ladder_head(ladder: Ladder, old: str, new: str, engine: str) -> Head:
    """The head of a step's page on a ladder."""
    before, after = ladder.rungs[old], ladder.rungs[new]
    declared = after.declared
    is_step = (old, new, engine) in ladder.steps
    stale = [rung.id for rung in (before, after) if rung.stale(rung.load(engine).source_hash)]
    notices = []
    if ladder.study.problem:
        notices.append(f"The study could not be read: {ladder.study.problem}")
    return Head(
        name=f"{old} → {new}",
        heading=(after.title if is_step else "") or ladder.study.title,
        change=declared.change if declared and is_step else "",
        crumbs=(
            Link("Studies", "index.html"),
            Link(ladder.name, f"{ladder.folder}/index.html"),
            Link(f"{old} → {new}"),
        ),
        steps=_neighbours(ladder, old, new, engine),
        pages=(Link(old, before.page(engine)), Link(new, after.page(engine))),
        chips=tuple(
            Chip(text=f"{name} is stale: its source has changed since", tone="warn")
            for name in stale
        ),
        notices=tuple(notices),
    )


def _neighbours(ladder: Ladder, old: str, new: str, engine: str) -> tuple[Link, ...]:
    order = [step for step in ladder.steps if step[2] == engine]
    out: list[Link] = []
    if (old, new, engine) not in order:
        return ()  # a pair that somebody asked for is no step of the ladder
    place = order.index((old, new, engine))
    if place > 0:
        a, b, _ = order[place - 1]
        out.append(Link(f"‹ {a} → {b}", step_page(a, b, engine), "Previous step"))
    if place + 1 < len(order):
        a, b, _ = order[place + 1]
        out.append(Link(f"{a} → {b} ›", step_page(a, b, engine), "Next step"))
    return tuple(out)
