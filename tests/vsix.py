"""The extension of VS Code is tried as it is installed: ``make vscode`` calls it with a folder.

There is no VS Code here. What it does with a package is: read the manifest, unpack ``extension/``,
load ``main`` and call ``activate``. So a node without VS Code does that, with a module ``vscode``
that answers everything, and the server that is started is a program that writes down how it was
called.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from xml.etree import ElementTree

REPO = Path(__file__).resolve().parent.parent

#: `vscode`: anything may be called, extended, or asked for something; settings are those of a file.
_LOADS = """
const Module = require("module");
const fs = require("fs");
const [main, command, version, said] = process.argv.slice(1);
const anything = new Proxy(function () {}, {
  get: (_, key) => (key === Symbol.toPrimitive ? () => 0 : key === "then" ? undefined
    : key === Symbol.iterator ? [][Symbol.iterator]
    : key === "prototype" ? Object.prototype : anything),
  apply: () => anything,
  construct: (_, given, made) => (made === anything ? anything : Object.create(made.prototype)),
});
const registered = [];
const own = {
  version,
  workspace: new Proxy({}, { get: (_, key) => key === "getConfiguration"
    ? () => ({ get: (name) => ({ command, verify: "never", timeout: 20, reports: [] })[name] })
    : key === "workspaceFolders" ? undefined : key === "textDocuments" ? [] : anything }),
  window: new Proxy({}, { get: (_, key) => (key.startsWith("show") ? async () => {} : anything) }),
  commands: { registerCommand: (name) => (registered.push(name), anything) },
};
const vscode = new Proxy({}, { get: (_, key) => own[key] ?? anything });
const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));
const extension = require(main);
extension.activate({ subscriptions: [] }).catch((error) => console.error(error));
console.log(JSON.stringify({ registered, exports: Object.keys(extension).sort() }));
setInterval(() => fs.existsSync(said) && process.exit(0), 20);
"""
#: Writes down its words and the first message, once, and stays until it is left.
_SERVER = """#!{python}
import json, os, sys
said = os.read(0, 4096).decode(errors="replace")
with open("{folder}/part", "w") as out:
    json.dump([sys.argv[1:], said], out)
os.rename("{folder}/part", "{folder}/said")
while os.read(0, 4096):
    pass
"""


def trial(package: Path) -> None:
    """Read a package, and load what is in it.

    Raises:
        AssertionError: something of it is not as it should be.
    """
    source = json.loads((REPO / "editors" / "vscode" / "package.json").read_text())
    with zipfile.ZipFile(package) as files, tempfile.TemporaryDirectory() as temporary:
        assert files.testzip() is None
        names = files.namelist()
        _check_manifest(files, source)
        assert f"extension/{source['main'].removeprefix('./')}" in names
        needed = {
            name.split("/")[2] for name in names if name.startswith("extension/node_modules/")
        }
        locked = json.loads((REPO / "editors" / "vscode" / "package-lock.json").read_text())
        assert needed == {key.split("/")[1] for key in locked["packages"] if key}, needed
        private = [str(REPO).encode(), str(Path.home()).encode() + b"/"]
        told = [name for name in names if any(path in files.read(name) for path in private)]
        assert not told, f"paths of this machine are in {told}"
        folder = Path(temporary)
        files.extractall(folder)
        _check_start(folder, folder / "extension" / source["main"], source["engines"]["vscode"])
    size = package.stat().st_size
    what = f"{len(names)} files, {size / 1e3:.0f} kB, loads and starts its server"
    sys.stdout.write(f"{package.name}: {what}\n")


def _check_manifest(files: zipfile.ZipFile, source: dict[str, str]) -> None:
    manifest = ElementTree.fromstring(files.read("extension.vsixmanifest"))
    space = {"v": manifest.tag.partition("}")[0][1:]}
    identity = manifest.find("v:Metadata/v:Identity", space)
    assert identity is not None
    told = {key: identity.get(key) for key in ("Id", "Version", "Publisher")}
    assert told == {
        "Id": source["name"],
        "Version": source["version"],
        "Publisher": source["publisher"],
    }
    for asset in manifest.iterfind("v:Assets/v:Asset", space):
        assert asset.get("Path") in files.namelist(), asset.get("Path")
    inside = json.loads(files.read("extension/package.json"))
    assert inside["contributes"] == source["contributes"]
    types = ElementTree.fromstring(files.read("[Content_Types].xml"))
    known = {each.get("Extension") for each in types}
    endings = {Path(name).suffix[1:] for name in files.namelist() if Path(name).suffix}
    assert endings - {"xml"} <= known, endings - known


def _check_start(folder: Path, main: Path, oldest: str) -> None:
    server, said = folder / "server", folder / "said"
    server.write_text(_SERVER.format(python=sys.executable, folder=folder))
    server.chmod(0o755)
    given = (main, server, oldest.removeprefix("^"), said)
    node = ["node", "-e", _LOADS, *map(str, given)]
    done = subprocess.run(node, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout.splitlines()[0])
    assert loaded == {"registered": ["workbench.run"], "exports": ["activate", "deactivate"]}
    words, first = json.loads(said.read_text())
    assert words == ["serve", "lsp"], words
    assert first.startswith("Content-Length: ") and '"method":"initialize"' in first, first


if __name__ == "__main__":
    (_package,) = Path(sys.argv[1]).glob("*.vsix")
    trial(_package)
