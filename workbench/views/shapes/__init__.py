"""The shape of every JSON document, as records: what ``--format json`` prints, key by key.

The texts and sheets build their documents from these records, and `workbench.views.shapes.schema`
makes a JSON schema from them, so that both always agree. The order of the
fields is the order of the keys. A key is never renamed or removed; new ones come last.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from workbench.views.text.safe_output import escaped, whole

Json = dict[str, Any]


class Document(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A JSON object: every field is a key, even if its value is null.

    A document with all fields of a record inherits from both, the document first.
    """

    def plain(self) -> Json:
        """The document as dictionaries and lists, with keys in their documented order."""
        built: Json = msgspec.to_builtins(self)
        return built


_Shape = TypeVar("_Shape", bound=Document)


def shaped(record: object, shape: type[_Shape], **other: object) -> _Shape:
    """A `shape` filled from the attributes of `record`, including those of its parts.

    `other` are fields that differ from the record; UNSET ones are left out. Raises
    msgspec.ValidationError: the record lacks a field, or has one of another type.
    """
    if not other:
        return msgspec.convert(record, shape, from_attributes=True)
    keys = zip(shape.__struct_fields__, shape.__struct_encode_fields__, strict=True)
    found = {
        key: other[name] if name in other else getattr(record, name, msgspec.UNSET)
        for name, key in keys
    }
    given = {key: value for key, value in found.items() if value is not msgspec.UNSET}
    return msgspec.convert(given, shape, from_attributes=True)


def dumps(document: Json) -> str:
    """Pretty JSON with a final newline, keys in their documented order."""
    return msgspec.json.format(compact(document), indent=2) + "\n"


def compact(document: Any) -> str:
    """JSON in one line, with escapes for invisible characters."""
    try:
        data = msgspec.json.encode(document)
    except UnicodeEncodeError:  # a lone surrogate from a file's name that is not UTF-8
        data = msgspec.json.encode(whole(document))
    return escaped(data.decode())


class ErrorFacts(Document, frozen=True):
    """The error and its place, the next step, and the exit code of docs/exit-codes.md."""

    code: int
    message: str
    hint: str


class ErrorDocument(Document, frozen=True):
    """The line on standard error with ``workbench --json-errors``."""

    error: ErrorFacts
