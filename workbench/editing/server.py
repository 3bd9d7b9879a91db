"""The language server: pygls' protocol over standard input and output.

`analysis.beside` writes the hints, `editing.opened` the remarks on versions and edits. A file that
cannot be read loses only its own hints, and gives a line in the client's log.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from lsprotocol import types
from msgspec import Meta
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from workbench import __version__
from workbench.analysis.line_notes import Beside
from workbench.editing.named import NamedFile, look
from workbench.editing.opened import OpenedFile, Remark, Tried, remarks, trial
from workbench.errors import WorkbenchError
from workbench.language import VARIABLE, _, asked, told, use
from workbench.model import Profile, Record
from workbench.processes.ending import end_group, guarded
from workbench.session.api import CoreSession
from workbench.session.workspace import Selection
from workbench.views.text.safe_output import block, visible

_T = TypeVar("_T")
#: The most bytes of one piece of a trial's results.
_MOST_BYTES = 64 << 20
#: Seconds that a trial has for its last results, beyond its time limit.
_LAST_WORDS_S = 2.0
#: The client's command that runs the given words; a client may ignore it.
RUN = "workbench.run"


class Wishes(Record, frozen=True, forbid_unknown_fields=True):
    """Options of a client when it begins (``initializationOptions``).

    Attributes:
        verify: ``onSave``: try each saved version in the emulator; this runs its study's code.
        timeout: Seconds after which a trial ends.
        problem, device: Choose the records that are shown; None: as `show` chooses.
        reports: Names or patterns of reports to read, in a file's folder and in those above it.
    """

    verify: Literal["never", "onSave"] = "never"
    timeout: Annotated[float, Meta(ge=1, le=3600)] = 20.0
    problem: str | None = None
    device: str | None = None
    reports: tuple[str, ...] = ()


class Editing:
    """Answers one client; `chosen`: the user set the language, else the editor sets it."""

    def __init__(self, server: LanguageServer, *, chosen: bool) -> None:
        self._server, self._chosen = server, chosen
        self._worker = ThreadPoolExecutor(1)
        self._wishes = Wishes()
        # By the URI of an open file: the counts of its trial, faults from records and from the
        # trial, and the trial.
        self._tried: dict[str, Profile] = {}
        self._recorded: dict[str, list[Remark]] = {}
        self._faults: dict[str, list[Remark]] = {}
        self._trials: dict[str, asyncio.Task[None]] = {}
        self._shown: set[str] = set()
        # Messages already in the client's log, by file.
        self._told: dict[str, set[str]] = defaultdict(set)

    async def aside(self, work: Callable[..., _T], *given: Any) -> _T:
        """Do slow work (a long file, a report) in order, without blocking other answers."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, work, *given)

    def begin(self, given: types.InitializeParams) -> None:
        """Use the client's language, and take its options; unreadable ones are ignored."""
        if given.locale and not self._chosen:
            use(asked({VARIABLE: given.locale}))
        wishes = given.initialization_options
        try:
            self._wishes = msgspec.convert({} if wishes is None else wishes, Wishes)
        except (msgspec.ValidationError, RecursionError) as error:
            words = _("initializationOptions cannot be read, so all are ignored: {error}")
            self._say(types.MessageType.Error, words.format(error=told(str(error))))

    async def opened(
        self, given: types.DidOpenTextDocumentParams | types.DidSaveTextDocumentParams
    ) -> None:
        """Report the faults of a file that its records show."""
        uri = given.text_document.uri
        self._faults.pop(uri, None)
        self._told.pop(uri, None)
        found = await self.aside(self._of, uri, lambda file: file.faults())
        if uri in self._server.workspace.text_documents:
            self._recorded[uri] = found or []
            self._publish()

    def closed(self, uri: str) -> None:
        """Forget a file, and end its trial."""
        if uri in self._trials:
            self._trials.pop(uri).cancel()
        for kept in (self._tried, self._recorded, self._faults, self._told):
            kept.pop(uri, None)
        self._publish()

    def hints(self, given: types.InlayHintParams) -> list[types.InlayHint]:
        """Hints at the ends of lines."""
        uri, wanted = given.text_document.uri, given.range
        codec, text = self._server.workspace.position_codec, self._text(uri).splitlines()
        out, lines = [], self._lines(uri)
        mark = (self._of(uri, lambda file: file.mark) or "") if lines else ""
        for number, found in sorted(lines.items()):
            words = [each.short for each in found if each.telling]
            said = visible(" · ".join([*words, *[mark] * bool(mark)])) if words else ""
            if said and wanted.start.line < number <= min(wanted.end.line + 1, len(text)):
                end = types.Position(number - 1, len(text[number - 1]))
                at = codec.position_to_client_units(text, end)
                out.append(types.InlayHint(position=at, label=said, padding_left=True))
        return out

    def hover(self, given: types.HoverParams) -> types.Hover | None:
        """All values of a line, each with its meaning, and the records that they come from."""
        uri = given.text_document.uri
        found = self._lines(uri).get(given.position.line + 1)
        if not found:
            return None
        parts = [f"**{each.title}** {each.words}  \n{each.counter.meaning}" for each in found]
        tried = self._tried.get(uri)
        saved = _("emulated on {problem}, from the saved file")
        origin = [saved.format(problem=tried.problem)] if tried else []
        origin += self._of(uri, lambda file: file.origin()) or []
        text = "\n\n".join([*parts, f"*{visible('; '.join(origin))}*"])
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text))

    def lenses(self, given: types.CodeLensParams) -> list[types.CodeLens]:
        """Lenses above a version's kernel: text, and commands for the client."""
        out, uri = [], given.text_document.uri
        for head in self._of(uri, lambda file: file.heads(self._text(uri))) or ():
            at = types.Range(*[types.Position(head.line - 1, 0)] * 2)
            out.append(types.CodeLens(at, types.Command(visible(head.words), "")))
            for title, words in head.commands:
                runs = types.Command(visible(title), RUN, arguments=[["workbench", *words]])
                out.append(types.CodeLens(at, runs))
        return out

    # --- a trial -----------------------------------------------------------------------------

    async def saved(self, given: types.DidSaveTextDocumentParams) -> None:
        """Try a version as it is now, if the client asked for that; an earlier trial is stopped."""
        uri = given.text_document.uri
        await self.opened(given)
        if self._wishes.verify != "onSave":
            return
        if uri in self._trials:
            self._trials.pop(uri).cancel()
        self._trials[uri] = task = asyncio.create_task(self._try(uri))
        with contextlib.suppress(asyncio.CancelledError):
            await task

    def end(self) -> None:
        """End all trials; those still running end with the server."""
        for task in self._trials.values():
            task.cancel()

    async def _try(self, uri: str) -> None:
        place = self._of(uri, lambda file: (file.root, file.version(), file.path))
        if place is None or not place[1]:
            return
        root, version, path = place
        begin = trial(root, version, self._wishes.timeout)
        with guarded() as guard:
            process = await asyncio.create_subprocess_exec(
                *begin.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=begin.cwd,
                env={**begin.env, **guard.mark},
                start_new_session=True,
                limit=_MOST_BYTES,
            )
            guard.tell(process.pid)
            assert process.stdout is not None
            try:
                async with asyncio.timeout(self._wishes.timeout + _LAST_WORDS_S):
                    async for line in process.stdout:
                        self._take(uri, version, path, msgspec.json.decode(line, type=Tried))
                    await process.wait()
            except TimeoutError:
                limit = self._wishes.timeout
                words = told(f"{version} did not end within {limit:g} s in the emulator")
                self._take(uri, version, path, Tried(faults=(words,)))
            finally:
                if process.returncode is None:
                    await asyncio.shield(asyncio.to_thread(end_group, process.pid))

    def _take(self, uri: str, version: str, path: str, piece: Tried) -> None:
        """Show a trial's results."""
        if piece.profile is not None:
            self._tried[uri] = piece.profile
        elif piece.moved:
            self._say(types.MessageType.Info, f"{version}: {piece.moved}")
        else:
            self._faults[uri] = [each for words in piece.faults for each in remarks(words, path)]
            if piece.faults:
                self._tried.pop(uri, None)
            self._publish()
        self._refresh()

    def _refresh(self) -> None:
        """Make the client ask for hints again, if it supports that."""
        able = self._server.client_capabilities.workspace
        if able and able.inlay_hint and able.inlay_hint.refresh_support:
            self._server.workspace_inlay_hint_refresh(None)

    # --- a file --------------------------------------------------------------------------------

    def _of(self, uri: str, ask: Callable[[OpenedFile | NamedFile], _T]) -> _T | None:
        """Answer a question about a file; None if it has no answer.

        The client's log gets each read error once while a file is open.
        """
        path = to_fs_path(uri)
        if path is None or "\0" in path:
            return None
        wish = Selection(problem=self._wishes.problem, device=self._wishes.device)
        try:
            real = Path(os.path.realpath(path))
            file = look(CoreSession(real.parent), real, wish, self._wishes.reports)
            found = ask(file)
        except WorkbenchError as error:
            self._log(uri, [error])
            return None
        self._log(uri, file.troubles)
        return found

    def _log(self, uri: str, errors: Iterable[WorkbenchError]) -> None:
        for error in errors:
            words = visible(" ".join(map(told, filter(None, (f"{error.message}.", error.hint)))))
            if words not in self._told[uri]:
                self._told[uri].add(words)
                kind = types.MessageType.Info
                self._server.window_log_message(types.LogMessageParams(kind, words))

    def _text(self, uri: str) -> str:
        return str(self._server.workspace.get_text_document(uri).source)

    def _lines(self, uri: str) -> dict[int, list[Beside]]:
        """Notes on the lines of the current text: counts of a trial, if there is one, and times."""
        ask, tried = self._text(uri), self._tried.get(uri)
        return self._of(uri, lambda file: file.lines(ask, tried)) or {}

    def _publish(self) -> None:
        """Show all remarks at their lines, and take back those that no longer hold."""
        every: dict[str, list[Remark]] = defaultdict(list, {uri: [] for uri in self._recorded})
        for kept in (self._recorded, self._faults):
            for uri, own in kept.items():
                for each in own:
                    place = self._of(uri, lambda file, path=each.path: file.beside(path))  # type: ignore[misc]
                    every[uri if place is None else place.as_uri()].append(each)
        for uri in sorted({*every, *self._shown}):
            shown = list(map(_diagnostic, every.get(uri, ())))
            said = types.PublishDiagnosticsParams(uri, shown)
            self._server.text_document_publish_diagnostics(said)
        self._shown = {uri for uri, own in every.items() if own}

    def _say(self, kind: types.MessageType, words: str) -> None:
        self._server.window_show_message(types.ShowMessageParams(kind, visible(words)))


def _diagnostic(found: Remark) -> types.Diagnostic:
    line = max(found.line - 1, 0)
    # `told` can translate an emulator's message only together with its place.
    place = f"{found.path}:{found.line}"
    words = (
        told(f"{place}: {found.words}").removeprefix(place).removeprefix("：").removeprefix(": ")
    )
    return types.Diagnostic(
        range=types.Range(types.Position(line, 0), types.Position(line + 1, 0)),
        message=block(words),
        severity=types.DiagnosticSeverity.Warning,
        source="workbench",
    )


# --- the protocol ------------------------------------------------------------------------------


def server_of(*, chosen: bool = False) -> LanguageServer:
    """The protocol with its handlers; see `Editing`."""
    server = LanguageServer("workbench", __version__)
    desk = Editing(server, chosen=chosen)

    def later(work: Callable[..., Awaitable[_T]], *first: object) -> Callable[[Any], Awaitable[_T]]:
        async def answer(given: Any) -> _T:
            return await work(*first, given)

        return answer

    answers: dict[str, Callable[[Any], Any]] = {
        types.INITIALIZE: lambda given: desk.begin(given),
        types.TEXT_DOCUMENT_DID_OPEN: later(desk.opened),
        types.TEXT_DOCUMENT_DID_SAVE: later(desk.saved),
        types.TEXT_DOCUMENT_DID_CLOSE: lambda given: desk.closed(given.text_document.uri),
        types.TEXT_DOCUMENT_INLAY_HINT: later(desk.aside, desk.hints),
        types.TEXT_DOCUMENT_HOVER: later(desk.aside, desk.hover),
        types.TEXT_DOCUMENT_CODE_LENS: later(desk.aside, desk.lenses),
        types.SHUTDOWN: lambda _: desk.end(),
    }
    for name, answer in answers.items():
        server.feature(name)(answer)
    return server


def serve(*, chosen: bool) -> None:
    """Answer one client on standard input and output, until it closes them.

    `chosen`: the user set the language, else the editor sets it.
    """
    # pygls closes both at the end; later messages still have our own streams.
    with os.fdopen(os.dup(0), "rb") as reading, os.fdopen(os.dup(1), "wb") as writing:
        server_of(chosen=chosen).start_io(reading, writing)
