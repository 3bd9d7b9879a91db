"""Each kind of fraud in frauds.toml is refused with its reason, or escapes for a reason."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engines.stand_ins import BASELINE, experiment_on
from workbench.compile import compilers
from workbench.engines import Engine, RunOptions
from workbench.engines.emulated.engine import EmulatorEngine
from workbench.engines.host.job import TimeOptions
from workbench.measure.experiment import Experiment
from workbench.measure.plan import Combination
from workbench.model import Timing
from workbench.project import Project, require_project
from workbench.study.folder import load_study

REPO = Path(__file__).parents[2]
BOOK = tomllib.loads((REPO / "tests/frauds/frauds.toml").read_text())
ROWS: list[dict[str, str]] = BOOK["fraud"]
SEED = 7


def made(root: Path) -> Project:
    """A project with the table's kernels: ``v10`` is the first code, ``v11`` its twin."""
    first = np.random.default_rng(SEED).standard_normal((1, 64), dtype="float32")[0, 0]
    short = {**BOOK["short"], "FIRST": f"{first:.9g}f"}
    folder = root / "kernels" / "sums"
    folder.mkdir(parents=True)
    (root / "workbench.toml").write_text("")
    (folder / "study.py").write_text(BOOK["study"])
    for place, row in enumerate(ROWS, 1):
        for number, kind in enumerate(("code", "twin")):
            if kind in row:
                text = re.sub("|".join(short), lambda found: short[found[0]], row[kind])
                (folder / f"v{place}{number}.cu").write_text(BOOK["front"].lstrip() + text)
    return require_project(root)


def told(project: Project, engine: Engine) -> dict[str, str]:
    """Version -> what verifying it says; "" where it is ok."""
    study = load_study(project, "sums")
    experiment, said = Experiment(project, study, engine), dict.fromkeys(study.versions, "")
    pieces = [Combination(v, p) for v in study.versions.values() for p in study.problems.values()]
    subjects = experiment.subjects(
        pieces, lambda piece, error: said.update({piece.version.id: error.message})
    )
    for subject, verdict in zip(subjects, experiment.verify(subjects), strict=True):
        said[subject.version.id] += verdict.error.message if verdict.error else ""
    return said


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    project = made(tmp_path_factory.mktemp("frauds"))
    return told(project, EmulatorEngine(project, RunOptions(seed=SEED)))


@pytest.mark.slow
@pytest.mark.nvcc
@pytest.mark.skipif(not compilers.available(), reason="no CUDA compiler here")
@pytest.mark.parametrize("place", [at for at, row in enumerate(ROWS, 1) if "code" in row])
def test_a_kernel_is_refused_and_its_twin_is_not(emulated: dict[str, str], place: int) -> None:
    said, got = ROWS[place - 1].get("said", ""), emulated[f"v{place}0"]
    assert said in got and bool(said) is bool(got)
    assert not emulated.get(f"v{place}1")


@pytest.mark.usefixtures("stand_in")
def test_a_python_version_is_refused_after_it_was_timed(project: Project) -> None:
    head = BASELINE.replace("baseline = true\n", "").partition("    def run():")[0]
    rows = {f"v{place}": row for place, row in enumerate(ROWS) if "python" in row}
    for name, row in rows.items():
        text = head + row["python"] + "    return run\n"
        (project.kernels / "double" / f"{name}.py").write_text(text)
    study, found = load_study(project, "double"), dict[str, Any]()
    pieces = [Combination(study.version(name), study.problem("n1000")) for name in rows]
    options = TimeOptions(limit_s=0.1, max_samples=20)
    experiment_on(project, study).time(
        pieces, options, lambda piece, outcome: found.update({piece.version.id: outcome})
    )
    for name, row in rows.items():
        if isinstance(found[name], Timing):
            assert "escapes" in row and "prepared" in {each.code for each in found[name].notices}
        else:
            assert row.get("said", "ok") in found[name].message


def test_the_table_is_whole() -> None:
    assert len({row["kind"] for row in ROWS}) == len(ROWS) >= 25
    for row in ROWS:
        assert len(row.keys() & {"said", "test", "escapes"}) == 1, row["kind"]
        file, _, name = row.get("test", "tests/frauds/test_frauds.py::test_the").partition("::")
        assert f"def {name}" in (REPO / file).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.nvcc
@pytest.mark.skipif(not compilers.available(), reason="no CUDA compiler here")
@pytest.mark.parametrize("rows", ['problem["n"]', 'problem["n"] + rng.integers(1, 99)', "fixed"])
def test_a_second_run_has_other_inputs_or_is_told_to_have_none(tmp_path: Path, rows: str) -> None:
    project = made(tmp_path)
    folder = project.kernels / "sums"
    kept = next(at for at, row in enumerate(ROWS, 1) if "second run" in row.get("said", ""))
    for path in folder.glob("*.cu"):
        if path.stem not in (f"v{kept}0", f"v{kept}1"):
            path.unlink()
    drawn = 'rng.standard_normal((problem["n"], 64)'
    other = drawn.replace('problem["n"]', rows)
    if rows == "fixed":
        other = drawn.replace("rng", '__import__("numpy").random.default_rng(5)')
    study = folder / "study.py"
    study.write_text(
        study.read_text()
        .replace(drawn, other)
        .replace("sum(axis=1)", "sum(axis=1)[:SIZE]")
        .replace("SIZE", '_problem["n"]')
    )
    engine = EmulatorEngine(project, RunOptions(seed=SEED))
    experiment = Experiment(project, load_study(project, "sums"), engine)
    subjects = [
        experiment.subject(v, p)
        for v in experiment.study.versions.values()
        for p in experiment.study.problems.values()
    ]
    verdicts = experiment.verify(subjects)
    refused = [bool(each.error) for each in verdicts if each.check is not None]
    assert any(refused) is (rows != "fixed")
    assert all(each.check.fixed for each in verdicts if each.check and not each.error) is (
        rows == "fixed"
    )
