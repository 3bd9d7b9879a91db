"""Pages of captured programs: tables that add up, links that lead to what was profiled."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from workbench.programs.capture.capture_store import Shelf
from workbench.programs.shown.captured import program_folder
from workbench.views.html.build import CapturedProgram, build_report
from workbench.views.html.parts import percent

CAPTURES = Path(__file__).resolve().parents[3] / "tests" / "data" / "captures"


def few(root: Path, name: str, kernel: str) -> CapturedProgram:
    """A capture of which one launch of one kernel was looked at."""
    shelf = Shelf(CAPTURES)
    capture, detail = shelf.load(name), shelf.detail(shelf.load(name))
    assert detail is not None
    place = [launch.kernel for launch in detail.launches].index(kernel)
    Shelf(root).save(
        replace(capture, detail=(capture.detail[place],)),
        replace(detail, launches=(detail.launches[place],)),
    )
    return CapturedProgram(root=root, name=name)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CapturedProgram, CapturedProgram]:
    """The site of an extension before and after, and its captures."""
    root = tmp_path_factory.mktemp("pair")
    old, new = (few(root, name, "softmax_rows") for name in ("strided", "coalesced"))
    build_report(root / "reports", programs=(old, new))
    return root / "reports", old, new


@pytest.fixture(scope="module")
def surveyed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The comparison of two programs of which no kernel was looked at."""
    out = tmp_path_factory.mktemp("surveyed")
    both = tuple(CapturedProgram(CAPTURES, name) for name in ("manual", "fused"))
    build_report(out, programs=both)
    return out / program_folder(*both) / "index.html"


class _Rows(HTMLParser):
    """The cells of every row of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("td", "th", "tr", "table")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][-1] += data


def rows(text: str) -> dict[str, list[str]]:
    parser = _Rows()
    parser.feed(text)
    cells = [[re.sub(r"\s+", " ", text).strip() for text in row] for row in parser.rows]
    return {row[0]: row[1:] for row in cells if row}


def test_the_kernel_that_matters_has_its_strip_its_limit_and_its_page(
    pair: tuple[Path, CapturedProgram, CapturedProgram],
) -> None:
    out, old, new = pair
    home = out / program_folder(old, new)
    text = (home / "index.html").read_text(encoding="utf-8")
    step = (home / "kernel-softmax_rows.html").read_text(encoding="utf-8")
    assert '<a href="kernel-softmax_rows.html#hunk-1">hunk 1 (line 24)</a>' in text
    assert "softmax_rows is now limited by" in text
    assert re.search(r'Hottest line: <a href="kernel-softmax_rows.html#L\d+">', text)
    assert "9.93 ms → 2.15 ms of the program, 50 launches, " in step
    assert 'id="hunk-1"' in step and "L1 tag look-ups" in step
    # A row of a kernel that was looked at leads to it, and no other does.
    kernels = text.partition('id="kernels"')[2]
    assert kernels.count('class="go"') == 1


def test_a_program_shows_its_kernels_and_leads_to_their_launches(
    pair: tuple[Path, CapturedProgram, CapturedProgram],
) -> None:
    out, _, new = pair
    page = out / program_folder(new) / "index.html"
    text = page.read_text(encoding="utf-8")
    found = rows(text.partition('id="looked"')[0])
    (launch,) = page.parent.glob("launch*.html")
    assert "14.8\N{NO-BREAK SPACE}ms on the GPU" in text and "commit 6b073509d62e" in text
    assert f'<a class="go" href="{launch.name}">softmax_rows</a>' in text
    assert re.search(rf'<a href="{launch.name}#L\d+">line \d+</a>', text)
    assert found["vectorized_elementwise_kernel"][6:8] == ["16,384", "128"]
    shares = [
        float(cells[2].rstrip("%"))
        for cells in found.values()
        if len(cells) == 9 and "%" in cells[2]
    ]
    assert sum(shares) == pytest.approx(100, abs=0.1)


def test_programs_stand_in_the_index(pair: tuple[Path, CapturedProgram, CapturedProgram]) -> None:
    found = rows((pair[0] / "index.html").read_text(encoding="utf-8"))
    assert found["@strided → @coalesced"][-1] == "1.53×, −7.80 ms"
    assert found["@coalesced"][0] == "python3 bench.py"


def test_a_capture_that_changes_is_written_again_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (few(tmp_path, name, "softmax_rows") for name in ("strided", "coalesced"))
    out = tmp_path / "reports"
    first = build_report(out, programs=(old, new)).pages
    assert (first.written, first.removed) == (8, 0)
    decoded: list[str] = []
    monkeypatch.setattr(Shelf, "load", lambda self, name: decoded.append(name))
    assert build_report(out, programs=(old, new)).pages == (0, 8, 0)
    assert decoded == []
    monkeypatch.undo()
    shelf = Shelf(tmp_path)
    shelf.save(replace(shelf.load("coalesced"), detail=()), None)
    again = build_report(out, programs=(old, new)).pages
    # Without the launch there is neither its page nor a step.
    assert again.removed == 2 and again.unchanged == 4
    assert not list(out.glob("programs/*/kernel-*"))


@pytest.mark.slow
def test_kernels_of_one_name_have_pages_of_their_own(tmp_path: Path) -> None:
    def twice(name: str) -> CapturedProgram:
        program = few(tmp_path, name, "softmax_rows")
        shelf = Shelf(tmp_path)
        capture, detail = shelf.load(name), shelf.detail(shelf.load(name))
        assert detail is not None
        work = capture.survey.works[capture.detail[0]]
        works = (*capture.survey.works, replace(work, symbol=f"{work.symbol}_2"))
        survey = replace(capture.survey, works=works)
        places = (*capture.detail, len(works) - 1)
        launches = (*detail.launches, replace(detail.launches[0], index=99))
        shelf.save(
            replace(capture, survey=survey, detail=places), replace(detail, launches=launches)
        )
        return program

    old, new = twice("strided"), twice("coalesced")
    build_report(tmp_path / "reports", programs=(old, new))
    home = tmp_path / "reports" / program_folder(old, new)
    pages = sorted(path.name for path in home.glob("kernel-*.html"))
    assert pages == ["kernel-softmax_rows.2.html", "kernel-softmax_rows.html"]


@pytest.mark.parametrize("change", ["device", "way"])
def test_what_is_not_comparable_is_said_above_the_numbers(tmp_path: Path, change: str) -> None:
    shelf, there = Shelf(tmp_path), Shelf(CAPTURES)
    shelf.save(there.load("manual"), None)
    capture = there.load("fused")
    assert capture.device is not None
    shelf.save(
        replace(capture, device=replace(capture.device, name="NVIDIA A100"))
        if change == "device"
        else replace(capture, survey=replace(capture.survey, way="ncu")),
        None,
    )
    both = tuple(CapturedProgram(tmp_path, name) for name in ("manual", "fused"))
    build_report(tmp_path / "reports", programs=both)
    page = tmp_path / "reports" / program_folder(*both) / "index.html"
    text = page.read_text(encoding="utf-8")
    assert "<b>These two are not comparable</b>" in text
    said = {"device": "NVIDIA H200 before, NVIDIA A100 after", "way": "surveyed by trace before"}
    assert said[change] in text


def test_names_and_commands_are_inert(tmp_path: Path) -> None:
    attack = '<img src=x onerror="alert(1)">'
    program = few(tmp_path, "strided", "softmax_rows")
    shelf = Shelf(tmp_path)
    capture = shelf.load("strided")
    works = tuple(replace(work, name=attack, symbol=attack) for work in capture.survey.works)
    survey = replace(capture.survey, works=works)
    shelf.save(replace(capture, survey=survey, command=("sh", attack)), shelf.detail(capture))
    build_report(tmp_path / "reports", programs=(program,))
    for page in (tmp_path / "reports").rglob("*.html"):
        assert "<img" not in page.read_text(encoding="utf-8")


def test_the_busy_part_is_the_mean_of_all_gpus(tmp_path: Path) -> None:
    """7.25 ms on two of them together, from the first launch to the last."""
    program = CapturedProgram(CAPTURES, "two-gpus")
    build_report(tmp_path, programs=(program,))
    text = (tmp_path / program_folder(program) / "index.html").read_text(encoding="utf-8")
    run = Shelf(CAPTURES).load("two-gpus").survey.runs[0]
    assert "mean of 2 GPUs" in text
    assert percent(run.busy_ns / (2 * run.span_ns)) in text
