"""The server: the official SDK's protocol over standard input and output, and nothing of its own.

A call is checked, run, and answered in at most the bytes that it asked for; whatever goes wrong is
an answer too, with the exit code and the hint that the command line gives.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from workbench import __version__
from workbench.agents import arguments as takes
from workbench.agents.fence import Fence, Permit, need
from workbench.agents.pages import FRAME, Fitted, fitted, picked, wire_size
from workbench.agents.resources import RESOURCES, TEMPLATES, meaning, read_resource
from workbench.agents.running import Reply, Say, run_command
from workbench.agents.tools import BY_NAME, TOOLS, Tool, answer_of, command_of
from workbench.agents.versions import Workshop
from workbench.errors import UsageError, WorkbenchError, did_you_mean
from workbench.project import Project
from workbench.views.shapes import ErrorFacts, Json

#: Commands that run at a time: of those that only look, and of those that measure.
_LOOKING, _MEASURING = 4, 1
INSTRUCTIONS = """\
A workbench for CUDA kernels: what did a change move, by how much, and on which line? Call `list`
first, then `headroom` and `hot_lines` of the version to improve, `source` to read it, `strip` to
see why a step was faster or slower. Answers are cut to `max_bytes`; `more` says what is left out
and how to ask for it (`select`, `offset`). The resource workbench://vocabulary explains the words.
"""
Context = ServerRequestContext[Any, Any]


class Desk:
    """What answers the calls of one connection.

    Args:
        project: What it is about; nothing outside of it is read or written.
        permits: What was allowed beyond looking.
    """

    def __init__(self, project: Project, permits: frozenset[Permit]) -> None:
        self._project, self._permits = project, permits
        self._fence = Fence(project)
        self._workshop = Workshop(project, python="python" in permits)
        self._looking = anyio.CapacityLimiter(_LOOKING)
        self._measuring = anyio.CapacityLimiter(_MEASURING)

    def tools(self) -> list[Tool]:
        """The tools that are allowed."""
        return [each for each in TOOLS if each.permit is None or each.permit in self._permits]

    async def call(self, name: str, given: Json, say: Say) -> tuple[Json, bool]:
        """The answer to a call, and whether it is an error.

        Args:
            name: The tool.
            given: Its arguments, as they came.
            say: Told how far a command is.
        """
        size = given.get("max_bytes")
        most = size if isinstance(size, int) and not isinstance(size, bool) else takes.BYTES
        most = min(max(most, takes.LEAST_BYTES), takes.MOST_BYTES)
        try:
            tool = self._tool(name)
            arguments = _read(tool, given)
            await anyio.to_thread.run_sync(self._fence.hold)
            reply = await self._reply(tool, arguments, say)
            if reply.document is None and reply.error is not None:
                return _failed(reply.error, most, reply.notes), True
            return _answer(tool, arguments, reply, most), False
        except WorkbenchError as error:
            facts = ErrorFacts(code=error.exit_code, message=error.message, hint=error.hint)
            return _failed(facts, most), True
        except Exception as error:  # one call that fails must not end the connection
            words = f"an internal error of workbench: {type(error).__name__}: {error}"
            facts = ErrorFacts(code=70, message=words, hint="Report the call and this answer.")
            return _failed(facts, most), True

    def _tool(self, name: str) -> Tool:
        tool = BY_NAME.get(name)
        if tool is None:
            raise UsageError(f"there is no tool {name[:100]!r}", did_you_mean(name[:100], BY_NAME))
        need(self._permits, tool.permit, name)
        return tool

    async def _reply(self, tool: Tool, given: takes.Arguments, say: Say) -> Reply:
        match given:
            case takes.SourceArguments():
                return await _document(
                    lambda: self._workshop.source(
                        given.version, given.file, given.first, given.study
                    )
                )
            case takes.NewArguments():
                about = given.title, given.change, given.text
                return await _document(
                    lambda: self._workshop.start(given.version, given.parent, given.study, about)
                )
            case takes.EditArguments():
                return await _document(
                    lambda: self._workshop.write(given.version, given.study, given.text)
                )
            case takes.ExplainArguments():
                return await _document(
                    lambda: {"counters": [meaning(word) for word in given.words]}
                )
        words = command_of(tool.name, given, self._fence)
        limiter = self._looking if tool.permit is None else self._measuring
        async with limiter:
            json = tool.name != "profile"
            return await run_command(words, self._project.root, say, json=json)


async def _document(make: Callable[[], Json]) -> Reply:
    return Reply(document=await anyio.to_thread.run_sync(make))


def _read(tool: Tool, given: Json) -> takes.Arguments:
    try:
        return msgspec.convert(given, tool.takes)
    except (msgspec.ValidationError, RecursionError, OverflowError) as error:
        known = ", ".join(tool.takes.__struct_fields__)
        raise UsageError(f"{tool.name}: {error}", f"It takes {known}.") from error


# --- answers -----------------------------------------------------------------------------------


def _answer(tool: Tool, given: takes.Arguments, reply: Reply, most: int) -> Json:
    """The part of a reply that was asked for, in at most `most` bytes."""
    whole = answer_of(tool.name, reply.document)
    if tool.name == "profile":
        whole = {"said": list(reply.lines)}

    beside: Json = {}
    if reply.error is not None:
        beside["error"] = _cut(reply.error, most // 8)
    if reply.notes:
        beside["notes"] = [_short(note, most // 16) for note in reply.notes[-3:]]

    def packed(page: Fitted) -> Json:
        more = {"more": msgspec.to_builtins(page.more)} if page.more else {}
        return {"answer": page.value, **more, **beside}

    select = given.select if isinstance(given.select, str) else ""
    value = picked(whole, given.select)
    page = fitted(value, select, given.offset, lambda page: wire_size(packed(page)) + FRAME <= most)
    return packed(page)


def _cut(error: ErrorFacts, most: int) -> Json:
    """An error of which message and hint have at most `most` bytes each."""
    message, hint = _short(error.message, most), _short(error.hint, most)
    return {"code": error.code, "message": message, "hint": hint}


def _short(text: str, most: int) -> str:
    while wire_size(text) > most:
        text = text[: len(text) * 3 // 4]
    return text


def _failed(error: ErrorFacts, most: int, notes: tuple[str, ...] = ()) -> Json:
    """An error whole where it fits; its message is cut last of all."""
    out: Json = {"error": error.plain()}
    if notes:
        out["notes"] = list(notes)
    if wire_size(out) + FRAME > most:
        out = {"error": _cut(error, most // 3)}
    return out


# --- the protocol --------------------------------------------------------------------------------


def server_of(desk: Desk) -> Server[Any]:
    """The desk behind the protocol."""

    async def list_tools(_: Context, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(name=tool.name, description=tool.text, input_schema=tool.schema)
                for tool in desk.tools()
            ]
        )

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        async def say(seconds: float, line: str) -> None:
            await context.session.report_progress(seconds, None, line)

        answer, failed = await desk.call(params.name, params.arguments or {}, say)
        text = msgspec.json.encode(answer).decode()
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)], is_error=failed
        )

    async def list_resources(_: Context, __: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=r.uri, name=r.name, description=r.text, mime_type=r.mime)
                for r in RESOURCES
            ]
        )

    async def list_templates(_: Context, __: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=r.uri, name=r.name, description=r.text, mime_type=r.mime
                )
                for r in TEMPLATES
            ]
        )

    async def read(_: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        try:
            text, mime = read_resource(str(params.uri))
        except WorkbenchError as error:
            facts = {"code": error.exit_code, "hint": error.hint}
            raise MCPError(types.INVALID_PARAMS, error.message, facts) from error
        contents = types.TextResourceContents(uri=params.uri, mime_type=mime, text=text)
        return types.ReadResourceResult(contents=[contents])

    return Server(
        "workbench",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read,
    )


def serve(project: Project, permits: frozenset[Permit]) -> None:
    """Answer one client on standard input and output, until it closes them."""
    os.chdir(project.root)
    server = server_of(Desk(project, permits))

    async def run() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(run)
