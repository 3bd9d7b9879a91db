"""What ncu says when it fails, each line as somebody met it, and what becomes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engines.stand_ins import Cli
from workbench.engines.ncu.faults import explain, fitting, known_fault
from workbench.errors import CountersDeniedError, KernelError, MissingError, UsageError

#: A line of ncu's, its kind, words of its meaning, and of what to do.
SEEN = [
    ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
     "Performance Counters on the target device 0.", "denied", "administrators", ""),
    ("==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other "
     "tool (like DCGM) is concurrently collecting profiling data.",
     "missing", "another program", "dcgmi profile --pause"),
    ("==ERROR== Profiling is not supported on device 0 as it uses the Windows Subsystem for Linux "
     "(WSL).", "missing", "Windows driver", "WSL 2"),
    ("CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES", "missing", "blocked", "enable_prof"),
    ("CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED", "missing", "blocked", "as large as"),
    ("CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED", "missing", "blocked", "must be off"),
    *((f"==ERROR== Profiling is not supported on device 0 as it uses {x}", "missing", "blocked", "")
      for x in ("Multi-Instance GPU (MIG)", "a vGPU", "vGPU", "confidential computing")),
    ("bash: line 1: ncu: command not found", "missing", "was not found", "on PATH"),
    ("./app: error while loading shared libraries: libcudart.so.12: cannot open shared object "
     "file: No such file or directory", "missing", "was not found", "ldd"),
    ("==616== Warning: The user does not have permission to profile on the target device. See: "
     "https://developer.nvidia.com/NVSOLN1000", "denied", "administrators", ""),
    ("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", "denied", "administrators", ""),
    ("NVPW_STATUS_INSUFFICIENT_PRIVILEGE", "denied", "administrators", ""),
    ("======== Warning: nvprof is not supported on devices with compute capability 8.0 and higher.",
     "missing", "nvprof does not", "Use ncu"),
    ("ptxas fatal   : (C7800) Smem spilling should not be enabled when functions use abi.",
     "missing", "shared memory", "__forceinline__"),
    ('==WARNING== Could not deploy stock section files to "/home/u/Sections". Set the HOME '
     "environment variable to a writable directory.", "note", "below HOME", "Set HOME"),
    ("    Section: GPU Speed Of Light Throughput", "note", "printed as text", "ncu -o"),
    ('"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"',
     "note", "printed as text", "ncu -o"),
    ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded. Check that a compatible "
     "driver library is loaded.", "missing", "no compatible driver library", "nvidia-smi"),
    ("==WARNING== Failed to load Nsight Compute CUDA modules.",
     "missing", "does not know", "nvidia-smi"),
    ("==ERROR== Cuda driver is not compatible with Nsight Compute.",
     "missing", "not compatible", "newer driver, or an older ncu"),
    ("==ERROR== Profiling is not supported on device 0.", "missing", "does not support", "Turing"),
    ("==ERROR== Cannot lock GPU clock frequencies on MIG! Try locking the clocks externally or "
     "profile without fixed frequencies (see '--clock-control').",
     "usage", "clocks", "--clock-control none"),
    ("==ERROR== Error: Failed to open/create lock file /tmp/nsight-compute-lock. Please check that "
     "this process has write permissions on this file.", "missing", "lock file", "TMPDIR"),
    ("==ERROR== Unable to write to file y.ncu-rep. Please verify this file is not locked, and "
     "writable.", "missing", "could not write", "Free some space"),
    ("==ERROR== Failed to save the report to file y.ncu-rep",
     "missing", "could not write", "space"),
    ("==ERROR== './nosuch' does not exist or is not an executable. Please make sure to specify it "
     "correctly.", "missing", "cannot start", "same path"),
    ("==ERROR== unrecognised option '--no-such'. Use --help for further details.",
     "usage", "refused", "ncu --help"),
    ("==ERROR== Option '--section .*' did not match any section.", "usage", "refused", "-sections"),
    ("==WARNING== No metrics to collect found in sections.",
     "usage", "counted nothing", "--list-sets"),
    ("==ERROR== Failed to find metric regex:^flop_count_sp", "usage", "refused", "--query-metrics"),
    ("==ERROR== Failed to access the following 8 metrics: nvlrx__bytes.sum",
     "usage", "does not have", "NVLink"),
    ("==ERROR== Unsupported API during capture (cuFuncSetBlockShape)",
     "usage", "as a range", "--replay-mode application"),
    ("==WARNING== Launching the workload is taking more time than expected. If this continues to "
     "hang, terminate the profile and re-try by profiling the range of all related launches using "
     "'--replay-mode range'.", "kernel", "waits for another kernel", "lockstep"),
    ("==ERROR== LaunchFailed", "kernel", "crashed", "compute-sanitizer"),
    ("==ERROR== OutOfMemory", "kernel", "out of memory", "application"),
    ("==ERROR== Failed to prepare kernel for profiling", "missing", "libcuda", "ldconfig"),
    ("==ERROR== Unknown Error on device 0.", "missing", "without a name", "xid"),
    ("==ERROR== UnknownError", "missing", "without a name", "--devices 0"),
    ("==WARNING== Profiling kernels launched by child processes requires the --target-processes "
     "all option.", "usage", "child process", "--target-processes all"),
    ("==WARNING== No kernels were profiled.", "kernel", "no launched kernel", "filters"),
    ("==WARNING== Unable to access the following 6 metrics: ctc__rx_bytes_data_user.sum.",
     "note", "missing from the report", "MIG"),
    ("==WARNING== Backing up device memory in system memory. Kernel replay might be slow.",
     "note", "to the host", "application"),
    ("==WARNING== Note: Running with unmodified GPU clocks. If not controlled otherwise, profiling "
     "results may be inconsistent.", "note", "left alone", "not a fault"),
    ("    Achieved Occupancy                        %          nan", "note", "NaN", "or older"),
    ("==ERROR== The application returned an error code (9).",
     "after", "the program failed", "without"),
    ('==ERROR== Failed to profile "gemv2N_kernel" in process 10096',
     "after", "gave up", "the reason"),
    ("==ERROR== An error occurred while trying to profile.", "after", "gave up", "the reason"),
]  # fmt: skip
ERRORS = {"denied": CountersDeniedError, "missing": MissingError, "usage": UsageError}


@pytest.mark.parametrize(("line", "kind", "means", "remedy"), SEEN, ids=[x[0][:50] for x in SEEN])
def test_what_ncu_says_is_explained(line: str, kind: str, means: str, remedy: str) -> None:
    (found,) = explain(f"==PROF== Connected to process 1 (/usr/bin/python3)\n{line}\n")
    assert found.fault is not None and found.fault.kind == kind
    assert means in found.fault.what and remedy in found.fault.hint
    error = known_fault(line)
    if kind in ("after", "note"):
        assert error is None
    else:
        assert type(error) is ERRORS.get(kind, KernelError)


def test_the_cause_stands_before_what_follows_from_it() -> None:
    """A program of which ncu could not prepare a kernel, as several people met it."""
    log = """==PROF== Connected to process 10096 (/usr/bin/python3.8)
==ERROR== Failed to prepare kernel for profiling
==ERROR== Unknown Error on device 0.
==ERROR== Failed to profile "gemv2N_kernel" in process 10096
==PROF== Trying to shutdown target application
==ERROR== The application returned an error code (9).
==ERROR== An error occurred while trying to profile.
==WARNING== No kernels were profiled."""
    kinds = [x.fault.kind for x in explain(log) if x.fault]
    assert kinds == ["missing", "missing", "kernel", "after", "after"]
    error = known_fault(log)
    assert isinstance(error, MissingError) and "could not set up the counters" in error.message
    assert "gemv2N_kernel" in error.message


def test_a_traceback_stands_before_what_follows_from_it() -> None:
    stack = 'Traceback (most recent call last):\n  File "x.py", line 3, in <module>\n'
    follows = "==ERROR== The application returned an error code (1).\n"
    said = explain(f"{stack}ValueError: bad\n{follows}==WARNING== No kernels were profiled.\n")
    assert said[0].line == "Traceback: ValueError: bad" and len(said) == 3
    (only,) = explain(f"{stack}FileNotFoundError: No such file or directory: 'ncu'\n")
    assert only.fault and "was not found" in only.fault.what
    (only,) = explain(f"==ERROR== UnknownError\n{stack}subprocess.CalledProcessError: 'ncu' …\n")
    assert only.fault and "without a name" in only.fault.what


def test_a_programs_own_words_are_not_taken_for_ncus() -> None:
    assert explain("out of memory: UnknownError, option is invalid\nloss: 0.3\n") == []
    (found,) = explain("==ERROR== Something that nobody has met\n==ERROR==\n")
    assert found.fault is None and "nobody has met" in found.line


@pytest.mark.parametrize(
    ("ncu", "capability", "driver", "words"),
    [
        ("2025.3.1.0", "9.0", "580.159.04", "fit"),
        ("2024.3.2", "12.0", "580.65", "the first that supports it is 2025.1, from CUDA 12.8"),
        ("2025.3.1", "8.0", "535.104", "which needs driver 580 or newer"),
        ("2026.2.0", "10.0", "590.1", "fit"),
    ],
)
def test_which_ncu_fits(ncu: str, capability: str, driver: str, words: str) -> None:
    found = fitting(ncu, capability, driver)
    assert any(words in line for line in found), found
    if "whose driver" in words:
        assert "ncu 2023.2 (CUDA 12.2)" in found[-1]


@pytest.mark.usefixtures("no_gpu")
def test_doctor_explains_a_log(cli: Cli, tmp_path: Path) -> None:
    log = tmp_path / "ncu.log"
    log.write_text(f"==PROF== Connected\n{SEEN[1][0]}\n{SEEN[-1][0]}\n==ERROR== Strange\n")
    code, out, _ = cli("doctor", "--log", str(log), "--format", "json")
    lines = json.loads(out)["lines"]
    assert code == 0 and [bool(line["means"]) for line in lines] == [False, True, True]
    assert "dcgmi profile --pause" in lines[1]["remedy"] and json.loads(out)["here"] == []
    code, out, _ = cli("doctor", "--log", str(log))
    assert code == 0 and "an unknown error" in " ".join(out.split())
    log.write_text("all is well\n")
    assert "no error or warning" in cli("doctor", "--log", str(log))[1]
    code, _, said = cli("doctor", "--log", str(tmp_path / "none"))
    assert code == 5 and "cannot read" in said
