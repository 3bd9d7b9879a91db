"""Claimed speed-ups: accepted, refused or not judged, each with its reasons."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import goldens
from workbench.analysis.times.regression import Turns
from workbench.cli import app
from workbench.engines import Verdict
from workbench.engines.host.job import Check
from workbench.errors import KernelError, UsageError
from workbench.face import Session
from workbench.gate import claims
from workbench.gate.claims import Ruling
from workbench.gate.command import targets, write_verdicts
from workbench.gate.shown import check_document
from workbench.measure.plan import Combination
from workbench.model import DeviceState, Estimate
from workbench.session.measuring import Judged, Verified
from workbench.study.folder import run_study
from workbench.views.shapes import compact

REPO = Path(__file__).parents[3]
CLOCKS = DeviceState(sm_clock=(1.98e9, 1.98e9))


def check(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, ["check", *words], catch_exceptions=False)
    return found.exit_code, found.output


@pytest.mark.parametrize(
    ("new", "old", "least", "code", "said"),
    [
        ("sgemm/v5", "sgemm/v3", "1.4x", 0, "Accepted: sgemm/v5 is at least 1.40× as fast"),
        ("sgemm/v5", "sgemm/v3", "1.459x", 6, "timed separately, `workbench check --claim"),
        ("sgemm/v5:n4096@h200", "sgemm/v3", "1.4x", 0, "as sgemm/v3 (n4096, NVIDIA H200)"),
        ("sgemm/v5", "sgemm/v3", "1.5x", 1, "1.46× (1.46×), claimed 1.50×"),
        ("sgemm/v8", "sgemm/v7", "1x", 1, "Refused"),
        ("sgemm/v13", "sgemm/cublas", "0.5x", 0, "claimed 0.500×; measured alternately"),
        ("conv2d_half/v5", "conv2d_half/v4", "1.1x", 6, "lowered its clocks while this was timed"),
        ("conv2d_int8/v5", "conv2d_int8/v4", "0.9x", 6, "Identical machine code"),
        ("conv2d/v11", "conv2d/v10", "1.4x", 0, "Different precision: float32 operations"),
    ],
)
def test_shipped_records_are_judged(
    monkeypatch: pytest.MonkeyPatch, new: str, old: str, least: str, code: int, said: str
) -> None:
    monkeypatch.chdir(REPO)
    monkeypatch.setenv("COLUMNS", "500")
    got, output = check("--claim", new, "--over", old, "--at-least", least)
    assert (got, said in output) == (code, True), output


@pytest.mark.parametrize("form", ["json", "markdown", "junit"])
def test_it_is_written_as_gates_are(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.chdir(REPO)
    words = ("--claim", "sgemm/v8", "--over", "sgemm/v7", "--at-least", "1.1x", "--format", form)
    goldens.same(f"gate/claim.{form}", check(*words)[1])


@pytest.mark.parametrize(
    "words",
    [
        ("--claim", "v2"),
        ("--claim", "v2", "--over", "v2"),
        ("--claim", "v2", "--all"),
        ("--over", "v1"),
    ]
    + [("--claim", "v2", "--over", "v1", "--at-least", bad) for bad in ("0", "fast", "-1x", "nan")],
)
def test_a_claim_needs_two_versions_and_a_factor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(recorded(tmp_path).project.root)
    with pytest.raises(UsageError):
        check(*words)


def recorded(root: Path, new_s: float | None = 0.0, *, verified: bool = True) -> Session:
    """Shipped v1 and v2, with another time of v2 (None: without it), or without checks."""
    for folder in ("kernels/scale_add", "profiles/h200/scale_add"):
        shutil.copytree(
            REPO / folder, root / folder, ignore=shutil.ignore_patterns("*.ncu-rep.zst")
        )
    (root / "workbench.toml").write_text('default_study = "scale_add"\n')
    session = Session(root)
    for timing in session.store.timings(study="scale_add"):
        time, check = timing.time, timing.verification if verified else None
        if timing.version == "v2" and new_s:
            time = Estimate(value=new_s, low=new_s, high=new_s, n=50)
        path = session.store.save_timing(replace(timing, time=time, verification=check))
        if timing.version == "v2" and new_s is None:
            path.unlink()
    for entry in () if verified else session.store.find(study="scale_add"):
        session.store.save(replace(session.store.load(entry.path), verification=None))
    return session


@pytest.mark.parametrize(
    ("new_s", "verified", "verdict", "name", "said"),
    [
        (0.0, True, "accepted", "result", "recorded as right on n8192 (seed "),
        (0.0, False, "not judged", "result", "no check is recorded; `workbench check"),
        (None, True, "not judged", "ratio", "a recorded time is missing; on a machine with a GPU"),
        (1e-12, True, "refused", "plausible", ""),
    ],
)
def test_absent_is_not_accepted(
    tmp_path: Path, new_s: float | None, verified: bool, verdict: str, name: str, said: str
) -> None:
    found = recorded(tmp_path, new_s, verified=verified).judge("v2", "v1", 1.2)
    texts = [gate.message for gate in found.gates if gate.name == name]
    assert (found.verdict, any(said in text for text in texts)) == (verdict, True), found.gates


def test_what_was_edited_is_not_judged(tmp_path: Path) -> None:
    session = recorded(tmp_path)
    path = tmp_path / "kernels/scale_add/v2_float4.cu"
    path.write_text(path.read_text() + "\n// edited\n")
    found = session.judge("v2", "v1")
    assert found.verdict == "not judged" and "edited since" in str(found.gates)


def turns(low: float, high: float) -> Turns:
    ratio = Estimate(value=(low * high) ** 0.5, low=low, high=high, n=100)
    return Turns("v2", "n8192", "NVIDIA H200", ((1.0,), (1.0,)), ratio, state=CLOCKS)


@given(st.floats(0.01, 100), st.floats(1, 10), st.floats(0.01, 100))
def test_an_interval_that_begins_below_the_claim_is_never_accepted(
    low: float, width: float, least: float
) -> None:
    version: Any = SimpleNamespace(study="demo", id="v2", path="v3.cu")
    measured = turns(1 / (low * width), 1 / low)
    case = claims._Case(None, (version, version), least, None, measured)  # type: ignore[arg-type]
    gate, _clocks = case.of_time()
    ratio, _ = case.ratio
    assert ratio is not None
    assert (gate.status == "pass") == (ratio.low >= least)
    assert (gate.status == "fail") == (ratio.high < least)


@pytest.mark.parametrize(
    ("wrong", "fixed", "verdict"),
    [
        ("", False, "accepted"),
        ("v2", False, "refused"),
        ("v1", False, "not judged"),
        ("", True, "not judged"),
    ],
)
def test_both_are_verified_and_run_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, fixed: bool, verdict: str
) -> None:
    def verified(_engine: Any, study: Any, version: Any, _problem: Any) -> list[Verdict]:
        good = Check(ok=True, error=0.0, largest=0.0, tolerance=1e-5, compared=8, fixed=fixed)
        error = KernelError("a wrong result", "Correct it.") if version.id == wrong else None
        return [Verdict(next(iter(study.problems.values())), good, error)]

    engine = SimpleNamespace(times=True, seed=3)
    monkeypatch.setattr(claims, "choose", lambda *_: engine)
    monkeypatch.setattr(claims, "verified", verified)
    monkeypatch.setattr(claims, "measure", lambda *_: [(None, turns(0.4, 0.5))])
    found = recorded(tmp_path).judge("v2", "v1", 1.5, again=True)
    assert found.verdict == verdict, found.gates
    assert found.in_turns is (not wrong)


def test_an_agent_has_the_verdict_in_a_thousand_bytes() -> None:
    tools = pytest.importorskip("workbench.agents.tools")
    session = Session(REPO)
    pairs = ("sgemm/v8", "sgemm/v7"), ("conv2d_half/v20", "conv2d_half/v6")
    rulings = [session.judge(new, old, 1.2) for new, old in pairs]
    loud = [replace(each, message="×" * 900, status="fail") for each in rulings[0].gates]
    many = [replace(each, name=f"{each.name} {n}") for n in range(9) for each in loud]
    rulings.append(
        replace(rulings[0], gates=(*many, *(replace(g, status="inconclusive") for g in many)))
    )
    for ruling in rulings:
        assert isinstance(ruling, Ruling)
        document = check_document(ruling)
        answer = tools.answer_of("check", json.loads(json.dumps(document)))
        assert answer["verdict"] == ruling.verdict
        assert len(json.dumps(compact({"answer": answer}), ensure_ascii=False).encode()) <= 1000


def test_verify_writes_its_results_as_gates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = recorded(tmp_path).project
    (project.kernels / "scale_add/v9_x.cu").write_text("/* ---\ntitle =\n--- */\n")
    study = run_study(project, "scale_add")
    one, two, *_ = [Combination(study.version("v1"), each) for each in study.problems.values()]
    wrong = KernelError("v1 is wrong\nkernels/scale_add/h.cuh:3: here", "Correct it.")
    judged = [(one, Judged(None)), (two, Judged(None, wrong))]
    out = tmp_path / "o.xml"
    files = targets((f"junit={out}", "github=-"))
    write_verdicts(Verified(study, 7, judged, broken=dict(study.broken)), files)
    assert 'file="kernels/scale_add/h.cuh" line="3"' in out.read_text()
    assert out.read_text().count("<testcase") == 3
    assert '<testsuites name="workbench verify">' in out.read_text()
    told = capsys.readouterr().out
    assert "::error file=kernels/scale_add/h.cuh,line=3,title=scale_add/v1" in told
    assert "::error file=kernels/scale_add/v9_x.cu,line=2,title=scale_add/v9" in told
