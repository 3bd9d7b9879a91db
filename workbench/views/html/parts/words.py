"""A sentence as pieces: what stood between back quotes is code."""

from __future__ import annotations

import re

from workbench.model import Record

_CODE = re.compile(r"`([^`]*)`")


class Words(Record, frozen=True):
    """A piece of a sentence; `code` for what stands in monospace."""

    text: str
    code: bool = False


def sentence(text: str) -> tuple[Words, ...]:
    """Split at back quotes; without them the sentence is one piece."""
    parts = enumerate(_CODE.split(text))
    return tuple(Words(text=part, code=place % 2 == 1) for place, part in parts if part)
