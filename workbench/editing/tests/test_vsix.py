"""The package of VS Code made of what ``npm pack`` writes; `tests.vsix` tries a real one."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from editors.vsix import make_vsix

REPO = Path(__file__).resolve().parents[3]
FOLDER = REPO / "editors" / "vscode"


@pytest.fixture
def tarball(tmp_path: Path) -> Path:
    """The extension as npm packs it, with one file of what it depends on."""
    path = tmp_path / "workbench-cuda.tgz"
    files = {each.name: each.read_bytes() for each in FOLDER.iterdir()}
    files |= {"LICENSE": b"", "node_modules/a/a.js": b"1", "node_modules/a/a.d.ts": b"2"}
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_a_package_is_the_extension_with_a_manifest_of_its_own_words(
    tarball: Path, tmp_path: Path
) -> None:
    path = make_vsix(tarball, tmp_path)
    package = json.loads((FOLDER / "package.json").read_text())
    assert path.name == f"{package['name']}-{package['version']}.vsix"
    with zipfile.ZipFile(path) as files:
        names = set(files.namelist())
        manifest = ElementTree.fromstring(files.read("extension.vsixmanifest"))
        types = ElementTree.fromstring(files.read("[Content_Types].xml"))
    assert {"extension/extension.js", "extension/node_modules/a/a.js"} <= names
    assert not [name for name in names if name.endswith(".d.ts")]
    space = {"v": manifest.tag.partition("}")[0][1:]}
    assert manifest.findtext("v:Metadata/v:DisplayName", "", space) == package["displayName"]
    assert all(each.get("Path") in names for each in manifest.iterfind("v:Assets/v:Asset", space))
    known = {each.get("Extension") for each in types} | {each.get("PartName") for each in types}
    assert {"js", "json", "vsixmanifest", "/extension/LICENSE"} <= known


def test_the_same_tarball_gives_the_same_bytes(tarball: Path, tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    one, other = make_vsix(tarball, tmp_path), make_vsix(tarball, tmp_path / "again")
    assert one.read_bytes() == other.read_bytes()


def test_what_npm_installs_is_locked_by_checksums_and_names_no_host() -> None:
    text = (FOLDER / "package-lock.json").read_text()
    locked = json.loads(text)["packages"]
    own = locked.pop("")
    assert own["dependencies"] == json.loads((FOLDER / "package.json").read_text())["dependencies"]
    assert locked and all(each["integrity"].startswith("sha512-") for each in locked.values())
    assert "://" not in text and "resolved" not in text


@pytest.mark.parametrize(
    ("npm", "told"), [("", "no npm"), ("exit 1", "no registry"), ("exit 0", "")]
)
def test_ci_packages_it_or_says_why_not(tmp_path: Path, npm: str, told: str) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "timeout", "cat"):
        (tools / name).symlink_to(Path("/usr/bin") / name)
    for name, text in (("npm", npm), ("make", 'echo "made $*"')):
        if text:
            (tools / name).write_text(f"#!/usr/bin/bash\n{text}\n")
            (tools / name).chmod(0o755)
    script = (REPO / ".ci" / "run").read_text()
    step = script[script.index("vscode() {") : script.index("begin vscode")]
    last = script[script.index('if [ -e "$said/unpackaged" ]') :]
    done = subprocess.run(
        ["/usr/bin/bash", "-euo", "pipefail", "-c", f"said=.\n{step}vscode\n{last}"],
        cwd=tmp_path,
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=True,
    )
    line = f"The extension for VS Code is not packaged: {told}\n"
    assert done.stdout == (line if told else "made vscode\n"), done.stdout + done.stderr
