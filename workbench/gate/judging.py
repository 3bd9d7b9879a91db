"""Gates: a version against its parent, two programs, or a version against its own past.

`of_recorded` judges what is recorded. `against` measures or counts a version and its earlier
state now; `beside_baseline` compares its recorded time with the kept runs.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from workbench.analysis.expectations import judge
from workbench.analysis.times.regression import Status, Turns
from workbench.engines import RunOptions, fresh_seed
from workbench.engines.choice import choose
from workbench.errors import InconclusiveError, KernelError, UsageError, WorkbenchError
from workbench.gate.baselines import DISTURBED, BaselineRun, Baselines
from workbench.gate.earlier import (
    Before,
    BothCounted,
    Edited,
    Outcome,
    Verified,
    changes,
    measure,
    verified,
)
from workbench.gate.rules import (
    Gate,
    Rules,
    check_programs,
    check_step,
    inconclusive,
    read_rules,
    run_gate,
    turns_gate,
)
from workbench.language import _, told
from workbench.model import Record, Timing
from workbench.project import PRIVATE, Project, find_project
from workbench.revisions import commit_of, repository, worktree
from workbench.session.captures import captures
from workbench.session.measuring import Verified as VerifiedVersions
from workbench.session.step import Diff
from workbench.session.targets import Named, resolve
from workbench.session.workspace import Selection, Workspace, is_program, is_report
from workbench.specs import Version
from workbench.store import Store, device_slug
from workbench.study.folder import (
    Study,
    load_study,
    parse_targets,
    source_hash,
    study_names,
    view_study,
)
from workbench.study.sources import load_versions, local_sources, read_source


class Keeping(NamedTuple):
    """The options ``--keep``, ``--accept`` and ``--run``: keep the judged run, and how."""

    keep: bool
    accept: bool
    run_name: str


class Asked(Record, frozen=True):
    """The versions to judge, the choice of their recorded profiles, and the rules.

    `names` are as typed; without any, the gate chooses, or takes all possible ones with `every`.
    """

    names: tuple[str, ...]
    selection: Selection
    rules: Rules
    every: bool = False

    @property
    def named(self) -> Named:
        """The versions that are meant; all of the study if none is named."""
        where = self.selection
        return Named(self.names, every=not self.names, study=where.study, problem=where.problem)


class Past(Record, frozen=True):
    """The gates of versions against their past, and the measurements for them."""

    gates: tuple[Gate, ...]
    turns: tuple[Turns, ...] = ()
    counted: tuple[BothCounted, ...] = ()
    command: str = "check"


# --- what is recorded ------------------------------------------------------------------------


def rules_of(place: Workspace, *, timed: bool = True) -> Rules:
    """Read the project's rules (``[tool.workbench.check]``); captures need no project.

    Raises UsageError: rules that cannot be read.
    """
    project = find_project(place.start)
    settings = project.settings if project is not None else {}
    return replace(read_rules(settings), timed=timed)


def of_recorded(place: Workspace, asked: Asked, *, force: bool = False) -> Past:
    """Judge versions against their parents, one step, or two captured programs.

    `asked` names OLD NEW (versions, reports or captures), one version, or none: all with a
    recorded parent, of the default study or else of every one. `force` compares even incomparable
    ones.

    Raises:
        UsageError: targets that cannot be checked, or nothing is recorded of them.
        DataError: a damaged file.
    """
    targets, rules = asked.names, asked.rules
    if len(targets) > 2:
        raise UsageError(f"check takes OLD NEW or one version, not {len(targets)}", "Or use --all.")
    if len(targets) == 2 and all(map(is_program, targets)):
        return Past(gates=_of_programs(place, targets[0], targets[1], rules, force))
    for text in targets:
        if is_program(text):
            raise UsageError(
                f"{text} is a captured program, and is checked against another one",
                "Name both, the older one first: `workbench check @base @new`.",
            )
        if is_report(text) and len(targets) == 1:
            raise UsageError(
                f"{text} is a report, and is checked against another one",
                f"Name both, the older one first: `workbench check OLD.ncu-rep {text}`.",
            )
    if len(targets) == 2:
        return Past(gates=tuple(_of_step(place, (targets[0], targets[1]), asked, force)))
    return _of_each_study(place, asked, partial(_of_study, place, force=force))


def _of_each_study(place: Workspace, asked: Asked, judged: Callable[[Asked], Past]) -> Past:
    """The gates of the named targets; without any, and without a default study, of every study."""
    where = asked.selection
    if asked.names or where.study or place.project.default_study:
        return judged(asked)
    if not (studies := study_names(place.project)):
        return judged(asked)  # it reports the missing parent
    return _joined(
        [judged(replace(asked, selection=replace(where, study=study))) for study in studies]
    )


def _joined(found: list[Past]) -> Past:
    return Past(
        gates=tuple(gate for past in found for gate in past.gates),
        turns=tuple(turns for past in found for turns in past.turns),
        counted=tuple(both for past in found for both in past.counted),
    )


def _of_study(place: Workspace, asked: Asked, force: bool) -> Past:
    gates: list[Gate] = []
    if not asked.names:
        study = view_study(place.project, asked.selection.study or place.project.default_study)
        gates += _unread(study, {each.version for each in place.store.find(study=study.name)})
    for version in _meant(place, asked):
        label = f"{version.study}/{version.id}"
        if version.parent is None:
            gates.append(inconclusive(label, version.path, "it has no parent to compare with"))
            continue
        gates += _of_step(place, (f"{version.study}/{version.parent}", label), asked, force)
    return Past(gates=tuple(gates))


def _meant(place: Workspace, asked: Asked) -> list[Version]:
    """The named versions, or else all that are recorded together with their parents."""
    chosen = asked.selection.study
    if asked.names:
        pairs = parse_targets(asked.names, place.project, chosen)
        return [view_study(place.project, study).version(name) for study, name in pairs]
    study = view_study(place.project, chosen or place.project.default_study)
    recorded = {entry.version for entry in place.store.find(study=study.name)}
    return [
        version
        for version in study.versions.values()
        if version.id in recorded and version.parent in recorded
    ]


def _unread(study: Study, names: Collection[str], status: Status = "inconclusive") -> list[Gate]:
    """The gates of the named versions whose files cannot be used as they are now."""
    folder = f"kernels/{study.name}"
    return [
        _placed(replace(inconclusive(f"{study.name}/{name}", folder, error.message), status=status))
        for name, error in study.broken.items()
        if name in names
    ]


_PLACE = re.compile(r"(?:^|\s)(kernels/[^:\s]+\.\w+):(\d+)(?: \([^)]*\))?: ")


def _placed(gate: Gate) -> Gate:
    """The gate at the first line that its message names."""
    match = _PLACE.search(gate.message)
    return replace(gate, file=match[1], line=int(match[2])) if match else gate


def _of_step(place: Workspace, targets: tuple[str, str], asked: Asked, force: bool) -> list[Gate]:
    before, after = resolve(place, targets, asked.selection)
    version, label, file, rules = after.version, after.label, "", asked.rules
    if version is None:
        rules = replace(rules, require_expectations=False)  # a report states none
    else:
        label, file = f"{version.study}/{version.id}", version.path
    try:
        comparison = Diff(before, after, force=force).comparison
    except InconclusiveError as error:
        return [inconclusive(label, file, error.message)]
    judgements = judge(version.expectations if version else (), comparison)
    gates = [*check_step(comparison, judgements, rules, version=label, file=file)]
    for side in (before, after):
        if side.stale:
            gates.append(inconclusive(label, file, f"{side.label}: {side.notes[0]}"))
    return gates


def _of_programs(
    place: Workspace, old: str, new: str, rules: Rules, force: bool
) -> tuple[Gate, ...]:
    """The gates of the step from one capture to another."""
    captures(old)  # refused if the feature is missing
    from workbench.programs.session import ProgramMethods

    try:
        programs = ProgramMethods(place.start).diff_programs(old, new, force=force)
    except InconclusiveError as error:
        return (inconclusive(new, "", error.message),)
    return tuple(check_programs(programs.difference, programs.steps(), rules))


# --- a revision ----------------------------------------------------------------------------


def against(
    place: Workspace, asked: Asked, where: str, run: RunOptions, *, accept: bool = False
) -> Past:
    """Judge versions against their state elsewhere; without names, all changed ones.

    With `every` and no names, unchanged ones too. `where` is a folder with the earlier project, a
    Git revision, or a report: the named version's record is then compared with it. The rules are
    the earlier ones; `accept`: today's rules, and versions may be missing.

    Raises:
        UsageError: no such folder or revision, an unknown version, versions of several studies.
        MissingError: there is neither a GPU nor a compiler for the emulator.
    """
    if is_report(where):
        return of_recorded(place, replace(asked, names=(where, *asked.names)))
    project, study = place.project, asked.selection.study
    if run.seed is None:
        run = replace(run, seed=fresh_seed())  # both states on the same inputs
    with _before(project, where, place.say) as before:
        rules = asked.rules
        if not accept:
            rules = replace(read_rules(before.project.settings), timed=rules.timed)
        gates = [] if rules == asked.rules else [_limits(project, before, asked.rules, rules)]
        changed = [
            x for x in study_names(project) if _judge(project, x) != _judge(before.project, x)
        ]
        before = before._replace(restudied=changed)
        judged = partial(_against, place, before=before, run=run, accept=accept)
        asked = replace(asked, rules=rules)
        if asked.names or study:
            found = [judged(asked)]
        else:
            names = (*study_names(project), *study_names(before.project))
            each = [replace(asked.selection, study=name) for name in dict.fromkeys(names)]
            found = [judged(replace(asked, selection=one)) for one in each]
    whole = _joined(found)
    return replace(whole, gates=(*gates, *whole.gates))


def _limits(project: Project, before: Before, new: Rules, old: Rules) -> Gate:
    """The gate of changed rules: another person has to accept them."""
    names = [name for name in Rules.__struct_fields__ if getattr(old, name) != getattr(new, name)]
    said = ", ".join(f"{name} {getattr(old, name)} → {getattr(new, name)}" for name in names)
    text = _("[tool.workbench.check] differs from the one at {before} ({said}); --accept takes it")
    return inconclusive(project.root.name, "", text.format(before=before.label, said=said))


def _against(
    place: Workspace, asked: Asked, *, before: Before, run: RunOptions, accept: bool
) -> Past:
    rules, selection, name = asked.rules, asked.selection, asked.selection.study
    there = name in study_names(place.project)
    if not asked.names and not there and name in study_names(before.project):
        return Past(gates=(_lost(name or "", f"kernels/{name}", before, accept),))
    try:
        project, study, versions = asked.named.pick(place.project)
    except UsageError as error:
        if asked.names or not there:
            raise
        file = f"kernels/{name}/study.py"
        gate = Gate(name or "", "comparable", "comparable", "fail", error.message, file)
        return Past(gates=(_placed(gate),))
    changed = changes(project, study, before)
    found = {each.version.id: each for each in changed.edited}
    gates = [] if accept else _loosened(study, before)
    if not asked.names:
        gates += _unread(study, changed.broken, "fail")
        gates += _unread(study, study.broken.keys() - set(changed.broken))
        for each, now in changed.lost:
            gates.append(_lost(f"{study.name}/{each.id}", each.path, before, accept, now))
    pairs: list[tuple[Version, Version]] = []
    alone: list[Edited] = []
    for one in (found[version.id] for version in versions if version.id in found):
        if one.old is not None and (asked.names or asked.every or not one.same):
            pairs.append((one.old, one.version))
        elif one.old is None or study.name in before.restudied:
            alone.append(one)
        else:
            gates.append(_gate(one.version, "pass", f"the same sources as at {before.label}"))
    outcomes: list[Outcome] = []
    if pairs or alone:
        wish = selection.engine or ("auto" if rules.timed else "emulator")
        engine = choose(wish, project, run, place.say)
        place.say("engine: the GPU, both states in turn" if engine.times else engine.profile_line)
        for one in alone:
            outcome = verified(engine, study, one.version, selection.problem)
            gates += _judged_alone(one, outcome, before)
        engines = (choose(engine.name, before.project, run, place.say), engine)
        for version, measured in measure(engines, study, pairs, before, selection.problem):
            for gate in gates_of(version, measured, rules):
                gates.append(_at_change(gate, found[version.id], project, before))
            outcomes.append(measured)
    turns = tuple(each for each in outcomes if isinstance(each, Turns))
    counted = tuple(each for each in outcomes if isinstance(each, BothCounted))
    return Past(gates=tuple(gates), turns=turns, counted=counted)


def _judge(project: Project, study: str) -> list[str]:
    """The Python code of a study except its versions, without comments and layout."""
    found, folder = [], project.kernels / study
    sound = load_versions(project, study).sound.values() if folder.is_dir() else ()
    known = {project.root / each.path for each in sound}
    for path in sorted(folder.rglob("*.py")):
        with contextlib.suppress(UsageError, SyntaxError, ValueError, RecursionError):
            found += [] if path in known else [ast.dump(ast.parse(read_source(path)))]
    return found


def _loosened(study: Study, before: Before) -> list[Gate]:
    """The gate of a study whose tolerances, problems or `study.py` have changed."""
    if study.name not in study_names(before.project):
        return []
    try:
        old = load_study(before.project, study.name)
    except UsageError:
        return []  # it could not be verified then
    said = [
        f"tolerance of {name} {old.tolerance_of(name):g} → {study.tolerance_of(name):g}"
        for name in study.versions
        if old.tolerance_of(name) < study.tolerance_of(name)
    ]
    said += [
        f"problem {key}" for key, each in old.problems.items() if study.problems.get(key) != each
    ]
    said += [
        f"{word} of {name}"
        for name, each in study.versions.items()
        for word in ("baseline", "requires")
        if name in old.versions and getattr(each, word) != getattr(old.versions[name], word)
    ]
    if not said and study.name not in before.restudied:
        return []
    text = _("limits differ from those at {before} ({said}); --accept takes them")
    text = text.format(before=before.label, said=", ".join(said or ["study.py"]))
    return [inconclusive(study.name, f"kernels/{study.name}/study.py", text)]


def _lost(label: str, file: str, before: Before, accept: bool, now: Version | None = None) -> Gate:
    status: Status = "pass" if accept or now else "inconclusive"
    text = _("was at {before}, now missing; --accept takes it").format(before=before.label)
    if now:
        text = _("was at {before}, now named {name}").format(before=before.label, name=now.id)
        file = now.path
    return Gate(label, "comparable", "comparable", status, text, file)


def _at_change(gate: Gate, edited: Edited, project: Project, before: Before) -> Gate:
    """The gate at the first line that differs, in the version's file or else in a header."""
    if gate.line or edited.old is None:
        return gate
    known = {each.path: each.text for each in local_sources(before.project, edited.old)}
    known[edited.version.path] = edited.old.text
    for source in local_sources(project, edited.version):
        old, new = ((text or "").splitlines() for text in (known.get(source.path), source.text))
        both = enumerate(zip_longest(old, new), 1)
        if line := next((min(line, len(new)) for line, (a, b) in both if a != b), 0):
            return replace(gate, file=source.path, line=line)
    return gate


@contextlib.contextmanager
def _before(project: Project, where: str, say: Callable[[str], None]) -> Iterator[Before]:
    """The project as it was: a folder, or its place in a worktree of a revision.

    Raises UsageError: no such folder or revision, or no project in it.
    """
    if Path(where).is_dir():
        yield Before(_project(Path(where), where), Path(where).resolve().name)
        return
    with worktree(project.root, where, say) as tree:
        root = repository(project.root)
        assert root is not None  # the revision has a worktree
        place = tree / project.root.resolve().relative_to(root.resolve())
        yield Before(_project(place, where), commit_of(root, where)[:7])


def _project(place: Path, where: str) -> Project:
    found = find_project(place) if place.is_dir() else None
    if found is None or found.root != place.resolve():
        raise UsageError(
            f"{where} is not a workbench project", "Name a folder or a revision that has one."
        )
    return found


def _gate(version: Version, status: Status, text: str) -> Gate:
    label = f"{version.study}/{version.id}"
    return Gate(label, "comparable", "comparable", status, text, version.path)


def _judged_alone(edited: Edited, outcome: Verified, before: Before) -> list[Gate]:
    """The gates of a version without an earlier state: whether its result is right."""
    version = edited.version
    if errors := wrong(version, outcome):
        return errors
    assert not isinstance(outcome, WorkbenchError)
    names = ", ".join(each.problem.name for each in outcome)
    word = _("new since {before}, right on {names}; `workbench check` compares it with its parent")
    if edited.old is not None:
        word = _("the sources of {before}, with another study.py: right on {names}")
    return [_gate(version, "pass", word.format(before=before.label, names=names))]


def of_verified(found: VerifiedVersions) -> Past:
    """The gates of the results of `verify`: one for each version on each problem."""
    gates = _unread(found.study, found.broken, "fail")
    for (version, problem), judged in found.pairs:
        text = _("right on {names}").format(names=problem.name)
        text = _("; ").join((text, *map(told, judged.check.notes if judged.check else ())))
        error = judged.error
        own = gates_of(version, error, Rules()) if error else [_gate(version, "pass", text)]
        gates += [replace(each, kind="result", name=problem.name) for each in own]
    return Past(gates=tuple(gates), command="verify")


def wrong(version: Version, outcome: Verified) -> list[Gate]:
    """The gates of the errors of a verified version, including checks without a verdict."""
    found = [outcome] if isinstance(outcome, WorkbenchError) else [each.error for each in outcome]
    errors = {each.message: each for each in found if each}
    return [gate for each in errors.values() for gate in gates_of(version, each, Rules())]


def gates_of(version: Version, outcome: Outcome, rules: Rules) -> list[Gate]:
    """The gates of a version measured or counted with another state or version."""
    label, file = f"{version.study}/{version.id}", version.path
    if isinstance(outcome, WorkbenchError):
        said = "\n".join(filter(None, (outcome.message, outcome.hint)))
        gate = _placed(_gate(version, "inconclusive", said))
        fails = isinstance(outcome, KernelError) or (isinstance(outcome, UsageError) and gate.line)
        return [replace(gate, status="fail") if fails else gate]
    if not isinstance(outcome, BothCounted):
        return [turns_gate(outcome, rules, label=label, file=file)]
    counted = replace(rules, require_expectations=False)
    return list(check_step(outcome.comparison, (), counted, version=label, file=file))


# --- a baseline ----------------------------------------------------------------------------


def beside_baseline(place: Workspace, asked: Asked, baseline: str, keeping: Keeping) -> Past:
    """Recorded times against the kept runs of their version, problem and device.

    Raises:
        UsageError: an unknown version, or no time is recorded for a named one.
        DataError: the baseline is damaged.
        MissingError: a run cannot be kept.
    """
    each = partial(_beside_baseline, place, baseline=baseline, keeping=keeping)
    return _of_each_study(place, asked, each)


def _beside_baseline(place: Workspace, asked: Asked, baseline: str, keeping: Keeping) -> Past:
    selection, rules = asked.selection, asked.rules
    project, study, versions = asked.named.pick(place.project, run=False)
    store, kept = Store.of(project), Baselines(project.root / PRIVATE / "baselines", baseline)
    if not asked.names and not store.timings(study=study.name):
        return Past(gates=())
    problem = study.problem(selection.problem).name
    slug = device_slug(selection.device) if selection.device else None
    found = {
        version.id: store.timings(
            study=study.name, version=version.id, problem=problem, device=slug
        )
        for version in versions
        if asked.names or not version.baseline
    }
    every = (each for times in found.values() for each in times)
    newest = max(every, key=lambda each: each.captured, default=None)
    gates: list[Gate] = []
    for version in versions:
        times = found.get(version.id, [])
        if asked.names and not times:
            raise UsageError(
                f"no time for {study.name}/{version.id} on {problem} is recorded",
                f"`workbench time {study.name}/{version.id}:{problem}` measures it.",
            )
        for each in times:
            # One device, as everywhere: the one of the newest time.
            if newest is not None and each.device.slug == newest.device.slug:
                gates.append(_beside(project, version, each, kept, rules, keeping))
    return Past(gates=tuple(gates))


def _beside(
    project: Project,
    version: Version,
    timing: Timing,
    kept: Baselines,
    rules: Rules,
    keeping: Keeping,
) -> Gate:
    run = BaselineRun.of(timing, keeping.run_name)
    runs = [each for each in kept.runs(timing) if run.like(each) and not run.again(each)]
    label = f"{version.study}/{version.id}"
    trouble = " ".join(each.message for each in timing.notices if each.code in DISTURBED)
    if timing.source_hash not in ("", source_hash(project, version)):
        trouble = f"the recorded time is from a different state of {version.path}"
    if trouble:
        return inconclusive(label, version.path, f"{timing.problem}: {trouble}")
    gate = run_gate(timing, [each.time for each in runs], rules, label=label, file=version.path)
    if keeping.accept or (keeping.keep and gate.status != "fail"):
        kept.keep(timing, run, rules.baseline_runs, anew=keeping.accept)
    return gate
