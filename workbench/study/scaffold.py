"""New files for users to fill in: a project, a study, the next version of a ladder."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import struct
import textwrap
from collections.abc import Callable, Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec.structs import replace

from workbench.disk.writing import create_files, new_folder, remove_file
from workbench.errors import MissingError, UsageError, did_you_mean
from workbench.language import N_, _, current
from workbench.project import Project, find_project, shipped
from workbench.specs import Version
from workbench.study import frontmatter
from workbench.study.file import compiled
from workbench.study.folder import Study
from workbench.study.keys import LISTS
from workbench.study.sources import VERSION_NAME, load_versions, read_source

#: The only problem of a study that is made from a report or from a launch.
PROBLEM = "captured"
_STUDY_NAME = re.compile(r"[A-Za-z]\w*\Z", re.ASCII)
#: A text of a template that is translated into the reader's language.
_SAID = re.compile("«(.+?)»")
_PREDICT = N_(
    "# Predict what your change will move, before you measure it: `workbench docs counters`\n"
    "# has the ids of all counters. Take the # away and fill in:\n"
)
_EXPECT = """\
# [[expect]]
# counter = "duration"
# change  = "down"
# why     = ""
"""


def first_text(name: str) -> str:
    """The initial text of a new file, by its name: ``study/study.py``.

    Text between « and » is for readers, and is translated.
    """
    resource = files("workbench").joinpath("data", "templates", *f"{name}.template".split("/"))
    return _SAID.sub(lambda said: _(said[1]), resource.read_text(encoding="utf-8"))


def filled(text: str) -> str:
    """A paragraph of a file, 95 columns wide; Chinese has no blanks: a line per sentence."""
    if current() == "en":
        return textwrap.fill(text, 95)
    return re.sub(r"(?<=[。；])(?=.)", "\n", text)


def trimmed(axes: Iterable[int | str]) -> list[int | str]:
    """Extents without trailing ones."""
    found = list(axes)
    while len(found) > 1 and found[-1] == 1:
        found.pop()
    return found


# --- a project --------------------------------------------------------------------


def start_project(root: Path, study: str = "") -> list[str]:
    """Make a folder a project; its existing files stay unchanged.

    `study` is the name of a first study, which becomes the default one; empty for none. Returns the
    written paths, relative to `root`. Raises UsageError: the folder is already a project, or the
    name is not a valid study name.
    """
    if study:
        check_study_name(study)
    found = find_project(root)
    if found is not None and found.root == root.resolve():
        raise UsageError(
            f"{root.resolve()} is already a workbench project",
            "Nothing was changed. `workbench new NAME` adds a study to it.",
        )
    written = []
    for folder in ("kernels", "profiles"):
        if not (root / folder).is_dir():
            create_files(root, {f"{folder}/.gitkeep": b""})
            written.append(f"{folder}/.gitkeep")
    if not (root / "reports" / ".gitignore").exists():
        # The site can be made from profiles/ at any time, so git need not keep it.
        create_files(root, {"reports/.gitignore": b"*\n!.gitignore\n"})
        written.append("reports/.gitignore")
    if study:
        written += start_study(Project(root=root, default_study=study), study)
    # The settings come last: they make the folder a project, whose other files exist by then.
    settings = first_text("workbench.toml").replace("@STUDY@", study)
    create_files(root, {"workbench.toml": settings.encode()})
    return [*written, "workbench.toml"]


# --- a study ----------------------------------------------------------------------


def study_name(after: str) -> str:
    """A default name for a study, after a kernel or a file."""
    name = re.sub(r"\W+", "_", after, flags=re.ASCII).strip("_")[:60]
    return name if name[:1].isalpha() else f"study_{name}".rstrip("_")


def check_study_name(name: str) -> None:
    """Refuse a study's name that holds characters other than letters, digits and ``_``."""
    if not _STUDY_NAME.match(name):
        raise UsageError(
            f"`{name}` cannot be a study's name",
            "It becomes a folder name: a letter first, then letters, digits and _.",
        )


def check_study_free(project: Project, name: str, hint: str) -> None:
    """Refuse the name of an existing study, with this hint."""
    folder = project.kernels / name
    if folder.exists():
        raise UsageError(f"study `{name}` already exists, in {folder}", hint)


def start_study(project: Project, name: str) -> list[str]:
    """Write a small working study, to be replaced piece by piece; returns the relative paths.

    Raises UsageError: the name is invalid, or is taken.
    """
    texts = {
        file: first_text(f"study/{file}").replace("@STUDY@", name)
        for file in ("study.py", "v0_one_element.cu")
    }
    return write_study(project, name, lambda _: texts)


def write_study(
    project: Project, name: str, make: Callable[[Path], Mapping[str, str]]
) -> list[str]:
    """Write a new study: all of it or nothing, even if the process is killed.

    `make` gives the texts of the study's files by name, and all are read before one is written. It
    gets the folder that becomes the study's, and may put recorded data in it. Returns the paths
    that were written, relative to the project. Raises UsageError: the name is invalid, or is taken;
    or a text is not valid in its file.
    """
    check_study_name(name)
    check_study_free(project, name, f"To add a version to it: workbench new {name}/v1.")
    with new_folder(project.kernels, name) as place:
        texts = make(place)
        create_files(place, {file: _checked(name, file, texts[file]) for file in texts})
    return [f"kernels/{name}/{file}" for file in texts]


def _checked(study: str, file: str, text: str) -> bytes:
    """A file's bytes, after a check that they are valid Python or a valid version."""
    path = f"kernels/{study}/{file}"
    if file == "study.py":
        compiled(text, Path(path), path)
    elif VERSION_NAME.match(Path(file).stem):
        frontmatter.parse(text, path=path, kind="cuda" if file.endswith(".cu") else "python")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{path}: not UTF-8: {text[error.start : error.end]!r}", "Write it as Unicode text."
        ) from error


def docstring(*paragraphs: str) -> str:
    """A module's docstring that holds the given paragraphs, with any characters."""
    text = "\n\n".join(paragraphs).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""{text}\n"""\n\n'


#: The ladder that comes with the installation, with its records.
EXAMPLE = "scale_add"
_RECORDED = "profiles/h200/scale_add"


def ensure_project(root: Path) -> list[str]:
    """Make a folder a project unless it is inside one; return the written paths."""
    return [] if find_project(root) else start_project(root)


def start_example(project: Project) -> list[str]:
    """Write the ladder that came with workbench, with its records on an H200.

    Returns the paths that were written, relative to the project.

    Raises:
        UsageError: the project has a study of that name.
        MissingError: the installation contains no example.
    """
    check_study_free(project, EXAMPLE, f"`workbench list {EXAMPLE}` shows it.")
    found = {
        f"{folder}/{path.relative_to(shipped(folder)).as_posix()}": path.read_bytes()
        for folder in (f"kernels/{EXAMPLE}", _RECORDED)
        for path in sorted(shipped(folder).rglob("*"))
        if path.is_file() and path.name.endswith((".cu", ".py", ".json.zst"))
    }
    if not found:
        raise MissingError(
            "this installation of workbench has no example",
            "Install it again from the wheel, or from a checkout.",
        )
    facts = f"profiles/.studies/{EXAMPLE}.json"
    found[facts] = shipped(facts).read_bytes()
    ensure_project(project.root)
    create_files(project.root, found)
    return list(found)


# --- a version --------------------------------------------------------------------


def pair(key: str, value: object, width: int = 0) -> str:
    """``key = value`` in TOML."""
    # JSON's strings, numbers and lists are TOML's as well.
    return f"{key:<{width}} = {json.dumps(value, ensure_ascii=False)}\n"


def table(name: str, values: Mapping[str, object], width: int = 0) -> str:
    """A table of a list in TOML, without the keys that have no value."""
    pairs = (pair(key, value, width) for key, value in values.items() if value)
    return f"\n[[{name}]]\n" + "".join(pairs)


def _inherited(parent: Version) -> str:
    """The parent's launches, buffers, defines and flags, as TOML."""
    text = ""
    if parent.flags:
        text += pair("flags", list(parent.flags))
    if parent.arch_specific:
        text += pair("arch_specific", True)
    if parent.requires:
        text += pair("requires", parent.requires)
    if parent.requires_why:
        text += pair("requires_why", parent.requires_why)
    if parent.defines:
        text += "\n[defines]\n" + "".join(
            pair(name, int(value) if value.isdecimal() else value)
            for name, value in parent.defines.items()
        )
    if parent.tune:
        shapes = {
            name: [
                [*map(int, each.split("x"))] if name == "block" and isinstance(each, str) else each
                for each in values
            ]
            for name, values in parent.tune.parameters.items()
        }
        text += "\n[tune]\n" + "".join(pair(*item) for item in shapes.items())
        text += pair("requires", parent.tune.requires) if parent.tune.requires else ""
    for buffer in parent.scratch:
        values: dict[str, object] = {"name": buffer.name, "dtype": buffer.dtype}
        text += table("scratch", values | {"shape": list(buffer.shape)}, 5)
    for fill in parent.fills:
        values = {"name": fill.name, "dtype": fill.dtype, "input": fill.input}
        text += table("fill", values | {"value": list(fill.values), "restores": fill.restores}, 5)
    for name in ("tensor_map", "texture"):
        for spec in getattr(parent, f"{name}s"):
            text += f"\n[[{name}]]\n"
            for key, texts in spec.items():
                value = list(texts) if key in LISTS else "".join(texts[:1])
                text += pair(key, value == "true" if key == "normalized" else value, 6) * any(texts)
    for launch in parent.launches:
        triton = parent.kind == "triton"
        keys = ("grid", "args") if triton else ("grid", "block", "args", "cluster")
        values = {"kernel": _named(launch.kernel) if parent.image else launch.kernel}
        for key in keys:
            values[key] = [
                int(each) if isinstance(each, str) and each.isdigit() else each
                for each in getattr(launch, key)
            ]
        text += table("launch", values, 6)
        if triton:
            text += pair("num_warps", int(launch.block[0]) // 32)
            # If the machine code does not name it, it belongs to Triton.
            text += pair("num_stages", launch.num_stages) if launch.num_stages else ""
            text += pair("divisible_by_16", launch.divisible_by_16)
        if launch.dynamic_shared != "0":
            text += pair("dynamic_shared", launch.dynamic_shared)
        if launch.cooperative:
            text += pair("cooperative", True)
        if launch.when != "1":
            text += pair("when", launch.when)
    return text


def version_text(
    parent: Version,
    title: str,
    change: str = "",
    code: str = "",
    lifted: _ContinuedKernel | None = None,
) -> str:
    """The initial text of a child: its parent's code (or another) under its own front matter."""
    if lifted is not None:
        parent, code = lifted.version, code or lifted.code
    toml = pair("title", title, 6) + pair("parent", parent.id, 6) + pair("change", change, 6)
    toml += _inherited(parent) + "\n" + _(_PREDICT) + _EXPECT
    code = code or _code(parent)
    if parent.kind == "cuda":
        return f"/* ---\n{toml}--- */\n{code}"
    # Raw, so that a backslash in the TOML reaches it as it is.
    return f'r"""{title.replace(chr(34), chr(39))}.\n\n---\n{toml}---\n"""\n{code}'


#: An unnamed namespace, and its form in a mangled name, which differs between compilers.
_UNNAMED = re.compile(r"\bnamespace(?=\s*\{)")
_GLOBAL = re.compile(r"(\d+)(?=_GLOBAL__N_)")


def _code(parent: Version) -> str:
    """The initial code of a child; for a lifted kernel, the source, as far as it was found."""
    code = frontmatter.code(parent.text, kind=parent.kind)
    if not parent.image:
        return code
    if not code.strip():
        raise UsageError(
            f"{parent.id} is machine code, and its source was not found when it was lifted",
            f"kernels/{parent.study}/study.py names the file of its line table. Lift it again "
            "where that file is, from a program built with -lineinfo; or write the version's file.",
        )
    return _UNNAMED.sub("inline namespace lifted", code)


def _named(kernel: str) -> str:
    """The mangled name of a kernel whose unnamed namespaces were given a name (`_code`)."""
    found = _GLOBAL.search(kernel)
    if found is None:
        return kernel
    return f"{kernel[: found.start()]}6lifted{kernel[found.end() + int(found[1]) :]}"


# --- a kernel in Triton, whose machine code says least about its launch ---------------------------

#: NumPy's name of elements -> Triton's; a number's cast in front matter -> Triton's type.
_ELEMENTS = {"float16": "fp16", "float32": "fp32", "float64": "fp64", "bfloat16": "bf16"}
_NUMBERS = {"int": "i32", "uint": "i32", "long": "i64", "ulong": "i64", "double": "fp64",
            "short": "i16", "ushort": "i16", "char": "i8", "uchar": "i8"}  # fmt: skip
_NUMBER = re.compile(r"(?:(\w+)\()?(-?\d+)\)?")
_NULL = "ulong(0)"


def _continued(
    parent: Version, code: str, defines: Mapping[str, str], study: str
) -> _ContinuedKernel:
    """A lifted kernel in Triton as a version to compile, with constants, types and arguments.

    `defines` are values of constants; the tables of `study.py` give the types of buffers.
    """
    (launch,) = parent.launches
    tree = ast.parse(code)
    found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == launch.kernel]
    parameters = found[-1].args.args if found else []
    constant = [x.arg for x in parameters if "constexpr" in ast.unparse(x).partition(":")[2]]
    if missing := [name for name in constant if name not in defines]:
        raise UsageError(
            f"{parent.id} is a kernel in Triton, and its machine code does not say what "
            f"{', '.join(missing)} were",
            "Give their values, as in the program's call: `workbench new v1 --from "
            f"{parent.id} --define {missing[0]}=…`, each with a --define of its own.",
        )
    names = [each.arg for each in parameters]
    for name in defines:
        if name not in names:
            raise UsageError(
                f"{launch.kernel} has no parameter `{name}`",
                did_you_mean(name, names, "parameters"),
            )
    given = [each for each in parameters if each.arg not in defines]
    args = [each for each in launch.args if isinstance(each, str)]
    while len(args) > len(given) and args[-1] == _NULL:  # Triton's own scratch memory
        args.pop()
    if len(args) != len(given) or (len(args) < len(launch.args) and args[-1:] == [_NULL]):
        raise UsageError(
            f"{launch.kernel} has {len(given)} parameters without a value, but its machine code "
            f"takes {len(args)} arguments",
            "Triton leaves out those that are 1: say which, `--define NAME=1`.",
        )
    held = _elements(study)
    types, texts = {}, []
    for each, text in zip(given, args, strict=True):
        types[each.arg], text = _typed(text, held)
        texts.append(text)
    whole = [n for n, each in zip(texts, given, strict=True) if _sixteen(n, types[each.arg])]
    spec = replace(
        launch, args=tuple(texts), dynamic_shared="0", divisible_by_16=tuple(dict.fromkeys(whole))
    )
    language = next(
        (
            name.asname
            for node in tree.body
            if isinstance(node, ast.Import)
            for name in node.names
            if name.name == "triton.language" and name.asname
        ),
        "triton.language",
    )
    lines = [line.encode() for line in code.split("\n")]
    for each in reversed(parameters):
        if each.annotation is None:
            said = f'"{types[each.arg]}"' if each.arg in types else f"{language}.constexpr"
            row, at = (each.end_lineno or each.lineno) - 1, each.end_col_offset or 0
            lines[row] = lines[row][:at] + f": {said}".encode() + lines[row][at:]
    own = replace(parent, defines=dict(defines), launches=(spec,))
    return _ContinuedKernel(own, b"\n".join(lines).decode())


class _ContinuedKernel(NamedTuple):
    """A version made from a lifted one, and its code."""

    version: Version
    code: str


def _elements(study: str) -> dict[str, str]:
    """The element types of buffers, from the tables in a lifted launch's ``study.py``, not run."""
    out: dict[str, str] = {}
    with contextlib.suppress(SyntaxError):
        tables = recorded_tables(study)
        for rows in (tables.get("INPUTS", {}), tables.get("OUTPUTS", {})):
            with contextlib.suppress(TypeError, IndexError, AttributeError):
                out |= {name: row[1] for name, row in rows.items()}
    return out


def recorded_tables(study: str) -> dict[str, Any]:
    """The constants of a ``study.py`` by name, read without running it; SyntaxError: not Python."""
    tables = {}
    for node in ast.parse(study).body:
        if isinstance(node, ast.Assign):
            with contextlib.suppress(ValueError):
                tables[ast.unparse(node.targets[0])] = ast.literal_eval(node.value)
    return tables


def _typed(text: str, held: Mapping[str, str]) -> tuple[str, str]:
    """An argument's type in Triton's words, and the argument.

    Four bytes that are unlikely as an integer but likely as a float count as a float.
    """
    found = _NUMBER.fullmatch(text)
    if found is None:
        if re.fullmatch(r"-?[\d.]+(?:e[-+]?\d+)?", text):
            return "fp32", text
        if text.startswith("double("):
            return "fp64", text
        dtype = held.get(text.removeprefix("at(").partition(",")[0], "uint8")
        short = dtype.replace("uint", "u").replace("int", "i")
        return f"*{_ELEMENTS.get(dtype, short)}", text
    cast, value = found[1] or "int", int(found[2])
    if cast == "uint":
        (real,) = struct.unpack("<f", struct.pack("<I", value))
        if 1e-20 < abs(real) < 1e20:
            return "fp32", repr(real)
        return ("i32", str(value)) if value < 1 << 31 else ("u32", text)
    return _NUMBERS.get(cast, "i32"), text


def _sixteen(text: str, kind: str) -> bool:
    found = _NUMBER.fullmatch(text)
    return found is not None and kind[0] in "iu" and int(found[2]) % 16 == 0


def start_version(
    study: Study,
    project: Project,
    name: str,
    parent: Version,
    title: str = "",
    *,
    change: str = "",
    text: str = "",
    defines: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Write the file of a new version; return the path, relative to the project.

    `name` is ``v5``, or ``v5_register_tile``, which becomes the file's name. `title`: "" leaves it
    to the user. `change` is the difference from its parent. `text` is the whole file, or only its
    code, which gets the parent's launches; "": a copy. `defines`: the constants of a lifted kernel
    in Triton. Raises UsageError: the name is not a version's name, or the number is taken, or the
    study cannot be read with it; then the file is removed.
    """
    match = VERSION_NAME.match(name)
    if match is None:
        raise UsageError(
            f"`{name}` cannot be a new version's name", "Write v5, or v5_register_tile."
        )
    number = f"v{int(match[1])}"
    taken = {each: version.path for each, version in study.versions.items()}
    taken |= {each: error.message for each, error in study.broken.items()}
    if number in taken:
        free = 1 + max(int(each[1:]) for each in taken if re.fullmatch(r"v\d+", each))
        raise UsageError(
            f"version {number} already exists: {taken[number]}", f"The next free one is v{free}."
        )
    stem = name
    if "_" not in name and title:
        words = re.findall(r"[a-z0-9]+", title.lower())
        stem = "_".join([name, *words])[:40].rstrip("_")
    suffix = ".cu" if parent.kind == "cuda" else ".py"
    path = f"kernels/{study.name}/{stem}{suffix}"
    if not (text and frontmatter.present(text, path=path, kind=parent.kind)):
        lifted = None
        if parent.image and parent.kind == "triton":
            tables = read_source(project.kernels / study.name / "study.py")
            lifted = _continued(parent, _code(parent), defines, tables)
        elif defines:
            raise UsageError(
                f"{parent.id} defines its constants itself",
                "Change them under [defines]; --define is for a lifted kernel in Triton.",
            )
        title = title or _("{name}, to be named").format(name=name)
        text = version_text(parent, title, change, text, lifted)
    create_files(project.root, {path: _checked(study.name, path.rpartition("/")[2], text)})
    try:
        load_versions(project, study.name).require(number)
    except BaseException:
        remove_file(project.root, path)
        raise
    return path
