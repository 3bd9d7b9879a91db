"""Settings, front matter and studies of wrong types, names without end, arrays without measure.

Every command of the click tree meets them: one that is new has a line made from its parameters.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import pytest

from tests.attacks import harness
from tests.attacks.book import Portion, book, dealt
from tests.engines.stand_ins import STUDY, THERE, VERSION
from workbench.cli import COMMANDS, app
from workbench.study.keys import TABLES

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1800)]

PARTS = 4
THERE_WORDS = " ".join(THERE)
#: Lines of a command, where its arguments alone would not lead it to what it reads.
LINES: dict[str, tuple[str, ...]] = {
    "show": ("show v2", "show double/v0", "show double/v0 --format json"),
    "diff": ("diff v2 v3", "diff double/v0 double/library"),
    "check": ("check --all", "check v2 v3", "check --all --against . --engine emulator"),
    "capture": ("capture x --at HEAD -- true", "capture x -- true"),
    "profile": (
        "profile double/v0 --engine emulator",
        "profile double/v0 --engine ncu --dry-run",
        "profile double/v0 --on slurm",
    ),
    "time": (
        f"time double/v0 --again --limit 0.2 {THERE_WORDS}",
        "time double/v0 --on slurm",
        "time --all --recorded",
        f"time double --all-problems --limit 0.2 {THERE_WORDS}",
    ),
    "verify": ("verify double/v0 --engine emulator", "verify double/v0 --on slurm"),
    "export": ("export launches", "export times"),
    "import": ("import sgemm_v3.ncu-rep --study double --version v0 --force",),
    "report": ("report", "report double"),
    "export readme": ("export readme double --chart x.svg",),
    "export figure": (
        "export figure ladder double --out x.svg",
        "export figure step v2 v3 --out x.svg",
    ),
    "docs": ("docs ci",),
    "new": ("new v{} --study double", "new --study s{}", "new --from-launch @x::scale -- true"),
    "init": ("init f{}",),
}
#: These ask for an answer of their own: a signal, or an end of their input.
STAYING = ("serve", "serve mcp", "serve lsp")
INTERRUPTED = "KeyboardInterrupt)')"


def command_of(name: str) -> click.Command:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    return command


def lines_of(name: str) -> tuple[str, ...]:
    needed = [each for each in command_of(name).params if isinstance(each, click.Argument)]
    return LINES.get(name) or (" ".join([name, *("v2" for each in needed if each.required)]),)


def act(words: list[str]) -> Callable[[], object]:
    """What runs a command line, and ends what would stay."""

    def run() -> object:
        if set(words) & set(STAYING):
            ending = threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT))
            ending.daemon = True
            ending.start()
            os.close(0)
            os.open(os.devnull, os.O_RDONLY)
            sys.stdin = os.fdopen(0, closefd=False)
        return harness.command(words)()

    return run


def tried(words: list[str], root: Path, kind: str, told: object) -> None:
    """Run a command line: it ends with a documented code, and touches nothing outside."""
    with harness.untouched(root.parent / "outside", kind):
        ended = harness.run(act(words), root, kind)
    # What stays is interrupted here, and a study may say that it was.
    stays = ended.code == 130 and bool({*words, *str(told).split("(")} & {*STAYING, INTERRUPTED})
    book.must(ended.code in (*range(7), harness.INTERNAL) or stays, kind, (words, told, ended))
    if ended.code == harness.INTERNAL:
        book.found(kind, "other answers", f"{words} {told}"[:1000])


#: Values as TOML writes them.
VALUES = (
    "3", "-1", "true", "1.5", "nan", "inf", "1979-05-27T07:32:00Z", '""', '"x"', '"../x"', '"/"',
    '"\\u0000"', '"\\u001b[2J"', f'"{"n" * 300}"', f'"{"d/" * 3000}"', "[]", "[3]", '["x"]',
    "[[]]", "[{}]", "{}", "{x = 1}", f"{10**30}", f"{2**63 - 1}", f"[{','.join('9' * 400)}]",
    '"9999999999999"', '"N"', '"1e400"', '"%"',
)  # fmt: skip
SETTINGS = (
    "default_study", "default_device", "check", "check.max_regression", "check.resolution",
    "check.baseline_runs", "check.require_expectations", "check.counters", "check.limits",
    "check.counters.registers", "check.limits.registers", "check.counters.no_such", "check.nothing",
    "capture", "capture.build", "cluster", "cluster.slurm", "cluster.other", "unknown",
    "cluster.slurm.account", "cluster.slurm.array_parallelism", "cluster.slurm.constraint",
    "cluster.slurm.cpus_per_task", "cluster.slurm.exclude", "cluster.slurm.exclusive",
    "cluster.slurm.gres", "cluster.slurm.mem", "cluster.slurm.partition", "cluster.slurm.patience",
    "cluster.slurm.per_job", "cluster.slurm.qos", "cluster.slurm.setup", "cluster.slurm.time",
)  # fmt: skip
#: What may stand in a ``pyproject.toml``, here or above.
SHARED = (
    "tool = 3", "[tool]\nworkbench = 3", "[[tool]]", "[[tool.workbench]]", "[tool]", 'tool = "x"',
    "[tool.workbench.default_study]", "[tool.workbench]\n[[tool.workbench.check]]",
    "[tool.workbench.cluster]\nslurm = [3]", "tool = [[[]]]", "[tool]\nworkbench = true",
)  # fmt: skip
WRONG = [*((key, value) for key in SETTINGS for value in VALUES), *(("", text) for text in SHARED)]


def line_for(number: int) -> str:
    """A line of every command in turn, so that neighbours meet different ones."""
    every = [line for name in COMMANDS for line in lines_of(name)]
    return every[number % len(every)].format(number)


@pytest.mark.parametrize("portion", dealt("wrong settings", len(WRONG), PARTS))
def test_wrong_settings(root: Path, portion: Portion) -> None:
    path, shared = root / "workbench.toml", root.parent / "pyproject.toml"
    before = path.read_text()
    for turn in book.turns(portion):
        key, value = WRONG[turn.number]
        if key:
            rest = "" if key == "default_study" else before
            path.write_text(f"{key} = {value}\n{rest}")
        else:
            path.unlink()
            (shared if turn.number % 2 else root / "pyproject.toml").write_text(f"{value}\n")
        tried(line_for(turn.number).split(), root, turn.kind, (key, value))
        shared.unlink(missing_ok=True)
        (root / "pyproject.toml").unlink(missing_ok=True)
        path.write_text(before)


KEYS = [
    (table, key) for table, record in TABLES.items() for key in (*record.__struct_fields__, "odd")
]
FRONT = [(table, key, value) for table, key in KEYS for value in VALUES]
#: Commands that read front matter, each from its own side.
READING = [
    line
    for name in COMMANDS
    if name not in ("init", "docs", "list jobs", *STAYING)
    for line in lines_of(name)
]


def with_key(table: str, key: str, value: str) -> str:
    """The version with one value of its front matter exchanged, or one table more."""
    head, rest = VERSION.split("[[launch]]", 1)
    launch, code = rest.split("--- */", 1)
    if table == "":
        head = "\n".join(line for line in head.splitlines() if not line.startswith(key))
        if key in TABLES:
            return f"{head}\n{key} = {value}\n--- */{code}"
        return f"{head}\n{key} = {value}\n[[launch]]{launch}--- */{code}"
    if table == "launch":
        launch = "\n".join(line for line in launch.splitlines() if not line.startswith(key))
        return f"{head}[[launch]]{launch}\n{key} = {value}\n--- */{code}"
    other = {
        "scratch": {"name": '"s"', "dtype": '"float32"', "shape": "[4]"},
        "fill": {"name": '"y"', "value": "0"},
        "tensor_map": {"name": '"t"', "buffer": '"x"', "dims": '["n"]', "box": "[4]"},
        "texture": {"name": '"t"', "buffer": '"x"', "dtype": '"float32"', "dims": '["n"]'},
        "expect": {"counter": '"registers"', "change": '"< 1x"', "why": '"w"'},
    }[table]
    added = "\n".join(f"{name} = {text}" for name, text in {**other, key: value}.items())
    return f"{head}[[launch]]{launch}[[{table}]]\n{added}\n--- */{code}"


@pytest.mark.parametrize("portion", dealt("wrong front matter", len(FRONT), 4 * PARTS))
def test_wrong_front_matter(root: Path, portion: Portion) -> None:
    path = root / "kernels" / "double" / "v0_plain.cu"
    for turn in book.turns(portion):
        table, key, value = FRONT[turn.number]
        path.write_text(with_key(table, key, value))
        line = READING[turn.number % len(READING)].format(turn.number)
        tried(line.split(), root, turn.kind, (table, key, value))
        path.write_text(VERSION)


#: Values as Python writes them.
ODD = (
    "None", "3", "-1", "True", "1.5", "float('nan')", "float('inf')", "1j", "''", "'x'", "b'x'",
    "'n' * 300", "'\\0'", "'\\x1b[2J'", "'\\udcff'", "()", "(3,)", "('x',)", "((),)", "[]", "[3]",
    "{}", "{'x': 1}", "{3: 3}", "{'y': 3}", "{'y': ((3,), 'x')}", "{'y': ((-1,), 'float32')}",
    "{'y': ((10**30,), 'float32')}", "{'y': ((2**40,), 'float32')}", "{'y': ((2**62,), 'int8')}",
    "{'y': ((2**31,) * 3, 'int8')}", "{'y': (('x',), 'float32')}", "{'y': ((7,), 'O')}",
    "{'y': ((7,), 'M8[s]')}", "{'y': ((7,), 'S9')}", "{'y': ((7,), 'complex64')}",
    "{'y': ((7,), '(9,9)i4')}", "{'y': ((7,), 'i4,i4')}", "{'y': ((), 'float32')}",
    "{'y': ((7,) * 99, 'float32')}", "object()", "10**30", "10**5000", "2**63", "print", "int",
    "__import__('numpy').zeros(3)", "{'x': __import__('numpy').zeros(3)}", "range(3)",
    "{'x': object()}", "{'x': 'y'}", "{'x': [[1], [2, 3]]}", "{'x': None}", "{'x': {}}",
    "{'n1': {'n': 3}}", "{'n1': {'n': 'x', 'uses': 3}}", "{'n' * 300: {'n': 3}}",
    "{'n1': {'n': 2**70, 'uses': ('verify', 'profile', 'sweep')}}",
    "{'n1': {'n': -5, 'uses': ('verify', 'profile', 'sweep')}}",
    "{'n1': {'n': 0, 'uses': ('verify', 'profile', 'sweep')}}",
    "{'n1': {'n': 2**45, 'uses': ('verify', 'profile', 'sweep')}}",
    "{'n1': {'n': 9, 'uses': [[]]}}", "{'n1': {'n': 9, 'uses': {'verify': 1}}}",
    "{'n1': 3}", "[{'name': [], 'n': 3}]", "{('a',): {'n': 3}}", "exit()", "1 / 0",
    "bytearray(2**46)",
    "(_ for _ in ()).throw(MemoryError)", "(_ for _ in ()).throw(KeyboardInterrupt)",
    "type('E', (Exception,), {'__str__': lambda self: 1})()",
    "type('L', (), {'__repr__': lambda self: 1 / 0})()",
)  # fmt: skip
NAMES = ("title", "input_names", "problems", "tolerance", "tolerance_why")
FUNCTIONS = ("inputs", "outputs", "reference", "flops", "bytes", "derive", "reference_at")
STUDIES = [(name, value) for name in (*NAMES, *FUNCTIONS) for value in ODD]
#: Commands that run a study.
RUNNING = [
    line
    for name in ("verify", "profile", "time", "import", "check", "list", "report")
    if name in COMMANDS
    for line in lines_of(name)
    if "slurm" not in line
]


@pytest.mark.parametrize("portion", dealt("wrong studies", len(STUDIES), PARTS))
def test_wrong_studies(root: Path, portion: Portion) -> None:
    path = root / "kernels" / "double" / "study.py"
    before = path.read_text()
    for turn in book.turns(portion):
        name, value = STUDIES[turn.number]
        given = f"{name} = {value}" if name in NAMES else f"def {name}(*given):\n    return {value}"
        path.write_text(f"{before}\n{given}\n")
        line = RUNNING[turn.number % len(RUNNING)]
        tried(line.split(), root, turn.kind, (name, value))
    path.write_text(before)


LONG = ("n" * 256, "v" * 5000, "d/" * 2500, f"{'n' * 256}.ncu-rep", f"@{'c' * 300}", "é" * 200)
OPTIONS = [
    (name, parameter.opts[0] if isinstance(parameter, click.Option) else "", text)
    for name in COMMANDS
    for parameter in command_of(name).params
    if not (isinstance(parameter, click.Option) and parameter.is_flag)
    for text in LONG
]


@pytest.mark.parametrize("portion", dealt("long names", len(OPTIONS), PARTS))
def test_long_names(root: Path, portion: Portion) -> None:
    for turn in book.turns(portion):
        name, option, text = OPTIONS[turn.number]
        line = lines_of(name)[turn.number % len(lines_of(name))].format(turn.number)
        words = line.split()
        at = words.index("--") if "--" in words else len(words)
        if option:
            words[at:at] = [option, text]
        else:
            first = min(at, len(name.split()))
            words[first : first + 1] = [text]
        tried(words, root, turn.kind, option)


SHAPES = (
    "[1099511627776]",
    '["2**62"]',
    '["2**31", "2**31"]',
    '["2**40", "2**40"]',
    "[2147483647]",
)
DEVICE = (
    "__device__ char big[4294967296ULL];",
    "__device__ float big[1 << 30];",
    "__device__ double many[1ULL << 34];",
)
MEASURING = [line for line in RUNNING if line.split()[0] in ("verify", "profile", "time")]
HUGE = [
    *(("scratch", shape, line) for shape in SHAPES for line in MEASURING),
    *(("variable", text, line) for text in DEVICE for line in MEASURING),
    *(
        (name, size, line)
        for name in ("n", "input", "output", "reference")
        for size in ("2**31", "2**36", "2**40", "2**62")
        for line in MEASURING
    ),
]
#: What a process may take at most: an array that nobody counted ends here, and not the machine.
SPACE = 6 << 30


def prepared(folder: Path, what: str, size: str) -> None:
    version, study = VERSION, STUDY.replace('("verify",)', '("verify", "sweep")')
    if what == "scratch":
        version = with_key("scratch", "shape", size)
    elif what == "variable":
        name = size.split("[")[0].split()[-1]
        used = f"if (n < 0) {name}[i] = n;\n    if (i < n)"
        version = version.replace('extern "C"', f'extern "C" {size}\nextern "C"', 1)
        version = version.replace("if (i < n)", used)
    elif what == "n":
        study = study.replace('"n": 1000', f'"n": {size}')
    elif what == "input":
        study = study.replace('rng.standard_normal(problem["n"]', f"rng.standard_normal({size}")
    elif what == "output":
        study = study.replace('((problem["n"],)', f"(({size},)")
    else:
        study = study.replace('2 * inputs["x"]', f'__import__("numpy").zeros({size})')
    (folder / "v0_plain.cu").write_text(version)
    (folder / "study.py").write_text(study)


def limited(line: str) -> object:
    resource.setrlimit(resource.RLIMIT_AS, (SPACE, SPACE))
    return harness.command(line)()


@pytest.mark.parametrize("portion", dealt("huge arrays", len(HUGE), PARTS))
def test_huge_arrays(root: Path, portion: Portion) -> None:
    folder = root / "kernels" / "double"
    for turn in book.turns(portion):
        what, size, line = HUGE[turn.number]
        prepared(folder, what, size)
        with harness.untouched(root.parent / "outside", turn.kind):
            ended = harness.run(partial(limited, line), root, turn.kind)
        # A baseline and the stand-in of a GPU take no scratch; such problems are left out.
        book.must(ended.code in range(7), turn.kind, (what, size, line, ended))
