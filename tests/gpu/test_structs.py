"""Structs by value on a GPU, launched either way: a kernel sees the members it was given."""

from __future__ import annotations

import pytest

from tests.engines.test_emulated_structs import STUDY, VERSION
from tests.gpu.conftest import experiment_within
from tests.study_maker import Maker
from workbench.engines import Where
from workbench.engines.gpu.nvml import Gpu
from workbench.engines.host import presence
from workbench.errors import KernelError

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]


@pytest.mark.parametrize("launched", ["", "cooperative = true\n"])
@pytest.mark.parametrize(("sign", "right"), [("char(-1)", True), ("char(1)", False)])
def test_a_kernel_sees_the_members_it_was_given(
    gpu: Gpu, maker: Maker, launched: str, sign: str, right: bool
) -> None:
    (maker.project.root / "workbench.toml").write_text('default_study = "s"\n')
    maker.write("study.py", STUDY)
    text = VERSION.replace("args = [", f"{launched}args = [", 1).replace("char(-1)", sign)
    maker.write("v0.cu", text)
    experiment = experiment_within(maker.project, "s", Where(arch=presence.arch_of(gpu)))
    subject = experiment.subject(experiment.study.version("v0"), experiment.study.problem())
    (verdict,) = experiment.verify([subject])
    assert verdict.error is None if right else isinstance(verdict.error, KernelError)
