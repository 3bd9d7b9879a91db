"""The screen of ``workbench run``: kernels with their counts, faults, and the checks that ran."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from msgspec.structs import replace

from workbench.language import _, told
from workbench.programs.documents import FaultFacts, RunDocument
from workbench.units import count, quantity, several
from workbench.views.sheets import Sheet, noted
from workbench.views.text.escaping import command_data, command_property


def run_sheet(run: RunDocument, kernels: Sheet | None) -> Sheet:
    """One screen; without a sheet of kernels, nothing was launched."""
    title = _("{launches} in {time}").format(
        launches=several(run.launches, "launch", "launches"), time=quantity(run.seconds, "s")
    )
    if run.repeated:
        title += _("; {n} repeated others on the same memory, and were not run again").format(
            n=count(run.repeated)
        )
    if run.failed:
        title += _("; {launches} failed").format(launches=several(run.failed, "launch", "launches"))
    notes = [line for fault in run.faults for line in fault_lines(fault)]
    notes += [noted(text) for text in run.notices]
    if run.stopped:
        notes.append(_("stopped: {why}").format(why=told(run.stopped)))
    faults = several(len(run.faults), "fault") if run.faults else _("no fault found")
    checked = _("{faults}; checked: {checks}").format(
        faults=faults, checks=", ".join(_(each) for each in run.checks)
    )
    if not run.launches and not run.faults:
        checked = _("nothing was checked: no launch ran")
    base = kernels or Sheet(header=(), shown=())
    return replace(
        base,
        title=(title,),
        notes=(*notes, checked),
        document=run.plain(),
        raw=base.raw,
    )


def fault_lines(fault: FaultFacts) -> list[str]:
    """A fault: its kind, place and launch, and the advice."""
    where = _("in launch {n} of the program, kernel {kernel}").format(
        n=count(fault.launch), kernel=fault.kernel
    )
    if fault.count > 1:
        where += _("; in {n} launches").format(n=count(fault.count))
    lines = [told(fault.message), f"  {where}"]
    return [*lines, f"  {told(fault.hint)}"] if fault.hint else lines


def workflow_commands(faults: Sequence[FaultFacts], root: PurePath) -> str:
    """Workflow commands of GitHub Actions at the lines of faults, with paths relative to `root`."""
    lines = []
    for fault in faults:
        path = PurePath(fault.path)
        shown = path.relative_to(root) if path.is_relative_to(root) else path
        place = f"file={command_property(str(shown))},line={max(1, fault.line)},"
        title = f"title={command_property(fault.kind)}"
        where = f"{place}{title}" if fault.path else title
        lines.append(f"::error {where}::{command_data(told(fault.message))}")
    return "".join(f"{line}\n" for line in lines)
