"""Every command in Chinese: what stays English are names, code, and what others have said."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import factories, goldens, ran_programs
from tests.factories import make_project
from tests.ladders import needs_compiler
from tests.told import english_words
from workbench import cli, language
from workbench.cli import COMMANDS
from workbench.project import Project
from workbench.study.folder import load_study

#: Command -> what stands behind it, once for each line; ``{report}`` is a report file.
SWEPT: dict[str, tuple[str, ...]] = {
    "list": ("", "--study demo", "--study demo --format markdown"),
    "show": ("v3", "v3 --all", "v3 --memory", "v3 --format markdown", "{report}", "v99", "v0"),
    "diff": (
        "v2 v3",
        "v2 v3 --all",
        "v2 v3 --memory",
        "v2 v3 --sass",
        "v2 v3 --format markdown",
        "v0 v2",
        "v2",
    ),
    "check": (
        "v2 v3",
        "--all",
        "v2 v3 --format markdown",
        "v2 v3 --format github",
        "--all --format github",
    ),
    "report": ("", "nothing", "v2 --single-file --out v2.html"),
    "export figure": ("ladder", "sweep", "step v2"),
    "export readme": ("demo", "demo --in none.md"),
    "export": (
        "counters --out all.csv",
        "times --out all.txt",
        "lines --out none.csv --study none",
    ),
    "list jobs": ("",),
    "doctor": ("",),
    "docs": ("nothing",),
    "verify": ("v0 --engine emulator", "v3 --problem none"),
    "profile": ("v3 --problem none", "v3 --engine ncu"),
    "time": ("v3",),
    "tune": ("v3", "v3 --budget soon"),
    "capture": ("before",),
    "import": ("{report} --study fresh", "none.ncu-rep"),
    "new": (
        "v4 --from v3",
        "v3",
        "--study other",
        "--study other",
        "--example",
        "--from-cu scaling.cu",
        "--from-cu none.cu",
        "--from-launch @before::scale -- true",
        "v5 --from-tuned v3",
    ),
    "init": (". --study first", "fresh --study first"),
}
#: Commands that are not run here, and why.
OTHERS = {
    "serve": "ends by Ctrl-C alone; builds what `report` does, and its refusals are told",
    "serve lsp": "speaks to an editor: workbench/editing/tests/test_sessions.py",
    "serve mcp": "is asked by programs, in English",
    "run": "its words stand beside a program's own; what it says is in the catalogue",
}
#: What may stay English, and why.
ALLOWED = (
    "ath pipe throttle",  # ncu's name of a stall, which engineers in China say in English, too
    "peed of light",  # the same of a section
    "workbench ",  # a command
)


def here(words: str) -> bool:
    """Whether the feature for programs is there, where it is needed."""
    return not re.search("--from-(cu|launch)", words) or "run" in COMMANDS


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    yield
    language.use("en")


@pytest.fixture
def project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: Callable[[str], Path]
) -> Project:
    made = make_project(tmp_path)
    (tmp_path / "README.md").write_text(
        "<!-- workbench export readme demo -->\n<!-- end of demo -->\n", encoding="utf-8"
    )
    path = report("ladder_full")
    (tmp_path / path.name).write_bytes(path.read_bytes())
    if "run" in COMMANDS:
        ran_programs.fake(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return made


def test_every_command_is_swept_or_says_why_not() -> None:
    assert {*SWEPT, *OTHERS} >= {*COMMANDS}


@pytest.mark.parametrize("name", [each for each in SWEPT if each in COMMANDS])
def test_no_sentence_stays_english(
    name: str, project: Project, report: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = f"{report('ladder_full').name}::sgemm_v1"
    theirs = " ".join(Path(str(each.__file__)).read_text() for each in (factories, ran_programs))
    before = {path: path.stat().st_mtime_ns for path in project.root.rglob("*") if path.is_file()}
    for behind in filter(here, SWEPT[name]):
        words = [name, *behind.format(report=kernel).split()]
        english = _english(words, theirs, capsys)
        assert not english, "\n".join([" ".join(words), *english])
    # What was written is for people as well, but for the code in it.
    for path in project.root.rglob("*"):
        new = path.suffix in (".py", ".cu", ".toml") and path not in before
        text = path.read_text(encoding="utf-8").partition("--- */")[0] if new else ""
        for line in text.splitlines():
            if "scale_add" not in path.parts:  # the example, as it was recorded
                found = [x for x in english_words(line) if x not in theirs and "import" not in x]
                assert not found, f"{path}: {line}"


def _english(words: list[str], theirs: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What a command prints in English where Chinese is asked for."""
    try:
        code: object = cli.main(["--lang", "zh", *words])
    except SystemExit as end:
        code = end.code
    printed = "".join(capsys.readouterr())
    assert code != cli.INTERNAL, printed
    return [
        f"{found}: {line.strip()}"
        for line in printed.splitlines()
        for found in english_words(line)
        if found not in theirs and not any(each in found for each in ALLOWED)
    ]


@pytest.mark.parametrize(
    "words",
    [
        "list",
        "list sgemm",
        "show sgemm/v3",
        "diff sgemm/v2 sgemm/v3",
        "diff conv2d/v0 conv2d/v1 --all",
        "diff conv2d/v1 conv2d/v2 --memory",
        "check sgemm/v2 sgemm/v3 --passed",
    ],
)
def test_no_sentence_of_recorded_studies_stays_english(
    words: str, repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repo)
    files = [each for kind in ("cu", "toml", "py") for each in repo.glob(f"kernels/**/*.{kind}")]
    theirs = " ".join(" ".join(each.read_text(encoding="utf-8").split()) for each in files)
    assert not _english(words.split(), theirs, capsys)


@pytest.mark.parametrize(
    ("words", "written"),
    [
        pair
        for pair in (
            ("new --study vadd", "vadd/study.py"),
            ("new --from-cu scaling.cu", "scaling/study.py"),
            ("new v4 --from v3", "demo/v4.cu"),
            ("import {report} --study fresh", "fresh/study.py"),
        )
        if pair[0].split()[0] in COMMANDS and here(pair[0])
    ],
)
def test_written_files_have_the_same_code_and_are_read(
    words: str, written: str, project: Project, report: Callable[[str], Path]
) -> None:
    kernel = f"{report('ladder_full').name}::sgemm_v1"
    assert cli.main(["--lang", "zh", *words.format(report=kernel).split()]) == 0
    path = project.kernels / written
    study = load_study(project, path.parent.name)
    assert study.versions and not study.broken
    text = path.read_text(encoding="utf-8")
    assert re.search("[\u4e00-\u9fff]{2}", text)
    goldens.same(f"zh/written/{written.replace('/', '_')}.txt", text)
    path.unlink()
    if path.name == "study.py":  # once more, in English
        shutil.rmtree(path.parent)
        shutil.rmtree(project.profiles / "h200" / path.parent.name, ignore_errors=True)
    assert cli.main(["--lang", "en", *words.format(report=kernel).split()]) == 0
    assert _code(text) == _code(path.read_text(encoding="utf-8"))


def _code(text: str) -> list[str]:
    """Lines without comments, texts and docstrings."""
    bare = re.sub(r'"""(.|\n)*?"""', "", text)
    bare = re.sub(r"^((?:title|change|tolerance_why)\s*= ).*$", r"\1", bare, flags=re.M)
    bare = re.sub(r'NotImplementedError\(".*"\)', "", bare)
    lines = (re.split(r"#(?!include)|//", line)[0].rstrip() for line in bare.splitlines())
    return [line for line in lines if line]


@needs_compiler
@pytest.mark.parametrize(
    ("words", "version"),
    [("--study vadd", "vadd/v0"), ("--from-cu scaling.cu", "scaling/v0")][: 1 + here("--from-cu")],
)
def test_a_written_study_verifies(
    words: str, version: str, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["--lang", "zh", "new", *words.split()]) == 0
    assert cli.main(["--lang", "zh", "verify", version, "--engine", "emulator"]) == 0
    assert "正常" in capsys.readouterr().out
