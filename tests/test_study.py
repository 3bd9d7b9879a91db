from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import msgspec
import numpy as np
import pytest

from workbench import frontmatter
from workbench.discovery import kernel_names
from workbench.errors import UsageError
from workbench.launches import BufferArg, ResolvedLaunch, ResolvedScratch, ScalarArg
from workbench.model import Problem
from workbench.project import Project
from workbench.study import (
    Study,
    load_study,
    local_sources,
    parse_target,
    resolve_launches,
    resolve_scratch,
    source_hash,
    study_names,
)

STUDY = """
title = "Scale"
input_names = ("x",)
problems = {
    "n1000": {"N": 1000, "uses": ("profile",)},
    "n7": {"N": 7, "uses": ["verify", "sweep"]},
}
tolerance = 1e-6
tolerance_why = "one rounding"

def derive(problem):
    return {"N2": problem["N"] * 2}

def inputs(problem, rng):
    return {"x": rng.random(problem["N"], dtype="float32")}

def outputs(problem):
    return {"y": ((problem["N"],), "float32")}

def reference(problem, inputs):
    return {"y": inputs["x"].astype("float64") * 2}

def flops(problem):
    return problem["N"]

def bytes(problem):
    return 8 * problem["N"]
"""

VERSION = """/* ---
title = "Scale"
parent = ""
change = "c"
requires = "N > 1"
requires_why = "it needs two"
flags = []
[defines]
TILE = 64
[[scratch]]
name = "tmp"
dtype = "float16"
shape = ["N2", "TILE"]
[[launch]]
kernel = "scale"
grid = ["cdiv(N, TILE)"]
block = ["TILE", 2]
args = ["x", "y", "tmp", "N", "long(N*N)", 1.5, "double(N)", "float(2)"]
dynamic_shared = "4*TILE"
cluster = [1]
[[expect]]
counter = "duration"
change = "down"
--- */
extern "C" __global__ void scale(const float* x, float* y) { y[0] = x[0]; }
"""

BASELINE = '"""Lib.\n\n---\ntitle = "Lib"\nbaseline = true\n---\n"""\n'


class Maker:
    """Writes a study into a folder and loads it."""

    def __init__(self, root: Path) -> None:
        self.project = Project(root=root, default_study="s")
        self.folder = root / "kernels" / "s"
        self.folder.mkdir(parents=True)
        self.write("study.py", STUDY)

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def load(self) -> Study:
        return load_study(self.project, "s")

    def fails(self, message: str, hint: str = "") -> UsageError:
        with pytest.raises(UsageError) as caught:
            self.load()
        assert message in caught.value.message
        assert hint in caught.value.hint
        assert caught.value.hint
        return caught.value


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


def line_of(text: str, start: str) -> int:
    return next(i for i, row in enumerate(text.split("\n"), 1) if row.startswith(start))


# --- discovery -------------------------------------------------------------------


def test_versions_are_ordered_by_number_then_baselines_by_name(maker: Maker) -> None:
    plain = VERSION.replace('parent = ""\n', "")
    for name in ("v10_ten.cu", "v2_two.cu", "v0.cu"):
        maker.write(name, plain)
    maker.write("v3_python.py", BASELINE.replace("baseline = true\n", ""))
    maker.write("zlib.py", BASELINE)
    maker.write("blas.cu", plain.replace('change = "c"', "baseline = true"))
    maker.write("helper.py", "x = 1\n")
    maker.write("helper.cu", "int x;\n")
    maker.write("notes.txt", "no")
    study = maker.load()
    assert list(study.versions) == ["v0", "v2", "v3", "v10", "blas", "zlib"]
    assert [each.parent for each in study.versions.values()] == [
        None,
        "v0",
        "v2",
        "v3",
        None,
        None,
    ]
    ten = study.version("v10_ten")
    assert (ten.id, ten.name, ten.path) == ("v10", "v10_ten", "kernels/s/v10_ten.cu")
    assert ten.kind == "cuda"
    assert study.versions["v3"].kind == "python"
    assert study.baseline is study.versions["blas"]
    assert ten.text == plain
    assert plain.split("\n")[ten.front_matter_lines[1] - 1] == "--- */"


def test_work_is_counted_in_operations_where_results_are_integers(maker: Maker) -> None:
    maker.write("v0.cu", VERSION.replace('parent = ""\n', ""))
    assert maker.load().work == "flop"
    maker.write("study.py", STUDY.replace(',), "float32")}', ',), "int32")}'))
    assert maker.load().work == "op"


def test_a_study_without_a_baseline_has_none(maker: Maker) -> None:
    maker.write("v0.cu", VERSION)
    assert maker.load().baseline is None


def test_a_parent_may_be_named_by_its_file(maker: Maker) -> None:
    maker.write("v0_a.cu", VERSION)
    maker.write("v1_b.cu", VERSION)
    maker.write("v2_c.cu", VERSION.replace('parent = ""', 'parent = "v0_a"'))
    study = maker.load()
    assert study.version("v1").parent is None  # parent = "" starts a ladder of its own
    assert study.version("v2").parent == "v0"


@pytest.mark.parametrize(
    ("files", "message", "hint"),
    [
        (
            {"v0_a.cu": VERSION, "v00_b.cu": VERSION},
            "kernels/s/v0_a.cu: version v0 is also kernels/s/v00_b.cu",
            "another number",
        ),
        ({"v0_a.cu": "int x;\n"}, "kernels/s/v0_a.cu:1: no front matter", "workbench new"),
        (
            {"w0_a.cu": VERSION},
            "kernels/s/w0_a.cu:1: neither a version nor a baseline",
            "v<number>_w0_a.cu",
        ),
        (
            {"v0.cu": VERSION, "v1.cu": VERSION.replace('parent = ""', 'parent = "v9"')},
            "kernels/s/v1.cu:3: unknown parent `v9`",
            "Known versions: v0, v1",
        ),
        (
            {
                "v0.cu": VERSION.replace('parent = ""', 'parent = "v2"'),
                "v1.cu": VERSION.replace('parent = ""\n', ""),
                "v2.cu": VERSION.replace('parent = ""\n', ""),
            },
            "kernels/s/v0.cu:3: a cycle of parents: v0 → v2 → v1 → v0",
            "earlier one",
        ),
        (
            {"v0.cu": VERSION.replace('parent = ""', 'parent = "v0"')},
            "kernels/s/v0.cu:3: a cycle of parents: v0 → v0",
            "earlier one",
        ),
        (
            {"v0.cu": VERSION.replace('kernel = "scale"', 'kernel = "scael"')},
            "kernels/s/v0.cu:15: there is no kernel `scael` in this file",
            "Did you mean `scale`?",
        ),
        (
            {"v0.cu": VERSION.replace('"duration"', '"duratoin"')},
            "kernels/s/v0.cu:22: unknown counter `duratoin`",
            "Did you mean `duration`?",
        ),
        (
            {"v0.cu": VERSION.replace('"x", "y"', '"x", "z"')},
            "kernels/s/v0.cu:18: unknown name `z` in args",
            "N, N2, TILE, tmp, x, y",
        ),
        (
            {"v0.cu": VERSION.replace("cdiv(N, TILE)", "cdiv(N, TIEL)")},
            "kernels/s/v0.cu:16: unknown name `TIEL` in grid",
            "Did you mean `TILE`?",
        ),
        (
            {"v0.cu": VERSION.replace("cdiv(N, TILE)", "N / TILE")},
            "kernels/s/v0.cu:16: grid: `N / TILE`: `/` gives no integer",
            "cdiv(a, b)",
        ),
        (
            {"v0.cu": VERSION.replace('"N2", "TILE"', '"n2", "TILE"')},
            "kernels/s/v0.cu:13: unknown name `n2` in shape",
            "Did you mean `N2`?",
        ),
        (
            {"v0.cu": VERSION.replace("N > 1", "n > 1")},
            "kernels/s/v0.cu:5: unknown name `n`",
            "Did you mean `N`?",
        ),
        (
            {"v0.cu": VERSION.replace("TILE = 64", "TILE = 64\nN = 3")},
            "kernels/s/v0.cu:10: the define `N` hides a parameter",
            "Rename",
        ),
    ],
)
def test_a_wrong_version_is_named_with_its_line(
    maker: Maker, files: dict[str, str], message: str, hint: str
) -> None:
    for name, text in files.items():
        maker.write(name, text)
    maker.fails(message, hint)


def test_a_kernel_may_come_from_an_include_or_a_macro(maker: Maker) -> None:
    body = 'extern "C" __global__ void scale(const float* x, float* y) { y[0] = x[0]; }\n'
    maker.write("inner.cuh", "// __global__ void other(int)\n" + body)
    maker.write("v0.cu", VERSION.replace(body, '#include "inner.cuh"\n'))
    maker.write("v1.cu", VERSION.replace(body, "DEFINE_KERNEL(scale, float)\n"))
    maker.write("v2.cu", VERSION.replace(body, "/* scale */ // scale\n"))
    maker.fails("kernels/s/v2.cu:15: there is no kernel `scale`")


# --- files as they come -------------------------------------------------------------


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_bom_and_line_ends_do_not_matter(maker: Maker, mark: bytes, end: bytes) -> None:
    maker.write("v0.cu", mark + VERSION.encode().replace(b"\n", end))
    maker.write("study.py", mark + STUDY.encode().replace(b"\n", end))
    version = maker.load().version("v0")
    assert version.text == VERSION


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("v0.cu", VERSION.replace('"c"', '"caf\u00e9"').encode("latin1"), 4),
        ("v0.cu", VERSION.encode("utf-16"), 1),
        ("study.py", STUDY.replace("Scale", "\u7f29\u653e").encode("gbk"), 2),
    ],
)
def test_another_encoding_is_named_with_file_and_line(
    maker: Maker, name: str, text: bytes, line: int
) -> None:
    maker.write(name, text)
    maker.fails(f"kernels/s/{name}:{line}: not UTF-8", "iconv")


# --- study.py -------------------------------------------------------------------------


def test_what_a_study_computes(maker: Maker) -> None:
    maker.write("v0.cu", VERSION)
    study = maker.load()
    problem = study.problem()
    assert (study.title, study.tolerance, study.tolerance_why) == ("Scale", 1e-6, "one rounding")
    assert problem == Problem(name="n1000", parameters={"N": 1000}, uses=("profile",))
    assert study.parameters(problem) == {"N": 1000, "N2": 2000}
    assert study.outputs(problem) == {"y": ((1000,), "float32")}
    inputs = study.inputs(problem, np.random.default_rng(1))
    assert inputs["x"].shape == (1000,)
    assert inputs["x"].flags.c_contiguous
    np.testing.assert_array_equal(
        study.reference(problem, inputs)["y"], inputs["x"].astype("float64") * 2
    )
    assert (study.flops(problem), study.bytes(problem)) == (1000, 8000)
    assert study.problem(use="sweep").name == "n7"
    assert [each.name for each in study.problems_for("verify")] == ["n7"]
    assert not study.can_sample


def test_what_a_study_prints_goes_to_standard_error(
    maker: Maker, capsys: pytest.CaptureFixture[str]
) -> None:
    noisy = STUDY.replace(
        "def flops(problem):\n", "print('a')\ndef flops(problem):\n    print('b')\n"
    )
    maker.write("study.py", noisy)
    study = maker.load()
    study.flops(study.problem())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "a\nb\n"


def test_problems_may_be_a_list(maker: Maker) -> None:
    start, end = STUDY.index("problems = {"), STUDY.index("tolerance =")
    listed = 'problems = [{"name": "a", "N": 1, "uses": "verify"}, {"name": "b", "N": 2}]\n'
    maker.write("study.py", STUDY[:start] + listed + STUDY[end:])
    assert list(maker.load().problems) == ["a", "b"]
    nested = 'problems = [{"name": "a", "parameters": {"N": 1}, "uses": ()}]\n'
    maker.write("study.py", STUDY[:start] + nested + STUDY[end:])
    assert maker.load().problems["a"].parameters == {"N": 1}


@pytest.mark.parametrize(
    ("right", "wrong", "message", "hint"),
    [
        ("title = ", "titel = ", ":1: does not define `title`", "`titel`"),
        ('"Scale"', '""', "`title` must be a sentence", "docs/"),
        ("1e-6", "'x'", "`tolerance` must be a number between 0 and 1", "docs/"),
        ("1e-6", "0", "`tolerance` must be a number between 0 and 1", "docs/"),
        ('"one rounding"', "3", "`tolerance_why` must be a sentence", "docs/"),
        ('("x",)', '"x y"', "`input_names` must be a tuple of names", "docs/"),
        ('("x",)', '("x", "x")', "the name `x` is taken twice", "rename one"),
        ('("x",)', '("N",)', "the name `N` is taken twice", "rename one"),
        ("def flops", "def flop", "does not define `flops`", "`flop`"),
        ("def flops", "flops = 3\ndef other", "`flops` must be a function", "docs/"),
        ('{"N": 7,', '{"M": 7,', "do not have the same parameters: M, N", "all of them"),
        ('{"N": 7,', '{"N": 7.5,', "problem `n7`: `N` must be an integer, not 7.5", "docs/"),
        ('{"N": 7,', '{"N": True,', "`N` must be an integer, not True", "docs/"),
        ('{"N": 7,', '{"max": 7,', "'max' cannot be a parameter's name", "not min"),
        ('"n7"', '"n 7"', "'n 7' cannot be a problem's name", "file name"),
        ('"verify"', '"verfiy"', "problem `n7`: unknown use 'verfiy'", "`verify`"),
        ("problems = {", "problems = {}\nother = {", "`problems` is empty", "docs/"),
        ("problems = {", "problems = 3\nother = {", "`problems` must be a dict or a list", "docs/"),
        ("problems = {", "problems = [3]\nother = {", 'a problem without a "name"', "docs/"),
        ("problems = {", "problems = {'a': 3}\no = {", "problem `a` must be a dict", "docs/"),
        (
            "problems = {",
            "problems = [{'name': 'a', 'N': 1}] * 2\no = {",
            "two problems are named `a`",
            "Rename",
        ),
        (
            '{"y": ((problem["N"],), "float32")}',
            '{"y": 3}',
            "outputs(): `y` must be (shape, dtype)",
            "docs/",
        ),
        ('{"y": ((problem["N"],), "float32")}', "{}", "outputs() must give a dict like", "docs/"),
        ("* 2}", "* 2.5}", "derive: `N2` must be an integer", "docs/"),
        ('{"N2": problem["N"] * 2}', "3", "derive must give a dict of integers", "docs/"),
        ('problem["N"] * 2}', 'problem["Q"]}', ":12: KeyError in derive(): 'Q'", "that line"),
        ("tolerance = 1e-6", "tolerance = 1 / 0", ":8: ZeroDivisionError while it was", "correct"),
        ("tolerance = 1e-6", "import nowhere_at_all", ":8: ModuleNotFoundError", "correct"),
        ("tolerance = 1e-6", "raise SystemExit(3)", ":8: SystemExit", "correct"),
        ("tolerance = 1e-6", "tolerance = (", ":8: not valid Python", "Correct"),
    ],
)
def test_a_wrong_study_is_named_with_its_line(
    maker: Maker, right: str, wrong: str, message: str, hint: str
) -> None:
    assert right in STUDY
    maker.write("study.py", STUDY.replace(right, wrong, 1))
    error = maker.fails(message, hint)
    assert error.message.startswith("kernels/s/study.py:")


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ('{"x": rng', '{"z": rng', "inputs() gave ['z'], but input_names are ['x']"),
        ('problem["N"], dtype', '"N", dtype', ":15: TypeError in inputs()"),
        ('.astype("float64") * 2', "* 2", "`y` is float32 (1000,), not float64 (1000,)"),
        ('.astype("float64") * 2', '.astype("float64")[1:]', "`y` is float64 (999,), not"),
        ('{"y": inputs', '{"z": inputs', "reference() gave ['z'], but the outputs are ['y']"),
        ('    return problem["N"]\n', "    return 1.5\n", "flops() gave 1.5 for problem n1000"),
        ('return 8 * problem["N"]', "return -1", "bytes() gave -1 for problem n1000"),
    ],
)
def test_what_a_study_gives_is_checked(maker: Maker, right: str, wrong: str, message: str) -> None:
    assert right in STUDY
    maker.write("study.py", STUDY.replace(right, wrong, 1))
    study = maker.load()
    problem = study.problem()

    def use() -> None:
        inputs = study.inputs(problem, np.random.default_rng(1))
        study.reference(problem, inputs)
        study.flops(problem)
        study.bytes(problem)

    with pytest.raises(UsageError) as caught:
        use()
    assert message in caught.value.message
    assert caught.value.hint


def test_loading_leaves_no_trace(maker: Maker) -> None:
    maker.write("v0.cu", VERSION)
    maker.write("study.py", STUDY + "\nimport json\n")
    before = (list(sys.path), {k for k, m in sys.modules.items() if isinstance(m, ModuleType)})
    maker.load()
    assert sys.path == before[0]
    assert not [name for name in set(sys.modules) - before[1] if "study" in name]
    assert not list(maker.folder.rglob("__pycache__"))


# --- finding by name -----------------------------------------------------------------


def test_unknown_names_are_answered_with_the_nearest(maker: Maker) -> None:
    maker.write("v0_first.cu", VERSION)
    study = maker.load()
    cases: list[tuple[Callable[[], object], str, str]] = [
        (lambda: study.version("v00_frist"), "study s has no version `v00_frist`", "v0"),
        (lambda: study.problem("n100"), "study s has no problem `n100`", "`n1000`"),
        (lambda: load_study(maker.project, "t"), "there is no study `t`", "studies: s"),
        (lambda: load_study(maker.project, ""), "there is no study ``", "workbench new"),
        (lambda: load_study(maker.project, "../s"), "there is no study `../s`", "studies: s"),
    ]
    for call, message, hint in cases:
        with pytest.raises(UsageError) as caught:
            call()
        assert message in caught.value.message
        assert hint in caught.value.hint
    maker.write("study.py", STUDY.replace('"profile"', '"sweep"'))
    with pytest.raises(UsageError, match="no problem for `profile`"):
        maker.load().problem()


def test_study_names(maker: Maker, tmp_path: Path) -> None:
    (tmp_path / "kernels" / "common").mkdir()
    maker.write("../a/study.py", STUDY)
    assert study_names(maker.project) == ["a", "s"]
    assert study_names(Project(root=tmp_path / "nowhere")) == []


@pytest.mark.parametrize(
    ("text", "default", "expected"),
    [
        ("v3", "sgemm", ("sgemm", "v3")),
        ("conv/v3", "sgemm", ("conv", "v3")),
        (" cublas ", "s", ("s", "cublas")),
    ],
)
def test_targets(text: str, default: str, expected: tuple[str, str]) -> None:
    assert parse_target(text, default) == expected


@pytest.mark.parametrize("text", ["", "/", "a/", "/v3", "a/b/c", "v3"])
def test_targets_that_name_nothing(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_target(text, "")
    assert caught.value.hint


# --- launches -------------------------------------------------------------------------


def test_launches_are_resolved_to_numbers(maker: Maker) -> None:
    maker.write("v0.cu", VERSION)
    study = maker.load()
    (launch,) = resolve_launches(study, study.version("v0"), study.problem())
    assert launch == ResolvedLaunch(
        kernel="scale",
        grid=(16, 1, 1),
        block=(64, 2, 1),
        args=(
            BufferArg(name="x"),
            BufferArg(name="y"),
            BufferArg(name="tmp"),
            ScalarArg(value=1000),
            ScalarArg(value=1000000, ctype="long"),
            ScalarArg(value=1.5, ctype="float"),
            ScalarArg(value=1000.0, ctype="double"),
            ScalarArg(value=2.0, ctype="float"),
        ),
        dynamic_shared=256,
        cluster=(1, 1, 1),
    )
    assert resolve_scratch(study, study.version("v0"), study.problem()) == (
        ResolvedScratch(name="tmp", dtype="float16", shape=(2000, 64)),
    )
    # It travels to the worker as JSON.
    packed = msgspec.json.encode(launch)
    assert msgspec.json.decode(packed, type=ResolvedLaunch) == launch


@pytest.mark.parametrize(
    ("right", "wrong", "line", "message"),
    [
        ("cdiv(N, TILE)", "N - 1000", 16, "grid.x is 0 for problem n1000 (`N - 1000`)"),
        ("cdiv(N, TILE)", "N - 2000", 16, "grid.x is -1000"),
        ('["cdiv(N, TILE)"]', '[1, "N*N"]', 16, "grid.y is 1000000"),
        ('["TILE", 2]', '["TILE", 32]', 17, "2048 threads a block"),
        ('["TILE", 2]', "[1, 1, 65]", 17, "block.z is 65"),
        ('["TILE", 2]', "[0]", 17, "block.x is 0"),
        ("4*TILE", "-4*TILE", 19, "dynamic_shared is -256 bytes"),
        ("cluster = [1]", "cluster = [3]", 20, "cluster (3, 1, 1) is not a divisor of the grid"),
        ("cluster = [1]", "cluster = [17]", 20, "cluster.x is 17"),
        ("long(N*N)", "N*N*N*N", 18, "which no `int` holds"),
        ("long(N*N)", "uint(-1)", 18, "which no `uint` holds"),
        ("long(N*N)", "N // (N - 1000)", 18, "division by zero"),
    ],
)
def test_a_launch_that_no_chip_can_do(
    maker: Maker, right: str, wrong: str, line: int, message: str
) -> None:
    assert right in VERSION
    maker.write("v0.cu", VERSION.replace(right, wrong))
    study = maker.load()
    with pytest.raises(UsageError) as caught:
        resolve_launches(study, study.version("v0"), study.problem())
    assert caught.value.message.startswith(f"kernels/s/v0.cu:{line}: ")
    assert message in caught.value.message
    assert caught.value.hint


def test_scratch_without_an_element(maker: Maker) -> None:
    maker.write("v0.cu", VERSION.replace('"N2", "TILE"', '"N - 7"'))
    study = maker.load()
    with pytest.raises(UsageError, match=r"v0\.cu:13: scratch `tmp` has shape \(0,\)"):
        resolve_scratch(study, study.version("v0"), study.problem("n7"))


def test_requirements(maker: Maker) -> None:
    maker.write("v0.cu", VERSION)
    maker.write("v1.cu", VERSION.replace('requires = "N > 1"\nrequires_why = "it needs two"\n', ""))
    study = maker.load()
    one = Problem(name="one", parameters={"N": 1})
    study.check_requirements(study.version("v0"), study.problem())
    study.check_requirements(study.version("v1"), one)
    with pytest.raises(UsageError, match="v0 cannot do problem one: it needs two") as caught:
        study.check_requirements(study.version("v0"), one)
    assert "kernels/s/v0.cu:5" in caught.value.hint


# --- sources and their hash ----------------------------------------------------------------


def hashed(maker: Maker, text: str) -> str:
    maker.write("v0.cu", text)
    return source_hash(maker.project, maker.load().version("v0"))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('title = "Scale"', 'title = "Another"'),
        ('change = "c"', 'change = "said better"'),
        ('counter = "duration"', 'counter = "registers"'),
        ('change = "down"', 'change = "-50%"\nwhy = "because"'),
        ("it needs two", "it needs more than one"),
        ("TILE = 64", "TILE = 64  # a comment"),
        ("--- */\n", "--- */\n\n"),
        ("y[0] = x[0]; }\n", "y[0] = x[0]; }   \n\n\n"),
    ],
)
def test_prose_does_not_change_the_hash(maker: Maker, right: str, wrong: str) -> None:
    assert right in VERSION
    assert hashed(maker, VERSION) == hashed(maker, VERSION.replace(right, wrong))
    assert hashed(maker, VERSION) == hashed(maker, VERSION.replace("\n", "\r\n"))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("y[0] = x[0]", "y[0] = 2 * x[0]"),
        ("TILE = 64", "TILE = 32"),
        ("flags = []", 'flags = ["-use_fast_math"]'),
        ("4*TILE", "8*TILE"),
        ('"TILE", 2]', '"TILE", 4]'),
        ("float16", "float32"),
        ("cluster = [1]", "cluster = [2]"),
        ('"y", "tmp"', '"tmp", "y"'),
    ],
)
def test_what_decides_the_outcome_changes_the_hash(maker: Maker, right: str, wrong: str) -> None:
    assert right in VERSION
    assert hashed(maker, VERSION) != hashed(maker, VERSION.replace(right, wrong))


def test_the_hash_is_the_same_on_every_machine(maker: Maker) -> None:
    """A recorded profile is stale where this differs: a change here outdates all of them."""
    assert hashed(maker, VERSION) == (
        "7884aa05854cf5330a95d726256cd4323097785ab07d3deb88e3b4874f93766f"
    )


def test_includes_are_followed_and_hashed(maker: Maker, tmp_path: Path) -> None:
    text = VERSION.replace(
        "extern", '#include "a.cuh"\n#include <cuda_fp16.h>\n#include <deep.cuh>\nextern', 1
    ).replace("flags = []", 'flags = ["-Ikernels/include", "-I", "kernels/none"]')
    maker.write("a.cuh", '#pragma once\n  #  include "../common/b.cuh"\n#include "cuda.h"\n')
    b = maker.write("../common/b.cuh", '#include "c.cuh"\n#include "../s/a.cuh"\n')
    maker.write("../common/c.cuh", "int c;\r\n")
    maker.write("../include/deep.cuh", "int deep;\n")
    before = hashed(maker, text)
    sources = local_sources(maker.project, maker.load().version("v0"))
    assert [each.path for each in sources] == [
        "kernels/s/v0.cu",
        "kernels/s/a.cuh",
        "kernels/include/deep.cuh",
        "kernels/common/b.cuh",
        "kernels/common/c.cuh",
    ]
    assert sources[-1].text == "int c;\n"
    assert len(sources[0].sha256) == 64
    b.write_text(b.read_text() + "int changed;\n")
    assert hashed(maker, text) != before


def test_an_include_outside_of_the_project(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "project")
    (tmp_path / "out.cuh").write_text("int x;\n")
    maker.write("v0.cu", VERSION.replace("extern", '#include "../../../out.cuh"\nextern', 1))
    with pytest.raises(UsageError, match=r"v0\.cu:25: includes `\.\./\.\./\.\./out\.cuh`, outside"):
        maker.load()


def test_the_hash_of_a_python_version(maker: Maker) -> None:
    maker.write("lib.py", BASELINE + "x = 1\n")
    first = source_hash(maker.project, maker.load().version("lib"))
    maker.write("lib.py", BASELINE.replace('"Lib"', '"Library"') + "x = 1\n")
    assert source_hash(maker.project, maker.load().version("lib")) == first
    maker.write("lib.py", BASELINE + "x = 2\n")
    assert source_hash(maker.project, maker.load().version("lib")) != first


# --- the documentation ---------------------------------------------------------------------


def test_the_documented_study_works(maker: Maker, repo: Path) -> None:
    text = (repo / "docs" / "front-matter.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(cuda|python)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["cuda", "python", "python"]
    cuda, python, study_py = (block for _, block in blocks)
    maker.write("v0.cu", VERSION.replace('"x", "y", "tmp", ', '"x", "tmp", ').replace("N2", "N"))
    maker.write("v1_two.cu", cuda)
    maker.write("cupy.py", python)
    maker.write("study.py", study_py)
    study = maker.load()
    problem = study.problem("n1000")
    assert study.baseline is study.versions["cupy"]
    (launch,) = resolve_launches(study, study.version("v1"), problem)
    assert launch.grid == (4, 1, 1)
    assert launch.dynamic_shared == 512
    assert launch.args[-1] == ScalarArg(value=2.0, ctype="float")
    (partial,) = resolve_scratch(study, study.version("v1"), problem)
    assert partial.shape == (4,)
    assert study.parameters(problem)["bytes_of_x"] == 4000
    rng = np.random.default_rng(1)
    inputs = study.inputs(problem, rng)
    whole = study.reference(problem, inputs)["y"]
    indices = {"y": np.array([0, 999, 17])}
    np.testing.assert_array_equal(
        study.reference_at(problem, inputs, indices)["y"], whole[indices["y"]]
    )


def test_every_key_of_the_front_matter_is_documented(repo: Path) -> None:
    text = (repo / "docs" / "front-matter.md").read_text(encoding="utf-8")
    for key in (*frontmatter.TOP_KEYS, *frontmatter.LAUNCH_KEYS, *frontmatter.EXPECT_KEYS):
        assert re.search(rf"`\[*{key}\]*`", text), key
    for key in frontmatter.SCRATCH_KEYS:
        assert f"`{key}`" in text


def test_kernels_are_found_behind_their_attributes() -> None:
    code = """
// __global__ void commented(int)
/* __global__ void too(int) */
extern "C" __global__ void __launch_bounds__(f(256), 2)
plain(const float* x) {}
__global__ __cluster_dims__(2, 1, 1) void clustered(int n);
template <typename T> static __global__ void typed(T x) {}
__device__ float helper(float x) { return x; }
void host() { plain<<<1, 2>>>(0); }
"""
    assert kernel_names(code) == ["plain", "clustered", "typed"]


def test_a_version_may_have_a_tolerance_of_its_own(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    own = 'baseline = true\ntolerance = 0.01\ntolerance_why = "it rounds"'
    maker.write("v1.cu", VERSION)
    maker.write("lib.py", BASELINE.replace("baseline = true", own))
    study = maker.load()
    assert study.tolerance_of("lib") == 0.01
    assert study.tolerance_of("v1") == study.tolerance
    assert study.tolerance_of("no such version") == study.tolerance
