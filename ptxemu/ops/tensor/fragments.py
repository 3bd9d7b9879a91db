"""Which lane holds which matrix element: the register layouts of ``mma`` and ``ldmatrix``.

All layouts are those of the PTX manual's figures, with g = lane / 4 and t = lane % 4.
A layout maps (lane, element) to a row and a column of the matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxemu.state.values import Array

Ints = NDArray[np.int64]
_LANE = np.arange(32)
_G, _T = _LANE // 4, _LANE % 4


class Layout(NamedTuple):
    """`row` and `column`, shaped (32, elements per lane), of a matrix of `shape`."""

    row: Ints
    column: Ints
    shape: tuple[int, int]

    def matrix(self, fragment: Array) -> Array:
        """(…, 32, elements) registers -> (…, rows, columns) matrix."""
        out = np.zeros((*fragment.shape[:-2], *self.shape), fragment.dtype)
        out[..., self.row, self.column] = fragment
        return out

    def fragment(self, matrix: Array) -> Array:
        """(…, rows, columns) matrix -> (…, 32, elements) registers."""
        return np.asarray(matrix[..., self.row, self.column])


def _stack(parts: list[tuple[Ints, Ints]], shape: tuple[int, int]) -> Layout:
    return Layout(
        np.stack([row for row, _ in parts], axis=1),
        np.stack([column for _, column in parts], axis=1),
        shape,
    )


def a_layout(m: int, k: int, per: int) -> Layout:
    """A of ``m×k``; `per` elements share a 32-bit register."""
    parts = []
    halves = [0, 8] if m == 16 else [0]
    for block in range(max(k // (4 * per), 1)):
        for half in halves:
            for i in range(per):
                parts.append((_G + half, _T * per + i + block * 4 * per))
    return _stack(parts, (m, k))


def b_layout(k: int, n: int, per: int) -> Layout:
    """B of ``k×n`` (column-major fragments)."""
    parts = []
    for block in range(max(k // (4 * per), 1)):
        for i in range(per):
            parts.append((_T * per + i + block * 4 * per, _G))
    return _stack(parts, (k, n))


def c_layout(m: int, n: int) -> Layout:
    """C and D of ``m×n``: two neighbours a row, eight rows apart."""
    halves = [0, 8] if m == 16 else [0]
    parts = [(_G + half, _T * 2 + i) for half in halves for i in range(2)]
    return _stack(parts, (m, n))


def wmma_layout(role: str) -> Layout:
    """A 16×16 fragment of ``wmma``: that of one ``mma`` (A) or of two side by side (B, C).

    PTX leaves it open. Read off ptxas 13.0 for sm_90, which makes two products of it.
    """
    if role == "a":
        return a_layout(16, 16, 2)
    low = b_layout(16, 8, 2) if role == "b" else c_layout(16, 8)
    return Layout(
        np.concatenate([low.row, low.row], axis=1),
        np.concatenate([low.column, low.column + 8], axis=1),
        (16, 16),
    )
