"""``workbench export``: the records as a table for other programs."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from workbench.commands.options import Above, folded, moved_options, speak_for, version_option
from workbench.disk.writing import replacing
from workbench.errors import MissingError, UsageError
from workbench.exchange.written import write_csv, write_json, write_parquet
from workbench.frames import Filters, TableName, stored
from workbench.session.api import CoreSession
from workbench.session.workspace import Selection, apart
from workbench.store import device_slug
from workbench.views.text.safe_output import say

if TYPE_CHECKING:
    import pandas as pd


def _filters(target: str, **given: Unpack[Filters]) -> Filters:
    name, where = apart(target, Selection(problem=given["problem"], device=given["device"]))
    study, _, version = (
        name.rpartition("/") if "/" in name or name[1:2].isdigit() else (name, "", "")
    )
    given |= {"study": study or given["study"], "version": version or given["version"]}
    device = where.device and device_slug(where.device)
    return {**given, "problem": where.problem, "device": device}


@click.command(cls=Above)
@click.argument("table", type=click.Choice(["counters", "lines", "launches", "times"]))
@folded(
    "where",
    _filters,
    click.argument("target", default="", metavar="[STUDY][/VERSION][:PROBLEM][@DEVICE]"),
    *moved_options,
    version_option,
    click.option("--engine", type=click.Choice(["ncu", "emulator"]), help="Only this engine."),
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Only this counter, or ncu metric (tables counters and lines; may be repeated).",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "json", "parquet"]),
    help="Format (default: by the ending of --out, else csv).",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File to write (default: standard output).",
)
def command(
    table: TableName,
    where: Filters,
    metrics: tuple[str, ...],
    kind: str | None,
    out: Path | None,
) -> None:
    """Export the records as a table for other programs: a row for each value."""
    if metrics and table not in ("counters", "lines"):
        raise UsageError(f"--metric does not apply to {table}", "Leave it out.")
    if where.get("engine") and table == "times":
        raise UsageError("times have no engine", "Leave out --engine.")
    if kind is None:
        suffix = out.suffix.lower() if out is not None else ""
        kind = suffix[1:] if suffix in (".json", ".parquet") else "csv"
    if out is None:
        speak_for(kind)
    if kind == "parquet" and out is None:
        raise UsageError("Parquet cannot be printed", "Name a file with --out.")
    frames = _some(stored(CoreSession().store, table, metrics or None, **where))
    as_text = write_json if kind == "json" else write_csv
    if out is None:
        as_text(frames, sys.stdout)
        return
    # The folder was named by the user, wherever it leads.
    with replacing(out.parent.resolve(), out.name) as stream:
        if kind == "parquet":
            rows = write_parquet(frames, stream)
        else:
            text = io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="")
            rows = as_text(frames, text)
            text.detach()
    # The file's name (.xlsx) may suggest another format than the written one.
    say(f"{rows:,} rows written to {out}, as {kind}")


def _some(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """The frames; refuses an empty selection."""
    first = next(frames)
    if first.empty:
        raise MissingError(
            "nothing that is recorded matches these options", "`workbench list` shows the records."
        )
    return chain([first], frames)
