"""Figures: what they show, that nothing depends on colour alone, that text stays text."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.factories import make_instructions, make_launch, make_profile
from workbench import units
from workbench.analysis.limits.roofline import Level, Position, Roof
from workbench.views.html.charts import figure as charts
from workbench.views.html.charts import roof as charts_roof
from workbench.views.html.charts.figure import IntervalBar, Mark
from workbench.views.html.charts.lines import Axis, Point, Series, lines, round_places
from workbench.views.html.charts.roof import Spot, placed
from workbench.views.html.charts.several import stack_stalls
from workbench.views.html.charts.steps import Fall, total, waterfall

STALL = "smsp__pcsamp_warps_issue_stalled_"


def traces(figure: charts.Figure) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = figure.spec["data"]
    return data


def test_ticks_are_round_and_cover_the_axis() -> None:
    assert charts.ticks(67e12, "flop/s") == {
        "tickvals": [0.0, 2e13, 4e13, 6e13],
        "ticktext": ["0 FLOP/s", "20 TFLOP/s", "40 TFLOP/s", "60 TFLOP/s"],
    }
    assert charts.ticks(100.0, "%")["ticktext"][-1] == "100%"
    assert charts.ticks(0, "s")["tickvals"] == [0]


@given(st.floats(min_value=1e-9, max_value=1e15))
def test_any_axis_has_a_few_ticks_within_it(top: float) -> None:
    values = charts.ticks(top, "s")["tickvals"]
    assert 2 <= len(values) <= 6
    assert values[0] == 0 and values[-1] <= top * (1 + 1e-9)


def test_ticks_of_one_axis_differ() -> None:
    """The duration of a step that gained a tenth of a percent: 1.001, 1.002 and 1.003 ms."""
    near = [1.0010e-3, 1.0015e-3, 1.0020e-3]
    assert units.tick_row(near, "s") == ["1.0010 ms", "1.0015 ms", "1.0020 ms"]
    assert units.tick_row([16_384_000, 16_385_000]) == ["16.384 M", "16.385 M"]
    assert units.tick_row([99.991, 99.992], "%") == ["99.991%", "99.992%"]
    assert units.tick_row([0, 2e13, 4e13], "flop/s") == ["0 FLOP/s", "20 TFLOP/s", "40 TFLOP/s"]
    figure = waterfall(
        "x", "label", total("v1", 1.0010e-3, "a"),
        [Fall("h", 1.5e-6, "b", "b")], total("v2", 1.0025e-3, "c"), "s", "time",
    )  # fmt: skip
    texts = figure.spec["layout"]["xaxis"]["ticktext"]
    assert len(texts) > 1 and len(set(texts)) == len(texts)


@given(st.floats(1e-9, 1e12), st.floats(1e-7, 10.0), st.integers(2, 6))
def test_ticks_never_read_alike(start: float, step: float, number: int) -> None:
    for unit in ("s", "byte", "%", ""):
        values = [start * (1 + step * place) for place in range(number)]
        assert len(set(units.tick_row(values, unit))) == number


def test_a_total_on_a_cut_axis_is_no_bar() -> None:
    """-0.03% would look like a bar that is a third shorter: its end is marked instead."""
    old, new = total("v1", 1000.0, "1,000"), total("v2", 999.7, "999.7")
    figure = waterfall("x", "label", old, [Fall("h", -0.3, "", "", "good")], new, "s", "time")
    (bars,) = traces(figure)
    left, right = figure.spec["layout"]["xaxis"]["range"]
    assert left > 0
    first, last = bars["x"][0], bars["x"][-1]
    assert first == last < 0.01 * (right - left)
    assert [bars["base"][0] + first, bars["base"][-1] + last] == pytest.approx([1000.0, 999.7])
    assert bars["x"][1] == -0.3


def test_sizes_on_an_axis_are_written_out() -> None:
    assert [text for _, text in round_places([512, 4096, 16384])] == ["512", "4,096", "16,384"]
    assert [text for _, text in round_places([3e8, 5e9], "byte")] == ["300 MB", "5 GB"]


def test_no_colour_stands_for_two_lines_of_a_chart() -> None:
    every = [
        Series(name=f"v{i}", points=(Point(1, i + 1, ""), Point(2, i + 2, ""))) for i in range(16)
    ]
    figure = lines("x", "label", every, Axis("n"), Axis("rate"))
    assert len({trace["line"]["color"] for trace in traces(figure)}) == 16


@given(
    st.lists(st.tuples(st.floats(0.1, 1e3), st.floats(0.3, 1.0)), min_size=1, max_size=2),
    st.booleans(),
)
@example(points=[(12.0, 1.0), (76.0, 1.0)], path=False)
def test_what_is_written_of_a_ceiling_lies_on_no_point(
    points: list[tuple[float, float]], path: bool
) -> None:
    roof = Roof(flops=60e12, bandwidth=4e12, l1=30e12, l2=8e12)
    dots = [charts_roof.Dot(f"v{n}", x, y * 60e12, "") for n, (x, y) in enumerate(points)]
    figure = charts_roof.roofline("x", "label", [("L2", dots)], [roof], path=path)
    layout = figure.spec["layout"]
    (left, right), (low, high) = layout["xaxis"]["range"], layout["yaxis"]["range"]
    width, height = (660 if path else 520), figure.height - 80
    text = layout["annotations"][0]
    box = charts_roof.RoofText((text["text"],), ()).box(
        (text["x"], text["xanchor"], text["y"], text["yanchor"]), height, width
    )
    for dot in dots:
        x = width * (math.log10(dot.intensity) - left) / (right - left)
        y = height * (high - math.log10(dot.rate)) / (high - low)
        assert not box.meets(charts_roof.Box(x - 5, y - 5, x + 5, y + 5))


def test_a_launch_is_told_the_roof_that_it_is_closest_to() -> None:
    roof = Roof(flops=60e12, bandwidth=4e12, l1=30e12, l2=8e12)
    moved: dict[Level, float] = {"shared": 2.4e13, "L2": 4e12, "DRAM": 1e12}
    place = Position(work={"float32": 30e12}, seconds=1.0, traffic=moved)
    assert charts_roof.nearest(place, roof) == "shared memory, 80.0%"
    few = Position(work={"float32": 30e12}, seconds=1.0, traffic={"DRAM": 1e12})
    assert charts_roof.nearest(few, roof) == "float32 peak, 50.0%"
    assert charts_roof.nearest(few, Roof()) == ""


def test_a_warp_state_has_one_colour_whatever_is_beside_it() -> None:
    slow, fast = (
        make_profile(launches=(make_launch(instructions=make_instructions(**columns)),))
        for columns in (
            {STALL + "barrier": {0: 900}, STALL + "long_scoreboard": {0: 800}},
            {STALL + "long_scoreboard": {0: 900}, STALL + "wait": {0: 800}},
        )
    )
    colors = []
    for profile in (slow, fast):
        split = stack_stalls([("v0", profile)])
        colors.append({name: hue for name, *_, hue in (split.sides[0].parts if split else ())})
    assert colors[0]["Long scoreboard"] == colors[1]["Long scoreboard"]
    assert len({*colors[0].values(), *colors[1].values()}) == 3


@pytest.mark.parametrize(("peak", "drawn"), [(13.0, True), (15.0, False), (100.0, False)])
def test_a_peak_far_above_everything_is_not_drawn(peak: float, drawn: bool) -> None:
    rows = [IntervalBar(name="v0", mark=Mark(10.0, "10"))]
    figure = charts.intervals("x", "label", rows, "s", "time", Mark(peak, "peak"))
    layout = figure.spec["layout"]
    assert ("shapes" in layout) is drawn
    # Beyond the scale it is said, and the bars keep their room.
    assert ("peak is off the scale" in layout["xaxis"]["title"]["text"]) is not drawn
    assert layout["xaxis"]["range"][1] <= 1.4 * 10.0


def test_names_cannot_carry_markup_into_a_chart() -> None:
    name = "<a href='javascript:x'>k</a>"
    figures = (
        charts.intervals("x", "label", [IntervalBar(name, Mark(1.0, name))], "s", "t", None),
        charts_roof.roofline(
            "x",
            "label",
            [(name, [charts_roof.Dot(name, 1.0, 1.0, name)])],
            [Roof(flops=0.0, bandwidth=0.0)],
            path=True,
        ),
    )
    for figure in figures:
        assert "<a" not in str(figure.spec)
        assert "&lt;a" in str(figure.spec)


def test_every_unit_in_use_has_its_own_ceiling() -> None:
    low = Roof(flops=60e12, bandwidth=4e12)
    high = Roof(flops=900e12, bandwidth=4e12, unit="tensor half")
    dot = charts_roof.Dot("v1", 100.0, 5e13, "hover")
    figure = charts_roof.roofline("x", "label", [("DRAM", [dot])], [low, high], path=True)
    assert traces(figure)[-1]["textposition"] == ["bottom center"]  # not upon the ceiling above
    tops = [max(trace["y"]) for trace in traces(figure) if trace["mode"] == "lines"]
    assert tops == [60e12, 900e12]
    texts = [note["text"] for note in figure.spec["layout"]["annotations"]]
    assert "60.0 TFLOP/s float32 peak" in texts and "900 TFLOP/s tensor half peak" in texts


def test_without_a_known_chip_there_is_no_roof() -> None:
    roof = Roof(flops=0.0, bandwidth=0.0)
    dot = charts_roof.Dot("DRAM", 100.0, 5e12, "hover")
    figure = charts_roof.roofline("x", "label", [("DRAM", [dot])], [roof], path=False)
    assert len(traces(figure)) == 1
    assert "annotations" not in figure.spec["layout"]


def test_labels_of_points_that_coincide_are_left_to_hovering() -> None:
    roof = Roof(flops=0.0, bandwidth=0.0)
    names = [f"v{n}" for n in range(8)]
    dots = [charts_roof.Dot(name, 10.0, (5 + n / 100) * 1e12, name) for n, name in enumerate(names)]
    dots.append(charts_roof.Dot("far", 100.0, 1e11, "far"))
    (trace,) = traces(charts_roof.roofline("x", "label", [("L1", dots)], [roof], path=True))
    # Four sides of one place; the ends of the path are named in any case.
    assert trace["text"][0] == "v0" and trace["text"][-1] == "far"
    assert 1 <= sum(map(bool, trace["text"][:-1])) <= 4
    assert trace["customdata"] == [*names, "far"]


_SPOTS = st.lists(
    st.builds(
        Spot, st.floats(0, 400), st.floats(0, 200), st.text("v0123456789", min_size=1, max_size=9)
    ),
    max_size=25,
)


@given(_SPOTS)
def test_no_label_covers_a_point_or_another_label(spots: list[Spot]) -> None:
    labels = placed(spots, 400, 200)
    assert len(labels) == len(spots)
    drawn = [
        (spot, charts_roof.box(spot, label.side))
        for spot, label in zip(spots, labels, strict=True)
        if label.text
    ]
    for place, (_, box) in enumerate(drawn):
        assert box.left >= 0 and box.right <= 400 and box.top >= 0 and box.bottom <= 200
        assert not any(box.meets(other) for _, other in drawn[:place])
        assert not any(
            box.left < spot.x < box.right and box.top < spot.y < box.bottom for spot in spots
        )


def test_a_library_is_on_no_path() -> None:
    roof = Roof(67e12, 4.8e12)
    names = ("v0", "v1", "lib", "lib_nhwc")
    dots = [
        charts_roof.Dot(name, 10.0**place, 1e12, name, alone=name.startswith("lib"))
        for place, name in enumerate(names)
    ]
    (trace,) = [
        trace
        for trace in traces(charts_roof.roofline("x", "label", [("L1", dots)], [roof], path=True))
        if trace.get("name")
    ]
    assert trace["x"] == [1.0, 10.0, None, 100.0, None, 1000.0]
    assert trace["text"] == ["v0", "v1", "", "lib", "", "lib_nhwc"]
    assert trace["customdata"] == ["v0", "v1", "", "lib", "", "lib_nhwc"]


def test_a_roof_over_integers_counts_operations() -> None:
    dot = charts_roof.Dot("DRAM", 100.0, 5e12, "hover")
    roof = Roof(2e15, 4.8e12)
    for unit, word in (("op/s", "OP"), ("flop/s", "FLOP")):
        figure = charts_roof.roofline("x", "l", [("L1", [dot])], [roof], path=False, unit=unit)
        layout = figure.spec["layout"]
        assert layout["xaxis"]["title"]["text"] == f"{word} per byte"
        assert all(text.endswith(f"{word}/s") for text in layout["yaxis"]["ticktext"])


def test_a_long_name_of_a_step_is_cut_before_its_warp_state() -> None:
    name = "for i, for tile and 5 more (hunk 5)"
    falls = [Fall(f"{name}: {state}", 1.0, "+1 s", "") for state in ("Barrier", "Wait")]
    figure = waterfall("x", "label", total("v1", 1.0, "1 s"), falls, total("v2", 3.0, ""), "s", "")
    names = figure.spec["layout"]["yaxis"]["ticktext"][1:3]
    assert [text.partition("…: ")[2] for text in names] == ["Barrier", "Wait"]
    assert all(text.startswith("for i, for tile") and len(text) <= 34 for text in names)
    whole = waterfall("x", "label", total("v" * 40, 1.0, ""), [], total("w", 1.0, ""), "s", "")
    assert whole.spec["layout"]["yaxis"]["ticktext"][0] == "v" * 33 + "…"
