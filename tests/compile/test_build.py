from __future__ import annotations

import multiprocessing
import re
import sys
import time
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from workbench.compile import build as buildlog
from workbench.compile import compilers, host
from workbench.compile.build import BuildResult, build
from workbench.compile.compilers import neutral_path, neutral_ptx, nvrtc_flags
from workbench.errors import KernelError, MissingError, UsageError
from workbench.model import KernelResources, SourceFile
from workbench.project import Project, cache_folder, find_project
from workbench.specs import Version
from workbench.study.folder import load_study

Compiler = Literal["auto", "nvcc", "nvrtc"]
HERE = [each.name for each in compilers.available()]

STUDY = """
title = "Scale"
input_names = ("x",)
problems = {"n1000": {"N": 1000, "uses": ("profile",)}}
tolerance = 1e-6
tolerance_why = "one rounding"
def inputs(problem, rng): return {"x": rng.random(problem["N"], dtype="float32")}
def outputs(problem): return {"y": ((problem["N"],), "float32")}
def reference(problem, inputs): return {"y": inputs["x"].astype("float64") * 2}
def flops(problem): return problem["N"]
def bytes(problem): return 8 * problem["N"]
"""

HEAD = """/* ---
title = "Scale"
flags = [FLAGS]
[defines]
FACTOR = "2.0f"
[[launch]]
kernel = "scale"
grid = ["cdiv(N, 256)"]
block = [256]
args = ["x", "y", "N"]
--- */
"""

KERNEL = """#include "../common/factor.cuh"
extern "C" __global__ void scale(const float* x, float* y, int N) {
    __shared__ float tile[256];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < N ? x[i] : 0.0f;
    __syncthreads();
    if (i < N) y[i] = scaled(tile[255 - threadIdx.x]);
}
"""

FACTOR = """#pragma once
__device__ __forceinline__ float scaled(float v) {
    return v * FACTOR;
}
"""


class Maker:
    """Writes one version and builds it, with a cache of its own."""

    def __init__(self, root: Path) -> None:
        self.project = Project(root=root, default_study="s")
        self.write("kernels/s/study.py", STUDY)
        self.write("kernels/common/factor.cuh", FACTOR)
        self.version()

    def write(self, name: str, text: str) -> None:
        path = self.project.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def version(self, kernel: str = KERNEL, flags: str = "") -> Version:
        self.write("kernels/s/v0_scale.cu", HEAD.replace("FLAGS", flags) + kernel)
        return load_study(self.project, "s").version("v0")

    def build(
        self, compiler: Compiler, kernel: str = KERNEL, flags: str = "", arch: str = "sm_90"
    ) -> BuildResult:
        version = self.version(kernel, flags)
        return build(self.project, version, arch, compiler=compiler)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in compilers.FLAG_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache" / "workbench" / "build"


@pytest.fixture
def maker(tmp_path: Path, cache: Path) -> Maker:
    return Maker(tmp_path / "project")


@pytest.fixture(params=["nvcc", "nvrtc"])
def compiler(request: pytest.FixtureRequest) -> Compiler:
    name: Compiler = request.param
    if name not in HERE:
        pytest.skip(f"there is no {name} on this machine")
    return name


def test_a_build_gives_cubin_ptx_resources_and_sources(maker: Maker, compiler: Compiler) -> None:
    result = maker.build(compiler)
    assert result.cubin.read_bytes()[:4] == b"\x7fELF"
    assert result.build.compiler.startswith(f"{compiler} ")
    assert result.build.arch == "sm_90"
    assert result.build.flags == ("-O3", "-std=c++17", "-lineinfo", "-DFACTOR=2.0f")
    assert result.build.log == ""
    (kernel,) = result.build.resources
    assert kernel.name == "scale"
    assert kernel.static_shared == 1024
    assert 0 < kernel.registers <= 32
    assert (kernel.stack, kernel.spill_stores, kernel.spill_loads) == (0, 0, 0)
    assert [each.path for each in result.sources] == [
        "kernels/s/v0_scale.cu",
        "kernels/common/factor.cuh",
    ]
    assert not result.cached


def test_line_tables_hold_project_paths_and_the_files_own_lines(
    maker: Maker, compiler: Compiler
) -> None:
    ptx = maker.build(compiler).build.ptx
    files = re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', ptx, re.MULTILINE)
    numbers = {path: number for number, path in files}
    assert set(numbers) == {"kernels/s/v0_scale.cu", "kernels/common/factor.cuh"}
    own = {
        int(line)
        for line in re.findall(
            rf"^\s*\.loc\s+{numbers['kernels/s/v0_scale.cu']} (\d+)", ptx, re.MULTILINE
        )
    }
    rows = (HEAD.replace("FLAGS", "") + KERNEL).split("\n")
    barrier = next(i for i, row in enumerate(rows, 1) if "__syncthreads" in row)
    assert barrier in own
    assert min(own) == next(i for i, row in enumerate(rows, 1) if "__global__" in row)
    multiply = rf"^\s*\.loc\s+{numbers['kernels/common/factor.cuh']} 3 .*inlined_at"
    assert re.search(multiply, ptx, re.MULTILINE)


def strings(data: bytes) -> list[str]:
    """What `strings` prints: runs of four printable characters and more."""
    return [run.decode() for run in re.findall(rb"[\x20-\x7e]{4,}", data)]


def test_no_path_of_this_machine_is_in_cubin_or_ptx(
    maker: Maker, compiler: Compiler, tmp_path: Path
) -> None:
    # Headers of the toolkit have paths too; cooperative groups leave lines of theirs.
    kernel = KERNEL.replace(
        "__syncthreads();", "cooperative_groups::this_thread_block().sync();"
    ).replace("extern", "#include <cooperative_groups.h>\nextern", 1)
    result = maker.build(compiler, kernel)
    found = strings(result.cubin.read_bytes()) + strings(result.build.ptx.encode())
    slashed = [each for each in found if "/" in each and not re.search(r"//|cuda_\d", each)]
    padded = [each.rstrip("/") for each in found if each.startswith("kernels")]
    assert "kernels/s" in padded
    for text in [*found, result.build.log, *result.build.flags]:
        for private in (str(tmp_path), str(Path.home()), "/tmp", "/usr", sys.prefix):
            assert private not in text
    assert not [each for each in slashed if each.startswith("/")]


def test_equal_sources_give_equal_cubins(
    maker: Maker, compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = maker.build(compiler).cubin.read_bytes()
    time.sleep(1.1)  # longer than a time stamp in seconds
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    again = maker.build(compiler)
    assert not again.cached
    assert again.cubin.read_bytes() == first


def _own_lines(ptx: str) -> set[tuple[int, str]]:
    """(line, function) of the version's own file in a line table.

    Of the toolkit's headers nvcc has lines and NVRTC, which builds the same functions in,
    has none; so the order and number of entries may differ, the lines may not.
    """
    entries = re.findall(r"^\s*\.loc\s+1 (\d+) \d+(?:, function_name (\S+),)?", ptx, re.M)
    return {(int(line), "inlined" if name else "") for line, name in entries}


@pytest.mark.parametrize(
    "versions",
    [("v5",), pytest.param(("v0", "v10", "v13", "v16"), marks=pytest.mark.slow)],
    ids=" ".join,
)
def test_both_compilers_give_the_same_lines(repo: Path, versions: tuple[str, ...]) -> None:
    if HERE != ["nvcc", "nvrtc"]:
        pytest.skip("needs both nvcc and NVRTC")
    project = find_project(repo)
    assert project is not None
    for version in map(load_study(project, "sgemm").version, versions):
        tables = []
        names: tuple[Compiler, ...] = ("nvcc", "nvrtc")
        for name in names:
            ptx = build(project, version, "sm_90", compiler=name).build.ptx
            tables.append(_own_lines(ptx))
        assert tables[0], version.id
        # Unrolled code is laid out by one front end or the other: one line may differ.
        differ = tables[0] ^ tables[1]
        assert len(differ) <= 1, (version.id, differ)


def test_spills_and_stack_are_reported(maker: Maker, compiler: Compiler) -> None:
    kernel = """extern "C" __global__ void __launch_bounds__(1024)
scale(const float* x, float* y, int N) {
    float keep[80];
#pragma unroll
    for (int i = 0; i < 80; ++i) keep[i] = x[i * N + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 80; ++i) y[i * N + threadIdx.x] = keep[i] * keep[79 - i];
}
"""
    (used,) = maker.build(compiler, kernel, '"-maxrregcount=32"').build.resources
    assert used.registers <= 32
    assert used.spill_stores > 0
    assert used.spill_loads > 0
    assert used.stack > 0


def test_flags_reach_both_compilers(maker: Maker, compiler: Compiler) -> None:
    kernel = KERNEL.replace("y[i] = scaled", "y[i] = 1.0f / __expf(N) + scaled")
    plain = maker.build(compiler, kernel).build.ptx
    fast = maker.build(compiler, kernel, '"-use_fast_math", "-Xptxas", "-dlcm=cg"')
    assert "div.rn.f32" in plain or "rcp.rn.f32" in plain
    assert "approx.ftz" in fast.build.ptx
    assert "-use_fast_math" in fast.build.flags
    newer = maker.build(compiler, kernel, '"-std=c++20"').build
    assert [each for each in newer.flags if each.startswith("-std")] == ["-std=c++20"]


def test_warnings_are_kept_without_the_resource_report(maker: Maker, compiler: Compiler) -> None:
    kernel = KERNEL.replace("__syncthreads();", "__syncthreads(); int never_used_one;")
    log = maker.build(compiler, kernel).build.log
    line = next(
        i for i, row in enumerate((HEAD + kernel).split("\n"), 1) if "never_used_one" in row
    )
    assert f"kernels/s/v0_scale.cu({line}): warning" in log
    assert "never_used_one" in log
    assert "registers" not in log


def test_a_compile_error_is_shown_at_the_files_own_line(maker: Maker, compiler: Compiler) -> None:
    kernel = KERNEL.replace("tile[255", "tyle[255")
    line = next(i for i, row in enumerate((HEAD + kernel).split("\n"), 1) if "tyle" in row)
    with pytest.raises(KernelError) as caught:
        maker.build(compiler, kernel)
    message = caught.value.message
    assert message.startswith(f"kernels/s/v0_scale.cu does not compile for sm_90 ({compiler} ")
    assert f'kernels/s/v0_scale.cu:{line}: error: identifier "tyle" is undefined' in message
    assert f"{line} |     if (i < N) y[i] = scaled(tyle[255 - threadIdx.x]);" in message
    assert caught.value.exit_code == 4
    assert "/tmp" not in message
    assert caught.value.hint


def test_a_kernel_that_is_only_declared_is_asked_to_be_written(maker: Maker) -> None:
    with pytest.raises(KernelError, match="no kernel `scale`") as caught:
        maker.build("nvcc", "__global__ void scale(/* float *, float *, int */);\n")
    assert "If one is only declared" in caught.value.hint


def test_a_shuffle_of_old_is_told_by_its_new_name(maker: Maker, compiler: Compiler) -> None:
    kernel = KERNEL.replace("tile[255 - threadIdx.x]", "__shfl_down(1.0f, 1)")
    with pytest.raises(KernelError) as caught:
        maker.build(compiler, kernel)
    assert "write __shfl_down_sync(0xffffffff, …)" in caught.value.hint


def test_an_error_in_an_include_names_the_include(maker: Maker, compiler: Compiler) -> None:
    maker.write("kernels/common/factor.cuh", FACTOR.replace("v * FACTOR", "w * FACTOR"))
    with pytest.raises(KernelError, match=r"kernels/common/factor\.cuh:3: error: .*w") as caught:
        maker.build(compiler)
    assert "3 |     return w * FACTOR;" in caught.value.message


def test_a_missing_include_names_the_line(maker: Maker, compiler: Compiler) -> None:
    with pytest.raises(KernelError, match=r"v0_scale\.cu:12: .*nowhere\.cuh"):
        maker.build(compiler, '#include "nowhere.cuh"\n' + KERNEL)


@pytest.mark.parametrize(("wrong", "rest"), [(9, "4 more errors"), (6, "1 more error")])
def test_many_errors_are_counted_not_listed(
    maker: Maker, compiler: Compiler, wrong: int, rest: str
) -> None:
    kernel = KERNEL.replace("__syncthreads();", "\n".join(f"u{i} = 1;" for i in range(wrong)))
    with pytest.raises(KernelError, match=f"(?m)… and {rest}$"):
        maker.build(compiler, kernel)


def test_what_only_the_assembler_refuses(maker: Maker, compiler: Compiler) -> None:
    with pytest.raises(KernelError, match=r":14: 400,000 bytes of .* \(tile: 400,000\)"):
        maker.build(compiler, KERNEL.replace("tile[256]", "tile[100000]"))


def test_a_kernel_needs_no_c_linkage(maker: Maker, compiler: Compiler) -> None:
    result = maker.build(compiler, KERNEL.replace('extern "C" ', ""))
    (made,) = result.build.resources
    assert made.name.startswith("_Z5scale")


@pytest.mark.parametrize("arch", ["sm_20", "sm_999"])
def test_an_architecture_that_the_compiler_does_not_know(
    maker: Maker, compiler: Compiler, arch: str
) -> None:
    with pytest.raises(UsageError, match=f"does not compile for {arch}") as caught:
        maker.build(compiler, arch=arch)
    assert "sm_90" in caught.value.hint


@pytest.mark.parametrize("arch", ["90", "compute_90", "sm_9", "sm_90;ls", "", "sm_90 "])
def test_what_is_no_architecture(maker: Maker, arch: str) -> None:
    with pytest.raises(UsageError, match="is not an architecture"):
        maker.build("auto", arch=arch)


def test_a_flag_that_the_compiler_does_not_know(maker: Maker, compiler: Compiler) -> None:
    with pytest.raises(UsageError, match=r"v0_scale\.cu:3: .*(c\+\+99|-std)") as caught:
        maker.build(compiler, flags='"-std=c++99"')
    assert "-lineinfo" in caught.value.hint


def test_a_python_version_is_not_compiled(maker: Maker) -> None:
    maker.write("kernels/s/lib.py", '"""\n---\ntitle="t"\nbaseline=true\n---\n"""\n')
    with pytest.raises(UsageError, match=r"lib\.py: a Python version is not compiled"):
        build(maker.project, load_study(maker.project, "s").version("lib"), "sm_90")


@pytest.fixture
def no_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers, "find_nvcc", lambda: None)
    monkeypatch.setattr(compilers, "wheel_nvcc", lambda: None)


def test_no_compiler_says_how_to_get_one(
    maker: Maker, no_nvcc: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilers, "nvrtc_version", lambda: "")
    words: dict[Compiler, str] = {
        "auto": "neither nvcc nor NVRTC",
        "nvcc": "no nvcc",
        "nvrtc": "nvrtc",
    }
    for name, word in words.items():
        with pytest.raises(MissingError, match=word) as caught:
            maker.build(name)
        assert caught.value.exit_code == 3
        assert ".[emulator]" in caught.value.hint
        assert "workbench list, show, diff, report" in caught.value.hint


def test_nvrtc_is_taken_where_nvcc_is_not(maker: Maker, no_nvcc: None) -> None:
    if "nvrtc" not in HERE:
        pytest.skip("there is no NVRTC on this machine")
    assert maker.build("auto").build.compiler.startswith("nvrtc ")


def fake_nvcc(folder: Path, script: str = 'echo "release 13.0, V13.0.88"') -> Path:
    path = folder / "bin" / "nvcc"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"])
def test_nvcc_is_found_through_the_environment(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = fake_nvcc(tmp_path / "toolkit")
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "toolkit"))
    assert compilers.find_nvcc() == expected
    monkeypatch.setenv("PATH", str(fake_nvcc(tmp_path / "other").parent))
    assert compilers.find_nvcc() == tmp_path / "other" / "bin" / "nvcc"


@pytest.mark.parametrize("script", ["exit 1", "echo nonsense"])
def test_an_nvcc_that_does_not_run(script: str, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="does not print its version") as caught:
        compilers.Nvcc(fake_nvcc(tmp_path, script))
    assert caught.value.hint


def test_nvcc_without_a_host_compiler(
    maker: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvcc = fake_nvcc(
        tmp_path / "toolkit",
        'case "$1" in --version) echo "release 13.0, V13.0.88";; *) '
        'echo "sh: 1: gcc: not found" >&2; '
        'echo "nvcc fatal   : Failed to preprocess host compiler properties." >&2; exit 1;; esac',
    )
    monkeypatch.setattr(compilers, "find_nvcc", lambda: nvcc)
    with pytest.raises(MissingError, match="nvcc needs a host C") as caught:
        maker.build("nvcc")
    assert "g++" in caught.value.hint and "--" not in caught.value.hint


def test_the_second_build_is_found_in_the_cache(
    maker: Maker, compiler: Compiler, cache: Path
) -> None:
    first = maker.build(compiler)
    second = maker.build(compiler)
    assert (first.cached, second.cached) == (False, True)
    assert second.cubin == first.cubin
    assert second.build == first.build
    assert cache_folder("build") == cache
    assert [each.name for each in cache.iterdir()] == [first.cubin.parent.name]


def test_all_that_decides_the_outcome_is_in_the_key(maker: Maker) -> None:
    if not HERE:
        pytest.skip("there is no compiler on this machine")
    builds = [
        maker.build("auto"),
        maker.build("auto", KERNEL + "// changed\n"),
        maker.build("auto", flags='"-DOTHER"'),
        maker.build("auto", arch="sm_80"),
    ]
    maker.write("kernels/common/factor.cuh", FACTOR + "// changed\n")
    builds.append(maker.build("auto"))
    assert not any(each.cached for each in builds)
    assert len({each.cubin for each in builds}) == 5


def test_flags_in_the_environment_are_in_the_key(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "nvcc" not in HERE:
        pytest.skip("there is no nvcc on this machine")
    plain = maker.build("nvcc")
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-use_fast_math")
    assert maker.build("nvcc").cubin != plain.cubin


@pytest.mark.parametrize(
    ("file", "damages"), [("kernel.cubin", ("empty", "flip")), ("build.json", ("flip", "gone"))]
)
def test_a_damaged_entry_is_made_anew(
    maker: Maker, file: str, damages: tuple[str, ...], cache: Path
) -> None:
    if not HERE:
        pytest.skip("there is no compiler on this machine")
    path = maker.build("auto").cubin.parent / file
    for damage in damages:
        good = path.read_bytes()
        if damage == "gone":
            path.unlink()
        else:
            middle = len(good) // 2
            flipped = good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :]
            path.write_bytes({"cut": good[:middle], "empty": b"", "flip": flipped}[damage])
        again = maker.build("auto")
        assert not again.cached, damage
        assert again.cubin.is_file(), damage
        assert maker.build("auto").cached, damage
        assert len(list(cache.iterdir())) == 1, damage


def _build_in_child(root: str, cache: str, barrier: object, queue: object) -> None:
    import os

    os.environ["XDG_CACHE_HOME"] = cache
    project = Project(root=Path(root), default_study="s")
    version = load_study(project, "s").version("v0")
    barrier.wait()  # type: ignore[attr-defined]
    result = build(project, version, "sm_90")
    queue.put((str(result.cubin), result.cubin.stat().st_size))  # type: ignore[attr-defined]


def test_two_processes_may_build_the_same_at_once(maker: Maker, cache: Path) -> None:
    if not HERE:
        pytest.skip("there is no compiler on this machine")
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(3), context.Queue()
    arguments = (str(maker.project.root), str(cache.parent.parent), barrier, queue)
    children = [context.Process(target=_build_in_child, args=arguments) for _ in range(3)]
    for child in children:
        child.start()
    results = {queue.get(timeout=60) for _ in children}
    for child in children:
        child.join(timeout=60)
        assert child.exitcode == 0
    assert len(results) == 1
    assert maker.build("auto").cached
    assert len(list(cache.iterdir())) == 1


def test_a_cache_that_cannot_be_written(
    maker: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not HERE:
        pytest.skip("there is no compiler on this machine")
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(MissingError, match="cannot keep the build") as caught:
        maker.build("auto")
    assert "XDG_CACHE_HOME" in caught.value.hint


def test_a_temporary_folder_that_is_not_there(
    maker: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not HERE:
        pytest.skip("there is no compiler on this machine")
    version = maker.version()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(MissingError, match="cannot compile in") as caught:
        build(maker.project, version, "sm_90")
    assert "TMPDIR" in caught.value.hint


def test_the_documented_version_compiles(maker: Maker, compiler: Compiler, repo: Path) -> None:
    text = (repo / "docs" / "front-matter.md").read_text(encoding="utf-8")
    block = text.partition("```cuda\n")[2].partition("```")[0]
    maker.write("kernels/s/v1_two.cu", block)
    version = load_study(Project(root=maker.project.root), "s").version("v1")
    made = build(maker.project, version, "sm_80", compiler=compiler).build
    assert [each.name for each in made.resources] == ["scale"]
    assert made.log == ""


NVCC_LOG = """\
ptxas info    : 0 bytes gmem, 24 bytes cmem[4]
ptxas info    : Compiling entry function '_Z1aPf' for 'sm_80'
ptxas info    : Function properties for _Z1aPf
    416 bytes stack frame, 96 bytes spill stores, 104 bytes spill loads
ptxas info    : Function properties for helper
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 416 bytes cumulative stack size, \
8192+0 bytes smem, 388 bytes cmem[0], 12 bytes cmem[2]
ptxas info    : Compile time = 7.068 ms
ptxas info    : Compiling entry function 'b' for 'sm_80'
ptxas info    : Function properties for b
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
"""


@pytest.mark.parametrize("log", [NVCC_LOG, NVCC_LOG.replace("\n    ", "\nptxas         .     ")])
def test_resources_are_read_from_either_compilers_log(log: str) -> None:
    assert buildlog.resources(log) == (
        KernelResources(
            name="_Z1aPf",
            registers=255,
            static_shared=8192,
            constant=400,
            stack=416,
            spill_stores=96,
            spill_loads=104,
        ),
        KernelResources(name="b", registers=10),
    )
    assert buildlog.warnings(log) == ""
    assert buildlog.warnings(log + "ptxas warning : odd\n") == "ptxas warning : odd"


def test_a_silent_failure_still_says_something() -> None:
    error = buildlog.compile_error("a.cu", "", (), "nvcc 13", "sm_90")
    assert "failed without a message" in error.message
    sources = (SourceFile(path="a.cu", text="one\ntwo"),)
    error = buildlog.compile_error("a.cu", 'a.cu(9): error: "x"\n', sources, "nvcc 13", "sm_90")
    assert error.message.endswith('a.cu:9: error: "x"')


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/sand/box/kernels/s/v0.cu", "kernels/s/v0.cu"),
        ("/sand/box/kernels/s/../common/x.cuh", "kernels/common/x.cuh"),
        ("kernels/s/v0.cu", "kernels/s/v0.cu"),
        ("/opt/cuda/bin/../targets/x86_64-linux/include/cuda_fp16.hpp", "cuda/cuda_fp16.hpp"),
        ("/opt/cuda/include/cccl/cub/block.cuh", "cuda/cccl/cub/block.cuh"),
        ("/opt/cuda/odd.h", "cuda/odd.h"),
        ("/usr/include/c++/12/cmath", "system/c++/12/cmath"),
        ("/home/somebody/thing.h", "system/thing.h"),
        ("/sand/boxes/secret/thing.h", "system/thing.h"),
    ],
)
def test_paths_become_neutral(path: str, expected: str) -> None:
    toolkit = Path("/opt/cuda")
    assert neutral_path(path, Path("/sand/box"), toolkit) == expected
    ptx = f'\t.file\t1 "{path}", 123, 456\n\t.loc 1 2 3\n'
    assert neutral_ptx(ptx, Path("/sand/box"), toolkit) == ptx.replace(path, expected)


def test_flags_as_nvrtc_knows_them() -> None:
    flags = ("-O3", "-std=c++17", "-Xptxas", "-v", "-Xptxas=-dlcm=cg", "-I", "a", "-D", "X=1")
    assert nvrtc_flags((*flags, "--use_fast_math", "-maxrregcount", "64")) == [
        "-std=c++17",
        "--ptxas-options=-v",
        "--ptxas-options=-dlcm=cg",
        "-Ia",
        "-DX=1",
        "--use_fast_math",
        "-maxrregcount=64",
    ]


def test_nvrtc_that_does_not_load_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel whose bindings are broken, as seen by the child process."""
    package = tmp_path / "cuda" / "bindings"
    package.mkdir(parents=True)
    (tmp_path / "cuda" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("raise ImportError('no libnvrtc.so')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(MissingError, match="does not run here: no libnvrtc") as caught:
        compilers.Nvrtc("13.0.0").architectures()
    assert "pip install --force-reinstall" in caught.value.hint


@pytest.mark.parametrize("folder", ["d$(touch made)", "d`touch made`", 'd"x', "d\\x", "d\nx"])
def test_a_path_that_a_shell_would_act_upon_is_not_compiled(
    maker: Maker, compiler: Compiler, folder: str
) -> None:
    version = replace(maker.version(), path=f"kernels/{folder}/v0_scale.cu")
    with pytest.raises(
        UsageError, match="the name contains a character that a shell may interpret"
    ):
        build(maker.project, version, "sm_90", compiler=compiler)


@pytest.mark.parametrize("folder", ["it's a;b&c|d", "größe(b)[c]{d}*?#~!<>"])
def test_a_path_with_other_characters_is_compiled_and_runs_nothing(
    maker: Maker, compiler: Compiler, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker.write(f"kernels/{folder}/study.py", STUDY)
    head = HEAD.replace("FLAGS", f'"-Ikernels/{folder}"')
    maker.write(f"kernels/{folder}/v0_scale.cu", head + KERNEL)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    version = load_study(maker.project, folder).version("v0")
    assert build(maker.project, version, "sm_90", compiler=compiler).build.resources
    assert not list(Path.cwd().iterdir())


def test_a_host_compiler_that_does_not_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 9\n")
    slow.chmod(0o755)
    monkeypatch.setattr(host, "_TIMEOUT_S", 0.2)
    with pytest.raises(
        MissingError, match=r"slow did not build a\.cpp: it takes longer than 0\.2 s"
    ):
        host.built(str(slow), tmp_path / "a.cpp", (), (KernelError, ""))
