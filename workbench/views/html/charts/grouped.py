"""Grouped bars: several percentages for each version, against one ceiling."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.views.html.charts.figure import (
    COLORS,
    PATTERNS,
    Figure,
    Mark,
    Segment,
    axis_of,
    layout_of,
    plain,
    ticks,
)

_HUNDRED = 100.0


def grouped(
    identity: str, label: str, rows: Sequence[str], series: Sequence[Segment], axis: str
) -> Figure:
    """Horizontal bars in percent of a peak, a group for each row; the axis ends at the peak."""
    data = []
    for place, segment in enumerate(series):
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": plain(segment.name),
                "y": [plain(row) for row in rows],
                "x": [mark.value for mark in segment.marks],
                "customdata": [plain(mark.hover or mark.text) for mark in segment.marks],
                "hovertemplate": "%{y} · %{fullData.name}: %{customdata}<extra></extra>",
                "marker": {
                    "color": COLORS[place % len(COLORS)],
                    "pattern": {
                        "shape": PATTERNS[place % len(PATTERNS)],
                        "fillmode": "overlay",
                        "fgcolor": "@card",
                        "size": 7,
                        "solidity": 0.12,
                    },
                },
            }
        )
    layout = layout_of(
        barmode="group",
        showlegend=True,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        xaxis=axis_of(title=axis, range=[0, _HUNDRED], **ticks(_HUNDRED, "%")),
        yaxis=axis_of(autorange="reversed", showgrid=False, tickfont={"color": "@ink", "size": 12}),
        margin={"l": 8, "r": 16, "t": 44, "b": 36},
        bargap=0.28,
    )
    narrow = {"legend": {**layout["legend"], "font": {"size": 10}}}
    spec = {"data": data, "layout": layout, "narrow": narrow}
    height = 100 + len(rows) * (14 + 11 * len(series))
    return Figure(id=identity, label=label, height=height, spec=spec)


def missing() -> Mark:
    """No bar: a counter that a row does not have."""
    return Mark(0.0, "—", "not recorded")
