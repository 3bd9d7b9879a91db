"""Deliberately wrong kernels of compute capability 9.0 alone: each is caught at its line."""

from __future__ import annotations

import re

import pytest

from tests.fixtures import REPO
from workbench.engines import ProfileOptions, RunOptions, Subject
from workbench.engines.emulated.emulation import Emulation, verified
from workbench.engines.emulated.engine import EmulatorEngine
from workbench.errors import KernelError
from workbench.project import Project, require_project
from workbench.study.folder import Study, load_study

pytestmark = pytest.mark.nvcc

#: What is said of each, by study.
SAID = {
    "hopper": {
        "v1": r"wait with the wrong parity: it lets warp 0 .* after 0 phases .* reads what nothing",
        "v2": r"missing proxy fence: .* reads bs .*, which ordinary stores at .*:3\d wrote",
        "v3": r"accumulator used before its wait: warp 0 .* reads an accumulator of .*:3\d",
        "v4": r"warp 4 .* copies to as.*, which the copy at .*:2\d may still be writing",
        "v5": r"warp 4 .* copies to as.*, which .*:3\d may still be reading",
        "v6": r"missing wgmma\.fence: warp 0 .* with none since .* wrote its register",
        "v7": r"mbarrier full\[0\] never completes: .* 0 of 1 arrivals and 1,024 bytes",
        "v8": r"warp 0 .* reads as.*, which the copy at .* may still be writing|uninitialized",
    },
    "stores": {
        "v1": r"warp 4 .* writes rows.*, which .*:3\d may still be reading",
        "v2": r"missing proxy fence: warp 0 .* copies from rows.*, which ordinary stores .*:3\d",
        "v3": r"warp 0 .* writes rows.*, which was written by warp 4 at .* without a barrier",
        "v4": r"block ended during its own copy: warp \d .* has not waited for this bulk copy",
    },
    # Blocks that stay and copy windows of images.
    "windows": {
        "v1": r"race: warp 1 .* writes place.*, which was read by warp 0 at .*:57 without",
        "v2": r"warp 0 .* reads ring.*, which (no thread .* has written|the copy at .* may)",
    },
}


@pytest.fixture(scope="module")
def broken_project() -> Project:
    return require_project(REPO / "tests" / "data" / "broken")


@pytest.fixture(scope="module")
def hopper_study(broken_project: Project) -> tuple[Project, Study]:
    return broken_project, load_study(broken_project, "hopper")


def emulated(project: Project, study: Study, name: str, problem: str) -> tuple[Emulation, Subject]:
    engine = EmulatorEngine(project, RunOptions(seed=3, arch="sm_90a", instruction_limit=100_000))
    version = study.version(name)
    subject = Subject.of(study, version, study.problem(problem), engine.build)
    return engine.emulate(subject, watch=True), subject


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("hopper", "k128"),
        ("hopper", "k16"),
        ("stores", "n6"),
        ("windows", "steps"),
        ("windows", "plain"),
    ],
)
def test_the_right_kernel_is_not_accused(broken_project: Project, name: str, problem: str) -> None:
    assert verified(*emulated(broken_project, load_study(broken_project, name), "v0", problem)).ok


@pytest.mark.parametrize(("name", "id_"), [(name, id_) for name in SAID for id_ in SAID[name]])
def test_a_wrong_kernel_is_caught_at_its_line(broken_project: Project, name: str, id_: str) -> None:
    study = load_study(broken_project, name)
    version = study.version(id_)
    with pytest.raises(KernelError, match=SAID[name][id_]) as caught:
        verified(*emulated(broken_project, study, id_, study.problem().name))
    lines = version.text.splitlines()
    (wrong,) = [i for i, line in enumerate(lines, 1) if line.endswith("// <- wrong")]
    assert caught.value.message.startswith(f"{version.path}:{wrong}: "), caught.value.message
    assert caught.value.hint


def test_products_have_wavefronts_and_copies_have_none(hopper_study: tuple[Project, Study]) -> None:
    """As on the chip: rows of 128 bytes for a product, and no sector for what a copy brings."""
    project, study = hopper_study
    engine = EmulatorEngine(project, RunOptions(seed=3, arch="sm_90a"))
    version = study.version("v0")
    subject = Subject.of(study, version, study.problem("k128"), engine.build)
    profile, _ = engine.profile(subject, ProfileOptions())
    launch = profile.launches[0]
    # Four warps store 16 sums each, in lines of their own.
    assert launch.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"].value == 512
    assert launch.metrics["memory_l2_theoretical_sectors_global"].value == 512
    # Eight products of 64×16 by 16×32: (64 + 32) rows of 32 bytes each.
    assert launch.metrics["memory_l1_wavefronts_shared"].value == 8 * (64 + 32) * 32 // 128
    assert "ptx__operations_per_l2_byte" not in launch.metrics
    assert "bulk copies also move data" in launch.absent["ptx__operations_per_l2_byte"]
    assert launch.metrics["ptx__operations"].value == 2 * 64 * 32 * 128


@pytest.mark.parametrize("name", SAID)
def test_every_wrong_version_is_listed_here(broken_project: Project, name: str) -> None:
    assert set(load_study(broken_project, name).versions) == {"v0", *SAID[name]}
    assert all(re.compile(words) for words in SAID[name].values())
