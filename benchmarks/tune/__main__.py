"""``tune`` against an exhaustive timing of the whole space, on a GPU.

    python -m benchmarks.tune [STUDY/VERSION[:PROBLEM] ...] [--budget 60] [--kernel-tuner]

Every choice that compiles is timed as `workbench time` does it, without a library beside it; then
the version is tuned anew. Both winners then take turns: their ratio is how far the tuning's is
from the best. Seconds of the GPU are those in which a worker was at a job, check and preparation
included, of both alike. With ``--kernel-tuner`` that library searches the choices that can run
within the same budget, and its winner takes its turns as well.

Named studies are looked for in ``--studies``, then here, then in the repository's own ``kernels``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast
from unittest import mock

import numpy as np

from workbench.analysis.times.timing import paired_ratio
from workbench.engines import RunOptions, Subject, silent
from workbench.engines.choice import choose
from workbench.engines.emulated.emulation import built_of
from workbench.engines.host.job import Result, TimeOptions
from workbench.engines.ncu.engine import GpuEngine
from workbench.errors import WorkbenchError
from workbench.ladder.tunings import Values, key_of
from workbench.measure.experiment import Experiment
from workbench.measure.plan import chosen
from workbench.model import Problem
from workbench.project import Project, require_project
from workbench.specs import Version
from workbench.study.folder import Study, load_study, parse_target
from workbench.study.launches import (
    CTYPES,
    BufferArg,
    ScalarArg,
    resolve_fills,
    resolve_launches,
    resolve_scratch,
)
from workbench.tune.running import TuneManner, Tuner
from workbench.tune.space import Space
from workbench.views.terminal.progress import Progress
from workbench.views.text.safe_output import say

HERE = Path(__file__).resolve().parent
REPO = HERE.parent.parent
TARGETS = (
    "matmul/v0:n2048",
    "reduction/v0:n64m",
    "transpose/v0:n8192",
    "conv2d_half/v5",
    "conv2d_half/v8",
    "conv2d_half/v22",
)
GOAL_SLOWER, GOAL_SECONDS = 0.02, 0.25


class Case(NamedTuple):
    """A version with its space on a problem, in a project of its own."""

    project: Project
    study: Study
    version: Version
    problem: Problem
    engine: GpuEngine

    @property
    def space(self) -> Space:
        """What may be chosen."""
        return Space(self.study, self.version, self.problem)

    @property
    def runner(self) -> Experiment:
        """What runs its versions."""
        return Experiment(self.project, self.study, self.engine)

    def subject(self, runner: Experiment, values: Values) -> Subject:
        """A choice, compiled."""
        return runner.subject(self.space.candidate(values), self.problem)


class Found(NamedTuple):
    """The winner of a way to search, its time alone, and what the search took of the GPU."""

    values: Values
    median_s: float
    gpu_s: float
    runs: int
    wall_s: float


def exhaustive(case: Case) -> tuple[Found, dict[str, float]]:
    """Time every choice as `workbench time` does; with the time of each by its `key_of`."""
    begin, runner = time.perf_counter(), case.runner
    every = list(case.space.every())
    broken = runner.build_all([case.space.candidate(values) for values in every])
    tried: list[tuple[Values, Subject]] = []
    for values in every:
        if case.space.candidate(values).id in broken:
            continue
        try:
            tried.append((values, case.subject(runner, values)))
        except WorkbenchError:
            continue
    seconds, times = 0.0, {}

    def tell(place: int, outcome: Result | WorkbenchError) -> None:
        nonlocal seconds
        if isinstance(outcome, Result):
            seconds += outcome.seconds
            if outcome.times is not None:
                times[place] = outcome.times.time.value

    case.engine.in_turns([(subject, None) for _, subject in tried], TimeOptions(), tell)
    best = min(times, key=times.__getitem__)
    wall = time.perf_counter() - begin
    found = Found(tried[best][0], times[best], seconds, len(tried), wall)
    return found, {key_of(tried[place][0]): took for place, took in times.items()}


def tuned(case: Case, budget_s: float) -> Found:
    """Tune anew."""
    begin = time.perf_counter()
    tuner = Tuner(case.runner, case.version, RunOptions(seed=case.engine.seed), Progress())
    found = tuner.tune((case.problem,), TuneManner(budget_s, restart=True))
    best = found.winners[case.problem.name]
    runs = sum(each.gpu_s is not None for each in found.trials)
    say(f"  {dict(found.fates)}, {found.saved} runs saved, ended: {found.ended}")
    wall = time.perf_counter() - begin
    return Found(best.values, best.median_s or 0.0, found.gpu_s or 0.0, runs, wall)


def beside(case: Case, mine: Values, best: Values) -> tuple[float, float, float]:
    """Time of `mine` over that of `best`, both in turns: the ratio and its interval."""
    if mine == best:
        return 1.0, 1.0, 1.0
    runner = case.runner
    pair = (case.subject(runner, mine), case.subject(runner, best))
    outcomes: list[Result | WorkbenchError] = []
    options = TimeOptions(pairs=True, min_samples=100)
    case.engine.in_turns([pair], options, lambda _, each: outcomes.append(each))
    (outcome,) = outcomes
    if isinstance(outcome, WorkbenchError):
        raise outcome
    assert outcome.times is not None
    ratio = paired_ratio(outcome.times.samples, outcome.times.baseline_samples)
    return ratio.value, ratio.low, ratio.high


# --- kernel_tuner ----------------------------------------------------------------------------

#: Types of numbers, as NumPy calls them.
_KINDS = dict(
    zip(CTYPES, ["i4", "u4", "i8", "u8", "f4", "f8", "i1", "u1", "i2", "u2"], strict=True)
)


def by_kernel_tuner(case: Case, able: Collection[str], seconds: float, strategy: str) -> Found:
    """The choices that can run, searched by kernel_tuner within so many seconds.

    It is given the machine code that `tune` finds compiled as well, since it compiles one choice
    after another, and ends at the first that does not compile.

    Args:
        case: What is tuned.
        able: `key_of` the choices that can run.
        seconds: Its time limit.
        strategy: Its strategy.

    Raises:
        WorkbenchError: it has no way to start such a version.
    """
    import kernel_tuner
    import pycuda.driver as cuda
    from kernel_tuner.backends.pycuda import PyCudaFunctions

    runner, space = case.runner, case.space
    arguments, constants = _arguments(case)
    every = [values for values in space.every() if key_of(values) in able]
    subjects = {key_of(values): case.subject(runner, values) for values in every}
    begin = time.perf_counter()

    def key(config: Mapping[str, Any]) -> str:
        return key_of({name: config[name] for name in space.parameters})

    parameters = {name: list(values) for name, values in space.parameters.items()}
    blocks = {name: subject.launches[0].block for name, subject in subjects.items()}
    axes = {f"block_size_{axis}": place for place, axis in enumerate("xyz")}
    for name, place in axes.items():
        parameters[name] = sorted({block[place] for block in blocks.values()})

    def allowed(config: Mapping[str, Any]) -> bool:
        block = blocks.get(key(config))
        return block == tuple(config[name] for name in axes)

    def compiled(backend: Any, instance: Any) -> Any:
        """Its own way asks for no more dynamic shared memory than any block has."""
        subject = subjects[key(instance.params)]
        (launch,) = subject.launches
        backend.current_module = cuda.module_from_file(str(built_of(subject).cubin))
        backend.func = backend.current_module.get_function(launch.kernel)
        backend.num_regs, backend.smem_size = backend.func.num_regs, launch.dynamic_shared
        if launch.dynamic_shared:
            most = cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            backend.func.set_attribute(most, launch.dynamic_shared)
        return backend.func

    with mock.patch.object(PyCudaFunctions, "compile", compiled):
        results, _ = kernel_tuner.tune_kernel(
            case.version.launches[0].kernel,
            (case.project.root / case.version.path).read_text(encoding="utf-8"),
            lambda config: subjects[key(config)].launches[0].grid,
            arguments,
            parameters,
            grid_div_x=[],
            grid_div_y=[],
            grid_div_z=[],
            cmem_args=constants or None,
            restrictions=allowed,
            strategy=strategy,
            strategy_options={"time_limit": seconds, "max_fevals": len(every)},
            lang="PYCUDA",
            quiet=True,
        )
    timed = [each for each in results if isinstance(each.get("time"), float | int)]
    best = min(timed, key=lambda each: float(each["time"]))
    values = next(each for each in every if key_of(each) == key(best))
    wall = time.perf_counter() - begin
    return Found(values, float(best["time"]) * 1e-3, wall, len(timed), wall)


def _arguments(case: Case) -> tuple[list[Any], dict[str, Any]]:
    """What the kernel is called with, as kernel_tuner wants it, and ``__constant__`` variables.

    Raises:
        WorkbenchError: it has no way to pass that.
    """
    study, version, problem = case.study, case.version, case.problem
    launches = resolve_launches(study, version, problem)
    if len(launches) > 1 or launches[0].cluster or launches[0].cooperative:
        raise WorkbenchError("it starts one kernel, and no clusters", "Name another version.")
    arrays: dict[str, Any] = dict(study.inputs(problem, np.random.default_rng(case.engine.seed)))
    for name, (shape, dtype) in study.outputs(problem).items():
        arrays[name] = np.zeros(shape, dtype)
    for scratch in resolve_scratch(study, version, problem):
        arrays[scratch.name] = np.zeros(scratch.shape, scratch.dtype)
    constants: dict[str, Any] = {}
    for fill in resolve_fills(study, version, problem):
        if fill.input and fill.symbol:
            constants[fill.name] = arrays[fill.input]
        elif fill.input:
            arrays[fill.name] = arrays[fill.input].reshape(arrays[fill.name].shape).copy()
        elif fill.symbol:
            raise WorkbenchError("it fills no variable with a value", "Name another version.")
    found: list[Any] = []
    for each in launches[0].args:
        if isinstance(each, BufferArg) and not each.offset:
            found.append(arrays[each.name])
        elif isinstance(each, ScalarArg):
            found.append(np.dtype(_KINDS[each.ctype]).type(each.value))
        else:
            raise WorkbenchError(
                "it passes arrays and numbers: no tensor maps, textures, or structs",
                "Name another version.",
            )
    return found, constants


# --- the table -------------------------------------------------------------------------------


def case_of(
    target: str, folder: Path, seed: int, studies: Sequence[Path] = (), engine: str = "gpu"
) -> Case:
    """A target in a copy of its project, so that nothing is kept beside the sources.

    Args:
        target: As it is typed.
        folder: Where the copy lies.
        seed: Of inputs and search.
        studies: Folders of studies that are looked in before our own.
        engine: ``gpu``, or ``emulator``.
    """
    name, _, problem = target.partition(":")
    study_name, version_id = parse_target(name, Project(root=HERE), "matmul")
    places = (*studies, HERE / "kernels", REPO / "kernels")
    source = next((each for each in places if (each / study_name).is_dir()), places[-1])
    root = folder / study_name
    if not root.exists():
        shutil.copytree(source / study_name, root / "kernels" / study_name)
        (root / "workbench.toml").write_text(f'default_study = "{study_name}"\n')
    project = require_project(root)
    study = load_study(project, study_name)
    version = study.version(version_id)
    ((_, chosen_problem), *_) = chosen(study, version, problem or None, "profile")
    return Case(
        project,
        study,
        version,
        chosen_problem,
        cast(GpuEngine, choose(engine, project, RunOptions(seed=seed), silent)),
    )


def row(case: Case, budget_s: float, strategy: str) -> dict[str, object]:
    """One target, measured and printed."""
    label = f"{case.study.name}/{case.version.id} {case.problem.name}"
    say(f"{label}: {sum(1 for _ in case.space.every())} choices of {case.space.words}")
    whole, times = exhaustive(case)
    _say("exhaustive", whole)
    mine = tuned(case, budget_s)
    _say("tune", mine)
    ratio, low, high = beside(case, mine.values, whole.values)
    part = mine.gpu_s / whole.gpu_s if whole.gpu_s else float("inf")
    well = ratio <= 1 + GOAL_SLOWER and part <= GOAL_SECONDS
    say(
        f"  tune's winner in turns with the best: {ratio:.4f} ({low:.4f} to {high:.4f}) of its "
        f"time, for {100 * part:.1f}% of its GPU seconds: {'holds' if well else 'DOES NOT HOLD'}"
    )
    found: dict[str, object] = {
        "target": label,
        "exhaustive": whole._asdict(),
        "tune": mine._asdict(),
        "ratio": [ratio, low, high],
        "part_of_gpu_seconds": part,
        "holds": well,
    }
    if strategy:
        try:
            theirs = by_kernel_tuner(case, times, budget_s, strategy)
        except Exception as error:  # whatever that library does not take of a study
            say(f"  kernel_tuner: {type(error).__name__}: {error}")
            return found
        _say("kernel_tuner", theirs)
        ratio, low, high = beside(case, mine.values, theirs.values)
        say(f"  tune's winner in turns with kernel_tuner's: {ratio:.4f} ({low:.4f} to {high:.4f})")
        found |= {"kernel_tuner": theirs._asdict(), "ratio_to_kernel_tuner": [ratio, low, high]}
    return found


def _say(who: str, found: Found) -> None:
    say(
        f"  {who}: {found.median_s * 1e6:.2f} µs with {key_of(found.values)}; "
        f"{found.gpu_s:.1f} s of the GPU, {found.runs} runs, {found.wall_s:.0f} s in all"
    )


def main() -> int:
    """Measure; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", default=TARGETS)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of each tuning")
    parser.add_argument("--kernel-tuner", metavar="STRATEGY", nargs="?", const="random_sample")
    parser.add_argument("--studies", type=Path, action="append", default=[], help="a folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for target in given.targets:
            case = case_of(target, Path(folder), given.seed, given.studies)
            rows.append(row(case, given.budget, given.kernel_tuner or ""))
            if given.json:
                given.json.write_text(json.dumps(rows, indent=1, default=str))
    return 0 if all(each["holds"] for each in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
