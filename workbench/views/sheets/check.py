"""The result of ``workbench check`` in words, as JSON, JUnit XML or GitHub annotations.

As Markdown, for a comment, it is in `workbench.views.text.markdown`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from msgspec import UNSET

from workbench.analysis.gates import Gate, overall
from workbench.analysis.times.regression import Turns
from workbench.language import N_, _, told
from workbench.units import count
from workbench.views.shapes import Json, shaped
from workbench.views.shapes.measured import CheckDocument, GateFacts, MeasuredTurns
from workbench.views.text.door import block, quoted

_TALLY = {
    "pass": N_("{n} passed"),
    "fail": N_("{n} failed"),
    "inconclusive": N_("{n} inconclusive"),
}
#: GitHub shows a failed gate as an error on its line, and what could not be judged as a warning.
_LEVEL = {"fail": "error", "inconclusive": "warning"}
#: Characters that no XML 1.0 document may hold, not even escaped, and that are no controls.
_NOT_XML = dict.fromkeys((65534, 65535), "·")


def summary(gates: Sequence[Gate]) -> str:
    """``3 passed, 1 failed``."""
    tally = Counter[str](gate.status for gate in gates)
    parts = [_(text).format(n=count(tally[each])) for each, text in _TALLY.items() if tally[each]]
    return _(", ").join(parts) or _("nothing was checked")


def check_document(gates: Sequence[Gate], turns: Sequence[Turns] = ()) -> Json:
    """The JSON document; `measured` are the pairs of ``--against`` on a GPU, in seconds."""
    return CheckDocument(
        status=overall(gates),
        gates=[shaped(gate, GateFacts, line=gate.line or None) for gate in gates],
        measured=[_measured(each) for each in turns] or UNSET,
    ).plain()


def _measured(turns: Turns) -> MeasuredTurns:
    old, new = turns.samples
    return shaped(turns, MeasuredTurns, silence=turns.silence or None, old_s=old, new_s=new)


def junit(gates: Sequence[Gate]) -> str:
    """JUnit XML: a test suite per version; what could not be judged counts as skipped."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<testsuites name="workbench check">']
    for version in dict.fromkeys(gate.version for gate in gates):
        own = [gate for gate in gates if gate.version == version]
        failed = sum(gate.status == "fail" for gate in own)
        skipped = sum(gate.status == "inconclusive" for gate in own)
        lines.append(
            f"  <testsuite name={_attribute(version)} "
            f'tests="{len(own)}" failures="{failed}" skipped="{skipped}">'
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
    return quoted(text).translate(_NOT_XML)


def github(gates: Sequence[Gate], below: str = "") -> str:
    """Workflow commands of GitHub Actions: annotations on the lines of the version files.

    Args:
        gates: All of them.
        below: Where the project lies in the repository, with a slash at its end.
    """
    lines = []
    for gate in (gate for gate in gates if gate.status in _LEVEL):
        place = f"file={command_property(below + gate.file)},line={max(1, gate.line)},"
        title = f"title={command_property(f'{gate.version}: {gate.name}')}"
        where = f"{place}{title}" if gate.file else title
        lines.append(f"::{_LEVEL[gate.status]} {where}::{command_data(told(gate.message))}")
    return "\n".join([*lines, summary(gates)]) + "\n"


def command_data(text: str) -> str:
    """A text in a command to a runner of GitHub."""
    return block(text).replace("%", "%25").replace("\n", "%0A")


def command_property(text: str) -> str:
    """The value of a property of such a command."""
    return command_data(text).replace(":", "%3A").replace(",", "%2C")
