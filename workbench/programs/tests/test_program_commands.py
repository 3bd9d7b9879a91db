"""`@NAME` in `show` and `diff`, on captures that were taken on a GPU."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.engines.stand_ins import Cli
from workbench.serve.watch import look
from workbench.session.api import CoreSession
from workbench.store import codec

CAPTURES = Path(__file__).resolve().parents[3] / "tests" / "data" / "captures"


@pytest.fixture(autouse=True)
def _there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CAPTURES)
    monkeypatch.setenv("COLUMNS", "120")


def test_a_kernel_of_a_capture_stands_where_a_report_may(cli: Cli) -> None:
    code, out, _ = cli("show", "@coalesced::softmax_rows")
    assert code == 0 and "softmax_rows" in out and "Speed of light" in out
    code, out, _ = cli("diff", "@strided::softmax_rows", "@coalesced::softmax_rows")
    assert code == 0 and "@strided::softmax_rows" in out
    assert cli("show", "@graphs::scale#2")[0] == 0
    code, _, said = cli("show", "@manual::Kernel2")
    assert code == 2 and "no kernel of @manual was profiled" in said


def test_what_is_not_there_says_how_to_make_it(cli: Cli) -> None:
    code, _, said = cli("show", "@stridet")
    assert code == 2 and "Did you mean `strided`" in said and "workbench capture" in said
    code, _, said = cli("diff", "@strided", "@HEAD")
    assert code == 2 and "workbench capture --at HEAD -- COMMAND" in said


def test_what_is_looked_at_as_in_another_capture_was_looked_at_there(cli: Cli) -> None:
    code, _, said = cli("capture", "x", "--engine", "ncu", "--like", "@eager", "--", "true")
    assert code == 2 and "no kernel of @eager was profiled" in said
    assert "Leave out --like" in said


@pytest.mark.parametrize("folder", [CAPTURES, CAPTURES.parent / "programs"], ids=lambda x: x.name)
def test_what_was_captured_names_no_machine(folder: Path) -> None:
    paths = list(folder.rglob("*.zst"))
    assert paths
    for path in paths:
        plain = codec.unpack(path.read_bytes())
        for word in (b"/root", b"/home", b"/opt/", b"hostname", b"/tmp/", b"--export"):
            assert word not in plain, (path, word)


def test_a_capture_is_a_report_to_pages_and_to_studies(cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ("report", "--single-file", "--out", str(page))
    code, _, said = cli(*words, "@strided::softmax_rows", "@coalesced::softmax_rows")
    assert code == 0, said
    text = page.read_text()
    assert "@coalesced" in text and "softmax_rows" in text and str(tmp_path) not in text
    code, _, said = cli(*words, "@manual::Kernel2")
    assert code == 2 and "no kernel of @manual" in said


def test_a_program_is_one_page_too(cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ("report", "--single-file", "--out", str(page), "--force")
    assert cli(*words, "@manual")[0] == 0
    assert "python3 transformer.py 10" in page.read_text()
    assert cli(*words, "@manual", "@fused")[0] == 0
    assert "fmha_cutlassF_f32_aligned" in page.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html"]
    code, _, said = cli(*words, "@manual", "sgemm/v3")
    assert code == 2 and "there is no page for" in said


def test_a_report_of_programs_needs_no_project(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(CAPTURES / ".workbench", tmp_path / ".workbench")
    monkeypatch.chdir(tmp_path)
    code, out, _ = cli("report", "@manual", "@fused")
    assert code == 0 and "5 pages written" in out
    assert len(list((tmp_path / "reports").glob("programs/*/index.html"))) == 3
    code, out, _ = cli("report", "@manual", "@fused")
    assert code == 0 and "0 pages written, 5 unchanged" in out
    code, _, said = cli("report", "@manuel")
    assert code == 2 and "Did you mean `manual`" in said
    record = tmp_path / ".workbench/captures/manual/capture.json.zst"
    record.write_bytes(record.read_bytes()[:100])
    code, _, said = cli("report", "@manual")
    assert code == 5 and "is damaged" in said


def test_a_program_that_is_captured_again_is_a_change() -> None:
    plan = CoreSession().site(("@manual", "@strided::softmax_rows"), Path("x"))
    folder, file = sorted(plan.sources())
    assert folder.name == "manual" and {Path(path).name for path in look([folder])} == {
        "capture.json.zst"
    }
    assert file.name == "detail.ncu.json.zst"


@pytest.mark.parametrize(
    "arguments",
    [("diff", "strided", "coalesced"), ("show", "strided"), ("show", "strided::softmax")],
)
def test_a_capture_named_without_its_sign_is_recognized(
    arguments: tuple[str, ...], cli: Cli
) -> None:
    code, _, error = cli(*arguments)
    assert code == 2 and f"write @{arguments[1]}." in error
    # What no capture is called is answered as before.
    assert "Known versions: v0" in cli("show", "stridet")[2]


def test_every_capture_can_be_meant(cli: Cli) -> None:
    assert "Did you mean `coalesced`?" in cli("show", "@coalesce")[2]
    assert "Known captures: coalesced," in cli("show", "@zzz")[2]


def test_closer_is_the_heaviest_kernel_that_has_counters(cli: Cli) -> None:
    assert "`workbench show @strided::softmax_rows`" in cli("show", "@strided")[1]


@pytest.mark.parametrize("words", [("python", "bench.py"), ("python", "-c", "pass")])
def test_a_program_that_does_not_stand_behind_the_dashes(words: tuple[str, ...], cli: Cli) -> None:
    code, _, error = cli("capture", "before", *words)
    assert code == 2 and "after --, as in `workbench capture before -- python bench.py`" in error
    _, _, error = cli("new", "--from-launch", "@before::softmax")
    assert "no command to run was given" in error
    assert "`workbench new --from-launch @before::softmax -- python bench.py`" in error


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "@strided", "--memory"),
        ("diff", "@coalesced", "@strided", "--memory"),
        ("diff", "@coalesced", "@strided", "--sass"),
    ],
)
def test_what_is_said_of_kernels_alone_is_refused_for_programs(
    arguments: tuple[str, ...], cli: Cli
) -> None:
    code, out, error = cli(*arguments)
    assert code == 2 and not out and "Name the kernel: @strided::KERNEL." in error
    assert cli(*(each + "::softmax" * (each[0] == "@") for each in arguments))[0] == 0
