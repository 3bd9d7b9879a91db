"""What is worked out of a kernel once, and what each launch has of its own."""

from __future__ import annotations

import numpy as np
import pytest

from ptxemu import launch
from ptxemu.errors import Fault
from ptxemu.ptx.flow import ControlFlow, control_flow
from ptxemu.ptx.inlining import FlatKernel
from ptxemu.ptx.parser import parse
from tests.ptxemu.conftest import HEADER, execute

#: y[tid] = tid, by way of dynamic shared memory.
THROUGH_SHARED = (
    HEADER
    + """.extern .shared .align 4 .b8 room[];
.visible .entry k(.param .u64 p_y)
{
.reg .b64 %rd<4>; .reg .b32 %r<6>;
mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2;
mov.u32 %r3, room; add.s32 %r4, %r3, %r2;
st.shared.u32 [%r4], %r1; ld.shared.u32 %r5, [%r4];
ld.param.u64 %rd1, [p_y]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r5;
ret;
}"""
)


def test_a_kernel_is_analysed_once_for_all_its_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    analysed: list[FlatKernel] = []

    def once(flat: FlatKernel) -> ControlFlow:
        analysed.append(flat)
        return control_flow(flat)

    monkeypatch.setattr(launch, "control_flow", once)
    module = parse(THROUGH_SHARED)
    for shared in (128, 256, 64, 128):
        buffers = {"y": np.zeros(32, np.uint32)}
        if shared == 64:  # the launch's own size still bounds what it may touch
            with pytest.raises(Fault, match="out of bounds"):
                execute(module, "k", buffers, ["y"], shared=shared)
            continue
        out, _ = execute(module, "k", buffers, ["y"], shared=shared)
        assert out["y"].tolist() == list(range(32))
    assert len(analysed) == 1
