"""Ten seconds to know: what the first screen of a page says, and how long a page is.

The pages are of recorded versions: six of ``sgemm`` (two of them tries from one parent), and the
five steps whose pages were longest when every hunk stood open.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from click.testing import CliRunner

from tests.fixtures import Once
from workbench import units
from workbench.cli import app
from workbench.project import find_project
from workbench.views.html.build import build_report

pytestmark = pytest.mark.browser

Open = Callable[..., Any]
ROOT = Path(__file__).parents[2]
#: Study, problem, versions.
RECORDED = (
    ("sgemm", "n4096", ("v2", "v3", "v4", "v5", "v6", "v9", "v10", "cublas")),
    ("conv2d", "c64_h128_k256", ("v10", "v11", "cudnn_tf32")),
    ("conv2d_half", "n32_c128", ("v7", "v9", "v11")),
    ("conv2d_int8", "n32_c128", ("v12", "v13")),
    ("conv2d_direct", "n4096", ("v5", "v6")),
)
SGEMM = "studies/sgemm/h200/n4096"
LONGEST = (
    f"{SGEMM}/v9..v10.html",
    "studies/conv2d/h200/c64_h128_k256/v10..v11.html",
    "studies/conv2d_half/h200/n32_c128/v7..v9.html",
    "studies/conv2d_int8/h200/n32_c128/v12..v13.html",
    "studies/conv2d_direct/h200/n4096/v5..v6.html",
)
KINDS = (
    "index.html",
    "glossary.html",
    "studies/sgemm/index.html",
    f"{SGEMM}/index.html",
    f"{SGEMM}/v3.html",
    f"{SGEMM}/v2..v3.html",
    "studies/conv2d_half/h200/n32_c128/v11.html",  # two kernels
    "studies/conv2d/h200/c64_h128_k256/cudnn_tf32.html",  # a library's, many kernels
)
HIGH, LONG = 1000, 6000


@pytest.fixture(scope="module")
def site_of_records(once: Once) -> Path:
    """A site of the recorded versions, with their studies' words."""
    return once("recorded", _recorded) / "reports"


def _recorded(root: Path) -> None:
    (root / "workbench.toml").write_text('default_study = "sgemm"\n', encoding="utf-8")
    (root / "profiles/.studies").mkdir(parents=True)
    for study, problem, versions in RECORDED:
        shutil.copytree(ROOT / "kernels" / study, root / "kernels" / study)
        shutil.copy(ROOT / f"profiles/.studies/{study}.json", root / "profiles/.studies")
        for version in versions:
            here = root / "profiles/h200" / study / version
            here.mkdir(parents=True)
            for kind in ("ncu", "time"):
                name = f"{problem}.{kind}.json.zst"
                shutil.copy(ROOT / "profiles/h200" / study / version / name, here)
    times = root / "profiles/h200/sgemm/v10"
    for problem in ("n1024", "n16384"):
        shutil.copy(ROOT / f"profiles/h200/sgemm/v10/{problem}.time.json.zst", times)
    build_report(root / "reports", project=find_project(root))


def first_screen(page: Any) -> str:
    """The text of what lies wholly above the fold, in the order of the page."""
    page.set_viewport_size({"width": 1600, "height": HIGH})
    words: list[str] = page.evaluate(
        """(high) => {
          const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          const out = [];
          for (let node = walk.nextNode(); node; node = walk.nextNode()) {
            if (!node.textContent.trim() || node.parentElement.closest("script, .vh")) continue;
            const range = document.createRange();
            range.selectNodeContents(node);
            const box = range.getBoundingClientRect();
            if (box.height && box.top >= 0 && box.bottom <= high) out.push(node.textContent);
          }
          return out;
        }""",
        HIGH,
    )
    return re.sub(r"\s+", " ", " ".join(words)).replace("−", "-")


def said(*words: str) -> Any:
    """What a command says of this repository's records, as data."""
    with contextlib.chdir(ROOT):
        result = CliRunner().invoke(app, [*words, "--device", "h200", "--format", "json"])
    return json.loads(result.stdout)


def time_of(version: str) -> Any:
    return said("show", f"sgemm/{version}", "--problem", "n4096")["time"]


def step() -> Any:
    return said("diff", "sgemm/v2", "sgemm/v3", "--problem", "n4096")


def test_the_index_says_how_far_each_study_came_and_what_limits_it(
    site_of_records: Path, open_page: Open
) -> None:
    text = first_screen(open_page(site_of_records / "index.html", width=1600))
    assert "M = 4096, N = 4096, K = 4096" in text  # the problem with the most work
    first, best = time_of("v2"), time_of("v10")
    times = " → ".join(
        f"{name} {units.quantity(time['seconds'], 's')}"
        for name, time in (("v2", first), ("v10", best))
    )
    gained = f"{first['seconds'] / best['seconds']:.1f}× {times}"
    assert re.search(rf"sgemm SGEMM.* {gained} the tensor cores, \d+%", text)
    share = units.factor(best["ratio"])
    assert re.search(rf"{share} here; [\d.]+× to {share} cublas over 3 problems", text)
    for study, _, _ in RECORDED:
        assert study in text
    spark = open_page(site_of_records / "index.html").get_by_role("img").first
    assert re.search(r"× cublas over 3 problems", spark.get_attribute("aria-label"))


def test_a_study_has_a_page_of_its_ladders_and_its_libraries(
    site_of_records: Path, open_page: Open
) -> None:
    page = open_page(site_of_records / "index.html", width=1280)
    page.get_by_role("link", name="sgemm", exact=True).click()
    page.wait_for_url("**/studies/sgemm/index.html")
    text = first_screen(page)
    share = units.factor(time_of("v10")["ratio"])
    assert f"v10 is {share} as fast as cublas (cuBLAS through PyTorch, float32" in text
    assert re.search(rf"n4096 .* v10 [\d.]+ ms · {share} cublas the tensor cores, \d+%", text)
    assert re.search(r"cublas cuBLAS through PyTorch, float32 without TF32 NVIDIA H200", text)
    page.locator(".rise a", has_text="v3").click()
    page.wait_for_url("**/v2..v3.html")


def test_a_ladder_is_a_stack_of_strips_with_its_branches(
    site_of_records: Path, open_page: Open
) -> None:
    page = open_page(site_of_records / SGEMM / "index.html", width=1600)
    text = first_screen(page)
    # What changed, what that did, how much, and what limits now.
    assert "Padded tile, no bank conflicts" in text
    assert " ".join(stop["text"] for stop in step()["strip"]) in text
    assert re.search(r"now the tensor cores, \d+%", text)
    # A dead end is folded beside the version that it was tried from; "Next" passes it by.
    indented = page.locator("tr.branch")
    assert [row.get_attribute("id") for row in indented.all()] == ["v5"]
    assert not indented.is_visible()
    page.get_by_label("tried from here: v5").check()
    assert indented.is_visible()
    places = {row: page.locator(f"#{row} .what b").bounding_box()["x"] for row in ("v4", "v5")}
    assert places["v5"] > places["v4"] + 10
    assert (
        open_page(site_of_records / SGEMM / "index.html", anchor="v5").locator("#v5").is_visible()
    )


@pytest.mark.parametrize(
    ("noun", "path", "beside"),
    [
        ("step", ["v2..v3", "v3..v4", "v4..v6", "v9..v10"], ["v2..v3", "v3..v5", "v3..v4"]),
        ("version", ["v2", "v3", "v4", "v6", "v9", "v10", "cublas"], ["v3", "v5", "v4"]),
    ],
)
def test_next_and_previous_follow_the_path_of_the_ladder(
    site_of_records: Path, open_page: Open, noun: str, path: list[str], beside: list[str]
) -> None:
    """From one end to the other and back, past a dead end; from that, to where it left the path."""
    folder = site_of_records / SGEMM
    page = open_page(folder / f"{path[0]}.html")

    def go(way: str) -> str | None:
        link = page.locator(".steps").get_by_role("link", name=f"{way} {noun}: ")
        if not link.count():
            return None
        link.click()
        return PurePosixPath(unquote(urlsplit(page.url).path)).stem

    assert go("Previous") is None
    assert [*iter(lambda: go("Next"), None)] == path[1:]
    assert [*iter(lambda: go("Previous"), None)] == path[-2::-1]
    before, dead_end, after = beside
    for way, leads_to in (("Previous", before), ("Next", after)):
        page = open_page(folder / f"{dead_end}.html")
        assert go(way) == leads_to


def test_a_step_says_what_why_how_much_and_what_now(site_of_records: Path, open_page: Open) -> None:
    text = first_screen(open_page(site_of_records / SGEMM / "v2..v3.html", width=1600))
    told, now = step(), said("show", "sgemm/v3", "--problem", "n4096")["headroom"]
    # What changed, why, how much, and what limits now.
    assert "v2 → v3 Padded tile, no bank conflicts" in text
    assert " ".join(stop["text"] for stop in told["strip"]) in text
    assert "As [T][T];" in text
    assert "As [T][T + 1 ];" in text and "sum += As [k][ty] * Bs[k][tx];" in text
    # The sentence first, and each once: the counters that moved come later.
    assert " ".join(told["sentence"].split()) in text
    for stop in told["strip"][1:3]:
        assert text.count(stop["text"]) == 1
    before = units.quantity(told["time"]["old_s"], "s")
    assert f"Time {told['strip'][3]['text']} {before} → " in text
    assert re.search(r"verified .+ error \S+ of \S+ allowed · speed-up \S+ \(95%\)", text)
    assert f"Now limited by {now['limit']['words']}" in text
    line, share = now["hottest"]["line"], now["hottest"]["share"]
    hottest = rf"line {line} , {share:.1f}% of the samples, [\d.]+% of them in MIO throttle stalls"
    assert re.search(f"Hottest line: {hottest}", text)
    most = max(now["ways"], key=lambda way: way["speedup"])
    assert f"Next : ≤ {units.factor(most['speedup'])}" in text


def test_a_pair_of_reports_says_the_same(
    compared: Path, open_page: Open, report: Callable[[str], Path]
) -> None:
    text = first_screen(open_page(compared, width=1600))
    ladder = report("ladder_full")
    told = said("diff", f"{ladder}::sgemm_v2", f"{ladder}::sgemm_v3")
    assert " ".join(stop["text"] for stop in told["strip"]) in text
    limit = told["strip"][-1]["text"].removeprefix("still ")
    assert re.search(rf"Now limited by {limit} Hottest line: \S* ?line \d+", text)
    assert re.search(r"Next : ≤ [\d.]+×", text)


def test_a_version_says_what_to_try_and_what_came_of_it(
    site_of_records: Path, open_page: Open
) -> None:
    text = first_screen(open_page(site_of_records / SGEMM / "v2.html", width=1600))
    found = said("show", "sgemm/v2", "--problem", "n4096")["headroom"]
    way = found["ways"][0]
    assert f"Now limited by {found['limit']['words']}" in text
    assert f"≤ {way['speedup']:.2f}× Try: Pad or swizzle shared memory" in text
    assert way["because"].partition(";")[0] in text
    assert f"v3 followed, {step()['time']['speedup']:.2f}×" in text


def test_a_program_says_what_became_of_it_and_of_its_kernels(
    programs: Path, open_page: Open
) -> None:
    page = open_page(programs / "index.html", width=1600)
    text = first_screen(page)
    assert "1.53× faster, -7.80 ms; most of it in softmax_rows, 9.93 ms → 2.15 ms; single" in text
    assert "hunk 1 (line 24) global store sectors 16.8 M → 2.10 M (-87.5%)" in text
    assert "softmax_rows is now limited by latency: long scoreboard stalls, 39%" in text
    assert re.search(r"Hunk 1 softmax_rows .* last = columns\s?, step = THREADS", text)
    page.locator(".strip a").first.click()
    page.wait_for_url("**/kernel-softmax_rows.html#hunk-1")
    assert page.locator("#hunk-1 .sbs").first.is_visible()
    assert "9.93 ms → 2.15 ms of the program, 50 launches" in page.locator(".aim").inner_text()


def test_a_programs_page_says_which_kernel_takes_the_time(programs: Path, open_page: Open) -> None:
    (home,) = programs.parent.glob("coalesced-*/index.html")
    page = open_page(home, width=1600)
    text = first_screen(page)
    assert re.search(r"14\.8 ms on the GPU: sm80_xmma_gemm\S+… 42\.0%", text)
    assert re.search(r"is limited by the L1 data stage, 91% ≤ [\d.]+× Try: ", text)
    assert re.search(r"softmax_rows 2\.15 ms 14\.5% 50 43\.0 µs", text)
    assert page.evaluate("document.documentElement.scrollHeight") <= LONG


def test_every_word_of_a_strip_leads_to_its_proof(site_of_records: Path, open_page: Open) -> None:
    page = open_page(site_of_records / SGEMM / "v2..v3.html", width=1600)
    targets = [link.get_attribute("href") for link in page.locator("h1 ~ .strip a").all()]
    assert targets == [
        "#hunk-1",
        "#counter-shared_wavefronts",
        "#counter-mio_throttle",
        "#time",
        "#now",
    ]
    for target in targets:
        assert page.locator(target).count() == 1
        page.locator(f'h1 ~ .strip a[href="{target}"]').click()
        box = page.locator(target).bounding_box()
        assert -1 <= box["y"] < 900


@pytest.mark.parametrize("path", [*KINDS, *LONGEST])
def test_no_page_is_a_wall(site_of_records: Path, open_page: Open, path: str) -> None:
    page = open_page(site_of_records / path, width=1600)
    assert page.evaluate("document.documentElement.scrollHeight") <= LONG
    assert (site_of_records / path).stat().st_size < 400_000


def test_pages_of_reports_are_no_walls(reported: Path, compared: Path, open_page: Open) -> None:
    for path in (*reported.glob("files/*/index.html"), *reported.glob("files/*/launch2.html")):
        page = open_page(path, width=1600)
        assert page.evaluate("document.documentElement.scrollHeight") <= LONG
    page = open_page(compared, width=1600)
    assert page.evaluate("document.documentElement.scrollHeight") <= LONG


def test_a_hunk_that_is_folded_opens_when_it_is_asked_for(
    site_of_records: Path, open_page: Open
) -> None:
    path = site_of_records / LONGEST[1]
    folded = open_page(path, width=1600).locator("details.hunk").first
    assert folded.get_attribute("open") is None
    summary = folded.locator("summary").first.inner_text()
    assert re.search(r"Hunk \d+ .*\w.*(line|lines)", summary)
    name = folded.get_attribute("id")
    page = open_page(path, width=1600, anchor=name)
    assert page.locator(f"#{name}").get_attribute("open") is not None
    assert page.locator(f"#{name} .sbs").first.is_visible()


def test_not_selected_is_nowhere_a_stall(site_of_records: Path) -> None:
    for page in site_of_records.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(
            r"of them in (not selected|ready|issuing)|Not selected [−+]|Not selected \d", text
        ), page
