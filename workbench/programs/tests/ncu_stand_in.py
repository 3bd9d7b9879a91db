"""A stand-in for ncu around a whole program: it runs it, writes a real report, tells its tale.

``FAKE_REPORT`` is the report that it gives, ``FAKE_NCU`` the case, and ``FAKE_ARGV`` where it
writes how it was called.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import zstandard

FLAGS = {"--nvtx", "--force-overwrite", "--csv"}


def main() -> int:
    arguments, options, at = sys.argv[1:], {}, 0
    while arguments[at].startswith("-"):
        flag = arguments[at] in FLAGS
        options[arguments[at]] = "" if flag else arguments[at + 1]
        at += 1 if flag else 2
    if "FAKE_ARGV" in os.environ:
        Path(os.environ["FAKE_ARGV"]).write_text(json.dumps(sys.argv[1:]))
    case = os.environ.get("FAKE_NCU", "ok")
    log = Path(options["--log-file"])
    if case == "denied":
        log.write_text("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n")
        return 1
    code = subprocess.run(arguments[at:], check=False).returncode
    if case == "hang":
        log.write_text('==PROF== Profiling "forward_gemm" - 0: 0%\n')
        Path(os.environ["FAKE_ARGV"]).with_name("ncu-pid").write_text(str(os.getpid()))
        time.sleep(600)
    if case == "broken":
        log.write_text("==ERROR== Failed to save the report\n")
        return 9
    if case == "unprepared":
        log.write_text(
            "==ERROR== Failed to prepare kernel for profiling\n"
            "==ERROR== Unknown Error on device 0.\n"
            "==WARNING== No kernels were profiled.\n"
        )
        return 9
    if case == "nothing":
        log.write_text("==WARNING== No kernels were profiled.\n")
        return 0
    if "--csv" in options:
        log.write_text(Path(os.environ["FAKE_LISTING"]).read_text())
        return code
    log.write_text("==PROF== Profiling\n")
    packed = Path(os.environ["FAKE_REPORT"]).read_bytes()
    output = zstandard.ZstdDecompressor().decompress(packed)
    if case == "damaged":
        output = output[: len(output) // 2]
    if case == "repz":  # as from 2025.4 on
        Path(options["--export"] + "z").write_bytes(packed)
    else:
        Path(options["--export"]).write_bytes(output)
    return 7 if case == "crash" else code


if __name__ == "__main__":
    sys.exit(main())
