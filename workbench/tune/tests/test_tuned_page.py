"""What a tuning says besides its winner: the tables, and the page of the report."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.factories import keep_tuning, make_profile
from tests.views.site_data import study
from tests.views.test_html import Page, build
from workbench.ladder.tunings import Trial, Tuning, TuningBegun, path_of, writing
from workbench.store import Store
from workbench.tune.shown import best_sheet, cliffs_sheet, effects_sheet, told_sheets
from workbench.tune.tests.test_tuned import ALIKE
from workbench.views.terminal.console import render
from workbench.views.terminal.tables import sheet_view

BEGUN = TuningBegun(
    study="demo",
    version="v2",
    source_hash="abc",
    problems=("n1024", "n64"),
    gpu="h200",
    engine="gpu",
    parameters={"TILE": (16, 32, 64), "UNROLL": (1, 4)},
    default={"TILE": 16, "UNROLL": 1},
    strategy="all",
    seed=7,
    started="2026-11-26T09:00:00Z",
)


def trials() -> Iterable[Trial]:
    """TILE 64 takes so many registers that half of the blocks fit; UNROLL gives a tenth."""
    for problem, best in (("n1024", 32), ("n64", 16)):
        for tile in (16, 32, 64):
            for unroll in (1, 4):
                seconds = 1e-3 * (1.0 if tile == best else 1.1) * (1.1 if unroll == 1 else 1.0)
                many = tile == 64
                seconds *= 2.0 if many else 1.0
                yield Trial(
                    values={"TILE": tile, "UNROLL": unroll},
                    fate="timed",
                    problem=problem,
                    registers=80 if many else 40,
                    shared=4096,
                    occupancy=0.375 if many else 0.75,
                    samples_s=(seconds,) * 8,
                    median_s=seconds,
                    low_s=seconds * 0.999,
                    high_s=seconds * 1.001,
                    facts=ALIKE | {"occupancy_limit_registers": 3.0 if many else 6.0},
                )
    yield Trial(values={"TILE": 64, "UNROLL": 4}, fate="wrong", problem="n2", why="by 1")


def keep(root: Path, begun: TuningBegun = BEGUN, kept: Iterable[Trial] | None = None) -> Tuning:
    return keep_tuning(root, begun, trials() if kept is None else kept)


@pytest.fixture
def tuned(tmp_path: Path) -> Tuning:
    return keep(tmp_path / "profiles")


def test_the_effects_name_the_parameter_that_matters_and_what_each_value_costs(
    tuned: Tuning,
) -> None:
    sheet = effects_sheet(tuned, "n1024")
    (name, share, costs), *rest = sheet.shown
    assert (name, costs) == ("TILE", "16: 1.10×, 32: 1.00×, 64: 2.20×")
    assert float(share.removesuffix("%")) > 95
    assert [row[0] for row in rest] == ["UNROLL", "TILE × UNROLL"]
    assert sheet.notes == ("of 6 choices: every combination of the values that were timed",)


def test_a_cliff_says_what_moved(tuned: Tuning) -> None:
    sheet = cliffs_sheet(tuned, "n1024")
    assert sheet is not None
    assert sheet.shown == (
        (
            "TILE 32 → 64", "2.20×", "2", "registers → occupancy",
            "registers 40 → 80 per thread, theoretical occupancy 75.0% → 37.5%",
        ),
    )  # fmt: skip
    bare = [replace(each, occupancy=None, registers=None, facts={}) for each in tuned.trials]
    assert cliffs_sheet(replace(tuned, trials=tuple(bare)), "n1024") is None


def test_a_winner_stands_beside_its_runner_up_and_the_version_as_it_is(tuned: Tuning) -> None:
    rows = best_sheet(tuned, "n1024").shown
    assert [row[:4] for row in rows] == [
        ("winner", "TILE=32 UNROLL=4", "1.00 ms", "1.00×"),
        ("runner-up", "TILE=16 UNROLL=4", "1.10 ms", "1.10×"),
        ("without tuning", "TILE=16 UNROLL=1", "1.21 ms", "1.21×"),
    ]
    untried = replace(tuned, default={"TILE": 8, "UNROLL": 1})
    assert best_sheet(untried, "n1024").shown[-1] == (
        "without tuning", "TILE=8 UNROLL=1", "—", "—", "—", "—",
    )  # fmt: skip


def test_what_a_wrong_choice_costs_stands_under_the_tables_of_all_problems(tuned: Tuning) -> None:
    *_, sizes = told_sheets(tuned, {})
    assert sizes.header == ("winner of", "choice", "n1024", "n64")
    assert sizes.shown == (
        ("n1024", "TILE=32 UNROLL=4", "1.00×", "1.10×"),
        ("n64", "TILE=16 UNROLL=4", "1.10×", "1.00×"),
    )
    text = "".join(render(sheet_view(sheet), 120) for sheet in told_sheets(tuned, {}))
    assert text.count("registers → occupancy") == 2 and "which parameter matters on n64" in text


def test_the_emulators_estimates_are_called_that(tmp_path: Path) -> None:
    counted = [
        replace(each, fate="counted", estimate=each.median_s, median_s=None, samples_s=())
        for each in trials()
        if each.fate == "timed"
    ]
    tuning = keep(tmp_path, replace(BEGUN, engine="emulator"), counted)
    assert "no time was measured" in effects_sheet(tuning, "n1024").notes[-1]
    assert cliffs_sheet(tuning, "n1024") is not None


# --- the page ------------------------------------------------------------------------------------


def site(root: Path) -> tuple[Path, TuningBegun, list[Trial]]:
    """A project with a profile of v2, and a tuning on the same problem that is not yet kept."""
    study(root)
    for version in ("v0", "v2"):
        Store(root / "profiles").save(profile := make_profile(version=version))
    begun = replace(BEGUN, gpu=profile.device.slug, problems=(profile.problem,))
    kept = [replace(each, problem=profile.problem) for each in trials() if each.problem == "n1024"]
    kept[3] = replace(kept[3], why="not verified on n1024: it took too long")
    return root, begun, kept


def test_the_page_is_linked_from_its_version_and_the_ladder(tmp_path: Path) -> None:
    root, begun, kept = site(tmp_path)
    keep(root / "profiles", begun, kept)
    build(root)
    (path,) = (root / "reports").rglob("v2.tuned.html")
    page = Page(path)
    told = "not verified on n1024: it took too long"
    for said in (told, "TILE=32 UNROLL=4", "registers → occupancy", "2.20×", "TILE × UNROLL"):
        assert said in page.text
    assert page.json["effects-data"]["data"][0]["y"][0] == "TILE"
    assert "../../../../studies/demo/h200/n1024/v2.html" in page.links  # of its breadcrumb
    for other in ("v2.html", "index.html"):
        assert "v2.tuned.html" in Page(path.with_name(other)).links
    assert "v2.tuned.html" not in Page(path.with_name("v0.html")).links


def test_only_what_a_tuning_changes_is_written_again_and_its_end_is_the_pages(
    tmp_path: Path,
) -> None:
    root, begun, kept = site(tmp_path)
    build(root)
    keep(root / "profiles", begun, kept)
    assert build(root).pages.written == 3  # its own, the version's, the ladder's
    assert build(root).pages.written == 0
    with writing(root / "profiles", begun) as (log, _):
        log.add(replace(kept[0], median_s=0.5e-3, low_s=0.4e-3, high_s=0.6e-3))
    assert build(root).pages.written == 1
    path_of(root / "profiles", begun.gpu, "demo", "v2", "gpu").unlink()
    assert build(root).pages.removed == 1
    assert not list((root / "reports").rglob("*.tuned.html"))


def test_the_step_from_the_runner_up_is_told_where_both_were_profiled(tmp_path: Path) -> None:
    root, begun, kept = site(tmp_path)
    store = Store(root / "profiles")
    profile = next(iter(store.profiles(version="v2")))
    keep(root / "profiles", begun, kept)
    build(root)
    (path,) = (root / "reports").rglob("v2.tuned.html")
    assert "Why it wins" not in Page(path).text
    for choice in ("v2@32-4", "v2@16-4"):
        at = store.save(replace(profile, version=choice))
        assert at.parent.parent.name == "v2" and at.parent.parent.parent.name == "tuned"
    assert build(root).pages.written == 1
    text = Page(path).text
    assert "Why it wins" in text and "TILE=16" in text and "1.10×" in text
    assert [each.version for each in store.find(study="demo")] == ["v0", "v2"]  # no versions
    at.write_bytes(b"no profile")
    assert build(root).pages.written == 1
    assert "Why it wins" not in Page(path).text and "damaged" in Page(path).text


def test_a_damaged_tuning_is_told_on_the_ladders_page(tmp_path: Path) -> None:
    root, begun, _ = site(tmp_path)
    path = path_of(root / "profiles", begun.gpu, "demo", "v2", "gpu")
    path.parent.mkdir(parents=True)
    path.write_text("{}\n{}\n")
    build(root)
    (ladder,) = (root / "reports").glob("studies/demo/*/*/index.html")
    assert "is damaged" in Page(ladder).text
