"""A document in pages: parts of it by JSON pointer, each cut to a number of bytes.

Every omission is reported, with the pointer and the offset that request it. Pointers follow RFC
6901 (``/launches/0/lines``); ``*`` stands for every entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from workbench.errors import UsageError, did_you_mean
from workbench.model import Record
from workbench.views.shapes import compact

#: Bytes of the protocol's envelope around an answer: its id, its type, and the like.
FRAME = 400
#: An object with more keys is a table of named things, and may be shown in part.
_RECORD = 40
#: The factor from one share to the next smaller one to try, the divisor from a list's share to its
#: entries', and the smallest share (a text is never cut shorter than that).
_STEP, _INNER, _LEAST = 0.7, 4, 200
_MOST_POINTERS = 20


class More(Record, frozen=True, omit_defaults=False):
    """A part that an answer omits: it has `shown` of the `of` entries (or characters) of `select`.

    `offset` requests the rest of it; None if `select` matches several places.
    """

    select: str
    shown: int
    of: int
    offset: int | None


class Fitted(Record, frozen=True):
    """As much of a value as fits, and the omitted parts."""

    value: Any
    more: tuple[More, ...] = ()


def wire_size(value: object) -> int:
    """Bytes of a value as JSON in a JSON string, which is how an answer travels."""
    return len(msgspec.json.encode(compact(value)))


# --- pointers --------------------------------------------------------------------------------


def picked(document: Any, select: str | Sequence[str]) -> Any:
    """The part that a pointer names; for several pointers, an object with a part for each.

    Raises UsageError: the part is unknown; the hint names the nearest key.
    """
    if isinstance(select, str):
        return _at(document, _tokens(select), select)
    if len(select) > _MOST_POINTERS:
        raise UsageError(f"{len(select)} pointers in one call", f"At most {_MOST_POINTERS}.")
    return {each: _at(document, _tokens(each), each) for each in select}


def _tokens(pointer: str) -> list[str]:
    if not pointer.strip("/"):
        return []
    parts = pointer.removeprefix("/").split("/")
    return [part.replace("~1", "/").replace("~0", "~") for part in parts]


def _at(value: Any, tokens: list[str], pointer: str) -> Any:
    if not tokens:
        return value
    token, *rest = tokens
    if isinstance(value, dict):
        if token in value:
            return _at(value[token], rest, pointer)
        if token == "*":
            every = _each(list(value.values()), rest, pointer)
            return dict(zip(value, every, strict=True))
        hint = did_you_mean(token, value, "keys here")
    elif isinstance(value, list):
        if token == "*":
            return _each(value, rest, pointer)
        if token.isdecimal() and len(token) < 10 and int(token) < len(value):
            return _at(value[int(token)], rest, pointer)
        hint = f"It is a list of {len(value)}: 0 to {len(value) - 1}, or *." if value else ""
        hint = hint or "It is an empty list."
    else:
        hint = "It is a single value, and has no parts."
    raise UsageError(f"select {pointer!r}: there is no {token!r}", hint)


def _each(values: list[Any], tokens: list[str], pointer: str) -> list[Any]:
    """The part of every entry; null for one that lacks it, unless all do."""
    out: list[Any] = []
    lacking: list[UsageError] = []
    for value in values:
        try:
            out.append(_at(value, tokens, pointer))
        except UsageError as error:
            out.append(None)
            lacking.append(error)
    if values and len(lacking) == len(values):
        raise lacking[0]
    return out


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


# --- pages -----------------------------------------------------------------------------------


def fitted(value: Any, select: str, offset: int, fits: Callable[[Fitted], bool]) -> Fitted:
    """Fit as much of `value` as possible: all of it, else its first entries, else parts of them.

    `select` is the pointer that it was picked by. `offset` entries (of a text: characters) are
    skipped. `fits` decides whether a page is small enough. Raises UsageError: `offset` is beyond
    the end.
    """
    length = len(value) if isinstance(value, list | dict | str) else 1
    if offset and offset >= length:
        raise UsageError(
            f"offset {offset}: {select or 'the answer'} has {length} entries",
            "The `more` of an answer says which offset comes next.",
        )
    base = select.rstrip("/")
    if isinstance(value, list | str) or (isinstance(value, dict) and len(value) > _RECORD):
        return _leading(value, base, offset, fits)
    if isinstance(value, dict) and offset:
        value = dict(list(value.items())[offset:])
    return _thinned(value, base, fits)


def _leading(value: Any, base: str, offset: int, fits: Callable[[Fitted], bool]) -> Fitted:
    """The first entries from `offset` that fit whole; if the first does not, a part of it."""
    length = len(value)

    def first(count: int) -> Fitted:
        end = offset + count
        if isinstance(value, dict):
            part: Any = dict(list(value.items())[offset:end])
        else:
            part = value[offset:end]
        left = More(select=base, shown=count, of=length, offset=end)
        return Fitted(value=part, more=(left,) if end < length else ())

    low, high = 0, length - offset
    if fits(first(high)):
        return first(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(first(middle)) else (low, middle)
    if low or not length or isinstance(value, str):
        return first(low)
    one = first(1)
    key = str(offset) if isinstance(value, list) else next(iter(one.value))

    def wrapped(page: Fitted) -> Fitted:
        part = [page.value] if isinstance(value, list) else {key: page.value}
        return Fitted(value=part, more=(*page.more, *one.more))

    entry = one.value[0] if isinstance(value, list) else one.value[key]
    return wrapped(_thinned(entry, f"{base}/{_escaped(key)}", lambda page: fits(wrapped(page))))


def _thinned(value: Any, base: str, fits: Callable[[Fitted], bool]) -> Fitted:
    """The value with its long lists, tables and texts cut, as little as possible."""
    whole = Fitted(value=value)
    if fits(whole):
        return whole
    page, share = whole, float(wire_size(value))
    while share >= _LEAST:
        share *= _STEP
        knife = _Knife(int(share))
        thin = knife.cut(value, base, base, int(share))
        page = Fitted(value=thin, more=knife.more)
        if fits(page):
            return page
    # No part of it fits: its keys at least can be requested one by one.
    keys = list(value)[:_RECORD] if isinstance(value, dict) else []
    parts = [More(select=f"{base}/{_escaped(key)}", shown=0, of=1, offset=None) for key in keys]
    parts = parts or list(page.more)
    while parts and not fits(Fitted(value=None, more=tuple(parts))):
        parts.pop()
    return Fitted(value=None, more=tuple(parts))


class _Cut(NamedTuple):
    kind: str
    path: str
    shown: int
    of: int


class _Knife:
    """Cuts a value so that each list, table and text in it takes at most its share of bytes.

    An element's share is a fraction of its list's: short lists stay whole, long ones lose most.
    """

    def __init__(self, share: int) -> None:
        self._text = max(share, _LEAST)
        self._cuts: list[_Cut] = []

    @property
    def more(self) -> tuple[More, ...]:
        """The parts left out: one entry where many places of one kind were cut."""
        kinds: dict[str, list[_Cut]] = {}
        for cut in self._cuts:
            kinds.setdefault(cut.kind, []).append(cut)
        out = []
        for kind, cuts in kinds.items():
            most = max(cuts, key=lambda cut: cut.of)
            one = len(cuts) == 1
            out.append(
                More(
                    select=most.path if one else kind,
                    shown=most.shown,
                    of=most.of,
                    offset=most.shown if one else None,
                )
            )
        return tuple(out)

    def cut(self, value: Any, path: str, kind: str, share: int) -> Any:
        """The value, cut; `kind` is its path with ``*`` for entries of lists and tables."""
        if isinstance(value, str):
            if len(value) > self._text:
                self._note(kind, path, self._text, len(value))
            return value[: self._text]
        if isinstance(value, dict) and len(value) <= _RECORD:
            return {
                key: self.cut(each, f"{path}/{_escaped(key)}", f"{kind}/{_escaped(key)}", share)
                for key, each in value.items()
            }
        if isinstance(value, list):
            entries = [(str(place), each) for place, each in enumerate(value)]
        elif isinstance(value, dict):
            entries = [(key, each) for key, each in value.items()]
        else:
            return value
        kept: list[tuple[str, Any]] = []
        left = share
        for key, each in entries:
            before = len(self._cuts)
            part = self.cut(each, f"{path}/{_escaped(key)}", f"{kind}/*", share // _INNER)
            left -= wire_size(part) + len(key)
            if left < 0:
                del self._cuts[before:]  # the cuts within hidden parts
                self._note(kind, path, len(kept), len(entries))
                break
            kept.append((key, part))
        return dict(kept) if isinstance(value, dict) else [part for _, part in kept]

    def _note(self, kind: str, path: str, shown: int, of: int) -> None:
        self._cuts.append(_Cut(kind, path, shown, of))
