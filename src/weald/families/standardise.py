"""Centring and scaling that survives huge offsets, huge and tiny units, NaN cells and constant columns.

    z = (x - centre) / scale,    centre = column mean,  scale = column standard deviation

Sums run over values divided by their largest, so nothing overflows; the deviation is taken about the mean, which is
corrected by what rounding had left out, so 1e8 +- 1 keeps its digits. A constant column has scale 1, a column of NaN
has centre 0 and scale 1. Three passes over the data in blocks of rows: memory stays O(d).

    >>> location_scale(np.array([[1e8 + 1], [1e8 - 1]]))
    (array([1.e+08]), array([1.]))
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weald._typing import Array, FloatArray
from weald.exceptions import DataError

BLOCK = 4096
NO_MISSING = "only independent columns can be marginalised: use covariance='diag', or fill the missing cells"
REACH = {np.dtype(np.float32): 1e18, np.dtype(np.float64): 1e150}  # beyond it a square would overflow


def blocks(n: int) -> Iterator[slice]:
    """Slices of at most 4,096 rows."""
    return (slice(a, min(a + BLOCK, n)) for a in range(0, n, BLOCK))


def location_scale(X: Array) -> tuple[FloatArray, FloatArray]:
    """(n, d) -> (d,), (d,): mean and standard deviation of each column, NaN ignored."""
    low = np.nan_to_num(np.fmin.reduce(X, axis=0).astype(np.float64))
    high = np.nan_to_num(np.fmax.reduce(X, axis=0).astype(np.float64))
    n = np.maximum(np.count_nonzero(~np.isnan(X), axis=0), 1)
    largest = np.maximum(abs(low), abs(high))
    largest[largest == 0] = 1.0
    total = sum(np.nansum(X[rows] / largest, axis=0) for rows in blocks(X.shape[0]))
    centre = np.clip(largest * (total / n), low, high)
    with np.errstate(over="ignore"):
        reach = np.maximum(high - centre, centre - low)
    if not np.isfinite(reach).all():
        raise DataError(f"column {int(np.argmin(np.isfinite(reach)))} spans more than 1e308; divide it by a constant")
    reach[low == high] = 1.0
    first, second = np.zeros((2, X.shape[1]))
    for rows in blocks(X.shape[0]):
        share = (X[rows] - centre) / reach
        first += np.nansum(share, axis=0) / n
        second += np.nansum(share**2, axis=0) / n
    centre = centre + reach * first  # what rounding left out of the first mean
    scale = np.maximum(reach * np.sqrt(np.maximum(second - first**2, 0.0)), np.finfo(np.float64).tiny)
    scale[low == high] = 1.0
    return centre, scale


def column_mean(X: Array) -> FloatArray:
    """(n, d) -> (d,): mean of each column, NaN ignored; 0 for a column of NaN."""
    return location_scale(X)[0]


def common_scale(X: Array, centre: FloatArray) -> float:
    """One standard deviation for all columns: the root of their mean variance, 1 when all are constant."""
    reach = max(float(abs(X[rows] - centre).max()) for rows in blocks(X.shape[0]))
    if reach == 0:
        return 1.0
    squares = sum(float((((X[rows] - centre) / reach) ** 2).mean(1).sum()) for rows in blocks(X.shape[0]))
    return max(reach * float(np.sqrt(squares / X.shape[0])), float(np.finfo(np.float64).tiny))


def standard(X: Array, centre: FloatArray, scale: FloatArray | float) -> FloatArray:
    """(m, d) -> (m, d) float64: z, clipped where its square would leave the dtype of X (density exp(-1e36) or less)."""
    limit = REACH[X.dtype]
    with np.errstate(over="ignore"):
        Z: FloatArray = np.clip((X - centre) / scale, -limit, limit)
    return Z
