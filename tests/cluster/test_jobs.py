"""``--on slurm`` from command to table, on a queue that does each job as it is sent."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.engines.stand_ins import Cli
from workbench.cluster import Element, Queue, Slot
from workbench.cluster.dispatch import Dispatch
from workbench.cluster.slurm import Payload
from workbench.engines.gpu.nvml import Gpu
from workbench.engines.host import presence
from workbench.project import Project
from workbench.store import Store

pytestmark = pytest.mark.usefixtures("stand_in")
GPU = Gpu(0, "NVIDIA Stand-In 1", "GPU-0", "570.1", (9, 0), 2**30)


class HereQueue(Queue):
    """Does a job at once, in this process."""

    def __init__(self, _settings: object, root: Path) -> None:
        self._root = root
        self._ended: dict[Slot, Element] = {}

    def submit(
        self,
        name: str,
        works: Sequence[tuple[int, ...]],
        folder: Path,
        *,
        exclusive: bool,
        avoid: Sequence[str],
    ) -> str:
        for number, work in enumerate(works):
            with contextlib.redirect_stdout(io.StringIO()):  # a job's output is its own
                Payload(Dispatch(self._root, folder.name)).do(work)
            self._ended[Slot(name, number)] = Element("ended", "COMPLETED")
        return "7"

    def elements(self, names: Sequence[str]) -> dict[Slot, Element]:
        return dict(self._ended)

    def cancel(self, names: Sequence[str]) -> None: ...

    def end(self, place: Slot) -> None: ...

    def troubled(self) -> Mapping[str, str]:
        return {}


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.cluster.fleet.SlurmQueue", HereQueue)
    monkeypatch.setattr(presence, "find_gpus", lambda: ([GPU], ""))
    monkeypatch.setattr(presence, "need_pycuda", lambda: None)


def test_times_come_back_from_jobs_and_are_taken_from_the_store_then(
    cli: Cli, project: Project
) -> None:
    words = ("time", "--all", "--on", "slurm", "--limit", "0.1", "--format", "json")
    code, out, err = cli(*words)
    assert code == 0 and "sent 2 jobs for 2 combinations" in err, err
    assert {each["version"] for each in json.loads(out)["times"]} == {"v0", "library"}
    assert len(Store.of(project).timings()) == 2
    code, again, err = cli(*words)
    assert code == 0 and "2 of 2 are taken from the store" in err, err
    assert json.loads(again) == json.loads(out)


def test_a_sweep_by_jobs_is_the_sweep(cli: Cli) -> None:
    sweep = ("sweep", "--problem", "n1000", "--limit", "0.1", "--format", "json")
    code, out, err = cli(*sweep, "--on", "slurm")
    assert code == 0, err
    code, recorded, _ = cli("sweep", "--problem", "n1000", "--recorded", "--format", "json")
    assert code == 0 and json.loads(recorded) == json.loads(out)


def test_a_wrong_result_of_a_job_is_the_errors_exit_code_and_stands_in_the_table(
    cli: Cli, stand_in: Callable[[str], None]
) -> None:
    code, out, _ = cli("verify", "v0", "--on", "slurm", "--format", "json")
    assert code == 0 and all(each["ok"] for each in json.loads(out)["results"])
    stand_in("wrong")
    code, out, err = cli("verify", "v0", "--on", "slurm", "--format", "json")
    assert code == 4 and not all(each["ok"] for each in json.loads(out)["results"])
    assert "gives a wrong result" in err or "checks failed: v0" in err
