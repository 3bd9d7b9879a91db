"""A foreign report as the profile of a version: what fits and what is said."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.factories import SOURCE, make_launch, make_profile
from workbench.model import Profile, SourceFile
from workbench.ncurep.adopt import adopt
from workbench.specs import Version
from workbench.study.launches import ResolvedLaunch

PATH = "kernels/demo/v2_tile.cu"
NOW = "b" * 64
VERSION = Version(
    study="demo", id="v2", name="v2_tile", path=PATH, kind="cuda", title="Tile", text=SOURCE
)
WANTED = ResolvedLaunch(kernel="scale", grid=(32, 1, 1), block=(32, 32, 1))


def take(
    profile: Profile,
    *,
    version: Version = VERSION,
    expected: tuple[ResolvedLaunch, ...] = (WANTED,),
    sources: tuple[SourceFile, ...] | None = None,
) -> Profile:
    return adopt(
        profile,
        version,
        problem="n1024",
        parameters={"N": 1024},
        sources=sources or (SourceFile(path=version.path, text=version.text),),
        source_hash=NOW,
        expected=expected,
    )


def foreign(
    text: str | None = SOURCE, path: str = "/home/me/v2_tile.cu", **changes: Any
) -> Profile:
    return make_profile(
        study="", version="", problem="", source_hash="",
        sources=(SourceFile(path=path, text=text),), **changes,
    )  # fmt: skip


def codes(profile: Profile) -> list[str]:
    return [notice.code for notice in profile.notices]


def test_the_same_text_is_the_version_s_own_file() -> None:
    profile = take(foreign())
    assert (profile.study, profile.version, profile.problem) == ("demo", "v2", "n1024")
    assert profile.parameters == {"N": 1024}
    assert profile.sources[0].path == PATH
    assert profile.source_hash == NOW
    assert codes(profile) == []


@pytest.mark.parametrize("text", [SOURCE.replace("\n", "\r\n"), SOURCE.rstrip("\n"), SOURCE + "\n"])
def test_line_ends_and_trailing_blanks_do_not_count(text: str) -> None:
    assert take(foreign(text)).source_hash == NOW


def test_another_text_is_stale() -> None:
    profile = take(foreign(SOURCE.replace("2.0f", "3.0f")))
    assert profile.source_hash not in ("", NOW)
    assert profile.sources[0].path == "/home/me/v2_tile.cu"
    assert codes(profile) == ["source-differs"]
    assert profile.notices[0].message.startswith("stale: the report's source /home/me/v2_tile.cu")


def test_the_code_under_another_front_matter() -> None:
    text = '/* ---\ntitle = "Tile"\n--- */\n' + SOURCE
    profile = take(foreign(), version=msgspec.structs.replace(VERSION, text=text))
    assert profile.source_hash == NOW and codes(profile) == []
    # The lines are those of the version's file, three further down.
    assert profile.sources == (SourceFile(path=PATH, text=text),)
    before = foreign().launches[0].instructions
    after = profile.launches[0].instructions
    assert after.line == tuple(line + 3 if line else 0 for line in before.line)
    assert any(before.line) and after.columns == before.columns


def test_code_without_front_matter_finds_its_lines_again() -> None:
    text = '/* ---\ntitle = "Tile"\n--- */\n\n' + SOURCE
    there = take(foreign(text), version=VERSION).launches[0].instructions
    assert there.line == tuple(
        each and each - 4 for each in foreign().launches[0].instructions.line
    )


def test_an_instance_of_a_template_is_the_reports_kernel() -> None:
    wanted = ResolvedLaunch(kernel="scale<float>", grid=(32, 1, 1), block=(32, 32, 1))
    assert codes(take(foreign(), expected=(wanted,))) == []


def test_a_report_without_source_cannot_be_judged() -> None:
    profile = take(foreign(text=None))
    assert profile.source_hash == ""
    assert codes(profile) == ["source-unknown"]


def test_included_files_find_their_place_too() -> None:
    sources = (
        SourceFile(path=PATH, text=SOURCE),
        SourceFile(path="kernels/demo/tile.cuh", text="#define T 32\n"),
    )
    recorded = (
        SourceFile(path="/x/tile.cuh", text="#define T 32\n"),
        SourceFile(path="/x/v2_tile.cu", text=SOURCE),
        SourceFile(path="/usr/include/math.h", text="double sin(double);\n"),
    )
    profile = take(msgspec.structs.replace(foreign(), sources=recorded), sources=sources)
    paths = [source.path for source in profile.sources]
    assert paths == ["kernels/demo/tile.cuh", PATH, "/usr/include/math.h"]


def test_a_recorded_path_does_not_pass_for_the_project_s_file() -> None:
    recorded = (
        SourceFile(path=PATH, text="int other;\n"),
        SourceFile(path="/x/v2_tile.cu", text=SOURCE),
    )
    profile = take(msgspec.structs.replace(foreign(), sources=recorded))
    assert [source.path for source in profile.sources] == [f"report:{PATH}", PATH]


def test_other_launches_are_named() -> None:
    other = make_launch(grid=(64, 1, 1))
    profile = take(foreign(launches=(other,)))
    assert codes(profile) == ["launch-differs"]
    assert "grid (64, 1, 1)" in profile.notices[0].message
    renamed = make_launch(kernel="saxpy")
    assert codes(take(foreign(launches=(renamed,)))) == ["kernel-differs"]
    assert codes(take(foreign(launches=(renamed,)), expected=())) == []


def test_launches_of_one_kernel_that_nothing_tells_apart() -> None:
    twice = (make_launch(nvtx=()), make_launch(nvtx=(), index=1))
    assert codes(take(foreign(launches=twice))) == ["no-nvtx"]
    assert codes(take(foreign(launches=twice[:1]))) == []
    assert codes(take(foreign(launches=(make_launch(), make_launch(index=1))))) == []
