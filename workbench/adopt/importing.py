"""A report captured elsewhere, kept as a version's profile or made into a study."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from workbench.analysis.aggregate import seconds_of
from workbench.disk.writing import remove_file
from workbench.engines.ncu.report import scrub
from workbench.errors import DataError, UsageError
from workbench.language import _
from workbench.model import Problem, Profile, Record, SourceFile
from workbench.ncurep.adopt import adopt
from workbench.ncurep.files import read_raw, split_target
from workbench.ncurep.read import read_report, select_kernels
from workbench.project import Project, find_project
from workbench.session.targets import load_report
from workbench.session.workspace import Selection, Workspace, is_capture
from workbench.specs import Version
from workbench.store import device_slug
from workbench.study.folder import (
    Study,
    local_sources,
    parse_target,
    resolve_launches,
    run_study,
    source_hash,
)
from workbench.study.frontmatter import code
from workbench.study.mangling import own_name, written
from workbench.study.parameters import free_name, parameters_of
from workbench.study.scaffold import (
    PROBLEM,
    check_study_free,
    check_study_name,
    docstring,
    ensure_project,
    filled,
    first_text,
    study_name,
    trimmed,
    write_study,
)
from workbench.study.sources import include_directives, kernel_names

#: A header in or below the including file's folder whose name no file of a study has.
_OWN_HEADER = re.compile(r"(?:[\w-]+/)*[\w-][\w.-]*\.(?:h|hh|hpp|cuh|inl|inc)")
_CLUSTER = tuple(f"launch__cluster_dim_{axis}" for axis in "xyz")


class Import(Record, frozen=True):
    """A report, and the version to keep it as, both as typed; `device` replaces the report's own.

    Without a version, a new study is made from the report.
    """

    report: str
    version: str | None = None
    study: str | None = None
    problem: str | None = None
    kernel: str | None = None
    device: str | None = None


class KeptReport(Record, frozen=True):
    """A profile that was kept, and its path; for a new study, also the files that were written.

    `unknown` lists facts that the report lacks; `more` is a remark on other launches.
    """

    profile: Profile
    path: str
    written: tuple[str, ...] = ()
    unknown: str = ""
    more: str = ""


def keep_report(place: Workspace, wish: Import, *, force: bool = False) -> KeptReport:
    """Keep a report (or kernels of a captured program) as the profile of a version.

    A folder without a project becomes one if the study is to be made. `force` replaces a recorded
    profile. The returned profile has notices where it differs from the version.

    Raises:
        UsageError: no such version, problem or kernel; or there is a profile already.
        DataError: a damaged report, or one whose launches were never measured.
    """
    if wish.version is None:
        return _keep_as_study(place, wish)
    project = place.project
    study_name, version_id = parse_target(wish.version, project, wish.study)
    if wish.study and wish.study != study_name:
        raise UsageError(
            f"{wish.study} and {wish.version} belong to different studies",
            "Name the study only once.",
        )
    study = run_study(project, study_name)
    version = study.version(version_id)
    problem = study.problem(wish.problem)
    return _keep(place, wish, (study, version, problem), _measured(place, wish), force)


def _measured(place: Workspace, wish: Import) -> Profile:
    """The launches that the import names."""
    path, inner = split_target(wish.report)
    if is_capture(wish.report):
        profile = load_report(place, wish.report, Selection())[0]
        profile = select_kernels(profile, wish.kernel)
    else:
        profile = select_kernels(read_report(path), wish.kernel or inner)
    if not any(launch.profiled for launch in profile.launches):
        names = ", ".join(launch.kernel[:60] for launch in profile.launches)
        raise DataError(
            f"{path}: {names} is listed, but was never measured", "Choose another --kernel."
        )
    return profile


def _keep(
    place: Workspace,
    wish: Import,
    kept_as: tuple[Study, Version, Problem],
    profile: Profile,
    force: bool,
    *,
    sourced: bool = True,
) -> KeptReport:
    (study, version, problem), project = kept_as, place.project
    profile = _adopted(profile, project, study, version, problem)
    if not sourced:  # the version says that it is not written yet: it is not stale
        kept = (each for each in profile.notices if each.code != "source-differs")
        profile = replace(profile, source_hash="", notices=tuple(kept))
    if wish.device:
        own = replace(profile.device, slug=device_slug(wish.device))
        profile = replace(profile, device=own)
    target = place.store.profile_path(profile)
    shown = _shown(target, project.root)
    if target.exists() and not force:
        raise UsageError(
            f"{study.name}/{version.id} already has a profile of {problem.name} on "
            f"{profile.device.slug}: {shown}",
            "Replace it with --force, or keep this one apart: v3:PROBLEM@DEVICE.",
        )
    # A capture keeps only the profile.
    path = split_target(wish.report)[0]
    raw = None if is_capture(wish.report) else scrub(read_raw(path), path)
    place.store.save(profile, raw=raw)
    return KeptReport(profile=profile, path=shown)


def _adopted(
    profile: Profile, project: Project, study: Study, version: Version, problem: Problem
) -> Profile:
    """The profile as the version's own."""
    return adopt(
        profile,
        version,
        problem=problem.name,
        parameters=study.parameters(problem),
        sources=local_sources(project, version),
        source_hash=source_hash(project, version),
        # The library decides a baseline's launches: there is nothing to compare them with.
        expected=resolve_launches(study, version, problem) if version.launches else (),
    )


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


# --- the study of a report -------------------------------------------------------------------


def _keep_as_study(place: Workspace, wish: Import) -> KeptReport:
    """Make a study of the one kernel that is meant, and keep the report's profile of it."""
    profile, more = _one_launch(_measured(place, wish), wish.report)
    (launch,) = profile.launches
    name, problem = wish.study or study_name(launch.kernel), wish.problem or PROBLEM
    check_study_name(name)
    project = find_project(place.start) or Project(root=(place.start or Path()).resolve())
    made = _MadeStudy(profile, name, problem, wish.report, more)
    texts = made.files()
    folder = project.kernels / name
    paths = [f"kernels/{name}/{file}" for file in texts]
    begun = _unfinished(project, folder, texts)
    if not begun:
        check_study_free(
            project,
            name,
            f"Use {name}_2 for another study, or {name}/v3 for a version of this one.",
        )
        paths = [*ensure_project(project.root), *write_study(project, name, lambda _: texts)]
    try:
        study = run_study(place.project, name)
        chosen = study, study.version("v0"), study.problem(problem)
        kept = _keep(place, wish, chosen, profile, force=False, sourced=bool(made.source))
    except BaseException:
        for file in () if begun else texts:
            remove_file(project.root, f"kernels/{name}/{file}")
        raise
    told = _others(wish, profile, more)
    return replace(kept, written=tuple(paths), unknown=made.unknown, more=told)


def _unfinished(project: Project, folder: Path, texts: Mapping[str, str]) -> bool:
    """True if an import that was killed wrote the study, but no profile of it."""
    files = {folder / file: text.encode() for file, text in texts.items()}
    same = all(path.is_file() and path.read_bytes() == data for path, data in files.items())
    return same and not any(project.profiles.glob(f"*/{folder.name}/*/*.json.zst"))


def _others(wish: Import, profile: Profile, more: str) -> str:
    """A sentence on launches of the kernel that were not kept; "" if all were."""
    path, inner = split_target(wish.report)
    if not more or is_capture(wish.report):
        return more
    kernel = wish.kernel or inner or profile.launches[0].kernel
    how = f"`workbench import {path}::{kernel}#1 STUDY`"
    return f"{more} " + _("{how} keeps the first launch, #2 the next.").format(how=how)


def _one_launch(profile: Profile, report: str) -> tuple[Profile, str]:
    """The launch that becomes a version, and a remark on other launches of its kernel.

    Raises UsageError: there are several kernels (the hint names them).
    """
    launches = [launch for launch in profile.launches if launch.profiled]
    kernels = list(dict.fromkeys(launch.kernel for launch in launches))
    if len(kernels) > 1:
        head = report.partition("::")[0]
        raise UsageError(
            f"{report} holds {len(kernels)} kernels, but a study is made from one",
            f"Name it, such as {head}::{kernels[0]}. Kernels: {', '.join(kernels[:12])}"
            f"{', …' if kernels[12:] else ''}.",
        )
    if len(launches) == 1:
        return replace(profile, launches=tuple(launches)), ""
    times = [took for each in launches if (took := seconds_of(each)) is not None]
    timed = len(times) == len(launches)
    chosen = launches[times.index(max(times)) if timed else 0]
    which = (
        _("It is the longest of {n} launches.")
        if timed
        else _("It is the first of {n} launches; not every launch has a duration.")
    )
    return replace(profile, launches=(chosen,)), which.format(n=len(launches))


class _MadeStudy:
    """The files of a study that a report's launch becomes.

    Nothing in them is guessed: a report does not hold the arguments' contents and sizes. Code that
    needs them raises an error that says so; commands that only read work.
    """

    def __init__(self, profile: Profile, study: str, problem: str, report: str, more: str) -> None:
        self.study, self.problem = study, problem
        (self.launch,), self.profile = profile.launches, profile
        self.source = self._source()
        self.parameters = parameters_of(
            own_name(self.launch.kernel),
            self.launch.signature,
            self.source.text or "" if self.source else "",
        )
        taken: set[str] = set()
        self.names = [each.name and free_name(each.name, taken) for each in self.parameters]
        self.report = PurePosixPath(split_target(report)[0].as_posix()).name
        if is_capture(report):
            self.report = report.partition("::")[0]
        told = self.launch.signature or self.launch.kernel
        found = _("It does not contain its source.")
        if self.source:
            name = PurePosixPath(self.source.path).name
            found = _("Its source is {name}, unchanged.").format(name=name)
        known = _("Known from {report}: the kernel {kernel}, its grid, block and shared memory on "
                  "{device}.")  # fmt: skip
        known = known.format(report=self.report, kernel=told, device=profile.device.name)
        self.known = _("{known} {found} {more}").format(known=known, found=found, more=more).strip()
        self.unknown = _(
            "the arguments, the memory before the launch, the right result, and the flags of the "
            "compiler"
        )

    def _source(self) -> SourceFile | None:
        """The file that defines the kernel, among those whose text the report holds."""
        name = own_name(self.launch.kernel)
        written = (each for each in self.profile.sources if not each.path.endswith(".py"))
        return next((each for each in written if name in kernel_names(each.text or "")), None)

    def _headers(self) -> dict[str, str]:
        """Headers in the source's folder that it includes, if the report has them."""
        source, found = self.source, dict[str, str]()
        if source is None:
            return found
        texts = {each.path: each.text for each in self.profile.sources if each.text}
        queue = [("", source.text or "")]
        while queue:
            folder, text = queue.pop()
            for _line, name, _angled in include_directives(text):
                inside = posixpath.normpath(posixpath.join(folder, name))
                there = texts.get(posixpath.join(posixpath.dirname(source.path), inside))
                if there and inside not in found and _OWN_HEADER.fullmatch(inside):
                    found[inside] = there
                    queue.append((posixpath.dirname(inside), there))
        return found

    def files(self) -> dict[str, str]:
        """Name in the study's folder -> text."""
        stem = re.sub(r"\W+", "_", own_name(self.launch.kernel), flags=re.ASCII).strip("_")
        return {
            "study.py": self._study(),
            f"v0_{stem[:60]}.cu": f"/* ---\n{self._front()}--- */\n{self._code()}",
            **self._headers(),
        }

    def _code(self) -> str:
        if self.source:
            return code(self.source.text or "", kind="cuda")
        types = ", ".join(each.type for each in self.parameters)
        name = own_name(self.launch.kernel)
        missing = _("{report} does not contain its source: write the kernel here.")
        return (
            f"// {missing.format(report=self.report)}\n"
            f"__global__ void {name}({f'/* {types} */' if types else ''});\n"
        )

    def _front(self) -> str:
        """Front matter; `args` are a comment, since their values are not known."""
        launch = self.launch
        cluster = [launch.metrics.get(name) for name in _CLUSTER]
        sizes = [int(each.value) for each in cluster if each and not isinstance(each.value, str)]
        lines = [
            f"title  = {_quoted(self._title())}",
            "",
            "[[launch]]",
            f"kernel = {_quoted(self._kernel())}",
            f"grid   = {trimmed(launch.grid)}",
            f"block  = {trimmed(launch.block)}",
        ]
        if launch.dynamic_shared:
            lines.append(f"dynamic_shared = {launch.dynamic_shared}")
        if len(sizes) == len(_CLUSTER) and max(sizes) > 1:
            lines.append(f"cluster = {sizes}")
        lines.append(
            _("# The report does not hold the arguments. Name them here before it is run:")
        )
        lines.append(f"# args   = {_quoted(self.names) if any(self.names) else '[…]'}")
        for each, name in zip(self.parameters, self.names, strict=True):
            lines.append(f"#          {' '.join([*each.type.split(), name])}".rstrip())
        return "\n".join(lines).replace("*/", "* /") + "\n"

    def _title(self) -> str:
        said = _("{kernel}, as {report} has it")
        return said.format(kernel=self.launch.kernel, report=self.report)

    def _kernel(self) -> str:
        """The kernel's name in a launch: an instance of a template with its arguments."""
        signature = self.launch.signature
        return written(signature) if self.source and "(" in signature else self.launch.kernel

    def _study(self) -> str:
        named = [pair for pair in zip(self.names, self.parameters, strict=True) if pair[0]]
        read = [name for name, of in named if "*" in of.type and not of.writable]
        outputs = {name: of.element or "float32" for name, of in named if of.writable}
        missing = _(
            "Not known: {what}. Write it below, and `args` in v0, before the first "
            "`workbench verify v0`. Until then `list`, `show`, `diff`, `check` and `report` use "
            "the records."
        )
        head = _("{title}.").format(title=self._title())
        told = head, self.known, missing.format(what=self.unknown)
        shapes = [f'"{name}": ((0,), "{dtype}")' for name, dtype in outputs.items()]
        text = first_text("study/study_of_report.py")
        return docstring(*map(filled, told)) + text.format(
            title=_quoted(
                _("{kernel}, from {report}").format(kernel=self.launch.kernel, report=self.report)
            ),
            names=_quoted(read).replace("[", "(").replace("]", ",)" if read else ")"),
            read=", ".join(read) or _("the inputs"),
            outputs=", ".join(shapes) or '"out": ((0,), "float32")',
            given=", ".join(outputs) or _("the outputs"),
            problem=_quoted(self.problem),
        )


def _quoted(value: str | list[str]) -> str:
    """The text as a string of TOML and Python."""
    return json.dumps(value, ensure_ascii=False)
