"""An editor at work over standard input and output: what it is told, and what runs for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import pytest

from tests.goldens import same
from tests.ladders import needs_compiler
from workbench.cli import app
from workbench.editing.opened import Headline, OpenedFile, Remark, remarks
from workbench.editing.server import _diagnostic
from workbench.editing.tests.client import Client, connected
from workbench.language import using
from workbench.processes.starting import own_module
from workbench.session.api import CoreSession
from workbench.session.workspace import Selection

REPO = Path(__file__).resolve().parents[3]
V3, V4 = "kernels/sgemm/v3_padded.cu", "kernels/sgemm/v4_thread_tile.cu"
ON_SAVE = {"verify": "onSave", "timeout": 120}
#: A tile whose columns lie in one bank, as before v3; and one that nobody waits for.
CONFLICTS = ("As[T][T + 1]", "As[T][T]")
RACE = ("        __syncthreads();\n", "")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The first rungs of a ladder, with what an H200 said of them."""
    (tmp_path / "pyproject.toml").write_text('[tool.workbench]\ndefault_study = "sgemm"\n')
    kernels = tmp_path / "kernels" / "sgemm"
    kernels.mkdir(parents=True)
    for path in (REPO / "kernels" / "sgemm").glob("*.*"):
        if path.name.startswith(("v0_", "v1_", "v2_", "v3_", "v4_", "study.py")):
            shutil.copy(path, kernels)
    for version in ("v2", "v3", "v4"):
        recorded = Path("profiles", "h200", "sgemm", version)
        (tmp_path / recorded).mkdir(parents=True)
        for kind in ("ncu", "time"):
            shutil.copy(REPO / recorded / f"n1024.{kind}.json.zst", tmp_path / recorded)
    shutil.copytree(REPO / "profiles" / ".studies", tmp_path / "profiles" / ".studies")
    return tmp_path


def text_of(path: str, *edits: tuple[str, str]) -> str:
    """A shipped version's text, edited: each edit once."""
    text = (REPO / path).read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def talk(root: Path, job: Callable[[Client], Awaitable[None]], wishes: object = None) -> None:
    async def one() -> None:
        async with connected(root, wishes) as client:
            await job(client)

    with ThreadPoolExecutor(1) as alone:  # a browser's tests leave a loop in this thread
        alone.submit(asyncio.run, one()).result()


def leave_a_mark(root: Path) -> Path:
    """Have the study write a file where it is run."""
    mark = root / "ran"
    with (root / "kernels" / "sgemm" / "study.py").open("a", encoding="utf-8") as study:
        study.write(f"\nopen({str(mark)!r}, 'w').close()\n")
    return mark


# --- what is recorded ------------------------------------------------------------------------


def test_what_is_recorded_is_told_and_nothing_runs(project: Path) -> None:
    mark = leave_a_mark(project)

    async def job(client: Client) -> None:
        client.open(V3)
        assert await client.wrong(V3) == []
        hints = await client.hints(V3)
        same("editing/hints.txt", client.recorded())
        assert set(hints) == {45, 47, 48, 51, 54}
        assert "MIO throttle" in hints[51] and "ideal 1.00" in hints[51]
        assert "Shared wavefronts" in await client.at(V3, 51)
        assert await client.at(V3, 1) == ""
        same("editing/hover.txt", client.recorded())
        (said, *commands) = [each["command"] for each in await client.lenses(V3)]
        assert "than v2" in said["title"] and said["command"] == ""
        assert {each["command"] for each in commands} == {"workbench.run"}
        same("editing/lenses.txt", client.recorded())
        client.open(V4)
        ((line, words),) = await client.wrong(V4)
        assert text_of(V4).splitlines()[line - 1] == "[[expect]]" and "refuted" in words
        same("editing/predictions.txt", client.recorded())
        # Saved, but nobody allowed that anything is run.
        client.save(V3, text_of(V3, CONFLICTS))
        await client.hints(V3)

    talk(project, job)
    assert not mark.exists()


def test_lines_that_an_edit_reached_have_no_numbers(project: Path) -> None:
    async def job(client: Client) -> None:
        client.open(V3, text_of(V3, CONFLICTS, ("    float sum", "\n\n    float sum")))
        # All that the tile flows into is silent, the rest has moved down.
        assert set(await client.hints(V3)) == {47, 50}

    talk(project, job)


def test_a_long_file_holds_up_nothing(project: Path) -> None:
    more = "".join(f"__device__ int more{n}(int x) {{\n    return x;\n}}\n" for n in range(3000))

    async def job(client: Client) -> None:
        client.open(V3, text_of(V3, CONFLICTS) + more)
        whole = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
        asked = {"textDocument": {"uri": client.uri(V3)}, "range": whole}
        client._send({"id": "long", "method": "textDocument/inlayHint", "params": asked})
        client._send({"id": "other", "method": "nothing", "params": None})
        await client._until(lambda said: said.get("id") == "other")
        assert all(said.get("id") != "long" for way, said in client.session if way == "<--")
        assert (await client._until(lambda said: said.get("id") == "long"))["result"]

    talk(project, job)


def test_a_header_shows_the_last_version_that_has_lines_of_it() -> None:
    path = REPO / "kernels" / "conv2d_half" / "hopper.cuh"
    file = OpenedFile(CoreSession(REPO), path, Selection())
    profile = CoreSession(REPO).profile(file.version())
    assert file.lines(path.read_text(encoding="utf-8"))
    assert any(each.path == file.path for each in profile.sources)
    assert file.heads("") == [] and file.beside("../outside.cu") is None


def test_a_broken_file_costs_its_own_hints(project: Path) -> None:
    async def job(client: Client) -> None:
        client.save(V4, text_of(V4, ("title  =", "titel  =")))
        client.open(V4)
        client.open(V3)
        assert len(await client.hints(V3)) == 5
        ((line, words),) = await client.wrong(V4)
        assert line == 2 and "titel" in words
        assert await client.hints(V4) == {}
        client.open("kernels/sgemm/study.py")
        client.open("pyproject.toml")
        assert await client.hints("pyproject.toml") == {}
        assert await client.lenses("kernels/sgemm/study.py") == []

    talk(project, job)


BROKEN: dict[str, Callable[[Path], object]] = {
    "TOML that is none": lambda path: path.write_text("/* ---\ntitle = \n--- */\n"),
    "front matter without an end": lambda path: path.write_text("/* ---\ntitle = 'x'\n"),
    "no UTF-8": lambda path: path.write_bytes(b"/* ---\ntitle = '\xff\xfe'\n--- */\n"),
    "zeros": lambda path: path.write_bytes(bytes(4096)),
    "nothing": lambda path: path.write_text(""),
    "braces without an end": lambda path: path.write_text(text_of(V4) + "{(" * 20_000),
    "a line without an end": lambda path: path.write_text(text_of(V4) + "a+" * 500_000),
    "more than is read": lambda path: path.write_bytes(b"//\n" * (8 << 20)),
    "a folder": lambda path: path.mkdir(),
    "a link to nowhere": lambda path: path.symlink_to("nowhere.cu"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to outside": lambda path: path.symlink_to(REPO / V4),
    "a pipe": lambda path: os.mkfifo(path),
    "another file of the version": lambda path: (
        path.write_text(text_of(V4)),
        path.with_name("v4_again.cu").write_text(text_of(V4)),
    ),
    "its own parent": lambda path: path.write_text(
        text_of(V4, ("title  =", 'parent = "v4"\ntitle  ='))
    ),
    "a header that includes itself": lambda path: (
        path.with_name("round.cuh").write_text('#include "round.cuh"\n'),
        path.write_text(text_of(V4) + '#include "round.cuh"\n#include "gone.cuh"\n'),
    ),
    "a name of another code": lambda path: path.with_name("v4_\udcff.cu").write_text(text_of(V4)),
    "a record that is cut": lambda path: (
        path.write_text(text_of(V4)),
        _cut(path.parents[2] / "profiles/h200/sgemm/v4/n1024.ncu.json.zst"),
        _cut(path.parents[2] / "profiles/h200/sgemm/v4/n1024.time.json.zst"),
    ),
}


def _cut(path: Path) -> int:
    return path.write_bytes(path.read_bytes()[:-50])


def test_whatever_is_broken_costs_its_own_hints(project: Path) -> None:
    async def job(client: Client) -> None:
        client.open(V3)
        whole = await client.hints(V3)
        records = project / "profiles"
        shutil.copytree(records, project / "kept")
        for kind, make in BROKEN.items():
            path = project / V4
            path.unlink()
            make(path)
            client.open(V4, "x")
            assert await client.hints(V4) == {}, kind
            assert await client.at(V4, 1) == "", kind
            await client.lenses(V4)
            assert await client.hints(V3) == whole, kind
            assert len(await client.lenses(V3)) == 5, kind
            client.close(V4)
            for each in path.parent.glob("v4_*"):
                shutil.rmtree(each) if each.is_dir() else each.unlink()
            shutil.rmtree(records)
            shutil.copytree(project / "kept", records)
            path.write_text(text_of(V4), encoding="utf-8")
        for uri in ("untitled:Untitled-1", "git:/v4.cu", "file:///%00.cu", "file:///" + "x" * 5000):
            client.tell(
                "textDocument/didOpen",
                {"textDocument": {"uri": uri, "languageId": "c", "version": 1, "text": "x"}},
            )
        assert await client.hints(V3) == whole

    talk(project, job)


def test_wishes_that_cannot_be_read_allow_nothing(project: Path) -> None:
    mark = leave_a_mark(project)

    async def job(client: Client) -> None:
        assert "verify" in (await client.told("window/showMessage"))["message"]
        client.open(V3)
        client.save(V3, text_of(V3, CONFLICTS))
        await client.hints(V3)

    talk(project, job, {"verify": "always"})
    assert not mark.exists()


def test_the_words_of_an_error_stand_where_they_point() -> None:
    said = "v.cu does not compile\nv.cu:3: error: a\n  3 | x\nh.cuh:5 (in cuda/atomic.hpp:7): b"
    assert remarks(said, "v.cu") == [
        Remark("v.cu", 3, "v.cu does not compile\nerror: a\n  3 | x"),
        Remark("h.cuh", 5, "b"),
    ]
    assert remarks("it is late", "v.cu") == [Remark("v.cu", 1, "it is late")]


@pytest.mark.parametrize(
    ("words", "chinese"),
    [
        (
            "a.cu:3: shared-memory race: thread (0, 0, 0) of block (1, 0, 0) writes Bs[0][0], "
            "which was read by several warps at a.cu:5 without a barrier between",
            "共享内存竞争：线程块 (1, 0, 0) 的线程 (0, 0, 0) 写入 Bs[0][0]，"
            "而多个线程束在 a.cu:5 读过该位置，两者之间没有屏障",
        ),
        (
            "a.cu:3: v5 gives a wrong result on n64: 2 of 4,096 elements are NaN\n"
            "  2 elements were never written",
            "v5 在 n64 上结果错误：4,096 个元素中有 2 个是 NaN\n  有 2 个元素从未被写入",
        ),
        ("v5 did not end within 9 s in the emulator", "v5 没有在 9 s 内在模拟器中结束"),
    ],
)
def test_what_is_wrong_is_told_in_the_readers_language(words: str, chinese: str) -> None:
    (remark,) = remarks(words, "a.cu")
    with using("zh"):
        assert _diagnostic(remark).message == chinese


def headline(root: Path, path: str, problem: str | None = None) -> Headline:
    """The lenses above the kernel of a version."""
    file = OpenedFile(CoreSession(root), root / path, Selection(problem=problem))
    (found,) = file.heads(text_of(path))
    return found


def test_what_one_may_choose_above_a_kernel(project: Path) -> None:
    # A version that is not recorded yet can be verified and profiled all the same.
    (found,) = (project / "kernels" / "sgemm").glob("v1_*")
    v1 = found.relative_to(project).as_posix()
    new = headline(project, v1)
    assert new.words == "v1 · nothing recorded"
    assert [words for _, words in new.commands] == [("verify", "sgemm/v1"), ("profile", "sgemm/v1")]
    # A record of its parent that cannot be read costs the step alone.
    parent = "profiles/h200/sgemm/v2/n1024.ncu.json.zst"
    _cut(project / parent)
    assert headline(project, V3).words == "v3 · 318 µs · now the L1 data stage, 91%"
    # All is of the problem that the editor's settings name.
    commands = dict(headline(project, V3, "n1024").commands)
    assert commands["diff to v2"] == ("diff", "sgemm/v2", "sgemm/v3:n1024")
    assert commands["verify"] == ("verify", "sgemm/v3")
    for words in commands.values():
        command = app.get_command(click.Context(app), words[0])
        assert command is not None and command.make_context(words[0], list(words[1:]))


# --- in editors --------------------------------------------------------------------------------


def version_of(editor: str) -> tuple[int, ...]:
    """Its major and minor version; () where there is none."""
    if (path := shutil.which(editor)) is None:
        return ()
    words = subprocess.run([path, "--version"], capture_output=True, check=True, text=True).stdout
    found = re.search(r"(\d+)\.(\d+)", words)
    return tuple(map(int, found.groups())) if found else ()


def documented(title: str, language: str) -> list[str]:
    """The settings that the documentation names for an editor."""
    page = (REPO / "workbench/editing/docs/how-to/editors.md").read_text(encoding="utf-8")
    (section,) = re.findall(rf"^## {title}$(.*?)(?=^## |\Z)", page, re.M | re.S)
    return re.findall(rf"^```{language}$(.*?)^```$", section, re.M | re.S)


def with_workbench() -> dict[str, str]:
    """Variables with which `workbench` is found, as it is installed here."""
    here = Path(sys.executable).parent
    return {**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.slow
@pytest.mark.skipif(version_of("nvim") < (0, 7), reason="there is no Neovim on this machine")
def test_neovim_is_told(project: Path) -> None:
    start = own_module("workbench.cli", "serve", "lsp")
    script, out = REPO / "tests" / "data" / "editing" / "look.lua", project / "out"
    words = ["nvim", "--headless", "-u", "NONE", "-c", f"luafile {script}"]
    env = {**start.env, "COMMAND": json.dumps(start.argv), "OUT": str(out)}
    subprocess.run(words, cwd=project, env=env, check=True, timeout=200)
    hints, hover, lenses, wrong = out.read_text(encoding="utf-8").splitlines()
    assert "77.6% of the time" in hints and "MIO throttle" in hover and "than v2" in lenses
    assert "refuted" in wrong


@pytest.mark.slow
@pytest.mark.skipif(version_of("nvim") < (0, 11), reason="there is no Neovim 0.11 on this machine")
def test_neovim_shows_it_with_the_documented_settings(project: Path) -> None:
    (settings,) = documented("Neovim", "lua")
    (project / "init.lua").write_text(settings, encoding="utf-8")
    script, out = REPO / "tests" / "data" / "editing" / "documented.lua", project / "out"
    words = ["nvim", "--headless", "-u", "init.lua", "-c", f"luafile {script}"]
    env = {**with_workbench(), "OUT": str(out)}
    subprocess.run(words, cwd=project, env=env, check=True, timeout=200)
    said = out.read_text(encoding="utf-8")
    assert "51: 77.6% of the time" in said and "than v2" in said and "refuted" in said
    assert Path(f"{out}.ran").exists()


@pytest.mark.slow
@pytest.mark.skipif(version_of("hx") < (25, 1), reason="there is no Helix 25.01 on this machine")
def test_helix_shows_it_with_the_documented_settings(project: Path) -> None:
    folder = project / "settings" / "helix"
    folder.mkdir(parents=True)
    for name, text in zip(("config", "languages"), documented("Helix", "toml"), strict=True):
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (60, 250))
    env = {**with_workbench(), "XDG_CONFIG_HOME": str(folder.parent), "TERM": "xterm-256color"}
    words = ["hx", V3, "--log", str(project / "log")]
    seen = b""
    with subprocess.Popen(
        words, cwd=project, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    ) as hx:
        os.close(theirs)
        for place in (b"51G", b"45G") * 30:
            os.write(ours, place)
            while select.select([ours], [], [], 1.0)[0]:
                seen += os.read(ours, 1 << 16)
            if b"MIO throttle" in seen:
                break
        os.write(ours, b":q!\r")
        with contextlib.suppress(OSError):  # its end
            while os.read(ours, 1 << 16):
                pass
        assert hx.wait() == 0
    assert b"77.6% of the time, MIO throttle" in seen


# --- what is tried ---------------------------------------------------------------------------


@needs_compiler
@pytest.mark.slow
def test_a_saved_edit_is_tried_and_told(project: Path) -> None:
    before = {path: path.read_bytes() for path in (project / "profiles").rglob("*.zst")}

    async def job(client: Client) -> None:
        client.open(V3)
        assert await client.wrong(V3) == []
        client.recorded()
        client.save(V3, text_of(V3, CONFLICTS))
        assert await client.wrong(V3) == []
        await client.told("workspace/inlayHint/refresh")
        assert "linked to hunk 1" in (await client.told("window/showMessage"))["message"]
        assert await client.wrong(V3) == []
        # 32 lanes in one bank, which no text says.
        assert "wavefronts 32.0 per request, ideal 1.00" in (await client.hints(V3))[47]
        same("editing/saved.txt", client.recorded())
        client.save(V3, text_of(V3, RACE))
        assert await client.wrong(V3) == []
        ((line, words),) = await client.wrong(V3)
        assert line == 50 and "race" in words
        same("editing/race.txt", client.recorded())

    talk(project, job, ON_SAVE)
    after = {path: path.read_bytes() for path in (project / "profiles").rglob("*.zst")}
    assert after == before  # nothing is recorded for an editor


def test_a_trial_ends_in_time(project: Path) -> None:
    with (project / "kernels" / "sgemm" / "study.py").open("a", encoding="utf-8") as study:
        study.write("\nwhile True:\n    pass\n")

    async def job(client: Client) -> None:
        client.open(V3)
        client.save(V3, text_of(V3, CONFLICTS))
        while not (said := await client.wrong(V3)):
            pass
        assert said[0][0] == 1 and "did not end within 1 s" in said[0][1]

    talk(project, job, {"verify": "onSave", "timeout": 1})
