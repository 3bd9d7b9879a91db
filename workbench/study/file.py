"""``study.py``: run it, and check every value in it before use.

The file is plain Python by the project's own author. It runs under no name in
`sys.modules` and leaves `sys.path` and the folder (no ``__pycache__``) as they
were. Any exception in it becomes a UsageError with the file's own line.
"""

from __future__ import annotations

import contextlib
import functools
import keyword
import operator
import sys
import traceback
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ptxemu import ELEMENT_BYTES
from workbench.disk.limits import ARRAY
from workbench.errors import UsageError, WorkbenchError, did_you_mean, nearest
from workbench.model import Problem, Record
from workbench.processes import OverError
from workbench.study.expressions import FUNCTIONS
from workbench.study.sources import read_source

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Pointer(Record, frozen=True):
    """Eight bytes of an input, at `offset`, that are an address: `target_offset` into a buffer."""

    buffer: str
    offset: int
    target: str
    target_offset: int = 0


USES = ("verify", "profile", "sweep")
_FUNCTIONS = ("inputs", "outputs", "reference", "flops", "bytes")
_DOCS = "`workbench docs front-matter` shows a whole study.py."
#: Errors that pass: a time limit, Ctrl-C, a lifted study whose data is missing or damaged.
NOT_THE_FILES = (WorkbenchError, KeyboardInterrupt, OverError)


def compiled(text: str, path: Path, shown: str) -> types.CodeType:
    """Compile a ``study.py`` without running it (UsageError: not Python)."""
    try:
        return compile(text, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        line = error.lineno or 1 if isinstance(error, SyntaxError) else 1
        why = error.msg if isinstance(error, SyntaxError) else str(error) or "nested too deeply"
        raise UsageError(f"{shown}:{line}: not valid Python: {why}", "Correct it.") from error


_Read = TypeVar("_Read", bound=Callable[..., Any])


def _judged(read: _Read) -> _Read:
    """Turn an exception that a value raises when it is read or shown into the file's error."""

    @functools.wraps(read)
    def reading(file: StudyFile, *args: Any, **kwargs: Any) -> Any:
        try:
            return read(file, *args, **kwargs)
        except NOT_THE_FILES:
            raise
        except BaseException as error:
            what = args[0] if args and isinstance(args[0], str) else read.__name__
            raise file.error(f"`{what}` cannot be used: {_words(error)}") from None

    return cast("_Read", reading)


def _words(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its message is the file's code as well
        return type(error).__name__


class StudyFile:
    """The names that a ``study.py`` defines, with checks.

    `shown` is its name in messages, ``kernels/sgemm/study.py``.
    """

    def __init__(self, path: Path, shown: str) -> None:
        self.path = path
        self.shown = shown
        text = read_source(path, shown)
        code = compiled(text, path, shown)
        module = types.ModuleType(f"study_{path.parent.name}")
        module.__file__ = str(path)
        self._names: dict[str, Any] = module.__dict__
        try:
            with contextlib.redirect_stdout(sys.stderr):
                exec(code, self._names)
        except (KeyboardInterrupt, OverError):
            raise
        except BaseException as error:
            raise self._raised(error, "{kind} while it was loaded: {said}") from error

    def error(self, what: str, hint: str = _DOCS, line: int = 1) -> UsageError:
        """The UsageError for something wrong in the file."""
        return UsageError(f"{self.shown}:{line}: {what}", hint)

    def _raised(self, error: BaseException, form: str) -> UsageError:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(self.path)]
        line = (lines[-1] if lines else None) or 1
        kind, _, said = _words(error).partition(": ")
        return self.error(
            form.format(kind=kind, said=said).removesuffix(": "),
            "The file is plain Python; correct that line.",
            line,
        )

    def has(self, name: str) -> bool:
        """True if the file defines a function of that name."""
        return callable(self._names.get(name))

    def call(self, function: str, *arguments: object) -> Any:
        """Call a function of the file; its exceptions are reported with their line."""
        try:
            # The file's own output must not get into --format json.
            with contextlib.redirect_stdout(sys.stderr):
                return self._names[function](*arguments)
        except NOT_THE_FILES:
            raise
        except BaseException as error:
            raise self._raised(
                error, "{kind} in {function}(): {said}".replace("{function}", function)
            ) from error

    def _required(self, name: str) -> Any:
        if name not in self._names:
            own = [each for each in self._names if not each.startswith("_")]
            near = nearest(name, own)
            hint = f"It defines `{near}`: did you mean that? {_DOCS}" if near else _DOCS
            raise self.error(f"does not define `{name}`", hint)
        return self._names[name]

    def check_functions(self) -> None:
        """Refuse a file that lacks any of the five functions that every study has."""
        for name in _FUNCTIONS:
            value = self._required(name)
            if not callable(value) and not (name == "reference" and isinstance(value, str)):
                or_version = ", or a version's name" if name == "reference" else ""
                raise self.error(f"`{name}` must be a function{or_version}")

    def answering(self) -> str:
        """The version that ``reference = "v0"`` names; empty if it is a function."""
        value = self._names.get("reference")
        return value if isinstance(value, str) else ""

    @_judged
    def text(self, name: str, *, optional: bool = False) -> str:
        """A string that must not be blank, nor missing unless it is `optional`."""
        if optional and name not in self._names:
            return ""
        value = self._required(name)
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"`{name}` must be a sentence, not {value!r}")
        value.encode()  # a lone surrogate can be neither stored nor shown
        return " ".join(value.split())

    @_judged
    def tolerance(self) -> float:
        """The tolerance: 0 for results that are correct to the bit, or a number below 1."""
        value = self._required("tolerance")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 <= value < 1:
            raise self.error(f"`tolerance` must be 0 or a number below 1, not {value!r}")
        return float(value)

    @_judged
    def flag(self, name: str) -> bool:
        """True or False; False if it is missing."""
        value = self._names.get(name, False)
        if not isinstance(value, bool):
            raise self.error(f"`{name}` must be True or False, not {value!r}")
        return value

    @_judged
    def names(self, name: str) -> tuple[str, ...]:
        """A list or tuple of identifiers."""
        value = self._required(name)
        if not isinstance(value, list | tuple) or not all(
            isinstance(each, str) and each.isidentifier() for each in value
        ):
            raise self.error(f"`{name}` must be a tuple of names, not {value!r}")
        return tuple(value)

    @_judged
    def derive(self, parameters: dict[str, int]) -> dict[str, int]:
        """The parameters that ``derive`` adds to a problem's; empty if there is no ``derive``."""
        found = self.call("derive", parameters) if self.has("derive") else {}
        return self._integers(found, "derive")

    def _integers(self, value: object, where: str) -> dict[str, int]:
        """A dict of parameter names to integers, as plain `int`."""
        if not isinstance(value, Mapping):
            raise self.error(f"{where} must give a dict of integers, not {value!r}")
        found: dict[str, int] = {}
        for name, number in value.items():
            if (
                not isinstance(name, str)
                or not name.isidentifier()
                or keyword.iskeyword(name)
                or name in FUNCTIONS
            ):
                raise self.error(
                    f"{where}: {name!r} cannot be a parameter's name",
                    "A letter first, then letters, digits and _; not min, max, abs, cdiv.",
                )
            try:
                if isinstance(number, bool):
                    raise TypeError
                found[name] = operator.index(number)
            except TypeError:
                raise self.error(f"{where}: `{name}` must be an integer, not {number!r}") from None
        return found

    @_judged
    def problems(self) -> dict[str, Problem]:
        """The problems, from ``{name: {...}}`` or ``[{"name": ..., ...}]``."""
        value = self._required("problems")
        if isinstance(value, Mapping):
            entries = list(value.items())
        elif isinstance(value, list | tuple):
            entries = []
            for entry in value:
                if not isinstance(entry, Mapping) or "name" not in entry:
                    raise self.error(f'a problem without a "name": {entry!r}')
                rest = {key: each for key, each in entry.items() if key != "name"}
                entries.append((entry["name"], rest))
        else:
            raise self.error(f"`problems` must be a dict or a list, not {value!r}")
        problems: dict[str, Problem] = {}
        for name, entry in entries:
            problem = self._problem(name, entry)
            if problem.name in problems:
                raise self.error(f"two problems are named `{problem.name}`", "Rename one.")
            problems[problem.name] = problem
        if not problems:
            raise self.error("`problems` is empty")
        self._check_same_parameters(problems)
        return problems

    def _problem(self, name: object, entry: object) -> Problem:
        if not isinstance(name, str) or not name.replace("-", "_").isidentifier():
            raise self.error(
                f"{name!r} cannot be a problem's name",
                "The name becomes a file name: a letter first, then letters, digits, _ and -.",
            )
        if not isinstance(entry, Mapping):
            raise self.error(f"problem `{name}` must be a dict, not {entry!r}")
        rest = dict(entry)
        uses = rest.pop("uses", ())
        uses = (uses,) if isinstance(uses, str) else tuple(uses)
        for use in uses:
            if use not in USES:
                raise self.error(
                    f"problem `{name}`: unknown use {use!r}", did_you_mean(str(use), USES, "uses")
                )
        parameters = self._integers(rest.pop("parameters", rest), f"problem `{name}`")
        return Problem(name=name, parameters=parameters, uses=uses)

    def _check_same_parameters(self, problems: dict[str, Problem]) -> None:
        first = next(iter(problems.values()))
        for problem in problems.values():
            odd = set(problem.parameters) ^ set(first.parameters)
            if odd:
                raise self.error(
                    f"problems `{first.name}` and `{problem.name}` do not have the same "
                    f"parameters: {', '.join(sorted(odd))}",
                    "Give every problem all of them, so that a version can rely on each.",
                )

    @_judged
    def outputs(self, parameters: dict[str, int]) -> dict[str, tuple[tuple[int, ...], str]]:
        """The result of ``outputs``: name -> (shape, dtype name)."""
        value = self.call("outputs", parameters)
        form = '{"C": ((M, N), "float32")}'
        if not isinstance(value, Mapping) or not value:
            raise self.error(f"outputs() must give a dict like {form}, not {value!r}")
        found = {}
        for name, entry in value.items():
            try:
                shape, dtype = entry
                sizes = tuple(operator.index(size) for size in shape)
                if any(size < 0 for size in sizes):
                    raise ValueError
            except (TypeError, ValueError):
                raise self.error(
                    f"outputs(): `{name}` must be (shape, dtype) as in {form}, not {entry!r}"
                ) from None
            what, hint = ARRAY.too_large(str(name), sizes, ELEMENT_BYTES.get(str(dtype), 1))
            if what:
                raise self.error(f"outputs(): {what}", hint)
            found[str(name)] = (sizes, str(dtype))
        return found

    @_judged
    def count(self, function: str, parameters: dict[str, int], problem: str) -> int:
        """The result of ``flops`` or ``bytes`` for a problem."""
        value = self.call(function, parameters)
        try:
            count = operator.index(value)
        except TypeError:
            count = -1
        if count < 0:
            raise self.error(
                f"{function}() gave {value!r} for problem {problem}",
                "It must give a count, an integer of 0 or more.",
            )
        return count

    @_judged
    def inputs(
        self, parameters: dict[str, int], rng: np.random.Generator, names: tuple[str, ...]
    ) -> dict[str, npt.NDArray[np.generic]]:
        """The result of ``inputs``, C-contiguous, in the order of `names`."""
        import numpy as np

        value = self.call("inputs", parameters, rng)
        if not isinstance(value, Mapping) or set(value) != set(names):
            given = sorted(value) if isinstance(value, Mapping) else type(value).__name__
            raise self.error(
                f"inputs() gave {given}, but input_names are {sorted(names)}",
                "Both must name the same buffers.",
            )
        found = {name: np.ascontiguousarray(value[name]) for name in names}
        for name, array in found.items():
            if array.dtype.hasobject:
                raise self.error(f"inputs(): `{name}` holds Python objects, not numbers")
        return found

    @_judged
    def pointers(
        self, parameters: dict[str, int], sizes: Mapping[str, int | None]
    ) -> tuple[Pointer, ...]:
        """The result of ``pointers``: (input, byte, target buffer, byte in the target).

        `sizes` are the sizes in bytes of every buffer that the study has; None: not known here.
        """
        if not self.has("pointers"):
            return ()
        found = []
        for entry in self.call("pointers", parameters):
            try:
                buffer, offset, target, inside = entry
                at, to = operator.index(offset), operator.index(inside)
            except (TypeError, ValueError):
                raise self.error(
                    f'pointers() must give tuples like ("table", 0, "x", 0), not {entry!r}'
                ) from None
            for name, byte, width in ((buffer, at, 8), (target, to, 0)):
                if name not in sizes:
                    raise self.error(
                        f"pointers(): unknown buffer {name!r}",
                        did_you_mean(str(name), sizes, "buffers"),
                    )
                size = sizes[name]
                if byte < 0 or (size is not None and byte + width > size):
                    raise self.error(f"pointers(): byte {byte} is not inside `{name}`")
            found.append(Pointer(buffer=buffer, offset=at, target=target, target_offset=to))
        return tuple(found)

    @_judged
    def reference(
        self, function: str, outputs: Mapping[str, tuple[tuple[int, ...], str]], *arguments: object
    ) -> dict[str, npt.NDArray[np.float64]]:
        """The result of ``reference`` or ``reference_at``, checked against the outputs."""
        import numpy as np

        value = self.call(function, *arguments)
        if not isinstance(value, Mapping) or set(value) != set(outputs):
            given = sorted(value) if isinstance(value, Mapping) else type(value).__name__
            raise self.error(f"{function}() gave {given}, but the outputs are {sorted(outputs)}")
        found = {}
        for name, (shape, _) in outputs.items():
            array = np.asarray(value[name])
            if array.dtype in (np.int64, np.uint64, np.bool_) and not np.any(
                (array > 2**53) | (array < -(2**53))
            ):
                array = array.astype("float64")  # float64 holds counts exactly
            if array.dtype != np.float64 or array.shape != shape:
                hint = "Convert the inputs first: a reference in float32 would hide errors."
                if array.dtype == np.float64:
                    hint = f"outputs() says what shape `{name}` has: correct that, or {function}()."
                raise self.error(
                    f"{function}(): `{name}` is {array.dtype} {array.shape}, not float64 {shape}",
                    hint,
                )
            found[name] = array
        return found
