"""``.ncu-repz``, as ncu writes it from 2025.4 on, and reports under other people's names.

No ncu of that age is at hand. What such a file is was found with NVIDIA's reader of 2026.3: it
takes a report as zstd frames, one or several, if the name ends in ``.ncu-repz``, and nothing else
(no other compression, no plain bytes). The first test holds that against the reader itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest
import zstandard

from tests.engines.stand_ins import Cli
from workbench.errors import DataError, MissingError
from workbench.model import Profile
from workbench.ncurep import files
from workbench.ncurep.files import exported, holds_at_least, is_packed, read_raw, split_target, stem
from workbench.ncurep.read import read_report

DATA = Path(__file__).resolve().parents[1] / "data" / "ncurep" / "sgemm_v3.ncu-rep.zst"


def one(raw: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(raw)


def untold(raw: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(raw)


def several(raw: bytes) -> bytes:
    return b"".join(untold(raw[at : at + 100_000]) for at in range(0, len(raw), 100_000))


@pytest.fixture(scope="module")
def whole() -> bytes:
    return read_raw(DATA)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_no_room_to_unpack_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "report.ncu-rep").symlink_to("/dev/full")
    monkeypatch.setattr(files, "private_folder", lambda: nullcontext(tmp_path))
    with pytest.raises(MissingError, match="No space left") as error:
        read_report(DATA)
    assert "TMPDIR" in error.value.hint


def test_nvidia_s_reader_takes_the_same_files(whole: bytes, tmp_path: Path) -> None:
    report, output = tmp_path / "x.ncu-repz", tmp_path / "out.json"
    report.write_bytes(several(whole))
    argv = [sys.executable, "-m", "workbench.ncurep.extract", str(report), str(output)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    subprocess.run(argv, check=True, env=env, timeout=60)
    theirs = msgspec.json.decode(output.read_bytes(), type=Profile)
    assert theirs.launches == read_report(report).launches
    assert theirs.launches[0].instructions.address


@pytest.mark.parametrize("pack", [one, untold, several])
def test_a_compressed_report_is_the_report(
    whole: bytes, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "x.ncu-repz"
    path.write_bytes(pack(whole))
    assert read_raw(path) == whole
    for name in ("x.ncu-rep", "renamed.bin"):  # a name alone makes no report unreadable
        other = path.with_name(name)
        other.write_bytes(path.read_bytes())
        assert read_raw(other) == whole
    assert holds_at_least(path, len(whole)) and not holds_at_least(path, len(whole) + 1)


def test_it_stands_wherever_a_report_may(
    whole: bytes, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("new.ncu-repz").write_bytes(one(whole))
    Path("old.ncu-rep").write_bytes(whole)
    code, out, said = cli("show", "new.ncu-repz::sgemm_v3#1")
    assert code == 0 and "sgemm_v3" in out and "ncu-repz" not in out, said
    code, out, said = cli("diff", "old.ncu-rep", "new.ncu-repz", "--format", "json")
    assert code == 0 and '"new"' in out, said
    code, _, said = cli("report", "new.ncu-repz", "--out", "site")
    assert code == 0 and list(Path("site").rglob("*.html")), said


def test_what_is_damaged_is_told_as_of_any_report(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.ncu-repz"
    path.write_bytes(one(whole)[:-100])
    with pytest.raises(DataError, match="cut short"):
        read_report(path)
    path.write_bytes(one(whole) + b"more")
    with pytest.raises(DataError, match="zstd"):
        read_report(path)
    path.write_bytes(one(whole[:-100]))
    with pytest.raises(DataError, match="cut short"):
        read_report(path)
    assert not holds_at_least(tmp_path / "absent.ncu-repz", 1)


def test_names_of_reports() -> None:
    names = [f"a.b{suffix}" for suffix in files.SUFFIXES]
    assert {stem(name) for name in names} == {"a.b"}
    assert all(split_target(f"{name}::k<a::b>") == (Path(name), "k<a::b>") for name in names)


def test_ncu_may_put_its_own_suffix_on_a_report(tmp_path: Path) -> None:
    asked = tmp_path / "report.ncu-rep"
    assert exported(asked) == asked
    (tmp_path / "report.ncu-repz").touch()
    assert exported(asked) == tmp_path / "report.ncu-repz"
    asked.touch()
    assert exported(asked) == asked


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes have names here")
@pytest.mark.timeout(30)
@pytest.mark.parametrize("words", ["show {}", "diff {} {}", "report {}"])
def test_a_pipe_is_told_at_once_and_not_waited_for(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.chdir(tmp_path)  # a report begins its folder before it reads
    pipe = tmp_path / "x.ncu-rep"
    os.mkfifo(pipe)
    assert not is_packed(pipe) and not holds_at_least(pipe, 1)
    code, _, err = cli(*words.replace("{}", str(pipe)).split())
    assert code == 5 and "a pipe" in err
