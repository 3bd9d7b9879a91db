"""Diagnose a wrong result from a run that followed every store.

The run follows the lines behind every value (`ptxemu.Origins`). A line is suspicious if it
contributes to wrong elements more than to right ones, by Ochiai's measure, and no other line
reaches its score.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import ptxemu
from workbench.engines import Subject
from workbench.engines.host.buffers import FAR_OFF, Array, dtype_of, unwritten
from workbench.errors import KernelError
from workbench.study.launches import BufferArg
from workbench.study.signatures import launch_key


class Suspect(NamedTuple):
    """A likely mistake in a launch, reported if a version gives wrong results.

    One with a `place` comes first, and then only its hint is shown.
    """

    hint: str
    words: str = ""
    place: str = ""


def suspected(error: KernelError, suspects: Collection[Suspect]) -> KernelError:
    """Add a suspected mistake to an error."""
    message, hints = error.message, [error.hint]
    for each in suspects:
        hints.insert(len(hints) - 1, each.hint)
        message += f"\n{each.words}" if each.words and not each.place else ""
    for each in suspects:
        if each.place:
            message, hints = f"{each.place}: {each.words}\n{message}", [each.hint]
    return KernelError(message, " ".join(hints))


#: The most elements of each kind to examine.
_LOOKED_AT = 4096


def _shown(name: str, shape: tuple[int, ...], flat: int) -> str:
    place = ", ".join(str(int(i)) for i in np.unravel_index(flat, shape))
    return f"{name}[{place}]"


def _distance(got: Array, want: Array) -> tuple[NDArray[np.float64], ...]:
    """Each element's error, its value and its expected value."""
    exact, right = (each.astype(np.float64).reshape(-1) for each in (got, np.asarray(want)))
    with np.errstate(invalid="ignore", over="ignore"):
        return np.abs(exact - right), exact, right


def _wrong(got: Array, want: Array, tolerance: float) -> NDArray[np.bool_]:
    """Elements that are far off by the rules of `engines.host.correctness`; else the worst ones."""
    distance, exact, right = _distance(got, want)
    distance[np.isnan(exact)] = np.inf
    rms = float(np.sqrt(np.mean(right**2))) if right.size else 0.0
    far: NDArray[np.bool_] = distance > FAR_OFF * tolerance * np.maximum(np.abs(right), rms)
    if not far.any():
        far = distance > tolerance * max(rms, np.finfo(np.float64).tiny)
    return far


#: The most lines that a message names.
_NAMED = 3


def never_written(
    subject: Subject, module: ptxemu.Module, origins: ptxemu.Origins, outputs: Mapping[str, Array]
) -> Suspect | None:
    """Outputs with elements that were never written."""
    for name, got in outputs.items():
        left = unwritten(got).reshape(-1)
        if not left.any():
            continue
        flat = int(np.argmax(left))
        first, count = _shown(name, got.shape, flat), int(left.sum())
        more = f" and {count - 1:,} more of its {left.size:,} elements" if count > 1 else ""
        verb = "were" if count > 1 else "was"
        stores = list(dict.fromkeys(module.where(instr) for instr in origins.stores[name]))
        if not stores:
            none = f"{first}{more} {verb} never written: no instruction stores to {name}"
            return Suspect("", none)
        # The line that wrote the element before the gap, or else after it.
        beside = flat - 1 if flat else int(np.argmin(left))
        writer = None if left.all() else origins.writer(name, beside, got.dtype.itemsize)
        place = stores[0] if writer is None else module.where(writer.instr)
        others = [each for each in stores if each != place]
        named = "".join(f", {each}" for each in others[: _NAMED - 1])
        unnamed = f" and {len(others) - _NAMED + 1} more" if len(others) >= _NAMED else ""
        grid = _too_small(subject, name, left.reshape(got.shape))
        said = (
            f"{first}{more} {verb} never written; {name} is stored to by "
            f"{place if grid else 'this line'}{named}{unnamed}"
        )
        return grid._replace(words=f"{said}. {grid.words}") if grid else Suspect("", said, place)
    return None


def _too_small(subject: Subject, name: str, left: NDArray[np.bool_]) -> Suspect | None:
    """A grid smaller than an output: every thread wrote one element, and no others were written."""
    launches = [
        each
        for each in subject.launches
        if any(isinstance(arg, BufferArg) and arg.name == name for arg in each.args)
    ]
    places = np.argwhere(~left)
    if len(launches) != 1 or not len(places):
        return None
    blocks, threads = math.prod(launches[0].grid), math.prod(launches[0].block)
    each, rest = divmod(len(places), blocks * threads)
    ends, whole = tuple(places.max(axis=0) + 1), left.shape
    if len(places) != math.prod(ends) and not left.reshape(-1)[: len(places)].any():
        ends, whole = (len(places),), (left.size,)  # consecutive elements, not rows and columns
    if rest or len(places) != math.prod(ends):  # the written part is not a corner of the output
        return None
    reached, all_ = (", ".join(f":{int(end)}" for end in at) for at in (ends, whole))
    return Suspect(
        f"Round the grid up, cdiv(size, block), so that it covers all of {name}.",
        f"Is the grid too small? {blocks:,} {'blocks' if blocks > 1 else 'block'} of {threads:,} "
        f"threads wrote {each:,} {'elements' if each > 1 else 'element'} each: {name}[{reached}] "
        f"of {name}[{all_}]",
        launch_key(subject.version, launches[0], "grid").where,
    )


def _standing_out(
    origins: ptxemu.Origins, name: str, wrong: NDArray[np.bool_], size: int
) -> tuple[int, int, int, int, int] | None:
    """Find the line whose share of wrong elements exceeds its share of right ones the most.

    Returns the line's index, the wrong elements with it, all wrong elements, the right ones with
    it, and all right ones.
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
    # A line that contributes to every element explains nothing.
    common = len(bad) / np.sqrt(len(bad) * (len(bad) + len(good)))
    best = int(np.argmax(score))
    if score[best] <= common or np.count_nonzero(score == score[best]) > 1:
        return None
    return best, int(with_bad[best]), len(bad), int(with_good[best]), len(good)


def wrong_elements(
    module: ptxemu.Module,
    origins: ptxemu.Origins,
    outputs: Mapping[str, Array],
    reference: Mapping[str, Array],
    tolerance: float,
) -> Suspect | None:
    """The first output with wrong elements."""
    for name, got in outputs.items():
        off = _wrong(got, reference[name], tolerance)
        if not off.any():
            continue
        flat, size = int(np.argmax(off)), got.dtype.itemsize
        value, want = got.reshape(-1)[flat], np.asarray(reference[name]).reshape(-1)[flat]
        place = ""
        written = ""
        part = ""
        writer = origins.writer(name, flat, size)
        if writer is not None:
            place = module.where(writer.instr)
            written = f", last written at {place} by {writer.who}"
        found = _standing_out(origins, name, off, size)
        if found is not None:
            line, bad, all_bad, good, all_good = found
            file, number = origins.lines[line]
            place = f"{module.files.get(file, '?')}:{number}"
            part = (
                f"; {place} contributed to {bad:,} of {all_bad:,} such elements and to {good:,} "
                f"of {all_good:,} correct ones"
            )
        words = (
            f"{_off(got, reference[name], tolerance, name)}; the first is "
            f"{_shown(name, got.shape, flat)}: {value:.9g}, not {want:.9g}"
            f"{written}{part}"
        )
        like = _likeness(got, np.asarray(reference[name], np.float64), tolerance, name)
        words += f"\n{like.words}" if like else ""
        return Suspect(like.hint if like else "", words, place)
    return None


def _off(got: Array, want: Array, tolerance: float, name: str) -> str:
    """State how many elements are off by more than the tolerance, and how many by less."""
    distance, _, right = _distance(got, want)
    scale = np.maximum(np.abs(right), float(np.sqrt(np.mean(right**2))))
    over = ~(distance <= tolerance * scale)
    rounding = 64 * float(np.finfo(got.dtype).eps) if got.dtype.kind == "f" else 0.0
    less = int((~over & (distance > rounding * scale)).sum())
    more = f", and {less:,} more are off by less" if less and tolerance > rounding else ""
    count = int(over.sum())
    return (
        f"{count:,} of {right.size:,} elements of {name} are off by more than the tolerance{more}"
    )


#: Types to which a result may have been rounded.
_NARROW = ("float16", "bfloat16")
#: The least share of elements that were rounded; the others are between two such numbers.
_ROUNDED = 0.95


def _likeness(got: Array, want: NDArray[np.float64], tolerance: float, name: str) -> Suspect | None:
    """Recognize a wrong output as another form of the reference, and say how to fix it."""
    exact = got.astype(np.float64)
    rms = max(float(np.sqrt(np.mean(want**2))), np.finfo(np.float64).tiny)
    near = min(max(10 * tolerance, 1e-5), 1e-2) * rms

    def same(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
        with np.errstate(invalid="ignore", over="ignore"):
            return one.size > 1 and bool(np.all(np.abs(one - other) <= near))

    if same(exact, -want):
        words = f"{name} is the negated reference"
        return Suspect("Negate the stored value.", words)
    if want.ndim > 1:
        *_, rows, columns = want.shape
        turned = np.swapaxes(want, -1, -2).reshape(want.shape)
        back = np.swapaxes(want.reshape(*want.shape[:-2], columns, rows), -1, -2)
        if same(exact, turned) or same(exact, back):
            hint = "Swap row and column in the index of the load or of the store."
            return Suspect(hint, f"{name} is the reference transposed")
    flat, right = exact.reshape(-1), want.reshape(-1)
    if same(flat[:-1], right[1:]):
        return Suspect(
            "Subtract one from the index of the load, or add one to that of the store.",
            f"{name} is the reference shifted by one: each element is the one after it",
        )
    if same(flat[1:], right[:-1]):
        return Suspect(
            "Add one to the index of the load, or subtract one from that of the store.",
            f"{name} is the reference shifted by one: each element is the one before it",
        )
    large = np.abs(right) > near
    if large.sum() > 1:
        factor = float(np.median(flat[large] / right[large]))
        if np.isfinite(factor) and factor and same(flat, factor * right):
            return Suspect(
                f"Look for a factor of {factor:.6g}: a sum that is added twice or covers only one "
                "warp; a missing scale.",
                f"{name} is {factor:.6g} times the reference",
            )
    for narrow in _NARROW:
        with np.errstate(over="ignore"):  # a number too large for the type is its infinity
            rounded = right.astype(dtype_of(narrow)).astype(np.float64)
        told = rounded != right  # numbers that are exact in both are no evidence
        equal = told.any() and np.mean(flat[told] == rounded[told]) > _ROUNDED
        if got.dtype.itemsize > dtype_of(narrow).itemsize and equal:
            return Suspect(
                f"Keep the value in {got.dtype.name} up to the store, or allow for {narrow} in "
                "`tolerance`.",
                f"{name} is the reference rounded to {narrow}",
            )
    return None
