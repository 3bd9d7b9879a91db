"""`check` of two captured programs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.engines.stand_ins import Cli

CAPTURES = Path(__file__).resolve().parents[3] / "tests" / "data" / "captures"


@pytest.fixture(autouse=True)
def _there(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("workbench.programs.session")
    monkeypatch.chdir(CAPTURES)
    monkeypatch.setenv("COLUMNS", "120")


def test_check_judges_programs_by_the_same_rules(cli: Cli, tmp_path: Path) -> None:
    code, out, _ = cli("check", "@strided", "@coalesced")
    assert code == 0 and "time on the GPU" not in out and "22.6 ms → 14.8 ms" in out
    code, out, _ = cli("check", "@coalesced", "@strided", "--format", "json")
    assert code == 1
    (gate,) = json.loads(out)["gates"]
    assert gate["status"] == "fail" and "most of it softmax_rows" in gate["message"]
    assert cli("check", "@coalesced", "@strided", "--no-time")[0] == 6  # nothing was judged
    code, _, said = cli("check", "@coalesced", "sgemm/v3")
    assert code == 2 and "is a captured program" in said


def test_limits_hold_for_the_kernels_that_matter(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(CAPTURES / ".workbench", tmp_path / ".workbench")
    (tmp_path / "workbench.toml").write_text(
        '[check]\nmax_regression = "100%"\nlimits = { registers = "<= 30" }\n'
    )
    monkeypatch.chdir(tmp_path)
    code, out, _ = cli("check", "@strided", "@coalesced")
    assert "@coalesced::softmax_rows" in out and code in (0, 1)
    assert ("fail" in out) == (code == 1) and "must be <= 30" in out


@pytest.mark.parametrize("versions", [("@strided",), ("@strided", "v2")])
def test_a_program_is_checked_against_another(versions: tuple[str, ...], cli: Cli) -> None:
    code, _, error = cli("check", *versions)
    assert code == 2 and "`workbench check @base @new`" in error
