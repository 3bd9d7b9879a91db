"""Sources, kernels and studies that would take all of the machine's time or memory.

Each through every command that compiles or runs versions, with both compilers. A command ends by
itself long before `harness.HANG_S`, tells what was too much, and the processes that it starts take
no more memory together than they may, beside what each has from its start.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from tests.attacks import harness
from tests.attacks.book import Portion, book, dealt
from tests.engines.stand_ins import THERE
from workbench.cli import COMMANDS, app

pytestmark = [pytest.mark.attack, pytest.mark.nvcc, pytest.mark.timeout(3000)]

PARTS = 6
#: Seconds and bytes that a command is given.
TIMEOUT_S, MEMORY_MIB = 4, 1024
#: What Python, its libraries and a compiler have of themselves.
_OWN = 1 << 30
_LOOK_S = 0.1

_THERE = " ".join(THERE)
#: What each command is asked.
LINES = {
    "verify": "verify double/v1 --engine emulator",
    "profile": "profile double/v1 --engine emulator",
    "time": f"time double/v1 {_THERE}",
    "check": "check v1 --study double --against earlier",
    "tune": "tune double/v1 --engine emulator --restart",
}

_KERNEL = 'extern "C" __global__ void scale(const float *x, float *y, int n)'
_BODY = "int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = 2 * x[i];"
_FIB = (
    "template <int N, int M> struct F { static constexpr unsigned long long v = "
    "F<N - 1, 2 * M>::v + F<N - 1, 2 * M + 1>::v; };\n"
    "template <int M> struct F<0, M> { static constexpr unsigned long long v = 1; };\n"
)
_TYPES = (
    "template <class A, class B> struct P { A a; B b; };\n"
    "template <int N> struct T { using t = P<typename T<N - 1>::t, typename T<N - 1>::t>; };\n"
    "template <> struct T<0> { using t = char; };\n"
)


def _doubled(what: str, times: int) -> str:
    """Macros of which the last is 2 to that power times `what`."""
    rows = [f"#define M0 {what}"]
    rows += [f"#define M{n} M{n - 1} M{n - 1}" for n in range(1, times + 1)]
    return "\n".join(rows) + "\n"


def _loops(depth: int, extent: int) -> str:
    head = "".join(
        f"\n#pragma unroll\nfor (int a{n} = 0; a{n} < {extent}; ++a{n})" for n in range(depth)
    )
    index = "+".join(f"a{n}*x[a{n}]" for n in range(depth))
    return f"{head} y[({index} > 0) * n] += {index};"


#: A version's text behind its front matter: what stands before its kernel, and in it.
SOURCES: dict[str, tuple[str, str]] = {
    "exponential template": (_FIB, "y[0] = F<28, 1>::v;"),
    "endless template": ("template <int N> struct E { enum { v = E<N + 1>::v }; };\n",
                         "y[0] = E<0>::v;"),
    "exponential types": (_TYPES, "y[0] = sizeof(T<60>::t);"),
    "names of exponential types": (
        _TYPES + "template <class T> __device__ __noinline__ int f() { return sizeof(T) % 7; }\n",
        "y[0] = f<T<24>::t>();",
    ),
    "endless constexpr": ("constexpr int f() { int i = 0; for (;;) ++i; return i; }\n",
                          "constexpr int a = f(); y[0] = a;"),
    "includes itself": ('#include "v1.cu"\n', _BODY),
    "exponential macros": (_doubled("+1", 30), "y[0] = 0 M30;"),
    "declarations of macros": (_doubled("y[0] += x[1];", 18), "M18"),
    "constant array": ("__constant__ int big[1 << 28];\n", "y[0] = big[n];"),
    "initialized array": ("__device__ const int big[200000000] = {1, 2};\n", "y[0] = big[n];"),
    "array of 4 GB": ("__device__ char big[4000000000u];\n", f"{_BODY} big[i] = i;"),
    "array of 64 GB": ("__device__ char big[1ull << 36];\n", f"{_BODY} big[i] = i;"),
    "array of exabytes": ("__device__ char big[1ull << 60];\n", f"{_BODY} big[i] = i;"),
    "shared array": ("", "__shared__ char big[1 << 30]; big[n] = 1; y[0] = big[0];"),
    "local array": ("", "char big[1 << 19]; big[n] = 1; y[0] = big[x[0] > 0];"),
    "printf width": ("#include <cstdio>\n", f'{_BODY} printf("%2000000000d", n);'),
    "printf star": ("#include <cstdio>\n", f'{_BODY} printf("%*d", 2000000000, n);'),
    "printf precision": ("#include <cstdio>\n", f'{_BODY} printf("%.2000000000f", 1.0);'),
    "printf of strings": ("#include <cstdio>\n", f'{_BODY} for (;;) printf("%99999s", "x");'),
    "unrolled loop": ("", "\n#pragma unroll 4000000\nfor (int a = 0; a < n; ++a) "
                          "y[a * 7 % n] += x[a] / y[a];"),
    "unrolled nest": ("", _loops(5, 64)),
    "huge switch": ("#define C(a) case __COUNTER__: y[a] += __COUNTER__; break;\n"
                    + _doubled("C(0)", 16), "switch (n) { M16 }"),
    "deep expression": ("", f"y[0] = {'(' * 200_000}n{')' * 200_000};"),
    "long line": ("", f"y[0] = n{'+1' * 1_500_000};"),
    "endless loop": ("", "for (;;) y[0] += x[0];"),
    "endless wait": ("", "while (atomicAdd((int *)y, 0) != 77) __nanosleep(100);"),
    "endless recursion": ("__device__ __noinline__ int f(int a) { return a ? f(a + 1) * 3 : 0; }\n",
                          "y[0] = f(n);"),
    "giant grid": ("", f"{_BODY} // 1 << 30"),
    "giant sum of launches": ("", f"{_BODY} // 9 ** 9"),
}  # fmt: skip
#: A text of ``study.py``, and what stands there instead.
STUDIES: dict[str, tuple[str, str]] = {
    "endless study": ('title = "y = 2x"', "while True:\n    pass"),
    "endless inputs": ('return {"x": rng', 'while True:\n        pass\n    return {"x": rng'),
    "endless reference": ('return {"y": 2', 'while True:\n        pass\n    return {"y": 2'),
    "inputs of 64 GB": ('rng.standard_normal(problem["n"], dtype="float32")',
                        '__import__("numpy").ones(1 << 34, "float32")'),
    "reference of 64 GB": ('2 * inputs["x"].astype("float64")',
                           '__import__("numpy").ones(1 << 33)'),
    "outputs of 64 GB": ('((problem["n"],), "float32")', '((1 << 34,), "float32")'),
    "outputs of exabytes": ('((problem["n"],), "float32")', '((1 << 58,), "float32")'),
}  # fmt: skip
COMPILERS = ("nvcc", "nvrtc")
ATTACKS = [
    (command, what, compiler)
    for command in LINES
    for what in (*SOURCES, *STUDIES)
    for compiler in (COMPILERS if what in SOURCES else COMPILERS[1:])
]


def test_every_command_that_runs_versions_is_attacked() -> None:
    context = click.Context(app)
    commands = {name: app.get_command(context, name) for name in COMMANDS}
    asked = {
        name
        for name, command in commands.items()
        if command is not None
        and {"--timeout", "--arch"} <= {each for param in command.params for each in param.opts}
    }
    assert asked == LINES.keys()


def _memory(root: int) -> int:
    """Bytes of a process and all that it started, each page once."""
    total, queue = 0, [root]
    while queue:
        pid = queue.pop()
        with contextlib.suppress(OSError):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += 1024 * int(rollup.partition("\nPss:")[2].split()[0] or 0)
            for task in Path(f"/proc/{pid}/task").iterdir():
                queue += map(int, (task / "children").read_text().split())
    return total


class Peak:
    """The most memory that a process and all that it started had."""

    bytes = 0

    @contextlib.contextmanager
    def of(self, pid: int) -> Iterator[None]:
        """Look as long as the block lasts."""
        over = threading.Event()

        def look() -> None:
            while not over.wait(_LOOK_S):
                with contextlib.suppress(IndexError, ValueError):  # it ends at this moment
                    self.bytes = max(self.bytes, _memory(pid))

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def prepare(root: Path, what: str) -> None:
    """Put one attack into the study ``double``, as its version v1 or into its ``study.py``."""
    folder = root / "kernels" / "double"
    plain = (folder / "v0_plain.cu").read_text()
    head = plain.partition('extern "C"')[0]
    assert head.count("\n[[launch]]") == 1 and "[defines]" not in head
    head = head.replace("\n[[launch]]", "\n[defines]\nT = 1\n\n[tune]\nT = [1, 2]\n\n[[launch]]")
    before, body = SOURCES.get(what, ("", _BODY))
    if what == "giant grid":
        head = head.replace("cdiv(n, 256)", "n * 2000000")
    if what == "giant sum of launches":
        head = head.replace('"cdiv(n, 256)"', '"(((n ** 99) ** 99) ** 99) ** 99"')
    (folder / "v1.cu").write_text(f"{head}{before}{_KERNEL} {{\n{body}\n}}\n")
    if what in STUDIES:
        path, (old, new) = folder / "study.py", STUDIES[what]
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))


def act(line: str, compiler: str) -> Callable[[], object]:
    """A command with one compiler alone, which is the true one."""

    def run() -> object:
        from workbench.compile import build, compilers
        from workbench.engines.ncu import engine

        setattr(engine, "build", build.build)  # noqa: B010 - the stand-in for a GPU has another
        if compiler == "nvrtc":
            compilers.find_nvcc = lambda: None
        return harness.command(line)()

    return run


@pytest.mark.parametrize("portion", dealt("limits", len(ATTACKS), PARTS))
def test_limits(root: Path, portion: Portion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_MEMORY_MIB", str(MEMORY_MIB))
    shutil.copytree(root, root / "earlier", ignore=shutil.ignore_patterns("profiles"))
    shutil.copy(root / "kernels" / "double" / "v0_plain.cu", root / "earlier/kernels/double/v1.cu")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    study = (root / "kernels" / "double" / "study.py").read_text()
    for turn in book.turns(portion):
        command, what, compiler = ATTACKS[turn.number]
        prepare(root, what)
        before, peak = harness.records(root), Peak()
        line = f"{LINES[command]} --timeout {TIMEOUT_S} --seed 1"
        ended = harness.run(act(line, compiler), root, turn.kind, beside=peak.of)
        told = (command, what, compiler, peak.bytes >> 20, ended)
        book.must(ended.code in range(7), turn.kind, told)
        book.must(peak.bytes < (MEMORY_MIB << 20) + _OWN, turn.kind, told)
        left = [path.name for path in (root.parent / "tmp").iterdir()]
        book.must(not left and not list(root.rglob("core*")), turn.kind, (left, told))
        harness.check_whole(root, turn.kind, before)
        (root / "kernels" / "double" / "study.py").write_text(study)
