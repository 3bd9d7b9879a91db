"""New files for people to fill in: a project, a study, the next version of a ladder."""

from __future__ import annotations

import ast
import json
import re
from importlib.resources import files
from pathlib import Path

from workbench.disk.opening import refused
from workbench.disk.writing import create_files, remove_file, replace_file
from workbench.errors import MissingError, UsageError
from workbench.project import Project, find_project, shipped
from workbench.specs import Version
from workbench.study import frontmatter
from workbench.study.folder import Study
from workbench.study.keys import LISTS
from workbench.study.sources import VERSION_NAME, load_versions

_STUDY_NAME = re.compile(r"[A-Za-z]\w*\Z", re.ASCII)
_EXPECT = """\
# Predict what your change will move, before you measure it: `workbench docs counters`
# has the ids of all counters. Take the # away and fill in:
# [[expect]]
# counter = "duration"
# change  = "down"
# why     = ""
"""


def _template(name: str, study: str) -> str:
    resource = files("workbench").joinpath("data", "templates", *name.split("/"))
    return resource.read_text(encoding="utf-8").replace("@STUDY@", study)


# --- a project --------------------------------------------------------------------


def start_project(root: Path, study: str = "", *, pyproject: bool = False) -> list[str]:
    """Make a folder a project; what lies in it stays as it is.

    Args:
        root: The folder.
        study: Name of a first study, which becomes the default one; empty for none.
        pyproject: Put the settings into ``pyproject.toml`` instead of a file of their own.

    Returns:
        The paths that were written, relative to `root`.

    Raises:
        UsageError: the folder is a project already, or the name is no study name.
    """
    if study:
        check_study_name(study)
    _check_no_project(root)
    written = []
    for folder in ("kernels", "profiles"):
        if not (root / folder).is_dir():
            create_files(root, {f"{folder}/.gitkeep": b""})
            written.append(f"{folder}/.gitkeep")
    if not (root / "reports" / ".gitignore").exists():
        # The site is made from profiles/ at any time, so git need not keep it.
        create_files(root, {"reports/.gitignore": b"*\n!.gitignore\n"})
        written.append("reports/.gitignore")
    if study:
        written += start_study(Project(root=root, default_study=study), study)
    # The settings come last: they make the folder a project, and all of it is there then.
    written.append(_write_settings(root, study, pyproject))
    return written


def _write_settings(root: Path, study: str, pyproject: bool) -> str:
    if not pyproject:
        settings = _template("workbench.toml.template", study)
        create_files(root, {"workbench.toml": settings.encode()})
        return "workbench.toml"
    path = root / "pyproject.toml"
    table = f"[tool.workbench]\ndefault_study = {json.dumps(study)}\n"
    try:
        before = path.read_text(encoding="utf-8").rstrip() if path.exists() else ""
    except OSError as error:
        raise refused(path, error) from error
    text = f"{before}\n\n{table}" if before else table
    replace_file(root, path.name, text.encode(), durable=True)
    return path.name


def _check_no_project(root: Path) -> None:
    found = find_project(root)
    if found is not None and found.root == root.resolve():
        raise UsageError(
            f"{root.resolve()} is already a workbench project",
            "Nothing was changed. `workbench new --study NAME` adds a study to it.",
        )


# --- a study ----------------------------------------------------------------------


def study_name(after: str) -> str:
    """What a study is called that nobody named: after a kernel, or a file."""
    name = re.sub(r"\W+", "_", after, flags=re.ASCII).strip("_")[:60]
    return name if name[:1].isalpha() else f"study_{name}".rstrip("_")


def check_study_name(name: str) -> None:
    """Refuse what cannot be a study's name.

    Raises:
        UsageError: it holds more than letters, digits and ``_``.
    """
    if not _STUDY_NAME.match(name):
        raise UsageError(
            f"`{name}` cannot be a study's name",
            "It becomes a folder: a letter first, then letters, digits and _.",
        )


def start_study(project: Project, name: str) -> list[str]:
    """Write a small working study, to be replaced piece by piece.

    Returns:
        The paths that were written, relative to the project.

    Raises:
        UsageError: the name cannot be one, or is taken.
    """
    check_study_name(name)
    folder = project.kernels / name
    if (folder / "study.py").exists():
        raise UsageError(
            f"study `{name}` already exists, in {folder}",
            f"To add a version to it: workbench new v1 --study {name}.",
        )
    texts = {
        f"kernels/{name}/{file}": _template(f"study/{file}.template", name).encode()
        for file in ("study.py", "v0_one_element.cu")
    }
    create_files(project.root, texts)
    return list(texts)


#: The ladder that comes with the installation, as it was recorded.
EXAMPLE = "scale_add"
_RECORDED = "profiles/h200/scale_add"


def ensure_project(root: Path) -> list[str]:
    """Make a folder a project unless it lies in one; the paths that were written."""
    return [] if find_project(root) else start_project(root)


def start_example(project: Project) -> list[str]:
    """Write the ladder that came with workbench, with what was recorded of it on an H200.

    Returns:
        The paths that were written, relative to the project.

    Raises:
        UsageError: the project has a study of that name.
        MissingError: the installation holds no example.
    """
    if (project.kernels / EXAMPLE).exists():
        raise UsageError(
            f"there is a study {EXAMPLE} already, in {project.kernels / EXAMPLE}",
            f"`workbench list --study {EXAMPLE}` shows it.",
        )
    found = {
        f"{folder}/{path.relative_to(shipped(folder)).as_posix()}": path.read_bytes()
        for folder in (f"kernels/{EXAMPLE}", _RECORDED)
        for path in sorted(shipped(folder).rglob("*"))
        if path.is_file() and path.name.endswith((".cu", ".py", ".json.zst"))
    }
    if not found:
        raise MissingError(
            "this installation of workbench holds no example",
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
        text += "\n[defines]\n" + "".join(pair(*item) for item in parent.defines.items())
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
        text += "\n[[scratch]]\n" + pair("name", buffer.name, 5) + pair("dtype", buffer.dtype, 5)
        text += pair("shape", list(buffer.shape), 5)
    for fill in parent.fills:
        text += "\n[[fill]]\n" + pair("name", fill.name, 5)
        text += pair("dtype", fill.dtype, 5) if fill.dtype else ""
        text += pair("input", fill.input, 5) if fill.input else ""
        text += pair("value", list(fill.values), 5) if fill.values else ""
        text += pair("restores", True) if fill.restores else ""
    for table in ("tensor_map", "texture"):
        for spec in getattr(parent, f"{table}s"):
            text += f"\n[[{table}]]\n"
            for key, texts in spec.items():
                value = list(texts) if key in LISTS else "".join(texts[:1])
                text += pair(key, value == "true" if key == "normalized" else value, 6) * any(texts)
    for launch in parent.launches:
        kernel = _named(launch.kernel) if parent.image else launch.kernel
        text += "\n[[launch]]\n" + pair("kernel", kernel, 6)
        triton = parent.kind == "triton"
        for key in ("grid", "args") if triton else ("grid", "block", "args", "cluster"):
            values = [
                int(each) if isinstance(each, str) and each.isdigit() else each
                for each in getattr(launch, key)
            ]
            text += pair(key, values, 6) if values else ""
        if triton:
            text += pair("num_warps", int(launch.block[0]) // 32)
            # Of machine code nobody says it: then it is Triton's own.
            text += pair("num_stages", launch.num_stages) if launch.num_stages else ""
            text += pair("divisible_by_16", launch.divisible_by_16)
        if launch.dynamic_shared != "0":
            text += pair("dynamic_shared", launch.dynamic_shared)
        if launch.cooperative:
            text += pair("cooperative", True)
        if launch.when != "1":
            text += pair("when", launch.when)
    return text


def version_text(parent: Version, title: str, change: str = "", code: str = "") -> str:
    """The first text of a child: its parent's code (or another) under front matter of its own."""
    toml = pair("title", title, 6) + pair("parent", parent.id, 6) + pair("change", change, 6)
    toml += _inherited(parent) + "\n" + _EXPECT
    code = code or _code(parent)
    if parent.kind == "cuda":
        return f"/* ---\n{toml}--- */\n{code}"
    # Raw, so that a backslash in the TOML reaches it as it is.
    return f'r"""{title.replace(chr(34), chr(39))}.\n\n---\n{toml}---\n"""\n{code}'


#: A namespace without a name, and what a mangled name says of it, which each compiler does anew.
_UNNAMED = re.compile(r"\bnamespace(?=\s*\{)")
_GLOBAL = re.compile(r"(\d+)(?=_GLOBAL__N_)")


def _code(parent: Version) -> str:
    """The code that a child begins with. Of a lifted kernel it is what was found of its source.

    Raises:
        UsageError: there is none; or it is in Triton, whose constants nobody recorded.
    """
    code = frontmatter.code(parent.text, kind=parent.kind)
    if not parent.image:
        return code
    if not code.strip():
        raise UsageError(
            f"{parent.id} is machine code, and its source was not found when it was lifted",
            f"kernels/{parent.study}/study.py says what its line table names. Lift it again where "
            "that file is, from a program built with -lineinfo; or write the version's file.",
        )
    if parent.kind == "triton":
        _check_constants(parent, code)
    return _UNNAMED.sub("inline namespace lifted", code)


def _named(kernel: str) -> str:
    """The mangled name of a kernel where unnamed namespaces have got a name (`_code`)."""
    found = _GLOBAL.search(kernel)
    if found is None:
        return kernel
    return f"{kernel[: found.start()]}6lifted{kernel[found.end() + int(found[1]) :]}"


def _check_constants(parent: Version, code: str) -> None:
    """Refuse a kernel in Triton with constants: machine code does not say what they were.

    Raises:
        UsageError: it has some; names them.
    """
    (kernel,) = {launch.kernel for launch in parent.launches}
    names = [
        argument.arg
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.FunctionDef) and node.name == kernel
        for argument in node.args.args
        if argument.annotation is not None and "constexpr" in ast.unparse(argument.annotation)
    ]
    if not names:
        return
    raise UsageError(
        f"{parent.id} is a kernel in Triton, and its machine code does not say what "
        f"{', '.join(names)} were",
        f"Write kernels/{parent.study}/v1.py with the kernel's source, and under [defines] those "
        "values; its args are those of the launch, in order, without constants and ones.",
    )


def start_version(
    study: Study,
    project: Project,
    name: str,
    parent: Version,
    title: str = "",
    *,
    change: str = "",
    text: str = "",
) -> str:
    """Write the file of a new version; the path, relative to the project.

    Args:
        study: Where it belongs.
        project: Where that is.
        name: ``v5``, or ``v5_register_tile``, which becomes the file's name.
        parent: The version to copy.
        title: Its title; empty: to be filled in.
        change: What is another than in its parent.
        text: The whole file, or its code alone, which gets the parent's launches; "": a copy.

    Raises:
        UsageError: the name is no version's name, or the number is taken, or the study cannot
            be read with it; then it is not there.
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
        text = version_text(parent, title or f"{name}, to be named", change, text)
    frontmatter.parse(text, path=path, kind=parent.kind)  # a title such as "*/" ends here
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{path}: not UTF-8: {text[error.start : error.end]!r}", "Write it as Unicode text."
        ) from error
    create_files(project.root, {path: data})
    try:
        load_versions(project, study.name).require(number)
    except BaseException:
        remove_file(project.root, path)
        raise
    return path
