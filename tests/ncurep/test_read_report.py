"""Reading whole report files: ours, other people's, damaged ones."""

from __future__ import annotations

import dataclasses
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.ncurep.report_builder import report as assemble
from tests.ncurep.report_builder import whole
from tests.processes import instead
from workbench.errors import DataError, MissingError, UsageError, WorkbenchError
from workbench.model import Launch, Profile, line_counters
from workbench.ncurep import child, extract
from workbench.ncurep.container import DEBUG_SECTION, read_container
from workbench.ncurep.files import SUFFIXES, read_raw, split_target
from workbench.ncurep.read import read_report, select_kernels
from workbench.project import cache_folder
from workbench.store.codec import contradiction, pack, unpack

DATA = Path(__file__).resolve().parents[1] / "data" / "ncurep"
OURS = DATA / "sgemm_v3.ncu-rep.zst"
FAILED = DATA / "launch_failed.ncu-rep.zst"


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def plain(tmp_path: Path, own_cache: None) -> Path:
    path = tmp_path / "sgemm_v3.ncu-rep"
    path.write_bytes(unpack(OURS.read_bytes()))
    return path


def by_line(launch: Launch, metric: str) -> dict[int, int | float]:
    found = line_counters(launch).items()
    return {line: c[metric] for (_, line), c in found if metric in c}


def codes(profile: Profile) -> set[str]:
    return {notice.code for notice in profile.notices}


def test_our_own_report() -> None:
    profile = read_report(OURS)
    (launch,) = profile.launches
    assert profile.engine == "ncu"
    assert profile.device.name == "NVIDIA H200"
    assert profile.device.slug == "h200"
    assert profile.device.sms == 132
    assert profile.captured == "2026-11-21T08:09:00Z"
    assert profile.tools["ncu"] == "2025.3.1.0"
    assert profile.tools["cuda"] == "13.0"
    assert profile.capture.command[0] == "ncu"
    assert profile.capture.clock_control == "none"
    assert profile.capture.cache_control == "all"
    assert profile.capture.replay_mode == "kernel"
    assert profile.capture.sections[:2] == ("SourceCounters", "SpeedOfLight")
    assert profile.capture.passes == 23
    assert launch.kernel == "sgemm_v3"
    assert launch.nvtx == ("workbench@v3",)
    assert launch.grid == (32, 32, 1)
    assert launch.block == (32, 32, 1)
    assert len(launch.instructions.address) == 149
    assert launch.rules
    assert [source.path for source in profile.sources] == ["/tmp/wb/ladder.cu"]
    assert contradiction(profile) == ""
    assert profile.notices == ()


def test_units_are_base_units() -> None:
    (launch,) = read_report(OURS).launches
    duration = launch.metrics["gpu__time_duration.sum"]
    assert duration.unit == "s"
    assert 1e-4 < float(duration.value) < 1e-3
    assert {m.unit for m in launch.metrics.values()}.isdisjoint({"ns", "nsecond", "Kbyte"})


def test_line_counters_are_exact_integers() -> None:
    (launch,) = read_report(OURS).launches
    wavefronts = by_line(launch, "memory_l1_wavefronts_shared")
    # README of the reference ladder: the padded store takes as many wavefronts as the ideal.
    assert wavefronts[44] == 1_048_576 == by_line(launch, "memory_l1_wavefronts_shared_ideal")[44]
    assert all(isinstance(value, int) for value in wavefronts.values())
    total = launch.metrics["memory_l1_wavefronts_shared"].value
    assert sum(wavefronts.values()) == total


def test_a_failed_launch_is_read_and_named() -> None:
    profile = read_report(FAILED)
    (launch,) = profile.launches
    assert "nan-launch" in codes(profile)
    assert list(launch.absent.values()).count("NaN") > 200
    assert "gpu__time_duration.sum" not in launch.metrics


def test_the_ladder_line_by_line(report: Callable[[str], Path]) -> None:
    launches = {x.kernel: x for x in read_report(report("ladder_focus")).launches}
    sectors = "memory_l2_theoretical_sectors_global"
    shared = "memory_l1_wavefronts_shared"
    assert by_line(launches["sgemm_v0"], sectors)[8] == 1_107_296_256
    assert by_line(launches["sgemm_v1"], sectors)[17] == 167_772_160
    assert by_line(launches["sgemm_v2"], shared)[28] == 33_554_432
    assert by_line(launches["sgemm_v2"], sectors)[28] == 4_194_304
    assert by_line(launches["sgemm_v3"], shared)[44] == 1_048_576
    assert by_line(launches["sgemm_v4"], shared)[64] == 524_288
    assert by_line(launches["sgemm_v4"], shared)[71] == 10_485_760
    assert by_line(launches["sgemm_v4"], "inst_executed")[71] >= 2_097_152


def test_a_full_set_keeps_no_samples_over_time(report: Callable[[str], Path]) -> None:
    profile = read_report(report("ladder_full"))
    assert len(profile.launches) == 5
    names = set(profile.launches[0].metrics)
    assert len(names) > 2000
    assert not any("Triage" in name or name.startswith("breakdown:") for name in names)


def test_ncu_2021_and_a_launch_that_was_never_profiled(report: Callable[[str], Path]) -> None:
    profile = read_report(report("gtx1660s-ncu2021.1-unprofiled-action"))
    assert [x.profiled for x in profile.launches] == [True, True, False]
    assert profile.launches[2].kernel == "trace"
    assert profile.tools["ncu"] == "2021.1.0.0"
    assert profile.tools["driver"] == "460.73.01"
    assert profile.capture.command == ()
    first = profile.launches[0]
    assert "memory_l1_sectors_shared" in first.instructions.columns
    assert isinstance(first.metrics["launch__registers_per_thread"].value, int)
    assert codes(profile) >= {"unprofiled-launch", "no-line-info", "no-source"}


def test_a_chip_that_the_reader_cannot_disassemble(report: Callable[[str], Path]) -> None:
    profile = read_report(report("v100-ncu2022.2-source-rules"))
    assert profile.device.slug == "v100-sxm2-32gb"
    assert {"no-sass"} <= codes(profile)
    assert profile.sources[0].text
    first = profile.launches[0]
    assert any(rule.speedup is not None for rule in first.rules) or first.rules
    assert by_line(first, "inst_executed")


def test_all_nan(report: Callable[[str], Path]) -> None:
    profile = read_report(report("a10g-ncu2023.1-nan-action"))
    bad = profile.launches[3]
    assert bad.kernel == "vectorized_blocktiling"
    assert "NaN" in bad.absent.values()
    assert "gpu__time_duration.sum" not in bad.metrics
    assert "gpu__time_duration.sum" in profile.launches[0].metrics
    assert {"nan-launch", "no-instruction-metrics"} <= codes(profile)


def test_source_without_rules(report: Callable[[str], Path]) -> None:
    profile = read_report(report("rtx4090-ncu2023.1-transpose-source-no-rules"))
    assert [len(x.rules) for x in profile.launches] == [0] * 5
    assert {"no-rules"} <= codes(profile)
    assert "no-source" not in codes(profile)
    plain = next(x for x in profile.launches if x.kernel == "transposeSmem")
    padded = next(x for x in profile.launches if x.kernel == "transposeSmemPad")
    worst = max(by_line(plain, "memory_l1_wavefronts_shared").values())
    assert worst > max(by_line(padded, "memory_l1_wavefronts_shared").values())


def test_kernel_counters_only(report: Callable[[str], Path]) -> None:
    profile = read_report(report("gh200-ncu2025.2-no-instruction-metrics"))
    assert profile.launches[0].instructions.address == ()
    assert len(profile.launches[0].signature) > 100
    assert {"no-instruction-metrics", "no-source"} <= codes(profile)


def test_a_report_that_loads_quietly_and_holds_nothing(report: Callable[[str], Path]) -> None:
    with pytest.raises(DataError, match="not an Nsight Compute report"):
        read_report(report("headless-corrupt"))


@pytest.mark.parametrize(
    "name", ["none.ncu-rep", "none.ncu-repz", "none.ncu-rep.zst", "x" * 5000, "a\0b"]
)
def test_no_such_file_is_wrong_usage(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="no such report") as caught:
        read_report(split_target(f"{tmp_path}/{name}::kernel")[0])
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("content", [b"", b"garbage", b"NVR\0", b"\0" * 5000])
def test_what_is_no_report(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_report(path)
    assert caught.value.exit_code == 5
    assert str(path) in caught.value.message


@pytest.mark.parametrize("name", ["folder.ncu-rep", "folder.ncu-repz", "folder.ncu-rep.zst"])
def test_a_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match="is a folder"):
        read_report(tmp_path / name)


def test_a_report_without_results(tmp_path: Path) -> None:
    path = tmp_path / "x.ncu-rep"
    path.write_bytes(assemble(*whole()[:2]))
    with pytest.raises(DataError, match="holds no profiled kernel"):
        read_report(path)


def test_results_that_the_reader_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "x.ncu-rep"
    path.write_bytes(assemble(*whole()))
    with pytest.raises(DataError, match="holds no profiled kernel"):
        read_report(path)


def test_a_cut_report_and_a_cut_archive(plain: Path, tmp_path: Path) -> None:
    data = plain.read_bytes()
    for size in random.Random(1).sample(range(1, len(data) - 2000), 40):
        plain.write_bytes(data[:size])
        with pytest.raises(DataError):
            read_report(plain)
    packed = OURS.read_bytes()
    for size in random.Random(2).sample(range(len(packed)), 20):
        cut = tmp_path / "cut.ncu-rep.zst"
        cut.write_bytes(packed[:size])
        with pytest.raises(DataError, match=r"zstd"):
            read_report(cut)


def test_a_doubt_travels_with_the_profile(plain: Path) -> None:
    start = read_container(plain).blocks[-1][0]
    plain.write_bytes(plain.read_bytes()[:start])
    profile = read_report(plain)
    assert "perhaps-cut" in codes(profile)
    assert "command line" in profile.notices[0].message


def test_a_debug_build_is_said(plain: Path) -> None:
    raw = plain.read_bytes()
    # The compiler's name inside the machine code, overwritten by the section's.
    plain.write_bytes(raw.replace(b"Cuda compilation tools,", DEBUG_SECTION))
    (notice,) = [n for n in read_report(plain).notices if n.code == "debug-build"]
    assert notice.message == "built for debugging (-G), its code is not optimized: sgemm_v3"


def test_flipped_bytes_end_in_a_profile_or_an_error(tmp_path: Path, own_cache: None) -> None:
    data = unpack(FAILED.read_bytes())
    path = tmp_path / "flipped.ncu-rep"
    chance = random.Random(5)
    for _ in range(8):
        flipped = bytearray(data)
        for _ in range(chance.choice([1, 5, 100])):
            flipped[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        try:
            profile = read_report(path, timeout_s=60)
        except WorkbenchError as error:
            assert isinstance(error, DataError)
            assert error.hint
        else:
            assert contradiction(profile) == ""


def in_the_child(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(child, "own_module", instead(code))


def test_a_crash_of_the_native_reader(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_child(monkeypatch, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(DataError, match=r"crashed on it .SIGSEGV"):
        read_report(plain)


def test_a_hang_of_the_native_reader(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_child(monkeypatch, "import time; time.sleep(600)")
    start = time.monotonic()
    with pytest.raises(DataError, match=r"did not end within 0.5 s"):
        read_report(plain, timeout_s=0.5)
    assert time.monotonic() - start < 100


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise ValueError('odd table')", "failed on it .ValueError: odd table"),
        ("raise SystemExit(3)", "exit code 3"),
        ("pass", "gave no answer"),
        ("import sys; open(sys.argv[2], 'w').write('{')", "gave no answer"),
    ],
)
def test_a_native_reader_that_fails_or_says_nothing(
    plain: Path, monkeypatch: pytest.MonkeyPatch, code: str, words: str
) -> None:
    in_the_child(monkeypatch, code)
    with pytest.raises(DataError, match=words):
        read_report(plain)


def test_a_machine_without_the_native_reader(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_child(
        monkeypatch,
        "import sys; sys.modules['ncu_report'] = None;"
        "from workbench.ncurep.extract import main; sys.exit(main(sys.argv[1:]))",
    )
    with pytest.raises(MissingError, match="report reader cannot be loaded") as caught:
        read_report(plain)
    assert "pip install ncu-report" in caught.value.hint
    assert extract.NO_READER == child._NO_READER


def test_a_report_that_lost_results(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    container = dataclasses.replace(read_container(plain), results=3)
    monkeypatch.setattr("workbench.ncurep.read.read_container", lambda path, shown: container)
    assert "lost-results" in codes(read_report(plain))


def test_the_second_reading_runs_no_child(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = read_report(plain)
    in_the_child(monkeypatch, "raise SystemExit(1)")
    moved = plain.rename(plain.with_name("moved.ncu-rep"))
    assert read_report(moved) == first
    assert read_report(OURS) == first


def test_a_damaged_entry_is_a_miss(plain: Path) -> None:
    first = read_report(plain)
    (entry,) = cache_folder("reports").iterdir()
    entry.write_bytes(b"{")
    assert read_report(plain) == first


def test_a_cache_that_cannot_be_written_is_no_error(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert read_report(plain).launches
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/invalid")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert read_report(plain).launches
    assert (tmp_path / "home" / ".cache" / "workbench" / "reports").is_dir()


@pytest.mark.parametrize(
    ("text", "path", "kernel"),
    [
        ("x.ncu-rep", "x.ncu-rep", None),
        ("x.ncu-rep::softmax", "x.ncu-rep", "softmax"),
        ("a/x.ncu-rep.zst::ns::f", "a/x.ncu-rep.zst", "ns::f"),
        ("x.ncu-rep::ns::f<int>", "x.ncu-rep", "ns::f<int>"),
        ("x.ncu-rep::", "x.ncu-rep", None),
        ("report::k", "report", "k"),
    ],
)
def test_targets(text: str, path: str, kernel: str | None) -> None:
    assert split_target(text) == (Path(path), kernel)


def test_a_path_that_exists_is_taken_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.ncu-rep::b").touch()
    assert split_target("a.ncu-rep::b") == (Path("a.ncu-rep::b"), None)


def test_kernels_by_exact_name_signature_and_part() -> None:
    launches = tuple(
        Launch(kernel=kernel, index=i, signature=signature, nvtx=("x",))
        for i, (kernel, signature) in enumerate(
            [("gemm", "gemm<float>(int)"), ("gemm", "gemm<half>(int)"), ("gemm_big", "")]
        )
    )
    profile = msgspec.structs.replace(read_report(OURS), launches=launches)

    def chosen(name: str | None) -> list[int]:
        return [x.index for x in select_kernels(profile, name).launches]

    assert chosen(None) == [0, 1, 2]
    assert chosen("gemm") == [0, 1]
    assert chosen("gemm<half>(int)") == [1]
    assert chosen("HALF") == [1]
    assert chosen("BIG") == [2]
    assert chosen("gemm#2") == [1]
    assert chosen("#3") == [2]
    for name, message in (
        ("gemm#3", "no launch 3 of 'gemm'"),
        ("#0", "no launch 0"),
        ("conv#1", "no kernel matches 'conv'"),
    ):
        with pytest.raises(UsageError, match=message) as caught:
            chosen(name)
        assert "gemm" in str(caught.value.hint)
    with pytest.raises(UsageError, match="no kernel matches 'conv'") as caught:
        chosen("conv")
    assert caught.value.hint == "The report has: gemm, gemm_big."
    with pytest.raises(UsageError, match="no kernel matches") as caught:
        chosen("gemm_bgi")
    assert caught.value.hint.startswith("Did you mean `gemm_big`? ")
    alone = msgspec.structs.replace(
        profile, launches=(msgspec.structs.replace(launches[2], grid=(8, 1, 1)),)
    )
    with pytest.raises(UsageError, match="no launch 2") as caught:
        select_kernels(alone, "#2")
    assert caught.value.hint == "There is one launch: 1 gemm_big grid 8."


def test_notices_follow_the_chosen_launches() -> None:
    profile = read_report(OURS)
    bare = Launch(kernel="bare", index=1, profiled=False)
    both = msgspec.structs.replace(profile, launches=(*profile.launches, bare))
    assert codes(select_kernels(both, "sgemm_v3")) == set()
    assert "unprofiled-launch" in codes(select_kernels(both, "bare"))


def test_raw_bytes_with_and_without_compression(plain: Path) -> None:
    assert read_raw(OURS) == plain.read_bytes() == read_raw(plain)
    with pytest.raises(DataError, match="cannot be read"):
        read_raw(plain.with_name("none"))


def test_nothing_is_left_in_the_temporary_folder(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    read_report(OURS)
    plain.with_name("bad.ncu-rep.zst").write_bytes(pack(b"NVR\0"))
    with pytest.raises(DataError):
        read_report(plain.with_name("bad.ncu-rep.zst"))
    assert list(folder.iterdir()) == []


def test_the_native_reader_stays_out_of_this_process(plain: Path, tmp_path: Path) -> None:
    shutil.copy(plain, tmp_path / "y.ncu-rep")
    code = (
        "import sys; from pathlib import Path; from workbench.ncurep.read import read_report;"
        f"read_report(Path({str(tmp_path / 'y.ncu-rep')!r}));"
        "print('ncu_report' in sys.modules, 'numpy' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]
