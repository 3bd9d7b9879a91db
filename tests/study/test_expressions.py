from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.errors import UsageError
from workbench.study.expressions import FUNCTIONS, LIMIT, MAX_LENGTH, evaluate, names_in

NAMES = {"M": 300, "N": 7, "K": 1, "zero": 0, "minus": -13}


def python_cdiv(a: int, b: int) -> int:
    return -(-a // b)


atoms = st.one_of(st.integers(0, 5000).map(str), st.sampled_from(sorted(NAMES)))


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = ["+", "-", "*", "//", "%", "<", "<=", ">", ">=", "==", "!=", "and", "or"]
    return st.one_of(
        st.tuples(inner, st.sampled_from(operators), inner).map(lambda t: f"({' '.join(t)})"),
        inner.map(lambda text: f"(-{text})"),
        inner.map(lambda text: f"(not {text})"),
        inner.map(lambda text: f"abs({text})"),
        st.tuples(inner, inner).map(lambda t: f"cdiv({t[0]}, {t[1]})"),
        st.lists(inner, min_size=2, max_size=3).map(lambda each: f"max({', '.join(each)})"),
        st.lists(inner, min_size=2, max_size=3).map(lambda each: f"min({', '.join(each)})"),
        st.tuples(inner, st.integers(0, 5)).map(lambda t: f"({t[0]} ** {t[1]})"),
    )


expressions = st.recursive(atoms, compound, max_leaves=12)


@given(expressions)
@settings(max_examples=150)
def test_equals_pythons_own_integer_arithmetic(text: str) -> None:
    if len(text) > MAX_LENGTH:
        return
    functions: dict[str, Any] = {"min": min, "max": max, "abs": abs, "cdiv": python_cdiv}
    try:
        # The oracle: Python itself, on text that this test made.
        expected = int(eval(text, {"__builtins__": {}}, NAMES | functions))
    except ZeroDivisionError:
        with pytest.raises(UsageError, match=r"division by zero|63 bits"):
            evaluate(text, NAMES)
        return
    try:
        assert evaluate(text, NAMES) == expected
    except UsageError as error:
        # Only a value that grew too large may be refused, and then it did grow.
        assert "63 bits" in error.message
        assert "**" in text or "*" in text


@given(st.text(max_size=60))
@settings(max_examples=150)
def test_any_text_gives_an_integer_or_a_usage_error(text: str) -> None:
    try:
        assert type(evaluate(text, NAMES)) is int
    except UsageError as error:
        assert error.message
        assert error.hint


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("cdiv(M, 128) * 2", 6),
        ("cdiv(-7, 2)", -3),
        ("M % N == 6", 1),
        ("1 < 2 < 3", 1),
        ("2 < 2", 0),
        ("3 < 2 < 1", 0),
        ("not K", 0),
        ("max(M*K, N) < 2**31", 1),
        ("  42 ", 42),
        ("max(7)", 7),
        ("0x20", 32),
    ],
)
def test_values(text: str, value: int) -> None:
    assert evaluate(text, NAMES) == value


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("M / 2", "`/` does not give an integer", "cdiv(a, b)"),
        ("m * 2", "unknown name `m`", "Did you mean `M`?"),
        ("minu + 1", "unknown name `minu`", "Did you mean `minus`?"),
        ("cdivv(M, 2)", "no function `cdivv`", "Did you mean `cdiv`?"),
        ("print(1)", "no function `print`", "functions: min, max, abs, cdiv"),
        ("cdiv(M)", "`cdiv` takes 2 arguments, not 1", ""),
        ("min()", "`min` takes 1 to 64 arguments", ""),
        ("abs(x=1)", "plain arguments only", ""),
        ("max", "`max` is a function", "max(…)"),
        ("1.5", "1.5 is not an integer", ""),
        ("'a' * 9", "'a' is not an integer", ""),
        ("True", "True is not an integer", ""),
        ("M.real", "`M.real` is not integer arithmetic", ""),
        ("M[0]", "`M[0]` is not integer arithmetic", ""),
        ("[M]", "`[M]` is not integer arithmetic", ""),
        ("1 if M else 2", "not integer arithmetic", ""),
        ("lambda: 1", "not integer arithmetic", ""),
        ("(M := 3)", "not integer arithmetic", ""),
        ("M << 40", "not integer arithmetic", ""),
        ("M @ N", "not integer arithmetic", ""),
        ("M in N", "not integer arithmetic", ""),
        ("M, 8", "more than one value", "Write a list: [32, 8]."),
        ("().__class__()", "only plain functions", ""),
        ("M //", "not an expression", ""),
        ("", "not an expression", ""),
        ("import os", "not an expression", ""),
        ("M // zero", "division by zero", ""),
        ("cdiv(M, zero)", "division by zero", ""),
        ("2 ** -1", "negative exponent", ""),
        ("9**9**9", "63 bits", ""),
        ("2**63", "63 bits", ""),
        ("9223372036854775807 + K", "63 bits", ""),
        ("9" * 30, "63 bits", ""),
        ("(" * 240 + "1" + ")" * 240, "not an expression", ""),
        ("-" * 490 + "1", "nested too deeply", "Shorten it."),
        ("1+" * 300 + "1", "longer than 500 characters", "Shorten it."),
    ],
)
def test_refused_with_the_reason(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        evaluate(text, NAMES)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.hint


def test_a_costly_expression_is_refused_at_once() -> None:
    # Evaluated in full, the first of these would outlive the test's time limit.
    for text in ("9**9**9**9", "(10**18)**(10**18)", "2**2**2**2**2**2", "7**(10**9)"):
        with pytest.raises(UsageError, match="63 bits"):
            evaluate(text, {})


def test_names_in_their_order_and_without_functions() -> None:
    assert names_in("max(N, M) + cdiv(N, K)") == ("N", "M", "K")
    assert names_in("A * (B + C) + D") == ("A", "B", "C", "D")
    assert {"min", "max", "abs", "cdiv"} == FUNCTIONS
    assert evaluate(str(LIMIT - 1), {}) == LIMIT - 1
    for text, value in (("n", LIMIT), ("-n", LIMIT), (str(LIMIT), 0)):
        with pytest.raises(UsageError, match="63 bits"):
            evaluate(text, {"n": value})
