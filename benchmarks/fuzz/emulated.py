"""One mutant in the emulator, with everything looked for that it can find."""

from __future__ import annotations

import re
import time
import traceback

from benchmarks.fuzz.cases import SEED, Case
from benchmarks.fuzz.findings import Finding, Status, finding
from workbench.engines.emulated.emulation import emulate
from workbench.errors import WorkbenchError
from workbench.processes.bounds import Deadline

#: Limits of a mutant: instructions of one thread, seconds of a run and of its explanation.
INSTRUCTIONS, SECONDS = 400_000, 40.0
_PLACE = re.compile(r"([^\s:]+:\d+|PTX line \d+): ")
#: What the emulator says of a kernel -> what that means.
_MEANINGS: tuple[tuple[str, Status], ...] = (
    (r"the emulator cannot run|fault in workbench", "broken"),
    (r"is still running after|did not end within|an endless wait|never completes"
     r"|waits? for ever at barrier", "endless"),
    (r"does not support|does not know|is no instruction of PTX|out of memory", "refused"),
)  # fmt: skip


def meaning(message: str) -> Status:
    """What an error of the emulator says of the kernel."""
    for words, status in _MEANINGS:
        if re.search(words, message):
            return status
    return "fault"


def emulated(case: Case) -> Finding:
    """What the emulator says of a mutant, in `SECONDS` and a little."""
    begin = time.perf_counter()
    status: Status = "right"
    said, place, check = "", "", None
    try:
        ran = emulate(
            case.subject, SEED, watch=True, instructions=INSTRUCTIONS, limit=Deadline(SECONDS)
        )
        check = ran.check
        assert check is not None, "all blocks ran"
        if not check.ok:
            status = "wrong"
            blame = ran.explain()
            said, place = (blame.words, blame.place) if blame else ("", "")
    except WorkbenchError as error:
        said = error.message.partition("\n")[0]
        status = meaning(said)
        found = _PLACE.match(said)
        place = found[1] if found else ""
    except Exception:
        status, said = "broken", traceback.format_exc(limit=-3)
    seconds = time.perf_counter() - begin
    return finding(case, status, said=said, place=place, check=check, seconds=seconds)
