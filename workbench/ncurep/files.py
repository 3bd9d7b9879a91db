"""Report files by their names and bytes: plain, or compressed by ncu or by us.

From 2025.4 on ncu may write ``.ncu-repz``: the same bytes as a ``.ncu-rep``, as one or several
frames of zstd (so NVIDIA's reader takes them; it decides by the suffix). We keep raw reports as
``.ncu-rep.zst``, which is the same thing. The first bytes tell which it is, so that a renamed file
is read as well; callers get the plain bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import zstandard

from workbench.disk.limits import REPORT, ByteLimit, inflate, open_regular, read_regular
from workbench.disk.writing import private_folder
from workbench.errors import DataError, MissingError

AGAIN = "Copy the file again from where it was captured, or repeat the capture."
_PACKED = (".zst", ".ncu-repz")
#: Suffixes of ncu's printed output, and of all reports.
PRINTED = (".csv", ".txt")
SUFFIXES = (".ncu-rep", ".ncu-repz", ".ncu-rep.zst", ".ncu-repz.zst", *PRINTED)
#: Bytes from which a report is read in parts.
LARGE = 32 << 20
_ZSTD = b"\x28\xb5\x2f\xfd"


def split_target(text: str) -> tuple[Path, str | None]:
    """``x.ncu-rep::softmax`` -> (path, ``softmax``); no kernel name: None.

    The first ``::`` after a report's suffix is the separator, since kernel names contain ``::``;
    if the whole text is an existing path, it is not split.
    """
    if "::" not in text or exists(Path(text)):
        return Path(text), None
    for suffix in reversed(SUFFIXES):
        head, mark, name = text.partition(f"{suffix}::")
        if mark:
            return Path(head + suffix), name or None
    head, _, name = text.partition("::")
    return Path(head), name or None


def exists(path: Path) -> bool:
    """True if the file exists; False also for names that the system refuses."""
    # A name that is too long, or a folder that may not be entered, is an OSError in `exists`.
    try:
        return path.exists()
    except OSError:
        return False


def stem(name: str) -> str:
    """A report's name without its suffix."""
    found = max((suffix for suffix in SUFFIXES if name.endswith(suffix)), key=len, default="")
    return name.removesuffix(found)


def exported(path: Path) -> Path:
    """The report that ncu wrote for ``--export path``: ncu may have added its own suffix."""
    return next((x for x in (path, path.with_name(path.name + "z")) if x.is_file()), path)


def is_packed(path: Path) -> bool:
    """True if a file is compressed, by its first bytes or its name."""
    if path.suffix in _PACKED:
        return True
    try:
        with open_regular(path) as file:
            return file.read(len(_ZSTD)) == _ZSTD
    except (OSError, DataError):
        return False


def holds_at_least(path: Path, size: int) -> bool:
    """True if a report has `size` bytes or more, unpacked. False if it cannot be read."""
    try:
        if not is_packed(path) or path.stat().st_size >= size:
            return path.stat().st_size >= size
        with open_regular(path) as file:
            told = zstandard.frame_content_size(file.read(32))
        if told >= size:
            return True
        # The first frame need not say how much it holds, and others may follow it.
        done = 0
        for piece in _pieces(path):
            done += len(piece)
            if done >= size:
                return True
    except (OSError, ValueError, DataError, zstandard.ZstdError):
        pass  # whoever reads it reports the error
    return False


def read_raw(path: Path, limit: ByteLimit = REPORT) -> bytes:
    """The bytes of a report, unpacked if it is compressed.

    Raises DataError: the file cannot be read or is too large, or compressed data is damaged.
    """
    try:
        return b"".join(_pieces(path, limit))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}", "Check the path.") from error


def _pieces(path: Path, limit: ByteLimit = REPORT) -> Iterator[bytes]:
    """The bytes of a report, in pieces that are not kept in memory."""
    packed = is_packed(path)
    data = read_regular(path, limit)
    if not packed:
        yield data
        return
    try:
        yield from inflate(data, path, limit, joined=True)
    except ValueError as error:
        raise DataError(f"{path}: {error}", AGAIN) from error


@contextlib.contextmanager
def plain_report(path: Path) -> Iterator[Path]:
    """The report itself; a compressed one is unpacked into a temporary file.

    Raises:
        DataError: the compressed file is damaged.
        MissingError: there is no room for the unpacked file.
    """
    if path.is_dir() or not is_packed(path):
        yield path
        return
    with private_folder() as folder:
        plain = Path(folder) / "report.ncu-rep"
        try:
            with plain.open("wb") as file:
                for piece in _pieces(path):
                    file.write(piece)
        except OSError as error:
            raise MissingError(
                f"{path}: cannot be unpacked: {error.strerror}",
                f"Check the path, and the space in {folder} (TMPDIR names another place).",
            ) from error
        yield plain
