"""The palette by numbers: WCAG 2.2 contrast of every text and mark, in light and dark.

Formula and thresholds: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio (1.4.3: 4.5
for text, 1.4.11: 3 for graphical objects).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workbench.views.html.charts.figure import COLORS
from workbench.views.html.charts.lines import Axis, Point, Series, lines

CSS = Path(__file__).resolve().parents[2] / "workbench/views/html/assets/workbench.css"

TEXT = (
    *[(ink, ground) for ink in ("ink", "soft", "link") for ground in ("bg", "card")],
    *[(ink, "card") for ink in ("good", "bad", "warn", "key", "type", "str", "num", "com", "pre")],
    ("good", "goodbg"),
    ("bad", "badbg"),
    ("warn", "warnbg"),
    ("ink", "warnbg"),
    ("ink", "heat"),
    ("ink", "mark"),
    ("soft", "mark"),
    ("com", "mark"),
    ("bg", "ink"),
)
MARKS = (*[(f"c{index}", "card") for index in range(1, 33)], ("bar", "card"), ("hot", "card"))


def palettes() -> dict[str, dict[str, str]]:
    css = CSS.read_text(encoding="utf-8")
    said = re.findall(r"--(\w+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", css)
    assert len(said) == len(re.findall(r"--\w+: [^;]*#", css)) - 1, "a colour without a dark one"
    return {
        "light": {name: light for name, light, _ in said},
        "dark": {name: dark for name, _, dark in said},
    }


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("ink", "ground"), TEXT)
def test_text_can_be_read(scheme: str, ink: str, ground: str) -> None:
    colours = palettes()[scheme]
    assert contrast(colours[ink], colours[ground]) >= 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("mark", "ground"), MARKS)
def test_marks_can_be_seen(scheme: str, mark: str, ground: str) -> None:
    colours = palettes()[scheme]
    assert contrast(colours[mark], colours[ground]) >= 3.0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_labels_inside_stacked_bars_can_be_read(scheme: str) -> None:
    colours = palettes()[scheme]
    card, *hues = (bytes.fromhex(colours[n][1:]) for n in ("card", *(c[1:] for c in COLORS)))
    for hue in hues:  # a part's ground is its colour mixed with the card's
        ground = bytes(round(0.3 * a + 0.7 * b) for a, b in zip(hue, card, strict=True))
        assert contrast(colours["ink"], f"#{ground.hex()}") >= 4.5


def test_no_two_lines_of_a_chart_have_one_colour() -> None:
    for palette in palettes().values():
        colours = [palette[token.removeprefix("@")] for token in COLORS]
        assert len(set(colours)) == len(COLORS) == 32
    series = [Series(name=f"v{n}", points=(Point(x=1.0, y=1.0, hover=""),)) for n in range(24)]
    figure = lines("x", "24 versions", series, x=Axis(title="n"), y=Axis(title="s"))
    assert len({trace["line"]["color"] for trace in figure.spec["data"]}) == 24
