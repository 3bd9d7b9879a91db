"""Numbers that NumPy or PTX alone know, on a GPU: bfloat16 of studies, and video instructions."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.engines.test_elements import KERNEL, STUDY
from tests.gpu.conftest import experiment_within
from tests.ptxemu import test_video
from tests.ptxemu.conftest import HEADER
from workbench.engines import Where
from workbench.engines.gpu.device import DeviceContext
from workbench.engines.gpu.libcuda import Driver
from workbench.engines.gpu.nvml import Gpu
from workbench.engines.host import presence
from workbench.engines.host.job import BufferSpec
from workbench.errors import KernelError
from workbench.processes.bounds import Deadline
from workbench.project import require_project
from workbench.study.launches import ResolvedLaunch

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]
#: Instructions of each opcode, each with words of its own in every lane.
VARIANTS = 60


@pytest.mark.parametrize(("factor", "right"), [("1.5", True), ("1.6", False)])
def test_a_kernel_in_bfloat16_is_verified(
    gpu: Gpu, tmp_path: Path, factor: str, right: bool
) -> None:
    folder = tmp_path / "kernels" / "scale"
    folder.mkdir(parents=True)
    (tmp_path / "workbench.toml").write_text('default_study = "scale"\n')
    (folder / "study.py").write_text('"""y = f x."""\n' + STUDY.replace("FACTOR", factor))
    (folder / "v0.cu").write_text(KERNEL)
    where = Where(arch=presence.arch_of(gpu), limit=Deadline(120.0))
    experiment = experiment_within(require_project(tmp_path), "scale", where)
    study = experiment.study
    (verdict,) = experiment.verify([experiment.subject(study.version("v0"), study.problem())])
    if right:
        assert verdict.error is None and verdict.check is not None
        assert verdict.check.ok and not verdict.check.unwritten
    else:
        assert isinstance(verdict.error, KernelError) and "wrong result" in verdict.error.message


@pytest.fixture
def session(gpu: Gpu) -> Iterator[DeviceContext]:
    with DeviceContext() as session:
        yield session


@pytest.mark.parametrize("op", test_video.OPCODES)
def test_a_video_instruction_does_what_its_model_does(session: DeviceContext, op: str) -> None:
    """One kernel runs all variants of an opcode; the model is that of the emulator's tests."""
    rng = random.Random(f"{op} on a GPU")
    made = [test_video.variant(rng, op) for _ in range(VARIANTS)]
    words = np.array([[test_video.word(rng) for _ in range(3 * 32)] for _ in made], "u4")
    lines = []
    for at, (opcode, operands) in enumerate(made):
        place, to = at * 384, (len(made) * 3 + at) * 128
        loads = (f"ld.global.u32 %r{n}, [%rd3+{place + 128 * (n - 1)}];" for n in (1, 2, 3))
        lines += [*loads, f"{opcode} {', '.join(operands)};", f"st.global.u32 [%rd3+{to}], %r4;"]
    text = "\n".join([
        HEADER, ".visible .entry k(.param .u64 x)", "{", ".reg .b32 %r<6>; .reg .b64 %rd<6>;",
        "ld.param.u64 %rd1, [x]; mov.u32 %r5, %tid.x; mul.wide.u32 %rd2, %r5, 4;",
        "add.s64 %rd3, %rd1, %rd2;", *lines, "ret;", "}", "",
    ])  # fmt: skip
    shape = (len(made) * 4 * 32,)
    array = session.allocate(BufferSpec(name="x", role="scratch", shape=shape, dtype="uint32"))
    session.upload(array, np.concatenate([words.ravel(), np.zeros(len(made) * 32, "u4")]))
    driver = Driver()
    module = driver.load(text.encode() + b"\0")
    launch = ResolvedLaunch(kernel="k", grid=(1, 1, 1), block=(32, 1, 1), dynamic_shared=0)
    address = [struct.pack("@P", array.address)]
    driver.extended_kernel(module, launch, int(session.stream.handle), address)()
    session.synchronize()
    got = session.download(array)[words.size :].reshape(len(made), 32).tolist()
    session.release()
    apart = []
    for (opcode, operands), each, values in zip(made, words.reshape(-1, 3, 32), got, strict=True):
        want = [test_video.slow(opcode, operands, (x, y, z)) for x, y, z in each.T.tolist()]
        if values != want:
            lane = next(i for i in range(32) if values[i] != want[i])
            given = ", ".join(f"{int(word):#x}" for word in each[:, lane])
            apart.append(
                f"{opcode} {', '.join(operands)} of {given}: {values[lane]:#x}, not {want[lane]:#x}"
            )
    assert not apart, "\n".join(apart)
