"""``verify`` and ``profile`` under the emulator: what is said of what cannot be run."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest

from tests.engines.stand_ins import Cli
from workbench.compile import compilers
from workbench.project import Project
from workbench.store import Store

pytestmark = [
    pytest.mark.nvcc,
    pytest.mark.skipif(not compilers.available(), reason="no CUDA compiler here"),
    pytest.mark.usefixtures("project"),
]
EMULATED = ("--engine", "emulator", "--seed", "5")


#: A surface, which the emulator does not have, in place of the load.
SURFACE = """2 * x[i];
    int r;
    asm volatile("suld.b.1d.b32.trap {%0}, [%1, {%2}];" : "=r"(r) : "l"(x), "r"(i));
    y[i] += 0 * r;"""


def test_what_does_not_compile_is_said_once_and_not_once_a_problem(
    cli: Cli, project_file: Callable[[str, str, str], None]
) -> None:
    project_file("v0_plain.cu", "2 * x[i];", "2 * x[i]")
    code, out, err = cli("verify", "v0", *EMULATED)
    assert code == 4 and "2 of 2 checks failed" in err
    assert out.count("does not compile for sm_90") == 1 and "kernels/double/v0_plain.cu:1" in out


def test_versions_of_one_command_have_the_same_inputs_and_the_seed_is_told(
    cli: Cli, project: Project, add_version: Callable[[str, str], None]
) -> None:
    """A kernel that counts by its data would differ by them, and by nothing that it changed."""
    add_version("v1", "fine")
    code, out, err = cli("profile", "v0", "v1", "--engine", "emulator")
    assert code == 0, err
    store = Store.of(project)
    checks = [store.load(entry.path).verification for entry in store.find()]
    (seed,) = {check.seed for check in checks if check}
    assert len(checks) == 2 and out.count(f", seed {seed},") == 2
    assert f", seed {seed}" in " ".join(cli("show", "v0")[1].split())
    assert json.loads(cli("show", "v0", "--format", "json")[1])["seed"] == seed
    assert "seeds" not in cli("diff", "v0", "v1")[1]
    other = (seed + 1) % 2**32
    assert cli("profile", "v1", "--engine", "emulator", "--seed", str(other))[0] == 0
    told = " ".join(cli("diff", "v0", "v1")[1].split())
    assert f"different input seeds: {seed}, {other}" in told


def test_what_is_profiled_next_has_the_inputs_of_the_newest_profile(
    cli: Cli, project: Project, add_version: Callable[[str, str], None]
) -> None:
    """A ladder grows by a version at a time, each with a command of its own."""
    store = Store.of(project)

    def profiled(*words: str) -> int:
        code, _, err = cli("profile", *words, "--engine", "emulator")
        assert code == 0, err
        (entry,) = store.find(study="double", version=words[0])
        check = store.load(entry.path).verification
        assert check is not None
        return check.seed

    first = profiled("v0")
    add_version("v1", "fine")
    assert profiled("v1") == first
    assert "seeds" not in cli("diff", "v0", "v1")[1]
    assert profiled("v1", "--seed", "8") == 8
    (older,) = store.find(study="double", version="v0")
    old = store.load(older.path)
    store.save(msgspec.structs.replace(old, captured="2001-01-01T00:00:00Z"))
    assert profiled("v0") == 8  # of the newest, not its own
    assert cli("verify", "v0", "--engine", "emulator")[1].count("seed 8,") == 0
    dry = ("profile", "v0", "--engine", "ncu", "--dry-run", "--arch", "sm_90")
    assert cli(*dry)[0] == 0
    (job,) = (project.root / "build" / "runs").glob("*/jobs.json")
    assert json.loads(job.read_bytes())["jobs"][0]["seed"] == 8
    for entry in store.find():
        entry.path.write_bytes(b"damaged")
    assert profiled("v0") not in (first, 8)


@pytest.mark.parametrize("command", ["verify", "profile"])
def test_a_library_needs_a_gpu_and_is_passed_over_with_all(cli: Cli, command: str) -> None:
    code, _, err = cli(command, "library", *EMULATED)
    assert code == 3 and "library has no [[launch]]" in err and "FAILED" not in err
    assert "on a machine that has one" in err
    code, out, err = cli(command, "--all", *EMULATED)
    assert code == 0 and "library: skipped, its library needs a GPU" in err
    assert "library" not in out


def test_a_profile_of_the_emulator_is_kept_with_what_no_chip_guarantees(
    cli: Cli, project: Project, project_file: Callable[[str, str, str], None]
) -> None:
    lanes = "2; __shared__ volatile float t[256]; t[threadIdx.x] = 1; if (i < n) y[i] = "
    project_file("v0_plain.cu", "2 * x[i];", f"{lanes} 2 * x[i] * t[threadIdx.x & ~1];")
    code, out, err = cli("profile", "v0", *EMULATED)
    said = err.splitlines()[-1]
    assert code == 0 and said.endswith("; put a __syncwarp() between."), out
    kept = "profiles/emulator-sm90/double/v0/n1000.emulator.json.zst"
    assert f" in the emulator -> {kept}\n" in out
    assert [entry.version for entry in Store.of(project).find()] == ["v0"]
    out = cli("verify", "v0", *EMULATED, "--also", f"markdown={project.root}/n.md")[1]
    assert " ".join(out.split()).count(said[6:]) == 1
    assert "does not guarantee; put a" in (project.root / "n.md").read_text()
    found = json.loads(cli("verify", "v0", *EMULATED, "--format", "json")[1])["results"]
    assert [[f"note: v0: {words}." for words in each["notes"]] for each in found] == [[said]] * 2


def test_a_wrong_result_is_shown_with_how_wrong_it_is(
    cli: Cli, project_file: Callable[[str, str, str], None]
) -> None:
    project_file("v0_plain.cu", "2 * x[i];", "3 * x[i];")
    code, out, err = cli("verify", "v0", *EMULATED)
    assert code == 4 and "2 of 2 checks failed: v0 n1000, v0 n7" in err
    # 3x for 2x: half of the norm off.
    assert [line.split()[2:4] for line in out.splitlines()[2:4]] == [["WRONG", "0.500"]] * 2


def test_what_the_emulator_refuses_is_not_judged(
    cli: Cli,
    project: Project,
    add_version: Callable[[str, str], None],
    project_file: Callable[[str, str, str], None],
) -> None:
    """It may be right: nobody has seen it run."""
    project_file("v0_plain.cu", "2 * x[i];", SURFACE)
    code, _, err = cli("profile", "v0", *EMULATED)
    assert code == 6 and "the emulator does not support `suld" in err
    assert not Store.of(project).find()
    add_version("v1", "fine")
    code, out, err = cli("verify", "v0", "v1", *EMULATED)
    assert code == 6 and "2 of 4 checks were not judged: v0 n1000, v0 n7" in err
    assert [line.split()[2:4] for line in out.splitlines()[2:6]] == [
        *(["not", "judged"], ["not", "judged"], ["ok", "0"], ["ok", "0"])
    ]
    code, out, _ = cli("verify", "v0", "v1", *EMULATED, "--format", "json")
    found = json.loads(out)["results"]
    assert [each["judged"] for each in found] == [False, False, True, True]
