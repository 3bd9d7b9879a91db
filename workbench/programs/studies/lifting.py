"""Keep a launch of a captured program as a study: from the capture to ``kernels/<study>/``."""

from __future__ import annotations

from pathlib import Path

from workbench.engines import Say
from workbench.engines.host.process import Input
from workbench.model import Record
from workbench.programs.capture.lifting import LIMIT, choose, lift
from workbench.programs.capture.records import Survey
from workbench.programs.capture.survey import Invocation
from workbench.programs.studies.adopting import lifted_study
from workbench.project import Project
from workbench.study.lifted import FOLDER, read_lifted
from workbench.study.scaffold import check_study_free, check_study_name, study_name, write_study
from workbench.units import extent, quantity, several


class Lift(Record, frozen=True):
    """The launch to lift, as typed: the `number`-th launch (from 1) of `kernel`.

    Without a number it is the first launch in the shape with most time. `limit` is in bytes;
    `study` is the study's name, by default after the kernel.
    """

    kernel: str
    number: int | None = None
    limit: int = LIMIT
    study: str | None = None


def lift_kernel(
    project: Project, survey: Survey, wish: Lift, invocation: Invocation, say: Say
) -> None:
    """Run a captured program once more, and make a study of a launch: a complete one or none.

    Raises:
        UsageError: no such kernel or launch, it holds too much, or the study already exists.
        KernelError: a launch of this kind cannot be kept; the message has the reason.
        ProgramError: the program failed by itself.
        MissingError: no CUPTI or compiler; no space.
        KeyboardInterrupt: Ctrl-C.
    """
    wanted = choose(survey, wish.kernel, wish.number, wish.limit)
    study = wish.study or study_name(wanted.work.name)
    check_study_name(study)
    other = f"Nothing was run. Name it: `new {study}_lifted --from-launch …`."
    check_study_free(project, study, other)

    def make(place: Path) -> dict[str, str]:
        with Input() as given:
            lift(invocation, given, wanted, place, say)
        return lifted_study(place, study)

    write_study(project, study, make)
    _tell(project.kernels / study, say)


def _tell(folder: Path, say: Say) -> None:
    """Report the kept data, and remarks on it."""
    launch = read_lifted(folder / FOLDER)
    size = sum(buffer.size for buffer in launch.buffers)
    written = sum(buffer.after is not None for buffer in launch.buffers)
    say(
        f"kept launch {launch.launch} of {launch.demangled} in {folder}: grid "
        f"{extent(launch.grid)}, block {extent(launch.block)}, "
        f"{several(len(launch.buffers), 'buffer')} of {quantity(size, 'byte')}, of which it wrote "
        f"{written}"
    )
    if launch.repeats_equal is False:
        say("note: run twice on the same data, it wrote different bytes")
    for note in launch.notes:
        say(f"note: {note}")
    say(
        f"study {folder.name}: v0 is the kernel as it was launched; study.py says what was "
        f"guessed. Next: workbench verify {folder.name}/v0"
    )
