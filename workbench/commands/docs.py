"""``workbench docs``: the installed documentation, and JSON schemas."""

from __future__ import annotations

import click

from workbench.errors import UsageError, did_you_mean
from workbench.session.manual import page, topics
from workbench.views.shapes import dumps
from workbench.views.shapes.schema import SHAPES, schema_of, schemas
from workbench.views.text.safe_output import say, write


@click.command(epilog="workbench docs front-matter · workbench docs how-to/ci | less")
@click.argument("topic", required=False)
@click.argument("of", metavar="[COMMAND]", required=False)
def command(topic: str | None, of: str | None) -> None:
    """Print a page of the documentation; without TOPIC, the list of pages.

    Works offline and without a checkout. A page may be named by its link:
    docs/how-to/ci.md. With schema as TOPIC: the JSON schema of what COMMAND prints with --format
    json, or all schemas; the schema of error describes what `workbench --json-errors` prints.
    """
    if topic == "schema":
        if of is not None and of not in SHAPES:
            hint = did_you_mean(of, SHAPES, "documents")
            raise UsageError(f"{of!r} prints no JSON document", hint)
        write(dumps(schemas() if of is None else schema_of(of)))
        return
    if of is not None:
        raise UsageError(f"`{topic} {of}` is not a page", "Name one: `workbench docs` lists them.")
    if topic is not None:
        write(page(topic).rstrip("\n") + "\n")
        return
    for each in topics():
        say(f"{each.name:<28}  {each.title}")
    say("Read one with `workbench docs TOPIC`.")
