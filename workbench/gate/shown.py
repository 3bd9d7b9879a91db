"""The result of ``workbench check``: on a terminal, as JSON, JUnit, annotations, a comment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from msgspec import UNSET
from rich.console import Group, RenderableType
from rich.table import Table

from workbench import __version__
from workbench.analysis.times.regression import Turns
from workbench.gate.claims import Ruling
from workbench.gate.documents import CheckDocument, ClaimFacts, GateFacts, MeasuredTurns
from workbench.gate.judging import Past
from workbench.gate.rules import Gate, overall
from workbench.language import N_, _, ngettext, told
from workbench.units import count, several
from workbench.views.shapes import Json, shaped
from workbench.views.terminal.console import BAD, DIM, GOOD, HEAD, WARN, Text
from workbench.views.text.escaping import command_data, command_property, inline
from workbench.views.text.markdown import LIMIT, collapsed
from workbench.views.text.safe_output import ascii_minus, quoted

_TALLY = {
    "pass": N_("{n} passed"),
    "fail": N_("{n} failed"),
    "inconclusive": N_("{n} inconclusive"),
}
#: GitHub shows a failed gate as an error on its line, and an unjudged one as a warning.
_LEVEL = {"fail": "error", "inconclusive": "warning"}
#: Characters other than controls that XML 1.0 forbids, even escaped.
_NOT_XML = dict.fromkeys((65534, 65535), "·")
_STYLE = {"pass": GOOD, "fail": BAD, "inconclusive": WARN}
_GATE_TABLE = LIMIT // 4  # characters of one table
_VERDICTS = {
    "pass": N_("The gate passed"),
    "fail": N_("The gate failed"),
    "inconclusive": N_("The gate is inconclusive, which does not count as a pass"),
}

#: Up to this many gates, passed ones are listed by default.
_GATES = 20
_WORST_FIRST = (N_("fail"), N_("inconclusive"), N_("pass"))


def summary(gates: Sequence[Gate]) -> str:
    """``3 passed, 1 failed``."""
    tally = Counter[str](gate.status for gate in gates)
    parts = [_(text).format(n=count(tally[each])) for each, text in _TALLY.items() if tally[each]]
    return _(", ").join(parts) or _("nothing was checked")


def check_document(past: Past) -> Json:
    """The JSON document; `measured` are the pairs that ran alternately on a GPU, in seconds."""
    return CheckDocument(
        status=overall(past.gates),
        gates=[shaped(gate, GateFacts, line=gate.line or None) for gate in past.gates],
        measured=[_measured(each) for each in past.turns] or UNSET,
        claim=shaped(past, ClaimFacts) if isinstance(past, Ruling) else UNSET,
    ).plain()


def _measured(turns: Turns) -> MeasuredTurns:
    old, new = turns.samples
    return shaped(turns, MeasuredTurns, silence=turns.silence or None, old_s=old, new_s=new)


def junit(gates: Sequence[Gate], command: str = "check") -> str:
    """JUnit XML: a test suite per version; an unjudged gate counts as skipped."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuites name="workbench {command}">']
    for version in dict.fromkeys(gate.version for gate in gates):
        own = [gate for gate in gates if gate.version == version]
        tally = Counter[str](gate.status for gate in own)
        lines.append(
            f"  <testsuite name={_attribute(version)} "
            f'tests="{len(own)}" failures="{tally["fail"]}" skipped="{tally["inconclusive"]}">'
        )
        for gate in own:
            name = _attribute(f"{gate.kind}: {gate.name}")
            place = f" file={_attribute(gate.file)}" + (f' line="{gate.line}"' if gate.line else "")
            lines.append(f"    <testcase classname={_attribute(version)} name={name}{place}>")
            message = _attribute(gate.message)
            if gate.status == "fail":
                text = escape(_xml(gate.message))
                lines.append(f"      <failure message={message}>{text}</failure>")
            elif gate.status == "inconclusive":
                lines.append(f"      <skipped message={message}/>")
            lines.append("    </testcase>")
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _attribute(text: str) -> str:
    return quoteattr(_xml(text))


def _xml(text: str) -> str:
    return ascii_minus(quoted(text)).translate(_NOT_XML)


def github(gates: Sequence[Gate], below: str = "") -> str:
    """Workflow commands of GitHub Actions: annotations on the lines of the version files.

    `below` is the project's folder in the repository, with a slash at its end.
    """
    lines = []
    loud = {(g.version, g.status, g.line, g.message): g for g in gates if g.status in _LEVEL}
    for gate in loud.values():
        place = f"file={command_property(below + gate.file)},line={max(1, gate.line)},"
        title = f"title={command_property(f'{gate.version}: {gate.name}')}"
        where = f"{place}{title}" if gate.file else title
        lines.append(f"::{_LEVEL[gate.status]} {where}::{command_data(told(gate.message))}")
    return "\n".join([*lines, summary(gates)]) + "\n"


def gates_markdown(gates: Sequence[Gate], steps: Sequence[str] = (), head: str = "") -> str:
    """The comment on gates that passed or failed, within GitHub's limit for one.

    `steps` are differences in the words of `step_markdown`; those that do not fit are counted.
    `head` replaces the common verdict.
    """
    loud = [gate for gate in gates if gate.status != "pass"]
    quiet = [gate for gate in gates if gate.status == "pass"]
    head = inline(head) or _(_VERDICTS[overall(gates)])
    out = [f"**{head}**{_(': ')}{summary(gates)}{_('.')}\n"]
    if loud:
        out.append(_gate_table(loud, _GATE_TABLE))
    if quiet:
        passed = ngettext("{n} gate passed", "{n} gates passed", len(quiet))
        passed = passed.format(n=count(len(quiet)))
        out.append(collapsed(passed, _gate_table(quiet, _GATE_TABLE)))
    for place, step in enumerate(steps):
        block = collapsed(_("What moved"), step)
        if sum(map(len, out)) + len(block) > LIMIT:
            left = several(len(steps) - place, "difference")
            out.append(_("{differences} are not shown here.").format(differences=left) + "\n")
            break
        out.append(block)
    return "\n".join([*out, f"<sub>workbench {__version__}</sub>\n"])


def _gate_table(gates: Sequence[Gate], room: int) -> str:
    """The rows that fit into `room` characters, and how many are left out."""
    lines = [f"| {_('version')} | {_('gate')} | | |", "| --- | --- | --- | --- |"]
    size = sum(map(len, lines))
    for place, gate in enumerate(gates):
        at = f" ({inline(gate.file)}:{gate.line})" if gate.line else ""
        cells = map(inline, (gate.version, gate.name, _(gate.status)))
        row = f"| {' | '.join(cells)} | {inline(told(gate.message))}{at} |"
        size += len(row) + 1
        if size > room:
            lines.append(f"| … | {several(len(gates) - place, 'more gate')} | | |")
            break
        lines.append(row)
    return "\n".join(lines) + "\n"


def check_view(gates: Sequence[Gate], *, passed: bool = False, head: str = "") -> RenderableType:
    """Count the gates and list failed ones by version; passed ones too, if `passed` or few."""
    listed = passed or len(gates) <= _GATES
    first = f"{head}{_(': ')}{summary(gates)}" if head else summary(gates)
    parts: list[RenderableType] = [Text(first, style=_STYLE[overall(gates)])]
    for status in _WORST_FIRST:
        own = [gate for gate in gates if gate.status == status]
        if not own or (status == "pass" and not listed):
            continue
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        version = ""
        for gate in own:
            if gate.version != version:
                version = gate.version
                table.add_row(Text(version, style=HEAD), "")
            text = Text(told(gate.message))
            if gate.line and status != "pass":
                text.append(f"  {gate.file}:{gate.line}", style=DIM)
            table.add_row(Text(f"  {_(status)}", style=_STYLE[status]), text)
        parts += [Text(), table]
    if not listed and any(gate.status == "pass" for gate in gates):
        parts += [Text(), Text(_("--passed lists what passed as well."), style=DIM)]
    return Group(*parts)
