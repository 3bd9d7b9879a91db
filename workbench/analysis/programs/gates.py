"""Gates of a program: the same rules as for a version, applied to two captures.

The program's time is judged by its interval where both sides have several runs; where they have
not, a regression must also leave what two durations of one program may differ by. The counters
and limits of the rules are judged for every kernel whose change matters; without times, those
counters that versions without times are judged by.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from workbench.analysis.gates import Gate, Rules, check_step, inconclusive
from workbench.analysis.programs.program import KernelStep, ProgramDifference
from workbench.analysis.programs.words import counts_change
from workbench.analysis.times.regression import Status
from workbench.counters import catalog
from workbench.language import _
from workbench.units import quantity, relative, signed, span


def check_programs(
    difference: ProgramDifference, steps: Iterable[KernelStep], rules: Rules
) -> tuple[Gate, ...]:
    """All gates of the step from one capture to another.

    Args:
        difference: Of the two.
        steps: The kernels that matter; they are told only where the rules ask for counters.
        rules: What is allowed; expectations are of versions, and not asked for here.
    """
    label = f"@{difference.new.name}"
    gates = [
        inconclusive(label, "", _("compared by force: {reason}").format(reason=reason))
        for reason in difference.reasons
    ]
    if rules.timed and difference.tried:
        gates.append(inconclusive(label, "", difference.tried))
    elif rules.timed and difference.timed:
        status, message = _time(difference, rules.max_regression)
        gates.append(
            Gate(
                version=label,
                kind="regression",
                name=_("time on the GPU"),
                status=status,
                message=message,
            )
        )
    if not difference.timed and not difference.moved:
        said = counts_change(difference)
        gates.append(
            Gate(version=label, kind="regression", name=_("counts"), status="pass", message=said)
        )
    if rules.counters or rules.limits or not difference.timed:
        of_kernels = replace(rules, timed=False, require_expectations=False)
        for step in steps:
            kernel = f"{label}::{step.row.name}"
            if step.comparison is None:
                gates.append(inconclusive(kernel, "", step.silence))
                continue
            gates += check_step(step.comparison, (), of_kernels, version=kernel, file="")
    return tuple(gates)


def _time(difference: ProgramDifference, allowed: float) -> tuple[Status, str]:
    """Whether the program became slower by more than `allowed` percent."""
    old, new = difference.totals
    change = difference.change_s
    text = f"{quantity(old.value, 's')} → {quantity(new.value, 's')}, "
    text += relative(old.value, new.value)
    if difference.interval_known:
        text += f" ({span(signed(change.low, 's'), signed(change.high, 's'))})"
        worse = change.low
    else:
        text += _(" (one run, no interval)")
        worse = change.value - catalog()["duration"].noise * max(old.value, new.value)
    if worse > old.value * allowed / 100:
        slowest = max(
            difference.rows,
            key=lambda row: difference.seconds(row)[1] - difference.seconds(row)[0],
        )
        before, after = difference.seconds(slowest)
        text += _("; most of it {name}, {before}").format(
            name=slowest.name, before=signed(after - before, "s")
        )
        return "fail", _("slower than allowed ({allowed:g}%): {text}").format(
            allowed=allowed, text=text
        )
    return "pass", text
