"""Advice: what became of ncu's promises."""

from __future__ import annotations

import msgspec
import pytest

from tests.factories import RULE, make_launch, make_profile
from workbench.analysis.advice import score
from workbench.model import Launch


def test_promises_are_scored_by_what_was_gained() -> None:
    def with_rule(speedup: float | None) -> Launch:
        rules = () if speedup is None else (msgspec.structs.replace(RULE, speedup=speedup),)
        return make_launch(rules=rules)

    def verdict(promised: float, speedup: float, still: float | None) -> str:
        old = make_profile(launches=(with_rule(promised),))
        new = make_profile(launches=(with_rule(still),))
        (found,) = score(old, new, speedup)
        assert found.gained == pytest.approx(1 - 1 / speedup)
        return found.verdict

    assert verdict(20.0, 1.25, None) == "kept"
    assert verdict(60.0, 1.25, None) == "partly"
    assert verdict(60.0, 0.9, None) == "not kept"
    # It promises as much as before: nothing was done about it.
    assert verdict(20.0, 1.25, 20.0) == "open"


def test_the_largest_promise_stands_first_and_notes_promise_nothing() -> None:
    rules = [
        msgspec.structs.replace(RULE, id=f"r{speedup}", kind=kind, speedup=speedup)
        for speedup, kind in (
            (5.0, "warning"),
            (None, "optimization"),
            (9.0, "note"),
            (30.0, "warning"),
        )
    ]
    old = make_profile(launches=(make_launch(rules=tuple(rules)),))
    assert [found.rule for found in score(old, old, 1.1)] == ["r30.0", "r5.0"]
