"""Attribution: the hand-written pairs, real reports, and that parts always add up."""

from __future__ import annotations

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
        total = sum(part.delta for part in split.parts)
        whole = split.new - split.old
        if isinstance(split.old, int) and isinstance(split.new, int):
            assert total == whole == split.delta, split.counter
        else:
            scale = max(abs(split.old), abs(split.new), 1.0)
            assert abs(total - whole) <= 1e-9 * scale, split.counter
        for part in split.parts:
            assert abs(sum(line.delta for line in part.lines) - part.delta) <= 1e-9 * max(
                1.0, abs(part.delta)
            )


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
