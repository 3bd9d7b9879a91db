"""A copy of the checkout without one feature: ``python -m tests.without FEATURE FOLDER``.

Deleted are the feature's folder and its benchmarks, its row in `workbench.features`, its import and
its base in `workbench.face`, its names in `workbench`, its extra in pyproject.toml, and the lines
of Markdown that name the folder or one of its commands (of prose the paragraph), and nothing else.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

from workbench.features import FEATURES, Feature

REPO = Path(__file__).resolve().parent.parent


def tracked() -> list[str]:
    """All files of the checkout that git knows or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=REPO, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.split("\0") if (REPO / name).is_file()]


def copy_without(features: Iterable[Feature], to: Path) -> None:
    """Copy the checkout, and delete the features in the copy."""
    for name in tracked():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPO / name, to / name)
    for kept in (REPO / "workbench").rglob("__pycache__"):  # compiling all takes longer than a test
        if (there := to / kept.relative_to(REPO)).parent.is_dir():
            shutil.copytree(kept, there, dirs_exist_ok=True)
    for feature in features:
        delete(feature, to)


def delete(feature: Feature, to: Path) -> None:
    """Delete one feature in a copy of the checkout."""
    shutil.rmtree(to / "workbench" / feature.name)
    shutil.rmtree(to / "benchmarks" / feature.name, ignore_errors=True)
    row = rf'    Feature\(\n        "{feature.name}",\n(        .*\n)*    \),'
    _drop(to / "workbench" / "features.py", row)
    face = rf"from workbench\.{feature.name} import session as .*|    {feature.name}\.\w+,"
    _drop(to / "workbench" / "face.py", face)
    for names in ("__init__.py", "__init__.pyi"):
        _drop(to / "workbench" / names, rf".*workbench\.{feature.name}\b.*")
    project = to / "pyproject.toml"
    _drop(project, rf'  "workbench.{feature.name}(\.\w+)?",')
    if feature.extra:
        groups = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
        packages = "|".join(map(re.escape, groups["optional-dependencies"][feature.extra]))
        _drop(project, rf'{feature.extra} = .*|  "({packages})",')
    folder = rf"\b(workbench|benchmarks)/{feature.name}\b|`{feature.name}/"
    commands = (*feature.commands, *(rf".* --on {place}" for place in feature.runners))
    names = "|".join((folder, *(rf"(`|^|\$ )workbench {name}\b" for name in commands)))
    for page in (x for x in to.rglob("*.md") if "change" not in x.relative_to(to).parts[0].lower()):
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r"(?:.+\n)+", lambda block: _said(block[0], names), text))


def _said(block: str, names: str) -> str:
    """A block of a page without what names one: of code or a table the lines, else the block."""
    if re.match(r"```|\||\$|\s", block) or "```" in block:
        return re.sub(rf".*({names}).*\n", "", block, flags=re.MULTILINE)
    return "" if re.search(names, block, re.MULTILINE) else block


def _drop(path: Path, lines: str) -> None:
    """Delete the lines of a file that a pattern matches whole."""
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(rf"^({lines})\n", "", text, flags=re.MULTILINE), encoding="utf-8")


if __name__ == "__main__":
    (chosen,) = (each for each in FEATURES if each.name == sys.argv[1])
    copy_without([chosen], Path(sys.argv[2]))
