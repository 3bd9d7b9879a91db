"""Versions whose kernels are templates: launched by instantiation, or told how to write one."""

from __future__ import annotations

import json
import re

import pytest

from tests.engines.stand_ins import Cli
from workbench.compile import compilers
from workbench.project import Project

pytestmark = [
    pytest.mark.nvcc,
    pytest.mark.skipif(not compilers.available(), reason="no CUDA compiler here"),
]
FIRST = "template __global__ void scale<float, 2>(const float*, float*, int);\n"
SECOND = "template __global__ void scale<float, 3>(const float*, float*, int);\n"


def write(project: Project, kernel: str, more: str) -> None:
    """The version as a template."""
    file = project.kernels / "double/v0_plain.cu"
    head, end, _ = file.read_text().partition("--- */")
    head = re.sub(r'kernel = "[^"]*"', f'kernel = "{kernel}"', head)
    code = """
template <typename T, int F>
__global__ void scale(const T* x, T* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = F * x[i];
}
"""
    file.write_text(f"{head}{end}{code}{more}")


def verify(cli: Cli) -> tuple[int, str, str]:
    return cli("verify", "v0", "--engine", "emulator", "--seed", "5")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "more"),
    [
        ("scale<float, 2>", FIRST + SECOND),
        ("scale", FIRST),
        ("_Z5scaleIfLi2EEvPKT_PS0_i", FIRST + SECOND),
    ],
)
def test_an_instantiation_is_launched(cli: Cli, project: Project, kernel: str, more: str) -> None:
    write(project, kernel, more)
    code, _, err = verify(cli)
    assert code == 0, err


@pytest.mark.slow
def test_its_profile_has_the_names_that_a_report_has(cli: Cli, project: Project) -> None:
    write(project, "scale<float, 2>", FIRST)
    assert cli("profile", "v0", "--engine", "emulator")[0] == 0
    (launch,) = json.loads(cli("show", "v0", "--format", "json")[1])["launches"]
    assert launch["kernel"] == "scale" and launch["counters"]["registers"]["value"] > 0


@pytest.mark.slow
def test_each_hint_leads_on_until_it_runs(cli: Cli, project: Project) -> None:
    for kernel, more, said in (
        ("scale", "", "add `template __global__ void scale<float>(...);` with the types"),
        ("scale<float>", FIRST + SECOND, 'Compiled: "scale<float, 2>", "scale<float, 3>"'),
        ("scale<float, N>", FIRST, 'select it with kernel = "scale"'),
        ("scale", FIRST + SECOND, 'kernel = "scale<float, 2>" or "scale<float, 3>".'),
    ):
        write(project, kernel, more)
        code, out, _ = verify(cli)
        assert code == 4 and said in " ".join(out.split())
    write(project, "scale<float, 2>", FIRST + SECOND)
    assert verify(cli)[0] == 0
