"""Pairs of choices that ``tune`` explains, profiled, so that a person can judge what it said.

    python -m benchmarks.tune.pairs [STUDY/VERSION[:PROBLEM] ...] [--budget 20] [--seconds 270]

Each target is tuned anew. Of what the tuning says are taken: its cliffs (first those of which a
limiter is named, each once), the parameter with the strongest effect (its best value and its worst,
all others alike), and the winner beside the runner-up. Both sides of each are profiled. Printed are
what was said before any counter was measured, what ``diff`` says of both profiles, the ratio of the
times, and on both sides the counters that either names beside those that are always looked at:
whether it is true is left to the reader.

With ``--engine emulator`` all of it runs without a GPU, and only estimates and counts are known.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from benchmarks.tune.__main__ import Case, case_of
from workbench.analysis.story import Step, telling
from workbench.engines import ProfileOptions, RunOptions, silent
from workbench.engines.choice import choose
from workbench.errors import WorkbenchError
from workbench.ladder.tunings import Trial, Tuning, key_of
from workbench.measure.experiment import Experiment
from workbench.model import Profile
from workbench.processes.bounds import Deadline
from workbench.tune.effects import Cliff, cliffs, effects, score
from workbench.tune.running import HANG_S, TuneManner, Tuner
from workbench.tune.steps import step_between
from workbench.units import factor, quantity
from workbench.views.terminal.progress import Progress
from workbench.views.text.safe_output import say

TARGETS = ("matmul/v0:n2048", "transpose/v0:n8192", "reduction/v0:n64m")
MOST = 10
#: Counters that a limiter speaks of, by a word in it.
_SPOKEN = {
    "bank conflicts": ("shared_bank_conflicts", "shared_wavefronts", "shared_wavefronts_excess"),
    "wavefronts": ("shared_wavefronts", "shared_wavefronts_ideal"),
    "global sectors": ("global_sectors", "l2_sectors", "dram_bytes"),
    "instructions": ("instructions", "issue_active"),
    "local memory": ("local_loads", "local_stores"),
    "spills": ("local_loads", "local_stores", "spill_instructions"),
    "occupancy": ("theoretical_occupancy", "achieved_occupancy"),
    "registers": ("registers", "occupancy_limit_registers"),
    "shared memory": ("static_shared", "dynamic_shared", "occupancy_limit_shared"),
    "block size": ("threads_per_block", "occupancy_limit_warps", "occupancy_limit_blocks"),
    "last wave": ("waves", "tail_idle", "achieved_occupancy"),
    "small grid": ("waves", "achieved_occupancy"),
}
#: What is printed of every pair, whoever names it: a judge needs more than what was picked.
_ALWAYS = (
    "duration", "blocks", "waves", "theoretical_occupancy", "achieved_occupancy", "registers",
    "instructions", "shared_wavefronts", "shared_wavefronts_ideal", "global_sectors", "dram_bytes",
)  # fmt: skip


class Pair(NamedTuple):
    """Two choices, and what the tuning says of them; `names`: the counters that this speaks of."""

    kind: str
    said: str
    old: Trial
    new: Trial
    names: tuple[str, ...] = ()


def pairs_of(tuning: Tuning, problem: str) -> list[Pair]:
    """What a tuning explains on a problem, of each kind the most telling first."""
    known = {key_of(each.values): each for each in tuning.of(problem) if score(tuning.engine, each)}
    found = sorted(cliffs(tuning, problem), key=lambda each: not each.limiter)
    steps = [
        Pair(
            "cliff",
            _cliff(each),
            known[key_of(each.fast)],
            known[key_of(each.slow)],
            tuple(
                dict.fromkeys(
                    chain.from_iterable(
                        names
                        for word, names in _SPOKEN.items()
                        if word in each.limiter or (word == "occupancy" and "→" in each.limiter)
                    )
                )
            ),
        )
        for each in {each.limiter: each for each in reversed(found)}.values()
    ]
    others = [*_strongest(tuning, problem, known), *_winner(tuning, problem)]
    return [each for both in zip_longest(reversed(steps), others) for each in both if each]


def _cliff(cliff: Cliff) -> str:
    before, after = cliff.fast[cliff.parameter], cliff.slow[cliff.parameter]
    limiter = cliff.limiter or "unknown"
    moved = "; ".join(cliff.moved) or "nothing moved so far"
    return (
        f"{cliff.parameter} {before} → {after} is {factor(cliff.factor)} slower: {limiter}: {moved}"
    )


def _strongest(tuning: Tuning, problem: str, known: dict[str, Trial]) -> Iterator[Pair]:
    """Best and worst value of the parameter that matters most, others alike, near the winner."""
    main = next((each for each in effects(tuning, problem).mains if each.share), None)
    if main is None:
        return
    (name,) = main.parameters
    levels = {level.value: level.factor for level in main.levels if level.factor is not None}
    best, worst = min(levels, key=levels.__getitem__), max(levels, key=levels.__getitem__)
    by_time = sorted(known.values(), key=lambda each: score(tuning.engine, each) or 0.0)
    for fast in (each for each in by_time if each.values[name] == best):
        slow = known.get(key_of({**fast.values, name: worst}))
        if slow is not None:
            said = (
                f"{name} matters most ({100 * (main.share or 0):.0f}% of the variance): "
                f"{worst} costs {factor(levels[worst])} of {best}"
            )
            yield Pair("effect", said, fast, slow)
            return


def _winner(tuning: Tuning, problem: str) -> Iterator[Pair]:
    runner_up = tuning.runner_up(problem)
    if runner_up is not None:
        yield Pair("winner", "the winner after the runner-up", runner_up, tuning.winners[problem])


# --- profiled --------------------------------------------------------------------------------


class Profiler:
    """Profiles choices of a case, each once.

    Args:
        case: Whose choices.
        engine: ``gpu`` or ``emulator``.
        seed: Of the inputs.
    """

    def __init__(self, case: Case, engine: str, seed: int) -> None:
        self._case = case
        taken = choose(engine, case.project, RunOptions(seed=seed), silent, profiling=True)
        self._runner = Experiment(case.project, case.study, taken)
        self._known: dict[str, Profile] = {}

    def of(self, trial: Trial) -> Profile:
        """The profile of a choice."""
        key = key_of(trial.values)
        if key not in self._known:
            subject = self._case.subject(self._runner, trial.values)
            options = ProfileOptions(keep_raw="never")
            self._known[key], _ = self._runner.engine.profile(subject, options)
        return self._known[key]


def told(tuning: Tuning, pair: Pair, step: Step) -> dict[str, object]:
    """Print a pair; the same as data."""
    comparison, story = step.comparison, step.story
    times = score(tuning.engine, pair.old), score(tuning.engine, pair.new)
    ratio = times[1] / times[0] if times[0] and times[1] else None
    named = [proof.counter.id for proof in story.cause.proofs]
    named += [stop.counter for stop in story.strip if stop.counter]
    named += [each.id for each in telling(comparison, story, step.scale, 4)]
    wanted = dict.fromkeys((*pair.names, *_ALWAYS, *named))
    known = {delta.id: delta for delta in comparison.counters}
    rows = [known[name] for name in wanted if name in known]
    say(f"  {step.labels[0]}  →  {step.labels[1]}   (of {key_of(pair.new.values)})")
    say(f"  said by tune: {pair.said}")
    say(f"  said by diff: {story.sentence}")
    taken = " → ".join(quantity(each, "s") for each in times)
    what = "times" if tuning.engine == "gpu" else "estimates"
    say(f"  {what}: {taken} ({factor(ratio) if ratio else '—'} the time)")
    for row in rows:
        old, new = (quantity(value, row.unit) for value in (row.old, row.new))
        spoken = "*" if row.id in pair.names else " "
        say(f"  {spoken} {row.title:38} {old:>12} {new:>12}   {row.difference} {row.ratio}")
    return {
        "kind": pair.kind,
        "said_by_tune": pair.said,
        "said_by_diff": story.sentence,
        "old": pair.old.values,
        "new": pair.new.values,
        "times_s": times,
        "ratio": ratio,
        "counters": {row.id: (row.old, row.new) for row in rows},
        "spoken_of": pair.names,
    }


def row(case: Case, given: argparse.Namespace, most: int, until: float) -> list[dict[str, object]]:
    """One target, tuned and judged; nothing is begun after `until`, by `time.monotonic`."""
    label = f"{case.study.name}/{case.version.id} {case.problem.name}"
    options = RunOptions(seed=given.seed)
    short = replace(options, limit=Deadline(HANG_S))
    runner = Experiment(case.project, case.study, choose(given.engine, case.project, short))
    tuner = Tuner(runner, case.version, options, Progress())
    tuning = tuner.tune((case.problem,), TuneManner(given.budget, restart=True))
    say(f"{label}: {dict(tuning.fates)}, ended: {tuning.ended}")
    profiler, rows = Profiler(case, given.engine, given.seed), []
    for pair in pairs_of(tuning, case.problem.name)[:most]:
        if time.monotonic() > until:
            say("  no time is left for further pairs")
            break
        say(f"{label}: {pair.kind}")
        try:
            both = profiler.of(pair.old), profiler.of(pair.new)
            step = step_between(tuning, (pair.old, pair.new), both)
            rows.append({"target": label, **told(tuning, pair, step)})
        except WorkbenchError as error:
            say(f"  cannot be judged: {error.message}")
    return rows


def main() -> int:
    """Print all pairs; 1 where there is none."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", default=TARGETS)
    parser.add_argument("--engine", choices=("gpu", "emulator"), default="gpu")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of each tuning")
    parser.add_argument("--seconds", type=float, default=270.0, help="for all of it, about")
    parser.add_argument("--most", type=int, default=MOST, help="pairs of all targets together")
    parser.add_argument("--studies", type=Path, action="append", default=[], help="a folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="a file for the pairs")
    given = parser.parse_args()
    begin, rows, many = time.monotonic(), list[dict[str, object]](), len(given.targets)
    with tempfile.TemporaryDirectory() as folder:
        for place, target in enumerate(given.targets):
            most = -(-(given.most - len(rows)) // (many - place))
            until = begin + given.seconds * (place + 1) / many
            case = case_of(target, Path(folder), given.seed, given.studies, given.engine)
            rows += row(case, given, most, until)
            if given.json:
                given.json.write_text(json.dumps(rows, indent=1, default=str))
    say(f"{len(rows)} pairs in {time.monotonic() - begin:.0f} s")
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
