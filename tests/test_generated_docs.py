"""Documentation that is generated, and documentation that must keep up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import swizzles, tables
from docs.counters import counters_page
from workbench.counters import catalog
from workbench.store import Store
from workbench.units import digits3


def test_the_counter_page_is_up_to_date(repo: Path) -> None:
    written = (repo / "docs" / "counters.md").read_text(encoding="utf-8")
    assert written == counters_page(), "run: make docs"


def test_the_counter_page_names_every_counter_and_its_documentation() -> None:
    page = counters_page()
    for counter in catalog():
        assert f"### `{counter.id}`" in page and counter.meaning in page
        assert all(f"`{name}`" in page for name in counter.names)


def test_the_page_of_swizzles_is_up_to_date(repo: Path) -> None:
    written = (repo / "docs" / "ladders" / "swizzles.md").read_text(encoding="utf-8")
    assert written == swizzles.swizzle_page(), "run: make docs"


@pytest.mark.parametrize("layout", swizzles.LAYOUTS, ids=lambda layout: layout.title)
def test_a_drawing_is_of_a_kernels_own_rule(repo: Path, layout: swizzles.Layout) -> None:
    assert layout.written in (repo / "kernels" / layout.file).read_text(encoding="utf-8")
    wanted = swizzles.read_together(layout)
    assert (
        swizzles.wavefronts(layout.plain, wanted) > swizzles.wavefronts(layout.place, wanted) == 1
    )
    # Nothing lies where something else does.
    places = {layout.place(row, chunk) for row in range(8) for chunk in range(layout.chunks)}
    assert len(places) == 8 * layout.chunks


def test_the_copy_engine_has_the_first_two_rules() -> None:
    for layout, bytes_ in zip(swizzles.LAYOUTS, (128, 64), strict=False):
        engine = swizzles.by_engine(bytes_)
        for row in range(32):
            for chunk in range(layout.chunks):
                assert engine(row, chunk) == layout.place(row, chunk)


@pytest.mark.slow
@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_tables_are_what_is_recorded(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == tables.written(text), "run: make docs"


def test_every_table_stands_on_a_page_and_every_mark_is_closed() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in tables.PAGES)
    names = re.findall(r"<!-- table: (.+?) -->", pages)
    assert sorted(names) == sorted(tables.TABLES)
    assert pages.count("<!-- end of table -->") == len(names)


def test_a_cell_that_drifted_is_written_anew() -> None:
    page = "a\n<!-- table: results -->\n\n| 1.18 × |\n\n<!-- end of table -->\nb\n"
    text = tables.written(page)
    assert "1.18" not in text and re.search(r"\| `sgemm` \| n8192 \| v\d+ [\d.]+ ms \|", text)
    assert text.startswith("a\n<!--") and text.endswith("\n\n<!-- end of table -->\nb\n")
    assert tables.written(text) == text


def test_sentences_about_the_recorded_times_hold(repo: Path) -> None:
    text = " ".join((repo / "docs" / "measurements.md").read_text(encoding="utf-8").split())
    every = Store(repo / "profiles").timings(device=tables.DEVICE)
    lowest = [timing.state.sm_clock[0] for timing in every if timing.state]
    dips = sum(clock < 1.97e9 for clock in lowest)
    assert f"{dips} of the {len(every)} recorded times" in text
    assert f"All {len(every)} combinations" in text
    assert f"(lowest: {min(lowest) / 1e9:.4g} GHz)" in text
    told = text[text.index("The 95% interval of the median") :]
    for timing in every:
        half = (timing.time.high - timing.time.low) / 2 / timing.time.value
        if half > 0.0084:
            wide = re.search(rf"{timing.study}. at .*?{timing.problem} \(([^)]*)\)", told)
            assert wide and re.search(rf"{timing.version}\b.*?±{half * 100:.2g}%", wide[1]), timing
    ratios = sorted(
        timing.ratio.value
        for timing in every
        if (timing.study, timing.version) == ("conv2d", "v16") and timing.ratio
    )
    assert ratios[0] > 1
    assert [f"{digits3(ratio)} ×" in text for ratio in ratios[:2]] == [True, True]
    assert f"{digits3(ratios[2])} to {digits3(ratios[-1])} × at the six others" in text
