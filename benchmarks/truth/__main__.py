"""How true the words are: every labelled step, whether its edit and its counter were named.

``make truth`` prints one row per step and what holds in all, of the shipped ladders and of the
recordings that the emulator was measured on. The reports of other people are not kept here:
``--pairs`` names the folder that holds them.
``--programs`` prints instead how whole programs are told, beside their own clocks; ``--shown`` what
the named stalls hold, and what tables beside the sentences deny, of every recorded step.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.document import replace
from benchmarks.truth import public, shown
from benchmarks.truth.judge import Verdict, judge
from benchmarks.truth.labels import Label, load_labels
from workbench.analysis.story import Step
from workbench.model import Profile, Timing
from workbench.ncurep.read import read_report
from workbench.project import require_project
from workbench.store import Store

LABELS = Path("tests/data/truth/steps.toml")
#: What each pair of reports is called before and after.
PAIRS = {
    "cutlass": ("before", "after"),
    "fortran": ("division", "multiplication"),
    "gemm": ("v8", "v9"),
    "no-source-padding": ("before", "after"),
    "unequal-launches": ("v1", "v2"),
}
#: Steps of our own whose edit and counter must be named first, and among the first three.
TOP, FIRST = 0.85, 0.95


def recorded(label: Label, store: Store) -> Step:
    """A labelled step of a recorded ladder."""
    old, new = label.sides
    problem = label.problem or None

    def profile(version: str) -> Profile:
        return store.get(study=label.study, version=version, problem=problem, device="h200")

    def time(version: str) -> Timing | None:
        found = store.timings(study=label.study, version=version, problem=problem, device="h200")
        return next(iter(found), None)

    return Step(profile(old), profile(new), (old, new), (time(old), time(new)))


def foreign(label: Label, folder: Path) -> Step | None:
    """A labelled pair of reports; None where the folder does not hold it."""
    name = label.pair.split("/")[1]
    paths = [folder / f"{name}-{side}.ncu-rep.zst" for side in PAIRS[name]]
    if not all(path.is_file() for path in paths):
        return None
    return Step(read_report(paths[0]), read_report(paths[1]), PAIRS[name])


def judged(labels: tuple[Label, ...], store: Store, pairs: Path | None) -> Iterator[Verdict]:
    """The verdicts, in the order of the labels."""
    for label in labels:
        if label.study != "pairs":
            yield judge(label, recorded(label, store))
        elif pairs is not None and (step := foreign(label, pairs)) is not None:
            yield judge(label, step)


def row(verdict: Verdict) -> str:
    """One step as a row of the table."""
    where = "first" if verdict.top else "first three" if verdict.first else "**no**"
    false = "; ".join(verdict.contradictions) or "—"
    return f"| {verdict.pair} | {where} | {'yes' if verdict.limit else 'no'} | {false} |\n"


def summary(verdicts: list[Verdict]) -> tuple[str, bool]:
    """What holds of our own steps and of the pairs, and whether the goals are reached."""
    own = [v for v in verdicts if not v.pair.startswith("pairs/")]
    others = [v for v in verdicts if v.pair.startswith("pairs/")]
    top, first = (sum(v.top for v in own), sum(v.first for v in own))
    false = sum(len(v.contradictions) for v in verdicts)
    words = (
        f"edit and counter named first: {top} of {len(own)} ({top / len(own):.1%}; goal "
        f"{TOP:.0%}), among the first three: {first} of {len(own)} ({first / len(own):.1%}; goal "
        f"{FIRST:.0%}); limit right: {sum(v.limit for v in own)} of {len(own)}; "
        f"contradictions: {false} (goal 0)"
    )
    reached = top >= TOP * len(own) and first >= FIRST * len(own) and not false
    if others:
        right = sum(v.top for v in others)
        words += f"; pairs of other people's reports right: {right} of {len(others)}"
        reached = reached and right == len(others)
    return words, reached


def captured() -> tuple[str, str, bool]:
    """Of the captured programs: the table, what holds in all, whether the goals are reached."""
    from benchmarks.truth import programs
    from workbench.programs.capture.capture_store import Shelf

    told = list(programs.tell(programs.load_programs(programs.LABELS), Shelf(programs.CAPTURES)))
    return programs.rows(told), *programs.totals(told)


def steps(options: argparse.Namespace) -> tuple[str, str, bool]:
    """Of the labelled steps: the table, what holds in all, whether the goals are reached."""
    labels = load_labels(options.labels)
    store = Store(require_project(options.project or Path.cwd()).profiles)
    verdicts = []
    table = "| step | edit and counter named | limit right | contradicts the label |\n"
    table += "| --- | --- | --- | --- |\n"
    for verdict in judged(labels, store, options.pairs):
        verdicts.append(verdict)
        table += row(verdict)
        if options.say:
            sys.stderr.write(f"{verdict.pair}: {verdict.said}\n")
    return table, *summary(verdicts)


def published(folder: Path, *, say: bool = False) -> tuple[str, str, bool]:
    """Of the public pairs whose reports lie in a folder: the table, what holds, if all is true."""
    told = list(public.verdicts(folder))
    every = len(public.load_public(public.LABELS))
    if not told:
        return "", f"skipped: {folder} holds none of the {every} pairs of {public.MANIFEST}", True
    for verdict in told if say else ():
        sys.stderr.write(f"{verdict.pair}: {verdict.said}\n")
    false = sum(len(each.contradictions) for each in told)
    first, three, limit = (
        sum(x) for x in zip(*((v.top, v.first, v.limit) for v in told), strict=True)
    )
    words = (
        f"public pairs: {len(told)} of {every} are there; cause named first: {first}, among the "
        f"first three: {three}; limit right: {limit}; contradictions: {false} (goal 0)"
    )
    return "".join(map(row, told)), words, not false


def screens(options: argparse.Namespace) -> tuple[str, str, bool]:
    """Of every recorded step: those that fall short, what holds in all, whether it is enough."""
    project = options.project or Path.cwd()
    every = [shown.shown(name, step) for name, step in shown.recorded(project)]
    return shown.rows(every), *shown.totals(every)


def main() -> int:
    """Judge, print, and (with ``--write``) replace the table of a document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labels", type=Path, default=LABELS, help="the labels to judge by")
    parser.add_argument("--project", type=Path, help="where their recordings are (here)")
    parser.add_argument("--pairs", type=Path, help="folder with the reports of other people")
    parser.add_argument("--public", type=Path, help="judge the public pairs in this folder")
    parser.add_argument("--mark", default="truth", help="what the table's marks are called")
    parser.add_argument("--write", type=Path, help="replace the table between its marks")
    parser.add_argument("--say", action="store_true", help="print every sentence as well")
    parser.add_argument("--programs", action="store_true", help="whole programs, not steps")
    parser.add_argument("--shown", action="store_true", help="every recorded step, without labels")
    options = parser.parse_args()
    if options.public is not None:
        table, words, reached = published(options.public, say=options.say)
    elif options.shown:
        table, words, reached = screens(options)
    else:
        table, words, reached = captured() if options.programs else steps(options)
    sys.stdout.write(f"{table}\n{words}\n")
    if options.write is not None:
        marks = (f"<!-- {options.mark} -->", f"<!-- end of {options.mark} -->")
        replace(options.write, marks, f"{table}\n{words}.\n")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
