"""The kernels that matter, under ncu: the default collection of a few launches of each.

The program runs once more, as a whole; ncu lets all launches pass but those that were picked.
What ncu cannot do here is a notice that goes with the survey, which stays true without it.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from workbench.capture.ranges import wanted_range
from workbench.capture.selection import Picked, Wish, matched
from workbench.capture.survey import Invocation, run_program
from workbench.captures.records import Survey
from workbench.engines import Say
from workbench.engines.host.foreground import Input
from workbench.engines.host.presence import need_ncu
from workbench.engines.ncu.collection import Collection
from workbench.engines.ncu.faults import error_lines, permission
from workbench.errors import DataError, KernelError, MissingError
from workbench.model import COUNTERS_DENIED, Notice, Profile, Record
from workbench.ncurep.child import Standby
from workbench.ncurep.container import RESULT_FUNCTION, RESULT_MANGLED, read_blocks
from workbench.ncurep.files import exported, read_raw
from workbench.ncurep.read import read_report
from workbench.ncurep.wire import text as wire_text
from workbench.units import several

#: What a capture without counters is good for.
_WITHOUT = (
    "Everything that needs only times works without it: `diff` of two captures, `check`, "
    "--repeat. Kernels that are written as a study are counted by the emulator: `workbench "
    "profile --engine emulator`"
)
#: Seconds that reading a report of so few launches may take.
_READ_S = 300.0


class KernelDetail(Record, frozen=True):
    """What came of it. `profile` None: nothing, and `notice` says why; `broken`: it should have.

    `works` has the place in the survey of every launch of the profile.
    """

    profile: Profile | None = None
    works: tuple[int, ...] = ()
    notice: Notice | None = None
    broken: bool = False


def ncu_arguments(survey: Survey, picked: Picked, wish: Wish, export: str, log: str) -> list[str]:
    """What stands between ncu and the program.

    Args:
        survey: What the program launches.
        picked: What is to be looked at.
        wish: Of a user: within which NVTX range.
        export: Where the report goes.
        log: Where ncu's own words go: the program's output stays its own.
    """
    symbols = sorted({survey.works[place].symbol for place in picked.works})
    names = "|".join(re.escape(symbol) for symbol in symbols)
    words = [*Collection().words, "--target-processes", "all", "--log-file", log]
    words += ["--kernel-name-base", "mangled"]
    if wish.nvtx is not None:
        # Invocations are counted over the whole program, and the range is a part of it.
        words += wanted_range(wish.nvtx).ncu_words
        words += ["--kernel-name", f"regex:^({names})$"]
        words += ["--launch-count", str(wish.launches * len(picked.works))]
    else:
        numbers = "|".join(map(str, picked.invocations))
        words += ["--kernel-id", f"::regex:^({names})$:{numbers}"]
    return [*words, "--force-overwrite", "--export", export]


def take_detail(
    invocation: Invocation,
    given: Input,
    survey: Survey,
    picked: Picked,
    wish: Wish,
    say: Say,
) -> KernelDetail:
    """Run the program under ncu and read what it collected.

    Raises:
        KernelError: it did not end in time.
        KeyboardInterrupt: Ctrl-C.
    """
    try:
        ncu = need_ncu()
    except MissingError as error:
        return _without("no-ncu", error)
    say(
        f"detail: ncu profiles {several(len(picked.works), 'kernel')}, "
        f"{several(len(picked.invocations), 'launch', 'launches')} of each"
    )
    # The reader warms up while ncu runs; of several kernels a second one reads half.
    with (
        tempfile.TemporaryDirectory(prefix="workbench-") as holder,
        Standby() as standby,
        Standby() if len(picked.works) > 1 else contextlib.nullcontext() as beside,
    ):
        report, log = Path(holder) / "report.ncu-rep", Path(holder) / "ncu.log"
        argv = [ncu, *ncu_arguments(survey, picked, wish, str(report), str(log))]
        ended = run_program([*argv, *invocation.command], invocation, given)
        report = exported(report)
        said = log.read_text("utf-8", "replace") if log.is_file() else ""
        if "ERR_NVGPUCTRPERM" in said:
            return _without(COUNTERS_DENIED, permission(_WITHOUT))
        if not report.is_file():
            return _nothing(said, ended.exit_code)
        if ended.code or "LaunchFailed" in said:
            how = f"ended with exit code {ended.exit_code}" if ended.code else "crashed"
            why = f"the program {how} under ncu, but not without it{_quoted(said)}"
            fault = KernelError(why, "Its report was not kept.")
            return _without("detail-failed", fault, broken=True)
        try:
            profile = read_report(report, timeout_s=_READ_S, standby=standby, beside=beside)
            symbols = report_symbols(read_raw(report), report)
        except (DataError, MissingError) as error:
            return _without("detail-unread", error, broken=isinstance(error, DataError))
    return KernelDetail(profile=profile, works=matched(symbols[: len(profile.launches)], survey))


def report_symbols(data: bytes, path: Path) -> list[str]:
    """The function in the machine code of every result of a report, in their order."""
    return [
        wire_text(result, RESULT_MANGLED) or wire_text(result, RESULT_FUNCTION)
        for block in read_blocks(data, path)
        for result in block.results
    ]


def _nothing(said: str, code: int) -> KernelDetail:
    if "No kernels were profiled" in said or (not error_lines(said) and not code):
        error: MissingError = MissingError(
            "under ncu the program launched none of the kernels that were picked",
            "Its launches may depend on timing, or on a range (--nvtx) that is never entered; "
            "--kernel and --launches pick others.",
        )
    else:
        error = MissingError(
            f"ncu ended with exit code {code} and without a report{_quoted(said)}",
            "`workbench doctor` shows what is missing.",
        )
    return _without("detail-empty", error, broken=bool(code))


def _quoted(said: str) -> str:
    lines: Sequence[str] = error_lines(said)[:4]
    return "".join(f"\n  {line}" for line in lines)


def _without(
    code: str, error: MissingError | KernelError | DataError, *, broken: bool = False
) -> KernelDetail:
    message = f"The survey stands alone: {error.message}. {error.hint}"
    return KernelDetail(notice=Notice(code=code, message=message), broken=broken)
