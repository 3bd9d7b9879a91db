"""Rendering groups of pages, on several processors if there are many groups.

A group is rendered and written in the planning process or in a child, which returns the manifest's
entries for its pages. Children are forked: a plan holds profiles' paths and studies, which they
inherit instead of reading them again.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

import workbench.processes.following  # noqa: F401 - children end with their parent
from workbench.disk.writing import replace_file
from workbench.errors import MissingError
from workbench.language import current, use
from workbench.views.html.page import KeptPage, Page

#: Below this number of pages, starting processes costs more than it saves.
_MANY_PAGES = 60
#: Each holds a ladder's profiles; more processes would be faster, but need more memory.
_MOST_PROCESSES = 6
#: Shares per process if there are many groups: with fewer, one process would work alone at the end.
_SHARES = 8
#: Thresholds of Python's garbage collector while pages are rendered.
_COLLECTED = (100_000, 50, 100)
#: A full collection runs after this many times its own duration: ladders and rungs refer to each
#: other. Without collections, a process grew by a megabyte per profile.
_REST = 20

_Done = list[tuple[str, KeptPage]]
#: Pages that children inherit: set before the fork.
_plan: list[list[Page]] = []


def rendered(out: Path, groups: list[list[Page]]) -> Iterator[_Done]:
    """Render and write groups of pages; return a list of (path, manifest's entry) per group.

    `groups` is emptied meanwhile, so that a group's inputs can be released. Raises the errors of
    rendering; finished groups stay written and reported.
    """
    processes = _processes(groups)
    if processes == 1:
        with _seldom_collected():
            while groups:
                yield _write(out, groups.pop(0))
                _sweep()
        return
    get_ready()  # once, not in every child
    context = multiprocessing.get_context("fork")
    _plan[:] = groups
    groups.clear()
    try:
        with ProcessPoolExecutor(processes, context, _begin, (current(),)) as pool:
            # The largest first, so that no process starts a large one at the end.
            shares = _shares(len(_plan), processes)
            shares.sort(key=lambda share: sum(len(_plan[n]) for n in share), reverse=True)
            waiting = [pool.submit(_write_planned, out, share) for share in shares]
            try:
                for done in as_completed(waiting):
                    yield done.result()
            except BrokenProcessPool as error:
                raise MissingError(
                    "a process that writes pages was killed from outside, as a system that is "
                    "short of memory does",
                    "Repeat the command: it continues with the pages that are not written yet.",
                ) from error
            finally:
                pool.shutdown(cancel_futures=True)
    finally:
        _plan.clear()


def get_ready() -> None:
    """Load the modules and templates that render pages: this takes longer than most pages."""
    import workbench.views.html.pages.diff
    import workbench.views.html.pages.ladder
    import workbench.views.html.pages.version  # noqa: F401
    from workbench.views.html.render import environment

    for name in environment().list_templates():
        environment().get_template(name)


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Collect cycles seldom: few of the many small records of pages are in a cycle.

    This saves a tenth of the processor time; finished ladders are released now and then.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_COLLECTED)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _begin(language: str) -> None:
    """Use the parent's language. The parent handles Ctrl-C: it drops work that has not begun."""
    use(language)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(*_COLLECTED)


def _processes(groups: list[list[Page]]) -> int:
    if sum(map(len, groups)) < _MANY_PAGES or len(groups) < 2:
        return 1
    # Forking is only safe in a process with one thread; a server has several.
    if "fork" not in multiprocessing.get_all_start_methods() or threading.active_count() > 1:
        return 1
    return min(_processors(), len(groups), _MOST_PROCESSES)


def _processors() -> int:
    """The number of processors that this process may use; all, if the system does not say."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def _shares(groups: int, processes: int) -> list[range]:
    """Groups by process: neighbours go together, as problems of one study share their code."""
    step = max(1, groups // (processes * _SHARES))
    return [range(first, min(first + step, groups)) for first in range(0, groups, step)]


def _write_planned(out: Path, share: range) -> _Done:
    done: _Done = []
    for number in share:
        group, _plan[number] = _plan[number], []
        done += _write(out, group)
        _sweep()
    return done


def _write(out: Path, group: list[Page]) -> _Done:
    done = []
    for page in group:
        result = page.render()
        html = result.html.encode("utf-8", "replace")
        folder = page.path.rpartition("/")[0]
        for name, data in result.beside.items():
            replace_file(out, f"{folder}/{name}" if folder else name, data)
        replace_file(out, page.path, html)
        beside = {name: len(data) for name, data in result.beside.items()}
        kept = KeptPage(
            key=page.key, owner=page.owner, size=len(html), beside=beside, summary=result.summary
        )
        done.append((page.path, kept))
    return done


class _Sweeps:
    """The time of this process's next full collection, by its own clock in seconds."""

    due = 0.0


def _sweep() -> None:
    """Release finished ladders, if it is time."""
    begun = time.perf_counter()
    if begun >= _Sweeps.due:
        gc.collect()
        ended = time.perf_counter()
        _Sweeps.due = ended + _REST * (ended - begun)
