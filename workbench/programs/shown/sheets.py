"""A captured program, and the difference of two, as tables: kernels by their time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict, replace

from workbench.analysis.naming import shortened, titles, told_apart
from workbench.counters import catalog, line_metric
from workbench.language import N_, _, told
from workbench.model import Estimate, Launch, LineKey, Number, Profile, line_counters
from workbench.programs import documents as shapes
from workbench.programs.capture.records import ProgramCapture, Work
from workbench.programs.compared.counterparts import LaunchClass, classes_of, launches_of
from workbench.programs.compared.program import KindTime, ProgramDifference, WorkChange, total
from workbench.programs.compared.skew import rank_times
from workbench.programs.compared.steps import unchanged
from workbench.programs.compared.words import (
    count_change,
    inside_words,
    of_ideal,
    program_words,
    survey_words,
)
from workbench.units import count, extent, quantity, relative, several, signed, span, when
from workbench.views.shapes import shaped
from workbench.views.shapes.measured import NoticeFacts
from workbench.views.sheets import Sheet, noted

#: Rows shown to people unless they ask for all; programs get every row.
ROWS = 20


def program_sheet(
    capture: ProgramCapture, detail: Profile | None = None, *, everything: bool = False
) -> Sheet:
    """One capture: every kernel with its time or counts; `everything` shows people all rows.

    The detailed profile gives the hottest lines of a capture without times.
    """
    survey = capture.survey
    whole, timed = total(survey) if survey.timed else None, survey.timed
    runs = len(survey.runs)
    profiled = Counter(capture.detail)
    names = names_of(survey.works)
    rows = [
        _row(work, name, runs, whole, profiled[place], _hottest(capture, detail, place))
        for place, (work, name) in enumerate(zip(survey.works, names, strict=True))
    ]
    ranged = any(row.range for row in rows)
    short = told_apart([row.kernel for row in rows])
    shown = [
        _timed_cells(row, name, ranged) if timed else _counted_cells(row, name)
        for row, name in list(zip(rows, short, strict=True))[: None if everything else ROWS]
    ]
    notes = [noted(f"[{notice.code}] {told(notice.message)}") for notice in capture.notices]
    if len(rows) > len(shown):
        words = several(len(rows) - len(shown), "more kernel")
        if timed:
            rest = sum(row.share or 0.0 for row in rows[len(shown) :])
            words = _("{kernels}: {share} of the time (--all)").format(
                kernels=words, share=quantity(100 * rest, "%")
            )
        notes.insert(0, words if timed else f"{words} (--all)")
    if not timed and any("×)" in cell for row in shown for cell in row):
        notes.append(_("(4.00×): four times what is ideal for the same accesses"))
    if capture.detail:
        # Rows are ordered by time, so this is the heaviest one with counters.
        first = next((row.kernel for row in rows if row.profiled), "")
        kernel = first.partition("<")[0] if first else "#1"
        command = f"`workbench show @{capture.name}::{kernel}`"
        notes.append(_("details: {command}").format(command=command))
    return Sheet(
        header=(
            *("kernel", "time", "share", "launches", "mean", "shortest – longest"),
            *("grid", "block", *(["NVTX range"] if ranged else []), "profiled"),
        )
        if timed
        else (
            *("kernel", "launches", "grid", "block", "global sectors", "shared wavefronts"),
            *("instructions", "hottest line"),
        ),
        shown=tuple(shown),
        raw=tuple(
            _flat(row, grid=row.grid and tuple(row.grid), block=row.block and tuple(row.block))
            for row in rows
        ),
        document=shapes.ProgramDocument(
            **side_fields(capture, whole),
            said=list(survey_words(survey)),
            runs=[
                shaped(run, shapes.RunFacts, busy_s=1e-9 * run.busy_ns, span_s=1e-9 * run.span_ns)
                for run in (survey.runs if timed else ())
            ],
            kernels=rows,
            notices=[shaped(notice, NoticeFacts) for notice in capture.notices],
        ).plain(),
        title=_title(capture),
        notes=tuple(notes),
        extra=("block", "grid", "shortest – longest", "NVTX range", "profiled"),
    )


#: Counters that determine a line's weight.
_WEIGHED = ("instructions", "global_sectors", "shared_wavefronts")
_COUNTS = ("sectors", "wavefronts", "instructions")


def _timed_cells(row: shapes.KernelRow, name: str, ranged: bool) -> tuple[str, ...]:
    return (
        name,
        quantity(row.seconds, "s"),
        quantity(100 * (row.share or 0.0), "%"),
        count_words(row.launches),
        quantity(row.mean_s, "s"),
        span(quantity(row.shortest_s, "s"), quantity(row.longest_s, "s"), " – "),
        *_configuration(row),
        *([_range(row)] if ranged else []),
        count(row.profiled) if row.profiled else "",
    )


def _counted_cells(row: shapes.KernelRow, name: str) -> tuple[str, ...]:
    found, hot = row.counted, row.hottest
    assert found is not None  # nothing was timed
    return (
        name,
        count_words(row.launches),
        *_configuration(row),
        of_ideal(found.sectors, found.sectors_ideal),
        of_ideal(found.wavefronts, found.wavefronts_ideal),
        quantity(found.instructions),
        f"{hot.file.rpartition('/')[2]}:{hot.line}" if hot else "—",
    )


def _hottest(
    capture: ProgramCapture, detail: Profile | None, place: int
) -> shapes.CountedLine | None:
    """A kernel's line with the most instructions, sectors and wavefronts; None: unknown."""
    own = None if capture.survey.timed else launches_of(capture, detail, (place,))
    if detail is None or own is None:
        return None
    weights: dict[LineKey, Number] = defaultdict(int)
    for launch in own.launches:
        names = [line_metric(launch, catalog()[counter]) for counter in _WEIGHED]
        for key, found in line_counters(launch).items():
            weights[key] += sum(found.get(name, 0) for name in names if name)
    placed = (key for key in weights if key[0] >= 0 and key[1])
    file, line = max(placed, key=weights.__getitem__, default=(-1, 0))
    if not line or not weights[file, line]:
        return None
    share = weights[file, line] / sum(weights.values())
    return shapes.CountedLine(file=detail.sources[file].path, line=line, share=share)


def _flat(row: shapes.KernelRow | shapes.KernelFate, **other: Any) -> dict[str, Any]:
    """A row of ``--format csv``, without lists."""
    nested = ("ranges", "configurations")
    out = {name: value for name, value in asdict(row).items() if name not in nested} | other
    for name in [name for name in out if name in _PARTS]:
        part = out.pop(name)
        out |= {f"{name}_{key}": value for key, value in (asdict(part) if part else {}).items()}
    return out


#: Parts of a row that have their own columns in ``--format csv``.
_PARTS = ("counted", "hottest", "old_counted", "new_counted")


def report_sheet(report: ProgramCapture) -> Sheet:
    """A report of many launches as a program: its kernels by their time under ncu."""
    whole = total(report.survey)
    sheet = program_sheet(report, everything=True)
    launches = several(report.survey.launches, "launch", "launches")
    said = _("captured {when}, {launches}, {time} under the profiler").format(
        when=when(report.captured), launches=launches, time=quantity(whole.value, "s")
    )
    closer = _(
        "details: {command} (its first launch) or `--launch N`; "
        "--all reads every counter of every launch"
    ).format(command=f"`workbench show {report.name}::KERNEL#1`")
    return replace(
        sheet,
        title=(report.name, said, ""),
        document=sheet.document | {"said": [said]},
        shown=tuple(row[:-1] for row in sheet.shown),  # no list of profiled kernels: all are
        header=sheet.header[:-1],
        extra=sheet.extra[:-1],
        notes=(*sheet.notes, closer),
    )


def _row(
    work: Work,
    name: str,
    runs: int,
    whole: Estimate | None,
    profiled: int,
    hottest: shapes.CountedLine | None,
) -> shapes.KernelRow:
    seconds, launches = 1e-9 * sum(work.total_ns) / runs, sum(work.launches)
    shape = work.shapes[0] if work.shapes else None
    timed = whole is not None
    return shaped(
        work,
        shapes.KernelRow,
        kernel=name,
        seconds=seconds if timed else None,
        share=(seconds / whole.value if whole.value else 0.0) if whole else None,
        launches=launches / runs,
        mean_s=(1e-9 * sum(work.total_ns) / launches if launches else 0.0) if timed else None,
        shortest_s=1e-9 * min(work.quantiles_ns, default=0) if timed else None,
        longest_s=1e-9 * max(work.quantiles_ns, default=0) if timed else None,
        grid=shape.grid if shape else None,
        block=shape.block if shape else None,
        configurations=[class_facts(one, runs) for one in classes_of(work.shapes)],
        configuration_count=max(work.shape_count, len(work.shapes)),
        range=work.ranges[0].path if work.ranges else None,
        profiled=profiled,
        ranges=[
            shapes.RangeRow(
                range=x.path, launches=x.launches / runs, seconds=1e-9 * x.total_ns / runs
            )
            for x in work.ranges
        ],
        hottest=hottest,
    )


def class_facts(one: LaunchClass, runs: int) -> shapes.LaunchClassFacts:
    """A class of launches in one run, in the form of documents."""
    return shaped(
        one.shapes[0],
        shapes.LaunchClassFacts,
        grids=[each.grid for each in one.shapes],
        launches=one.launches / runs,
        seconds=None if one.shapes[0].counted else 1e-9 * one.weight / runs,
        counted=one.counted if one.shapes[0].counted else None,
    )


def _configuration(row: shapes.KernelRow) -> tuple[str, str]:
    """Grid and block with most of its time, and the number of other configurations."""
    others = row.configuration_count - 1
    more = _(" +{n} more").format(n=others) if others > 0 else ""
    return extent(row.grid or ()) + more, extent(row.block or ())


def _range(row: shapes.KernelRow) -> str:
    """The range with most of a kernel's time, and the number of others."""
    others = f" + {row.range_count - 1}" if row.range_count > 1 else ""
    return shortened(row.range) + others if row.range else ""


def side_fields(capture: ProgramCapture, whole: Estimate | None) -> dict[str, Any]:
    """The fields of a capture in every document."""
    return {
        "capture": capture.name,
        "command": list(capture.command),
        "captured": capture.captured,
        "commit": capture.state.commit or None,
        "clean": capture.state.clean,
        "device": capture.device.name if capture.device else None,
        "survey": capture.survey.way,
        "nvtx": capture.survey.nvtx or None,
        "time": program_time(whole) if whole else None,
        "ranks": [
            shaped(rank, shapes.RankFacts, rank=rank.rank if rank.rank >= 0 else None)
            for rank in rank_times(capture.survey)
        ],
        "tools": capture.tools,
    }


def program_time(estimate: Estimate) -> shapes.ProgramTime:
    """Seconds with their interval, which is null for a single run."""
    low, high = (estimate.low, estimate.high) if estimate.n > 1 else (None, None)
    return shapes.ProgramTime(seconds=estimate.value, low=low, high=high, runs=estimate.n)


def _title(capture: ProgramCapture) -> tuple[str, ...]:
    text = _("captured {when} on {device}") if capture.device else _("captured {when}")
    text = text.format(
        when=when(capture.captured), device=capture.device.name if capture.device else ""
    )
    if capture.state.commit:
        state = _(", commit {commit}")
        if not capture.state.clean:
            state = _(", commit {commit} with uncommitted changes")
        text += state.format(commit=capture.state.commit[:12])
    return (
        f"@{capture.name}: {' '.join(capture.command)}",
        text,
        *survey_words(capture.survey),
        "",
    )


def names_of(works: Sequence[Work]) -> list[str]:
    """Names that distinguish kernels of one name by their template arguments."""
    return titles(
        [
            Launch(
                kernel=work.name,
                index=place,
                signature=work.signature,
                grid=work.shapes[0].grid if work.shapes else (0, 0, 0),
            )
            for place, work in enumerate(works)
        ]
    )


def count_words(value: float) -> str:
    """Launches of one run: a whole number, or with a decimal digit if runs differ."""
    return count(round(value)) if abs(value - round(value)) < 1e-9 else f"{value:.1f}"


# --- two programs -----------------------------------------------------------------------------

#: The most letters for the names on one side of a group, and for each name.
_GROUP, _MEMBER = 60, 28
#: Letters kept before the first difference if a name's beginning is left out.
_BEFORE = 8


def difference_sheet(
    difference: ProgramDifference, *, everything: bool = False, rest: str = "--all"
) -> Sheet:
    """Two captures: the fate of every kernel, and a line with the sum of all rows.

    `everything` shows people all rows, else some; `rest` says where the others are.
    """
    rows = difference.rows
    kept, left = ([*range(len(rows))], {}) if everything else fold(difference)
    timed = difference.timed
    document, told = difference_document(difference), told_names(difference)
    shown = [(_(_FATES[rows[n].fate]), told[n], *_cells(difference, [rows[n]])) for n in kept]
    shown += [
        ("", f"{_number_of(own, word)} ({rest})", *_cells(difference, own))
        for word, own in left.items()
    ]
    shown.append(("", _("all of them"), *_cells(difference, rows)))
    return Sheet(
        header=("", "kernel", "before", "after", "change", "share of change", "launches")
        if timed
        else ("", "kernel", "global sectors", "shared wavefronts", "instructions", "launches"),
        shown=tuple(shown),
        raw=tuple(map(_flat, document.kernels)),
        document=document.plain(),
        title=headline(difference),
        notes=tuple(map(noted, difference.warnings)),
        extra=("share of change", "launches"),
    )


def fold(difference: ProgramDifference) -> tuple[list[int], dict[str, list[WorkChange]]]:
    """Indices of the rows shown to people, and the other rows by their label.

    Several unchanged rows become one line.
    """
    rows = difference.rows
    still = [n for n, row in enumerate(rows) if unchanged(difference, row)]
    still = still if len(still) > 1 else []
    kept = [n for n in range(len(rows)) if n not in still]
    left = {"more": kept[ROWS:], "unchanged": still}
    return kept[:ROWS], {words: [rows[n] for n in own] for words, own in left.items() if own}


def _number_of(rows: Sequence[WorkChange], word: str) -> str:
    """``3 unchanged kernels``, ``2 more copies``."""
    copies = sum(row.name.startswith("[copy") for row in rows)
    n, more = len(rows), word == "more"
    if 0 < copies < n:
        words = _("{n} more kernels and copies") if more else _("{n} unchanged kernels and copies")
        return words.format(n=count(n))
    if more:
        return several(n, "more copy", "more copies") if copies else several(n, "more kernel")
    unchanged = several(n, "unchanged copy", "unchanged copies")
    return unchanged if copies else several(n, "unchanged kernel")


def headline(difference: ProgramDifference) -> tuple[str, ...]:
    """Why the two are compared by force, what is said of them first, and their names."""
    forced = _("not comparable, compared with --force: {reason}")
    lines = [forced.format(reason=reason) for reason in difference.reasons]
    names = f"@{difference.old.name} → @{difference.new.name}"
    return (*lines, *program_words(difference), names, "")


def row_names(difference: ProgramDifference) -> list[str]:
    """Names of rows: as in the tables of each side, with arguments only if needed."""
    sides = [names_of(side.survey.works) for side in (difference.old, difference.new)]

    def name(row: WorkChange) -> str:
        if row.fate == "same":
            return sides[1][row.new[0]]
        own = zip(sides, (row.old, row.new), strict=True)
        parts = [" + ".join(dict.fromkeys(names[n] for n in places)) for names, places in own]
        return " → ".join(filter(None, parts))

    return [name(row) for row in difference.rows]


def group_words(difference: ProgramDifference, row: WorkChange) -> str:
    """``norm: layer_norm_kernel (2) + reduce_kernel + 7 more + [fill] → triton_red_fused_0``.

    For kernels that replaced each other, it names those with the most time on each side; a number,
    as in `fate_words`, follows if several have one name.
    """
    sides = []
    for capture, places in ((difference.old, row.old), (difference.new, row.new)):
        works = sorted((capture.survey.works[x] for x in places), key=lambda x: -sum(x.weights))
        often = Counter(work.name for work in works if work.kind == "kernel")
        others = dict.fromkeys(work.name for work in works if work.kind != "kernel")
        names = [
            shortened(name, _GROUP if len(often) == 1 else _MEMBER) + f" ({number})" * (number > 1)
            for name, number in often.items()
        ]
        kept = [n for n in range(1, len(names) + 1) if len(" + ".join(names[:n])) <= _GROUP]
        shown = names[: max(kept, default=1)]
        left = sum(list(often.values())[len(shown) :])
        sides.append(" + ".join([*shown, *[_("{n} more").format(n=left)] * bool(left), *others]))
    where = f"{inside_words(row)}: " if row.inside else ""
    return where + " → ".join(sides)


def told_names(difference: ProgramDifference) -> list[str]:
    """The rows' short names."""
    names = row_names(difference)
    return [
        _told_name(difference, row, names[n]) if row.old and row.new and row.fate != "same" else one
        for n, (row, one) in enumerate(zip(difference.rows, told_apart(names), strict=True))
    ]


def _told_name(difference: ProgramDifference, row: WorkChange, name: str) -> str:
    """A short name; both sides for kernels that replaced each other."""
    if len(row.old) > 1 or len(row.new) > 1:
        return group_words(difference, row)
    old, __, new = name.partition(" → ")
    if shortened(old) != shortened(new):
        return f"{shortened(old)} → {shortened(new)}"
    # They differ in the omitted end: show that of the new one.
    start = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), len(old))
    return f"{shortened(old)} → …{shortened(new[max(start - _BEFORE, 0) :])}"


_FATES = {
    "same": "",
    "fused": N_("fused"),
    "split": N_("split"),
    "replaced": N_("replaced"),
    "came": N_("added"),
    "went": N_("removed"),
}


def _cells(difference: ProgramDifference, rows: Sequence[WorkChange]) -> tuple[str, ...]:
    launches = " → ".join(dict.fromkeys(map(count_words, difference.launches(*rows))))
    if not difference.timed:
        there = any(row.old for row in rows), any(row.new for row in rows)
        sides = [x if y else None for x, y in zip(difference.counted(*rows), there, strict=True)]
        return (
            *(count_change(*(getattr(x, name, None) for x in sides)) for name in _COUNTS),
            launches,
        )
    before, after = difference.seconds(*rows)
    share = difference.share(after - before)
    ratio = "" if difference.tried else relative(before, after)
    return (
        quantity(before, "s") if before else "—",
        quantity(after, "s") if after else "—",
        f"{signed(after - before, 's')} {ratio}".replace(" —", "").rstrip(),
        quantity(100 * share, "%") if share is not None else "—",
        launches,
    )


def _fate_row(difference: ProgramDifference, row: WorkChange, name: str) -> shapes.KernelFate:
    old_s, new_s = difference.seconds(row)
    timed, counted = difference.timed, difference.counted(row)
    launches = difference.launches(row)
    runs = difference.runs
    return shapes.KernelFate(
        kernel=name,
        fate=row.fate,
        old_s=old_s if row.old and timed else None,
        new_s=new_s if row.new and timed else None,
        change_s=new_s - old_s if timed else None,
        share=difference.share(new_s - old_s),
        old_launches=launches[0] if row.old else None,
        new_launches=launches[1] if row.new else None,
        configurations=[
            shapes.ClassFate(
                old=class_facts(one.old, runs[0]) if one.old else None,
                new=class_facts(one.new, runs[1]) if one.new else None,
            )
            for one in row.classes
        ],
        old_counted=None if timed or not row.old else shaped(counted[0], shapes.CountedFacts),
        new_counted=None if timed or not row.new else shaped(counted[1], shapes.CountedFacts),
    )


def _part_time(part: KindTime) -> shapes.PartTime:
    old, new, change = map(program_time, (part.old, part.new, part.change_s))
    return shapes.PartTime(old=old, new=new, change=change, moved=part.moved)


def difference_document(
    difference: ProgramDifference, steps: Sequence[shapes.ProgramStep] = ()
) -> shapes.ProgramsDocument:
    """The JSON document, with the steps of kernels if they are shown."""
    old, new = difference.totals if difference.timed else (None, None)
    names = row_names(difference)
    rows = [_fate_row(difference, row, names[n]) for n, row in enumerate(difference.rows)]
    return shapes.ProgramsDocument(
        old=shapes.ProgramSide(**side_fields(difference.old, old)),
        new=shapes.ProgramSide(**side_fields(difference.new, new)),
        said=list(program_words(difference)),
        comparable=not difference.reasons,
        warnings=[
            *(f"not comparable: {x}" for x in difference.reasons),
            *filter(None, [difference.tried]),
            *difference.warnings,
        ],
        change=program_time(difference.change_s) if difference.timed else None,
        moved=difference.moved,
        per="iteration" if difference.steady else "run",
        of_kernels=_part_time(difference.of_kernels) if difference.timed else None,
        of_copies=_part_time(difference.of_copies) if difference.of_copies else None,
        spans=[program_time(side) for side in difference.spans] if difference.spans else None,
        kernels=rows,
        steps=list(steps),
    )
