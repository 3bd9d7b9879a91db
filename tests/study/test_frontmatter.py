from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.errors import UsageError
from workbench.study import frontmatter
from workbench.study.keys import key_lines

FULL = '''/* ---
title  = "Thread tile"                 # line 2
parent = "v2"
change = """Two
lines."""
flags  = ["-maxrregcount=64"]
requires = "N % 4 == 0"
requires_why = "float4 loads"

[defines]
TILE = 32
FAST = true
NAME = "x"

[[scratch]]
name  = "columns"
dtype = "float32"
shape = ["M", "cdiv(N, TILE) * TILE"]

[[launch]]
kernel = "im2col"
grid   = "cdiv(M, 256)"
block  = 256
args   = ["input", "columns", "M"]

[[launch]]
kernel  = "gemm"
grid    = ["cdiv(N, 64)",
           "cdiv(M, 64)"]
block   = [16, 16]
args    = ["columns", "output", "N", 1.5, "long(M*N)"]
dynamic_shared = "4 * TILE"
cluster = [2, 1]
cooperative = true

[[expect]]
counter = "mio_throttle"
change  = "-50%"
why     = "fewer loads"
--- */
__global__ void im2col() {}
'''

PYTHON = '''#!/usr/bin/env python
r"""A library to beat.

---
title    = "cuBLAS \\\\ d"
baseline = true
---
More prose.
"""

import os


def prepare(problem, parameters, buffers):
    return os.getpid
'''

MINIMAL = """/* ---
title = "t"
[[launch]]
kernel = "k"
grid = [1]
block = [32]
--- */
"""


def parse(text: str, kind: frontmatter.Kind = "cuda") -> frontmatter.FrontMatter:
    return frontmatter.parse(text, path="kernels/s/v1_x.cu", kind=kind)


def test_every_key_is_read() -> None:
    front = parse(FULL)
    assert (front.title, front.parent, front.change) == ("Thread tile", "v2", "Two\nlines.")
    assert front.flags == ("-maxrregcount=64",)
    assert (front.requires, front.requires_why) == ("N % 4 == 0", "float4 loads")
    assert front.defines == {"TILE": "32", "FAST": "1", "NAME": "x"}
    (buffer,) = front.scratch
    assert (buffer.name, buffer.dtype) == ("columns", "float32")
    assert buffer.shape == ("M", "cdiv(N, TILE) * TILE")
    first, second = front.launches
    assert (first.kernel, first.grid, first.block) == ("im2col", ("cdiv(M, 256)",), ("256",))
    assert second.grid == ("cdiv(N, 64)", "cdiv(M, 64)")
    assert second.args == ("columns", "output", "N", "1.5", "long(M*N)")
    assert (second.dynamic_shared, second.cluster) == ("4 * TILE", ("2", "1"))
    assert second.cooperative and not first.cooperative
    (expectation,) = front.expectations
    assert (expectation.counter, expectation.change, expectation.why) == (
        "mio_throttle",
        "-50%",
        "fewer loads",
    )
    assert not front.baseline


def test_lines_are_the_files_own() -> None:
    front = parse(FULL)
    rows = FULL.split("\n")
    assert front.lines == (1, rows.index("--- */") + 1)
    for key, start in {
        "title": "title ",
        "change": "change = ",
        "flags": "flags",
        "defines": "[defines]",
        "defines.TILE": "TILE",
        "scratch[0].shape": "shape",
        "launch[1].kernel": "kernel  =",
        "launch[1].args": "args    =",
        "expect[0].why": "why",
    }.items():
        assert rows[front.key_lines[key] - 1].startswith(start), key
    assert rows[front.launches[1].line - 1] == "[[launch]]"
    assert rows[front.expectations[0].line - 1] == "[[expect]]"
    assert rows[front.scratch[0].line - 1] == "[[scratch]]"


def test_a_docstring_between_two_rules() -> None:
    front = parse(PYTHON, "python")
    # The docstring's source is taken as it stands: the TOML, not Python, reads escapes.
    assert front.title == "cuBLAS \\ d"
    assert front.baseline
    assert front.lines == (4, 7)
    assert front.key_lines["title"] == 5
    code = frontmatter.code(PYTHON, kind="python")
    assert "baseline" not in code
    assert "import os" in code


def test_a_bad_escape_in_a_docstring_prints_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(UsageError, match=":3: not valid TOML"):
        parse('"""\n---\ntitle = "\\d"\n---\n"""\n', "python")
    assert not list(recwarn)


def test_a_docstring_that_opens_with_the_rule() -> None:
    front = parse('"""---\ntitle = "t"\n---\n"""\n', "python")
    assert (front.title, front.lines) == ("t", (1, 3))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_byte_order_mark_do_not_matter(end: str, mark: str) -> None:
    text = mark + FULL.replace("\n", end)
    assert parse(text) == parse(FULL)


def test_code_is_what_follows() -> None:
    assert frontmatter.code(MINIMAL + "int x;\n", kind="cuda") == "int x;\n"
    assert frontmatter.code("int x;\n", kind="cuda") == "int x;\n"
    assert frontmatter.code("x = 1\n", kind="python") == "x = 1\n"
    assert frontmatter.present(MINIMAL, path="x", kind="cuda")
    assert not frontmatter.present("// no\n" + MINIMAL, path="x", kind="cuda")
    assert not frontmatter.present('"""Helper."""\n', path="x", kind="python")
    assert not frontmatter.present("x = 1\n", path="x", kind="python")


LAUNCH = '[[launch]]\nkernel = "k"\ngrid = [1]\nblock = [32]\n'


@pytest.mark.parametrize(
    ("toml", "line", "message", "hint"),
    [
        ('titel = "t"\n' + LAUNCH, 2, "unknown key `titel`", "`title`"),
        (LAUNCH, 1, "`title` is missing", "title ="),
        ('title = ""\n' + LAUNCH, 2, "`title` is missing", "title ="),
        ("title = 3\n" + LAUNCH, 2, "`title` must be a string, not 3", "title ="),
        ('title = "t"\n', 1, "no [[launch]]", "kernel, grid, block"),
        ('title = "t"\nlaunch = 3\n', 3, "`launch` must be a list of tables", "[[launch]]"),
        ('title = "t"\n[launch]\nkernel = "k"\n', 3, "must be a list of tables", "[[launch]]"),
        ('title = "t"\n[[launch]]\ngrid = [1]\nblock = [1]\n', 3, "`kernel` is missing", "kernel"),
        ('title = "t"\n[[launch]]\nkernel = "k"\nblock = [1]\n', 3, "`grid` is missing", "grid"),
        ('title = "t"\n[[launch]]\nkernel = "k"\ngrid = [1]\n', 3, "`block` is missing", "block"),
        ('title = "t"\n' + LAUNCH + "blok = 1\n", 7, "unknown key `blok` in [[launch]]", "`block`"),
        ('title = "t"\n' + LAUNCH.replace("[1]", "[1,1,1,1]"), 5, "4 dimensions", "x, y, z"),
        ('title = "t"\n' + LAUNCH.replace("[1]", "[1.5]"), 5, "not 1.5", "cdiv"),
        ('title = "t"\n' + LAUNCH.replace("[1]", "[true]"), 5, "not True", "cdiv"),
        (
            'title = "t"\n' + LAUNCH.replace('"k"', '"k<4"'),
            4,
            "`k<4` is not a function",
            "k<float>",
        ),
        ('title = "t"\n' + LAUNCH + "args = [[[1]]]\n", 7, "not [1]", "struct"),
        ('title = "t"\n' + LAUNCH + 'args = ["x", [1, true]]\n', 7, "not True", "struct"),
        ('title = "t"\n' + LAUNCH + 'args = ["x", []]\n', 7, "without members", "in order"),
        ('title = "t"\nbaseline = "yes"\n' + LAUNCH, 3, "must be true or false", "baseline"),
        ('title = "t"\nflags = "-O2"\n' + LAUNCH, 3, "must be a list of strings", "flags"),
        ('title = "t"\ndefines = 3\n' + LAUNCH, 3, "`defines` must be a table", "[defines]"),
        ('title = "t"\n' + LAUNCH + "[defines]\nX = [1]\n", 8, "`X` must be a number", "X = 32"),
        ('title = "t"\n' + LAUNCH + '[defines]\n"a-b" = 1\n', 8, "not a macro name", "letters"),
        (
            'title = "t"\n' + LAUNCH + '[[scratch]]\nname = "a"\ndtype = "flaot32"\nshape = [1]\n',
            9,
            "unknown dtype `flaot32`",
            "`float32`",
        ),
        (
            'title = "t"\n' + LAUNCH + '[[scratch]]\nname = "a"\ndtype = "int8"\n',
            7,
            "`shape` is missing",
            "shape =",
        ),
        (
            'title = "t"\n' + LAUNCH + '[[scratch]]\nname = "a"\ndtype = "int8"\nshape = [1]\n' * 2,
            12,
            "used twice",
            "name of its own",
        ),
        (
            'title = "t"\n' + LAUNCH + '[[expect]]\ncounter = "duration"\n',
            7,
            "`change` is missing in [[expect]]",
            "change =",
        ),
        (
            'title = "t"\n' + LAUNCH + '[[expect]]\ncounter = "duration"\nchange = "< 0.8y"\n',
            9,
            "cannot read the expected change '< 0.8y'",
            "< 0.1x",
        ),
        (
            'title = "t"\ntitle = "u"\n' + LAUNCH,
            3,
            "not valid TOML: Cannot overwrite",
            "workbench docs front",
        ),
        ('title = "t\n' + LAUNCH, 2, "not valid TOML", "workbench docs front-matter"),
        ('title = "t"\nflags = ["a"\n', 4, "not valid TOML", "workbench docs front-matter"),
        ('title = "a */ b"\n' + LAUNCH, 2, "`*/` inside the front matter", "Remove it"),
    ],
)
def test_a_mistake_is_named_with_its_line(toml: str, line: int, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(f"/* ---\n{toml}--- */\nvoid k();\n")
    assert caught.value.message.startswith(f"kernels/s/v1_x.cu:{line}: ")
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("int x;\n", "cuda", ":1: no front matter"),
        ("", "cuda", ":1: no front matter"),
        ('\n/* ---\ntitle = "t"\n', "cuda", ":2: the front matter is not closed"),
        ('"""Prose."""\n', "python", ":1: no front matter"),
        ('"""\n---\ntitle = "t"\n"""\n', "python", ":2: the front matter is not closed"),
        ("def (:\n", "python", ":1: not valid Python"),
        ('x = 1\n"""\n---\n---\n"""', "python", ":1: no front matter"),
        ('"""\n---\ntitle="t"\nflags=[]\n---\n"""', "python", ":4: `flags` does not apply"),
        ('"""\n---\ntitle=3\n---\n"""', "python", ":3: `title` must be a string"),
        ("\0", "python", ":1: not valid Python"),
    ],
)
def test_no_front_matter_or_half_of_it(text: str, kind: frontmatter.Kind, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, kind)
    assert message in caught.value.message
    assert caught.value.hint


@given(st.text(max_size=200), st.sampled_from(["cuda", "python"]))
@settings(max_examples=80)
def test_any_text_gives_front_matter_or_a_usage_error(text: str, kind: frontmatter.Kind) -> None:
    for candidate in (text, f"/* ---\n{text}\n--- */\n", f'"""\n---\n{text}\n---\n"""\n'):
        try:
            parse(candidate, kind)
        except UsageError as error:
            assert error.message.startswith("kernels/s/v1_x.cu:")
            assert error.hint


word = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
prose = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\x7f"), max_size=40
).filter(lambda text: "*/" not in text)


@st.composite
def front_matters(draw: st.DrawFn) -> tuple[str, dict[str, object]]:
    """TOML with the values that it stands for, in many layouts."""
    blank = draw(st.sampled_from(["", "\n", "# [[launch]] title = 'no'\n", "\n\n"]))
    title = draw(prose.map(str.strip).filter(bool))
    change = draw(prose)
    launches = draw(st.lists(st.tuples(word, st.lists(prose, max_size=3)), min_size=1, max_size=3))
    defines = draw(st.dictionaries(word, st.integers(0, 99), max_size=3))
    toml = f"title = {json.dumps(title, ensure_ascii=False)}\n{blank}"
    toml += f"change = {json.dumps(change, ensure_ascii=False)} # no\n{blank}"
    for kernel, args in launches:
        separator = draw(st.sampled_from([", ", ",\n  ", ", # ]\n"]))
        listed = separator.join(json.dumps(each, ensure_ascii=False) for each in args)
        toml += f'[[launch]]\n{blank}kernel = "{kernel}"\ngrid = [1]\nblock = ["M"]\n'
        toml += f"args = [{listed}\n]\n{blank}"
    if defines:
        toml += "[defines]\n" + "".join(f"{key} = {value}\n" for key, value in defines.items())
    expected: dict[str, object] = {
        "title": title,
        "change": change.strip(),
        "launches": [(kernel, tuple(each.strip() for each in args)) for kernel, args in launches],
        "defines": {key: str(value) for key, value in defines.items()},
    }
    return toml, expected


@given(front_matters(), st.sampled_from(["\n", "\r\n"]))
@settings(max_examples=80)
def test_what_is_written_is_read_at_its_line(
    written: tuple[str, dict[str, object]], end: str
) -> None:
    toml, expected = written
    text = f"/* ---\n{toml}--- */\nint x;\n"
    front = parse(text.replace("\n", end))
    assert front.title == expected["title"]
    assert front.change == expected["change"]
    assert [(each.kernel, each.args) for each in front.launches] == expected["launches"]
    assert front.defines == expected["defines"]
    rows = text.split("\n")
    assert rows[front.lines[1] - 1] == "--- */"
    for index, launch in enumerate(front.launches):
        assert rows[launch.line - 1] == "[[launch]]"
        line = front.key_lines[f"launch[{index}].kernel"]
        assert rows[line - 1] == f'kernel = "{launch.kernel}"'
    for name in front.defines:
        assert rows[front.key_lines[f"defines.{name}"] - 1].startswith(f"{name} = ")


def test_lines_of_keys_inside_strings_are_not_keys() -> None:
    toml = (
        'a = \'\'\'\nb = 1\n[c]\n\'\'\'\nd = """x\\"""\ne = 2"""\n[t]\n"q r".s = {u = 1}\nv = 1\n'
    )
    assert key_lines(toml) == {"a": 1, "d": 5, "t": 7, "t.q r.s": 8, "t.v": 9}


def test_a_tolerance_of_ones_own_has_a_reason() -> None:
    assert parse(MINIMAL).tolerance is None
    keys = 'title = "t"\ntolerance = 1e-3\ntolerance_why = "it rounds"'
    front = parse(MINIMAL.replace('title = "t"', keys))
    assert (front.tolerance, front.tolerance_why) == (1e-3, "it rounds")
    front = parse(MINIMAL.replace('title = "t"', 'title = "t"\nrequires = ["N > 1", "N % 2 == 0"]'))
    assert front.requires == "(N > 1) and (N % 2 == 0)"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("tolerance = 2", "kernels/s/v1_x.cu:3: `tolerance` must be 0 or a number below 1"),
        ("tolerance = -1", "`tolerance` must be 0 or a number below 1, not -1"),
        ('tolerance = "1e-3"', "must be 0 or a number below 1, not '1e-3'"),
        ("tolerance = true", "must be 0 or a number below 1, not True"),
    ],
)
def test_a_tolerance_that_is_none_is_refused(keys: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(MINIMAL.replace('title = "t"', f'title = "t"\n{keys}'))
    assert message in caught.value.message
    assert caught.value.hint


def test_front_matter_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    long = f"/* ---\n# {'x' * 70_000}\n--- */\n"
    with pytest.raises(UsageError, match=r"v1_x\.cu:1 has 70,0\d\d characters .* limit") as caught:
        parse(long)
    assert "WORKBENCH_LIMIT_MIB=N" in caught.value.hint
    monkeypatch.setenv("WORKBENCH_LIMIT_MIB", "1")
    with pytest.raises(UsageError, match=r"`title` is missing|no .*launch"):
        parse(long)
