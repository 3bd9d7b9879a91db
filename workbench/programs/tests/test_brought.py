"""A program becomes a study: what was recorded of its run, as files."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from ptxemu.errors import Fault
from tests import ran_programs
from tests.ladders import needs_compiler
from tests.lifted_maker import Lift, needs_nvcc
from tests.ran_programs import HEADER, SOURCE
from workbench.cli import app
from workbench.errors import KernelError, UsageError, WorkbenchError
from workbench.programs.standin.faults import FaultLog
from workbench.programs.standin.running import Program
from workbench.programs.standin.server import PERSISTING
from workbench.programs.studies import brought
from workbench.programs.studies.brought import FromProgram, add_from_program, start_from_program
from workbench.programs.studies.calling import calling, launching_functions
from workbench.programs.studies.headers import own_headers
from workbench.project import Project
from workbench.study.flags import accepted
from workbench.study.folder import load_study


class Runs(NamedTuple):
    """The project, and the programs that were run."""

    project: Project
    programs: list[Program]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.chdir(root)
    return Runs(Project(root=root), ran_programs.fake(root, monkeypatch))


def start(runs: Runs, file: str = "scaling.cu", **more: Any) -> brought.MadeOfProgram:
    return start_from_program(runs.project, FromProgram(Path(file), **more), lambda _: None)


def invoke(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    if isinstance(result.exception, WorkbenchError):
        return f"{result.exception.message}\n{result.exception.hint}"
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_kernels_of_one_job_are_versions_and_the_others_are_named(runs: Runs) -> None:
    made = start(runs)
    assert made.versions == {"v0": "scale", "v1": "scale_wide<4>"}
    assert list(made.left) == ["sum"] and "--kernel NAME" in made.left["sum"]
    study = load_study(runs.project, "scaling")
    version, problem = study.version("v0"), study.problem("recorded")
    assert problem.parameters == {"n": 1000}
    assert version.launches[0].args == ("x", "y", "n", "3.0")
    assert version.text.endswith(SOURCE)  # lines, macros and includes are the user's
    assert (runs.project.kernels / "scaling/half.cuh").read_text() == HEADER
    x = study.inputs(problem, np.random.default_rng(1))["x"].astype("f8")
    assert np.allclose(study.reference(problem, {})["y"], 1.5 * x)
    said = ast.get_docstring(ast.parse((runs.project.kernels / "scaling/study.py").read_text()))
    assert said is not None and '| 1000 numbers """\\' in said and "exit code 0" in said


@needs_compiler
@needs_nvcc
@pytest.mark.slow
def test_what_was_written_verifies_and_has_a_first_difference(runs: Runs) -> None:
    start(runs, also=(("300",),))
    invoke("verify", "v0", "v1", "--study", "scaling", "--engine", "emulator")
    invoke("profile", "v0", "v1", "--study", "scaling", "--engine", "emulator")
    assert "What changed" in invoke("diff", "scaling/v0", "scaling/v1")
    wrong = runs.project.kernels / "scaling/v1_scale_wide.cu"
    wrong.write_text(wrong.read_text().replace("i < first + PER", "i < first + PER - 1"))
    said = invoke("verify", "scaling/v1", "--engine", "emulator")
    assert "2 of 2 checks failed" in said


def test_each_run_is_a_problem(runs: Runs) -> None:
    start(runs, arguments=("1000",), also=(("300", "only"),))
    assert [each.arguments for each in runs.programs] == [("1000",), ("300", "only")]
    study = load_study(runs.project, "scaling")
    assert study.problem("args_300_only").parameters == {"recording": 1, "n": 300}
    assert study.version("v0").launches[0].grid == ("cdiv(n, 256)",)
    assert study.version("v1").requires == "recording == 0"
    assert study.outputs(study.problem("args_300_only")) == {"y": ((300,), "float32")}


def test_another_kernel_is_a_study_of_its_own(runs: Runs) -> None:
    assert start(runs, kernel="sum", study="sums").versions == {"v0": "sum"}
    with pytest.raises(UsageError, match="kernel `summ`"):
        start(runs, kernel="summ", study="more")


def test_a_second_program_is_a_version(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    start(runs, arguments=("1000", "only"))
    other = SOURCE.replace("0.5f", "0.50f")
    Path("other.cu").write_text(other)
    wish = FromProgram(Path("other.cu"), kernel="scale_wide")
    made = add_from_program(runs.project, "scaling", "v1", wish, lambda _: None)
    assert made.versions == {"v1": "scale_wide<4>"} and not made.notes
    version = load_study(runs.project, "scaling").version("v1")
    assert version.path.endswith("v1_scale_wide.cu")
    assert version.launches[0].args == ("x", "y", "n", "3.0")
    ran_programs.fake(runs.project.root, monkeypatch, notices=(PERSISTING,))
    made = add_from_program(runs.project, "scaling", "v3", wish, lambda _: None)
    assert made.notes == (PERSISTING,)
    unlike = FromProgram(Path("other.cu"), arguments=("300",))
    with pytest.raises(KernelError, match=r"no kernel of other\.cu has the inputs"):
        add_from_program(runs.project, "scaling", "v2", unlike, lambda _: None)


def test_a_program_that_writes_no_array_is_told_so(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran_programs.fake(runs.project.root, monkeypatch, [ran_programs.printing()])
    said = invoke("new", "--from-cu", "scaling.cu")
    assert "scaling.cu: hello: no right answer was recorded: the launch wrote nothing" in said
    assert "`workbench run FILE.cu`" in said and "--timeout" not in said
    lift = Lift("_Z4onceb", "once()", b"")
    lift.buffer("kept", np.zeros(4, "f4"), np.ones(4, "f4"), symbol="kept")
    ran_programs.fake(runs.project.root, monkeypatch, [lift.record((1,), (4,))])
    Path("scaling.cu").write_text("__device__ float kept[4]; int main() {}")
    assert "only what is not compared (kept)" in invoke("new", "--from-cu", "scaling.cu")


@pytest.mark.parametrize(
    ("filled", "stored", "outputs"),
    [
        ((None, False), 16, ["d_y"]),  # zeros into new memory
        ((None, None), 32, ["d_x", "d_y"]),  # the same values again, of which all are asked
        ((None, None), 16, []),  # one of the two, but which one is not known
    ],
)
def test_an_answer_that_lay_there_before_is_one_where_it_was_written(
    runs: Runs,
    monkeypatch: pytest.MonkeyPatch,
    filled: tuple[bool | None, ...],
    stored: int,
    outputs: list[str],
) -> None:
    lift = Lift("_Z4zeroPfS_", "zero(float*, float*)", b"")
    for name in ("d_x", "d_y"):
        lift.buffer(name, np.zeros(4, "f4"))
        lift.point(name)
    found = lift.record((1,), (4,))
    buffers = zip(found.launch.buffers, filled, strict=True)
    launch = replace(found.launch, buffers=tuple(replace(x, filled=y) for x, y in buffers))
    recorded = [found._replace(launch=launch, stored=stored)]
    ran_programs.fake(runs.project.root, monkeypatch, recorded)
    if not outputs:
        with pytest.raises(KernelError, match="a version that writes nothing would pass"):
            start(runs)
        return
    start(runs)
    study = load_study(runs.project, "scaling")
    assert list(study.outputs(study.problem("recorded"))) == outputs
    given = study.inputs(study.problem("recorded"), np.random.default_rng(1))
    assert list(given) == [name for name in ("d_x", "d_y") if name not in outputs]


def test_a_kernel_that_does_wrong_is_told_and_another_one_taken(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = FaultLog(str, runs.project.root)
    found.add(Fault("scaling.cu:9: a race", kind="race"), ran_programs.SCALE, 1)
    ran_programs.fake(runs.project.root, monkeypatch, faults=found.all)
    made = start(runs)
    assert made.versions == {"v0": "sum"} and list(made.left) == ["scale", "scale_wide<4>"]
    assert made.notes[0].startswith("scale has a fault: scaling.cu:9: a race. Its versions")
    assert start(runs, kernel="scale", study="wrong").versions["v0"] == "scale"


def test_why_no_launch_was_recorded_is_told(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    notices = ("a launch of scale was refused: block 2048",)
    ran_programs.fake(runs.project.root, monkeypatch, [], notices=notices)
    assert f'launched no kernel (exit code 0)\n  | 1000 numbers """\\\n{notices[0]}' in invoke(
        "new", "--from-cu", "scaling.cu"
    )
    why = {"_Z4hugePf": "its launch reaches 9 bytes"}
    late: dict[str, Any] = {"unrecorded": why, "stopped": "it did not end within 9 s"}
    ran_programs.fake(runs.project.root, monkeypatch, [], **late)
    said = invoke("new", "--from-cu", "scaling.cu")
    assert "huge: its launch reaches 9 bytes" in said and "a copy of the file" in said
    assert "--timeout SECONDS allows more" in said
    ran_programs.fake(runs.project.root, monkeypatch, **late)
    made = start(runs)
    assert made.left["huge"] == "its launch reaches 9 bytes"
    assert "Later launches are missing" in made.notes[0]


def test_a_name_of_a_file_becomes_no_code(runs: Runs) -> None:
    name = 'a"""; __import__(\'os\').mkdir(\'x\'); """.cu'
    Path(name).write_text(SOURCE)
    start(runs, name, study="named")
    load_study(runs.project, "named")
    assert not Path("x").exists()


def test_nothing_is_written_of_what_cannot_be_read(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brought, "_study", lambda *_: "def broken(:")
    with pytest.raises(UsageError, match="not valid Python"):
        start(runs)
    assert not (runs.project.kernels / "scaling").exists()
    assert [path for path in runs.project.kernels.iterdir() if path.name != ".gitkeep"] == []


def test_a_file_without_main_is_called(runs: Runs) -> None:
    solve = 'extern "C" void solve(const float* a, float* b, int n) { k<<<1, 32>>>(a, b, n); }\n'
    text = f"__global__ void k(const float* a, float* b, int n) {{}}\n{solve}"
    assert launching_functions(text) == ["solve(const float* a, float* b, int n)"]
    Path("solve.cu").write_text(text)
    with pytest.raises(UsageError, match="has no main") as refused:
        start(runs, "solve.cu")
    assert "solve(const float* a" in refused.value.hint
    call = "solve(float[1<<20], out float[1<<20], 1<<20)"
    program = calling(text, call)
    assert program.startswith(text) and "solve(a_, b_, 1<<20);" in program
    assert program.count("workbench_fill(") == 2  # of its own, and of a
    for wrong in ("solv(float[4])", "solve"):
        with pytest.raises(UsageError, match="names no function"):
            calling(text, wrong)


def test_headers_lie_where_the_compiler_finds_them(tmp_path: Path) -> None:
    home = tmp_path / "src"
    for name in ("common/a.h", "src/lib/b.h", "more/c.h"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("")
    (tmp_path / "src/lib/b.h").write_text('#include "../../common/a.h"\n')
    text = '#include "lib/b.h"\n#include <vector>\n'
    found = own_headers(home / "x.cu", text.replace("lib/b.h", "../common/a.h"))
    assert found == ({"include/common/a.h": ""}, ("include/src",))
    found = own_headers(home / "x.cu", f"{text}#include <c.h>\n", [tmp_path / "more"])
    assert set(found.files) == {"include/common/a.h", "include/src/lib/b.h", "include/more/c.h"}
    assert found.folders == ("include/src", "include/more")
    (home / "lib/b.h").write_text("")
    assert own_headers(home / "x.cu", text) == ({"lib/b.h": ""}, ())


def test_versions_get_the_flags_that_make_device_code() -> None:
    given = "-O3 -I ../x -D M=3 --use_fast_math -Xcompiler -g -cudart shared -lm -rdc=true"
    assert accepted(given.split()) == ["-O3", "-DM=3", "--use_fast_math", "-rdc=true"]


def test_a_study_is_not_written_over(runs: Runs) -> None:
    assert "wrote kernels/scaling/study.py" in invoke("new", "--from-cu", "scaling.cu")
    assert "Add --from-cu" in invoke("new", "--study", "x", "--", "1024")
    assert "Nothing was run" in invoke("new", "--from-cu", "scaling.cu")
    assert len(runs.programs) == 1


# --- real runs -----------------------------------------------------------------------------------

_ADD = """
__global__ void add(const float* a, float* c, int n, float f) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = f * a[i];
}
static int run(int n, float f) {
    float *h = new float[n], *a, *c;
    for (int i = 0; i < n; i++) h[i] = i % 7;
    cudaMalloc(&a, 4 * n);
    cudaMalloc(&c, 4 * n);
    cudaMemcpy(a, h, 4 * n, cudaMemcpyHostToDevice);
    add<<<BLOCKS(n), 256>>>(a, c, n, f);
    cudaMemcpy(h, c, 4 * n, cudaMemcpyDeviceToHost);
    return h[1] != f;
}
"""
_BLOCKS = "#define BLOCKS(n) ((n) + 255) / 256\n"
#: What the host decides, in a way that only running tells: source, and what is run.
PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "a_define": (f"#define N 1000\n{_BLOCKS}{_ADD}int main() {{ return run(N, 2.0f); }}", {}),
    "arguments": (
        f"#include <cstdlib>\n{_BLOCKS}{_ADD}"
        "int main(int, char** argv) { return run(atoi(argv[1]), 2.0f); }",
        {"arguments": ("700",), "also": (("300",),)},
    ),
    "scanf": (
        f"#include <cstdio>\n{_BLOCKS}{_ADD}"
        'int main() { int n = 500; FILE* in = fopen("numbers", "r"); '
        'if (in) fscanf(in, "%d", &n); return run(n, 2.0f); }',
        {},
    ),
    "dim3": (
        "static dim3 blocks(int n) { dim3 found; found.x = n / 256 + 1; return found; }\n"
        f"#define BLOCKS(n) blocks(n)\n{_ADD}int main() {{ return run(900, 2.0f); }}",
        {},
    ),
    "quotient": (f"{_BLOCKS}{_ADD}int main() {{ return run(512, (5.0f - 1.0f) / 3); }}", {}),
    "ceil_div": (
        f"#include <cuda/cmath>\n#define BLOCKS(n) cuda::ceil_div(n, 256)\n{_ADD}"
        "int main() { return run(777, 2.0f); }",
        {},
    ),
    "stride": (
        "__global__ void add(const float* a, float* c, int n) {\n"
        "    for (int i = threadIdx.x; i < n; i += gridDim.x * blockDim.x) c[i] = a[i] + 1;\n}\n"
        "int main() { float *a, *c; int sms; cudaMalloc(&a, 4000); cudaMalloc(&c, 4000);\n"
        "cudaMemset(a, 0, 4000);\n"
        "cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);\n"
        "add<<<1, sms / 4>>>(a, c, 1000); return cudaDeviceSynchronize(); }",
        {},
    ),
    "structure": (
        "struct Field { const float* a; float* c; int n; };\n"
        "__global__ void add(Field f) { if (threadIdx.x < f.n) "
        "f.c[threadIdx.x] = f.a[threadIdx.x] + 1; }\n"
        "int main() { Field f; float* a; cudaMalloc(&a, 400); cudaMalloc(&f.c, 400);\n"
        "cudaMemset(a, 0, 400); f.a = a; f.n = 100; add<<<1, 128>>>(f);\n"
        "return cudaDeviceSynchronize(); }",
        {},
    ),
    "solve": (
        f"{_BLOCKS}{_ADD}"
        'extern "C" void solve(const float* A, float* B, int N) '
        "{ add<<<BLOCKS(N), 256>>>(A, B, N, 2.0f); }",
        {"call": "solve(float[1<<10], out float[1<<10], 1<<10)"},
    ),
}


@needs_nvcc
@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_host_decides_is_what_is_recorded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source, more = PROGRAMS[name]
    Path(f"{name}.cu").write_text(source)
    project = Project(root=tmp_path)
    made = start_from_program(project, FromProgram(Path(f"{name}.cu"), **more), lambda _: None)
    assert made.versions == {"v0": "add"} and not made.notes
    invoke("verify", f"{made.study}/v0", "--engine", "emulator")


@needs_nvcc
@pytest.mark.slow
def test_a_second_program_with_a_fatal_name_is_a_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = 'a"""; __import__(\'os\').mkdir(\'x\'); """.cu'
    source = PROGRAMS["a_define"][0]
    Path(name).write_text(source)
    Path("second.cu").write_text(source.replace("f * a[i]", "a[i] * f"))
    invoke("new", "--from-cu", name, "--study", "adding")
    assert "wrote" in invoke("new", "adding/v1", "--from-cu", "second.cu")
    invoke("verify", "adding/v0", "adding/v1", "--engine", "emulator")
    invoke("profile", "adding/v0", "adding/v1", "--engine", "emulator")
    assert "What changed" in invoke("diff", "adding/v0", "adding/v1")
    assert not Path("x").exists()


@needs_nvcc
@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "launch", "more", "said"),
    [
        ("y[threadIdx.x] = 1;", "<<<1, 2048>>>", {}, "block 2048"),
        ("printf(\"%f\", y[0]);", "<<<1, 1>>>", {}, "the launch wrote nothing"),
        ("y[threadIdx.x] = 0;", "<<<1, 256>>>", {}, "a version that writes nothing would pass"),
        ("y[threadIdx.x] = 1; while (y[0] > 0) y[1] += 1;", "<<<1, 8>>>", {"timeout_s": 2.0},
         "its launch did not end"),
    ],
)  # fmt: skip
def test_what_no_study_is_made_of_is_told(
    body: str, launch: str, more: dict[str, Any], said: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text(
        f"#include <cstdio>\n__global__ void k(volatile float* y) {{ {body} }}\n"
        "int main() { float* y; cudaMalloc(&y, 1 << 16); cudaMemset(y, 0, 1 << 16);\n"
        f"k{launch}(y); return cudaDeviceSynchronize(); }}\n"
    )
    wish = FromProgram(Path("k.cu"), **more)
    with pytest.raises(KernelError) as refused:
        start_from_program(Project(root=tmp_path), wish, lambda _: None)
    assert said in refused.value.message
    assert not list(tmp_path.glob("kernels/*"))
