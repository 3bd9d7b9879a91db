"""``workbench schema``: the JSON schemas of all documents."""

from __future__ import annotations

import click

from workbench.errors import UsageError, did_you_mean
from workbench.views.shapes import dumps
from workbench.views.shapes.schema import SHAPES, schema_of, schemas
from workbench.views.text.safe_output import write


@click.command()
@click.argument("of", metavar="[COMMAND]", required=False)
def command(of: str | None) -> None:
    """Print the JSON schema of the documents of COMMAND; without COMMAND, of all.

    `workbench schema error`: the errors that `workbench --json-errors` prints.
    """
    if of is not None and of not in SHAPES:
        raise UsageError(f"{of!r} prints no JSON document", did_you_mean(of, SHAPES, "documents"))
    write(dumps(schemas() if of is None else schema_of(of)))
