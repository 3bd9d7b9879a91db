"""A stand-in for ncu 2025.3 that prints, exits and writes as the real one was recorded to.

``FAKE_NCU`` chooses the case; the default runs the program and writes a real report.
Where a case starts processes that linger, they write their ids to ``FAKE_NCU_PIDS``.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import zstandard

DATA = Path(__file__).resolve().parent.parent / "data" / "ncurep"
FLAGS = {"--nvtx", "--force-overwrite"}
NOTE = (
    "==WARNING== Note: Running with unmodified GPU clocks. If not controlled otherwise, "
    "profiling results may be inconsistent."
)


def say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def split(arguments: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    options: dict[str, list[str]] = {}
    index = 0
    while index < len(arguments) and arguments[index].startswith("-"):
        name = arguments[index]
        if name in FLAGS:
            options[name] = []
            index += 1
        else:
            options.setdefault(name, []).append(arguments[index + 1])
            index += 2
    return options, arguments[index:]


def write(output: Path, name: str) -> None:
    packed = (DATA / f"{name}.ncu-rep.zst").read_bytes()
    output.write_bytes(zstandard.ZstdDecompressor().decompress(packed))


def run(program: list[str]) -> int:
    return subprocess.run(program, check=False).returncode


def linger() -> None:
    """Two children that end late: one in our group, one in a session of its own."""
    pids = Path(os.environ["FAKE_NCU_PIDS"])
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    stubborn = [
        sys.executable,
        "-c",
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)",
    ]
    children = [
        subprocess.Popen(sleeper),
        subprocess.Popen(stubborn),
        subprocess.Popen(sleeper, start_new_session=True),
    ]
    pids.write_text(" ".join(str(pid) for pid in (os.getpid(), *(c.pid for c in children))))


def main() -> int:
    case = os.environ.get("FAKE_NCU", "ok")
    options, program = split(sys.argv[1:])
    output = Path(options["--export"][0])
    assert options["--nvtx-include"][0].endswith("/"), "matches start/end ranges only"
    (filtered,) = options["--nvtx-include"]
    if filtered.count("@") != 1:
        say(f"==ERROR== Invalid configuration for nvtx-include : {filtered}")
        return 1
    assert not output.is_absolute(), "the report's path would name this machine"
    if case == "badsection":
        say(
            "==ERROR== Option '--section NoSuch' did not match any section.",
            "==ERROR== Use --list-sections to see the list of available sections.",
        )
        return 1
    if case == "badopt":
        say("==ERROR== unrecognized option '--no-such-option'. Use --help for further details.")
        return 1
    if case == "noprog":
        say(
            "==ERROR== './nosuchprog' does not exist or is not an executable. Please make sure "
            "to specify the absolute path to './nosuchprog' if the executable is not in the "
            "local directory."
        )
        return 1
    if case == "nowrite":
        say(
            "==ERROR== Unable to write to file y.ncu-rep. Please verify this file is not locked, "
            "and writable."
        )
        return 1
    if case == "wrapper":
        sys.stderr.write("ncu: cannot find the installation that this script belongs to\n")
        return 127
    say(NOTE, f"==PROF== Connected to process {os.getpid()} (/usr/bin/python3.12)")
    if case == "hang":
        linger()
        say('==PROF== Profiling "hang" - 0: 0%..')
        say("==WARNING== Launching the workload is taking more time than expected.")
        time.sleep(600)
    if case == "oob":
        # The crash takes the application with it before it can say anything.
        say(
            '==PROF== Profiling "oob" - 0: 0%....50%....100% - 1 pass',
            "",
            "==ERROR== LaunchFailed",
            "==PROF== Trying to shutdown target application",
            "==ERROR== The application returned an error code (9).",
        )
        write(output, "launch_failed")
        say(f"==PROF== Report: {output}")
        return 9
    if case == "range":
        say(
            "",
            "==ERROR== An error was reported by the driver:",
            "==ERROR== Unsupported API during capture (cuFuncSetBlockShape)",
            "==ERROR== Skipping invalid capture range (RecordStatusUnsupportedApi).",
            "==PROF== Trying to shutdown target application",
            "==ERROR== The application returned an error code (9).",
        )
        return 9
    if case == "perm":
        run(program)
        say(
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA "
            "GPU Performance Counters on the target device 0. For instructions on enabling "
            "permissions and to get more information see "
            "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
        )
        return 0
    if case == "killed-app":
        say("==ERROR== The application returned an error code (11).")
        return 11
    code = run(program)
    say("==PROF== Disconnected from process 1")
    if code:
        say(f"==ERROR== The application returned an error code ({code}).")
        return code
    if case == "nomatch":
        say(
            "==WARNING== No kernels were profiled.",
            "==WARNING== Note that specified NVTX include expressions match only push/pop ranges.",
        )
        return 0
    if case == "fulldisk":
        output.write_bytes(b"NVR\0" * 100)
        say(f"==ERROR== Failed to save the report to file {output}")
        return 1
    if case == "dcgm":
        say(
            "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that "
            "no other tool (like DCGM) is concurrently collecting profiling data."
        )
        return 1
    if case == "silent":
        return 0
    say('==PROF== Profiling "sgemm" - 0: 0%....50%....100% - 23 passes')
    write(output, "sgemm_v3")
    if case == "cut":
        output.write_bytes(output.read_bytes()[:-5000])
    say(f"==PROF== Report: {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
