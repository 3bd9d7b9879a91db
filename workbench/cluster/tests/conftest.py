"""A Slurm for all tests of this folder, and a desk in front of it."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import until
from workbench.cluster.tests.desk import Desk
from workbench.cluster.tests.slurm import NODES, Slurm, lacking, slurm


@pytest.fixture(scope="session")
def cluster() -> Iterator[Slurm]:
    if why := lacking():
        pytest.skip(f"no Slurm can be started here: {why}")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wslurm", dir="/tmp")))
        try:
            running = stack.enter_context(slurm(folder / "s"))
        except (OSError, AssertionError, RuntimeError, subprocess.SubprocessError) as error:
            # Containers without their own processes or users let no daemon of it run.
            pytest.skip(f"no Slurm can be started here: {error}")
        yield running


@pytest.fixture
def desk(cluster: Slurm) -> Iterator[Desk]:
    # A node on which the last test's jobs are still ending takes no others yet.
    until(lambda: cluster.states() == dict.fromkeys(NODES, "idle"), 60)
    folder = Path(tempfile.mkdtemp(prefix="wdesk", dir="/tmp"))
    (folder / "project").mkdir()
    made = Desk(folder / "project", cluster)
    made.book.touch()
    try:
        yield made
    finally:
        for row in made.rows("PENDING,RUNNING"):
            cluster.run("scancel", row["id"], check=False)
        for node in NODES:
            cluster.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def collected(desk: Desk) -> Iterator[Callable[[], dict[str, list[dict[str, Any]]]]]:
    """What was seen in ``begun`` and ``done`` while the test ran, each file once."""
    seen: dict[str, dict[str, dict[str, Any]]] = {"begun": {}, "done": {}}
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.1):
            for kind, found in seen.items():
                for piece in desk.pieces(kind):
                    found[f"{piece['number']}.{piece['begun']}"] = piece

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield lambda: {kind: list(found.values()) for kind, found in seen.items()}
    finally:
        over.set()
        thread.join()
