"""``action.yml``: its steps are read from the file and run with bash, against an API of our own.

What GitHub does is imitated as far as the steps can tell: expressions become environment variables,
outputs and the summary are files. An expression that is not known here fails the test.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engines.stand_ins import STUDY, VERSION

REPO = Path(__file__).resolve().parents[3]
ACTION = yaml.safe_load((REPO / "action.yml").read_text(encoding="utf-8"))
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
MARKER = "<!-- workbench gate: gate -->"


class Api(HTTPServer):
    """The comments of one pull request; `refuse` answers every writing with 403."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.comments: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.refuse = False

    def add(self, body: str, kind: str = "User") -> None:
        number = len(self.comments) + 1
        self.comments.append({"id": number, "user": {"type": kind}, "body": body})


class _Handler(BaseHTTPRequestHandler):
    server: Api

    def _say(self, code: int, what: object) -> None:
        self.server.calls.append(f"{self.command} {self.path}")
        data = json.dumps(what).encode()
        self.send_response(code)
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> str:
        assert self.headers["Authorization"] == "Bearer secret"
        return str(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"])

    def do_GET(self) -> None:
        page = int(self.path.rpartition("page=")[2])
        self._say(200, self.server.comments[100 * (page - 1) : 100 * page])

    def do_POST(self) -> None:
        body = self._body()
        if self.server.refuse:
            return self._say(403, {})
        assert self.path == "/repos/some/where/issues/7/comments"
        self.server.add(body, "Bot")
        return self._say(201, {})

    def do_PATCH(self) -> None:
        number = int(self.path.rpartition("/")[2])
        self.server.comments[number - 1]["body"] = self._body()
        self._say(200, {})

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def api() -> Iterator[Api]:
    server = Api()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class Runner:
    """Runs steps of the action one after the other, as GitHub would for one job.

    Attributes:
        inputs: As a workflow gives them.
        github: Values of ``github.…``.
        outputs: What the step ``judge`` has set.
    """

    def __init__(self, workspace: Path, temporary: Path, api: Api | None = None) -> None:
        self.workspace, self.temporary = workspace, temporary
        self.inputs: dict[str, str] = {}
        self.github: dict[str, str] = {"github.event.pull_request.number": "7", ACCEPTED: "false"}
        self.outputs: dict[str, str] = {}
        self.summary = temporary / "summary.md"
        self.path = temporary / "bin"
        self.path.mkdir(parents=True)
        self.more: dict[str, str] = {}
        if api is not None:
            self.more["GITHUB_API_URL"] = f"http://127.0.0.1:{api.server_port}"

    def program(self, text: str) -> None:
        """Put a program called ``workbench`` in the place of the real one."""
        file = self.path / "workbench"
        file.write_text(text)
        file.chmod(0o755)

    def value(self, expression: str) -> str:
        """What an expression of the action stands for."""
        if expression == "github.event.pull_request.base.sha || github.event.before":
            return self.github.get("base", "")
        kind, _, name = expression.partition(".")
        if kind == "inputs":
            default = ACTION["inputs"][name]["default"]
            return self.inputs.get(name, self.resolved(default))
        if expression.startswith("steps.judge.outputs."):
            return self.outputs.get(expression.rpartition(".")[2], "")
        return {"github.token": "secret", **self.github}[expression]

    def resolved(self, text: str) -> str:
        return _EXPRESSION.sub(lambda match: self.value(match[1]), text)

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        """One step, by its name."""
        step = STEPS[name]
        output = self.temporary / "output"
        output.write_text("")
        assert step["shell"] == "bash"
        environment = {
            "HOME": os.environ.get("HOME", ""),
            "PATH": f"{self.path}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}"
            + os.environ["PATH"],
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", ""),
            "PYTHONPATH": str(REPO),
            "RUNNER_TEMP": str(self.temporary),
            "GITHUB_ACTION_PATH": str(REPO),
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_REPOSITORY": "some/where",
            "GITHUB_RUN_ID": "42",
            **self.more,
            **{key: self.resolved(text) for key, text in step.get("env", {}).items()},
        }
        place = self.workspace / self.resolved(step.get("working-directory", "."))
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
            cwd=place,
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        for line in output.read_text().splitlines():
            key, _, value = line.partition("=")
            self.outputs[key] = value
        return done

    def job(self) -> subprocess.CompletedProcess[str]:
        """Judge, comment and verdict; what the judge said."""
        judged = self.run("Judge")
        assert judged.returncode == 0, judged.stderr
        if self.outputs.get("folder"):
            assert self.run("Comment").returncode == 0
        assert self.run("Verdict").returncode == int(self.outputs["exit-code"])
        return judged


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode().strip()


ACCEPTED = "contains(github.event.pull_request.labels.*.name, inputs.accept-label)"

#: Answers as it is told to, and writes down how it was called.
_STUB = r"""#!/usr/bin/env python3
import json, os, sys
with open(os.environ["STUB_CALLS"], "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\n")
print(os.environ.get("STUB_SAYS", ""))
if "check" in sys.argv:
    for word in sys.argv:
        kind, _, name = word.partition("=")
        if kind in ("markdown", "json", "junit", "github"):
            status = os.environ.get("STUB_STATUS", "pass")
            said = json.dumps({"status": status}) if kind == "json" else f"<{kind}>"
            open(name, "w").write(said + "\n")
sys.exit(int(os.environ.get("STUB_CODE", "0")))
"""


@pytest.fixture
def runner(tmp_path: Path, api: Api) -> Runner:
    workspace = tmp_path / "checkout"
    workspace.mkdir()
    git(workspace, "init", "-q")
    git(workspace, "commit", "-q", "--allow-empty", "-m", "base")
    base = git(workspace, "rev-parse", "HEAD")
    git(workspace, "commit", "-q", "--allow-empty", "-m", "change")
    made = Runner(workspace, tmp_path / "temp", api)
    made.github["base"] = base
    made.program(_STUB)
    made.more["STUB_CALLS"] = str(tmp_path / "calls")
    return made


def calls(runner: Runner) -> list[list[str]]:
    path = Path(runner.more["STUB_CALLS"])
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


# --- what stands in the file -----------------------------------------------------------------


@pytest.mark.parametrize("file", ["action.yml", "workbench/gate/docs/how-to/ci.md"])
def test_other_actions_are_named_by_commit(file: str) -> None:
    """A branch or a tag may be something else tomorrow; the reader is told which release it is."""
    named = re.findall(r"^\s*(?:- )?uses: (.*)$", (REPO / file).read_text(), re.MULTILINE)
    assert len(named) >= 3
    for words in named:
        ours = words == "OWNER/workbench@<commit>"
        assert ours or re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", words), words


def test_no_expression_stands_inside_of_a_script() -> None:
    for step in STEPS.values():
        assert "${{" not in step.get("run", ""), step["name"]
        assert "run" not in step or step["shell"] == "bash"
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w/-]+@[0-9a-f]{40}", step["uses"])


def test_every_input_is_used_and_every_output_is_set(runner: Runner) -> None:
    text = (REPO / "action.yml").read_text(encoding="utf-8")
    for name in ACTION["inputs"]:
        assert f"inputs.{name}" in text, name
    runner.job()
    for output in ACTION["outputs"].values():
        (expression,) = _EXPRESSION.findall(output["value"])
        assert runner.value(expression)


# --- how it ends --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "status"), [(0, "pass"), (1, "fail"), (3, "error"), (6, "inconclusive")]
)
def test_only_a_pass_is_green(runner: Runner, api: Api, code: int, status: str) -> None:
    runner.more["STUB_CODE"] = str(code)
    runner.job()  # the verdict ends with the code of the check
    assert runner.outputs["status"] == status
    assert [comment["body"] for comment in api.comments] == [f"{MARKER}\n<markdown>\n"]
    assert runner.summary.read_text() == "<markdown>\n"


def test_an_exit_of_0_with_another_verdict_is_not_green(runner: Runner) -> None:
    runner.more["STUB_STATUS"] = "fail"
    runner.job()
    assert (runner.outputs["status"], runner.outputs["exit-code"]) == ("error", "70")


@pytest.mark.parametrize(("labelled", "passed"), [("true", True), ("false", False)])
def test_a_label_accepts_other_limits(runner: Runner, labelled: str, passed: bool) -> None:
    runner.github[ACCEPTED] = labelled
    runner.inputs["against"] = "HEAD"
    runner.job()
    assert ("--accept" in calls(runner)[-1]) is passed


def test_without_an_answer_nothing_is_green(runner: Runner) -> None:
    assert runner.run("Verdict").returncode == 70  # the judge never came to an end


@pytest.mark.slow
def test_a_second_run_updates_the_comment(runner: Runner, api: Api) -> None:
    api.add(f"{MARKER}\nwhat a person wrote")
    for _ in range(130):
        api.add("hm")
    runner.job()
    runner.job()
    assert len(api.comments) == 132 and api.comments[0]["body"].endswith("a person wrote")
    assert [call.partition(" ")[0] for call in api.calls if "GET" not in call] == ["POST", "PATCH"]


@pytest.mark.slow
def test_a_comment_that_may_not_be_written_is_a_warning(runner: Runner, api: Api) -> None:
    api.refuse = True
    runner.job()
    said = runner.run("Comment")
    assert said.returncode == 0 and said.stdout.startswith("::warning::the comment was not written")


@pytest.mark.slow
def test_a_token_is_asked_for_by_name_only(runner: Runner) -> None:
    runner.job()
    assert "secret" not in json.dumps(calls(runner))


# --- what it is asked ----------------------------------------------------------------------------


def test_the_merge_base_is_what_it_is_compared_with(runner: Runner) -> None:
    runner.inputs = {
        "study": "sgemm",
        "versions": "v1  v2\nv3",
        "problem": "n4",
        "engine": "emulator",
    }
    runner.job()
    (call,) = calls(runner)
    base = runner.github["base"]
    assert call[:3] == ["check", "--engine=emulator", f"--against={base}"]
    assert call[-4:] == ["--", "sgemm/v1:n4", "sgemm/v2:n4", "sgemm/v3:n4"]


@pytest.mark.slow
def test_a_shallow_checkout_is_deepened(runner: Runner, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{runner.workspace}", str(shallow))
    runner.workspace = shallow
    runner.job()
    assert f"--against={runner.github['base']}" in calls(runner)[0]


@pytest.mark.slow
@pytest.mark.parametrize("base", ["0" * 40, "1" * 40])
def test_without_a_merge_base_it_is_an_error(runner: Runner, base: str) -> None:
    runner.github["base"] = base
    runner.job()
    assert runner.outputs["status"] == "error" and calls(runner) == []


@pytest.mark.slow
def test_a_rolling_baseline_is_measured_judged_and_kept_once_a_job(runner: Runner) -> None:
    runner.inputs = {"baseline": "main", "keep": "true"}
    runner.job()
    time, check = calls(runner)
    assert time == ["time", "--all", "--again", "--"]
    assert check[:4] == ["check", "--keep", "--baseline=main", "--run=42"]
    runner.inputs = {"baseline": "main", "versions": "v1"}
    runner.job()
    assert calls(runner)[2] == ["time", "--", "v1"] and "--keep" not in calls(runner)[3]


# --- what people write ---------------------------------------------------------------------------

HOSTILE = "v0; touch pwned $(touch pwned) `touch pwned` --help '\"\n::error::x"


@pytest.mark.parametrize("more", [{}, {"baseline": HOSTILE}])
def test_what_is_written_into_an_input_is_a_word_and_no_command(
    runner: Runner, more: dict[str, str]
) -> None:
    names = ("study", "problem", *(["baseline"] if more else ["against", "engine"]))
    runner.inputs = dict.fromkeys((*names, "versions"), HOSTILE)
    runner.run("Judge")
    assert not list(runner.workspace.glob("**/pwned"))
    words = calls(runner)[-1]
    assert words[words.index("--") + 1 :] == [f"{HOSTILE}/{word}" for word in HOSTILE.split()]
    assert {f"--{name}={HOSTILE}" for name in names[2:]} <= set(words)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["../x", "$(touch pwned)", "-->"])
def test_a_name_is_a_plain_word(runner: Runner, api: Api, name: str) -> None:
    runner.inputs = {"name": name}
    runner.job()
    assert runner.outputs == {"status": "error", "exit-code": "2"} and not api.calls


def test_what_a_compiler_prints_is_obeyed_by_nobody(runner: Runner) -> None:
    runner.more["STUB_SAYS"] = "::error file=x::no\n::set-env name=PATH::/tmp\n::stop-commands::x"
    said = runner.job().stdout
    word = re.search(r"^::stop-commands::([0-9a-f]{32})$", said, re.MULTILINE)
    assert word is not None
    before, _, after = said.partition(f"\n::{word[1]}::\n")
    assert before.count("::set-env") == 1 and "::set-env" not in after
    assert before.index("::stop-commands::") < before.index("::error")


# --- with the real program, in a real checkout ---------------------------------------------------


@pytest.fixture
def checkout(runner: Runner) -> Path:
    """A checkout whose folder ``perf`` is a small project, and the real ``workbench``."""
    folder = runner.workspace / "perf" / "kernels" / "double"
    folder.mkdir(parents=True)
    (runner.workspace / "perf" / "workbench.toml").write_text('default_study = "double"\n')
    (folder / "study.py").write_text(STUDY)
    (folder / "v0_plain.cu").write_text(VERSION)
    runner.program(f'#!/bin/sh\nexec "{sys.executable}" -m workbench.cli "$@"\n')
    runner.inputs = {"working-directory": "perf", "engine": "emulator"}
    return runner.workspace


def commit(
    runner: Runner, checkout: Path, change: Mapping[str, str], *, base: bool = False
) -> None:
    path = checkout / "perf" / "kernels" / "double" / "v0_plain.cu"
    text = path.read_text()
    for old, new in change.items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "a change")
    if base:
        runner.github["base"] = git(checkout, "rev-parse", "HEAD")


#: The same result through a permutation, which touches more sectors.
_SCATTERED = {"if (i < n) y[i] = 2 * x[i];": "int j = i * 7 % n;\n    if (i < n) y[j] = 2 * x[j];"}


@pytest.mark.slow
@pytest.mark.nvcc
def test_a_pull_request_that_scatters_its_accesses(
    runner: Runner, checkout: Path, api: Api
) -> None:
    commit(runner, checkout, {}, base=True)
    commit(runner, checkout, _SCATTERED)
    for _ in range(2):  # a job that is started again
        said = runner.job().stdout
        assert runner.outputs["status"] == "fail"
        place = "file=perf/kernels/double/v0_plain.cu,line=11,"
        assert f"::error {place}title=double/v0%3A global_sectors::worse than allowed" in said
    (comment,) = api.comments
    assert comment["body"].startswith(f"{MARKER}\n**The gate failed**")
    assert "What moved" in comment["body"] and "int j = i * 7 % n;" in comment["body"]
    folder = Path(runner.outputs["folder"])
    assert {"gate.md", "gate.json", "gate.xml", "log.txt"} <= {
        path.name for path in folder.iterdir()
    }
    assert json.loads((folder / "gate.json").read_text())["status"] == "fail"
    # And back: the same pull request, mended.
    commit(runner, checkout, {new: old for old, new in _SCATTERED.items()})
    runner.job()
    assert runner.outputs["status"] == "pass" and "The gate passed" in api.comments[0]["body"]
    assert git(checkout, "status", "--porcelain", "--", "perf/kernels") == ""


# --- the how-to ----------------------------------------------------------------------------------


def examples(language: str) -> list[Any]:
    text = (REPO / "workbench/gate/docs/how-to/ci.md").read_text(encoding="utf-8")
    return [yaml.safe_load(each) for each in re.findall(rf"```{language}\n(.*?)```", text, re.S)]


def test_the_examples_give_inputs_that_there_are() -> None:
    used = [
        step.get("with", {})
        for example in examples("yaml")
        for job in (
            example.get("jobs", {}).values() if isinstance(example, dict) else [{"steps": example}]
        )
        for step in job["steps"]
        if step["uses"].endswith("workbench@<commit>")
    ]
    assert len(used) == 3
    assert set().union(*used) <= set(ACTION["inputs"])


@pytest.mark.parametrize("code", [0, 6])
def test_the_script_for_gitlab_ends_as_the_gate_does(runner: Runner, code: int) -> None:
    (job,) = (
        each["gate"] for each in examples("yaml") if isinstance(each, dict) and "gate" in each
    )
    runner.program(_STUB)
    (runner.path / "pip").write_text("#!/bin/sh\n")
    (runner.path / "pip").chmod(0o755)
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(job["script"])],
        cwd=runner.workspace,
        env={
            "PATH": f"{runner.path}:{os.environ['PATH']}",
            "STUB_CODE": str(code),
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": runner.github["base"],
            **runner.more,
        },
        check=False,
    )
    assert done.returncode == code
    assert f"--against {runner.github['base']}" in " ".join(calls(runner)[0])
    written = {path.name for path in runner.workspace.iterdir()}
    assert {*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]} <= written
