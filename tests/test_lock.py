"""The versions that CI installs are within the bounds that users get."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

PIN = re.compile(r"([A-Za-z0-9][\w.-]*)==([\w.!+]+)")


def pins(repo: Path) -> dict[str, str]:
    lines = (repo / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = [PIN.fullmatch(line) for line in lines if not line.startswith("#")]
    assert all(found), "a line is a name and its version, and nothing else: no address, no path"
    return {canonicalize_name(each[1]): each[2] for each in found if each}


def requirements(repo: Path) -> list[Requirement]:
    project = tomllib.loads((repo / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    return [Requirement(text) for texts in (project["dependencies"], *extras) for text in texts]


def test_every_dependency_is_locked_within_its_bounds(repo: Path) -> None:
    locked = pins(repo)
    for each in requirements(repo):
        version = locked[canonicalize_name(each.name)]
        assert each.specifier.contains(version), f"{each} does not admit {version}"


def test_no_bound_admits_what_is_known_to_be_bad(repo: Path) -> None:
    # Jinja: sandbox escapes until 3.1.5 (CVE-2024-56201, CVE-2024-56326, CVE-2025-27516).
    known = {"jinja2": "3.1.5"}
    for each in requirements(repo):
        if bad := known.get(canonicalize_name(each.name)):
            assert not each.specifier.contains(Version(bad)), each
