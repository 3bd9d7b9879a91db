"""What Git says of the folder that a program is run in: revisions, changes, worktrees."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from workbench.capture.records import State
from workbench.errors import MissingError, UsageError

#: Bytes of an uncommitted change that are kept; of a longer one only its hash is.
LONGEST_PATCH = 400_000
_TIMEOUT_S = 60


def git(folder: Path, *words: str) -> bytes | None:
    """What git says in `folder`; None where it fails, or is not there."""
    try:
        answer = subprocess.run(
            ["git", *words],
            cwd=folder,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout if answer.returncode == 0 else None


def repository(folder: Path) -> Path | None:
    """The root of the working tree that `folder` lies in; None outside of one."""
    said = git(folder, "rev-parse", "--show-toplevel")
    return Path(os.fsdecode(said.rstrip(b"\n"))) if said else None


def commit_of(folder: Path, revision: str) -> str:
    """The full hash of a revision; empty where it is none."""
    if revision.startswith("-"):
        return ""  # an option is no revision
    said = git(folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    return said.decode("ascii", "replace").strip() if said else ""


def state_of(folder: Path) -> State:
    """The commit that is checked out in `folder`, and the change on top of it."""
    commit = commit_of(folder, "HEAD")
    if not commit:
        return State()
    patch = git(folder, "diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv") or b""
    return State(
        commit=commit,
        patch=patch.decode("utf-8", "replace") if len(patch) <= LONGEST_PATCH else "",
        patch_sha256=sha256(patch).hexdigest() if patch else "",
    )


@contextlib.contextmanager
def worktree(folder: Path, revision: str) -> Iterator[Path]:
    """A checkout of a revision beside the working tree, for as long as the block runs.

    Raises:
        UsageError: no repository, or no such revision.
        MissingError: Git cannot make the checkout.
    """
    root = repository(folder)
    if root is None:
        raise UsageError(f"{folder} is not in a Git repository", "--at needs a revision of one.")
    commit = commit_of(root, revision)
    if not commit:
        raise UsageError(f"{revision} is not a Git revision here", "`git log` lists them.")
    with tempfile.TemporaryDirectory(prefix="workbench-at-") as holder:
        place = Path(holder).resolve() / root.name
        words = ["git", "worktree", "add", "--detach", str(place), commit]
        done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MissingError(
                f"git cannot check {revision} out beside the working tree:\n  "
                f"{done.stderr.strip()}",
                "Check the free space, and `git worktree list`.",
            )
        try:
            yield place
        finally:
            git(root, "worktree", "remove", "--force", str(place))
