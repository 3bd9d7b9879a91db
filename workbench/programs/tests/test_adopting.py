"""A launch that was lifted is a study: v0 runs from its image, v1 from its source."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from tests import lifted_maker as made
from tests.lifted_maker import Lift, needs_nvcc
from workbench.callers import pieces
from workbench.cli import app
from workbench.compile.build import build
from workbench.compile.image import fits, load_image
from workbench.disk.writing import create_files
from workbench.engines.host.buffers import compare
from workbench.errors import DataError, KernelError, MissingError, UsageError, WorkbenchError
from workbench.programs.studies.adopting import lifted_study
from workbench.project import Project
from workbench.study.folder import load_study

STUDY = "scaling"
REPO = Path(__file__).resolve().parents[3]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    root = tmp_path / "project"
    (root / "kernels").mkdir(parents=True)
    (root / "workbench.toml").write_text(f'default_study = "{STUDY}"\n')
    monkeypatch.chdir(root)
    return Project(root=root, default_study=STUDY)


class Done(NamedTuple):
    """What a command printed, its error included, and its exit code."""

    exit_code: int
    output: str


def run(*words: str) -> Done:
    result = CliRunner().invoke(app, list(words))
    if isinstance(result.exception, WorkbenchError):
        error = result.exception
        return Done(error.exit_code, f"{result.output}{error.message}\n{error.hint}")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Done(result.exit_code, result.output)


def study_of(project: Project) -> None:
    folder = project.kernels / STUDY
    texts = lifted_study(folder, STUDY)
    create_files(folder, {name: text.encode() for name, text in texts.items()})


@needs_nvcc
@pytest.mark.slow
def test_from_the_image_over_the_source_to_a_difference(tmp_path: Path, project: Project) -> None:
    made.scaled(tmp_path, project)
    study_of(project)
    verified = run("verify", "v0", "--engine", "emulator")
    assert verified.exit_code == 0, verified.output
    assert run("profile", "v0", "--engine", "emulator").exit_code == 0
    written = run("new", "v1", "--from", "v0")
    assert "does not compile" not in written.output, written.output
    source = project.kernels / STUDY / "v1.cu"
    source.write_text(source.read_text().replace(") * f +", ") * f + 0.0f * f +"))
    for words in (("verify", "v1"), ("profile", "v1")):
        done = run(*words, "--engine", "emulator")
        assert done.exit_code == 0, done.output
    step = json.loads(run("diff", "v0", "v1", "--format", "json").output)
    assert [hunk["kind"] for hunk in step["hunks"]].count("code") == 1, step["hunks"]
    for version, file in (("v0", "v0_lifted.cu"), ("v1", "v1.cu")):
        shown = json.loads(run("show", version, "--format", "json").output)
        files = {line["file"] for line in shown["launches"][0]["lines"]}
        assert files - {""} == {f"kernels/{STUDY}/{file}", f"kernels/{STUDY}/shared.cuh"}
        assert str(tmp_path) not in json.dumps(shown)


@needs_nvcc
def test_what_lies_where_and_what_was_guessed(tmp_path: Path, project: Project) -> None:
    made.scaled(tmp_path, project)
    study_of(project)
    study = load_study(project, STUDY)
    version = study.versions["v0"]
    image = load_image(project, version)
    assert str(tmp_path).encode() not in image.cubin
    assert image.build.resources[0].static_shared == 256
    assert image.build.arch == "sm_90"
    lines = version.text.split("\n")
    for piece in pieces(version.text):
        original = (tmp_path / piece.path).read_text().split("\n")[piece.source - 1 :]
        kept = lines[piece.line - 1 : piece.line - 1 + piece.count]
        if piece == pieces(version.text)[-1]:  # what makes the compiler write the instance
            assert kept[-2:] == [
                "template __global__ void scale<float>(float const*, float*, int, float);",
                "",
            ]
            kept = kept[:-3]
        assert kept == original[: len(kept)]
    assert (project.kernels / STUDY / "shared.cuh").read_text() == made.HEADER
    assert version.launches[0].args == ("x", "y", "200", "1.5")
    assert study.outputs(study.problem()) == {"y": ((200,), "float32")}
    assert study.tolerance == 1e-5 and "same bytes" in study.tolerance_why
    text = (project.kernels / STUDY / "study.py").read_text()
    assert "program.cu" in text and "12.35" in text


@needs_nvcc
@pytest.mark.slow
def test_the_tutorials_kernel_is_lifted_and_made_faster(tmp_path: Path, project: Project) -> None:
    source = (REPO / "examples" / "softmax_extension" / "softmax.cu").read_text()
    (line,) = re.findall(
        r"```cuda\n(.*)\n```", (REPO / "workbench/programs/docs/tutorial-lift.md").read_text()
    )
    cubin = made.compiled(tmp_path, source, "softmax.cu")
    x = np.random.default_rng(2).normal(size=(4, 600)).astype("f4")
    grown = np.exp(x - x.max(axis=1, keepdims=True))
    lift = Lift("_Z12softmax_rowsPKfPfi", "softmax_rows(float const*, float*, int)", cubin)
    lift.buffer("arg0", x)
    lift.buffer("arg1", np.zeros_like(x), grown / grown.sum(axis=1, keepdims=True))
    lift.point("arg0")
    lift.point("arg1")
    lift.give(np.int32(600).tobytes())
    lift.keep(project, STUDY, (4,), (256,))
    study_of(project)
    assert run("new", "v1", "--from", "v0").exit_code == 0
    path = project.kernels / STUDY / "v1.cu"
    text, count = re.subn(r" *const int first = .*", line, path.read_text())
    assert count == 1
    path.write_text(text)
    for version in ("v0", "v1"):
        done = run("profile", version, "--engine", "emulator")
        assert done.exit_code == 0, done.output
    told = run("diff", "v0", "v1").output
    assert "What changed" in told and "first, last and step" in told, told


POINTED = """\
struct Rows { const float* x; float* y; int n; };
extern "C" __global__ void gather(Rows* rows, const int* wanted, Rows by_value) {
    const Rows r = rows[*wanted];
    const int i = threadIdx.x;
    if (i < r.n) r.y[i] += r.x[i] + by_value.x[0];
}
"""


def pointed(tmp_path: Path, project: Project) -> None:
    """A struct of pointers in memory and another one by value, with a sum in place."""
    cubin = made.compiled(tmp_path, POINTED)
    lift = Lift("gather", "gather", cubin)
    x, y = np.arange(40, dtype="f4"), np.ones(32, "f4")
    lift.buffer("data", x)
    lift.buffer("sums", y, y + x[8:] + np.float32(4))
    rows = np.zeros(6, "u8")
    rows[5] = 32
    lift.buffer("rows", rows)
    lift.buffer("wanted", np.array([1], "i4"))
    lift.leads("rows", 24, "data", 32)
    lift.leads("rows", 32, "sums")
    lift.point("rows")
    lift.point("wanted")
    lift.give(np.array([0, 0, 7], "u8").tobytes(), (0, "data", 16), (8, "sums", 0))
    lift.keep(project, STUDY, (1,), (32,), repeats_equal=None)


@needs_nvcc
def test_pointers_lead_into_the_studys_buffers(tmp_path: Path, project: Project) -> None:
    pointed(tmp_path, project)
    study_of(project)
    version = load_study(project, STUDY).versions["v0"]
    assert version.launches[0].args[2] == ("at(data, 16)", "sums", "uint(7)", "uint(0)")
    done = run("verify", "v0", "--engine", "emulator")
    assert done.exit_code == 0, done.output


@needs_nvcc
@pytest.mark.slow
def test_the_emulator_finds_what_a_lifted_kernel_does_wrong(
    tmp_path: Path, project: Project
) -> None:
    pointed(tmp_path, project)
    study_of(project)
    assert run("new", "v1", "--from", "v0").exit_code == 0
    source = project.kernels / STUDY / "v1.cu"
    source.write_text(source.read_text().replace("if (i < r.n) r.y[i]", "r.y[i + 1]"))
    wrong = run("verify", "v1", "--engine", "emulator")
    assert wrong.exit_code == 4
    assert "sums" in wrong.output


@needs_nvcc
def test_damage_is_told_with_what_to_do(tmp_path: Path, project: Project) -> None:
    folder = made.scaled(tmp_path, project)
    study_of(project)
    (folder / "b0.before.zst").write_bytes((folder / "b1.before.zst").read_bytes())
    done = run("verify", "v0", "--engine", "emulator")
    assert done.exit_code == 5, done.output
    assert "b0.before.zst" in done.output and "workbench new --from-launch" in done.output
    listed = run("list")  # looking at it reads none of it
    assert listed.exit_code == 0 and "v0" in listed.output
    for each in folder.iterdir():
        each.unlink()
    assert run("list").exit_code == 0
    gone = run("verify", "v0", "--engine", "emulator")
    assert gone.exit_code == 3 and "captured" in gone.output


@needs_nvcc
def test_another_image_is_not_taken_for_the_versions(tmp_path: Path, project: Project) -> None:
    made.scaled(tmp_path, project)
    study_of(project)
    path = project.kernels / STUDY / "v0_lifted.cu"
    path.write_text(re.sub(r'image = "\w+"', f'image = "{"0" * 64}"', path.read_text()))
    with pytest.raises(DataError, match="is different"):
        load_image(project, load_study(project, STUDY).versions["v0"])


@needs_nvcc
def test_a_launch_without_source_is_run_and_not_continued(tmp_path: Path, project: Project) -> None:
    made.scaled(tmp_path, project)
    (tmp_path / "program.cu").unlink()
    study_of(project)
    assert "which is not here" in (project.kernels / STUDY / "study.py").read_text()
    assert run("verify", "v0", "--engine", "emulator").exit_code == 0
    refused = run("new", "v1", "--from", "v0")
    assert refused.exit_code == 2 and "source was not found" in refused.output
    assert not (project.kernels / STUDY / "v1.cu").exists()


def in_triton(tmp_path: Path, project: Project, parameters: str, *args: str) -> Path:
    """A study whose v0 is a lifted kernel in Triton; the path of a v1."""
    made.scaled(tmp_path, project)
    study_of(project)
    lifted = project.kernels / STUDY / "v0_lifted.cu"
    front = lifted.read_text().partition("--- */")[0].removeprefix("/* ---\n")
    front = re.sub(r'(kernel *= *)".*"', r'\1"scale"', front)
    if args:
        front = re.sub(r"args = \[[^]]*\]", f"args = {json.dumps(args)}", front)
    front += "dynamic_shared = 512\n"
    lifted.unlink()
    code = f"""import triton
import triton.language as tl


@triton.jit
def scale({parameters}):
    at = tl.program_id(0) * 512 + tl.arange(0, 512)
    inside = at < {"m" if ", m," in parameters else "n"}
    tl.store(y + at, f * tl.load(x + at, mask=inside), mask=inside)
"""
    lifted.with_suffix(".py").write_text(f'r"""Scaled.\n\n---\n{front}---\n"""\n{code}')
    return project.kernels / STUDY / "v1.py"


@needs_nvcc
def test_a_kernel_in_triton_gets_the_types_of_its_launch(tmp_path: Path, project: Project) -> None:
    written = in_triton(tmp_path, project, "x, y, n, f")
    done = run("new", "v1", "--from", "v0")
    assert done.exit_code == 0 and "does not compile" not in done.output, done.output
    assert 'def scale(x: "*fp32", y: "*fp32", n: "i32", f: "fp32"):' in written.read_text()
    launch = load_study(project, STUDY).version("v1").launches[0]
    assert launch.args == ("x", "y", "200", "1.5") and launch.dynamic_shared == "0"
    refused = run("new", "v2", "--from", "v1", "--define", "n=1")
    assert refused.exit_code == 2 and "under [defines]" in refused.output


@needs_nvcc
def test_constants_of_a_kernel_in_triton_are_asked_for(tmp_path: Path, project: Project) -> None:
    """Machine code does not say what they were, nor which arguments were 1."""
    parameters = "x, y, n, m, k, f, BLOCK: tl.constexpr, WIDE: tl.constexpr"
    given = ("x", "y", "uint(208)", "uint(208)", "uint(1069547520)", "ulong(0)", "ulong(0)")
    written = in_triton(tmp_path, project, parameters, *given)
    new, constants = ("new", "v1", "--from", "v0"), ("--define", "BLOCK=64", "--define", "WIDE=on")
    for words, said in (
        ((), ("does not say what BLOCK, WIDE were", "--define BLOCK=")),
        (constants, ("6 parameters without a value", "--define NAME=1")),
        ((*constants, "--define", "BLOK=1"), ("no parameter `BLOK`", "BLOCK")),
        (("--define", "BLOCK"), ("not NAME=VALUE",)),
    ):
        done = run(*new, *words)
        assert done.exit_code == 2, done.output
        assert all(each in done.output for each in said), done.output
        assert not written.exists()
    done = run(*new, *constants, "--define", "k=1")
    assert done.exit_code == 0 and "does not compile" not in done.output, done.output
    text = written.read_text()
    assert (
        'scale(x: "*fp32", y: "*fp32", n: "i32", m: "i32", k: tl.constexpr, f: "fp32", BLOCK'
        in text
    )
    version = load_study(project, STUDY).version("v1")
    assert version.launches[0].args == ("x", "y", "208", "208", "1.5")
    assert version.launches[0].divisible_by_16 == ("208",)
    assert version.defines == {"BLOCK": "64", "WIDE": "on", "k": "1"}
    assert "BLOCK = 64\n" in text
    # Both numbers of that value are multiples of 16, and Triton's compiler is told so of both.
    assert "ld.global.v4" in build(project, version, "sm_90").build.ptx


@pytest.mark.parametrize("given", ["(float const*)", "(float*, int)"])
def test_a_launch_that_changed_nothing_is_no_study(project: Project, given: str) -> None:
    lift = Lift("_Z4idle", f"idle{given}", b"")
    lift.buffer("pool", np.ones(1 << 19, "f4"))  # of an allocator, so other arrays may lie there
    lift.point("pool")
    if "int" in given:
        lift.give(np.int32(1).tobytes())
    lift.keep(project, STUDY, (1,), (32,))
    with pytest.raises(KernelError, match="did not change memory"):
        study_of(project)


@needs_nvcc
def test_machine_code_alone_is_for_a_gpu(tmp_path: Path, project: Project) -> None:
    source = tmp_path / "bare.cu"
    source.write_text('extern "C" __global__ void one(float* y) { y[threadIdx.x] = 1.0f; }\n')
    cubin = made.compiled(tmp_path, source.read_text(), "bare.cu", lines=False)
    lift = Lift("one", "one", cubin)
    lift.buffer("y", np.zeros(32, "f4"), np.ones(32, "f4"))
    lift.point("y")
    lift.keep(project, STUDY, (1,), (32,))
    study_of(project)
    assert "no line table" in (project.kernels / STUDY / "study.py").read_text()
    done = run("verify", "v0", "--engine", "emulator")
    assert done.exit_code == 3 and "without PTX" in done.output


@needs_nvcc
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("float32", np.random.default_rng(1).normal(size=4096).astype("f4")),
        ("float32", np.arange(4096, dtype="f4")),
        ("float16", np.random.default_rng(1).normal(size=4096).astype("f2")),
        ("bfloat16", np.random.default_rng(1).normal(size=4096).astype(ml_dtypes.bfloat16)),
        ("uint8", np.random.default_rng(1).integers(0, 2**32, 4096, dtype="u4")),
    ],
)
def test_the_type_of_elements_is_guessed_where_nothing_says_it(
    tmp_path: Path, project: Project, kind: str, values: NDArray[Any]
) -> None:
    cubin = made.compiled(tmp_path, 'extern "C" __global__ void copy(void* y) {}\n')
    lift = Lift("copy", "copy", cubin)
    lift.buffer("y", np.zeros_like(values), values)
    lift.point("y")
    lift.keep(project, STUDY, (1,), (32,))
    study_of(project)
    study = load_study(project, STUDY)
    ((_, dtype),) = study.outputs(study.problem()).values()
    assert dtype == kind


def test_infinities_of_a_recorded_result_are_asked_of_an_output() -> None:
    want = np.array([1.0, np.inf, np.nan, -np.inf])
    right = want.astype("f4")
    with pytest.raises(UsageError, match="no finite value"):
        compare({"y": right}, {"y": want}, 1e-6)
    assert compare({"y": right}, {"y": want}, 1e-6, special=True).ok
    for place, value in ((1, -np.inf), (2, 0.0), (3, 5.0), (0, np.nan)):
        wrong = right.copy()
        wrong[place] = value
        assert not compare({"y": wrong}, {"y": want}, 1e-6, special=True).ok


@pytest.mark.parametrize(
    ("image", "chip", "runs"),
    [
        ("sm_90", "sm_90", True),
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_80", "sm_90", False),
        ("sm_90a", "sm_90", True),
        ("sm_100", "sm_103", True),
        ("sm_120", "sm_100", False),
    ],
)
def test_on_which_chips_an_image_runs(image: str, chip: str, runs: bool) -> None:
    assert fits(image, chip) is runs


def test_missing_data_says_how_to_get_it(project: Project) -> None:
    (project.kernels / STUDY).mkdir()
    with pytest.raises(MissingError, match="not here"):
        study_of(project)
