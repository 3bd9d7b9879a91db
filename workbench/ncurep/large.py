"""Large reports, read in parts: each in a child process of its own, in bounded memory and time.

The native reader loads a report as a whole and grows with it; here it gets excerpts of a few
megabytes, two at a time. The parts that launches of one kernel share, instructions and their source
lines, are kept once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from workbench.disk.writing import private_folder
from workbench.errors import UsageError
from workbench.model import InstructionTable, Launch, Profile, SourceFile
from workbench.ncurep.excerpt import ListedResult, excerpt, list_results, parts
from workbench.units import listed

#: The number of parts that are read at the same time.
_AT_ONCE = 2

#: Reads one report file of ours.
ReadPart = Callable[[Path], Profile]
#: Called with the number of launches that are read and the number of all.
Progress = Callable[[int, int], None]
#: Returns the places of the chosen results of a report.
Choose = Callable[[Sequence[ListedResult]], Iterable[int]]


def read_parts(
    plain: Path, read: ReadPart, progress: Progress | None = None, choose: Choose | None = None
) -> Profile:
    """The profile of a report, put together from those of its parts.

    `read` reads an excerpt and is called from several threads; `progress` is called after each
    part. `choose` selects the wanted results; None: all of them. `Launch.index` counts all. Raises
    DataError: as `read` does; a part that fails fails the whole.
    """
    results = list_results(plain)
    wanted = sorted(choose(results)) if choose is not None else list(range(len(results)))
    sizes = [results[place] for place in wanted]
    runs = [[wanted[place] for place in run] for run in parts(sizes)]
    if runs == [list(range(len(results)))]:
        return read(plain)  # few launches, but their library's machine code makes the file large
    found: dict[int, Profile] = {}
    waiting, failed = deque(enumerate(runs)), list[BaseException]()
    told = threading.Lock()

    def work() -> None:
        while waiting and not failed:
            try:
                number, places = waiting.popleft()
            except IndexError:
                return
            try:
                found[number] = read_some(plain, places, read)
            except BaseException as error:
                failed.append(error)
                return
            with told:
                if progress is not None:
                    done = sum(len(profile.launches) for profile in tuple(found.values()))
                    progress(done, len(wanted))

    # A child ends with the thread that started it, when another thread may still use it.
    over = threading.Barrier(_AT_ONCE)

    def work_until_all_end() -> None:
        try:
            work()
        finally:
            over.wait()

    threads = [threading.Thread(target=work_until_all_end, daemon=True) for _ in range(_AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return joined([found[number] for number in range(len(runs))])


def read_some(plain: Path, places: Sequence[int], read: ReadPart) -> Profile:
    """The profile of some results, numbered as in the whole report."""
    with private_folder() as folder:
        part = Path(folder) / "part.ncu-rep"
        with part.open("wb") as file:
            for piece in excerpt(plain, frozenset(places)):
                file.write(piece)
        profile = read(part)
    numbered = tuple(
        replace(launch, index=place)
        for launch, place in zip(profile.launches, places, strict=False)
    )
    return replace(profile, launches=numbered)


def joined(profiles: Sequence[Profile]) -> Profile:
    """Profiles of parts of one report as one: their launches, and each source once."""
    places: dict[str, int] = {}
    sources: list[SourceFile] = []
    launches: list[Launch] = []
    known: dict[Any, Any] = {}
    for profile in profiles:
        moves = []
        for source in profile.sources:
            place = places.setdefault(source.path, len(sources))
            if place == len(sources):
                sources.append(source)
            elif sources[place].text is None:
                sources[place] = source
            moves.append(place)
        launches += [_moved(launch, moves, known) for launch in profile.launches]
    first = profiles[0]
    notices = {(x.code, x.message): x for profile in profiles for x in profile.notices}
    capture = replace(first.capture, passes=max(x.capture.passes for x in profiles))
    return replace(
        first,
        launches=tuple(sorted(launches, key=lambda launch: launch.index)),
        sources=tuple(sources),
        capture=capture,
        notices=tuple(notices.values()),
    )


def _moved(launch: Launch, moves: Sequence[int], known: dict[Any, Any]) -> Launch:
    """The launch, its instructions' file numbers changed to those of the whole report."""
    table = launch.instructions
    files = tuple(moves[file] if file >= 0 else file for file in table.file)
    return replace(launch, instructions=replace(table, file=known.setdefault(files, files)))


def decoded(data: bytes, known: dict[Any, Any]) -> Profile:
    """Decode a profile from JSON, launch by launch, so that shared parts are held only once.

    `known` holds the shared parts so far and is extended. Raises ValueError, KeyError: not a
    profile.
    """
    parts = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    each = msgspec.json.decode(parts["launches"], type=tuple[msgspec.Raw, ...])
    parts["launches"] = msgspec.Raw(b"[]")
    launches = tuple(_shared(msgspec.json.decode(raw, type=Launch), known) for raw in each)
    rest: Profile = msgspec.json.decode(msgspec.json.encode(parts), type=Profile)
    return replace(rest, launches=launches)


def _shared(launch: Launch, known: dict[Any, Any]) -> Launch:
    """The launch, with parts that are equal to those of earlier launches replaced by them."""
    table = launch.instructions

    def one(values: Any) -> Any:
        return known.setdefault(values, values)

    columns = {
        one(name): one(replace(column, rows=one(column.rows)))
        for name, column in table.columns.items()
    }
    shared: InstructionTable = replace(
        table,
        address=one(table.address),
        text=one(table.text),
        file=one(table.file),
        line=one(table.line),
        ptx=one(table.ptx),
        columns=columns,
    )
    metrics = {
        # Remembering every number with a fraction would cost more than it saves.
        one(name): metric
        if isinstance(metric.value, float) and not metric.value.is_integer()
        else one((name, metric))[1]
        for name, metric in launch.metrics.items()
    }
    return replace(launch, instructions=shared, metrics=metrics)


def choice(name: str) -> Choose:
    """A function that chooses the results that `read.select_kernels` picks by `name`.

    It looks for parts of names in the mangled name, where `select_kernels` uses the signature.
    The function raises UsageError: no launch matches.
    """
    head, mark, number = name.rpartition("#")
    numbered = bool(mark) and number.isascii() and number.isdigit()
    wanted = head if numbered else name

    def choose(results: Sequence[ListedResult]) -> list[int]:
        part = wanted.lower()
        places = list(range(len(results)))
        if wanted:
            exact = [x for x in places if results[x].function == wanted]
            alike = [
                x
                for x in places
                if part in results[x].function.lower() or part in results[x].symbol.lower()
            ]
            places = exact or alike
        if numbered:
            places = places[int(number) - 1 : int(number)] if int(number) else []
        if not places:
            names = list(dict.fromkeys(result.function for result in results))
            raise UsageError(
                f"no launch matches {name!r}",
                f"The report has {len(results):,} launches, of {listed(names, 12)}.",
            )
        return places

    return choose
