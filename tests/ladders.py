"""What the tests of every shipped ladder share: loading, building, mutating, emulating."""

from __future__ import annotations

import importlib.util
import itertools
import types
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.study_maker import Maker
from workbench.compile import build as building
from workbench.compile import compilers
from workbench.engines import ProfileOptions, RunOptions, Subject
from workbench.engines.emulated.emulation import Emulation, verified
from workbench.engines.emulated.engine import EmulatorEngine
from workbench.engines.host.job import Check
from workbench.errors import UsageError, WorkbenchError
from workbench.measure.plan import Combination
from workbench.model import Build, Problem, Profile
from workbench.project import Project, require_project
from workbench.specs import Version
from workbench.study.folder import Study, load_study

PROJECT: Project = require_project(Path(__file__).resolve().parent.parent)

needs_compiler = pytest.mark.skipif(
    not compilers.available(), reason="neither nvcc nor NVRTC is on this machine"
)


def shipped(name: str) -> Study:
    """A study of this repository."""
    return load_study(PROJECT, name)


def rungs(study: Study) -> list[Version]:
    """The ladder without its baselines, in order."""
    return [version for version in study.versions.values() if not version.baseline]


def relative_error(out: np.ndarray, reference: np.ndarray) -> float:
    """‖out − reference‖ / ‖reference‖, as `verify` judges it."""
    wide = out.astype("float64")
    return float(np.linalg.norm(wide - reference) / np.linalg.norm(reference))


def python_file(study: Study, name: str) -> types.ModuleType:
    """``kernels/<study>/<name>.py`` as a module."""
    spec = importlib.util.spec_from_file_location(name, study.folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def built(version: Version, arch: str = "sm_90") -> Build:
    """Compiled as `workbench profile` would: resources, PTX and the compiler's log."""
    return building.build(PROJECT, version, arch).build


def mutated(version: Version, right: str, wrong: str) -> Version:
    """The version with one mistake in it; `right` must stand in its file exactly once."""
    assert version.text.count(right) == 1, f"{right!r} stands {version.text.count(right)} times"
    return msgspec.structs.replace(version, text=version.text.replace(right, wrong))


def emulated(
    study: Study,
    version: Version,
    problem: Problem,
    options: RunOptions,
    project: Project = PROJECT,
) -> tuple[Emulation, Subject]:
    """A version in the emulator, watched for races and uninitialized reads."""
    engine = EmulatorEngine(project, options)
    Combination.of(study, version, problem)
    subject = Subject.of(study, version, problem, engine.build)
    return engine.emulate(subject, watch=True), subject


def tried(maker: Maker, text: str, study: str, problem: str = "") -> Check:
    """A version of a study, both texts, in the emulator; it is right."""
    maker.write("study.py", study)
    maker.write("v0.cu", text)
    made = maker.load()
    version, of = made.version("v0"), made.problem(problem or None)
    return verified(*emulated(made, version, of, RunOptions(seed=3), maker.project))


def profile(
    study: Study, version: Version, problem: Problem, seed: int = 1, blocks: int | None = None
) -> Profile:
    """A version's profile by the emulator."""
    engine = EmulatorEngine(PROJECT, RunOptions(seed=seed))
    subject = Subject.of(study, version, problem, engine.build)
    return engine.profile(subject, ProfileOptions(blocks=blocks))[0]


def verdict(study: Study, version: Version, problem: Problem, seed: int = 7) -> str:
    """What verification under the emulator says: "" where the version is right.

    A mutated `version` is compiled and run as it is in memory, not as in its file.
    """
    try:
        verified(*emulated(study, version, problem, RunOptions(seed=seed)))
    except WorkbenchError as error:
        return error.message
    return ""


def check_clean_build(version: Version, arch: str) -> None:
    """It compiles without warnings, local memory and spills."""
    made = built(version, arch)
    assert made.log == "", version.id
    for kernel in made.resources:
        used = (kernel.stack, kernel.spill_stores, kernel.spill_loads)
        assert used == (0, 0, 0), f"{version.id} {kernel.name}"


def check_story(study: Study) -> None:
    """Ids without gaps, one parent each, a sentence of change, expectations with reasons.

    What is written in Triton begins at v20, so that a ladder in CUDA C++ can go on up to there,
    and after it.
    """
    ladder = rungs(study)
    numbers = [int(version.id.removeprefix("v")) for version in ladder]
    below = sum(number < 20 for number in numbers)
    assert numbers == [*range(below), *range(20, 20 + len(ladder) - below)]
    assert all(version.kind == "cuda" for version in ladder[:below])
    for version in ladder[1:]:
        assert version.parent in study.versions, version.id
        assert version.change.endswith("."), version.id
        # Nothing was predicted of the first one in Triton before it was measured.
        assert version.expectations or version.id == "v20", version.id
        assert all(each.why for each in version.expectations), version.id
    for version in ladder:
        # Hindsight has a key of its own.
        assert not any("Learned:" in each.why for each in version.expectations), version.id
    for before, version in itertools.pairwise(ladder):
        assert version.text != before.text


def check_sampled_reference(study: Study, problem: Problem, atol: float = 0.0) -> None:
    """`reference_at` gives the elements of `reference`, within `atol` of the largest."""
    rng = np.random.default_rng(3)
    inputs = study.inputs(problem, rng)
    full: Mapping[str, np.ndarray] = study.reference(problem, inputs)
    indices = {name: rng.integers(0, array.size, size=64) for name, array in full.items()}
    sample = study.reference_at(problem, inputs, indices)
    for name, array in full.items():
        expected = array.ravel()[indices[name]]
        np.testing.assert_allclose(
            sample[name], expected, rtol=0, atol=atol * float(np.abs(array).max())
        )


def check_library_says_why(study: Study, name: str) -> None:
    """The baseline's file runs where its library has a GPU, and elsewhere says what lacks."""
    module = python_file(study, name)
    try:
        import torch

        expected = "" if torch.cuda.is_available() else "no CUDA device"
    except ImportError:
        expected = "not installed"
    assert expected in module.available()
    assert bool(module.available()) == bool(expected)


def check_refused(study: Study, version: Version, problem: Problem, sentence: str) -> None:
    """The version does not do the problem, and says why."""
    with pytest.raises(UsageError, match="cannot run problem") as caught:
        study.check_requirements(version, problem)
    message = caught.value.message
    assert f"{version.id} cannot run problem {problem.name}" in message
    assert sentence in message, version.id
