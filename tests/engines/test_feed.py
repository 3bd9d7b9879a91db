"""Jobs that come while their worker exists."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from workbench.engines import Where
from workbench.engines.host import client
from workbench.engines.host.client import Feed
from workbench.engines.host.job import Executable, Job, read_orders
from workbench.engines.host.process import Finished
from workbench.project import Project


def job(version: str) -> Job:
    program = Executable(version=version, kind="python", path="")
    return Job(task="verify", study="double", problem="n7", seed=1, executable=program)


def test_whoever_watches_a_feed_looks_at_once_and_when_the_rest_comes() -> None:
    seen: list[tuple[list[str], bool]] = []

    def look() -> None:
        seen.append(([each.executable.version for each in feed], feed.closed))

    feed = Feed([job("v0")], more=True)
    with feed.watched(look):
        pass
    with feed.watched(look):
        feed.add([job("v1"), job("v2")])
    with feed.watched(look):
        pass
    assert seen == [(["v0"], False)] * 2 + [(["v0", "v1", "v2"], True)] * 2
    assert len(feed) == 3


def test_the_time_limit_does_not_run_while_a_worker_waits(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = Feed(more=True)
    waiting: list[bool] = []

    def run_group(argv: Sequence[str], *, moved: Callable[[], float], **_: Any) -> Finished:
        orders = project.root / argv[4]
        assert read_orders(orders).more
        now = time.monotonic()
        waiting.append(moved() >= now)
        feed.add([job("v0")])
        assert not read_orders(orders).more and len(read_orders(orders).jobs) == 1
        now = time.monotonic()
        waiting.append(moved() >= now)
        return Finished(code=0, output="", timed_out=False, seconds=0.0)

    monkeypatch.setattr(client, "run_group", run_group)
    client.run_jobs(project, feed, Where(arch="sm_90"))
    assert waiting == [True, False]
