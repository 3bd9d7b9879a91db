"""What beginners get wrong: each is found, its line named first, and its hint mends it.

Twelve bugs of a first course, in two studies as students write them (`tests/data/taught`: a 3×3
convolution and a tiled product), and what is mistaken in front matter and study.py. A mend is
the edit that the hint's words name, and no more.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.cells import cell_len

from tests import goldens
from tests.fixtures import REPO
from tests.told import english
from workbench import cli, language
from workbench.engines import RunOptions, Subject
from workbench.engines.emulated.emulation import verified
from workbench.engines.emulated.engine import EmulatorEngine
from workbench.errors import WorkbenchError
from workbench.project import require_project
from workbench.study.folder import load_study

pytestmark = pytest.mark.nvcc
TAUGHT = REPO / "tests" / "data" / "taught"


class Bug(NamedTuple):
    """A wrong version: on which problem, the text of its first line, what is said, the mend."""

    problem: str
    line: str
    words: str
    hint: str
    old: str
    new: str


BOOK = tomllib.loads((TAUGHT / "bugs.toml").read_text(encoding="utf-8"))
BUGS = {name: Bug(**row) for name, row in BOOK.items()}


def mended(name: str, text: str) -> str:
    """The text of a wrong version after its bug's edit."""
    assert text.count(BUGS[name].old) == 1
    text = text.replace(BUGS[name].old, BUGS[name].new)
    if name == "matmul/v6":  # and what goes with the block
        text = text.replace("#define T 64", "#define T 32").replace(", 64)", ", 32)")
    return text


def judged(root: Path, version: str, problem: str) -> WorkbenchError | None:
    """What `verify --engine emulator` says of a version on a problem."""
    project = require_project(root)
    engine = EmulatorEngine(project, RunOptions(seed=1))
    try:
        study = load_study(project, version.split("/")[0])
        chosen = study.version(version.split("/")[1])
        subject = Subject.of(study, chosen, study.problem(problem), engine.build)
        verified(engine.emulate(subject, watch=True), subject)
    except WorkbenchError as error:
        return error
    return None


#: Those that the quick tests try.
QUICK = {"matmul/v1", "matmul/v5", "matmul/v7", "matmul/v8", "blur/v3", "blur/v5", "blur/v7"}


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in BUGS]
)
def test_a_bug_of_a_first_course_is_found_and_its_hint_mends_it(name: str, tmp_path: Path) -> None:
    bug, (study, version) = BUGS[name], name.split("/")
    shutil.copytree(TAUGHT, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("profiles"))
    (path,) = (tmp_path / "kernels" / study).glob(f"{version}_*.cu")
    text = path.read_text(encoding="utf-8")
    error = judged(tmp_path, name, bug.problem)
    assert error is not None
    assert re.search(bug.words, error.message), error.message
    assert re.search(bug.hint, error.hint), error.hint
    assert not english(error), "in Chinese"
    line = next(at for at, each in enumerate(text.splitlines(), 1) if bug.line in each)
    assert re.match(rf"kernels/{study}/{path.name}:{line}\b", error.message), error.message
    path.write_text(mended(name, text), encoding="utf-8")
    after = judged(tmp_path, name, bug.problem)
    assert after is None, after.message


#: Right; out of bounds; a race; what was never written; where a thread returned early.
SCREENS = {
    "right": ["matmul/v0:n64"],
    "bounds": ["blur/v1:n32"],
    "race": ["matmul/v1:n64"],
    "unwritten": ["matmul/v5:n64"],
    "early": ["matmul/v7:odd"],
}


@pytest.mark.parametrize("name", SCREENS)
def test_what_verify_shows_in_chinese(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(TAUGHT)
    monkeypatch.setenv("COLUMNS", "80")
    words = ["--lang", "zh", "verify", *SCREENS[name], "--engine", "emulator", "--seed", "1"]
    try:
        code = cli.main(words)
    except SystemExit as end:
        code = end.code  # type: ignore[assignment]
    finally:
        language.use("en")
    told = capsys.readouterr()
    assert code == (0 if name == "right" else 4)
    # A Chinese letter takes two columns.
    assert max(map(cell_len, told.out.splitlines())) <= 80
    goldens.same(f"zh/verify_{name}.80.txt", f"{told.out}{told.err}")


@pytest.mark.parametrize("study", ["blur", "matmul"])
def test_every_wrong_version_is_in_the_table_and_the_right_one_is_not(study: str) -> None:
    found = {path.name.split("_")[0] for path in (TAUGHT / "kernels" / study).glob("v*.cu")}
    assert found == {"v0", *(name.split("/")[1] for name in BUGS if name.startswith(study))}
    for problem in ("n64" if study == "matmul" else "n32", "odd"):
        assert judged(TAUGHT, f"{study}/v0", problem) is None


STUDY = """title = "Scale"
input_names = ("x", "w")
problems = {"n1000": {"N": 1000, "uses": ("profile", "verify")}}
tolerance = 1e-5
tolerance_why = "one rounding"
def inputs(problem, rng):
    w = [2.0]
    return {"x": rng.standard_normal((25, 40), dtype="float32"), "w": w}
def outputs(problem):
    return {"y": ((25, 40), "float32")}
def reference(problem, inputs):
    return {"y": inputs["x"].astype("float64") * 2}
def flops(problem):
    return problem["N"]
def bytes(problem):
    return 8 * problem["N"]
"""
VERSION = """/* ---
title = "Scale"
[[launch]]
kernel = "scale"
grid = ["cdiv(N, 256)"]
block = [256]
args = ["x", "y", "N"]
--- */
#include <cuda_fp16.h>
__constant__ float factor[1];
__global__ void scale(const float *x, float *y, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""
RANDOM = 'rng.standard_normal((25, 40), dtype="float32")'
SHARED = (
    "if (i < n) y[i] = 2.0f * x[i];",
    "extern __shared__ float s[];\n    s[threadIdx.x] = i < n ? x[i] : 0.0f;\n"
    "    if (i < n) y[i] = 2.0f * s[threadIdx.x];",
)


class Mistake(NamedTuple):
    """Edits of the study above, what is said of them, and the edits of the mend."""

    made: tuple[tuple[str, str], ...]
    words: str
    hint: str
    mend: tuple[tuple[str, str], ...]


def one(old: str, new: str, words: str, hint: str, *mend: str) -> Mistake:
    """A mistake of one edit, mended by another one; without it, by taking the edit back."""
    return Mistake(((old, new),), words, hint, ((mend[0], mend[1]),) if mend else ((new, old),))


MISTAKES = {
    "float64 for float*": one(
        RANDOM, "rng.standard_normal((25, 40))", r"v0\.cu:7: `x` is float64, but scale takes it as",
        r'dtype="float32", \.astype\("float32"\)', "l((25, 40))", 'l((25, 40)).astype("float32")',
    ),
    "a list for float*": one(
        RANDOM, f"{RANDOM}.tolist()", r"v0\.cu:7: `x` is float64, but scale takes it as float\*",
        r'dtype="float32"', RANDOM + ".tolist()", RANDOM,
    ),
    "an output of float64": one(
        '((25, 40), "float32")', '((25, 40), "float64")', r"`y` is float64, but scale takes it as",
        r"give `y` the type", '((25, 40), "float64")', '((25, 40), "float32")',
    ),
    "4096.0 for an int": one(
        '"y", "N"]', '"y", 1000.0]', r"v0\.cu:7: argument 3 of kernel scale is a floating-point n",
        r"Write 1000\.", "1000.0", "1000",
    ),
    "an integer for a float": Mistake(
        (("int n", "float n"),), r"v0\.cu:7: argument 3 of kernel scale is an integer, 1000",
        r"Write float\(1000\)\.", (('"y", "N"]', '"y", "float(1000)"]'),),
    ),
    "a number for a pointer": one(
        '["x", "y"', '["N", "y"', r"v0\.cu:7: argument 1 .* is the number 1000, .* a pointer, f",
        r"Name a buffer there", '["N", "y"', '["x", "y"',
    ),
    "a buffer for a number": one(
        '"y", "N"', '"y", "x"', r"v0\.cu:7: argument 3 of .* is the buffer `x`, .* number, int",
        r"Write a parameter of the problem", '"y", "x"', '"y", "N"',
    ),
    "no quotes": one(
        '["cdiv(N, 256)"]', "[cdiv(N, 256)]", r"v0\.cu:5: not valid TOML",
        r'quotes: grid = \["cdiv\(N, 256\)"\]', "[cdiv(N, 256)]", '["cdiv(N, 256)"]',
    ),
    "a launch that covers less": one(
        "cdiv(N, 256)", "N // 256", r"v0\.cu:5: (.|\n)*Is the grid too small\?",
        r"Round the grid up, cdiv\(size, block\)", "N // 256", "cdiv(N, 256)",
    ),
    "an element written twice": one(
        "2.0f * x[i];", "2.0f * x[i];\n    if (i > 0 && i <= n) y[i - 1] = x[i - 1];",
        r"v0\.cu:14: global-memory race: .* y\[\d+\] than .* at \S+:13, and nothing orders",
        r"let one thread store it", "\n    if (i > 0 && i <= n) y[i - 1] = x[i - 1];", "",
    ),
    "the sign": one(
        "2.0f *", "-2.0f *", r"y is the negated reference", r"Negate the stored",
    ),
    "shifted by one": one(
        "x[i]", "x[(i + 1) % n]", r"shifted by one: each element is the one after it",
        r"^Subtract one from the index of the load", "x[(i + 1) % n]", "x[(i + 1 - 1) % n]",
    ),
    "shifted the other way": one(
        "x[i]", "x[(i + n - 1) % n]", r"shifted by one: each element is the one before it",
        r"^Add one to the index of the load", "x[(i + n - 1) % n]", "x[(i + n - 1 + 1) % n]",
    ),
    "transposed in the store": one(
        "y[i]", "y[i % 25 * 40 + i / 25]", r"y is the reference transposed", r"Swap row and",
        "y[i % 25 * 40 + i / 25]", "y[i / 40 * 40 + i % 40]",
    ),
    "a factor": one(
        "2.0f *", "3.0f *", r"y is 1\.5 times the reference", r"Look for a factor of 1\.5",
    ),
    "another precision": one(
        "2.0f * x[i]", "__half2float(__float2half(2.0f * x[i]))",
        r"y is the reference rounded to float16", r"Keep the value in float32 up to the store",
        "__half2float(__float2half(2.0f * x[i]))", "2.0f * x[i]",
    ),
    "a constant that nothing filled": one(
        "2.0f *", "factor[0] *", r"v0\.cu:10: nothing fills `factor`, which is __constant__",
        r'Add a \[\[fill\]\] with name = "factor" and input =', 'title = "Scale"\n[[launch]]',
        'title = "Scale"\n[[fill]]\nname = "factor"\ninput = "w"\n[[launch]]',
    ),
    "no dynamic_shared": one(
        *SHARED, r"v0\.cu:14: out of bounds: .* writes s\[0\], and the launch gives no dynamic",
        r"Set dynamic_shared in \[\[launch\]\] to the bytes that s\[\] needs: here at least 1,024",
        "block = [256]", "block = [256]\ndynamic_shared = 1024",
    ),
    "a kernel that is not there": one(
        'kernel = "scale"', 'kernel = "scal"', r"v0\.cu:4: there is no kernel `scal`",
        r"Did you mean `scale`\?", '"scal"', '"scale"',
    ),
    "too many threads": one(
        "block = [256]", "block = [2048]", r"v0\.cu:6: block\.x is 2048", r"from 1 to 1024",
        "[2048]", "[256]",
    ),
}  # fmt: skip


def edited(texts: dict[str, str], edits: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Two files with each edit made in the one that has its text."""
    for old, new in edits:
        assert sum(text.count(old) for text in texts.values()) == 1, old
        texts = {name: text.replace(old, new) for name, text in texts.items()}
    return texts


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_and_its_hint_mends_it(name: str, tmp_path: Path) -> None:
    mistake, folder = MISTAKES[name], tmp_path / "kernels" / "s"
    folder.mkdir(parents=True)
    (tmp_path / "workbench.toml").write_text('default_study = "s"\n', encoding="utf-8")
    right = {
        "study.py": STUDY.replace('"w": w', '"w": __import__("numpy").array(w, "float32")'),
        "v0.cu": VERSION,
    }
    wrong = edited(right, mistake.made)
    for file, text in wrong.items():
        (folder / file).write_text(text, encoding="utf-8")
    error = judged(tmp_path, "s/v0", "n1000")
    assert error is not None
    assert re.search(mistake.words, error.message), error.message
    assert re.search(mistake.hint, error.hint), error.hint
    assert not english(error), "in Chinese"
    for file, text in edited(wrong, mistake.mend).items():
        (folder / file).write_text(text, encoding="utf-8")
    after = judged(tmp_path, "s/v0", "n1000")
    assert after is None, after.message


def test_what_a_loose_tolerance_hides_is_counted(tmp_path: Path) -> None:
    """34 elements are off by more than it allows, 483 by less, and both are said."""
    folder = tmp_path / "kernels" / "s"
    folder.mkdir(parents=True)
    (tmp_path / "workbench.toml").write_text("", encoding="utf-8")
    study = STUDY.replace("tolerance = 1e-5", "tolerance = 0.1")
    study = study.replace(RANDOM, '__import__("numpy").ones((25, 40), "float32")')
    (folder / "study.py").write_text(study.replace('"w": w', '"w": rng.random(1)'), "utf-8")
    factor = "(i < 34 ? 4.0f : i % 2 ? 2.05f : 2.0f) *"
    (folder / "v0.cu").write_text(VERSION.replace("2.0f *", factor), "utf-8")
    error = judged(tmp_path, "s/v0", "n1000")
    assert error is not None
    said = "34 of 1,000 elements of y are off by more than the tolerance, and 483 more are"
    assert said in error.message
