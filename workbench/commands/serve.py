"""``workbench serve``: the report on a local address, written again when something changes."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from pathlib import Path

import click

from workbench.commands.options import Above, languages_option
from workbench.errors import WorkbenchError
from workbench.language import _, told
from workbench.serve.server import Server, listening
from workbench.serve.watch import changes
from workbench.session.site import SitePlan, Writing
from workbench.session.workspace import Workspace
from workbench.units import listed
from workbench.views.html.pool import get_ready
from workbench.views.text.safe_output import complain, say

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


@click.command(cls=Above)
@click.argument(
    "targets", nargs=-1, metavar="[STUDY | OLD..NEW | REPORT.ncu-rep[::KERNEL] | @CAPTURE]..."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port; 0 chooses a free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen on; any but a loopback address lets others read the report.",
)
@click.option("--watch/--no-watch", "watching", default=True, help="Rewrite pages that change.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the site (default: the project's reports/).",
)
@languages_option
def command(
    targets: tuple[str, ...],
    port: int,
    host: str,
    watching: bool,
    out: Path | None,
    languages: tuple[str, ...],
) -> None:
    """Write the report, serve it on this machine, and keep it up to date.

    An open page reloads when what it shows has changed. Ctrl-C stops the server.
    """
    plan = SitePlan(Workspace(), targets, out, lasting=True, languages=languages)
    plan.check()
    try:
        # The port comes first: if it is taken, the error should precede the rendering of pages.
        with listening(plan.folder, host, port, live=watching) as server:
            _stay(plan, server, watching)
    except KeyboardInterrupt:
        # The only way to end it: exit with the code of an interruption, but without an error.
        click.get_current_context().exit(130)


def _stay(plan: SitePlan, server: Server, watching: bool) -> None:
    # This precedes the first build, so that changes during the build are noticed after it.
    found = changes(plan.sources())
    _build(plan, server)
    say(server.url)
    if server.host not in _LOOPBACK:
        say("Anyone who can reach this address can read the report.", err=True)
    if not watching:
        threading.Event().wait()
    get_ready()
    for changed in found:
        say(named(changed))
        _build(plan, server)


def _build(plan: SitePlan, server: Server) -> None:
    server.problem = "\n".join(attempt(plan, server.open_pages()))


def attempt(plan: SitePlan, first: Collection[str] = ()) -> list[str]:
    """Build, and return the errors of broken files instead of raising the first.

    The next change may repair them. The pages `first`, which are open in a browser, come first.
    """
    problems: list[WorkbenchError] = []
    try:
        result = plan.build(Writing(first=first))
        problems += [*result.broken, *result.damaged]
        say(result.words)
    except WorkbenchError as error:
        problems.append(error)
    except Exception as error:
        # An internal error must not end a watch either, but is reported.
        if (click.get_current_context().find_root().obj or {}).get("debug"):
            raise
        words = f"an internal error of workbench: {type(error).__name__}: {error}"
        problems.append(WorkbenchError(words, "`workbench --debug report` shows where."))
    for problem in problems:
        complain(problem)
    return [told(problem.message) for problem in problems]


def named(changed: Iterable[Path]) -> str:
    """``changed: v3_padded.cu, study.py and 2 more``."""
    names = sorted({path.name for path in changed})
    return _("changed: {names}").format(names=listed(names))
