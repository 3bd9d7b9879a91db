"""Which pairs of choices are profiled, so that a person can judge what a tuning said."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.tune.pairs import pairs_of, told
from tests.factories import make_profile
from workbench.tune.steps import step_between
from workbench.tune.tests.test_tuned_page import keep


def test_a_cliff_the_strongest_effect_and_the_winner_are_paired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuning = keep(tmp_path)
    found = {each.kind: each for each in pairs_of(tuning, "n1024")}
    assert list(found) == ["cliff", "effect", "winner"]
    cliff, effect, winner = found.values()
    assert cliff.said.startswith(
        "TILE 32 → 64 is 2.20× slower: registers → occupancy: registers 40"
    )
    assert {"theoretical_occupancy", "registers"} <= {*cliff.names}
    assert (cliff.old.values["TILE"], cliff.new.values["TILE"]) == (32, 64)
    assert cliff.old.values["UNROLL"] == cliff.new.values["UNROLL"]
    assert effect.said.startswith("TILE matters most") and "64 costs 2.20× of 32" in effect.said
    assert (winner.old.values["TILE"], winner.new.values["TILE"]) == (16, 32)
    profiles = make_profile(), make_profile()
    said = told(tuning, cliff, step_between(tuning, (cliff.old, cliff.new), profiles))
    assert said["ratio"] == pytest.approx(2.2) and said["kind"] == "cliff"
    printed = capsys.readouterr().out
    assert "TILE=32  →  TILE=64" in printed and "said by tune: TILE 32 → 64" in printed
    assert all(f"  {name} " in printed for name in ("Instructions executed", "DRAM traffic"))
    assert "* Registers per thread" in printed or "* Theoretical occupancy" in printed
