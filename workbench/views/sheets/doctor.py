"""The table of ``workbench doctor``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from workbench.views.sheets.sheet import Sheet


class Row(Protocol):
    """What doctor says of one thing (`workbench.engines.host.doctor.Finding`)."""

    @property
    def what(self) -> str: ...  # noqa: D102
    @property
    def state(self) -> str: ...  # noqa: D102
    @property
    def detail(self) -> str: ...  # noqa: D102
    @property
    def remedy(self) -> str: ...  # noqa: D102
    @property
    def without(self) -> str: ...  # noqa: D102


def doctor_sheet(rows: Sequence[Row]) -> Sheet:
    """The table of ``workbench doctor``."""
    notes = []
    for row in rows:
        if row.state == "ok":
            continue
        notes.append(f"{row.what}: {row.detail}")
        if row.remedy:
            notes.append(f"  how to get it: {row.remedy}")
        if row.without:
            notes.append(f"  works without it: {row.without}")
    return Sheet(
        header=("what", "state", "detail"),
        shown=tuple(
            (row.what, row.state, row.detail if row.state == "ok" else "see below") for row in rows
        ),
        columns=("what", "state", "detail", "remedy", "without"),
        raw=tuple((row.what, row.state, row.detail, row.remedy, row.without) for row in rows),
        document={
            "checks": [
                {
                    "what": row.what,
                    "state": row.state,
                    "detail": row.detail,
                    "remedy": row.remedy,
                    "without": row.without,
                }
                for row in rows
            ]
        },
        notes=tuple(notes),
    )
