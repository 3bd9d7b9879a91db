"""``workbench docs``: the documentation, as it came with the installation."""

from __future__ import annotations

import click

from workbench.session.manual import page, topics
from workbench.views.text.safe_output import say, write


@click.command(epilog="workbench docs front-matter · workbench docs how-to/ci | less")
@click.argument("topic", required=False)
def command(topic: str | None) -> None:
    """Print a page of the documentation; without TOPIC, which pages there are.

    Works offline and without a checkout. A page may be named as a link to it is:
    docs/how-to/ci.md.
    """
    if topic is not None:
        write(page(topic).rstrip("\n") + "\n")
        return
    for each in topics():
        say(f"{each.name:<28}  {each.title}")
    say("Read one with `workbench docs TOPIC`.")
