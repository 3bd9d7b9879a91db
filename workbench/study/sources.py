"""The sources of a study: versions found by their file names; text, includes and hash of each."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from workbench.counters import catalog
from workbench.disk.limits import LOOKUPS, MIB, SOURCE, SOURCES, TotalLimit, read_regular
from workbench.errors import DataError, UsageError, did_you_mean
from workbench.model import SourceFile
from workbench.project import VERSION_SUFFIXES, Project
from workbench.specs import Description, Version
from workbench.study import frontmatter
from workbench.study.frontmatter import Kind, place
from workbench.study.mangling import own_name

#: It begins with a character, which `re` finds ten times as fast as the beginnings of lines.
_INCLUDE = re.compile(r'#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]')
#: Included files are cached by their ``stat`` values, up to this many bytes.
_KEPT_BYTES = 64 * MIB
#: A file that was just written may be written again, with the same ``stat`` values.
_SETTLED_NS = 100_000_000


def read_source(path: Path, shown: str = "") -> str:
    r"""A source file's text, without a byte order mark, every line ending with ``\n``.

    Raises UsageError: it cannot be read, is no file, too large or not UTF-8; `shown` names it.
    """
    name = shown or str(path)
    try:
        raw = read_regular(path, SOURCE)
        SOURCES.take(path, len(raw))
    except DataError as error:
        # The fault is in the project, not in a record: the version cannot be used as it is.
        raise UsageError(error.message.replace(str(path), name, 1), error.hint) from error
    except OSError as error:
        raise UsageError(
            f"{name}: cannot be read: {error.strerror}", "Check the file and its permissions."
        ) from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{name}:{line}: not UTF-8 (byte 0x{raw[error.start]:02x})",
            f"Save the file as UTF-8, for example: iconv -f {_encoding(raw)} -t UTF-8 {name}",
        ) from error
    # nvcc counts "\r\n" as one line end, as every editor does; text compares and
    # hashes must not depend on which of the two a checkout wrote.
    return text.replace("\r\n", "\n")


def _encoding(raw: bytes) -> str:
    """The likely encoding of a text that is not UTF-8: Chinese pairs of bytes, or single bytes."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    try:
        raw.decode("gb18030")
    except UnicodeDecodeError:
        return "LATIN1"
    # Accented letters occur singly, and so before ASCII; Chinese comes in pairs of high bytes.
    pairs = re.findall(rb"[\x81-\xfe][\x80-\xfe]", raw)
    alone = re.findall(rb"[\x81-\xfe][\x40-\x7e]", raw)
    return "GB18030" if 2 * len(pairs) > len(alone) else "LATIN1"


def source_file(path: str, text: str) -> SourceFile:
    """The record of one source file, with the hash of its text."""
    return SourceFile(path=path, text=text, sha256=hashlib.sha256(text.encode("utf-8")).hexdigest())


#: The number of places checked before counting starts.
_MANY = 10_000


def include_folders(flags: tuple[str, ...]) -> list[str]:
    """The folders that ``-I`` flags name, as written."""
    folders = []
    pending = False
    for flag in flags:
        if pending:
            folders.append(flag)
            pending = False
        elif flag in ("-I", "--include-path"):
            pending = True
        elif flag.startswith("-I"):
            folders.append(flag[2:].lstrip("="))
        elif flag.startswith("--include-path="):
            folders.append(flag.partition("=")[2])
    return folders


def local_sources(
    project: Project, version: Version, looked: dict[str, bool] | None = None
) -> tuple[SourceFile, ...]:
    """The version's file, then every project file that it includes, in order of use.

    A quoted include is sought beside the file that names it, then (like one in angle brackets) in
    the ``-I`` folders of the version, which are relative to the project's root. An include that is
    not found there, or lies outside a closed project, is left to the compiler. `looked` receives
    the paths that were sought, and whether they exist. Raises
    UsageError: an included file lies outside the project or is not UTF-8; or the project is closed,
    and a version may not include it.
    """
    found = {version.path: source_file(version.path, version.text)}
    queue = [(version.path, include_directives(version.text))]
    folders = include_folders(version.flags)
    looked = {} if looked is None else looked

    def there(path: str) -> bool:
        if path not in looked:
            looked[path] = False
            if len(looked) % _MANY == 0:  # while there are few files, a check at the end suffices
                _counted(LOOKUPS, version.path, len(looked), version.path)
            outside = project.closed and (climbs(path) or climbs(_linked(project, path)))
            looked[path] = not outside and (project.root / path).exists()
        return looked[path]

    while queue:
        path, directives = queue.pop(0)
        if len(directives) >= _MANY:  # too many includes are refused before any is sought
            _counted(LOOKUPS, version.path, len(looked) + len(directives), version.path)
        for mark, name, line in directives:
            places = [posixpath.dirname(path)] if mark == '"' else []
            wanted = [posixpath.normpath(posixpath.join(p, name)) for p in (*places, *folders)]
            candidate = next((each for each in wanted if each in found or there(each)), None)
            # A closed project refuses paths outside it, and does not say if they exist.
            if candidate is None and project.closed:
                candidate = next(filter(climbs, wanted), None)
            if candidate is None or candidate in found:
                continue
            where = f"{path}:{line}: includes `{name}`"
            if climbs(candidate):
                raise UsageError(
                    f"{where}, outside the project",
                    "Copy the file into the project, so that a profile can show its lines.",
                )
            if project.closed and not open_to_programs(_linked(project, candidate), folders):
                raise UsageError(
                    f"{where}, which client programs may not read",
                    "It may include files in kernels/, and in folders that -I names in the "
                    "`flags` of a version that it did not write itself.",
                )
            included = _included(project.root / candidate, candidate)
            found[candidate] = SourceFile(
                path=candidate, text=included.text, sha256=included.sha256
            )
            queue.append((candidate, included.directives))
    _counted(LOOKUPS, version.path, len(looked), version.path)
    return tuple(found.values())


class _Included(NamedTuple):
    """The facts of an included file: its ``stat``, and those that follow from its text."""

    state: tuple[int, ...]
    text: str
    sha256: str
    directives: tuple[tuple[str, str, int], ...]


#: By device and inode number: a file may have many names, and many versions may include it.
_known: dict[tuple[int, int], _Included] = {}


def _included(path: Path, shown: str) -> _Included:
    """Read an included file, again only if it may have changed; errors as for `read_source`."""
    status = path.stat()
    key = (status.st_dev, status.st_ino)
    state = (status.st_mtime_ns, status.st_ctime_ns, status.st_size)
    known = _known.get(key)
    if known is not None and known.state == state:
        _counted(SOURCES, path, status.st_size, shown)
        return known
    text = read_source(path, shown)
    made = _Included(state, text, source_file(shown, text).sha256, include_directives(text))
    if time.time_ns() - max(state[:2]) > _SETTLED_NS:
        _known[key] = made
        while sum(len(each.text) for each in _known.values()) > _KEPT_BYTES:
            del _known[next(iter(_known))]
    return made


def include_directives(text: str) -> tuple[tuple[str, str, int], ...]:
    """The includes of a text: ``<`` or ``"``, the name, and the first line that names it."""
    found: dict[tuple[str, str], int] = {}
    line, at, behind = 1, 0, 0
    for match in _INCLUDE.finditer(text):
        begin = text.rfind("\n", behind, match.start()) + 1
        first = (begin or not behind) and not text[begin : match.start()].strip(" \t")
        behind = match.end()
        # Only the first word of a line is a directive.
        if first and (match[1], match[2]) not in found:
            line, at = line + text.count("\n", at, match.start(2)), match.start(2)
            found[match[1], match[2]] = line
    return tuple((mark, name, at) for (mark, name), at in found.items())


def _counted(limit: TotalLimit, path: Path | str, size: int, shown: str) -> None:
    """Add to the bytes that a version needs; exceeding the limit is the version's fault."""
    try:
        limit.take(path, size)
    except DataError as error:
        raise UsageError(error.message.replace(str(path), shown, 1), error.hint) from error


def climbs(path: str) -> bool:
    """True if a normalized path leads out of the folder to which it is relative."""
    return posixpath.isabs(path) or path == ".." or path.startswith("../")


def open_to_programs(path: str, folders: Iterable[str]) -> bool:
    """True if a client program may read a file or folder of the project.

    `path` is normalized, relative to the project's root; `folders` are open beside ``kernels``.
    """
    if climbs(path) or any(part.startswith(".") for part in path.split("/")):
        return False  # .git and .env may be in open folders too
    tops = ("kernels", *map(posixpath.normpath, folders))
    return any(top == "." or path == top or path.startswith(f"{top}/") for top in tops)


def _linked(project: Project, path: str) -> str:
    """The target of a path of the project, relative to its root."""
    return os.path.relpath((project.root / path).resolve(), project.root.resolve())


def source_hash(project: Project, version: Version) -> str:
    """SHA-256 over everything that decides what a version computes and how fast.

    That is its code after the front matter, its launches, scratch buffers, fills and tensor
    maps, its defines and flags, and the text of the project files that it includes. Title,
    change, expectations and requirements are prose: editing them leaves a recorded
    profile valid. Line ends, trailing blanks and blank lines around the code do
    not count; comments do, because they are part of a report.
    """
    sources = local_sources(project, version)
    code = frontmatter.code(version.text, kind=version.kind)
    content = {
        "code": "\n".join(line.rstrip() for line in code.split("\n")).strip("\n"),
        "includes": [[each.path, each.sha256] for each in sources[1:]],
        "launches": [
            [
                launch.kernel,
                launch.grid,
                launch.block,
                launch.args,
                launch.dynamic_shared,
                launch.cluster,
                # Only if it is set: profiles recorded before the key existed stay valid.
                *(["cooperative"] if launch.cooperative else []),
                *(["when", launch.when] if launch.when != "1" else []),
                *([launch.num_stages, launch.divisible_by_16] if launch.num_stages else []),
            ]
            for launch in version.launches
        ],
        "scratch": [[each.name, each.dtype, each.shape] for each in version.scratch],
        # As with `cooperative`: versions without one keep their hash.
        **(
            {
                "fills": [
                    [
                        each.name,
                        each.dtype,
                        each.values,
                        each.input,
                        *(["restores"] * each.restores),
                    ]
                    for each in version.fills
                ]
            }
            if version.fills
            else {}
        ),
        **({"image": version.image} if version.image else {}),
        **({"tensor_maps": version.tensor_maps} if version.tensor_maps else {}),
        **({"textures": version.textures} if version.textures else {}),
        **({"arch_specific": True} if version.arch_specific else {}),
        "defines": version.defines,
        "flags": version.flags,
    }
    packed = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(packed.encode("ascii")).hexdigest()


# --- The versions of a study, discovered by their file names ---

#: A version's file by its stem: ``v3``, ``v3_padded``.
VERSION_NAME = re.compile(r"v(\d+)(?:_\w+)?\Z", re.ASCII)
#: An unclosed comment takes the rest: searching for its end from every start would cost the square
#: of the file's length.
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|//[^\n]*", re.DOTALL)
#: Attributes between __global__ and the name that look like a call; like the next pattern, compiled
#: only when a kernel is sought, not for every command.
_ATTRIBUTE = (
    r"\b(?:__launch_bounds__|__cluster_dims__|__maxnreg__|__block_size__|__attribute__)"
    r"\s*\((?:[^()]|\([^()]*\))*\)"
)
#: It does not go beyond the next ``__global__``, for the same reason.
_GLOBAL = r"__global__\b(?:(?!__global__\b)[^;{}()])*?\b(\w+)\s*\("
#: A counter's name in the catalog's text.
_COUNTER = re.compile(r'^id = "(\w+)"$', re.MULTILINE)


def kernel_names(code: str) -> list[str]:
    """The functions that a CUDA source declares ``__global__``, in order."""
    plain = without_comments(code)
    return list(dict.fromkeys(match[1] for match in re.finditer(_GLOBAL, plain)))


def without_comments(code: str) -> str:
    """A CUDA source without comments and without attributes that look like a call."""
    return re.sub(_ATTRIBUTE, " ", _COMMENT.sub(" ", code))


def version_files(project: Project, study: str) -> Iterator[tuple[Path, str, int]]:
    """Files that may hold a version of a study: path, the version's id, and its number or -1.

    A file without a number is a version (a baseline) only if it has front matter.
    """
    for path in sorted((project.kernels / study).iterdir()):
        # An editor's own file beside a source may be a dangling link.
        if path.suffix not in VERSION_SUFFIXES or path.name == "study.py" or path.name[0] == ".":
            continue
        match = VERSION_NAME.match(path.stem)
        yield path, f"v{int(match[1])}" if match else path.stem, int(match[1]) if match else -1


def count_versions(project: Project, study: str) -> int:
    """Count the versions of a study, broken ones too, without reading their front matter."""
    return sum(
        number >= 0 or _described(path, study) for path, _, number in version_files(project, study)
    )


def _described(path: Path, study: str) -> bool:
    shown = f"kernels/{study}/{path.name}"
    kind: Kind = "cuda" if path.suffix == ".cu" else "python"
    try:
        return frontmatter.present(read_source(path, shown), path=shown, kind=kind)
    except UsageError:
        return False


class Versions(NamedTuple):
    """The versions of a study by their ids; the errors of files that cannot be used as they are.

    `sound` has v0, v1, … by number, then the baselines by name. A broken file is ignored: the
    version after it follows the one before it.
    """

    sound: dict[str, Version]
    broken: dict[str, UsageError]

    def require(self, version: str) -> None:
        """Raise the error of a version, if there is one."""
        if version in self.broken:
            raise self.broken[version]


def load_versions(project: Project, study: str) -> Versions:
    """All versions of a study.

    Versions are broken if their front matter is wrong, their number is not unique, their parent is
    unknown or in a cycle, or a kernel or counter does not exist.
    """
    numbered: list[tuple[int, str, Version]] = []
    others: list[Version] = []
    broken: dict[str, UsageError] = {}
    files: dict[str, list[str]] = {}
    for path, version_id, number in version_files(project, study):
        try:
            version = _read(path, study, version_id, number >= 0)
        except UsageError as error:
            version = None
            broken[version_id] = error.kept()
        if version is not None or version_id in broken:
            files.setdefault(version_id, []).append(f"kernels/{study}/{path.name}")
        if version is None:
            continue
        try:
            _check_kernels(project, version)
            _check_counters(version)
        except UsageError as error:
            broken[version_id] = error.kept()
        if number >= 0:
            numbered.append((number, version.name, version))
        else:
            others.append(version)
    for version_id, (first, *more) in files.items():
        if more:
            broken[version_id] = UsageError(
                f"{more[0]}: version {version_id} is also defined by {first}",
                "Give one of them another number.",
            )
    versions = [version for *_, version in sorted(numbered, key=lambda entry: entry[:2])] + others
    return Versions(_link(versions, broken), broken)


def _read(path: Path, study: str, version_id: str, numbered: bool) -> Version | None:
    shown = f"kernels/{study}/{path.name}"
    kind: Kind = "cuda" if path.suffix == ".cu" else "python"
    text = read_source(path, shown)
    # A file without number and front matter is a helper of the others.
    if not numbered and not frontmatter.present(text, path=shown, kind=kind):
        return None
    front = frontmatter.parse(text, path=shown, kind=kind)
    if not numbered and not front.baseline:
        raise UsageError(
            f"{shown}:{front.lines[0]}: neither a version nor a baseline",
            f"Name it v<number>_{path.stem}{path.suffix}, or write baseline = true.",
        )
    if kind == "python" and front.launches:
        kind = "triton"
    said = {name: getattr(front, name) for name in Description.__struct_fields__}
    return Version(
        study=study, id=version_id, name=path.stem, path=shown, kind=kind, text=text, **said
    )


def _link(versions: list[Version], broken: dict[str, UsageError]) -> dict[str, Version]:
    """Fill in each version's parent: named, or the version before it in the ladder.

    A version that names a missing parent is broken, and so is one that is its own ancestor.
    """
    names = {version.name: version.id for version in versions}
    ids = dict.fromkeys(version.id for version in versions)
    linked: dict[str, Version] = {}
    before: dict[str, str | None] = {}  # the sound version before each
    last: str | None = None
    for version in versions:
        before[version.id] = last
        parent = names.get(version.parent or "", version.parent)
        if version.parent in ids:
            parent = version.parent
        elif parent and parent not in ids and parent not in broken:
            broken[version.id] = UsageError(
                f"{place(version, 'parent')}: unknown parent `{parent}`",
                did_you_mean(parent, ids, "versions"),
            )
        if version.id in broken:
            continue
        if parent is None:
            parent = None if version.baseline else last
        if not version.baseline:
            last = version.id
        # parent = "": the first of a ladder of its own
        linked[version.id] = msgspec.structs.replace(version, parent=parent or None)
    while cycle := _cycle(linked):
        first = cycle[0]
        error = UsageError(
            f"{place(linked[first], 'parent')}: a cycle of parents: {' → '.join([*cycle, first])}",
            "Name an earlier version as parent: a ladder needs a first version.",
        )
        broken.update(dict.fromkeys(cycle, error))
        for version_id in cycle:
            del linked[version_id]
    for version_id, version in linked.items():
        parent = version.parent
        while parent is not None and parent not in linked:
            parent = before.get(parent)
        linked[version_id] = msgspec.structs.replace(version, parent=parent)
    return linked


def _cycle(versions: dict[str, Version]) -> list[str]:
    """Versions whose parents lead back to the first of them; every version is visited once."""
    passed: set[str] = set()
    for version in versions.values():
        path: dict[str, None] = {}
        at: str | None = version.id
        while at in versions and at not in passed and at not in path:
            path[at] = None
            at = versions[at].parent
        passed |= path.keys()
        if at in path:
            cycle = list(path)[list(path).index(at) :]
            begin = cycle.index(next(each for each in versions if each in cycle))
            return [*cycle[begin:], *cycle[:begin]]
    return []


def _check_kernels(project: Project, version: Version) -> None:
    """Refuse a kernel that is named nowhere in the version's code or its includes.

    Any mention counts, so that a kernel that a macro defines is accepted; the build checks the
    compiler's output again.
    """
    if version.kind == "python" or version.image:
        return
    sources = local_sources(project, version)
    plain = _COMMENT.sub(" ", frontmatter.code(version.text, kind=version.kind))
    if all(_mentions(plain, own_name(launch.kernel)) for launch in version.launches):
        return
    plain = _COMMENT.sub(" ", "\n".join([plain, *(each.text or "" for each in sources[1:])]))
    for index, launch in enumerate(version.launches):
        if not _mentions(plain, own_name(launch.kernel)):
            raise UsageError(
                f"{place(version, f'launch[{index}].kernel')}: there is no kernel "
                f"`{launch.kernel}` in this file",
                did_you_mean(launch.kernel, kernel_names(plain), "kernels"),
            )


def _mentions(code: str, name: str) -> bool:
    """True if a name occurs in code as a word; faster than compiling a pattern for each name.

    In code a mangled name is one of its parts, each of which follows its length.
    """
    if name.startswith("_Z"):
        return any(f"{len(each)}{each}" in name for each in kernel_names(code))
    at = code.find(name)
    while at >= 0:
        around = code[max(0, at - 1) : at] + code[at + len(name) : at + len(name) + 1]
        if not any(letter.isalnum() or letter == "_" for letter in around):
            return True
        at = code.find(name, at + 1)
    return False


@lru_cache(maxsize=1)
def _counter_ids() -> frozenset[str]:
    """The catalog's counter names, without descriptions, whose parsing takes 20 ms."""
    path = Path(__file__).resolve().parents[1] / "data" / "counters.toml"
    return frozenset(_COUNTER.findall(path.read_text(encoding="utf-8")))


def _check_counters(version: Version) -> None:
    for index, expectation in enumerate(version.expectations):
        if expectation.counter not in _counter_ids():
            known = catalog()
            raise UsageError(
                f"{place(version, f'expect[{index}].counter')}: unknown counter "
                f"`{expectation.counter}`",
                did_you_mean(expectation.counter, [each.id for each in known], "counters"),
            )
