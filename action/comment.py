"""Write a Markdown file into one comment on a pull request: the one that an earlier run wrote.

It is known by a marker that nobody sees, and by its author being a program: a person who writes
the marker gets no comment overwritten. Only the standard library is needed.

Environment: ``TOKEN``, ``NAME`` (of the gate), ``NUMBER`` (of the pull request),
``GITHUB_REPOSITORY``, ``GITHUB_API_URL``. What cannot be written is a warning and no failure: a
pull request from a fork has a token that may only read, and the verdict does not depend on it.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: GitHub takes 65,536 characters.
_MOST = 65_000
_PAGE, _PAGES = 100, 50


def _ask(method: str, path: str, body: dict[str, str] | None = None) -> Any:
    request = urllib.request.Request(
        os.environ.get("GITHUB_API_URL", "https://api.github.com") + path,
        data=None if body is None else json.dumps(body).encode(),
        method=method,
        headers={
            "Authorization": f"Bearer {os.environ['TOKEN']}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def _comments(issue: str) -> Iterator[dict[str, Any]]:
    for page in range(1, _PAGES + 1):
        found = _ask("GET", f"{issue}/comments?per_page={_PAGE}&page={page}")
        yield from found
        if len(found) < _PAGE:
            return


def publish(text: str) -> str:
    """Update the gate's comment, or write it; what was done.

    Raises:
        urllib.error.URLError: GitHub did not answer, or refused.
        ValueError: the environment names no repository or pull request.
    """
    repository, number, name = (os.environ[x] for x in ("GITHUB_REPOSITORY", "NUMBER", "NAME"))
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository) or not number.isdigit():
        raise ValueError(f"{repository!r} #{number!r} is no pull request")
    marker = f"<!-- workbench gate: {name} -->"
    body = {"body": f"{marker}\n{text}"[:_MOST]}
    for comment in _comments(f"/repos/{repository}/issues/{number}"):
        author = comment.get("user") or {}  # None: an account that is gone
        if author.get("type") == "Bot" and (comment["body"] or "").startswith(marker):
            _ask("PATCH", f"/repos/{repository}/issues/comments/{int(comment['id'])}", body)
            return "updated"
    _ask("POST", f"/repos/{repository}/issues/{number}/comments", body)
    return "written"


def main(argv: list[str]) -> int:
    """Entry point: the file's name."""
    try:
        done = publish(Path(argv[0]).read_text(encoding="utf-8"))
    except (urllib.error.URLError, ValueError, OSError) as error:
        flat = str(error).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        sys.stdout.write(f"::warning::the comment was not written: {flat}\n")
        return 0
    sys.stdout.write(f"The comment was {done}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
