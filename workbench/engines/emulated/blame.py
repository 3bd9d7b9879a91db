"""A wrong result, explained: which element, who wrote it, and which line stands out.

The kernel runs once more with the lines behind every value followed
(`ptxemu.Origins`). A line stands out if it takes part in the wrong elements
more than in the right ones, by Ochiai's measure, and no other line does so as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxemu import Module, Origins
from workbench.engines.host.buffers import FAR_OFF, unwritten

Array = NDArray[Any]
#: Elements of each kind that are looked at.
_LOOKED_AT = 4096


@dataclass(frozen=True, slots=True)
class Blame:
    """`place` is ``file:line`` or "" where there is none; `words` say the rest."""

    place: str
    words: str


def _stores(module: Module, origins: Origins, name: str) -> list[str]:
    return list(dict.fromkeys(module.where(instr) for instr in origins.stores[name]))


def _shown(name: str, shape: tuple[int, ...], flat: int) -> str:
    place = ", ".join(str(int(i)) for i in np.unravel_index(flat, shape))
    return f"{name}[{place}]"


def _wrong(got: Array, want: Array, tolerance: float) -> NDArray[np.bool_]:
    """Elements that are far off by the rules of `engines.host.correctness`; else the worst ones."""
    exact = got.astype(np.float64).reshape(-1)
    right = np.asarray(want, np.float64).reshape(-1)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(exact - right)
    distance[np.isnan(exact)] = np.inf
    rms = float(np.sqrt(np.mean(right**2))) if right.size else 0.0
    far: NDArray[np.bool_] = distance > FAR_OFF * tolerance * np.maximum(np.abs(right), rms)
    if not far.any():
        far = distance > tolerance * max(rms, np.finfo(np.float64).tiny)
    return far


def missing(module: Module, origins: Origins, outputs: Mapping[str, Array]) -> Blame | None:
    """Outputs with elements that were never written."""
    for name, got in outputs.items():
        left = unwritten(got).reshape(-1)
        if not left.any():
            continue
        first = _shown(name, got.shape, int(np.argmax(left)))
        count = int(left.sum())
        more = f" and {count - 1:,} more of its {left.size:,} elements" if count > 1 else ""
        verb = "were" if count > 1 else "was"
        stores = _stores(module, origins, name)
        if not stores:
            return Blame("", f"{first}{more} {verb} never written: no instruction stores to {name}")
        where = "this line" if len(stores) == 1 else ", ".join(stores)
        return Blame(
            stores[0], f"{first}{more} {verb} never written; {name} is stored to by {where}"
        )
    return None


def _standing_out(
    origins: Origins, name: str, wrong: NDArray[np.bool_], size: int
) -> tuple[int, int, int, int, int] | None:
    """The line whose part in wrong elements is greatest against its part in right ones.

    Returns:
        Index of the line, wrong elements with it, wrong elements, right ones with it,
        right ones; None where no line stands alone.
    """
    bad, good = np.nonzero(wrong)[0], np.nonzero(~wrong)[0]
    if not len(bad) or not len(good):
        return None
    rng = np.random.default_rng(0)
    bad, good = (
        np.sort(rng.choice(each, min(len(each), _LOOKED_AT), replace=False)) for each in (bad, good)
    )
    with_bad = origins.of(name, bad, size).sum(axis=0)
    with_good = origins.of(name, good, size).sum(axis=0)
    score = with_bad / np.sqrt(len(bad) * np.maximum(with_bad + with_good, 1))
    # A line that is behind everything explains nothing.
    common = len(bad) / np.sqrt(len(bad) * (len(bad) + len(good)))
    best = int(np.argmax(score))
    if score[best] <= common or np.count_nonzero(score == score[best]) > 1:
        return None
    return best, int(with_bad[best]), len(bad), int(with_good[best]), len(good)


def wrong(
    module: Module,
    origins: Origins,
    outputs: Mapping[str, Array],
    reference: Mapping[str, Array],
    tolerance: float,
) -> Blame | None:
    """The first output with wrong elements."""
    for name, got in outputs.items():
        off = _wrong(got, reference[name], tolerance)
        if not off.any():
            continue
        flat, size = int(np.argmax(off)), got.dtype.itemsize
        value, want = got.reshape(-1)[flat], np.asarray(reference[name]).reshape(-1)[flat]
        words = (
            f"{int(off.sum()):,} of {off.size:,} elements of {name} are off, the first of them "
            f"{_shown(name, got.shape, flat)}: {value:.9g}, not {want:.9g}"
        )
        place = ""
        writer = origins.writer(name, flat, size)
        if writer is not None:
            place = module.where(writer.instr)
            words += f", last written at {place} by {writer.who}"
        found = _standing_out(origins, name, off, size)
        if found is not None:
            line, bad, all_bad, good, all_good = found
            file, number = origins.lines[line]
            place = f"{module.files.get(file, '?')}:{number}"
            words += (
                f"; {place} takes part in {bad:,} of {all_bad:,} such elements and in {good:,} "
                f"of {all_good:,} right ones"
            )
        return Blame(place, words)
    return None
