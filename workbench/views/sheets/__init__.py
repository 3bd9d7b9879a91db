"""Tables as data, each made once: columns, rows and notes that every output prints.

In come records; out go sheets for the terminal and for `workbench.views.text`.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from workbench.language import _, told
from workbench.model import Record


class Sheet(Record, frozen=True):
    """A table twice: `shown` for people, `raw` for programs, and the whole for JSON.

    `raw` has a value of each of `columns` (all that it has, where none are named) a row.
    `extra` names the columns of `header` that a narrow terminal leaves out, the least
    needed first; names are translated where they are printed. `title` has lines. `notes` stand
    under the table; JSON has them in `document` already.
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
