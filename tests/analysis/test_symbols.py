"""Reading sources: scopes, definitions, uses, and what a change reaches."""

from __future__ import annotations

import pytest

from workbench.analysis.source.files import read
from workbench.analysis.source.lines import scan
from workbench.analysis.source.links import FUNCTION, link
from workbench.analysis.source.symbols import SourceMap


def program(*texts: str) -> SourceMap:
    return read([scan(text, f"f{n}.cu") for n, text in enumerate(texts)])


def linked(old: str, new: str, lines: set[int]) -> dict[int, set[str]]:
    """Line of the new text -> symbols that link it, if `lines` are the one hunk."""
    sides = program(old), program(new)

    def hunks(place: tuple[int, int, int]) -> frozenset[int]:
        return frozenset({1}) if lines & set(range(place[1], place[2] + 1)) else frozenset()

    _, found = link(*sides, hunks, hunks, {})
    return {
        line: {symbol for _, symbol in chain.labels}
        for (_, line), chain in sorted(found.items())
        if line not in lines and chain.cost < FUNCTION
    }


def changed(text: str, what: str, into: str) -> dict[int, set[str]]:
    """Change the one line that holds `what`; returns what links the other lines."""
    at = text[: text.index(what)].count("\n") + 1
    return linked(text, text.replace(what, into, 1), {at})


def kernel(*body: str, before: str = "") -> str:
    head = "__global__ void k(const float* a, float* out, int n) {"
    return before + "\n".join([head, *(f"  {line}" for line in body), "}"]) + "\n"


def test_symbols_of_every_kind() -> None:
    found = program(
        "#define SQUARE(x) ((x) * (x) * SCALE)\n#define SCALE 2\n"
        "using real = float;\ntypedef int index_t;\nstruct P { float x; int m() { return x; } };\n"
        "enum Mode { FAST = 1, SLOW };\n__constant__ real weight[9];\n"
        "template <int W, typename U = float> __device__ U f(U (&b)[4], const P* p) {\n"
        "  __shared__ U tile[W][W + 1], *q; auto g = [&](int w) { return w + W; };\n"
        "  extern __shared__ char raw[]; dim3 grid(W, W);\n  return b[0];\n}\n"
    )
    assert {
        *("SQUARE macro", "SCALE macro", "real type", "index_t type", "P type", "x member P"),
        *("FAST variable", "weight variable", "f function", "b parameter f", "p parameter f"),
        *("W parameter f", "U parameter f", "tile variable f", "q variable f", "g variable f"),
        *("w parameter f", "raw variable f", "grid variable f"),
    } <= {f"{s.name} {s.kind} {s.scope}".strip() for s in found.symbols}


def test_declaration_links_all_its_uses() -> None:
    text = kernel(
        "__shared__ float s[32][32];", "s[0][n] = a[n];", "out[0] = s[1][2];", "out[1] = a[1];"
    )
    assert changed(text, "s[32][32]", "s[32][33]") == {3: {"s"}, 4: {"s"}}


def test_only_the_declarator_that_differs() -> None:
    text = kernel("int x = threadIdx.x, y = threadIdx.y;", "out[x] = 1;", "out[y] = 2;")
    assert changed(text, "y = threadIdx.y", "y = threadIdx.z") == {4: {"y"}}


def test_chain_through_unchanged_definitions() -> None:
    text = kernel(
        "int r = n;", "int i = r * 2;", "int j = i + 1;", "out[j] = a[0];", "out[3] = a[3];"
    )
    assert changed(text, "int r = n;", "int r = n + 1;") == {3: {"r"}, 4: {"r"}, 5: {"r"}}


def test_certain_overwrite_ends_a_chain() -> None:
    text = kernel("int i = n;", "out[i] = 1;", "i = 4;", "out[i] = 2;")
    assert changed(text, "int i = n;", "int i = n * 2;") == {3: {"i"}}


def test_overwrite_in_a_branch_does_not_end_it() -> None:
    text = kernel("int i = n;", "if (n > 3) {", "  i = 4;", "}", "out[i] = 2;")
    assert changed(text, "int i = n;", "int i = n * 2;") == {6: {"i"}}


def test_later_definition_reaches_back_only_around_a_loop() -> None:
    loop = kernel("int i = 0;", "while (n > 4) {", "  out[i] = 1;", "  i = i + n;", "}")
    assert changed(loop, "i = i + n", "i = i + 2 * n") == {4: {"i"}}
    line = kernel("int i = 0;", "out[i] = 1;", "i = i + n;", "out[i] = 2;")
    assert changed(line, "i = i + n", "i = i + 2 * n") == {5: {"i"}}


def test_inner_scope_shadows() -> None:
    text = kernel(
        "int i = n;", "for (int i = 0; i < 4; ++i) {", "  out[i] = 1;", "}", "out[i] = 2;"
    )
    assert changed(text, "int i = n;", "int i = n * 2;") == {6: {"i"}}
    assert changed(text, "int i = 0;", "int i = 1;") == {4: {"i"}, 5: {"for i"}}


def test_member_is_no_variable() -> None:
    text = kernel(
        "int x = n;", "float4 v = make_float4(1, 2, 3, 4);", "out[0] = v.x;", "out[1] = x;"
    )
    assert changed(text, "int x = n;", "int x = n * 2;") == {5: {"x"}}


def test_macro_in_a_macro_and_names_in_its_body() -> None:
    before = "#define A 4\n#define B (A * 2)\n#define LOAD(i) s[i]\n"
    text = kernel("float s[9];", "out[0] = B;", "out[1] = LOAD(1);", "out[2] = 7;", before=before)
    assert changed(text, "A 4", "A 5") == {2: {"A"}, 6: {"A"}}
    assert changed(text, "float s[9]", "float s[10]") == {7: {"s"}}


def test_type_reaches_variables_of_it() -> None:
    before = "struct P { float x; };\nusing Q = P;\n"
    text = kernel("Q p = {1};", "out[0] = p.x;", "out[1] = 7;", before=before)
    found = changed(text, "float x;", "float x, y;")
    assert found == {2: {"P"}, 4: {"P"}, 5: {"P"}}


def test_template_argument_and_default() -> None:
    before = "template <int W> __device__ float f(float v) {\n  return v * W;\n}\n"
    text = kernel("out[0] = f<2>(a[0]);", "out[1] = 3;", before=before)
    assert 2 in changed(text, "int W>", "long W>")


def test_loop_bound_governs_the_body() -> None:
    text = kernel("for (int i = 0; i < 4; ++i) {", "  out[0] += 1.0f;", "}", "out[1] = 2;")
    assert changed(text, "i < 4", "i < 8") == {3: {"for i"}, 4: {"for i"}}


def test_early_exit_governs_what_follows() -> None:
    text = kernel("out[0] = 1;", "if (n > 4) return;", "out[1] = 2;")
    assert changed(text, "n > 4", "n > 5") == {4: {"if"}, 5: {"if"}}


def test_call_of_a_changed_function_and_arguments_of_a_changed_call() -> None:
    before = "__device__ float f(float v) {\n  float w = v + 1;\n  return w;\n}\n"
    text = kernel("float x = a[0];", "out[0] = f(x);", "out[1] = a[1];", before=before)
    assert changed(text, "v + 1", "v + 2") == {3: {"w"}, 7: {"f"}}
    assert changed(text, "float x = a[0]", "float x = a[2]") == {2: {"x"}, 3: {"x"}, 7: {"x"}}


def test_store_to_an_element_reaches_the_loads() -> None:
    text = kernel("float s[9];", "s[n] = a[0];", "out[0] = s[1];", "out[1] = a[2];")
    assert changed(text, "s[n] = a[0]", "s[n] = a[1]") == {4: {"s"}}


def test_a_condition_of_a_call_governs_the_called_function() -> None:
    before = "__device__ float f(float v) {\n  return v * 2;\n}\n"
    text = kernel("if (n > 3) {", "  out[0] = f(a[0]);", "}", "out[1] = 3;", before=before)
    assert changed(text, "n > 3", "n > 4") == {n: {"if"} for n in (1, 2, 3, 6, 7)}


def test_function_level_change_is_the_weakest_link() -> None:
    text = kernel("out[0] = 1;")
    new = text.replace("void k", "void __launch_bounds__(64) k")
    sides = program(text), program(new)

    def hunks(place: tuple[int, int, int]) -> frozenset[int]:
        return frozenset({1}) if place[1] == 1 else frozenset()

    _, found = link(*sides, hunks, hunks, {})
    assert found[0, 2].labels == {(1, "k")} and found[0, 2].cost == FUNCTION


def test_names_are_found_across_files() -> None:
    found = program("__device__ int f(int x) { return x; }\n", kernel("out[0] = f(n);"))
    assert [(found.symbols[u.symbol].name, u.file) for u in found.uses if u.line == 2] == [
        ("out", 1),
        ("f", 1),
        ("n", 1),
    ]


@pytest.mark.parametrize(
    "text", ["", "}}}}", "template <", "#define", "int", "((((", "for (;;", "\0"]
)
def test_any_text_is_read(text: str) -> None:
    assert program(text, kernel("out[0] = n;")).routines[-1].name == "k"


def test_many_definitions_of_one_variable_stay_quick() -> None:
    lines = ["float acc = 0;", *(f"acc += a[{n}];" for n in range(3000)), "out[0] = acc;"]
    found = changed(kernel(*lines), "acc += a[17]", "acc += a[18]")
    assert found[3003] == {"acc"}


TRITON = """\
BLOCK = 64

@triton.jit
def scale(x, y, n, W: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * W + tl.arange(0, W)
    mask = at < n
    v = tl.load(x + at, mask=mask)
    for k in range(0, n):
        v += helper(v, k)
        y[0] = 1
    if n > 4:
        tl.store(y + at, v, mask=mask)
    w = 3

def helper(a, b):
    c = a * 2
    return c + b

def launch(x, y):
    scale[(4,)](x, y, 7, BLOCK)
"""


def python_links(what: str, into: str, text: str = TRITON) -> dict[int, set[str]]:
    at = text[: text.index(what)].count("\n") + 1
    sides = read([scan(text, "v.py")]), read([scan(text.replace(what, into, 1), "v.py")])

    def hunks(place: tuple[int, int, int]) -> frozenset[int]:
        return frozenset({1}) if place[1] <= at <= place[2] else frozenset()

    _, found = link(*sides, hunks, hunks, {})
    return {
        line: {symbol for _, symbol in chain.labels}
        for (_, line), chain in sorted(found.items())
        if line != at and chain.cost < FUNCTION
    }


def test_python_names_reach_their_uses() -> None:
    found = python_links("pid * W", "pid * W * 2")
    assert {line: names for line, names in found.items() if line in (7, 8, 13, 14)} == {
        7: {"at"},
        8: {"at"},
        13: {"at"},
    }


def test_python_loops_and_conditions_govern() -> None:
    assert python_links("range(0, n)", "range(1, n)")[11] == {"for k"}
    assert python_links("n > 4", "n > 5") == {13: {"if"}}


def test_python_functions_and_constants() -> None:
    found = python_links("a * 2", "a * 3")
    assert found[18] == {"c"} and found[10] == {"helper"}
    assert python_links("BLOCK = 64", "BLOCK = 128")[21] == {"BLOCK"}


def test_a_type_that_only_one_side_writes_is_no_change() -> None:
    """A program's launch says its kernel's types; a version of its source writes them down."""
    typed = TRITON.replace("(x, y, n, W", '(x: "*fp32", y: "*fp32", n: "i32", W')
    assert python_links("x, y, n, W", 'x: "*fp32", y: "*fp32", n: "i32", W') == {}
    assert python_links('x: "*fp32", y: "*fp32", n: "i32"', "x, y, n", typed) == {}
    assert python_links('n: "i32"', 'n: "i64"', typed)[12] == {"n"}
    assert python_links("W: tl.constexpr", "W")[6] == {"W"}


@pytest.mark.parametrize("text", ["def (:", "x = " + "(" * 3000, "\0", "a = " + "-" * 5000 + "1"])
def test_any_python_is_read(text: str) -> None:
    assert isinstance(read([scan(text, "v.py")]), SourceMap)


def test_an_argument_that_was_only_renamed_explains_nothing() -> None:
    """`v` of the kernel is another name elsewhere, so that it is no renaming of the whole text."""
    text = (
        "__device__ float f(const float* v, int n) {\n  return v[n];\n}\n"
        "__global__ void k(const float* v, float* out) {\n  out[0] = f(v, 1);\n  int u = 0;\n}\n"
        "__global__ void other(float* u, float* v) { u[0] = v[0]; }\n"
    )
    new = text.replace("const float* v, float* out", "const float* w, float* out")
    assert linked(text, new.replace("f(v, 1)", "f(w, 1)"), {4, 5}) == {}
    assert linked(text, new.replace("f(v, 1)", "f(w, 2)"), {4, 5})[2] == {"n"}
