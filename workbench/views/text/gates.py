"""The answer of ``workbench check`` as a comment on a merge request: ``--format markdown``.

The verdict first, then every gate that did not pass, then the others and what moved, folded away.
What comes from files and people is text here as in `workbench.views.text.markdown`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workbench import __version__
from workbench.analysis.gates import Gate, overall
from workbench.units import several
from workbench.views.sheets.check import summary
from workbench.views.text.escaping import inline
from workbench.views.text.markdown import LIMIT

_TABLE = LIMIT // 4  # characters of one table
_VERDICTS = {
    "pass": "The gate passed",
    "fail": "The gate failed",
    "inconclusive": "The gate is inconclusive, which is no pass",
}


def gates_markdown(gates: Sequence[Gate], steps: Sequence[str] = ()) -> str:
    """The comment, below what GitHub takes in one.

    Args:
        gates: All of them, passed ones included.
        steps: Differences as `workbench.views.text.markdown` tells them; those that find no room
            are counted.
    """
    loud = [gate for gate in gates if gate.status != "pass"]
    quiet = [gate for gate in gates if gate.status == "pass"]
    out = [f"**{_VERDICTS[overall(gates)]}**: {summary(gates)}.\n"]
    if loud:
        out.append(_table(loud, _TABLE))
    if quiet:
        out.append(_folded(f"{several(len(quiet), 'gate')} passed", _table(quiet, _TABLE)))
    for place, step in enumerate(steps):
        block = _folded("What moved", step)
        if sum(map(len, out)) + len(block) > LIMIT:
            out.append(f"{several(len(steps) - place, 'difference')} found no room here.\n")
            break
        out.append(block)
    return "\n".join([*out, f"<sub>workbench {__version__}</sub>\n"])


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n</details>\n"


def _table(gates: Sequence[Gate], room: int) -> str:
    """The rows that fit into so many characters, and how many are left out."""
    lines = ["| version | gate | | |", "| --- | --- | --- | --- |"]
    size = sum(map(len, lines))
    for place, row in enumerate(_rows(gates)):
        size += len(row) + 1
        if size > room:
            lines.append(f"| … | {several(len(gates) - place, 'more gate')} | | |")
            break
        lines.append(row)
    return "\n".join(lines) + "\n"


def _rows(gates: Sequence[Gate]) -> Iterator[str]:
    for gate in gates:
        place = f" ({inline(gate.file)}:{gate.line})" if gate.line else ""
        cells = (gate.version, gate.name, gate.status)
        yield f"| {' | '.join(map(inline, cells))} | {inline(gate.message)}{place} |"
