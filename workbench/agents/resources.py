"""What a client may read at any time: meanings of counters, the vocabulary, and the schemas."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

import msgspec

from workbench.counters import Counter, catalog
from workbench.errors import UsageError, did_you_mean
from workbench.views.shapes import Json
from workbench.views.shapes.schema import SHAPES, schema_of

SCHEME = "workbench://"
_JSON = "application/json"


class Readable(NamedTuple):
    """One thing to read; `uri` may hold a ``{name}``."""

    uri: str
    name: str
    text: str
    mime: str = _JSON


RESOURCES = (
    Readable(
        f"{SCHEME}vocabulary",
        "vocabulary",
        "What the words in the answers mean, and how to use the tools.",
        "text/markdown",
    ),
    Readable(f"{SCHEME}counters", "counters", "Ids, titles and units of all counters."),
    *(
        Readable(f"{SCHEME}schema/{command}", f"schema-{command}", f"JSON schema: {command}.")
        for command in SHAPES
    ),
)
TEMPLATES = (
    Readable(f"{SCHEME}counters/{{id}}", "counter", "What one counter means, and how it is named."),
)


def meaning(word: str) -> Json:
    """What a counter means, by its id or one of ncu's names.

    Raises:
        UsageError: there is no such one; the hint names the nearest.
    """
    known = catalog()
    counter = next(
        (each for each in known if word == each.id or word in each.names or word in each.lines),
        None,
    )
    if counter is None:
        ids = [each.id for each in known]
        raise UsageError(f"there is no counter {word!r}", did_you_mean(word, ids, "counters"))
    return _whole(counter)


def _whole(counter: Counter) -> Json:
    return {
        "id": counter.id,
        "title": counter.title,
        "meaning": counter.meaning,
        "unit": counter.unit,
        "better": counter.better,
        "group": catalog().groups[counter.group],
        "names": list(counter.names),
        "formulas": list(counter.formulas),
        "lines": list(counter.lines),
        "noise": counter.noise,
        "doc": counter.doc,
    }


def read_resource(uri: str) -> tuple[str, str]:
    """The text of a resource, and its type.

    Raises:
        UsageError: there is no such one.
    """
    kind, _, name = uri.removeprefix(SCHEME).partition("/")
    if uri.startswith(SCHEME):
        if kind == "vocabulary" and not name:
            return _vocabulary(), "text/markdown"
        if kind == "counters":
            return _packed(meaning(name) if name else _index()), _JSON
        if kind == "schema" and name in SHAPES:
            return _packed(schema_of(name)), _JSON
    known = [resource.uri for resource in RESOURCES]
    raise UsageError(f"there is no resource {uri[:200]!r}", did_you_mean(uri, known, "resources"))


def _vocabulary() -> str:
    return files("workbench").joinpath("data", "vocabulary.md").read_text(encoding="utf-8")


def _index() -> Json:
    return {
        "counters": [
            {"id": each.id, "title": each.title, "unit": each.unit, "better": each.better}
            for each in catalog()
        ]
    }


def _packed(document: Json) -> str:
    return msgspec.json.encode(document).decode()
