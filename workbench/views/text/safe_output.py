"""The only output of text to people: a text cannot control the terminal or imitate ours.

A name may come from another person: of a kernel, of a file, on the command line. All text for a
terminal, a log or a page passes through `visible` (one line) or `block` (a text with intended
lines); only `say` and `write` print to standard output and error. Styles are added afterwards
(`workbench.views.terminal.console`), and JSON has its own escapes (`escaped`).
"""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from typing import Any, TextIO

import click

from workbench.errors import WorkbenchError
from workbench.language import _, told

#: Invisible characters of Unicode's class Cf: they reorder, join or tag text.
_FORMAT = (
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
_HIDDEN = f"(?P<control>[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029])|[{_FORMAT}\ud800-\udfff]"
#: Matches text that a GitHub runner would take for our command: `::` at the beginning of a line,
#: after any blanks or styles, and the older `##[` anywhere.
_COMMAND = r"(?m)^((?:[^\S\n]|\x1b\[[\d;]*m)*)(?=::)|(?<=##)(?=\[)"
#: In JSON, all of these are escaped, so that terminals and runners do not interpret them.
_RAW = f"[\x7f-\x9f\u2028\u2029{_FORMAT}]|(?<=##)\\["
#: Matches the places at which a long name may be broken.
_BREAK = r"(?<=[_,:<>/→ ])(?=[^_,:<>/→ ])"
#: Precedes each further line of a message, so that it cannot imitate a line of ours.
_GUTTER = "\n  | "


def visible(text: str) -> str:
    """`text` as one line: controls as ``·``, invisible characters as ``⟨U+202E⟩``; tabs stay."""
    return (
        text
        if text.isprintable()
        else _pattern(_HIDDEN).sub(
            lambda found: "·" if found["control"] else f"⟨U+{ord(found[0]):04X}⟩", text
        )
    )


@cache
def _pattern(expression: str) -> re.Pattern[str]:
    # Compiled on first use: few texts need it, and each takes a millisecond.
    return re.compile(expression)


def block(text: str) -> str:
    """`text` with its intended lines, each of them visible."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "\n".join(map(visible, text.split("\n")))


def name_parts(name: str) -> list[str]:
    """The pieces of a name; a line may break after a piece, never inside a word."""
    return _pattern(_BREAK).split(name)


def ascii_minus(text: str) -> str:
    """`text` with an ASCII minus before numbers, for programs."""
    return _pattern(r"−(?=\d)").sub("-", text) if "−" in text else text


def for_stream(text: str, stream: TextIO) -> str:
    """`text` in a stream's form: with a typographic minus if it is a terminal."""
    return text if stream.isatty() else ascii_minus(text)


def inert(text: str) -> str:
    """`text` in which no line is a command to a GitHub runner."""
    return _pattern(_COMMAND).sub(r"\1·", text) if "::" in text or "##[" in text else text


def quoted(text: str) -> str:
    """A text with a bar before each of its lines after the first."""
    first, *rest = text.rstrip("\n").split("\n")
    return _GUTTER.join(map(visible, (first, *rest)))


def say(text: str, *, err: bool = False, head: str = "", color: bool | None = None) -> None:
    """Print a line for people about an event.

    It translates a sentence with a template. `head`: words before it, with a style if it has one.
    `color`: whether styles are printed; None: if there is a terminal.
    """
    said = for_stream(quoted(told(text)), sys.stderr if err else sys.stdout)
    click.echo(inert(head + said), err=err, color=color)


def complain(error: WorkbenchError) -> None:
    """Print an error and its hint on standard error."""
    # click.echo drops styles if stderr is not a terminal; NO_COLOR must be handled here.
    color = False if os.environ.get("NO_COLOR") else None
    head = click.style(_("error: "), fg="red", bold=True)
    say(error.message, err=True, head=head, color=color)
    if error.hint:
        start = _("  hint: ")
        hint = _in_rows(quoted(told(error.hint)), len(start))
        click.echo(inert(click.style(start, fg="cyan") + hint), err=True, color=color)


def _in_rows(text: str, indent: int) -> str:
    """A text in rows of the terminal's width, later rows indented; unbroken without a terminal."""
    if not sys.stderr.isatty():
        return ascii_minus(text)
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    rows = Text(text).wrap(console, max(console.width - indent, 20))
    return f"\n{'':{indent}}".join(row.plain.rstrip() for row in rows)


def write(text: str, *, err: bool = False, commands: bool = False) -> None:
    """Print a finished document.

    `text` is complete, with its last line ended. `commands`: it holds our own commands to a GitHub
    runner.
    """
    shown = for_stream(block(text), sys.stderr if err else sys.stdout)
    click.echo(shown if commands else inert(shown), nl=False, err=err)


def escaped(json: str) -> str:
    """JSON with escapes for invisible characters, and with an ASCII minus."""
    json = ascii_minus(json)
    return json if json.isprintable() and "##[" not in json else _pattern(_RAW).sub(_escape, json)


def _escape(match: re.Match[str]) -> str:
    data = match[0].encode("utf-16-be")
    return "".join(f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))


def whole(value: Any) -> Any:
    """Plain data with visible texts, without lone surrogates, which have no UTF-8."""
    if isinstance(value, str):
        return block(value)
    if isinstance(value, dict):
        return {whole(key): whole(each) for key, each in value.items()}
    return [whole(each) for each in value] if isinstance(value, (list, tuple)) else value
