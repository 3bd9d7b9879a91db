"""Attribution: the hand-written pairs, real reports, and that parts always add up."""

from __future__ import annotations

import pytest

from tests.analysis.attribution_pairs import NAMES, assert_adds_up, pair, parts_of
from workbench.analysis.attribution import attribute


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
