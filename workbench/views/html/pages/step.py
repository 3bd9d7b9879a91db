"""What a step's page says besides the comparison: names, neighbours, marks."""

from __future__ import annotations

from workbench.ladder import Ladder, Rung
from workbench.views.html.page import beside, ladder_folder, step_page, version_page
from workbench.views.html.parts.common import Badge, Head, Link, neighbours


def ladder_head(ladder: Ladder, old: str, new: str, engine: str) -> Head:
    """The head of a step's page on a ladder."""
    before, after = ladder.rungs[old], ladder.rungs[new]
    declared = after.declared
    is_step = (old, new, engine) in ladder.steps
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
        chips=_stale({old: before, new: after}, engine),
        notices=_unread(ladder),
    )


def devices_head(rungs: tuple[Rung, Rung], labels: tuple[str, str], engine: str) -> Head:
    """The head of a page that compares two devices, which lies beside the pages of the second.

    Args:
        rungs: What is recorded on the one device, and on the other, of one study and problem.
        labels: What to call them: ``v5@h100``, ``v5@h200``.
        engine: Whose profiles are compared.
    """
    before, after = rungs
    home = f"{ladder_folder(after.ladder)}/index.html"
    title = after.title if before.id == after.id else ""
    devices = " and ".join(rung.ladder.device_name for rung in rungs)
    name = " → ".join(labels)
    return Head(
        name=name,
        heading=f"{title or after.ladder.study.title}, on {devices}",
        crumbs=(Link("Overview", "index.html"), Link(after.ladder.name, home), Link(name)),
        pages=tuple(
            Link(label, beside(after.ladder, rung.ladder.device, version_page(rung.id, engine)))
            for label, rung in zip(labels, rungs, strict=True)
        ),
        listings=True,
        chips=_stale(dict(zip(labels, rungs, strict=True)), engine),
        notices=_unread(after.ladder),
    )


def _stale(rungs: dict[str, Rung], engine: str) -> tuple[Badge, ...]:
    return tuple(
        Badge(text=f"{name} is stale: its source has changed since", tone="warn")
        for name, rung in rungs.items()
        if rung.stale(rung.captured(engine))
    )


def _unread(ladder: Ladder) -> tuple[str, ...]:
    problem = ladder.study.problem
    return (f"The study could not be read: {problem}",) if problem else ()


def _neighbours(ladder: Ladder, step: tuple[str, str, str]) -> tuple[Link, ...]:
    if step not in ladder.steps:
        return ()  # a pair that somebody asked for is no step of the ladder
    order = [each for each in ladder.steps if each[2] == step[2]]
    links = [(f"{old} → {new}", step_page(old, new, engine)) for old, new, engine in order]
    return neighbours(links, order.index(step), "step")
