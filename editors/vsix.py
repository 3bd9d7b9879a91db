"""A package of VS Code of what ``npm pack`` made: ``python editors/vsix.py FOLDER``.

Such a file is a zip: the extension below ``extension/``, and beside it a manifest and the media
types that OPC asks for. npm packs the extension with what it depends on, so no other tool is
needed: vsce brings 300 packages to write these two files.
"""

from __future__ import annotations

import json
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any
from xml.sax.saxutils import escape, quoteattr

_SCHEMA = "http://schemas.microsoft.com/developer/vsx-schema/2011"
_MANIFEST = """<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="{schema}">
  <Metadata>
    <Identity Language="en-US" Id={name} Version={version} Publisher={publisher}/>
    <DisplayName>{title}</DisplayName>
    <Description xml:space="preserve">{description}</Description>
    <Categories>{categories}</Categories>
    <License>extension/LICENSE</License>
    <Properties>
      <Property Id="Microsoft.VisualStudio.Code.Engine" Value={engine}/>
      <Property Id="Microsoft.VisualStudio.Code.ExtensionKind" Value="workspace"/>
      <Property Id="Microsoft.VisualStudio.Code.ExecutesCode" Value="true"/>
    </Properties>
  </Metadata>
  <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
  <Dependencies/>
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md" Addressable="true"/>
  </Assets>
</PackageManifest>
"""  # noqa: E501
_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_MEDIA = {".js": "application/javascript", ".json": "application/json", ".md": "text/markdown"}
#: What only a compiler or a debugger would read: half of it.
_UNREAD = (".d.ts", ".map")
#: The same bytes whenever it is made.
_DATE = (1980, 1, 1, 0, 0, 0)


def make_vsix(tarball: Path, folder: Path) -> Path:
    """Write a package of VS Code.

    Args:
        tarball: What ``npm pack`` wrote.
        folder: Where to.

    Returns:
        The package: ``NAME-VERSION.vsix``.
    """
    files: dict[str, bytes] = {}
    with tarfile.open(tarball) as tar:
        for member in tar:
            stream = tar.extractfile(member)
            if stream is not None and not member.name.endswith(_UNREAD):
                files[f"extension/{member.name.removeprefix('package/')}"] = stream.read()
    package = json.loads(files["extension/package.json"])
    files["extension.vsixmanifest"] = _manifest(package).encode()
    files["[Content_Types].xml"] = _types(files).encode()
    out = folder / f"{package['name']}-{package['version']}.vsix"
    with zipfile.ZipFile(out, "w") as made:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, _DATE)
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            made.writestr(info, files[name])
    return out


def _manifest(package: dict[str, Any]) -> str:
    return _MANIFEST.format(
        schema=_SCHEMA,
        **{key: quoteattr(package[key]) for key in ("name", "version", "publisher")},
        engine=quoteattr(package["engines"]["vscode"]),
        title=escape(package["displayName"]),
        description=escape(package["description"]),
        categories=escape(",".join(package["categories"])),
    )


def _types(files: dict[str, bytes]) -> str:
    """The media type of each ending; of files that have none, one by one."""
    ending = {name: PurePosixPath(name).suffix for name in sorted(files)}
    rows = [
        f"<Default Extension={quoteattr(each[1:])} ContentType={quoteattr(_media(each))}/>"
        for each in sorted({*ending.values()} - {""})
    ] + [
        f"<Override PartName={quoteattr(f'/{name}')} ContentType={quoteattr(_media(''))}/>"
        for name, each in ending.items()
        if not each
    ]
    head = '<?xml version="1.0" encoding="utf-8"?>'
    return f'{head}\n<Types xmlns="{_TYPES}">{"".join(rows)}</Types>\n'


def _media(ending: str) -> str:
    return _MEDIA.get(ending, "text/xml" if ending == ".vsixmanifest" else "text/plain")


if __name__ == "__main__":
    (_packed,) = Path(sys.argv[1]).glob("*.tgz")
    sys.stdout.write(f"{make_vsix(_packed, _packed.parent)}\n")
