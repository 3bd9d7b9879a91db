"""Advice: what became of ncu's promises."""

from __future__ import annotations

import msgspec
import pytest

from tests.factories import RULE, SOURCE, make_launch, make_profile, make_timing
from workbench.analysis.compare import compare
from workbench.analysis.expectations import score
from workbench.analysis.story import Step, explain
from workbench.model import Launch, SourceFile
from workbench.specs import Expectation

ONE = SourceFile(path="scale.cu", text=SOURCE)


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


def test_a_step_that_changed_nothing_is_no_answer_to_any_advice() -> None:
    """Two captures of one source differ in time; no rule is right or wrong by that."""
    rule = msgspec.structs.replace(RULE, speedup=20.0)

    def scores(text: str) -> int:
        old = make_profile(version="v1", launches=(make_launch(rules=(rule,)),), sources=(ONE,))
        source = SourceFile(path=ONE.path, text=text)
        new = make_profile(version="v2", launches=(make_launch(rules=()),), sources=(source,))
        times = make_timing(2e-3, version="v1"), make_timing(1e-3, version="v2")
        return len(Step(old, new, ("v1", "v2"), times).story.scores)

    assert ONE.text is not None
    assert scores(ONE.text) == 0
    assert scores(f"// a word\n{ONE.text}") == 0
    assert scores(ONE.text.replace("2.0f", "3.0f")) == 1


def test_nothing_is_scored_where_nothing_was_changed() -> None:
    """Neither what an author predicted, nor what the panel said was to be tried."""
    expected = (Expectation(counter="duration", change="down"),)
    times = [make_timing(seconds, version="v") for seconds in (2e-3, 1e-3)]
    assert ONE.text is not None
    old = make_profile(version="v1", sources=(ONE,))
    for text, verdict in (
        (ONE.text, "inconclusive"),
        (ONE.text.replace("2.0f", "3.0f"), "confirmed"),
    ):
        source = SourceFile(path=ONE.path, text=text)
        new = make_profile(version="v2", sources=(source,))
        comparison = compare(old, new, old_time=times[0], new_time=times[1])
        story = explain(old, new, comparison, expected)
        assert [one.verdict for one in story.expectations] == [verdict]
        assert verdict == "confirmed" or story.tried == ()
        assert verdict == "confirmed" or "unchanged" in story.expectations[0].reason
