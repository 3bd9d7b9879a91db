"""``workbench run``: programs as a user types them, in processes of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest

from tests.engines.stand_ins import Cli
from workbench.compile.compilers import find_nvcc, wheel_nvcc
from workbench.views.shapes.schema import schema_of

REPO = Path(__file__).resolve().parents[3]
PROGRAMS = REPO / "tests" / "data" / "programs"
WORKBENCH = (sys.executable, "-c", "from workbench.cli import main; raise SystemExit(main())")
FAULT = re.compile(r"// fault: ([\w-]+) at line (\d+)")
SAYS = re.compile(r"// says: (.*)")

pytestmark = [
    pytest.mark.nvcc,
    pytest.mark.skipif(find_nvcc() is None and wheel_nvcc() is None, reason="no nvcc"),
]


class Ran(NamedTuple):
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON that it printed."""
        found: dict[str, Any] = json.loads(self.out)
        return found


def run(folder: Path, *words: str, given: str = "", **env: str) -> Ran:
    """``workbench run`` in a folder."""
    done = subprocess.run(
        [*WORKBENCH, "run", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPO), **env},
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def source(folder: Path, kernel: str, main: str, name: str = "p.cu") -> Path:
    """A program of one kernel."""
    path = folder / name
    path.write_text(
        f"#include <cstdio>\n#include <cstdlib>\n{kernel}\n"
        f"int main(int argc, char** argv) {{\n{main}\n}}\n"
    )
    return path


FILL = (
    "__global__ void fill(int* x, int n) {\n int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) x[i] = i;\n}"
)
MEMORY = "int* x; cudaMalloc(&x, 4096);"


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("mistakes/*.cu")), ids=lambda p: p.stem)
def test_a_mistake_is_told_at_its_line(path: Path) -> None:
    kind, line = FAULT.search(path.read_text()).groups()  # type: ignore[union-attr]
    ran = run(path.parent, "--timeout", "100", "--format", "json", path.name)
    assert ran.code == 4
    found = {(fault["kind"], fault["line"]) for fault in ran.document["faults"]}
    assert (kind, int(line)) in found, ran.document["faults"]
    said = SAYS.search(path.read_text())
    assert said is None or said[1] in ran.document["faults"][0]["message"]


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("legal/*.cu")), ids=lambda p: p.stem)
def test_a_legal_program_is_right_and_gives_no_alarm(path: Path) -> None:
    ran = run(path.parent, "--timeout", "100", "--format", "json", path.name)
    assert (ran.code, ran.document["faults"]) == (0, [])
    assert all("was refused" in each for each in ran.document["notices"])
    assert "right\n" in ran.err and "WRONG" not in ran.err


def test_a_program_runs_as_without_us_and_what_is_not_here_is_named(tmp_path: Path) -> None:
    """Its input, output and exit code; with a long path of temporary files as well."""
    kernel = '__global__ void say(int n) { printf("device %d\\n", n); }'
    say = "say<<<1, 1>>>({}); cudaDeviceSynchronize();"
    main = f"""int n; scanf("%d", &n); printf("%s %d\\n", argv[1], n);
puts("before"); {say.format(1)} puts("after"); {say.format(2)}
cudaStreamAttrValue a = {{}}; a.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
cudaStreamSetAttribute(0, cudaStreamAttributeAccessPolicyWindow, &a);
cudaIpcMemHandle_t h; int* x; cudaMalloc(&x, 4);
return cudaIpcGetMemHandle(&h, x) == cudaErrorNotSupported ? atoi(argv[2]) : 1;"""
    source(tmp_path, kernel, main)
    folder = tmp_path / ("long" * 20) / ("longer" * 10)
    folder.mkdir(parents=True)
    ran = run(tmp_path, "p.cu", "--", "word", "7", given="42", TMPDIR=str(folder))
    assert ran.code == 7
    assert ran.out.startswith("word 42\nbefore\ndevice 1\nafter\ndevice 2\n")
    told = " ".join(ran.out.split())
    assert "2 launches" in told and "no fault found" in told
    assert "IpcGetMemHandle was called, but is not here" in told
    assert "note: The program keeps data in the L2 (a persisting access policy)" in told
    assert "with your permissions" in ran.err.splitlines()[0]


def test_a_run_with_a_name_is_a_capture_and_its_document_is_as_its_schema_says(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    source(tmp_path, FILL, f"{MEMORY} fill<<<2, 64>>>(x, 100); cudaDeviceSynchronize();")
    ran = run(tmp_path, "v0", "--format", "json", "--chip", "a100", "p.cu")
    document = ran.document
    jsonschema.validate(document, schema_of("run"))
    assert ran.code == 0 and "limits of an NVIDIA A100" in ran.out
    (kernel,) = document["program"]["kernels"]
    assert kernel["kernel"] == "fill" and kernel["counted"]["sectors"] == 13
    assert kernel["hottest"]["line"] == 5
    text = (tmp_path / "p.cu").read_text().replace("x[i] = i", "x[i * 8] = i")
    (tmp_path / "p.cu").write_text(text.replace("4096", "32768"))
    assert run(tmp_path, "v1", "--chip", "a100", "p.cu").code == 0
    monkeypatch.chdir(tmp_path)
    code, out, _ = cli("diff", "@v0", "@v1")
    told = " ".join(out.split())
    assert code == 0 and "global sectors 13 → 100 (×7.69)" in told
    assert "+ if (i < n) x[i * 8] = i;" in told


def test_a_fault_is_told_with_array_element_and_line_and_the_program_gets_its_error(
    tmp_path: Path,
) -> None:
    main = """  const int n = 1000; int* numbers; cudaMalloc(&numbers, n * sizeof(int));
  fill<<<4, 256>>>(numbers, 1024);
  printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));
  printf("%s\\n", cudaGetErrorName(cudaFree(numbers)));"""
    source(tmp_path, FILL, main)
    ran = run(tmp_path, "p.cu", GITHUB_ACTIONS="true")
    assert ran.code == 4
    assert ran.out.startswith("cudaErrorIllegalAddress\ncudaErrorIllegalAddress\n")
    told = " ".join(ran.out.split())
    assert (
        "p.cu:5: out of bounds: thread (232, 0, 0) of block (3, 0, 0) writes numbers[1000]" in told
    )
    assert "::error file=p.cu,line=5,title=out-of-bounds::p.cu:5: out of bounds" in ran.out


def test_a_command_builds_and_runs_what_its_makefile_says(tmp_path: Path) -> None:
    source(tmp_path, FILL, f"{MEMORY} fill<<<2, 64>>>(x, 100); return cudaDeviceSynchronize();")
    (tmp_path / "build.sh").write_text("nvcc -arch=sm_80 -o p p.cu && ./p\n")
    nvcc = find_nvcc() or wheel_nvcc()
    assert nvcc is not None
    path = f"{nvcc.parent}{os.pathsep}{os.environ['PATH']}"
    ran = run(tmp_path, "--", "sh", "build.sh", PATH=path)
    assert ran.code == 0 and "fill" in ran.out and "1 launch" in ran.out


def test_the_static_runtime_is_recognised(tmp_path: Path) -> None:
    path = source(
        tmp_path, FILL, f"{MEMORY} fill<<<2, 64>>>(x, 100); return cudaDeviceSynchronize() != 0;"
    )
    nvcc = find_nvcc()
    if nvcc is None:
        pytest.skip("the wheels have no static runtime")
    subprocess.run([nvcc, "-o", tmp_path / "p", path], check=True, capture_output=True)
    ran = run(tmp_path, "--", "./p")
    assert ran.code and "-cudart shared" in " ".join(ran.out.split())


def test_an_assertion_is_printed_as_cuda_prints_it_and_breaks_the_context(tmp_path: Path) -> None:
    kernel = "#include <cassert>\n__global__ void k(int n) {\n  assert(threadIdx.x < n);\n}"
    codes = "cudaDeviceSynchronize(), cudaGetLastError(), cudaDeviceSynchronize()"
    main = f'k<<<2, 8>>>(7); printf("%d\\n", cudaGetLastError()); printf("%d %d %d\\n", {codes});'
    source(tmp_path, kernel, main)
    ran = run(tmp_path, "p.cu")
    said = (
        r"p\.cu:5: void k\(int\): block: \[1,0,0\], thread: \[7,0,0\] Assertion `(.*)` failed\.\n"
    )
    found = re.search(said, ran.err)
    assert ran.code == 4 and found and found[1] == "threadIdx.x < n", ran
    assert ran.out.startswith("0\n710 710 710\n") and "p.cu:5: assertion" in ran.out


def test_launches_that_no_chip_takes_are_refused_and_spills_are_told(tmp_path: Path) -> None:
    registers = "".join(f"float r{n} = p[{n} * 1024 + threadIdx.x];\n" for n in range(100))
    total = " + ".join(f"r{n} * p[{99 - n}]" for n in range(100))
    body = f"(volatile float* p) {{ {registers} __syncthreads(); p[threadIdx.x] = {total}; }}"
    kernel = f"""__global__ void few(int* x) {{ extern __shared__ int s[]; x[0] = s[0] = 1; }}
__global__ void many{body}
__global__ void __launch_bounds__(1024) tight{body}
__global__ void __launch_bounds__(1024) unused{body}
#define SAY printf("%d %d\\n", cudaGetLastError(), cudaDeviceSynchronize())"""
    main = """int* x; cudaMalloc(&x, 1 << 20); cudaMemset(x, 0, 1 << 20);
few<<<1, 32, 48 << 10>>>(x); SAY; few<<<1, 32, (48 << 10) + 1>>>(x); SAY; few<<<1, 1025>>>(x); SAY;
tight<<<1, 512>>>((float*)x); many<<<1, 512>>>((float*)x); SAY; many<<<1, 1024>>>((float*)x);
printf("%d\\n", cudaDeviceSynchronize()); SAY;"""
    source(tmp_path, kernel, main)
    ran = run(tmp_path, "--format", "json", "p.cu")
    assert ran.err.endswith("0 0\n1 0\n1 0\n0 0\n701\n701 0\n"), ran.err
    _, spilled, refused = ran.document["notices"]
    assert not ran.code and not ran.document["faults"] and "tight: ptxas spills" in spilled, ran
    assert "many was refused" in refused and "registers" in refused, refused


def test_a_run_that_takes_too_long_tells_what_it_has(tmp_path: Path) -> None:
    main = f"{MEMORY} for (;;) {{ fill<<<2, 64>>>(x, 100); cudaDeviceSynchronize(); }}"
    source(tmp_path, FILL, main)
    ran = run(tmp_path, "--timeout", "2", "p.cu")
    assert ran.code == 6 and "stopped: it did not end within 2 s" in ran.out and "fill" in ran.out
    source(tmp_path, FILL, main.replace("100", "n++ % 128").replace(MEMORY, f"{MEMORY} int n = 0;"))
    ran = run(tmp_path, "--timeout", "60", "--budget", "0.01", "p.cu")
    assert ran.code == 6 and "the budget of thread instructions is used up" in ran.out


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((), 2, "no program to run was given"),
        (("a.cu",), 2, "a.cu does not exist"),
        (("v0", "v1", "--", "true"), 2, "at most one name and one source"),
        (("--", "true"), 0, "nothing was checked: no launch ran"),
        (("--", "./nothing"), 3, "cannot be started"),
        (("broken.cu",), 4, "does not compile"),
        (("bomb.cu",), 4, "needs more memory than the 60 MiB that a compiler may use"),
        (("$(id).cu",), 2, "a character that nvcc's shell would act upon"),
    ],
)
def test_what_is_wrong_is_told(
    tmp_path: Path,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    code: int,
    told: str,
) -> None:
    for name in ("broken.cu", "$(id).cu"):
        (tmp_path / name).write_text("int main() { return x; }\n")
    macros = [f"#define M{each + 1} M{each}+M{each}\n" for each in range(40)]
    (tmp_path / "bomb.cu").write_text("#define M0 1\n" + "".join(macros) + "int main() { M40; }\n")
    if words == ("bomb.cu",):
        monkeypatch.setenv("WORKBENCH_MEMORY_MIB", "60")
    monkeypatch.chdir(tmp_path)
    ended, out, err = cli("run", *words)
    assert ended == code and told in out + err


def test_files_that_are_linked_by_rdc_share_functions_and_variables(tmp_path: Path) -> None:
    kernel = (
        "extern __device__ int counter;\n__device__ int twice(int);\n"
        "__global__ void k() { atomicAdd(&counter, twice(threadIdx.x)); }"
    )
    main = "k<<<1, 32>>>(); return cudaDeviceSynchronize();"
    source(tmp_path, kernel, main, "a.cu")
    (tmp_path / "b.cu").write_text(
        "#include <cstdio>\n__device__ int counter = 5;\n"
        '__device__ int twice(int x) { printf(x ? "" : "once\\n"); return 2 * x; }\n'
    )
    nvcc = find_nvcc() or wheel_nvcc()
    assert nvcc is not None
    (tmp_path / "go.sh").write_text(f"{nvcc} -rdc=true -o p a.cu b.cu && ./p\n")
    ran = run(tmp_path, "--", "sh", "go.sh")
    assert ran.code == 0 and ran.out.startswith("once\n") and "1 launch" in ran.out, ran
