"""What the first screen of a step's page shows, judged against what the step says of itself.

``python -m benchmarks.screens`` renders the page of every recorded step and prints the share of
pages whose first screen holds the edit that the sentence names and its counter, and each page that
contradicts itself: code of another edit first, code whose time moved against the step without a
word, an excerpt of identical lines, a change of launch that only a closed fold shows.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path

from benchmarks.recordings import opened
from workbench.analysis.story import Step
from workbench.ladder import find_ladders
from workbench.store import Store
from workbench.views.html.ladders import step_head
from workbench.views.html.pages.diff import diff_view, render_diff

REPO = Path(__file__).resolve().parents[1]
_ARTICLE = re.compile(r'<article class="card hunk[^>]*id="hunk-(\d+)".*?</article>', re.DOTALL)
_CHANGED = re.compile(r'<tbody class="mod">(.*?)</tbody>', re.DOTALL)
_CODE = re.compile(r'<td class="c">(.*?)(?=<t[dr]|$)', re.DOTALL)
#: A part of the step's time below this is no reason for a word.
_LEAST = 0.02


@dataclass
class Screen:
    """What one page's first screen shows.

    `named` is whether the step names an edit, `held` whether that and its counter are shown.
    """

    page: str
    named: bool
    held: bool
    wrong: tuple[str, ...]
    warned: bool


def plain(markup: str) -> str:
    """The text of some HTML."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", markup)).split())


def screen(page: str, step: Step, html: str) -> Screen:
    """Judge a step's page."""
    story, speed = step.story, step.comparison.speed
    first = html.partition('<nav class="toc"')[0]
    text = plain(first)
    lead = _ARTICLE.search(first)
    shown = int(lead[1]) if lead else 0
    proof = next(iter(story.cause.proofs), None)
    told = proof is not None and bool(story.strip) and (speed is None or speed.moved)
    place = proof.place if proof is not None and told else None
    code = {chapter.hunk.id for chapter in story.chapters}
    hunks = code.intersection(place.hunks) if place is not None else set()
    launched = place is not None and not hunks and (place.link == "launch" or bool(place.hunks))
    wrong = []
    held = True
    if hunks and shown not in hunks:
        wrong.append(f"the sentence names hunks {sorted(hunks)}, hunk {shown} is shown first")
    if launched and not any(_said(row.changes or row.kernel, text) for row in story.launches):
        wrong.append("the launch changed, and the first screen does not show how")
    if proof is not None and told:
        stops = [stop for stop in story.strip if stop.counter == proof.counter.id]
        held = any(_said(stop.text, text) for stop in stops)
        if not held:
            wrong.append(f"its counter {proof.counter.id} ({proof.counter.words}) is not shown")
    if lead:
        wrong += _code_wrong(lead[0], shown, step)
    held = held and not any("names" in each or "launch" in each for each in wrong)
    return Screen(page, bool(told and (hunks or launched)), held, tuple(wrong), _warns(first))


def _said(words: str, text: str) -> bool:
    return " ".join(words.split()) in text


def _warns(first: str) -> bool:
    return '<ul class="notices"' in first


def _code_wrong(article: str, shown: int, step: Step) -> Iterator[str]:
    """What the code that is shown first says against the step."""
    changed = _CHANGED.findall(article)
    rows = [row for body in changed for row in body.split("<tr>")[1:]]
    if rows and _alike(rows):
        yield f"hunk {shown}: both sides of the excerpt are the same lines"
    chapter = next(c for c in step.story.chapters if c.hunk.id == shown)
    speed = step.comparison.speed
    times = [tie.time.delta_s for tie in chapter.ties if tie.time is not None]
    change = speed.new_s - speed.old_s if speed is not None and speed.moved else 0.0
    against = sum(times) * change < 0 and abs(sum(times)) >= _LEAST * abs(change)
    if against and 'class="against"' not in article:
        yield f"hunk {shown}: its time moved against the step, and no word says why"


def _alike(rows: Sequence[str]) -> bool:
    """Whether the changed rows hold the same lines on both sides."""
    old: list[str] = []
    new: list[str] = []
    for row in rows:
        cells = re.split(r'(?=<td class="(?:n|e)")', row)[1:]
        for side, cell in zip((old, new), cells, strict=False):
            side += [plain(code) for code in _CODE.findall(cell)]
    return sorted(filter(None, old)) == sorted(filter(None, new))


def recorded(root: Path = REPO, studies: tuple[str, ...] = ()) -> Iterator[tuple[str, Step, str]]:
    """Every recorded step of a project: the page's path, the step, its HTML."""
    project = opened(root)
    for ladder in find_ladders(Store.of(project), project, studies):
        for old, new, engine in ladder.steps:
            step = ladder.step(old, new, engine)
            path = f"{ladder.name}/{ladder.device}/{ladder.problem}/{old}..{new}.{engine}.html"
            head = step_head(ladder, (old, new, engine))
            yield path, step, render_diff(path, diff_view(step, head)).html


def walked(root: Path = REPO, studies: tuple[str, ...] = ()) -> Iterator[Screen]:
    """The screens of every recorded step of a project."""
    return (screen(*each) for each in recorded(root, studies))


def main(args: Sequence[str] | None = None) -> int:
    """Print shares and contradictions; 1 where a page contradicts itself."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("studies", nargs="*")
    parser.add_argument("--project", type=Path, default=REPO)
    options = parser.parse_args(args)
    found = []
    for each in walked(options.project, tuple(options.studies)):
        found.append(each)
        for words in each.wrong:
            sys.stdout.write(f"{each.page}: {words}\n")
    named = [each for each in found if each.named]
    held = sum(each.held for each in named)
    wrong = sum(bool(each.wrong) for each in found)
    warned = sum(each.warned for each in found)
    sys.stdout.write(
        f"{len(found)} steps, {len(named)} of which name an edit: {held} "
        f"({held / max(len(named), 1):.1%}) show it first, and its counter\n"
        f"{wrong} contradict themselves; {warned} warn in the first screen\n"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
