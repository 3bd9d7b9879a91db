"""Hints on what a version's file says, each followed literally: wrong, the hint, mended."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.ptxemu.test_hints import all_hints
from tests.study_maker import VERSION, Maker
from workbench.errors import UsageError
from workbench.study.launches import resolve_fills, resolve_launches, resolve_scratch
from workbench.study.signatures import check_arguments


class Mended(NamedTuple):
    """Text of `VERSION`, what stands there wrongly, part of the hint, and what follows it."""

    right: str
    wrong: str
    hint: str
    after: str


ARGS = 'args = ["x", "y", "tmp", "N", "long(N*N)", 1.5, "double(N)", "float(2)"]'
LAUNCH, EXPECT = "[[launch]]", "[[expect]]"
SECOND = '[[scratch]]\nname = "{}"\ndtype = "float32"\nshape = [4]\n' + LAUNCH
FILL = "[[fill]]\n{}\n" + LAUNCH
MAP = '[[tensor_map]]\nname = "{}"\nbuffer = "x"\ndtype = "float32"\n{}box = [4]\n' + LAUNCH
TEXTURE = '[[texture]]\nname = "t"\nbuffer = "{}"\ndtype = "float32"\ndims = [32]\n{}' + LAUNCH
DIMS = "dims = [4]\n"
TUNE = "[tune]\n{}\n" + LAUNCH
PTX = ".visible .entry scale(\n{}\n)\n{{\n}}\n"
TWO = ".param .u64 a,\n.param .u64 b"

FOLLOWED = {
    "kernel": Mended('"scale"\ngrid', '"scale me"\ngrid', "Write the name of the __global__",
                     '"scale<float>"\ngrid'),
    "triton's": Mended("cluster = [1]", "num_stages = 2", "It applies to Triton kernels",
                       ""),
    "missing": Mended('block = ["TILE", 2]', "", "Add {} = [256].", "block = [256]"),
    "empty struct": Mended('"tmp", "N"', '[], "N"', "or leave it out", '["x", "N", "float(0.5)"]'),
    "a name twice": Mended(LAUNCH, SECOND.format("tmp"), "Give every scratch buffer a name",
                           SECOND.format("other")),
    "no shape": Mended('shape = ["N2", "TILE"]', "", "Add shape = ", 'shape = ["N", "N"]'),
    "filled twice": Mended(LAUNCH, FILL.format('name = "y"\nvalue = 0\n[[fill]]\nname = "y"\n'
                                               "value = 1"),
                           "Keep one [[fill]] for each name", FILL.format('name = "y"\nvalue = 1')),
    "filled with nothing": Mended(LAUNCH, FILL.format('name = "y"'), "Write value = 0",
                                  FILL.format('name = "y"\nvalue = [1, 0]')),
    "a map's name": Mended(LAUNCH, MAP.format("tmp", DIMS), "no scratch buffer, tensor map or",
                           MAP.format("m", DIMS)),
    "no axes": Mended(LAUNCH, MAP.format("m", ""), 'Add dims = ["K", "M"], K innermost',
                      MAP.format("m", DIMS)),
    "a macro's name": Mended("TILE = 64", 'TILE = 64\n"A-B" = 1', "Use letters, digits and _.",
                             "TILE = 64\nA_B = 1"),
    "a macro's value": Mended("TILE = 64", "TILE = [64]", "Write {} = 32.", "TILE = 32"),
    "open": Mended("--- */", "---", "End it with a line `--- */`.", "--- */"),
    "a comment's end": Mended('change = "c"', 'change = "a */ b"', "Remove it: the compiler",
                              'change = "a b"'),
    "quotes": Mended('grid = ["cdiv(N, TILE)"]', "grid = [cdiv(N, TILE)]",
                     "Write expressions and names in quotes: {}", 'grid = ["cdiv(N, TILE)"]'),
    "no launch": Mended(VERSION[VERSION.index(LAUNCH) : VERSION.index(EXPECT)], "",
                        "Add one: kernel, grid, block and args.",
                        f'{LAUNCH}\nkernel = "scale"\ngrid = [1]\nblock = [32]\nargs = ["x"]\n'),
    "four dimensions": Mended('["TILE", 2]', "[8, 2, 2, 2]",
                              "A launch has at most {} dimensions: x, y, z.", "[8, 4, 2]"),
    "a missing string": Mended('kernel = "scale"', "", 'Add {} = "…".', 'kernel = "scale"'),
    "an array of an output": Mended(LAUNCH, TEXTURE.format("y", ""), 'Write layout = "linear"',
                                    TEXTURE.format("y", 'layout = "linear"\n')),
    "too wide for int": Mended('"long(N*N)"', '"N*10**9"', "Write long({})", '"long(N*10**9)"'),
    "never launched": Mended("cluster = [1]", 'when = "N < 0"', "Make one of them true",
                             'when = "N > 0"'),
    "a cluster": Mended("cluster = [1]", "cluster = [3]", "Each dimension must divide the grid's",
                        "cluster = [1]"),
    "an input filled": Mended(LAUNCH, FILL.format('name = "x"\nvalue = 0'), "Fill an output",
                              FILL.format('name = "y"\nvalue = 0')),
    "a type twice": Mended(LAUNCH, FILL.format('name = "y"\nvalue = 0\ndtype = "int32"'),
                           "Leave `dtype` out.", FILL.format('name = "y"\nvalue = 0')),
    "a variable's type": Mended(LAUNCH, FILL.format('name = "table"\nvalue = 0.5'),
                                'Add dtype = "float32" for a variable',
                                FILL.format('name = "table"\nvalue = 0.5\ndtype = "float32"')),
    "beyond its type": Mended(LAUNCH, FILL.format('name = "t"\nvalue = 300\ndtype = "uint8"'),
                              "From {} to {}.",
                              FILL.format('name = "t"\nvalue = 255\ndtype = "uint8"')),
    "a point": Mended(LAUNCH, FILL.format('name = "t"\nvalue = 0.5\ndtype = "uint8"'),
                      "Write it without a decimal point.",
                      FILL.format('name = "t"\nvalue = 5\ndtype = "uint8"')),
    "a name for two": Mended(LAUNCH, MAP.format("N", DIMS), "must all have different names",
                             MAP.format("m", DIMS)),
    "a grid": Mended('["cdiv(N, TILE)"]', '["N - N"]', "It must be from 1 to {}.", '["N"]'),
    "a map in a struct": Mended(f"{LAUNCH}\nkernel", MAP.format("m", DIMS) + "\nkernel",
                                "Give it as an argument of its own", "m"),
    "before its buffer": Mended('"x", "y", "tmp"', '"at(x, -4)", "y", "tmp"',
                                "Count bytes from 0.", '"at(x, 4)", "y", "tmp"'),
    "beyond a float": Mended("1.5", "1e39", "double({}) does.", '"double(1e39)"'),
    "a block": Mended('["TILE", 2]', '["TILE", 32]', "A block has at most {} threads",
                      "[32, 32]"),
    "negative": Mended('"4*TILE"', '"0 - 4"', "It must be 0 or more.", "0"),
    "no list of values": Mended(LAUNCH, TUNE.format("TILE = 64"), "Write {} = [16, 32].",
                                TUNE.format("TILE = [64, 32]")),
    "a value twice": Mended(LAUNCH, TUNE.format("TILE = [64, 64]"), "Keep each only once.",
                            TUNE.format("TILE = [64]")),
    "without its own": Mended(LAUNCH, TUNE.format("TILE = [32]"), "Add {}: the gain from tuning",
                              TUNE.format("TILE = [32, 64]")),
    "nothing to tune": Mended(LAUNCH, TUNE.format('requires = "1"'), "Give 1 to {} of them",
                              TUNE.format('TILE = [64]\nrequires = "1"')),
    "a rule": Mended(LAUNCH, TUNE.format("TILE = [64]\nrequires = 1"), "Write requires = ",
                     TUNE.format('TILE = [64]\nrequires = "TILE <= 1024"')),
    "Triton's to tune": Mended(LAUNCH, TUNE.format("num_warps = [4]"), "Tune block, and defines.",
                               TUNE.format("TILE = [64]")),
    "no block": Mended(LAUNCH, TUNE.format("block = [0]"), "Each is {}.",
                       TUNE.format("TILE = [64]")),
    "an empty buffer": Mended('["N2", "TILE"]', '["N - N"]', "Every dimension must be 1 or more.",
                              '["N"]'),
}  # fmt: skip
#: Of arguments beside the kernel's parameters in PTX.
ARGUMENTS = {
    "an integer for a float": (".param .f32 a", '["N"]', "Write float({}).", '["float(N)"]'),
    "a float for an integer": (".param .u32 a", "[2.0]", "Write {}.", "[2]"),
    "another size": (".param .u64 a", '["N"]', "Give its type: long(N)", '["long(N)"]'),
    "too many": (TWO, '["x", "y", "N"]', "is one argument: a list of its members", '["x", "y"]'),
    "a struct's members": (".param .align 4 .b8 a[8]", '[["N"]]', "Give every member of the struct",
                           '[["N", "float(0.5)"]]'),
    "none": (TWO, "[]", "in the order of its parameters", '["x", "y"]'),
    "a number for a pointer": (TWO, '["long(4)", "y"]', "long(0) is a null pointer",
                               '["long(0)", "y"]'),
    "a buffer for a number": (TWO, '["x", "y"]', "Write a parameter of the problem there",
                              '["x", "N"]'),
}  # fmt: skip
#: Followed elsewhere (Triton's and Python's own keys, textures, lifted images), or told of limits.
ELSEWHERE = (
    "Write only the name of the function", "Triton decides it", "Triton takes num_warps",
    "Its prepare() launches", "End it with a second line", "A version's file starts with",
    "`workbench new --from-launch …` writes", "`workbench new` starts a version of the source",
    "Correct the f", "Correct `dims`", "Require this: requires", "Name a buffer there, or let",
    "Describe one in a [[texture]]", "NumPy creates {}", "Tune num_warps", "Use a define in them",
)  # fmt: skip


def judged(maker: Maker, text: str, ptx: str = "") -> UsageError | None:
    """What is wrong with a version, its launches, buffers or fills on any problem."""
    maker.write("v0.cu", text)
    try:
        study = maker.load()
        for error in study.broken.values():
            raise error
        version = study.version("v0")
        for problem in study.problems.values():
            launches = resolve_launches(study, version, problem)
            resolve_scratch(study, version, problem)
            resolve_fills(study, version, problem)
            check_arguments(version, ptx, launches)
    except UsageError as error:
        return error
    return None


def held(hint: str, error: UsageError | None) -> bool:
    """Whether an error's hint is that one; `{}` stands for what the error puts in."""
    return error is not None and all(part in error.hint for part in hint.split("{}"))


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_hint_is_followed_and_helps(maker: Maker, name: str) -> None:
    case = FOLLOWED[name]
    assert VERSION.count(case.right) == 1
    wrong, after = (VERSION.replace(case.right, each) for each in (case.wrong, case.after))
    if name == "a map in a struct":
        plain = VERSION.replace(case.right, case.wrong)
        wrong, after = (
            plain.replace(ARGS, f"args = {x}") for x in ('[["m", "N"], "y"]', '["m", "y"]')
        )
    error = judged(maker, wrong)
    assert held(case.hint, error), error
    mended = judged(maker, after)
    assert mended is None, mended


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_hint_on_arguments_is_followed_and_helps(maker: Maker, name: str) -> None:
    parameters, wrong, hint, after = ARGUMENTS[name]
    text = VERSION
    if name == "a buffer for a number":
        text = text.replace("float* y)", "int n)")
        parameters = ".param .u64 a,\n.param .u32 b"
    error = judged(maker, text.replace(ARGS, f"args = {wrong}"), PTX.format(parameters))
    assert held(hint, error), error
    mended = judged(maker, text.replace(ARGS, f"args = {after}"), PTX.format(parameters))
    assert mended is None, mended


def test_every_hint_on_a_version_is_followed_somewhere() -> None:
    places = tuple(
        f"workbench/study/{each}.py" for each in ("frontmatter", "launches", "signatures")
    )
    followed = [*(case.hint for case in FOLLOWED.values()), *(x[2] for x in ARGUMENTS.values())]
    left = [
        hint
        for hint in all_hints()
        if hint.place.startswith(places)
        and not hint.text.startswith(ELSEWHERE)
        and not any(each in hint.text for each in followed)
    ]
    assert left == []
