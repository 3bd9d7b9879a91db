"""``workbench import``, from the command line to the store."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.cli import main
from workbench.store import Store
from workbench.store.codec import unpack

DATA = Path(__file__).resolve().parents[1] / "data" / "ncurep"
REPORT = str(DATA / "sgemm_v3.ncu-rep.zst")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], repo: Path
) -> Run:
    """Run `workbench import` in a project that has the sgemm study."""
    shutil.copytree(repo / "kernels" / "sgemm", tmp_path / "kernels" / "sgemm")
    (tmp_path / "workbench.toml").write_text('default_study = "sgemm"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def call(*arguments: str) -> tuple[int, str, str]:
        code = 0
        try:
            main(["import", *arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_a_report_becomes_a_profile(run: Run, tmp_path: Path) -> None:
    code, out, _ = run(REPORT, "--study", "sgemm", "--version", "v3", "--problem", "n1024")
    assert code == 0
    assert "kept sgemm/v3 n1024 on NVIDIA H200 (ncu 2025.3.1.0, 2026-11-21T08:09:00Z)" in out
    assert "1 launch: sgemm_v3" in out
    assert "profiles/h200/sgemm/v3/n1024.ncu.json.zst" in out
    assert "note: stale: the report's source /tmp/wb/ladder.cu differs" in out
    store = Store(tmp_path / "profiles")
    (entry,) = store.find()
    profile = store.load(entry.path)
    assert profile.parameters["M"] == 1024
    assert profile.launches[0].instructions.address
    raw = store.raw_report(entry)
    assert raw is not None
    assert unpack(raw.read_bytes()) == unpack(Path(REPORT).read_bytes())


def test_it_replaces_nothing_unasked(run: Run) -> None:
    assert run(REPORT, "--version", "v3")[0] == 0
    code, _, err = run(REPORT, "--version", "v3")
    assert code == 2
    assert "already has a profile of n1024 on h200" in err
    assert "--force" in err
    assert run(REPORT, "--version", "v3", "--force")[0] == 0
    assert run(REPORT, "--version", "v3", "--device", "NVIDIA Other")[0] == 0
    assert run(REPORT, "--version", "sgemm/v3", "--problem", "n4096")[0] == 0


def test_a_source_that_is_the_version_s_is_not_stale(run: Run, tmp_path: Path) -> None:
    source = unpack(Path(REPORT).read_bytes())
    start = source.index(b"// Probe ladder")
    # The report holds the whole ladder; as a version's file it needs a front matter.
    text = source[start : source.index(b"\n}\n", source.index(b"sgemm_v4(", start)) + 3].decode()
    path = tmp_path / "kernels" / "sgemm" / "v99_ladder.cu"
    path.write_text(
        '/* ---\ntitle = "Ladder"\n[[launch]]\nkernel = "sgemm_v3"\n'
        'grid = ["cdiv(N, 32)", "cdiv(M, 32)"]\nblock = [32, 32]\nargs = ["A", "B", "C", "M"]\n'
        "--- */\n" + text
    )
    code, out, err = run(REPORT, "--version", "v99")
    assert code == 0, err
    assert "stale" not in out
    assert "the code of kernels/sgemm/v99_ladder.cu under another front matter" in out


def test_kernels_can_be_chosen(run: Run, report: Callable[[str], Path]) -> None:
    path = str(report("ladder_focus"))
    code, out, _ = run(path, "--version", "v3", "--kernel", "sgemm_v3")
    assert code == 0
    assert "1 launch: sgemm_v3" in out
    code, out, _ = run(f"{path}::sgemm_v2", "--version", "v2")
    assert "1 launch: sgemm_v2" in out
    code, out, _ = run(path, "--version", "v1", "--problem", "n4096")
    assert "5 launches: sgemm_v0, sgemm_v1, sgemm_v2, sgemm_v3, sgemm_v4" in out
    assert "note: sgemm_v3 ran with" not in out


def test_a_launch_that_was_never_measured_is_refused(
    run: Run, report: Callable[[str], Path]
) -> None:
    path = str(report("gtx1660s-ncu2021.1-unprofiled-action"))
    code, _, err = run(path, "--version", "v0", "--kernel", "trace")
    assert code == 5
    assert "trace is listed, but was never measured" in err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("none.ncu-rep", "--version", "v3"), 2, "no such report"),
        ((REPORT, "--version", "v33"), 2, "no version `v33`"),
        ((REPORT, "--version", "v3", "--problem", "n1025"), 2, "no problem `n1025`"),
        ((REPORT, "--version", "v3", "--study", "nope"), 2, "no study `nope`"),
        ((REPORT, "--version", "conv/v3", "--study", "sgemm"), 2, "name different studies"),
        ((REPORT, "--version", "v3", "--kernel", "softmax"), 2, "no kernel matches 'softmax'"),
        ((REPORT,), 2, "--version"),
        (("workbench.toml", "--version", "v3"), 5, "not an Nsight Compute report"),
        (("kernels", "--version", "v3"), 5, "is a folder"),
    ],
)
def test_errors_say_what_and_leave_nothing(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    got, out, err = run(*arguments)
    assert (got, out) == (code, "")
    assert words in err
    assert "Traceback" not in err
    assert not list((tmp_path / "profiles").rglob("*.zst"))


def test_outside_of_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(["import", REPORT, "--version", "v3"])
    assert caught.value.code == 2
    assert "no workbench project" in capsys.readouterr().err
