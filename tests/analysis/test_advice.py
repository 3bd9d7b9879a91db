"""Advice: typed findings with evidence and lines, and what became of ncu's promises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.factories import RULE, make_instructions, make_launch, make_metrics, make_profile
from workbench.analysis.advice import Finding, findings, score
from workbench.counters import catalog
from workbench.model import Launch
from workbench.ncurep.read import read_report, select_kernels


def own(launch: Launch) -> dict[str, Finding]:
    found = findings(make_profile(launches=(launch,)))
    return {finding.id: finding for finding in found if finding.source == "workbench"}


def quiet() -> Launch:
    """A launch that no rule of ours has a word for."""
    return make_launch(
        rules=(),
        metrics=make_metrics(
            memory_l1_wavefronts_shared=2048, launch__waves_per_multiprocessor=3.9
        ),
        instructions=make_instructions(inst_executed={0: 10}),
    )


def with_metric(**metrics: float) -> Launch:
    base = quiet()
    more = {name: make_metrics(**{name: value})[name] for name, value in metrics.items()}
    fields = {f: getattr(base, f) for f in base.__struct_fields__}
    return Launch(**{**fields, "metrics": base.metrics | more})


def test_a_good_kernel_gets_no_advice() -> None:
    assert own(quiet()) == {}


def test_bank_conflicts_name_the_line() -> None:
    found = own(make_launch())["bank-conflicts"]
    assert found.message == "31.7 k of 33.8 k wavefronts (94%) are above the ideal."
    assert [(ref.line, ref.value) for ref in found.lines] == [(3, 31744)]
    assert found.doc.startswith("https://docs.nvidia.com/")
    assert [evidence.counter for evidence in found.evidence] == [
        "shared_wavefronts",
        "shared_wavefronts_ideal",
    ]


def test_uncoalesced_accesses() -> None:
    found = own(with_metric(memory_l2_theoretical_sectors_global=32768))
    assert set(found) == {"uncoalesced"}
    assert "24.6 k of 32.8 k sectors (75%)" in found["uncoalesced"].message


def test_spills() -> None:
    found = own(with_metric(memory_l2_theoretical_sectors_local=512))
    assert set(found) == {"spills"}


def test_low_occupancy_names_the_limiter() -> None:
    found = own(
        with_metric(
            sm__maximum_warps_per_active_cycle_pct=25.0,
            launch__registers_per_thread=105,
            launch__block_size=256,
        )
    )
    assert found["occupancy"].message == "Occupancy cannot exceed 25.0%; the limit is registers."


def test_divergence_and_tail() -> None:
    launch = with_metric(thread_inst_executed=16.0 * 20_480, launch__waves_per_multiprocessor=1.1)
    found = own(launch)
    assert found["divergence"].message.startswith("Of 32 lanes 16.0 work")
    assert found["tail"].message == "1.10 waves of blocks take the time of 2."


def test_dominant_stall() -> None:
    found = own(make_launch())["stall"]
    assert "MIO throttle" in found.message and found.lines[0].line == 3


def test_rules_of_ncu_come_first_by_their_promise() -> None:
    found = findings(make_profile())
    assert RULE.speedup is not None
    assert found[0].source == "ncu" and found[0].saving == pytest.approx(RULE.speedup / 100)
    assert {finding.source for finding in found} == {"ncu", "workbench"}


def test_promises_are_scored_by_what_was_gained() -> None:
    def with_rule(speedup: float | None) -> Launch:
        rules = () if speedup is None else (_rule(speedup),)
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


def _rule(speedup: float) -> type(RULE):  # type: ignore[valid-type]
    fields = {f: getattr(RULE, f) for f in RULE.__struct_fields__}
    return type(RULE)(**{**fields, "speedup": speedup})


def test_real_ladder(report: Callable[[str], Path]) -> None:
    ladder = read_report(report("ladder_full"))
    sides = {v: select_kernels(ladder, f"sgemm_{v}") for v in ("v0", "v2", "v3", "v4")}
    found = {v: {f.id: f for f in findings(side)} for v, side in sides.items()}
    assert found["v2"]["bank-conflicts"].lines[0].line == 28
    assert "bank-conflicts" not in found["v3"]
    assert found["v0"]["uncoalesced"].lines[0].line == 8
    assert "registers" in found["v4"]["occupancy"].message
    known = catalog()
    for finding in found["v2"].values():
        assert finding.doc.startswith("https://docs.nvidia.com/")
        if finding.source == "workbench":
            assert all(evidence.counter in known for evidence in finding.evidence)
    scores = {s.title: s for s in score(sides["v2"], sides["v3"], 433.696 / 311.744)}
    assert scores["Shared Store Bank Conflicts"].verdict == "partly"
    assert scores["Shared Store Bank Conflicts"].still is None
    assert scores["Tail Effect"].verdict == "open"
