"""The protocol line by line: what is no message ends nothing, and neither does a death."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import StdioServerParameters, stdio_client
from mcp.client.client import Client as NewestClient

from tests.factories import make_project
from tests.ladders import needs_compiler
from tests.processes import runs, until
from workbench.agents.tests.client import REPO, broken_project
from workbench.agents.tests.test_connection import children

pytestmark = pytest.mark.slow  # each starts a server
ENVIRONMENT = {"PYTHONPATH": str(REPO), "PYTHONSAFEPATH": "1"}
COMMAND = [sys.executable, "-m", "workbench.cli", "serve", "mcp"]


class Wire:
    """A server's own streams."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def request(self, number: int, method: str, params: dict[str, Any]) -> None:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.send(json.dumps(message).encode())

    def call(self, number: int, tool: str, **given: Any) -> None:
        token = {"progressToken": number}
        params = {"name": tool, "arguments": given, "_meta": token}
        self.request(number, "tools/call", params)

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        return message


@contextmanager
def wired(root: Path, *words: str) -> Iterator[Wire]:
    with subprocess.Popen(
        [*COMMAND, *words],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **ENVIRONMENT},
    ) as process:
        wire = Wire(process)
        about = {"name": "test", "version": "1"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
        wire.request(1, "initialize", hello)
        assert wire.read()["result"]["serverInfo"]["name"] == "workbench"
        wire.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        try:
            yield wire
        finally:
            process.kill()


def test_the_spelling_of_the_last_release_says_so_beside_the_protocol(tmp_path: Path) -> None:
    make_project(tmp_path)
    ask = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    done = subprocess.run(
        [*COMMAND[:-2], "mcp"], input=f"{ask}\n", cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, **ENVIRONMENT},
    )  # fmt: skip
    assert json.loads(done.stdout)["id"] == 1
    assert done.stderr.count("`workbench mcp` is `workbench serve mcp` from now on") == 1


def call_of(arguments: bytes) -> bytes:
    head = b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"explain","arguments":'
    return head + arguments + b"}}"


def test_what_is_no_message_ends_nothing(tmp_path: Path) -> None:
    make_project(tmp_path)
    with wired(tmp_path) as wire:
        for line in (
            b"no JSON",
            b"\xff\xfe\x00",
            b"[]",
            b"{}",
            call_of(b'{"words":["\\ud800"]}'),
            call_of(b'{"words":["x"],"offset":1e999}'),
            call_of(b'{"words":["x"],"offset":' + b"9" * 5000 + b"}"),
            call_of(b'{"words":' + b"[" * 5000 + b"]" * 5000 + b"}"),
            call_of(b"[1]"),
            b"x" * 2_000_000,
        ):
            wire.send(line)
        wire.request(98, "ping", {"half": "\ud83d", "whole": "\U0001f600"})
        while (message := wire.read()).get("id") != 98:
            assert message.get("error") or message["result"]["isError"]
        assert message["result"] == {}
        wire.call(99, "explain", words=["duration"], select="/counters/0/id")
        while (message := wire.read()).get("id") != 99:
            assert message.get("error") or message["result"]["isError"]
        (content,) = message["result"]["content"]
        assert json.loads(content["text"]) == {"answer": "duration"}
        assert wire.process.stdin is not None
        wire.process.stdin.close()
        assert wire.process.wait(20) == 0


@needs_compiler
def test_a_server_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    root = broken_project(tmp_path)
    with wired(root, "--allow", "verify") as wire:
        versions = [f"broken/v{number}" for number in range(10)]
        wire.call(2, "verify", versions=versions, engine="emulator")
        assert wire.read()["method"] == "notifications/progress"
        begun = children(wire.process.pid)
        assert begun
        wire.process.kill()
        wire.process.wait(20)
        until(lambda: not any(map(runs, begun)))


def test_the_newest_protocol_is_spoken_as_well(tmp_path: Path) -> None:
    make_project(tmp_path)

    async def run() -> None:
        server = StdioServerParameters(
            command=COMMAND[0], args=COMMAND[1:], cwd=tmp_path, env={**os.environ, **ENVIRONMENT}
        )
        async with NewestClient(stdio_client(server)) as client:
            result = await client.call_tool("show", {"target": "v3", "select": "/version"})
            (content,) = result.content
            assert content.type == "text" and json.loads(content.text) == {"answer": "v3"}

    anyio.run(run)
