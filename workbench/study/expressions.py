"""Launch expressions: only integer arithmetic over a problem's parameters.

A `Key` is a place in a version's front matter; errors in its expression name that place. A `Scope`
is the part of a study that evaluation needs.

``cdiv(M, 128) * 2`` is evaluated by `simpleeval`, restricted to integers: no attribute, subscript
or string, no call except ``min``, ``max``, ``abs`` and ``cdiv``. An expression is at most 500
characters long and every intermediate value stays within 63 bits, so ``9**9**9`` is an error.
"""

from __future__ import annotations

import ast
import contextlib
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol

from simpleeval import SimpleEval

from workbench.errors import UsageError, did_you_mean
from workbench.model import Problem
from workbench.specs import Version
from workbench.study.frontmatter import place

MAX_LENGTH = 500
#: Every value stays below this magnitude; sizes in bytes of any memory are far below it.
LIMIT = 2**63
_HINT = "Integer arithmetic only: + - * // % **, comparisons, and/or/not, min, max, abs, cdiv."


class _NoValueError(Exception):
    """The reason why an expression has no value here; becomes a UsageError that shows it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or _HINT


def cdiv(a: int, b: int) -> int:
    """Quotient rounded up: how many tiles of `b` cover `a`."""
    if b == 0:
        raise _NoValueError("division by zero")
    return -(-a // b)


def _bounded(value: int) -> int:
    if abs(value) >= LIMIT:
        raise _NoValueError("a value does not fit into 63 bits")
    return value


def _power(base: int, exponent: int) -> int:
    if exponent < 0:
        raise _NoValueError("a negative exponent does not give an integer")
    # Checked before the power is taken: the result has at most this many bits.
    if abs(base) > 1 and abs(base).bit_length() * exponent > 128:
        raise _NoValueError("a power does not fit into 63 bits")
    return _bounded(int(base**exponent))


def _division(name: str) -> Callable[[int, int], int]:
    function: Callable[[int, int], int] = getattr(operator, name)

    def divide(a: int, b: int) -> int:
        if b == 0:
            raise _NoValueError("division by zero")
        return function(a, b)

    return divide


_OPERATORS: dict[type[ast.AST], Callable[..., int]] = {
    ast.Add: lambda a, b: _bounded(a + b),
    ast.Sub: lambda a, b: _bounded(a - b),
    ast.Mult: lambda a, b: _bounded(a * b),
    ast.FloorDiv: _division("floordiv"),
    ast.Mod: _division("mod"),
    ast.Pow: _power,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

_FUNCTIONS: dict[str, Callable[..., int]] = {
    "min": lambda *values: min(values),  # also with a single value, which is not a sequence
    "max": lambda *values: max(values),
    "abs": abs,
    "cdiv": cdiv,
}
#: Number of arguments of each function: (least, most).
_ARITY = {"min": (1, 64), "max": (1, 64), "abs": (1, 1), "cdiv": (2, 2)}

#: Names that a parameter cannot have.
FUNCTIONS = frozenset(_FUNCTIONS)


@contextlib.contextmanager
def _shown(expression: str, where: str) -> Iterator[None]:
    """Turn an error in an expression into a UsageError that shows it."""
    try:
        yield
    except _NoValueError as error:
        what, hint = error.message, error.hint
    except RecursionError:
        what, hint = "nested too deeply", "Shorten it."
    else:
        return
    place = f"{where}: " if where else ""
    text = expression if len(expression) <= 80 else f"{expression[:77]}…"
    raise UsageError(f"{place}`{text}`: {what}", hint)


def _parse(expression: str) -> ast.expr:
    """The expression's tree, which holds only integer arithmetic."""
    if len(expression) > MAX_LENGTH:
        raise _NoValueError(f"longer than {MAX_LENGTH} characters", "Shorten it.")
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        what = error.msg if isinstance(error, SyntaxError) else "nested too deeply"
        raise _NoValueError(f"not an expression ({what})") from None
    _check(tree, expression)
    return tree


def _check_call(node: ast.Call) -> None:
    if not isinstance(node.func, ast.Name):
        raise _NoValueError("only plain functions can be called")
    name = node.func.id
    if name not in _FUNCTIONS:
        hint = did_you_mean(name, _FUNCTIONS, "functions")
        raise _NoValueError(f"there is no function `{name}`", hint)
    if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
        raise _NoValueError(f"`{name}` takes plain arguments only")
    least, most = _ARITY[name]
    if not least <= len(node.args) <= most:
        wanted = f"{least}" if least == most else f"{least} to {most}"
        raise _NoValueError(f"`{name}` takes {wanted} arguments, not {len(node.args)}")


def _check(node: ast.expr, expression: str) -> None:
    """Refuse whatever is not integer arithmetic, before anything is evaluated."""
    children: list[ast.expr]
    match node:
        case ast.Constant(value=value):
            if isinstance(value, bool) or not isinstance(value, int):
                raise _NoValueError(f"{value!r} is not an integer")
            _bounded(value)
            return
        case ast.Name():
            if node.id in _FUNCTIONS:
                hint = f"Write {node.id}(…), and give no parameter this name."
                raise _NoValueError(f"`{node.id}` is a function", hint)
            return
        case ast.BinOp(op=ast.Div()):
            hint = "Write `//` (rounded down) or `cdiv(a, b)` (rounded up)."
            raise _NoValueError("`/` does not give an integer", hint)
        case ast.BinOp(op=op) if type(op) in _OPERATORS:
            children = [node.left, node.right]
        case ast.UnaryOp(op=op) if type(op) in _OPERATORS:
            children = [node.operand]
        case ast.BoolOp():
            children = node.values
        case ast.Compare() if all(type(op) in _OPERATORS for op in node.ops):
            children = [node.left, *node.comparators]
        case ast.Call():
            _check_call(node)
            children = node.args
        case _:
            if isinstance(node, ast.Tuple):
                raise _NoValueError("more than one value", "Write a list: [32, 8].")
            text = ast.get_source_segment(expression.strip(), node) or expression
            raise _NoValueError(f"`{text}` is not integer arithmetic")
    for child in children:
        _check(child, expression)


@lru_cache(maxsize=4096)
def _names(expression: str) -> tuple[str, ...]:
    """Kept, since thousands of versions write the same few expressions."""
    nodes = list(ast.walk(_parse(expression)))
    functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    used = [each for each in nodes if isinstance(each, ast.Name) and id(each) not in functions]
    used.sort(key=lambda node: (node.lineno, node.col_offset))
    return tuple(dict.fromkeys(node.id for node in used))


def names_in(expression: str) -> tuple[str, ...]:
    """The parameters that an expression uses, each once, from left to right.

    Raises UsageError: the expression is not integer arithmetic.
    """
    try:
        return _names(expression)
    except (_NoValueError, RecursionError):
        with _shown(expression, ""):
            return _names(expression)  # which reports the error


def evaluate(expression: str, names: Mapping[str, int], *, where: str = "") -> int:
    """The value of an integer expression. A comparison gives 0 or 1.

    `expression` is, for example, ``cdiv(M, 128)``; `where` is the place for the message,
    ``kernels/sgemm/v3_padded.cu:7: grid``. Raises UsageError: not integer arithmetic, an unknown
    name (the nearest one is named), a division by zero, or a value beyond 63 bits.
    """
    with _shown(expression, where):
        tree = _parse(expression)
        for name in _names(expression):
            if name not in names:
                raise _NoValueError(
                    f"unknown name `{name}`", did_you_mean(name, names, "parameters")
                )

        evaluator = SimpleEval(operators=_OPERATORS, functions=_FUNCTIONS, names=dict(names))
        return _bounded(int(evaluator.eval(expression, previously_parsed=tree)))


# --- the place of an expression ---------------------------------------------------------------


class Scope(Protocol):
    """The part of `workbench.study.folder.Study`, which imports this module, for resolving."""

    input_names: tuple[str, ...]

    def names(self, version: Version, problem: Problem) -> dict[str, int]:
        """Parameters and integer defines, by name."""
        ...

    def buffer_names(self, version: Version) -> set[str]:
        """Inputs, outputs and the version's scratch buffers."""
        ...


class Key(NamedTuple):
    """A key of a version's front matter, by its path: ``launch[0].grid``."""

    version: Version
    path: str

    @property
    def name(self) -> str:
        """Its last part: ``grid``."""
        return self.path.rpartition(".")[2]

    @property
    def where(self) -> str:
        """``kernels/sgemm/v3_padded.cu:7``: its file and line."""
        return place(self.version, self.path)

    def error(self, what: str, hint: str) -> UsageError:
        """The error for the key, at its line."""
        return UsageError(f"{self.where}: {what}", hint)

    def names_in(self, text: str) -> tuple[str, ...]:
        """The names in an expression of the key; an error names the key's line."""
        try:
            return names_in(text)
        except UsageError as error:
            raise self.error(f"{self.name}: {error.message}", error.hint) from None

    def value(self, text: str, names: dict[str, int]) -> int:
        """The value of an expression of the key; a complaint names the key's line."""
        try:
            return evaluate(text, names)
        except UsageError as error:
            raise self.error(f"{self.name}: {error.message}", error.hint) from None
