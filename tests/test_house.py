"""The rules of the house: what a module and a room say of themselves, and who imports whom.

Nothing is imported: every rule is read off the files and their syntax trees. The direction
of imports between rooms is another matter, which import-linter holds; here it is circles,
also those that only calls close.
"""

from __future__ import annotations

import ast
import gc
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cache
from pathlib import Path

import pytest

from tests.ceilings import book

REPO = Path(__file__).resolve().parent.parent
PACKAGE = REPO / "workbench"

MOST_LINES = 700  # of a module that does not say why it is longer
WHY_LONG = "one module because"
LONG = 600  # two modules that together are longer may stay two
MOST_LATE = 145  # imports inside of functions, in both packages: doors for a quick start
MOST_PARAMETERS = 8  # of a function
#: Folders of which each file is a command or a page.
ONE_A_FILE = ("workbench.commands.", "workbench.programs.cli.", "workbench.views.html.pages.")
#: Modules with one importer beside them that are no part of it, each with its reason.
STAND_ALONE: Mapping[str, str] = {
    "ptxemu.api": "the face, which `ptxemu` loads when it is first asked for",
    "ptxemu.faults.overflow": "how an index came to be, asked where an access missed all arrays",
    "ptxemu.pool": "forked processes, of which any may be killed at any moment",
    "workbench.agents.pages": "a format of its own: answers of a stated size",
    "workbench.agents.tools": "a row a tool, as `arguments` has a record",
    "workbench.agents.versions": "what a client may write, apart from the protocol",
    "workbench.frames.columns": "pandas is loaded by it alone",
    "workbench.gate.baselines": "a format of its own: the runs that are kept",
    "workbench.ncurep.printed": "a format of its own: what ncu prints",
    "workbench.programs.shown.page": "not loaded where no page of a program changed",
    "workbench.programs.standin.functions": "C++ that is made of a table, apart from its compiler",
    "workbench.programs.standin.library": "two libraries of C++, built and kept",
    "workbench.programs.standin.memo": "when two launches are one",
    "workbench.programs.standin.recording": "a launch kept with its memory, apart from runs",
    "workbench.programs.standin.server": "the protocol, and the threads that speak it",
    "workbench.session.source_lookup": "not loaded where all sources are known",
    "workbench.tune.search": "optuna is loaded by it alone",
    "workbench.views.html.ladders": "what a ladder's pages are made of, apart from what plans them",
}
#: Classes that share a name and may, each with its reason.
NAMESAKES: Mapping[str, str] = {}


def module_name(path: Path) -> str:
    """``workbench/store/__init__.py`` -> ``workbench.store``."""
    parts = path.relative_to(REPO).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


EMULATOR = REPO / "ptxemu"
FILES = {
    module_name(path): path
    for package in (PACKAGE, EMULATOR)
    for path in sorted(package.rglob("*.py"))
    if "tests" not in path.relative_to(REPO).parts  # of a feature
}
#: Folders at the top of both packages, and the packages' own modules.
TOP = {".".join(name.split(".")[:2]) for name in FILES if "." in name}
ROOMS = {name: path.parent for name, path in FILES.items() if path.name == "__init__.py"}


@cache
def tree(module: str) -> ast.Module:
    parsed = ast.parse(FILES[module].read_text(encoding="utf-8"))
    gc.freeze()  # it stays, and is no more searched for cycles: that took longer than parsing
    return parsed


@cache
def nodes(module: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(module)))


def place(module: str, node: ast.stmt) -> str:
    return f"{FILES[module].relative_to(REPO).as_posix()}:{node.lineno}"


def still(leaves: Iterable[str]) -> set[str]:
    """Modules that have leave, without those of a feature that was deleted."""
    return {name for name in leaves if any(name.startswith(f"{room}.") for room in TOP)}


def none(found: Iterable[str]) -> None:
    """Fail with every place that breaks a rule, a line each."""
    lines = sorted(found)
    assert not lines, "\n" + "\n".join(lines)


# --- concepts --------------------------------------------------------------------------------


def lines(module: str) -> int:
    return len(FILES[module].read_bytes().splitlines())


def test_a_long_module_says_why_it_is_one() -> None:
    none(
        f"{module}: {lines(module)} lines, and its docstring has no sentence on `{WHY_LONG}`"
        for module in FILES
        if lines(module) > MOST_LINES and WHY_LONG not in (ast.get_docstring(tree(module)) or "")
    )


def is_border(module: str) -> bool:
    """Whether a module is a program of its own, or one command or page of many."""
    return module.startswith(ONE_A_FILE) or any(
        isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
        for node in tree(module).body
    )


def test_a_module_with_one_importer_beside_it_is_part_of_that() -> None:
    importers: dict[str, set[str]] = defaultdict(set)
    for module in FILES:
        for found in imports(module):
            importers[found].add(module)
    none(
        f"{module} ({lines(module)} lines) is only for {by} ({lines(by)})"
        for module in sorted(set(FILES) - set(ROOMS))
        for by in importers[module]
        if len(importers[module]) == 1
        and by.removesuffix(f".{by.split('.')[-1]}" if by not in ROOMS else "")
        == module.rpartition(".")[0]
        and not is_border(module)
        and module not in STAND_ALONE
        and not module.endswith(".documents")  # which `schema` imports too
        and not by.endswith(".command")  # which `--help` imports, and the module behind it not
        and lines(module) + lines(by) <= LONG
    )
    assert still(STAND_ALONE) <= set(FILES), "who is gone needs no leave"


def test_imports_inside_of_functions_are_few() -> None:
    assert sum(len(late_imports(module)) for module in FILES) <= MOST_LATE


def late_imports(module: str) -> set[ast.stmt]:
    """Imports that wait for a function to run."""
    functions = [n for n in nodes(module) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {
        each
        for each in nodes(module)
        if isinstance(each, ast.Import | ast.ImportFrom)
        and any(one.lineno < each.lineno <= (one.end_lineno or 0) for one in functions)
    }


# --- names ---------------------------------------------------------------------------------


def test_every_room_says_what_lives_there_and_what_goes_in_and_out() -> None:
    none(room for room in ROOMS if room != "workbench" and len(sentences(room)) < 2)


def sentences(room: str) -> list[str]:
    text = " ".join((ast.get_docstring(tree(room)) or "").split())
    return [each for each in re.split(r"(?<=[.!?])\s+(?=[A-Z`])", text) if each.endswith(".")]


#: Modules that one word would not name.
TWO_WORDS = {
    *("capture_store", "launch_choice", "line_notes", "safe_output", "source_lookup"),
    "worker_pool",
}


def test_no_name_carries_what_a_folder_can() -> None:
    # A trailing underscore stands where Python or a built-in has the name: list_, import_.
    stems = {module: module.split(".")[-1].strip("_") for module in FILES}
    named = (module for module, stem in stems.items() if "_" in stem and stem not in TWO_WORDS)
    none(f"{module}: one word, please; its folder says the rest" for module in named)


def test_a_class_has_its_name_alone() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for module in FILES:
        package = module.split(".")[0]  # each of the two has names of its own
        for node in nodes(module):
            if isinstance(node, ast.ClassDef):
                found[f"{package}.{node.name.lstrip('_')}"].append(place(module, node))
    twice = {name: at for name, at in found.items() if len(at) > 1}
    none(f"{name}: {', '.join(at)}" for name, at in twice.items() if name not in NAMESAKES)
    assert set(NAMESAKES) <= set(twice), "who has the name alone now needs no leave"


# --- functions -------------------------------------------------------------------------------


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """All names that a caller may fill, but not the object itself."""
    args = function.args
    every = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
    names = [each.arg for each in every if each is not None]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def is_commands_face(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether click calls it: its parameters are the command's options."""
    return any("click." in ast.unparse(each) for each in function.decorator_list)


def test_no_function_has_too_many_parameters() -> None:
    none(
        f"{place(module, node)} {node.name}: {len(parameters(node))} parameters"
        for module in FILES
        for node in nodes(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if len(parameters(node)) > MOST_PARAMETERS and not is_commands_face(node)
    )


# --- imports -----------------------------------------------------------------------------------


class Imports(ast.NodeVisitor):
    """Modules of the packages that a module imports, wherever in it, for types alone too.

    Args:
        module: The module's own name.
        known: The names of all modules.
        is_room: Whether it is a package, from which relative imports start one level lower.
    """

    def __init__(self, module: str, known: Set[str], is_room: bool) -> None:
        self.module, self.known = module, known
        self.home = module.split(".") if is_room else module.split(".")[:-1]
        self.found: set[str] = set()

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        home = self.home[: len(self.home) - node.level + 1] if node.level else []
        base = ".".join([*home, *filter(None, [node.module])])
        for alias in node.names:
            self._add(f"{base}.{alias.name}", base)

    def _add(self, *names: str) -> None:
        for name in names:
            if name in self.known:
                if name != self.module:
                    self.found.add(name)
                return


def imports(module: str) -> set[str]:
    visitor = Imports(module, set(FILES), module in ROOMS)
    visitor.visit(tree(module))
    return visitor.found


def circles(graph: Mapping[str, Set[str]]) -> Iterator[list[str]]:
    """Strongly connected components of more than one node (Tarjan), each sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def connect(node: str) -> Iterator[list[str]]:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                yield from connect(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            first = stack.index(node)
            found, stack[first:] = stack[first:], []
            if len(found) > 1:
                yield sorted(found)

    for node in sorted(graph):
        if node not in index:
            yield from connect(node)


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module: imports(module) for module in FILES}
    assert sum(map(len, graph.values())) > 500  # they were found at all
    none(" ↔ ".join(found) for found in circles(graph))


# --- the plan of the house -----------------------------------------------------------------------


def rooms_named(text: str) -> set[str]:
    """Words that end in a slash (``split/``, ``views/html/``); braces are spelled out."""
    found = set()
    for word in re.findall(r"(?<![\w./-])[\w./{},]*[\w}]/(?![\w./{])", text):
        head, brace, rest = word.partition("{")
        inner, _, tail = rest.partition("}")
        found |= {head + each + tail for each in inner.split(",")} if brace else {word}
    return {each.strip("/").removeprefix("workbench/") for each in found}


#: Folders of the repository that the plan names beside those of the package.
OUTSIDE = {path.name for path in REPO.iterdir() if path.is_dir()} | {"workbench"}


def is_named(room: str, names: Set[str]) -> bool:
    """Whether a room is named by its whole path below the package, or by its end."""
    return any(room == name or room.endswith(f"/{name}") for name in names)


def plan() -> str:
    """The page's first part: the picture and the table of what lies where."""
    page = (REPO / "docs" / "architecture.md").read_text(encoding="utf-8")
    before, heading, _ = page.partition("\n## Decisions")
    assert heading
    return before


def test_the_plan_of_the_house_names_every_room_and_no_other() -> None:
    rooms = {
        path.relative_to(REPO).as_posix().removeprefix("workbench/") for path in ROOMS.values()
    } - {"workbench"}
    named = rooms_named(plan())
    none(f"{room}/ is not in the plan" for room in rooms if not is_named(room, named))
    shown = {name for name in named if not any(is_named(room, {name}) for room in rooms)}
    none(f"{name}/ is no room" for name in shown - OUTSIDE)


def test_the_plan_of_the_house_names_every_module_at_its_door() -> None:
    words = set(re.findall(r"\w+", plan()))
    none(path.stem for path in PACKAGE.glob("*.py") if path.stem not in {*words, "__init__"})


@pytest.mark.parametrize("leaf", sorted({path.name for path in ROOMS.values()}))
def test_a_rooms_last_name_is_its_own(leaf: str) -> None:
    assert len([path for path in ROOMS.values() if path.name == leaf]) == 1


# --- what is said of modules elsewhere -----------------------------------------------------------

#: Where modules are spoken of: in docstrings, in code that a test starts, in the docs.
SPEAKING = [
    REPO / "README.md",
    REPO / "pyproject.toml",
    REPO / "Makefile",
    *sorted((REPO / "docs").rglob("*.md")),
    *(
        path
        for folder in ("benchmarks", "docs", "kernels", "tests", "workbench")
        for path in sorted((REPO / folder).rglob("*.py"))
        if path != Path(__file__).resolve()
    ),
]
DOTTED = re.compile(r"(?<![\w./-])workbench(?:\.\w+)+\b(?! import)|from workbench[\w.]* import \w+")
#: Files, not modules.
SUFFIXES = {"toml", "css", "js"}
#: Features that were deleted, whose names may be left in tests of the core.
DELETED = {room for room in book()[0] if not (PACKAGE / room).is_dir()}
#: Commands and settings of editors, which have dots as well.
EDITORS = {f"workbench.{name}" for name in ("run", "command", "verify", "timeout")}


@cache
def defined(module: str) -> frozenset[str]:
    """Names that a module defines or imports, at any depth."""
    found = set()
    for node in nodes(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[-1])
    return frozenset(found)


def leads_somewhere(name: str) -> bool:
    """Whether a dotted name is a module, or what one defines."""
    module = name
    if name in EDITORS or name.split(".")[1] in DELETED:
        return True
    if found := re.fullmatch(r"workbench\.(\w+)\.tests(?:\.(\w+))?(\.\w+)?", name):
        tests = PACKAGE / found[1] / "tests"
        return not tests.parent.is_dir() or not found[2] or (tests / f"{found[2]}.py").is_file()
    while module not in FILES:
        module = module.rpartition(".")[0]
    rest = name.removeprefix(module).strip(".").split(".")[0]
    return not rest or rest in SUFFIXES or rest in defined(module)


def dotted(text: str) -> set[str]:
    return {
        ".".join(found.removeprefix("from ").split(" import ")) for found in DOTTED.findall(text)
    }


def test_every_module_that_is_spoken_of_exists() -> None:
    none(
        f"{path.relative_to(REPO).as_posix()}: {name}"
        for path in SPEAKING
        for name in dotted(path.read_text(encoding="utf-8"))
        if not leads_somewhere(name)
    )


# --- what writes -----------------------------------------------------------------------------

#: Calls that write or remove, by their names; `replace` and `open` are looked at more closely.
WRITING = re.compile(
    r"(write_(text|bytes)|unlink|r?mk?dirs?|makedirs|rename|(sym|hard)link_to|rmtree|mkd?s?temp"
    r"|copy(file|tree|2)|ftruncate)\Z"
)
#: Modules besides `workbench.disk` that write, each with the reason why it may: what they
#: write into is a fresh folder of their own, which no checkout and no site can prepare.
MAY_WRITE: Mapping[str, str] = {
    "workbench.compile.build": "a temporary folder, and the user's own cache",
    "workbench.compile.compilers": "the compiler's temporary folder",
    "workbench.compile.nvrtc": "the compiler's temporary folder",
    "workbench.compile.triton": "the same",
    "workbench.ncurep.extract": "a temporary folder",
    "workbench.ncurep.files": "a temporary folder",
    "workbench.ncurep.large": "a temporary folder",
    "workbench.programs.standin.device": "memory that a program shares, and no file has",
    "workbench.programs.standin.library": "a temporary folder",
}


def writes(node: ast.Call) -> bool:
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
    if name == "open":
        return any(isinstance(text, str) and set(text) & set("wax+") for text in texts[-1:])
    if name == "truncate":
        return getattr(getattr(node.func, "value", None), "id", "") == "os"
    if name == "replace" and isinstance(node.func, ast.Attribute):
        # Path.replace and os.replace; str.replace takes two, and structs.replace keywords.
        module = getattr(node.func.value, "id", "")
        return module == "os" or (len(node.args) == 1 and not node.keywords)
    return bool(WRITING.match(name))


def test_all_writing_and_removing_goes_through_one_room() -> None:
    found = {
        module: [
            node.lineno for node in nodes(module) if isinstance(node, ast.Call) and writes(node)
        ]
        for module in FILES
        if not module.startswith("workbench.disk.")
    }
    found = {module: lines for module, lines in found.items() if lines}
    none(f"{module}:{lines}" for module, lines in found.items() if module not in MAY_WRITE)
    assert still(MAY_WRITE) <= set(found), "who no longer writes needs no leave"


#: Modules that print by themselves, each with the reason why it may: all others go through
#: `workbench.views.text.safe_output`, which lets nothing pass that steers a terminal.
MAY_SPEAK: Mapping[str, str] = {
    "ptxemu.ops.moves": "what a kernel prints, without `workbench`; it looks at each character",
    "workbench.cluster.slurm": "the log of a job",
    "workbench.compile.nvrtc": "a child, of which the parent reads JSON",
    "workbench.compile.triton": "the same",
    "workbench.engines.worker": "a child: what it says is quoted",
    "workbench.ncurep.extract": "a child: what it says is quoted",
    "workbench.editing.trying": "a child, of which the parent reads JSON",
    "workbench.views.terminal.console": "styles, behind the door",
    "workbench.views.terminal.progress": "a line that is written over, behind the door",
    "workbench.views.text.safe_output": "the door",
}


def speaks(node: ast.Call) -> bool:
    match node.func:
        case ast.Name(id="print") | ast.Attribute(attr="echo" | "secho" | "echo_via_pager"):
            return True
        case ast.Attribute(value=stream, attr="write" | "writelines"):
            return ast.unparse(stream).startswith(("sys.stdout", "sys.stderr"))
    return False


def test_all_that_is_said_goes_through_one_door() -> None:
    found = {
        module: [n.lineno for n in nodes(module) if isinstance(n, ast.Call) and speaks(n)]
        for module in FILES
    }
    found = {module: lines for module, lines in found.items() if lines}
    none(f"{module}:{lines}" for module, lines in found.items() if module not in MAY_SPEAK)
    assert still(MAY_SPEAK) <= set(found), "who no longer speaks needs no leave"


def test_a_test_module_has_its_name_alone() -> None:
    """Where folders are no packages, two files of one name end the whole run."""
    found: dict[str, list[str]] = {}
    for path in sorted(Path(__file__).parent.rglob("test_*.py")):
        if (path.parent / "__init__.py").is_file():
            continue
        found.setdefault(path.name, []).append(str(path))
    none(f"{name}: {', '.join(paths)}" for name, paths in found.items() if len(paths) > 1)


# --- what starts programs --------------------------------------------------------------------

#: Modules that start programs, each with which. What they start stands in the folder and has the
#: variables that `workbench.processes.starting` gives; git has a module of its own.
MAY_START: Mapping[str, str] = {
    "workbench.agents.server": "a command of ours, a call of a client each",
    "workbench.revisions": "git",
    "workbench.programs.capture.taking": "`build` of the user's own settings",
    "workbench.cluster.slurm": "Slurm's commands",
    "workbench.compile.compilers": "nvcc, C compilers, and the children of the others",
    "workbench.editing.server": "a trial of a saved version",
    "workbench.engines.host.doctor": "what a tool says of its version",
    "workbench.engines.host.presence": "nvidia-smi",
    "workbench.engines.host.process": "workers, and programs as the user starts them",
    "workbench.ncurep.child": "the reader of reports",
    "workbench.processes.ending": "the guard",
    "workbench.programs.standin.callsites": "addr2line",
    "workbench.processes.starting": "programs that answer and end, for those above",
}
#: The only module that knows how an interpreter is started, and the one that says `git`.
STARTS_PYTHON, SAYS_GIT = "workbench.processes.starting", "workbench.revisions"
#: Calls that start a program, in whatever module they stand.
STARTING = re.compile(
    r"(subprocess\.\w+|os\.(system|popen|exec\w*|spawn\w*|posix_spawnp?|startfile)|pty\.spawn"
    r"|(anyio|asyncio)\.(open_process|run_process|create_subprocess_\w+)|\w+\.(open|run)_process"
    r"|multiprocessing\.(Process|Pool|Manager|set_start_method)|multiprocessing\.spawn\.\w+"
    r"|Popen|ProcessPoolExecutor|webbrowser\.\w+|answered)\Z"
)
#: A word by which a shell or a list of words would start an interpreter.
INTERPRETER = re.compile(r"(\S*/)?(python|pypy)[\d.]*( .*)?\Z")


def starts(node: ast.AST) -> bool:
    """Whether a call starts a program. A fork of ourselves (``get_context("fork")``) is none."""
    if not isinstance(node, ast.Call):
        return False
    match node.func:  # most are one of these, and `ast.unparse` takes long
        case ast.Attribute(value=ast.Name(id=of), attr=attribute):
            name = f"{of}.{attribute}"
        case _:
            name = ast.unparse(node.func)
    if name.endswith("get_context"):
        return ast.unparse(node).split("(", 1)[1] != "'fork')"
    if name == "ProcessPoolExecutor":
        return not any(ast.unparse(each) == "context" for each in node.args)
    return bool(STARTING.match(name))


def names_interpreter(every: Iterable[ast.AST]) -> Iterator[int]:
    """Lines that name our own interpreter, or start a list of words with one."""
    for node in every:
        last = node.name if isinstance(node, ast.alias) else getattr(node, "attr", "")
        if last in ("executable", "sys.executable", "_base_executable") and (
            ast.unparse(node) in ("sys.executable", "executable", "sys._base_executable")
        ):
            yield getattr(node, "lineno", 0)
        if (word := first_word(node)) is not None and INTERPRETER.match(word):
            yield node.lineno  # type: ignore[attr-defined]


def first_word(node: ast.AST) -> str | None:
    """The first word of a command line: of a list or tuple, or of a call with texts."""
    items: list[ast.expr] = []
    if isinstance(node, ast.List | ast.Tuple):
        items = node.elts
    elif isinstance(node, ast.Call):
        items = node.args
    if items and isinstance(items[0], ast.Constant) and isinstance(items[0].value, str):
        return items[0].value
    return None


def other_ways(module: str, every: Iterable[ast.AST]) -> Iterator[str]:
    """Lines of a module that start something in another way than the house has."""
    if module != STARTS_PYTHON:
        yield from (f"{module}:{line} names an interpreter" for line in names_interpreter(every))
    for node in every:
        if starts(node) and module not in MAY_START:
            yield f"{module}:{node.lineno} starts a program"  # type: ignore[attr-defined]
        if module != SAYS_GIT and (first_word(node) or "").split(" ")[0] == "git":
            yield f"{module}:{node.lineno} runs git"  # type: ignore[attr-defined]


def test_programs_are_started_in_one_way() -> None:
    none(line for module in FILES for line in other_ways(module, nodes(module)))
    starting = {module for module in FILES if any(map(starts, nodes(module)))}
    assert still(MAY_START) <= starting, "who no longer starts anything needs no leave"


@pytest.mark.parametrize(
    "breach",
    [
        "subprocess.Popen([sys.executable, '-m', 'workbench.cli'])",
        "os.execv(path, words)",
        "os.posix_spawn('/usr/bin/env', words, os.environ)",
        "argv = ['python3', '-c', text]",
        "run('python -m json.tool')",
        "from sys import executable",
        "ProcessPoolExecutor(4)",
        "ProcessPoolExecutor(4, multiprocessing.get_context('spawn'))",
        "multiprocessing.Process(target=work).start()",
        "words = ('git', 'log')",
        "git = run(['git', *words])",
        "anyio.open_process(words)",
    ],
)
def test_another_way_is_found(breach: str) -> None:
    assert list(other_ways("workbench.views.text", list(ast.walk(ast.parse(breach)))))
