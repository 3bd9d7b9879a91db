"""A hostile client is refused: paths, permits, links and arguments that mean harm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.factories import make_project
from workbench.agents.arguments import VerifyArguments
from workbench.agents.pages import FRAME, wire_size
from workbench.agents.server import Reply, _answer, _failed, read_resource
from workbench.agents.tests.client import Client, asked
from workbench.agents.tools import BY_NAME
from workbench.errors import UsageError
from workbench.views.shapes import ErrorFacts


def everything_below(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def test_looking_is_all_that_is_allowed_unless_somebody_says_so(tmp_path: Path) -> None:
    make_project(tmp_path)
    before = everything_below(tmp_path)

    async def job(client: Client) -> None:
        calls: dict[str, dict[str, Any]] = {
            "verify": {"versions": ["v3"]},
            "profile": {"versions": ["v3"]},
            "time": {"versions": ["v3"]},
            "new_version": {"version": "v9", "text": "x"},
            "edit_version": {"version": "v3", "text": "x"},
        }
        for tool, given in calls.items():
            answer, failed = await client.call(tool, **given)
            assert failed and answer["error"]["code"] == 2
            assert "workbench serve mcp --allow" in answer["error"]["hint"]

    asked(tmp_path, job)
    assert everything_below(tmp_path) == before


HOSTILE: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("show", {"target": "../../../../etc/passwd"}, "nor a report of this project"),
    ("show", {"target": "/etc/passwd"}, "nor a report of this project"),
    ("show", {"target": "out.ncu-rep"}, "not a plain file"),
    ("show", {"target": "way/secret.ncu-rep"}, "a link"),
    ("show", {"target": "v3\x1b[2J"}, "U+001B"),
    ("show", {"target": "v3\u202e"}, "U+202E"),
    ("show", {"target": "v" * 501}, "length <= 500"),
    ("show", {"target": "--help"}, "has no version"),
    ("show", {"target": "v3", "study": "../.."}, "no study"),
    ("show", {"target": "v3", "launch": 1}, "unknown field"),
    ("show", {"target": ["v3"]}, "Expected `str`"),
    ("show", {}, "missing required field"),
    ("show", {"target": "v3", "max_bytes": 10**40}, "max_bytes"),
    ("show", {"target": "v3", "max_bytes": -1}, "max_bytes"),
    ("show", {"target": "v3", "offset": 2**63}, "offset"),
    ("show", {"target": "v3", "select": "/" + "x/" * 2000}, "there is no"),
    ("diff", {"old": "v3", "new": "-"}, "no version"),
    ("source", {"version": "v3", "file": "../../../../etc/passwd"}, "is not a file of"),
    ("source", {"version": "v3", "first": 10**9}, "lines"),
    ("explain", {"words": ["duratoin"]}, "duratoin"),
    ("nothing", {}, "no tool"),
    ("verify", {"versions": ["--launcher=touch bad"], "engine": "emulator"}, "no version"),
    ("verify", {"versions": ["v3"], "problem": "x\n--launcher=touch bad"}, "U+000A"),
    ("verify", {"versions": ["v3"], "timeout_s": 1e308}, "timeout_s"),
    ("verify", {"versions": ["v3"], "arch": "sm_90 -o bad"}, "arch"),
    ("new_version", {"version": "../v9"}, "no study"),
    ("new_version", {"version": "v9/../../bad"}, "is not a version"),
    ("new_version", {"version": "v9", "text": "/* ---\ntitle = 1\n--- */\n"}, "title"),
    ("new_version", {"version": "v9", "text": "__global__ void other() {}\n"}, "other"),
    ("new_version", {"version": "v9", "text": '#include "/etc/passwd"\n'}, "outside"),
    ("new_version", {"version": "v9", "text": "a\x00b"}, "control characters"),
    ("new_version", {"version": "v9", "text": "x" * 300_000}, "bytes"),
    ("new_version", {"version": "v3", "text": "x"}, "already exists"),
    ("new_version", {"version": "v9", "parent": "library"}, "is Python"),
    ("edit_version", {"version": "v3", "text": "x"}, "was not started"),
)


def test_hostile_arguments_are_errors_and_lose_nothing(tmp_path: Path) -> None:
    root = tmp_path / "project"
    make_project(root)
    (tmp_path / "secret.ncu-rep").write_bytes(b"secret")
    (root / "out.ncu-rep").symlink_to(tmp_path / "secret.ncu-rep")
    (root / "way").symlink_to(tmp_path)
    before = everything_below(tmp_path)

    async def job(client: Client) -> None:
        for tool, given, said in HOSTILE:
            answer, failed = await client.call(tool, **given)
            assert failed, (tool, given, answer)
            error = answer["error"]
            assert error["code"] in (2, 5) and error["hint"], (tool, given, error)
            assert said in f"{error['message']} {error['hint']}", (tool, given, error)
            assert "secret" not in error["message"].replace("secret.ncu-rep", "")
        for uri in ("workbench://counters/../x", "file:///etc/passwd", "workbench://schema/x"):
            with pytest.raises(UsageError) as caught:
                read_resource(uri)
            assert caught.value.hint
        # After all that it answers as before.
        assert (await client.ask("show", target="v3", select="/version"))["answer"] == "v3"

    asked(root, job, "verify", "write")
    assert everything_below(tmp_path) == before


@pytest.mark.parametrize("select", ["", "/results", "/results/0/message"])
def test_an_answer_with_an_endless_error_is_no_larger_than_asked_for(select: str) -> None:
    text = 'é"\n' * 5000
    row = dict.fromkeys(("version", "problem", "message"), text)
    error = ErrorFacts(code=4, message=text, hint=text)
    reply = Reply(document={"study": text, "results": [row] * 50}, notes=(text,) * 20, error=error)
    for most in (2000, 12_000, 60_000):
        given = VerifyArguments(versions=["v3"], select=select)
        answer = _answer(BY_NAME["verify"], given, reply, most)
        assert most / 3 < wire_size(answer) <= most - FRAME
        assert answer["more"] and answer["error"]["hint"]
        assert wire_size(_failed(error, most, reply.notes)) <= most - FRAME


def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "project"
    make_project(root)
    (tmp_path / "v7_secret.cu").write_text("secret")
    (root / "kernels" / "demo" / "v7_secret.cu").symlink_to(tmp_path / "v7_secret.cu")

    async def job(client: Client) -> None:
        for tool, given in (("source", {"version": "v7"}), ("list", {})):
            answer, failed = await client.call(tool, **given)
            assert failed and "points outside the project" in answer["error"]["message"]

    asked(root, job)


def test_a_file_of_the_project_stands_in_for_no_module(tmp_path: Path) -> None:
    make_project(tmp_path)
    for name in ("click.py", "json.py", "msgspec.py"):
        (tmp_path / name).write_text("open('ran', 'w')\n")

    async def job(client: Client) -> None:
        assert (await client.ask("show", target="v3", select="/version"))["answer"] == "v3"

    asked(tmp_path, job)
    assert not (tmp_path / "ran").exists()
