"""An unmodified CUDA program on the CPU: compiled if it is a source, run, checked and counted.

The program runs with the user's own rights, as without us; its loader finds our stand-in for the
CUDA driver and runtime.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from workbench.compile.compilers import StoppedError, find_nvcc, run_compiler, wheel_nvcc
from workbench.disk.writing import private_folder
from workbench.engines import Say
from workbench.engines.emulated.chips import ShownChip, chip, chips
from workbench.engines.host.process import Ended, Input, run_foreground
from workbench.errors import KernelError, MissingError, UsageError
from workbench.model import Notice, Record
from workbench.processes.bounds import Deadline
from workbench.processes.starting import environment
from workbench.programs.capture.counted import CountedRun
from workbench.programs.capture.records import ProgramFault
from workbench.programs.standin import library
from workbench.programs.standin.callsites import place_of, pointer_name
from workbench.programs.standin.device import TIME_IS_OVER, RunState
from workbench.programs.standin.faults import FaultLog
from workbench.programs.standin.launches import Launches
from workbench.programs.standin.recording import LaunchRecorder
from workbench.programs.standin.server import StandinServer
from workbench.study.lifted import RecordedLaunch

#: A path that a shell leaves unchanged; nvcc passes paths to one.
_PLAIN = re.compile(r"[\w./+@:,=%~^ -]+")
#: Environment variable with the socket of this run.
SOCKET = "WORKBENCH_STANDIN"
#: Lines of output that are kept.
_TAIL = 40
CHECKS = ("bounds", "alignment", "uninitialized reads", "races", "barriers", "asynchronous copies")
#: The checks that remain with `--no-check`.
UNCHECKED = CHECKS[:2]


class Program(Record, frozen=True):
    """A program to run, and how.

    Attributes:
        command: The program; empty: `source` is compiled, and run with `arguments`.
        source: A ``.cu`` file.
        flags: Additional flags for nvcc.
        check: Look for more than out-of-bounds and misaligned accesses.
        timeout_s: End the run after this time in seconds; None: never.
        budget: Thread instructions after which it ends; None: any number.
        chip: One of `chips`.
        quiet_output: The program's standard output goes to standard error.
    """

    folder: Path
    command: tuple[str, ...] = ()
    source: Path | None = None
    arguments: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    check: bool = True
    timeout_s: float | None = None
    budget: float | None = None
    chip: str = chips()[0]
    quiet_output: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The command line as it is recorded."""
        return self.command or (str(self.source), *self.arguments)


class ProgramOutcome(Record, frozen=True):
    """The outcome of a run.

    Attributes:
        code: The program's exit code, as a shell gives it.
        counted: Its launches.
        faults: The faults of its kernels.
        checks: The checks that ran.
        notices: Missing features, and other remarks.
        launches: The number of completed launches; `repeated` of them were known already, and
            `failed` others did not complete.
        stopped: Why the run ended before the program did; empty: it did not.
        output: Its last printed lines, if they were kept.
        recorded: Launches with their memory, if they were wanted.
        unrecorded: Kernels without a recorded launch, by symbol, and why.
        flags: The flags that `source` was compiled with.
    """

    code: int
    seconds: float
    counted: CountedRun
    faults: tuple[ProgramFault, ...]
    checks: tuple[str, ...]
    notices: tuple[str, ...]
    launches: int
    repeated: int
    failed: int
    thread_instructions: int
    stopped: str = ""
    output: str = ""
    recorded: tuple[RecordedLaunch, ...] = ()
    unrecorded: Mapping[str, str] = MappingProxyType({})
    flags: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """The program's own code if that is not 0; 4 for a kernel's fault; 6 if the run was cut."""
        return self.code or (4 if self.faults else 6 if self.stopped else 0)


def run_program(program: Program, say: Say, *, record: bool = False) -> ProgramOutcome:
    """Run a program, to its end or to its time limit.

    `record` keeps a launch of each kernel with its memory, and the last printed lines.

    Raises:
        MissingError: no compiler, or the program cannot be started.
        KernelError: the source does not compile.
        KeyboardInterrupt: Ctrl-C.
    """
    shown = chip(program.chip)
    recorder = LaunchRecorder(record)
    with private_folder() as holder, Input() as given:
        libraries = library.libraries()
        command, flags, log = program.command, tuple[str, ...](), ""
        if program.source is not None:
            flags = compile_flags(shown, program.flags)
            say(f"compiling {program.source.name}")
            target = Path(holder) / program.source.stem
            log = _compile(program, program.source.resolve(), target, flags, libraries)
            command = (str(target), *program.arguments)
        state = RunState(
            chip=shown,
            check=program.check,
            deadline=time.monotonic() + (program.timeout_s or 1e9),
            budget=program.budget or 1e30,
            found=FaultLog(lambda index: array_name(state, index), program.folder.resolve()),
            launches=Launches(shown, log),
            record=recorder,
        )
        tail: deque[str] = deque(maxlen=_TAIL)
        with StandinServer(state, Path(holder) / "socket") as server:
            ended = _run(
                program,
                command,
                given,
                _environment(server, libraries, shown),
                tail if record else None,
            )
        if server.failure is not None:
            raise server.failure
    return _outcome(program, state, server, ended, recorder, flags, "\n".join(tail))


def compile_flags(shown: ShownChip, own: Sequence[str]) -> tuple[str, ...]:
    """Flags of nvcc for a source: the necessary ones, and the user's."""
    defaults = [] if any(flag.startswith("-O") for flag in own) else ["-O3"]
    if not any(flag.startswith(("-std", "--std")) for flag in own):
        defaults.append("-std=c++17")
    return (*defaults, *own, *needed_flags(shown))


def needed_flags(shown: ShownChip) -> tuple[str, ...]:
    """The flags that a program needs so that its launches arrive here, with lines and PTX."""
    code = shown.arch.removeprefix("sm_")
    return (
        *("-cudart", "shared", "-lineinfo", "-no-compress", "-Xcompiler", "-g"),
        *("-gencode", f"arch=compute_{code},code=[compute_{code},sm_{code}]"),
    )


def _compile(
    program: Program, path: Path, target: Path, flags: Sequence[str], libraries: Path
) -> str:
    """Compile the source at `path` where its flags' paths begin; returns what ptxas said.

    Raises:
        UsageError: its path has characters that a shell would interpret.
        MissingError: there is no nvcc.
        KernelError: it does not compile, or exceeds its time or memory limit.
    """
    nvcc = find_nvcc() or wheel_nvcc()
    if nvcc is None:
        raise MissingError(
            "no CUDA compiler is here (nvcc)",
            "`pip install 'workbench[emulator]'` installs one (296 MB); so does the CUDA toolkit.",
        )
    # nvcc in the wheels looks for libraries in a toolkit's places.
    linked = ("-Xlinker", f"-rpath-link={libraries}")
    places = (*linked, f"-L{libraries}", f"-L{nvcc.parent.parent / 'lib'}", f"-I{path.parent}")
    words = [str(nvcc), *flags, *places, "-Xptxas", "-v", "-o", str(target), str(path)]
    if not _PLAIN.fullmatch(str(path)):
        raise UsageError(
            f"{path} has a character that nvcc's shell would act upon", "Rename the file or folder."
        )
    try:
        env = {**environment(), "TMPDIR": str(target.parent), "LC_ALL": "C"}
        limit = Deadline(max(Deadline().seconds, program.timeout_s or 0))
        done = run_compiler(words, program.folder, limit, env)
    except StoppedError as error:
        why = f"{program.source} does not compile: it {error.took}"
        raise KernelError(why, error.hint) from None
    if done.returncode:
        said = (done.stderr + done.stdout).strip()
        raise KernelError(
            f"{program.source} does not compile:\n{said[:4000]}",
            "Give nvcc what it needs with --flags, as in --flags '-I include -DN=1024'.",
        )
    return done.stderr


def _environment(server: StandinServer, libraries: Path, shown: ShownChip) -> dict[str, str]:
    env = dict(os.environ)
    flags = " ".join(needed_flags(shown))  # nvcc does not support quotes in this variable
    for name in ("LD_LIBRARY_PATH", "LIBRARY_PATH"):
        env[name] = os.pathsep.join(filter(None, (str(libraries), env.get(name))))
    env["NVCC_APPEND_FLAGS"] = " ".join(filter(None, (env.get("NVCC_APPEND_FLAGS", ""), flags)))
    env[SOCKET] = server.address
    return env


def array_name(state: RunState, index: int) -> str:
    """The name of an allocation: its pointer's name, else its line, else its number."""
    place = place_of(state.allocations[index])
    return f"array {index + 1}" if place is None else pointer_name(place) or f"the array of {place}"


def _run(
    program: Program,
    command: Sequence[str],
    given: Input,
    env: dict[str, str],
    tail: deque[str] | None,
) -> Ended:
    to = 2 if program.quiet_output else None
    sys.stdout.flush()
    with contextlib.ExitStack() as at_end:
        if tail is not None:
            reading, writing = os.pipe()
            thread = threading.Thread(target=_pass_on, args=(reading, to or 1, tail), daemon=True)
            thread.start()
            at_end.callback(thread.join, timeout=2)
            at_end.callback(os.close, writing)
            to = writing
        return run_foreground(
            command, given, cwd=program.folder, env=env, timeout_s=program.timeout_s, stdout=to
        )


def _pass_on(reading: int, to: int, tail: deque[str]) -> None:
    """Pass on a program's output, and keep its last lines."""
    with open(reading, "rb") as stream:
        for line in stream:
            tail.append(line.decode("utf-8", "replace").rstrip("\n"))
            with contextlib.suppress(OSError):
                os.write(to, line)


def _outcome(
    program: Program,
    state: RunState,
    server: StandinServer,
    ended: Ended,
    recorder: LaunchRecorder,
    flags: tuple[str, ...],
    output: str,
) -> ProgramOutcome:
    launches = state.launches
    stopped = state.stopped
    if ended.timed_out or stopped == TIME_IS_OVER:
        stopped = f"it did not end within {program.timeout_s:g} s"
    counted = CountedRun(
        command=program.words,
        folder=program.folder,
        launches=launches.order,
        details=launches.details,
        sources=launches.sources,
        device=state.chip.device,
        wall_s=ended.seconds,
        processes=max(server.processes, 1),
        notices=tuple(Notice("run", text) for text in state.notices.values()),
    )
    return ProgramOutcome(
        code=0 if ended.timed_out or state.stopped else ended.exit_code,
        seconds=ended.seconds,
        counted=counted,
        faults=state.found.all,
        checks=CHECKS if program.check else UNCHECKED,
        notices=tuple(state.notices.values()),
        launches=launches.count,
        repeated=launches.repeated,
        failed=launches.failed,
        thread_instructions=launches.thread_instructions,
        stopped=stopped,
        output=output,
        recorded=tuple(recorder.kept.values()),
        unrecorded=recorder.left,
        flags=flags,
    )
