"""The documentation keeps up: every command in it parses, every link leads somewhere.

What stands in fenced blocks of the README and below docs/ is taken as it would be typed;
options and arguments are parsed by the commands themselves, and nothing is run. The
tutorial's version is more than parsed: it is made, compiled and computed with.
"""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt

from tests import ladders
from workbench import cli, errors
from workbench.analysis.expectations import find_counter
from workbench.compile import build as building
from workbench.compile import compilers
from workbench.project import Project
from workbench.study.folder import Study, load_study

REPO = Path(__file__).resolve().parent.parent
PAGES = [
    *(REPO / name for name in ("README.md", "README.zh-CN.md", "CONTRIBUTING.md")),
    REPO / "changes" / "README.md",
    *sorted((REPO / "docs").rglob("*.md")),
    *sorted((REPO / "workbench").glob("*/docs/**/*.md")),  # of features
    *sorted((REPO / "examples").rglob("*.md")),
]
MARKDOWN = MarkdownIt("commonmark").enable("table")
#: Languages of fenced blocks whose lines are typed into a shell.
SHELLS = {"", "console", "bash", "sh", "yaml", "text"}


class Line(NamedTuple):
    """A command of the documentation."""

    page: str
    text: str


def fences(page: Path, *languages: str) -> Iterator[str]:
    for token in MARKDOWN.parse(page.read_text(encoding="utf-8")):
        if token.type == "fence" and token.info.strip() in languages:
            yield token.content


def commands(page: Path) -> Iterator[Line]:
    """Every ``workbench …`` of a page: lines of its fenced blocks, and its code spans."""
    name = page.relative_to(REPO).as_posix()
    for block in fences(page, *SHELLS):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.match(r"\s*(?:\$ |- (?:run: )?)?(workbench(?: .*)?)$", line)
            if found:
                yield Line(name, found[1])
    for token in MARKDOWN.parse(page.read_text(encoding="utf-8")):
        for child in token.children or ():
            if child.type == "code_inline" and child.content.startswith("workbench "):
                yield Line(name, child.content)


def words(text: str) -> list[str] | None:
    """What a shell would pass; None for a mention of a command that is no whole line."""
    text = re.split(r"\s(?:\|\|?|>|&&|<)\s", text)[0]
    if "…" in text:
        return None
    return shlex.split(text, comments=True)


LINES = [line for page in PAGES for line in commands(page)]


def parsed(arguments: list[str]) -> click.Context:
    """Parse as click would, without running; what is wrong raises what a user would meet."""
    group = click.Context(cli.app, info_name="workbench")
    if arguments[0] in ("--debug", "--json-errors"):
        arguments = arguments[1:]
    name, command, rest = cli.app.resolve_command(group, arguments)
    assert command is not None and name is not None
    return command.make_context(name, rest, parent=group)


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.page}:{line.text}"[:90])
def test_every_command_in_the_documentation_parses(line: Line) -> None:
    arguments = words(line.text)
    if arguments is None:
        name = line.text.split()[1]
        assert name in cli.COMMANDS or name.startswith("-"), line
        return
    arguments = arguments[1:]
    if not arguments or {"--help", "--version"} & set(arguments):
        return
    # A mention such as `workbench import` names a command whose arguments are another matter.
    try:
        parsed(arguments)
    except click.MissingParameter:
        assert " ".join(arguments) in cli.COMMANDS, line


def test_every_command_is_documented() -> None:
    told = "".join(f"\n{line.text} " for line in LINES)
    for name in cli.COMMANDS:
        assert f"\nworkbench {name} " in told, f"workbench {name} is in no page"


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_option_has_help(name: str) -> None:
    command = cli.app.get_command(click.Context(cli.app), name)
    assert command is not None and command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, f"{name} {parameter.opts[0]}"


def test_every_exit_code_is_documented() -> None:
    page = (REPO / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    told = {int(number) for number in re.findall(r"^\| (\d+) \|", page, re.M)}
    classes = [each for each in vars(errors).values() if isinstance(each, type)]
    codes = {each.exit_code for each in classes if issubclass(each, errors.WorkbenchError)}
    assert told == codes | {0, 130, cli.INTERNAL}


def test_exit_codes_elsewhere_are_among_them() -> None:
    page = (REPO / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| (\d+) \|", page, re.M))
    for other in PAGES:
        text = other.read_text(encoding="utf-8")
        for number in re.findall(r"[Ee]xit code(?:\]\([^)]*\))? (\d+)", text):
            assert number in told, (other.name, number)


def anchors(page: Path) -> set[str]:
    """Headings as GitHub names them."""
    found = set()
    tokens = MARKDOWN.parse(page.read_text(encoding="utf-8"))
    for before, token in itertools.pairwise(tokens):
        if before.type == "heading_open":
            text = "".join(child.content for child in token.children or ())
            found.add(re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-"))
    return found


def links(page: Path) -> Iterator[str]:
    for token in MARKDOWN.parse(page.read_text(encoding="utf-8")):
        for child in token.children or ():
            target = child.attrGet("href") or child.attrGet("src")
            if isinstance(target, str):
                yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPO).as_posix())
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        if re.match(r"https?:|mailto:", link):
            continue
        target, _, anchor = link.partition("#")
        other = (page.parent / target).resolve() if target else page
        assert other.is_relative_to(REPO) and other.exists(), link
        if anchor and other.suffix == ".md":
            assert anchor in anchors(other), link


def linked(page: Path) -> set[Path]:
    """What of this repository a page links to."""
    targets = (link.partition("#")[0] for link in links(page) if "://" not in link)
    return {(page.parent / target).resolve() for target in targets if target}


def test_the_readme_leads_to_the_index_and_the_index_to_every_page() -> None:
    index = REPO / "docs" / "index.md"
    assert index in linked(REPO / "README.md")
    known = {index, *linked(index), *linked(REPO / "README.md")}
    told = {page for page in PAGES if page.parent.parent.name != "examples"}
    assert {page.relative_to(REPO).as_posix() for page in told - known} == set()


ROOMS = sorted(path.name for path in (REPO / "workbench").iterdir() if path.is_dir())
PATH = re.compile(
    rf"(?:(?:workbench|ptxemu|tests|docs|kernels|benchmarks|examples|{'|'.join(ROOMS)})/[\w./-]*)"
)
#: What the tutorial's reader writes.
UNWRITTEN = {"kernels/sgemm/v40_two_groups_of_four_columns.cu"}


def paths(page: Path) -> Iterator[str]:
    """Code spans that are a file or folder of this repository, or of the package."""
    for token in MARKDOWN.parse(page.read_text(encoding="utf-8")):
        for child in token.children or ():
            if child.type == "code_inline" and PATH.fullmatch(child.content):
                yield child.content


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPO).as_posix())
def test_every_path_that_is_named_exists(page: Path) -> None:
    for path in paths(page):
        places = [
            root / f"{path}{end}" for root in (REPO, REPO / "workbench") for end in ("", ".py")
        ]
        assert path in UNWRITTEN or any(place.exists() for place in places), path


def test_every_dependency_has_its_reason() -> None:
    page = (REPO / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = page[page.index("## Dependencies") : page.index("Considered and left out")]
    told = set(re.findall(r"[\w-]+", " ".join(re.findall(r"^\| ([^|]+) \|", rows, re.M))))
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [project["dependencies"], *project["optional-dependencies"].values()]
    names = {re.split(r"[><=; ]", each)[0] for group in wanted for each in group}
    assert names - told == set()


def test_names_in_the_table_of_places_stand_in_their_files() -> None:
    text = (REPO / "docs/architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([A-Z]\w+)`(?: of| in)? \(?`([\w/]+\.py)`", text)
    assert len(named) > 3
    for name, path in named:
        assert name in (REPO / path).read_text(encoding="utf-8"), (name, path)


def printed_in(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Each command of a page's consoles that is shown with its output, and that output."""
    for block in fences(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *told = part.splitlines()
            if told:
                yield command, told


def test_the_readmes_outputs_are_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Line by line, in the order of the terminal, with “…” for what is left out."""
    monkeypatch.chdir(REPO)
    monkeypatch.setenv("COLUMNS", "80")
    shown = dict(printed_in(REPO / "README.md"))
    assert {command.split()[1] for command in shown} >= {"show", "diff"}
    for command, told in shown.items():
        if command.split()[1] not in ("show", "diff"):
            continue  # needs a compiler
        result = CliRunner().invoke(cli.app, (words(command) or [])[1:], catch_exceptions=False)
        printed = iter(line.rstrip() for line in result.stdout.splitlines())
        for line in told:
            assert line == "…" or line in printed, line


def test_the_readmes_numbers_are_those_of_their_pages() -> None:
    """Each number of “How true is it?” is in the table of accuracy or measurements."""
    readme = (REPO / "README.md").read_text(encoding="utf-8")
    table = readme.partition("## How true is it?")[2].partition("\n## ")[0].split("\n\n")[1]
    pages = "".join(
        (REPO / "docs" / f"{page}.md").read_text(encoding="utf-8")
        for page in ("accuracy", "measurements")
    )
    told = re.findall(r"\d+ of \d+|[\d.]+ ×", table)
    assert len(told) >= 4
    assert [each for each in told if each not in pages] == []


def test_a_ladders_page_is_a_story_and_no_lab_book() -> None:
    for page in (REPO / "docs" / "ladders").glob("*.md"):
        assert len(page.read_text(encoding="utf-8").split()) <= 900, page.name


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Study]:
    """The project as it is after steps 2, 3 and 4 of the tutorial."""
    root = tmp_path_factory.mktemp("tutorial")
    shutil.copytree(REPO / "kernels" / "sgemm", root / "kernels" / "sgemm")
    (root / "workbench.toml").write_text('default_study = "sgemm"\n')
    page = REPO / "docs" / "tutorial.md"
    (typed,) = (line for line in commands(page) if line.text.startswith("workbench new sgemm/v40"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        done = CliRunner().invoke(cli.app, (words(typed.text) or [])[1:], catch_exceptions=False)
    assert done.exit_code == 0
    (file,) = (root / "kernels" / "sgemm").glob("v40*.cu")
    assert file.relative_to(root).as_posix() in page.read_text(encoding="utf-8")
    text = file.read_text(encoding="utf-8")
    change, predictions = fences(page, "toml")
    assert text.count('change = ""\n') == 1
    text = text.replace('change = ""\n', change)
    text = text.replace("--- */", f"{predictions}--- */", 1)
    for edit in fences(page, "diff"):
        old = "".join(line[1:] for line in edit.splitlines(keepends=True) if line[0] == "-")
        new = "".join(line[1:] for line in edit.splitlines(keepends=True) if line[0] == "+")
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")
    project = Project(root=root, default_study="sgemm")
    return project, load_study(project, "sgemm")


def test_the_tutorials_version_is_well_formed(tutorial: tuple[Project, Study]) -> None:
    _, study = tutorial
    version = study.version("v40")
    assert version.parent == "v4" and version.change.startswith("A thread's eight columns")
    assert len(version.expectations) == 4
    for expectation in version.expectations:
        assert find_counter(expectation.counter) is not None, expectation.counter


def test_the_line_that_the_tutorial_quotes_is_in_v4() -> None:
    (quoted,) = fences(REPO / "docs" / "tutorial.md", "cuda")
    (file,) = (REPO / "kernels" / "sgemm").glob("v4*.cu")
    assert quoted.strip() in file.read_text(encoding="utf-8")


@ladders.needs_compiler
def test_the_tutorials_version_computes_the_product(tutorial: tuple[Project, Study]) -> None:
    _, study = tutorial
    assert ladders.verdict(study, study.version("v40"), study.problem("m33_n65_k17")) == ""


@pytest.mark.nvcc
@pytest.mark.skipif(not compilers.available(), reason="neither nvcc nor NVRTC is on this machine")
def test_the_tutorials_version_compiles_without_spills(tutorial: tuple[Project, Study]) -> None:
    project, study = tutorial
    made = building.build(project, study.version("v40"), "sm_90").build
    (kernel,) = made.resources
    assert made.log == "" and (kernel.spill_stores, kernel.spill_loads) == (0, 0)


def _said(page: Path) -> list[str]:
    """What stands in a page's consoles and code, without the comments beside it."""
    blocks = re.findall(r"^```\w+\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.M)
    lines = "".join(blocks).splitlines()
    return [re.sub(r"(?<=\S) +# .*", "", line) for line in lines]


@pytest.mark.parametrize("chinese", [x for x in PAGES if x.name.endswith(".zh-CN.md")])
def test_the_chinese_page_has_the_same_commands_and_outputs(chinese: Path) -> None:
    said = _said(chinese.with_name(chinese.name.replace(".zh-CN", "")))
    assert len(said) > 20
    assert _said(chinese) == said
