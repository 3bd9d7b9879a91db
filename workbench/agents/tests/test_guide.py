"""The loop in docs/how-to/agents.md runs as it is written, each answer word by word."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ladders import needs_compiler
from workbench.agents.tests.client import REPO, Client, talk

PAGE = REPO / "workbench/agents/docs/how-to/agents.md"
#: What another run has another number for.
VARIES = re.compile(r"(?<=error)[\d.]+e-\d+|(?<=seed)\d+|[\d.]+m?sintheemulator")


def exchanges() -> Iterator[tuple[str, dict[str, Any], str]]:
    """The tool, what it is given, and what is told of its answer."""
    text = PAGE.read_text(encoding="utf-8").partition("## A loop")[2].partition("\n## ")[0]
    told = re.findall(r"^→ (\w+) (\{.*?\})\n← (\{.*?\})\n(?:\n|```)", text, re.DOTALL | re.M)
    assert len(told) == text.count("→ ") - text.count(" → ") == 11
    for tool, given, answer in told:
        yield tool, json.loads(given), answer


def same(told: str, answer: dict[str, Any]) -> bool:
    """Whether an answer is what is told of it, but for “…” and for what varies."""
    plain, said = (
        VARIES.sub("#", re.sub(r"\s+", "", each))
        for each in (told, json.dumps(answer, ensure_ascii=False))
    )
    parts = map(re.escape, plain.removesuffix("…}").split("…"))
    return re.match(".*?".join(parts), said) is not None


@needs_compiler
@pytest.mark.slow
def test_the_loop_of_the_guide_runs_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "workbench.toml").write_text('default_study = "sgemm"\n')
    shutil.copytree(
        REPO / "kernels/sgemm",
        tmp_path / "kernels/sgemm",
        ignore=lambda _, names: {n for n in names if not re.match(r"v[012]_|study\.py", n)},
    )
    old = (tmp_path / "kernels/sgemm/v2_coalesced.cu").read_text().partition("--- */\n")[2]
    padded = old.replace("As[T][T];", "As[T][T + 1];")
    barrier = "        __syncthreads();\n"
    texts = iter([padded.replace(barrier, "", 1), padded])
    assert padded != old and barrier in padded

    async def job(client: Client) -> None:
        for tool, given, told in exchanges():
            if "text" in given:
                given["text"] = next(texts)
                assert given["text"].startswith("constexpr int T = 32;")
            answer, _ = await client.call(tool, **given)
            assert same(told, answer), (told, answer)
        assert 4_900 < client.answered < 5_500  # as the page says

    talk(tmp_path, job, "--allow", "verify,profile,write")
