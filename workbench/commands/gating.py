"""What ``check`` compares a version with besides its parent: its own past.

``--against DIR|REV`` measures or counts both states now; ``--baseline NAME`` reads the recorded
time beside the runs that were kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from workbench.analysis.gates import Gate, Rules, inconclusive, unchanged
from workbench.errors import UsageError, WorkbenchError
from workbench.model import Record, Timing

if TYPE_CHECKING:
    from workbench.analysis.regression import Turns
    from workbench.commands.targets import Selection
    from workbench.engines import RunOptions
    from workbench.measure.against import Before, BothCounted, Edited, Outcome
    from workbench.project import Project
    from workbench.specs import Version
    from workbench.store import Store
    from workbench.store.baselines import Baselines

#: Counters that are gated without a clock where the project names none: what the emulator knows
#: exactly, and a slower kernel mostly has more of.
COUNTED = ("instructions", "global_sectors", "shared_wavefronts")


class Keeping(NamedTuple):
    """What becomes of the run that is judged: ``--keep``, ``--accept`` and ``--run``."""

    keep: bool
    accept: bool
    run: str


class Past(Record, frozen=True):
    """The gates of versions against their past, and what was measured for them."""

    gates: tuple[Gate, ...]
    turns: tuple[Turns, ...] = ()
    counted: tuple[BothCounted, ...] = ()


# --- a revision ----------------------------------------------------------------------------


def against(
    names: Sequence[str],
    where: str,
    selection: Selection,
    run: RunOptions,
    rules: Rules,
    *,
    every: bool,
) -> Past:
    """Versions against their state elsewhere; without names, those that were changed.

    Args:
        names: As they were typed.
        where: A folder that holds the project as it was, or a Git revision.
        selection: Study, problem and engine.
        run: Where and how versions run.
        rules: What is allowed.
        every: Without names, those too that nobody changed.

    Raises:
        UsageError: no such folder or revision, an unknown version, versions of several studies.
        MissingError: neither a GPU nor a compiler for the emulator is here.
    """
    from msgspec.structs import replace

    from workbench.analysis.regression import Turns
    from workbench.commands.progress import Progress
    from workbench.commands.targets import Named
    from workbench.engines import fresh_seed
    from workbench.engines.choice import choose
    from workbench.measure.against import BothCounted, changes, measure

    named = Named(tuple(names), every=not names, study=selection.study, problem=selection.problem)
    project, study, versions = named.pick()
    if run.seed is None:
        run = replace(run, seed=fresh_seed())  # both states on the same inputs
    say = Progress().say
    with _before(project, where) as before:
        found = {each.version.id: each for each in changes(project, study, before)}
        wanted = [found[each.id] for each in versions if each.id in found]
        gates: list[Gate] = []
        turns: list[Turns] = []
        counted: list[BothCounted] = []
        pairs: list[tuple[Version, Version]] = []
        for each in wanted:
            if each.old is not None and (names or every or not each.same):
                pairs.append((each.old, each.version))
            else:
                gates.append(_quiet(each, before))
        if pairs:
            wish = selection.engine or ("auto" if rules.timed else "emulator")
            engine = choose(wish, project, run, say)
            say(
                engine.profile_line
                if engine.gpu is None
                else "engine: the GPU, both states in turns"
            )
            engines = (choose(engine.name, before.project, run, say), engine)
            for version, outcome in measure(engines, study, pairs, before, selection.problem):
                line = _first_change(found[version.id])
                gates += (replace(each, line=line) for each in _judged(version, outcome, rules))
                if isinstance(outcome, Turns):
                    turns.append(outcome)
                elif isinstance(outcome, BothCounted):
                    counted.append(outcome)
    return Past(gates=tuple(gates), turns=tuple(turns), counted=tuple(counted))


def _first_change(edited: Edited) -> int:
    """The first line of the version's file that is another; 0: its file is the same."""
    old, new = (each.text.splitlines() for each in (edited.old or edited.version, edited.version))
    both = enumerate(zip_longest(old, new), 1)
    return next((min(line, len(new)) for line, (a, b) in both if a != b), 0)


@contextlib.contextmanager
def _before(project: Project, where: str) -> Iterator[Before]:
    """The project as it was: a folder, or else where it lies in a worktree of a revision.

    Raises:
        UsageError: no such folder or revision, or no project in it.
    """
    from workbench.capture.revisions import commit_of, repository, worktree
    from workbench.measure.against import Before

    if Path(where).is_dir():
        yield Before(_project(Path(where), where), Path(where).resolve().name)
        return
    with worktree(project.root, where) as tree:
        root = repository(project.root)
        assert root is not None  # there is a worktree of it
        place = tree / project.root.resolve().relative_to(root.resolve())
        yield Before(_project(place, where), commit_of(root, where)[:7])


def _project(place: Path, where: str) -> Project:
    from workbench.project import find_project

    found = find_project(place) if place.is_dir() else None
    if found is None or found.root != place.resolve():
        raise UsageError(
            f"{where} is not a workbench project", "Name a folder or a revision that has one."
        )
    return found


def _quiet(change: Edited, before: Before) -> Gate:
    """The gate of what need not be measured."""
    version = change.version
    label = f"{version.study}/{version.id}"
    if change.old is None:
        word = f"new since {before.label}; `workbench check` compares it with its parent"
    else:
        word = f"the same sources as at {before.label}"
    return unchanged(label, version.path, word)


def _judged(version: Version, outcome: Outcome, rules: Rules) -> list[Gate]:
    from msgspec.structs import replace

    from workbench.analysis.gates import broken, check_step, turns_gate
    from workbench.errors import KernelError
    from workbench.measure.against import BothCounted

    label, file = f"{version.study}/{version.id}", version.path
    if isinstance(outcome, KernelError):
        return [broken(label, file, outcome.message)]
    if isinstance(outcome, WorkbenchError):
        return [inconclusive(label, file, outcome.message)]
    if not isinstance(outcome, BothCounted):
        return [turns_gate(outcome, rules, label=label, file=file)]
    counters = rules.counters or dict.fromkeys(COUNTED, rules.max_regression)
    counted = replace(rules, timed=False, require_expectations=False, counters=counters)
    return list(check_step(outcome.comparison, (), counted, version=label, file=file))


# --- a baseline ----------------------------------------------------------------------------


def beside_baseline(
    names: Sequence[str], baseline: str, selection: Selection, rules: Rules, keeping: Keeping
) -> Past:
    """Recorded times beside the kept runs of their version, problem and device.

    Raises:
        UsageError: an unknown version, or no time is recorded of one that was named.
        DataError: the baseline is damaged.
        MissingError: a run cannot be kept.
    """
    from msgspec.structs import replace

    from workbench.capture.shelf import FOLDER
    from workbench.commands.targets import Named
    from workbench.store import Store
    from workbench.store.baselines import Baselines

    named = Named(tuple(names), every=not names, study=selection.study, problem=selection.problem)
    project, study, versions = named.pick(run=False)
    store, kept = Store(project.profiles), Baselines(project.root / FOLDER / "baselines", baseline)
    wish = replace(selection, problem=study.problem(selection.problem).name)
    found = {
        version.id: _of_device(store, study.name, version.id, wish)
        for version in versions
        if names or not version.baseline
    }
    newest = max((each for times in found.values() for each in times), key=_age, default=None)
    gates: list[Gate] = []
    for version in versions:
        times = found.get(version.id, [])
        if names and not times:
            raise UsageError(
                f"no time of {study.name}/{version.id} on {wish.problem} is recorded",
                f"`workbench time {study.name}/{version.id} --problem {wish.problem}` takes it.",
            )
        for each in times:
            # One device, as everywhere: the one that a time was taken on last.
            if newest is not None and each.device.slug == newest.device.slug:
                gates.append(_beside(project, version, each, kept, rules, keeping))
    return Past(gates=tuple(gates))


def _of_device(store: Store, study: str, version: str, wish: Selection) -> list[Timing]:
    from workbench.store import device_slug

    slug = device_slug(wish.device) if wish.device else None
    return store.timings(study=study, version=version, problem=wish.problem, device=slug)


def _age(timing: Timing) -> str:
    return timing.captured


def _beside(
    project: Project,
    version: Version,
    timing: Timing,
    kept: Baselines,
    rules: Rules,
    keeping: Keeping,
) -> Gate:
    from workbench.analysis.gates import run_gate
    from workbench.store.baselines import BaselineRun, disturbed
    from workbench.study.sources import source_hash

    run = BaselineRun.of(timing, keeping.run)
    runs = [each for each in kept.runs(timing) if run.like(each) and not run.again(each)]
    label = f"{version.study}/{version.id}"
    trouble = disturbed(timing)
    if timing.source_hash not in ("", source_hash(project, version)):
        trouble = f"the recorded time is of another state of {version.path}"
    if trouble:
        return inconclusive(label, version.path, f"{timing.problem}: {trouble}")
    gate = run_gate(timing, [each.time for each in runs], rules, label=label, file=version.path)
    if keeping.accept or (keeping.keep and gate.status != "fail"):
        kept.keep(timing, run, rules.baseline_runs, anew=keeping.accept)
    return gate
