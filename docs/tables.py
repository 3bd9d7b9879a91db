"""The tables of times and ratios in the documentation, from what is recorded: ``make docs``.

Each stands in its page between ``<!-- table: NAME -->`` and ``<!-- end of table -->``; the
rest of a page is written by hand. A test holds the pages to what this gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from workbench.analysis.limits.limit import limit_of
from workbench.model import Timing
from workbench.project import require_project
from workbench.store import Store
from workbench.study.folder import Study, load_study
from workbench.units import digits3, quantity

ROOT = Path(__file__).resolve().parent.parent
DEVICE = "h200"
SECOND = "h100-80gb-hbm3"
_TABLE = re.compile(r"(<!-- table: (.+?) -->\n).*?(<!-- end of table -->)", re.DOTALL)

#: The ladders, as docs/ladders/README.md orders them.
STUDIES = (
    "conv2d",
    "conv2d_int8",
    "conv2d_half",
    "conv2d_direct",
    "conv2d_tile",
    "sgemm",
    "scale_add",
)


class Result(NamedTuple):
    """A version that stands beside the library, the goal set for it, and its rate's unit."""

    study: str
    problem: str
    version: str
    goal: str = ""
    rate: str = ""


RESULTS = (
    Result("scale_add", "n8192", "v2", "1 × (1.0 × copy)"),
    Result("conv2d_direct", "n4096", "v7", "8 × (0.95 × copy)", rate="byte/s"),
    Result("conv2d_tile", "c6", "v10", "6 × (20 µs)"),
    Result("conv2d_int8", "n32_c128", "v20", "1,000 TOP/s", rate="op/s"),
    Result("conv2d_half", "n32_c128", "v19", "0.95 ×"),
    *(Result("conv2d_half", each, "v19", "0.9 ×") for each in ("n1_c128", "n32_c64")),
    Result("conv2d_half", "n32_c256_h50", "v19", "0.9 ×"),
    Result("sgemm", "n4096", "v9", "0.95 ×"),
    Result("sgemm", "n8192", "v9", "0.95 ×"),
    Result("sgemm", "n8192", "v11", "2.0 ×"),
    *(Result("sgemm", f"n{n}", "v16", "0.9 ×") for n in (128, 512, 16384)),
    *(Result("conv2d", layer, "v16", "1.0 ×") for layer in ("c32_h64_k128", "c64_h64_k128")),
    Result("conv2d", "c32_h64_k128", "v15", "1.0 ×"),
    *(Result("conv2d", layer, "v15", "2.2 ×") for layer in ("c32_h128_k128", "c64_h128_k256")),
)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _table(header: tuple[str, ...], rows: Iterable[Iterable[str]]) -> str:
    ruler = "|" + " --- |" * len(header)
    return "\n".join([_row(header).replace("|  |", "| |"), ruler, *map(_row, rows)])


def _study(name: str) -> Study:
    return load_study(require_project(ROOT), name)


def _timings(study: str, device: str = DEVICE) -> dict[tuple[str, str], Timing]:
    found = Store(ROOT / "profiles").timings(study=study, device=device)
    return {(timing.version, timing.problem): timing for timing in found}


def results() -> str:
    """The versions of `RESULTS` beside the library, each pair measured in one process."""
    every = {name: _timings(name) for name in {result.study for result in RESULTS}}
    rows = []
    for result in RESULTS:
        timing = every[result.study][result.version, result.problem]
        library, ratio = timing.baseline_time, timing.ratio
        if library is None or ratio is None:
            raise SystemExit(f"{result.study}/{result.version} has no baseline beside it")
        time = f"{result.version} {quantity(timing.time.value, 's')}"
        if result.rate:
            work = timing.bytes if result.rate == "byte/s" else timing.flops
            time += f", {quantity(work / timing.time.value, result.rate)}"
        rows.append(
            (
                f"`{result.study}`",
                result.problem,
                time,
                f"{timing.baseline} {quantity(library.value, 's')}",
                f"**{digits3(ratio.value)} ×** [{ratio.low:#.4g}, {ratio.high:#.4g}]",
                result.goal,
            )
        )
    header = ("study", "problem", "best version", "library", "ratio [95% interval]", "goal")
    return _table(header, rows)


def _limit(store: Store, timing: Timing) -> str:
    """The limit of a timed version; empty where it was not profiled."""
    found = store.find(
        study=timing.study,
        version=timing.version,
        problem=timing.problem,
        device=timing.device.slug,
    )
    limits = (limit_of(store.load(entry.path)) for entry in found)
    return next((limit.words for limit in limits if limit is not None), "")


def chips() -> str:
    """The fastest version of each ladder and problem on the first chip, on both."""
    store = Store(ROOT / "profiles")
    rows = []
    for study in STUDIES:
        first, second = _timings(study), _timings(study, SECOND)
        own = [each.id for each in _study(study).versions.values() if not each.baseline]
        for problem in dict.fromkeys(problem for _, problem in second):
            known = [v for v in own if (v, problem) in first and (v, problem) in second]
            fastest = min(known, key=lambda v: first[v, problem].time.value)
            a, b = first[fastest, problem], second[fastest, problem]
            rows.append(
                (
                    f"`{study}` {fastest}",
                    problem,
                    quantity(a.time.value, "s"),
                    quantity(b.time.value, "s"),
                    f"{digits3(b.time.value / a.time.value)} ×",
                    _limit(store, a),
                    _limit(store, b),
                )
            )
    header = ("version", "problem", "H200", "H100", "takes", "limit on the H200", "on the H100")
    return _table(header, rows)


#: Name between the marks -> what stands there.
TABLES: Mapping[str, Callable[[], str]] = {"results": results, "chips": chips}
PAGES = (ROOT / "docs" / "measurements.md",)


def written(page: str) -> str:
    """A page's text with every table as it is recorded.

    Raises:
        KeyError: the page names a table that is not in `TABLES`.
    """
    return _TABLE.sub(lambda match: f"{match[1]}\n{TABLES[match[2]]()}\n\n{match[3]}", page)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
