"""Pages of captured programs: one per program, one per launch, one per difference of two.

The difference has the page of a ladder's step for each kernel that matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial

import msgspec
from msgspec.structs import replace

from workbench.analysis.aggregate import main_launch
from workbench.analysis.naming import shortened
from workbench.language import _
from workbench.model import Profile
from workbench.programs.capture.capture_store import Shelf
from workbench.programs.capture.records import ProgramCapture
from workbench.programs.compared.counterparts import launches_of
from workbench.programs.compared.program import ProgramDifference, compare_programs
from workbench.programs.compared.steps import KernelStep, kernel_steps
from workbench.programs.compared.words import step_words
from workbench.programs.shown.sheets import row_names
from workbench.views.html.page import (
    PROGRAMS,
    CapturedProgram,
    Head,
    Link,
    Page,
    PageCount,
    Rendered,
    View,
    digest,
    launch_page,
    neighbours,
    page_part,
)
from workbench.views.html.reports import PagedLaunches, write_each, write_owned
from workbench.views.html.site import Site


class _Surveyed(PagedLaunches):
    """One capture: its files are hashed at the start, and read when a page needs them."""

    def __init__(self, site: Site, program: CapturedProgram) -> None:
        self._shelf = Shelf(program.root)
        folder = self._shelf.home(program.name)
        self.content = digest(*(site.content(path) for path in sorted(folder.glob("*.zst"))))
        self.name = f"@{program.name}"
        self.asked = program
        self.folder = program_folder(program)
        self.home, self.owner = f"{self.folder}/index.html", f"{PROGRAMS}:{self.folder}"

    @cached_property
    def capture(self) -> ProgramCapture:
        """The record."""
        return self._shelf.load(self.asked.name)

    @cached_property
    def detail(self) -> Profile | None:
        """The profile of its kernels."""
        return self._shelf.detail(self.capture)

    def page_of(self, places: tuple[int, ...]) -> str:
        """The page of some works' longest profiled launch, relative to the site's root; or ""."""
        own = launches_of(self.capture, self.detail, places)
        speaker = main_launch(own) if own is not None else None
        return f"{self.folder}/{launch_page(speaker.index)}" if speaker is not None else ""

    def overview(self) -> Rendered:
        """The page of the capture."""
        from workbench.programs.shown.page import program_view, summarize_program
        from workbench.views.html.pages.version import launch_page_view
        from workbench.views.html.render import render

        capture, detail = self.capture, self.detail
        panel, kernel = None, ""
        # In the survey's order: the profiler does not know which kernel takes the most time.
        places = [place for place in sorted(set(capture.detail)) if place >= 0]
        own = launches_of(capture, detail, (places[0],)) if places else None
        speaker = main_launch(own) if own is not None else None
        if speaker is not None and detail is not None:
            at = self.launches.index(speaker)
            view = launch_page_view(detail, at, self.name, self.home)
            panel = replace(view.panel, page=launch_page(speaker.index)) if view.panel else None
            kernel = shortened(speaker.kernel)
        page = program_view(capture, detail, (kernel, panel))
        html = render("program.html", self.home, view=page)
        return Rendered(html, msgspec.to_builtins(summarize_program(capture, self.home)))


def program_folder(*programs: CapturedProgram) -> str:
    """The folder of the pages of a capture, or of two compared ones, below the site's root."""
    names = "..".join(page_part(program.name) for program in programs)
    # Captures with one name from two folders are two programs; the path stays private.
    roots = [str(program.root.resolve()) for program in programs]
    return f"programs/{names}-{digest(*roots)[:8]}"


def write_programs(site: Site, asked: tuple[CapturedProgram, ...], stamp: str) -> PageCount:
    """Bring the pages of captures up to date, as `write_reports` does those of report files.

    Raises:
        UsageError: no such capture.
        DataError: a capture is damaged.
    """
    programs = [_Surveyed(site, program) for program in dict.fromkeys(asked)]
    done = write_each(site, programs, stamp)
    if len(programs) == 2:
        pair = _Compared(*programs)
        key = digest(stamp, programs[0].content, programs[1].content)
        done = done.plus(write_owned(site, pair.owner, key, partial(pair.pages, key)))
    return done


# --- two programs ------------------------------------------------------------------------


class _Compared:
    """Two captures, compared once for all pages on them."""

    def __init__(self, old: _Surveyed, new: _Surveyed) -> None:
        self.sides = (old, new)
        self.name = f"{old.name} → {new.name}"
        self.folder = program_folder(old.asked, new.asked)
        self.home, self.owner = f"{self.folder}/index.html", f"{PROGRAMS}:{self.folder}"
        self._views: dict[int, View] = {}

    @cached_property
    def difference(self) -> ProgramDifference:
        """The difference; it is never refused: reasons against comparing are shown above it."""
        return compare_programs(self.sides[0].capture, self.sides[1].capture, force=True)

    @cached_property
    def steps(self) -> dict[int, KernelStep]:
        """The kernels that matter, by their row."""
        details = self.sides[0].detail, self.sides[1].detail
        steps = kernel_steps(self.difference, details, force=True)
        return {self.difference.rows.index(step.row): step for step in steps}

    @cached_property
    def names(self) -> list[str]:
        """The names of the rows."""
        return row_names(self.difference)

    @cached_property
    def files(self) -> dict[int, str]:
        """File names of the steps' pages, by row: kernels may share a name."""
        out: dict[int, str] = {}
        for number, step in self.steps.items():
            if step.story is not None:
                name = f"kernel-{page_part(self.names[number])}"
                same = sum(other.startswith(f"{name}.") for other in out.values())
                out[number] = f"{name}.{same + 1}.html" if same else f"{name}.html"
        return out

    def page_of(self, number: int) -> str:
        """The link of a row, from the comparison's page: to its step, or one of its launches."""
        if number in self.files:
            return self.files[number]
        row = self.difference.rows[number]
        new, old = self.sides[1].page_of(row.new), self.sides[0].page_of(row.old)
        return f"../../{new or old}" if new or old else ""

    def view(self, number: int) -> View:
        """The page of one kernel's step, cached: the comparison quotes its panel."""
        from workbench.views.html.pages.diff import diff_view

        if number not in self._views:
            step = self.steps[number].step
            assert step is not None  # only rows with a step have a page
            self._views[number] = diff_view(step, self._head(number))
        return self._views[number]

    def _head(self, number: int) -> Head:
        row, name = self.difference.rows[number], self.names[number]
        words = step_words(self.steps[number], self.difference)
        order = list(self.files)
        links = [(self.names[other], self.files[other]) for other in order]
        sides = [
            Link(side.name, f"../../{page}")
            for side, places in zip(self.sides, (row.old, row.new), strict=True)
            if (page := side.page_of(places))
        ]
        return Head(
            heading=name,
            name=self.name,
            change=_("; ").join((words.program, *words.launches)) + _("."),
            notices=(*words.warnings, *words.sentences[1:]),
            crumbs=(Link(_("Overview"), "index.html"), Link(self.name, self.home), Link(name)),
            steps=neighbours(links, order.index(number), "kernel"),
            pages=tuple(sides),
        )

    def pages(self, key: str) -> Iterator[Page]:
        """The comparison, and the steps of its kernels."""
        yield Page(self.home, key, self.owner, self._overview)
        for number, name in self.files.items():
            path = f"{self.folder}/{name}"
            yield Page(path, key, self.owner, partial(self._step, number, path))

    def _overview(self) -> Rendered:
        from workbench.programs.shown.page import program_diff_view, summarize_programs
        from workbench.views.html.render import render

        rows = self.difference.rows
        leading = next(iter(self.files), None)  # the one that changed most
        view = program_diff_view(
            self.difference,
            self.steps,
            (
                [self.page_of(number) for number in range(len(rows))],
                [Link(side.name, f"../../{side.home}") for side in self.sides],
            ),
            ("", None) if leading is None else (self.files[leading], self.view(leading)),
        )
        html = render("programdiff.html", self.home, view=view)
        return Rendered(html, msgspec.to_builtins(summarize_programs(self.difference, self.home)))

    def _step(self, number: int, path: str) -> Rendered:
        from workbench.views.html.pages.diff import render_diff

        return render_diff(path, self.view(number))
