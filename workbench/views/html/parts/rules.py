"""View model of ncu's own findings, the largest promise first."""

from __future__ import annotations

import re

from workbench.model import Launch, Record, Rule
from workbench.views.html.parts.common import Phrase, Tone, percent

_MARKUP = re.compile(r"@(section|url):([^@]*?)@")


class RuleRow(Record, frozen=True):
    """One of ncu's findings."""

    name: str
    kind: str
    tone: Tone
    gain: str
    scope: str
    message: tuple[Phrase, ...]


def message(raw: str) -> tuple[Phrase, ...]:
    """Split ncu's message at its own markup (``@url:text:address@``, ``@section:id:text@``).

    Only https links to NVIDIA's pages become links; a report may hold anything.
    """
    out: list[Phrase] = []
    end = 0
    for match in _MARKUP.finditer(raw):
        out.append(Phrase(raw[end : match.start()]))
        label, _, rest = match.group(2).partition(":")
        if match.group(1) == "url":
            safe = rest.startswith("https://docs.nvidia.com/")
            out.append(Phrase(label, rest if safe else ""))
        else:
            out.append(Phrase(rest or label))
        end = match.end()
    out.append(Phrase(raw[end:]))
    return tuple(part for part in out if part.text)


def _rule(rule: Rule) -> RuleRow:
    tones: dict[str, Tone] = {"optimization": "good", "warning": "warn", "error": "bad"}
    gain = scope = ""
    if rule.speedup is not None and rule.speedup > 0:
        gain = percent(rule.speedup / 100)
        scope = {"global": "of the launch", "local": "of a part"}.get(rule.scope, "estimated")
    return RuleRow(
        name=rule.title or rule.name,
        kind=rule.kind,
        tone=tones.get(rule.kind, ""),
        gain=gain,
        scope=scope,
        message=message(rule.message),
    )


def rule_rows(launch: Launch) -> tuple[tuple[RuleRow, ...], int]:
    """The findings that say something, and how many rules found nothing to say."""
    said = [rule for rule in launch.rules if rule.kind != "ok" and rule.message]
    said.sort(key=lambda rule: -(rule.speedup or 0.0))
    return tuple(map(_rule, said)), len(launch.rules) - len(said)
