"""What the worker measured, as the record that is kept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from workbench import __version__
from workbench.engines.host.client import verification
from workbench.engines.host.job import Job, Result
from workbench.model import Notice, Timing, Version
from workbench.project import Project
from workbench.study.folder import Study, source_hash


def timing_record(
    project: Project,
    study: Study,
    version: Version,
    job: Job,
    result: Result,
    notices: Sequence[Notice],
) -> Timing:
    """The record of a job of task ``time`` that went well.

    Args:
        project: Whose sources are hashed.
        study: The job's study.
        version: The job's version.
        job: What the worker was asked.
        result: What it said.
        notices: Known before the job ran; the worker's own come behind them.
    """
    times, device, check = result.times, result.device, result.check
    assert times is not None and device is not None and check is not None
    beside = study.baseline if job.baseline and times.ratio else None
    return Timing(
        study=study.name,
        version=version.id,
        problem=job.problem,
        device=device,
        captured=now(),
        time=times.time,
        parameters=result.parameters,
        source_hash=source_hash(project, version),
        cache=job.time.cache,
        method=times.method,
        converged=times.converged,
        first_launch=times.first_launch,
        launches=times.launches,
        flops=result.flops,
        bytes=result.bytes,
        baseline=beside.id if beside else "",
        baseline_hash=source_hash(project, beside) if beside else "",
        baseline_time=times.baseline_time,
        ratio=times.ratio,
        verification=verification(job, check),
        state=result.state,
        tools={**result.tools, "workbench": __version__},
        notices=(*notices, *result.notices),
    )


def now() -> str:
    """The time as records hold it: ISO 8601, UTC, in seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
