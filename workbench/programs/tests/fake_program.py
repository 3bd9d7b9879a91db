"""A program that launches kernels as far as anyone can see: it writes what the tracer would.

``FAKE_PROGRAM`` chooses the case; ``FAKE_LAUNCHES`` says what is launched, a kernel a word:
``sgemm_v3*40@900`` is 40 launches of about 900 ns each, and ``…!a>b`` stands inside of two NVTX
ranges.
"""

import os
import signal
import struct
import sys
import time
from pathlib import Path

DEFAULT = "sgemm_v3*40@900 sgemm_v1*10@5000 [fill]*4@100"


def trace(text: str, process: int, *, ended: bool, rank: int | None = None) -> bytes:
    """Kernel after kernel on one stream; the n-th launch takes n ns longer."""
    out, now = bytearray(struct.pack("<8sII", b"WBTRACE2", process, 0)), 1_000_000
    if rank is not None:
        out += struct.pack("<II", 5, rank)
    paths: dict[str, int] = {}
    asked = 0
    for number, word in enumerate(filter(None, text.split(" "))):
        word, _, path = word.partition("!")
        name, _, rest = word.replace("~", " ").rpartition("*")
        count, _, length = rest.partition("@")
        out += struct.pack("<III", 1, number, len(name)) + name.encode()
        shape = (0,) * 6 if name.startswith("[") else (32, 32, 1, 32, 32, 1)
        for launch in range(int(count)):
            end = now + int(length) + launch
            asked += 1
            work = (2, number, rank or 0, 7, 0, now, end, *shape, 0, 0, 0, asked, 0)
            out += struct.pack("<IIIIIQQ6IIIQII", *work)
            if path:  # told behind the launch, as CUPTI may
                if path not in paths:
                    paths[path] = 1000 + len(paths)
                    inside = path.replace(">", "\x1f").encode()
                    out += struct.pack("<III", 1, paths[path], len(inside)) + inside
                out += struct.pack("<III", 4, asked, paths[path])
            now = end + 10
    return bytes(out + struct.pack("<IIQ", 3, 0, 0)) if ended else bytes(out)


def main() -> int:
    case = os.environ.get("FAKE_PROGRAM", "ok")
    folder = os.environ.get("WORKBENCH_TRACE")
    text = os.environ.get("FAKE_LAUNCHES", DEFAULT)
    if case == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if case == "hang":
        Path(os.environ["FAKE_PIDS"]).write_text(str(os.getpid()))
        time.sleep(600)
    if folder is not None and case == "ranks":  # the second one works less, and waits
        for rank, own in enumerate((text, text.replace("sgemm_v1*10", "sgemm_v1*1"))):
            own += f" ncclDevKernel_AllReduce*1@{100 + 45_300 * rank}"
            mine = trace(own, 500 + rank, ended=True, rank=rank)
            Path(folder, f"{500 + rank}.trace").write_bytes(mine)
    elif folder is not None and case != "no-cuda":
        mine = trace("" if case == "no-launch" else text, os.getpid(), ended=case != "killed")
        Path(folder, f"{os.getpid()}.trace").write_bytes(mine)
        if case == "two":
            Path(folder, "99.trace").write_bytes(trace("sgemm_v2*5@700", 99, ended=True))
    said = sys.stdin.read() if case == "reads" else ""
    sys.stdout.write(f"out {said}\n")
    sys.stderr.write("err\n")
    return int(case.removeprefix("exit")) if case.startswith("exit") else 0


if __name__ == "__main__":
    sys.exit(main())
