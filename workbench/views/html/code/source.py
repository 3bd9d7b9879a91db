"""A launch's code: source lines with counters beside them, machine instructions and PTX.

The gutter shows one counter at a time; the page carries all of them as formatted
text, so switching needs no arithmetic in the browser.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from html import escape

from markupsafe import Markup

from ptxemu import files_of
from workbench import units
from workbench.analysis.code import KernelCode, code_of
from workbench.analysis.limits.limit import GROUP, SAMPLES, HotLine, sampled_lines
from workbench.analysis.line_notes import stall_note
from workbench.analysis.weight import WELL
from workbench.callers import following, kernel_bodies
from workbench.counters import PTX, catalog, line_metric
from workbench.language import _, ngettext
from workbench.model import Launch, LineKey, Number, Profile, Record, line_counters
from workbench.revisions import contents
from workbench.views.html.code.lines import Cell, Gutter, coloured, gutters
from workbench.views.html.page import View
from workbench.views.html.parts import percent, width

# A kernel's instructions, each linked to its source line: all of them as columns for the script. A
# kernel has thousands of instructions. The page itself holds the hottest ones; all of them are in a
# file beside it, which the page's script reads when a reader opens them.

#: The most instructions on paper and on a page without its script.
_HOTTEST = 60
#: The same for one launch among many.
_FEWEST = 10
#: Bytes per instruction on all GPUs since Volta.
_STEP = 16

Columns = dict[str, object]


def sass_view(launch: Launch, anchor: Callable[[LineKey], str], launches: int = 1) -> View:
    """The instructions of a launch: the hottest as rows, all of them as columns.

    `anchor` gives the address of a line on the page, or "". `launches`: how many launches share the
    page and its rows.
    """
    count = len(launch.instructions.address)
    samples = _by_row(launch, line_metric(launch, catalog()[SAMPLES]))
    issued = PTX if PTX in launch.metrics else line_metric(launch, catalog()["instructions"])
    executed = _by_row(launch, issued)
    worst = _worst(launch)
    total, top = sum(samples.values()), max(samples.values(), default=0)
    counts = {number: units.count(number) for number in set(executed.values())}
    # Many instructions share few distinct numbers of samples.
    cells: dict[Number | None, Cell | None] = {
        here: Cell(percent(here / total), float(width(here / top))) if here else None
        for here in set(samples.values())
    }
    cells[None] = None
    # By row; empty for a row that never ran.
    said = View(
        samples=[cells[samples.get(row)] for row in range(count)],
        executed=[counts[executed[row]] if row in executed else "" for row in range(count)],
        stall=[worst.get(row, "") for row in range(count)],
    )
    hottest = _hottest(count, samples, executed, max(_FEWEST, _HOTTEST // launches))
    code = code_of(launch)
    return View(
        rows=list(_rows(launch, hottest, said, code, anchor)),
        count=count,
        columns=_columns(launch, hottest, said, code),
    )


def _rows(
    launch: Launch, shown: list[int], said: View, code: KernelCode, anchor: Callable[[LineKey], str]
) -> Iterator[View]:
    """The instructions, and gaps with `row` -1, whose `operands` describe the omitted ones."""
    table = launch.instructions
    previous, count = -1, len(table.address)
    for row in [*shown, count]:
        if number := row - previous - 1:
            gap = ngettext(
                "{n} instruction with fewer samples", "{n} instructions with fewer samples", number
            ).format(n=units.count(number))
            yield View(row=-1, operands=gap)
        if row == count:
            return
        previous = row
        guard, operation, operands = _split(code.texts[row])
        file, line = table.file[row], table.line[row]
        samples = said.samples[row]
        yield View(
            row=row,
            offset=f"{table.address[row]:04x}",
            label=code.labels.get(row, ""),
            guard=guard,
            operation=operation,
            operands=operands,
            line=str(line) if line > 0 else "",
            href=anchor((file, line)),
            at=f"{file}:{line}" if line > 0 else "",
            samples=Markup(samples.markup()) if samples else Markup(""),
            executed=said.executed[row],
            stall=said.stall[row],
        )


def _columns(launch: Launch, hottest: list[int], said: View, code: KernelCode) -> Columns:
    table = launch.instructions
    # Equal numbers of samples share one cell.
    words: dict[Cell | None, tuple[str, str]] = {
        cell: (cell.text, f"{cell.width:.1f}") if cell else ("", "0") for cell in set(said.samples)
    }
    return {
        "offset": _offsets(table.address),
        "text": "\n".join(code.texts),
        "labels": {label: row for row, label in code.labels.items()},
        **_coded("file", "files", table.file),
        "line": table.line,
        **_coded("samples", "shares", [words[cell] for cell in said.samples]),
        **_coded("executed", "counts", said.executed),
        **_coded("stall", "stalls", said.stall),
        "hot": hottest,
    }


def _coded(name: str, words: str, values: Iterable[object]) -> Columns:
    """A column as indices of words, and the words; one index if all are the same."""
    known: dict[object, int] = {}
    numbers = [known.setdefault(value, len(known)) for value in values]
    return {name: numbers if len(known) > 1 else 0, words: list(known)}


def _offsets(address: tuple[int, ...]) -> int | list[str]:
    """The distance between instructions, or all offsets if it is not the usual one."""
    if all(place == row * _STEP for row, place in enumerate(address)):
        return _STEP
    return [f"{place:04x}" for place in address]


def _hottest(
    count: int, samples: dict[int, Number], executed: dict[int, Number], most: int
) -> list[int]:
    """The rows with the most samples, in the order of their addresses."""
    rows = sorted(range(count), key=lambda row: (-samples.get(row, 0), -executed.get(row, 0), row))
    return sorted(rows[:most])


def _worst(launch: Launch) -> dict[int, str]:
    """Row -> the title of its largest stall, if it has any."""
    most: dict[int, tuple[Number, str]] = {}
    for state in catalog().group(GROUP):
        if state.id not in WELL:
            title = state.title
            for row, value in _by_row(launch, line_metric(launch, state)).items():
                if value and (row not in most or (value, title) > most[row]):
                    most[row] = (value, title)
    return {row: title for row, (__, title) in most.items()}


def _by_row(launch: Launch, name: str | None) -> dict[int, Number]:
    column = launch.instructions.columns.get(name) if name else None
    return dict(zip(column.rows, column.values, strict=True)) if column else {}


def _split(text: str) -> tuple[str, str, str]:
    """``@!P0 LDG.E R1, [R2]`` -> guard, operation, operands."""
    words = text.strip().rstrip(";").split(None, 1)
    guard = ""
    if words and words[0].startswith("@"):
        guard = words[0]
        words = words[1].split(None, 1) if len(words) > 1 else []
    operation = words[0] if words else ""
    return guard, operation, words[1].strip() if len(words) > 1 else ""


#: The rows that a page without machine instructions shows without its script.
_FIRST = 60


class PtxRow(Record, frozen=True):
    """A line of PTX; `at` links it to its source line; "" if it has none."""

    text: str
    at: str = ""
    line: str = ""


def ptx_view(profile: Profile, launch: Launch) -> View:
    """The PTX that the build kept, else the report's PTX.

    Its first lines as rows, all of it as columns for the page's script.
    """
    text = profile.build.ptx if profile.build else ""
    paths = tuple(source.path for source in profile.sources)
    rows = _of_build(paths, text, launch.kernel) if text else ()
    if not rows:
        rows = tuple(_of_report(launch))
    places: dict[str, int] = {}
    numbers = [places.setdefault(row.at, len(places)) for row in rows]
    text = "\n".join(row.text for row in rows)
    columns = {"text": text, "at": numbers, "places": list(places)}
    return View(rows=rows[:_FIRST], count=len(rows), columns=columns)


# A version is built once for all problems.
@lru_cache(maxsize=16)
def _of_build(sources: tuple[str, ...], text: str, kernel: str) -> tuple[PtxRow, ...]:
    every = text.splitlines()
    files = files_of(every)
    paths = {path: number for number, path in enumerate(sources)}
    body = next(iter(kernel_bodies(every, kernel)), ())
    callers = following(files)
    rows: list[PtxRow] = []
    file, line = -1, 0
    for raw in body:
        if place := callers.read(raw):
            number, line = place[1]
            file = paths.get(files.get(number, ""), -1)
            continue
        code = raw.strip().replace("\t", " ")
        if not code or code.startswith("//"):
            continue
        # Labels and declarations have no source line: `.loc` applies to instructions.
        rows.append(
            _ptx_row(code, -1 if code.startswith((".", "$", "{", "}", ")")) else file, line)
        )
    return tuple(rows)


def _ptx_row(text: str, file: int, line: int) -> PtxRow:
    tied = file >= 0 and line > 0
    return PtxRow(text, f"{file}:{line}" if tied else "", str(line) if tied else "")


def _of_report(launch: Launch) -> list[PtxRow]:
    table = launch.instructions
    rows: list[PtxRow] = []
    for text, file, line in zip(table.ptx, table.file, table.line, strict=False):
        row = _ptx_row(text.strip().replace("\t", " "), file, line)
        # One PTX instruction may have become several machine instructions.
        if row.text and (not rows or rows[-1] != row):
            rows.append(row)
    return rows


#: Suffixes of headers; a header is never the first file to read.
_HEADERS = (".cuh", ".h", ".hh", ".hpp", ".hxx", ".inl", ".inc")
#: The most hot lines that are listed.
_HOT = 7
#: Longer files show only the lines near those with counters.
_WHOLE_FILE_LINES = 400
_NEIGHBOURHOOD = 25


class SourceLine(Record, frozen=True):
    """A line of a file; `number` 0 is a gap whose `code` describes the omitted lines.

    `at` links a line to its instructions ("" if it has none); for a gap it is file, first and last.
    """

    number: int
    code: Markup
    at: str = ""
    cell: Cell | None = None


def _source_row(line: SourceLine, prefix: str) -> str:
    """A row; `prefix`, numbers and widths are our own, everything else is escaped.

    It is written here and not in the template: a page has hundreds of rows, and a template's loop
    takes ten times as long. Optional tags are left out, to save bytes.
    """
    if line.number == 0:
        left = f' data-left="{line.at}"' if line.at else ""
        return f'<tr class="gap"{left}><td colspan="4">{line.code}'
    name = f"{prefix}{line.number}"
    joined = f' data-n="{line.number}" data-at="{line.at}"' if line.at else ""
    shown, note = (line.cell.markup(), line.cell.note) if line.cell else ("", "")
    return (
        f'<tr id="{name}"{joined}><td class="n"><a href="#{name}">{line.number}</a>'
        f'<td class="v">{shown}<td class="w">{escape(note)}<td class="c">{line.code}'
    )


def _neighbourhood(count: int, counted: set[int], near: int | None) -> list[int]:
    """Line numbers to show; 0 is a gap."""
    if (near is None and count <= _WHOLE_FILE_LINES) or not counted:
        # A file without counters is shown from its start, if it is short.
        whole = list(range(1, min(count, _WHOLE_FILE_LINES) + 1))
        return whole if count <= _WHOLE_FILE_LINES else [*whole, 0]
    wanted: set[int] = set()
    around = _NEIGHBOURHOOD if near is None else near
    for line in counted:
        wanted.update(range(max(1, line - around), min(count, line + around) + 1))
    out: list[int] = []
    previous = 0
    for line in sorted(wanted):
        if line != previous + 1:
            out.append(0)
        out.append(line)
        previous = line
    return [*out, 0] if previous < count else out


def _file_lines(
    codes: list[Markup] | None,
    file: int,
    first: Gutter | None,
    tally: Tally[LineKey],
    near: int | None,
) -> list[SourceLine]:
    counted = {line for (index, line) in tally if index == file and line > 0}
    if codes is None:
        numbers = sorted(counted)
    else:
        # Line numbers beyond the text occur if the file changed after compiling.
        held = {line for line in counted if line <= len(codes)}
        numbers = _neighbourhood(len(codes), held, near)
    out: list[SourceLine] = []
    for position, number in enumerate(numbers):
        if number == 0:
            after = next((n for n in numbers[position + 1 :] if n), len(codes or ()) + 1)
            before = out[-1].number if out else 0
            text = Markup.escape(
                _("lines {first}–{last}: no counters there").format(
                    first=before + 1, last=after - 1
                )
            )
            left = f"{file} {before + 1} {after - 1}" if codes is not None else ""
            out.append(SourceLine(number=0, code=text, at=left))
            continue
        key = (file, number)
        out.append(
            SourceLine(
                number=number,
                code=codes[number - 1] if codes is not None else Markup(""),
                at=f"{file}:{number}" if key in tally else "",
                cell=first.cells.get(key) if first else None,
            )
        )
    return out


def code_view(profile: Profile, launch: Launch, position: int, near: int | None = None) -> View:
    """Source files, gutters, hot lines and SASS of one launch.

    `position` is the launch's index on its page; the first one's main file has the plain line
    addresses ``#L39``, others have a prefix. `near`: how many lines around those with counters are
    shown; None: whole files, if they are short.
    """
    tally = _instructions(profile, launch)
    # A library's kernel has counters but no lines: a gutter for it would be an empty column.
    every = gutters(launch, line_counters(launch))
    found = tuple(gutter for gutter in every if any(key in tally for key in gutter.cells))
    first = found[0] if found else None
    prefix = f"k{position}"
    order = _order(profile, tally, first)
    anchors = {
        file: "L" if position == 0 and rank == 0 else f"{prefix}f{file}-L"
        for rank, file in enumerate(order)
    }
    sources = {file: profile.sources[file] for file in order}
    codes = {
        file: coloured(source.text, source.path) if source.text is not None else None
        for file, source in sources.items()
    }
    lines = {file: _file_lines(codes[file], file, first, tally, near) for file in order}
    files = [
        View(
            id=f"{prefix}f{file}",
            path=source.path,
            content=contents(source.text),
            rows=Markup("\n".join(_source_row(line, anchors[file]) for line in lines[file])),
            missing_text=codes[file] is None,
        )
        for file, source in sources.items()
    ]
    shown = {(file, line.number) for file in order for line in lines[file]}

    def anchor(key: LineKey) -> str:
        return f"#{anchors[key[0]]}{key[1]}" if key in shown else ""

    launches = max(1, sum(each.profiled for each in profile.launches))
    sass, ptx = sass_view(launch, anchor, launches), ptx_view(profile, launch)
    embedded = {
        gutter.id: {
            f"{prefix}f{file}": {
                "title": gutter.title,
                "note": gutter.note,
                "rows": {key[1]: cell for key, cell in gutter.cells.items() if key[0] == file},
            }
            for file in order
        }
        for gutter in found
    }
    return View(
        gutters=found,
        files=files,
        embedded=embedded,
        sass=sass,
        ptx=ptx,
        # The instructions are machine code, or PTX if the emulator counted.
        language="PTX" if profile.engine == "emulator" else "SASS",
        hot=[_hot_row(line, codes, anchor, profile) for line in sampled_lines(launch)[:_HOT]],
        prefix=prefix,
        anchors=anchors,
        anchor=anchor,
        # Files with omitted lines, which a reader may request.
        cut={file for file in order for line in lines[file] if not line.number and line.at},
    )


def _instructions(profile: Profile, launch: Launch) -> Tally[LineKey]:
    """The number of instructions of each line."""
    keys = zip(launch.instructions.file, launch.instructions.line, strict=True)
    # A line of an unknown file (index -1) has counters but no text.
    return Tally(key for key in keys if key[1] > 0 and 0 <= key[0] < len(profile.sources))


def _order(profile: Profile, tally: Tally[LineKey], first: Gutter | None) -> list[int]:
    """Files by their amounts in the first gutter and their instructions; headers come last."""
    weight: Tally[int] = Tally()
    for (file, __), number in tally.items():
        weight[file] += number
    for key, cell in first.cells.items() if first else ():
        if key in tally:
            weight[key[0]] += int(1e6 * cell.width)
    order = sorted(
        (file for file, _ in weight.most_common()),
        key=lambda file: profile.sources[file].path.endswith(_HEADERS),
    )
    return order or [n for n, source in enumerate(profile.sources) if source.text is not None]


def _hot_row(
    line: HotLine,
    codes: dict[int, list[Markup] | None],
    anchor: Callable[[LineKey], str],
    profile: Profile,
) -> View:
    """A line with many warp samples."""
    file, number = line.key
    text = codes.get(file)
    code = text[number - 1] if text is not None and number <= len(text) else Markup("")
    known = 0 <= file < len(profile.sources)
    name = profile.sources[file].path.rsplit("/", 1)[-1] if known else ""
    return View(
        href=anchor(line.key),
        place=f"{name}:{number}" if len(codes) > 1 and name else str(number),
        code=Markup(code.strip()),
        share=percent(line.share),
        width=width(line.share),
        stalls=stall_note(line, 2),
    )
