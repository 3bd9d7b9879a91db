"""Tables as data, each made once: columns, rows and notes that every output prints.

The input is records; the output is sheets for the terminal and for `workbench.views.text`.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from workbench.language import _, told
from workbench.model import Record


class Sheet(Record, frozen=True):
    """A table in three forms: `shown` for people, `raw` for programs, `document` for JSON.

    Each row of `raw` has a value for each of `columns` (without names: all its values). `extra`
    names the columns of `header` that a narrow terminal leaves out, the least needed first; names
    are translated where they are printed. `title` is a list of lines. `notes` are printed under the
    table; JSON has them in `document` already.
    """

    header: tuple[str, ...]
    shown: tuple[tuple[str, ...], ...]
    raw: tuple[dict[str, Any], ...] = ()
    document: dict[str, Any] = field(default_factory=dict)
    title: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def noted(text: str, label: str = "") -> str:
    """A note under a table."""
    return _("note: {text}").format(text=f"{label}: {told(text)}" if label else told(text))
