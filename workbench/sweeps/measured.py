"""A sweep on the GPUs: every version of a study at every size, in turn with the baseline."""

from __future__ import annotations

from collections.abc import Callable

from workbench.engines import RunOptions
from workbench.errors import MissingError
from workbench.measure.experiment import Display
from workbench.measure.plan import plan, sweep_problems
from workbench.session.runners import VersionRuns
from workbench.session.times import measure, need_one_model
from workbench.session.workspace import Manner
from workbench.sweeps.recorded import Sweep, sweep_of
from workbench.sweeps.scope import SweepScope


def sweep(
    scope: SweepScope,
    run: RunOptions,
    display: Display,
    manner: Manner,
    go_on: Callable[[str], str],
    show: Callable[[list[Sweep]], None],
    format_: str,
) -> None:
    """Time every version at every size, in turn with the baseline.

    `go_on` gives the command that goes on with an interrupted sweep, from when it began. `show` is
    called with a table for each model of GPU, and prints them as `format_`.

    Raises:
        UsageError: an unknown study, version or problem; several models, and one table is printed.
        MissingError: no GPU to run on; nothing was timed.
    """
    named, picked = scope.pick(run=True)
    runs = VersionRuns(named, picked, run, display, alone=False, workers=manner.workers)
    wanted = plan(runs.study, runs.versions, sweep_problems(runs.study, scope.patterns))
    try:
        found = measure(runs, wanted.combinations, manner, lambda begin: f": {go_on(begin)}")
    except MissingError as error:
        hint = "`workbench sweep --recorded` shows the times that are stored."
        raise MissingError(error.message, f"{error.hint} {hint}") from error
    refused = wanted.refused
    tables = [
        sweep_of(
            runs.study,
            runs.versions,
            wanted,
            each.timings,
            {**refused, **each.gaps},
            manner.sampling.cache,
        )
        for each in found
        if each.timings
    ]
    need_one_model(found, format_)
    show(tables)
    runs.failures.finish()
    if not tables:
        gone = [gap for each in found for gap in each.gaps.values()]
        why = next(iter((*gone, *refused.values())), None)
        raise MissingError(
            "nothing was timed" + (f": {why.why}" if why else ""),
            "Name versions and problems that can run here.",
        )
