"""The machine code of a step's page: which rows of a hunk are shown, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.test_blame import kernel
from tests.factories import make_profile
from workbench.analysis.listing import HunkCode, Listing, compare_code
from workbench.analysis.story import Step
from workbench.store import Store
from workbench.views.html.code.cards import Machine, chosen

STORE = Store(Path(__file__).resolve().parents[2] / "profiles")
OLD = """LDS R1, [R9]
LDS R2, [R9+0x4]
FFMA R4, R1, R2, R4
BRA 0x7f0000000000
EXIT
BRA 0x7f0000000050"""
NEW = "LDS.64 R2, [R9]\nFFMA R4, R2, R3, R4\nBRA 0x7f0000000000\nEXIT\nBRA 0x7f0000000040"
WAITS = {"short_scoreboard": {2: 30}, "selected": {0: 10}}


def hunk_code(old: str = OLD, new: str = NEW, hunk: int = 3) -> HunkCode:
    sides = Listing(kernel(old, WAITS)), Listing(kernel(new, {"selected": {1: 5}}))
    rows = tuple(range(len(old.splitlines()))), tuple(range(len(new.splitlines())))
    code = compare_code(*sides, *rows)
    return HunkCode(hunk=hunk, code=code, rows=rows, listings=sides, launches=(0, 0))


def machine(one: HunkCode, pages: tuple[str, str] = ("v2.html", "v3.html")) -> Machine:
    profiles = [make_profile(launches=(side.launch,)) for side in one.listings]
    anchor = lambda side, path, line: f"#{'' if side else 'old-'}L{line}"  # noqa: E731
    return Machine([one], (profiles[0], profiles[1]), pages, anchor)


def test_a_hunk_says_what_the_compiler_made_of_it() -> None:
    one = hunk_code()
    (view,) = machine(one).of(3)
    assert view.words.startswith("6 → 5 instructions, ")
    assert "LDS → LDS.64 (1×)" in view.classes and "LDS 2 → 0" in view.classes
    assert view.kernel == view.left_out == "" and machine(one).of(4) == []


def test_rows_hold_both_sides_aligned_with_addresses_and_labels() -> None:
    made = machine(hunk_code())
    (view,) = made.of(3)
    rows = made.beside[view.key]["rows"]
    assert isinstance(rows, list) and len(rows) == 6
    first, multiply = rows[0], next(row for row in rows if row[1] and "FFMA" in row[1][5])
    assert first[0][:2] == ["0000", "v2.html#k0-i0"] and first[1][1] == "v3.html#k0-i0"
    assert first[0][5] == ".L1: LDS R1, [R9]" and first[1][5] == ".L1: LDS.64 R2, [R9]"
    assert multiply[0][5] == "FFMA R4, R1, R2, R4"
    branch = next(row for row in rows if row[0] and "BRA" in row[0][5])
    assert branch[0][5] == "BRA .L1"
    alone = machine(hunk_code(), ("", ""))
    assert alone.beside["m3-0"]["rows"][0][0][1] == ""  # type: ignore[index]


def test_of_many_rows_the_costliest_are_kept_in_the_order_of_the_code() -> None:
    one = hunk_code()

    def cost(pair: tuple[int | None, int | None]) -> float:
        sides = zip(one.listings, pair, strict=True)
        return max(side.seconds.get(row, 0.0) for side, row in sides if row is not None)

    kept = chosen(one, 2)
    assert len(kept) == 2 and [pair for pair in one.code.rows if pair in kept] == kept
    left = [pair for pair in one.code.rows if pair not in kept]
    assert min(map(cost, kept)) >= max(map(cost, left)) and max(map(cost, kept)) > 0
    assert chosen(one, 0) == [] and chosen(one, 99) == list(one.code.rows)


@pytest.mark.parametrize("old, new", [("v10", "v11")])
def test_a_rewrite_of_thousands_of_instructions_stays_small(old: str, new: str) -> None:
    sides = [
        STORE.load(entry.path)
        for version in (old, new)
        for entry in STORE.find(engine="ncu", device="h200")
        if (entry.study, entry.version, entry.problem) == ("conv2d", version, "c64_h128_k256")
    ]
    step = Step(sides[0], sides[1], (old, new))
    made = Machine(step.leading_codes, (step.old, step.new), ("a.html", "b.html"), lambda *_: "")
    rows = {key: each["rows"] for key, each in made.beside.items()}
    assert step.leading_codes[0].hunk == 8  # the edit of the strip comes first
    assert max(len(each) for each in rows.values()) == 240  # type: ignore[arg-type]
    # Hunk 11 has too many instructions to align one by one: the costliest stand alone.
    alone = rows["m11-0"]
    assert isinstance(alone, list) and all((a is None) != (b is None) for a, b in alone)
    assert "left out" in made.of(11)[0].left_out
