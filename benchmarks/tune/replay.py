"""When a search ends, and with what: searches replayed over the times of a whole space.

    python -m benchmarks.tune.replay --record FOLDER [STUDY/VERSION[:PROBLEM] ...] [--whole]
    python -m benchmarks.tune.replay FOLDER [--seeds 20]

The first needs a GPU: it tunes each target with every choice of its space, each timed alone as
`tune` does it, and keeps all trials in ``FOLDER``; with ``--whole`` also the seconds that timing
every choice as `workbench time` does it took. The second needs none: search, rule of when it ends
and who races are the tuner's own; a choice costs and gives what was recorded, with the noise of its
samples. Printed are, over all seeds, how far the winner is from the best, and the part of the
seconds that all choices took (median, 90th percentile, worst).
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from unittest import mock

import msgspec
from msgspec.structs import replace

from benchmarks.tune.__main__ import GOAL_SECONDS, GOAL_SLOWER, TARGETS, Case, case_of, exhaustive
from workbench.analysis.times.timing import median_interval
from workbench.engines import RunOptions, Subject
from workbench.engines.gpu.race import DRIFT
from workbench.engines.host.job import Check, Raced, Result, TimeOptions
from workbench.engines.host.worker_pool import Ending
from workbench.ladder.tunings import Trial, Values, key_of
from workbench.tune import running
from workbench.tune.prefilter import Sifted
from workbench.tune.running import TuneManner, Tuner
from workbench.tune.space import Space
from workbench.views.terminal.progress import Progress
from workbench.views.text.safe_output import say

#: Between two runs of one choice: the chip's state moves its times by about this part.
_DRIFT = 0.004
_RIGHT = Check(ok=True, error=0.0, largest=0.0, tolerance=1.0, compared=1)


def record(case: Case, folder: Path, target: str, budget_s: float, whole: bool) -> None:
    """Tune with every choice of the space, and keep all trials."""
    tuner = Tuner(case.runner, case.version, RunOptions(seed=case.engine.seed), Progress())
    small = mock.patch.object(running, "_SMALL", 1 << 16)
    with small, mock.patch("workbench.tune.space._COUNTED", 1 << 22):
        tuning = tuner.tune((case.problem,), TuneManner(budget_s, restart=True))
    say(f"{target}: {dict(tuning.fates)}, {tuning.gpu_s:.1f} s of the GPU, ended: {tuning.ended}")
    (kept,) = case.project.root.glob(f"profiles/*/{case.study.name}/tuned/*/gpu.jsonl")
    name = f"{case.study.name}-{case.version.id}"
    (folder / f"{name}.jsonl").write_bytes(kept.read_bytes())
    found = exhaustive(case)[0] if whole else None
    about = {"target": target, "seconds": found.gpu_s if found else None, "gpu": tuning.gpu}
    (folder / f"{name}.json").write_text(json.dumps(about))


class Record(NamedTuple):
    """A tuning of a whole space.

    Attributes:
        case: What was tuned.
        alone: `key_of` a choice -> what became of it alone, or before any GPU was asked.
        true_s: `key_of` a choice -> its time, of those that raced the one in turns.
        begin_s: What the first choice costs beside its own seconds: inputs, the reference.
        racer_s: What one that races in turns costs.
        whole_s: Seconds of the GPU in which every choice is timed.
    """

    case: Case
    alone: dict[str, Trial]
    true_s: dict[str, float]
    begin_s: float
    racer_s: float
    whole_s: float

    @staticmethod
    def read(about: Path, folder: Path, studies: Sequence[Path]) -> Record:
        """What `record` kept; `folder` is where a copy of the study lies meanwhile."""
        known = json.loads(about.read_text())
        case = case_of(known["target"], folder, 1, studies, engine="emulator")
        lines = [json.loads(each) for each in about.with_suffix(".jsonl").read_text().splitlines()]
        trials = [msgspec.convert(each["trial"], Trial) for each in lines if each.get("trial")]
        alone, true_s = dict[str, Trial](), dict[str, float]()
        racing = set[str]()
        for each in trials:
            key = key_of(each.values)
            if key in alone and each.gpu_s:
                racing.add(key)
            alone.setdefault(key, each)
            if each.median_s and each.fate in ("timed", "dropped"):
                true_s[key] = each.median_s
        costs = [each.gpu_s for each in alone.values() if each.gpu_s]
        first, usual = costs[0], statistics.median(costs)
        spent = sum(each["ended"]["gpu_s"] or 0.0 for each in lines if each.get("ended"))
        key = next(key for key, each in alone.items() if each.gpu_s)
        alone[key] = replace(alone[key], gpu_s=min(first, usual))
        racer_s = (spent - sum(costs)) / max(1, len(racing))
        return Record(
            case, alone, true_s, max(0.0, first - usual), racer_s, known["seconds"] or math.nan
        )


class End(NamedTuple):
    """What a search came to: its winner's time over the best, GPU seconds, choices tried."""

    ratio: float
    seconds: float
    tried: int


class Replayed(Tuner):
    """A tuner whose GPU is a record of all choices.

    Args:
        known: The record.
        seed: Of the search, and of the noise.
    """

    def __init__(self, known: Record, seed: int) -> None:
        case = known.case
        runner = SimpleNamespace(engine=SimpleNamespace(seed=seed), study=case.study)
        quiet = mock.MagicMock()
        super().__init__(cast(Any, runner), case.version, RunOptions(seed=seed), quiet)
        self._timing, self._engine = True, "gpu"
        self._known, self._chance = known, random.Random(seed)
        self._log = cast(Any, SimpleNamespace(add=lambda _trial: None))

    def end(self) -> End:
        """Search until it ends."""
        space, known = self._known.case.space, self._known
        self._spend(known.begin_s)
        self._screened(space, self._search(space, False), cast(Any, None), math.inf)
        self._raced(space, math.inf)
        timed = [each for each in self._trials.values() if each.fate == "timed"]
        best = min(timed, key=lambda each: each.median_s or math.inf)
        ratio = known.true_s[key_of(best.values)] / min(known.true_s.values())
        tried = sum(each.gpu_s is not None for each in self._trials.values())
        return End(ratio, self._gpu_s or 0.0, tried)

    def _sift(self, _space: Space, _sieve: object, choices: Sequence[Values]) -> list[Sifted]:
        kept = []
        for values in choices:
            known = self._known.alone[key_of(values)]
            if known.gpu_s is None:
                self._keep(known)
                continue
            bound, estimate = known.bound_s, known.estimate
            trial = Trial(values, "not run", known.problem, bound_s=bound, estimate=estimate)
            kept.append(Sifted(values, cast(Subject, known), trial))
        return sorted(kept, key=lambda each: each.trial.estimate or math.inf)

    def _again(self, _space: Space, trials: Sequence[Trial]) -> list[Sifted]:
        return [Sifted(x.values, cast(Subject, None), x) for x in trials]

    def _on_gpu(
        self,
        fields: Sequence[Sequence[Sifted]],
        options: TimeOptions,
        tell: Callable[[Sequence[Sifted], Ending], None],
    ) -> None:
        for field in fields:
            if options.min_samples == options.max_samples:
                (sifted,) = field
                tell(field, self._alone_again(key_of(sifted.values), options.ceiling_s))
                continue
            true = [self._known.true_s[key_of(each.values)] for each in field]
            raced = tuple(Raced("", (took,) * 20, dropped=took > min(true)) for took in true)
            seconds = self._known.racer_s * len(field)
            tell(field, Ending(Result("race", raced=raced, seconds=seconds), None))

    def _alone_again(self, key: str, ceiling: float | None) -> Ending:
        known = self._known.alone[key]
        seconds, drift = known.gpu_s or 0.0, math.exp(self._chance.gauss(0, _DRIFT))
        if key not in self._known.true_s:
            return Ending(Result("race", seconds=seconds), None)
        some = [drift * self._chance.choice(known.samples_s) for _ in known.samples_s]
        looked_at = median_interval(some).low <= (ceiling or math.inf) * (1 + DRIFT)
        check = _RIGHT if looked_at else None
        return Ending(
            Result("race", check=check, raced=(Raced("", tuple(some)),), seconds=seconds), None
        )


def replayed(known: Record, seeds: int) -> list[End]:
    """Searches of so many seeds, and a line that says what they came to."""
    ends = [Replayed(known, seed).end() for seed in range(1, seeds + 1)]
    ratios, parts = sorted(x.ratio for x in ends), sorted(x.seconds / known.whole_s for x in ends)
    tried = sorted(each.tried for each in ends)
    holds = sum(
        x.ratio <= 1 + GOAL_SLOWER and x.seconds <= GOAL_SECONDS * known.whole_s for x in ends
    )
    near = sum(each <= 1 + GOAL_SLOWER for each in ratios)
    say(
        f"{known.case.study.name}/{known.case.version.id}: holds for {holds} of {seeds} seeds, "
        f"within 2% {near}; ratio {_spread(ratios, 3)}; part {_spread(parts, 3)}; "
        f"tried {_spread(tried, 0)} of {len(known.alone)}"
    )
    return ends


def _spread(values: Sequence[float], digits: int) -> str:
    at = (values[round(part * (len(values) - 1))] for part in (0.5, 0.9, 1.0))
    return "/".join(f"{each:.{digits}f}" for each in at)


def main() -> int:
    """Record, or replay."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("targets", nargs="*", default=TARGETS)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--whole", action="store_true", help="time every choice, too")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of each tuning")
    parser.add_argument("--studies", type=Path, action="append", default=[], help="a folder")
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as copies:
        if given.record:
            for target in given.targets:
                case = case_of(target, Path(copies), 1, given.studies)
                record(case, given.folder, target, given.budget, given.whole)
            return 0
        for about in sorted(given.folder.glob("*.json")):
            replayed(Record.read(about, Path(copies), given.studies), given.seeds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
