"""Contents of a study's files, before any of it is evaluated or run.

The front matter of a version's file becomes a `Description`; with its place and its text it is a
`Version`. Expressions are kept as they were written.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from workbench.errors import UsageError
from workbench.model import Record


class LaunchSpec(Record, frozen=True):
    """One ``[[launch]]`` of the front matter, expressions still unevaluated.

    `args` name buffers (inputs, ``output``, scratch), tensor maps, textures, or are integer or
    float expressions over the problem's parameters; several in one entry are the members of a
    struct, passed by value. `dynamic_shared` is in bytes; all blocks of a `cooperative` launch are
    on the chip at once. If `when` is 0, there is no launch. For a Triton kernel: `num_stages` (else
    0), and the `args` that may be assumed to be `divisible_by_16`.
    """

    kernel: str
    grid: tuple[str, ...]
    block: tuple[str, ...]
    args: tuple[str | tuple[str, ...], ...]
    dynamic_shared: str = "0"
    cluster: tuple[str, ...] = ()
    cooperative: bool = False
    when: str = "1"
    num_stages: int = 0
    divisible_by_16: tuple[str, ...] = ()
    line: int = 0


class ScratchSpec(Record, frozen=True):
    """A device buffer that only the version needs, e.g. an im2col matrix."""

    name: str
    dtype: str
    shape: tuple[str, ...]
    line: int = 0


class FillSpec(Record, frozen=True):
    """One ``[[fill]]``: an input to copy, or expressions to repeat (as `dtype`, for a symbol).

    `restores`: it restores the job's initial state, and is not part of the version's time.
    """

    name: str
    values: tuple[str, ...] = ()
    input: str = ""
    dtype: str = ""
    restores: bool = False
    line: int = 0


#: The keys of a ``[[tensor_map]]`` or ``[[texture]]`` and their values as text.
DescriptorSpec = dict[str, tuple[str, ...]]


class Expectation(Record, frozen=True):
    """The author's prediction, before measuring, of a counter's change.

    `change` is one of ``-50%``, ``+2x``, ``to 0``, ``< 0.1x``, ``up``, ``down``, ``same``, ``>= 0.9
    of peak``; parsed by `workbench.specs`. `learned` is hindsight, written afterwards.
    """

    counter: str
    change: str
    why: str = ""
    learned: str = ""
    line: int = 0


#: A value of a parameter in ``[tune]``: a block's shape is written ``32x8``.
TuneValue = int | float | str | bool


class TuneSpec(Record, frozen=True):
    """``[tune]``: parameters, their values and constraints; `default`: values without tuning."""

    parameters: dict[str, tuple[TuneValue, ...]]
    default: dict[str, TuneValue]
    requires: str = ""
    line: int = 0


class Description(Record, frozen=True):
    """The front matter of a version's file."""

    title: str
    parent: str | None = None
    change: str = ""
    baseline: bool = False
    launches: tuple[LaunchSpec, ...] = ()
    scratch: tuple[ScratchSpec, ...] = ()
    fills: tuple[FillSpec, ...] = ()
    tensor_maps: tuple[DescriptorSpec, ...] = ()
    textures: tuple[DescriptorSpec, ...] = ()
    defines: dict[str, str] = msgspec.field(default_factory=dict)
    flags: tuple[str, ...] = ()
    arch_specific: bool = False  # compiled for sm_90a if the chip is an sm_90
    image: str = ""  # SHA-256 of the lifted machine code that is run; nothing is compiled
    requires: str = ""  # integer expression that must be true for a problem
    requires_why: str = ""  # the sentence shown if it is not
    tolerance: float | None = None  # for this version only; None: the study's
    tolerance_why: str = ""
    expectations: tuple[Expectation, ...] = ()
    tune: TuneSpec | None = None


class Version(Description, frozen=True, kw_only=True):
    """One implementation in a study: one file that describes itself."""

    study: str
    id: str  # "v3", "cublas"
    name: str  # file stem, "v3_padded"
    path: str  # relative to the project root, forward slashes
    kind: Literal["cuda", "triton", "python"]  # a Python version brings its own launches
    text: str  # text of the whole file

    def __repr__(self) -> str:
        return f"<{self.study}/{self.id}: {self.title[:60]}>"


# --- predictions: the grammar of ``change`` in ``[[expect]]`` ------------------------------------
#
# Requirements of each form on the new value:
#
# ``-50%`` ``+20%``       a change relative to the old value, at least as large
# ``+2x`` ``2x`` ``-4x``  at least twice; at most a quarter
# ``to 0`` ``to 100%``    that value
# ``< 0.1x`` ``>= 2x``    the new value over the old one
# ``< 32`` ``>= 90%``     the new value itself, in the counter's unit
# ``>= 0.9 of peak``      a counter in percent of peak, as a fraction
# ``up`` ``down``         moved in that direction
# ``same``                did not move

Form = Literal["relative", "factor", "to", "ratio", "bound", "peak", "up", "down", "same"]

_NUMBER = r"(?P<number>[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
_FORMS: tuple[tuple[Form, re.Pattern[str]], ...] = (
    ("relative", re.compile(rf"(?=[+-]){_NUMBER}\s*%")),
    ("factor", re.compile(rf"{_NUMBER}\s*[x×]")),
    ("to", re.compile(rf"to\s+{_NUMBER}\s*(?P<unit>%|)")),
    ("ratio", re.compile(rf"(?P<sign><=?|>=?)\s*{_NUMBER}\s*[x×]")),
    ("peak", re.compile(rf"(?P<sign><=?|>=?)\s*{_NUMBER}\s+of\s+peak")),
    ("bound", re.compile(rf"(?P<sign><=?|>=?)\s*{_NUMBER}\s*(?P<unit>%|)")),
    ("up", re.compile("up")),
    ("down", re.compile("down")),
    ("same", re.compile("same")),
)


class Prediction(Record, frozen=True):
    """A parsed ``change``."""

    form: Form
    number: float = 0.0
    sign: str = ""


def parse_prediction(change: str) -> Prediction:
    """Parse the ``change`` of an expectation; UsageError: it has no known form."""
    text = change.strip().replace("−", "-")
    for form, pattern in _FORMS:
        match = pattern.fullmatch(text)
        if match is None:
            continue
        groups = match.groupdict()
        number = float(groups.get("number") or 0.0)
        if form == "factor" and number == 0.0:
            break
        return Prediction(form=form, number=number, sign=groups.get("sign") or "")
    raise UsageError(
        f"cannot read the expected change {change!r}",
        'Write one of "-50%", "+2x", "to 0", "< 0.1x", ">= 90%", ">= 0.9 of peak", '
        '"up", "down", "same".',
    )
