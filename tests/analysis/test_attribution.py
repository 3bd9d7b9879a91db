"""Attribution: the hand-written pairs, real reports, and that parts always add up."""

from __future__ import annotations

from math import fsum
from typing import Any

import pytest
from attribution_pairs import NAMES, pair

from workbench.analysis.attribution import Attribution, attribute


def parts_of(result: Attribution, counter: str) -> list[list[Any]]:
    return [
        [part.link, part.hunk or 0, part.symbol or "", part.delta]
        for part in result[counter].parts
        if part.delta
    ]


def assert_adds_up(result: Attribution) -> None:
    for split in result.counters:
        deltas = [part.delta for part in split.parts]
        whole = [split.new - split.old, split.delta]
        if all(isinstance(value, int) for value in (*deltas, split.old, split.new)):
            assert [sum(deltas)] * 2 == whole, split.counter
        # Each part is rounded once from an exact fraction: relative to what was added up.
        scale = max(1.0, abs(split.old) + abs(split.new))
        assert all(abs(fsum(deltas) - value) <= 1e-9 * scale for value in whole), split.counter
        for part in split.parts:
            assert abs(fsum(line.delta for line in part.lines) - part.delta) <= 1e-9 * scale


@pytest.mark.parametrize("name", NAMES)
def test_hand_written_pair(name: str) -> None:
    old, new, expected = pair(name)
    result = attribute(old, new)
    hunks = [
        {
            "old": list(hunk.old),
            "new": list(hunk.new),
            "kind": hunk.kind,
            "old_file": hunk.old_file,
            "new_file": hunk.new_file,
        }
        for hunk in result.hunks
    ]
    main = old.sources[0].path
    for hunk in expected["hunks"]:
        hunk.setdefault("old_file", main)
        hunk.setdefault("new_file", main)
    assert hunks == expected["hunks"]
    for entry in expected["attribution"]:
        assert parts_of(result, entry["counter"]) == entry["parts"], entry["counter"]
    if "matches" in expected:
        matches = [{"old": m.old, "new": m.new, "how": m.how} for m in result.launches]
        assert matches == expected["matches"]
    assert_adds_up(result)
