"""The server: the official SDK's protocol on standard input and output, without extensions.

A call is checked, run, and answered in at most the requested number of bytes. An
error is an answer too, with the exit code and the hint that the command line gives.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from importlib.resources import files
from typing import Any, NamedTuple, cast

import anyio
import anyio.abc
import anyio.to_thread
import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from msgspec.structs import replace

from workbench import __version__
from workbench.agents import arguments as takes
from workbench.agents.fence import Fence, Permit, need
from workbench.agents.pages import FRAME, Fitted, fitted, picked, wire_size
from workbench.agents.tools import BY_NAME, TOOLS, Tool, answer_of, command_of, in_arguments
from workbench.agents.versions import Workshop
from workbench.counters import Counter, catalog
from workbench.errors import DataError, UsageError, WorkbenchError, did_you_mean
from workbench.model import Record
from workbench.processes.ending import end_group, guarded
from workbench.processes.starting import own_module
from workbench.project import CLOSED_VARIABLE, Project
from workbench.views.shapes import ErrorDocument, ErrorFacts, Json, compact
from workbench.views.shapes.schema import SHAPES, schema_of
from workbench.views.text.safe_output import block, visible

# --- what a client may read at any time ---

SCHEME = "workbench://"
_JSON = "application/json"
#: Fields of each counter in the list of all.
_LISTED = ("id", "title", "unit", "better")


class Readable(NamedTuple):
    """One readable resource; `uri` may contain a ``{name}``."""

    uri: str
    name: str
    text: str
    mime: str = _JSON


RESOURCES = (
    Readable(
        f"{SCHEME}vocabulary",
        "vocabulary",
        "What the words in the answers mean, and how to use the tools.",
        "text/markdown",
    ),
    Readable(f"{SCHEME}counters", "counters", "Ids, titles and units of all counters."),
    *(
        Readable(f"{SCHEME}schema/{command}", f"schema-{command}", f"JSON schema: {command}.")
        for command in SHAPES
    ),
)
TEMPLATES = (
    Readable(f"{SCHEME}counters/{{id}}", "counter", "What one counter means, and how it is named."),
)


def meaning(word: str) -> Json:
    """Explain a counter, by its id or one of ncu's names.

    Raises UsageError: unknown; the hint names the nearest ones.
    """
    known = catalog()
    counter = next(
        (each for each in known if word == each.id or word in each.names or word in each.lines),
        None,
    )
    if counter is None:
        ids = [each.id for each in known]
        raise UsageError(f"there is no counter {word!r}", did_you_mean(word, ids, "counters"))
    return _whole(counter)


def _whole(counter: Counter) -> Json:
    return {
        "id": counter.id,
        "title": counter.title,
        "meaning": counter.meaning,
        "unit": counter.unit,
        "better": counter.better,
        "group": catalog().groups[counter.group],
        "names": list(counter.names),
        "formulas": list(counter.formulas),
        "lines": list(counter.lines),
        "noise": counter.noise,
        "doc": counter.doc,
    }


def read_resource(uri: str) -> tuple[str, str]:
    """Return the text of a resource, and its type; UsageError: unknown."""
    kind, _, name = uri.removeprefix(SCHEME).partition("/")
    if uri.startswith(SCHEME):
        if kind == "vocabulary" and not name:
            text = files("workbench").joinpath("data", "vocabulary.md").read_text(encoding="utf-8")
            return text, "text/markdown"
        if kind == "counters":
            listed = [{key: getattr(each, key) for key in _LISTED} for each in catalog()]
            return compact(meaning(name) if name else {"counters": listed}), _JSON
        if kind == "schema" and name in SHAPES:
            return compact(schema_of(name)), _JSON
    known = [resource.uri for resource in RESOURCES]
    raise UsageError(f"there is no resource {uri[:200]!r}", did_you_mean(uri, known, "resources"))


# --- a command as a process, which we always end, even if a client cancels it ---

#: Called with the seconds since the start and the command's last line of output.
Say = Callable[[float, str], Awaitable[None]]
#: Lines of standard error that an answer repeats, and characters of each.
_LINES, _WIDTH = 20, 300
#: Far above the size of any command's document.
_MOST_BYTES = 256 << 20
#: Seconds between two reports of progress.
_BEAT_S = 2.0
#: Seconds between Ctrl-C and SIGTERM.
_ORDERLY_S = 3.0


class _TooMuchError(Exception):
    """A command printed more than an answer may hold."""


class Reply(Record, frozen=True):
    """Output of a command: its document (or its lines, without one), its notes, and its error."""

    document: Any = None
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    error: ErrorFacts | None = None


async def run_command(
    words: Sequence[str], project: Project, say: Say, *, json: bool = True
) -> Reply:
    """Run ``workbench WORDS`` in the project's folder; `say` gets each line of standard error.

    If the caller is cancelled, the command gets Ctrl-C, which keeps finished work, and then all of
    its processes are ended. Raises DataError: its output is larger than an answer may be.
    """
    start = own_module("workbench.cli", "--json-errors", *words, cwd=project.root)
    fixed = {CLOSED_VARIABLE: "1" if project.closed else "", "NO_COLOR": "1"}
    with guarded() as guard:
        process = await anyio.open_process(
            start.argv,
            stdin=subprocess.DEVNULL,
            cwd=start.cwd,
            env={**start.env, **fixed, **guard.mark},
            start_new_session=True,
        )
        guard.tell(process.pid)
        try:
            output, told = await _heard(process, say, aloud=not json)
            await process.wait()
        finally:
            if process.returncode is None:
                with anyio.CancelScope(shield=True):
                    await _end(process)
    return _reply(output, told, process.returncode or 0, json=json)


async def _heard(process: anyio.abc.Process, say: Say, *, aloud: bool) -> tuple[bytes, list[str]]:
    """Standard output, and the lines of standard error; `aloud`: report lines of the former too."""
    output = bytearray()
    told: deque[str] = deque(maxlen=_LINES + 1)
    begin = time.monotonic()

    async def listen() -> None:
        assert process.stdout is not None
        async for chunk in process.stdout:
            output.extend(chunk)
            if len(output) > _MOST_BYTES:
                raise _TooMuchError
            if aloud:
                line = chunk.decode("utf-8", "replace").rstrip().rpartition("\n")[2]
                await say(time.monotonic() - begin, line[:_WIDTH])

    async def beat() -> None:
        while True:
            await anyio.sleep(_BEAT_S)
            await say(time.monotonic() - begin, told[-1][:_WIDTH] if told else "running")

    async def follow() -> None:
        assert process.stderr is not None
        rest = b""
        async for chunk in process.stderr:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                told.append(line.decode("utf-8", "replace"))
                await say(time.monotonic() - begin, told[-1][:_WIDTH])
        if rest:
            told.append(rest.decode("utf-8", "replace"))

    try:
        async with anyio.create_task_group() as beating:
            beating.start_soon(beat)
            async with anyio.create_task_group() as group:
                group.start_soon(listen)
                group.start_soon(follow)
            beating.cancel_scope.cancel()
    except* _TooMuchError as errors:
        raise DataError("the command printed too much", "Ask for less of it.") from errors
    return bytes(output), list(told)


async def _end(process: anyio.abc.Process) -> None:
    """Send Ctrl-C, so that it ends in order; then end all its processes."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    with anyio.move_on_after(_ORDERLY_S):
        await process.wait()
    await anyio.to_thread.run_sync(end_group, process.pid)
    with anyio.move_on_after(_ORDERLY_S):
        await process.wait()


def _reply(output: bytes, told: list[str], code: int, *, json: bool) -> Reply:
    error = None
    if told and told[-1].startswith('{"error":'):
        with contextlib.suppress(msgspec.MsgspecError):
            error = msgspec.json.decode(told[-1], type=ErrorDocument).error
            told = told[:-1]
    document = None
    if json and output:
        document = msgspec.json.decode(output)
    if error is None and code and document is None:
        error = ErrorFacts(
            code=code if code > 0 else 70,
            message=f"the command ended with {code}: {' '.join(told[-3:])[:_WIDTH]}",
            hint="Run it on a terminal to see more.",
        )
    lines = () if json else tuple(output.decode("utf-8", "replace").splitlines())
    notes = tuple(line[:_WIDTH] for line in told[-_LINES:] if line)
    return Reply(document=document, lines=lines, notes=notes, error=error)


#: The most commands that run at once: those that only read, and those that measure.
_LOOKING, _MEASURING = 4, 1
INSTRUCTIONS = """\
A workbench for CUDA kernels: what did a change move, by how much, and on which line? Call `list`
first, then `headroom` and `hot_lines` of the version to improve, `source` to read it, `strip` to
see why a step was faster or slower. Answers are cut to `max_bytes`; `more` says what is left out
and how to ask for it (`select`, `offset`). The resource workbench://vocabulary explains the words.
"""
Context = ServerRequestContext[Any, Any]
#: JSON's escapes: both halves of a character, one half alone (the group), and all others.
_ESCAPES = re.compile(r"\\(?:u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|(u[dD][89a-fA-F]\w\w)|.)")


class Desk:
    """Answers the calls on one connection; `permits` allow more than reading."""

    def __init__(self, project: Project, permits: frozenset[Permit]) -> None:
        self._project = project = replace(project, closed="files" not in permits)
        self._permits = permits
        self._fence = Fence(project)
        self._workshop = Workshop(project, python="python" in permits)
        self._looking = anyio.CapacityLimiter(_LOOKING)
        self._measuring = anyio.CapacityLimiter(_MEASURING)

    def tools(self) -> list[Tool]:
        """The permitted tools."""
        return [each for each in TOOLS if each.permit is None or each.permit in self._permits]

    async def call(self, name: str, given: Json, say: Say) -> tuple[Json, bool]:
        """Answer a call of the tool `name`; return the answer, and whether it is an error."""
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
            raise UsageError(
                f"there is no tool {name[:100]!r}", did_you_mean(name[:100], BY_NAME, "tools")
            )
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
            reply = await run_command(words, self._project, say, json=json)
        if reply.error is None:
            return reply
        return replace(reply, error=replace(reply.error, hint=in_arguments(reply.error.hint, tool)))


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
    """The requested part of a reply, in at most `most` bytes."""
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
    """An error whose message and hint have at most `most` bytes each."""
    message, hint = _short(error.message, most), _short(error.hint, most)
    return {"code": error.code, "message": message, "hint": hint}


def _short(text: str, most: int) -> str:
    while wire_size(text) > most:
        text = text[: len(text) * 3 // 4]
    return text


def _failed(error: ErrorFacts, most: int, notes: tuple[str, ...] = ()) -> Json:
    """The whole error if it fits; its message is cut last."""
    out: Json = {"error": error.plain()}
    if notes:
        out["notes"] = list(notes)
    if wire_size(out) + FRAME > most:
        out = {"error": _cut(error, most // 3)}
    return out


# --- the protocol --------------------------------------------------------------------------------


def server_of(desk: Desk) -> Server[Any]:
    """Make the protocol's server, which passes calls to the desk."""

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
            await context.session.report_progress(seconds, None, visible(line))

        answer, failed = await desk.call(params.name, params.arguments or {}, say)
        text = compact(answer)
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
            facts = {"code": error.exit_code, "hint": block(error.hint)}
            raise MCPError(types.INVALID_PARAMS, block(error.message), facts) from error
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


async def _lines() -> AsyncIterator[str]:
    """Messages from standard input; an incomplete character becomes U+FFFD."""
    async for line in anyio.wrap_file(sys.stdin.buffer):
        yield _ESCAPES.sub(lambda e: r"\ufffd" if e[1] else e[0], line.decode("utf-8", "replace"))


def serve(project: Project, permits: frozenset[Permit]) -> None:
    """Answer one client on standard input and output, until it closes them."""
    os.chdir(project.root)
    server = server_of(Desk(project, permits))

    async def run() -> None:
        async with stdio_server(cast("anyio.AsyncFile[str]", _lines())) as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(run)
