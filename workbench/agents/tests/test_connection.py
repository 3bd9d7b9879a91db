"""A program at work over the protocol: what it finds, and what it cannot do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from benchmarks.truth.labels import Label, load_labels
from tests.benchmarks.test_truth import BLIND
from tests.factories import make_profile, make_project
from tests.ladders import needs_compiler
from tests.processes import runs, until
from workbench.agents.tests.client import (
    BROKEN,
    REPO,
    Client,
    asked,
    broken_project,
    connected,
    talk,
)
from workbench.agents.tools import BY_NAME, in_arguments
from workbench.model import Capture
from workbench.store import Store

#: What the answers to one question may come to.
MOST = 60_000
STUDIES = {"broken": "", "hopper": "sm_90a", "stores": "sm_90a"}


# --- what it finds ---------------------------------------------------------------------------


def wrong_lines(study: str) -> dict[str, tuple[str, int]]:
    """Version -> its file and the line of its mistake, which the file itself marks."""
    found = {}
    for path in sorted((BROKEN / "kernels" / study).glob("v*.cu")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.endswith("// <- wrong"):
                found[path.stem.partition("_")[0]] = f"kernels/{study}/{path.name}", number
    return found


@pytest.mark.parametrize(
    ("tool", "hint", "said"),
    [
        ("verify", "allow more with --timeout SECONDS.", "allow more with timeout_s."),
        ("show", "Choose one with --device and --problem.", "Choose one with device and problem."),
        ("strip", "Compare all the same with --force.", "Compare all the same with force."),
        ("show", "allow more with --timeout SECONDS.", "allow more with --timeout SECONDS."),
        ("verify", "Run `workbench verify --timeout 9`.", "Run `workbench verify --timeout 9`."),
        ("verify", "--no-time or --engine-x", "--no-time or --engine-x"),
    ],
)
def test_a_hint_names_the_arguments_of_its_tool(tool: str, hint: str, said: str) -> None:
    assert in_arguments(hint, BY_NAME[tool]) == said


def test_a_client_is_told_what_it_can_give(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    for version, clocks in (("v0", "none"), ("v2", "base")):
        capture = Capture(command=("ncu",), clock_control=clocks, passes=38)
        Store.of(project).save(make_profile(version=version, problem="n64", capture=capture))

    async def job(client: Client) -> None:
        answer, failed = await client.call("strip", old="v0", new="v2")
        assert failed, answer
        assert answer["error"]["hint"].endswith("add force to see the difference anyway.")

    asked(project.root, job)


@needs_compiler
@pytest.mark.slow
def test_a_client_finds_the_line_of_every_broken_kernel(tmp_path: Path) -> None:
    async def one(client: Client, study: str) -> None:
        wrong = wrong_lines(study)
        assert len(wrong) == len(list((BROKEN / "kernels" / study).glob("v*.cu"))) - 1 >= 3
        listed = (await client.ask("list", study=study))["answer"]["studies"][0]["versions"]
        ids = [version["id"] for version in listed]
        assert set(ids) - set(wrong) == {"v0"}
        verdict = await client.ask(
            "verify",
            versions=[f"{study}/{name}" for name in ids],
            engine="emulator",
            arch=STUDIES[study],
            max_bytes=MOST // 2,
        )
        assert verdict["error"]["code"] == 4 and "more" not in verdict
        for name, (file, line) in wrong.items():
            said = [r for r in verdict["answer"]["results"] if r["version"] == name and not r["ok"]]
            assert said and said[0]["message"].startswith(f"{file}:{line}:"), said
            shown = await client.ask(
                "source", version=f"{study}/{name}", first=line, select="/lines/0"
            )
            assert shown["answer"].endswith("// <- wrong")
        assert all(r["ok"] for r in verdict["answer"]["results"] if r["version"] == "v0")

    async def job(client: Client) -> None:
        for study in STUDIES:
            await one(client, study)
        assert client.answered <= MOST  # for all of them together

    talk(broken_project(tmp_path), job, "--allow", "verify")


def ten_steps() -> Iterator[Label]:
    """Ten of the labelled steps whose cause is a hunk, evenly over all ladders."""
    labels = load_labels(REPO / "tests/data/truth/steps.toml")
    hunks = [
        each
        for each in labels
        if each.link == "hunk" and each.study != "pairs" and each.pair not in BLIND
    ]
    yield from hunks[::6][:10]


def touches(hunk: dict[str, Any], label: Label) -> bool:
    ranges = [(hunk["old"], lines) for lines in label.edit_old]
    ranges += [(hunk["new"], lines) for lines in label.edit_new]
    return any(own[0] <= last and first <= own[1] for own, (first, last) in ranges)


@pytest.mark.slow
def test_a_client_finds_the_hunk_of_ten_recorded_steps() -> None:
    steps = list(ten_steps())
    assert len(steps) == 10 and len({label.study for label in steps}) >= 6

    async def one(client: Client, label: Label) -> None:
        client.answered = 0
        old, new = (f"{label.study}/{side}" for side in label.sides)
        step = (await client.ask("strip", old=old, new=new, problem=label.problem))["answer"]
        edit = next(stop for stop in step["strip"] if stop["kind"] != "doubt")
        assert edit["kind"] == "edit", label.pair
        best = step["cause"]["proofs"][0]
        hunks = [hunk for hunk in step["hunks"] if hunk["id"] in best["hunks"]]
        assert edit["hunk"] in (None, *best["hunks"]), label.pair
        assert any(touches(hunk, label) for hunk in hunks), label.pair
        first, last = hunks[0]["new"]
        if first <= last:  # what was only removed has no lines on the new side
            lines = await client.ask("source", version=new, first=first, select="/lines")
            text = (REPO / hunks[0]["new_file"]).read_text(encoding="utf-8").splitlines()
            assert lines["answer"][0] == text[first - 1]
        assert client.answered <= MOST, label.pair

    async def job(client: Client) -> None:
        for label in steps:
            await one(client, label)

    talk(REPO, job)


# --- the loop --------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.slow
def test_a_version_is_started_found_wrong_and_mended(tmp_path: Path) -> None:
    root = broken_project(tmp_path)
    for other in ("hopper", "windows"):
        shutil.rmtree(root / "kernels" / other)
    wrong = (root / "kernels/broken/v5_one_too_many.cu").read_text()
    code = wrong.partition("--- */\n")[2]

    async def job(client: Client) -> None:
        started = await client.ask(
            "new_version",
            version="broken/v40",
            parent="v0",
            title="One more",
            change="an idea",
            text=code,
        )
        path = started["answer"]["written"]
        assert path == "kernels/broken/v40_one_more.cu"
        verdict = await client.ask("verify", versions=["broken/v40"], engine="emulator")
        assert verdict["error"]["code"] == 4
        message = next(r["message"] for r in verdict["answer"]["results"] if not r["ok"])
        line = (root / path).read_text().splitlines().index(wrong.splitlines()[14]) + 1
        assert message.startswith(f"{path}:{line}:")
        right = (root / "kernels/broken/v0_right.cu").read_text().partition("--- */\n")[2]
        before = (root / path).read_text()
        answer, failed = await client.call("edit_version", version="broken/v40", text="int x;")
        assert failed and (root / path).read_text() == before, answer
        await client.ask("edit_version", version="broken/v40", text=right)
        assert "an idea" in (root / path).read_text()
        seen: list[str] = []

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            seen.append(message or "")

        given: dict[str, Any] = {"versions": ["broken/v40"], "engine": "emulator"}
        result = await client.session.call_tool("profile", given, progress_callback=progress)
        assert not result.is_error and any("v40" in line for line in seen), (result, seen)
        hot = await client.ask("hot_lines", target="broken/v40", engine="emulator")
        assert hot["answer"]["hot_lines"]["by"] == "instructions"
        stores = [line for line in hot["answer"]["hot_lines"]["lines"] if "y[i] =" in line["text"]]
        assert stores and all(line["sectors"] > 0 for line in stores)
        assert all(line["sectors_excess"] == 0 for line in stores)
        # Front matter of the text's own overrules the call, which says so.
        again = await client.ask(
            "new_version", version="broken/v41", parent="v0", title="Mine", text=wrong
        )
        assert again["answer"]["dropped"] == ["title", "parent"]
        assert "title, parent of this call went nowhere" in again["answer"]["note"]
        assert "dropped" not in started["answer"]

    talk(root, job, "--allow", "verify,profile,write")


def test_a_plain_diff_begins_with_what_moved() -> None:
    async def job(client: Client) -> None:
        said = (await client.ask("diff", old="sgemm/v2", new="sgemm/v3"))["answer"]
        keys = list(said)
        assert keys.index("sentence") < keys.index("hunks") < keys.index("counters")
        moved = [each["moved"] for each in said["counters"]]
        assert moved[0] and moved == sorted(moved, reverse=True)

    talk(REPO, job)


def children(pid: int) -> set[int]:
    """All processes that a process has started, and those that these have."""
    found = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found |= {child} | children(child)
    return found


@needs_compiler
@pytest.mark.slow
def test_a_run_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    root = broken_project(tmp_path)

    async def run() -> None:
        async with connected(root, "--allow", "verify") as client:
            told = anyio.Event()
            begun: set[int] = set()

            async def progress(progress: float, total: float | None, message: str | None) -> None:
                begun.update(children(os.getpid()))
                told.set()

            async with anyio.create_task_group() as group:

                async def verify() -> None:
                    given: dict[str, Any] = {"versions": ["broken/v6"], "engine": "emulator"}
                    await client.session.call_tool("verify", given, progress_callback=progress)

                group.start_soon(verify)
                with anyio.fail_after(60):
                    await told.wait()
                group.cancel_scope.cancel()
            # The next run waits for the end of the cancelled one.
            listed = await client.ask("verify", versions=["broken/v0"], engine="emulator")
            assert all(result["ok"] for result in listed["answer"]["results"])
            server = min(begun)  # the first that was started
            until(lambda: not any(runs(pid) for pid in begun - {server}))
        until(lambda: not any(map(runs, begun)))

    anyio.run(run)


@pytest.mark.slow
def test_every_resource_fits_and_every_tool_says_what_it_takes(tmp_path: Path) -> None:
    make_project(tmp_path)

    async def job(client: Client) -> None:
        with pytest.raises(MCPError) as caught:
            await client.session.read_resource("workbench://schema/x")
        assert caught.value.data["hint"]
        resources = (await client.session.list_resources()).resources
        assert len(resources) > 10
        for resource in resources:
            text = (await client.session.read_resource(resource.uri)).model_dump_json()
            assert 100 < len(text.encode()) < MOST, resource.uri
        one = await client.session.read_resource("workbench://counters/shared_wavefronts")
        assert "bank" in one.model_dump_json() or "Passes" in one.model_dump_json()
        tools = (await client.session.list_tools()).tools
        assert len(tools) == 15
        for tool in tools:
            properties = tool.input_schema["properties"]
            assert tool.description and {"select", "offset", "max_bytes"} <= set(properties)
            assert tool.input_schema["additionalProperties"] is False
        assert len("".join(tool.model_dump_json() for tool in tools)) < MOST

    talk(tmp_path, job, "--allow", "verify,profile,time,write,python")
