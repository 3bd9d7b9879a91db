"""Large reports: excerpts that are reports, a table without the reader, only what is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.engines.stand_ins import Cli
from tests.ncurep.enlarged import enlarge, lean
from workbench.errors import DataError, UsageError
from workbench.model import Profile
from workbench.ncurep.excerpt import list_results, parts
from workbench.ncurep.files import LARGE, holds_at_least
from workbench.ncurep.large import choice, read_parts, read_some
from workbench.ncurep.read import read_report, report_results


@pytest.fixture
def ladder(report: Callable[[str], Path]) -> Path:
    return report("ladder_focus")


@pytest.fixture
def large(ladder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five kernels, forty launches each; read in parts as if it had hundreds of megabytes."""
    path = tmp_path / "large.ncu-rep"
    enlarge(ladder.read_bytes(), 40, path, change=lean)
    monkeypatch.setattr("workbench.session.targets.LARGE", 1 << 20)
    monkeypatch.setattr("workbench.ncurep.read.LARGE", 1 << 20)
    monkeypatch.chdir(tmp_path)
    return path


def test_what_is_listed_is_what_the_reader_reads(ladder: Path) -> None:
    whole = read_report(ladder)
    for listed, launch in zip(list_results(ladder), whole.launches, strict=True):
        assert (listed.function, listed.grid, listed.block) == (
            launch.kernel,
            launch.grid,
            launch.block,
        )
        duration = launch.metrics["gpu__time_duration.sum"].value
        assert not isinstance(duration, str)
        assert listed.duration_ns == pytest.approx(1e9 * duration)


def test_an_excerpt_reads_as_the_whole_does(ladder: Path) -> None:
    places = [1, 3]
    whole = read_report(ladder)
    part = read_some(ladder, places, read_report)
    assert list(part.launches) == [whole.launches[place] for place in places]
    assert part.sources == whole.sources


def test_parts_hold_every_result_once(ladder: Path) -> None:
    results = list_results(ladder) * 7
    for most in (1, 300_000, 10**9):
        found = list(parts(results, most))
        assert sorted(place for run in found for place in run) == list(range(len(results)))
        assert all(run == sorted(run) for run in found)
        for run in found:
            kernels = {results[place].symbol: results[place].size for place in run}
            assert len(run) == 1 or sum(kernels.values()) <= most


def test_the_launches_of_a_kernel_are_read_together(ladder: Path) -> None:
    results = list_results(ladder) * 3
    assert next(parts(results, results[0].size * 3)) == [0, 5, 10]
    assert list(parts(results)) == [list(range(15))]


def test_a_report_in_parts_is_the_report(ladder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_report(ladder)
    told: list[tuple[int, int]] = []
    monkeypatch.setattr("workbench.ncurep.excerpt.PART", 1)
    monkeypatch.setattr("workbench.ncurep.large.parts", lambda results: parts(results, 500_000))
    found = read_parts(ladder, read_report, lambda done, of: told.append((done, of)))
    assert found.launches == whole.launches and found.sources == whole.sources
    assert told[-1] == (5, 5) and [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_large_report_of_few_launches_is_read_as_it_lies(
    ladder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []

    def note(path: Path) -> Profile:
        read.append(path)
        return read_report(ladder)

    assert len(read_parts(ladder, note).launches) == 5 and read == [ladder]
    read_parts(ladder, note, choose=lambda results: [2])
    assert len(read) == 2 and read[1] != ladder  # one of five: the others are left out


def test_a_part_that_fails_fails_the_whole(ladder: Path) -> None:
    def broken(_: Path) -> None:
        raise DataError("damaged", "")

    with pytest.raises(DataError, match="damaged"):
        read_parts(ladder, broken)  # type: ignore[arg-type]


def test_names_choose_what_is_read(large: Path) -> None:
    results, session = report_results(large)
    assert len(results) == 200 and session.when.startswith("20")
    assert choice("sgemm_v2")(results) == list(range(2, 200, 5))
    assert choice("sgemm_v2#3")(results) == [12] and choice("#200")(results) == [199]
    assert choice("SGEMM_V4#40")(results) == [199]
    for name in ("nothing", "sgemm_v2#41", "#0", "#201"):
        with pytest.raises(UsageError, match="no launch matches"):
            choice(name)(results)


def test_a_large_report_shows_its_kernels_first_and_then_what_is_asked_for(
    large: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    through = read_some

    def counted(plain: Path, places: list[int], reader: Callable[[Path], object]) -> object:
        read.extend(places)
        return through(plain, places, reader)  # type: ignore[arg-type]

    monkeypatch.setattr("workbench.ncurep.large.read_some", counted)
    code, out, _ = cli("show", "large.ncu-rep")
    assert code == 0 and "200 launches" in out and not read
    assert out.index("sgemm_v0") < out.index("sgemm_v4")  # the slowest first
    code, out, _ = cli("show", "large.ncu-rep::sgemm_v3#2")
    assert code == 0 and read == [8] and "sgemm_v3" in out
    read.clear()
    code, out, _ = cli("show", "large.ncu-rep", "--launch", "1")
    assert code == 0 and read == [0] and "sgemm_v0" in out
    code, _, said = cli("show", "large.ncu-rep::sgemm_v3#2", "--launch", "1")
    assert code == 2 and "both name a launch" in said


def test_a_report_of_another_compression_is_the_same(
    report: Callable[[str], Path], tmp_path: Path
) -> None:
    broken = tmp_path / "x.ncu-rep.zst"
    broken.write_bytes(b"no zstd at all")
    absent = tmp_path / "absent.ncu-rep"
    assert not any(holds_at_least(x, LARGE) for x in (broken, absent, report("sgemm_v3")))
    assert replace(list_results(report("sgemm_v3"))[0], size=0).function == "sgemm_v3"
