"""What is taken in of a file of somebody else: told at once where it is too much, or no file."""

from __future__ import annotations

import os
import random
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.disk import limits
from workbench.disk.limits import MIB, RECORD, ByteLimit, inflate, read_regular, read_toml, seconds
from workbench.errors import DataError, UsageError

SMALL = ByteLimit("a small file", 1000)


def frame(size: int, *, announced: bool, piece: bytes = bytes(MIB)) -> bytes:
    """A zstd frame of `size` bytes of content that never stood in memory."""
    stream = zstandard.ZstdCompressor(level=1).compressobj(size=size if announced else -1)
    whole, rest = divmod(size, len(piece))
    parts = [stream.compress(piece) for _ in range(whole)]
    return b"".join((*parts, stream.compress(piece[:rest]), stream.flush()))


@contextmanager
def at_most(mib: float) -> Iterator[None]:
    """That what runs inside takes no more memory than that."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < mib * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("announced", [True, False])
def test_a_bomb_is_refused_before_it_takes_memory(announced: bool) -> None:
    data = frame(400 * MIB, announced=announced)
    with at_most(64), pytest.raises(DataError, match=r"x\.zst (announces|holds) ") as caught:
        for _ in inflate(data, "x.zst", RECORD):
            pass
    assert "recorded profile" in caught.value.message
    assert "WORKBENCH_LIMIT_MIB=N" in caught.value.hint


def test_a_frame_that_announces_less_than_it_holds() -> None:
    data = bytearray(frame(400 * MIB, announced=True))
    at = data.index((400 * MIB).to_bytes(4, "little"))
    data[at : at + 4] = (1 << 16).to_bytes(4, "little")
    assert zstandard.frame_content_size(bytes(data)) == 1 << 16
    with at_most(64), pytest.raises((DataError, ValueError)):
        for _ in inflate(bytes(data), "x.zst", RECORD):
            pass


def test_the_ratio_is_limited_where_it_matters() -> None:
    within = b"".join(inflate(frame(15 * MIB, announced=False), "x", RECORD))
    assert len(within) == 15 * MIB
    with pytest.raises(DataError, match="500 times its compressed size"):
        b"".join(inflate(frame(20 * MIB, announced=False), "x", RECORD))
    # What does not compress may be of any size below the limit.
    noise = frame(20 * MIB, announced=False, piece=os.urandom(MIB))
    assert len(b"".join(inflate(noise, "x", RECORD))) == 20 * MIB


def test_a_variable_lifts_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    data = frame(200 * MIB, announced=True)
    monkeypatch.setenv(limits.SIZE_VARIABLE, "200")
    assert sum(map(len, inflate(data, "x", RECORD))) == 200 * MIB
    monkeypatch.setenv(limits.SIZE_VARIABLE, "1")
    assert RECORD.bytes == 128 * MIB, "a variable lifts, it does not lower"
    monkeypatch.setenv(limits.TIME_VARIABLE, "77.5")
    assert seconds(20.0) == 77.5
    for wrong in ("many", "-1", "0", "nan", "inf"):
        monkeypatch.setenv(limits.SIZE_VARIABLE, wrong)
        with pytest.raises(UsageError, match="is not a limit"):
            _ = RECORD.bytes


@given(st.binary(max_size=4000), st.integers(0, 4000))
@settings(max_examples=60)
def test_all_within_the_limit_comes_back_and_nothing_beyond(content: bytes, most: int) -> None:
    data = zstandard.ZstdCompressor().compress(content)
    if len(content) > most:
        with pytest.raises(DataError):
            list(inflate(data, "x", ByteLimit("it", most)))
    else:
        assert b"".join(inflate(data, "x", ByteLimit("it", most))) == content


@given(st.binary(max_size=2000), st.randoms(use_true_random=False), st.booleans())
def test_a_damaged_frame_is_refused_as_by_the_decoder_in_pieces(
    content: bytes, rng: random.Random, checked: bool
) -> None:
    """Small frames are decoded at once; what is wrong with one is said in the same words."""
    data = bytearray(zstandard.ZstdCompressor(write_checksum=checked).compress(content))
    match rng.randrange(4):
        case 0:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 1:
            del data[rng.randrange(len(data)) :]
        case 2:
            data += rng.randbytes(rng.randrange(1, 9))

    def outcome() -> bytes | str:
        try:
            return b"".join(inflate(bytes(data), "x", RECORD))
        except (DataError, ValueError) as error:
            return str(error)

    quick = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "_at_once", lambda data: None)
        assert outcome() == quick


def sock(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as each:
        folder = Path.cwd()
        os.chdir(path.parent)  # a socket's name is short
        try:
            each.bind(path.name)
        finally:
            os.chdir(folder)


KINDS: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a socket": sock,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
}


@pytest.mark.parametrize("what", KINDS)
def test_what_is_no_file_is_told_at_once(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x"
    KINDS[what](path)
    with pytest.raises(DataError, match=f"x is {what}, not a file"):
        read_regular(path, SMALL)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # holes: it takes no space
    with at_most(1), pytest.raises(DataError, match="holds 1,048,576 MiB; the limit for a small"):
        read_regular(path, SMALL)
    path.write_bytes(bytes(1000))
    assert read_regular(path, SMALL) == bytes(1000)


def test_a_file_whose_size_is_not_told_is_read_up_to_the_limit() -> None:
    """Files of ``/proc`` say that they hold nothing."""
    with pytest.raises(DataError, match="the limit for a tiny file"):
        read_regular(Path("/proc/self/status"), ByteLimit("a tiny file", 10))


def test_a_file_that_grows_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came meanwhile is read as well, up to the limit."""
    path = tmp_path / "x"
    path.write_bytes(bytes(100))
    real = os.read

    def growing(handle: int, size: int) -> bytes:
        with path.open("ab") as file:
            file.write(bytes(300))
        return real(handle, size)

    monkeypatch.setattr(os, "read", growing)
    with pytest.raises(DataError, match="x holds more; the limit for a small file"):
        read_regular(path, SMALL)


def test_a_file_that_comes_in_parts_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(range(200)))
    real = os.read
    monkeypatch.setattr(os, "read", lambda handle, size: real(handle, min(size, 7)))
    assert read_regular(path, SMALL) == bytes(range(200))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no list of open files")
def test_no_file_stays_open_that_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(2000))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(DataError):
            read_regular(path, SMALL)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


HALF = 1 << 15


@pytest.mark.parametrize(
    ("toml", "why"),
    [
        ("a" + ".a" * HALF + " = 1", "more than 64 parts"),
        ("x = 1\n[a" + " . 'b'" * 100 + "]", r"more than 64 parts \(at line 2"),
        ("x = {a" + '."b"' * 100 + " = 1}", "more than 64 parts"),
        ("x = " + "[" * HALF + "]" * HALF, "nested too deeply"),
        ("x = " + "{a = " * HALF, "nested too deeply"),
        ("x = " + "9" * 5000, "integer string conversion"),
    ],
)
def test_toml_that_only_a_hostile_author_writes(toml: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_toml(toml)


def test_toml_as_people_write_it() -> None:
    lists = "x = [" + "1.5, " * 500 + "]\n" + "y = '" + "Some words. " * 500 + "'\n"
    assert read_toml(lists + "[a.b.c]\nd.e = 1")["a"] == {"b": {"c": {"d": {"e": 1}}}}
