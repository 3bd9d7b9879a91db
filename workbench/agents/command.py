"""``workbench serve mcp``: serve the project to programs on standard input and output."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from workbench.agents.fence import read_permits
from workbench.commands.options import speak_for
from workbench.errors import MissingError
from workbench.project import require_project


@click.command()
@click.option(
    "--allow",
    multiple=True,
    metavar="WORDS",
    help="Comma-separated permissions beyond reading: verify, profile, time, write, python, files.",
)
@click.option(
    "--project",
    "folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The project's folder (default: the current one, or the nearest above it).",
)
def command(allow: tuple[str, ...], folder: Path | None) -> None:
    """Serve the project to a program that speaks the Model Context Protocol.

    A client may read all that is recorded. It runs and writes nothing unless --allow says so:
    verify, profile and time run a version's code, write adds versions in CUDA C++, python also
    versions in Python, files lets versions include any file that you may read. The server ends
    when its standard input does.
    """
    permits = read_permits(allow)
    project = require_project(folder)
    if find_spec("mcp") is None:
        raise MissingError(
            "the MCP SDK is not installed",
            "In workbench's checkout: pip install '.[mcp]', or pip install mcp. Without it, every "
            "command has --format json, and `workbench docs schema` its schema.",
        )
    from workbench.agents.server import serve  # needs the SDK

    speak_for("json")
    serve(project, permits)
