"""The glossary: every counter, and each limit, warp state and unit with an example."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec
import tomli

from workbench import units
from workbench.analysis.limits.limit import RESOURCES, ResourceId
from workbench.counters import catalog
from workbench.language import N_, _
from workbench.model import Record
from workbench.views.html.page import Rendered, View
from workbench.views.html.render import render

#: Limits that do not belong to a unit.
_OTHERS: dict[ResourceId, str] = {
    "latency": N_("latency"),
    "sync": N_("waiting at barriers"),
    "grid": N_("too small or uneven a grid"),
    "launch": N_("a short launch"),
}


class Told(Record, frozen=True):
    """The entry of a limit or a unit; `counter` shows the limit, "" if no counter does."""

    id: str
    title: str
    meaning: str
    example: str
    counter: str = ""


class _Data(Record, frozen=True):
    """The file: the meaning and an example of limits and units; an example of warp states."""

    limit: dict[ResourceId, tuple[str, str]]
    stall: dict[str, str]
    unit: dict[str, tuple[str, str]]


@cache
def _data() -> _Data:
    text = files("workbench").joinpath("data", "glossary.toml").read_text("utf-8")
    return msgspec.convert(tomli.loads(text), _Data)


def glossary_view() -> View:
    """The glossary in the current language; examples of warp states are by their counter."""
    named = {each.id: (each.title, each.counter) for each in RESOURCES}
    named |= {identity: (_(title), "") for identity, title in _OTHERS.items()}
    return View(
        catalog=catalog(),
        limits=tuple(
            Told(identity, units.capital(title), _(meaning), _(example), counter)
            for identity, (meaning, example) in _data().limit.items()
            for title, counter in [named[identity]]
        ),
        examples={state: _(example) for state, example in _data().stall.items()},
        units=tuple(
            Told(unit, units.beside(unit) or units.symbol(unit), _(meaning), _(example))
            for unit, (meaning, example) in _data().unit.items()
        ),
    )


def render_glossary() -> Rendered:
    """The page, and the script beside it: `workbench.js` shows a term on request."""
    view = glossary_view()
    said = {
        "limits": {each.counter: each for each in view.limits if each.counter},
        "examples": view.examples,
        "units": {each.id: each for each in view.units},
        "unitOf": {counter.id: counter.unit for counter in view.catalog if counter.unit},
    }
    script = b"window.workbenchGlossary=" + msgspec.json.encode(said) + b";\n"
    html = render("glossary.html", "glossary.html", view=view)
    return Rendered(html=html, beside={"glossary.js": script})
