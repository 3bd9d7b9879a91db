"""The JSON schema of every command's document, made from the documents' records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, cast

import msgspec

from workbench import __version__
from workbench.features import FEATURES
from workbench.views.shapes import Document, ErrorDocument, Json
from workbench.views.shapes.listed import DoctorDocument, ListDocument, LogDocument
from workbench.views.shapes.measured import TimeDocument, VerifyDocument
from workbench.views.shapes.show import MemoryDocument, MemoryStepDocument, ShowDocument
from workbench.views.shapes.step import StepDocument


class Documents(Protocol):
    """The module of a feature with its documents, including those for commands of the core."""

    SHAPES: Mapping[str, tuple[type[Document], ...]]


#: Command -> the possible documents of ``--format json``. ``error``: that of ``--json-errors``.
SHAPES: dict[str, tuple[type[Document], ...]] = {
    "list": (ListDocument,),
    "show": (ShowDocument, MemoryDocument),
    "diff": (StepDocument, MemoryStepDocument),
    "time": (TimeDocument,),
    "verify": (VerifyDocument,),
    "doctor": (DoctorDocument, LogDocument),
    "error": (ErrorDocument,),
}
for _feature in FEATURES:
    if _feature.documents:
        for _command, _own in cast(Documents, _feature.load(_feature.documents)).SHAPES.items():
            SHAPES[_command] = (*SHAPES.get(_command, ()), *_own)
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(command: str) -> Json:
    """The schema of one command's document (a key of `SHAPES`)."""
    refs, parts = _components(SHAPES[command])
    return {
        "$schema": _DIALECT,
        "title": f"workbench {command} --format json",
        "$comment": f"workbench {__version__}",
        **_one_of(refs),
        "$defs": parts,
    }


def schemas() -> Json:
    """All schemas as one document: ``#/$defs/show`` is the schema of ``show``."""
    every = tuple(dict.fromkeys(shape for shapes in SHAPES.values() for shape in shapes))
    refs, parts = _components(every)
    at = dict(zip(every, refs, strict=True))
    named = {
        command: _one_of([at[shape] for shape in shapes]) for command, shapes in SHAPES.items()
    }
    return {
        "$schema": _DIALECT,
        "title": "workbench",
        "$comment": f"workbench {__version__}",
        "$defs": {**named, **parts},
    }


def _components(shapes: tuple[type[Document], ...]) -> tuple[list[Json], Json]:
    refs, parts = msgspec.json.schema_components(shapes, ref_template="#/$defs/{name}")
    for part in parts.values():  # a key that is optional in a record is present in a document
        named = part.get("properties", {})
        always = {name for name, one in named.items() if one.pop("default", ...) is not ...}
        part["required"] = [name for name in named if name in {*part["required"], *always}]
    return list(refs), dict(parts)


def _one_of(refs: list[Json]) -> Json:
    return refs[0] if len(refs) == 1 else {"anyOf": refs}
