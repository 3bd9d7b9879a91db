"""``tune`` against an exhaustive timing of the whole space, on a GPU.

    python -m benchmarks.tuning [STUDY/VERSION[:PROBLEM] ...] [--budget 60] [--kernel-tuner]

Every choice that compiles is timed as `workbench time` does it, without a library beside it; then
the version is tuned anew. Both winners then take turns: their ratio is how far the tuning's is
from the best. Seconds of the GPU are those in which a worker was at a job, check and preparation
included, of both alike. With ``--kernel-tuner`` that library searches the same space within the
seconds that the tuning took of the GPU, and its winner takes its turns as well.

Named studies are looked for here first, then in the repository's own ``kernels``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workbench.analysis.timing import paired_ratio
from workbench.engines import RunOptions, Subject, silent
from workbench.engines.choice import on_gpu
from workbench.engines.host.job import Result, TimeOptions
from workbench.engines.ncu.engine import GpuEngine
from workbench.errors import WorkbenchError
from workbench.measure.experiment import Experiment
from workbench.measure.plan import chosen
from workbench.model import Problem
from workbench.project import Project, require_project
from workbench.specs import Version
from workbench.study.folder import Study, load_study, parse_target
from workbench.study.launches import BufferArg, ResolvedLaunch, ScalarArg, resolve_launches
from workbench.tune.record import Values, key_of
from workbench.tune.running import TunePlan, Tuner
from workbench.tune.space import Space
from workbench.views.terminal.progress import Progress
from workbench.views.text.door import say

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


def exhaustive(case: Case) -> Found:
    """Time every choice as `workbench time` does."""
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
    return Found(tried[best][0], times[best], seconds, len(tried), wall)


def tuned(case: Case, budget_s: float) -> Found:
    """Tune anew."""
    begin = time.perf_counter()
    tuner = Tuner(case.runner, case.version, RunOptions(seed=case.engine.seed), Progress())
    found = tuner.tune(TunePlan((case.problem,), budget_s, restart=True))
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


def by_kernel_tuner(case: Case, seconds: float, strategy: str) -> Found:
    """The same space, searched by kernel_tuner within so many seconds, compiling included."""
    import kernel_tuner

    begin, runner, space = time.perf_counter(), case.runner, case.space
    every = {key_of(values): values for values in space.every()}
    default = case.subject(runner, space.default)
    (launch,), (spec,) = default.launches, case.version.launches
    arrays: dict[str, Any] = dict(
        case.study.inputs(case.problem, np.random.default_rng(case.engine.seed))
    )
    for name, (shape, dtype) in case.study.outputs(case.problem).items():
        arrays[name] = np.zeros(shape, dtype)
    kinds: dict[str, Any] = {"int": np.int32, "long": np.int64, "float": np.float32}
    arguments: list[Any] = []
    for each in launch.args:
        if isinstance(each, BufferArg):
            arguments.append(arrays[each.name])
        elif isinstance(each, ScalarArg):
            arguments.append(kinds[each.ctype](each.value))
    launches = {key: _launch(case, values) for key, values in every.items()}

    def grid(config: dict[str, Any]) -> tuple[int, ...]:
        return launches[key_of({name: config[name] for name in space.parameters})].grid

    parameters = {name: list(values) for name, values in space.parameters.items()}
    axes = {f"block_size_{'xyz'[axis]}": axis for axis in range(len(spec.block))}
    for name, axis in axes.items():
        parameters[name] = sorted({each.block[axis] for each in launches.values()})

    def allowed(config: dict[str, Any]) -> bool:
        ours = launches.get(key_of({name: config[name] for name in space.parameters}))
        return ours is not None and all(
            config[name] == ours.block[axis] for name, axis in axes.items()
        )

    results, _ = kernel_tuner.tune_kernel(
        launch.kernel,
        (case.project.root / case.version.path).read_text(encoding="utf-8"),
        grid,
        arguments,
        parameters,
        grid_div_x=[],
        grid_div_y=[],
        grid_div_z=[],
        restrictions=allowed,
        strategy=strategy,
        strategy_options={"time_limit": seconds, "max_fevals": len(every)},
        compiler_options=["-O3", "-std=c++17"],
        lang="PYCUDA",  # the one of its ways that compiles with nvcc, as is done here
        quiet=True,
    )
    timed = [each for each in results if isinstance(each.get("time"), float | int)]
    best = min(timed, key=lambda each: float(each["time"]))
    values = every[key_of({name: best[name] for name in space.parameters})]
    wall = time.perf_counter() - begin
    return Found(values, float(best["time"]) * 1e-3, wall, len(timed), wall)


def _launch(case: Case, values: Values) -> ResolvedLaunch:
    version = case.space.candidate(values)
    return resolve_launches(case.study, version, case.problem)[0]


# --- the table -------------------------------------------------------------------------------


def case_of(target: str, folder: Path, seed: int) -> Case:
    """A target in a copy of its project, so that nothing is kept beside the sources."""
    name, _, problem = target.partition(":")
    study_name, version_id = parse_target(name, "matmul")
    source = HERE if (HERE / "kernels" / study_name).is_dir() else REPO
    root = folder / study_name
    if not root.exists():
        shutil.copytree(source / "kernels" / study_name, root / "kernels" / study_name)
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
        on_gpu(project, RunOptions(seed=seed), silent),
    )


def row(case: Case, budget_s: float, strategy: str) -> dict[str, object]:
    """One target, measured and printed."""
    label = f"{case.study.name}/{case.version.id} {case.problem.name}"
    say(f"{label}: {sum(1 for _ in case.space.every())} choices of {case.space.words}")
    whole = exhaustive(case)
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
            theirs = by_kernel_tuner(case, budget_s, strategy)
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
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for target in given.targets:
            case = case_of(target, Path(folder), given.seed)
            rows.append(row(case, given.budget, given.kernel_tuner or ""))
            if given.json:
                given.json.write_text(json.dumps(rows, indent=1, default=str))
    return 0 if all(each["holds"] for each in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
