"""Damaged kernels: whatever is done to the PTX, an answer with a line comes, and soon."""

from __future__ import annotations

import random
import re
import time
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.emulator.conftest import HEADER, execute
from workbench.emulator.launch import KernelLaunch
from workbench.emulator.ops import moves
from workbench.emulator.ptx.parser import parse
from workbench.emulator.state.context import Registers
from workbench.emulator.state.lanes import Mask
from workbench.engines import Subject
from workbench.engines.emulated.emulation import emulate
from workbench.engines.emulated.engine import recorded_build
from workbench.errors import KernelError, WorkbenchError
from workbench.project import require_project
from workbench.store import Store
from workbench.study.folder import load_study, study_names

REPO = Path(__file__).resolve().parent.parent.parent
_PREFIX = r"(\s*(?:@!?%\w+\s+)?)"
_KINDS = ("u8", "u16", "s16", "b16", "f16", "u32", "s32", "b32", "f32", "u64", "s64", "b64", "f64")
_NUMBERS = (0, 1, -1, 2, 7, 31, 32, 64, 1 << 31, 1 << 40)


@cache
def subjects() -> list[Subject]:
    """Every shipped version with a recorded profile, on the least problem that it can do."""
    project = require_project(REPO)
    store, out = Store(project.profiles), []
    for name in study_names(project):
        study = load_study(project, name)
        for version in study.versions.values():
            entries = store.find(study=name, version=version.id) if version.kind != "python" else ()
            built = next((recorded_build(store.load(each.path)) for each in entries), None)
            for problem in sorted(study.problems_for("verify"), key=study.flops):
                try:
                    study.check_requirements(version, problem)
                except WorkbenchError:
                    continue
                if built is not None:
                    out.append(Subject.of(study, version, problem, built))
                break
    return out


def drop(lines: list[str], at: int, rng: random.Random) -> None:
    lines[at] = ""


def swap(lines: list[str], at: int, rng: random.Random) -> None:
    found = re.match(_PREFIX + r"(\S+\s+)(.*);", lines[at])
    operands = re.split(r",\s*(?![^{\[]*[}\]])", found[3]) if found else []
    if found and len(operands) > 1:
        one, two = rng.sample(range(len(operands)), 2)
        operands[one], operands[two] = operands[two], operands[one]
        lines[at] = f"{found[1]}{found[2]}{', '.join(operands)};"


def number(lines: list[str], at: int, rng: random.Random) -> None:
    if found := list(re.finditer(r"(?<![\w%$.])-?\d+\b", lines[at])):
        which = rng.choice(found)
        new = rng.choice((*_NUMBERS, int(which[0]) + 1, 2 * int(which[0])))
        lines[at] = lines[at][: which.start()] + str(new) + lines[at][which.end() :]


def register(lines: list[str], at: int, rng: random.Random) -> None:
    """Another register, mostly of the same type; perhaps one that nothing writes."""
    if found := list(re.finditer(r"%([a-z]+)\d+", lines[at])):
        which = rng.choice(found)
        kind = which[1] if rng.random() < 0.7 else "[a-z]+"
        other = rng.choice(re.findall(rf"%{kind}\d+", "\n".join(lines)))
        lines[at] = lines[at][: which.start()] + other + lines[at][which.end() :]


def retype(lines: list[str], at: int, rng: random.Random) -> None:
    kind = rng.choice(_KINDS)
    lines[at] = re.sub(r"\.[usbf](8|16|32|64)\b", f".{kind}", lines[at], count=1)


def repeat(lines: list[str], at: int, rng: random.Random) -> None:
    lines[rng.choice(places(lines))] += "\n" + lines[at]


def rename(lines: list[str], at: int, rng: random.Random) -> None:
    """Another instruction's opcode."""
    other = re.match(_PREFIX + r"(\S+)", lines[rng.choice(places(lines))])
    if other:
        lines[at] = re.sub(_PREFIX + r"\S+", lambda found: found[1] + other[2], lines[at], count=1)


MUTATIONS = (drop, swap, number, register, retype, repeat, rename)


def places(lines: list[str]) -> list[int]:
    """Lines with an instruction."""
    return [n for n, line in enumerate(lines) if re.match(r"\t[@a-z][^{}]*\S;\Z|\t@?.*\};\Z", line)]


def mutant(ptx: str, rng: random.Random) -> str:
    lines = ptx.split("\n")
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice(MUTATIONS)(lines, rng.choice(places(lines)), rng)
    return "\n".join(lines)


@pytest.mark.attack
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_kernel_is_answered(seed: int) -> None:
    rng, failed = random.Random(seed), 0
    for turn in range(25):
        subject = rng.choice(subjects())
        assert subject.built is not None
        ptx = mutant(subject.built.build.ptx, rng)
        build = msgspec.structs.replace(subject.built.build, ptx=ptx)
        built = msgspec.structs.replace(subject.built, build=build)
        begin = time.perf_counter()
        try:
            emulate(
                msgspec.structs.replace(subject, built=built), 1,
                watch=bool(turn % 2), instructions=20_000, seconds=5,
            )  # fmt: skip
        except WorkbenchError as error:
            failed += 1
            name = subject.version.path.rpartition("/")[2]
            assert re.search(rf"{re.escape(name)}:\d+|PTX line \d+|kernel \w+", error.message)
        assert time.perf_counter() - begin < 60  # 5 s, and what comes before and after it
    assert failed  # the damage is felt


def kernel(body: str) -> str:
    return (
        f'{HEADER}.file 1 "k.cu"\n.visible .entry k(.param .u64 x)\n{{\n'
        ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;\n"
        f".loc 1 7 1\nld.param.u64 %rd1, [x];\n.loc 1 8 1\n{body}\nret;\n}}\n"
    )


UNWRITTEN = {
    "stored": ("st.global.u32 [%rd1], %r3;", r"%r3"),
    "added": ("add.s32 %r1, %r2, 1; st.global.u32 [%rd1], %r1;", r"%r2"),
    "multiplied": (
        ".reg .f32 %f<4>; mov.f32 %f1, 0f3F800000; fma.rn.f32 %f2, %f1, %f3, %f1; "
        "st.global.f32 [%rd1], %f2;", r"%f3",
    ),
    "an address": ("ld.global.u32 %r1, [%rd5];", r"%rd5"),
    "a guard": ("@%p1 st.global.u32 [%rd1], 1;", r"%p1"),
    "a branch": ("@!%p2 bra L; mov.u32 %r1, 1;\nL:", r"%p2"),
    "an atomic": ("red.global.add.u32 [%rd1], %r4;", r"%r4"),
    "a shuffle": ("shfl.sync.bfly.b32 %r1, %r6, 1, 31, -1; st.global.u32 [%rd1], %r1;", r"%r6"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNWRITTEN)
def test_a_register_that_nothing_writes_is_named_with_its_line(name: str) -> None:
    body, register = UNWRITTEN[name]
    with pytest.raises(
        KernelError, match=rf"k\.cu:8: kernel k reads register {register}, which nothing has"
    ):
        execute(parse(kernel(body)), "k", {"x": np.zeros(64, "u4")}, ["x"])


def test_a_register_that_some_threads_write_is_read_by_them() -> None:
    body = """mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 5; mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2; @%p1 mov.u32 %r2, 9; @%p1 st.global.u32 [%rd3], %r2;"""
    got, _ = execute(parse(kernel(body)), "k", {"x": np.zeros(32, "u4")}, ["x"])
    assert got["x"].tolist() == [9] * 5 + [0] * 27


REFUSED = {
    "too few operands": ("add.s32 %r1, %r2;", "it has 2 operands, and add takes 3"),
    "no address": ("ld.global.u32 %r1, %rd1;", "operand 2 is no address"),
    "an address": ("add.s64 %rd2, [%rd1], 4;", "operand 2 is an address"),
    "a number written": ("mov.u32 5, %r1;", "its result is no register"),
    "a narrow register": ("add.s64 %rd2, %r1, 4;", "%r1 has 32 bits, not 64"),
    "a predicate as a number": ("add.s32 %r1, %p1, 4;", "%p1 is a predicate"),
    "a number as a predicate": ("selp.b32 %r1, 1, 2, %r3;", "%r3 is no predicate"),
    "a guard": ("@%r1 mov.u32 %r2, 1;", "its guard %r1 is no predicate"),
    "a branch to a register": ("bra %r1;", "it has no label"),
    "a product as wide as its factors": ("mul.wide.s32 %r1, %r2, 4;", "%r1 has 32 bits, not 64"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_ptxas_would_refuse_is_refused(name: str) -> None:
    body, words = REFUSED[name]
    with pytest.raises(
        KernelError, match=rf"k\.cu:8: kernel k: `.*` is no instruction of PTX: {re.escape(words)}"
    ):
        execute(parse(kernel(body)), "k", {"x": np.zeros(4, "u4")}, ["x"])


def test_what_fails_inside_of_the_emulator_is_told_with_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(R: Registers, M: Mask) -> None:
        raise ValueError("odd shapes")

    monkeypatch.setitem(moves.BUILDERS, "popc", lambda instr, ctx: fail)
    words = r"cannot run `popc.*\(ValueError in test_mutants\.py:\d+: odd shapes\)"
    with pytest.raises(KernelError, match=rf"k\.cu:8: kernel k: the emulator {words}") as raised:
        execute(parse(kernel("popc.b32 %r1, 7;")), "k", {"x": np.zeros(4, "u4")}, ["x"])
    assert "report it" in raised.value.hint


def test_textures_are_named_as_what_is_not_supported() -> None:
    body = "tex.1d.v4.u32.s32 {%r1, %r2, %r3, %r4}, [%rd1, {%r5}];"
    with pytest.raises(KernelError, match=r"k\.cu:8: kernel k: the emulator does not support `tex"):
        execute(parse(kernel(body)), "k", {"x": np.zeros(4, "u4")}, ["x"])


@pytest.mark.parametrize("grid", [(2**31 - 1, 1, 1), (1 << 20, 65535, 1)])
def test_a_grid_beyond_all_patience_is_refused(grid: tuple[int, int, int]) -> None:
    with pytest.raises(KernelError, match=r"kernel k: a grid of [\d,]+ blocks"):
        KernelLaunch("k", grid, (32, 1, 1), [])
