"""Recorded steps and programs as they are told, whole, held against golden files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench as wb
from benchmarks.recordings import opened
from tests import goldens
from workbench.analysis.story import Step
from workbench.ladder import find_ladders
from workbench.store import Store
from workbench.views.terminal.console import render
from workbench.views.terminal.diff import diff_view
from workbench.views.terminal.show import show_view
from workbench.views.terminal.tables import sheet_view
from workbench.views.text.markdown import step_markdown

REPO = Path(__file__).parents[2]
DATA = REPO / "tests" / "data"
UNSEEN = DATA / "unseen"
#: Shipped ladders -> the problem, and which of their steps are told: the whole takes minutes.
SHIPPED = {
    "sgemm": ("n4096", {"v1", "v3", "v9", "v12"}),
    "conv2d": ("c64_h128_k256", {"v1", "v11"}),
    "conv2d_direct": ("n4096", {"v1", "v4"}),
    "conv2d_half": ("n32_c128", {"v9", "v15", "v17", "v18", "v19"}),
    "conv2d_int8": ("n32_c128", {"v2", "v20"}),
    "conv2d_tile": ("c6", {"v1"}),
    "scale_add": ("n8192", {"v1", "v2"}),
}
CAPTURES = {
    folder: sorted(path.name for path in (DATA / folder / ".workbench" / "captures").iterdir())
    for folder in ("programs", "captures")
}
PROGRAMS = [
    *(
        ("programs", old, old.replace("before", "after"))
        for old in CAPTURES["programs"]
        if old.endswith("before") and old.replace("before", "after") in CAPTURES["programs"]
    ),
    *(
        ("captures", old, new)
        for old, new in (
            ("strided", "coalesced"),
            ("manual", "fused"),
            ("eager", "eager-fused"),
            ("compile", "compile-fused"),
        )
    ),
]


def steps(root: Path, study: str) -> Iterator[Step]:
    """The steps of ncu's profiles on the H200."""
    project = opened(root)
    for ladder in find_ladders(Store.of(project), project, (study,)):
        problem, only = SHIPPED.get(study, (ladder.problem, None))
        if (ladder.problem, ladder.device) == (problem, "h200"):
            for old, new, engine in ladder.steps:
                if engine == "ncu" and (only is None or new in only):
                    yield ladder.step(old, new, engine)


def told(each: Step) -> str:
    """A step as a comment of a merge request and as a screen, and its new side alone."""
    comment = step_markdown(each.old, each.new, each.comparison, each.story)
    screens = (
        diff_view(each.comparison, step=each, width=100),
        show_view(each.new, label=each.labels[1], width=100),
    )
    return "\n".join((comment, *(render(screen, 100) for screen in screens)))


@pytest.mark.parametrize(
    ("root", "study"),
    [
        *((UNSEEN, path.name) for path in sorted((UNSEEN / "profiles" / "h200").iterdir())),
        *((REPO, study) for study in SHIPPED),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_recorded_steps(root: Path, study: str) -> None:
    goldens.same(f"recorded/{study}.txt", "\n".join(map(told, steps(root, study))))


@pytest.mark.parametrize(("folder", "old", "new"), PROGRAMS)
def test_recorded_programs(folder: str, old: str, new: str) -> None:
    from workbench.programs.shown.sheets import difference_sheet, program_sheet
    from workbench.programs.shown.steps import kernel_step_view

    session = wb.Session(DATA / folder)
    both, diff = map(session.program, (old, new)), session.diff_programs(old, new)
    views = [
        *(sheet_view(program_sheet(side.capture)) for side in both),
        sheet_view(difference_sheet(diff.difference)),
        *(kernel_step_view(step, diff.difference, width=120) for step in diff.steps()),
    ]
    goldens.same(f"recorded/{old}.txt", "".join(render(view, 120) for view in views))


@pytest.mark.parametrize("name", CAPTURES["captures"])
def test_recorded_captures(name: str) -> None:
    """Programs of other people: PyTorch, Triton, CuPy, numba, a sample of CUDA's, a pytest."""
    from workbench.programs.shown.sheets import program_sheet

    found = wb.Session(DATA / "captures").program(name)
    views = [sheet_view(program_sheet(found.capture))]
    if found.detail is not None:
        views.append(show_view(found.profile, label=f"@{name}", width=120))
    goldens.same(f"recorded/@{name}.txt", "".join(render(view, 120) for view in views))


def test_no_golden_is_left_over() -> None:
    names = {
        *(path.name for path in (UNSEEN / "profiles" / "h200").iterdir()),
        *SHIPPED,
        *(old for _, old, _ in PROGRAMS),
        *(f"@{name}" for name in CAPTURES["captures"]),
    }
    goldens.no_others("recorded", {f"{name}.txt" for name in names})
