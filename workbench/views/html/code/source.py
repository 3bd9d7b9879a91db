"""View models of a launch's code: source lines with counters beside them, and instructions.

The gutter shows one counter at a time; the page carries all of them as formatted
text, so switching needs no arithmetic in the browser.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from html import escape
from typing import Literal

from markupsafe import Markup

from workbench import units
from workbench.analysis.stalls import HotLine, sampled_lines
from workbench.model import Launch, LineKey, Profile, Record, SourceFile, line_counters
from workbench.views.html.code.colours import coloured
from workbench.views.html.code.gutters import Cell, Gutter, gutters, stall_note
from workbench.views.html.code.ptx import Ptx, ptx_view
from workbench.views.html.code.sass import Columns, Sass, sass_view
from workbench.views.html.parts.common import percent, width

#: Longer files show only the neighbourhood of lines with counters.
_WHOLE_FILE_LINES = 400
_NEIGHBOURHOOD = 25


class SourceLine(Record, frozen=True):
    """A line of a file; `number` 0 is a gap whose `code` says what was left out."""

    number: int
    code: Markup
    at: str = ""  # joins the line with its instructions; "" without any
    cell: Cell | None = None
    instructions: int = 0


class SourceView(Record, frozen=True):
    """One file: `anchor` is the prefix of its lines' ids (``L`` for the main file)."""

    id: str
    path: str
    anchor: str
    lines: tuple[SourceLine, ...]
    missing_text: bool = False

    @property
    def rows(self) -> Markup:
        """The lines as rows of a table.

        Written here and not in the template: a page has hundreds of them, and a template's
        loop takes ten times as long. Tags that HTML lets out are left out, for the bytes.
        """
        return Markup("\n".join(_source_row(line, self.anchor) for line in self.lines))


def _source_row(line: SourceLine, prefix: str) -> str:
    """A row; `prefix`, numbers and widths are ours, everything else is escaped."""
    if line.number == 0:
        return f'<tr class="gap"><td colspan="4">{line.code}'
    name = f"{prefix}{line.number}"
    joined = f' data-n="{line.number}" data-at="{line.at}"' if line.at else ""
    shown, note = (line.cell.markup(), line.cell.note) if line.cell else ("", "")
    return (
        f'<tr id="{name}"{joined}><td class="n"><a href="#{name}">{line.number}</a>'
        f'<td class="v">{shown}<td class="w">{escape(note)}<td class="c">{line.code}'
    )


class CodeView(Record, frozen=True):
    """Everything about the code of one launch. `gutters` is ready to be embedded as JSON.

    `language` is what its instructions are: machine code, or PTX where the emulator counted.
    """

    gutters: tuple[Gutter, ...]
    files: tuple[SourceView, ...]
    embedded: dict[str, dict[str, dict[str, object]]]
    sass: Sass
    ptx: Ptx
    instructions: str
    language: Literal["SASS", "PTX"]
    ptx_lines: str
    hot: tuple[HotRow, ...]
    prefix: str
    anchors: dict[int, str]

    def beside(self) -> Columns:
        """What the page's script reads from the file beside the page, when it is wanted."""
        return {"anchors": self.anchors, "sass": self.sass.columns, "ptx": self.ptx.columns}


class HotRow(Record, frozen=True):
    """One of the lines on which most warp samples fell."""

    href: str
    place: str
    code: Markup
    share: str
    width: str
    stalls: str


def _neighbourhood(count: int, counted: set[int], near: int | None) -> list[int]:
    """Line numbers to show; 0 stands for a gap."""
    if (near is None and count <= _WHOLE_FILE_LINES) or not counted:
        # A file with no counter at all is shown from its start, as far as it is short.
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
) -> tuple[SourceLine, ...]:
    counted = {line for (index, line) in tally if index == file and line > 0}
    if codes is None:
        numbers = sorted(counted)
    else:
        # Line numbers beyond the text happen where the file changed after compiling.
        held = {line for line in counted if line <= len(codes)}
        numbers = _neighbourhood(len(codes), held, near)
    out: list[SourceLine] = []
    for position, number in enumerate(numbers):
        if number == 0:
            after = next((n for n in numbers[position + 1 :] if n), len(codes or ()) + 1)
            before = out[-1].number if out else 0
            text = f"lines {before + 1}–{after - 1}: no counters there"
            out.append(SourceLine(number=0, code=Markup.escape(text)))
            continue
        key = (file, number)
        out.append(
            SourceLine(
                number=number,
                code=codes[number - 1] if codes is not None else Markup(""),
                at=f"{file}:{number}" if key in tally else "",
                cell=first.cells.get(key) if first else None,
                instructions=tally.get(key, 0),
            )
        )
    return tuple(out)


def code_view(
    profile: Profile, launch: Launch, position: int, hot: int = 7, near: int | None = None
) -> CodeView:
    """Source files, gutters, hot lines and SASS of one launch.

    Args:
        profile: Holds the source files.
        launch: The launch whose counters stand in the gutter.
        position: Of the launch on its page; the first one's main file has the plain
            line addresses ``#L39``, others carry a prefix.
        hot: How many hot lines to list.
        near: How many lines around those with counters are shown; None: files from end to end,
            as far as they are short.
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
    codes = {file: _coloured(profile.sources[file]) for file in order}
    files = tuple(
        SourceView(
            id=f"{prefix}f{file}",
            path=profile.sources[file].path,
            anchor=anchors[file],
            lines=_file_lines(codes[file], file, first, tally, near),
            missing_text=codes[file] is None,
        )
        for file in order
    )
    shown = {(f, line.number) for f, view in zip(order, files, strict=True) for line in view.lines}

    def anchor(key: LineKey) -> str:
        return f"#{anchors[key[0]]}{key[1]}" if key in shown else ""

    launches = max(1, sum(each.profiled for each in profile.launches))
    sass, ptx = sass_view(launch, anchor, launches), ptx_view(profile, launch)
    return CodeView(
        gutters=found,
        files=files,
        embedded=_embedded(found, order, prefix),
        sass=sass,
        ptx=ptx,
        instructions=units.count(sass.count),
        language="PTX" if profile.engine == "emulator" else "SASS",
        ptx_lines=units.count(ptx.count),
        hot=_hot_rows(sampled_lines(launch)[:hot], codes, anchor, profile),
        prefix=prefix,
        anchors=anchors,
    )


def _instructions(profile: Profile, launch: Launch) -> Tally[LineKey]:
    """How many instructions each line has."""
    keys = zip(launch.instructions.file, launch.instructions.line, strict=True)
    # A line of an unknown file (index -1) has counters, but no text to stand beside.
    return Tally(key for key in keys if key[1] > 0 and 0 <= key[0] < len(profile.sources))


def _order(profile: Profile, tally: Tally[LineKey], first: Gutter | None) -> list[int]:
    """Files by what the first gutter and the instructions have there, the heaviest first."""
    weight: Tally[int] = Tally()
    for (file, _), number in tally.items():
        weight[file] += number
    for key, cell in first.cells.items() if first else ():
        if key in tally:
            weight[key[0]] += int(1e6 * cell.width)
    order = [file for file, _ in weight.most_common()]
    return order or [n for n, source in enumerate(profile.sources) if source.text is not None]


def _coloured(source: SourceFile) -> list[Markup] | None:
    return coloured(source.text, source.path) if source.text is not None else None


def _embedded(
    found: tuple[Gutter, ...], order: list[int], prefix: str
) -> dict[str, dict[str, dict[str, object]]]:
    return {
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


def _hot_rows(
    hot: tuple[HotLine, ...],
    codes: dict[int, list[Markup] | None],
    anchor: Callable[[LineKey], str],
    profile: Profile,
) -> tuple[HotRow, ...]:
    out = []
    for line in hot:
        file, number = line.key
        text = codes.get(file)
        code = text[number - 1] if text is not None and number <= len(text) else Markup("")
        known = 0 <= file < len(profile.sources)
        name = profile.sources[file].path.rsplit("/", 1)[-1] if known else ""
        out.append(
            HotRow(
                href=anchor(line.key),
                place=f"{name}:{number}" if len(codes) > 1 and name else str(number),
                code=Markup(code.strip()),
                share=percent(line.share),
                width=width(line.share),
                stalls=stall_note(line, 2),
            )
        )
    return tuple(out)
