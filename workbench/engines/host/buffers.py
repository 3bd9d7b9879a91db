"""Contents of a version's buffers: element types, fills before a launch, results after it.

Pure NumPy: no device, so every rule here has a plain test. Outputs are filled with a poison before
the launch. For floating-point outputs all bytes are 0xFF, which is a NaN in every IEEE format; a
NaN that a kernel computes itself has another bit pattern on NVIDIA chips (0x7FFFFFFF in float32:
CUDA C++ Programming Guide, "Mathematical Functions Appendix"), so an unwritten element differs from
a wrongly computed one. For integers it is 0x7F.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from workbench.engines.host.job import Check, Worst
from workbench.errors import UsageError, did_you_mean
from workbench.study.file import Pointer
from workbench.study.launches import ResolvedFill

Bytes = NDArray[np.uint8]
DType = np.dtype[Any]
_BFLOAT16 = "bfloat16"
#: A single element may be off by this many times the tolerance, relative to the
#: larger of its own size and the output's root mean square. Rounding errors of n
#: independent elements stay within about six standard deviations, so a healthy
#: kernel is far below it; one wrong element among millions is not, though it hardly changes the
#: norm.
FAR_OFF = 100.0
#: Elements that are compared at a time: about 2 MiB with the temporary arrays, which stay in a
#: core's cache. A whole large output would be moved through memory ten times or more.
_PIECE = 2**16
#: Elements of an output that are compared if its full reference would take too long.
SAMPLE_SIZE = 4096
Array = NDArray[Any]


def dtype_of(name: str) -> DType:
    """Return the type of ``float16``, ``<f4`` or ``bfloat16``; UsageError: unknown."""
    if name == _BFLOAT16:
        import ml_dtypes

        found: DType = np.dtype(ml_dtypes.bfloat16)
        return found
    try:
        return np.dtype(name)
    except TypeError:
        raise UsageError(
            f"`{name}` is not a valid element type for a buffer",
            "Write one such as float32 or bfloat16.",
        ) from None


def name_of(dtype: DType) -> str:
    """The name that `dtype_of` turns back into the type."""
    return _BFLOAT16 if dtype.name == _BFLOAT16 else dtype.str


def is_float(dtype: DType) -> bool:
    """Test for a floating type."""
    return dtype.kind == "f" or dtype.name == _BFLOAT16


def interface_type(dtype: DType) -> str:
    """The type for ``__cuda_array_interface__``: for a bfloat16 its bits, an ``int16``."""
    return "<i2" if dtype.name == _BFLOAT16 else dtype.str


def poison_byte(dtype: DType) -> int:
    """The byte with which outputs of this type are filled before a launch.

    Raises UsageError: numbers of this type cannot be compared with a reference.
    """
    if dtype.kind not in "biuf" and (dtype.kind != "V" or dtype.type is np.void):
        raise UsageError(
            f"outputs() of study.py: `{dtype}` is not a type of numbers that can be compared",
            "Write one such as float32, bfloat16 or int32.",
        )
    return 0x7F if dtype.kind in "iub" else 0xFF


def unwritten(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return booleans of the same shape: which elements still hold the poison, bit by bit."""
    flat = np.ascontiguousarray(values).reshape(-1)
    size = flat.dtype.itemsize
    poison = np.full(size, poison_byte(flat.dtype), dtype=np.uint8)
    if size in (1, 2, 4, 8):
        word = poison.view(f"u{size}")[0]
        mask = flat.view(f"u{size}") == word
    else:
        mask = np.all(flat.view(np.uint8).reshape(-1, size) == poison, axis=1)
    return np.asarray(mask, dtype=np.bool_).reshape(values.shape)


def unit(fill: ResolvedFill) -> Bytes:
    """The bytes of a fill's values, to be repeated over the memory."""
    dtype = dtype_of(fill.dtype)
    number = float if is_float(dtype) else int
    with np.errstate(over="ignore"):  # a number beyond the type's range is its infinity
        values = np.array([number(text) for text in fill.values], dtype=dtype)
    return values.view(np.uint8)


def check_whole(fill: ResolvedFill, size: int) -> None:
    """Refuse (UsageError) to fill `size` bytes that are not a whole number of values."""
    each = dtype_of(fill.dtype).itemsize
    if size % each:
        raise UsageError(
            f"{fill.where}: `{fill.name}` has {size:,} bytes, which is not a whole number of "
            f"{fill.dtype} elements",
            "Correct its `dtype`.",
        )


def repeated(fill: ResolvedFill, size: int) -> Bytes:
    """`size` bytes of a fill's values."""
    return np.resize(unit(fill), size)


def check_copy(fill: ResolvedFill, source: int, target: int) -> None:
    """Refuse (UsageError) to copy an input to a smaller target; sizes are in bytes."""
    if source > target:
        raise UsageError(
            f"{fill.where}: input `{fill.input}` has {source:,} bytes, but `{fill.name}` has "
            f"room for {target:,}",
            "Make the array in the code as large as the largest problem needs, or refuse the "
            "problem with `requires`.",
        )


def no_symbol(fill: ResolvedFill, known: Collection[str] = ()) -> UsageError:
    """The error for a name that is neither a buffer nor a variable in the build."""
    return UsageError(
        f"{fill.where}: `{fill.name}` is neither an output nor a scratch buffer nor a variable of "
        "the compiled code",
        "A __constant__ or __device__ variable must be neither static nor in a namespace, and must "
        f"be used. {did_you_mean(fill.name, known, 'names') if known else ''}".rstrip(),
    )


def linked(
    inputs: Mapping[str, Array], pointers: Collection[Pointer], address: Callable[[str], int]
) -> Iterator[tuple[str, Array]]:
    """Yield the inputs that hold pointers, with these set to the buffers' current addresses.

    `pointers`: see `workbench.study.folder.Study.pointers`. `address` gives a buffer's start.
    """
    for name in dict.fromkeys(each.buffer for each in pointers):
        own = [each for each in pointers if each.buffer == name]
        values = np.ascontiguousarray(inputs[name]).copy()
        flat = values.reshape(-1).view(np.uint8)
        places = np.array([each.offset for each in own])[:, None] + np.arange(8)
        starts = {to: address(to) for to in {each.target for each in own}}
        leads = np.array([starts[each.target] + each.target_offset for each in own], "<u8")
        flat[places] = leads.view(np.uint8).reshape(-1, 8)
        yield name, values


def overwritten(
    inputs: Mapping[str, Array],
    pointers: Collection[Pointer],
    fills: Collection[ResolvedFill],
    now: Callable[[str], Array],
) -> tuple[str, ...]:
    """Names of inputs that have changed (`now`); pointers and filled inputs may differ."""
    may = {each.buffer for each in pointers} | {each.name for each in fills}

    def differs(name: str) -> bool:
        was, held = (np.ascontiguousarray(each).ravel() for each in (inputs[name], now(name)))
        return not np.array_equal(was.view(np.uint8), held.view(np.uint8))

    return tuple(name for name in inputs if name not in may and differs(name))


def random_places(
    rng: np.random.Generator, sizes: Mapping[str, int]
) -> dict[str, NDArray[np.int64]]:
    """Flat indices to compare in outputs of these sizes, ascending; at most `SAMPLE_SIZE` each."""
    return {
        name: np.sort(rng.choice(size, size=min(SAMPLE_SIZE, size), replace=False))
        for name, size in sizes.items()
    }


def _spans(size: int) -> list[slice]:
    """Split the whole range into pieces whose float64 values stay in a core's cache."""
    return [slice(first, first + _PIECE) for first in range(0, max(size, 1), _PIECE)]


class _Piece(NamedTuple):
    """Statistics of one piece of an output: sums, counts, and the element that is furthest off."""

    square: float
    largest: float
    place: int
    nan: int
    far: int
    missing: int


def _square(values: NDArray[np.float64]) -> float:
    """Return the squared norm, without BLAS, which would start a thread for each core."""
    return float(np.einsum("i,i->", values, values))


def _one(
    name: str, got: Array, want: NDArray[np.float64], tolerance: float, special: bool
) -> Check:
    """Compare one output of any shape.

    Raises ValueError for another shape, UsageError for a reference that must be finite and is not.
    """
    shape = got.shape
    if want.shape != shape:
        raise ValueError(f"the reference for {name!r} has shape {want.shape}, the output {shape}")
    flat, right = np.ascontiguousarray(got).reshape(-1), np.ascontiguousarray(want).reshape(-1)
    spans = _spans(right.size)
    if special and is_float(flat.dtype):
        flat, right = _ordinary(flat, right)
    elif not all(np.all(np.isfinite(right[span])) for span in spans):
        odd = right.size - int(np.count_nonzero(np.isfinite(right)))
        raise UsageError(
            f"study.py: reference() gives no finite value for {odd:,} of the {right.size:,} "
            f"elements of `{name}`",
            "Give each element its answer. If infinities are intended, write `not_finite = True`.",
        )
    norm = math.sqrt(sum(_square(right[span]) for span in spans))
    rms = norm / math.sqrt(right.size) if right.size else 0.0

    def piece(span: slice) -> _Piece:
        exact, reference = flat[span].astype(np.float64), right[span]
        nan = np.isnan(exact)
        # An infinite output meets a finite reference here, because the reference was checked.
        with np.errstate(invalid="ignore", over="ignore"):
            ranked = np.abs(exact - reference)
            ranked[nan] = np.inf
            square = _square(ranked)
        far = ranked > FAR_OFF * tolerance * np.maximum(np.abs(reference), rms)
        place = int(np.argmax(ranked)) if ranked.size else 0
        return _Piece(
            square=square,
            largest=float(ranked[place]) if ranked.size else 0.0,
            place=span.start + place,
            nan=int(np.count_nonzero(nan)),
            far=int(np.count_nonzero(far)),
            # One byte in 256 rightly equals the poison: a correct element counts as written.
            missing=int(np.count_nonzero(unwritten(flat[span]) & (ranked != 0))),
        )

    pieces = [piece(span) for span in spans]
    absolute = math.sqrt(sum(each.square for each in pieces))
    # A reference of nothing but zeros has no relative error; the absolute one is used.
    error = absolute / norm if norm > 0 else absolute
    first = max(pieces, key=lambda each: each.largest)
    finite = math.isfinite(error)
    far, missing = (
        sum(counts) for counts in zip(*((p.far, p.missing) for p in pieces), strict=True)
    )
    return Check(
        ok=finite and error <= tolerance and far == 0 and missing == 0,
        error=error if finite else None,
        largest=first.largest if finite else None,
        tolerance=tolerance,
        compared=int(right.size),
        unwritten=missing,
        not_a_number=sum(each.nan for each in pieces),
        far_off=far,
        worst=_worst(name, shape, flat, right, first.place) if right.size else None,
    )


def _ordinary(got: Array, want: NDArray[np.float64]) -> tuple[Array, NDArray[np.float64]]:
    """Both, with zeros where both are NaN or the same infinity; elsewhere these are errors."""
    odd = ~np.isfinite(want)
    if not odd.any():
        return got, want
    both = got.astype(np.float64)[odd]
    same = (both == want[odd]) | (np.isnan(both) & np.isnan(want[odd]))
    got, want = got.copy(), want.copy()
    want[odd] = 0.0
    got[odd] = np.where(same, 0.0, np.nan).astype(got.dtype)
    return got, want


def _sampled(
    name: str,
    got: Array,
    want: NDArray[np.float64],
    indices: NDArray[np.int64],
    tolerance: float,
    special: bool,
) -> Check:
    """Compare the elements of one output at flat `indices`; `want` has one value for each."""
    check = _one(name, got.reshape(-1)[indices], want.reshape(-1), tolerance, special)
    worst = check.worst
    if worst is not None:
        place = np.unravel_index(int(indices[worst.index[0]]), got.shape)
        worst = msgspec.structs.replace(worst, index=tuple(int(i) for i in place))
    return msgspec.structs.replace(check, sampled=len(indices), worst=worst)


def _unwritten(values: Array) -> int:
    """Count elements of a flat output that still hold the poison."""
    return sum(int(np.count_nonzero(unwritten(values[span]))) for span in _spans(values.size))


def _worst(
    name: str, shape: tuple[int, ...], got: Array, want: NDArray[np.float64], place: int
) -> Worst:
    """The element at a flat index, in words."""
    return Worst(
        output=name,
        index=tuple(int(i) for i in np.unravel_index(place, shape)),
        got=f"{got[place]:.9g}" if is_float(got.dtype) else str(got[place]),
        want=f"{want[place]:.9g}",
    )


def as_answer(outputs: Mapping[str, Array]) -> dict[str, NDArray[np.float64]]:
    """Convert a version's outputs to the answer that others are compared with."""
    return {name: values.astype(np.float64) for name, values in outputs.items()}


def compare_with_version(
    outputs: Mapping[str, Array],
    answer: Mapping[str, NDArray[np.float64]],
    tolerance: float,
    *,
    itself: bool,
    strayed: tuple[str, ...] = (),
) -> Check:
    """Compare outputs with another version's, including NaN and unwritten elements.

    `answer` is from the other version (`as_answer`). `itself`: they are the same version, which is
    then wrong only if it writes nothing at all. The rest is as for `compare`.
    """
    found = compare(outputs, answer, tolerance, strayed=strayed, special=True)
    if not itself:
        return found
    left = sum(_unwritten(got.reshape(-1)) for got in outputs.values())
    wrong = left == found.compared > 0
    return msgspec.structs.replace(found, ok=found.ok and not wrong, unwritten=left)


def compare(
    outputs: Mapping[str, Array],
    reference: Mapping[str, NDArray[np.float64]],
    tolerance: float,
    *,
    sample: Mapping[str, NDArray[np.int64]] | None = None,
    strayed: tuple[str, ...] = (),
    special: bool = False,
) -> Check:
    """Compare every output with its reference.

    `reference` has float64 values of the same shape; with `sample`, flat indices by name, one value
    for each of these. `tolerance` is the largest allowed ``‖out − ref‖ / ‖ref‖``. `strayed` are
    buffers whose guard bytes changed. `special`: the reference may hold NaN and infinities, and the
    outputs must match them. Errors are the largest over the outputs, counts are sums; unwritten
    elements are counted over the whole output even with `sample`. Raises ValueError: the reference
    lacks an output, has another shape, or is not finite.
    """
    parts = []
    total_unwritten = 0
    for name, got in outputs.items():
        if name not in reference:
            raise ValueError(f"the reference does not return {name!r}, which is an output")
        want = np.asarray(reference[name], dtype=np.float64)
        check = (
            _one(name, got, want, tolerance, special)
            if sample is None
            else _sampled(name, got, want, sample[name], tolerance, special)
        )
        # A sample says nothing about the other elements.
        total_unwritten += check.unwritten if sample is None else _unwritten(got.reshape(-1))
        parts.append(check)

    def rank(check: Check) -> float:
        if check.error is None:
            return float("inf")
        return check.error / tolerance if tolerance else check.error

    lead, compared = max(parts, key=rank), sum(part.compared for part in parts)
    if not compared:
        raise UsageError(
            "nothing was compared: the outputs of this problem have no elements",
            "Give the problem a size, or remove `verify` from its uses.",
        )
    return Check(
        ok=all(part.ok for part in parts) and total_unwritten == 0 and not strayed,
        error=lead.error,
        largest=None
        if any(part.largest is None for part in parts)
        else max(part.largest or 0.0 for part in parts),
        tolerance=tolerance,
        compared=compared,
        sampled=sum(part.sampled for part in parts),
        unwritten=total_unwritten,
        not_a_number=sum(part.not_a_number for part in parts),
        far_off=sum(part.far_off for part in parts),
        strayed=strayed,
        worst=lead.worst,
    )
