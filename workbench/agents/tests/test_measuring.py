"""A program works on a GPU through `workbench serve mcp`: verify, time, profile, read the step."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("mcp")

from workbench.agents.tests.client import Client, talk
from workbench.measure.experiment import Experiment

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

STEP: dict[str, Any] = {"old": "sgemm/v2", "new": "sgemm/v3"}


@pytest.mark.usefixtures("ncu")
def test_a_client_measures_a_step_and_finds_its_edit(sgemm: Experiment) -> None:
    async def job(client: Client) -> None:
        both: dict[str, Any] = {"versions": ["v2", "v3"]}
        verdict = await client.ask("verify", engine="gpu", problem="n256", **both)
        assert [each["ok"] for each in verdict["answer"]["results"]] == [True, True]
        await client.ask("time", **both)
        await client.ask("profile", engine="ncu", **both)
        found = await client.ask("strip", **STEP)
        strip = found["answer"]
        edit, *_, limit = strip["strip"]
        assert edit["hunk"] == 1 and "line 38" in edit["text"], edit
        assert limit["kind"] == "limit" and strip["time"]["low"] > 1.2, strip
        assert client.answered < 60_000

    talk(sgemm.project.root, job, "--allow", "verify,time,profile")


def test_a_wrong_kernel_is_an_answer_and_not_the_end(broken: Experiment) -> None:
    async def job(client: Client) -> None:
        verdict = await client.ask("verify", engine="gpu", versions=["v2", "v9"])
        wrong = {each["version"]: each for each in verdict["answer"]["results"] if not each["ok"]}
        assert set(wrong) == {"v2", "v9"}
        assert (await client.ask("list"))["answer"]

    talk(broken.project.root, job, "--allow", "verify")
