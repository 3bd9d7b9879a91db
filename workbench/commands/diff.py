"""``workbench diff``: what moved between two versions (or report files)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from workbench.commands.options import (
    all_option,
    detail_options,
    force_option,
    format_option,
    launch_selection_options,
    two_source_options,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from workbench.commands.options import Detail
    from workbench.commands.sources import Places
    from workbench.commands.targets import Selection
    from workbench.model import Profile
    from workbench.specs import Version

#: Counters in the table, those that weigh most, beside the ones of the strip.
_COUNTERS = 12


@click.command()
@click.argument("old")
@click.argument("new")
@launch_selection_options
@two_source_options
@force_option
@all_option
@detail_options
@format_option
def command(
    old: str,
    new: str,
    selection: Selection,
    places: Places,
    force: bool,
    all_: bool,
    detail: Detail,
    format_: str,
) -> None:
    """What moved from OLD to NEW, and by how much.

    Each is a version (v2, sgemm/v2, v2@h100 on one device); or a report file:
    x.ncu-rep, x.ncu-rep::kernel, x.ncu-rep::kernel#2 (its second launch); or a capture:
    @before @after compare two programs, @before::kernel one kernel of each.

    First comes what was edited, what that did and where, on one screen; then the
    counters that tell most of it. --all prints every hunk and every counter.
    """
    from workbench.commands.captures import diff_programs, is_program, refuse_for_program

    if is_program(old) and is_program(new) and selection.launch is None:
        refuse_for_program(new, sass=detail.sass, memory=detail.memory)
        diff_programs(old, new, format_, everything=all_, force=force)
        return
    from workbench.commands.sources import with_sources
    from workbench.commands.targets import compared, resolve_all

    before, after = with_sources(resolve_all((old, new), selection), places)
    comparison = compared(before, after, force=force)
    if detail.memory:
        from workbench.analysis.launches import side_by_side
        from workbench.views.sheets.memory import memory_sheet
        from workbench.views.terminal.tables import print_sheet

        names = before.label, after.label
        samples = side_by_side(before.profile, after.profile)
        both = samples.old, samples.new
        print_sheet(memory_sheet(f"Memory, {names[0]} → {names[1]}", both, names), format_)
        return
    notes = [f"{side.label}: {note}" for side in (before, after) for note in side.notes]
    if format_ == "csv":
        from workbench.views.text.tables import diff_csv

        click.echo(diff_csv(comparison), nl=False)
        return
    from workbench.analysis.story import explain

    # What an author predicted speaks of the step from the parent on one chip, and of no other.
    one_device = before.profile.device.name == after.profile.device.name
    author = after.version if one_device and _is_step(before.version, after.version) else None
    expected = author.expectations if author else ()
    story = explain(before.profile, after.profile, comparison, expected)
    codes = None
    if detail.sass:
        from workbench.analysis.listing import hunk_codes

        codes = hunk_codes(before.profile, after.profile)
        if not codes:
            notes.append(_no_code(before.profile, after.profile))
    title, change = (after.version.title, after.version.change) if after.version else ("", "")
    if after.version == before.version:
        change = ""  # of one version on two devices nothing was changed
    if format_ == "json":
        from workbench.views.shapes import dumps
        from workbench.views.text.documents import step_document

        stale = (before.stale, after.stale)
        document = step_document(comparison, story, notes=notes, stale=stale, codes=codes)
        click.echo(dumps(document), nl=False)
    elif format_ == "markdown":
        from workbench.views.text.markdown import step_markdown

        text = step_markdown(
            before.profile,
            after.profile,
            comparison,
            story,
            title=title,
            change=change,
            notes=notes,
        )
        click.echo(text, nl=False)
    else:
        from rich.console import Console

        from workbench.analysis.story import telling
        from workbench.analysis.weight import Scale
        from workbench.views.terminal.console import print_view
        from workbench.views.terminal.diff import (
            Told,
            brief_view,
            diff_view,
            hunks_view,
            verdicts_view,
            words_view,
        )

        width = Console().width
        sides = before.profile, after.profile

        def hunks(rows: int) -> list[RenderableType]:
            if all_ or codes is not None:
                return hunks_view(*sides, story, width=width, codes=codes or ())
            return brief_view(*sides, story, width=width, rows=rows)

        print_view(
            diff_view(
                comparison,
                title=title,
                change=change,
                notes=notes,
                told=Told(
                    words=words_view(story),
                    hunks=hunks,
                    extras=verdicts_view(story),
                    telling=telling(comparison, story, Scale(sides[0], comparison), _COUNTERS),
                ),
                everything=all_,
                width=width,
            )
        )


def _is_step(old: Version | None, new: Version | None) -> bool:
    return old is not None and new is not None and (old.study, old.id) == (new.study, new.parent)


def _no_code(old: Profile, new: Profile) -> str:
    """Why ``--sass`` shows nothing."""
    if "emulator" in (old.engine, new.engine):
        return "--sass: the emulator runs PTX, so no machine code is there to compare"
    return "--sass: no hunk has machine code that is known on both sides"
