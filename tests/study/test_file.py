"""What study.py must define, and what it gives is checked."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

from tests.study_maker import STUDY, VERSION, Maker
from workbench.errors import UsageError
from workbench.model import Problem


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


RAISES = "type('L', (), {'__repr__': lambda self: 1 / 0})()"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("title", "10**5000", "`title` cannot be used: ValueError: Exceeds the limit"),
        ("title", RAISES, "`title` cannot be used: ZeroDivisionError: division by zero"),
        ("title", r"'\udcff'", "`title` cannot be used: UnicodeEncodeError: 'utf-8' codec"),
        ("tolerance", RAISES, "`tolerance` cannot be used: ZeroDivisionError"),
        ("problems", "10**5000", "`problems` cannot be used: ValueError"),
        ("problems", "{'n1': {'n': 'x', 'uses': 3}}", "`problems` cannot be used: TypeError"),
        ("input_names", RAISES, "`input_names` cannot be used: ZeroDivisionError"),
        ("flops", RAISES, "`flops` cannot be used: ZeroDivisionError"),
        ("bytes", RAISES, "`bytes` cannot be used: ZeroDivisionError"),
        ("derive", RAISES, "`derive` cannot be used: ZeroDivisionError"),
        ("outputs", RAISES, "`outputs` cannot be used: ZeroDivisionError"),
        ("inputs", "{'x': None}", "inputs(): `x` holds Python objects, not numbers"),
        ("inputs", "{'x': [[1], [2, 3]]}", "`inputs` cannot be used: ValueError: setting an arr"),
        ("reference", "{'y': ((7,), '(9,9)i4')}", "`reference` cannot be used: ValueError"),
    ],
)
def test_what_a_value_raises_where_it_is_looked_at_is_said(
    maker: Maker, name: str, value: str, said: str
) -> None:
    maker.write("v0.cu", VERSION)
    plain = name in ("title", "tolerance", "problems", "input_names")
    given = f"{name} = {value}" if plain else f"def {name}(*given):\n    return {value}"
    maker.write("study.py", f"{STUDY}\n{given}\n")
    with pytest.raises(UsageError) as raised:
        study = maker.load()
        problem = study.problem()
        study.flops(problem), study.bytes(problem)
        study.reference(problem, study.inputs(problem, np.random.default_rng(1)))
    assert said in raised.value.message and "study.py:1" in raised.value.message


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
        ('"Scale"', '""', "`title` must be a sentence", "workbench docs"),
        ("1e-6", "'x'", "`tolerance` must be 0 or a number below 1", "workbench docs"),
        ("1e-6", "-1e-9", "`tolerance` must be 0 or a number below 1", "workbench docs"),
        ('"one rounding"', "3", "`tolerance_why` must be a sentence", "workbench docs"),
        ('("x",)', '"x y"', "`input_names` must be a tuple of names", "workbench docs"),
        ('("x",)', '("x", "x")', "the name `x` is used twice", "rename one"),
        ('("x",)', '("N",)', "the name `N` is used twice", "rename one"),
        ("def flops", "def flop", "does not define `flops`", "`flop`"),
        ("def flops", "flops = 3\ndef other", "`flops` must be a function", "workbench docs"),
        ('{"N": 7,', '{"M": 7,', "do not have the same parameters: M, N", "all of them"),
        (
            '{"N": 7,',
            '{"N": 7.5,',
            "problem `n7`: `N` must be an integer, not 7.5",
            "workbench docs",
        ),
        ('{"N": 7,', '{"N": True,', "`N` must be an integer, not True", "workbench docs"),
        ('{"N": 7,', '{"max": 7,', "'max' cannot be a parameter's name", "not min"),
        ('"n7"', '"n 7"', "'n 7' cannot be a problem's name", "file name"),
        ('"verify"', '"verfiy"', "problem `n7`: unknown use 'verfiy'", "`verify`"),
        ("problems = {", "problems = {}\nother = {", "`problems` is empty", "workbench docs"),
        (
            "problems = {",
            "problems = 3\nother = {",
            "`problems` must be a dict or a list",
            "workbench docs",
        ),
        (
            "problems = {",
            "problems = [3]\nother = {",
            'a problem without a "name"',
            "workbench docs",
        ),
        (
            "problems = {",
            "problems = {'a': 3}\no = {",
            "problem `a` must be a dict",
            "workbench docs",
        ),
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
            "workbench docs",
        ),
        (
            '{"y": ((problem["N"],), "float32")}',
            "{}",
            "outputs() must give a dict like",
            "workbench docs",
        ),
        ("* 2}", "* 2.5}", "derive: `N2` must be an integer", "workbench docs"),
        ('{"N2": problem["N"] * 2}', "3", "derive must give a dict of integers", "workbench docs"),
        ('problem["N"] * 2}', 'problem["Q"]}', ":12: KeyError in derive(): 'Q'", "that line"),
        ("tolerance = 1e-6", "tolerance = 1 / 0", ":8: ZeroDivisionError while it was", "correct"),
        ("tolerance = 1e-6", "import nowhere_at_all", ":8: ModuleNotFoundError", "correct"),
        ("tolerance = 1e-6", "raise SystemExit(3)", ":8: SystemExit", "correct"),
        ("tolerance = 1e-6", "raise GeneratorExit", ":8: GeneratorExit while", "correct"),
        ('return {"N2"', 'raise GeneratorExit; return {"N2"', "GeneratorExit in derive()", "line"),
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
    if "float64 (999,)" in message:
        assert (
            caught.value.hint == "outputs() says what shape `y` has: correct that, or reference()."
        )
    assert caught.value.hint


def test_a_reference_may_be_whole_numbers_that_float64_holds(maker: Maker) -> None:
    right = '{"y": inputs["x"].astype("float64") * 2}'
    counted = '{"y": np.arange(problem["N"]) * FACTOR}'
    assert right in STUDY
    for factor, ok in (("1", True), ("2**50", False), ("np.int32(1)", True)):
        maker.write(
            "study.py",
            "import numpy as np\n" + STUDY.replace(right, counted.replace("FACTOR", factor)),
        )
        study = maker.load()
        problem = study.problem()
        given = study.inputs(problem, np.random.default_rng(1))
        if ok:
            found = study.reference(problem, given)["y"]
            assert found.dtype == np.float64 and found[-1] == 999
            continue
        with pytest.raises(UsageError, match=r"`y` is int64 \(1000,\), not float64"):
            study.reference(problem, given)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [("2**62,", "takes 18,446,744,073,709,551,616 bytes; the limit"), ("-1,", "must be .shape")],
)
def test_an_output_of_no_size(maker: Maker, sizes: str, words: str) -> None:
    maker.write("v0.cu", VERSION)
    given = f'return {{"y": (({sizes}), "float32")}}'
    maker.write("study.py", f"{STUDY}\ndef outputs(problem):\n    {given}\n")
    with pytest.raises(UsageError, match=words):
        maker.load()


def test_an_array_over_the_limit_may_be_allowed(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker.write("v0.cu", VERSION)
    given = 'return {"y": ((2**40,), "int8")}'
    maker.write("study.py", f"{STUDY}\ndef outputs(problem):\n    {given}\n")
    with pytest.raises(UsageError, match="takes 1,099,511,627,776 bytes"):
        maker.load()
    monkeypatch.setenv("WORKBENCH_LIMIT_MIB", str(2**20))
    assert maker.load().outputs(maker.load().problem()) == {"y": ((2**40,), "int8")}


def test_loading_leaves_no_trace(maker: Maker) -> None:
    maker.write("v0.cu", VERSION)
    maker.write("study.py", STUDY + "\nimport json\n")
    before = (list(sys.path), {k for k, m in sys.modules.items() if isinstance(m, ModuleType)})
    maker.load()
    assert sys.path == before[0]
    assert not [name for name in set(sys.modules) - before[1] if "study" in name]
    assert not list(maker.folder.rglob("__pycache__"))
