"""What an author may predict of a counter: the grammar of ``change`` in ``[[expect]]``.

What each form asks of the new value:

``-50%`` ``+20%``       a change relative to the old value, at least as large
``+2x`` ``2x`` ``-4x``  at least twice; at most a quarter
``to 0`` ``to 100%``    that value
``< 0.1x`` ``>= 2x``    the new value over the old one
``< 32`` ``>= 90%``     the new value itself, in the counter's unit
``>= 0.9 of peak``      a counter in percent of peak, as a fraction
``up`` ``down``         moved that way
``same``                did not move
"""

from __future__ import annotations

import re
from typing import Literal

from workbench.errors import UsageError
from workbench.model import Record

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


def parse(change: str) -> Prediction:
    """Parse the ``change`` of an expectation.

    Raises:
        UsageError: it is none of the forms.
    """
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
