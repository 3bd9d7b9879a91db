"""Is an output right? Pure NumPy: no device, so every rule here has a plain test.

Outputs are filled with a poison before the launch. For floating-point outputs all
bytes are 0xFF, which is a NaN of every IEEE format; a NaN that a kernel computes
itself has another bit pattern on NVIDIA chips (0x7FFFFFFF in float32: CUDA C++
Programming Guide, "Mathematical Functions Appendix"), so an element that was never
written can be told from one that was computed wrongly. For integers it is 0x7F.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.engines.job import Check, Worst

#: A single element may be off by this many times the tolerance, relative to the
#: larger of its own size and the output's root mean square. Rounding errors of n
#: independent elements stay within about six standard deviations, so a healthy
#: kernel is far below it; one wrong element among millions is not, though it
#: hardly moves the norm.
FAR_OFF = 100.0

Array = NDArray[Any]


def poison_byte(dtype: str) -> int:
    """The byte that outputs of this type are filled with before a launch."""
    return 0x7F if np.dtype(dtype).kind in "iub" else 0xFF


def unwritten(values: Array) -> NDArray[np.bool_]:
    """Which elements still hold the poison, bit by bit.

    Args:
        values: Output as copied from the device, any shape.

    Returns:
        Booleans of the same shape.
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    size = flat.dtype.itemsize
    poison = np.full(size, poison_byte(flat.dtype.str), dtype=np.uint8)
    if size in (1, 2, 4, 8):
        word = poison.view(f"u{size}")[0]
        mask = flat.view(f"u{size}") == word
    else:
        mask = np.all(flat.view(np.uint8).reshape(-1, size) == poison, axis=1)
    return np.asarray(mask, dtype=np.bool_).reshape(values.shape)


def _one(
    name: str, got: Array, want: NDArray[np.float64], tolerance: float
) -> tuple[Check, NDArray[np.float64]]:
    """Compare one output; also return |got - want| with NaN as infinity."""
    exact = got.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(exact - want)
    nan = np.isnan(exact)
    # A got infinity meets a finite reference here, because the reference was checked.
    ranked = np.where(nan, np.inf, distance)
    norm = float(np.linalg.norm(want))
    with np.errstate(over="ignore"):
        absolute = float(np.linalg.norm(ranked)) if ranked.size else 0.0
    # A reference of nothing but zeros has no relative error; the absolute one stands in.
    error = absolute / norm if norm > 0 else absolute
    rms = norm / np.sqrt(want.size) if want.size else 0.0
    far = int(np.count_nonzero(ranked > FAR_OFF * tolerance * np.maximum(np.abs(want), rms)))
    missing = int(np.count_nonzero(unwritten(got)))
    worst = None
    if ranked.size:
        place = np.unravel_index(int(np.argmax(ranked)), ranked.shape)
        worst = Worst(
            output=name,
            index=tuple(int(i) for i in place),
            got=f"{got[place]:.9g}" if got.dtype.kind == "f" else str(got[place]),
            want=f"{want[place]:.9g}",
        )
    finite = bool(np.isfinite(error))
    check = Check(
        ok=finite and error <= tolerance and far == 0 and missing == 0,
        error=error if finite else None,
        largest=float(np.max(ranked, initial=0.0)) if finite else None,
        tolerance=tolerance,
        compared=int(want.size),
        unwritten=missing,
        not_a_number=int(np.count_nonzero(nan)),
        far_off=far,
        worst=worst,
    )
    return check, ranked


def compare(
    outputs: Mapping[str, Array],
    reference: Mapping[str, NDArray[np.float64]],
    tolerance: float,
    *,
    sample: Mapping[str, NDArray[np.int64]] | None = None,
    strayed: tuple[str, ...] = (),
) -> Check:
    """Compare every output with its reference.

    Args:
        outputs: Name -> values as copied from the device.
        reference: Name -> float64 values of the same shape; with `sample`, one
            value for each sampled flat index.
        tolerance: Largest allowed ``‖out − ref‖ / ‖ref‖``.
        sample: Name -> flat indices that `reference` speaks of; None: all.
        strayed: Buffers around which the guard bytes changed.

    Returns:
        The combined check: errors are the largest over the outputs, counts are
        sums. Elements that were never written are counted over the whole output
        even where only a sample is compared.

    Raises:
        ValueError: the reference lacks an output, has another shape, or is not finite.
    """
    parts: list[Check] = []
    sampled = 0
    total_unwritten = 0
    for name, got in outputs.items():
        if name not in reference:
            raise ValueError(f"the reference gives no {name!r}, which is an output")
        want = np.asarray(reference[name], dtype=np.float64)
        total_unwritten += int(np.count_nonzero(unwritten(got)))
        if sample is not None:
            indices = sample[name]
            sampled += len(indices)
            got = got.reshape(-1)[indices]
            want = want.reshape(-1)
        if want.shape != got.shape:
            raise ValueError(
                f"the reference of {name!r} has shape {want.shape}, the output {got.shape}"
            )
        if not np.all(np.isfinite(want)):
            raise ValueError(f"the reference of {name!r} is not finite everywhere")
        check, _ = _one(name, got, want, tolerance)
        if sample is not None and check.worst is not None:
            flat = int(sample[name][check.worst.index[0]])
            place = np.unravel_index(flat, outputs[name].shape)
            index = tuple(int(i) for i in place)
            worst = Worst(output=name, index=index, got=check.worst.got, want=check.worst.want)
            check = _with_worst(check, worst)
        parts.append(check)

    def rank(check: Check) -> float:
        return float("inf") if check.error is None else check.error / tolerance

    lead = max(parts, key=rank)
    return Check(
        ok=all(part.ok for part in parts) and total_unwritten == 0 and not strayed,
        error=lead.error,
        largest=None
        if any(part.largest is None for part in parts)
        else max(part.largest or 0.0 for part in parts),
        tolerance=tolerance,
        compared=sum(part.compared for part in parts),
        sampled=sampled,
        unwritten=total_unwritten,
        not_a_number=sum(part.not_a_number for part in parts),
        far_off=sum(part.far_off for part in parts),
        strayed=strayed,
        worst=lead.worst,
    )


def _with_worst(check: Check, worst: Worst) -> Check:
    import msgspec

    return msgspec.structs.replace(check, worst=worst)
