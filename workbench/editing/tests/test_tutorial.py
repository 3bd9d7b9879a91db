"""The tutorial of editing, read to a server line by line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.ladders import needs_compiler
from workbench.editing.tests.client import Client
from workbench.editing.tests.test_sessions import (
    CONFLICTS,
    ON_SAVE,
    RACE,
    REPO,
    V3,
    project,
    talk,
    text_of,
)

__all__ = ["project"]


@needs_compiler
@pytest.mark.slow
def test_what_the_tutorial_shows_is_what_the_editor_is_told(project: Path) -> None:
    page = (REPO / "workbench/editing/docs/tutorial-edit.md").read_text(encoding="utf-8")
    recorded, lens, edit, moved, at, wrong = re.findall(r"^```text\n(.*?)\n^```", page, re.S | re.M)
    assert edit.strip() == f"__shared__ float {CONFLICTS[1]};"

    def shown(hints: dict[int, str]) -> list[str]:
        return [f"{line}  {label}" for line, label in hints.items()]

    async def job(client: Client) -> None:
        client.open(V3)
        assert await client.wrong(V3) == []
        assert shown(await client.hints(V3)) == recorded.splitlines()
        assert (await client.lenses(V3))[0]["command"]["title"] == lens
        client.save(V3, text_of(V3, CONFLICTS))
        assert text_of(V3, CONFLICTS).splitlines()[37].startswith(edit)
        await client.told("workspace/inlayHint/refresh")
        assert moved in (await client.told("window/showMessage"))["message"]
        assert at in shown(await client.hints(V3))
        client.save(V3, text_of(V3, RACE))
        while not (found := await client.wrong(V3)):
            pass
        assert found == [(50, wrong)]

    talk(project, job, ON_SAVE)
