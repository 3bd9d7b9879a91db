"""A ``.cu`` that exists becomes a study, of which nothing was run."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tests.ladders import needs_compiler
from tests.told import english_of
from workbench.cli import app
from workbench.compile.host import call
from workbench.errors import UsageError
from workbench.project import Project
from workbench.session.bringing import Brought, bring
from workbench.study.folder import Study, load_study, resolve_launches
from workbench.study.launches import BufferArg, TextureArg, resolve_fills

REPO = Path(__file__).resolve().parents[2]
PROGRAMS = REPO / "tests" / "data" / "bring"
needs_host = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    root = tmp_path / "project"
    (root / "kernels").mkdir(parents=True)
    (root / "workbench.toml").write_text('default_study = ""\n')
    monkeypatch.chdir(root)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Project(root=root, default_study="")


def brought(project: Project, text: str, kernel: str = "") -> tuple[Brought, Study]:
    path = project.root.parent / "program.cu"
    path.write_text(text)
    made = bring(project, path, kernel=kernel)
    assert english_of(*made.notes, made.reference) == []
    return made, load_study(project, made.study)


def answers(
    study: Study, problem: str
) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    chosen = study.problem(problem)
    return study.reference(chosen, study.inputs(chosen, np.random.default_rng(1)))


def test_a_program_becomes_a_study(project: Project) -> None:
    made = bring(project, PROGRAMS / "vector_add.cu")
    assert (made.study, made.versions, made.notes) == ("vector_add", {"v0": "vectorAdd"}, [])
    study = load_study(project, "vector_add")
    assert study.title == "vectorAdd"  # a list has the study's name beside it
    said = (project.kernels / "vector_add" / "study.py").read_text(encoding="utf-8")
    assert "left to do:\n\n* the tolerance\n* flops()" in said
    assert study.input_names == ("a", "b")
    assert study.problem().parameters == {"n": 1 << 20}
    verified = [each.parameters["n"] for each in study.problems_for("verify")]
    assert max(verified) < 1 << 17 and any(n % 256 for n in verified)
    (launch,) = resolve_launches(study, study.version("v0"), study.problem())
    assert (launch.kernel, launch.grid, launch.block) == ("vectorAdd", (4096, 1, 1), (256, 1, 1))
    assert study.bytes(study.problem()) == 12 << 20
    # The version is the device's part of the file, with its comment.
    text = study.version("v0").text
    assert "// c = a + b, one element a thread." in text and "main" not in text


@needs_host
def test_the_files_own_function_is_the_reference(project: Project) -> None:
    made = bring(project, PROGRAMS / "vector_add.cu")
    assert "`addOnHost`" in made.reference
    study = load_study(project, "vector_add")
    problem = study.problem("odd")
    inputs = study.inputs(problem, np.random.default_rng(1))
    found = study.reference(problem, inputs)["c"]
    np.testing.assert_array_equal(found, np.add(inputs["a"], inputs["b"]))


def test_reading_a_file_runs_nothing_of_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = project.root / "ran"
    (project.root.parent / "secret.h").write_text("#define N 4711\n")
    inner = project.root.parent / "inner"
    inner.mkdir()
    (inner / "own.h").write_text("#define WIDTH 512\n")
    path = inner / "hostile.cu"
    path.write_text(
        f"""#include "../secret.h"
#include "own.h"
#include "/dev/zero"
static int started = system("touch {ran}");
__attribute__((constructor)) void early() {{ system("touch {ran}"); }}
__global__ void twice(float* x) {{ x[threadIdx.x] *= 2; }}
int main() {{
    float* d;
    cudaMalloc(&d, WIDTH * sizeof(float));
    twice<<<1, WIDTH>>>(d);
    cudaMemcpy(0, d, WIDTH * sizeof(float), cudaMemcpyDeviceToHost);
    system("touch {ran}");
}}
"""
    )

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", refuse)
        result = CliRunner().invoke(app, ["new", "--from-cu", str(path)])
    assert result.exit_code == 0, result.output
    assert not ran.exists()
    made = "".join(each.read_text() for each in (project.kernels / "hostile").iterdir())
    assert "4711" not in made  # it lies outside of the file's folder
    assert "512" in made
    assert "Nothing of the file was run." in result.output


def test_an_empty_folder_becomes_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(PROGRAMS / "vector_add.cu", tmp_path)
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(app, ["new", "--from-cu", "missing.cu"])
    assert told.exit_code and not (tmp_path / "workbench.toml").exists()
    for words in (["new", "--from-cu", "vector_add.cu"], ["new", "--example"], ["list"]):
        told = CliRunner().invoke(app, words)
        assert told.exit_code == 0, told.output
    assert "vector_add" in told.output and "scale_add" in told.output
    assert (tmp_path / "workbench.toml").is_file()


def test_what_cannot_be_brought_says_why(project: Project) -> None:
    with pytest.raises(UsageError, match="holds no kernel"):
        brought(project, "int main() { return 0; }\n")
    with pytest.raises(UsageError, match="has no kernel `vectoradd`") as caught:
        bring(project, PROGRAMS / "vector_add.cu", kernel="vectoradd")
    assert "vectorAdd" in caught.value.hint
    bring(project, PROGRAMS / "vector_add.cu")
    with pytest.raises(UsageError, match="is there already"):
        bring(project, PROGRAMS / "vector_add.cu")


def test_what_is_nested_too_deeply_is_told(project: Project) -> None:
    for deep in ("(" * 5000 + "1" + ")" * 5000, "-" * 5000 + "1"):
        with pytest.raises(UsageError, match="nested too deeply"):
            brought(project, f"__global__ void k() {{}}\nint main() {{ int n = {deep}; }}\n")


def test_without_a_reference_versions_must_equal_the_first(project: Project) -> None:
    made, study = brought(
        project,
        """__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
""",
    )
    assert made.reference == ""
    assert study.answering == "v0"
    assert any("nothing proves v0 itself" in note for note in made.notes)
    assert any("nothing in the file launches twice" in note for note in made.notes)


LADDERS = {
    "convolution": (["convNaive", "convConstant", "convTiled"], "`convCPU`"),
    "gemm": (["sgemm_coalesced", "sgemm_shared"], "`cpu_gemm`"),
    "reduction": (["reduceInterleaved", "reduceSequential"], "the loop"),
    "stencil": (["heat"], "the loop"),
    "histogram": (["histGlobal", "histShared"], "`histHost`"),
}


@pytest.mark.parametrize("program", LADDERS)
def test_a_students_program_becomes_its_ladder(project: Project, program: str) -> None:
    kernels, reference = LADDERS[program]
    made = bring(project, PROGRAMS / f"{program}.cu")
    assert list(made.versions.values()) == kernels
    assert made.notes == []
    assert made.reference.startswith(reference)
    study = load_study(project, program)
    for problem in study.problems.values():
        for version in study.versions.values():
            assert resolve_launches(study, version, problem)


def answer(project: Project, program: str, problem: str) -> tuple[Study, dict[str, Any], Any]:
    bring(project, PROGRAMS / f"{program}.cu")
    study = load_study(project, program)
    chosen = study.problem(problem)
    inputs = study.inputs(chosen, np.random.default_rng(1))
    (found,) = study.reference(chosen, inputs).values()
    return study, inputs, found


@needs_host
def test_a_constant_of_the_device_and_an_array_share_an_input(project: Project) -> None:
    study, inputs, found = answer(project, "convolution", "small")
    assert set(inputs) == {"in_", "mask"}
    assert [fill.input for fill in study.version("v1").fills] == ["mask"]
    height, width = (study.problem("small").parameters[n] for n in ("height", "width"))
    padded = np.pad(inputs["in_"].reshape(height, width).astype(float), 2)
    views = np.lib.stride_tricks.sliding_window_view(padded, (5, 5))
    wanted = np.einsum("yxij,ij->yx", views, inputs["mask"].reshape(5, 5).astype(float))
    np.testing.assert_allclose(found, wanted.ravel(), rtol=1e-4, atol=1e-4)


@needs_host
def test_an_output_that_is_read_begins_with_an_input(project: Project) -> None:
    study, inputs, found = answer(project, "gemm", "small")
    (fill,) = study.version("v0").fills
    assert (fill.name, fill.input) == ("C", "C_before")
    (launch,) = resolve_launches(study, study.version("v0"), study.problem("whole"))
    assert (launch.kernel, launch.block) == ("sgemm_coalesced<32>", (1024, 1, 1))
    n = study.problem("small").parameters["n"]
    a, b, c = (inputs[name].reshape(n, n).astype(float) for name in ("A", "B", "C_before"))
    np.testing.assert_allclose(found, (0.5 * a @ b + 3 * c).ravel(), rtol=1e-4)


@needs_host
def test_what_is_compared_with_is_the_answer(project: Project) -> None:
    study, inputs, found = answer(project, "stencil", "whole")
    assert study.outputs(study.problem()) == {"next": ((256 * 192,), "float64")}
    now = inputs["now"].reshape(192, 256)
    wanted = now.copy()
    inner = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]
    wanted[1:-1, 1:-1] += 0.1 * (inner - 4 * now[1:-1, 1:-1])
    np.testing.assert_allclose(found, wanted.ravel(), rtol=1e-12)


@needs_host
def test_partial_sums_and_counts_are_right(project: Project) -> None:
    study, inputs, found = answer(project, "reduction", "small")
    np.testing.assert_allclose(found, inputs["in_"].reshape(-1, 256).sum(axis=1), rtol=1e-5)
    assert resolve_launches(study, study.version("v1"), study.problem())[0].dynamic_shared == 1024
    study, inputs, found = answer(project, "histogram", "odd")
    np.testing.assert_array_equal(found, np.bincount(inputs["data"], minlength=256))


def test_a_size_that_is_compiled_in_is_made_small_enough(project: Project) -> None:
    made, study = brought(
        project,
        """#define N 100000000  // large
__global__ void twice(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = 2 * x[i];
}
int main() {
    float *x, *y;
    cudaMallocManaged(&x, N * sizeof(float));
    cudaMallocManaged(&y, N * sizeof(float));
    for (int i = 0; i < N; i++) x[i] = 1.0f;
    twice<<<(N + 255) / 256, 256>>>(x, y);
    cudaDeviceSynchronize();
}
""",
    )
    (note,) = [each for each in made.notes if "N is larger in the file" in each]
    size = study.problem().parameters["N"]
    assert size < 1 << 23 and str(size) in note
    assert f"#define N {size}  // large" in study.version("v0").text


def test_sizes_that_no_half_makes_small_end_the_search(project: Project) -> None:
    _, study = brought(
        project,
        """#define M 1024
#define N 1024
#define K 1024
__global__ void copy(const float *x, float *y) {
    size_t i = blockIdx.x * (size_t)1024 + threadIdx.x;
    if (i < (size_t)M * N * K) y[i] = x[i];
}
int main() {
    float *x, *y;
    cudaMallocManaged(&x, sizeof(float) * M * N * K);
    cudaMallocManaged(&y, sizeof(float) * M * N * K);
    copy<<<M * N, K>>>(x, y);
}
""",
    )
    assert study.problem().parameters == {"M": 1024, "N": 1024, "K": 1024}


@needs_compiler
@needs_host
@pytest.mark.slow
def test_the_how_to_works_as_it_is_written(project: Project) -> None:
    page = (REPO / "docs" / "how-to" / "bring.md").read_text()
    commands = re.findall(r"^\$ workbench (.*)$", page, re.MULTILINE)
    shutil.copy(PROGRAMS / "vector_add.cu", project.root)
    (project.root / "workbench.toml").unlink()
    for command in commands[: commands.index("new vector_add/v1") + 1]:
        result = CliRunner().invoke(app, command.split())
        assert result.exit_code == 0, (command, result.output)


@needs_host
def test_a_host_function_that_breaks_is_told(project: Project) -> None:
    path = project.root / "reference.cpp"
    head = (
        '#include <cstdlib>\n#include <cstdio>\nextern "C" void reference(float* x, long long n) '
    )
    values = np.ones(4, "float32")
    path.write_text(head + '{ for (int i = 0; i < n; i++) x[i] += i; printf("noise"); }\n')
    call(path, "reference", values, 3)
    assert values.tolist() == [1, 2, 3, 1]
    path.write_text(head + "{ x[0] = 7; abort(); }\n")
    with pytest.raises(UsageError, match="was ended by SIGABRT"):
        call(path, "reference", values, 3)
    assert values.tolist() == [1, 2, 3, 1]
    path.write_text(head + "{ exit(3); }\n")
    with pytest.raises(UsageError, match="ended with 3"):
        call(path, "reference", values, 3)
    path.write_text(head + "{ this is not C }\n")
    with pytest.raises(UsageError, match="cannot be built"):
        call(path, "reference", values, 3)
    path.write_text(head + "{}\n")
    with pytest.raises(UsageError, match="has no function `answer`"):
        call(path, "answer", values, 3)


@needs_host
def test_a_host_function_that_reads_past_an_array_is_told(project: Project) -> None:
    path = project.root / "reference.cpp"
    head = 'extern "C" void reference(float* given_a, float* given_b, long long n) '
    a, b = np.ones(1100, "float32"), np.zeros(1100, "float32")
    path.write_text(head + "{ for (int i = 0; i < n; i++) given_b[i] = given_a[i + 1]; }\n")
    with pytest.raises(UsageError, match=r"past the end of a, and 1 element of") as caught:
        call(path, "reference", a, b, 1100)
    assert "bounds" in caught.value.hint and not b.any()
    # What is read and not used does no harm.
    for used in ("0 * given_a[i + 1] + given_a[i]", "given_a[i + 1] == 5 ? 2 : 1"):
        path.write_text(head + f"{{ for (int i = 0; i < n; i++) given_b[i] = {used}; }}\n")
        call(path, "reference", a, b, 1100)
        assert (b == 1).all()


TURNED = """#include <cstdio>
const int T = 32;
__global__ void keep(float *out, const float *in) {
    int x = blockIdx.x * T + threadIdx.x, y = blockIdx.y * T + threadIdx.y;
    out[y * gridDim.x * T + x] = in[y * gridDim.x * T + x];
}
__global__ void turn(float *out, const float *in) {
    int x = blockIdx.x * T + threadIdx.x, y = blockIdx.y * T + threadIdx.y;
    out[x * gridDim.x * T + y] = in[y * gridDim.x * T + x];
}
__global__ void turnTiled(float *out, const float *in) {
    __shared__ float tile[T][T + 1];
    int x = blockIdx.x * T + threadIdx.x, y = blockIdx.y * T + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[y * gridDim.x * T + x];
    __syncthreads();
    x = blockIdx.y * T + threadIdx.x, y = blockIdx.x * T + threadIdx.y;
    out[y * gridDim.x * T + x] = tile[threadIdx.x][threadIdx.y];
}
void check(const float *want, const float *got, int n) {
    for (int i = 0; i < n; i++) if (got[i] != want[i]) { printf("wrong\\n"); return; }
}
int main() {
    const int nx = 1024, ny = 1024;
    const int size = nx * ny * sizeof(float);
    float *h_in = (float *)malloc(size), *h_same = (float *)malloc(size);
    float *h_turned = (float *)malloc(size), *gold = (float *)malloc(size);
    float *d_in, *d_same, *d_turned;
    cudaMalloc(&d_in, size); cudaMalloc(&d_same, size); cudaMalloc(&d_turned, size);
    for (int j = 0; j < ny; j++) for (int i = 0; i < nx; i++) h_in[j * nx + i] = j * nx + i;
    for (int j = 0; j < ny; j++) for (int i = 0; i < nx; i++) gold[j * nx + i] = h_in[i * nx + j];
    cudaMemcpy(d_in, h_in, size, cudaMemcpyHostToDevice);
    dim3 grid(nx / T, ny / T), block(T, T);
    keep<<<grid, block>>>(d_same, d_in);
    cudaMemcpy(h_same, d_same, size, cudaMemcpyDeviceToHost);
    check(h_in, h_same, nx * ny);
    turn<<<grid, block>>>(d_turned, d_in);
    cudaMemcpy(h_turned, d_turned, size, cudaMemcpyDeviceToHost);
    check(gold, h_turned, nx * ny);
    turnTiled<<<grid, block>>>(d_turned, d_in);
    cudaMemcpy(h_turned, d_turned, size, cudaMemcpyDeviceToHost);
    check(gold, h_turned, nx * ny);
}
"""


@needs_host
def test_kernels_of_another_answer_are_no_rungs_of_the_ladder(project: Project) -> None:
    """A copy stands beside transposes as the speed to reach: its answer is its input."""
    made, study = brought(project, TURNED)
    assert made.versions == {"v0": "turn", "v1": "turnTiled"}
    (note,) = made.notes
    assert "keep is compared with its own input" in note and "--kernel keep" in note
    problem = study.problem("small")
    # The file's sides are equal, and a kernel that gets neither takes them for one.
    assert problem.parameters["nx"] == problem.parameters["ny"] < 1024
    inputs = study.inputs(problem, np.random.default_rng(1))
    (found,) = study.reference(problem, inputs).values()
    n = problem.parameters["nx"]
    np.testing.assert_array_equal(found.reshape(n, n), inputs["in_"].reshape(n, n).T)


def test_a_pointer_into_an_array_stays_one(project: Project) -> None:
    made, study = brought(
        project,
        """#define R 3
__global__ void sums(const int *in, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, s = 0;
    for (int k = -R; k <= R; k++) s += in[i + k];
    out[i] = s;
}
int main() {
    const int N = 4096, bytes = (N + 2 * R) * sizeof(int);
    int *h = (int *)malloc(bytes), *in, *out;
    for (int i = 0; i < N + 2 * R; i++) h[i] = i % 7;
    cudaMalloc(&in, bytes);
    cudaMalloc(&out, bytes);
    cudaMemcpy(in, h, bytes, cudaMemcpyHostToDevice);
    sums<<<N / 128, 128>>>(in + R, &out[R + 1] - 1);
    cudaMemcpy(h, out, bytes, cudaMemcpyDeviceToHost);
}
""",
    )
    assert not any("could not be read" in note for note in made.notes)
    (launch,) = resolve_launches(study, study.version("v0"), study.problem())
    assert [(each.name, each.offset) for each in launch.args if isinstance(each, BufferArg)] == [
        ("in_", 12), ("out", 12),
    ]  # fmt: skip


def test_a_kernel_that_warms_up_is_no_version(project: Project) -> None:
    made, _ = brought(project, TURNED.replace("keep", "warmup").replace("check(h_in, h_same", "//"))
    assert made.versions == {"v0": "turn", "v1": "turnTiled"}
    assert any("warmup by its name only warms up: it is left out" in note for note in made.notes)


def test_a_kernel_that_warms_up_can_be_brought_alone(project: Project) -> None:
    alone, _ = brought(project, TURNED.replace("keep", "warmup"), kernel="warmup")
    assert alone.versions == {"v0": "warmup"}


@needs_host
def test_a_kernel_of_another_answer_can_be_brought_alone(project: Project) -> None:
    made, study = brought(project, TURNED, kernel="keep")
    assert made.versions == {"v0": "keep"} and "compares" in made.reference
    problem = study.problem("small")
    inputs = study.inputs(problem, np.random.default_rng(1))
    (found,) = study.reference(problem, inputs).values()
    np.testing.assert_array_equal(found, inputs["in_"])


FETCHING = """#include <cuda_runtime.h>
#define W 64
const int height = 48;
__global__ void turn(float *out, int width, int height, float angle, cudaTextureObject_t tex) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float u = x / (float)width - 0.5f, v = y / (float)height - 0.5f;
    out[y * width + x] = tex2D<float>(tex, u * cosf(angle) - v * sinf(angle) + 0.5f, v + 0.5f);
}
__global__ void shade(float *out, int width, int height, float angle, cudaTextureObject_t colors) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float4 c = tex2D<float4>(colors, x, y);
    out[y * width + x] = (c.x + c.y + c.z) * angle;
}
int main() {
    const int width = 96;
    float *h = (float *)malloc(width * height * 4), *out;
    cudaArray *array; cudaTextureObject_t tex; cudaResourceDesc res; cudaTextureDesc desc;
    cudaMalloc(&out, width * height * sizeof(float));
    desc.normalizedCoords = true;
    desc.filterMode = cudaFilterModeLinear;
    desc.addressMode[0] = cudaAddressModeMirror;
    MODE
    cudaCreateTextureObject(&tex, &res, &desc, NULL);
    KERNEL<<<dim3(width / 8, height / 8), dim3(8, 8)>>>(out, width, height, 0.5f, tex);
    cudaMemcpy(h, out, width * height * sizeof(float), cudaMemcpyDeviceToHost);
}
"""


@pytest.mark.parametrize(
    ("kernel", "mode", "name", "dtype", "channels", "read"),
    [
        ("turn", "", "tex", "float32", 1, False),
        ("shade", "desc.readMode = cudaReadModeNormalizedFloat;", "colors", "uint8", 4, True),
    ],
)
def test_a_texture_is_described_and_its_texels_are_an_input(
    project: Project, kernel: str, mode: str, name: str, dtype: str, channels: int, read: bool
) -> None:
    text = FETCHING.replace("KERNEL", kernel).replace("MODE", mode)
    made, study = brought(project, text, kernel)
    assert any(f"`{name}_texels`, and their extents, width × height" in each for each in made.notes)
    problem = study.problem()
    (launch,) = resolve_launches(study, study.version("v0"), problem)
    (found,) = [each for each in launch.args if isinstance(each, TextureArg)]
    texture = found.texture
    assert (found.buffer, texture.dtype, texture.channels) == (f"{name}_texels", dtype, channels)
    assert texture.dims == (96, 48) and texture.address == ("mirror",)
    assert (texture.filter, texture.normalized, texture.as_float) == ("linear", True, read)
    texels = study.inputs(problem, np.random.default_rng(1))[f"{name}_texels"]
    found.check(texels.nbytes)
    assert texels.dtype == dtype and texels.nbytes == texture.extent
    assert study.tolerance > 1 / 256 and "1/256" in study.tolerance_why


def test_rows_with_a_pitch_are_memory_like_any_other(project: Project) -> None:
    made, study = brought(
        project,
        """__global__ void add(float *out, const float *in, int pitch, int w, int h) {
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < w && y < h) out[y * pitch + x] = in[y * pitch + x] + 1.0f;
}
int main() {
    const int w = 640, h = 480;
    float *host = (float *)malloc(w * h * sizeof(float)), *in, *out;
    size_t pitch;
    cudaMallocPitch((void **)&in, &pitch, w * sizeof(float), h);
    cudaMallocPitch((void **)&out, &pitch, w * sizeof(float), h);
    for (int i = 0; i < w * h; i++) host[i] = i % 10;
    cudaMemcpy2D(in, pitch, host, w * sizeof(float), w * sizeof(float), h, cudaMemcpyHostToDevice);
    add<<<dim3(40, 30), dim3(16, 16)>>>(out, in, (int)(pitch / sizeof(float)), w, h);
    cudaMemcpy2D(host, w * sizeof(float), out, pitch, w * sizeof(float), h, cudaMemcpyDeviceToHost);
}
""",
    )
    assert [note for note in made.notes if "nothing proves v0 itself" not in note] == []
    problem = study.problem()
    assert study.input_names == ("in_",) and study.outputs(problem) == {
        "out": ((640 * 480,), "float32")
    }
    (launch,) = resolve_launches(study, study.version("v0"), problem)
    assert [getattr(each, "value", "") for each in launch.args] == ["", "", 640, 640, 480]


def test_sizes_that_a_library_reads_are_parameters_with_a_guess(project: Project) -> None:
    made, study = brought(
        project,
        """#include <cuda_runtime.h>
__global__ void half(float *out, const float *in, int width, int height) {
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < width && y < height) out[y * width + x] = in[y * width + x] / 2;
}
int main() {
    int devices, id;
    float *h = NULL, *in, *out;
    unsigned int width, height;
    cudaGetDeviceCount(&devices);
    ask(&id);
    loadImage("a.pgm", &h, &width, (unsigned *)&height);
    unsigned int size = width * height * sizeof(float);
    cudaMalloc(&in, size);
    cudaMalloc(&out, size);
    cudaMemcpy(in, h, size, cudaMemcpyHostToDevice);
    half<<<dim3(width / 16, height / 16), dim3(16, 16)>>>(out, in, width, height);
    cudaMemcpy(h, out, size, cudaMemcpyDeviceToHost);
}
""",
    )
    assert study.problem().parameters == {"width": 256, "height": 256}
    told = [note for note in made.notes if "was put in its place" in note]
    assert told == [
        f"loadImage gives `{name}`, and 256 was put in its place" for name in ("width", "height")
    ]
    (launch,) = resolve_launches(study, study.version("v0"), study.problem())
    assert launch.grid == (16, 16, 1)


POINTED = """#include <cuda_runtime.h>
#include <stdlib.h>
#include <helper_cuda.h>
#define T 16
#define FLOOR(a, b) (a - (a % b))
__global__ void keep(float *out, const float *in, int w, int h) {
    int i = (blockIdx.y * T + threadIdx.y) * w + blockIdx.x * T + threadIdx.x;
    out[i] = in[i];
}
__global__ void turn(float *out, const float *in, int w, int h) {
    int x = blockIdx.x * T + threadIdx.x, y = blockIdx.y * T + threadIdx.y;
    out[x * h + y] = in[y * w + x];
}
__global__ void half_of_it(float *out, const float *in, int w, int h) {
    int x = blockIdx.x * T + threadIdx.x, y = blockIdx.y * T + threadIdx.y;
    out[x * h + y] = in[x * w + y];
}
__global__ void turn_rows(float *out, const float *in, int w, int h) {
    int x = blockIdx.x * T + threadIdx.x, y = blockIdx.y * T + threadIdx.y;
    out[y * h + x] = in[x * w + y];
}
void gold_of(float *gold, float *in, const int w, const int h) {
    for (int y = 0; y < h; ++y)
        for (int x = 0; x < w; ++x) gold[x * h + y] = in[y * w + x];
}
void sizes(int argc, char **argv, int &w, int &h, int most) {
    if (checkCmdLineFlag(argc, argv, "w")) w = getCmdLineArgumentInt(argc, argv, "w");
    else { w = most; w = FLOOR(w, 512); }
    h = w;
}
int main(int argc, char **argv) {
    int w, h, most;
    most = (int)howMuch(0) * T;
    sizes(argc, argv, w, h, most);
    void (*kernel)(float *, const float *, int, int);
    const char *name;
    dim3 grid(w / T, h / T), threads(T, T);
    size_t bytes = static_cast<size_t>(sizeof(float) * w * h);
    float *h_in = (float *)malloc(bytes), *h_out = (float *)malloc(bytes);
    float *turned = (float *)malloc(bytes), *gold, *d_in, *d_out;
    cudaMalloc((void **)&d_in, bytes);
    cudaMalloc((void **)&d_out, bytes);
    for (int i = 0; i < w * h; ++i) h_in[i] = (float)i;
    cudaMemcpy(d_in, h_in, bytes, cudaMemcpyHostToDevice);
    gold_of(turned, h_in, w, h);
    for (int k = 0; k < 4; k++) {
        switch (k) {
        case 0: kernel = &keep; name = "keep"; break;
        case 1: kernel = &turn; name = "turn"; break;
        case 2: kernel = half_of_it; name = "half"; break;
        case 3: kernel = &turn_rows; name = "rows"; break;
        }
        if (kernel == &keep) gold = h_in;
        else if (kernel == half_of_it) gold = h_out;
        else gold = turned;
        for (int i = 0; i < 100; i++) kernel<<<grid, threads>>>(d_out, d_in, w, h);
        cudaMemcpy(h_out, d_out, bytes, cudaMemcpyDeviceToHost);
        bool good = compareData(gold, h_out, w * h, 0.01f, 0.0f);
    }
}
"""


@needs_host
def test_a_kernel_is_launched_through_a_pointer_that_a_switch_sets(project: Project) -> None:
    made, study = brought(project, POINTED)
    assert made.versions == {"v0": "turn", "v1": "turn_rows"}
    assert "`gold_of`" in made.reference
    left = [note.partition(":")[0] for note in made.notes if "left out" in note]
    assert left == [
        "keep is compared with its own input, which is not the answer of the others",
        "half_of_it is compared with nothing but its own result",
    ]
    problem = study.problem("small")
    assert problem.parameters["w"] == problem.parameters["h"] < 1024
    inputs = study.inputs(problem, np.random.default_rng(1))
    (found,) = study.reference(problem, inputs).values()
    n = problem.parameters["w"]
    np.testing.assert_array_equal(found.reshape(n, n), inputs["in_"].reshape(n, n).T)


def test_a_size_that_cannot_be_read_is_a_parameter_with_a_guess(project: Project) -> None:
    made, study = brought(project, POINTED)
    assert {"w": 1024, "h": 1024}.items() <= study.problem("whole").parameters.items()
    guessed = [note for note in made.notes if "1024 was put in its place" in note]
    assert guessed == [
        "`w` could not be read, and 1024 was put in its place",
        "`h` could not be read, and 1024 was put in its place",
    ]


def test_a_kernel_that_only_copies_is_no_version(project: Project) -> None:
    made, _ = brought(
        project, TURNED.replace("keep", "copyRows").replace("check(h_in, h_same", "//")
    )
    assert made.versions == {"v0": "turn", "v1": "turnTiled"}
    assert any("copyRows by its name only copies: it is left out" in note for note in made.notes)


OF_TWO_TYPES = """#include <stdlib.h>
template <class T> __global__ void scale(T *in, T *out) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = 2 * in[blockIdx.x * blockDim.x + threadIdx.x];
}
template <class T> void twice(T *out, T *in, int n) {
    for (int i = 0; i < n; i++) out[i] = 2 * in[i];
}
template <class T> void test(int len) {
    int size = len * sizeof(T);
    T *h = (T *)malloc(size), *back = (T *)malloc(size), *want = (T *)malloc(size), *d, *o;
    for (int i = 0; i < len; i++) h[i] = (T)i;
    cudaMalloc((void **)&d, size);
    cudaMalloc((void **)&o, size);
    cudaMemcpy(d, h, size, cudaMemcpyHostToDevice);
    scale<T><<<1, len>>>(d, o);
    cudaMemcpy(back, o, size, cudaMemcpyDeviceToHost);
    twice<T>(want, h, len);
}
int main() { test<float>(32); test<int>(64); test<float>(96); }
"""


def test_what_works_on_another_type_or_size_is_no_version(project: Project) -> None:
    """A ladder's versions share their arrays."""
    made, study = brought(project, OF_TWO_TYPES)
    assert made.versions == {"v0": "scale"}
    assert study.outputs(study.problem()) == {"out": ((32,), "float32")} or list(
        study.outputs(study.problem()).values()
    ) == [((32,), "float32")]
    left = [note for note in made.notes if "left out" in note]
    assert len(left) == 2
    assert "scale<int> works on int32, not on v0's float32" in left[0]
    assert "scale<float> works on arrays of another size than v0's" in left[1]


IN_TURN = """#include <stdlib.h>
__global__ void both(
    float *sum, float *norm, float *most, const float *a, const float *b, int rows, int n) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float m = 0.f;
    for (int i = 0; i < n; i++) {
        sum[r * n + i] = a[r * n + i] + b[r * n + i];
        m = fmaxf(m, fabsf(sum[r * n + i]));
    }
    most[r] = m;
    for (int i = 0; i < n; i++) norm[r * n + i] = 0.5f * sum[r * n + i] / m;
}
void add_cpu(float *out, const float *a, const float *b, int n) {
    for (int i = 0; i < n; i++) out[i] = a[i] + b[i];
}
void halve_cpu(float *out, const float *in, int n) {
    for (int i = 0; i < n; i++) out[i] = 0.5f * in[i];
}
void norm_cpu(float *out, float *most, const float *in, const float *half, int rows, int n) {
    for (int r = 0; r < rows; r++) {
        float m = 0.f;
        for (int i = 0; i < n; i++) m = fmaxf(m, fabsf(in[r * n + i]));
        most[r] = m;
        for (int i = 0; i < n; i++) out[r * n + i] = half[r * n + i] / m;
    }
}
void check(const float *got, const float *want, int n) {
    for (int i = 0; i < n; i++) if (got[i] != want[i]) exit(1);
}
int main() {
    const int rows = 64, n = 32;
    const size_t size = rows * n * sizeof(float);
    float *a = (float *)malloc(size), *b = (float *)malloc(size);
    for (int i = 0; i < rows * n; i++) a[i] = rand() / (float)RAND_MAX + 1;
    for (int i = 0; i < rows * n; i++) b[i] = rand() / (float)RAND_MAX;
    float *sum = (float *)malloc(size), *norm = (float *)malloc(size);
    float *most = (float *)malloc(rows * sizeof(float)), *half = (float *)malloc(size);
    float *d_a, *d_b, *d_sum, *d_norm, *d_most;
    cudaMalloc(&d_a, size);
    cudaMalloc(&d_b, size);
    cudaMalloc(&d_sum, size);
    cudaMalloc(&d_norm, size);
    cudaMalloc(&d_most, rows * sizeof(float));
    cudaMemcpy(d_a, a, size, cudaMemcpyHostToDevice);
    cudaMemcpy(d_b, b, size, cudaMemcpyHostToDevice);
    add_cpu(sum, a, b, rows * n);
    halve_cpu(half, sum, rows * n);
    norm_cpu(norm, most, sum, half, rows, n);
    both<<<(rows + 31) / 32, 32>>>(d_sum, d_norm, d_most, d_a, d_b, rows, n);
    float *g = (float *)malloc(size), *g2 = (float *)malloc(size);
    float *g3 = (float *)malloc(rows * sizeof(float));
    cudaMemcpy(g, d_sum, size, cudaMemcpyDeviceToHost);
    cudaMemcpy(g2, d_norm, size, cudaMemcpyDeviceToHost);
    cudaMemcpy(g3, d_most, rows * sizeof(float), cudaMemcpyDeviceToHost);
    check(g, sum, rows * n);
    check(g2, norm, rows * n);
    check(g3, most, rows);
}
"""


@needs_host
def test_the_answer_may_be_worked_out_by_several_functions_in_turn(project: Project) -> None:
    """What one of them computes, the next one reads; one array of these is nobody's output."""
    made, study = brought(project, IN_TURN)
    assert "`add_cpu`" in made.reference and "`norm_cpu`" in made.reference
    problem = study.problem()
    inputs = study.inputs(problem, np.random.default_rng(1))
    found = study.reference(problem, inputs)
    rows, n = problem.parameters["rows"], problem.parameters["n"]
    total = np.add(inputs["a"], inputs["b"], dtype="float64").reshape(rows, n)
    most = total.max(1)
    np.testing.assert_allclose(found["most"], most, rtol=1e-6)
    np.testing.assert_allclose(found["norm"].reshape(rows, n), total / 2 / most[:, None], rtol=1e-6)


def test_indices_are_drawn_below_the_size_that_they_index(project: Project) -> None:
    """The small problem's table is smaller, and so are the numbers that point into it."""
    _, study = brought(
        project,
        """#include <stdlib.h>
__global__ void fetch(float *out, const int *at, const float *table, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = table[at[i]];
}
int *numbers(int n, int below) {
    int *made = (int *)malloc(n * sizeof(int));
    for (int i = 0; i < n; i++) made[i] = rand() % below;
    return made;
}
int main() {
    int n = 1 << 14, words = 300000;
    int *at = numbers(n, words), *d_at;
    float *table = (float *)malloc(words * sizeof(float));
    float *out = (float *)malloc(n * sizeof(float));
    for (int i = 0; i < words; i++) table[i] = rand() / (float)RAND_MAX;
    float *d_table, *d_out;
    cudaMalloc(&d_at, n * sizeof(int));
    cudaMalloc(&d_table, words * sizeof(float));
    cudaMalloc(&d_out, n * sizeof(float));
    cudaMemcpy(d_at, at, n * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(d_table, table, words * sizeof(float), cudaMemcpyHostToDevice);
    fetch<<<(n + 255) / 256, 256>>>(d_out, d_at, d_table, n);
    cudaMemcpy(out, d_out, n * sizeof(float), cudaMemcpyDeviceToHost);
}
""",
    )
    for name in ("whole", "small"):
        problem = study.problem(name)
        words = problem.parameters["words"]
        drawn = study.inputs(problem, np.random.default_rng(1))["at"]
        assert words // 2 < drawn.max() < words
    assert words < 300000


def test_a_size_that_is_rounded_down_in_the_file_is_not_halved_to_nothing(
    project: Project,
) -> None:
    _, study = brought(project, POINTED.replace("(int)howMuch(0) * T", "2048"))
    (problem,) = study.problems_for("verify")
    assert problem.parameters["most"] == 512
    (launch,) = resolve_launches(study, study.version("v0"), problem)
    assert launch.grid == (32, 32, 1)


@pytest.mark.parametrize("power", ["pow(2, n)", "pow(10, 1 << 30)", "sqrt(-n)"])
def test_powers_that_no_number_holds_are_sizes_that_cannot_be_read(
    project: Project, power: str
) -> None:
    made, _ = brought(
        project,
        """#include <stdlib.h>
__global__ void one(float *out) { out[blockIdx.x * 256 + threadIdx.x] = 1; }
int main(int argc, char **argv) {
    int n = atoi(argv[1]), size = POWER;
    float *out;
    cudaMalloc(&out, size * sizeof(float));
    one<<<size / 256, 256>>>(out);
}
""".replace("POWER", power),
    )
    assert "`size` could not be read, and 1024 was put in its place" in made.notes


STREAMS = """#include <stdlib.h>
#define STREAMS 4
__global__ void more(int *out, const int *in, int n, int by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] + by;
}
int *h_in[STREAMS], *h_out[STREAMS], *d_in[STREAMS], *d_out[STREAMS];
cudaStream_t stream[STREAMS];
int n = 1 << 16;
bool check() {
    bool passed = true;
    for (int j = 0; j < STREAMS; ++j)
        for (int i = 0; i < n; ++i) passed &= (h_out[j][i] == h_in[j][i] + 5);
    return passed;
}
int main() {
    int bytes = n * sizeof(int);
    for (int i = 0; i < STREAMS; ++i) {
        cudaHostAlloc(&h_in[i], bytes, cudaHostAllocDefault);
        h_out[i] = (int *)malloc(bytes);
        cudaMalloc(&d_in[i], bytes);
        cudaMalloc((void **)&d_out[i], bytes);
        for (int k = 0; k < n; k++) h_in[i][k] = rand() % 50;
    }
    int current = 0;
    for (int i = 0; i < 10; ++i) {
        int next = (current + 1) % STREAMS;
        cudaMemcpyAsync(d_in[current], h_in[current], bytes, cudaMemcpyHostToDevice, stream[next]);
        more<<<(n + 255) / 256, 256, 0, stream[current]>>>(d_out[current], d_in[current], n, 5);
        cudaMemcpyAsync(h_out[current], d_out[current], bytes, cudaMemcpyDeviceToHost);
        current = next;
    }
    exit(check() ? 0 : 1);
}
"""


def test_one_of_an_array_of_pointers_stands_for_all(project: Project) -> None:
    made, study = brought(project, STREAMS)
    assert not any("could not be read" in note for note in made.notes)
    problem = study.problem("whole")
    assert study.input_names == ("in_",)
    assert study.outputs(problem) == {"out": ((1 << 16,), "int32")}
    assert study.inputs(problem, np.random.default_rng(1))["in_"].max() == 49
    (launch,) = resolve_launches(study, study.version("v0"), problem)
    assert [each.name for each in launch.args if isinstance(each, BufferArg)] == ["out", "in_"]


def test_a_pointer_that_cannot_be_read_is_an_array_of_an_element_a_thread(
    project: Project,
) -> None:
    made, study = brought(
        project,
        """#include <stdlib.h>
__global__ void scale(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2 * in[i];
}
int main() {
    int n = 4096;
    Buffers made = fromAnotherFile(n);
    scale<<<(n + 255) / 256, 256>>>(made.out(), made.in(), n);
}
""",
    )
    assert (
        "`in` of scale could not be read: an array with an element for each thread is a guess"
        in made.notes
    )
    assert study.outputs(study.problem("whole")) == {"out": ((4096,), "float32")}
    assert study.input_names == ("in_",)


RETURNED = """#include <vector>
__global__ void count(const unsigned char *data, unsigned *bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[data[i]], 1u);
}
std::vector<unsigned> counted(const std::vector<unsigned char> &data, int bins) {
    std::vector<unsigned> found(bins);
    for (size_t i = 0; i < data.size(); i++) found[data[i]]++;
    return found;
}
int main() {
    const int n = 1 << 20, BINS = 256;
    std::vector<unsigned char> data(n);
    for (auto &each : data) each = rand() % 256;
    std::vector<unsigned> got(BINS);
    unsigned char *d_data;
    unsigned *d_bins;
    cudaMalloc(&d_data, n);
    cudaMalloc(&d_bins, BINS * sizeof(unsigned));
    cudaMemset(d_bins, 0, BINS * sizeof(unsigned));
    cudaMemcpy(d_data, data.data(), n, cudaMemcpyHostToDevice);
    count<<<(n + 255) / 256, 256>>>(d_data, d_bins, n);
    cudaMemcpy(got.data(), d_bins, BINS * sizeof(unsigned), cudaMemcpyDeviceToHost);
    auto want = counted(data, BINS);
    for (int b = 0; b < BINS; b++) if (got[b] != want[b]) return 1;
}
"""


@needs_host
def test_a_function_may_return_the_answer(project: Project) -> None:
    made, study = brought(project, RETURNED)
    assert "`counted`" in made.reference
    problem = study.problem("small")
    inputs = study.inputs(problem, np.random.default_rng(1))
    (found,) = study.reference(problem, inputs).values()
    np.testing.assert_array_equal(found, np.bincount(inputs["data"], minlength=256))


def test_a_size_that_no_launch_tells_its_kernel_stays(project: Project) -> None:
    """The bins of a histogram are as many as its data has values, whoever asks for fewer."""
    _, study = brought(project, RETURNED)
    assert {each.parameters["BINS"] for each in study.problems.values()} == {256}
    assert min(each.parameters["n"] for each in study.problems.values()) < 1 << 17


MEASURED_BY_A_LAMBDA = """
#include <cstdio>
#define BINS 64
__global__ void counted(unsigned* bins, const unsigned char* data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[data[i] % BINS], 1);
}
__global__ void counted_shared(unsigned* bins, const unsigned char* data, int n) {
    extern __shared__ unsigned own[];
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) own[i] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&own[data[i] % BINS], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) atomicAdd(&bins[i], own[i]);
}
void counted_cpu(unsigned* bins, const unsigned char* data, int n) {
    for (int i = 0; i < BINS; i++) bins[i] = 0;
    for (int i = 0; i < n; i++) bins[data[i] % BINS]++;
}
bool same(const unsigned* a, const unsigned* b) {
    for (int i = 0; i < BINS; i++) if (a[i] != b[i]) return false;
    return true;
}
int main() {
    const int N = 1 << 16;
    unsigned char* h_data = new unsigned char[N];
    unsigned* h_bins = new unsigned[BINS];
    unsigned* h_right = new unsigned[BINS];
    for (int i = 0; i < N; i++) h_data[i] = rand() % BINS;
    counted_cpu(h_right, h_data, N);
    unsigned char* d_data;
    unsigned* d_bins;
    cudaMalloc(&d_data, N);
    cudaMalloc(&d_bins, BINS * sizeof(unsigned));
    cudaMemcpy(d_data, h_data, N, cudaMemcpyHostToDevice);
    int blocks = N / 256;
    auto measure = [&](const char* name, auto kernel, int shared) {
        for (int t = 0; t < 10; t++) {
            cudaMemset(d_bins, 0, BINS * sizeof(unsigned));
            kernel<<<blocks, 256, shared>>>(d_bins, d_data, N);
        }
        cudaMemcpy(h_bins, d_bins, BINS * sizeof(unsigned), cudaMemcpyDeviceToHost);
        printf("%s %s\\n", name, same(h_bins, h_right) ? "PASSED" : "FAILED");
    };
    measure("global", counted, 0);
    measure("shared", counted_shared, BINS * sizeof(unsigned));
}
"""


@needs_host
def test_kernels_that_a_lambda_is_given_are_launched(project: Project) -> None:
    made, study = brought(project, MEASURED_BY_A_LAMBDA)
    assert made.versions == {"v0": "counted", "v1": "counted_shared"} and made.notes == []
    assert "`counted_cpu`" in made.reference
    (launch,) = resolve_launches(study, study.version("v1"), study.problem())
    assert (launch.grid, launch.block, launch.dynamic_shared) == ((256, 1, 1), (256, 1, 1), 256)
    bins = answers(study, "whole")["bins"]
    assert bins.sum() == 1 << 16 and study.problem().parameters["N"] == 1 << 16


TOLD_IN_PRINTF = """
#include <cstdio>
__global__ void transpose(const float* input, float* output, int width, int height) {
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < width && y < height) output[x * height + y] = input[y * width + x];
}
bool right(const float* input, const float* output, int width, int height) {
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            if (input[y * width + x] != output[x * height + y]) return false;
    return true;
}
int main() {
    const int W = 64, H = 128;
    float *h_in = new float[W * H], *h_out = new float[W * H], *d_in, *d_out;
    for (int i = 0; i < W * H; i++) h_in[i] = (float)i;
    cudaMalloc(&d_in, W * H * sizeof(float));
    cudaMalloc(&d_out, W * H * sizeof(float));
    cudaMemcpy(d_in, h_in, W * H * sizeof(float), cudaMemcpyHostToDevice);
    transpose<<<dim3(W / 16, H / 16), dim3(16, 16)>>>(d_in, d_out, W, H);
    cudaMemcpy(h_out, d_out, W * H * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%s\\n", right(h_in, h_out, W, H) ? "PASS" : "FAIL");
}
"""


@needs_host
def test_what_is_called_to_be_printed_is_the_answer(project: Project) -> None:
    made, study = brought(project, TOLD_IN_PRINTF)
    assert "`right`" in made.reference and made.notes == []
    problem = study.problem("whole")
    given = study.inputs(problem, np.random.default_rng(1))["in_"].reshape(128, 64)
    np.testing.assert_array_equal(answers(study, "whole")["out"].reshape(64, 128), given.T)


FUSED = """
__global__ void in_two(const float* input, float* output, int cols) {
    const float* row_in = input + blockIdx.x * cols;
    float* row_out = output + blockIdx.x * cols;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) row_out[i] = expf(row_in[i]);
    for (int i = threadIdx.x; i < cols; i += blockDim.x) row_out[i] /= 2;
}
__global__ void in_one(const float* input, float* output, int cols) {
    const float* row_in = input + blockIdx.x * cols;
    float* row_out = output + blockIdx.x * cols;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) row_out[i] = expf(row_in[i]) / 2;
}
int main() {
    const int rows = 128, cols = 1024, total = rows * cols;
    float *h_in = new float[total], *h_out = new float[total], *d_in, *d_out;
    for (int i = 0; i < total; i++) h_in[i] = (i % 100) / 10.0f;
    cudaMalloc(&d_in, total * sizeof(float));
    cudaMalloc(&d_out, total * sizeof(float));
    cudaMemcpy(d_in, h_in, total * sizeof(float), cudaMemcpyHostToDevice);
    in_two<<<rows, 256>>>(d_in, d_out, cols);
    cudaMemcpy(h_out, d_out, total * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < 1000; i++) in_two<<<rows, 256>>>(d_in, d_out, cols);
    for (int i = 0; i < 1000; i++) in_one<<<rows, 256>>>(d_in, d_out, cols);
}
"""


def test_a_pointer_to_a_row_is_no_read_of_what_is_only_written(project: Project) -> None:
    made, study = brought(project, FUSED)
    assert made.versions == {"v0": "in_two", "v1": "in_one"}
    assert study.input_names == ("in_",)


def program(main: str, *kernels: str) -> str:
    """A program whose host code gives no answer."""
    return "\n".join([*kernels, f"int main(int argc, char** argv) {{\n{main}\n}}", ""])


TWICE = """__global__ void twice(const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 2 * x[i];
}"""
SUMS = """__global__ void NAME(const int* in, int* out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = 0;
    for (int k = 0; k < EACH; k++) s[t] += in[(blockIdx.x * EACH + k) * 64 + t];
    __syncthreads();
    for (int k = 32; k > 0; k /= 2) { if (t < k) s[t] += s[t + k]; __syncthreads(); }
    if (t == 0) out[blockIdx.x] = s[0];
}"""


def test_versions_whose_results_are_as_many_as_others_are_left_out(project: Project) -> None:
    """Each gives partial sums, a fourth as many where a block takes four times as much."""
    kernels = [
        SUMS.replace("NAME", name).replace("EACH", each)
        for name, each in (("one", "1"), ("other", "1"), ("four", "4"), ("eight", "8"))
    ]
    launches = "".join(
        f"    {name}<<<blocks{part}, 64>>>(d, r);\n"
        f"    cudaMemcpy(sums, r, blocks{part} * sizeof(int), cudaMemcpyDeviceToHost);\n"
        for name, part in (("one", ""), ("other", ""), ("four", " / 4"), ("eight", " / 8"))
    )
    main = f"""    int n = 4096, blocks = n / 64, *h = new int[n], *sums = new int[blocks], *d, *r;
    for (int i = 0; i < n; i++) h[i] = rand() % 10;
    cudaMalloc(&d, n * sizeof(int));
    cudaMalloc(&r, blocks * sizeof(int));
    cudaMemcpy(d, h, n * sizeof(int), cudaMemcpyHostToDevice);
{launches}"""
    made, _ = brought(project, program(main, *kernels))
    assert list(made.versions.values()) == ["one", "other"]
    (note,) = [note for note in made.notes if "left out" in note]
    assert note.startswith("four gives the host another number of elements than v0 (and so with e")


def test_a_kernel_that_launches_kernels_is_told(project: Project) -> None:
    nested = """__global__ void grow(float* y, int depth) {
    if (depth > 0 && threadIdx.x == 0) grow<<<1, 32>>>(y, depth - 1);
    y[threadIdx.x] += 1;
}"""
    main = """    int n = 4096;
    float *h = new float[n], *x, *y;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    cudaMemcpy(x, h, n * sizeof(float), cudaMemcpyHostToDevice);
    twice<<<n / 64, 64>>>(x, y);
    grow<<<1, 32>>>(y, 2);
    cudaMemcpy(h, y, n * sizeof(float), cudaMemcpyDeviceToHost);"""
    with pytest.raises(UsageError, match="grow launches kernels itself"):
        brought(project, program(main, TWICE, nested), kernel="grow")
    made, study = brought(project, program(main, TWICE, nested))
    assert list(made.versions.values()) == ["twice"]
    assert "grow launches kernels itself: it is left out" in made.notes
    assert "grow" not in study.version("v0").text


def test_memory_of_the_host_that_kernels_reach_is_an_array(project: Project) -> None:
    main = """    int n = 4096;
    float *h, *mapped, *x, *y, *back = new float[n];
    cudaHostAlloc((void**)&h, n * sizeof(float), cudaHostAllocMapped);
    for (int i = 0; i < n; i++) h[i] = rand() / (float)RAND_MAX;
    cudaHostGetDevicePointer((void**)&mapped, (void*)h, 0);
    cudaMalloc(&y, n * sizeof(float));
    twice<<<n / 64, 64>>>(mapped, y);
    cudaMemcpy(back, y, n * sizeof(float), cudaMemcpyDeviceToHost);
    float *own = new float[n], *second, *result;
    cudaMalloc(&second, n * sizeof(float));
    cudaMalloc(&result, n * sizeof(float));
    cudaMemcpy(second, own, n * sizeof(float), cudaMemcpyHostToDevice);
    twice<<<n / 32, 32>>>(second, result);"""
    made, study = brought(project, program(main, TWICE))
    assert not any("could not be read" in note for note in made.notes)
    # The same kernel on other arrays takes v0's at their places.
    arguments = [each.launches[0].args for each in study.versions.values()]
    assert arguments[0] == arguments[1] and len(study.input_names) == 1


def test_a_kernel_without_arrays_is_refused_with_its_line(project: Project) -> None:
    main = """    node *list = make();
    show<<<1, 1>>>(list);"""
    node = "struct node { int value; node* next; };\nnode* make();"
    show = "__global__ void show(node* list) { list->value++; }"
    with pytest.raises(UsageError, match=r"program.cu:6: none of what show is given") as told:
        brought(project, program(main, node, show))
    assert "--kernel" in told.value.hint and not (project.kernels / "program").exists()


def test_a_file_that_cannot_be_read_to_its_kernels_says_from_where(project: Project) -> None:
    odd = """__device__ void either(float* p, int n) {
#ifdef GUARDED
    if (n > 0) {
#else
    if (true) {
#endif
        p[0] = 1;
    }
}"""
    with pytest.raises(UsageError, match=r"program.cu:\d+: from here on") as told:
        brought(project, program("", odd, TWICE))
    assert "#if" in told.value.hint


def test_a_macro_may_launch(project: Project) -> None:
    kernel = """enum class Way { PLAIN, FAST };
template <typename T, Way way>
__global__ void twice(const T* x, T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = way == Way::FAST ? x[i] + x[i] : 2 * x[i];
}
#define RUN(way) \\
    for (int k = 0; k < 10; k++) \\
        twice<float, way><<<(n + 255) / 256, 256>>>(x, y, n); \\
    cudaDeviceSynchronize()
#define RUN_ALL(way) { RUN(way); }"""
    main = """    int n = 4096;
    float *h = new float[n], *x, *y;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    cudaMemcpy(x, h, n * sizeof(float), cudaMemcpyHostToDevice);
    RUN_ALL(Way::FAST)
    cudaMemcpy(h, y, n * sizeof(float), cudaMemcpyDeviceToHost);"""
    made, study = brought(project, program(main, kernel))
    assert not any("nothing in the file launches" in note for note in made.notes)
    (launch,) = study.version("v0").launches
    # A compiler writes the enumerator as a number: the only instance needs no arguments.
    assert launch.kernel == "twice" and "twice<float, Way::FAST>" in study.version("v0").text


def test_a_tree_in_global_memory_gets_no_odd_size(project: Project) -> None:
    tree = """__global__ void tree(int* in, int* out, int n) {
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    int* mine = in + blockIdx.x * blockDim.x;
    if (i >= n) return;
    for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (t < stride) mine[t] += mine[t + stride];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = mine[0];
}"""
    main = """    int n = 1 << 16, *h = new int[n], *d, *r;
    dim3 grid((n + 255) / 256);
    for (int i = 0; i < n; i++) h[i] = rand() % 10;
    cudaMalloc(&d, n * sizeof(int));
    cudaMalloc(&r, grid.x * sizeof(int));
    cudaMemcpy(d, h, n * sizeof(int), cudaMemcpyHostToDevice);
    tree<<<grid, 256>>>(d, r, n);
    cudaMemcpy(h, r, grid.x * sizeof(int), cudaMemcpyDeviceToHost);"""
    _, study = brought(project, program(main, tree))
    assert [each.parameters["n"] % 256 for each in study.problems.values()] == [0, 0]


def test_a_launch_of_one_block_keeps_what_it_takes_up(project: Project) -> None:
    sums = SUMS.replace("NAME", "sums").replace("EACH", "1").replace("64", "256")
    main = """    const int n = 1 << 16, threads = 256, blocks = n / threads;
    int *h = new int[n], *d, *r;
    for (int i = 0; i < n; i++) h[i] = rand() % 10;
    cudaMalloc(&d, n * sizeof(int));
    cudaMalloc(&r, n * sizeof(int));
    cudaMemcpy(d, h, n * sizeof(int), cudaMemcpyHostToDevice);
    sums<<<blocks, threads>>>(d, r);
    sums<<<1, threads>>>(r, r);
    cudaMemcpy(h, r, sizeof(int), cudaMemcpyDeviceToHost);"""
    _, study = brought(project, program(main, sums.replace("k = 32", "k = 128")))
    assert all(each.parameters["n"] == 256 * 256 for each in study.problems.values())


@needs_host
def test_numbers_of_half_a_width_and_helpers_that_draw_are_known(project: Project) -> None:
    kernel = """#include <cuda_fp16.h>
#define CLASSES 10
static int random_int(int low, int high) { return low + rand() % (high - low + 1); }
__global__ void pick(const __half* table, const int* which, __half* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __hadd(table[which[i]], __float2half(1.0f));
}
void pick_cpu(const __half* table, const int* which, __half* out, int n) {
    for (int i = 0; i < n; i++) out[i] = __float2half(__half2float(table[which[i]]) + 1.0f);
}"""
    main = """    const int n = 4096;
    __half *t = new __half[CLASSES], *h = new __half[n], *right = new __half[n], *table, *out;
    int *w = new int[n], *which;
    for (int i = 0; i < CLASSES; i++) t[i] = rand() / (float)RAND_MAX;
    for (int i = 0; i < n; i++) w[i] = random_int(0, CLASSES - 1);
    cudaMalloc(&table, CLASSES * sizeof(__half));
    cudaMalloc(&which, n * sizeof(int));
    cudaMalloc(&out, n * sizeof(__half));
    cudaMemcpy(table, t, CLASSES * sizeof(__half), cudaMemcpyHostToDevice);
    cudaMemcpy(which, w, n * sizeof(int), cudaMemcpyHostToDevice);
    pick<<<(n + 255) / 256, 256>>>(table, which, out, n);
    cudaMemcpy(h, out, n * sizeof(__half), cudaMemcpyDeviceToHost);
    pick_cpu(t, w, right, n);"""
    made, study = brought(project, program(main, kernel))
    assert "`pick_cpu`" in made.reference
    problem = study.problem()
    inputs = study.inputs(problem, np.random.default_rng(1))
    table, which = inputs["table"].astype("float64"), inputs["which"]
    assert which.min() == 0 and which.max() == 9
    (right,) = answers(study, problem.name).values()
    assert np.allclose(right, table[which] + 1)


@needs_host
def test_integers_of_64_bits_are_those_of_the_file(project: Project) -> None:
    kernel = """#include <cstdint>
__global__ void pick(const float* x, const int64_t* which, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[which[i]];
}
template <typename T> void pick_cpu(const T* x, const int64_t* which, T* out, int n) {
    for (int i = 0; i < n; i++) out[i] = x[which[i]];
}"""
    main = """    int n = 4096;
    float *h = new float[n], *right = new float[n], *x, *out;
    int64_t *w = new int64_t[n], *which;
    for (int i = 0; i < n; i++) { h[i] = rand() / (float)RAND_MAX; w[i] = rand() % n; }
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&which, n * sizeof(int64_t));
    cudaMalloc(&out, n * sizeof(float));
    cudaMemcpy(x, h, n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(which, w, n * sizeof(int64_t), cudaMemcpyHostToDevice);
    pick<<<(n + 255) / 256, 256>>>(x, which, out, n);
    cudaMemcpy(h, out, n * sizeof(float), cudaMemcpyDeviceToHost);
    pick_cpu(h, w, right, n);"""
    _, study = brought(project, program(main, kernel))
    problem = study.problem()
    inputs = study.inputs(problem, np.random.default_rng(1))
    (right,) = answers(study, problem.name).values()
    assert (right == inputs["x"][inputs["which"]]).all()


def test_a_size_that_a_kernel_gets_as_a_number_stays(project: Project) -> None:
    count = """__global__ void count(const int* in, int* out, int bins, int n, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&out[in[i] % bins], 1);
}"""
    main = """    int n = 1 << 16, *h = new int[n], *x, *out;
    for (int i = 0; i < n; i++) h[i] = rand() % 100;
    for (int bins = 768; bins <= 6144; bins *= 2) {
        int size = bins;
        cudaMalloc(&x, n * sizeof(int));
        cudaMalloc(&out, size * sizeof(int));
        cudaMemcpy(x, h, n * sizeof(int), cudaMemcpyHostToDevice);
        cudaMemset(out, 0, size * sizeof(int));
        count<<<(n + 255) / 256, 256>>>(x, out, bins, n, size);
        cudaMemcpy(h, out, size * sizeof(int), cudaMemcpyDeviceToHost);
    }"""
    _, study = brought(project, program(main, count))
    assert {each.parameters["size"] for each in study.problems.values()} == {768}


def test_a_kernel_that_prepares_what_a_library_works_on_is_no_version(project: Project) -> None:
    """And a kernel may be an instance for a function."""
    kernels = """typedef void (*way)(float*, const float*, int);
__global__ void turn(const float* x, float* between, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) between[i] = x[n - 1 - i];
}
__device__ void plain(float* y, const float* x, int i) { y[i] = 2 * x[i]; }
template <way does> __global__ void all(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) does(y, x, i);
}
template <way does> void launch(float* y, const float* x, int n) {
    all<does><<<(n + 255) / 256, 256>>>(y, x, n);
}"""
    main = """    int n = 4096;
    float *h = new float[n], *x, *y, *between;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    cudaMalloc(&between, n * sizeof(float));
    cudaMemcpy(x, h, n * sizeof(float), cudaMemcpyHostToDevice);
    switch (atoi(argv[1])) {
        case 0:
            turn<<<(n + 255) / 256, 256>>>(x, between, n);
            cublasSscal(handle, n, &two, between, 1, y, 1);
            break;
        case 1: launch<plain>(y, x, n); break;
    }
    cudaMemcpy(h, y, n * sizeof(float), cudaMemcpyDeviceToHost);"""
    made, study = brought(project, program(main, kernels))
    assert list(made.versions.values()) == ["all"]
    (note,) = [note for note in made.notes if "left out" in note]
    assert note.startswith("turn only prepares what cublasSscal works on")
    (one,) = study.version("v0").launches
    assert one.kernel == "all" and "all<plain>" in study.version("v0").text
    assert study.output_names == ("y",) and study.input_names == ("x",)


@needs_compiler
def test_a_program_of_before_cuda_9_compiles(project: Project) -> None:
    kernel = """__global__ void sums(const float* x, float* y) {
    float v = x[blockIdx.x * 32 + threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down(v, d);
    if (threadIdx.x == 0) y[blockIdx.x] = v;
}"""
    main = """    int n = 4096;
    float *h = new float[n], *x, *y;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n / 32 * sizeof(float));
    cudaMemcpy(x, h, n * sizeof(float), cudaMemcpyHostToDevice);
    sums<<<n / 32, 32>>>(x, y);
    cudaMemcpy(h, y, n / 32 * sizeof(float), cudaMemcpyDeviceToHost);"""
    made, _ = brought(project, program(main, kernel))
    note = "__shfl_down went with CUDA 9: __shfl_down_sync, with all lanes, stands for it"
    assert note in made.notes
    done = CliRunner().invoke(app, ["verify", "program/v0", "--engine", "emulator"])
    assert done.exit_code == 0, done.output


@needs_host
def test_numbers_in_braces_stay_and_a_halo_begins_with_nothing(project: Project) -> None:
    """The host knows the coefficients by their names; nobody writes the first elements."""
    kernel = """#define HALO 2
#define c1 0.5f
#define c2 -0.25f
__constant__ float coefficients[2];
__global__ void slope(const float* in, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 1; k <= HALO; k++) sum += coefficients[k - 1] * (in[i + k] - in[i - k]);
    out[i] = sum;
}
void slope_cpu(const float* in, float* out, int n) {
    for (int i = HALO; i < n + HALO; i++)
        out[i] = c1 * (in[i + 1] - in[i - 1]) + c2 * (in[i + 2] - in[i - 2]);
}"""
    main = """    int n = 4096;
    size_t size = (n + 2 * HALO) * sizeof(float);
    float *h = (float*)malloc(size), *right = (float*)malloc(size), *in, *out;
    for (int i = 0; i < n + 2 * HALO; i++) h[i] = rand() / (float)RAND_MAX;
    const float host[] = {c1, c2};
    cudaMemcpyToSymbol(coefficients, host, 2 * sizeof(float));
    cudaMalloc(&in, size);
    cudaMalloc(&out, size);
    cudaMemcpy(in, h, size, cudaMemcpyHostToDevice);
    slope<<<n / 64, 64>>>(in + HALO, out + HALO);
    cudaMemcpy(h, out, size, cudaMemcpyDeviceToHost);
    slope_cpu(h, right, n);"""
    _, study = brought(project, program(main, kernel))
    inputs = study.inputs(study.problem(), np.random.default_rng(1))
    assert [0.5, -0.25] in [values.tolist() for values in inputs.values()]
    filled = {
        each.name: each.values
        for each in resolve_fills(study, study.version("v0"), study.problem())
    }
    assert filled["out"] == ("0",)


@needs_compiler
def test_a_loop_over_parts_of_arrays_is_as_many_launches(project: Project) -> None:
    """As programs with streams have it; a loop that only repeats itself is one launch."""
    kernel = """#define PARTS 4
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
void twice_cpu(const float* x, float* y, int n) { for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }"""
    main = """    int n = 4096, each = n / PARTS;
    size_t size = each * sizeof(float);
    float *h = (float*)malloc(n * sizeof(float)), *x, *y;
    float *right = (float*)malloc(n * sizeof(float));
    float *back = (float*)malloc(n * sizeof(float));
    for (int i = 0; i < n; i++) h[i] = rand() / (float)RAND_MAX;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    for (int i = 0; i < PARTS; i++) {
        int offset = i * each;
        cudaMemcpyAsync(&x[offset], &h[offset], size, cudaMemcpyHostToDevice, stream[i]);
        twice<<<(each + 255) / 256, 256, 0, stream[i]>>>(&x[offset], &y[offset], each);
        cudaMemcpyAsync(&back[offset], &y[offset], size, cudaMemcpyDeviceToHost, stream[i]);
    }
    for (int k = 0; k < 10; k++) twice<<<(each + 255) / 256, 256>>>(x, y, each);
    twice_cpu(h, right, n);"""
    made, study = brought(project, program(main, kernel))
    assert made.versions == {"v0": "twice"}
    assert len(study.version("v0").launches) == 4
    done = CliRunner().invoke(app, ["verify", "program/v0", "--engine", "emulator"])
    assert done.exit_code == 0, done.output


def test_a_size_may_be_converted_where_it_is_worked_out(project: Project) -> None:
    main = """    int n = 4096, least = 1 << 14;
    int size = max(int(sizeof(float) * n), least);
    float *h = new float[n], *x, *y;
    cudaMalloc(&x, size);
    cudaMalloc(&y, size);
    cudaMemcpy(x, h, n * sizeof(float), cudaMemcpyHostToDevice);
    twice<<<n / 64, 64>>>(x, y);
    cudaMemcpy(h, y, n * sizeof(float), cudaMemcpyDeviceToHost);"""
    made, study = brought(project, program(main, TWICE))
    assert not any("could not be read" in note for note in made.notes)
    assert study.outputs(study.problem())["y"][0] == (4096,)


def test_headers_that_kernels_need_are_kept_and_a_programs_own_are_named(project: Project) -> None:
    made, study = brought(
        project,
        """#include <cuComplex.h>
#include <curand_kernel.h>
#include <device_launch_parameters.h>
#include "device_launch_parameters.h"
#include "cuda_utils.h"
#include <vector_dense.cuh>
__global__ void conjugate(cuFloatComplex* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i].y = -x[i].y;
}
int main() {
    int n = 5000;
    cuFloatComplex *h = (cuFloatComplex*)malloc(n * sizeof(cuFloatComplex)), *d;
    cudaMalloc(&d, n * sizeof(cuFloatComplex));
    cudaMemcpy(d, h, n * sizeof(cuFloatComplex), cudaMemcpyHostToDevice);
    conjugate<<<(n + 255) / 256, 256>>>(d, n);
    cudaMemcpy(h, d, n * sizeof(cuFloatComplex), cudaMemcpyDeviceToHost);
}
""",
    )
    text = study.version("v0").text
    assert "cuComplex.h" in text
    # What is not beside the file cannot be included; a library that no kernel uses need not be.
    assert not re.search(r"curand|cuda_utils|vector_dense", text)
    said = [each.partition(" does not lie")[0] for each in made.notes if "does not lie" in each]
    assert said == ["cuda_utils.h", "vector_dense.cuh"]
    outputs = study.outputs(study.problem("whole"))
    assert [*outputs.values()] == [((10000,), "float32")]


def test_only_whole_numbers_are_taken_for_sizes_where_nothing_launches(project: Project) -> None:
    _, study = brought(
        project,
        """__global__ void scale(float* x, int n, bool twice, double by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= twice ? 2 * by : by;
}
""",
    )
    assert study.problem().parameters == {"n": 1024}
    launch = study.version("v0").launches[0]
    assert list(launch.args)[1:] == ["n", "uchar(1)", "double(1)"]


@needs_compiler
def test_arrays_that_objects_hold_are_followed(project: Project) -> None:
    made, study = brought(
        project,
        """#include <vector>
template <typename T> class DeviceArray {
  public:
    explicit DeviceArray(size_t count) : count_(count) { allocate(); }
    ~DeviceArray() { cudaFree(data_); }
    void from(const T* host) {
        cudaMemcpy(data_, host, count_ * sizeof(T), cudaMemcpyHostToDevice);
    }
    void to(T* host) const {
        cudaMemcpy(host, this->data_, count_ * sizeof(T), cudaMemcpyDeviceToHost);
    }
    T* get() { return data_; }
  private:
    void allocate() { cudaMalloc(&data_, count_ * sizeof(T)); }
    T* data_ = nullptr;
    size_t count_;
};
template <typename T> __global__ void twice(const T* x, T* y, size_t n) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
struct Runner {
    int n;
    float *h, *right, *back;
    Runner(int size) : n(size) {
        h = new float[n];
        right = new float[n];
        back = new float[n];
        for (int i = 0; i < n; i++) h[i] = rand() / (float)RAND_MAX;
    }
    void run() {
        DeviceArray<float> x(n), y(n);
        x.from(h);
        twice<float><<<(n + 127) / 128, 128>>>(x.get(), y.get(), n);
        y.to(back);
    }
};
void twice_cpu(const float* x, float* y, int n) { for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }
int main() {
    const int size = 100000;
    Runner runner(size);
    runner.run();
    twice_cpu(runner.h, runner.right, size);
}
""",
    )
    assert study.problem().parameters == {"size": 100000}
    (launch,) = study.version("v0").launches
    assert (launch.grid, list(launch.args)) == (("cdiv(size, 128)",), ["x", "y", "ulong(size)"])
    assert "`twice_cpu`" in made.reference
    done = CliRunner().invoke(app, ["verify", "program/v0", "--engine", "emulator"])
    assert done.exit_code == 0, done.output


def test_each_kernel_of_a_table_is_a_version(project: Project) -> None:
    kernel = """__global__ void once(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1;
}
__global__ void in_steps(const float* x, float* y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = x[i] + 1;
}"""
    main = """    int n = 4096;
    float *h = new float[n], *x, *y;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    cudaMemcpy(x, h, n * sizeof(float), cudaMemcpyHostToDevice);
    void (*kernels[])(const float*, float*, int) = {once, in_steps};
    for (int k = 0; k < 2; k++) {
        kernels[k]<<<n / 64, 64>>>(x, y, n);
        for (int again = 0; again < 10; again++) kernels[k]<<<n / 64, 64>>>(x, y, n);
        cudaMemcpy(h, y, n * sizeof(float), cudaMemcpyDeviceToHost);
    }"""
    made, study = brought(project, program(main, kernel))
    assert made.versions == {"v0": "once", "v1": "in_steps"}
    assert all(version.launches[0].grid == ("n // 64",) for version in study.versions.values())


def test_structures_with_one_array_give_it_their_name(project: Project) -> None:
    main = """    int n = 4096;
    Row h_x, h_y, d_x, d_y;
    h_x.width = d_x.width = n;
    h_x.elements = (float*)malloc(n * sizeof(float));
    h_y.elements = (float*)malloc(n * sizeof(float));
    for (int i = 0; i < n; i++) h_x.elements[i] = rand() % 7;
    cudaMalloc((void**)&d_x.elements, n * sizeof(float));
    cudaMalloc((void**)&d_y.elements, n * sizeof(float));
    cudaMemcpy(d_x.elements, h_x.elements, n * sizeof(float), cudaMemcpyHostToDevice);
    twice<<<n / 64, 64>>>(d_x.elements, d_y.elements);
    cudaMemcpy(h_y.elements, d_y.elements, n * sizeof(float), cudaMemcpyDeviceToHost);"""
    row = "struct Row { int width; float* elements; };"
    made, study = brought(project, program(main, row, TWICE))
    assert list(study.version("v0").launches[0].args) == ["x", "y"]
    assert study.input_names == ("x",) and "y" in study.outputs(study.problem())
    assert len(made.notes) == 1  # that no host code gives the answer


@needs_compiler
@needs_host
def test_an_array_of_structures_that_both_sides_change_in_place(project: Project) -> None:
    """Its elements are the structures' numbers; the host's function begins with what was sent."""
    made = bring(project, PROGRAMS / "bodies.cu")
    assert "`attract_cpu`" in made.reference and made.notes == []
    study = load_study(project, "bodies")
    problem = study.problem()
    assert study.outputs(problem) == {"d": ((512 * 6,), "float32")}
    done = CliRunner().invoke(app, ["verify", "bodies/v0", "--engine", "emulator"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    "members",
    [
        "float x; int n;",
        "float *x;",
        "float x; float4 y;",
        "unsigned a : 3; unsigned b : 4;",
        "float x[SIZE];",
        "float x[SIX];",
        "virtual void f(); float x;",
    ],
)
def test_a_structure_of_another_layout_is_not_taken_for_numbers(
    members: str, project: Project
) -> None:
    main = """    int n = 4096;
    Row *h = (Row*)malloc(n * sizeof(Row)), *x;
    cudaMalloc(&x, n * sizeof(Row));
    cudaMemcpy(x, h, n * sizeof(Row), cudaMemcpyHostToDevice);
    twice<<<n / 64, 64>>>(x, x);
    cudaMemcpy(h, x, n * sizeof(Row), cudaMemcpyDeviceToHost);"""
    six = "const int SIX = 2 * 3;"
    made, _ = brought(project, program(main, six, f"struct Row {{ {members} }};", TWICE))
    assert any("the size of x could not be read" in note for note in made.notes)


def test_what_the_host_changed_since_it_was_sent_is_no_input(project: Project) -> None:
    main = """    int n = 4096;
    float *x = (float*)malloc(n * sizeof(float)), *back = (float*)malloc(n * sizeof(float)), *d, *e;
    for (int i = 0; i < n; i++) x[i] = rand() % 7;
    cudaMalloc(&d, n * sizeof(float));
    cudaMalloc(&e, n * sizeof(float));
    cudaMemcpy(d, x, n * sizeof(float), cudaMemcpyHostToDevice);
    twice<<<n / 64, 64>>>(d, e);
    cudaMemcpy(back, e, n * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i++) x[i] = 2 * x[i];
    for (int i = 0; i < n; i++) if (fabs(back[i] - x[i]) > 1e-5) return 1;"""
    made, _ = brought(project, program(main, TWICE))
    assert "compares" not in made.reference


def test_a_kernel_that_reads_arrays_of_another_size_is_no_version(project: Project) -> None:
    """A demonstration on eight numbers beside the kernels themselves."""
    main = """    int n = 4096;
    float demo[8] = {1, 2, 3, 4, 5, 6, 7, 8}, one, *h = new float[n], *small, *x, *y;
    cudaMalloc(&small, 8 * sizeof(float));
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, sizeof(float));
    cudaMemcpy(small, demo, 8 * sizeof(float), cudaMemcpyHostToDevice);
    shown<<<1, 8>>>(small, y);
    cudaMemcpy(&one, y, sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(x, h, n * sizeof(float), cudaMemcpyHostToDevice);
    sum<<<n / 64, 64>>>(x, y);
    cudaMemcpy(&one, y, sizeof(float), cudaMemcpyDeviceToHost);"""
    kernel = """__global__ void NAME(const float* x, float* y) {
    atomicAdd(y, x[blockIdx.x * blockDim.x + threadIdx.x]);
}"""
    made, _ = brought(
        project, program(main, *(kernel.replace("NAME", each) for each in ("shown", "sum")))
    )
    assert made.versions == {"v0": "shown"}
    assert any("sum works on arrays of another size than v0's" in each for each in made.notes)


def test_where_no_kernel_can_be_brought_another_beginning_is_named(project: Project) -> None:
    kernel = "__global__ void again(int* x) { if (x[0]-- > 0) again<<<1, 1>>>(x); }"
    with pytest.raises(UsageError, match="launches kernels itself") as caught:
        brought(project, program("    again<<<1, 1>>>(0);", kernel))
    assert "--kernel" not in caught.value.hint and "--study NAME" in caught.value.hint
