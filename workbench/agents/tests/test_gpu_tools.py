"""Tools that need a GPU, on its stand-in: commands in processes of their own, as for a client."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.engines import stand_ins
from workbench.agents.tests.client import REPO, Client, asked
from workbench.project import Project
from workbench.store import Store

#: Beside `stand_ins.NO_COMPILER`: what stands in for the machine in the processes of commands.
_ONE_GPU = """
    from workbench.engines.gpu.nvml import Gpu
    from workbench.engines.host import presence
    one = Gpu(index=0, name="NVIDIA Stand-In 1", uuid="GPU-aaaa-0", driver="1",
              compute_capability=(9, 0), memory_bytes=1 << 30)
    presence.find_gpus = lambda: ([one], "")
    presence.need_pycuda = lambda: None
"""


@pytest.fixture
def machine(tmp_path: Path, fake_ncu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a GPU, ncu and no compiler, for every process that a tool starts."""
    folder = tmp_path / "machine"
    folder.mkdir()
    text = stand_ins.NO_COMPILER.format(folder=str(folder)) + _ONE_GPU
    (folder / "sitecustomize.py").write_text(text)
    path = (folder, Path(stand_ins.__file__).parent / "fake_pycuda", REPO)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, path)))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PATH", f"{fake_ncu.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.slow
@pytest.mark.usefixtures("machine")
def test_what_needs_a_gpu_is_done_on_it_and_answered_within_the_bound(project: Project) -> None:
    async def job(client: Client) -> None:
        given: dict[str, Any] = {"versions": ["v0"], "max_bytes": 4000}
        verdict = await client.ask("verify", engine="gpu", **given)
        results = verdict["answer"]["results"]
        assert results and all(result["ok"] for result in results)
        await client.ask("time", **given)
        await client.ask("profile", engine="ncu", **given)
        shown = await client.ask("show", target="v0", max_bytes=4000)
        assert shown["answer"]["engine"] == "ncu" and shown["answer"]["version"] == "v0"

    asked(project.root, job, "verify", "time", "profile")
    store = Store.of(project)
    assert [time.device.name for time in store.timings()] == ["NVIDIA Stand-In 1"]
    assert [(entry.version, entry.engine) for entry in store.find()] == [("v0", "ncu")]


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("tool", ["verify", "time", "profile"])
def test_nothing_runs_on_a_gpu_that_the_caller_did_not_allow(project: Project, tool: str) -> None:
    async def job(client: Client) -> None:
        answer, failed = await client.call(tool, versions=["v0"])
        assert failed and f"--allow {tool}" in str(answer)

    asked(project.root, job)
    assert not list(project.profiles.rglob("*.zst"))


@pytest.mark.slow
@pytest.mark.usefixtures("machine")
def test_a_wrong_result_on_the_gpu_is_an_error_with_its_code(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_KERNEL", "wrong")

    async def job(client: Client) -> None:
        verdict = await client.ask("verify", versions=["v0"], engine="gpu", max_bytes=4000)
        assert verdict["error"]["code"] == 4
        answer, failed = await client.call("profile", versions=["v0"], engine="ncu")
        assert failed or answer["error"]["code"] == 4, answer

    asked(project.root, job, "verify", "profile")
    assert not list(project.profiles.rglob("*.ncu.json.zst"))
