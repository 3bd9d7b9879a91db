"""Recorded projects of the benchmarks: profiles as files, and their kernels in one archive.

The kernels are as they were recorded and are not edited. To add some, unpack, put them beside the
others and run ``tar --sort=name --owner=0 --group=0 -cJf kernels.tar.xz kernels`` in the folder.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path

from workbench.disk.lock import locked
from workbench.project import Project, require_project

ARCHIVE = "kernels.tar.xz"


def opened(folder: Path | None) -> Project:
    """The project of a folder, its kernels unpacked where only their archive is there."""
    if folder is not None and (folder / ARCHIVE).is_file():
        with locked(folder, 60):
            _unpack(folder)
    return require_project(folder)


def _unpack(folder: Path) -> None:
    archive, kernels, made = folder / ARCHIVE, folder / "kernels", folder / ".unpacked"
    if made.is_file() and made.stat().st_mtime >= archive.stat().st_mtime:
        return
    shutil.rmtree(kernels, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder) as fresh, tarfile.open(archive) as packed:
        packed.extractall(fresh, filter="data")
        (Path(fresh) / "kernels").replace(kernels)
    made.touch()
