"""Text of any origin as plain text in Markdown or a runner's command: escaped or fenced."""

from __future__ import annotations

import re
from collections.abc import Iterable

from workbench.views.text.safe_output import ascii_minus, block, visible

_ACTIVE = re.compile(r"[\\*_\[\]<>&|~$]")
#: Matches text that a forge takes for a person, an issue or a label. The forge reads the rendered
#: text, so a backslash does not help, but an invisible character does.
_REFERENCE = re.compile(r"(?<=[@!%])(?=\w)|(?<=(?<!&)#)(?=\w)")
#: Matches the beginning of a line that makes it a list, a heading, a quotation or a rule.
_LEADING = re.compile(r"^(\s*)(?:([#+=>-])|(\d+)([.)]))")
_BLANKS = re.compile(r"\s+")
_TICKS = re.compile(r"`+")


def inline(text: str) -> str:
    """`text` inside a line of Markdown, shown as it is."""
    flat = ascii_minus(visible(_BLANKS.sub(" ", text)))
    # A backslash would not separate a backtick from a following code span's fence.
    escaped = _ACTIVE.sub(r"\\\g<0>", flat).replace("`", "&#96;")
    return _REFERENCE.sub("&#8203;", escaped)


def paragraph(text: str) -> str:
    """`text` as its own paragraph."""
    return whole_line(inline(text).strip())


def whole_line(markdown: str) -> str:
    """Markdown at the beginning of a line, escaped so that it is no list, heading or quotation."""
    return _LEADING.sub(_escaped, markdown)


def sentence(text: str) -> str:
    """The sentence in Markdown; names between backticks become code."""
    pieces = re.split(r"`([^`]+)`", text)
    # Every second piece is a name.
    told = [code(piece) if place % 2 else inline(piece) for place, piece in enumerate(pieces)]
    return whole_line("".join(told))


def _escaped(match: re.Match[str]) -> str:
    blank, mark, number, dot = match.groups()
    return f"{blank}\\{mark}" if mark else f"{blank}{number}\\{dot}"


def code(text: str) -> str:
    """`text` as a code span, even with backticks in it; not for a table's cells."""
    flat = visible(_BLANKS.sub(" ", text).strip())
    if not flat:
        return ""
    fence = "`" * (_longest_run(flat) + 1)
    # Markdown removes a space at each end, which separates a backtick there from the fence.
    pad = " " if flat[0] in "` " or flat[-1] in "` " else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def fenced(lines: Iterable[str], language: str) -> str:
    """A code block that its lines cannot end."""
    body = [visible(line.replace("\r", "")) for line in lines]
    fence = "`" * max(3, _longest_run("\n".join(body)) + 1)
    return "\n".join([fence + language, *body, fence])


def _longest_run(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)


def command_data(text: str) -> str:
    """A text in a command to a GitHub runner."""
    return ascii_minus(block(text)).replace("%", "%25").replace("\n", "%0A")


def command_property(text: str) -> str:
    """The value of a property of such a command."""
    return command_data(text).replace(":", "%3A").replace(",", "%2C")
