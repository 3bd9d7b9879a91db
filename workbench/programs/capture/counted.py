"""A capture made without a GPU: a program's launches in the emulator, and their counts.

Its survey has the launches of each kernel, their shapes and their order, with counts in place of a
traced run's times; its detailed profile is the emulator's.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

from msgspec.structs import replace

from workbench import __version__
from workbench.engines import now
from workbench.errors import UsageError
from workbench.model import (
    Capture,
    Config,
    Device,
    Dim3,
    Launch,
    Notice,
    Profile,
    Record,
    SourceFile,
)
from workbench.programs.capture.capture_store import Shelf, check_name
from workbench.programs.capture.records import (
    Counted,
    ProgramCapture,
    ProgramRun,
    Shape,
    Survey,
    TracedLaunch,
    Work,
)
from workbench.programs.capture.taking import Neutral, Taken, default_name, root_of, with_texts
from workbench.programs.capture.trace import Trace, survey_of
from workbench.revisions import state_of

_EMULATED = Notice(
    "emulated",
    "Counted on a CPU from the program's PTX: exact where it follows from addresses; nothing is "
    "known about time, stalls and caches. Counters whose names contain ptx__ count PTX "
    "instructions, not machine instructions.",
)


class CountedLaunch(Record, frozen=True):
    """One launch of the program, or `times` equal ones in a row; `counted` is for one of them.

    `symbol` is the function's name in the PTX.
    """

    symbol: str
    grid: Dim3
    block: Dim3
    dynamic_shared: int = 0
    counted: Counted = Counted()
    times: int = 1
    stream: int = 0
    process: int = 0


class CountedRun(Record, frozen=True):
    """One run of a program in the emulator.

    `launches` are all launches in order. `details` are the launches that are kept with their
    instructions and lines, at least one of each kernel, as `record.launch_records` makes them, each
    with its symbol. `sources` are the files that their instruction tables refer to, with absolute
    paths or those in the PTX (missing texts are searched for below `folder`).
    """

    command: tuple[str, ...]
    folder: Path
    launches: tuple[CountedLaunch, ...]
    details: tuple[tuple[str, Launch], ...]
    sources: tuple[SourceFile, ...]
    device: Device
    wall_s: float = 0.0
    processes: int = 1
    notices: tuple[Notice, ...] = ()


def keep_counted(
    run: CountedRun, shelf: Shelf, name: str | None = None, source: str | None = None
) -> Taken:
    """Keep a run as a capture; without a name, it is named after the state of the sources.

    Raises:
        UsageError: an unfit name, no launches, or `source` holds none of the files.
        MissingError: no space, no permission.
    """
    capture, profile = counted_capture(run, name, source)
    return Taken(capture, *shelf.save(capture, profile if capture.detail else None))


def counted_capture(
    run: CountedRun, name: str | None = None, source: str | None = None
) -> tuple[ProgramCapture, Profile]:
    """A run as the records of a capture, without storing it; see `keep_counted`."""
    if not run.launches:
        raise UsageError("the program launched no kernel", "Check its arguments.")
    state, neutral = state_of(run.folder), Neutral(root_of(run.folder))
    survey = _survey(run)
    places = {work.symbol: place for place, work in enumerate(survey.works)}
    found = [(places[symbol], launch) for symbol, launch in run.details if symbol in places]
    tools, captured = {"workbench": __version__}, now()
    profile = Profile(
        engine="emulator",
        device=run.device,
        captured=captured,
        launches=tuple(replace(launch, index=n) for n, (_, launch) in enumerate(found)),
        tools=tools,
        capture=Capture(command=run.command, wall_s=run.wall_s),
        sources=run.sources,
        notices=(_EMULATED, *run.notices),
    )
    capture = ProgramCapture(
        name=check_name(name or default_name(state)),
        command=neutral.words(run.command),
        captured=captured,
        survey=survey,
        folder=os.path.relpath(run.folder.resolve(), neutral.root),
        state=state,
        device=run.device,
        tools=tools,
        detail=tuple(place for place, _ in found),
        notices=tuple(replace(each, message=neutral(each.message)) for each in run.notices),
    )
    return capture, neutral.profile(with_texts(profile, run.folder, source))


def _survey(run: CountedRun) -> Survey:
    """As for a traced run: each launch's weight serves as its duration; counts replace times."""
    traced: list[TracedLaunch] = []
    of_work: dict[str, Counted] = defaultdict(Counted)
    of_shape: dict[tuple[str, Config], Counted] = defaultdict(Counted)
    at = 0
    for one in run.launches:
        config = one.grid, one.block, one.dynamic_shared
        of_work[one.symbol] = of_work[one.symbol].plus(one.counted, one.times)
        key = one.symbol, config
        of_shape[key] = of_shape[key].plus(one.counted, one.times)
        for _ in range(one.times):
            end = at + one.counted.weight
            traced.append(
                TracedLaunch(one.symbol, one.process, 0, one.stream, False, at, end, *config)
            )
            at = end

    def shape(work: Work, own: Shape) -> Shape:
        return replace(own, total_ns=0, counted=of_shape[work.symbol, own.config])

    survey = survey_of([Trace(launches=tuple(traced), processes=run.processes)], [0.0], "emulator")
    works = tuple(
        replace(
            work,
            total_ns=(),
            quantiles_ns=(),
            ranks_ns=(),
            shapes=tuple(shape(work, own) for own in work.shapes),
            counted=of_work[work.symbol],
        )
        for work in survey.works
    )
    runs = (ProgramRun(wall_s=run.wall_s, processes=run.processes),)
    return replace(survey, works=works, runs=runs, steady=None, ranks=())
