"""``workbench serve lsp``: the records, for an editor, over standard input and output."""

from __future__ import annotations

import os
from importlib.util import find_spec

import click

from workbench.errors import MissingError
from workbench.language import VARIABLE


@click.command()
@click.pass_context
def command(ctx: click.Context) -> None:
    """Serve the project to an editor that speaks the Language Server Protocol.

    It answers with what is recorded for the lines of a version, or of any file that a capture
    names: shares of the time, stalls, sectors and wavefronts next to their ideal. It runs nothing
    unless the editor's initializationOptions say {"verify": "onSave"}: then each saved version is
    compiled and run in the emulator, with its study.py. The server ends when standard input does.
    """
    if find_spec("pygls") is None:
        raise MissingError(
            "pygls is not installed",
            "In workbench's checkout: pip install '.[lsp]', or pip install pygls. Without it, "
            "`workbench show v3` lists the hottest lines, and `workbench diff` what an edit moved.",
        )
    from workbench.editing.server import serve  # needs pygls

    chosen = ctx.find_root().params["lang"] or os.environ.get(VARIABLE)
    serve(chosen=bool(chosen))
