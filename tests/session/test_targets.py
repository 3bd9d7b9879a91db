"""What a user types becomes a profile, or an error that says what there is instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.factories import H200, make_project
from workbench.errors import DataError, UsageError
from workbench.model import Device, Profile
from workbench.session.api import CoreSession
from workbench.session.targets import Target
from workbench.session.targets import resolve as resolve_targets
from workbench.session.workspace import Selection, is_report
from workbench.store import Store


def resolve(text: str, selection: Selection | None = None) -> Target:
    return CoreSession().show(text, selection)


def resolve_all(texts: tuple[str, ...], selection: Selection) -> list[Target]:
    return resolve_targets(CoreSession(), texts, selection)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recorded(project: Path, version: str) -> Profile:
    store = Store(project / "profiles")
    return store.load(store.find(study="demo", version=version)[0].path)


def record(project: Path, profile: Profile, **changes: object) -> None:
    Store(project / "profiles").save(msgspec.structs.replace(profile, **changes))


def test_a_version_brings_its_profile_time_and_baseline(project: Path) -> None:
    target = resolve("v3")
    assert (target.label, target.profile.version, target.stale) == ("v3", "v3", False)
    assert target.timing is not None and target.timing.time.value == 206e-6
    assert target.baseline is not None and target.baseline.version == "library"
    assert target.version is not None and target.version.title == "Padded tile"


@pytest.mark.parametrize("text", ["v3_padded", "kernels/demo/v3_padded.cu", "v3_padded.cu"])
def test_a_version_can_be_named_by_its_file(project: Path, text: str) -> None:
    assert resolve(text).label == "v3"


@pytest.mark.parametrize(
    ("text", "selection", "words"),
    [
        ("v4", Selection(), ("no version", "v3")),
        ("dema/v3", Selection(), ("no study", "demo")),
        ("v3", Selection(problem="n1025"), ("no problem", "n1024")),
        ("v3", Selection(problem="n64"), ("no profile of demo/v3:n64", "n1024 on h200")),
        ("v3", Selection(device="h100"), ("demo/v3@h100", "h200")),
        ("v3", Selection(engine="emulator"), ("--engine emulator", "(ncu)")),
        ("v0", Selection(), ("no profile of demo/v0", "v2, v3", "workbench profile demo/v0")),
        ("v3::kernel", Selection(), ("no version",)),
        ("", Selection(), ("no version was named",)),
        (":n1024", Selection(), ("no version was named",)),
    ],
)
def test_what_is_not_there_is_answered_with_what_is(
    project: Path, text: str, selection: Selection, words: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError) as error:
        resolve(text, selection)
    answer = f"{error.value.message} {error.value.hint}"
    for word in words:
        assert word in answer
    assert error.value.exit_code == 2


def test_the_device_with_the_newest_profile_is_taken(project: Path) -> None:
    other = Device(name="NVIDIA A100", slug="a100", compute_capability=(8, 0))
    profile = recorded(project, "v3")
    record(project, profile, device=other, captured="2026-11-21T00:00:00Z")
    assert resolve("v3").profile.device.name == "NVIDIA A100"
    assert resolve("v3", Selection(device="h200")).profile.device.name == "NVIDIA H200"
    assert resolve("v3", Selection(device="NVIDIA A100")).profile.device.slug == "a100"


def test_a_device_may_be_named_with_the_version_by_the_beginning_of_its_name(project: Path) -> None:
    other = Device(name="NVIDIA H100 80GB HBM3", slug="h100-80gb-hbm3", compute_capability=(9, 0))
    record(project, recorded(project, "v3"), device=other, captured="2026-11-21T00:00:00Z")
    pair = resolve_all(("v3@h200", "demo/v3@h100"), Selection())
    assert [target.profile.device.name for target in pair] == [H200.name, other.name]
    assert [target.label for target in pair] == ["v3@h200", "v3@h100"]
    assert resolve("v3", Selection(device="h100")).profile.device.slug == other.slug
    with pytest.raises(UsageError, match="no profile of demo/v3@h10 is recorded"):
        resolve("v3@h10")
    with pytest.raises(UsageError, match="`v3@` ends too early"):
        resolve("v3@")


def test_sides_on_two_devices_have_their_problem_in_common(project: Path) -> None:
    """On the other device v3 is recorded for n64 alone: v2 is shown on that problem too."""
    other = Device(name="NVIDIA A100", slug="a100", compute_capability=(8, 0))
    record(project, recorded(project, "v3"), device=other, problem="n64")
    record(project, recorded(project, "v2"), problem="n64")
    pair = resolve_all(("v2@h200", "v3@a100"), Selection())
    assert [target.profile.problem for target in pair] == ["n64", "n64"]


def test_the_projects_device_wins_over_the_newest(project: Path) -> None:
    other = Device(name="NVIDIA A100", slug="a100", compute_capability=(8, 0))
    record(project, recorded(project, "v3"), device=other, captured="2026-11-21T00:00:00Z")
    (project / "workbench.toml").write_text('default_study = "demo"\ndefault_device = "h200"\n')
    assert resolve("v3").profile.device.name == "NVIDIA H200"
    assert resolve("v3@a100").profile.device.name == "NVIDIA A100"
    (project / "workbench.toml").write_text('default_study = "demo"\ndefault_device = "b200"\n')
    assert resolve("v3").profile.device.name == "NVIDIA A100"


def test_both_sides_of_a_pair_come_from_what_they_have_in_common(project: Path) -> None:
    """v3 is newer on another device, where v2 was never recorded: compare on the H200."""
    other = Device(name="NVIDIA A100", slug="a100", compute_capability=(8, 0))
    record(project, recorded(project, "v3"), device=other, captured="2026-11-21T00:00:00Z")
    pair = resolve_all(("v2", "v3"), Selection())
    assert [target.profile.device.name for target in pair] == [H200.name, H200.name]


def test_the_studys_own_problem_wins(project: Path) -> None:
    record(project, recorded(project, "v3"), problem="n64", captured="2026-11-22T00:00:00Z")
    assert resolve("v3").profile.problem == "n1024"
    assert resolve("v3", Selection(problem="n64")).profile.problem == "n64"


@pytest.mark.parametrize(("default", "name"), [("demo", "v3"), ("other", "demo/v3")])
def test_a_stale_profile_says_how_to_record_it_again(
    project: Path, default: str, name: str
) -> None:
    (project / "workbench.toml").write_text(f'default_study = "{default}"\n')
    with (project / "kernels" / "demo" / "v3_padded.cu").open("a") as file:
        file.write("// edited\nint edited;\n")
    target = resolve("demo/v3")
    assert target.stale
    assert target.notes[0].endswith(f"record it again with `workbench profile {name}`")


def test_a_damaged_time_does_not_hide_the_counters(project: Path) -> None:
    (path,) = (project / "profiles").rglob("v3/n1024.time.json.zst")
    path.write_bytes(path.read_bytes()[:50])
    target = resolve("v3")
    assert target.timing is None and target.baseline is not None and not target.stale
    (note,) = target.notes
    assert note.startswith("without its time: ") and str(path) in note and "cut short" in note


def test_ncu_wins_over_the_emulator(project: Path) -> None:
    record(project, recorded(project, "v3"), engine="emulator", captured="2026-11-22T00:00:00Z")
    assert resolve("v3").profile.engine == "ncu"
    assert resolve("v3", Selection(engine="emulator")).profile.engine == "emulator"


def test_a_damaged_store_file_is_a_data_error(project: Path) -> None:
    store = Store(project / "profiles")
    path = store.find(study="demo", version="v3")[0].path
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError):
        resolve("v3")


# --- report files -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x.ncu-rep", True),
        ("some/where/x.ncu-rep", True),
        ("x.ncu-rep::softmax<float, 4>::run", True),
        ("x.ncu-rep.zst", True),
        ("v3", False),
        ("sgemm/v3", False),
        ("sgemm/v3_padded", False),
        ("\0", False),
    ],
)
def test_reports_are_told_from_versions_by_their_name(text: str, expected: bool) -> None:
    assert is_report(text) is expected


def test_any_existing_file_with_a_suffix_is_taken_for_a_report(tmp_path: Path) -> None:
    path = tmp_path / "capture.rep"
    path.write_bytes(b"not a report")
    assert is_report(str(path))
    with pytest.raises(DataError):
        resolve(str(path))


def test_a_report_that_does_not_exist(project: Path) -> None:
    with pytest.raises(UsageError) as error:
        resolve("lost.ncu-rep")
    assert "lost.ncu-rep" in error.value.message and error.value.hint == "Check the path."
    (project / "runs").mkdir()
    (project / "runs" / "before.ncu-rep").touch()
    with pytest.raises(UsageError) as error:
        resolve("runs/befor.ncu-rep")
    assert error.value.hint == "Did you mean `runs/before.ncu-rep`?"


def test_a_kernel_that_the_report_does_not_hold(report: Callable[[str], Path]) -> None:
    with pytest.raises(UsageError) as error:
        resolve(f"{report('ladder_full')}::sgemm_v9")
    assert "sgemm_v4" in error.value.hint


def test_a_report_is_labelled_by_file_and_kernel(report: Callable[[str], Path]) -> None:
    path = report("ladder_full")
    assert resolve(str(path)).label == "ladder_full"
    assert resolve(f"{path}::sgemm_v2").label == "ladder_full::sgemm_v2"
    with pytest.raises(UsageError):
        resolve(str(path), Selection(engine="emulator"))
