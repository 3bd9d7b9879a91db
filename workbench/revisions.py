"""Git in the folder that a program is run in: revisions, changes, worktrees.

A repository's own settings name programs: to fetch missing objects, to convert files, to show them,
to watch them, and hooks. A repository may be anybody's. So `git` runs none of these programs, not
even those in the user's own settings, and fetches nothing. Git still checks the repository's owner
(``safe.directory``).
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha1, sha256
from pathlib import Path

from workbench.disk.writing import private_folder
from workbench.errors import MissingError, UsageError
from workbench.model import Record
from workbench.processes.starting import environment, program

#: The most bytes of an uncommitted change that are kept; of a longer change, only the hash is.
LONGEST_PATCH = 400_000
_TIMEOUT_S = 60
#: Characters of a content's name: enough to tell the files of a repository apart.
_SHORT = 12
#: The hint for objects missing from a partial clone.
COMPLETE = "Nothing is fetched for a partial clone: `git fetch --refetch --no-filter` completes it."
#: Settings that override a repository's own.
_FIXED = {
    # A file named HEAD does not make a folder a repository.
    "safe.bareRepository": "explicit",
    "protocol.allow": "never",
    "core.sshCommand": "false",
    "core.gitProxy": "",
    "core.askPass": "",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.alternateRefsCommand": "",
    "core.pager": "cat",
    "core.editor": "false",
    "credential.helper": "",
    "diff.external": "",
    "gpg.program": "false",
    "log.showSignature": "false",
    "submodule.recurse": "false",
    "maintenance.auto": "false",
    "gc.auto": "0",
}
#: Settings, under any name, whose value is a program; and the value that replaces it.
_NAMED = {
    r"filter\.(.+)\.(clean|smudge|process|required)": {
        **dict.fromkeys(("clean", "smudge", "process"), ""),
        "required": "false",
    },
    r"diff\.(.+)\.(command|textconv)": {"command": "", "textconv": ""},
    r"merge\.(.+)\.driver": {"driver": "false"},
    r"hook\.(.+)\.(event|command|enabled)": {"event": "", "enabled": "false"},
    r"remote\.(.+)\.(promisor|vcs|uploadpack)": {"promisor": "false", "uploadpack": "false"},
}
#: Commands that read or write files in a working tree.
_CONVERTING = ("diff", "worktree")
#: A diff that runs no programs; for a submodule, which has its own settings, its commit only.
_PLAIN = (
    *("--no-color", "--no-ext-diff", "--no-textconv"),
    *("--submodule=short", "--ignore-submodules=dirty"),
)
_VARIABLES = {
    "GIT_NO_LAZY_FETCH": "1",
    # Overrides `protocol.NAME.allow` of a repository: no protocol has this name.
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",  # commands that only read write no index
    "GIT_PAGER": "cat",
}
#: A remote with web pages, as a browser, ssh or scp names it.
_REMOTE = re.compile(
    r"(?:(?P<web>https?://)|(?P<ssh>ssh://))?(?:[^@/\s]*@)?"
    r"(?P<host>(?:[\w-]+\.)*(?P<kind>github|gitlab|gitee)[\w.-]*\.[\w-]+)"
    r"(?(web)/|(?(ssh)(?::\d+)?/|:))(?P<path>[\w.-]+(?:/[\w.-]+?)+)(?:\.git)?/?"
)
#: In `git log --raw -z --format=%H`: a commit before its first file, a content's name, a path.
_COMMITTED = re.compile(r"(?:(\w{40,})\0\n)?:\d+ \d+ \w+ (\w+) \w\0([^\0]+)\0")
_DROPPED = ("GIT_EXTERNAL_DIFF", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_PROXY_COMMAND", "GIT_ASKPASS")


class State(Record, frozen=True):
    """The state of a captured program's sources.

    `commit` is a full hash, empty outside Git; `patch` is the output of `git diff HEAD` for tracked
    files, and `patch_sha256` its hash, even if it was too long to keep.
    """

    commit: str = ""
    patch: str = ""
    patch_sha256: str = ""

    @property
    def clean(self) -> bool:
        """True if the tracked files equal the commit's."""
        return not self.patch_sha256


def git(folder: Path, *words: str) -> bytes | None:
    """The output of git in `folder`; None if git fails or is not installed."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        answer = _git(folder, words, _TIMEOUT_S)
        return answer.stdout if answer.returncode == 0 else None
    return None


def _git(
    folder: Path, words: Sequence[str], timeout_s: float | None, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run git; it starts no other program.

    Raises:
        OSError: git is not installed.
        subprocess.TimeoutExpired: it took too long.
    """
    settings = list(_FIXED.items())
    if words[0] in _CONVERTING:
        listing = ("config", "--list", "--name-only", "-z")
        settings += _without_programs(_run_git(folder, listing, settings, timeout_s))
    return _run_git(folder, words, settings, timeout_s, given)


def _without_programs(listed: subprocess.CompletedProcess[bytes]) -> Iterator[tuple[str, str]]:
    """Settings that override all programs that the listed settings name."""
    if listed.returncode:
        raise OSError("git does not list its settings")
    for key in dict.fromkeys(os.fsdecode(listed.stdout).split("\0")):
        for pattern, instead in _NAMED.items():
            if match := re.fullmatch(pattern, key, re.DOTALL):
                section = key.partition(".")[0]
                yield from ((f"{section}.{match[1]}.{name}", to) for name, to in instead.items())


def _run_git(
    folder: Path,
    words: Sequence[str],
    settings: Sequence[tuple[str, str]],
    timeout_s: float | None,
    given: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    env = environment()
    for name in _DROPPED:
        env.pop(name, None)
    return subprocess.run(
        [program("git") or "git", "--no-pager", *words],
        cwd=folder,
        env={**env, **_VARIABLES, **_as_variables(env, settings)},
        capture_output=True,
        input=given,
        check=False,
        timeout=timeout_s,
    )


def _as_variables(env: Mapping[str, str], settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Settings as variables, after the user's. Unlike ``-c``, a name may hold any character."""
    count = env.get("GIT_CONFIG_COUNT", "0")
    first = int(count) if count.isdecimal() else 0
    found = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (key, value) in enumerate(settings, first):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def repository(folder: Path) -> Path | None:
    """The root of the working tree that contains `folder`, or None."""
    said = git(folder, "rev-parse", "--show-toplevel")
    return Path(os.fsdecode(said.rstrip(b"\n"))) if said else None


def commit_of(folder: Path, revision: str) -> str:
    """The full hash of a revision; empty for other text."""
    if revision.startswith("-"):
        return ""  # an option is not a revision
    said = git(folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    return said.decode("ascii", "replace").strip() if said else ""


def state_of(folder: Path) -> State:
    """The commit checked out in `folder`, and the change on top of it."""
    commit = commit_of(folder, "HEAD")
    if not commit:
        return State()
    patch = git(folder, "diff", "HEAD", *_PLAIN) or b""
    return State(
        commit=commit,
        patch=patch.decode("utf-8", "replace") if len(patch) <= LONGEST_PATCH else "",
        patch_sha256=sha256(patch).hexdigest() if patch else "",
    )


def web_pages(folder: Path) -> str:
    """The web address above a repository's commits and files; "" if `origin` has none."""
    remote = os.fsdecode(git(folder, "remote", "get-url", "origin") or b"").strip()
    found = _REMOTE.fullmatch(remote)
    below = "-/" if found and found["kind"] == "gitlab" else ""
    return f"https://{found['host']}/{found['path']}/{below}" if found else ""


def published(folder: Path) -> dict[str, dict[str, str]]:
    """Commits that a remote has: short names of files' contents, and paths, below `folder`.

    A file is at the last commit that changed it. `contents` gives a text the same name.
    """
    local = (git(folder, "rev-list", "HEAD", "--not", "--remotes") or b"").decode().split()
    words = ("--raw", "--no-renames", "--no-abbrev", "-z", "--format=%H", "--", ".")
    commit, seen, found = "", set[str](), dict[str, dict[str, str]]()
    for match in _COMMITTED.finditer(os.fsdecode(git(folder, "log", *words) or b"")):
        commit, name, path = match[1] or commit, match[2], match[3]
        if path not in seen and commit not in local:
            found.setdefault(commit, {})[name[:_SHORT]] = path
        seen.add(path)
    return found


@lru_cache(maxsize=1 << 8)
def contents(text: str | None) -> str:
    """Git's name of a file's content, shortened; "" if there is no content."""
    data = (text or "").encode()
    named = sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return named[:_SHORT] if data else ""


@contextlib.contextmanager
def worktree(folder: Path, revision: str, say: Callable[[str], None]) -> Iterator[Path]:
    """A checkout of a revision in its own worktree, for the length of the block.

    No filter or hook of the repository runs: a file that Git LFS would fetch stays a pointer.

    Raises:
        UsageError: no repository, or no such revision.
        MissingError: Git cannot make the checkout.
    """
    root = repository(folder)
    if root is None:
        raise UsageError(f"{folder} is not in a Git repository", "--at needs a Git revision.")
    commit = commit_of(root, revision)
    if not commit:
        raise UsageError(f"{revision} is not a Git revision here", "`git log` lists them.")
    with private_folder() as holder:
        place = Path(holder).resolve() / root.name
        words = ("worktree", "add", "--detach", str(place), commit)
        try:
            done = _git(root, words, None)
        except OSError as error:
            raise MissingError(f"git does not run: {error}", "Repair it.") from error
        if done.returncode:
            raise MissingError(
                f"git cannot check {revision} out in a worktree:\n  "
                f"{os.fsdecode(done.stderr).strip()}",
                f"Check the free space, and `git worktree list`. {COMPLETE}",
            )
        try:
            if names := _unconverted(place):
                more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
                say(
                    f"{revision}: filters (Git LFS, …) are not run on a checkout, so these files "
                    f"are as Git keeps them: {', '.join(names[:3])}{more}"
                )
            yield place
        finally:
            git(root, "worktree", "remove", "--force", str(place))


def _unconverted(place: Path) -> list[str]:
    """Files of a checkout that a filter would have changed."""
    listed = git(place, "ls-files", "-z") or b""
    answer = _git(place, ("check-attr", "--stdin", "-z", "filter"), _TIMEOUT_S, listed)
    fields = os.fsdecode(answer.stdout).split("\0")
    named = zip(fields[0::3], fields[2::3], strict=False)
    return [name for name, value in named if value not in ("unspecified", "unset", "set")]
