"""The table of `workbench sweep`: goldens at 80 and 120 columns, and the other formats."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from rich.cells import cell_len

from tests import goldens
from tests.factories import make_timing
from workbench.analysis.limits.roofline import rate_unit
from workbench.measure.plan import Gap
from workbench.model import Device, Estimate, Timing
from workbench.sweeps.recorded import Sweep
from workbench.sweeps.shown import sweep_view
from workbench.views.terminal.console import render as to_text

SIDES = (128, 512, 1024, 2048, 4096, 8192)


def timing(version: str, n: int, rate: float, **more: Any) -> Timing:
    """A square matrix product at `rate` FLOP/s."""
    ratio = None if version == "cublas" else Estimate(value=rate / 50e12, low=0.0, high=9.0, n=40)
    return make_timing(
        value=2 * n**3 / rate,
        study="sgemm",
        version=version,
        problem=f"n{n}",
        parameters={"M": n, "N": n, "K": n},
        flops=2 * n**3,
        bytes=12 * n**2,
        baseline="" if ratio is None else "cublas",
        ratio=ratio,
        **more,
    )


def sweep(**changes: Any) -> Sweep:
    timings = {("v0", f"n{n}"): timing("v0", n, 0.5e12) for n in SIDES[:4]}
    timings |= {("v1", f"n{n}"): timing("v1", n, 7e12 if n < 1024 else 6.5e12) for n in SIDES}
    timings |= {("v4", f"n{n}"): timing("v4", n, 6e12 if n < 1024 else 35e12) for n in SIDES[1:]}
    timings |= {("cublas", f"n{n}"): timing("cublas", n, 50e12) for n in SIDES}
    timings["v1", "n4096"] = timing("v1", 4096, 6.5e12, converged=False)
    timings["v0", "n128"] = timing("v0", 128, 1e10)
    timings["v0", "n512"] = timing("v0", 512, 2 * 512**3 / 420e-6)  # as long as n128: 419 µs
    fields: dict[str, Any] = {
        "study": "sgemm",
        "device": "NVIDIA H200",
        "cache": "cold",
        "versions": ("v0", "v1", "v4", "cublas"),
        "baselines": ("cublas",),
        "problems": tuple(f"n{n}" for n in SIDES),
        "timings": timings,
        "gaps": {
            ("v0", "n4096"): Gap(kind="failed", why="v0 on n4096 did not end within 300 s"),
            ("v0", "n8192"): Gap(kind="missing", why="not recorded"),
            ("v4", "n128"): Gap(kind="refused", why="a block is 128 columns wide"),
        },
        "stale": frozenset({("v1", "n2048")}),
    }
    return Sweep(**(fields | changes))


@pytest.mark.parametrize("width", [80, 120])
def test_golden(width: int) -> None:
    goldens.same_view("sweeps/measured_sweep", sweep_view(sweep()), width)


def test_the_fastest_of_the_ladder_is_marked_and_neither_baseline_nor_stale_times() -> None:
    made = sweep()
    assert made.best == {
        "n128": "v1",
        "n512": "v1",
        "n1024": "v4",
        "n2048": "v4",
        "n4096": "v4",
        "n8192": "v4",
    }
    only_stale = sweep(stale=frozenset(made.timings))
    assert only_stale.best == {} and "fastest" not in to_text(sweep_view(only_stale), 120)
    text = to_text(sweep_view(made), 120)
    assert "* fastest version: v1 on 2 of 6 problems (0.140× the speed of cublas); v4 on 4" in text
    assert text.count("*") == 6 + 1  # a mark each, and the line that explains it


def test_marks_are_explained_only_where_they_stand() -> None:
    text = to_text(sweep_view(sweep()), 120)
    assert "† measured on an older source" in text and "± the 95% interval" in text
    plain = {k: msgspec.structs.replace(t, converged=True) for k, t in sweep().timings.items()}
    text = to_text(sweep_view(sweep(timings=plain, stale=frozenset())), 120)
    assert "†" not in text and "±" not in text


def test_a_narrow_terminal_gets_the_sizes_in_several_tables() -> None:
    text = to_text(sweep_view(sweep()), 50)
    heads = [line.split()[1:] for line in text.splitlines() if line.startswith("time ")]
    assert len(heads) > 1 and [name for head in heads for name in head] == list(sweep().problems)
    assert all(cell_len(line) <= 50 for line in text.splitlines())


# --- units ---------------------------------------------------------------------------------


def test_memory_bound_studies_are_shown_in_bytes_per_second() -> None:
    # scale_add: two operations for eight bytes; sgemm n4096: 683 operations a byte.
    add = make_timing(flops=2 * 8192**2, bytes=8 * 8192**2, value=129e-6)
    assert rate_unit([add]) == "byte/s"
    assert rate_unit([timing("v0", 4096, 1e12)]) == "flop/s"
    # The largest problem decides: a product of 16×16 matrices has 2.7 operations a byte.
    assert rate_unit([timing("v0", 16, 1e9), timing("v0", 4096, 1e12)]) == "flop/s"
    assert rate_unit([timing("v0", 4096, 1e12)], "op") == "op/s"
    assert rate_unit([add], "op") == "byte/s"
    unknown = msgspec.structs.replace(add, device=Device(name="Some Chip", slug="some-chip"))
    assert rate_unit([unknown]) == "byte/s"
    assert rate_unit([make_timing(flops=5, bytes=0)]) == "flop/s" and rate_unit([]) == "flop/s"
    text = to_text(
        sweep_view(
            sweep(
                versions=("v2",),
                baselines=(),
                problems=("n1024",),
                timings={("v2", "n1024"): add},
                gaps={},
                stale=frozenset(),
            )
        ),
        80,
    )
    assert "TB/s" in text and "4.16" in text and "speed to" not in text


def test_integer_work_is_counted_in_operations() -> None:
    text = to_text(sweep_view(sweep(work="op")), 120)
    assert "TOP/s" in text and "FLOP/s" not in text


def test_a_study_without_counts_has_no_rates() -> None:
    bare = {key: msgspec.structs.replace(t, flops=0, bytes=0) for key, t in sweep().timings.items()}
    text = to_text(sweep_view(sweep(timings=bare)), 120)
    assert "FLOP/s" not in text and "B/s" not in text and "speed to cublas" in text


# --- other formats --------------------------------------------------------------------------
