"""A program of which a launch is kept: it writes what the library would (``data/lifter.c``).

``FAKE_LIFT`` chooses the case. Under the tracer it is `fake_program`.
"""

import os
import sys
import time
from pathlib import Path

import zstandard

KERNEL = "_Z6gather3JobfPKi"
DATA = Path(__file__).resolve().parents[3] / "tests" / "data" / "lifted"
PARTS, OUT, COUNT = 0x7F00_0000_0000, 0x7F00_0010_0000, 0x7F00_0020_0000


def word(value: int) -> bytes:
    return value.to_bytes(8, "little")


def report(registers: int) -> str:
    job = word(PARTS) + word(OUT) + word(64)
    return f"""device 9.0 NVIDIA H100 80GB HBM3
shape 32 32 1 32 32 1 0
cluster 2 1 1
argument 0 24 {job.hex()}
argument 24 4 0000803f
argument 32 8 {word(OUT + 64).hex()}
buffer symbol {COUNT} 8 launches
buffer device {PARTS} 16 -
buffer device {OUT} 4096 -
scanned 2 1048576
pointer argument 0 0 1 0
pointer argument 0 8 2 0
pointer argument 2 0 2 64
pointer buffer 1 0 2 256
images 1 {registers}
note it is a node
note it is a node
repeat 0
launch 3
end
"""


def write(place: Path, case: str) -> None:
    before = {0: word(2), 1: word(OUT + 256) + word(0), 2: bytes(4096)}
    after = {**before, 0: word(3), 2: bytes(range(256)) * 16}
    for number in before:
        (place / f"before-{number}").write_bytes(before[number])
        if case == "hang":
            Path(os.environ["FAKE_PIDS"]).write_text(str(os.getpid()))
            time.sleep(600)
        (place / f"after-{number}").write_bytes(after[number])
    cubin = zstandard.ZstdDecompressor().decompress((DATA / "gather.cubin.zst").read_bytes())
    (place / "image-0").write_bytes(cubin)
    (place / "packed.ptx").write_bytes((DATA / "packed.ptx").read_bytes())
    text = report(registers=99 if case == "foreign" else 18)
    (place / "report").write_text(text[: len(text) // 2] if case == "cut" else text)


def main() -> int:
    folder = os.environ.get("WORKBENCH_LIFT")
    case = os.environ.get("FAKE_LIFT", "ok")
    if folder is None:
        from workbench.programs.tests.fake_program import main as traced

        return traced()
    place = Path(folder)
    assert os.environ["CUDA_INJECTION64_PATH"].endswith("lifter.so")
    asked = [os.environ[f"WORKBENCH_LIFT_{x}"] for x in ("KERNEL", "SHAPE", "NUMBER", "PLAIN")]
    Path(os.environ["FAKE_ASKED"]).write_text(f"{asked} {os.environ['WORKBENCH_LIFT_LIMIT']}")
    if case in ("large", "refused", "child"):
        said = {
            "large": "its buffers (1) hold 6291456000 bytes (the largest 6291456000), more than "
            "the 2147483648 that are kept",
            "child": "it is a node of a graph inside of a CUDA graph",
            "refused": "the kernel failed: CUDA_ERROR_ILLEGAL_ADDRESS",
        }
        (place / "refused").write_text(said[case])
    elif case == "seldom":
        (place / "77.seen").write_text("2 0\n")
    elif case != "no-cuda":
        write(place, case)
    return 3 if case == "fails" else 0


if __name__ == "__main__":
    sys.exit(main())
