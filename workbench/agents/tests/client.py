"""A client as somebody else would write one: the SDK's, over standard input and output."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from workbench.agents.fence import Permit
from workbench.agents.pages import FRAME, wire_size
from workbench.agents.server import Desk
from workbench.project import require_project

REPO = Path(__file__).resolve().parents[3]
BROKEN = REPO / "tests" / "data" / "broken"


class Client:
    """A client that counts the bytes of its answers.

    Args:
        session: Asks over the protocol.
        desk: Is asked without it, where `session` is None.

    Attributes:
        answered: Bytes of all answers since it was last set.
    """

    def __init__(self, session: ClientSession | None, desk: Desk | None = None) -> None:
        self._session, self._desk = session, desk
        self.answered = 0

    @property
    def session(self) -> ClientSession:
        """The SDK's own, for what is of the protocol."""
        assert self._session is not None
        return self._session

    async def ask(self, tool: str, **given: Any) -> dict[str, Any]:
        """The answer of a tool that succeeds."""
        answer, failed = await self.call(tool, **given)
        assert not failed, answer
        return answer

    async def call(self, tool: str, **given: Any) -> tuple[dict[str, Any], bool]:
        """The answer of a tool, and whether it is an error; never larger than was asked for."""
        if self._desk is not None:
            said, failed = await self._desk.call(tool, given, _silent)
            size = wire_size(said) + FRAME
            answer: dict[str, Any] = json.loads(msgspec.json.encode(said))
        else:
            result = await self.session.call_tool(tool, given)
            # The message of the protocol, but for its id.
            size = len(result.model_dump_json(by_alias=True).encode()) + 60
            (content,) = result.content
            assert content.type == "text"
            answer, failed = json.loads(content.text), bool(result.is_error)
        most = given.get("max_bytes", 12_000)
        assert size <= (most if isinstance(most, int) and 2000 <= most <= 60_000 else 60_000)
        self.answered += size
        return answer, failed


async def _silent(_: float, __: str) -> None:
    pass


@asynccontextmanager
async def connected(root: Path, *words: str) -> AsyncIterator[Client]:
    """A client of ``workbench serve mcp WORDS`` in that folder."""
    own = {"PYTHONPATH": str(REPO), "PYTHONSAFEPATH": "1"}
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "workbench.cli", "serve", "mcp", *words],
        cwd=root,
        env={**os.environ, **own},
    )
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield Client(session)


def talk(root: Path, job: Callable[[Client], Awaitable[None]], *words: str) -> None:
    """Connect, do the job, and leave."""

    async def run() -> None:
        async with connected(root, *words) as client:
            await job(client)

    anyio.run(run)


def asked(root: Path, job: Callable[[Client], Awaitable[None]], *permits: Permit) -> None:
    """The same without a server between: what answers is asked itself."""

    async def run() -> None:
        await job(Client(None, Desk(require_project(root), frozenset(permits))))

    anyio.run(run)


def broken_project(into: Path) -> Path:
    """A copy of the project of deliberately wrong kernels, to be written to."""
    return Path(shutil.copytree(BROKEN, into / "broken", ignore=shutil.ignore_patterns("__py*")))
