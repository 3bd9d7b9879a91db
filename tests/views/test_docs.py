"""Documentation that is generated, and documentation that must keep up."""

from __future__ import annotations

import re
from pathlib import Path

from workbench.counters import catalog
from workbench.views.text.catalog import counters_page


def test_the_counter_page_is_up_to_date(repo: Path) -> None:
    written = (repo / "docs" / "counters.md").read_text(encoding="utf-8")
    hint = "run: python -m workbench.views.text.catalog > docs/counters.md"
    assert written == counters_page(), hint


def test_the_counter_page_names_every_counter_and_its_documentation() -> None:
    page = counters_page()
    for counter in catalog():
        assert f"### `{counter.id}`" in page and counter.meaning in page
        assert all(f"`{name}`" in page for name in counter.names)


def test_the_json_page_names_every_key(repo: Path) -> None:
    """The keys that tests/commands hold the output to are in docs/json.md."""
    from tests.commands import test_diff, test_show

    page = (repo / "docs" / "json.md").read_text(encoding="utf-8")
    keys = test_show.PROFILE_KEYS + test_show.LAUNCH_KEYS + test_diff.KEYS + test_diff.COUNTER_KEYS
    for key in keys:
        assert re.search(rf'"{key}"', page), key
