"""The command line: a lazy click group, so that ``--help`` imports no command."""

from __future__ import annotations

import codecs
import contextlib
import errno
import importlib
import io
import itertools
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import click

from workbench import __version__, language
from workbench.errors import MissingError, UsageError, WorkbenchError, did_you_mean
from workbench.features import FEATURES
from workbench.language import _, told
from workbench.views.text.safe_output import complain, say, write

#: Exit code for a fault of our own (EX_SOFTWARE of sysexits.h), so that it is never
#: mistaken for a verdict on a kernel.
INTERNAL = 70

#: Commands of the core: name -> (module in workbench.commands, heading, one line for --help).
_CORE: dict[str, tuple[str, str, str]] = {
    "init": ("init", "Start", "Make this folder a workbench project."),
    "new": ("new", "Start", "Start a new version (or study) from the one before it."),
    "doctor": ("doctor", "Start", "Check this machine, and how to install what it lacks."),
    "docs": ("docs", "Start", "Read the documentation and JSON schemas, without a network."),
    "verify": ("verify", "Measure", "Check a version against the float64 reference."),
    "profile": ("profile", "Measure", "Verify, time and profile a version under an engine."),
    "time": ("time_", "Measure", "Time a version against the baseline, outside of any profiler."),
    "list": ("list_", "Look", "List studies and versions with their records."),
    "show": ("show", "Look", "Show a version's (or report file's) counters, lines and rules."),
    "diff": ("diff", "Look", "Compare two versions: what moved, and the code that moved it."),
    "report": ("report", "Look", "Write the HTML site to reports/."),
    "serve": ("serve", "Serve", "Serve the HTML site on this machine, and keep it up to date."),
}
_FEATURES = {
    name: (f"{each.name}.{module}", "Start" if name == each.first else each.heading, text)
    for each in FEATURES
    for name, (module, text) in each.commands.items()
}
_OURS = {name: (f"commands.{each[0]}", *each[1:]) for name, each in _CORE.items()}
#: Command name -> (module in workbench, heading, one line for --help), in the order of --help.
COMMANDS: dict[str, tuple[str, str, str]] = dict(
    sorted((_OURS | _FEATURES).items(), key=lambda each: all(each[0] != x.first for x in FEATURES))
)
#: Commands whose exit code is a verdict on code that they run, and that might end the process.
_JUDGING = {"check", "verify"}

#: Commands of the last release -> what they are now.
_MOVED = {"schema": "docs schema", "sweep": "time --all-problems --resume"}
_MOVED |= {old: new for each in FEATURES for old, new in each.moved.items()}
#: Other tools' names of commands, or obvious ones -> ours.
_MEANT = {"compare": "diff", "ls": "list", "ncu": "profile", "bench": "time", "test": "verify"}

#: A Chinese line does not begin with a closing mark or end with an opening one.
_CLOSING, _OPENING = r"。，、；：？！）”’》」…—)\]},.;:!?", r"（“‘《「(\["
#: An unbreakable piece, with its marks and blanks: a text in brackets, the last two wide signs (one
#: alone on a line looks lost), another wide sign, or a word.
_WIDE = r"[\u2e80-\uffef]"
_PIECE = (
    rf"\[[^\s\]]*\][{_CLOSING}]*\s*|[{_OPENING}]*(?:{_WIDE}{{2}}(?=[{_CLOSING}]*(?:$|  ))|{_WIDE}"
    rf"|[^\s（“‘\u2e80-\uffef]+)?[{_CLOSING}]*\s*"
)


class ToldHelp(click.HelpFormatter):
    """Help in a language other than English: click's layout, with texts from the catalogue.

    click breaks lines only at blanks and counts letters; here a line may also end after a wide
    letter, which takes two cells.
    """

    def said(self, text: str) -> str:
        """A text in the current language; a test overrides this to collect all texts."""
        return _(text)

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write a command's usage."""
        head = f"{prefix or _('Usage: ')}{prog} "
        lines = _lines(args, max(self.width - _cells(head), 20))
        self.write(head + f"\n{'':{_cells(head)}}".join(lines) + "\n")

    def write_heading(self, heading: str) -> None:
        """Write the heading above options or commands."""
        self.write(f"{'':{self.current_indent}}{self.said(f'{heading}:')}\n")

    def write_text(self, text: str) -> None:
        """Write paragraphs; each is one text in the catalogue."""
        for n, each in enumerate(re.split(r"\n\s*\n", text)):
            lines = _lines(self.said(" ".join(each.split())), self.width - self.current_indent)
            self.write("\n" if n else "")
            self.write("".join(f"{'':{self.current_indent}}{line}\n" for line in lines))

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        """Write options or commands and their descriptions, to which click has added defaults."""
        rows = list(rows)
        first = min(max(len(name) for name, __ in rows), col_max) + col_spacing
        laid = []
        for name, row in rows:
            text, more, extra = row.partition("  [")
            extra = "；".join(map(told, extra.removesuffix("]").split("; ")))
            said = self.said(text) + (f"  [{extra}]" if more else "")
            # click does not rewrap a text that begins with a backspace.
            lines = _lines(said, max(self.width - first - 2, 10))
            laid.append((name, "\n".join(("\b", *lines))))
        super().write_dl(laid, col_max, col_spacing)


def _lines(text: str, width: int) -> list[str]:
    """Break a text into lines of at most `width` cells."""
    lines = [""]
    for piece in filter(None, re.findall(_PIECE, text)):
        if lines[-1] and _cells(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _cells(text: str) -> int:
    from rich.cells import cell_len  # not needed for English

    return cell_len(text)


class HelpContext(click.Context):
    """The context of a command's help, in the language set when it is shown."""

    def make_formatter(self) -> click.HelpFormatter:
        """Return the help formatter; click's own for English."""
        if language.current() == "en":
            return super().make_formatter()
        return ToldHelp(width=self.terminal_width, max_width=self.max_content_width)


class LazyGroup(click.Group):
    """A group that imports a command's module only when the command runs."""

    context_class = HelpContext

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Choose the language first: help and errors on wrong words use it."""
        ctx.resilient_parsing, resilient = True, ctx.resilient_parsing  # before the wrong word
        given = self.make_parser(ctx).parse_args(list(args))[0]
        ctx.resilient_parsing = resilient
        lang = given.get("lang")
        known = lang if lang in language.LANGUAGES else language.asked(os.environ)
        language.use("en" if given.get("json_errors") else known)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Top-level commands, in the order in which a new user meets them."""
        return [each for each in COMMANDS if each.partition(" ")[0] not in COMMANDS.keys() - {each}]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module and return its ``command``."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"workbench.{entry[0]}")
        command: click.Command = module.command
        command.context_class = HelpContext
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the command nearest to an unknown one, or the successor of an old one."""
        if (words := _MOVED.get(args[0])) is not None:
            if not ctx.params.get("json_errors"):
                say(f"note: `workbench {args[0]}` is `workbench {words}` from now on", err=True)
            args = [*words.split(), *args[1:]]
        if (two := " ".join(args[:2])) in COMMANDS:
            args = [two, *args[2:]]
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            meant = _MEANT.get(args[0])
            hint = (
                f"Did you mean `{meant}`?" if meant else did_you_mean(args[0], COMMANDS, "commands")
            )
            raise click.UsageError(f"{error.message} {hint}", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands from the table above, without importing them."""
        shown = {name: COMMANDS[name] for name in self.list_commands(ctx)}
        longest = max(map(len, shown))
        for heading in dict.fromkeys(each[1] for each in shown.values()):
            with formatter.section(heading):
                formatter.write_dl(
                    [(f"{k:<{longest}}", v[2]) for k, v in shown.items() if v[1] == heading]
                )


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="workbench")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.option("--json-errors", is_flag=True, help="Print errors as one line of JSON.")
@click.option(
    "--lang",
    type=click.Choice(list(language.LANGUAGES)),
    help="Language of the output (default: that of WORKBENCH_LANG, or of LANG).",
)
@click.pass_context
def app(ctx: click.Context, /, debug: bool, **_of_parsing: object) -> None:
    """What did my change to a CUDA kernel move, by how much, and on which line?

    A target names everything: sgemm/v3:n4096@h200 is study, version, problem and device; v3,
    v3:n4096 and sgemm are targets too. A report
    file, x.ncu-rep or x.ncu-rep::kernel, may replace any version.
    """
    ctx.obj = {"debug": debug}


def _print_error(error: WorkbenchError, *, code: int | None = None, plain: bool = False) -> None:
    """Print message and hint on standard error; `plain`: as JSON, with the exit code."""
    if plain:
        from workbench.views.shapes import ErrorDocument, ErrorFacts, compact

        facts = ErrorFacts(code=code or error.exit_code, message=error.message, hint=error.hint)
        with contextlib.suppress(OSError, ValueError):
            write(f"{compact(ErrorDocument(error=facts).plain())}\n", err=True)
        return

    # If standard error fails as well, the exit code remains.
    with contextlib.suppress(OSError, ValueError):
        complain(error)


def _print_usage(error: click.ClickException) -> None:
    """Print click's message about a wrong command line; it may quote any characters."""
    shown = io.StringIO()
    error.show(shown)
    usage, wrong, __ = shown.getvalue().partition("Error: ")
    with contextlib.suppress(OSError, ValueError):
        if not wrong:  # no arguments: show the help
            write(usage, err=True)
            return
        write("\n".join(map(told, usage.split("\n"))), err=True)
        say(error.format_message(), err=True, head=_("Error: "))


def _ready_streams() -> None:
    """Open missing standard streams, and make all three accept every character.

    Otherwise the next file opened gets a closed stream's number, and receives a child's output.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 - until we end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
            # JSON decodes the escape; a terminal needs one character in its place.
            stream.reconfigure(errors="replace" if stream.isatty() else "backslashreplace")


def _of_the_system(error: Exception) -> WorkbenchError | None:
    """The error for a failed system call or a lacking resource; None: another kind of error."""
    from workbench.disk.opening import refused, unanswered

    if (known := unanswered(error)) is not None or not isinstance(error, OSError):
        return known
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS):
        if error.filename is not None:
            return refused(os.fsdecode(error.filename), error)
        return MissingError(
            f"cannot write the answer: {error.strerror}",
            "Free some space, or send standard output somewhere else.",
        )
    if isinstance(error, PermissionError) and error.filename is not None:
        return MissingError(
            f"{os.fsdecode(error.filename)}: {str(error.strerror).lower()}",
            "Check the permissions of the file, and of the folders above it.",
        )
    if "temporary directory" in str(error.strerror):  # `tempfile` has tried all its folders
        return MissingError(
            "no folder for temporary files is writable",
            "Free some space there (/tmp), or set TMPDIR to a folder that has some.",
        )
    try:
        os.getcwd()  # noqa: PTH109 - `Path.cwd` would call it as well
    except OSError:
        return MissingError("the working folder no longer exists", "Go to another folder (`cd`).")
    return None


def _for_python(arguments: Iterable[str], error: WorkbenchError) -> str:
    """Return the commands for a Python program given to a command for CUDA programs; else ""."""
    own = itertools.takewhile(lambda word: word != "--", arguments)
    for word in [*own, error.message.partition(":")[0]]:
        text = ""
        if word.endswith(".py") and error.exit_code in (2, 3):
            with contextlib.suppress(OSError, ValueError):
                text = Path(word).read_text(encoding="utf-8") if Path(word).is_file() else ""
        kind = re.search(r"^\s*(?:import|from)\s+(triton|numba|cupy)\b", text, re.MULTILINE)
        if kind and "\n---" not in text:  # a version has front matter
            keeps = f"`workbench capture NAME -- python {word}` keeps their counters"
            if kind[1] == "cupy":
                return f"The kernels of {word} are in Python: {keeps} on a machine with a GPU."
            return (
                f"The kernels of {word} are in Python: `workbench run -- python {word}` checks "
                f"them without a GPU, {keeps}."
            )
    return ""


def _leave(code: int) -> NoReturn:
    """End; leave nothing in a buffer that Python would fail to write at exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


def main(argv: list[str] | None = None) -> int:
    """Entry point: returns 0, or exits with one of the codes of docs/exit-codes.md."""
    arguments = sys.argv[1:] if argv is None else argv
    # Our options precede the command; options after it may belong to another program.
    pairs = itertools.pairwise(["", *arguments])
    ours = list(itertools.takewhile(lambda two: two[1][:1] == "-" or two[0] == "--lang", pairs))
    plain = any(each == "--json-errors" for _, each in ours)
    if argv is None and _JUDGING.intersection(arguments[len(ours) :][:1]):
        verdict = importlib.import_module("workbench.processes.verdict")
        code: int | None = verdict.awaited(lambda: main(arguments))
        if code is None:
            hint = "study.py, or code that it uses, ends it (`os._exit`, `exec`)."
            error = UsageError("the process ended without a verdict", hint)
            _print_error(error, plain=plain)
        return error.exit_code if code is None else code
    debug = "--debug" in arguments
    _ready_streams()
    try:
        # Not click's own standalone mode: it would turn Ctrl-C into exit code 1.
        # `ctx.exit(code)` comes back as the returned value.
        try:
            code = app.main(args=arguments, prog_name="workbench", standalone_mode=False)
        finally:
            if not isinstance(sys.exception(), Exception):  # also if a command exits by itself
                sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        if plain:
            hint = "`workbench --help` lists commands, `workbench COMMAND --help` options."
            wrong = WorkbenchError(error.format_message(), hint)
            _print_error(wrong, code=error.exit_code, plain=True)
        else:
            _print_usage(error)
        sys.exit(error.exit_code)
    except WorkbenchError as error:
        if debug:
            raise
        error.hint = _for_python(arguments, error) or error.hint
        _print_error(error, plain=plain)
        _leave(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        stopped = WorkbenchError("interrupted", "Finished work is kept.")
        _print_error(stopped, code=130, plain=plain)
        sys.exit(130)
    except BrokenPipeError:
        # `workbench list | head`: the reader has closed the pipe, which is not our error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if debug:
            raise
        known = _of_the_system(error)
        if known is not None:
            _print_error(known, plain=plain)
            _leave(known.exit_code)
        _print_error(
            WorkbenchError(
                f"an internal error of workbench: {type(error).__name__}: {error}",
                "Run the same command as `workbench --debug …` and report what it prints.",
            ),
            code=INTERNAL,
            plain=plain,
        )
        sys.exit(INTERNAL)


if __name__ == "__main__":
    sys.exit(main())
