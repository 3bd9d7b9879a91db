"""A client as an editor is one: messages of the Language Server Protocol, in and out."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from workbench.processes.starting import own_module

Message = dict[str, Any]


class Client:
    """An editor that keeps the answers it gets.

    Args:
        process: ``workbench serve lsp``.
        root: Its project, which recorded sessions do not name.

    Attributes:
        session: All messages in their order: ``-->`` to the server, ``<--`` from it.
    """

    def __init__(self, process: asyncio.subprocess.Process, root: Path) -> None:
        self._process, self._root = process, root
        self._number = 0
        self.session: list[tuple[str, Message]] = []
        self._unread: list[Message] = []

    def uri(self, path: str) -> str:
        """Of a file of the project."""
        return (self._root / path).as_uri()

    def tell(self, method: str, params: object) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    async def ask(self, method: str, params: object) -> Any:
        """The result of a request."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        answer = await self._until(lambda said: said.get("id") == self._number)
        assert "error" not in answer, answer
        return answer["result"]

    async def told(self, method: str) -> Any:
        """The parameters of the next notification or request of that method."""
        said = await self._until(lambda said: said.get("method") == method)
        if "id" in said:
            self._send({"id": said["id"], "result": None})
        return said.get("params")

    def open(self, path: str, text: str | None = None) -> None:
        """Open a file of the project, as it is or with a text of the editor's own."""
        shown = (self._root / path).read_text(encoding="utf-8") if text is None else text
        document = {"uri": self.uri(path), "languageId": "cuda-cpp", "version": 1, "text": shown}
        self.tell("textDocument/didOpen", {"textDocument": document})

    def close(self, path: str) -> None:
        """Close a file."""
        self.tell("textDocument/didClose", {"textDocument": {"uri": self.uri(path)}})

    def save(self, path: str, text: str) -> None:
        """Write a file and say so."""
        (self._root / path).write_text(text, encoding="utf-8")
        changed = {"uri": self.uri(path), "version": 2}
        self.tell(
            "textDocument/didChange", {"textDocument": changed, "contentChanges": [{"text": text}]}
        )
        self.tell("textDocument/didSave", {"textDocument": {"uri": self.uri(path)}})

    async def hints(self, path: str) -> dict[int, str]:
        """Line (counted from 1) -> what stands at its end."""
        whole = {"start": {"line": 0, "character": 0}, "end": {"line": 10_000, "character": 0}}
        asked = {"textDocument": {"uri": self.uri(path)}, "range": whole}
        found = await self.ask("textDocument/inlayHint", asked)
        return {each["position"]["line"] + 1: each["label"] for each in found}

    async def at(self, path: str, line: int) -> str:
        """The box above a line (counted from 1); "" where there is none."""
        place = {"line": line - 1, "character": 0}
        asked = {"textDocument": {"uri": self.uri(path)}, "position": place}
        found = await self.ask("textDocument/hover", asked)
        return found["contents"]["value"] if found else ""

    async def lenses(self, path: str) -> list[Message]:
        """The lenses of a file."""
        found = await self.ask("textDocument/codeLens", {"textDocument": {"uri": self.uri(path)}})
        assert isinstance(found, list)
        return found

    async def wrong(self, path: str) -> list[tuple[int, str]]:
        """Lines (counted from 1) and words of the next diagnostics of a file."""
        while True:
            said = await self.told("textDocument/publishDiagnostics")
            if said["uri"] == self.uri(path):
                return [
                    (d["range"]["start"]["line"] + 1, d["message"]) for d in said["diagnostics"]
                ]

    def recorded(self) -> str:
        """The session since it was last asked for, a line a message, without the texts of files."""
        lines = []
        for way, message in self.session:
            text = json.dumps(_cut(message), ensure_ascii=False, sort_keys=True)
            lines.append(f"{way} {text.replace(self._root.as_uri(), 'file:///project')}")
        self.session.clear()
        return "\n".join(lines) + "\n"

    async def _until(self, wanted: Any) -> Message:
        for place, said in enumerate(self._unread):
            if wanted(said):
                return self._unread.pop(place)
        while True:
            said = await self._read()
            if wanted(said):
                return said
            self._unread.append(said)

    def _send(self, message: Message) -> None:
        assert self._process.stdin is not None
        whole = {"jsonrpc": "2.0", **message}
        data = json.dumps(whole).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
        self.session.append(("-->", message))

    async def _read(self) -> Message:
        assert self._process.stdout is not None
        head = await self._process.stdout.readuntil(b"\r\n\r\n")
        sizes = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
        data = await self._process.stdout.readexactly(int(sizes[0].split(b":")[1]))
        said: Message = json.loads(data)
        said.pop("jsonrpc")
        self.session.append(("<--", said))
        return said


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "…" if key == "text" else _cut(each)
            for key, each in value.items()
            if key != "id"  # the server's own is another one each time
        }
    return [_cut(each) for each in value] if isinstance(value, list) else value


@asynccontextmanager
async def connected(root: Path, wishes: object = None) -> AsyncIterator[Client]:
    """A client of ``workbench serve lsp``, which has begun and ends in order."""
    start = own_module("workbench.cli", "serve", "lsp", cwd=root)
    process = await asyncio.create_subprocess_exec(
        *start.argv,
        cwd=start.cwd,
        env=start.env,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=sys.stderr,
        limit=64 << 20,
    )
    client = Client(process, root)
    able = {"workspace": {"inlayHint": {"refreshSupport": True}}}
    begin = {"processId": None, "rootUri": root.as_uri(), "capabilities": able}
    await client.ask("initialize", {**begin, "initializationOptions": wishes})
    client.tell("initialized", {})
    client.session.clear()
    try:
        yield client
        kept = list(client.session)
        await client.ask("shutdown", None)
        client.tell("exit", None)
        assert await process.wait() == 0
        client.session[:] = kept
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
