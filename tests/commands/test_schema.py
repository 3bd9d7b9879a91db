"""Every command's JSON against its schema, and against the records that the schema is made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import jsonschema
import msgspec
import pytest
from click.testing import CliRunner

from tests.engines.stand_ins import THERE, Cli
from tests.factories import make_project
from workbench.cli import COMMANDS, app
from workbench.views.shapes import Json
from workbench.views.shapes.schema import SHAPES, schema_of, schemas

REPO = Path(__file__).resolve().parents[2]
#: Documents that the study of `tests.factories` and its records give.
SMALL = (
    ("list",),
    ("show", "v3"),
    ("diff", "v2", "v3"),
    ("diff", "v2", "v3", "--sass"),
    ("doctor",),
)


def holds(command: str, text: str) -> Json:
    """The document of that text, if it is of its schema, and has every key in its place."""
    document: Json = json.loads(text)
    jsonschema.Draft202012Validator(schema_of(command)).validate(document)
    exact = []
    for shape in SHAPES[command]:
        try:
            record = msgspec.json.decode(text, type=shape)
        except msgspec.ValidationError:
            continue
        # As text, where the order of keys counts; numbers are those of the document itself.
        exact.append(json.dumps(json.loads(msgspec.json.encode(record))) == json.dumps(document))
    assert exact == [True], f"{command}: another key or order than its record has"
    return document


def printed(words: Sequence[str]) -> str:
    result = CliRunner().invoke(app, [*words, "--format", "json"], catch_exceptions=False)
    assert result.stdout, result.stderr
    return result.stdout


@pytest.mark.parametrize("words", SMALL, ids=" ".join)
def test_documents_of_a_small_project(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    holds(words[0], printed(words))


@pytest.mark.parametrize("words", [("show", "@graphs"), ("diff", "@strided", "@coalesced")])
def test_documents_of_programs(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[1] / "data" / "captures")
    holds(words[0], printed(words))


def test_what_the_recorded_ladders_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPO)
    for words in (
        ("show", "sgemm/v3", "--memory"),
        ("diff", "sgemm/v2", "sgemm/v3", "--memory"),
        ("show", "scale_add/v1"),
        ("diff", "scale_add/v0", "scale_add/v1"),
    ):
        holds(words[0], printed(words))


@pytest.mark.slow
@pytest.mark.parametrize("study", ["sgemm", "conv2d", "conv2d_half"])
def test_every_step_of_a_recorded_ladder(study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPO)
    listed = holds("list", printed(["list", "--study", study]))["studies"][0]["versions"]
    steps = [v for v in listed if v["profiles"] and v["parent"]]
    assert len(steps) > 5
    for version in steps[::5]:
        sides = (f"{study}/{version['parent']}", f"{study}/{version['id']}")
        holds("show", printed(["show", sides[1]]))
        holds("diff", printed(["diff", *sides, "--sass", "--force"]))


@pytest.mark.slow
@pytest.mark.usefixtures("stand_in")
def test_times_and_verdicts(cli: Cli, stand_in: Callable[[str], None]) -> None:
    _, out, _ = cli("time", "v0", *THERE, "--limit", "0.1", "--format", "json")
    assert holds("time", out)["times"][0]["ratio"]["n"] > 1
    stand_in("wrong")
    code, out, _ = cli("verify", "v0", *THERE, "--format", "json")
    assert code == 4 and not holds("verify", out)["results"][0]["ok"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["diff", "v2", "v9"], 2, "no version"),
        (["diff", "x.ncu-rep"], 2, "compares two"),
        (["diff"], 2, "Missing argument"),
        (["show", "none.ncu-rep"], 2, "none.ncu-rep"),
        (["nothing"], 2, "No such command"),
    ],
)
def test_errors_are_documents_too(
    words: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from workbench import cli

    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli.main(["--json-errors", *words])
    out, err = capsys.readouterr()
    assert ended.value.code == code and not out
    error = holds("error", err)["error"]
    assert error["code"] == code and said in error["message"] and error["hint"]


def test_an_option_behind_the_command_is_not_ours(capsys: pytest.CaptureFixture[str]) -> None:
    from workbench import cli

    with pytest.raises(SystemExit):
        cli.main(["show", "--json-errors"])
    assert "No such option" in capsys.readouterr().err


def test_every_command_that_prints_json_has_a_schema() -> None:
    found = set()
    for name in COMMANDS:
        command = app.get_command(click.Context(app), name)
        assert command is not None
        for option in command.params:
            kind = option.type
            if option.name == "format_" and isinstance(kind, click.Choice):
                found |= {name.split()[-1]} if "json" in kind.choices else set()
    assert found == set(SHAPES) - {"error"}


def test_the_command_prints_them() -> None:
    for command in SHAPES:
        text = CliRunner().invoke(app, ["docs", "schema", command], catch_exceptions=False).stdout
        document = json.loads(text)
        jsonschema.Draft202012Validator.check_schema(document)
        assert document == schema_of(command)
    whole = json.loads(CliRunner().invoke(app, ["docs", "schema"], catch_exceptions=False).stdout)
    jsonschema.Draft202012Validator.check_schema(whole)
    assert whole == json.loads(json.dumps(schemas()))
    assert {f"#/$defs/{name}" for name in SHAPES} <= {f"#/$defs/{name}" for name in whole["$defs"]}
    library = {**whole, "$ref": "#/$defs/error"}
    check = jsonschema.Draft202012Validator(library)
    assert check.is_valid({"error": {"code": 2, "message": "a", "hint": ""}})
    assert not check.is_valid({"error": {"code": "2", "message": "a"}})


def test_a_document_that_lacks_a_key_is_noticed() -> None:
    with pytest.raises(jsonschema.ValidationError):
        holds("list", '{"default_study": "sgemm"}')
    with pytest.raises(AssertionError):
        holds("list", '{"studies": [], "default_study": "sgemm"}')
