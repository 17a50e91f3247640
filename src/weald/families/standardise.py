"""Centring and scaling that survives huge offsets, huge and tiny units, NaN cells and constant columns.

    z = (x - centre) / scale,    centre = column mean,  scale = column standard deviation

Sums run over values divided by their largest, so nothing overflows; the deviation is taken about the mean, which is
corrected by what rounding had left out, so 1e8 +- 1 keeps its digits. A constant column has scale 1, a column of NaN
has centre 0 and scale 1. Three passes over the data in blocks of rows: memory stays O(d).

    >>> location_scale(np.array([[1e8 + 1], [1e8 - 1]]))
    (array([1.e+08]), array([1.]))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from weald._kernel import ordered
from weald._typing import Array, FloatArray
from weald.exceptions import DataError

BLOCK = 4096
NO_MISSING = "only independent columns can be marginalised: use covariance='diag', or fill the missing cells"
REACH = {np.dtype(np.float32): 1e18, np.dtype(np.float64): 1e150}  # beyond it a square would overflow


def blocks(n: int) -> Iterator[slice]:
    """Slices of at most 4,096 rows."""
    return (slice(a, min(a + BLOCK, n)) for a in range(0, n, BLOCK))


def location_scale(X: Array, weight: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """(n, d) -> (d,), (d,): mean and standard deviation of each column, NaN ignored, rows counted by weight (n,)."""
    centre, deviation = _moments(X, weight)
    return centre, np.where(deviation > 0, deviation, 1.0)


def location_common_scale(X: Array, weight: FloatArray | None = None) -> tuple[FloatArray, float]:
    """(n, d) -> (d,), float: column means, and one scale for all: the root of the mean variance, 1 for constants."""
    centre, deviation = _moments(X, weight)
    largest = float(deviation.max())
    return centre, largest * float(np.sqrt(np.mean((deviation / largest) ** 2))) if largest > 0 else 1.0


def _moments(X: Array, weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of each column; 0 exactly for a constant column."""
    low = np.nan_to_num(np.fmin.reduce(X, axis=0).astype(np.float64))
    high = np.nan_to_num(np.fmax.reduce(X, axis=0).astype(np.float64))
    n = np.maximum(_column_sums(X, weight, lambda x: ~np.isnan(x)), np.finfo(np.float64).tiny)
    largest = np.maximum(abs(low), abs(high))
    largest[largest == 0] = 1.0
    centre = np.clip(largest * (_column_sums(X, weight, lambda x: x / largest) / n), low, high)
    with np.errstate(over="ignore"):
        reach = np.maximum(high - centre, centre - low)
    if not np.isfinite(reach).all():
        raise DataError(f"column {int(np.argmin(np.isfinite(reach)))} spans more than 1e308; divide it by a constant")
    reach[low == high] = 1.0
    first = _column_sums(X, weight, lambda x: (x - centre) / reach) / n
    second = _column_sums(X, weight, lambda x: ((x - centre) / reach) ** 2) / n
    deviation = np.maximum(reach * np.sqrt(np.maximum(second - first**2, 0.0)), np.finfo(np.float64).tiny)
    deviation[low == high] = 0.0
    return centre + reach * first, deviation  # `first` is what rounding left out of the first mean


def _column_sums(X: Array, weight: FloatArray | None, function: Callable[[Array], Array]) -> FloatArray:
    """(d,): sums of function(X) over rows in blocks, NaN as 0, rows counted by weight."""
    total = np.zeros(X.shape[1])
    for rows in blocks(X.shape[0]):
        cells = np.nan_to_num(function(X[rows]), nan=0.0)
        total += cells.sum(0, dtype=np.float64) if weight is None else weight[rows] @ cells
    return total


def standard(X: Array, centre: FloatArray, scale: FloatArray | float) -> FloatArray:
    """(m, d) -> (m, d) float64: z, clipped where its square would leave the dtype of X (density exp(-1e36) or less)."""
    Z = np.empty(X.shape)
    _fill_clipped(X, centre, np.ascontiguousarray(np.broadcast_to(scale, centre.shape)), REACH[X.dtype], Z)
    return Z


@ordered
def _fill_clipped(X: Array, centre: FloatArray, scale: FloatArray, limit: float, Z: FloatArray) -> None:
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            z = (X[i, j] - centre[j]) / scale[j]
            Z[i, j] = -limit if z < -limit else (limit if z > limit else z)  # NaN stays


@ordered
def fill_standard(X: Array, centre: FloatArray, scale: FloatArray, limit: float, squares: bool, T: Array) -> None:
    """Write z into the first d columns of T, and its squares into the next d (`squares`) or their sum into one."""
    n, d = X.shape
    for i in range(n):
        total = 0.0
        for j in range(d):
            z = min(max((X[i, j] - centre[j]) / scale[j], -limit), limit)
            T[i, j] = z
            if squares:
                T[i, d + j] = z * z
            else:
                total += z * z
        if not squares:
            T[i, d] = total
