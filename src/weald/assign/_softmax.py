"""Compiled softmax over rows of scores: draw one label, normalise, or find the best.

A tile of scores is (rows, lanes * 64), padded with -inf. A row is walked in groups of 64 columns:

1. the maximum of each group, on the bits of the floats read as ordered integers (vectorises without fast-math);
2. groups whose maximum lies below the row's by CUT are skipped: exp(-37) < 2**-53, they cannot matter in float64;
3. the other groups are exponentiated by a polynomial and added lane by lane, never across lanes;
4. one uniform picks first the lane, then the group: the inverse of a distribution function taken in lane order.

About 0.25-0.5 ns per score on one core (float32, AVX-512), against 5-7 ns for a loop over ``np.exp``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from weald._kernel import kernel, ordered
from weald._random import uniform
from weald._typing import Array, FloatArray, IntArray

LANES = 64
CUT = 37.0

_F_LOG2E, _F_HALF = np.float32(1.0 / math.log(2.0)), np.float32(0.5)
_F_ONE, _F_FLOOR = np.float32(1.0), np.float32(-CUT)
_D_LOG2E = 1.0 / math.log(2.0)
# 2**r on [-1/2, 1/2]: (2**r - 1)/r interpolated at Chebyshev points, and the Taylor series; errors 3e-7 and 4e-18
_F5, _F4, _F3, _F2, _F1 = (np.float32(c) for c in (0.00133813025, 0.00966636852, 0.0555038101, 0.24022349, 0.693147181))
_D13, _D12, _D11, _D10, _D9, _D8, _D7, _D6, _D5, _D4, _D3, _D2, _D1 = (
    math.log(2.0) ** k / math.factorial(k) for k in range(13, 0, -1)
)
_F_ZERO = np.float32(0.0)
_I_SIGN, _I_MASK, _I_SHIFT, _I_BIAS, _I_LEAST = (np.int32(v) for v in (31, 2**31 - 1, 23, 127, -(2**31)))
_L_SIGN, _L_MASK, _L_SHIFT, _L_BIAS, _L_LEAST = (np.int64(v) for v in (63, 2**63 - 1, 52, 1023, -(2**63)))


def _peaks(row: Any, peaks: Any) -> Any:
    """Largest entry of each group of a row (64 g) into `peaks` (g + 1,), that of the row last; the latter is returned.

    Found on the bits of the floats; NaN counts as larger than all.
    """
    raise NotImplementedError("compiled code only")


def _exp_group(group: Any, top: Any, y: Any, lane: Any) -> Any:
    """Y = exp(group - top) for 64 scores, 0 where the difference lies below -CUT; lane += y.

    exp(a) = 2**n 2**r with r in [-1/2, 1/2]: 2**n by its bits, 2**r by a polynomial.
    """
    raise NotImplementedError("compiled code only")


@intrinsic  # type: ignore[untyped-decorator]
def _float_of(typing_context: Any, bits: Any) -> Any:
    """The float whose bits these are, in its register: a way round through memory costs as much as the exponential."""
    to = types.float32 if bits.bitwidth == 32 else types.float64

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(to))

    return to(bits), generate


@overload(_peaks, inline="always")
def _peaks_typed(row, peaks):  # type: ignore[no-untyped-def]
    def peaks32(row, peaks):  # type: ignore[no-untyped-def]
        bits, found, top = row.view(np.int32), peaks.view(np.int32), _I_LEAST
        for g in range(peaks.shape[0] - 1):
            best = _I_LEAST
            for j in range(LANES):
                v = bits[g * LANES + j]
                best = max(best, v ^ ((v >> _I_SIGN) & _I_MASK))
            found[g] = best ^ ((best >> _I_SIGN) & _I_MASK)
            top = max(top, best)
        found[-1] = top ^ ((top >> _I_SIGN) & _I_MASK)
        return peaks[-1]

    def peaks64(row, peaks):  # type: ignore[no-untyped-def]
        bits, found, top = row.view(np.int64), peaks.view(np.int64), _L_LEAST
        for g in range(peaks.shape[0] - 1):
            best = _L_LEAST
            for j in range(LANES):
                v = bits[g * LANES + j]
                best = max(best, v ^ ((v >> _L_SIGN) & _L_MASK))
            found[g] = best ^ ((best >> _L_SIGN) & _L_MASK)
            top = max(top, best)
        found[-1] = top ^ ((top >> _L_SIGN) & _L_MASK)
        return peaks[-1]

    return peaks32 if row.dtype.bitwidth == 32 else peaks64


@overload(_exp_group, inline="always")
def _exp_group_typed(group, top, y, lane):  # type: ignore[no-untyped-def]
    def exp32(group, top, y, lane):  # type: ignore[no-untyped-def]
        for j in range(LANES):
            a = group[j] - top
            kept = a >= _F_FLOOR
            t = (a if kept else _F_FLOOR) * _F_LOG2E
            n = np.int32(t - _F_HALF)
            r = t - np.float32(n)
            p = ((((_F5 * r + _F4) * r + _F3) * r + _F2) * r + _F1) * r + _F_ONE
            p *= _float_of(np.int32((n + _I_BIAS) << _I_SHIFT))
            y[j] = p if kept else _F_ZERO
            lane[j] += y[j]

    def exp64(group, top, y, lane):  # type: ignore[no-untyped-def]
        for j in range(LANES):
            a = group[j] - top
            kept = a >= -CUT
            t = (a if kept else -CUT) * _D_LOG2E
            n = np.int64(t - 0.5)
            r = t - n
            p = ((((((_D13 * r + _D12) * r + _D11) * r + _D10) * r + _D9) * r + _D8) * r + _D7) * r
            p = ((((((p + _D6) * r + _D5) * r + _D4) * r + _D3) * r + _D2) * r + _D1) * r + 1.0
            p *= _float_of((n + _L_BIAS) << _L_SHIFT)
            y[j] = p if kept else 0.0
            lane[j] += y[j]

    return exp32 if group.dtype.bitwidth == 32 else exp64


@ordered
def _exp_row(row: Array, peaks: Array, y: Array, lane: Array) -> tuple[float, int]:
    """Exponentiate the groups of a row that matter into y, add them up by lane; return (sum, groups touched)."""
    threshold = _below(peaks, CUT)
    for j in range(LANES):
        lane[j] = 0.0
    touched = 0
    for g in range(peaks.shape[0] - 1):
        if peaks[g] >= threshold:
            touched += 1
            _exp_group(row[g * LANES : (g + 1) * LANES], peaks[-1], y[g * LANES : (g + 1) * LANES], lane)
    total = 0.0
    for j in range(LANES):
        total += lane[j]
    return total, touched


@kernel
def _below(peaks: Array, depth: float) -> Any:
    """The score `depth` below a row's best."""
    return peaks[-1] - depth


@kernel
def pick(r: float, mass: Array, n: int) -> tuple[int, float]:
    """The entry among the first n in which mass r falls (the last with any, at the far end), and what is left of r."""
    chosen = 0
    for j in range(n):
        if mass[j] > 0.0:
            chosen = j
            if r < mass[j]:
                break
            r -= mass[j]
    return chosen, r


@kernel
def _pick_column(r: float, lane: Array, y: Array, peaks: Array) -> int:
    """Column at mass r in lane order: the lane first, then the group within it."""
    chosen, r = pick(r, lane, LANES)
    column, threshold = chosen, _below(peaks, CUT)
    for g in range(peaks.shape[0] - 1):
        if peaks[g] >= threshold and y[g * LANES + chosen] > 0.0:
            column = g * LANES + chosen
            if r < y[column]:
                break
            r -= y[column]
    return column


@ordered
def draw_row(row: Array, u: float, peaks: Array, y: Array, lane: Array) -> tuple[int, float, int]:
    """The label at uniform u of one row (64 g); the log of its sum of exponentials; groups exponentiated.

    peaks (g + 1,), y (64 g,), lane (64,): work space; peaks OUT as `_peaks` leaves it.
    """
    top = _peaks(row, peaks)
    total, touched = _exp_row(row, peaks, y, lane)
    return _pick_column(u * total, lane, y, peaks), top + np.log(total), touched


@ordered
def draw(scores: FloatArray, key: np.uint64, rows: IntArray, z: IntArray, log_norm: FloatArray) -> int:
    """Draw z_i ~ softmax(scores_i) with one uniform each; return how many scores were exponentiated.

    scores (n, 64 g) IN; rows (n,) IN: the row numbers that key the uniforms; z (n,) OUT; log_norm (n,) OUT: log of the
    sum of exponentials.
    """
    y, lane = np.empty(scores.shape[1], scores.dtype), np.empty(LANES, scores.dtype)
    peaks = np.empty(scores.shape[1] // LANES + 1, scores.dtype)
    n_exp = 0
    for i in range(scores.shape[0]):
        z[i], log_norm[i], touched = draw_row(scores[i], uniform(key, rows[i], 0), peaks, y, lane)
        n_exp += touched * LANES
    return n_exp


@ordered
def normalise(scores: FloatArray, log_norm: FloatArray) -> None:
    """scores_i <- softmax(scores_i) in place; log_norm (rows,) OUT."""
    y, lane = np.empty(scores.shape[1], scores.dtype), np.empty(LANES, scores.dtype)
    peaks = np.empty(scores.shape[1] // LANES + 1, scores.dtype)
    for i in range(scores.shape[0]):
        top = _peaks(scores[i], peaks)
        total, _ = _exp_row(scores[i], peaks, y, lane)
        threshold = _below(peaks, CUT)
        lane[0] = 1.0 / total  # through the array, so that the product stays in the dtype of the scores
        inverse = lane[0]
        for g in range(peaks.shape[0] - 1):
            group = scores[i, g * LANES : (g + 1) * LANES]
            if peaks[g] >= threshold:
                for j in range(LANES):
                    group[j] = y[g * LANES + j] * inverse
            else:
                group[:] = 0.0
        log_norm[i] = top + np.log(total)


@ordered
def best(scores: FloatArray, z: IntArray) -> None:
    """z_i <- argmax of scores_i (n, 64 g); the first of equals."""
    peaks = np.empty(scores.shape[1] // LANES + 1, scores.dtype)
    for i in range(scores.shape[0]):
        top, g = _peaks(scores[i], peaks), 0
        while peaks[g] != top and g < peaks.shape[0] - 2:
            g += 1
        z[i] = g * LANES
        while scores[i, z[i]] != top and z[i] < scores.shape[1] - 1:
            z[i] += 1


@kernel
def clamp(scores: FloatArray, known: IntArray) -> None:
    """Rows whose label is known (>= 0) keep that score only."""
    for i in range(scores.shape[0]):
        if known[i] >= 0:
            kept = scores[i, known[i]]
            for k in range(scores.shape[1]):
                scores[i, k] = -np.inf
            scores[i, known[i]] = kept


@kernel
def add_rows(T: Array, z: IntArray, weight: FloatArray, S: FloatArray) -> None:
    """S[z_i] += weight_i * T_i for dense T (rows, p); an empty `weight` means ones."""
    for i in range(T.shape[0]):
        w = weight[i] if weight.shape[0] > 0 else 1.0
        for j in range(T.shape[1]):
            S[z[i], j] += w * T[i, j]


@kernel
def add_sparse_rows(
    data: Array, indices: IntArray, indptr: IntArray, z: IntArray, weight: FloatArray, S: FloatArray
) -> None:
    """S[z_i] += weight_i * T_i for CSR T."""
    for i in range(indptr.shape[0] - 1):
        w = weight[i] if weight.shape[0] > 0 else 1.0
        for j in range(indptr[i], indptr[i + 1]):
            S[z[i], indices[j]] += w * data[j]
