"""The glossary: every limit, warp state and unit that pages name has its words and an example."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

from tests.views import site_data
from workbench.analysis.limits.limit import GROUP, ResourceId
from workbench.counters import catalog
from workbench.language import using
from workbench.project import find_project
from workbench.views.html.build import build_report
from workbench.views.html.pages.glossary import glossary_view


def test_every_limit_state_and_unit_has_an_example() -> None:
    view = glossary_view()
    assert {each.id for each in view.limits} == set(get_args(ResourceId))
    assert set(view.examples) == {state.id for state in catalog().group(GROUP)}
    assert {each.id for each in view.units} == {c.unit for c in catalog() if c.unit}
    told = [*view.limits, *view.units]
    assert all(each.meaning and each.example for each in told)
    with using("zh"):
        there = glossary_view()
    for one, other in zip(told, [*there.limits, *there.units], strict=True):
        assert one.meaning != other.meaning
        assert one.example != other.example
    assert all(view.examples[state] != there.examples[state] for state in view.examples)


def test_the_page_and_the_script_beside_it_say_the_same(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    build_report(root / "reports", project=find_project(root))
    page = (root / "reports/glossary.html").read_text(encoding="utf-8")
    script = (root / "reports/glossary.js").read_text(encoding="utf-8")
    said = json.loads(script.removeprefix("window.workbenchGlossary=").removesuffix(";\n"))
    view = glossary_view()
    for each in (*view.limits, *view.units):
        assert each.example in page
    for example in view.examples.values():
        assert f"Example: {example}" in page.replace("&#39;", "'")
    assert said["examples"] == view.examples
    assert said["limits"]["l1_throughput"]["example"] == view.limits[1].example
    assert said["units"][said["unitOf"]["shared_wavefronts"]]["id"] == "wavefront"
