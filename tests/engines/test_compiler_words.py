"""What ptxas said of a kernel: spills, machine code, launches that fit; in verify and diff."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.lifted_maker import needs_nvcc
from tests.study_maker import Maker
from workbench.analysis.compare import compare
from workbench.analysis.sameness import doubts
from workbench.analysis.story import explain
from workbench.compile.build import remarks, warnings
from workbench.counters import Reading, read
from workbench.engines import RunOptions
from workbench.engines.choice import choose
from workbench.errors import UsageError
from workbench.measure.experiment import Display, Experiment
from workbench.model import Build, KernelResources, Profile

pytestmark = [pytest.mark.nvcc, needs_nvcc]

HEAD = """/* ---
title = "t"
parent = ""
change = "c"
flags = [{flags}]
[defines]
SIZE = {size}
[[launch]]
kernel = "k"
grid = ["cdiv(N, {block})"]
block = [{block}]
args = ["x", "y", "N"]
--- */
extern "C" __global__ void {bounds} k(const float* x, float* y, int n) {{
  {pragma}
  int i = blockIdx.x * blockDim.x + threadIdx.x;
"""
#: As many registers as the kernel can get, and a result that does not depend on them.
HEAVY = """
  float r[48], s = 0;
  #pragma unroll
  for (int k = 0; k < 48; ++k) r[k] = x[(i + k * 37) % n];
  #pragma unroll
  for (int p = 0; p < 3; ++p)
    #pragma unroll
    for (int k = 0; k < 48; ++k) r[k] = fmaf(r[(k + 13) % 48], r[(k + 29) % 48], r[k]) * 0.3f;
  #pragma unroll
  for (int k = 0; k < 48; ++k) s += r[k];
  if (i < n) y[i] = 2 * x[i] + 0.0f * s;
}
"""
#: An array in local memory, and one in shared memory.
ARRAY = """
  volatile float own[SIZE];
  for (int k = 0; k < SIZE; ++k) own[k] = x[(i + k) % n];
  if (i < n) y[i] = 2 * x[i] + 0.0f * own[i % SIZE];
}
"""
SHARED = """
  __shared__ float s[SIZE];
  s[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  if (i < n) y[i] = 2 * s[threadIdx.x];
}
"""
SMEM = r'asm volatile(".pragma \"enable_smem_spilling\";");'


class Said(Display):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


class Lab:
    """Versions of one study, tried in the emulator."""

    def __init__(self, maker: Maker) -> None:
        self.maker, self.display = maker, Said()

    def write(self, version: str, body: str = HEAVY, **parts: str) -> None:
        known = {"flags": "", "size": "256", "block": "256", "bounds": "", "pragma": ""}
        self.maker.write(f"{version}_t.cu", HEAD.format(**(known | parts)) + body)

    def run(self, version: str) -> Profile:
        study = self.maker.load()
        engine = choose("emulator", self.maker.project, RunOptions(seed=1))
        runner = Experiment(self.maker.project, study, engine, self.display)
        subject = runner.subject(study.version(version), study.problem("n1000"))
        assert runner.verify([subject])[0].error is None
        return runner.profile(subject)[0]

    def step(self, *parts: dict[str, str], body: str = HEAVY) -> tuple[Profile, Profile]:
        for number, each in enumerate(parts):
            self.write(f"v{number}", body, **each)
        return self.run("v0"), self.run("v1")


@pytest.fixture
def lab(maker: Maker) -> Lab:
    return Lab(maker)


def values(profile: Profile, *counters: str) -> list[float]:
    found = [read(profile.launches[0], each) for each in counters]
    return [each.value for each in found if isinstance(each, Reading)]


LOCAL = ("local_loads", "local_stores", "spill_instructions")


@pytest.mark.parametrize(
    ("parts", "body", "spills", "local"),
    [
        ({}, HEAVY, False, False),
        ({"flags": '"-maxrregcount=32"'}, HEAVY, True, True),
        ({"flags": '"-maxrregcount=24"'}, HEAVY, True, True),
        ({"bounds": "__launch_bounds__(256, 8)"}, HEAVY, True, True),
        ({"flags": '"-Xptxas=-O0"'}, SHARED, False, False),
        ({}, ARRAY, False, True),
        ({"size": "8"}, ARRAY, False, False),  # PTX has it in local memory, ptxas in registers
    ],
)
def test_local_accesses_are_those_of_the_machine_code(
    lab: Lab, parts: dict[str, str], body: str, spills: bool, local: bool
) -> None:
    """Each spilled word of a thread is stored and loaded once: ptxas says how many there are."""
    lab.write("v0", body, **parts)
    profile = lab.run("v0")
    assert profile.build is not None
    (kernel,) = profile.build.resources
    loads, stores, spilled = values(profile, *LOCAL)
    assert (bool(spilled), bool(loads + stores)) == (spills, local)
    assert bool(*values(profile, "local_sectors")) == local
    warps = 4 * 8
    if spills:
        assert loads == pytest.approx(kernel.spill_loads / 4 * warps, rel=0.01)
        assert stores == pytest.approx(kernel.spill_stores / 4 * warps, rel=0.01)
        assert spilled == loads + stores
        assert any("ptxas spills registers to local memory" in each for each in lab.display.lines)
        assert [n.message for n in profile.notices if n.code == "compiler"]
    (counted,) = values(profile, "spill_instructions")
    assert bool(counted) == spills


def test_registers_that_spill_to_shared_memory_are_told(lab: Lab) -> None:
    plain, kept = lab.step({}, {"bounds": "__launch_bounds__(256, 8)", "pragma": SMEM})
    loads, stores, spilled = values(kept, *LOCAL)
    assert spilled > loads + stores > 0
    said = [notice.message for notice in kept.notices if notice.code == "compiler"]
    assert any("to shared memory: " in each for each in said)
    warned = compare(plain, kept).warnings
    assert [each for each in warned if each.startswith("v1: k: ptxas spills")] == [
        f"v1: {each}" for each in said
    ]


@pytest.mark.parametrize(
    ("one", "other", "body", "same"),
    [
        ({}, {"flags": '"-maxrregcount=32"'}, HEAVY, False),
        ({}, {"flags": '"-maxrregcount=250"'}, SHARED, True),
        ({}, {"flags": '"-Xptxas=-O0"'}, HEAVY, False),
        ({}, {"bounds": "__launch_bounds__(256, 8)"}, HEAVY, False),
        ({}, {"size": "257"}, SHARED, False),
        ({}, {"size": "257"}, HEAVY, True),
    ],
)
def test_a_step_of_flags_is_compared_by_machine_code(
    lab: Lab, one: dict[str, str], other: dict[str, str], body: str, same: bool
) -> None:
    """Definitions, flags or a launch alone are the change that is shown, and sources are not."""
    old, new = lab.step(one, other, body=body)
    assert ("same-code" in {doubt.kind for doubt in doubts(old, new)}) == same
    assert "another input" not in "".join(doubt.words for doubt in doubts(old, new))
    story = explain(old, new, compare(old, new))
    if "bounds" not in other:
        (row,) = story.launches
        assert row.changes.startswith("flags ")
        assert story.attribution.words == () and not story.quiet


@pytest.mark.parametrize(
    ("flags", "block", "bounds", "refused"),
    [
        ("", "1024", "", True),
        ("", "512", "", False),
        ('"-maxrregcount=64"', "1024", "", False),
        ('"-maxrregcount=72"', "1024", "", True),
        ('"-maxrregcount=72"', "896", "", False),
        ("", "1024", "__launch_bounds__(1024)", False),
    ],
)
def test_a_launch_that_no_chip_makes_is_refused(
    lab: Lab, flags: str, block: str, bounds: str, refused: bool
) -> None:
    body = HEAVY.replace("48", "96").replace("(k + 13)", "(k + 31)")
    lab.write("v0", body, flags=flags, block=block, bounds=bounds)
    if refused:
        with pytest.raises(UsageError, match=r"v0_t\.cu:11: 1,024 threads of \d+ registers"):
            lab.run("v0")
    else:
        lab.run("v0")


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("#define SIZE 300", True),
        ("#define SIZE(x) x", True),
        ("#if 1\n#define SIZE (1 << 9)\n#endif", True),
        ("#ifndef SIZE\n#define SIZE 300\n#endif", False),
        ("#define SIZE 256", False),
        ("#define SIZES 300", False),
    ],
)
def test_a_define_without_effect_is_refused(lab: Lab, line: str, refused: bool) -> None:
    lab.write("v0", SHARED.replace("[SIZE]", "[256]"), pragma=f"\n{line}\n")
    told = pytest.raises(UsageError, match=r"v0_t\.cu:7: the source defines SIZE itself")
    with told if refused else nullcontext():
        lab.run("v0")


LOG = """ptxas info    : (C7517) warpgroup.wait is injected by compiler in function '_Z3twoPf'
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized \
due to insufficient register resources for the wgmma pipeline in the function '_Z3twoPf'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z3twoPf' for 'sm_90a'
"""


def test_serialized_products_are_told_of_the_kernel_that_has_them() -> None:
    log = warnings(LOG)
    assert log.count("\n") == 1
    known = tuple(KernelResources(name=name, registers=31) for name in ("_Z3twoPf", "_Z3onePf"))
    build = Build(compiler="nvcc", arch="sm_90a", resources=known, log=log)
    assert list(remarks(build, ["_Z3onePf"])) == []
    wait, loss = remarks(build, ["_Z3twoPf"])
    assert wait.startswith("two: warpgroup.wait is injected") and wait.endswith("(ptxas, C7517).")
    assert "wgmma.mma_async instructions are serialized" in loss


def test_the_editor_tries_a_version_with_the_definitions_that_were_recorded(lab: Lab) -> None:
    lab.write("v0", SHARED)
    recorded = lab.run("v0")
    lab.write("v0", SHARED, size="512", block="128")
    now = lab.maker.load().version("v0")
    then = pytest.importorskip("workbench.editing.trying")._as_recorded(now, recorded)
    assert then is not None
    assert (then.defines, now.defines) == ({"SIZE": "256"}, {"SIZE": "512"})
    assert then.launches != now.launches and then.parent == now.parent
