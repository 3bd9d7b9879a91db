"""``workbench new --from-tuned``: a version with the values of the winner."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.commands.test_new import new
from tests.factories import keep_tuning, make_profile
from workbench.cli import app
from workbench.errors import MissingError, UsageError
from workbench.ladder.tunings import Trial, TuningBegun, Value, Values
from workbench.project import find_project
from workbench.store import Store
from workbench.study.folder import Study, load_study, source_hash
from workbench.study.scaffold import start_project

FRONT = """
[defines]
TILE = 16

[tune]
TILE = [16, 32]
UNROLL = [1, 4]
block = [256, 128]
requires = "TILE * UNROLL <= 128"
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study whose v0 has a space."""
    start_project(tmp_path, "vadd")
    monkeypatch.chdir(tmp_path)
    (path,) = (tmp_path / "kernels/vadd").glob("v0*.cu")
    text = path.read_text()
    text = text.replace("\n[[launch]]", f"{FRONT}\n[[launch]]", 1)
    path.write_text(text + "\n__device__ const int area = TILE * UNROLL;\n")
    assert study(tmp_path).version("v0").tune is not None
    return tmp_path


def study(root: Path) -> Study:
    project = find_project(root)
    assert project is not None
    return load_study(project, "vadd")


def tune(root: Path, *trials: tuple[str, Values, float], engine: str = "gpu") -> None:
    project, version = find_project(root), study(root).version("v0")
    assert project is not None and version.tune is not None
    timed = engine == "gpu"
    keep_tuning(
        project.profiles,
        TuningBegun(
            study="vadd",
            version="v0",
            source_hash=source_hash(project, version),
            problems=tuple(dict.fromkeys(problem for problem, *_ in trials)),
            gpu="h200",
            engine="gpu" if timed else "emulator",
            parameters=version.tune.parameters,
            default=version.tune.default,
            requires=version.tune.requires,
            strategy="all",
            seed=1,
            started="2026-11-26T09:00:00Z",
        ),
        [
            Trial(
                values=values,
                fate="timed" if timed else "counted",
                problem=problem,
                median_s=seconds if timed else None,
                estimate=seconds,
                verified=(problem,),
            )
            for problem, values, seconds in trials
        ],
    )


def values(root: Path, **changes: Value) -> Values:
    version = study(root).version("v0")
    assert version.tune is not None
    return {**version.tune.default, **changes}


def test_a_version_has_the_winners_values_and_no_space(root: Path) -> None:
    best = values(root, TILE=32, UNROLL=4)
    tune(root, ("n1024", values(root), 2e-3), ("n1024", best, 1e-3))
    output = new("v1", "--from-tuned", "v0")
    parent, child = (study(root).version(each) for each in ("v0", "v1"))
    assert (child.parent, child.tune) == ("v0", None)
    assert child.defines == {**parent.defines, "TILE": "32", "UNROLL": "4"}
    assert child.launches[0].block == parent.launches[0].block
    assert child.change == "Tuned for n1024 on h200: TILE 16 → 32, UNROLL 1 → 4."
    assert (child.title, child.path) == ("Tuned for n1024", "kernels/vadd/v1_tuned_for_n1024.cu")
    assert "TILE=32 UNROLL=4" in output and "2.00× the speed of its own values" in output
    assert "workbench diff v0 v1" in output


def test_the_winners_block_is_the_launches(root: Path) -> None:
    version = study(root).version("v0")
    assert version.tune is not None
    (other,) = {*version.tune.parameters["block"]} - {version.tune.default["block"]}
    tune(root, ("n1024", values(root, block=other), 1e-3))
    new("v1", "--from-tuned", "v0", "--title", "Small blocks")
    child = study(root).version("v1")
    assert child.launches[0].block == ("128",)
    assert (child.title, child.defines) == ("Small blocks", version.defines)


def test_winners_that_differ_are_chosen_by_problem(root: Path) -> None:
    one, other = values(root, TILE=32), values(root, UNROLL=4)
    tune(root, ("n1024", one, 1e-3), ("n64", other, 1e-5))
    with pytest.raises(UsageError, match="differ by problem") as error:
        new("v1", "--from-tuned", "v0")
    assert "n64" in error.value.hint and "n1024" in error.value.hint
    with pytest.raises(MissingError, match="no winner on n46"):
        new("v1", "--from-tuned", "v0", "--problem", "n46")
    new("v1", "--from-tuned", "v0", "--problem", "n64")
    assert study(root).version("v1").defines["UNROLL"] == "4"


def test_the_emulators_winner_is_called_an_estimate(root: Path) -> None:
    tune(root, ("n1024", values(root, TILE=32), 1e-3), engine="emulator")
    assert "no time was measured" in new("v1", "--from-tuned", "v0")
    assert "ranked by the emulator's counts" in study(root).version("v1").change
    # A time says more than an estimate.
    tune(root, ("n1024", values(root, UNROLL=4), 2e-3))
    new("v2", "--from-tuned", "v0")
    assert study(root).version("v2").defines["TILE"] == "16"


def test_what_cannot_be_told_is_refused_and_nothing_is_written(root: Path) -> None:
    before = sorted((root / "kernels/vadd").iterdir())
    with pytest.raises(MissingError, match="never tuned"):
        new("v1", "--from-tuned", "v0")
    tune(root, ("n1024", values(root), 1e-3))
    with pytest.raises(UsageError, match="already has the best values of its space"):
        new("v1", "--from-tuned", "v0")
    for more in (("--from", "v0"), ("--example",), ("--from-cu", "x.cu")):
        with pytest.raises(UsageError):
            new("v1", "--from-tuned", "v0", *more)
    with pytest.raises(UsageError):
        new("v1", "--problem", "n64")
    with pytest.raises(UsageError):
        new("--from-tuned", "v0")
    (path,) = (root / "kernels/vadd").glob("v0*.cu")
    path.write_text(path.read_text() + "\n__device__ int more;\n")
    with pytest.raises(UsageError, match="has changed since it was tuned"):
        new("v1", "--from-tuned", "v0")
    assert sorted((root / "kernels/vadd").iterdir()) == before


# --- where one looks -----------------------------------------------------------------------------


def said(*words: str) -> str:
    """What a command prints, in one line."""
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def record(root: Path, version: str) -> None:
    """A profile of a version as it is."""
    project, known = find_project(root), study(root).version(version)
    assert project is not None
    own = source_hash(project, known)
    profile = make_profile(study="vadd", version=version, problem="n1024", source_hash=own)
    Store.of(project).save(profile)


def test_list_and_show_say_that_a_version_was_tuned(root: Path) -> None:
    best = values(root, TILE=32, UNROLL=4)
    tune(root, ("n1024", values(root), 2e-3), ("n1024", best, 1e-3))
    record(root, "v0")
    line = (
        "v0 was tuned on n1024 (h200, 2026-11-26): TILE=32 UNROLL=4 block=256 is the best of "
        "2 choices, 2.00× the speed of its own values"
    )
    assert line[:60] in said("list"), "in a row of the terminal"
    for words in (("list", "--study", "vadd"), ("show", "v0")):
        assert line in said(*words), words
    (path,) = (root / "kernels/vadd").glob("v0*.cu")
    path.write_text(path.read_text() + "// another comment\n")
    for words in (("list", "--study", "vadd"), ("show", "v0")):
        assert f"{line}; its source has changed since" in said(*words), words


def test_a_version_whose_own_values_are_the_best_is_told_so(root: Path) -> None:
    tune(
        root, ("n1024", values(root), 1e-3), ("n64", values(root, TILE=32), 1e-3), engine="emulator"
    )
    told = said("list", "--study", "vadd")
    assert "is the best of 1 choice, which are its own values, by the emulator’s estimate" in told
    assert "v0 was tuned on n64" in told


def test_a_damaged_tuning_hides_no_profile(root: Path) -> None:
    tune(root, ("n1024", values(root), 1e-3))
    record(root, "v0")
    (path,) = root.glob("profiles/*/vadd/tuned/v0/*.jsonl")
    path.write_text("no tuning\n")
    assert "without its tuning:" in said("show", "v0")
    result = CliRunner().invoke(app, ["list"])
    assert result.exit_code != 0 and "v0" in result.output


def test_diff_says_what_a_tuned_version_was_made_of(root: Path) -> None:
    tune(root, ("n1024", values(root), 2e-3), ("n1024", values(root, TILE=32), 1e-3))
    new("v1", "--from-tuned", "v0")
    for version in ("v0", "v1"):
        record(root, version)
    assert "Tuned for n1024 on h200: TILE 16 → 32." in said("diff", "v0", "v1")
