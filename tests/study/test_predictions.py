"""The grammar of predictions."""

from __future__ import annotations

import pytest

from workbench.errors import UsageError
from workbench.specs import parse_prediction


@pytest.mark.parametrize(
    ("change", "form", "number", "sign"),
    [
        ("-50%", "relative", -50, ""),
        ("−50 %", "relative", -50, ""),
        ("+20%", "relative", 20, ""),
        ("+2x", "factor", 2, ""),
        ("2x", "factor", 2, ""),
        ("-4x", "factor", -4, ""),
        ("to 0", "to", 0, ""),
        ("to 100%", "to", 100, ""),
        ("< 0.1x", "ratio", 0.1, "<"),
        (">=2×", "ratio", 2, ">="),
        ("<= 32", "bound", 32, "<="),
        (">= 0.9 of peak", "peak", 0.9, ">="),
        (" up ", "up", 0, ""),
        ("down", "down", 0, ""),
        ("same", "same", 0, ""),
    ],
)
def test_grammar(change: str, form: str, number: float, sign: str) -> None:
    found = parse_prediction(change)
    assert (found.form, found.number, found.sign) == (form, number, sign)


@pytest.mark.parametrize("change", ["", "50%", "much", "-50", "0x", "> x", "to", "-50% or so"])
def test_what_cannot_be_read_is_refused(change: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_prediction(change)
    assert change in error.value.message and "to 0" in error.value.hint
