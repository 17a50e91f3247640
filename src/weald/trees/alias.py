"""Alias tables: O(1) draws from a fixed law over n outcomes, after O(n) work.

Cut the law into n columns of equal mass 1/n. Column k keeps the share threshold[k] of outcome k and gives the rest to
one other outcome, alias[k]:

    p_i = (threshold[i] + sum over k with alias[k] = i, k != i, of (1 - threshold[k])) / n

    build   s_i = n p_i / sum p;  S = {s_i < 1}, H = {s_i >= 1};  threshold = 1, alias_i = i
            while S and H: pop i from S, take j = top of H: threshold_i = s_i, alias_i = j, s_j -= 1 - s_i;
                           where s_j < 1, j moves to S
    draw    k uniform, u uniform: k where u < threshold_k, else alias_k

What is left in S or H when the other list is empty keeps threshold 1: it is complete, or short of it by rounding only.
One 64-bit draw serves both uniforms: the index is the multiply-shift of the high 32 bits, u has the low 24. (One
float32 split in two would leave 10 bits for u at n = 10,000.) Residuals are float64; thresholds may be stored as
float32, which moves each share by 2^-24 at most. A table costs 8 bytes for each outcome; thousands of tables of one
length are rows of two flat arrays.

References: documents 000/001, appendix A, corrected; Walker (1977); Vose (1991).

    >>> table = AliasTable([0.5, 0.25, 0.25])
    >>> table.draw(np.random.default_rng(2), 5)
    array([0, 0, 0, 0, 1], dtype=int32)
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
from numba import float32, int64, uint64

from weald._kernel import inline, kernel
from weald._typing import Array, FloatArray, IntArray
from weald.exceptions import DataError, ParameterError

_GRAIN = np.float32(2.0**-24)


@kernel
def build_rows(P: FloatArray, threshold: FloatArray, alias: IntArray) -> None:
    """Fill tables from the weights of their rows.

    Parameters
    ----------
    P : (m, n) array
        Weights: finite, non-negative, in each row one at least positive; they need not add to 1.
    threshold : (m, n) array, out
        Share of each column that its own outcome keeps.
    alias : (m, n) int array, out
        The outcome that gets the rest.
    """
    m, n = P.shape
    rest = np.empty(n)
    todo = np.empty(n, np.int64)  # S grows from the left end, H from the right
    for row in range(m):
        top = 0.0
        for i in range(n):
            top = max(top, P[row, i])
        total = 0.0
        for i in range(n):
            rest[i] = P[row, i] / top  # neither sums of huge nor inverses of tiny weights overflow
            total += rest[i]
        n_low, high = 0, n
        for i in range(n):
            rest[i] = rest[i] / total * n
            threshold[row, i], alias[row, i] = 1.0, i
            if rest[i] < 1.0:
                todo[n_low] = i
                n_low += 1
            else:
                high -= 1
                todo[high] = i
        while n_low > 0 and high < n:
            n_low -= 1
            i, j = todo[n_low], todo[high]
            threshold[row, i], alias[row, i] = rest[i], j
            rest[j] -= 1.0 - rest[i]
            if rest[j] < 1.0:
                high += 1
                todo[n_low] = j
                n_low += 1


@inline
def alias_draw(threshold: Any, alias: Any, bits: Any) -> Any:
    """One outcome from a table's row, threshold (n,) and alias (n,), and 64 random bits."""
    k = int64(((uint64(bits) >> uint64(32)) * uint64(threshold.shape[0])) >> uint64(32))
    u = float32(uint64(bits) & uint64(0xFFFFFF)) * _GRAIN
    return int64(k) if u < threshold[k] else int64(alias[k])


@kernel
def draw_rows(threshold: FloatArray, alias: IntArray, rows: IntArray, bits: Array, out: IntArray) -> None:
    """out[i] drawn from table rows[i] with bits[i]; `rows` of length 1 serves all."""
    for i in range(out.shape[0]):
        row = rows[i % rows.shape[0]]
        out[i] = alias_draw(threshold[row], alias[row], bits[i])


@dataclass(frozen=True, eq=False)
class AliasTable:
    """One alias table, or many of the same length.

    Parameters
    ----------
    p : (n,) or (m, n) array-like
        Weights, finite and non-negative, in each row one at least positive; they need not add to 1. Rows are tables.

    Attributes
    ----------
    threshold : (n,) or (m, n) float32 array
        Share of each column that its own outcome keeps.
    alias : (n,) or (m, n) int32 array
        The outcome that gets the rest.
    """

    p: InitVar[Any]
    threshold: FloatArray = field(init=False)
    alias: IntArray = field(init=False)

    def __post_init__(self, p: Any) -> None:
        P = _weights(p)
        threshold, alias = np.empty(P.shape, np.float32), np.empty(P.shape, np.int32)
        build_rows(np.atleast_2d(P), np.atleast_2d(threshold), np.atleast_2d(alias))
        object.__setattr__(self, "threshold", threshold)
        object.__setattr__(self, "alias", alias)

    def draw(self, rng: np.random.Generator, size: int | tuple[int, ...], row: int | IntArray = 0) -> IntArray:
        """Independent outcomes.

        Parameters
        ----------
        rng : Generator
            Randomness: 64 bits for each draw.
        size : int or tuple of int
            How many.
        row : int or int array of shape `size`
            The table of each draw.

        Returns
        -------
        int32 array of shape `size`
        """
        threshold, alias = np.atleast_2d(self.threshold), np.atleast_2d(self.alias)
        rows = np.asarray(row)
        if rows.dtype.kind not in "iu" or np.any((rows < 0) | (rows >= len(threshold))):
            raise ParameterError(f"row must be an int from 0 to {len(threshold) - 1}, one table, or one for each draw")
        bits = rng.integers(0, 2**64, size=size, dtype=np.uint64)
        if rows.ndim and rows.shape != bits.shape:
            raise ParameterError(f"row must be one int, or have the shape of the draws {bits.shape}, got {rows.shape}")
        out = np.empty(bits.size, np.int32)
        draw_rows(threshold, alias, rows.ravel().astype(np.int64), bits.ravel(), out)
        return out.reshape(bits.shape)

    def probabilities(self) -> FloatArray:
        """The law that the thresholds encode, in float64: (n,) or (m, n), rows add to 1."""
        P = law(np.atleast_2d(self.threshold), np.atleast_2d(self.alias))
        return P.reshape(self.threshold.shape)


def law(threshold: FloatArray, alias: IntArray) -> FloatArray:
    """(m, n): the probabilities that tables (m, n) encode, for ideal uniforms."""
    n = threshold.shape[1]
    P: FloatArray = threshold.astype(np.float64)
    for p, t, a in zip(P, threshold, alias, strict=True):
        p += np.bincount(a, 1.0 - t.astype(np.float64), minlength=n)
    return P / n


def _weights(p: Any) -> FloatArray:
    """P as a C-ordered float array, or an error that names the wrong cell."""
    try:
        P = np.asarray(p)
        P = np.asarray(P, P.dtype if P.dtype in (np.float32, np.float64) else np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise DataError(f"p must hold numbers ({error})") from error
    if P.ndim not in (1, 2) or P.size == 0:
        raise DataError(f"p must have shape (n,) or (m, n) with at least one outcome, got {P.shape}")
    if P.shape[-1] >= 2**31:
        raise DataError(f"p has {P.shape[-1]} outcomes, a table holds fewer than 2^31: group the rare ones")
    wrong = ~(np.isfinite(P) & (P >= 0))
    if wrong.any():
        cell = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise DataError(f"p must be finite and non-negative, got {P[cell]} at {cell}")
    empty = ~np.atleast_2d(P).any(axis=1)
    if empty.any():
        raise DataError(f"p is zero everywhere in row {int(np.argmax(empty))}: nothing can be drawn from it")
    return P
