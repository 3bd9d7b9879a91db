"""A file that is no version: what captures and reports say of it in an editor."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.goldens import same
from workbench.editing.named import NamedFile, look
from workbench.editing.tests.client import Client
from workbench.editing.tests.test_sessions import leave_a_mark, talk
from workbench.model import Profile, SourceFile
from workbench.ncurep.read import read_report
from workbench.session.api import CoreSession
from workbench.session.workspace import Selection

DATA = Path(__file__).resolve().parents[3] / "tests" / "data"
BEFORE, AFTER = "sgemm_refactor-before", "sgemm_refactor-after"
FILE = "sgemm.cu"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A repository that was captured before and after an edit, with the source as it is since."""
    (tmp_path / ".git").mkdir()
    for name in (BEFORE, AFTER):
        captured = Path(".workbench", "captures", name)
        shutil.copytree(DATA / "programs" / captured, tmp_path / captured)
    (tmp_path / FILE).write_text(text_of(tmp_path, AFTER), encoding="utf-8")
    return tmp_path


def shelf_at(root: Path) -> Any:
    """The captures of a folder; without their feature its tests are skipped."""
    return pytest.importorskip("workbench.programs.capture.capture_store").Shelf(root)


def detail_of(root: Path, name: str) -> Profile:
    shelf = shelf_at(root)
    found: Profile | None = shelf.detail(shelf.load(name))
    assert found is not None
    return found


def text_of(root: Path, name: str) -> str:
    """The text that a capture has of the file."""
    (text,) = (each.text for each in detail_of(root, name).sources if each.path == FILE)
    assert text
    return text


def keep(root: Path, name: str, *sources: SourceFile) -> None:
    """Have a capture hold other sources."""
    shelf = shelf_at(root)
    shelf.save(shelf.load(name), replace(detail_of(root, name), sources=sources))


def seen(path: Path, *reports: str) -> NamedFile:
    found = look(CoreSession(path.parent), path.resolve(), Selection(), reports)
    assert isinstance(found, NamedFile)
    return found


def lines_of(path: Path, *reports: str) -> set[str]:
    """The lines that have numbers, as they stand in the file."""
    text = path.read_text(encoding="utf-8")
    return {text.splitlines()[line - 1].strip() for line in seen(path, *reports).lines(text)}


def test_what_captures_say_is_told_and_nothing_runs(
    program: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program / "workbench.toml").write_text("")
    (program / "kernels" / "sgemm").mkdir(parents=True)
    (program / "kernels" / "sgemm" / "study.py").write_text("")
    mark, programs = leave_a_mark(program), tmp_path_factory.mktemp("bin")
    for name in ("git", "nvcc", "ncu", "cc", "sh", "python3"):
        (programs / name).write_text(f"#!/bin/bash\necho {name} >>'{mark}'\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))

    async def job(client: Client) -> None:
        client.open(FILE)
        hints = await client.hints(FILE)
        assert await client.wrong(FILE) == []
        same("editing/named_hints.txt", client.recorded())
        assert all(each.endswith(f" · @{AFTER}") for each in hints.values())
        assert "ideal 4.00" in hints[47] and "Long scoreboard" in hints[47]
        assert "H100" in await client.at(FILE, 47)
        same("editing/named_hover.txt", client.recorded())
        (head, *commands) = [each["command"] for each in await client.lenses(FILE)]
        assert head["title"].startswith(f"@{AFTER} · ") and head["command"] == ""
        (show,), (diff,) = (each["arguments"] for each in commands)
        assert show == ["workbench", "show", f"@{AFTER}::sgemm"]
        assert diff == ["workbench", "diff", f"@{BEFORE}::sgemm", f"@{AFTER}::sgemm"]
        same("editing/named_lenses.txt", client.recorded())
        client.save(FILE, "// a line\n" + text_of(program, AFTER))
        moved = await client.hints(FILE)
        assert {line - 1: words for line, words in moved.items()} == hints
        assert "edited since" in await client.at(FILE, 48)
        assert "edited since" in (await client.lenses(FILE))[0]["command"]["title"]

    talk(program, job, {"verify": "onSave"})
    assert not mark.exists()


def test_the_capture_of_the_text_as_it_is_speaks_wherever_it_lies(program: Path) -> None:
    path = program / FILE
    assert seen(path).mark == f"@{AFTER}"
    path.write_text(text_of(program, BEFORE), encoding="utf-8")
    assert seen(path).mark == f"@{BEFORE}"
    (program / "csrc").mkdir()
    elsewhere = path.rename(program / "csrc" / "gemm.cuh")
    assert seen(elsewhere).mark == f"@{BEFORE}" and lines_of(elsewhere)


def test_another_file_of_that_name_is_not_taken_for_it(program: Path) -> None:
    (program / "other").mkdir()
    for place in (program / "other" / FILE, program / "other" / "empty.cu"):
        place.write_text("// mine\n" * (place.name == FILE))
        assert seen(place).mark == "" and seen(place).heads("") == []
    outside = program.parent / FILE
    outside.write_text(text_of(program, AFTER), encoding="utf-8")
    assert seen(outside).origin() == []  # captures of a folder below are not its


@pytest.mark.parametrize(
    ("named", "own"),
    [
        ("/home/ann/lab/src/sgemm.cu", "src/sgemm.cu"),
        ("C:\\lab\\src\\sgemm.cu", "src/sgemm.cu"),
        ("src/../sgemm.cu", "sgemm.cu"),
    ],
)
def test_paths_of_other_machines_are_told_by_their_ends(
    program: Path, named: str, own: str
) -> None:
    text = text_of(program, AFTER)
    keep(program, AFTER, SourceFile(named, text))
    keep(program, BEFORE, SourceFile("../../etc/passwd", "root"), SourceFile("", "x"))
    for place in {"src/sgemm.cu", "lib/sgemm.cu", "sgemm.cu"}:
        (program / place).parent.mkdir(exist_ok=True)
        (program / place).write_text(f"// edited\n{text}", encoding="utf-8")
    assert seen(program / own).origin()[1:] == ["edited since"] and lines_of(program / own)
    for other in {"src/sgemm.cu", "lib/sgemm.cu", "sgemm.cu"} - {own}:
        assert seen(program / other).mark == ""


def test_what_uses_a_changed_header_has_no_numbers(program: Path) -> None:
    text = text_of(program, AFTER)
    constants = "constexpr int TILE = 64, DEPTH = 16;\n"
    body = text.replace(constants, '#include "sizes.h"\n')
    for name, value in ((FILE, body), ("sizes.h", constants)):
        (program / name).write_text(value, encoding="utf-8")
    keep(program, AFTER, SourceFile(FILE, body), SourceFile("sizes.h", constants))
    before = lines_of(program / FILE)
    (program / "sizes.h").write_text(constants.replace("16", "32"), encoding="utf-8")
    gone = before - lines_of(program / FILE)
    assert any("DEPTH" in line for line in gone)
    assert any(line.startswith("sgemm(") for line in before - gone)


def test_a_capture_without_the_text_says_so_and_nothing_of_lines(program: Path) -> None:
    for name in (BEFORE, AFTER):
        keep(program, name, SourceFile(FILE))
    assert lines_of(program / FILE) == set()
    assert seen(program / FILE).origin()[1:] == ["source text not recorded"]


def test_a_damaged_capture_costs_its_own_hints(program: Path) -> None:
    damaged = shelf_at(program).detail_path(AFTER)
    damaged.write_bytes(damaged.read_bytes()[:-100])

    async def job(client: Client) -> None:
        client.open(FILE)
        hints = await client.hints(FILE)
        assert hints and all(each.endswith(f" · @{BEFORE}") for each in hints.values())
        assert AFTER in (await client.told("window/logMessage"))["message"]
        await client.hints(FILE)
        # It is said once.
        logged = [said for _, said in client.session if said.get("method") == "window/logMessage"]
        assert len(logged) == 1

    talk(program, job)


def test_a_report_is_read_where_the_editors_settings_name_it(program: Path) -> None:
    shutil.copy(DATA / "ncurep" / "ladder_full.ncu-rep.zst", program / "ladder.ncu-rep.zst")
    (source,) = read_report(program / "ladder.ncu-rep.zst").sources
    (program / "lab").mkdir()
    (program / "lab" / "ladder.cu").write_text(f"// mine\n{source.text}", encoding="utf-8")
    (program / "broken.ncu-rep").write_bytes(b"NVR\0" + b"x" * 100)

    async def unasked(client: Client) -> None:
        client.open("lab/ladder.cu")
        assert await client.hints("lab/ladder.cu") == {}
        assert await client.lenses("lab/ladder.cu") == []

    async def asked(client: Client) -> None:
        client.open("lab/ladder.cu")
        hints = await client.hints("lab/ladder.cu")
        assert hints and all(each.endswith(" · ladder") for each in hints.values())
        heads = [each["command"]["title"] for each in await client.lenses("lab/ladder.cu")]
        assert sum(each.startswith("ladder · ") for each in heads) == 5
        assert "broken.ncu-rep" in (await client.told("window/logMessage"))["message"]

    talk(program, unasked)
    talk(program, asked, {"reports": ["*.ncu-rep*"]})


def test_a_line_of_several_kernels_names_them(program: Path) -> None:
    detail = detail_of(program, AFTER)
    (launch, *_) = detail.launches
    two = replace(detail, launches=(launch, replace(launch, kernel="gemv")))
    shelf = shelf_at(program)
    shelf.save(replace(shelf.load(AFTER), detail=(0, 0)), two)
    found = seen(program / FILE).lines(text_of(program, AFTER))
    shown = [each.short for each in found[47] if each.telling]
    assert [each.partition(":")[0] for each in shown] == ["sgemm", "sgemm", "gemv", "gemv"]
