"""A launch that was kept: read as it was written, and refused where it was touched."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from workbench.disk.limits import LIFTED
from workbench.errors import DataError, MissingError
from workbench.study.lifted import (
    RECORD,
    LiftedArgument,
    LiftedBuffer,
    LiftedLaunch,
    LiftedPointer,
    RecordedLaunch,
    lifted_bytes,
    read_lifted,
    write_lifted,
)


def buffer(name: str, before: bytes, after: bytes | None = None, at: int = 0x1000) -> LiftedBuffer:
    seals = [sha256(data).hexdigest() for data in (before, before if after is None else after)]
    return LiftedBuffer.sealed(
        name, (seals[0], seals[1]), address=at, size=len(before), kind="device"
    )


def launch(*buffers: LiftedBuffer) -> LiftedLaunch:
    first = buffers[0]
    return LiftedLaunch(
        kernel="_Z1kPf",
        demangled="k(float *)",
        grid=(2, 1, 1),
        block=(32, 1, 1),
        arguments=(
            LiftedArgument(index=0, offset=0, size=8, data=first.address.to_bytes(8, "little")),
        ),
        pointers=(LiftedPointer(argument=0, offset=0, target=first.name, target_offset=0),),
        buffers=buffers,
        image="module.cubin.zst",
        capability="9.0",
        device="NVIDIA H100",
        launch=1,
    )


def recorded(one: LiftedLaunch, held: dict[str, bytes]) -> RecordedLaunch:
    held = held | {"module.cubin.zst": b"ELF"}
    return RecordedLaunch(one, {name: [data[:3], data[3:]] for name, data in held.items()})


X, Y = os.urandom(4096), bytes(5000)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    one = launch(buffer("x", X), buffer("y", Y, X + X[:904]))
    held = {"x.before.zst": X, "y.before.zst": Y, "y.after.zst": X + X[:904]}
    write_lifted(tmp_path / "captured", recorded(one, held))
    return tmp_path / "captured"


def test_a_launch_is_read_as_it_was_written(kept: Path) -> None:
    one = read_lifted(kept)
    assert (one.grid, one.buffer("y").after) == ((2, 1, 1), "y.after.zst")
    assert lifted_bytes(kept, "x.before.zst") == X
    assert lifted_bytes(kept, "y.after.zst") == X + X[:904]
    assert lifted_bytes(kept, one.image or "") == b"ELF"


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 0.999), bit=st.integers(0, 7), name=st.sampled_from([0, 1, 2, 3]))
def test_damage_is_noticed(kept: Path, place: float, bit: int, name: int) -> None:
    path = kept / [RECORD, "x.before.zst", "y.after.zst", "module.cubin.zst"][name]
    whole = path.read_bytes()
    at = int(place * len(whole))
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
    try:
        same = lifted_bytes(kept, path.name if name else "x.before.zst")
    except DataError as error:
        assert str(kept) in error.message and error.hint
    else:  # a bit that a frame does not look at: what it holds is what was kept
        assert same in (X, X + X[:904], b"ELF")
    finally:
        path.write_bytes(whole)


def test_another_content_with_a_right_frame_is_noticed(kept: Path) -> None:
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(bytes(4096))
    (kept / "x.before.zst").write_bytes(packed)
    with pytest.raises(DataError, match=r"SHA-256"):
        lifted_bytes(kept, "x.before.zst")


@pytest.mark.parametrize("size", [0, 4095, 4097, 1 << 30])
def test_a_frame_of_another_size_is_not_taken_in(kept: Path, size: int) -> None:
    packer = zstandard.ZstdCompressor().compressobj()
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20))
    packed += packer.compress(bytes(size % (1 << 20))) + packer.flush()
    (kept / "x.before.zst").write_bytes(packed)
    with pytest.raises(DataError, match=r"not 4,096 bytes"):
        lifted_bytes(kept, "x.before.zst")


def test_a_record_that_announces_more_than_anybody_lifts_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = LIFTED._replace(default=1 << 20)
    monkeypatch.setattr("workbench.study.lifted.LIFTED", limit)
    for name, data in (("honest", os.urandom(2 << 20)), ("swollen", bytes(2 << 20))):
        one = launch(buffer("x", data))
        write_lifted(tmp_path / name, recorded(one, {"x.before.zst": data}))
    assert read_lifted(tmp_path / "honest").buffers
    with pytest.raises(DataError, match=r"announces 2,097,152 bytes in \d+;") as error:
        read_lifted(tmp_path / "swollen")
    assert "WORKBENCH_LIMIT_MIB" in error.value.hint
    monkeypatch.setenv("WORKBENCH_LIMIT_MIB", "2")
    assert read_lifted(tmp_path / "swollen").buffers


def test_a_folder_that_is_not_here_says_why(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="not here") as error:
        read_lifted(tmp_path / "captured")
    assert "workbench new --from-launch" in error.value.hint


def changed(**given: object) -> LiftedLaunch:
    return replace(launch(buffer("x", X)), **given)


@pytest.mark.parametrize(
    "wrong",
    [
        changed(pointers=(LiftedPointer(argument=0, offset=1, target="x", target_offset=0),)),
        changed(pointers=(LiftedPointer(argument=1, offset=0, target="x", target_offset=0),)),
        changed(pointers=(LiftedPointer(argument=0, offset=0, target="z", target_offset=0),)),
        changed(pointers=(LiftedPointer(argument=0, offset=0, target="x", target_offset=4097),)),
        changed(pointers=(LiftedPointer(buffer="x", offset=4089, target="x", target_offset=0),)),
        changed(pointers=(LiftedPointer(offset=0, target="x", target_offset=0),)),
        changed(arguments=(LiftedArgument(index=0, offset=0, size=9, data=bytes(8)),)),
        changed(arguments=(LiftedArgument(index=1, offset=0, size=8, data=bytes(8)),)),
        changed(grid=(0, 1, 1)),
        changed(image="../../evil"),
        changed(image=RECORD),
        changed(buffers=(buffer("x", X), buffer("x", X))),
        changed(buffers=(replace(buffer("x", X), before="/etc/passwd"),)),
        changed(buffers=(replace(buffer("x", X), symbol="table"),)),
        changed(buffers=(replace(buffer("x", X), size=4097),)),
        changed(buffers=(replace(buffer("x", X), sha256_after="0" * 64),)),
    ],
)
def test_a_record_that_contradicts_itself_is_not_kept(tmp_path: Path, wrong: LiftedLaunch) -> None:
    with pytest.raises(DataError):
        write_lifted(tmp_path / "captured", recorded(wrong, {"x.before.zst": X}))
    assert not (tmp_path / "captured" / RECORD).exists()
